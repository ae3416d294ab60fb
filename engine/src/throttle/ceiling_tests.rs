//! Tests of the rule of the ceiling of space, with the marks that value GC computes for a ceiling
//! of 1.3.

use crate::gc::bounds::SpaceBounds;
use crate::throttle::ceiling::{PaceFacts, SpacePace, pace};

const MIB: u64 = 1 << 20;
const BOUNDS: SpaceBounds = SpaceBounds::plain(1.3, 1.2, 0);

fn facts(allocated_mib: u64, live_mib: u64) -> PaceFacts {
    let marks = BOUNDS.ceiling(live_mib * MIB);
    PaceFacts {
        allocated: allocated_mib * MIB,
        live: live_mib * MIB,
        start: marks.start(),
        limit: marks.limit(),
        slack: marks.slack(),
        segment_bytes: 64 * MIB,
        ceiling: BOUNDS.ceiling,
        insert_share: 0.0,
        flushed_share: 0.0,
        memtables: 1,
        log_bytes: 500 * MIB,
        winnable: 10 * MIB,
        freed_per_second: 100 * MIB,
    }
}

/// Where flushes write no values, none is bounded; what one with values would get is told anyway.
#[test]
fn the_bound_of_memtables_with_values_does_not_depend_on_what_flushes_write() {
    for allocated in [1100, 1250, 1400] {
        for winnable in [0, 10 * MIB] {
            let [pointers, values] = [0.0, 1.0].map(|flushed_share| {
                pace(&PaceFacts { flushed_share, winnable, ..facts(allocated, 1000) })
            });
            assert_eq!(pointers.memtable_bytes, u64::MAX);
            assert!(values.memtable_bytes < 1000 * MIB);
            assert_eq!(values.inline_memtable_bytes, values.memtable_bytes);
            assert_eq!(pointers.inline_memtable_bytes, values.memtable_bytes);
        }
    }
}

/// Runs a writer that would overwrite `write` MiB per second against a GC that frees `free` MiB per
/// second while space is over its mark. Returns the highest space as a multiple of the live bytes,
/// and the share of its wish that the writer got.
fn run(write: f64, free: f64) -> (f64, f64) {
    let live = 1000.0 * MIB as f64;
    let low = BOUNDS.ceiling(1000 * MIB).low() as f64;
    let (mut allocated, mut log) = (1.2 * live, 0.0);
    let (mut highest, mut wished) = (0.0f64, 0.0);
    let step = 0.01;
    let mut pace_now = SpacePace::NONE;
    for tick in 0..10_000 {
        if tick % 20 == 0 {
            let facts = PaceFacts {
                allocated: allocated as u64,
                log_bytes: log as u64,
                freed_per_second: (free * MIB as f64) as u64,
                ..facts(0, 1000)
            };
            pace_now = pace(&facts);
        }
        let seconds_per_byte = 1.0 / (write * MIB as f64) + pace_now.at(log as u64) / 1e9;
        let bytes = step / seconds_per_byte;
        wished += write * MIB as f64 * step;
        (log, allocated) = (log + bytes, allocated + bytes);
        if allocated > low {
            allocated -= free * MIB as f64 * step;
        }
        highest = highest.max(allocated / live);
    }
    (highest, log / wished)
}

#[test]
fn space_stays_under_its_ceiling() {
    for free in [10.0, 50.0, 200.0] {
        for write in [1.0, 20.0, 100.0, 400.0, 1000.0] {
            let (highest, share) = run(write, free);
            assert!(highest <= 1.3, "{write} against {free}: {highest}");
            // The writer gets about as much as GC frees, or all of its wish.
            let possible = (free / write).min(1.0);
            assert!(share > 0.85 * possible, "{write} against {free}: {share}");
        }
    }
}

/// Where the ceiling alone would begin to delay writers at once, a few segments may be garbage.
#[test]
fn small_stores_may_have_a_few_segments_of_garbage() {
    let pace_of = |live_mib: u64, segment_bytes: u64| {
        let facts = PaceFacts { segment_bytes, start: 0, limit: 0, ..facts(live_mib, live_mib) };
        let pace = pace(&facts);
        ((pace.soft_bytes - 500 * MIB as i64) as u64 / MIB, pace.width_bytes / MIB)
    };
    let sizes = [4 << 10, MIB, 2 * MIB, 4 * MIB, 64 * MIB];
    let tiny = [(4, 1), (4, 1), (8, 2), (8, 2), (8, 2)];
    let small = [(4, 1), (4, 1), (6, 1), (6, 1), (6, 1)];
    let large = [(4, 1), (4, 1), (8, 2), (16, 4), (16, 4)];
    for (live_mib, expected) in [(8, tiny), (40, small), (1000, large)] {
        let found = sizes.map(|bytes| pace_of(live_mib, bytes));
        assert_eq!(found, expected, "where delays begin, and over how much they grow");
    }
}

#[test]
fn writers_slower_than_gc_are_not_held_up() {
    let (highest, share) = run(50.0, 200.0);
    assert!(highest < 1.25 && share > 0.99, "{highest} {share}");
}
