//! Tests of compaction and of the space that it frees.

use crate::common;
use cleavedb::{Db, Options, ReadOptions};
use std::path::{Path, PathBuf};

fn bytes_of(dir: &Path) -> u64 {
    common::bytes_of(dir, "")
}

fn fill(db: &Db, version: u64, count: usize) {
    let keyspace = db.default_keyspace();
    for number in 0..count {
        let key = common::key(number);
        let bytes = if number % 2 == 0 { 30 } else { 400 };
        keyspace.put(&key, common::value(&key, version, bytes)).unwrap();
    }
}

fn table_entries(db: &Db) -> u64 {
    db.stats().keyspaces.iter().map(|keyspace| keyspace.table_entries).sum()
}

#[test]
fn after_everything_is_deleted_nearly_nothing_is_left() {
    let dir = common::dir();
    let db = common::open(dir.path());
    fill(&db, 1, 2000);
    db.wait_idle().unwrap();
    assert!(bytes_of(dir.path()) > 400_000);
    for number in 0..2000 {
        db.default_keyspace().delete(common::key(number)).unwrap();
    }
    db.compact().unwrap();
    assert_eq!(table_entries(&db), 0, "tombstones vanish at the bottom");
    assert_eq!(common::files(dir.path(), ".tbl").len(), 0);
    // What is left: the active segment, the spare segment, and the manifest with its edits.
    assert!(bytes_of(dir.path()) < 120_000, "{}", bytes_of(dir.path()));
    assert_eq!(common::removed_and_open(dir.path()), Vec::<PathBuf>::new());
    drop(db);
    let db = common::open(dir.path());
    db.wait_idle().unwrap();
    // What is left: the last segment of the log, however full it was, and the manifest, whose
    // length depends on how the background threads shared the work.
    let segments = common::bytes_of(dir.path(), ".seg");
    assert_eq!(common::files(dir.path(), ".seg").len(), 1);
    assert!(segments <= common::tiny().segment_bytes, "{segments}");
    assert!(bytes_of(dir.path()) - segments < 16_000, "{}", bytes_of(dir.path()));
    assert!(db.default_keyspace().iter().next().is_none());
}

#[test]
fn overwriting_again_and_again_takes_no_more_space() {
    let dir = common::dir();
    let db = common::open(dir.path());
    fill(&db, 0, 300);
    db.compact().unwrap();
    let once = bytes_of(dir.path());
    for version in 1..15 {
        fill(&db, version, 300);
    }
    db.compact().unwrap();
    let again = bytes_of(dir.path());
    assert!(again < once + 2 * common::tiny().segment_bytes + 150_000, "{once} then {again}");
    assert_eq!(table_entries(&db), 300);
    assert!(db.check().unwrap().is_clean());
    assert_eq!(common::removed_and_open(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_a_snapshot_saw_goes_with_it() {
    let dir = common::dir();
    let db = common::open(dir.path());
    fill(&db, 1, 200);
    let snapshot = db.snapshot();
    fill(&db, 2, 200);
    db.compact().unwrap();
    assert_eq!(table_entries(&db), 400);
    for number in 0..200 {
        let key = common::key(number);
        let bytes = if number % 2 == 0 { 30 } else { 400 };
        let seen = db
            .default_keyspace()
            .get_with(&key, &ReadOptions::new().snapshot(&snapshot))
            .unwrap()
            .unwrap();
        assert_eq!(seen, common::value(&key, 1, bytes));
    }
    drop(snapshot);
    let before = db.stats().segments.len();
    db.compact().unwrap();
    assert_eq!(table_entries(&db), 200);
    assert!(db.stats().segments.len() < before, "the segments of the old values are gone");
}

#[test]
fn a_snapshot_keeps_what_was_deleted() {
    let dir = common::dir();
    let db = common::open(dir.path());
    fill(&db, 1, 100);
    let snapshot = db.snapshot();
    for number in 0..100 {
        db.default_keyspace().delete(common::key(number)).unwrap();
    }
    db.compact().unwrap();
    assert!(db.default_keyspace().iter().next().is_none());
    let mut cursor =
        db.default_keyspace().cursor_with(&ReadOptions::new().snapshot(&snapshot)).unwrap();
    cursor.seek_to_first().unwrap();
    for number in 0..100 {
        assert_eq!(cursor.key(), common::key(number).as_bytes());
        assert!(!cursor.value().unwrap().is_empty());
        cursor.next().unwrap();
    }
    drop((cursor, snapshot));
    db.compact().unwrap();
    assert_eq!(table_entries(&db), 0);
}

#[test]
fn part_of_the_keys() {
    let dir = common::dir();
    // With these triggers nothing is compacted automatically.
    let keyspace = cleavedb::KeyspaceOptions { level0_trigger: 1000, ..common::tiny_keyspace() };
    let options = Options { keyspace, level0_slowdown: 1000, level0_stop: 1000, ..common::tiny() };
    let db = common::open_with(dir.path(), options);
    for part in ["a", "b", "c"] {
        for number in 0..100 {
            db.default_keyspace().put(format!("{part}{number:03}"), part).unwrap();
        }
        db.flush().unwrap();
    }
    db.default_keyspace().compact_range("a".."b").unwrap();
    let levels = |db: &Db| {
        let stats = db.stats();
        stats.keyspaces[0].levels.iter().map(|level| level.tables).collect::<Vec<_>>()
    };
    // L0 is compacted as a whole, because its tables may overlap.
    assert_eq!(levels(&db)[0], 0);
    assert_eq!(common::pairs(&db.default_keyspace()).len(), 300);
    db.default_keyspace().delete("b050").unwrap();
    db.default_keyspace().compact_range("b".."c").unwrap();
    db.default_keyspace().compact_range(..).unwrap();
    assert_eq!(table_entries(&db), 299);
}

#[test]
fn readers_keep_their_files_and_let_them_go() {
    let dir = common::dir();
    let db = common::open(dir.path());
    fill(&db, 1, 600);
    db.compact().unwrap();
    let mut cursor = db.default_keyspace().cursor().unwrap();
    cursor.seek_to_first().unwrap();
    fill(&db, 2, 600);
    db.compact().unwrap();
    for number in 0..600 {
        let key = common::key(number);
        let bytes = if number % 2 == 0 { 30 } else { 400 };
        assert_eq!(cursor.value().unwrap(), common::value(&key, 1, bytes));
        cursor.next().unwrap();
    }
    let held = bytes_of(dir.path());
    drop(cursor);
    db.wait_idle().unwrap();
    assert!(bytes_of(dir.path()) < held * 3 / 4, "{held} then {}", bytes_of(dir.path()));
    assert_eq!(common::removed_and_open(dir.path()), Vec::<PathBuf>::new());
    let stats = db.stats();
    let named: usize = stats.segments.len()
        + stats.keyspaces[0].levels.iter().map(|level| level.tables as usize).sum::<usize>();
    let present = common::files(dir.path(), ".tbl").len() + common::files(dir.path(), ".seg").len();
    assert_eq!(named, present, "no file is there that nothing names");
}

#[test]
fn compacting_nothing() {
    let dir = common::dir();
    let db = common::open(dir.path());
    db.flush().unwrap();
    db.compact().unwrap();
    db.default_keyspace().delete("what is not there").unwrap();
    db.compact().unwrap();
    assert_eq!(common::files(dir.path(), ".tbl").len(), 0);
}
