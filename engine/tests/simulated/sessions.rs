//! Tests of what sessions that delete much leave on the disk, at their end and for a session that
//! only reads.

use crate::client;
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::{
    Codec, Db, Keyspace, KeyspaceOptions, Options, ReadOptions, Separation, WriteBatch,
};
use std::ops::Range;
use std::time::Duration;

const SEED: u64 = 41;
/// A run that takes more steps hangs.
const STEPS: u64 = 4_000_000;
const MIB: u64 = 1 << 20;
/// The most bytes that an empty store may take: its manifest, and less of the log than is worth a
/// flush.
const LEAST_BYTES: u64 = 2 * MIB;
const KEYS: usize = 4096;
/// All values together are 16 MiB, of which no memtable is full.
const VALUE_BYTES: usize = 4096;

fn open(env: &Env, read_only: bool) -> Db {
    let options = Options { segment_bytes: MIB, read_only, ..Options::default() };
    client::open(env, options)
}

/// Opens the database, works with it and closes it.
fn session(env: &Env, work: impl FnOnce(&Db)) {
    let db = open(env, false);
    work(&db);
    db.close().unwrap();
}

/// Options with which all values are in tables, as they are.
fn plain() -> KeyspaceOptions {
    KeyspaceOptions {
        separation: Separation::Off,
        block_codec: Codec::None,
        ..KeyspaceOptions::default()
    }
}

/// A keyspace whose values are in tables, as they are.
fn inline(db: &Db) -> Keyspace {
    db.create_keyspace_with("inline", plain()).unwrap()
}

/// A keyspace like that of [`inline`], with so small tables that they fill several levels.
fn layered(db: &Db) -> Keyspace {
    let options = KeyspaceOptions {
        memtable_bytes: 2 * MIB,
        table_bytes: MIB / 4,
        level_base_bytes: 2 * MIB,
        ..plain()
    };
    db.create_keyspace_with("layered", options).unwrap()
}

fn key(number: usize) -> String {
    format!("k{number:05}")
}

fn put(db: &Db, keys: Range<usize>) {
    put_into(db, &db.default_keyspace(), keys);
}

fn put_into(db: &Db, keyspace: &Keyspace, keys: Range<usize>) {
    for first in keys.clone().step_by(64) {
        let mut batch = WriteBatch::new();
        for number in first..keys.end.min(first + 64) {
            batch.put(keyspace, key(number), value(number, VALUE_BYTES));
        }
        db.write(batch).unwrap();
    }
}

/// Puts all keys and compacts them to the deepest level.
fn put_deep(db: &Db, keyspace: Keyspace) -> Keyspace {
    put_into(db, &keyspace, 0..KEYS);
    keyspace.compact_range(..).unwrap();
    keyspace
}

fn delete(db: &Db, keys: impl Iterator<Item = usize>) {
    delete_from(db, &db.default_keyspace(), keys);
}

fn delete_from(db: &Db, keyspace: &Keyspace, keys: impl Iterator<Item = usize>) {
    let mut batch = WriteBatch::new();
    keys.for_each(|number| {
        batch.delete(keyspace, key(number));
    });
    db.write(batch).unwrap();
}

/// Half a minute in which nothing but a read comes now and then.
fn only_read(env: &Env, db: &Db) {
    for number in 0..30 {
        env.threads.sleep(Duration::from_secs(1));
        db.default_keyspace().get(key(number)).unwrap();
    }
}

/// As much time without even a read.
fn only_idle(env: &Env) {
    env.threads.sleep(Duration::from_secs(30));
}

#[track_caller]
fn check_empty(db: &Db) {
    let allocated = db.space().unwrap().allocated;
    assert!(allocated <= LEAST_BYTES, "{allocated} bytes are left");
}

/// Checks what the last session left, by a process that changes no file.
#[track_caller]
fn check_left_nothing(env: &Env) {
    let db = open(env, true);
    check_empty(&db);
    db.close().unwrap();
}

#[track_caller]
fn check_settled(db: &Db) {
    let report = db.space().unwrap();
    let (allocated, live) = (report.allocated, report.live_bytes);
    assert!(live >= (KEYS / 2 * VALUE_BYTES) as u64, "{live} bytes are live");
    let bound = Options::default().gc.settled_space_amplification;
    let most = (live as f64 * bound) as u64;
    assert!(allocated <= most, "{allocated} bytes for {live} that are live: {report}");
    assert!(db.check().unwrap().is_clean());
}

/// A session that only reads, and then the check.
fn check_after_reading(env: &Env, check: impl FnOnce(&Db)) {
    session(env, |db| {
        only_read(env, db);
        check(db);
    });
}

fn simulate(sessions: impl FnOnce(&Env)) {
    client::simulate(SEED, STEPS, |env, _| sessions(env));
}

/// Its deletions were in a memtable only, so that all segments stayed for good.
#[test]
fn one_that_deletes_all_it_put_leaves_nothing() {
    simulate(|env| {
        session(env, |db| {
            put(db, 0..KEYS);
            delete(db, 0..KEYS);
        });
        check_left_nothing(env);
    });
}

#[test]
fn one_that_deletes_what_is_in_tables_leaves_nothing() {
    simulate(|env| {
        session(env, |db| {
            put(db, 0..KEYS);
            db.flush().unwrap();
            delete(db, 0..KEYS);
        });
        check_left_nothing(env);
    });
}

#[test]
fn one_that_deletes_what_others_put_leaves_nothing() {
    simulate(|env| {
        session(env, |db| put(db, 0..KEYS));
        session(env, |db| delete(db, 0..KEYS));
        check_left_nothing(env);
    });
}

/// Inline values are in tables and in the log, not in segments that die as a whole.
#[test]
fn one_that_deletes_all_its_inline_values_leaves_nothing() {
    for is_flushed in [false, true] {
        simulate(|env| {
            session(env, |db| {
                let keyspace = inline(db);
                put_into(db, &keyspace, 0..KEYS);
                if is_flushed {
                    db.flush().unwrap();
                }
                delete_from(db, &keyspace, 0..KEYS);
            });
            check_left_nothing(env);
        });
    }
}

/// The tombstones are in L0 already, and nothing waits in a memtable.
#[test]
fn one_that_flushes_its_tombstones_leaves_nothing() {
    simulate(|env| {
        session(env, |db| {
            let keyspace = put_deep(db, inline(db));
            delete_from(db, &keyspace, 0..KEYS);
            db.flush().unwrap();
        });
        check_left_nothing(env);
    });
}

/// What was deleted lies below L0, where only a compaction reaches it.
#[test]
fn one_that_deletes_inline_values_that_others_put_leaves_nothing() {
    simulate(|env| {
        session(env, |db| {
            put_deep(db, inline(db));
        });
        session(env, |db| {
            let keyspace = db.keyspace("inline").unwrap();
            delete_from(db, &keyspace, 0..KEYS);
        });
        check_left_nothing(env);
    });
}

/// Merging a quarter of deletions with everything would take longer than closing may.
#[test]
fn one_that_deletes_a_quarter_closes_without_rewriting_the_rest() {
    simulate(|env| {
        let mut before = Vec::new();
        session(env, |db| {
            let keyspace = put_deep(db, inline(db));
            delete_from(db, &keyspace, (0..KEYS).step_by(4));
            db.flush().unwrap();
            before = table_ids(db);
        });
        let db = open(env, true);
        assert_eq!(table_ids(&db), before);
        db.close().unwrap();
    });
}

/// Older versions of what was deleted lie in several levels, and must not come back.
#[test]
fn i06_what_a_closing_session_merges_reads_as_before() {
    simulate(|env| {
        let is_deleted = |number: &usize| !number.is_multiple_of(4);
        let mut before = 0;
        session(env, |db| {
            let keyspace = put_deep(db, inline(db));
            put_into(db, &keyspace, 0..KEYS / 2);
            db.flush().unwrap();
            delete_from(db, &keyspace, (0..KEYS).filter(is_deleted));
            before = db.space().unwrap().allocated;
        });
        let db = open(env, true);
        let left = db.space().unwrap().allocated;
        assert!(left < before / 3, "{left} bytes of {before}");
        let keyspace = db.keyspace("inline").unwrap();
        for number in 0..KEYS {
            let expected = (!is_deleted(&number)).then(|| value(number, VALUE_BYTES));
            let found = keyspace.get(key(number)).unwrap();
            assert_eq!(found.as_deref(), expected.as_deref(), "{number}");
        }
        assert!(db.check().unwrap().is_clean());
        db.close().unwrap();
    });
}

/// A session that deletes all that another put into tables: closing may merge it.
fn deletes_from_tables(env: &Env) -> Db {
    session(env, |db| {
        put_deep(db, inline(db));
    });
    let db = open(env, false);
    delete_from(&db, &db.keyspace("inline").unwrap(), 0..KEYS);
    db
}

/// Checks that a table which can't be read held up nothing for good.
fn check_freed_later(env: &Env) {
    session(env, |db| {
        assert_eq!(db.keyspace("inline").unwrap().get(key(0)).unwrap(), None);
        only_read(env, db);
        check_empty(db);
    });
}

fn no_reads_of_tables() -> FaultPlan {
    FaultPlan::new(Call::Read).on(".tbl").for_good()
}

/// What closing merges can be merged later, so a table that can't be read does not fail it.
#[test]
fn one_that_cannot_read_a_table_closes() {
    client::simulate(SEED, STEPS, |env, simulation| {
        let db = deletes_from_tables(env);
        simulation.fail(no_reads_of_tables());
        db.close().unwrap();
        simulation.clear_faults();
        check_freed_later(env);
    });
}

/// Opening after a kill waits for no table that nobody reads.
#[test]
fn one_after_a_killed_one_opens_though_a_table_cannot_be_read() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.limit_steps(STEPS);
    simulation.run(|| {
        let db = deletes_from_tables(&env);
        simulation.crash();
        drop(db);
    });
    let env = simulation.restart(Survivors::KeepAll);
    simulation.run(|| {
        simulation.fail(no_reads_of_tables());
        let db = open(&env, false);
        simulation.clear_faults();
        drop(db);
        check_freed_later(&env);
    });
}

/// Opens a database that is idle for a while and fails to settle, once. Without an update table no
/// other compaction is due. Tables can be read again on return.
#[track_caller]
fn settles_in_vain(env: &Env, simulation: &Simulation) -> (Db, Keyspace) {
    let options = Options { segment_bytes: MIB, update_table_bytes: 0, ..Options::default() };
    let db = client::open(env, options);
    let keyspace = put_deep(&db, inline(&db));
    put_into(&db, &keyspace, 0..KEYS / 2);
    db.flush().unwrap();
    // Value GC looks at the new table while it can: its error would be counted, too.
    db.wait_idle().unwrap();
    simulation.fail(no_reads_of_tables());
    only_idle(env);
    // Value GC closes the log's segment meanwhile, of which all is in tables. That makes another
    // version, for which it may be tried once more.
    let errors = db.stats().background_errors;
    assert!((1..=2).contains(&errors), "{errors}");
    only_idle(env);
    assert_eq!(db.stats().background_errors, errors);
    simulation.clear_faults();
    (db, keyspace)
}

/// A compaction that only settles an idle store is not tried again and again while nothing changes.
#[test]
fn one_that_only_reads_tries_a_compaction_that_fails_once() {
    client::simulate(SEED, STEPS, |env, simulation| {
        let (db, _) = settles_in_vain(env, simulation);
        db.default_keyspace().put("one", "eins").unwrap();
        db.flush().unwrap();
        only_idle(env);
        check_settled(&db);
        db.close().unwrap();
    });
}

/// Guards against an error of a job that nobody waits for: who waited for compactions of full
/// levels was told that settling had failed some time before.
#[test]
fn who_waits_for_idleness_is_not_told_that_settling_failed() {
    client::simulate(SEED, STEPS, |env, simulation| {
        let (db, keyspace) = settles_in_vain(env, simulation);
        // Users are back, and L0 fills up.
        for _ in 0..8 {
            put_into(&db, &keyspace, 0..KEYS / 2);
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        db.close().unwrap();
    });
}

/// A merge that does not fit on the disk has not failed: it is not begun before it fits, and then
/// needs no write.
#[test]
fn i09_one_that_only_reads_merges_tombstones_once_there_is_room() {
    client::simulate(SEED, STEPS, |env, simulation| {
        let db = open(env, false);
        let keyspace = put_deep(&db, inline(&db));
        delete_from(&db, &keyspace, 0..KEYS);
        db.flush().unwrap();
        simulation.set_capacity(Some(simulation.used() + 2 * MIB));
        only_idle(env);
        assert_eq!(db.stats().background_errors, 0);
        let left = db.space().unwrap().allocated;
        assert!(left > (KEYS * VALUE_BYTES) as u64, "{left} bytes are left");
        simulation.set_capacity(None);
        only_idle(env);
        check_empty(&db);
        db.close().unwrap();
    });
}

fn table_ids(db: &Db) -> Vec<u64> {
    db.keyspace("inline").unwrap().tables().iter().map(|table| table.id).collect()
}

/// The tombstones wait in a memtable, and what they delete is below L0.
#[test]
fn one_that_only_reads_frees_what_is_dead() {
    simulate(|env| {
        session(env, |db| {
            put(db, 0..KEYS);
            db.flush().unwrap();
            db.default_keyspace().compact_range(..).unwrap();
            delete(db, 0..KEYS);
        });
        check_after_reading(env, check_empty);
    });
}

#[test]
fn one_that_deletes_half_and_then_only_reads_settles() {
    simulate(|env| {
        session(env, |db| {
            put(db, 0..KEYS);
            delete(db, (0..KEYS).step_by(2));
            only_read(env, db);
            check_settled(db);
        });
    });
}

#[test]
fn one_that_only_reads_after_another_deleted_half_settles() {
    for is_merged in [false, true] {
        simulate(|env| {
            session(env, |db| {
                put(db, 0..KEYS);
                if is_merged {
                    db.default_keyspace().compact_range(..).unwrap();
                }
            });
            session(env, |db| delete(db, (0..KEYS).step_by(2)));
            check_after_reading(env, check_settled);
        });
    }
}

/// Overwriting hides as much as deleting does.
#[test]
fn one_that_only_reads_after_another_overwrote_half_settles() {
    simulate(|env| {
        session(env, |db| {
            put_deep(db, db.default_keyspace());
            put(db, 0..KEYS / 2);
        });
        check_after_reading(env, check_settled);
    });
}

/// What was deleted is in tables only, so that nothing but a compaction frees it.
#[test]
fn one_that_only_reads_merges_tombstones_with_inline_values() {
    simulate(|env| {
        session(env, |db| {
            let keyspace = put_deep(db, inline(db));
            delete_from(db, &keyspace, 0..KEYS);
        });
        check_after_reading(env, check_empty);
    });
}

/// Overwritten inline values are in tables only, and no tombstone makes a compaction due.
#[test]
fn one_that_overwrites_inline_values_and_then_only_reads_settles() {
    simulate(|env| {
        session(env, |db| {
            let keyspace = layered(db);
            for _ in 0..3 {
                put_into(db, &keyspace, 0..KEYS);
            }
            only_read(env, db);
            check_settled(db);
        });
    });
}

#[test]
fn one_that_only_reads_after_another_overwrote_inline_values_settles() {
    simulate(|env| {
        session(env, |db| {
            let keyspace = put_deep(db, layered(db));
            put_into(db, &keyspace, 0..KEYS);
        });
        check_after_reading(env, check_settled);
    });
}

/// Versions that only a snapshot sees are not merged with others into one table, where they would
/// stay for good when it goes; and no compaction is run again and again for them.
#[test]
fn i06_one_that_only_reads_beside_a_snapshot_keeps_it_and_settles_after_it() {
    simulate(|env| {
        session(env, |db| {
            let keyspace = put_deep(db, inline(db));
            let snapshot = db.snapshot();
            put_into(db, &keyspace, 1..KEYS);
            keyspace.delete(key(0)).unwrap();
            db.flush().unwrap();
            let compactions = db.stats().compactions;
            only_read(env, db);
            assert_eq!(db.stats().compactions, compactions, "they can drop nothing");
            let seen = keyspace.get_with(key(0), &ReadOptions::new().snapshot(&snapshot)).unwrap();
            assert_eq!(seen.as_deref(), Some(&value(0, VALUE_BYTES)[..]));
            drop(snapshot);
            only_read(env, db);
            assert_eq!(keyspace.get(key(0)).unwrap(), None);
            check_settled(db);
        });
    });
}
