//! Jobs that race with snapshots: what a snapshot sees must stay, and one that ends must not look
//! like damage.

use super::relocated::{expect, expect_clean, fill, open};
use crate::background::CompactionReason;
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::compaction::flush;
use crate::db::Db;
use crate::doc_dir;
use crate::gc::liveness_scan::{self, LivenessScan, Scope};
use crate::gc::tidy::Tidy;
use crate::version::entries::EntriesView;
use crate::version::view::View;
use std::sync::Arc;

pub(super) fn put(db: &Db, key: &str, byte: u8) {
    db.default_keyspace().put(key, vec![byte; 500]).unwrap();
}

/// Seals the active segment, so that the log goes on in another one.
pub(super) fn close_segment(db: &Db) {
    let mut log = db.core.committer.hold();
    db.core.committer.log().end_active(&mut log).unwrap();
    db.core.committer.log().record_sealed().unwrap();
}

/// Flushes everything written so far, so that its segments are sealed and before the head.
pub(super) fn settle(db: &Db) {
    close_segment(db);
    db.flush().unwrap();
}

pub(super) fn views(db: &Db) -> Vec<Arc<View>> {
    db.core.states().iter().map(|state| state.view()).collect()
}

/// Runs a liveness scan over these views, or a look at the wanted segments alone.
pub(super) fn taken(
    seqno: SeqNo,
    snapshots: &[SeqNo],
    views: Vec<EntriesView>,
    wanted: (&[SegmentId], bool),
) -> LivenessScan {
    taken_up_to((seqno, seqno), snapshots, views, wanted)
}

/// Does as [`taken`] where more is visible than what counts as newer.
pub(super) fn taken_up_to(
    (seqno, visible): (SeqNo, SeqNo),
    snapshots: &[SeqNo],
    views: Vec<EntriesView>,
    wanted: (&[SegmentId], bool),
) -> LivenessScan {
    liveness_scan::take(&scope((seqno, visible), snapshots, views, wanted), || Ok(())).unwrap()
}

/// The input of such a liveness scan.
pub(super) fn scope(
    (seqno, visible): (SeqNo, SeqNo),
    snapshots: &[SeqNo],
    views: Vec<EntriesView>,
    (wanted, wanted_only): (&[SegmentId], bool),
) -> Scope {
    Scope {
        seqno,
        visible,
        snapshots: snapshots.to_vec(),
        views,
        wanted: wanted.to_vec(),
        wanted_only,
        max_list_bytes: 160_000,
        walk: 1 + u64::from(wanted_only),
        before: 0,
    }
}

#[test]
fn i06_a_flush_keeps_what_a_snapshot_sees_that_was_taken_meanwhile() {
    let dir = doc_dir("flush-snapshot");
    let db = open(&dir);
    // Only this test flushes.
    db.core.background.stop();
    let (core, keyspace) = (&db.core, &db.core.states()[0]);
    put(&db, "a", 1);
    keyspace.rotate_memtable();
    let mut snapshot = None;
    let list_and_go_on = || {
        let listed = core.snapshots.seen();
        put(&db, "a", 2);
        snapshot = Some(db.snapshot());
        put(&db, "a", 3);
        keyspace.rotate_memtable();
        listed
    };
    flush::run(&core.runtime.for_closing(), &core.committer, keyspace, list_and_go_on).unwrap();
    let then = crate::ReadOptions { snapshot, ..Default::default() };
    let seen = db.default_keyspace().get_with("a", &then).unwrap();
    assert_eq!(seen.unwrap(), vec![2; 500]);
    assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), vec![3; 500]);
}

/// A snapshot is listed and dropped, and a compaction drops what only it saw, before the liveness
/// scan takes its views. Older versions below then seem visible to it although their records were
/// given up long ago.
#[test]
fn i06_a_liveness_scan_whose_snapshots_went_finds_no_damage() {
    let dir = doc_dir("liveness_scan-snapshot");
    let db = open(&dir);
    let keys: Vec<String> = (0..40).map(|number| format!("{number:02}")).collect();
    keys.iter().for_each(|key| put(&db, key, 1));
    settle(&db);
    db.compact().unwrap();
    // The deepest level keeps old versions whose records are freed.
    keys[..30].iter().for_each(|key| put(&db, key, 2));
    settle(&db);
    let report = db.gc().unwrap();
    assert!(report.segments_freed > 0, "{report:?}");
    let snapshot = db.snapshot();
    put(&db, "00", 3);
    let scope_seqno = db.core.snapshots.visible();
    let listed = db.core.snapshots.list();
    assert_eq!(listed.len(), 1);
    drop(snapshot);
    // The newest version is flushed to L0, then L0's tables are merged into one.
    settle(&db);
    let keyspace = &db.core.states()[0];
    let merge_level0 = |levels: &crate::version::levels::Levels| {
        let inputs: Vec<_> = levels.level(0).to_vec();
        let pick = crate::compaction::picker::Pick::in_place(0, inputs);
        (levels.level(0).len() > 1).then_some(pick)
    };
    db.core.background.run_chosen(keyspace, CompactionReason::Manual, merge_level0).unwrap();
    assert_eq!(keyspace.view().levels.level(0).len(), 1);
    let views: Vec<_> = views(&db).iter().map(|view| EntriesView::of(view)).collect();
    let liveness_scan = taken(scope_seqno, &listed, views, (&[], false));
    assert_eq!(liveness_scan.entries, 40, "each key once");
    assert_eq!(db.space().unwrap().keyspaces[0].entries, 40);
    expect_clean(&db);
}

/// A running job may still install a pointer that it read before, so a relocation must stay until
/// no version is left whose tables name it, even if those of the newest do not.
#[test]
fn i03_relocations_outlast_versions_from_when_they_were_needed() {
    let dir = doc_dir("tidy-alive");
    let (db, model) = fill(&dir);
    db.gc().unwrap();
    let set = &db.core.set;
    let before = set.current();
    let is_named = |id: &&SegmentId| before.uses.of(**id).count > 0;
    let named: Vec<SegmentId> = before.relocations.keys().filter(is_named).copied().collect();
    assert!(!named.is_empty());
    db.compact().unwrap();
    let mut tidy = Tidy::default();
    tidy.run(set).unwrap();
    let now = set.current();
    assert!(named.iter().all(|id| now.uses.of(*id).count == 0), "no table names them");
    assert!(named.iter().all(|id| now.relocations.contains_key(id)), "a job may");
    drop((before, now));
    db.core.background.wait_until(&[], || set.oldest_alive() == set.current().number).unwrap();
    tidy.run(set).unwrap();
    assert!(set.current().relocations.is_empty());
    expect(&db, &model);
    expect_clean(&db);
}
