//! Brings values to where the settings of their keyspace say, as an ordinary compaction passes
//! them: a large value that is inline moves out, to a sorted segment, and one in a sorted segment
//! that is small, or that nothing separates any more, moves into the tree.
//!
//! A value moves out at any level, since it is written once, as it would be to the new table, and
//! no compaction rewrites it again. It moves in only at the deepest level, where it stays, and only
//! from a sorted segment, where neighbours are read one after the other; `Keyspace::convert` does
//! not wait for either (`convert.rs`).
//!
//! I9: a job moves no more bytes than there is room for, either way, and what exceeds that stays.
//! Out of the tree, a value may be larger than it was in a compressed block; and the old record of
//! one that moves in stays until value GC frees it.
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
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// The pointer of a compressed value leaves its size open. A job that has read this many bytes of
/// values that turned out large, beyond those that it moved, reads no more: of records of 2 KiB
/// these are 512 reads, some 40 ms on a device that does 12,000 a second.
const MOST_READ_IN_VAIN: u64 = 1 << 20;

/// The bytes of values that a job may move.
pub struct HomingRoom<'a> {
    /// The most that move out of the tree.
    pub out: u64,
    /// Takes room for what moves into the tree, and returns how much there is.
    pub take_in: &'a dyn Fn() -> u64,
    /// A segment with values that moved out is closed once it has this many bytes.
    pub segment_bytes: u64,
}

/// A compaction's mover of values.
pub struct Homing<'a> {
    keyspace: &'a KeyspaceState,
    homes: ValueHomes,
    fetcher: Fetcher,
    /// Inline values of fewer bytes stay; `None` if all do.
    least_separated: Option<usize>,
    /// The bytes that may still move out of the tree.
    room_out: u64,
    take_room_in: &'a dyn Fn() -> u64,
    /// The bytes that may still move into the tree; `None` while no room was taken.
    room_in: Option<u64>,
    /// The bytes of values that were read and stay.
    read_in_vain: u64,
    values: SegmentOutput<'a>,
    payload: Vec<u8>,
    moved: MovedValues,
}

impl<'a> Homing<'a> {
    /// Creates the mover of a job of `keyspace`; `None` if that has its values stay where they are.
    /// Values move in only if the job's output is the deepest level; it takes room once it meets
    /// the first.
    pub fn of(
        runtime: &'a Runtime,
        keyspace: &'a KeyspaceState,
        is_deepest: bool,
        room: HomingRoom<'a>,
    ) -> Option<Self> {
        let options = keyspace.options();
        options.convert_in_compactions.then(|| Homing {
            keyspace,
            homes: ValueHomes::of(runtime, keyspace),
            least_separated: options.least_separated(),
            // These reads have counters of their own, because they are not a user's reads.
            fetcher: Fetcher::new(runtime.env.reader.clone(), Arc::default()),
            room_out: room.out,
            take_room_in: room.take_in,
            // Where a next compaction would write the value again, it stays in its segment.
            room_in: (!is_deepest).then_some(0),
            read_in_vain: 0,
            values: SegmentOutput::new(runtime, room.segment_bytes, IoPriority::Compaction),
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
        let entry = Payload::decode(trailer.kind()?, payload)?;
        let value;
        let slot = match (self.homes.decide(key, trailer, payload)?, entry.slot) {
            (HomeDecision::MovesOut, _) => {
                let Some(left) = self.room_out.checked_sub(payload.len() as u64) else {
                    return Ok(None);
                };
                self.room_out = left;
                self.moved.moved_out += 1;
                let separator = self.homes.separator();
                Slot::Pointer(separator.write(key, trailer, payload, &mut self.values)?)
            }
            (HomeDecision::MayMoveIn, Slot::Pointer(pointer)) => {
                let Some(found) = self.small_value(key, trailer, pointer) else { return Ok(None) };
                value = found;
                Slot::Inline(&value)
            }
            _ => return Ok(None),
        };
        let entry = entry.with_slot(slot);
        self.payload.clear();
        entry.encode(&mut self.payload);
        Ok(Some((Trailer::new(trailer.seqno(), entry.kind()), &self.payload)))
    }

    /// Returns true if nothing more need be known of an entry, as of nearly all: it can't have a
    /// value that moves out, nor may one move in any more.
    #[inline]
    fn is_home_at_a_glance(&self, kind: EntryKind, payload: &[u8]) -> bool {
        match kind.is_pointer() {
            true => self.room_in == Some(0) || self.read_in_vain >= MOST_READ_IN_VAIN,
            false => self.least_separated.is_none_or(|least| payload.len() < least),
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
        // The view is let go of after each value, so that value GC can unlink what it has freed. It
        // may be newer than the version that made the pointer direct. If the segment was freed
        // since, or the record lies in a hole, the value stays: the pointer can be resolved again.
        let view = self.keyspace.peek();
        if !scan_order::is_sorted(&view.version, pointer.segment) {
            return None;
        }
        let room = *self.room_in.get_or_insert_with(self.take_room_in);
        if bytes > room {
            return None;
        }
        self.moved.bytes_read += bytes;
        match self.fetcher.value(&view, pointer, key, trailer.seqno()) {
            Ok(value) if self.homes.is_inline(value.len()) => {
                self.moved.moved_in += 1;
                self.room_in = Some(room.saturating_sub(value.len() as u64));
                self.read_in_vain = self.read_in_vain.saturating_sub(bytes);
                Some(value)
            }
            // I3: the job would have copied the pointer without a look at the value, so one that
            // can't be read holds no compaction up. Reads of it say what is wrong.
            Ok(_) | Err(_) => {
                self.read_in_vain += bytes;
                None
            }
        }
    }

    /// Writes out and syncs the segments with the values that moved out, and adds them to
    /// `segments`. Returns what was moved, and the files, which are kept if the edit that names
    /// them takes effect.
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
