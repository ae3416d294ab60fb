//! Checks that the head of the log moves where no flush moves it.

use super::relocated::open;
use super::snapshots::{close_segment, put};
use crate::compaction::flush;
use crate::db::Db;
use crate::{Options, doc_dir};
use std::path::Path;

fn move_head(db: &Db) -> bool {
    flush::move_head(&db.core.runtime, &db.core.committer).unwrap()
}

/// Returns the number of sealed segments that replay would still read.
fn tail(db: &Db) -> usize {
    let version = db.core.set.current();
    let sealed = version.segments.iter().filter(|(_, live)| live.sealed.is_some());
    sealed.filter(|(id, _)| **id >= version.head.segment).count()
}

#[test]
fn what_is_flushed_is_passed_once_its_segment_is_closed() {
    let dir = doc_dir("head-moves");
    let db = open(&dir);
    put(&db, "a", 1);
    db.flush().unwrap();
    close_segment(&db);
    assert_eq!(tail(&db), 1, "the flush found it open");
    assert!(move_head(&db));
    assert_eq!(tail(&db), 0);
    assert!(!move_head(&db), "it is there already");
    drop(db);
    let db = open(&dir);
    assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), vec![1; 500]);
}

/// I1, I3: entries that are in memtables alone are replayed after a crash.
#[test]
fn i03_what_a_memtable_holds_is_never_passed() {
    let dir = doc_dir("head-stays");
    let db = open(&dir);
    put(&db, "a", 1);
    db.flush().unwrap();
    put(&db, "b", 2);
    let first = db.core.states()[0].view().active.first().unwrap();
    close_segment(&db);
    put(&db, "c", 3);
    assert!(!move_head(&db));
    assert_eq!(db.core.set.current().head, first);
    assert_eq!(tail(&db), 1);
    db.core.states()[0].rotate_memtable();
    assert!(!move_head(&db), "not over memtables that wait either");
}

/// Fills a keyspace of this name.
fn fill(db: &Db, name: &str, puts: usize) {
    let keyspace = db.create_keyspace(name).unwrap();
    (0..puts).for_each(|number| keyspace.put(format!("{number:03}"), vec![7; 500]).unwrap());
}

/// Returns the number of segments in the directory.
fn segments(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|it| it == "seg")).count()
}

/// Symptom: a program that created, filled and dropped keyspaces kept the log of all of them, and
/// each opening replayed it. Cause: only flushes, ingests and value GC moved the head in the
/// manifest, and memtables that go with their keyspace are never flushed. Now a drop moves it, as
/// far as the keyspaces that are left allow: here there is always one more.
#[test]
fn the_log_of_what_was_dropped_does_not_pile_up() {
    let dir = doc_dir("head-dropped");
    let db = open(&dir);
    fill(&db, "0", 3);
    for life in 1..200 {
        fill(&db, &life.to_string(), 3);
        db.drop_keyspace(&(life - 1).to_string()).unwrap();
    }
    db.wait_idle().unwrap();
    let found = segments(&dir);
    assert!(found < 6, "{found} segments for what one or two hold");
    drop(db);
    let db = open(&dir);
    let replayed = db.recovery().replayed_bytes;
    assert!(replayed < 64 << 10, "{replayed} bytes of log are replayed");
    assert_eq!(db.keyspace("199").unwrap().iter().count(), 3);
}

/// The same where segments are longer than what recovery may replay.
#[test]
fn a_drop_shortens_a_long_replay_within_a_segment() {
    let dir = doc_dir("head-dropped-within");
    let options = Options { max_replay_bytes: 64 << 10, ..Options::default() };
    let db = Db::builder(&dir).options(options).open().unwrap();
    for life in 0..200 {
        fill(&db, "doomed", 3);
        db.drop_keyspace("doomed").unwrap();
        let (head, end) = (db.core.set.current().head, db.core.committer.reach());
        assert_eq!(head.segment, end.segment, "life {life}");
        let bytes = end.offset - head.offset;
        assert!(bytes < 40 << 10, "{bytes} bytes to replay after life {life}");
    }
}

/// Symptom and cause as above; a flush that found nothing to flush left the head where it was, too,
/// although the guide says that it moves it.
#[test]
fn a_flush_without_anything_to_flush_moves_the_head() {
    let dir = doc_dir("head-nothing-to-flush");
    let db = open(&dir);
    put(&db, "b", 1);
    db.flush().unwrap();
    fill(&db, "doomed", 10);
    db.drop_keyspace("doomed").unwrap();
    assert!(db.core.set.current().head < db.core.committer.reach());
    db.flush().unwrap();
    assert_eq!(db.core.set.current().head, db.core.committer.reach());
    let length = db.core.set.manifest_length();
    db.flush().unwrap();
    assert_eq!(db.core.set.manifest_length(), length, "it is there already");
    put(&db, "a", 1);
    drop(db);
    let db = open(&dir);
    assert_eq!(db.recovery().replayed_records, 1);
    assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), vec![1; 500]);
}
