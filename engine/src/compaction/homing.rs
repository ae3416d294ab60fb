//! Brings values to where the settings of their keyspace say, as an ordinary compaction passes
//! them: a large value that is inline moves out, to a sorted segment, and one in a sorted segment
//! that is small, or that nothing separates any more, moves into the tree.
//!
//! A value moves out at any level, since it costs what writing it to the new table would have, and
//! no compaction rewrites it again. It moves in only at the deepest level, where it stays, and only
//! from a sorted segment, where neighbours are read one after the other; `Keyspace::convert` does
//! not wait for either (`convert.rs`). One job moves in no more bytes than there is room for, since
//! value GC frees the old records later.
//!
//! Crash cases are those of any compaction: segments, then tables, then their names are durable
//! before the one edit that replaces the inputs (I3); a crash before it leaves orphans.

use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::key::{EntryKind, Trailer};
use crate::base::pointer::ValuePointer;
use crate::base::value::Value;
use crate::compaction::convert::{HomeDecision, MovedValues, ValueHomes};
use crate::compaction::scan_order;
use crate::read::fetch::Fetcher;
use crate::throttle::reads::IoPriority;
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use crate::version::segment_output::{NewSegments, SegmentOutput};
use crate::version::view::{KeyspaceState, View};
use std::sync::Arc;

/// A segment with values that moved out is closed once it has this many bytes.
const SEGMENT_BYTES: u64 = 64 << 20;
/// The pointer of a compressed value leaves its size open. A job that has read this many bytes of
/// values that turned out large, beyond those that it moved, reads no more.
const MOST_READ_IN_VAIN: u64 = 1 << 20;

/// A compaction's mover of values.
pub struct Homing<'a> {
    keyspace: &'a KeyspaceState,
    homes: ValueHomes,
    /// Whose version resolves pointers, once the first value is read. It keeps the segments from
    /// being removed meanwhile.
    view: Option<Arc<View>>,
    fetcher: Fetcher,
    /// Values of so many bytes belong in segments.
    least_separated: usize,
    /// The bytes that may still move into the tree.
    room: u64,
    /// The bytes of values that were read and stay.
    read_in_vain: u64,
    values: SegmentOutput<'a>,
    payload: Vec<u8>,
    moved: MovedValues,
}

impl<'a> Homing<'a> {
    /// Creates the mover of a job of `keyspace` that may move `room` bytes into the tree; `None` if
    /// the keyspace has its values stay where they are.
    pub fn of(runtime: &'a Runtime, keyspace: &'a KeyspaceState, room: u64) -> Option<Self> {
        let homes = ValueHomes::of(runtime, keyspace);
        keyspace.options().convert_in_compactions.then(|| Homing {
            keyspace,
            least_separated: homes.least_separated(),
            homes,
            view: None,
            // These reads have counters of their own, because they are not a user's reads.
            fetcher: Fetcher::new(runtime.env.reader.clone(), Arc::default()),
            room,
            read_in_vain: 0,
            values: SegmentOutput::new(runtime, SEGMENT_BYTES, IoPriority::Compaction),
            payload: Vec::new(),
            moved: MovedValues::default(),
        })
    }

    /// Returns what the entry becomes, whose pointer must be direct; `None` if it stays as it is.
    pub fn entry(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        payload: &[u8],
    ) -> JobResult<Option<(Trailer, &[u8])>> {
        if self.is_home_at_a_glance(trailer.kind()?, payload) {
            return Ok(None);
        }
        let value;
        let slot = match self.homes.decide(key, trailer, payload)? {
            HomeDecision::Stays => return Ok(None),
            HomeDecision::MovesOut => {
                self.moved.moved_out += 1;
                let separator = self.homes.separator();
                Slot::Pointer(separator.write(key, trailer, payload, &mut self.values)?)
            }
            HomeDecision::MayMoveIn => {
                let Slot::Pointer(pointer) = Slot::decode(trailer.kind()?, payload)? else {
                    return Ok(None);
                };
                let Some(found) = self.small_value(key, trailer, pointer) else { return Ok(None) };
                value = found;
                Slot::Inline(&value)
            }
        };
        let payload = Payload::decode(trailer.kind()?, payload)?.with_slot(slot);
        self.payload.clear();
        payload.encode(&mut self.payload);
        Ok(Some((Trailer::new(trailer.seqno(), payload.kind()), &self.payload)))
    }

    /// Returns true if nothing more need be known of an entry, as of nearly all: it can't have a
    /// value that moves out, nor may one move in any more.
    #[inline]
    fn is_home_at_a_glance(&self, kind: EntryKind, payload: &[u8]) -> bool {
        match kind.is_pointer() {
            true => self.room == 0 || self.read_in_vain >= MOST_READ_IN_VAIN,
            false => payload.len() < self.least_separated,
        }
    }

    /// Reads the value of an entry, if it may move into the tree, and returns it if it does.
    fn small_value(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        pointer: ValuePointer,
    ) -> Option<Value> {
        let bytes = u64::from(pointer.length);
        if bytes > self.room {
            return None;
        }
        let view = self.view.get_or_insert_with(|| self.keyspace.view());
        if !scan_order::is_sorted(&view.version, pointer.segment) {
            return None;
        }
        self.moved.bytes_read += bytes;
        match self.fetcher.value(view, pointer, key, trailer.seqno()) {
            Ok(value) if self.homes.is_inline(value.len()) => {
                self.moved.moved_in += 1;
                self.room = self.room.saturating_sub(value.len() as u64);
                self.read_in_vain = self.read_in_vain.saturating_sub(bytes);
                Some(value)
            }
            Ok(_) => {
                self.read_in_vain += bytes;
                None
            }
            // I3: the job would have copied the pointer without a look at the value, so one that
            // can't be read holds no compaction up. Reads of it say what is wrong.
            Err(_) => {
                self.moved.damaged += 1;
                self.read_in_vain += bytes;
                None
            }
        }
    }

    /// Writes out and syncs the segments with the values that moved out, and adds them to
    /// `segments`. Returns what was moved, and the files, which are kept if the edit that names
    /// them takes effect. Lets go of the view.
    pub fn finish(
        homing: Option<Self>,
        segments: &mut NewSegments,
    ) -> Result<(MovedValues, Option<SegmentOutput<'a>>)> {
        let Some(mut homing) = homing else {
            return Ok(Default::default());
        };
        homing.values.finish()?;
        segments.extend(homing.values.segments());
        Ok((homing.moved, Some(homing.values)))
    }
}
