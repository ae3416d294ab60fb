//! The places of many records at once, for a batch of reads. A segment is looked up once for all
//! pointers to it, and its handle is counted once.

use crate::base::error::Error;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::segment::Segment;
use crate::version::files::SegmentHandle;
use crate::version::view::View;
use std::sync::Arc;

/// Where the records of a batch are, by their index in it.
pub struct BatchPlaces {
    segments: Vec<Arc<SegmentHandle>>,
    places: Vec<RecordPlace>,
}

/// The index of a record's segment, and its place there. Both may differ from its pointer's.
#[derive(Clone, Copy)]
struct RecordPlace {
    segment: usize,
    pointer: ValuePointer,
}

impl BatchPlaces {
    /// Finds the `count` records of a batch in `view`. Returns their places, the indexes of those
    /// that have one, sorted by place, and the errors of the others, as [`View::place`] returns
    /// them.
    pub fn find(
        view: &View,
        count: usize,
        pointer_of: impl Fn(usize) -> ValuePointer,
    ) -> (BatchPlaces, Vec<usize>, Vec<(usize, Error)>) {
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_unstable_by_key(|&index| pointer_of(index));
        let place_of = |index| RecordPlace { segment: 0, pointer: pointer_of(index) };
        let mut found =
            BatchPlaces { segments: Vec::new(), places: (0..count).map(place_of).collect() };
        let (mut lost, mut has_moved) = (Vec::new(), false);
        // The segment of the last pointer, and whether all of its records are where their pointers
        // say.
        let mut last: Option<(SegmentId, bool)> = None;
        order.retain(|&index| {
            let pointer = pointer_of(index);
            if last == Some((pointer.segment, true)) {
                found.places[index].segment = found.segments.len() - 1;
                return true;
            }
            match view.place(pointer) {
                Ok((handle, place)) => {
                    has_moved |= place != pointer;
                    if last.is_none_or(|(segment, _)| segment != pointer.segment) {
                        last = Some((pointer.segment, view.is_whole(pointer.segment)));
                    }
                    found.add(index, handle, place);
                    true
                }
                Err(error) => {
                    lost.push((index, error));
                    false
                }
            }
        });
        if has_moved {
            order.sort_unstable_by_key(|&index| found.places[index].pointer);
        }
        (found, order, lost)
    }

    fn add(&mut self, index: usize, handle: Arc<SegmentHandle>, pointer: ValuePointer) {
        if self.segments.last().is_none_or(|last| !Arc::ptr_eq(last, &handle)) {
            self.segments.push(handle);
        }
        self.places[index] = RecordPlace { segment: self.segments.len() - 1, pointer };
    }

    /// Returns the segment of a record and its place there. Requires: it has one.
    pub fn of(&self, index: usize) -> (&Segment, ValuePointer) {
        let RecordPlace { segment, pointer } = self.places[index];
        (&self.segments[segment].segment, pointer)
    }
}
