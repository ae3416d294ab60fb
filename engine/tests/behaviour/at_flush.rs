//! Separation at flush: large values go to sorted segments when their memtable is flushed, and the
//! log holds nothing that is needed after that.

use crate::common;
use cleavedb::{
    Codec, Db, GcOptions, KeyspaceOptions, Options, ReadOptions, SegmentStats, Separation,
};
use std::path::Path;

const POLICIES: [Separation; 4] =
    [Separation::AtWrite, Separation::AtFlush, Separation::Off, Separation::Auto];

fn keyspace(separation: Separation) -> KeyspaceOptions {
    KeyspaceOptions { separation, ..common::tiny_keyspace() }
}

/// Returns options without automatic GC, so that only flushes write sorted segments.
fn options(keyspace: KeyspaceOptions) -> Options {
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    Options { gc, keyspace, ..common::tiny() }
}

fn open(dir: &Path, keyspace: KeyspaceOptions) -> Db {
    common::open_with(dir, options(keyspace))
}

/// Returns the statistics of the sorted segments, and of those of the log.
fn segments(db: &Db) -> (Vec<SegmentStats>, Vec<SegmentStats>) {
    let space = db.space().unwrap();
    let sorted: Vec<u64> = space.segments.iter().filter(|it| it.sorted).map(|it| it.id).collect();
    db.stats().segments.into_iter().partition(|segment| sorted.contains(&segment.id))
}

/// Returns the number of records that tables reference in sorted segments, and in those of the log.
fn referenced(db: &Db) -> (u64, u64) {
    let (sorted, log) = segments(db);
    let sum = |segments: Vec<SegmentStats>| segments.iter().map(|it| it.referenced_records).sum();
    (sum(sorted), sum(log))
}

#[test]
fn a_flush_separates_large_values_and_the_log_goes() {
    let dir = common::dir();
    let db = open(dir.path(), keyspace(Separation::AtFlush));
    let default = db.default_keyspace();
    for number in 0..100 {
        common::put_value(&default, number, 1, if number % 2 == 0 { 400 } else { 99 });
    }
    db.flush().unwrap();
    assert_eq!(referenced(&db), (50, 0));
    db.wait_idle().unwrap();
    // The log had several segments. Only the active one is left, in which the head lies.
    let left = db.space().unwrap().segments.into_iter().filter(|segment| !segment.sorted);
    assert!(left.clone().count() <= 2 && left.clone().all(|segment| segment.replay));
    let (sorted, log) = segments(&db);
    assert!(
        sorted.iter().chain(&log).all(|segment| segment.referenced_records > 0 || !segment.sealed)
    );
    drop(default);
    db.close().unwrap();
    let db = open(dir.path(), keyspace(Separation::AtFlush));
    let default = db.default_keyspace();
    for number in 0..100 {
        common::expect_value(&default, number, 1, if number % 2 == 0 { 400 } else { 99 });
    }
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn what_is_overwritten_in_the_memtable_never_reaches_a_segment() {
    let dir = common::dir();
    let settings = KeyspaceOptions { memtable_bytes: 1 << 20, ..keyspace(Separation::AtFlush) };
    let db =
        common::open_with(dir.path(), Options { max_replay_bytes: 1 << 20, ..options(settings) });
    let default = db.default_keyspace();
    for version in 1..=20 {
        (0..10).for_each(|number| common::put_value(&default, number, version, 1000));
    }
    (5..10).for_each(|number| default.delete(common::key(number)).unwrap());
    db.flush().unwrap();
    assert_eq!(referenced(&db), (5, 0));
    let sorted: u64 = segments(&db).0.iter().map(|segment| segment.bytes).sum();
    assert!(sorted < 6 * 1000, "{sorted} bytes of five values");
    (0..5).for_each(|number| common::expect_value(&default, number, 20, 1000));
    assert_eq!(common::pairs(&default).len(), 5);
}

#[test]
fn a_version_that_only_a_snapshot_sees_is_separated_too() {
    let dir = common::dir();
    let db = open(dir.path(), keyspace(Separation::AtFlush));
    let default = db.default_keyspace();
    common::put_value(&default, 1, 1, 500);
    let snapshot = db.snapshot();
    common::put_value(&default, 1, 2, 500);
    common::put_value(&default, 1, 3, 500);
    db.flush().unwrap();
    assert_eq!(referenced(&db), (2, 0));
    common::expect_value(&default, 1, 3, 500);
    let then = ReadOptions::new().snapshot(&snapshot);
    let key = common::key(1);
    let seen = default.get_with(&key, &then).unwrap().unwrap();
    assert_eq!(seen, common::value(&key, 1, 500));
    drop((snapshot, then));
    db.compact().unwrap();
    assert_eq!(referenced(&db), (1, 0));
}

#[test]
fn values_are_compressed_where_it_pays() {
    let dir = common::dir();
    let settings = KeyspaceOptions {
        value_codec: Codec::Lz4,
        value_compression_min_bytes: 300,
        ..keyspace(Separation::AtFlush)
    };
    let db = open(dir.path(), settings);
    let default = db.default_keyspace();
    // One that compresses well, one that does not, and one that is too short to be tried.
    default.put("even", vec![b'z'; 8000]).unwrap();
    common::put_value(&default, 1, 1, 8000);
    default.put("short", vec![b'z'; 299]).unwrap();
    db.flush().unwrap();
    let sorted: u64 = db.stats().segments.iter().map(|segment| segment.referenced_bytes).sum();
    assert!((8299..8299 + 300).contains(&sorted), "{sorted}");
    assert_eq!(default.get("even").unwrap().unwrap(), vec![b'z'; 8000]);
    assert_eq!(default.get("short").unwrap().unwrap(), vec![b'z'; 299]);
    common::expect_value(&default, 1, 1, 8000);
}

#[test]
fn a_large_flush_fills_several_segments() {
    let dir = common::dir();
    let settings = KeyspaceOptions { memtable_bytes: 1 << 20, ..keyspace(Separation::AtFlush) };
    let db =
        common::open_with(dir.path(), Options { max_replay_bytes: 1 << 20, ..options(settings) });
    let default = db.default_keyspace();
    (0..200).for_each(|number| common::put_value(&default, number * 77 % 200, 1, 1000));
    db.flush().unwrap();
    let lengths: Vec<u64> = segments(&db).0.iter().map(|segment| segment.bytes).collect();
    // Full segments have 16 KiB here.
    assert!((12..=14).contains(&lengths.len()), "{lengths:?}");
    assert!(lengths.iter().all(|&length| length < (16 << 10) + 1100), "{lengths:?}");
    assert_eq!(db.stats().keyspaces[0].levels[0].tables, 1);
    (0..200).for_each(|number| common::expect_value(&default, number, 1, 1000));
    assert!(db.check().unwrap().is_clean());
}

/// Each memtable is filled under one policy and flushed, or replayed, under another.
#[test]
fn the_policy_can_change_between_write_and_flush() {
    for before in POLICIES {
        for after in POLICIES {
            for reopens in [false, true] {
                let dir = common::dir();
                let mut db = open(dir.path(), keyspace(before));
                (0..40).for_each(|number| {
                    common::put_value(&db.default_keyspace(), number, 1, number * 10)
                });
                db.default_keyspace().set_options(keyspace(after)).unwrap();
                if reopens {
                    db.sync().unwrap();
                    drop(db);
                    db = open(dir.path(), keyspace(before));
                    assert_eq!(db.default_keyspace().options().separation, after);
                }
                let default = db.default_keyspace();
                (40..80).for_each(|number| common::put_value(&default, number, 1, number * 10));
                db.flush().unwrap();
                assert!(db.check().unwrap().is_clean());
                (0..80).for_each(|number| common::expect_value(&default, number, 1, number * 10));
                (0..80).step_by(2).for_each(|number| common::put_value(&default, number, 2, 300));
                db.compact().unwrap();
                db.gc().unwrap();
                assert!(db.check().unwrap().is_clean());
                drop(default);
                db.close().unwrap();
                let db = open(dir.path(), keyspace(before));
                for number in 0..80 {
                    let (version, bytes) =
                        if number % 2 == 0 { (2, 300) } else { (1, number * 10) };
                    common::expect_value(&db.default_keyspace(), number, version, bytes);
                }
            }
        }
    }
}

/// Guards against a replay that takes many times the memory that the writer had: a log of values
/// that compress well would become as many inline ones.
#[test]
fn a_replay_leaves_compressed_values_in_the_log_whatever_the_policy_is() {
    for after in [Separation::AtFlush, Separation::Off] {
        let dir = common::dir();
        let settings = KeyspaceOptions { value_codec: Codec::Lz4, ..keyspace(Separation::AtWrite) };
        let db = open(dir.path(), settings.clone());
        let default = db.default_keyspace();
        (0..10).for_each(|number| default.put([number], [number; 20_000]).unwrap());
        default.set_options(KeyspaceOptions { separation: after, ..settings.clone() }).unwrap();
        db.sync().unwrap();
        drop((default, db));
        let db = open(dir.path(), settings);
        let default = db.default_keyspace();
        db.flush().unwrap();
        assert_eq!(referenced(&db), (0, 10), "{after:?}");
        (0..10).for_each(|number| {
            assert_eq!(default.get([number]).unwrap().unwrap(), [number; 20_000]);
        });
        assert!(db.check().unwrap().is_clean());
    }
}

/// The answers that a user gets from a run of one script.
fn answers(settings: KeyspaceOptions) -> Vec<(Vec<u8>, Vec<u8>)> {
    let dir = common::dir();
    let mut found = Vec::new();
    let mut db = open(dir.path(), settings.clone());
    let mut chance = common::rng::Rng::new(7);
    for round in 0..6 {
        let default = db.default_keyspace();
        let snapshot = db.snapshot();
        let then = ReadOptions::new().snapshot(&snapshot);
        let before = common::pairs(&default);
        for _ in 0..150 {
            let number = chance.below(60);
            match chance.below(5) {
                0 => default.delete(common::key(number)).unwrap(),
                1 => default.put(common::key(number), vec![round as u8; 2000]).unwrap(),
                _ => {
                    let (version, bytes) = (chance.next(), chance.below(1500));
                    common::put_value(&default, number, version, bytes);
                }
            }
        }
        match round {
            1 => db.compact().unwrap(),
            3 => drop(db.gc().unwrap()),
            4 => default.reorganize(..).unwrap(),
            _ => db.flush().unwrap(),
        }
        let old = default.iter_with(&then).map(|pair| pair.unwrap());
        assert!(old.map(|(key, value)| (key, value.into_vec())).eq(before.iter().cloned()));
        found.extend(before);
        found.extend(common::pairs(&default));
        assert!(db.check().unwrap().is_clean());
        drop((default, snapshot, then));
        if round % 2 == 0 {
            db.close().unwrap();
            db = open(dir.path(), settings.clone());
        }
    }
    found
}

#[test]
fn one_script_gives_the_same_answers_under_each_policy() {
    let expected = answers(keyspace(Separation::Off));
    assert!(expected.len() > 400);
    for separation in POLICIES {
        for separation_threshold in [0, 100, 1000] {
            for codec in [Codec::None, Codec::Lz4] {
                let settings = KeyspaceOptions {
                    separation_threshold,
                    value_codec: codec,
                    block_codec: codec,
                    value_compression_min_bytes: 64,
                    ..keyspace(separation)
                };
                assert!(answers(settings.clone()) == expected, "{settings:?}");
            }
        }
    }
}

#[test]
fn sessions_with_one_value_each_leave_few_files() {
    let dir = common::dir();
    for number in 0..100 {
        let db = open(dir.path(), keyspace(Separation::AtFlush));
        common::put_value(&db.default_keyspace(), number, 1, 500);
        db.close().unwrap();
    }
    let files = common::files(dir.path(), ".seg").len() + common::files(dir.path(), ".tbl").len();
    assert!(files < 30, "{files} files");
    let db = open(dir.path(), keyspace(Separation::AtFlush));
    (0..100).for_each(|number| common::expect_value(&db.default_keyspace(), number, 1, 500));
}

#[test]
fn a_checkpoint_and_a_repair_keep_all_values() {
    let dir = common::dir();
    let copy = dir.path().join("copy");
    let db = open(&dir.path().join("db"), keyspace(Separation::AtFlush));
    let default = db.default_keyspace();
    (0..100).for_each(|number| common::put_value(&default, number, 1, 300));
    db.flush().unwrap();
    // These are in the log only.
    (50..120).for_each(|number| common::put_value(&default, number, 2, 300));
    db.checkpoint(&copy).unwrap();
    (0..120).for_each(|number| default.delete(common::key(number)).unwrap());
    db.compact().unwrap();
    db.gc().unwrap();
    let expect_all = |db: &Db| {
        for number in 0..120 {
            common::expect_value(
                &db.default_keyspace(),
                number,
                if number < 50 { 1 } else { 2 },
                300,
            );
        }
        assert!(db.check().unwrap().is_clean());
    };
    let db = open(&copy, keyspace(Separation::AtFlush));
    expect_all(&db);
    db.sync().unwrap();
    drop(db);
    // Without its manifest, the store has to be rebuilt from its other files.
    common::files(&copy, ".man").iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let report = Db::builder(&copy).options(options(keyspace(Separation::AtFlush))).repair();
    let report = report.unwrap();
    assert_eq!((report.keys, report.lost_keys), (120, 0), "{report:?}");
    let db = open(&copy, keyspace(Separation::AtFlush));
    assert_eq!(db.default_keyspace().options().separation, Separation::AtFlush);
    expect_all(&db);
}
