//! Segments in which nothing is live any more, dropped as a whole.
//!
//! A segment is dead once it is sealed, behind the head (so no replay needs it and no memtable
//! points into it), and no table of the version references a record in it. The references are
//! exact sums over the tables' properties, and tables keep what live snapshots can see; older
//! versions of the tree that a reader still holds keep the file, as it is unlinked only when the
//! last of them is dropped (I5).

use crate::base::error::Result;
use crate::base::pointer::SegmentId;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::set::VersionSet;

/// The segments of a version that are dead. Pure.
pub fn pick(version: &Version) -> Vec<SegmentId> {
    let is_dead = |id: &SegmentId| {
        let sealed = version.segments.get(id).is_some_and(|live| live.sealed.is_some());
        sealed && *id < version.head.segment && version.uses.of(*id).count == 0
    };
    version.segments.keys().copied().filter(is_dead).collect()
}

/// Drops what is dead; returns how many segments that were.
pub fn run(set: &VersionSet) -> Result<usize> {
    let mut count = 0;
    // Picked again inside the serial step: what was dead stays dead, and nothing goes twice.
    let plan = |version: &Version| {
        let dead = pick(version);
        count = dead.len();
        let changes = dead.into_iter().map(|id| Change::RemoveSegment { id }).collect();
        Ok(Edit::new(changes))
    };
    set.apply(plan, &[], None)?;
    Ok(count)
}
