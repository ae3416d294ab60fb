//! Where the record of a value pointer is now: in the segment it names, or, if value GC has freed
//! that, in the one that the segment's relocation says.
//!
//! I3: a pointer that leads nowhere is told apart. Into a segment that is neither live nor
//! relocated there are no pointers, so that is corruption. Of a relocated segment, a record without
//! an entry was garbage when the segment was freed, and so was one with a byte in a hole when that
//! was decided on: no reader can see a pointer to it (I6), a compaction may still meet one and
//! drops it. A hole is never read, so its zeroes can't be taken for anything.

use crate::base::error::{Error, Result};
use crate::base::pointer::ValuePointer;
use crate::version::files::{RelocationHandle, SegmentHandle};
use crate::version::{LiveSegment, Version};
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
        let error = Error::corruption(format!(
            "a value pointer leads to offset {} of segment {}, whose record was given up as \
             garbage when space was freed",
            pointer.offset, pointer.segment
        ));
        let error = error.advise(ADVICE);
        Err(match hole {
            Some((handle, at)) => error.in_file(handle.path()).at(at.offset),
            None => error.at(pointer.offset),
        })
    }
}

const ADVICE: &str = "run `cleave check` and restore from a checkpoint";

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
    /// Where the record of `pointer` is. Costs no I/O for a segment that is live, else at most one
    /// read of a block, through the cache. An error if the segment is neither live nor relocated.
    pub fn resolve(&self, pointer: ValuePointer) -> Result<Resolved> {
        match self.resolve_known(pointer)? {
            Some(resolved) => Ok(resolved),
            None => Err(unknown(pointer)),
        }
    }

    /// As [`Version::resolve`]; `None` if the segment is neither live nor relocated.
    pub(super) fn resolve_known(&self, pointer: ValuePointer) -> Result<Option<Resolved>> {
        if let Some(live) = self.segments.get(&pointer.segment) {
            return Ok(Some(live.at(pointer)));
        }
        match self.relocations.get(&pointer.segment) {
            Some(relocation) => self.follow(relocation, pointer).map(Some),
            None => Ok(None),
        }
    }

    fn follow(&self, relocation: &RelocationHandle, pointer: ValuePointer) -> Result<Resolved> {
        let Some(moved) = relocation.find(pointer.offset)? else {
            return Ok(Resolved::Gone(None));
        };
        if moved.length != pointer.length {
            return Err(Error::corruption(format!(
                "a value pointer leads to {} bytes at offset {} of segment {}, where there were {}",
                pointer.length, pointer.offset, pointer.segment, moved.length
            ))
            .at(pointer.offset)
            .advise(ADVICE));
        }
        // One hop is all there is: a target is live, or its relocation would have been composed.
        match self.segments.get(&moved.segment) {
            Some(live) => Ok(live.at(moved)),
            None => Err(unknown(moved)),
        }
    }
}
