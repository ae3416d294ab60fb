//! Tests of value GC: space of dead values is freed, and every read of a live value is unchanged.

use crate::common;
use cleavedb::{Db, GcOptions, KeyspaceOptions, Options, StallReason};
use std::path::Path;
use std::time::{Duration, Instant};

const KEYS: usize = 400;

/// Returns options with small segments, values separated from 64 bytes on, and no automatic GC.
fn by_hand() -> Options {
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    let keyspace = common::separating(Some(64));
    Options { gc, keyspace, ..common::tiny() }
}

fn put(db: &Db, number: usize, version: u64) {
    let key = common::key(number);
    db.default_keyspace().put(&key, common::value(&key, version, 700)).unwrap();
}

fn segments(dir: &Path) -> u64 {
    common::bytes_of(dir, ".seg")
}

/// Asserts that every key has the value of the version that `version_of` returns for it.
fn assert_values(db: &Db, version_of: impl Fn(usize) -> Option<u64>) {
    let keyspace = db.default_keyspace();
    for number in 0..KEYS {
        let key = common::key(number);
        let expected = version_of(number).map(|version| common::value(&key, version, 700));
        let found = keyspace.get(&key).unwrap().map(|value| value.to_vec());
        assert_eq!(found, expected, "{key}");
    }
    let expected = (0..KEYS).filter_map(|number| {
        let key = common::key(number);
        version_of(number).map(|version| {
            let value = common::value(&key, version, 700);
            (key.into_bytes(), value)
        })
    });
    assert!(common::pairs(&keyspace).into_iter().eq(expected), "a scan sees the same");
}

#[test]
fn dead_values_come_back_and_live_ones_stay() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), by_hand());
    (0..KEYS).for_each(|number| put(&db, number, 1));
    let once = segments(dir.path());
    for version in 2..8 {
        (0..KEYS).filter(|number| number % 7 != 0).for_each(|number| put(&db, number, version));
    }
    let version_of = |number: usize| Some(if number.is_multiple_of(7) { 1 } else { 7 });
    let before = segments(dir.path());
    assert!(before > once + once / 2, "{before} from {once}");
    let report = db.gc().unwrap();
    db.wait_idle().unwrap();
    assert!(report.segments_freed > 0 && report.values_moved > 0, "{report:?}");
    let after = segments(dir.path());
    assert!(after < before && after < once + once / 3, "{before} to {after}, live are {once}");
    assert_values(&db, version_of);
    assert!(db.check().unwrap().is_clean(), "{:?}", db.check().unwrap());
    drop(db);
    let db = common::open_with(dir.path(), by_hand());
    assert_values(&db, version_of);
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn again_and_again_one_hop_is_enough() {
    let dir = common::dir();
    let mut db = common::open_with(dir.path(), by_hand());
    (0..KEYS).for_each(|number| put(&db, number, 0));
    for round in 1..12 {
        // Some keys are written early and never again, so they are moved again and again.
        (0..KEYS).filter(|number| number % 13 >= round).for_each(|n| put(&db, n, round as u64));
        db.gc().unwrap();
        if round % 4 == 0 {
            drop(db);
            db = common::open_with(dir.path(), by_hand());
        }
        if round % 3 == 0 {
            db.compact().unwrap();
        }
        let version_of = |number: usize| Some((number % 13).min(round) as u64);
        assert_values(&db, version_of);
        assert!(db.check().unwrap().is_clean(), "{:?}", db.check().unwrap());
    }
}

#[test]
fn snapshots_and_cursors_see_what_they_saw() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), by_hand());
    let keyspace = db.default_keyspace();
    (0..KEYS).for_each(|number| put(&db, number, 1));
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    (0..KEYS).for_each(|number| put(&db, number, 2));
    let snapshot = db.snapshot();
    (0..KEYS).for_each(|number| put(&db, number, 3));
    (0..KEYS).step_by(2).for_each(|n| keyspace.delete(common::key(n)).unwrap());
    db.gc().unwrap();
    db.compact().unwrap();
    db.gc().unwrap();
    for number in 0..KEYS {
        let key = common::key(number);
        assert_eq!(cursor.key(), key.as_bytes());
        assert_eq!(&cursor.value().unwrap()[..], common::value(&key, 1, 700));
        cursor.next().unwrap();
        let options = cleavedb::ReadOptions::new().snapshot(&snapshot);
        let seen = keyspace.get_with(&key, &options).unwrap().unwrap();
        assert_eq!(&seen[..], common::value(&key, 2, 700));
    }
    drop((cursor, snapshot));
    db.compact().unwrap();
    db.gc().unwrap();
    assert_values(&db, |number| (number % 2 == 1).then_some(3));
    assert!(db.check().unwrap().is_clean(), "{:?}", db.check().unwrap());
}

#[test]
fn what_a_snapshot_kept_goes_after_it_though_nothing_is_written() {
    let dir = common::dir();
    let gc = GcOptions { max_space_amplification: 1.2, ..common::tiny().gc };
    let db = common::open_with(dir.path(), Options { gc, ..by_hand() });
    (0..KEYS).for_each(|number| put(&db, number, 1));
    let snapshot = db.snapshot();
    (0..KEYS).for_each(|number| put(&db, number, 2));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let pinned = segments(dir.path());
    drop(snapshot);
    db.wait_idle().unwrap();
    let after = segments(dir.path());
    assert!(after < pinned - pinned / 4, "{pinned} to {after}");
    assert_values(&db, |_| Some(2));
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn nothing_moves_while_gc_is_paused_or_off() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), by_hand());
    for version in 0..4 {
        (0..KEYS).filter(|n| n % 7 != 0 || version == 0).for_each(|n| put(&db, n, version));
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.stats().gc.segments_relocated, 0, "it is off");
    drop(db);
    // The ceiling makes value GC due, which takes no idle time, as settling would.
    let (max_space_amplification, space_allowance_bytes) = (1.3, 0);
    let gc = GcOptions { max_space_amplification, space_allowance_bytes, ..GcOptions::default() };
    let db = common::open_with(dir.path(), Options { gc, ..by_hand() });
    db.pause_gc();
    (0..KEYS).filter(|n| n % 7 != 0).for_each(|n| put(&db, n, 4));
    db.wait_idle().unwrap();
    let paused = db.stats().gc.segments_relocated;
    (0..KEYS).filter(|n| n % 7 != 0).for_each(|n| put(&db, n, 5));
    db.wait_idle().unwrap();
    assert_eq!(db.stats().gc.segments_relocated, paused, "it is paused");
    db.resume_gc();
    db.wait_idle().unwrap();
    assert!(db.stats().gc.segments_relocated > paused, "it goes on");
    assert_values(&db, |number| Some(if number % 7 == 0 { 0 } else { 5 }));
}

/// The memory of a liveness scan's list is bounded, but the list of one segment must always be
/// allowed, or nothing would ever be freed.
#[test]
fn a_segment_of_more_records_than_memory_is_for_is_freed() {
    let dir = common::dir();
    let gc = GcOptions { memory_bytes: 64 << 10, ..by_hand().gc };
    let db = common::open_with(dir.path(), Options { gc, segment_bytes: 4 << 20, ..by_hand() });
    let keyspace = db.default_keyspace();
    let value = |number: usize, version: u64| common::value(&common::key(number), version, 200);
    for number in 0..8000 {
        keyspace.put(common::key(number), value(number, 1)).unwrap();
    }
    for number in (0..8000).step_by(3) {
        keyspace.put(common::key(number), value(number, 2)).unwrap();
    }
    let report = db.gc().unwrap();
    assert!(report.segments_freed > 0 && report.values_moved > 2048, "{report:?}");
    for number in 0..8000 {
        let expected = value(number, if number % 3 == 0 { 2 } else { 1 });
        assert_eq!(keyspace.get(common::key(number)).unwrap().unwrap(), expected, "{number}");
    }
}

/// Before the first liveness scan begins it is not known what is garbage, and unknown garbage must
/// not stall writers.
#[test]
fn writers_of_a_store_just_opened_are_not_held_up() {
    let dir = common::dir();
    let put = |db: &Db, number: usize, version: u64| {
        let key = common::key(number);
        db.default_keyspace().put(&key, common::value(&key, version, 32 << 10)).unwrap();
    };
    let db = common::open_with(dir.path(), Options { segment_bytes: 4 << 20, ..by_hand() });
    (0..800).for_each(|number| put(&db, number, 1));
    (0..800).step_by(8).for_each(|number| put(&db, number, 2));
    db.flush().unwrap();
    db.compact().unwrap();
    drop(db);
    // Otherwise a store as small as this one is left in peace.
    let gc = GcOptions { space_allowance_bytes: 0, ..GcOptions::default() };
    let db = common::open_with(dir.path(), Options { segment_bytes: 4 << 20, gc, ..by_hand() });
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    for number in 0..30 {
        put(&db, number, 3);
        db.wait_idle().unwrap();
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    let stats = db.stats();
    // The database is idle once nobody writes for two seconds, and counts then.
    if longest.max(last.elapsed()) < Duration::from_secs(2) {
        assert_eq!(stats.gc.liveness_scans, 0, "there is no need for one yet");
    }
    let stall = stats.stalls.iter().find(|stall| stall.reason == StallReason::Space).unwrap();
    assert_eq!(stall.count, 0);
}

/// Guards against reading a whole store of inline values again and again, though nothing can be
/// freed that way.
#[test]
fn a_store_without_separated_values_is_never_read_for_its_garbage() {
    let dir = common::dir();
    let keyspace = common::separating(None);
    let gc = GcOptions { space_allowance_bytes: 0, ..GcOptions::default() };
    let db = common::open_with(dir.path(), Options { gc, keyspace, ..common::tiny() });
    for version in 1..20 {
        (0..KEYS).for_each(|number| put(&db, number, version));
    }
    db.wait_idle().unwrap();
    db.gc().unwrap();
    assert_values(&db, |_| Some(19));
    assert_eq!(db.stats().gc.liveness_scans, 0);
    // With the first values in segments, there may be something to free.
    let separated = common::separating(Some(64));
    db.default_keyspace().set_options(separated).unwrap();
    (0..KEYS).for_each(|number| put(&db, number, 20));
    db.flush().unwrap();
    db.gc().unwrap();
    assert!(db.stats().gc.liveness_scans > 0, "{}", db.stats());
    assert_values(&db, |_| Some(20));
}

/// Guards against a store that keeps to its ceiling only where values are separated: its levels
/// alone would let tables hide as much as is live, and more.
#[test]
fn a_store_without_separated_values_keeps_to_its_ceiling() {
    let dir = common::dir();
    let gc = GcOptions {
        max_space_amplification: 1.3,
        settled_space_amplification: 1.3,
        space_allowance_bytes: 0,
        ..GcOptions::default()
    };
    // L1 counts as four memtables at most; with a smaller one the store would have a level more.
    let keyspace = KeyspaceOptions {
        memtable_bytes: 16 << 20,
        table_bytes: 256 << 10,
        level_base_bytes: 64 << 20,
        ..common::separating(None)
    };
    let db = common::open_with(dir.path(), Options { gc, keyspace, ..Options::default() });
    let space = |version: u64, keys| {
        for number in keys {
            let key = common::key(number);
            db.default_keyspace().put(&key, common::value(&key, version, 1 << 10)).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let tables = &db.space().unwrap().keyspaces[0];
        (tables.live_bytes(), tables.table_bytes)
    };
    for version in 1..6 {
        // Fewer tables in L0 than make a compaction due, with the newer half of the values.
        let (live, tables) = space(version, if version == 1 { 0..40_000 } else { 0..22_000 });
        assert!(live >= 40_000 << 10, "the values are in tables");
        // A twentieth is left to what the sample of keys may be wrong about.
        assert!(tables <= live + live * 35 / 100, "{version}: {tables} bytes, {live} live");
    }
}

/// Creates a database with far more records than one liveness scan can list, and deletes half of
/// them. Returns it with its number of live bytes.
fn half_deleted(dir: &Path, automatic: bool) -> (Db, u64) {
    let gc = GcOptions {
        memory_bytes: 64 << 10,
        automatic,
        max_space_amplification: 1.3,
        ..common::tiny().gc
    };
    let max_replay_bytes = 1 << 20;
    let options = Options { gc, segment_bytes: 256 << 10, max_replay_bytes, ..by_hand() };
    let db = common::open_with(dir, options);
    let keyspace = db.default_keyspace();
    let keys = 30_000;
    for number in 0..keys {
        let key = common::key(number * 7919 % keys);
        keyspace.put(&key, common::value(&key, 1, 300)).unwrap();
    }
    (0..keys).step_by(2).for_each(|number| keyspace.delete(common::key(number)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for number in (1..keys).step_by(2).step_by(100) {
        let key = common::key(number);
        assert_eq!(keyspace.get(&key).unwrap().unwrap(), common::value(&key, 1, 300));
    }
    (db, keys as u64 / 2 * 310)
}

#[test]
fn what_one_liveness_scan_can_not_list_is_freed_as_well() {
    let dir = common::dir();
    let (db, live) = half_deleted(dir.path(), true);
    let segments = segments(dir.path());
    assert!(segments < live + live / 2, "{segments} for {live}: {}", db.stats().gc);
}

#[test]
fn what_one_liveness_scan_can_not_list_is_freed_by_hand_as_well() {
    let dir = common::dir();
    let (db, live) = half_deleted(dir.path(), false);
    let before = segments(dir.path());
    assert!(before > live * 19 / 10, "{before}");
    db.gc().unwrap();
    let after = segments(dir.path());
    assert!(after < live + live / 5, "{before} to {after} for {live}: {}", db.stats().gc);
}
