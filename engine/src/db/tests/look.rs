//! A look at new segments finds all that is live there, by the few tables that reference them.

use super::relocated::{expect_clean, open};
use super::snapshots::{put, settle, views};
use crate::base::pointer::SegmentId;
use crate::db::Db;
use crate::doc_dir;
use crate::gc::census::{self, Census, LiveRecord, Scope};
use crate::segment::SegmentKind;
use crate::version::entries::EntriesView;
use crate::version::files::names;
use std::collections::BTreeSet;

/// What is found live in these segments, and how many entries were walked for that.
fn count(db: &Db, wanted: &[SegmentId], wanted_only: bool) -> Census {
    let set: BTreeSet<SegmentId> = wanted.iter().copied().collect();
    let view_of = |view: &crate::version::view::View| match wanted_only {
        true => EntriesView::referencing(view, &set),
        false => EntriesView::of(view),
    };
    let seqno = db.core.snapshots.visible();
    let snapshots = db.core.snapshots.list();
    let views: Vec<_> = views(db).iter().map(|view| view_of(view)).collect();
    let scope = Scope {
        seqno,
        snapshots: &snapshots,
        views: &views,
        wanted,
        wanted_only,
        max_listed: 10_000,
        walk: 1,
    };
    census::take(&scope, || Ok(())).unwrap()
}

/// Segments of the log that could be freed, without those in `before`.
fn closed(db: &Db, before: &[SegmentId]) -> Vec<SegmentId> {
    let version = db.core.set.current();
    let is_new = |id: &SegmentId| {
        let kind = version.segments[id].handle.segment.kind();
        kind == SegmentKind::Log && *id < version.head.segment && !before.contains(id)
    };
    version.segments.keys().copied().filter(is_new).collect()
}

fn list(census: &Census, id: SegmentId) -> &[LiveRecord] {
    census.segments[&id].list.as_deref().expect("there was room")
}

/// A census can take longer than it takes to free a segment that was written to when it began.
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
    db.core.set.purge().unwrap();
    for id in old {
        let path = names::segment(&db.core.set.tables().dir, id);
        assert!(!path.exists(), "{} is kept", path.display());
    }
    let seqno = db.core.snapshots.visible();
    let scope = Scope {
        seqno,
        snapshots: &[],
        views: &views,
        wanted: &[],
        wanted_only: false,
        max_listed: 1000,
        walk: 1,
    };
    let census = census::take(&scope, || Ok(())).unwrap();
    assert_eq!(census.entries, 100, "what they led to when the view was taken counts still");
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
    // Written over before they come to a table, and after.
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

    let (census, look) = (count(&db, &wanted, false), count(&db, &wanted, true));
    assert_eq!(look.counted, wanted.iter().copied().collect());
    assert!(look.walked < 100 && census.walked > 480, "{} {}", look.walked, census.walked);
    for &id in &wanted {
        let (all, listed) = (list(&census, id), list(&look, id));
        let offsets: BTreeSet<u64> = listed.iter().map(|record| record.offset).collect();
        for record in all {
            assert!(offsets.contains(&record.offset), "{record:?} of {id} is live");
        }
        assert!(listed.is_sorted_by_key(|record| record.rank));
    }
    // The first ten were written over within one flush: 40 are left of 50. The snapshot sees all
    // of them.
    let records = |census: &Census, ids: &[SegmentId]| -> usize {
        ids.iter().map(|&id| list(census, id).len()).sum()
    };
    assert_eq!((records(&look, &first), records(&census, &first)), (40, 40));
    drop((snapshot, seen));
    let (census, look) = (count(&db, &wanted, false), count(&db, &wanted, true));
    assert_eq!(records(&look, &first), 20, "the later flush is looked at too, and hides the rest");
    assert_eq!(records(&census, &wanted), records(&look, &wanted) - 5, "what a memtable hides");
    assert_eq!(records(&count(&db, &first, true), &first), 40, "nothing but that flush is read");
    expect_clean(&db);
}

/// A view is taken that is from before a flush, though the head has moved on: what the flush wrote
/// is in no table of it yet.
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
    let scope = Scope {
        seqno: db.core.snapshots.visible(),
        snapshots: &[],
        views: &views,
        wanted: &wanted,
        wanted_only: true,
        max_listed: 1000,
        walk: 1,
    };
    let look = census::take(&scope, || Ok(())).unwrap();
    assert_eq!(wanted.iter().map(|&id| list(&look, id).len()).sum::<usize>(), 50);
}
