//! The scripted workloads. The main one has three openings and makes every kind of change on disk.

use crate::client::{Client, Operation, Step, at_flush_options, inline_options};
use crate::model::merge_operator;
use cleavedb::{ConvertReport, Db, Durability, Error, KeyspaceOptions, ReadOptions};
use std::time::Duration;

/// Returns a value of `len` bytes that identifies its commit.
pub fn value(number: usize, len: usize) -> Vec<u8> {
    let text = format!("{number:06}.");
    text.bytes().cycle().take(len).collect()
}

/// The lengths of values in bytes. Short values are inline, the others are separated; the longest
/// exceed a sector.
pub const LENGTHS: [usize; 5] = [7, 60, 250, 900, 2100];

pub fn durability(number: usize) -> Durability {
    match number % 7 {
        1 | 5 => Durability::Buffered,
        3 => Durability::Sync,
        6 => Durability::SyncEvery(Duration::from_micros(300)),
        _ => Durability::Os,
    }
}

fn key(number: usize) -> String {
    format!("k{:02}", number * 7 % 23)
}

fn puts(client: &mut Client, numbers: std::ops::Range<usize>) -> Step {
    for number in numbers {
        let value = value(number, LENGTHS[number % LENGTHS.len()]);
        client.put(&key(number), value, durability(number))?;
    }
    Ok(())
}

/// Writes batches over two keyspaces: puts and a deletion, of an older key or of one put in the
/// same batch.
fn batches(client: &mut Client, other: &'static str, numbers: std::ops::Range<usize>) -> Step {
    for number in numbers {
        let put = |name: &'static str, key: String, len: usize| -> Operation {
            (name, key.into_bytes(), Some(value(number, len)))
        };
        let batch = vec![
            put("default", key(number), LENGTHS[number % LENGTHS.len()]),
            put(other, key(number), LENGTHS[(number + 2) % LENGTHS.len()]),
            put("default", "in batch".to_owned(), 9),
            ("default", key(number + 3).into_bytes(), None),
            ("default", b"in batch".to_vec(), None),
            put(other, "last".to_owned(), 300),
        ];
        client.write(batch, durability(number))?;
    }
    Ok(())
}

/// Deletes ranges, over what is in tables, in memtables and in segments of all kinds, and puts some
/// of the keys again.
fn ranges(client: &mut Client, other: &'static str, number: usize) -> Step {
    client.delete_range("default", ("k03", "k07"), durability(number))?;
    puts(client, number..number + 3)?;
    client.delete_range(other, ("k", "k11"), durability(number + 1))?;
    client.delete_range("default", ("k05", "k12"), durability(number + 2))?;
    puts(client, number + 3..number + 5)
}

/// Ingests keys over what is in tables and in memtables, once into a part that has none, and writes
/// to some of the keys again.
fn ingests(client: &mut Client, name: &'static str, number: usize) -> Step {
    let entry = |index: usize| {
        let put = value(number + index, LENGTHS[(number + index) % LENGTHS.len()]);
        (name, format!("k{index:02}").into_bytes(), (index % 6 != 5).then_some(put))
    };
    client.ingest((3..16).map(entry).collect())?;
    puts(client, number..number + 2)?;
    client.check_live()?;
    client.ingest((30..34).map(entry).collect())
}

/// Puts keys so long that a few tables make the manifest grow until it is rewritten.
fn long_keys(client: &mut Client) -> Step {
    for number in 0..3 {
        let key = format!("long{number}{}", "x".repeat(50_000));
        client.put(&key, value(number, 8), Durability::Os)?;
        client.settle("flush", Db::flush)?;
    }
    for number in 0..3 {
        let key = format!("long{number}{}", "x".repeat(50_000));
        client.delete(&key, Durability::Os)?;
    }
    Ok(())
}

/// Checks that a snapshot shows the same while keys are written, compacted and dropped.
fn under_a_snapshot(client: &mut Client) -> Step {
    let wanted = client.model.now().remove("default").unwrap_or_default();
    let snapshot = client.db().snapshot();
    puts(client, 200..208)?;
    client.delete_range("default", ("k04", "k15"), Durability::Os)?;
    puts(client, 208..216)?;
    client.call("compact", Db::compact)?;
    client.collect()?;
    let options = ReadOptions::new().snapshot(&snapshot);
    client.call("read at a snapshot", |db| {
        for (key, value) in &wanted {
            let found = db.default_keyspace().get_with(key, &options)?;
            assert_eq!(found.as_ref().map(|found| &found[..]), Some(&value[..]), "a snapshot");
        }
        Ok::<(), Error>(())
    })
}

/// Runs value GC. It begins with a flush, so everything before is durable.
fn collect(client: &mut Client) -> Step {
    client.collect()?;
    client.check_live()
}

/// Makes garbage while GC is paused, so that there is enough of it to be freed by hand.
fn gather_and_collect(client: &mut Client, numbers: std::ops::Range<usize>) -> Step {
    client.db().pause_gc();
    puts(client, numbers)?;
    collect(client)?;
    client.db().resume_gc();
    Ok(())
}

/// Overwrites values that are durable and before the head of the log by commits that a power cut
/// would undo, then lets automatic value GC run. It may free a value only if the newer one is
/// durable (I4).
fn collect_under_commits_in_danger(client: &mut Client) -> Step {
    for number in 140..152 {
        client.put(&key(number), value(number, 1100), Durability::Os)?;
    }
    client.settle("flush", Db::flush)?;
    for number in 160..170 {
        let durability = if number % 3 == 0 { Durability::Os } else { Durability::Buffered };
        client.put(&key(number - 20), value(number, 20), durability)?;
    }
    client.rest(Duration::from_secs(4))?;
    client.check_live()
}

/// Runs the main workload, up to the crash.
pub fn run(client: &mut Client) -> Step {
    client.open()?;
    client.keyspace("side", inline_options())?;
    puts(client, 0..34)?;
    batches(client, "side", 34..44)?;
    client.check_live()?;
    client.settle("sync", Db::sync)?;
    ranges(client, "side", 44)?;
    client.check_live()?;
    under_a_snapshot(client)?;
    ingests(client, "default", 46)?;
    client.call("wait", Db::wait_idle)?;
    client.keyspace("passing", client.options.keyspace.clone())?;
    batches(client, "passing", 50..56)?;
    client.drop_keyspace("passing")?;
    gather_and_collect(client, 60..70)?;
    client.checkpoint("copy")?;
    puts(client, 70..76)?;
    client.check_live()?;
    collect_under_commits_in_danger(client)?;
    puts(client, 76..80)?;
    client.check_live()?;
    client.close()?;

    client.open()?;
    client.keyspace("passing", inline_options())?;
    batches(client, "passing", 80..86)?;
    long_keys(client)?;
    client.call("compact", Db::compact)?;
    puts(client, 90..96)?;
    // The process ends here without a close.
    client.leave();

    client.open()?;
    client.check_live()?;
    client.drop_keyspace("passing")?;
    // The memtable was filled with inline values, and some of them are separated by its flush.
    client.keyspace("side", at_flush_options())?;
    batches(client, "side", 120..124)?;
    ranges(client, "side", 124)?;
    ingests(client, "side", 126)?;
    gather_and_collect(client, 100..112)?;
    client.call("reorganize", |db| db.default_keyspace().reorganize("k05".."k17"))?;
    collect(client)?;
    collect_under_commits_in_danger(client)?;
    puts(client, 130..140)?;
    client.check_live()
}

/// Runs the main workload in a database that separates at flush.
pub fn run_at_flush(client: &mut Client) -> Step {
    client.options.keyspace = at_flush_options();
    run(client)
}

/// Runs the main workload in a database in which most values are appended to others.
pub fn run_appending(client: &mut Client) -> Step {
    client.options.keyspace.merge_operator = Some(merge_operator());
    run(client)
}

/// Runs short sessions in such a database.
pub fn sessions_appending(client: &mut Client) -> Step {
    client.options.keyspace = KeyspaceOptions {
        memtable_bytes: 16 << 10,
        merge_operator: Some(merge_operator()),
        ..at_flush_options()
    };
    sessions(client)
}

/// Runs short sessions in a database that separates at flush, whose memtables hold what a session
/// writes.
pub fn sessions_at_flush(client: &mut Client) -> Step {
    client.options.keyspace = KeyspaceOptions { memtable_bytes: 16 << 10, ..at_flush_options() };
    sessions(client)
}

/// Runs the workload for I/O errors in a database that separates at flush.
pub fn run_faulty_at_flush(client: &mut Client) -> Step {
    client.options.keyspace = at_flush_options();
    run_faulty(client)
}

/// Runs sessions with a put or a batch each, so small that one of the last closes merges their
/// files. One session writes nothing.
pub fn sessions(client: &mut Client) -> Step {
    for number in 0..11 {
        client.open()?;
        if number == 0 {
            client.keyspace("side", inline_options())?;
        }
        match number {
            5 => client.check_live()?,
            3 | 8 => batches(client, "side", number..number + 1)?,
            9 => client.delete_range("default", ("k10", "k20"), Durability::Os)?,
            _ => puts(client, number..number + 1)?,
        }
        if number == 2 {
            client.settle("sync", Db::sync)?;
        }
        client.close()?;
    }
    client.open()?;
    assert!(client.files("seg") < 6, "short sessions leave {} segments", client.files("seg"));
    client.check_live()
}

/// The number of keys that scans put in order, and of the bytes of their values.
const SCANNED: (usize, usize) = (300, 2500);

/// Puts values in random order.
fn strew(client: &mut Client) -> Step {
    for number in 0..SCANNED.0 {
        let key = format!("s{:03}", number * 67 % SCANNED.0);
        client.put(&key, value(number, SCANNED.1), Durability::Os)?;
    }
    client.settle("flush", Db::flush)
}

/// Loads values in random order; what [`scans`] does before it scans.
pub fn strewn(client: &mut Client) -> Step {
    client.options.gc.max_space_amplification = 3.0;
    client.options.segment_bytes = 64 << 10;
    client.open()?;
    strew(client)?;
    client.call("wait", Db::wait_idle)
}

/// Scans values until they were put in order.
pub fn scans(client: &mut Client) -> Step {
    strewn(client)?;
    for round in 0..6 {
        client.check_live()?;
        client.rest(Duration::from_secs(2))?;
        client.call("wait", Db::wait_idle)?;
        let stored = value(400 + round, SCANNED.1);
        client.put(&format!("s{:03}", round * 31), stored, Durability::Os)?;
    }
    assert!(client.db().stats().scan_orders > 1, "nothing was put in order");
    client.close()
}

/// Runs a short workload after a recovery: writes of each kind, and a flush.
pub fn go_on(client: &mut Client, from: usize) -> Step {
    client.keyspace("side", inline_options())?;
    puts(client, from..from + 7)?;
    batches(client, "side", from + 7..from + 9)?;
    client.settle("flush", Db::flush)?;
    puts(client, from + 10..from + 13)
}

/// Runs a shorter workload for tests of I/O errors. Errors are recorded and it goes on; it stops if
/// the database does not open.
pub fn run_faulty(client: &mut Client) -> Step {
    client.open()?;
    client.keyspace("side", inline_options())?;
    puts(client, 0..20)?;
    batches(client, "side", 20..26)?;
    client.check_live()?;
    client.settle("sync", Db::sync)?;
    under_a_snapshot(client)?;
    client.keyspace("passing", client.options.keyspace.clone())?;
    batches(client, "passing", 50..53)?;
    client.drop_keyspace("passing")?;
    client.check_live()?;
    client.checkpoint("copy")?;
    puts(client, 60..66)?;
    ranges(client, "side", 66)?;
    ingests(client, "default", 68)?;
    collect(client)?;
    long_keys(client)?;
    client.check_live()?;
    client.settle("flush", Db::flush)?;
    client.close()?;
    client.open()?;
    client.check_live()?;
    puts(client, 70..80)?;
    client.call("wait", Db::wait_idle)
}

/// Runs a workload whose keyspaces change where they keep values, and convert what is stored: with
/// and without a snapshot, over deleted ranges, what was ingested and what value GC has moved.
pub fn converting(client: &mut Client) -> Step {
    client.open()?;
    let tiny = client.options.keyspace.clone();
    client.keyspace("side", inline_options())?;
    puts(client, 0..24)?;
    batches(client, "side", 24..29)?;
    convert(client, inline_options(), tiny.clone())?;
    ranges(client, "side", 30)?;
    ingests(client, "default", 36)?;
    let wanted = client.model.now().remove("default").unwrap_or_default();
    let snapshot = client.db().snapshot();
    puts(client, 40..48)?;
    convert(client, at_flush_options(), inline_options())?;
    let options = ReadOptions::new().snapshot(&snapshot);
    client.call("read at a snapshot", |db| {
        for (key, value) in &wanted {
            let found = db.default_keyspace().get_with(key, &options)?;
            assert_eq!(found.as_ref().map(|found| &found[..]), Some(&value[..]), "a snapshot");
        }
        Ok::<(), Error>(())
    })?;
    drop((snapshot, options));
    gather_and_collect(client, 50..58)?;
    convert(client, inline_options(), at_flush_options())?;
    puts(client, 60..64)?;
    client.close()?;
    client.open()?;
    let threshold = KeyspaceOptions { separation_threshold: 1000, ..tiny };
    convert(client, threshold, inline_options())?;
    puts(client, 64..70)?;
    client.check_live()
}

/// Runs the same where values are appended to others.
pub fn converting_appended(client: &mut Client) -> Step {
    client.options.keyspace.merge_operator = Some(merge_operator());
    converting(client)
}

/// Changes the settings of two keyspaces and converts both. If nothing failed, another conversion
/// finds nothing to do.
fn convert(client: &mut Client, default: KeyspaceOptions, side: KeyspaceOptions) -> Step {
    // Else compactions might leave nothing to convert.
    let only_asked = |options| KeyspaceOptions { convert_in_compactions: false, ..options };
    client.keyspace("default", only_asked(default))?;
    client.keyspace("side", only_asked(side))?;
    client.call("wait", Db::wait_idle)?;
    let nothing_failed = client.errors.is_empty();
    client.call("convert", |db| {
        let moved = |report: ConvertReport| report.values_moved_in + report.values_moved_out;
        let (first, second) = (moved(db.convert()?), moved(db.convert()?));
        if nothing_failed {
            assert!(first > 0, "values change their places");
            assert_eq!(second, 0, "all values are where they belong");
        }
        Ok::<(), Error>(())
    })?;
    client.check_live()
}

/// Runs a workload whose keyspaces change where they keep values, which compactions then move:
/// under a snapshot, over deleted ranges, and what was ingested.
pub fn homing(client: &mut Client) -> Step {
    // Value GC leaves the values where they are, and room for those that move in.
    client.options.gc.max_space_amplification = 100.0;
    client.options.gc.settled_space_amplification = 100.0;
    client.options.keyspace = at_flush_options();
    client.open()?;
    client.keyspace("side", inline_options())?;
    puts(client, 0..24)?;
    batches(client, "side", 24..29)?;
    let all = rehome(client, at_flush_options(), 30)?;
    let left = rehome(client, inline_options(), 36)?;
    assert!(left < all || !client.errors.is_empty(), "values move in: {left} of {all} are left");
    ranges(client, "default", 42)?;
    ingests(client, "default", 48)?;
    let snapshot = client.db().snapshot();
    let out = rehome(client, at_flush_options(), 54)?;
    assert!(out > left || !client.errors.is_empty(), "values move out: {out} after {left}");
    drop(snapshot);
    rehome(client, KeyspaceOptions { separation_threshold: 1000, ..at_flush_options() }, 60)?;
    client.close()?;
    client.open()?;
    client.check_live()
}

/// Changes the settings of the default keyspace and has its compactions go over all of it. Returns
/// how many records of segments are live then.
fn rehome(client: &mut Client, default: KeyspaceOptions, next: usize) -> Step<u64> {
    client.settle("flush", Db::flush)?;
    client.call("gc", |db| db.gc().map(|_| ()))?;
    client.keyspace("default", default)?;
    puts(client, next..next + 6)?;
    client.settle("compact", Db::compact)?;
    client.check_live()?;
    let segments = client.db().stats().segments;
    Ok(segments.iter().map(|segment| segment.referenced_records).sum())
}
