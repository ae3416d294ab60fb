//! Resolves a value pointer to the current place of its record: in the segment that it names, or,
//! if value GC has freed that segment, where the segment's relocation says.
//!
//! I3: a pointer that leads nowhere is detected. No pointer exists into a segment that is neither
//! live nor relocated, so such a pointer is corruption. If a relocation has no entry for a record,
//! the record was garbage when the segment was freed; if a byte of a record lies in a hole, the
//! record was garbage when the hole was decided on. No reader can see a pointer to garbage (I6); a
//! compaction may still meet one and drops it. Holes are never read, so their zeroes are never
//! taken for data.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::version::alive::AliveMark;
use crate::version::files::{RelocationHandle, SegmentHandle};
use crate::version::{Holes, LiveSegment, Version, is_punched};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result of resolving a pointer.
pub enum Resolved {
    /// The record is in this segment at this place.
    At(Arc<SegmentHandle>, ValuePointer),
    /// The record was garbage when its segment was freed (`None`), or when this range of this
    /// segment became a hole.
    Gone(Option<(Arc<SegmentHandle>, ValuePointer)>),
}

impl Resolved {
    /// Returns the place of a record that a reader can see; it is corruption if the record is gone.
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

/// Returns the error for a pointer that a reader can see and whose record is gone.
pub fn given_up(pointer: ValuePointer) -> Error {
    Error::corruption(format!(
        "a value pointer leads to offset {} of segment {}, whose record was given up as garbage \
         when space was freed",
        pointer.offset, pointer.segment
    ))
    .at(pointer.offset)
    .advise(ADVICE)
}

/// Returns the error for a pointer into a segment that is neither live nor relocated.
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
    /// Resolves `pointer`; `None` if its segment is neither live nor relocated. Costs no I/O if the
    /// segment is live, else at most one read of a block, through the cache.
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
        // One hop suffices: a target is live, or its relocation would have been composed.
        match self.segments.get(&moved.segment) {
            Some(live) => Ok(live.at(moved)),
            None => Err(unknown(moved)),
        }
    }
}

/// Returns where `relocation` says that the record of `pointer` is now; `None` if it was garbage.
fn find(relocation: &RelocationHandle, pointer: ValuePointer) -> Result<Option<ValuePointer>> {
    let moved = relocation.find(pointer.offset)?;
    if let Some(moved) = moved {
        same_length(pointer, moved)?;
    }
    Ok(moved)
}

/// Checks that `pointer` has the length of the record that was `moved`.
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

/// The places of records in a version, for a job that copies pointers and reads no values. It holds
/// no segment: those that value GC frees while the job runs can be unlinked at once.
pub struct Places {
    relocations: Arc<BTreeMap<SegmentId, Arc<RelocationHandle>>>,
    /// The holes of the segments that have any.
    holes: BTreeMap<SegmentId, Holes>,
    /// I3: held until the job's output is installed. A relocation stays for as long as a version
    /// from before it became needless is alive, so pointers that were resolved here can be resolved
    /// again when they are read.
    _alive: Arc<AliveMark>,
}

impl Places {
    /// Returns the places in `version`.
    pub fn of(version: &Version) -> Places {
        let segments = version.segments.iter().filter(|(_, live)| !live.holes.is_empty());
        Places {
            relocations: version.relocations.clone(),
            holes: segments.map(|(id, live)| (*id, live.holes.clone())).collect(),
            _alive: version.mark.clone(),
        }
    }

    /// Returns true if there are neither relocations nor holes: every pointer is direct and its
    /// record present.
    pub fn are_plain(&self) -> bool {
        self.relocations.is_empty() && self.holes.is_empty()
    }

    /// Returns the direct pointer to the record of `pointer`; `None` if the record is gone. Notes a
    /// relocation that is damaged.
    pub fn place(&self, pointer: ValuePointer) -> Result<Option<ValuePointer>> {
        let place = match self.relocations.get(&pointer.segment) {
            Some(relocation) => find(relocation, pointer).inspect_err(|error| {
                if error.kind() == ErrorKind::Corruption {
                    relocation.note_damage();
                }
            })?,
            None => Some(pointer),
        };
        Ok(place.filter(|place| !self.is_punched(place)))
    }

    /// Returns the relocation of a freed segment; `None` if it has none.
    pub(super) fn relocation(&self, segment: SegmentId) -> Option<&RelocationHandle> {
        self.relocations.get(&segment).map(|relocation| &**relocation)
    }

    /// Returns the holes of a segment; `None` if it has none.
    pub(super) fn holes(&self, segment: SegmentId) -> Option<&Holes> {
        self.holes.get(&segment)
    }

    fn is_punched(&self, place: &ValuePointer) -> bool {
        let holes = self.holes.get(&place.segment);
        holes.is_some_and(|holes| is_punched(holes, place.offset, place.length.into()))
    }
}
