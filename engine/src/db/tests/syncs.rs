//! Checks what a sync that somebody asks for says about those to come.

use crate::doc_dir;

/// The engine leaves the log to the system where nobody has asked for a sync for a while.
#[test]
fn who_syncs_by_hand_asks_for_it_as_with_a_commit() {
    let db = crate::open(doc_dir("syncs-by-hand")).unwrap();
    let is_asked = || db.core.committer.hold().segments_since_sync == 0;
    db.default_keyspace().put("k", "v").unwrap();
    assert!(!is_asked());
    db.core.committer.sync().unwrap();
    assert!(!is_asked(), "a job that syncs asks for no more");
    db.sync().unwrap();
    assert!(is_asked());
}
