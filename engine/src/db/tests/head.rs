//! Checks that the head of the log moves where no flush moves it.

use super::relocated::open;
use super::snapshots::{close_segment, put};
use crate::compaction::flush;
use crate::db::Db;
use crate::doc_dir;

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
