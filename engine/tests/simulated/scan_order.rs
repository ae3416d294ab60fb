//! Tests of the order of values that scans ask for: what is strewn is put in order in the
//! background, once scans have paid for it, and nothing else is. The decider's golden cases are
//! beside it.

use crate::client::{open, simulate, tiny_options};
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::{Db, GcOptions, KeyspaceOptions, Options, ReadOptions, Stats};
use std::time::Duration;

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 20_000_000;
const KEYS: usize = 1500;
/// Values so long that those of neighbouring keys are not read together by chance.
const VALUE_BYTES: usize = 1500;

fn options() -> Options {
    let keyspace = KeyspaceOptions {
        table_bytes: 8 << 10,
        memtable_bytes: 16 << 10,
        level_base_bytes: 32 << 10,
        ..tiny_options().keyspace
    };
    let gc = GcOptions { max_space_amplification: 2.0, ..GcOptions::default() };
    let (segment_bytes, max_replay_bytes) = (256 << 10, 1 << 20);
    Options { segment_bytes, max_replay_bytes, max_open_files: 64, keyspace, gc, ..tiny_options() }
}

fn key(number: usize) -> String {
    format!("key{number:05}")
}

/// Puts every key once, in an order that is not that of the keys.
fn load(db: &Db, version: usize) {
    let keyspace = db.default_keyspace();
    for number in 0..KEYS {
        let number = number * 677 % KEYS;
        keyspace.put(key(number), value(number + version, VALUE_BYTES)).unwrap();
    }
}

/// Reads everything and compares it with what was put. Returns the reads per hundred values.
fn scan(db: &Db, version: usize) -> u64 {
    let before = db.stats();
    let mut number = 0;
    for item in db.default_keyspace().iter() {
        let (found, stored) = item.unwrap();
        assert_eq!(found, key(number).into_bytes());
        assert!(stored[..] == value(number + version, VALUE_BYTES)[..], "{number}");
        number += 1;
    }
    assert_eq!(number, KEYS);
    let after = db.stats();
    let values = after.prefetched_values - before.prefetched_values;
    (after.prefetch_reads - before.prefetch_reads) * 100 / values
}

/// Gives the background time for what is due.
fn rest(env: &Env, db: &Db) -> Stats {
    for _ in 0..3 {
        env.threads.sleep(Duration::from_secs(3));
        db.wait_idle().unwrap();
    }
    db.stats()
}

/// Scans until values are in order, or so many times. Returns the reads per hundred values of the
/// last scan.
fn scan_and_rest(env: &Env, db: &Db, version: usize, times: usize) -> u64 {
    let mut reads = 100;
    for _ in 0..times {
        reads = scan(db, version);
        rest(env, db);
    }
    reads
}

/// Puts and scans, with a pause behind each, so that the store is never idle, until 100 values take
/// fewer than `enough` reads, or so many rounds. Returns the reads of the last one.
fn scan_while_writing(
    (env, db): (&Env, &Db),
    (rounds, pause): (usize, Duration),
    enough: u64,
) -> u64 {
    let mut reads = 100;
    for round in 0..rounds {
        db.default_keyspace().put(key(round), value(round, VALUE_BYTES)).unwrap();
        reads = scan(db, 0);
        if reads < enough {
            break;
        }
        env.threads.sleep(pause);
    }
    reads
}

#[test]
fn scans_of_strewn_values_bring_them_in_order_and_that_is_all() {
    for seed in 0..4 {
        simulate(seed, STEPS, |env, _| {
            let db = open(env, options());
            load(&db, 0);
            db.flush().unwrap();
            assert_eq!(rest(env, &db).scan_orders, 0, "nobody scans");
            let before = scan(&db, 0);
            assert!(before > 70, "{before} reads for 100 values: they are strewn");
            let after = scan_and_rest(env, &db, 0, 12);
            assert!(after < 20, "{after} reads for 100 values: they are in order");
            let stats = rest(env, &db);
            let (all, written) = ((KEYS * VALUE_BYTES) as u64, stats.scan_order_bytes_written);
            assert!(stats.scan_orders > 0 && stats.scan_order_nanos > 0);
            assert!((all / 2..all * 5 / 4).contains(&written), "{written} of {all}");
            assert!(db.check().unwrap().is_clean());
            // What is in order costs nothing any more.
            scan_and_rest(env, &db, 0, 6);
            assert_eq!(db.stats().scan_orders, stats.scan_orders);
            db.close().unwrap();
            let db = open(env, options());
            assert!(scan(&db, 0) < 20, "the order is kept");
        });
    }
}

#[test]
fn nothing_is_put_in_order_for_other_reads_or_if_it_is_switched_off() {
    simulate(5, STEPS, |env, _| {
        let db = open(env, options());
        load(&db, 0);
        db.flush().unwrap();
        for _ in 0..6 {
            for number in 0..KEYS {
                assert!(db.default_keyspace().get(key(number)).unwrap().is_some());
            }
            assert_eq!(db.default_keyspace().keys().count(), KEYS);
            rest(env, &db);
        }
        let stats = db.stats();
        assert_eq!((stats.scan_orders, stats.scan_cost_bytes), (0, 0));
        db.close().unwrap();
        let db = open(env, Options { scan_order: false, ..options() });
        scan_and_rest(env, &db, 0, 8);
        let stats = db.stats();
        assert_eq!((stats.scan_orders, stats.scan_cost_bytes), (0, 0));
        assert!(scan(&db, 0) > 70);
    });
}

/// A small store keeps garbage while it is written, up to `space_allowance_bytes`. Where so
/// much was kept that values could not be put in order below the ceiling, nothing was freed, and
/// nothing put in order, however long scans lost time to it.
#[test]
fn a_small_store_that_is_never_idle_frees_garbage_where_scans_wait_for_it() {
    let options = |allowance_mib: u64| {
        let gc = GcOptions { space_allowance_bytes: allowance_mib << 20, ..options().gc };
        let keyspace = KeyspaceOptions {
            table_bytes: 1 << 20,
            memtable_bytes: 256 << 10,
            level_base_bytes: 1 << 20,
            ..options().keyspace
        };
        Options { gc, keyspace, ..options() }
    };
    simulate(8, STEPS * 2, |env, _| {
        let db = open(env, options(64));
        load(&db, 0);
        // No segment is without a live value.
        for left in [[1, 2], [2, 2]] {
            let numbers = (0..KEYS).map(|number| number * 677 % KEYS);
            for number in numbers.filter(|number| left.contains(&(number % 3))) {
                db.default_keyspace().put(key(number), value(number, VALUE_BYTES)).unwrap();
            }
        }
        db.close().unwrap();
        let db = open(env, options(4));
        let reads = scan_while_writing((env, &db), (40, Duration::from_secs(1)), 20);
        assert!(reads < 20, "{reads} reads for 100 values");
        assert!(db.stats().scan_orders > 0);
        assert!(db.check().unwrap().is_clean());
    });
}

/// Value GC rests for two seconds after a piece was put in order, as segments die by themselves
/// then. Where the next piece waits for room, it must not.
#[test]
fn pieces_that_wait_for_room_follow_each_other() {
    let options = || {
        let gc =
            GcOptions { max_space_amplification: 1.8, space_allowance_bytes: 0, ..options().gc };
        let keyspace = KeyspaceOptions {
            memtable_bytes: 256 << 10,
            level_base_bytes: 1 << 20,
            ..options().keyspace
        };
        Options { gc, keyspace, segment_bytes: 512 << 10, ..options() }
    };
    simulate(9, STEPS * 2, |env, _| {
        let db = open(env, options());
        load(&db, 0);
        // No segment is without a live value.
        for number in (0..KEYS).map(|number| number * 677 % KEYS).filter(|number| number % 3 > 0) {
            db.default_keyspace().put(key(number), value(number, VALUE_BYTES)).unwrap();
        }
        let begun = env.clock.now();
        let reads = scan_while_writing((env, &db), (200, Duration::from_millis(200)), 25);
        let took = env.clock.now() - begun;
        assert!(reads < 25 && took < Duration::from_secs(1), "{reads} after {took:?}");
        assert!(db.check().unwrap().is_clean());
    });
}

/// Guards against a range that is rewritten again and again: where every value is overwritten
/// after each scan, scans have to pay for each rewriting.
#[test]
fn what_is_overwritten_as_fast_as_it_is_scanned_is_bounded_by_what_scans_lose() {
    simulate(6, STEPS * 3, |env, _| {
        let db = open(env, options());
        let (mut lost, mut before) = (0, 0);
        for round in 0..12 {
            load(&db, round);
            rest(env, &db);
            lost += KEYS as u64 * (16 << 10);
            scan(&db, round);
            let written = rest(env, &db).scan_order_bytes_written;
            assert!(written - before <= 2 * (KEYS * VALUE_BYTES) as u64, "round {round}");
            before = written;
        }
        assert!(2 * before <= lost, "{before} bytes were written for {lost}");
        assert!(db.check().unwrap().is_clean());
    });
}

#[test]
fn what_is_written_meanwhile_is_not_lost() {
    simulate(7, STEPS * 2, |env, _| {
        let db = open(env, options());
        load(&db, 0);
        db.flush().unwrap();
        let snapshot = db.snapshot();
        let mut written = 0;
        for round in 1..10 {
            scan(&db, 0);
            // The same values again, so that every scan knows what it has to see.
            for number in (round..KEYS).step_by(13) {
                let stored = value(number, VALUE_BYTES);
                db.default_keyspace().put(key(number), stored).unwrap();
            }
            written = rest(env, &db).scan_order_bytes_written;
        }
        assert!(written > 0);
        let options = ReadOptions::new().snapshot(&snapshot);
        assert_eq!(db.default_keyspace().iter_with(&options).count(), KEYS);
        drop(snapshot);
        assert!(db.check().unwrap().is_clean());
    });
}

#[test]
fn a_keyspace_that_is_dropped_while_its_values_are_put_in_order_leaves_nothing() {
    for seed in 0..6 {
        simulate(seed, STEPS, |env, _| {
            let db = open(env, options());
            load(&db, 0);
            let side = db.create_keyspace("side").unwrap();
            for number in 0..KEYS {
                let number = number * 677 % KEYS;
                side.put(key(number), value(number, VALUE_BYTES)).unwrap();
            }
            db.flush().unwrap();
            rest(env, &db);
            for _ in 0..2 + seed {
                assert_eq!(side.iter().count(), KEYS);
                env.threads.sleep(Duration::from_millis(700));
            }
            db.drop_keyspace("side").unwrap();
            drop(side);
            rest(env, &db);
            assert_eq!(db.stats().background_errors, 0);
            scan(&db, 0);
            assert!(db.check().unwrap().is_clean());
        });
    }
}
