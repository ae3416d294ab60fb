//! The leader's work on a group, under the lock of the log: it appends the frames, makes them as
//! durable as asked, inserts the entries into memtables and makes them visible. Then it seals
//! memtables that are to be flushed.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{FIRST_OWN_SEQNO, SeqNo, Trailer};
use crate::base::pointer::ValuePointer;
use crate::commit::batch::CommitFrame;
use crate::commit::group::{Committer, Durability};
use crate::commit::log::Log;
use crate::segment::{RecordKind, SegmentWriter};
use crate::version::LogPosition;
use crate::version::view::{KeyspaceState, LoggedMemtable};
use std::sync::atomic::Ordering;

impl Committer {
    /// Writes the frames of a group, makes them as durable as asked, and makes them visible.
    pub(super) fn commit_group(
        &self,
        log: &mut Log,
        frames: &[CommitFrame<'_>],
        durability: Durability,
    ) -> Result<SeqNo> {
        let parts = &self.parts;
        parts.runtime.health.check()?;
        if log.closed {
            return Err(Error::closed("the database was closed"));
        }
        let count: usize = frames.iter().map(|frame| frame.records.len()).sum();
        debug_assert!(frames.iter().all(|frame| frame.records.len() == frame.targets.len()));
        if log.next_seqno + count as u64 > FIRST_OWN_SEQNO {
            return Err(Error::new(ErrorKind::LimitReached, "all sequence numbers are used up")
                .advise("load the data into a new database"));
        }
        if let Err(error) = parts.log.make_room(log) {
            return Err(self.failed(log, error));
        }
        let first_seqno = log.next_seqno;
        let mut pointers = Vec::with_capacity(count);
        let start = log.writer.as_ref().map_or(0, SegmentWriter::len);
        if let Err(error) = self.append(log, frames, &mut pointers, durability) {
            // None of the group counts. Frames that were acknowledged from the buffer before stay
            // there until they can be written out; the next segment is begun only after that.
            if let Some(writer) = log.writer.as_mut().filter(|writer| writer.is_failed()) {
                writer.cut(start.max(writer.good_len()));
            }
            return Err(self.failed(log, error));
        }
        debug_assert_eq!(pointers.len(), count, "each record has a pointer");
        // From here on nothing fails: the frames are in the log, as durable as asked.
        log.next_seqno += count as u64;
        self.publish(log, frames, &pointers, first_seqno, start);
        if durability == Durability::Sync {
            // All segments before the active one were synced before it was.
            parts.log.note_durable(log.next_seqno - 1);
        }
        if std::mem::take(&mut log.is_awaited) {
            self.signal.give();
        }
        Ok(log.next_seqno - 1)
    }

    /// I9: after a write failed for lack of space, the GC thread checks when there is space again.
    pub(super) fn failed(&self, log: &mut Log, error: Error) -> Error {
        if error.kind() == ErrorKind::DiskFull && self.check_disk(log) {
            (self.parts.wake)();
        }
        error
    }

    /// Appends the frames to the log. After an error the writer takes no more frames, and the next
    /// segment's head records the end of the last good one.
    pub(super) fn append(
        &self,
        log: &mut Log,
        frames: &[CommitFrame<'_>],
        pointers: &mut Vec<ValuePointer>,
        durability: Durability,
    ) -> Result<()> {
        let parts = &self.parts;
        let writer = log.writer.as_mut().expect("make_room began a segment");
        let start = writer.len();
        let mut seqno = log.next_seqno;
        for frame in frames {
            writer.append(seqno, frame.records, pointers)?;
            seqno += frame.records.len() as u64;
        }
        match durability {
            // A full buffer is written out without a call.
            Durability::Buffered => {}
            Durability::Os => writer.write_out()?,
            Durability::SyncEvery(time) => {
                log.segments_since_sync = 0;
                writer.write_out()?;
                (parts.sync_within)(time);
            }
            // The sync comes before the frames become visible, so that nobody reads what a crash
            // may lose.
            Durability::Sync => {
                log.segments_since_sync = 0;
                parts.log.sync_writer(writer)?;
            }
        }
        // I2: what is acknowledged has come as far as was asked for.
        debug_assert!(durability == Durability::Buffered || writer.good_len() == writer.len());
        debug_assert!(durability != Durability::Sync || writer.durable() == writer.len());
        parts.runtime.counters.log_bytes_written.add(writer.len() - start);
        Ok(())
    }

    /// Inserts the entries into the memtables, then makes all of them visible at once (I1).
    fn publish(
        &self,
        log: &mut Log,
        frames: &[CommitFrame<'_>],
        pointers: &[ValuePointer],
        first_seqno: SeqNo,
        start: u64,
    ) {
        let parts = &self.parts;
        // I1: nobody sees a part of the group before all of it is in the memtables.
        debug_assert!(parts.runtime.snapshots.visible() < first_seqno);
        let active = log.active.as_ref().expect("make_room began a segment");
        let writer = log.writer.as_ref().expect("make_room began a segment");
        let at = LogPosition { segment: active.id(), offset: start };
        let log_bytes = parts.stall_controller.log_bytes.load(Ordering::Relaxed);
        let mut seqno = first_seqno;
        let mut pointers = pointers.iter();
        let (mut full, mut has_values, mut has_fixed_values) = (false, false, false);
        let (mut deletes, mut put_bytes) = (0, 0);
        for frame in frames {
            for (record, target) in frame.records.iter().zip(frame.targets) {
                let pointer = pointers.next().expect("one pointer for each record");
                let slot = match record.kind {
                    RecordKind::Delete | RecordKind::DeleteRange | RecordKind::Ingest => {
                        Slot::Delete
                    }
                    RecordKind::Put | RecordKind::Merge if target.separated => {
                        has_values = true;
                        has_fixed_values |= target.is_separation_fixed(record);
                        Slot::Pointer(*pointer)
                    }
                    RecordKind::Put | RecordKind::Merge => Slot::Inline(record.value),
                };
                if !record.kind.has_value() {
                    deletes += 1;
                } else {
                    put_bytes += record.key.len() + record.value.len();
                }
                let view = target.keyspace.peek();
                debug_assert!(view.active.last_seqno() < seqno, "I6: a number is used twice");
                view.active.note(at, log_bytes, active, seqno);
                if let Some(range) = target.range {
                    view.active.table.insert_range(range.clone(), seqno);
                } else {
                    let is_merge = record.kind == RecordKind::Merge;
                    let payload = Payload { is_merge, deadline: record.deadline, slot };
                    let trailer = Trailer::new(seqno, payload.kind());
                    view.active.table.insert_at(target.place, record.key, trailer, payload);
                }
                full |= self.is_full(&view.active, target.keyspace);
                seqno += 1;
            }
            parts.runtime.counters.commits.add(1);
            parts.runtime.counters.entries_written.add(frame.records.len() as u64);
            parts.runtime.counters.user_bytes_written.add(frame.user_bytes);
        }
        parts.runtime.counters.deletes_written.add(deletes);
        parts.runtime.counters.put_bytes_stored.add(put_bytes as u64);
        parts.stall_controller.note_logged(writer.len() - start);
        debug_assert!(pointers.next().is_none(), "each pointer belongs to a record");
        debug_assert_eq!(seqno, log.next_seqno, "each sequence number belongs to a record");
        // Who finds the number visible finds the frames too.
        writer.note_committed();
        log.has_values |= has_values;
        log.has_fixed_values |= has_fixed_values;
        parts.runtime.snapshots.publish(seqno - 1);
        self.rotate_memtables(log, frames, full);
    }

    fn is_full(&self, active: &LoggedMemtable, keyspace: &KeyspaceState) -> bool {
        let most = self.parts.stall_controller.space.memtable_bytes();
        active.bytes() >= keyspace.options().memtable_bytes.min(most)
    }

    /// Seals memtables that are full, or whose oldest entry holds the head of the log back.
    pub(super) fn rotate_memtables(&self, log: &mut Log, frames: &[CommitFrame<'_>], full: bool) {
        let parts = &self.parts;
        parts.log.look_ahead(log);
        // The background is woken once for each spare, not by every commit until it is there.
        let mut wake = std::mem::take(&mut log.is_work_due);
        if full {
            for target in frames.iter().flat_map(|frame| frame.targets) {
                let keyspace = target.keyspace;
                if self.is_full(&keyspace.peek().active, keyspace) {
                    wake |= keyspace.rotate_memtable();
                }
            }
            parts.log.end_behind_memtables(log);
        }
        if std::mem::take(&mut log.is_sync_due) {
            (parts.wake_sync)();
        }
        let log_bytes = parts.stall_controller.log_bytes.load(Ordering::Relaxed);
        if log_bytes >= log.next_disk_check {
            wake |= self.check_disk(log);
        }
        if log_bytes >= log.next_look {
            log.next_look = log_bytes + parts.flush_after_log_bytes / 16 + 1;
            for keyspace in parts.runtime.set.keyspaces() {
                let first = keyspace.peek().active.first_bytes();
                let held = first.map_or(0, |first| log_bytes.saturating_sub(first));
                if held >= parts.flush_after_log_bytes {
                    wake |= keyspace.rotate_memtable();
                }
            }
        }
        if wake {
            (parts.wake)();
        }
    }

    /// Checks the free space of the disk and whether puts have to leave the rest to others (I9). If
    /// so, memtables are sealed for a flush, which needs less space the earlier it is done. Returns
    /// true if there is work for the background.
    fn check_disk(&self, log: &mut Log) -> bool {
        let parts = &self.parts;
        let keyspaces = parts.runtime.set.keyspaces();
        let log_bytes = parts.stall_controller.log_bytes.load(Ordering::Relaxed);
        let Some(found) = parts.log.check_disk(&keyspaces) else {
            return false;
        };
        log.next_disk_check = log_bytes + found.next_check();
        let mut wake = parts.stall_controller.reserve.note(found);
        let is_flushing = keyspaces.iter().any(|keyspace| !keyspace.peek().immutables.is_empty());
        if parts.stall_controller.reserve.is_low()
            && found.unflushed >= found.notable()
            && !is_flushing
        {
            keyspaces.iter().for_each(|keyspace| wake |= keyspace.rotate_memtable());
        }
        wake
    }

    /// Checks the disk out of turn, because space was freed or a write has failed.
    pub fn check_disk_now(&self) {
        let wakes = self.check_disk(&mut self.log.lock());
        if wakes {
            (self.parts.wake)();
        }
        self.parts.stall_controller.report_space();
    }

    /// Returns how many bytes one job may write before it frees any (I9): what is free on the disk,
    /// but for what keeps the log and the manifest going. There is no limit if the free space can't
    /// be determined.
    pub fn room_for_job(&self) -> u64 {
        let free = self.parts.runtime.free_space();
        free.map_or(u64::MAX, |free| self.parts.stall_controller.reserve.usable(free))
    }

    /// Seals memtables filled by replay that hold the head of the log back. Without it, writers
    /// might have to wait for their flush, and then no commit would come to seal them.
    pub fn seal_held_back(&self) {
        self.rotate_memtables(&mut self.log.lock(), &[], false);
    }
}
