//! Resolves many value pointers together, for a walk over all entries.
//!
//! Resolving pointers one by one searches the relocation anew for each pointer into a freed
//! segment; that was measured as a third of a liveness scan. Here pointers are gathered, and those
//! into one freed segment are looked up by ascending offset in one sweep over its relocation.
//!
//! I3: a pointer that leads nowhere is detected, as in `resolve.rs`.

use super::entries::EntriesView;
use super::files::RelocationHandle;
use super::job::JobResult;
use super::resolve::{given_up, same_length, unknown};
use super::{Holes, is_punched};
use crate::base::error::Result;
use crate::base::pointer::{SegmentId, ValuePointer};
use rustc_hash::FxHashMap;
use std::vec::Drain;

/// The number of look-ups between two calls of `go_on`.
const LOOKUPS_PER_CALL: usize = 512;

/// A batch of pointers and the places of their records.
pub struct Placing<'a> {
    entries: &'a EntriesView,
    /// A cache of what each segment named by a pointer is.
    named: FxHashMap<SegmentId, NamedSegment<'a>>,
    /// The segments that were found to exist, with their holes.
    holding: FxHashMap<SegmentId, Option<&'a Holes>>,
    freed: Vec<FreedSegment<'a>>,
    places: Vec<Option<ValuePointer>>,
}

/// The state of a segment that pointers name.
#[derive(Clone, Copy)]
enum NamedSegment<'a> {
    Holding(Option<&'a Holes>),
    /// The segment was freed; an index into `freed`.
    FreedSegment(usize),
}

/// A freed segment and the pointers into it that wait for the sweep.
struct FreedSegment<'a> {
    segment: SegmentId,
    relocation: &'a RelocationHandle,
    waiting: Vec<PendingPointer>,
}

#[derive(Clone, Copy)]
struct PendingPointer {
    offset: u64,
    length: u32,
    /// The index of the pointer in the batch.
    number: u32,
    may_be_gone: bool,
}

impl<'a> Placing<'a> {
    /// Creates an empty batch for pointers in entries of this view.
    pub fn new(entries: &'a EntriesView) -> Self {
        Placing {
            entries,
            named: FxHashMap::default(),
            holding: FxHashMap::default(),
            freed: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Returns the number of gathered pointers.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds a pointer to the batch. If its record is gone, that is corruption unless `may_be_gone`.
    pub fn add(&mut self, pointer: ValuePointer, may_be_gone: bool) -> Result<()> {
        let place = match self.named(pointer)? {
            NamedSegment::Holding(holes) => unpunched(holes, pointer, pointer, may_be_gone)?,
            NamedSegment::FreedSegment(index) => {
                let ValuePointer { offset, length, .. } = pointer;
                let number = u32::try_from(self.places.len()).expect("a batch is small");
                self.freed[index].waiting.push(PendingPointer {
                    offset,
                    length,
                    number,
                    may_be_gone,
                });
                None
            }
        };
        self.places.push(place);
        Ok(())
    }

    /// Returns the direct pointers to the records of the batch in the order they were added, `None`
    /// for a record that is gone, and empties the batch. After an error `self` must not be used any
    /// more. `go_on` is called every few hundred look-ups, each of which may read from the device;
    /// its error ends the call.
    pub fn finish(
        &mut self,
        go_on: &mut dyn FnMut() -> JobResult,
    ) -> JobResult<Drain<'_, Option<ValuePointer>>> {
        for index in 0..self.freed.len() {
            // The memory is freed here, since the next batch may lead into other segments.
            let waiting = std::mem::take(&mut self.freed[index].waiting);
            self.sweep(index, waiting, go_on)?;
        }
        Ok(self.places.drain(..))
    }

    fn sweep(
        &mut self,
        index: usize,
        mut waiting: Vec<PendingPointer>,
        go_on: &mut dyn FnMut() -> JobResult,
    ) -> JobResult {
        let FreedSegment { segment, relocation, .. } = self.freed[index];
        waiting.sort_unstable_by_key(|waiting| waiting.offset);
        let mut asked = waiting.iter().enumerate();
        let offsets = waiting.iter().map(|waiting| waiting.offset);
        relocation.find_ascending(offsets, |moved| {
            let (count, waiting) = asked.next().expect("one answer to each");
            if count.is_multiple_of(LOOKUPS_PER_CALL) {
                go_on()?;
            }
            let PendingPointer { offset, length, number, may_be_gone } = *waiting;
            let pointer = ValuePointer { segment, offset, length };
            self.places[number as usize] = match moved {
                Some(moved) => {
                    same_length(pointer, moved)?;
                    unpunched(self.holes_of(moved)?, moved, pointer, may_be_gone)?
                }
                None if may_be_gone => None,
                None => return Err(given_up(pointer).into()),
            };
            Ok(())
        })
    }

    fn named(&mut self, pointer: ValuePointer) -> Result<NamedSegment<'a>> {
        if let Some(&named) = self.named.get(&pointer.segment) {
            return Ok(named);
        }
        let segment = pointer.segment;
        let named = match self.entries.places().relocation(segment) {
            Some(relocation) => {
                self.freed.push(FreedSegment { segment, relocation, waiting: Vec::new() });
                NamedSegment::FreedSegment(self.freed.len() - 1)
            }
            None => NamedSegment::Holding(self.holes_of(pointer)?),
        };
        self.named.insert(segment, named);
        Ok(named)
    }

    /// Returns the holes of the segment that a direct pointer names; the segment must exist.
    fn holes_of(&mut self, place: ValuePointer) -> Result<Option<&'a Holes>> {
        if let Some(&holes) = self.holding.get(&place.segment) {
            return Ok(holes);
        }
        if !self.entries.holds(place.segment) {
            return Err(unknown(place));
        }
        let holes = self.entries.places().holes(place.segment);
        self.holding.insert(place.segment, holes);
        Ok(holes)
    }
}

/// Returns `place` unless it lies in a hole.
fn unpunched(
    holes: Option<&Holes>,
    place: ValuePointer,
    pointer: ValuePointer,
    may_be_gone: bool,
) -> Result<Option<ValuePointer>> {
    let is_gone = holes.is_some_and(|holes| is_punched(holes, place.offset, place.length.into()));
    match is_gone {
        false => Ok(Some(place)),
        true if may_be_gone => Ok(None),
        true => Err(given_up(pointer)),
    }
}
