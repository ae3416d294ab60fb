//! A report with every kind of content, for the tests of the drawings.

use super::Caption;
use cleavedb::{ClassSpace, FileClass, KeyspaceSpace, SegmentSpace, SpaceCell, SpaceReport};
use std::time::Duration;

/// Returns the default with some fields set, since the report's types may gain fields.
fn with<T: Default>(set: impl FnOnce(&mut T)) -> T {
    let mut made = T::default();
    set(&mut made);
    made
}

fn cell(set: impl FnOnce(&mut SpaceCell)) -> SpaceCell {
    with(set)
}

fn segment(id: u64, live_bytes: u64, cells: Vec<SpaceCell>) -> SegmentSpace {
    with(|it: &mut SegmentSpace| {
        it.id = id;
        it.sealed = true;
        it.length = 64 << 20;
        it.allocated = 64 << 20;
        it.live_bytes = live_bytes;
        it.links = 1;
        it.age = Some(Duration::from_secs(90));
        it.reason = "kept by <live> values & \"more\"".into();
        it.cells = cells;
    })
}

fn segments() -> Vec<SegmentSpace> {
    let full = cell(|it| it.live = 100);
    let worn = (0..64).map(|n| cell(|it| (it.live, it.garbage) = (100 - n, n))).collect();
    let holes = vec![
        cell(|it| it.hole = 100),
        cell(|it| (it.live, it.hole) = (3, 97)),
        cell(|it| (it.pinned, it.garbage) = (60, 40)),
        full,
    ];
    let log = vec![
        cell(|it| (it.live, it.log) = (50, 50)),
        cell(|it| it.log = 100),
        cell(|it| it.unwritten = 100),
    ];
    let mut sorted = segment(12, 64 << 20, vec![full; 64]);
    sorted.sorted = true;
    let mut linked = segment(21, 17 << 20, holes);
    linked.links = 2;
    let mut active = segment(31, 20 << 20, log);
    (active.replay, active.sealed) = (true, false);
    let empty = with(|it: &mut SegmentSpace| (it.id, it.replay, it.links) = (32, true, 1));
    vec![segment(7, 44 << 20, worn), sorted, linked, active, empty]
}

fn keyspace(name: &str, tables: u64, fresh: u64) -> KeyspaceSpace {
    with(|it: &mut KeyspaceSpace| {
        it.name = name.into();
        it.tables = tables;
        it.table_bytes = tables * (2 << 20);
        (it.entries, it.table_entries) = (fresh, 100);
    })
}

pub(super) fn caption(path: &str) -> Caption {
    Caption { path: path.into(), at: Duration::from_secs(1_795_581_645) }
}

pub(crate) fn report() -> SpaceReport {
    with(|it: &mut SpaceReport| {
        it.seqno = 7;
        it.allocated = 256 << 20;
        it.live_bytes = 128 << 20;
        it.hole_bytes = 1 << 20;
        it.settled_bytes = Some(161_061_273);
        it.ceiling_bytes = Some(384 << 20);
        it.parts.live = 128 << 20;
        it.parts.garbage = 100 << 20;
        it.parts.log = 16 << 20;
        it.parts.tree = 10 << 20;
        it.parts.metadata = 2 << 20;
        it.keyspaces = vec![
            keyspace("default", 4, 75),
            keyspace("empty", 0, 0),
            keyspace("naïve names <of> people", 1, 100),
        ];
        it.segments = segments();
        it.classes = vec![with(|class: &mut ClassSpace| {
            class.class = FileClass::Relocations;
            (class.files, class.length, class.allocated) = (2, 1 << 20, 1 << 20);
        })];
    })
}
