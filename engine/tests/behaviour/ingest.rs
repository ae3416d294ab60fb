//! Tests of ingest: what readers, snapshots and transactions see of it, where it goes, and what is
//! refused.

use crate::common::rng::Rng;
use crate::common::{self, TempDir};
use cleavedb::{
    Changed, Comparator, Db, ErrorKind, Expected, IngestOptions, IngestReport, Keyspace,
    KeyspaceOptions, Options, ReadOptions, Separation, SortedFileOptions, SortedFileWriter,
    Transaction, WriteBatch,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::{Duration, SystemTime};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn policies() -> [KeyspaceOptions; 3] {
    [Separation::AtWrite, Separation::AtFlush, Separation::Off]
        .map(|separation| KeyspaceOptions { separation, ..common::tiny_keyspace() })
}

fn open(dir: &Path, keyspace: KeyspaceOptions) -> (Db, Keyspace) {
    let db = common::open_with(dir, Options { keyspace, ..common::tiny() });
    let keyspace = db.default_keyspace();
    (db, keyspace)
}

fn sized(number: usize) -> usize {
    [10, 150, 600][number % 3]
}

/// Returns the pairs of some keys in version `version`.
fn some(numbers: impl Iterator<Item = usize>, version: u64) -> Map {
    let pair = |number| {
        let key = common::key(number);
        (key.clone().into_bytes(), common::value(&key, version, sized(number + version as usize)))
    };
    numbers.map(pair).collect()
}

/// Returns the pairs of the first `count` keys, with values of one length.
fn all(count: usize, version: u64, bytes: usize) -> Map {
    let pair = |number| {
        let key = common::key(number);
        (key.clone().into_bytes(), common::value(&key, version, bytes))
    };
    (0..count).map(pair).collect()
}

fn map_of(keyspace: &Keyspace) -> Map {
    common::pairs(keyspace).into_iter().collect()
}

fn map_at(keyspace: &Keyspace, options: &ReadOptions) -> Map {
    let pair = |item: cleavedb::Result<(Vec<u8>, cleavedb::Value)>| {
        item.map(|(key, value)| (key, value.into_vec())).unwrap()
    };
    keyspace.iter_with(options).map(pair).collect()
}

/// Reads everything forward, backward and key by key.
#[track_caller]
fn check(keyspace: &Keyspace, wanted: &Map) {
    assert!(map_of(keyspace) == *wanted, "a scan sees something else");
    let backward: Vec<_> = keyspace.keys().rev().map(|key| key.unwrap()).collect();
    assert!(backward.iter().eq(wanted.keys().rev()), "a scan backward sees something else");
    for number in 0..2100 {
        let key = common::key(number).into_bytes();
        let found = keyspace.get(&key).unwrap();
        assert_eq!(found.as_deref(), wanted.get(&key).map(Vec::as_slice), "{number}");
    }
}

fn write_file(path: &Path, map: &Map, options: &SortedFileOptions) -> PathBuf {
    let mut file = SortedFileWriter::create(path, options).unwrap();
    map.iter().for_each(|(key, value)| file.put(key, value).unwrap());
    file.finish().unwrap();
    path.to_path_buf()
}

fn ingest(keyspace: &Keyspace, map: &Map) -> IngestReport {
    keyspace.ingest_sorted(map).unwrap()
}

/// What is ingested replaces what was there, in memory and in tables of every level, and stays
/// through flushes, compactions, value GC and openings; a snapshot from before sees what was.
#[test]
fn i06_what_is_ingested_is_newest_and_snapshots_stay_exact() {
    for options in policies() {
        let dir = common::dir();
        let (mut db, mut keyspace) = open(dir.path(), options.clone());
        let mut wanted = Map::new();
        for round in 1..7u64 {
            let old = some((0..2000).filter(|number| number % 7 != round as usize), round * 10);
            for (key, value) in &old {
                keyspace.put(key, value).unwrap();
            }
            wanted.extend(old);
            match round {
                1 => db.flush().unwrap(),
                2 => db.compact().unwrap(),
                _ => {}
            }
            let snapshot = db.snapshot();
            let before = wanted.clone();
            let from = round as usize * 100;
            let new = some((from..from + 1200).step_by(3), round * 10 + 1);
            let report = ingest(&keyspace, &new);
            assert_eq!(report.entries, 400);
            assert_eq!(report.seqno, Some(db.visible_seqno()));
            wanted.extend(new);
            check(&keyspace, &wanted);
            let then = ReadOptions::new().snapshot(&snapshot);
            assert!(map_at(&keyspace, &then) == before, "a snapshot changed");
            for number in 0..10 {
                let key = common::key(from + number);
                let found = keyspace.get_with(&key, &then).unwrap();
                let expected = before.get(key.as_bytes()).map(Vec::as_slice);
                assert_eq!(found.as_deref(), expected, "{key}");
            }
            let cursor = &mut keyspace.cursor_with(&then).unwrap();
            cursor.seek_for_prev(common::key(from + 3)).unwrap();
            let last = before.range(..=common::key(from + 3).into_bytes()).next_back();
            assert_eq!(Some(cursor.key()), last.map(|(key, _)| &key[..]));
            for number in [from, from + 1, from + 600] {
                let (key, value) = (common::key(number), common::value("x", round, 200));
                keyspace.put(&key, &value).unwrap();
                wanted.insert(key.into_bytes(), value);
            }
            check(&keyspace, &wanted);
            match round {
                3 => db.compact().unwrap(),
                4 => drop(db.gc().unwrap()),
                _ => db.flush().unwrap(),
            }
            assert!(map_at(&keyspace, &then) == before, "a snapshot changed");
            drop(snapshot);
            check(&keyspace, &wanted);
            assert!(db.check().unwrap().is_clean(), "{:?}", db.check().unwrap().problems);
            if round % 2 == 0 {
                drop(keyspace);
                db.close().unwrap();
                (db, keyspace) = open(dir.path(), options.clone());
                check(&keyspace, &wanted);
            }
        }
        db.gc().unwrap();
        db.compact().unwrap();
        check(&keyspace, &wanted);
        assert!(db.check().unwrap().is_clean());
    }
}

/// Into an empty range of keys, tables go as deep as possible, and are not written again.
#[test]
fn tables_go_to_the_deepest_level_that_is_free() {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), common::separating(None));
    let report = ingest(&keyspace, &some(500..1000, 1));
    assert!(report.tables > 3 && report.level == 6, "{report:?}");
    keyspace.put(common::key(700), "in the middle").unwrap();
    let report = ingest(&keyspace, &some(600..800, 2));
    assert_eq!(report.level, 0, "{report:?}");
    let newest = common::value(&common::key(700), 2, sized(702));
    assert_eq!(keyspace.get(common::key(700)).unwrap().unwrap(), newest);
    let report = ingest(&keyspace, &some(1000..1200, 2));
    assert_eq!(report.level, 6, "{report:?}");
    assert_eq!(db.stats().ingests, 3);
    assert_eq!(db.stats().entries_ingested, 900);
}

/// Many tables that have to go to L0 are one sorted run there, so nobody is held up for them. They
/// are compacted once there are enough runs.
#[test]
fn many_tables_in_l0_hold_nobody_up() {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), common::separating(None));
    let mut wanted = some(0..2000, 1);
    keyspace.put(common::key(0), "first").unwrap();
    keyspace.put(common::key(1999), "last").unwrap();
    db.flush().unwrap();
    let report = ingest(&keyspace, &wanted);
    assert!(report.level == 0 && report.tables > 40, "{report:?}");
    let stalls = |db: &Db| db.stats().stalls.iter().map(|stall| stall.count).sum::<u64>();
    keyspace.put("x", "y").unwrap();
    assert_eq!(stalls(&db), 0);
    wanted.insert(b"x".to_vec(), b"y".to_vec());
    for _ in 0..10 {
        keyspace.put("x", "y").unwrap();
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    let left = keyspace.tables().iter().filter(|table| table.level == 0).count();
    assert!(left < 10, "{left} tables of L0 are left");
    check(&keyspace, &wanted);
}

/// An ingest that is larger than L1 may be, over older data and beside newer: it goes down in
/// several jobs, the older data first, and what is newer stays above.
#[test]
fn i06_a_large_ingest_goes_down_in_pieces() {
    let dir = common::dir();
    let keyspace = KeyspaceOptions { level_base_bytes: 64 << 10, ..common::separating(None) };
    let (db, keyspace) = open(dir.path(), keyspace);
    let mut wanted = some(0..2000, 1);
    (0..2000).step_by(2).for_each(|number| {
        keyspace.put(common::key(number), "old").unwrap();
    });
    db.flush().unwrap();
    let mut ingestion = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
    wanted.iter().for_each(|(key, value)| ingestion.put(key, value).unwrap());
    let before = db.stats().compactions + db.stats().trivial_moves;
    let report = ingestion.finish().unwrap();
    assert!(report.level == 0 && report.bytes_written > 4 * (64 << 10), "{report:?}");
    (0..2000).step_by(3).for_each(|number| {
        keyspace.put(common::key(number), "new").unwrap();
        wanted.insert(common::key(number).into_bytes(), b"new".to_vec());
    });
    check(&keyspace, &wanted);
    db.flush().unwrap();
    check(&keyspace, &wanted);
    db.wait_idle().unwrap();
    let jobs = db.stats().compactions + db.stats().trivial_moves - before;
    assert!(jobs > 4, "{jobs} jobs");
    check(&keyspace, &wanted);
    db.compact().unwrap();
    check(&keyspace, &wanted);
    assert!(db.check().unwrap().is_clean());
}

/// What an ingest replaces is garbage, although nobody puts anything.
#[test]
fn gc_frees_what_is_ingested_over() {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    let wanted = all(4000, 1, 600);
    ingest(&keyspace, &wanted);
    db.gc().unwrap();
    let once = common::bytes_of(dir.path(), ".seg");
    // A few values of each segment stay, so none goes without being collected.
    let most = || wanted.iter().enumerate().filter(|(number, _)| number % 9 > 0);
    for _ in 0..2 {
        keyspace.ingest_sorted(most().map(|(_, pair)| pair)).unwrap();
    }
    db.compact().unwrap();
    db.wait_idle().unwrap();
    let now = common::bytes_of(dir.path(), ".seg");
    assert!(now < once + once / 2, "{now} bytes, once {once}");
    check(&keyspace, &wanted);
}

/// A transaction that has read a key, or walked over a range, conflicts with the ingest of it,
/// wherever that is by then.
#[test]
fn i06_what_was_read_conflicts_with_what_is_ingested() {
    for (flushes, many, compacts) in
        [(false, false, false), (true, false, false), (false, true, false), (true, true, true)]
    {
        let meanwhile = |db: &Db, keyspace: &Keyspace| {
            keyspace.ingest_sorted([("c", "new"), ("d", "new")]).unwrap();
            if many {
                common::write_many(keyspace);
            }
            if flushes {
                db.flush().unwrap();
            }
            if compacts {
                db.compact().unwrap();
            }
        };
        let conflicts = |read: &dyn Fn(&Transaction, &Keyspace)| {
            common::conflicts(read, |db| db.flush().unwrap(), meanwhile)
        };
        assert!(conflicts(&|t, k| assert!(t.get(k, "d").unwrap().is_some())), "{flushes} {many}");
        assert!(conflicts(&|t, k| assert!(t.get(k, "c").unwrap().is_none())));
        assert!(conflicts(&|t, k| assert_eq!(t.range(k, "a".."e").count(), 2)));
        assert!(!conflicts(&|t, k| assert!(t.get(k, "b").unwrap().is_some())));
        assert!(!conflicts(&|t, k| assert_eq!(t.range(k, "e".."g").count(), 1)));
        assert!(!conflicts(&|_, _| {}));
    }
}

/// A compare-and-set never takes a version, or a value, that an ingest has replaced.
#[test]
fn i06_a_version_from_before_is_not_taken() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for compact in [false, true] {
        keyspace.put("k", "1").unwrap();
        let version = keyspace.get_versioned("k").unwrap().unwrap().version;
        keyspace.ingest_sorted([("k", "2")]).unwrap();
        if compact {
            db.compact().unwrap();
        }
        let found = keyspace.get_versioned("k").unwrap().unwrap();
        assert_eq!((found.version, &found.value[..]), (db.visible_seqno(), &b"2"[..]));
        for stale in [Expected::Version(version), Expected::Value(b"1"), Expected::Absent] {
            let mut batch = WriteBatch::new();
            batch.require(&keyspace, "k", stale).put(&keyspace, "k", "3");
            assert_eq!(db.write(batch).unwrap_err().kind(), ErrorKind::Conflict);
        }
        let mut batch = WriteBatch::new();
        batch.require(&keyspace, "k", Expected::Version(found.version)).put(&keyspace, "k", "4");
        db.write(batch).unwrap();
    }
}

/// The update table knows the tables of entries that were flushed, and nothing of what was ingested
/// since: a read must not take its word then.
#[test]
fn i06_the_update_table_does_not_hide_what_was_ingested() {
    let dir = common::dir();
    let tables = KeyspaceOptions { filter_bits_per_key: 0, ..common::tiny().keyspace };
    let options = Options { update_table_bytes: 1 << 20, keyspace: tables, ..common::tiny() };
    let db = common::open_with(dir.path(), options);
    let keyspace = db.default_keyspace();
    let old = some(0..300, 1);
    old.iter().for_each(|(key, value)| keyspace.put(key, value).unwrap());
    db.flush().unwrap();
    let mut wanted = some(0..300, 2);
    ingest(&keyspace, &wanted);
    check(&keyspace, &wanted);
    db.compact().unwrap();
    check(&keyspace, &wanted);
    let newer = some((0..300).step_by(2), 3);
    newer.iter().for_each(|(key, value)| keyspace.put(key, value).unwrap());
    wanted.extend(newer);
    db.flush().unwrap();
    check(&keyspace, &wanted);
    db.compact().unwrap();
    check(&keyspace, &wanted);
}

#[test]
fn the_change_feed_tells_of_an_ingest() {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    keyspace.put("a", "1").unwrap();
    keyspace.ingest_sorted([("b", "2"), ("c", "3")]).unwrap();
    keyspace.put("d", "4").unwrap();
    let mut changes = db.changes(0).unwrap();
    let mut told = Vec::new();
    while let Some(batch) = changes.next_batch().unwrap() {
        for change in &batch {
            told.push((change.seqno, change.key.to_vec(), format!("{:?}", change.what)));
            if change.seqno == 2 {
                let (lower, upper) = (Bound::Included(&b"b"[..]), Bound::Included(&b"c"[..]));
                assert_eq!(change.what, Changed::Ingested { lower, upper });
            }
        }
    }
    let keys: Vec<_> = told.iter().map(|(seqno, key, _)| (*seqno, key[0])).collect();
    assert_eq!(keys, [(1, b'a'), (2, b'b'), (3, b'd')], "{told:?}");
    drop((changes, keyspace));
    db.close().unwrap();
    // The record of the ingest is replayed, and puts nothing into a memtable.
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    assert_eq!((db.visible_seqno(), common::pairs(&keyspace).len()), (3, 4));
}

#[test]
fn keys_out_of_order_are_refused_with_both_keys() {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    for pairs in [[("b", "1"), ("a", "2")], [("a", "1"), ("a", "2")]] {
        let error = keyspace.ingest_sorted(pairs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        let shown = |key: &str| format!("{key:?}");
        assert!(text.contains(&shown(pairs[0].0)) && text.contains(&shown(pairs[1].0)), "{text}");
    }
    let mut ingestion = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
    ingestion.put("b", "1").unwrap();
    assert_eq!(ingestion.put("a", "2").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let long = vec![b'z'; cleavedb::MAX_KEY_BYTES + 1];
    assert_eq!(ingestion.put(&long, "2").unwrap_err().kind(), ErrorKind::InvalidArgument);
    ingestion.put("c", "3").unwrap();
    ingestion.finish().unwrap();
    assert_eq!(common::pairs(&keyspace).len(), 2);
    let nothing: [(&str, &str); 0] = [];
    let report = keyspace.ingest_sorted(nothing).unwrap();
    assert_eq!((report.seqno, report.entries, db.visible_seqno()), (None, 0, 1));
}

fn is_between(key: &[u8], from: usize, before: usize) -> bool {
    key >= common::key(from).as_bytes() && key < common::key(before).as_bytes()
}

/// Deletions are ingested too; range deletes from before hide nothing of it, later ones all.
#[test]
fn deletions_and_range_deletes_keep_their_order() {
    for flush in [false, true] {
        let dir = common::dir();
        let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
        let mut wanted = some(0..600, 1);
        wanted.iter().for_each(|(key, value)| keyspace.put(key, value).unwrap());
        db.flush().unwrap();
        keyspace.delete_range(common::key(100)..common::key(400)).unwrap();
        wanted.retain(|key, _| !is_between(key, 100, 400));
        if flush {
            db.flush().unwrap();
        }
        let mut ingestion = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
        for number in 50..450 {
            let key = common::key(number);
            if number % 5 == 0 {
                ingestion.delete(&key).unwrap();
                wanted.remove(key.as_bytes());
            } else {
                let value = common::value(&key, 2, sized(number));
                ingestion.put(&key, &value).unwrap();
                wanted.insert(key.into_bytes(), value);
            }
        }
        ingestion.finish().unwrap();
        check(&keyspace, &wanted);
        keyspace.delete_range(common::key(200)..common::key(300)).unwrap();
        wanted.retain(|key, _| !is_between(key, 200, 300));
        check(&keyspace, &wanted);
        db.compact().unwrap();
        check(&keyspace, &wanted);
        assert!(db.check().unwrap().is_clean());
    }
}

#[test]
fn below_keeps_what_keys_have() {
    for options in policies() {
        let dir = common::dir();
        let (db, keyspace) = open(dir.path(), options);
        let mut wanted = some((0..1000).step_by(2), 1);
        wanted.iter().for_each(|(key, value)| keyspace.put(key, value).unwrap());
        db.compact().unwrap();
        for number in (0..1000).step_by(4) {
            keyspace.delete(common::key(number)).unwrap();
            wanted.remove(common::key(number).as_bytes());
        }
        keyspace.put_expiring(common::key(4), "gone", Duration::ZERO).unwrap();
        let below = IngestOptions::new().below(true);
        let new = some(0..1200, 2);
        let report = keyspace.ingest_sorted_with(&new, &below).unwrap();
        assert_eq!((report.entries, report.skipped), (950, 250));
        new.into_iter().for_each(|(key, value)| {
            wanted.entry(key).or_insert(value);
        });
        check(&keyspace, &wanted);
        db.gc().unwrap();
        check(&keyspace, &wanted);
        assert!(db.check().unwrap().is_clean());
        // Everything has a value now, so nothing happens.
        let before = db.visible_seqno();
        let report = keyspace.ingest_sorted_with(some(0..1200, 3), &below).unwrap();
        assert_eq!((report.entries, report.skipped, report.seqno), (0, 1200, None));
        assert_eq!(before, db.visible_seqno());
        let mut ingestion = keyspace.begin_ingest(&below).unwrap();
        ingestion.delete(common::key(3)).unwrap();
        ingestion.put("new", "value").unwrap();
        assert_eq!(ingestion.finish().unwrap().skipped, 1);
        assert!(keyspace.get(common::key(3)).unwrap().is_some());
        assert_eq!(keyspace.get("new").unwrap().unwrap(), "value");
    }
}

/// Files may overlap; the one that is named last counts. They stay as they are.
#[test]
fn files_are_merged_and_stay() {
    for options in policies() {
        let (dir, place) = (common::dir(), common::dir());
        let (db, keyspace) = open(dir.path(), options);
        keyspace.put(common::key(5), "old").unwrap();
        let mut wanted = Map::new();
        let mut paths = Vec::new();
        for (version, numbers) in [(1, 0..700), (2, 300..900), (3, 850..860)] {
            let map = some(numbers, version);
            // Each file has another threshold, so values of each size are in the file and apart.
            let separation_threshold = [100, 500, usize::MAX][version as usize - 1];
            let options =
                SortedFileOptions { separation_threshold, ..SortedFileOptions::default() };
            paths.push(write_file(&place.path().join(version.to_string()), &map, &options));
            wanted.extend(map);
        }
        let bytes = |place: &Path| {
            let files = common::files(place, "").into_iter();
            files.map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
        };
        let before = bytes(place.path());
        assert_eq!(before.len(), 5, "two of them have values apart");
        let report = keyspace.ingest(&paths, &IngestOptions::default()).unwrap();
        assert_eq!((report.entries, report.skipped), (900, 400 + 10));
        check(&keyspace, &wanted);
        assert!(bytes(place.path()) == before);
        db.compact().unwrap();
        check(&keyspace, &wanted);
        assert!(db.check().unwrap().is_clean());
    }
}

#[test]
fn files_take_deletions_and_deadlines() {
    let (dir, place) = (common::dir(), common::dir());
    let default_ttl = Some(Duration::from_secs(3600));
    let (_db, keyspace) =
        open(dir.path(), KeyspaceOptions { default_ttl, ..common::tiny_keyspace() });
    keyspace.put("b", "old").unwrap();
    let path = place.path().join("file");
    let mut file = SortedFileWriter::create(&path, &SortedFileOptions::default()).unwrap();
    file.put("a", "default").unwrap();
    file.delete("b").unwrap();
    file.put_until("c", "later", SystemTime::now() + Duration::from_secs(60)).unwrap();
    file.put_until("d", "past", SystemTime::now() - Duration::from_secs(60)).unwrap();
    assert_eq!(file.finish().unwrap().entries, 4);
    keyspace.ingest(&[&path], &IngestOptions::default()).unwrap();
    let found: Vec<_> = common::pairs(&keyspace).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, [b"a", b"c"]);
    let left = |key: &str| match keyspace.ttl(key).unwrap() {
        Some(cleavedb::Ttl::Left(time)) => time.as_secs(),
        other => panic!("{other:?}"),
    };
    assert!((3000..=3600).contains(&left("a")) && (30..=60).contains(&left("c")));
    let mut ingestion = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
    ingestion.put_expiring("e", "", cleavedb::Expiry::Never).unwrap();
    ingestion.put_expiring("f", "", Duration::from_secs(60)).unwrap();
    ingestion.finish().unwrap();
    assert_eq!(keyspace.ttl("e").unwrap(), Some(cleavedb::Ttl::Never));
    assert!((30..=60).contains(&left("f")));
}

/// Every damaged byte of a file, and every length that it is cut to, is an error, or the content is
/// what was written. Nothing of the database changes on an error.
#[test]
fn i07_damage_of_a_file_is_noticed() {
    let (dir, place) = (common::dir(), common::dir());
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    keyspace.put(common::key(1), "old").unwrap();
    let wanted = some(0..12, 1);
    let options = SortedFileOptions { separation_threshold: 100, ..SortedFileOptions::default() };
    let path = write_file(&place.path().join("whole"), &wanted, &options);
    let values = place.path().join("whole.values");
    let bad = place.path().join("bad");
    let bad_values = place.path().join("bad.values");
    let contents = (std::fs::read(&path).unwrap(), std::fs::read(&values).unwrap());
    let attempt = |table: &[u8], values: &[u8]| {
        std::fs::write(&bad, table).unwrap();
        std::fs::write(&bad_values, values).unwrap();
        let scratch = db.create_keyspace("scratch").unwrap();
        let outcome = scratch.ingest(&[&bad], &IngestOptions::default());
        let found = map_of(&scratch);
        match &outcome {
            Ok(_) => assert!(found == wanted, "damage was ingested"),
            Err(error) => {
                let kinds =
                    [ErrorKind::Corruption, ErrorKind::Unsupported, ErrorKind::InvalidOption];
                assert!(kinds.contains(&error.kind()), "{error}");
                assert!(found.is_empty());
            }
        }
        db.drop_keyspace("scratch").unwrap();
        outcome.is_err()
    };
    assert!(!attempt(&contents.0, &contents.1));
    for at in 0..contents.0.len() {
        let mut table = contents.0.clone();
        table[at] ^= 1 << (at % 8);
        assert!(attempt(&table, &contents.1), "byte {at} of the file");
    }
    let mut unnoticed = 0;
    for at in 0..contents.1.len() {
        let mut values = contents.1.clone();
        values[at] ^= 1 << (at % 8);
        unnoticed += usize::from(!attempt(&contents.0, &values));
    }
    // The header of the only frame is not needed to read a value.
    assert!(unnoticed <= 40, "{unnoticed}");
    for length in (0..contents.0.len()).step_by(7) {
        assert!(attempt(&contents.0[..length], &contents.1), "{length} bytes");
    }
    for length in (0..contents.1.len()).step_by(7) {
        assert!(attempt(&contents.0, &contents.1[..length]), "{length} bytes of values");
    }
    // The values of another file are not taken.
    let other = write_file(&place.path().join("other"), &wanted, &options);
    assert!(attempt(&std::fs::read(other).unwrap(), &contents.1));
    assert_eq!(common::pairs(&keyspace).len(), 1);
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn what_is_no_sorted_file_is_refused() {
    let (dir, place) = (common::dir(), common::dir());
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    keyspace.put("a", "1").unwrap();
    db.flush().unwrap();
    let error = |path: &Path| keyspace.ingest(&[path], &IngestOptions::default()).unwrap_err();
    let table = common::files(dir.path(), ".tbl").remove(0);
    assert_eq!(error(&table).kind(), ErrorKind::Corruption);
    let path = place.path().join("file");
    assert_eq!(error(&path).kind(), ErrorKind::Io);
    std::fs::write(&path, b"hello").unwrap();
    assert_eq!(error(&path).kind(), ErrorKind::Corruption);
    let taken = SortedFileWriter::create(&path, &SortedFileOptions::default()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    let empty = place.path().join("empty");
    let file = SortedFileWriter::create(&empty, &SortedFileOptions::default()).unwrap();
    assert_eq!(file.finish().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut file = SortedFileWriter::create(&empty, &SortedFileOptions::default()).unwrap();
    file.put("b", "").unwrap();
    let message = file.put("a", "").unwrap_err().to_string();
    assert!(message.contains("\"a\"") && message.contains("\"b\""), "{message}");
    drop(file);
    assert_eq!(common::files(place.path(), "").len(), 1, "one that was given up leaves nothing");
}

/// Compares keys backward.
struct Backward;

impl Comparator for Backward {
    fn name(&self) -> &str {
        "test.Backward"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn the_order_of_a_file_must_be_that_of_the_keyspace() {
    let (dir, place) = (common::dir(), common::dir());
    let builder = Db::builder(dir.path()).options(common::tiny());
    let db = builder.comparator("down", Arc::new(Backward)).open().unwrap();
    let (down, up) = (db.create_keyspace("down").unwrap(), db.default_keyspace());
    let path = place.path().join("file");
    let comparator: Option<Arc<dyn Comparator>> = Some(Arc::new(Backward));
    let options = SortedFileOptions { comparator, ..SortedFileOptions::default() };
    let mut file = SortedFileWriter::create(&path, &options).unwrap();
    for number in (0..100).rev() {
        file.put(common::key(number), "").unwrap();
    }
    file.finish().unwrap();
    let error = up.ingest(&[&path], &IngestOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    down.put(common::key(50), "old").unwrap();
    down.ingest(&[&path], &IngestOptions::default()).unwrap();
    assert_eq!(down.iter().count(), 100);
    assert_eq!(down.get(common::key(50)).unwrap().unwrap(), "");
    assert_eq!(down.first_key_value().unwrap().unwrap().0, common::key(99).as_bytes());
}

/// One that is dropped leaves nothing, and neither does one of a keyspace that is dropped meanwhile
/// or of a database that is closed.
#[test]
fn what_is_given_up_leaves_nothing() {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    let other = db.create_keyspace("other").unwrap();
    let files = |suffix: &str| common::files(dir.path(), suffix).len();
    let fill = |ingestion: &mut cleavedb::Ingestion<'_>| {
        for number in 0..4000 {
            ingestion.put(common::key(number), common::value("x", 1, 600)).unwrap();
        }
    };
    let mut given_up = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
    fill(&mut given_up);
    assert!(files(".tbl") > 0 && files(".seg") > 0);
    drop(given_up);
    assert_eq!(files(".tbl"), 0);
    let mut dropped = other.begin_ingest(&IngestOptions::default()).unwrap();
    fill(&mut dropped);
    db.drop_keyspace("other").unwrap();
    assert_eq!(dropped.finish().unwrap_err().kind(), ErrorKind::KeyspaceDropped);
    assert_eq!((files(".tbl"), db.visible_seqno()), (0, 0));
    let mut closed = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
    fill(&mut closed);
    db.close().unwrap();
    assert_eq!(closed.finish().unwrap_err().kind(), ErrorKind::Closed);
    drop(other);
    drop(keyspace);
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    assert_eq!(keyspace.iter().count(), 0);
    assert!(db.check().unwrap().is_clean());
    drop((db, keyspace));
    let options = Options { read_only: true, ..common::tiny() };
    let db = common::open_with(dir.path(), options);
    let refused = db.default_keyspace().ingest_sorted([("a", "b")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

/// While threads write to the same keys all the time, an ingest gets its turn, and from then on the
/// newest of both counts.
#[test]
fn i06_an_ingest_gets_its_turn_beside_writers() {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (keyspace, stop) = (&keyspace, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                while !stop.load(Atomic::Relaxed) {
                    let key = common::key(rng.below(1000) * 2);
                    keyspace.put(&key, common::value(&key, 1, 120)).unwrap();
                }
            });
        }
        let _stop = common::OnDrop(|| stop.store(true, Atomic::Relaxed));
        for round in 0..5u64 {
            let below = IngestOptions::new().below(round == 3);
            let map = all(2000, 100 + round, 130);
            let report = keyspace.ingest_sorted_with(&map, &below).unwrap();
            assert_eq!(report.entries + report.skipped, 2000);
            let found = keyspace.get(common::key(1)).unwrap().unwrap();
            let version = if round == 3 { 102 } else { 100 + round };
            assert_eq!(found, common::value(&common::key(1), version, 130));
        }
    });
    assert_eq!(keyspace.iter().count(), 2000);
    assert!(db.check().unwrap().is_clean());
}

/// A repair keeps what was ingested. With the manifest it keeps its place among the commits;
/// without one, it counts as older than all of them.
#[test]
fn repair_keeps_what_was_ingested() {
    for loses_manifest in [false, true] {
        let dir = common::dir();
        let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
        for number in 0..300 {
            keyspace.put(common::key(number), "old").unwrap();
        }
        ingest(&keyspace, &some(100..500, 1));
        keyspace.put(common::key(200), "newer").unwrap();
        keyspace.delete(common::key(450)).unwrap();
        db.flush().unwrap();
        let mut wanted = map_of(&keyspace);
        drop(keyspace);
        db.close().unwrap();
        if loses_manifest {
            for path in common::files(dir.path(), ".man") {
                std::fs::remove_file(path).unwrap();
            }
        }
        Db::builder(dir.path()).options(common::tiny()).repair().unwrap();
        let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
        if loses_manifest {
            // Unless a compaction has dropped it by then, what was replaced shows again.
            for (key, value) in map_of(&keyspace) {
                if value == b"old" && key >= common::key(100).into_bytes() {
                    wanted.insert(key, value);
                }
            }
        }
        check(&keyspace, &wanted);
        assert!(db.check().unwrap().is_clean());
        ingest(&keyspace, &some(100..500, 2));
        wanted.extend(some(100..500, 2));
        check(&keyspace, &wanted);
    }
}

/// Repairs a copy of a directory, as a kill at this moment would leave it, and returns what is in
/// it then and how many problems named a table. Without its manifests if `loses_manifest`, else
/// without CURRENT.
fn after_a_repair(dir: &Path, loses_manifest: bool) -> (Map, usize) {
    let place = common::dir();
    let copy = place.path().join("copy");
    common::copy_dir(dir, &copy);
    let victims = common::files(&copy, if loses_manifest { ".man" } else { "CURRENT" });
    assert!(!victims.is_empty());
    victims.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let report = Db::builder(&copy).options(common::tiny()).repair().unwrap();
    let of_table = |error: &&cleavedb::Error| {
        error.file().is_some_and(|file| file.extension().is_some_and(|it| it == "tbl"))
    };
    let (db, keyspace) = open(&copy, common::tiny_keyspace());
    let found = map_of(&keyspace);
    assert!(db.check().unwrap().is_clean());
    (found, report.problems.iter().filter(of_table).count())
}

/// Commits that are in the log only survive a repair, although tables of a later ingest are there.
/// Without a manifest, the log tells which table came with which ingest.
#[test]
fn i02_repair_keeps_what_an_ingest_has_not_flushed() {
    for rounds in [1, 12] {
        let dir = common::dir();
        let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
        keyspace.put(common::key(110), "in the way").unwrap();
        keyspace.flush().unwrap();
        db.wait_idle().unwrap();
        keyspace.put(common::key(1), "in the log").unwrap();
        let ingested = || (100..120).filter(|n| n % 3 > 0);
        for round in 0..rounds {
            let report = ingest(&keyspace, &some(ingested(), round));
            assert_eq!(report.level, 0, "the older table is in the way");
        }
        keyspace.put(common::key(113), "newer").unwrap();
        db.wait_idle().unwrap();
        let compactions = db.stats().numbers().find(|(name, _)| *name == "compactions").unwrap().1;
        assert_eq!(compactions > 0, rounds > 1);
        for loses_manifest in [false, true] {
            let (found, _) = after_a_repair(dir.path(), loses_manifest);
            let in_the_log = found.get(common::key(1).as_bytes()).map(Vec::as_slice);
            assert_eq!(in_the_log, Some(&b"in the log"[..]), "{rounds} {loses_manifest}");
            let mut newest = some(ingested(), rounds - 1);
            newest.insert(common::key(113).into_bytes(), b"newer".to_vec());
            newest.insert(common::key(1).into_bytes(), b"in the log".to_vec());
            assert!(found == newest, "{rounds} {loses_manifest}: {} keys", found.len());
        }
    }
}

/// The tables of an ingest that a crash cut short are no part of the repaired database.
#[test]
fn i06_repair_does_not_finish_an_ingest() {
    for loses_manifest in [false, true] {
        let dir = common::dir();
        let (db, keyspace) = open(dir.path(), common::tiny_keyspace());
        keyspace.put(common::key(1), "before").unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let wanted = map_of(&keyspace);
        let tables = common::files(dir.path(), ".tbl").len();
        let mut ingestion = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
        for number in 0..40_000 {
            ingestion.put(common::key(number), [7; 40]).unwrap();
        }
        assert!(common::files(dir.path(), ".tbl").len() > tables + 10, "some are complete");
        let (found, problems) = after_a_repair(dir.path(), loses_manifest);
        assert!(found == wanted, "{loses_manifest}: {} keys", found.len());
        assert_eq!(problems > 10, loses_manifest, "{problems}");
        ingestion.finish().unwrap();
        let (found, _) = after_a_repair(dir.path(), loses_manifest);
        assert_eq!(found.len(), 40_000, "{loses_manifest}");
    }
}

/// Ingests into a database; returns a checkpoint of it, and what was ingested.
fn checkpoint_of_an_ingest(place: &TempDir, options: KeyspaceOptions) -> (PathBuf, Map) {
    let dir = common::dir();
    let (db, keyspace) = open(dir.path(), options);
    let wanted = some(0..400, 1);
    ingest(&keyspace, &wanted);
    let copy = place.path().join("copy");
    db.checkpoint(&copy).unwrap();
    (copy, wanted)
}

/// Where neither manifest nor log knows any more of an ingest, its tables are kept.
#[test]
fn repair_keeps_an_ingest_that_the_log_has_lost() {
    let place = common::dir();
    let (copy, wanted) = checkpoint_of_an_ingest(&place, common::separating(None));
    for log in common::files(&copy, ".seg") {
        std::fs::remove_file(log).unwrap();
    }
    let (found, problems) = after_a_repair(&copy, true);
    assert!(found == wanted, "{} keys", found.len());
    assert!(problems > 0);
}

#[test]
fn a_checkpoint_has_what_was_ingested() {
    let place = common::dir();
    let (copy, wanted) = checkpoint_of_an_ingest(&place, common::tiny_keyspace());
    let (db, keyspace) = open(&copy, common::tiny_keyspace());
    check(&keyspace, &wanted);
    assert!(db.check().unwrap().is_clean());
}
