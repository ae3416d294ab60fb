//! A report with every kind of content, for the tests of the drawings.

use cleavedb::{SegmentSpace, SpaceCell, SpaceParts, SpaceReport};
use std::time::Duration;

pub(super) fn report() -> SpaceReport {
    let full = SpaceCell { live: 100, ..SpaceCell::default() };
    let cell = |live, garbage| SpaceCell { live, garbage, ..SpaceCell::default() };
    let segment = |id, live_bytes, cells| SegmentSpace {
        id,
        sealed: true,
        length: 64 << 20,
        allocated: 64 << 20,
        live_bytes,
        links: 1,
        age: Some(Duration::from_secs(90)),
        reason: "kept by <live> values & \"more\"".into(),
        cells,
        ..SegmentSpace::default()
    };
    let worn = (0..64).map(|n| cell(100 - n, n)).collect();
    let holes = vec![
        SpaceCell { hole: 100, ..SpaceCell::default() },
        SpaceCell { live: 3, hole: 97, ..SpaceCell::default() },
        SpaceCell { pinned: 60, garbage: 40, ..SpaceCell::default() },
        full,
    ];
    let log = vec![
        SpaceCell { live: 50, log: 50, ..SpaceCell::default() },
        SpaceCell { log: 100, ..SpaceCell::default() },
        SpaceCell { unwritten: 100, ..SpaceCell::default() },
    ];
    let empty = SegmentSpace { id: 32, replay: true, links: 1, ..SegmentSpace::default() };
    SpaceReport {
        seqno: 7,
        allocated: 256 << 20,
        live_bytes: 128 << 20,
        hole_bytes: 1 << 20,
        target: Some(1.3),
        parts: SpaceParts { live: 128 << 20, garbage: 128 << 20, ..SpaceParts::default() },
        classes: Vec::new(),
        keyspaces: Vec::new(),
        segments: vec![
            segment(7, 44 << 20, worn),
            SegmentSpace { sorted: true, ..segment(12, 64 << 20, vec![full; 64]) },
            SegmentSpace { links: 2, ..segment(21, 17 << 20, holes) },
            SegmentSpace { replay: true, sealed: false, ..segment(31, 20 << 20, log) },
            empty,
        ],
        holders: Vec::new(),
        warnings: Vec::new(),
    }
}
