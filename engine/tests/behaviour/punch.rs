//! Tests of punching holes where large values died between live ones: blocks are freed, lengths and
//! live values stay, and a value that some read may still see is not lost.

use crate::common;
use cleavedb::{Db, GcOptions, Options};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const KEYS: usize = 64;
const VALUE: usize = 256 << 10;

/// Returns options with which every value is separated into a few large segments, and GC is not
/// automatic.
fn by_hand() -> Options {
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    let keyspace = common::separating(Some(64));
    let (segment_bytes, max_replay_bytes) = (8 << 20, 64 << 20);
    Options { gc, keyspace, segment_bytes, max_replay_bytes, ..common::tiny() }
}

fn put(db: &Db, number: usize, version: u64) {
    let key = common::key(number);
    db.default_keyspace().put(&key, common::value(&key, version, VALUE)).unwrap();
}

/// Writes version 1 of all keys, then version 2 of those for which `stays` is false.
fn fill(path: &Path, stays: impl Fn(usize) -> bool) -> Db {
    let db = common::open_with(path, by_hand());
    (0..KEYS).for_each(|number| put(&db, number, 1));
    overwrite(&db, stays);
    db
}

fn overwrite(db: &Db, stays: impl Fn(usize) -> bool) {
    (0..KEYS).filter(|number| !stays(*number)).for_each(|number| put(db, number, 2));
}

/// Returns each segment with its length and the bytes of its allocated blocks.
fn sizes(dir: &Path) -> Vec<(PathBuf, u64, u64)> {
    let files = common::metadata_of(dir, ".seg");
    files.map(|(path, metadata)| (path, metadata.len(), metadata.blocks() * 512)).collect()
}

/// Returns the bytes by which the allocation of segments is below their lengths.
fn holes(dir: &Path) -> u64 {
    sizes(dir).iter().map(|(_, length, blocks)| length.saturating_sub(*blocks)).sum()
}

fn is_kept(number: usize) -> bool {
    number.is_multiple_of(4)
}

fn version_of(number: usize) -> u64 {
    if is_kept(number) { 1 } else { 2 }
}

/// Asserts that each way to read a key returns the version that `version_of` returns for it.
fn assert_values(db: &Db, version_of: impl Fn(usize) -> u64) {
    let keyspace = db.default_keyspace();
    let expected = |number| {
        let key = common::key(number);
        let value = common::value(&key, version_of(number), VALUE);
        (key.into_bytes(), value)
    };
    for number in 0..KEYS {
        let (key, value) = expected(number);
        assert!(keyspace.get(&key).unwrap().unwrap() == value[..], "key {number}");
    }
    assert!(common::pairs(&keyspace).into_iter().eq((0..KEYS).map(expected)), "a scan");
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Waits until this opening has punched holes in `segments` segments. Readers delay that only for
/// moments.
fn punched(db: &Db, segments: u64) {
    while db.stats().gc.segments_punched < segments {
        db.wait_idle().unwrap();
        std::thread::yield_now();
    }
}

#[test]
fn blocks_come_back_and_lengths_and_values_stay() {
    let dir = common::dir();
    let db = fill(dir.path(), is_kept);
    let before = sizes(dir.path());
    let report = db.gc().unwrap();
    assert!(report.segments_punched > 0, "{report:?}");
    punched(&db, report.segments_punched);
    let mut shrunk = 0;
    for (path, length, blocks) in sizes(dir.path()) {
        if let Some((_, was, _)) = before.iter().find(|(other, ..)| *other == path)
            && length.saturating_sub(blocks) > (VALUE as u64)
        {
            assert!(length <= *was, "the length stays, but for what was prepared");
            shrunk += 1;
        }
    }
    assert_eq!(shrunk, report.segments_punched);
    // 48 values of 64 were overwritten. Those at the ends of segments go with whole segments.
    assert!(holes(dir.path()) > 20 * VALUE as u64, "{} of {report:?}", holes(dir.path()));
    assert_eq!(report.bytes_written, 0, "nothing had to move");
    let stats = db.stats().gc;
    assert!(stats.punches >= report.segments_punched && stats.punches <= 20, "{stats:?}");
    assert_eq!(stats.bytes_freed, report.bytes_punched, "{stats:?}");
    assert_values(&db, version_of);
    let space = db.space().unwrap();
    assert_eq!(space.hole_bytes, report.bytes_punched);
    assert!(space.warnings.is_empty(), "{:?}", space.warnings);
    drop(db);
    let db = common::open_with(dir.path(), by_hand());
    assert_values(&db, version_of);
    assert_eq!(db.space().unwrap().hole_bytes, report.bytes_punched);
    db.wait_idle().unwrap();
    assert_eq!(db.stats().gc.punches, 0, "all is done");
}

/// Guards `GcOptions::punch`: nothing noticed when it had no effect.
#[test]
fn without_punching_files_stay_whole_and_values_move() {
    let found = [true, false].map(|punch| {
        let dir = common::dir();
        let gc = GcOptions { punch, ..by_hand().gc };
        let db = common::open_with(dir.path(), Options { gc, ..by_hand() });
        (0..KEYS).for_each(|number| put(&db, number, 1));
        overwrite(&db, is_kept);
        let report = db.gc().unwrap();
        punched(&db, report.segments_punched);
        db.wait_idle().unwrap();
        assert_values(&db, version_of);
        let (stats, space) = (db.stats().gc, db.space().unwrap());
        assert_eq!(space.hole_bytes, report.bytes_punched);
        assert_eq!(stats.segments_punched, report.segments_punched);
        (holes(dir.path()), stats.punches, report)
    });
    let [(default_holes, default_calls, default), (holes, calls, without)] = found;
    assert!(default_holes > 20 * VALUE as u64 && default_calls > 0, "{default:?}");
    assert_eq!((holes, calls, without.bytes_punched), (0, 0, 0), "{without:?}");
    assert!(without.bytes_freed > 20 * VALUE as u64 && without.bytes_written > 0, "{without:?}");
}

#[test]
fn i05_a_cursor_sees_all_and_holds_the_punching_up() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), by_hand());
    (0..KEYS).for_each(|number| put(&db, number, 1));
    let keyspace = db.default_keyspace();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    overwrite(&db, is_kept);
    let report = db.gc().unwrap();
    assert!(report.segments_punched > 0, "{report:?}");
    db.wait_idle().unwrap();
    assert_eq!((db.stats().gc.punches, holes(dir.path())), (0, 0));
    assert_eq!(db.space().unwrap().hole_bytes, 0, "nothing has come back yet");
    for number in 0..KEYS {
        let key = common::key(number);
        assert_eq!(cursor.key(), key.as_bytes());
        assert!(cursor.value().unwrap() == common::value(&key, 1, VALUE)[..], "{key}");
        cursor.next().unwrap();
    }
    assert_values(&db, version_of);
    drop(cursor);
    punched(&db, report.segments_punched);
    assert!(holes(dir.path()) > 20 * VALUE as u64);
    assert_values(&db, version_of);
}

#[test]
fn i05_what_a_snapshot_sees_is_live() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), by_hand());
    (0..KEYS).for_each(|number| put(&db, number, 1));
    let snapshot = db.snapshot();
    overwrite(&db, is_kept);
    assert_eq!(db.gc().unwrap().segments_punched, 0);
    let options = cleavedb::ReadOptions::new().snapshot(&snapshot);
    for number in 0..KEYS {
        let key = common::key(number);
        let seen = db.default_keyspace().get_with(&key, &options).unwrap().unwrap();
        assert!(seen == common::value(&key, 1, VALUE)[..], "{key}");
    }
    drop((options, snapshot));
    let report = db.gc().unwrap();
    punched(&db, report.segments_punched);
    assert!(holes(dir.path()) > 20 * VALUE as u64, "{report:?}");
    assert_values(&db, version_of);
}

#[test]
fn i05_what_a_checkpoint_shares_is_never_punched() {
    let (dir, copies) = (common::dir(), common::dir());
    let target = copies.path().join("copy");
    let db = common::open_with(dir.path(), by_hand());
    (0..KEYS).for_each(|number| put(&db, number, 1));
    db.checkpoint(&target).unwrap();
    overwrite(&db, is_kept);
    let report = db.gc().unwrap();
    db.wait_idle().unwrap();
    let (stats, shared) = (db.stats().gc, holes(&target));
    assert_eq!((stats.punches, shared), (0, 0), "{report:?}");
    assert!(report.segments_freed > 0, "moved instead: {report:?}");
    assert_values(&db, version_of);
    let copy = common::open_with(&target, by_hand());
    assert_values(&copy, |_| 1);
}

#[test]
fn i05_a_checkpoint_between_the_edit_and_the_punch() {
    let (dir, copies) = (common::dir(), common::dir());
    let target = copies.path().join("copy");
    let db = fill(dir.path(), is_kept);
    let keyspace = db.default_keyspace();
    let cursor = keyspace.cursor().unwrap();
    let report = db.gc().unwrap();
    assert!(report.segments_punched > 0, "{report:?}");
    db.checkpoint(&target).unwrap();
    drop(cursor);
    db.wait_idle().unwrap();
    assert_eq!((db.stats().gc.punches, holes(dir.path())), (0, 0));
    assert_values(&db, version_of);
    let copy = common::open_with(&target, by_hand());
    copy.wait_idle().unwrap();
    assert_values(&copy, version_of);
    assert_eq!((copy.stats().gc.punches, holes(dir.path())), (0, 0), "nor from the other side");
    copy.close().unwrap();
    db.close().unwrap();
    Db::destroy(&target).unwrap();
    let db = common::open_with(dir.path(), by_hand());
    punched(&db, report.segments_punched);
    assert!(holes(dir.path()) > 20 * VALUE as u64, "the next opening does it");
    assert_values(&db, version_of);
}

#[test]
fn punched_segments_are_punched_again_moved_and_dropped() {
    let dir = common::dir();
    let db = fill(dir.path(), |number| number % 4 < 2);
    let first = db.gc().unwrap();
    punched(&db, first.segments_punched);
    let before = holes(dir.path());
    // More values die, next to the existing holes.
    let gone = |number: usize| number % 4 == 1;
    (0..KEYS).filter(|number| gone(*number)).for_each(|number| put(&db, number, 3));
    let second = db.gc().unwrap();
    assert!(second.segments_punched > 0, "{second:?}");
    punched(&db, first.segments_punched + second.segments_punched);
    assert!(holes(dir.path()) > before, "{before} and then {}", holes(dir.path()));
    let version = |number: usize| [1, 3, 2, 2][number % 4];
    assert_values(&db, version);
    drop(db);
    let db = common::open_with(dir.path(), by_hand());
    assert_values(&db, version);
    // A reorganization reads around the holes, and the segment that it writes has none.
    db.default_keyspace().reorganize(..).unwrap();
    db.gc().unwrap();
    db.wait_idle().unwrap();
    assert_values(&db, version);
    assert_eq!(holes(dir.path()), 0);
}

#[test]
fn a_repair_finds_everything_in_punched_segments() {
    let dir = common::dir();
    let db = fill(dir.path(), is_kept);
    let report = db.gc().unwrap();
    punched(&db, report.segments_punched);
    db.close().unwrap();
    // Only CURRENT is lost.
    fs::remove_file(dir.path().join("CURRENT")).unwrap();
    let repaired = Db::repair(dir.path()).unwrap();
    assert_eq!(repaired.lost_keys, 0, "{:?}", repaired.problems);
    let db = common::open_with(dir.path(), by_hand());
    assert_values(&db, version_of);
    assert!(holes(dir.path()) > 20 * VALUE as u64, "and they are kept");
}

#[test]
fn what_a_copy_without_holes_brings_back_is_punched_again() {
    let (dir, copies) = (common::dir(), common::dir());
    let db = fill(dir.path(), is_kept);
    let report = db.gc().unwrap();
    punched(&db, report.segments_punched);
    db.close().unwrap();
    for path in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let target = copies.path().join(path.file_name().unwrap());
        fs::write(target, fs::read(path).unwrap()).unwrap();
    }
    assert_eq!(holes(copies.path()), 0, "zeroes where holes were");
    let copy = common::open_with(copies.path(), by_hand());
    punched(&copy, report.segments_punched);
    assert!(holes(copies.path()) > 20 * VALUE as u64);
    assert_values(&copy, version_of);
}
