//! Sums up what is seen in each segment during the walk over the tree, and makes rows of the sums.

use crate::base::pointer::{SegmentId, ValuePointer};
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::fs::Measure;
use crate::segment::SegmentKind;
use crate::space::cells::Cells;
use crate::space::files::FileFacts;
use crate::space::is_log;
use crate::space::report::SegmentSpace;
use crate::version::{Holes, LiveSegment, Version, hole_bytes};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// One segment while it is summed up.
struct SegmentTally {
    space: SegmentSpace,
    cells: Cells,
    /// Offset up to which the file is written.
    written: u64,
    holes: Holes,
    modified: Option<Duration>,
}

/// Returns the bytes of records in `segment` that were moved there from freed segments.
fn relocated_to(version: &Version, segment: SegmentId) -> u64 {
    let targets = version.relocations.values().filter_map(|it| it.meta.targets.get(&segment));
    targets.map(|used| used.bytes).fold(0, u64::saturating_add)
}

/// Returns the bytes of holes that were freed; some holes may wait for a reader or a checkpoint to
/// go.
fn given_back(holes: &Holes, measure: &Measure) -> u64 {
    let missing = measure.len.next_multiple_of(FILE_BLOCK_BYTES).saturating_sub(measure.allocated);
    hole_bytes(holes).min(missing)
}

/// The running sums of all segments of a version.
pub(super) struct Tallies(BTreeMap<SegmentId, SegmentTally>);

impl Tallies {
    /// Creates sums with nothing seen yet. `log_ends` are the ends of segments that nobody writes
    /// to and whose length the manifest does not have.
    pub(super) fn new(
        version: &Version,
        files: &BTreeMap<&Path, &FileFacts>,
        log_ends: &BTreeMap<SegmentId, u64>,
    ) -> Self {
        let tally = |(&id, live): (&SegmentId, &LiveSegment)| {
            let file = files.get(live.handle.path());
            let measure = file.map(|file| file.measure).unwrap_or_default();
            let segment = &live.handle.segment;
            let known = live.sealed.or_else(|| segment.written()).or(log_ends.get(&id).copied());
            let written = known.unwrap_or(measure.len).min(measure.len);
            let holes = live.holes.clone();
            let space = SegmentSpace {
                id: id.0,
                sorted: segment.kind() == SegmentKind::Sorted,
                sealed: live.sealed.is_some(),
                replay: is_log(version, id),
                length: measure.len,
                allocated: measure.allocated,
                referenced_bytes: version
                    .uses
                    .of(id)
                    .bytes
                    .saturating_add(relocated_to(version, id)),
                hole_bytes: given_back(&holes, &measure),
                links: measure.links,
                ..SegmentSpace::default()
            };
            let cells = Cells::new(measure.len);
            (id, SegmentTally { space, cells, written, holes, modified: measure.modified })
        };
        Tallies(version.segments.iter().map(tally).collect())
    }

    /// Counts a record that reads see now, or that only snapshots see. A record of a segment that
    /// is not in the version is skipped.
    pub(super) fn add(&mut self, at: ValuePointer, only_by_snapshots: bool) {
        let Some(tally) = self.0.get_mut(&at.segment) else {
            return;
        };
        let length = u64::from(at.length);
        tally.cells.add(at.offset, length, only_by_snapshots);
        if only_by_snapshots {
            tally.space.pinned_bytes += length;
        } else {
            tally.space.live_bytes += length;
            tally.space.live_records += 1;
        }
    }

    /// Returns the segments by id. `wall` is the time since 1970.
    pub(super) fn into_segments(self, wall: Duration) -> Vec<SegmentSpace> {
        let finish = |tally: SegmentTally| {
            let mut space = tally.space;
            let seen = space.live_bytes + space.pinned_bytes;
            if !space.replay {
                space.garbage_bytes = space.allocated.saturating_sub(seen);
            }
            space.age = tally.modified.map(|then| wall.saturating_sub(then));
            space.cells = tally.cells.finish(&tally.holes, tally.written, space.replay);
            space
        };
        self.0.into_values().map(finish).collect()
    }
}
