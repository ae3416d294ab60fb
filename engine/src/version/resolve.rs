//! Where the record of a value pointer is now: in the segment it names, or, if value GC has freed
//! that, in the one that the segment's relocation says.
//!
//! I3: a pointer that leads nowhere is told apart. Into a segment that is neither live nor
//! relocated there are no pointers, so that is corruption. Of a relocated segment, a record without
//! an entry was garbage when the segment was freed, and so was one with a byte in a hole when that
//! was decided on: no reader can see a pointer to it (I6), a compaction may still meet one and
//! drops it. A hole is never read, so its zeroes can't be taken for anything.

use crate::base::error::{Error, Result};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::version::alive::AliveMark;
use crate::version::files::{RelocationHandle, SegmentHandle};
use crate::version::{Holes, LiveSegment, Version, is_punched};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What became of the record of a pointer.
pub enum Resolved {
    /// It is in this segment, at this place.
    At(Arc<SegmentHandle>, ValuePointer),
    /// It was garbage when its segment was freed, or when holes were made in this one where it
    /// was.
    Gone(Option<(Arc<SegmentHandle>, ValuePointer)>),
}

impl Resolved {
    /// The place of a record that a reader can see: it can't be gone.
    pub fn place(self, pointer: ValuePointer) -> Result<(Arc<SegmentHandle>, ValuePointer)> {
        let hole = match self {
            Resolved::At(handle, pointer) => return Ok((handle, pointer)),
            Resolved::Gone(hole) => hole,
        };
        let error = given_up(pointer);
        Err(match hole {
            Some((handle, at)) => error.in_file(handle.path()).at(at.offset),
            None => error,
        })
    }
}

const ADVICE: &str = "run `cleave check` and restore from a checkpoint";

/// The error of a pointer that a reader can see, to a record that is gone.
pub fn given_up(pointer: ValuePointer) -> Error {
    Error::corruption(format!(
        "a value pointer leads to offset {} of segment {}, whose record was given up as garbage \
         when space was freed",
        pointer.offset, pointer.segment
    ))
    .at(pointer.offset)
    .advise(ADVICE)
}

/// The error of a pointer into a segment that is neither live nor relocated.
pub(super) fn unknown(pointer: ValuePointer) -> Error {
    Error::corruption(format!(
        "a value pointer leads to offset {} of segment {}, which is not live",
        pointer.offset, pointer.segment
    ))
    .at(pointer.offset)
    .advise(ADVICE)
}

impl LiveSegment {
    fn at(&self, place: ValuePointer) -> Resolved {
        let handle = self.handle.clone();
        match self.is_punched(place.offset, place.length.into()) {
            false => Resolved::At(handle, place),
            true => Resolved::Gone(Some((handle, place))),
        }
    }
}

impl Version {
    /// Where the record of `pointer` is; `None` if its segment is neither live nor relocated. Costs
    /// no I/O for a segment that is live, else at most one read of a block, through the cache.
    pub(super) fn resolve(&self, pointer: ValuePointer) -> Result<Option<Resolved>> {
        if let Some(live) = self.segments.get(&pointer.segment) {
            return Ok(Some(live.at(pointer)));
        }
        match self.relocations.get(&pointer.segment) {
            Some(relocation) => self.follow(relocation, pointer).map(Some),
            None => Ok(None),
        }
    }

    fn follow(&self, relocation: &RelocationHandle, pointer: ValuePointer) -> Result<Resolved> {
        let Some(moved) = find(relocation, pointer)? else {
            return Ok(Resolved::Gone(None));
        };
        // One hop is all there is: a target is live, or its relocation would have been composed.
        match self.segments.get(&moved.segment) {
            Some(live) => Ok(live.at(moved)),
            None => Err(unknown(moved)),
        }
    }
}

/// Where `relocation` says that the record of `pointer` is now; `None` if it was garbage.
fn find(relocation: &RelocationHandle, pointer: ValuePointer) -> Result<Option<ValuePointer>> {
    let moved = relocation.find(pointer.offset)?;
    if let Some(moved) = moved {
        same_length(pointer, moved)?;
    }
    Ok(moved)
}

/// Refuses a pointer of another length than the record that was `moved`.
pub(super) fn same_length(pointer: ValuePointer, moved: ValuePointer) -> Result<()> {
    if moved.length == pointer.length {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "a value pointer leads to {} bytes at offset {} of segment {}, where there were {}",
        pointer.length, pointer.offset, pointer.segment, moved.length
    ))
    .at(pointer.offset)
    .advise(ADVICE))
}

/// Where records are in a version, for a job that copies pointers and reads no values. It holds
/// no segment: what value GC frees while the job runs can be unlinked at once.
pub struct Places {
    relocations: Arc<BTreeMap<SegmentId, Arc<RelocationHandle>>>,
    /// Of the segments that have any.
    holes: BTreeMap<SegmentId, Holes>,
    /// I3: until what the job writes is installed. A relocation stays as long as a version from
    /// before it became needless is alive, so pointers that this resolved can be resolved again
    /// when they are read.
    _alive: Arc<AliveMark>,
}

impl Places {
    /// Those of `version`.
    pub fn of(version: &Version) -> Places {
        let segments = version.segments.iter().filter(|(_, live)| !live.holes.is_empty());
        Places {
            relocations: version.relocations.clone(),
            holes: segments.map(|(id, live)| (*id, live.holes.clone())).collect(),
            _alive: version.mark.clone(),
        }
    }

    /// True if every pointer is direct, and its record there.
    pub fn are_plain(&self) -> bool {
        self.relocations.is_empty() && self.holes.is_empty()
    }

    /// The direct pointer to the record of `pointer`; `None` if it is gone.
    pub fn place(&self, pointer: ValuePointer) -> Result<Option<ValuePointer>> {
        let place = match self.relocations.get(&pointer.segment) {
            Some(relocation) => find(relocation, pointer)?,
            None => Some(pointer),
        };
        Ok(place.filter(|place| !self.is_punched(place)))
    }

    /// The relocation of a freed segment.
    pub(super) fn relocation(&self, segment: SegmentId) -> Option<&RelocationHandle> {
        self.relocations.get(&segment).map(|relocation| &**relocation)
    }

    /// The holes of a segment, if it has any.
    pub(super) fn holes(&self, segment: SegmentId) -> Option<&Holes> {
        self.holes.get(&segment)
    }

    fn is_punched(&self, place: &ValuePointer) -> bool {
        let holes = self.holes.get(&place.segment);
        holes.is_some_and(|holes| is_punched(holes, place.offset, place.length.into()))
    }
}
