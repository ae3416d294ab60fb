//! Spares the device the log that tables replace before anything has asked for it.
//!
//! A segment of the log is *WAL-only* if it has no separated value, and as long as none of it was
//! synced. It is needed only until its commits are in tables. So it is left unsynced for a while,
//! together with a few others. A flush that finds that it replaces all that is in the WAL-only
//! segments does not sync them: its edit removes them as it adds the table, and their bytes need
//! never reach the device. A memtable that fills up ends its segment, so that this is so.
//!
//! I1, I2: after a power cut before that edit, the log ends in the first segment that is not whole,
//! as ever. After one behind it, the tables have every commit before the segment in which the log
//! goes on. No version has a table beside a segment that may be torn, other than those behind its
//! head.
//!
//! No segment is WAL-only while a consumer of the change feed keeps the log, which is then more
//! than a way to tables. Compactions drop nothing for the sake of an entry that a flush is only
//! writing, although the update table may know it already: see the room `hot` (I6).

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::commit::group::{Committer, LogReach};
use crate::commit::log::{Log, LogShared};
use crate::commit::unsynced::UnsyncedSegment;
use crate::segment::{HEAD_BYTES, SegmentWriter};
use crate::throttle::tree::MOST_UNSYNCED;
use crate::version::LogPosition;
use crate::version::edit::Change;
use crate::version::job::JobResult;
use crate::version::view::{KeyspaceState, LoggedMemtable};
use std::sync::Arc;

/// A WAL-only segment is not ended for a flush that would spare fewer bytes than this, or than the
/// part of a memtable that `ENDED_MEMTABLE_PART` gives: to begin the next one would cost more.
const ENDED_BYTES: u64 = 1 << 20;
/// One part in this many of a memtable, the other of the two; see `ENDED_BYTES`.
const ENDED_MEMTABLE_PART: u64 = 4;

/// WAL-only segments are written back as others are until so many were begun since a commit asked
/// for a sync: one that does waits, with the log in its hands, for what was not written back. As
/// many as may be unsynced before writers wait.
const UNASKED_SEGMENTS: u32 = MOST_UNSYNCED as u32;

impl LogShared {
    /// Returns true if segments may be WAL-only at all.
    pub(super) fn may_be_wal_only(&self) -> bool {
        self.runtime.set.log_pins().floor().is_none()
    }

    /// Returns true if the active segment is WAL-only so far.
    pub(super) fn is_active_wal_only(&self, log: &Log) -> bool {
        let is_unsynced = |writer: &SegmentWriter| writer.durable() == 0 && !writer.is_failed();
        log.writer.as_ref().is_some_and(is_unsynced) && !log.has_values && self.may_be_wal_only()
    }

    /// Returns true if the system may keep the active segment for as long as it likes: it is
    /// WAL-only, and nobody has asked for a sync lately.
    pub(super) fn is_left_to_system(&self, log: &Log) -> bool {
        log.segments_since_sync >= UNASKED_SEGMENTS && self.is_active_wal_only(log)
    }

    /// Returns true if it is worthwhile to end the active segment for a flush.
    fn is_worth_ending(&self, log: &Log) -> bool {
        let bytes = self.unsynced.bytes() + log.writer.as_ref().map_or(0, SegmentWriter::len);
        let least = ENDED_BYTES.min(self.least_memtable_bytes() / ENDED_MEMTABLE_PART);
        bytes >= least && self.is_active_wal_only(log)
    }

    /// Returns the least bytes at which a memtable of any keyspace is full.
    pub(super) fn least_memtable_bytes(&self) -> u64 {
        let keyspaces = self.runtime.set.keyspaces();
        let bytes = keyspaces.iter().map(|keyspace| keyspace.options().memtable_bytes);
        bytes.min().unwrap_or(u64::MAX)
    }

    /// Has the next commit begin a segment, if the active one is WAL-only and no memtable has
    /// anything but those that wait for their flush.
    pub(super) fn end_behind_memtables(&self, log: &mut Log) {
        let keyspaces = self.runtime.set.keyspaces();
        let is_sealed = keyspaces.iter().all(|keyspace| keyspace.peek().active.first().is_none());
        if is_sealed && self.is_worth_ending(log) {
            log.segment_limit = 0;
        }
    }

    /// Has `install` make the edit that takes the commits before `end` to tables, the newest of
    /// which has the number `seqno`. The edit must have the changes that it is given: they remove
    /// the WAL-only segments before `end`. I2: nobody syncs them meanwhile, so each is either
    /// synced or removed. Also returns the bytes that the device was spared.
    pub fn replace_wal_only<T>(
        &self,
        end: SegmentId,
        seqno: SeqNo,
        install: impl FnOnce(Vec<Change>) -> JobResult<T>,
    ) -> JobResult<(T, u64)> {
        self.unsynced.remove_before(end, |segments| {
            // I2: the segments before these are synced, and their lengths must not be known from
            // the head of one that goes.
            self.record_sealed()?;
            let spared = self.runtime.set.spared();
            let bytes_of = |segment: &UnsyncedSegment| segment.length - HEAD_BYTES as u64;
            // The edit may have them removed before it returns.
            segments.iter().for_each(|segment| spared.expect(segment.id, bytes_of(segment)));
            let remove = |segment: &UnsyncedSegment| Change::RemoveSegment { id: segment.id };
            let installed = install(segments.iter().map(remove).collect()).inspect_err(|_| {
                segments.iter().for_each(|segment| spared.forget(segment.id));
            })?;
            self.note_durable(seqno);
            let bytes = segments.iter().map(bytes_of).sum();
            self.runtime.counters.log_bytes_spared.add(bytes);
            self.runtime.counters.segments_dropped.add(segments.len() as u64);
            Ok((installed, bytes))
        })
    }
}

impl Committer {
    /// Returns true if the log of what the memtables of `keyspace` hold would mostly go before the
    /// device gets it, if its values were not separated at write: nobody asks for syncs, the oldest
    /// entry that is in no table is its own, so that its flushes replace whole segments, no other
    /// values stay in the log, and the log of a memtable with all values, at the size at which
    /// space or memory has it flushed, may be left unsynced.
    pub fn may_spare_log(&self, keyspace: &KeyspaceState) -> bool {
        let most = self.parts.stall_controller.space.inline_memtable_bytes();
        let memtable_bytes = keyspace.options().memtable_bytes.min(most);
        if memtable_bytes > self.log().unsynced.most_wal_only_bytes() {
            return false;
        }
        let log = self.log.lock();
        let is_unasked = log.segments_since_sync >= UNASKED_SEGMENTS;
        let oldest = self.parts.runtime.set.first_unflushed(&[]);
        let is_oldest = oldest == keyspace.view().first_unflushed(&[]);
        let is_without_values = !log.has_fixed_values && !log.had_fixed_values;
        is_unasked && is_oldest && is_without_values && self.log().may_be_wal_only()
    }

    /// Returns true if a flush will probably replace all of the log that is not synced before the
    /// device gets it.
    pub fn is_log_spared(&self) -> bool {
        let log = self.log.lock();
        let shared = self.log();
        let is_active_spared = log.writer.is_none() || shared.is_active_wal_only(&log);
        is_active_spared && shared.may_be_wal_only() && shared.unsynced.are_wal_only()
    }

    /// Returns the end of the log before which a flush of these memtables, newest first, replaces
    /// all that is not synced; `None` if the log has to be synced for it.
    pub fn end_of_wal_only(&self, flushed: &[Arc<LoggedMemtable>]) -> Result<Option<LogReach>> {
        let shared = self.log();
        let mut log = self.log.lock();
        self.parts.runtime.health.check()?;
        let Some(newest) = flushed.first().map(|newest| newest.last_seqno()) else {
            return Ok(None);
        };
        if log.closed || !shared.may_be_wal_only() || !shared.unsynced.are_wal_only() {
            return Ok(None);
        }
        let first = self.parts.runtime.set.first_unflushed(flushed);
        // The segment is to end with these memtables, and no commit has come to begin the next one.
        let is_ended = log.segment_limit == 0 && shared.is_active_wal_only(&log);
        if first.is_none() && log.next_seqno == newest + 1 && is_ended {
            shared.seal_active(&mut log)?;
        }
        let end = match log.active.as_ref() {
            Some(active) if log.active_first_seqno > newest => LogReach {
                position: LogPosition { segment: active.id(), offset: HEAD_BYTES as u64 },
                seqno: log.active_first_seqno - 1,
            },
            Some(_) => return Ok(None),
            None => LogReach { position: shared.end(&log), seqno: log.next_seqno - 1 },
        };
        // I1, I2: what other memtables have must not be older than what becomes durable.
        Ok(Some(end).filter(|end| first.is_none_or(|first| first >= end.position)))
    }
}
