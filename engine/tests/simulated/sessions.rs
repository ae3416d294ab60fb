//! Tests of what sessions that delete much leave on the disk, at their end and for a session that
//! only reads.

use crate::client::DIR;
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::{Codec, Db, Keyspace, KeyspaceOptions, Options, Separation, WriteBatch};
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
    Db::builder(DIR).options(options).env(env.clone()).open().unwrap()
}

/// A keyspace whose values are in tables, as they are.
fn inline(db: &Db) -> Keyspace {
    let options = KeyspaceOptions {
        separation: Separation::Off,
        block_codec: Codec::None,
        ..KeyspaceOptions::default()
    };
    db.create_keyspace_with("inline", options).unwrap()
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

/// Returns the bytes of all files for a process that changes none of them.
fn left(env: &Env) -> u64 {
    let db = open(env, true);
    let allocated = db.space().unwrap().allocated;
    db.close().unwrap();
    allocated
}

#[track_caller]
fn check_target(db: &Db) {
    let report = db.space().unwrap();
    let (allocated, live) = (report.allocated, report.live_bytes);
    assert!(live >= (KEYS / 2 * VALUE_BYTES) as u64, "{live} bytes are live");
    let target = Options::default().gc.settled_space_amplification;
    let most = (live as f64 * target) as u64;
    assert!(allocated <= most, "{allocated} bytes for {live} that are live");
    assert!(db.check().unwrap().is_clean());
}

fn simulate(session: impl FnOnce(&Env)) {
    let (env, simulation) = Env::simulated(SEED);
    simulation.limit_steps(STEPS);
    simulation.run(|| session(&env));
}

/// Its deletions were in a memtable only, so that all segments stayed for good.
#[test]
fn one_that_deletes_all_it_put_leaves_nothing() {
    simulate(|env| {
        let db = open(env, false);
        put(&db, 0..KEYS);
        delete(&db, 0..KEYS);
        db.close().unwrap();
        let left = left(env);
        assert!(left <= LEAST_BYTES, "{left} bytes are left");
    });
}

#[test]
fn one_that_deletes_what_is_in_tables_leaves_nothing() {
    simulate(|env| {
        let db = open(env, false);
        put(&db, 0..KEYS);
        db.flush().unwrap();
        delete(&db, 0..KEYS);
        db.close().unwrap();
        let left = left(env);
        assert!(left <= LEAST_BYTES, "{left} bytes are left");
    });
}

#[test]
fn one_that_deletes_what_others_put_leaves_nothing() {
    simulate(|env| {
        let db = open(env, false);
        put(&db, 0..KEYS);
        db.close().unwrap();
        let db = open(env, false);
        delete(&db, 0..KEYS);
        db.close().unwrap();
        let left = left(env);
        assert!(left <= LEAST_BYTES, "{left} bytes are left");
    });
}

/// The tombstones wait in a memtable, and what they delete is below L0.
#[test]
fn one_that_only_reads_frees_what_is_dead() {
    simulate(|env| {
        let db = open(env, false);
        put(&db, 0..KEYS);
        db.flush().unwrap();
        db.default_keyspace().compact_range(..).unwrap();
        delete(&db, 0..KEYS);
        db.close().unwrap();
        let db = open(env, false);
        only_read(env, &db);
        let allocated = db.space().unwrap().allocated;
        assert!(allocated <= LEAST_BYTES, "{allocated} bytes are left");
        db.close().unwrap();
    });
}

#[test]
fn one_that_deletes_half_and_then_only_reads_comes_to_the_target() {
    simulate(|env| {
        let db = open(env, false);
        put(&db, 0..KEYS);
        delete(&db, (0..KEYS).step_by(2));
        only_read(env, &db);
        check_target(&db);
        db.close().unwrap();
    });
}

#[test]
fn one_that_only_reads_after_another_deleted_half_comes_to_the_target() {
    for is_merged in [false, true] {
        simulate(|env| {
            let db = open(env, false);
            put(&db, 0..KEYS);
            if is_merged {
                db.default_keyspace().compact_range(..).unwrap();
            }
            db.close().unwrap();
            let db = open(env, false);
            delete(&db, (0..KEYS).step_by(2));
            db.close().unwrap();
            let db = open(env, false);
            only_read(env, &db);
            check_target(&db);
            db.close().unwrap();
        });
    }
}

/// Overwriting hides as much as deleting does.
#[test]
fn one_that_only_reads_after_another_overwrote_half_comes_to_the_target() {
    simulate(|env| {
        let db = open(env, false);
        put(&db, 0..KEYS);
        db.default_keyspace().compact_range(..).unwrap();
        put(&db, 0..KEYS / 2);
        db.close().unwrap();
        let db = open(env, false);
        only_read(env, &db);
        check_target(&db);
        db.close().unwrap();
    });
}

/// What was deleted is in tables only, so that nothing but a compaction frees it.
#[test]
fn one_that_only_reads_merges_tombstones_with_inline_values() {
    simulate(|env| {
        let db = open(env, false);
        let keyspace = inline(&db);
        put_into(&db, &keyspace, 0..KEYS);
        keyspace.compact_range(..).unwrap();
        delete_from(&db, &keyspace, 0..KEYS);
        db.close().unwrap();
        let db = open(env, false);
        only_read(env, &db);
        let allocated = db.space().unwrap().allocated;
        assert!(allocated <= LEAST_BYTES, "{allocated} bytes are left");
        db.close().unwrap();
    });
}
