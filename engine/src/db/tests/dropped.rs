//! Checks what is left of a dropped keyspace for those who keep a handle on it.

use super::relocated::open;
use super::snapshots::{put, settle};
use crate::doc_dir;
use crate::version::files::names;

/// Guards against a leak: a handle on a dropped keyspace held the memtables, the segments they lead
/// to, and the version of that moment with every file freed since, for as long as it was kept.
#[test]
fn i05_a_handle_on_what_was_dropped_keeps_nothing() {
    let dir = doc_dir("dropped-handle");
    let db = open(&dir);
    let doomed = db.create_keyspace("doomed").unwrap();
    // These entries wait in a memtable; their values are in the log.
    (0..100).for_each(|number| doomed.put(format!("{number:03}"), vec![1; 500]).unwrap());
    (0..100).for_each(|number| put(&db, &format!("{number:03}"), 1));
    // The bound leaves out a spare segment behind the active one.
    let active = db.core.committer.hold().active.as_ref().map(|active| active.id());
    let segments = db.core.set.current().segments.clone();
    let old: Vec<_> = segments.keys().copied().filter(|&id| Some(id) <= active).collect();
    drop(segments);
    db.drop_keyspace("doomed").unwrap();
    (0..100).for_each(|number| put(&db, &format!("{number:03}"), 2));
    settle(&db);
    db.gc().unwrap();
    db.wait_idle().unwrap();
    let set = &db.core.set;
    assert_eq!(set.oldest_alive(), set.current().number);
    assert!(doomed.state.view().memtables().all(|it| it.table.is_empty()));
    for id in old {
        let path = names::segment(&set.tables().dir, id);
        assert!(!path.exists(), "{} is kept", path.display());
    }
    for refused in [doomed.flush(), doomed.put("more", "1")] {
        assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::KeyspaceDropped);
    }
}
