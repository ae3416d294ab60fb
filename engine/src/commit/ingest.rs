//! The commit of an ingest: its tables were written before, without a number; here they get one,
//! and take effect with one edit.
//!
//! The log gets a record that names the range of the keys, so that the number is nobody else's, and
//! consumers of the change feed learn of it, and the tables, for repair. The order of the steps,
//! all under the lock of the log:
//!
//! 1. The record is appended and synced. I2: what a crash loses is a suffix of the commits, and the
//!    tables are not in it. A crash after this step leaves a number without entries.
//! 2. The edit that adds the tables becomes durable. Readers get them, but none of them has a
//!    number at which it sees their entries. Where no memtable has anything, no flush will come to
//!    move the head of the log, so this edit does, up to the record, once the log behind the head
//!    is long.
//! 3. The number becomes visible, and with it all entries at once (I6).

use crate::base::bounds::Bounds;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{FIRST_OWN_SEQNO, SeqNo};
use crate::base::pointer::TableId;
use crate::commit::batch::{CommitFrame, RecordTarget};
use crate::commit::group::{Committer, Durability, check_all};
use crate::commit::log::Log;
use crate::env::planted::PlantedFault;
use crate::segment::{RecordInput, RecordKind, SegmentWriter, ingest_value};
use crate::version::LogPosition;
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What was made of an ingest that was to be committed.
pub enum IngestOutcome<T> {
    /// It has this number, and took effect.
    Committed(SeqNo, T),
    /// Its condition did not hold; nothing was done.
    Refused,
}

impl Committer {
    /// Commits an ingest of tables with keys of `range` in `keyspace`. `may_commit` is asked under
    /// the lock of the log, and must do no I/O; `install` makes the edit that adds the tables at a
    /// sequence number, and moves the head of the log to where it is told, if it is. If that fails,
    /// the number is used up, and no harm is done.
    pub fn commit_ingest<T>(
        &self,
        keyspace: &Arc<KeyspaceState>,
        range: &Bounds,
        tables: &[TableId],
        may_commit: impl FnOnce() -> Result<bool>,
        install: impl FnOnce(SeqNo, Option<LogPosition>) -> Result<T>,
    ) -> Result<IngestOutcome<T>> {
        let mut log = self.log.lock();
        let outcome = self.guarded(|| {
            check_all(std::iter::once(keyspace))?;
            self.parts.runtime.health.check()?;
            if log.closed {
                return Err(Error::closed("the database was closed"));
            }
            if !may_commit()? {
                return Ok(IngestOutcome::Refused);
            }
            let start = self.append_ingest(&mut log, keyspace, range, tables)?;
            let seqno = log.next_seqno;
            log.next_seqno += 1;
            let planted = self.parts.runtime.env.planted;
            if !planted.is(PlantedFault::IngestForgotten) {
                // The recent keys have no ranges, so whoever began before searches elsewhere.
                log.recent.skip_to(seqno);
            }
            self.parts.runtime.set.note_seqno(seqno);
            // I2, I3: the log is synced up to the end of the record, and nothing before it waits
            // for a flush, so no opening needs that.
            let is_flushed = || self.parts.runtime.set.first_unflushed(&[]).is_none();
            let moves_head = self.parts.stall_controller.is_replay_long() && is_flushed();
            let active = log.active.as_ref().filter(|_| moves_head);
            let head = active.map(|active| LogPosition { segment: active.id(), offset: start });
            let installed = install(seqno, head);
            self.publish_ingest(&mut log, seqno, start, head.is_some() && installed.is_ok());
            installed.map(|installed| IngestOutcome::Committed(seqno, installed))
        });
        drop(log);
        self.parts.stall_controller.notify();
        self.parts.stall_controller.report_space();
        outcome
    }

    /// Appends the record and makes it durable; returns where its frame begins.
    fn append_ingest(
        &self,
        log: &mut Log,
        keyspace: &Arc<KeyspaceState>,
        range: &Bounds,
        tables: &[TableId],
    ) -> Result<u64> {
        if log.next_seqno + 1 > FIRST_OWN_SEQNO {
            return Err(Error::new(ErrorKind::LimitReached, "all sequence numbers are used up")
                .advise("load the data into a new database"));
        }
        if let Err(error) = self.parts.log.make_room(log) {
            return Err(self.failed(log, error));
        }
        let value = ingest_value(range, tables);
        let key = range.lower.as_deref().unwrap_or_default();
        let record =
            RecordInput { kind: RecordKind::Ingest, ..RecordInput::put(keyspace.id, key, &value) };
        let target = RecordTarget { keyspace, separated: false, range: None, place: None };
        let frame = CommitFrame { records: &[record], targets: &[target], user_bytes: 0 };
        let start = log.writer.as_ref().map_or(0, SegmentWriter::len);
        let durability = match self.parts.runtime.env.planted.is(PlantedFault::IngestUnsynced) {
            true => Durability::Buffered,
            false => Durability::Sync,
        };
        if let Err(error) = self.append(log, &[frame], &mut Vec::new(), durability) {
            if let Some(writer) = log.writer.as_mut().filter(|writer| writer.is_failed()) {
                writer.cut(start.max(writer.good_len()));
            }
            return Err(self.failed(log, error));
        }
        Ok(start)
    }

    /// Makes the number visible. Nothing goes to a memtable. `moved_head` says that the head of the
    /// log is where the record begins.
    fn publish_ingest(&self, log: &mut Log, seqno: SeqNo, start: u64, moved_head: bool) {
        let parts = &self.parts;
        if let Some(writer) = log.writer.as_ref() {
            let (added, controller) = (writer.len() - start, &parts.stall_controller);
            let before = controller.log_bytes.fetch_add(added, Ordering::Relaxed);
            if moved_head {
                controller.head_bytes.fetch_max(before, Ordering::Relaxed);
            }
            writer.note_committed();
        }
        parts.runtime.counters.commits.add(1);
        parts.runtime.snapshots.publish(seqno);
        // The record was synced, and all segments before the active one before it.
        parts.log.note_durable(seqno);
        self.rotate_memtables(log, &[], false);
        if std::mem::take(&mut log.is_awaited) {
            self.signal.give();
        }
    }
}
