//! Writes the sorted segments of a job: it splits them by size, syncs each, and removes all of them
//! if the job fails.

use crate::base::error::{IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::env::fs::File;
use crate::segment::{
    RecordInput, RecordSeal, RecordView, SegmentIdentity, SegmentKind, SortedWriter,
};
use crate::throttle::reads::IoPriority;
use crate::version::edit::Change;
use crate::version::files::{SegmentHandle, names};
use crate::version::job::JobResult;
use crate::version::runtime::Runtime;
use crate::version::unnamed::WrittenFrom;
use std::path::PathBuf;
use std::sync::Arc;

/// The granularity in bytes in which writes are charged to the I/O budget.
const SPEND_BYTES: u64 = 1 << 20;

/// Segments that a job has written, all of whose bytes are durable.
#[derive(Default)]
pub struct NewSegments {
    /// The changes that add them to an edit.
    pub changes: Vec<Change>,
    /// Their handles.
    pub handles: Vec<Arc<SegmentHandle>>,
    /// Their length in bytes.
    pub bytes: u64,
}

impl NewSegments {
    /// Adds segments that the same job has written.
    pub fn extend(&mut self, more: NewSegments) {
        self.changes.extend(more.changes);
        self.handles.extend(more.handles);
        self.bytes += more.bytes;
    }
}

/// The segment that is being written.
struct OpenSegment {
    writer: SortedWriter,
    handle: Arc<SegmentHandle>,
    file: Arc<dyn File>,
}

/// The sorted segments that a job writes. None is created before the first record.
pub struct SegmentOutput<'a> {
    runtime: &'a Runtime,
    /// A segment is closed once it has this many bytes.
    split_bytes: u64,
    priority: IoPriority,
    /// True if segments are written around the page cache.
    is_direct: bool,
    open: Option<OpenSegment>,
    /// Bytes of the open segment that were charged to the budget.
    spent: u64,
    /// Bytes that were added to the set's count of bytes that no version names yet.
    unnamed: u64,
    /// Where what the job writes comes from.
    from: WrittenFrom,
    done: Vec<(Arc<SegmentHandle>, u64)>,
    created: Vec<PathBuf>,
    kept: bool,
}

impl<'a> SegmentOutput<'a> {
    /// Creates an empty output whose segments are split at `split_bytes`.
    pub fn new(runtime: &'a Runtime, split_bytes: u64, priority: IoPriority) -> Self {
        SegmentOutput {
            runtime,
            split_bytes,
            priority,
            is_direct: false,
            open: None,
            spent: 0,
            unnamed: 0,
            from: WrittenFrom::Others,
            done: Vec::new(),
            created: Vec::new(),
            kept: false,
        }
    }

    /// Says that memtables hold all of it until the files are named.
    pub fn held_by_memtables(mut self) -> Self {
        self.from = WrittenFrom::Memtables;
        self
    }

    /// Has the segments that are begun from now on written around the page cache, or not.
    pub fn write_around_cache(&mut self, is_direct: bool) {
        self.is_direct = is_direct;
    }

    /// Adds the record of the commit `seqno` and returns the pointer to it.
    pub fn add(&mut self, record: &RecordInput<'_>, seqno: SeqNo) -> JobResult<ValuePointer> {
        let pointer = self.writer()?.add(record, seqno)?;
        self.charge();
        Ok(pointer)
    }

    /// Adds a copy of `record` and returns the pointer to the copy. `record` was read from `offset`
    /// of another segment, of whose records `seal` is the seal. A damaged record is an error.
    pub fn copy(
        &mut self,
        record: &[u8],
        seal: &RecordSeal,
        offset: u64,
    ) -> JobResult<ValuePointer> {
        let pointer = self.writer()?.copy(record, seal, offset)?;
        self.charge();
        Ok(pointer)
    }

    /// Does as [`SegmentOutput::copy`] if `is_wanted` accepts the verified record; else returns
    /// `None`.
    pub fn copy_if(
        &mut self,
        record: &[u8],
        seal: &RecordSeal,
        offset: u64,
        is_wanted: impl FnOnce(&RecordView<'_>) -> bool,
    ) -> JobResult<Option<ValuePointer>> {
        let copied = self.writer()?.copy_if(record, seal, offset, is_wanted)?;
        self.charge();
        Ok(copied)
    }

    /// Returns the writer of the open segment; begins the next segment if there is none, or if the
    /// open one is full.
    fn writer(&mut self) -> JobResult<&mut SortedWriter> {
        if self.open.as_ref().is_some_and(|open| open.writer.len() >= self.split_bytes) {
            self.close_segment()?;
        }
        if self.open.is_none() {
            self.runtime.check_closing()?;
            self.open = Some(self.create()?);
        }
        Ok(&mut self.open.as_mut().expect("created just now").writer)
    }

    fn charge(&mut self) {
        let written = self.open.as_ref().map_or(0, |open| open.writer.len());
        let unspent = written - self.spent;
        if unspent >= SPEND_BYTES {
            self.spent = written;
            self.spend(unspent);
        }
    }

    /// Charges written bytes to the budget and reports them to value GC, which counts all files
    /// towards the bounds of space, those included that a crash here would leave as orphans.
    fn spend(&mut self, bytes: u64) {
        self.unnamed += bytes;
        self.runtime.set.unnamed().add(bytes, self.from);
        self.runtime.budget.spend(self.priority, bytes);
    }

    fn create(&mut self) -> Result<OpenSegment> {
        let tables = self.runtime.set.tables();
        let id = SegmentId(self.runtime.set.allocate()?);
        let path = names::segment(&tables.dir, id);
        let fs = &self.runtime.env.fs;
        let created = if self.is_direct { fs.create_direct(&path) } else { fs.create(&path) };
        let file = created.doing("create a sorted segment", &path)?;
        self.created.push(path.clone());
        let epoch = self.runtime.env.random.next_u64();
        let (database, kind) = (tables.identity.id, SegmentKind::Sorted);
        let identity = SegmentIdentity { database, id, kind, epoch };
        let seal = RecordSeal::of(&tables.identity, id, epoch);
        let writer = SortedWriter::create(file.clone(), &path, identity, seal)?;
        let handle = Arc::new(SegmentHandle::open(id, kind, epoch, tables));
        Ok(OpenSegment { writer, handle, file })
    }

    fn close_segment(&mut self) -> Result<()> {
        let Some(OpenSegment { writer, handle, file }) = self.open.take() else {
            return Ok(());
        };
        let length = writer.finish()?;
        debug_assert!(length >= self.spent, "more was charged than was written");
        let unspent = length - std::mem::take(&mut self.spent);
        self.spend(unspent);
        // I3: before the edit that names the segment and the tables that point into it. A crash
        // between here and the edit leaves an orphan.
        let synced = file.sync().doing("sync a sorted segment", handle.path());
        // I8: after a failure the content on the device is unknown, of this file and perhaps of
        // others.
        synced.map_err(|error| self.runtime.health.fail(&error))?;
        self.done.push((handle, length));
        Ok(())
    }

    /// Closes the last segment. An edit may name none of these files before the job has synced the
    /// directory, too, which it does once all of its files are there.
    pub fn finish(&mut self) -> Result<()> {
        self.close_segment()
    }

    /// Returns the segments that were written.
    pub fn segments(&self) -> NewSegments {
        assert!(self.open.is_none(), "I3: a segment that is not synced cannot be named");
        let mut segments = NewSegments::default();
        for (handle, length) in &self.done {
            let (id, segment) = (handle.id(), &handle.segment);
            let (kind, epoch, length) = (segment.kind(), segment.epoch(), *length);
            segments.changes.push(Change::AddSegment { id, kind, epoch });
            segments.changes.push(Change::SealSegment { id, length });
            segments.handles.push(handle.clone());
            segments.bytes += length;
        }
        segments
    }

    /// Leaves the segments as orphans for the next opening, because the database was closed.
    pub fn leave(mut self) {
        (self.open, self.kept) = (None, true);
    }

    /// Keeps the segments, because the edit that names them took effect.
    pub fn keep(mut self) {
        assert!(self.open.is_none(), "a segment that is not synced cannot be named");
        self.kept = true;
    }
}

impl Drop for SegmentOutput<'_> {
    fn drop(&mut self) {
        if !self.kept {
            (self.open, self.done) = (None, Vec::new());
            self.runtime.set.discard(&self.created);
        }
        // The edit has named the bytes, or the files are gone, so they are no longer counted apart.
        self.runtime.set.unnamed().end(self.unnamed, self.from);
    }
}
