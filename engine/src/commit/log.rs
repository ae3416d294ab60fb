//! The log: the active segment, the next ones, and their durability.
//!
//! No segment is begun before the first write, so a session that only reads leaves none behind.
//!
//! The next segment is begun in two steps, so that writers seldom wait. Once the active segment is
//! half full, the background creates an empty file and makes its existence durable in the manifest
//! (a *spare*). When the active segment is full, the leader seals it and writes the head of the
//! spare, which contains the old segment's length, and up to where the log was synced by then. The
//! background syncs the old segment (`unsynced.rs`), and then the manifest gets its length; until
//! then recovery takes it from that head.

use crate::base::error::{Error, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::commit::recent::RecentKeys;
use crate::commit::unsynced::{UnsyncedSegment, UnsyncedSegments};
use crate::env::planted::PlantedFault;
use crate::env::sync::Mutex;
use crate::segment::{SegmentHead, SegmentKind, SegmentWriter, Syncer, WriterSettings};
use crate::stats::StallReason;
use crate::throttle::disk::{DiskSpace, base_bytes};
use crate::throttle::tree::rotation_waits;
use crate::version::LogPosition;
use crate::version::edit::{Change, Edit};
use crate::version::files::{SegmentHandle, names};
use crate::version::runtime::Runtime;
use crate::version::settings::Separation;
use crate::version::view::{KeyspaceState, LoggedMemtable, View};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A segment whose existence is durable and that holds nothing yet.
pub struct Spare {
    handle: Arc<SegmentHandle>,
    file: Arc<dyn crate::env::fs::File>,
}

/// The length of a sealed segment that the manifest does not have yet.
pub struct SealedLength {
    /// The id of the segment.
    pub id: SegmentId,
    /// The length in bytes, all of it durable.
    pub length: u64,
}

/// The state at the end of the log; it belongs to the holder of the log's lock.
pub struct Log {
    /// The writer of the active segment; `None` before the first write, and between the end of a
    /// segment and the next write.
    pub writer: Option<SegmentWriter>,
    /// The active segment; `None` when there is no writer.
    pub active: Option<Arc<SegmentHandle>>,
    /// The first sequence number of the active segment.
    pub active_first_seqno: SeqNo,
    /// True if the active segment has a separated value.
    pub has_values: bool,
    /// True if the active segment has a value that is separated at write whatever the engine
    /// chooses ([`Separation::Auto`]).
    ///
    /// [`Separation::Auto`]: crate::Separation::Auto
    pub has_fixed_values: bool,
    /// True if the segment before had one.
    pub had_fixed_values: bool,
    /// The number of segments begun since a commit asked for a sync.
    pub segments_since_sync: u32,
    /// The next sequence number.
    pub next_seqno: SeqNo,
    /// The last sealed segment and its length in bytes, which the next segment's head will name.
    pub previous: Option<(SegmentId, u64)>,
    /// Bytes of log written at which memtables are checked next for holding the head back.
    pub next_look: u64,
    /// Bytes of log written at which the free space of the disk is checked next.
    pub next_disk_check: u64,
    /// The active segment is sealed once it has this many bytes.
    pub segment_limit: u64,
    /// The next segment is prepared once the active one has this many bytes; `None` once it was
    /// requested.
    pub next_spare: Option<u64>,
    /// True if a spare is to be created by the background.
    pub is_work_due: bool,
    /// True if the background has a sealed segment to sync, or writeback to start.
    pub is_sync_due: bool,
    /// The keys of the last commits, for conditional ones.
    pub recent: RecentKeys,
    /// True if somebody waits for the next commit.
    pub is_awaited: bool,
    /// Set by a clean close. The manifest then has the end of the log, so nothing may be appended.
    pub closed: bool,
}

impl Log {
    /// Returns the end of a log that was recovered up to `last_seqno`. `previous` is its last
    /// segment and the length of it.
    pub fn after(last_seqno: SeqNo, previous: Option<(SegmentId, u64)>) -> Self {
        Log {
            writer: None,
            active: None,
            active_first_seqno: last_seqno + 1,
            has_values: false,
            has_fixed_values: false,
            had_fixed_values: false,
            segments_since_sync: u32::MAX,
            next_seqno: last_seqno + 1,
            previous,
            next_look: 0,
            next_disk_check: 0,
            segment_limit: 0,
            next_spare: None,
            is_work_due: false,
            is_sync_due: false,
            recent: RecentKeys::starting_after(last_seqno),
            is_awaited: false,
            closed: false,
        }
    }
}

/// The least size of a segment in bytes, unless `segment_bytes` is smaller.
const LEAST_SEGMENT_BYTES: u64 = 4 << 20;
/// A segment has at most this part (one in this many) of the garbage that may be there at the
/// ceiling. The active segment can't be collected, and the others are freed by whole ones, each of
/// which is copied before it is removed. The copy must fit in what value GC keeps free below the
/// ceiling, one and a half segments or a fifth of that garbage, whichever is less.
const SEGMENT_OF_SLACK: u64 = 16;
/// A segment may have this part (one in this many) of the allowance, which is there for small
/// stores to be left in peace.
const SEGMENT_OF_ALLOWANCE: u64 = 8;
/// A segment's file is prepared for at most its size divided by this at a time.
const PREPARED_PART: u64 = 4;

/// The settings of the log.
#[derive(Debug, Clone, Copy)]
pub struct LogSettings {
    /// The size in bytes at which a segment of a large store is sealed.
    pub segment_bytes: u64,
    /// The ceiling of space, in bytes for each live byte (`GcOptions::max_space_amplification`).
    pub ceiling: f64,
    /// The garbage in bytes that is allowed below the ceiling however little is live
    /// (`GcOptions::space_allowance_bytes`).
    pub allowance_bytes: u64,
    /// The size in bytes of the write buffer.
    pub buffer_bytes: usize,
    /// True if segments are prepared for appends, which are then copies into a mapping where the
    /// file system allows it.
    pub mapped_appends: bool,
}

impl LogSettings {
    /// Returns the size of segments in a store of `store` bytes. Larger ones cost fewer syncs and
    /// fewer edits (`bench/record/2026-11-23-fill.md`). None is larger than the base of the disk's
    /// reserve, in which value GC moves what is live in one when the disk is nearly full.
    fn segment_limit(&self, store: u64) -> u64 {
        let slack = (store as f64 * self.garbage_share()) as u64;
        let limit = (slack / SEGMENT_OF_SLACK).max(self.allowance_bytes / SEGMENT_OF_ALLOWANCE);
        let limit = limit.min(base_bytes(store, self.segment_bytes));
        limit.max(LEAST_SEGMENT_BYTES).min(self.segment_bytes)
    }

    /// Returns the bytes of a store from which neither the size of segments nor the base of the
    /// disk's reserve grows any more.
    fn large_store(&self) -> u64 {
        (self.segment_bytes as f64 * SEGMENT_OF_SLACK as f64 / self.garbage_share()) as u64
    }

    /// Returns the share of garbage in a store that is at its ceiling.
    fn garbage_share(&self) -> f64 {
        let share = 1.0 - 1.0 / self.ceiling;
        debug_assert!((0.0..=1.0).contains(&share), "a ceiling of {}", self.ceiling);
        share
    }
}

/// The part of the log that is shared between threads.
pub struct LogShared {
    pub(super) runtime: Runtime,
    settings: LogSettings,
    /// Held while a spare is created, because segments are begun in the order of their ids and no
    /// two may be created at once; and while lengths are recorded. Taken after the lock of the log.
    spare_creation: Mutex<()>,
    /// The spares in the order of their ids. There is more than one only after a head could not be
    /// written: that segment must be used first, or its torn head would lie in the middle of the
    /// log.
    spares: Mutex<VecDeque<Spare>>,
    /// True once the active segment is full enough for a spare to be created.
    is_spare_wanted: AtomicBool,
    /// True until the thread that syncs the log has tried to create it.
    is_spare_due: AtomicBool,
    sealed: Mutex<Vec<SealedLength>>,
    pub(super) unsynced: UnsyncedSegments,
    /// The segment with writeback to be started.
    writeback_due: Mutex<Option<Syncer>>,
    /// Every commit up to this sequence number is on stable storage.
    durable: AtomicU64,
}

impl LogShared {
    /// Creates the shared part of a log. It keeps in `unsynced` how many sealed segments are not
    /// synced.
    pub fn new(runtime: Runtime, settings: LogSettings, unsynced: Arc<AtomicUsize>) -> Self {
        LogShared {
            runtime,
            settings,
            spare_creation: Mutex::new(()),
            spares: Mutex::new(VecDeque::new()),
            is_spare_wanted: AtomicBool::new(false),
            is_spare_due: AtomicBool::new(false),
            sealed: Mutex::new(Vec::new()),
            unsynced: UnsyncedSegments::new(unsynced, settings.segment_bytes),
            writeback_due: Mutex::new(None),
            durable: AtomicU64::new(0),
        }
    }

    /// Returns a sequence number up to which every commit is on stable storage. It lags behind the
    /// newest commit by what was written since the last sync of the log.
    pub fn durable(&self) -> SeqNo {
        self.durable.load(Ordering::Acquire)
    }

    /// Records that every commit up to `seqno` is on stable storage.
    pub(super) fn note_durable(&self, seqno: SeqNo) {
        debug_assert!(seqno <= self.runtime.snapshots.visible(), "what is durable was committed");
        self.durable.fetch_max(seqno, Ordering::AcqRel);
    }

    /// Creates the next segment ahead of its use and records it in the manifest, together with the
    /// lengths of the segments sealed since. A background job; returns false if there was nothing
    /// to do.
    pub fn prepare_spare(&self) -> Result<bool> {
        let _spare_creation = self.spare_creation.lock();
        if !self.wants_spare() {
            return Ok(false);
        }
        if self.lacks_spare() {
            let spare = self.create_recorded_spare()?;
            self.spares.lock().push_back(spare);
        } else {
            self.record(None)?;
        }
        Ok(true)
    }

    /// Creates a segment and records it in the manifest. If that fails, the file goes again: what
    /// fails for lack of space is tried every few seconds (I9).
    fn create_recorded_spare(&self) -> Result<Spare> {
        let spare = self.create_spare()?;
        let recorded = self.record(Some(&spare));
        recorded.inspect_err(|_| {
            self.runtime.set.discard(&[spare.handle.path().to_path_buf()]);
        })?;
        Ok(spare)
    }

    fn create_spare(&self) -> Result<Spare> {
        let id = SegmentId(self.runtime.set.allocate()?);
        let tables = self.runtime.set.tables();
        let path = names::segment(&tables.dir, id);
        let file = self.runtime.env.fs.create(&path).doing("create a log segment", &path)?;
        // The name is durable before the manifest names the segment. A crash in between leaves an
        // empty file that the manifest does not name: an orphan.
        let synced =
            self.runtime.env.fs.sync_dir(&tables.dir).doing("sync the directory", &tables.dir);
        synced.map_err(|error| self.runtime.health.fail(&error))?;
        let epoch = self.runtime.env.random.next_u64();
        let handle = SegmentHandle::for_writing(id, SegmentKind::Log, epoch, tables);
        Ok(Spare { handle: Arc::new(handle), file })
    }

    /// Records in the manifest the length of every segment that was sealed since. Waits for a
    /// concurrent call: a checkpoint that did not wait would take a version without these lengths,
    /// and leave those segments out.
    pub fn record_sealed(&self) -> Result<()> {
        let _spare_creation = self.spare_creation.lock();
        self.record(None)
    }

    /// Writes an edit with the new spare, if any, and every sealed length not yet recorded.
    fn record(&self, spare: Option<&Spare>) -> Result<()> {
        let handles: Vec<_> = spare.iter().map(|spare| spare.handle.clone()).collect();
        let add = |handle: &Arc<SegmentHandle>| {
            let (kind, epoch) = (SegmentKind::Log, handle.segment.epoch());
            Change::AddSegment { id: handle.id(), kind, epoch }
        };
        self.record_with(handles.iter().map(add).collect(), &handles)
    }

    /// Writes an edit with these changes and every sealed length not yet recorded.
    fn record_with(&self, others: Vec<Change>, handles: &[Arc<SegmentHandle>]) -> Result<()> {
        let sealed = std::mem::take(&mut *self.sealed.lock());
        let mut changes: Vec<Change> = sealed
            .iter()
            .map(|sealed| Change::SealSegment { id: sealed.id, length: sealed.length })
            .collect();
        changes.extend(others);
        let applied = self.runtime.set.apply(|_| Ok(Edit::new(changes)), handles, None);
        if applied.is_err() {
            self.sealed.lock().extend(sealed);
        }
        applied.map(|_| ())
    }

    /// Returns true if the background should create a spare or record sealed lengths.
    pub fn wants_spare(&self) -> bool {
        self.lacks_spare() || !self.sealed.lock().is_empty()
    }

    fn lacks_spare(&self) -> bool {
        self.is_spare_wanted.load(Ordering::Relaxed) && self.spares.lock().is_empty()
    }

    /// Requests a spare, so that a segment that is sealed early is followed by one that is there.
    pub fn request_spare(&self) {
        self.is_spare_wanted.store(true, Ordering::Relaxed);
    }

    /// Requests a spare once the active segment is half full, and the writeback that is due.
    pub fn look_ahead(&self, log: &mut Log) {
        let due = |writer: &mut SegmentWriter| writer.take_writeback_due().then(|| writer.syncer());
        if let Some(syncer) = log.writer.as_mut().and_then(due)
            && !self.is_left_to_system(log)
        {
            // What is due in an earlier segment is left to its sync, which begins with writeback.
            *self.writeback_due.lock() = Some(syncer);
            log.is_sync_due = true;
        }
        let is_due = |at| log.writer.as_ref().is_some_and(|writer| writer.len() >= at);
        if log.next_spare.is_some_and(is_due) {
            log.next_spare = None;
            (log.is_work_due, log.is_sync_due) = (true, true);
            self.is_spare_wanted.store(true, Ordering::Relaxed);
            self.is_spare_due.store(true, Ordering::Relaxed);
        }
    }

    /// Ensures that the active segment can take a frame: begins the next segment if there is none,
    /// if it is full, or if a write to it failed.
    pub fn make_room(&self, log: &mut Log) -> Result<()> {
        debug_assert_eq!(log.writer.is_some(), log.active.is_some());
        if let Some(writer) = &log.writer
            && !writer.is_failed()
            && writer.len() < log.segment_limit
        {
            return Ok(());
        }
        self.rotate(log)
    }

    /// Seals and syncs the active segment, if there is one, and all before it. The next write
    /// begins another.
    pub fn end_active(&self, log: &mut Log) -> Result<()> {
        self.seal_active(log)?;
        self.sync_sealed(self.end(log).segment)
    }

    /// Seals the active segment, if there is one, and leaves its sync to the background.
    pub fn seal_active(&self, log: &mut Log) -> Result<()> {
        let (Some(writer), Some(active)) = (log.writer.as_mut(), log.active.as_ref()) else {
            return Ok(());
        };
        // After a failed write the segment ends with the last good frame: acknowledged frames that
        // are still buffered are written out first, and if that fails again, so does this (I9).
        writer.write_out()?;
        let is_wal_only = writer.durable() == 0 && !log.has_values;
        let length = writer.seal()?;
        let id = active.id();
        assert_eq!(id, writer.segment().id(), "the active segment is the one written to");
        let is_later = log.previous.is_none_or(|(before, _)| before < id);
        assert!(is_later, "I2: segments are replayed in the order of their ids");
        // The lock of the log is held, so all that is visible is in this segment, or before it.
        let (visible, last_seqno) = (self.runtime.snapshots.visible(), log.next_seqno - 1);
        let syncer = writer.syncer();
        let sealed = UnsyncedSegment { id, length, is_wal_only, visible, last_seqno, syncer };
        self.unsynced.push(sealed);
        log.previous = Some((id, length));
        (log.writer, log.active) = (None, None);
        log.is_sync_due = true;
        Ok(())
    }

    /// Makes durable, oldest first, what was sealed before segment `end`. I2: this comes before
    /// each sync of a segment at or behind `end`. A failure is final (I8).
    pub fn sync_sealed(&self, end: SegmentId) -> Result<()> {
        self.unsynced.sync_before(end, |segment| {
            match self.runtime.env.planted.is(PlantedFault::SealedSyncSwallowed) {
                true => drop(segment.syncer.sync()),
                false => self.sync(&segment.syncer)?,
            }
            // Numbers get to the manifest once they are durable. A number that it knows and the log
            // has lost would be a gap in the log.
            self.runtime.set.note_seqno(segment.last_seqno);
            self.note_durable(segment.visible);
            let (id, length) = (segment.id, segment.length);
            self.sealed.lock().push(SealedLength { id, length });
            Ok(())
        })
    }

    /// Creates the spare that is due, starts the writeback that is due, and syncs what was sealed
    /// but for WAL-only segments that may wait. The work of a thread of the background.
    pub fn sync_behind(&self) -> Result<()> {
        if self.is_spare_due.swap(false, Ordering::Relaxed) {
            // The thread that flushes would do it, too, but perhaps only after a long flush. So it
            // is also the one that tries again if this fails, and says why.
            let _ = self.prepare_spare();
        }
        let due = self.writeback_due.lock().take();
        if let Some(syncer) = due {
            syncer.write_back();
        }
        let end = self.unsynced.due_before(self.may_be_wal_only());
        end.map_or(Ok(()), |end| self.sync_sealed(end))
    }

    /// Returns true if [`LogShared::sync_behind`] has something to do.
    pub fn wants_sync(&self) -> bool {
        self.unsynced.due_before(self.may_be_wal_only()).is_some()
            || self.is_spare_due.load(Ordering::Relaxed)
            || self.writeback_due.lock().is_some()
    }

    /// Seals the active segment, if any, and begins the next one.
    fn rotate(&self, log: &mut Log) -> Result<()> {
        if log.closed {
            return Err(Error::closed("the database was closed"));
        }
        // I1: the buffer may end in the middle of a frame if a commit panicked.
        self.runtime.health.check()?;
        self.leave_few_unsynced()?;
        let spare = self.take_spare()?;
        if let Err(error) = self.begin(log, &spare) {
            if self.runtime.health.check().is_ok() {
                // Nothing that counts was written to it; the next try rewrites its head.
                self.spares.lock().push_front(spare);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Waits for the sync of what was sealed if the writers that were admitted before they would
    /// have had to wait have filled more segments than may be unsynced.
    fn leave_few_unsynced(&self) -> Result<()> {
        if !rotation_waits(self.unsynced.count()) {
            return Ok(());
        }
        let clock = &self.runtime.env.clock;
        let begun = clock.now();
        let synced = self.sync_sealed(SegmentId(u64::MAX));
        self.runtime.counters.stall(StallReason::LogSync, clock.since(begun));
        synced
    }

    /// Returns the spare; creates it if the background has not, or waits if the background is
    /// creating it.
    fn take_spare(&self) -> Result<Spare> {
        // Bound to a name, so that the lock is not held while a spare is created.
        let ready = self.spares.lock().pop_front();
        if let Some(spare) = ready {
            return Ok(spare);
        }
        let _spare_creation = self.spare_creation.lock();
        let ready = self.spares.lock().pop_front();
        if let Some(spare) = ready {
            return Ok(spare);
        }
        self.create_recorded_spare()
    }

    /// Returns the bytes of the store, up to the amount from which sizes no longer depend on it.
    fn store_bytes(&self) -> u64 {
        self.runtime.set.current().bytes_up_to(self.settings.large_store())
    }

    /// Returns the size in bytes of full segments in a store of the present size. That of sorted
    /// segments that a flush writes is the same, for the same reasons.
    pub fn segment_bytes(&self) -> u64 {
        self.settings.segment_limit(self.store_bytes())
    }

    /// Checks the free space of the disk. Returns `None` if it cannot be determined; then a full
    /// disk shows only when a write fails.
    pub fn check_disk(&self, keyspaces: &[Arc<KeyspaceState>]) -> Option<DiskSpace> {
        let free = self.runtime.free_space()?;
        let base = base_bytes(self.store_bytes(), self.settings.segment_bytes);
        let mut found = DiskSpace { free, base, unflushed: 0, unmerged: 0 };
        for keyspace in keyspaces {
            let view = keyspace.peek();
            let bytes = |level| view.levels.level(level).iter().map(|table| table.meta.bytes).sum();
            let (level0, level1): (u64, u64) = (bytes(0), bytes(1));
            found.unflushed += unflushed(&view, keyspace.options().separation);
            found.unmerged += if level0 > 0 { level0 + level1 } else { 0 };
        }
        Some(found)
    }

    fn begin(&self, log: &mut Log, spare: &Spare) -> Result<()> {
        self.seal_active(log)?;
        assert!(log.writer.is_none() && log.active.is_none(), "one segment is active at a time");
        let head = SegmentHead {
            database: self.runtime.set.tables().identity.id,
            id: spare.handle.id(),
            kind: SegmentKind::Log,
            is_encrypted: spare.handle.segment.seal().is_encrypted(),
            epoch: spare.handle.segment.epoch(),
            first_seqno: log.next_seqno,
            previous: log.previous.map(|(id, _)| id),
            previous_bytes: log.previous.map_or(0, |(_, length)| length),
            // What is synced meanwhile makes this say too little, which is true as well.
            first_unsynced: self.unsynced.first(),
        };
        let segment = spare.handle.segment.clone();
        let limit = self.segment_bytes();
        let (usual, most) = (WriterSettings::default(), limit / PREPARED_PART);
        let prepared = usual.prepare_bytes.min(most);
        let settings = WriterSettings {
            buffer_bytes: self.settings.buffer_bytes,
            prepare_bytes: if self.settings.mapped_appends { prepared } else { 0 },
            most_prepared_bytes: usual.most_prepared_bytes.min(most),
            ..usual
        };
        // A crash before the head is durable leaves a segment that was never begun.
        let writer = SegmentWriter::activate(spare.file.clone(), segment, &head, settings)?;
        log.writer = Some(writer);
        log.active = Some(spare.handle.clone());
        (log.active_first_seqno, log.has_values) = (head.first_seqno, false);
        log.had_fixed_values = std::mem::take(&mut log.has_fixed_values);
        log.segments_since_sync = log.segments_since_sync.saturating_add(1);
        // A WAL-only segment may end with a memtable.
        let first_end = limit.min(self.least_memtable_bytes() / 2);
        (log.segment_limit, log.next_spare) = (limit, Some(first_end / 2));
        self.is_spare_wanted.store(false, Ordering::Relaxed);
        log.next_disk_check = 0;
        self.runtime.counters.log_rotations.add(1);
        Ok(())
    }

    /// Makes everything appended durable.
    pub fn sync_writer(&self, writer: &mut SegmentWriter) -> Result<()> {
        writer.write_out()?;
        self.sync_up_to(&writer.syncer(), writer.segment().id())
    }

    /// Makes the active segment durable, `id`, and before it all that was sealed (I2).
    pub fn sync_up_to(&self, syncer: &Syncer, id: SegmentId) -> Result<()> {
        if !self.runtime.env.planted.is(PlantedFault::SealedForgotten) {
            self.sync_sealed(id)?;
        }
        self.sync(syncer)
    }

    /// Syncs a segment; a failure is final (I8).
    fn sync(&self, syncer: &Syncer) -> Result<()> {
        self.runtime.counters.log_syncs.add(1);
        // Syncs of a segment are serial, and a failed one is remembered: the kernel reports a
        // failed writeback once, perhaps to another thread's sync.
        syncer.sync().map_err(|error| self.runtime.health.fail(&error))?;
        self.runtime.health.check()
    }

    /// Returns the end of the log while no segment is active.
    pub fn end(&self, log: &Log) -> LogPosition {
        // The position is the start of the next id rather than the end of the segment, so that the
        // head can move past the segment.
        let end =
            |(id, _): (SegmentId, u64)| LogPosition { segment: SegmentId(id.0 + 1), offset: 0 };
        log.previous.map_or(self.runtime.set.current().head, end)
    }

    /// Returns the place behind the last commit, whether a segment is active or not.
    pub fn reach(&self, log: &Log) -> LogPosition {
        let end_of =
            |it: &SegmentWriter| LogPosition { segment: it.segment().id(), offset: it.len() };
        log.writer.as_ref().map_or_else(|| self.end(log), end_of)
    }

    /// Closes the log cleanly: syncs it, records its end in the manifest, and removes the spares,
    /// so that the next opening has nothing to repair.
    pub fn seal(&self, log: &mut Log) -> Result<()> {
        log.closed = true;
        self.end_active(log)?;
        let _spare_creation = self.spare_creation.lock();
        let spares = std::mem::take(&mut *self.spares.lock());
        // A crash before this edit leaves segments that were never begun.
        let remove = |spare: &Spare| Change::RemoveSegment { id: spare.handle.id() };
        self.record_with(spares.iter().map(remove).collect(), &[])
    }
}

/// Returns how many bytes a flush of the memtables of a keyspace writes at most. What an entry
/// takes in memory is more than its bytes in a table, or than those of its record in a segment. A
/// flush that separates values writes the keys of these twice, to both, and fills the last block of
/// two files.
fn unflushed(view: &View, separation: Separation) -> u64 {
    let of = |memtable: &Arc<LoggedMemtable>| match separation {
        Separation::AtFlush | Separation::Auto if !memtable.table.is_empty() => {
            memtable.bytes() + memtable.table.inline().keys + 2 * FILE_BLOCK_BYTES
        }
        _ => memtable.bytes(),
    };
    view.memtables().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_a_part_of_a_small_store() {
        let of = |segment_bytes, ceiling, allowance_bytes| {
            let (buffer_bytes, mapped_appends) = (0, false);
            LogSettings { segment_bytes, ceiling, allowance_bytes, buffer_bytes, mapped_appends }
        };
        let mib = |settings: LogSettings| {
            [0, 64, 128, 512, 1024, 4096, 1 << 20]
                .map(|store: u64| settings.segment_limit(store << 20) >> 20)
        };
        assert_eq!(mib(of(64 << 20, 2.0, 256 << 20)), [4, 8, 16, 32, 32, 64, 64]);
        assert_eq!(mib(of(64 << 20, 2.0, 0)), [4, 4, 4, 16, 32, 64, 64]);
        assert_eq!(mib(of(64 << 20, 1.3, 0)), [4, 4, 4, 7, 14, 59, 64]);
        assert_eq!(mib(of(64 << 20, 1.0, 0)), [4; 7], "there is no room for larger ones");
        assert_eq!(of(6 << 10, 2.0, 0).segment_limit(1 << 40), 6 << 10, "never larger than set");
        assert_eq!(of(4 << 30, 1e9, u64::MAX).segment_limit(u64::MAX), 4 << 30);
    }
}
