//! Writes a sorted segment: records in key order, copied from other segments by value GC or by a
//! compaction job, or made by a flush from the values of memtables. The order is the caller's;
//! value GC writes several parts, each in key order, of log segments that exceed its memory.
//!
//! A copied record keeps its fields and thus its length, unless only one of the two segments is
//! encrypted; its checksum is computed anew, because the seed contains the segment's epoch and the
//! record's offset. Records are gathered into frames of
//! about [`FRAME_BYTES`], so that a scan can verify the segment like any other.
//!
//! I5: nobody can reach the segment before the edit that names it, which is published after the
//! segment's sync; a crash before that leaves an orphan.

use super::format::{HEAD_BYTES, SegmentHead, SegmentIdentity};
use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use super::record::{RecordInput, RecordSeal, RecordView};
use crate::base::error::{IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::ValuePointer;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A frame is written once it has this many bytes.
const FRAME_BYTES: usize = 256 << 10;

/// Granularity of writeback in bytes. Where the system's page is larger, a little is written twice.
const WRITEBACK_UNIT: u64 = FILE_BLOCK_BYTES;

/// The only writer of a sorted segment.
pub struct SortedWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    identity: SegmentIdentity,
    seal: RecordSeal,
    /// The offset where the frame in `frame` will begin.
    start: u64,
    /// Space for the frame's header, followed by the records so far.
    frame: Vec<u8>,
    records: u32,
    /// The offset up to which writeback was started.
    written_back: u64,
}

impl SortedWriter {
    /// Begins the segment in the empty `file` at `path` by writing its head. `seal` is that of its
    /// records.
    pub fn create(
        file: Arc<dyn File>,
        path: &Path,
        identity: SegmentIdentity,
        seal: RecordSeal,
    ) -> Result<SortedWriter> {
        let SegmentIdentity { database, id, kind, epoch } = identity;
        let (previous, previous_bytes, first_seqno) = (None, 0, 0);
        assert_eq!(seal.epoch(), epoch, "the seal of another segment");
        let is_encrypted = seal.is_encrypted();
        let head = SegmentHead {
            database,
            id,
            kind,
            is_encrypted,
            epoch,
            first_seqno,
            previous,
            previous_bytes,
            first_unsynced: None,
        };
        file.write_at(&head.encode(), 0).doing("write the segment's head", path)?;
        let mut frame = Vec::with_capacity(FRAME_BYTES + FRAME_BYTES / 4);
        frame.resize(FRAME_HEADER_BYTES, 0);
        let (path, start) = (path.to_path_buf(), HEAD_BYTES as u64);
        Ok(SortedWriter { file, path, identity, seal, start, frame, records: 0, written_back: 0 })
    }

    /// Returns the bytes of the segment so far, those of the frame in memory included.
    pub fn len(&self) -> u64 {
        let pending = if self.records == 0 { 0 } else { self.frame.len() as u64 };
        self.start + pending
    }

    /// Adds the record of the commit `seqno` and returns the pointer to it.
    pub fn add(&mut self, record: &RecordInput<'_>, seqno: SeqNo) -> Result<ValuePointer> {
        let at = self.start + self.frame.len() as u64;
        record.encode(&mut self.frame, &self.seal, at, seqno);
        let length = (self.start + self.frame.len() as u64 - at) as u32;
        self.end_record()?;
        Ok(ValuePointer { segment: self.identity.id, offset: at, length })
    }

    /// Adds a copy of `record` and returns the pointer to the copy. `record` was read from `offset`
    /// of another segment, of whose records `seal` is the seal. A damaged record is an error and is
    /// not added, because its new checksum would make the damage look valid.
    pub fn copy(&mut self, record: &[u8], seal: &RecordSeal, offset: u64) -> Result<ValuePointer> {
        let copied = self.copy_if(record, seal, offset, |_| true)?;
        Ok(copied.expect("every record is wanted"))
    }

    /// Does as [`SortedWriter::copy`] if `is_wanted` accepts the verified record; else returns
    /// `None`.
    pub fn copy_if(
        &mut self,
        record: &[u8],
        seal: &RecordSeal,
        offset: u64,
        is_wanted: impl FnOnce(&RecordView<'_>) -> bool,
    ) -> Result<Option<ValuePointer>> {
        // The copy is opened where it will lie, so a record that is encrypted is copied once.
        let (begin, at) = (self.frame.len(), self.start + self.frame.len() as u64);
        self.frame.extend_from_slice(record);
        let body_bytes = RecordView::open(&mut self.frame[begin..], seal, offset)
            .map(|view| is_wanted(&view).then(|| view.key.len() + view.value.len()));
        let Ok(Some(body_bytes)) = body_bytes else {
            self.frame.truncate(begin);
            return body_bytes.map(|_| None);
        };
        if self.seal.is_encrypted() != seal.is_encrypted() {
            seal.change(&self.seal, &mut self.frame, begin);
        }
        self.seal.close(&mut self.frame[begin..], body_bytes, at);
        let length = (self.frame.len() - begin) as u32;
        self.end_record()?;
        Ok(Some(ValuePointer { segment: self.identity.id, offset: at, length }))
    }

    /// Counts a record at the end of the frame, and writes the frame if it is full.
    fn end_record(&mut self) -> Result<()> {
        self.records += 1;
        if self.frame.len() >= FRAME_BYTES {
            self.write_frame()?;
        }
        Ok(())
    }

    fn write_frame(&mut self) -> Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        assert!(self.frame.len() > FRAME_HEADER_BYTES, "a frame with records has a body");
        let header = FrameHeader {
            // A frame is closed at its first record over the bound, and every record is under 2
            // GiB.
            body_bytes: (self.frame.len() - FRAME_HEADER_BYTES) as u32,
            count: self.records,
            durable: 0,
            first_seqno: 0,
        };
        let header = header.encode(self.seal.epoch(), self.start);
        self.frame[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        self.file.write_at(&self.frame, self.start).doing("write the segment", &self.path)?;
        self.start += self.frame.len() as u64;
        self.begin_writeback();
        self.frame.truncate(FRAME_HEADER_BYTES);
        self.frame.shrink_to(2 * FRAME_BYTES);
        self.records = 0;
        Ok(())
    }

    /// Starts writeback of the whole pages written so far. It runs after each frame, so that a
    /// concurrent read waits for one frame rather than megabytes, and the sync has less to do. The
    /// last, partial page is left for the next call.
    fn begin_writeback(&mut self) {
        let whole = self.start - self.start % WRITEBACK_UNIT;
        if whole > self.written_back {
            self.file.start_writeback(self.written_back, whole - self.written_back);
            self.written_back = whole;
        }
    }

    /// Writes out the last frame and returns the final length. The caller syncs the file.
    pub fn finish(mut self) -> Result<u64> {
        self.write_frame()?;
        assert_eq!((self.records, self.frame.len()), (0, FRAME_HEADER_BYTES), "records are left");
        // I9: a full disk is an error of a write, after which the job is tried again. One of the
        // sync would be final.
        self.file.write_out().doing("write the segment", &self.path)?;
        Ok(self.start)
    }
}
