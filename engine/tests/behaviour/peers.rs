//! Bugs that users of other stores with separated values met in transactions, expiry, merging,
//! range deletes, ingest and filters, one test each. The name says whose bug it was; the comment,
//! what went wrong there and what holds here. They run where values are separated at the write, at
//! the flush, and never.
//!
//! | bug | test elsewhere |
//! |---|---|
//! | titan#18, values under merge operands | `merge::i04_what_operands_are_merged_with_is_live` |
//! | titan#93, flushed and not yet seen | `simulated/collect.rs` and `db/tests/` |
//! | fjall#198, drops seen by a snapshot | `simulated/expiry.rs`, `filters::i6_what_snapshots_…` |
//! | badger#1954, half of a transaction | `simulated/crash.rs` |
//! | badger#2286, deleted values come back | `simulated/peers.rs` |

use crate::common;
use cleavedb::{
    Codec, CompactionFilter, Db, FilterDecision, FilteredEntry, IngestOptions, Keyspace,
    KeyspaceOptions, Options, ReadOptions, Result, Separation, SortedFileOptions, SortedFileWriter,
    merge_operators,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MODES: [Separation; 3] = [Separation::AtWrite, Separation::AtFlush, Separation::Off];

fn options(separation: Separation) -> Options {
    let keyspace = KeyspaceOptions { separation, ..common::tiny_keyspace() };
    Options { keyspace, ..common::tiny() }
}

fn open(dir: &Path, separation: Separation) -> Db {
    common::open_with(dir, options(separation))
}

/// Runs a test with a new database in each mode.
fn in_each_mode(test: impl Fn(&Path, Separation)) {
    for separation in MODES {
        let dir = common::dir();
        test(&dir.path().join("store"), separation);
    }
}

fn value(number: usize, version: u64) -> Vec<u8> {
    common::value(&common::key(number), version, [30, 300, 3000][number % 3])
}

fn put_all(keyspace: &Keyspace, keys: usize, version: u64) {
    for number in 0..keys {
        keyspace.put(common::key(number), value(number, version)).unwrap();
    }
}

/// Moves everything down and frees what is garbage.
fn settle(db: &Db) {
    db.compact().unwrap();
    db.gc().unwrap();
    db.wait_idle().unwrap();
}

#[track_caller]
fn assert_sound(db: &Db) {
    let report = db.check().unwrap();
    assert!(!report.is_damaged(), "{:?}", report.problems);
}

/// titan#212: dropping the files of a range did not ask for snapshots, which then read values that
/// were gone. A range tombstone takes what no snapshot sees.
#[test]
fn titan_212_a_snapshot_reads_what_a_range_delete_has_taken() {
    in_each_mode(|dir, separation| {
        let db = open(dir, separation);
        let keyspace = db.default_keyspace();
        put_all(&keyspace, 300, 1);
        settle(&db);
        let snapshot = db.snapshot();
        keyspace.delete_range(common::key(50)..common::key(250)).unwrap();
        settle(&db);
        assert_eq!(keyspace.keys().count(), 100);
        let options = ReadOptions::new().snapshot(&snapshot);
        for number in 0..300 {
            let found = keyspace.get_with(common::key(number), &options).unwrap();
            assert_eq!(found.as_deref(), Some(&value(number, 1)[..]), "{separation:?}, {number}");
        }
        assert_eq!(keyspace.iter_with(&options).filter(Result::is_ok).count(), 300);
        drop((snapshot, options));
        settle(&db);
        assert_sound(&db);
    });
}

/// titan#336: what hid an older value was dropped with a whole file, or by a filter's skip, and the
/// older one, whose record had been freed, was read in its place. Each way to remove the newest
/// value removes those below it.
#[test]
fn titan_336_nothing_older_appears_where_the_newest_went() {
    type Remove = fn(&Keyspace, usize);
    let ways: [(&str, Remove); 4] = [
        ("delete", |keyspace, number| keyspace.delete(common::key(number)).unwrap()),
        ("delete_range", |keyspace, number| {
            keyspace.delete_range(common::key(number)..common::key(number + 1)).unwrap();
        }),
        ("expiry", |keyspace, number| {
            let key = common::key(number);
            keyspace.put_expiring(key, value(number, 3), Duration::ZERO).unwrap();
        }),
        ("compare_and_delete", |keyspace, number| {
            let newest = value(number, 2);
            let expected = cleavedb::Expected::Value(&newest);
            let done = keyspace.compare_and_delete(common::key(number), expected).unwrap();
            assert!(matches!(done, cleavedb::Exchange::Done(_)));
        }),
    ];
    for (way, remove) in ways {
        in_each_mode(|dir, separation| {
            let db = open(dir, separation);
            let keyspace = db.default_keyspace();
            put_all(&keyspace, 150, 1);
            // The first version lies deep, its newer one above it.
            settle(&db);
            put_all(&keyspace, 150, 2);
            db.flush().unwrap();
            (0..150).filter(|number| number % 2 == 0).for_each(|number| remove(&keyspace, number));
            let check = |db: &Db| {
                let keyspace = db.default_keyspace();
                for number in 0..150 {
                    let found = keyspace.get(common::key(number)).unwrap();
                    let expected = (number % 2 == 1).then(|| value(number, 2));
                    let found = found.map(|found| found.to_vec());
                    assert!(found == expected, "{way}, {separation:?}, {number}");
                }
                assert_eq!(keyspace.iter().filter(Result::is_ok).count(), 75);
            };
            check(&db);
            settle(&db);
            check(&db);
            db.close().unwrap();
            let db = open(dir, separation);
            check(&db);
            assert_sound(&db);
        });
    }
}

/// lsm-tree#286 and #320: clearing a keyspace with separated values broke its next opening, and
/// clearing it during a compaction poisoned locks. A range delete over everything is a write.
#[test]
fn lsm_tree_320_all_is_cleared_beside_jobs_and_opens_again() {
    in_each_mode(|dir, separation| {
        let db = open(dir, separation);
        for round in 0..6u64 {
            put_all(&db.default_keyspace(), 200, round);
            std::thread::scope(|scope| {
                let jobs = scope.spawn(|| {
                    db.compact().unwrap();
                    db.gc().unwrap();
                });
                db.default_keyspace().delete_range(..).unwrap();
                jobs.join().unwrap();
            });
            assert_eq!(db.default_keyspace().keys().count(), 0, "{separation:?}, {round}");
        }
        db.close().unwrap();
        let db = open(dir, separation);
        assert_eq!(db.default_keyspace().keys().count(), 0);
        put_all(&db.default_keyspace(), 10, 9);
        assert_sound(&db);
    });
}

/// tikv#15507: small files of values were never collected, so a store from which all was deleted
/// kept its size. After a range delete everything goes, without a call by hand.
#[test]
fn tikv_15507_small_files_go_with_what_is_deleted() {
    in_each_mode(|dir, separation| {
        let db = open(dir, separation);
        let keyspace = db.default_keyspace();
        for number in 0..40 {
            keyspace.put(common::key(number), common::value("k", 1, 2000)).unwrap();
            // Each flush leaves a small file.
            db.flush().unwrap();
        }
        keyspace.delete_range(..).unwrap();
        db.flush().unwrap();
        settle(&db);
        assert_eq!(common::files(dir, ".tbl").len(), 0, "{separation:?}");
        let report = db.space().unwrap();
        assert_eq!(report.live_bytes, 0, "{report}");
    });
}

/// pebble, commit 69780c3b7: what was ingested and waited to be flushed did not hold its files of
/// values, which were deleted as unused. Here the values of an ingest are held from the edit that
/// names them, whatever collects garbage at that moment.
#[test]
fn pebble_69780c3b7_ingested_values_stay_through_collections() {
    in_each_mode(|dir, separation| {
        let db = open(dir, separation);
        let keyspace = db.default_keyspace();
        put_all(&keyspace, 100, 1);
        std::thread::scope(|scope| {
            let jobs = scope.spawn(|| (0..20).for_each(|_| _ = db.gc().unwrap()));
            for version in 2..12 {
                let pairs = (0..100).map(|number| (common::key(number), value(number, version)));
                keyspace.ingest_sorted(pairs).unwrap();
                for number in (0..100).step_by(7) {
                    let found = keyspace.get(common::key(number)).unwrap().unwrap();
                    assert!(*found == value(number, version)[..], "{separation:?}, {number}");
                }
            }
            jobs.join().unwrap();
        });
        db.close().unwrap();
        let db = open(dir, separation);
        for (number, (key, found)) in common::pairs(&db.default_keyspace()).iter().enumerate() {
            assert!(*key == common::key(number).as_bytes() && *found == value(number, 11));
        }
        assert_sound(&db);
    });
}

/// lsm-tree#300: files that were moved said that their values were not compressed, and compressed
/// bytes were handed to users. Each record says how it is stored, through ingest and value GC from
/// and to every codec.
#[test]
fn lsm_tree_300_moved_values_keep_their_compression() {
    in_each_mode(|dir, separation| {
        let text = |number: usize| format!("{number} compresses well ").repeat(100);
        for (from, to) in [(Codec::Lz4, Codec::None), (Codec::None, Codec::Lz4)] {
            let dir = dir.join(format!("{from:?}"));
            let keyspace =
                KeyspaceOptions { separation, value_codec: to, ..common::tiny_keyspace() };
            let db = common::open_with(&dir, Options { keyspace, ..common::tiny() });
            let path = dir.with_extension("sorted");
            let options = SortedFileOptions { codec: from, ..SortedFileOptions::default() };
            let mut file = SortedFileWriter::create(&path, &options).unwrap();
            (0..200).for_each(|number| file.put(common::key(number), text(number)).unwrap());
            file.finish().unwrap();
            let keyspace = db.default_keyspace();
            keyspace.ingest(&[path], &IngestOptions::default()).unwrap();
            // Most of each segment becomes garbage, so that the rest moves.
            for number in (0..200).filter(|number| number % 5 != 0) {
                keyspace.put(common::key(number), "small").unwrap();
            }
            settle(&db);
            for number in (0..200).step_by(5) {
                let found = keyspace.get(common::key(number)).unwrap().unwrap();
                assert!(*found == *text(number).as_bytes(), "{separation:?}, {from:?}, {number}");
            }
            let moved = db.stats().gc.segments_relocated > 0;
            assert!(moved || separation == Separation::Off, "nothing moved: this shows less");
            assert_sound(&db);
        }
    });
}

/// Says that a value is that of its key, whatever was asked before.
struct OwnValue;

impl CompactionFilter for OwnValue {
    fn name(&self) -> &str {
        "test.OwnValue"
    }

    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
        let key = String::from_utf8_lossy(entry.key()).into_owned();
        // Every third value is not asked for, as a filter that looks at keys only.
        if key.as_bytes().last().is_some_and(|digit| digit % 3 == 0) {
            return Ok(FilterDecision::Keep);
        }
        let value = entry.value()?;
        assert!(value.starts_with(key.as_bytes()), "{key} was asked about another one's value");
        Ok(FilterDecision::Keep)
    }
}

/// rocksdb#10391: a filter that was asked about a key was given the separated value of the key
/// before it. Here the value belongs to the entry, and is read when it is asked for.
#[test]
fn rocksdb_10391_a_filter_sees_the_value_of_its_key() {
    in_each_mode(|dir, separation| {
        let filter = Arc::new(OwnValue);
        let builder = Db::builder(dir).options(options(separation));
        let db = builder.compaction_filter("default", filter).open().unwrap();
        let keyspace = db.default_keyspace();
        for version in 0..3 {
            put_all(&keyspace, 200, version);
            (0..200).step_by(9).for_each(|n| keyspace.delete(common::key(n)).unwrap());
            db.compact().unwrap();
        }
        assert_eq!(keyspace.keys().count(), 200 - 200usize.div_ceil(9));
        assert_sound(&db);
    });
}

/// leveldb#320: the versions of a key were split over two tables of a level, and a compaction took
/// the newer ones down first. For operands that would lose or repeat some: with tables of a few
/// entries and snapshots that keep all of them apart, each snapshot has its sum.
#[test]
fn leveldb_320_the_operands_of_a_key_stay_in_order() {
    in_each_mode(|dir, separation| {
        let db = open(dir, separation);
        let options = KeyspaceOptions {
            separation,
            table_bytes: 4 << 10,
            merge_operator: Some(merge_operators::APPEND.into()),
            ..common::tiny_keyspace()
        };
        let lists = db.create_keyspace_with("lists", options).unwrap();
        let mut taken = Vec::new();
        let mut expected = String::new();
        for round in 0..60 {
            let part = format!("{round},").repeat(1 + 4 * (round % 40));
            lists.merge("list", &part).unwrap();
            lists.merge("neighbour", &part).unwrap();
            expected += &part;
            taken.push((db.snapshot(), expected.clone()));
            if round % 7 == 6 {
                db.flush().unwrap();
            }
            if round % 20 == 19 {
                lists.compact_range("list".."listen").unwrap();
            }
        }
        for _ in 0..3 {
            for (snapshot, expected) in &taken {
                let options = ReadOptions::new().snapshot(snapshot);
                for key in ["list", "neighbour"] {
                    let found = lists.get_with(key, &options).unwrap().unwrap();
                    assert!(*found == *expected.as_bytes(), "{separation:?}, {key}");
                }
            }
            taken.truncate(taken.len() / 2);
            settle(&db);
        }
    });
}

/// badger#1422 and #464: a tombstone was dropped after a look at some of the tables that it may
/// hide something in. A range tombstone is kept while any of them is left.
#[test]
fn badger_1422_a_tombstone_stays_while_it_hides_something() {
    in_each_mode(|dir, separation| {
        let db = open(dir, separation);
        let keyspace = db.default_keyspace();
        // Old versions lie in several levels, with gaps between them.
        for version in 0..4 {
            for number in (0..400).filter(|number| number % 4 == version as usize) {
                keyspace.put(common::key(number), value(number, version)).unwrap();
            }
            keyspace.compact_range(common::key(100 * version as usize)..).unwrap();
        }
        keyspace.delete_range(common::key(10)..common::key(390)).unwrap();
        db.flush().unwrap();
        for from in (0..400).step_by(40).rev() {
            keyspace.compact_range(common::key(from)..common::key(from + 40)).unwrap();
            assert_eq!(keyspace.keys().count(), 20, "{separation:?}, {from}");
        }
        db.gc().unwrap();
        db.close().unwrap();
        let db = open(dir, separation);
        assert_eq!(db.default_keyspace().keys().count(), 20);
        assert_sound(&db);
    });
}
