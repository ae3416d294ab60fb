//! Checks that a look, a liveness scan of new segments only, finds all that is live in them through
//! the few tables that refer to them.

use super::relocated::{expect_clean, open};
use super::snapshots::{put, settle, taken, views};
use crate::base::pointer::SegmentId;
use crate::db::Db;
use crate::doc_dir;
use crate::gc::facts::{SegmentFacts, SpaceFacts};
use crate::gc::liveness_scan::LivenessScan;
use crate::gc::record_list::LiveRecord;
use crate::gc::survey::Knowledge;
use crate::segment::SegmentKind;
use crate::version::HOLE_UNIT;
use crate::version::edit::{Change, Edit};
use crate::version::entries::EntriesView;
use crate::version::files::names;
use crate::version::view::View;
use std::collections::BTreeSet;

/// Counts what is live in these segments; the result says how many entries were walked.
fn count(db: &Db, wanted: &[SegmentId], wanted_only: bool) -> LivenessScan {
    let set: BTreeSet<SegmentId> = wanted.iter().copied().collect();
    let view_of = |view: &View| match wanted_only {
        true => EntriesView::referencing(view, &set),
        false => EntriesView::of(view),
    };
    let (seqno, snapshots) = (db.core.snapshots.visible(), db.core.snapshots.list());
    let views: Vec<_> = views(db).iter().map(|view| view_of(view)).collect();
    taken(seqno, &snapshots, views, (wanted, wanted_only))
}

/// Returns the log segments that could be freed, without those in `before`.
fn closed(db: &Db, before: &[SegmentId]) -> Vec<SegmentId> {
    let version = db.core.set.current();
    let is_new = |id: &SegmentId| {
        let kind = version.segments[id].handle.segment.kind();
        kind == SegmentKind::Log && *id < version.head.segment && !before.contains(id)
    };
    version.segments.keys().copied().filter(is_new).collect()
}

fn list(liveness_scan: &LivenessScan, id: SegmentId) -> Vec<LiveRecord> {
    liveness_scan.segments[&id].list.as_ref().expect("there was room").iter().collect()
}

/// A liveness scan can last longer than it takes to free a segment that existed when it began, so
/// the scan's views must not keep that segment.
#[test]
fn i05_a_view_for_counting_keeps_no_segment() {
    let dir = doc_dir("look-pins");
    let db = open(&dir);
    let write = |byte| (0..100).for_each(|number| put(&db, &format!("{number:03}"), byte));
    write(1);
    let views: Vec<_> = views(&db).iter().map(|view| EntriesView::of(view)).collect();
    settle(&db);
    let old = closed(&db, &[]);
    assert!(!old.is_empty());
    write(2);
    settle(&db);
    db.gc().unwrap();
    // A background thread that looks for work may hold the version before for a moment.
    let is_kept = |id: &SegmentId| names::segment(&db.core.set.tables().dir, *id).exists();
    for _ in 0..100_000 {
        db.core.set.purge().outcome.unwrap();
        if !old.iter().any(is_kept) {
            break;
        }
        std::thread::yield_now();
    }
    assert!(!old.iter().any(is_kept), "one of {old:?} is kept");
    let liveness_scan = taken(db.core.snapshots.visible(), &[], views, (&[], false));
    assert_eq!(liveness_scan.entries, 100, "what they led to when the view was taken counts still");
}

#[test]
fn i06_a_look_at_new_segments_misses_nothing_that_is_live() {
    let dir = doc_dir("look");
    let db = open(&dir);
    let keys: Vec<String> = (0..400).map(|number| format!("{number:03}")).collect();
    keys.iter().for_each(|key| put(&db, key, 1));
    settle(&db);
    let old = closed(&db, &[]);
    let snapshot = db.snapshot();
    keys[..40].iter().for_each(|key| put(&db, key, 2));
    // Some keys are overwritten before the flush, some after it.
    keys[..10].iter().for_each(|key| put(&db, key, 3));
    settle(&db);
    let first = closed(&db, &old);
    let seen = db.snapshot();
    keys[20..60].iter().for_each(|key| put(&db, key, 4));
    keys[30..35].iter().for_each(|key| db.default_keyspace().delete(key).unwrap());
    settle(&db);
    keys[50..55].iter().for_each(|key| put(&db, key, 5));
    let wanted = closed(&db, &old);
    assert!(!first.is_empty() && wanted.len() > first.len(), "{first:?} {wanted:?}");

    let (liveness_scan, look) = (count(&db, &wanted, false), count(&db, &wanted, true));
    let counted = look.segments.iter().filter(|(_, live)| live.is_counted());
    assert!(counted.map(|(id, _)| id).eq(&wanted), "{:?}", look.segments.keys());
    assert!(
        look.walked < 100 && liveness_scan.walked > 480,
        "{} {}",
        look.walked,
        liveness_scan.walked
    );
    for &id in &wanted {
        let (all, listed) = (list(&liveness_scan, id), list(&look, id));
        let offsets: BTreeSet<u64> = listed.iter().map(|record| record.offset).collect();
        for record in &all {
            assert!(offsets.contains(&record.offset), "{record:?} of {id} is live");
        }
        assert!(listed.is_sorted_by_key(|record| record.rank));
    }
    // The first ten were overwritten within one flush, so 40 of 50 are left. The snapshot sees all
    // of them.
    let records = |liveness_scan: &LivenessScan, ids: &[SegmentId]| -> usize {
        ids.iter().map(|&id| list(liveness_scan, id).len()).sum()
    };
    assert_eq!((records(&look, &first), records(&liveness_scan, &first)), (40, 40));
    drop((snapshot, seen));
    let (liveness_scan, look) = (count(&db, &wanted, false), count(&db, &wanted, true));
    assert_eq!(records(&look, &first), 20, "the later flush is looked at too, and hides the rest");
    assert_eq!(
        records(&liveness_scan, &wanted),
        records(&look, &wanted) - 5,
        "what a memtable hides"
    );
    assert_eq!(records(&count(&db, &first, true), &first), 40, "nothing but that flush is read");
    expect_clean(&db);
}

/// The views are taken before a flush moves the head on, so what the flush wrote is in none of
/// their tables. The look must find it in their memtables.
#[test]
fn i06_a_look_from_before_a_flush_misses_nothing() {
    let dir = doc_dir("look-flush");
    let db = open(&dir);
    (0..50).for_each(|number| put(&db, &format!("{number:03}"), 1));
    let before = views(&db);
    settle(&db);
    let wanted = closed(&db, &[]);
    let set: BTreeSet<SegmentId> = wanted.iter().copied().collect();
    let views: Vec<_> = before.iter().map(|view| EntriesView::referencing(view, &set)).collect();
    let look = taken(db.core.snapshots.visible(), &[], views, (&wanted, true));
    assert_eq!(wanted.iter().map(|&id| list(&look, id).len()).sum::<usize>(), 50);
}

fn facts_of(id: SegmentId) -> SpaceFacts {
    let segment = SegmentFacts {
        id,
        kind: SegmentKind::Log,
        allocated: 1 << 20,
        written: 1 << 20,
        live: 0,
        replayed: 0,
        live_records: 0,
        referenced: 1 << 20,
        counted: false,
        sealed: true,
        behind_head: true,
        dead_runs: None,
        fault: None,
    };
    SpaceFacts { segments: vec![segment], ..SpaceFacts::default() }
}

/// A liveness scan that began before a look can end after it. Its older result must not replace the
/// look's: what the look found dead may be in a hole by then, and a relocation that reads zeroes
/// takes the segment for damaged.
#[test]
fn i06_an_older_liveness_scan_takes_nothing_back() {
    let dir = doc_dir("look-older");
    let db = open(&dir);
    let write = |count: usize, byte| {
        for number in 0..count {
            db.default_keyspace().put(format!("{number:03}"), vec![byte; 14_000]).unwrap();
        }
        settle(&db);
    };
    write(1, 1);
    let id = closed(&db, &[])[0];
    let liveness_scan = count(&db, &[id], false);
    let record = list(&liveness_scan, id)[0];
    write(1, 2);
    let look = count(&db, &closed(&db, &[]), true);
    assert!(list(&look, id).is_empty());

    let (facts, version) = (facts_of(id), db.core.set.current());
    let written = [(id, facts.segments[0].written)];
    let mut knowledge = Knowledge::default();
    knowledge.add(look, &facts);
    knowledge.renew(liveness_scan.clone(), &written, &version);
    assert!(list(&knowledge.liveness_scan, id).is_empty(), "the look came later");
    assert_eq!(knowledge.list_bytes(), 0);

    let mut knowledge = Knowledge::default();
    knowledge.renew(liveness_scan.clone(), &written, &version);
    assert_eq!(list(&knowledge.liveness_scan, id), [record]);
    // Value GC that had the look's result may have declared a hole there.
    let hole = (record.offset.next_multiple_of(HOLE_UNIT), HOLE_UNIT);
    let holes = Change::Holes { segment: id, holes: [hole].into() };
    db.core.set.apply(|_| Ok(Edit::new(vec![holes])), &[], None).unwrap();
    let mut knowledge = Knowledge::default();
    knowledge.renew(liveness_scan, &written, &db.core.set.current());
    assert!(list(&knowledge.liveness_scan, id).is_empty(), "what is in a hole is not moved");
}
