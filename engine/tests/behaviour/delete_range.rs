//! Tests of range deletes: whom they conflict with, how their space comes back, what is refused.

use crate::common;
use cleavedb::{
    Comparator, Db, ErrorKind, Exchange, Expected, Keyspace, KeyspaceOptions, ReadOptions,
    Separation, Transaction, WriteBatch,
};
use std::cmp::Ordering;
use std::sync::Arc;

fn keys(keyspace: &Keyspace) -> Vec<String> {
    let text = |key: cleavedb::Result<Vec<u8>>| String::from_utf8(key.unwrap()).unwrap();
    keyspace.keys().map(text).collect()
}

fn policies() -> [KeyspaceOptions; 3] {
    [Separation::AtWrite, Separation::AtFlush, Separation::Off]
        .map(|separation| KeyspaceOptions { separation, ..common::tiny_keyspace() })
}

/// Opens a database with 2,000 keys in tables of several levels, and values of all sizes.
fn filled(dir: &std::path::Path, keyspace: KeyspaceOptions) -> (Db, Keyspace) {
    let db = common::open_with(dir, cleavedb::Options { keyspace, ..common::tiny() });
    let keyspace = db.default_keyspace();
    for number in 0..2000 {
        let key = common::key(number * 7919 % 2000);
        keyspace.put(&key, common::value(&key, 1, [10, 150, 600][number % 3])).unwrap();
    }
    (db, keyspace)
}

/// A transaction that has read a key, or walked over a range, conflicts with a range delete over
/// it, wherever that is by then.
#[test]
fn i06_what_was_read_conflicts_with_the_deletion_of_its_range() {
    for (flushes, many) in [(false, false), (true, false), (false, true), (true, true)] {
        let meanwhile = |db: &Db, keyspace: &Keyspace| {
            keyspace.delete_range("c".."e").unwrap();
            if many {
                common::write_many(keyspace);
            }
            if flushes {
                db.flush().unwrap();
            }
        };
        let conflicts =
            |read: &dyn Fn(&Transaction, &Keyspace)| common::conflicts(read, |_| (), meanwhile);
        assert!(conflicts(&|t, k| assert!(t.get(k, "d").unwrap().is_some())), "{flushes} {many}");
        assert!(conflicts(&|t, k| assert_eq!(t.range(k, "a".."e").count(), 2)));
        assert!(conflicts(&|t, k| assert_eq!(t.range(k, "d"..).count(), 2)));
        assert!(!conflicts(&|t, k| assert!(t.get(k, "b").unwrap().is_some())));
        assert!(!conflicts(&|t, k| assert_eq!(t.range(k, "e".."g").count(), 1)));
        assert!(!conflicts(&|t, k| assert_eq!(t.range(k, "a".."c").count(), 1)));
        assert!(!conflicts(&|_, _| {}));
    }
}

/// A compare-and-set never takes a version, or a value, that a range delete has removed.
#[test]
fn i06_a_deleted_range_is_compared_as_absent() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for flush in [false, true] {
        keyspace.put("k", "1").unwrap();
        let version = keyspace.get_versioned("k").unwrap().unwrap().version;
        keyspace.delete_range("a".."z").unwrap();
        if flush {
            db.flush().unwrap();
        }
        assert!(keyspace.get_versioned("k").unwrap().is_none());
        for stale in [Expected::Version(version), Expected::Value(b"1")] {
            let mut batch = WriteBatch::new();
            batch.require(&keyspace, "k", stale).put(&keyspace, "k", "2");
            assert_eq!(db.write(batch).unwrap_err().kind(), ErrorKind::Conflict);
        }
        let mut batch = WriteBatch::new();
        batch.require(&keyspace, "k", Expected::Absent).put(&keyspace, "k", "3");
        db.write(batch).unwrap();
        assert_eq!(keyspace.get("k").unwrap().unwrap(), "3");
        keyspace.delete_range("k"..="k").unwrap();
        assert!(matches!(keyspace.put_if_absent("k", "4").unwrap(), Exchange::Done(_)));
        keyspace.delete_prefix("k").unwrap();
        keyspace.update("k", |old| old.is_none().then_some("5")).unwrap();
        assert_eq!(keyspace.get("k").unwrap().unwrap(), "5");
    }
}

/// After everything was deleted and the database had time, nothing is left: no table, no segment
/// with values, and no range tombstone. No table is read for that.
#[test]
fn i06_tables_that_are_deleted_as_a_whole_go_without_being_read() {
    for options in policies() {
        let dir = common::dir_on_disk();
        let (db, keyspace) = filled(dir.path(), options.clone());
        db.compact().unwrap();
        let before = db.stats();
        assert!(before.keyspaces[0].table_entries >= 2000);
        keyspace.delete_range(..).unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let after = db.stats();
        let left = &after.keyspaces[0];
        assert_eq!((left.table_entries, left.range_tombstones), (0, 0), "{after}");
        assert_eq!(after.compaction_bytes_read, before.compaction_bytes_read, "no table is read");
        let referenced = after.segments.iter().map(|segment| segment.referenced_bytes);
        assert_eq!(referenced.sum::<u64>(), 0);
        assert!(db.check().unwrap().is_clean());
    }
}

/// A range tombstone stays while a snapshot needs what it hides, and goes once the snapshot is gone
/// and the tables at its ends are rewritten.
#[test]
fn i06_range_tombstones_stay_for_as_long_as_they_hide_something() {
    for options in policies() {
        let dir = common::dir_on_disk();
        let (db, keyspace) = filled(dir.path(), options);
        db.compact().unwrap();
        let snapshot = db.snapshot();
        keyspace.delete_range(common::key(500)..common::key(1500)).unwrap();
        keyspace.put(common::key(1000), "again").unwrap();
        db.compact().unwrap();
        assert_eq!(db.stats().keyspaces[0].range_tombstones, 1, "the snapshot sees what it hides");
        let old = keyspace.range_with(.., &ReadOptions::new().snapshot(&snapshot)).count();
        assert_eq!((old, keyspace.iter().count()), (2000, 1001));
        drop(snapshot);
        db.compact().unwrap();
        db.wait_idle().unwrap();
        let left = &db.stats().keyspaces[0];
        assert_eq!((left.range_tombstones, left.table_entries), (0, 1001), "{}", db.stats());
        assert_eq!(keyspace.iter().count(), 1001);
    }
}

/// A get and a scan do no I/O for what a range tombstone hides.
#[test]
fn deleted_ranges_are_not_read() {
    let dir = common::dir_on_disk();
    let (db, keyspace) = filled(dir.path(), policies()[2].clone());
    db.compact().unwrap();
    let snapshot = db.snapshot();
    keyspace.delete_range(common::key(10)..common::key(1990)).unwrap();
    db.flush().unwrap();
    // The snapshot keeps all of it in the tables.
    db.wait_idle().unwrap();
    let reads = |read: &dyn Fn()| {
        let before = db.stats().block_reads;
        read();
        db.stats().block_reads - before
    };
    let all = reads(&|| assert_eq!(keyspace.range_with(.., &at(&snapshot)).count(), 2000));
    let forward = reads(&|| assert_eq!(keyspace.iter().count(), 20));
    let backward = reads(&|| assert_eq!(keyspace.iter().rev().count(), 20));
    let gets = reads(&|| {
        for number in 100..1900 {
            assert!(keyspace.get(common::key(number)).unwrap().is_none());
        }
    });
    assert!(all > 40, "{all} reads in all");
    assert!(forward <= 6 && backward <= 6, "{forward} and {backward} of {all} reads");
    assert_eq!(gets, 0);
}

fn at(snapshot: &cleavedb::Snapshot) -> ReadOptions {
    ReadOptions::new().snapshot(snapshot)
}

/// An empty range, a range that ends before it begins, and one without keys.
#[test]
fn nothing_is_written_for_an_empty_range() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("b", "").unwrap();
    let before = db.visible_seqno();
    keyspace.delete_range("b".."b").unwrap();
    keyspace.delete_range("c".."a").unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_range(&keyspace, "z".."y");
    assert!(batch.is_empty());
    db.write(batch).unwrap();
    assert_eq!(db.visible_seqno(), before);
    keyspace.delete_range("x".."y").unwrap();
    assert_eq!(db.visible_seqno(), before + 1);
    assert_eq!(keys(&keyspace), ["b"]);
    let long = "x".repeat(65 << 10);
    let error = keyspace.delete_range("a"..&long[..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

/// Operations of a batch take effect in their order, in a keyspace each.
#[test]
fn operations_of_a_batch_take_effect_in_order() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let (one, two) = (db.default_keyspace(), db.create_keyspace("two").unwrap());
    two.put("b", "").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&one, "a", "").put(&one, "b", "").delete_range(&one, "b"..).put(&one, "c", "");
    db.write(batch).unwrap();
    assert_eq!((keys(&one), keys(&two)), (vec!["a".into(), "c".into()], vec!["b".into()]));
    drop((db, one, two));
    let db = common::open(dir.path());
    assert_eq!(keys(&db.default_keyspace()), ["a", "c"], "replayed");
}

/// Orders keys by their length, then backward.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "by-length"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| b.cmp(a))
    }
}

#[test]
fn ranges_follow_the_comparator() {
    let dir = common::dir();
    let open = || {
        let builder = Db::builder(dir.path()).options(common::tiny());
        builder.comparator("sized", Arc::new(ByLength)).open().unwrap()
    };
    let db = open();
    let keyspace = db.create_keyspace("sized").unwrap();
    for key in ["c", "b", "a", "cc", "bb", "aa", "aaa"] {
        keyspace.put(key, key).unwrap();
    }
    db.flush().unwrap();
    keyspace.delete_range("b"..="bb").unwrap();
    assert_eq!(keys(&keyspace), ["c", "aa", "aaa"]);
    db.compact().unwrap();
    assert_eq!(keys(&keyspace), ["c", "aa", "aaa"]);
    assert_eq!(keyspace.delete_prefix("a").unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop((db, keyspace));
    assert_eq!(keys(&open().keyspace("sized").unwrap()), ["c", "aa", "aaa"]);
}

/// A repair keeps deleted what was deleted, in tables and in the log: with the manifest, and
/// without, as long as the log has the deletions.
#[test]
fn a_repair_keeps_ranges_deleted() {
    repairs(false);
    repairs(true);
}

fn repairs(loses_manifest: bool) {
    let dir = common::dir();
    let (db, keyspace) = filled(dir.path(), policies()[0].clone());
    db.compact().unwrap();
    let snapshot = db.snapshot();
    keyspace.delete_range(common::key(0)..common::key(700)).unwrap();
    db.flush().unwrap();
    keyspace.delete_range(common::key(1300)..).unwrap();
    keyspace.put(common::key(1500), "again").unwrap();
    drop(snapshot);
    db.close().unwrap();
    std::fs::remove_file(dir.path().join("CURRENT")).unwrap();
    for manifest in common::files(dir.path(), "").iter().filter(|_| loses_manifest) {
        if manifest.file_name().unwrap().to_string_lossy().starts_with("MANIFEST") {
            std::fs::remove_file(manifest).unwrap();
        }
    }
    let report = Db::repair(dir.path()).unwrap();
    assert!(!report.was_healthy && report.lost_keys == 0, "{report:?}");
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().iter().count(), 601);
    assert!(db.default_keyspace().contains_key(common::key(1500)).unwrap());
}

/// Short sessions whose files are merged when they close: what each of them deletes stays deleted,
/// in tables that the merge leaves alone.
#[test]
fn i06_the_fold_of_short_sessions_keeps_ranges_deleted() {
    for options in policies() {
        let dir = common::dir();
        let (db, keyspace) = filled(dir.path(), options.clone());
        db.compact().unwrap();
        drop(keyspace);
        db.close().unwrap();
        for session in 0..12 {
            let options = cleavedb::Options { keyspace: options.clone(), ..common::tiny() };
            let db = common::open_with(dir.path(), options);
            let keyspace = db.default_keyspace();
            assert_eq!(keyspace.iter().count(), 2000 - 100 * session, "session {session}");
            let range = common::key(100 * session)..common::key(100 * session + 101);
            keyspace.delete_range(range).unwrap();
            // The first key of the next range is there again.
            keyspace.put(common::key(100 * session + 100), "again").unwrap();
            drop(keyspace);
            db.close().unwrap();
        }
    }
}

/// Prints how long the deletion of ten million keys takes, and scans across it, while it is in the
/// memtable, after the flush, and once tables are gone:
///
/// ```text
/// cargo test --release -p cleavedb --test behaviour -- --ignored --nocapture ten_million
/// ```
#[test]
#[ignore = "measures, and writes 400 MB to the directory for temporary files"]
fn measure_the_deletion_of_ten_million_keys() {
    const KEYS: u64 = 10_000_000;
    let dir = common::dir_on_disk();
    let db = cleavedb::open(dir.path()).unwrap();
    let keyspace = db.default_keyspace();
    for start in (0..KEYS).step_by(1000) {
        let mut batch = WriteBatch::new();
        for number in start..start + 1000 {
            // Prime to the number of keys, so that all come in an order like a random one.
            let key = number * 7_368_787 % KEYS;
            batch.put(&keyspace, key.to_be_bytes(), key.to_le_bytes());
        }
        db.write(batch).unwrap();
    }
    db.wait_idle().unwrap();
    let snapshot = db.snapshot();
    let timed = |what: &str, work: &dyn Fn()| {
        let begun = std::time::Instant::now();
        work();
        println!("{what:45} {:>9.3} ms", begun.elapsed().as_secs_f64() * 1e3);
    };
    let across = || {
        for range in [keyspace.iter().count(), keyspace.iter().rev().count()] {
            assert_eq!(range, 20);
        }
    };
    let get = || assert!(keyspace.get((KEYS / 2).to_be_bytes()).unwrap().is_none());
    timed("delete_range", &|| {
        keyspace.delete_range(10u64.to_be_bytes()..(KEYS - 10).to_be_bytes()).unwrap();
    });
    timed("two scans across, range in the memtable", &across);
    timed("again", &across);
    db.flush().unwrap();
    timed("two scans across, range flushed", &across);
    timed("again", &across);
    timed("get of a deleted key", &get);
    drop(snapshot);
    timed("until all tables are gone or rewritten", &|| {
        db.compact().unwrap();
        db.wait_idle().unwrap();
    });
    timed("two scans across what is left", &across);
    let stats = db.stats();
    println!("{} entries are left in tables", stats.keyspaces[0].table_entries);
}

/// What only a snapshot sees behind a range tombstone is pinned, not live.
#[test]
fn the_space_report_knows_what_only_a_snapshot_sees() {
    for options in policies() {
        let dir = common::dir();
        let (db, keyspace) = filled(dir.path(), options);
        let snapshot = db.snapshot();
        keyspace.delete_range(common::key(500)..).unwrap();
        for flushed in [false, true] {
            let space = &db.space().unwrap().keyspaces[0];
            assert_eq!((space.entries, space.pinned_entries), (500, 1500), "{flushed}");
            db.flush().unwrap();
        }
        drop(snapshot);
        let space = &db.space().unwrap().keyspaces[0];
        assert_eq!((space.entries, space.pinned_entries), (500, 0));
    }
}

/// A comparator that is no order: no key is even equal to itself. Nothing is promised of the
/// answers.
struct NoOrder;

impl Comparator for NoOrder {
    fn name(&self) -> &str {
        "none"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let sum = |key: &[u8]| key.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        [Ordering::Less, Ordering::Greater, Ordering::Equal][(sum(a) * 7 + sum(b)) as usize % 3]
    }
}

/// I7: range deletes in a keyspace whose comparator is no order neither panic nor hang.
#[test]
fn i07_a_comparator_that_is_no_order_does_no_harm() {
    let dir = common::dir();
    let open = || Db::builder(dir.path()).comparator("odd", Arc::new(NoOrder)).open();
    let db = open().unwrap();
    let odd = db.create_keyspace("odd").unwrap();
    for number in 0..200 {
        // Errors are allowed: tables may turn out to be in no order.
        drop(odd.put(common::key(number), "value"));
        drop(odd.delete_range(common::key(number * 3 % 200)..common::key(number * 5 % 200 + 1)));
        drop(odd.get(common::key(number)));
    }
    drop(odd.iter().take(1000).collect::<Vec<_>>());
    drop(odd.iter().rev().take(1000).collect::<Vec<_>>());
    drop(db.flush());
    drop(odd.iter().take(1000).collect::<Vec<_>>());
    drop((db, odd));
    drop(open());
}
