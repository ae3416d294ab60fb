//! The bound on indexes and filters in memory (`Options::max_index_and_filter_bytes`).

use crate::common::{dir, files, key, open_with, tiny, value};
use cleavedb::{Db, Options};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const KEYS: usize = 6000;
const BOUND: u64 = 8 << 10;
/// More than the index and filter of one table of these tests take.
const LARGEST: u64 = 2 << 10;
const READERS: usize = 4;

fn options(bound: u64) -> Options {
    let mut options = Options { max_index_and_filter_bytes: Some(bound), ..tiny() };
    // Its threads would read tables meanwhile.
    options.gc.automatic = false;
    options
}

/// Fills a database with more than 50 tables.
fn fill(path: &Path, bound: u64) -> Db {
    let db = open_with(path, options(bound));
    let keyspace = db.default_keyspace();
    for number in 0..KEYS {
        keyspace.put(key(number), value(&key(number), number as u64, 90)).unwrap();
    }
    db.compact().unwrap();
    assert!(files(path, ".tbl").len() > 50);
    db
}

fn assert_value(db: &Db, number: usize) {
    let found = db.default_keyspace().get(key(number)).unwrap().unwrap();
    assert_eq!(found, value(&key(number), number as u64, 90), "{number}");
}

#[test]
fn many_tables_are_read_within_a_tiny_bound() {
    let dir = dir();
    let db = fill(dir.path(), BOUND);
    for number in (0..KEYS).step_by(7) {
        assert_value(&db, number);
        let held = db.stats().index_and_filter_bytes;
        assert!(held <= BOUND, "{held} after a read of {number}");
    }
    assert_eq!(db.default_keyspace().iter().count(), KEYS);
    assert!(db.check().unwrap().is_clean());
    let stats = db.stats();
    assert!(stats.index_and_filter_bytes <= BOUND);
    assert_eq!(stats.index_and_filter_capacity_bytes, BOUND);
    assert!(stats.table_evictions > 50, "{}", stats.table_evictions);
    assert!(stats.table_opens > stats.table_evictions);
    // What cursors stand in is held beyond the bound, and only for as long as they live.
    let cursors: Vec<_> = (0..KEYS / 100)
        .map(|number| {
            let mut cursor = db.default_keyspace().cursor().unwrap();
            cursor.seek(key(number * 100)).unwrap();
            assert!(cursor.valid());
            cursor
        })
        .collect();
    assert!(db.stats().index_and_filter_bytes > BOUND);
    assert_value(&db, 17);
    drop(cursors);
    assert!(db.stats().index_and_filter_bytes <= BOUND);
}

#[test]
fn nothing_is_evicted_while_everything_fits() {
    let dir = dir();
    fill(dir.path(), BOUND).close().unwrap();
    let db = open_with(dir.path(), options(64 << 20));
    for _ in 0..2 {
        (0..KEYS).for_each(|number| assert_value(&db, number));
    }
    let stats = db.stats();
    assert_eq!(stats.table_evictions, 0);
    assert_eq!(stats.table_opens, files(dir.path(), ".tbl").len() as u64);
    assert!(stats.index_and_filter_bytes > BOUND);
    db.close().unwrap();
}

/// Runs threads that read every key many times, and `beside` while they do.
fn read_in_threads(db: &Db, beside: impl Fn() + Sync) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = |reader: usize| {
            (0..3000).for_each(|step| assert_value(db, (step * 997 + reader * 31) % KEYS));
        };
        let reading: Vec<_> = (0..READERS).map(|it| scope.spawn(move || read(it))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                beside();
                thread::yield_now();
            }
        });
        let ended: Vec<_> = reading.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Release);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}

#[test]
fn threads_that_read_at_once_hold_the_bound_and_what_they_read() {
    let dir = dir();
    for bound in [0, BOUND] {
        let db = fill(&dir.path().join(bound.to_string()), bound);
        let held = || db.stats().index_and_filter_bytes;
        // A point read holds one table, and frees another one after it made room: both at once, if
        // it is interrupted in between.
        let allowed = bound + 2 * READERS as u64 * LARGEST;
        read_in_threads(&db, || {
            let held = held();
            assert!(held <= allowed, "{held} of {allowed}");
        });
        assert!(held() <= bound, "{} of {bound} when nobody reads", held());
        db.close().unwrap();
    }
}

#[test]
fn tables_that_are_compacted_while_they_are_read_give_their_memory_back() {
    let dir = dir();
    let db = fill(dir.path(), BOUND);
    let other = db.create_keyspace("other").unwrap();
    let written = AtomicUsize::new(0);
    read_in_threads(&db, || {
        let number = written.fetch_add(1, Ordering::Relaxed) % KEYS;
        other.put(key(number), value(&key(number), number as u64, 90)).unwrap();
    });
    db.compact().unwrap();
    (0..KEYS).step_by(7).for_each(|number| assert_value(&db, number));
    let held = db.stats().index_and_filter_bytes;
    assert!(held <= BOUND, "{held} when nobody reads");
    db.close().unwrap();
}
