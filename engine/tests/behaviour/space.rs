//! Tests of the space report against the files, with snapshots, cursors and checkpoints.

use crate::common;
use cleavedb::{Db, FileClass, GcOptions, HolderSpace, Options, SegmentSpace, SpaceReport};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const VALUE_BYTES: usize = 500;

/// Returns the allocated bytes of all files in a directory.
fn allocated(dir: &Path) -> u64 {
    common::metadata_of(dir, "").map(|(_, metadata)| metadata.blocks() * 512).sum()
}

fn fill(db: &Db, keys: std::ops::Range<usize>, version: u64) {
    let keyspace = db.default_keyspace();
    for number in keys {
        let key = common::key(number);
        keyspace.put(&key, common::value(&key, version, VALUE_BYTES)).unwrap();
    }
}

/// Returns options without automatic GC, so that values stay where they are.
fn quiet() -> Options {
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    Options { gc, ..common::tiny() }
}

/// Creates a database in which no background work is left.
fn settled(dir: &Path) -> Db {
    let db = common::open_with(dir, quiet());
    fill(&db, 0..300, 1);
    fill(&db, 100..200, 2);
    db.flush().unwrap();
    db.compact().unwrap();
    db
}

/// The least bytes of a record's head, which are not counted as live.
const RECORD_HEAD: u64 = 9;

/// Asserts what holds for every report of a database without background work.
fn check(space: &SpaceReport) {
    assert_eq!(space.parts.total(), space.allocated);
    let classes: u64 = space.classes.iter().map(|class| class.allocated).sum();
    assert_eq!(classes, space.allocated);
    let live: u64 = space.keyspaces.iter().map(|keyspace| keyspace.live_bytes()).sum();
    assert_eq!(live, space.live_bytes);
    let separated: u64 = space.keyspaces.iter().map(|keyspace| keyspace.separated_bytes).sum();
    let records: u64 = space.segments.iter().map(|segment| segment.live_bytes).sum();
    let heads =
        RECORD_HEAD * space.segments.iter().map(|segment| segment.live_records).sum::<u64>();
    assert_eq!(separated, records - heads);
    for segment in &space.segments {
        assert!(segment.cells.len() <= 64);
        for cell in &segment.cells {
            let parts = [cell.live, cell.pinned, cell.garbage, cell.log, cell.hole, cell.unwritten];
            assert_eq!(parts.iter().map(|&part| u32::from(part)).sum::<u32>(), 100);
        }
        if segment.sealed && !segment.replay {
            let seen = segment.live_bytes + segment.pinned_bytes;
            assert_eq!(segment.garbage_bytes, segment.allocated - seen);
        }
    }
    assert_eq!(space.warnings, [""; 0]);
}

fn held(space: &SpaceReport, kind: &str) -> HolderSpace {
    let mut found = space.holders.iter().filter(|holder| holder.kind == kind);
    let holder = found.next().expect("it is listed").clone();
    assert!(found.next().is_none(), "once");
    holder
}

#[test]
fn the_parts_are_the_files_blocks() {
    let dir = common::dir();
    let db = settled(dir.path());
    let space = db.space().unwrap();
    check(&space);
    assert_eq!(space.allocated, allocated(dir.path()));
    assert_eq!(space.keyspaces.len(), 1);
    let keyspace = &space.keyspaces[0];
    assert_eq!((keyspace.entries, keyspace.pinned_entries), (300, 0));
    assert_eq!(keyspace.inline_bytes, 0, "every value is separated");
    let least = 300 * VALUE_BYTES as u64;
    assert!((least..least + 300 * 50).contains(&space.live_bytes), "{}", space.live_bytes);
    assert!(space.amplification().unwrap() > 1.0);
    // The garbage is the first versions of a third of the keys, between live values.
    assert!(space.parts.garbage > 50 * VALUE_BYTES as u64, "{space}");
    assert!(space.parts.tree > 0 && space.parts.metadata > 0, "{space}");
    assert!(space.holders.is_empty());
}

#[test]
fn a_closed_store_is_explained_as_well() {
    let dir = common::dir();
    let db = settled(dir.path());
    let before = db.space().unwrap();
    db.close().unwrap();
    let options = Options { read_only: true, ..quiet() };
    let space = common::open_with(dir.path(), options.clone()).space().unwrap();
    check(&space);
    assert_eq!(space.live_bytes, before.live_bytes);
    assert_eq!(space.allocated, allocated(dir.path()));
    // This file is an orphan, as a crash leaves it: no edit names it.
    let table = common::files(dir.path(), ".tbl").remove(0);
    std::fs::copy(table, dir.path().join("99999999.tbl")).unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let space = common::open_with(dir.path(), options).space().unwrap();
    assert_eq!(space.allocated, allocated(dir.path()));
    assert_eq!(space.warnings.len(), 2, "{:?}", space.warnings);
    assert!(space.warnings[0].contains("not CleaveDB's: notes.txt"), "{:?}", space.warnings);
    assert!(space.warnings[1].contains("left by a crash"), "{:?}", space.warnings);
    assert!(space.parts.other > 0);
}

#[test]
fn after_a_kill_the_log_ends_where_replay_did() {
    let (dir, copy) = (common::dir(), common::dir());
    let db = common::open_with(dir.path(), quiet());
    fill(&db, 0..10, 1);
    let copied = copy.path().join("db");
    common::copy_dir(dir.path(), &copied);
    let options = Options { read_only: true, ..quiet() };
    let space = common::open_with(&copied, options).space().unwrap();
    check(&space);
    let open: Vec<_> = space.segments.iter().filter(|segment| segment.live_records > 0).collect();
    assert_eq!(open.len(), 1);
    assert!(open[0].replay && !open[0].sealed);
    let unwritten: u64 = open[0].cells.iter().map(|cell| u64::from(cell.unwritten)).sum();
    let parts = open[0].cells.len() as u64 * 100;
    let share = open[0].live_bytes as f64 / open[0].length as f64;
    let written = 1.0 - unwritten as f64 / parts as f64;
    assert!((share..share + 0.1).contains(&written), "{share} {written}");
}

#[test]
fn a_snapshot_is_named_with_what_it_pins() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), quiet());
    let keyspace = db.default_keyspace();
    keyspace.put("small", "inline").unwrap();
    fill(&db, 0..50, 1);
    let (first, second) = (db.snapshot(), db.snapshot());
    fill(&db, 0..20, 2);
    keyspace.delete("small").unwrap();
    db.compact().unwrap();
    let space = db.space().unwrap();
    check(&space);
    assert_eq!((space.keyspaces[0].entries, space.keyspaces[0].pinned_entries), (50, 21));
    // Both snapshots pin the same versions, which are attributed to the older one.
    let holder = &space.holders[0];
    assert_eq!((holder.kind, holder.versions), ("snapshot", 21));
    assert_eq!(holder.seqno, first.seqno());
    assert_eq!(holder.version_bytes, space.keyspaces[0].pinned_bytes);
    assert_eq!(space.holders[1].bytes(), 0);
    let pinned: u64 = space.segments.iter().map(|segment| segment.pinned_bytes).sum();
    let inline = "small".len() + "inline".len();
    assert_eq!(pinned - 20 * RECORD_HEAD + inline as u64, holder.version_bytes);
    assert_eq!(space.parts.pinned, pinned);
    assert!(pinned >= 20 * VALUE_BYTES as u64);
    drop(first);
    assert_eq!(held(&db.space().unwrap(), "snapshot").versions, 21);
    drop(second);
    db.compact().unwrap();
    let space = db.space().unwrap();
    check(&space);
    assert_eq!((space.parts.pinned, space.keyspaces[0].pinned_entries), (0, 0));
    assert!(space.holders.is_empty());
}

#[test]
fn what_came_between_two_snapshots_is_pinned_by_the_later() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), quiet());
    let mut kept = Vec::new();
    for version in 1..=3 {
        fill(&db, 0..10 * version as usize, version);
        kept.push(db.snapshot());
    }
    fill(&db, 0..5, 4);
    let space = db.space().unwrap();
    let versions: Vec<u64> = space.holders.iter().map(|holder| holder.versions).collect();
    assert_eq!(versions, [10, 20, 5]);
    assert_eq!(space.keyspaces[0].entries, 30);
    assert_eq!(space.keyspaces[0].pinned_entries, 35);
}

#[test]
fn a_cursor_is_named_with_the_files_it_keeps() {
    let dir = common::dir();
    let db = settled(dir.path());
    let tables = common::files(dir.path(), ".tbl").len() as u64;
    let keyspace = db.default_keyspace();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    let mut younger = keyspace.iter();
    assert!(younger.next().is_some());
    let space = db.space().unwrap();
    check(&space);
    assert_eq!((held(&space, "cursor").bytes(), held(&space, "iterator").bytes()), (0, 0));
    fill(&db, 0..300, 3);
    db.compact().unwrap();
    let space = db.space().unwrap();
    check(&space);
    let holder = held(&space, "cursor");
    assert_eq!(holder.keyspace.as_deref(), Some("default"));
    assert_eq!(holder.files, tables, "no table is left as it was");
    assert_eq!(holder.file_bytes, space.parts.obsolete);
    assert_eq!(space.allocated, allocated(dir.path()));
    // The iterator pins the same files, which are attributed to the cursor as long as it is open,
    // and all the values that were replaced since.
    let iterator = held(&space, "iterator");
    assert_eq!((iterator.files, iterator.versions), (0, 300));
    drop(cursor);
    assert_eq!(held(&db.space().unwrap(), "iterator").files, tables);
    drop(younger);
    db.compact().unwrap();
    db.wait_idle().unwrap();
    let space = db.space().unwrap();
    check(&space);
    assert_eq!(space.parts.obsolete, 0);
    assert!(space.holders.is_empty());
    assert_eq!(space.keyspaces[0].entries, 300);
}

#[test]
fn what_gc_moves_is_followed() {
    let dir = common::dir();
    let db = settled(dir.path());
    let mut cursor = db.default_keyspace().cursor().unwrap();
    cursor.seek_to_first().unwrap();
    let before = db.space().unwrap();
    let taken = |segment: &&SegmentSpace| segment.reason == "automatic GC is off";
    let expected = before.segments.iter().filter(taken).count() as u64;
    assert!(expected > 0, "{before}");
    let freed = db.gc().unwrap().segments_freed;
    assert!(freed >= expected, "{freed} of {expected}");
    db.wait_idle().unwrap();
    let space = db.space().unwrap();
    check(&space);
    assert_eq!(space.live_bytes, before.live_bytes, "records are as long as before");
    assert_eq!(space.allocated, allocated(dir.path()));
    let sorted = |segment: &&SegmentSpace| segment.sorted && segment.live_records > 0;
    let target = space.segments.iter().find(sorted).expect("values were moved");
    assert!(target.referenced_bytes >= target.live_bytes);
    assert!(space.parts.garbage < before.parts.garbage);
    // The cursor still reads what was freed; each file that it pins is attributed to it.
    let holder = held(&space, "cursor");
    assert!(holder.files >= freed, "{holder}");
    assert_eq!(holder.file_bytes, space.parts.obsolete);
    assert_eq!(cursor.value().unwrap().len(), VALUE_BYTES);
    drop(cursor);
    db.compact().unwrap();
    let space = db.space().unwrap();
    check(&space);
    assert_eq!(space.parts.obsolete, 0);
    assert_eq!(space.live_bytes, before.live_bytes);
    assert!(space.amplification() < before.amplification());
}

#[test]
fn a_checkpoint_shares() {
    let (dir, other) = (common::dir(), common::dir());
    let db = settled(dir.path());
    assert!(db.space().unwrap().classes.iter().all(|class| class.shared == 0));
    let target = other.path().join("copy");
    db.checkpoint(&target).unwrap();
    let space = db.space().unwrap();
    check(&space);
    let shared = |class| space.classes.iter().find(|c| c.class == class).unwrap().clone();
    if shared(FileClass::Tables).shared == 0 {
        // The directories are on different file systems, so the files were copied.
        return;
    }
    let tables = shared(FileClass::Tables);
    assert_eq!(tables.shared, tables.allocated);
    let segments = shared(FileClass::Segments);
    assert_eq!(segments.shared, segments.allocated);
    assert!(space.segments.iter().filter(|s| s.sealed).all(|segment| segment.links == 2));
}

#[test]
fn a_file_deleted_by_hand_is_told() {
    let dir = common::dir();
    let db = settled(dir.path());
    let keyspace = db.default_keyspace();
    assert!(keyspace.iter().all(|item| item.is_ok()), "all files are open");
    let table = common::files(dir.path(), ".tbl").remove(0);
    std::fs::remove_file(&table).unwrap();
    let warnings = db.space().unwrap().warnings;
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    let named = warnings.iter().filter(|warning| warning.contains(&name)).count();
    assert_eq!(named, 2, "missing, and still open: {warnings:?}");
}

#[test]
fn while_everything_moves_it_still_adds_up() {
    let dir = common::dir();
    // This database has automatic GC.
    let db = common::open(dir.path());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for version in 0..30 {
                fill(&db, 0..100, version);
            }
        });
        let mut reports = 0;
        while !writer.is_finished() || reports == 0 {
            let space = db.space().unwrap();
            assert_eq!(space.parts.total(), space.allocated);
            assert!(space.keyspaces[0].entries <= 100);
            assert_eq!(space.keyspaces[0].pinned_entries, 0);
            reports += 1;
        }
    });
}
