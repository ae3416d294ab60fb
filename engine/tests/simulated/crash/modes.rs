//! The same crashes in each mode of separation: the main script and the short sessions with values
//! inline, chosen by the engine, and compressed. Each mode is crashed at a share of its calls, each
//! at another one, so that together they meet most of what the modes have in common.
//! `CLEAVEDB_EVERY_CALL=1` crashes each of them at every call, which takes half an hour.

use super::{Script, check_share, some_relocated};
use crate::client::{Client, Step, at_flush_options, auto_options, inline_options, tiny_options};
use crate::script::{self, value};
use cleavedb::{Codec, Db, Durability, KeyspaceOptions, Separation};

/// Of the calls of the main script, one in so many is crashed at, and of the short sessions' too.
const SCRIPT_STRIDE: usize = 19;
const SESSIONS_STRIDE: usize = 13;

/// Returns the first call of a mode's share and the distance to the next one.
fn share(mode: u64, stride: usize) -> (u64, usize) {
    (1 + mode * 3 % stride as u64, stride)
}

/// Crashes the main script of mode number `mode` at its share of the calls.
fn crash_script(mode: u64, script: Script) {
    check_share(script, share(mode, SCRIPT_STRIDE), some_relocated);
}

/// Crashes the short sessions of mode number `mode` at their share of the calls.
fn crash_sessions(mode: u64, script: Script) {
    check_share(script, share(mode, SESSIONS_STRIDE), |_| ());
}

/// Flushes replace a log that nobody asked to sync.
fn off(client: &mut Client) {
    client.options.keyspace = inline_options();
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_the_script_with_inline_values() {
    let script = |client: &mut Client| {
        off(client);
        script::run(client)
    };
    // There is little for value GC to do.
    check_share(script, share(0, SCRIPT_STRIDE), |_| ());
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_short_sessions_with_inline_values() {
    let script = |client: &mut Client| {
        off(client);
        // The script has an update table.
        client.options.update_table_bytes = 0;
        client.options.keyspace.memtable_bytes = 16 << 10;
        script::sessions(client)
    };
    crash_sessions(0, script);
}

fn auto(client: &mut Client) {
    client.options.keyspace = auto_options();
}

/// Puts values with this durability until the engine chooses to separate them as `wanted`.
fn put_until(client: &mut Client, durability: Durability, wanted: Separation) -> Step {
    for round in 0..30 {
        for number in 0..8 {
            let key = format!("k{:02}", (round * 8 + number) * 7 % 23);
            client.put(&key, value(500 + round * 8 + number, 600), durability)?;
        }
        client.call("wait", Db::wait_idle)?;
        let stats = client.db().stats();
        let default = stats.keyspaces.iter().find(|keyspace| keyspace.name == "default");
        let default = default.expect("it is always there");
        assert!(default.is_separation_chosen);
        if default.separation == wanted {
            return Ok(());
        }
    }
    panic!("the engine never chose {wanted:?}");
}

/// Has the engine make each choice after the other.
fn make_both_choices(client: &mut Client) -> Step {
    put_until(client, Durability::Sync, Separation::AtWrite)?;
    put_until(client, Durability::Os, Separation::AtFlush)?;
    put_until(client, Durability::Sync, Separation::AtWrite)?;
    client.check_live()
}

/// What was separated by one choice is overwritten, collected and replayed under the other.
#[test]
fn i1_i2_i3_i5_i6_a_crash_in_the_script_with_both_choices() {
    let script = |client: &mut Client| {
        auto(client);
        script::run(client)?;
        make_both_choices(client)
    };
    crash_script(1, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_short_sessions_with_both_choices() {
    let script = |client: &mut Client| {
        auto(client);
        script::sessions(client)?;
        make_both_choices(client)?;
        client.close()?;
        client.open()?;
        client.check_live()
    };
    crash_sessions(1, script);
}

/// Returns options with compressed values of at least `threshold` bytes in segments.
fn compressed(options: KeyspaceOptions, threshold: usize) -> KeyspaceOptions {
    KeyspaceOptions {
        separation_threshold: threshold,
        value_codec: Codec::Lz4,
        value_compression_min_bytes: 0,
        ..options
    }
}

/// Of the values in `script::LENGTHS`, all but the shortest reach the first threshold, and only two
/// the other.
const THRESHOLDS: [usize; 2] = [20, 800];

/// Has every commit synced, and its values compressed and separated as `options` say.
fn synced(client: &mut Client, options: KeyspaceOptions, threshold: usize) {
    client.options.keyspace = compressed(options, threshold);
    client.synced = true;
}

/// Runs short sessions whose memtables hold what a session writes.
fn synced_sessions(client: &mut Client, options: KeyspaceOptions, threshold: usize) -> Step {
    synced(client, KeyspaceOptions { memtable_bytes: 16 << 10, ..options }, threshold);
    script::sessions(client)
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_the_script_with_small_compressed_values() {
    let script = |client: &mut Client| {
        synced(client, tiny_options().keyspace, THRESHOLDS[0]);
        script::run(client)
    };
    crash_script(2, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_short_sessions_with_small_compressed_values() {
    let script =
        |client: &mut Client| synced_sessions(client, tiny_options().keyspace, THRESHOLDS[0]);
    crash_sessions(2, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_the_script_with_large_compressed_values() {
    let script = |client: &mut Client| {
        synced(client, tiny_options().keyspace, THRESHOLDS[1]);
        script::run(client)
    };
    crash_script(3, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_short_sessions_with_large_compressed_values() {
    let script =
        |client: &mut Client| synced_sessions(client, tiny_options().keyspace, THRESHOLDS[1]);
    crash_sessions(3, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_the_script_with_small_compressed_values_at_flush() {
    let script = |client: &mut Client| {
        synced(client, at_flush_options(), THRESHOLDS[0]);
        script::run(client)
    };
    crash_script(4, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_short_sessions_with_small_compressed_values_at_flush() {
    let script = |client: &mut Client| synced_sessions(client, at_flush_options(), THRESHOLDS[0]);
    crash_sessions(4, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_the_script_with_large_compressed_values_at_flush() {
    let script = |client: &mut Client| {
        synced(client, at_flush_options(), THRESHOLDS[1]);
        script::run(client)
    };
    crash_script(5, script);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_in_short_sessions_with_large_compressed_values_at_flush() {
    let script = |client: &mut Client| synced_sessions(client, at_flush_options(), THRESHOLDS[1]);
    crash_sessions(5, script);
}
