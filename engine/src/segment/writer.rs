//! Appends frames to a segment through a buffer that readers share, in as few system calls as
//! durability allows.
//!
//! To write a commit group, call [`SegmentWriter::append`] once per commit and then, depending on
//! the durability asked for, nothing, [`SegmentWriter::write_out`], or that and [`Syncer::sync`]. A
//! full buffer is written early; values of [`DIRECT_VALUE_BYTES`] and more are written to the file
//! straight from the caller's memory, unless they are encrypted.
//!
//! **When a write fails** (I9: most often, the disk is full) the writer takes no more frames. The
//! frames of the last successful `write_out` count, up to [`SegmentWriter::good_len`]. The buffered
//! ones stay readable. `commit` may drop the frames of the failed commit ([`SegmentWriter::cut`])
//! and call `write_out` again until it succeeds, which saves the acknowledged frames that were
//! still buffered. It then continues in a new segment whose head has `previous_bytes = good_len`,
//! so that nothing behind that length is ever read.
//!
//! **When a sync fails** (I8) the state of the file is unknown and the sync is not repeated: the
//! writer refuses everything from then on.
//!
//! Locks: those of `tail.rs`. There is one writer per segment; the state it owns needs no lock.

use super::format::{HEAD_BYTES, SegmentHead, SegmentKind};
use super::frame::{FRAME_HEADER_BYTES, FrameHeader, body_bytes};
use super::reader::Segment;
use super::record::{RecordInput, RecordSeal};
use super::tail::LiveTail;
use crate::base::error::{Error, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::ValuePointer;
use crate::env::fs::File;
use std::sync::Arc;

/// A stored value of at least this many bytes is written without being copied to the buffer.
pub const DIRECT_VALUE_BYTES: usize = 256 << 10;

/// Sizes that control how a segment is written.
#[derive(Debug, Clone, Copy)]
pub struct WriterSettings {
    /// The buffer is written to the file once it holds this many bytes.
    pub buffer_bytes: usize,
    /// Writeback to the device becomes due after each this many bytes, so that the next sync has
    /// less to do.
    pub writeback_bytes: u64,
    /// The file is prepared for appends in steps of this many bytes, or of the file's current
    /// length if that is more, so that a small database reserves little; 0 disables preparation.
    pub prepare_bytes: u64,
    /// The limit, in bytes, of a step that follows the file's length.
    pub most_prepared_bytes: u64,
}

impl Default for WriterSettings {
    /// Returns the default sizes: 256 KiB for the buffer, which stay in a core's cache; 8 MiB
    /// between writebacks (with 1 MiB the slowest of a thousand puts of 1 KiB took twice as long);
    /// steps of 4 to 64 MiB.
    fn default() -> Self {
        WriterSettings {
            buffer_bytes: 256 << 10,
            writeback_bytes: 8 << 20,
            prepare_bytes: 4 << 20,
            most_prepared_bytes: 64 << 20,
        }
    }
}

/// Syncs a live segment while its writer appends to it. A sync thread holds one.
#[derive(Clone)]
pub struct Syncer {
    segment: Arc<Segment>,
    file: Arc<dyn File>,
}

impl Syncer {
    fn tail(&self) -> &LiveTail {
        self.segment.tail().expect("a segment with a writer is live")
    }

    /// Makes durable everything that a [`SegmentWriter::write_out`] before this call handed to the
    /// operating system. After a failure every later call returns the same error (I8).
    pub fn sync(&self) -> Result<()> {
        self.tail().sync(&*self.file, self.segment.path())
    }

    /// Starts the writeback that is due, which takes as long as the device takes the bytes.
    pub fn write_back(&self) {
        self.tail().write_back(&*self.file);
    }
}

/// The reason why the encoding of a frame stopped.
enum Pause {
    Done,
    BufferFull,
    /// The prefix of this record is in the buffer; its value is to be written behind it.
    DirectValue(usize),
}

/// The progress of a frame that is partly in the buffer.
struct Encoding<'a> {
    records: &'a [RecordInput<'a>],
    first_seqno: SeqNo,
    next: usize,
    offset: u64,
}

/// The only writer of a segment. Dropping it discards buffered bytes that were not written out.
pub struct SegmentWriter {
    syncer: Syncer,
    settings: WriterSettings,
    seal: RecordSeal,
    /// The offset where the last whole frame ends, buffered or not.
    end: u64,
    /// The value of `end` at the last successful `write_out`.
    good: u64,
    /// The offset up to which writeback was requested.
    writeback_requested: u64,
    /// True if writeback was requested and nobody was told yet.
    is_writeback_due: bool,
    /// The offset up to which the file was prepared for appends.
    prepared: u64,
    refusal: Option<Error>,
}

impl SegmentWriter {
    /// Begins `segment` in the empty `file` by writing its head. Requires: the segment was created
    /// with [`Segment::for_writing`], and its existence is durable in the manifest.
    pub fn activate(
        file: Arc<dyn File>,
        segment: Arc<Segment>,
        head: &SegmentHead,
        settings: WriterSettings,
    ) -> Result<SegmentWriter> {
        assert!(segment.tail().is_some(), "the segment was not made for writing");
        assert_eq!(segment.identity(), head.identity(), "the head of another segment");
        let seal = segment.seal().clone();
        assert_eq!(seal.is_encrypted(), head.is_encrypted, "the head says how records are sealed");
        // A crash here leaves an empty file, a head without frames, or a head that was never
        // synced; nothing was acknowledged yet.
        file.write_at(&head.encode(), 0).doing("write the segment's head", segment.path())?;
        let start = HEAD_BYTES as u64;
        Ok(SegmentWriter {
            syncer: Syncer { segment, file },
            settings,
            seal,
            end: start,
            good: start,
            writeback_requested: 0,
            is_writeback_due: false,
            prepared: 0,
            refusal: None,
        })
    }

    /// Returns the handle that readers use.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.syncer.segment
    }

    /// Returns a handle that syncs without this writer, so that appending can go on meanwhile.
    pub fn syncer(&self) -> Syncer {
        self.syncer.clone()
    }

    /// Returns the length of the segment in bytes, including buffered bytes.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Returns the length up to which frames count if nothing more is written: the length after the
    /// last successful [`SegmentWriter::write_out`].
    pub fn good_len(&self) -> u64 {
        self.good
    }

    /// Returns how many bytes are known to be synced.
    pub fn durable(&self) -> u64 {
        self.syncer.tail().durable()
    }

    /// Returns true once a write or sync has failed; no more frames are taken then.
    pub fn is_failed(&self) -> bool {
        self.refusal.is_some()
    }

    /// Appends one frame to a log segment: `records`, numbered from `first_seqno` on. Pushes one
    /// pointer for each record. After an error the frame does not exist.
    pub fn append(
        &mut self,
        first_seqno: SeqNo,
        records: &[RecordInput<'_>],
        pointers: &mut Vec<ValuePointer>,
    ) -> Result<()> {
        assert_eq!(self.segment().kind(), SegmentKind::Log);
        assert!(!records.is_empty(), "a frame holds at least one record");
        if let Some(error) = self.refusal.clone().or_else(|| self.syncer.tail().sync_failure()) {
            return Err(self.refuse(error));
        }
        let header = FrameHeader {
            body_bytes: body_bytes(first_seqno, records, &self.seal)?,
            count: u32::try_from(records.len()).expect("each record takes bytes of the body"),
            durable: u32::try_from(self.durable()).unwrap_or(u32::MAX),
            first_seqno,
        };
        let known = pointers.len();
        let written = self.append_frame(&header, records, pointers);
        if let Err(error) = written {
            pointers.truncate(known);
            self.syncer.tail().truncate(self.end);
            return Err(self.refuse(error));
        }
        debug_assert_eq!(pointers.len() - known, records.len(), "each record has a pointer");
        self.end += FRAME_HEADER_BYTES as u64 + u64::from(header.body_bytes);
        Ok(())
    }

    fn append_frame(
        &mut self,
        header: &FrameHeader,
        records: &[RecordInput<'_>],
        pointers: &mut Vec<ValuePointer>,
    ) -> Result<()> {
        let frame = header.encode(self.seal.epoch(), self.end);
        let offset = self.end + FRAME_HEADER_BYTES as u64;
        let mut encoding = Encoding { records, first_seqno: header.first_seqno, next: 0, offset };
        let (mut pause, mut prefix): (Pause, &[u8]) = (Pause::BufferFull, &frame);
        while !matches!(pause, Pause::Done) {
            pause = self.syncer.tail().append(|out| {
                out.extend_from_slice(std::mem::take(&mut prefix));
                self.encode_some(&mut encoding, out, pointers)
            });
            match pause {
                Pause::Done => {}
                Pause::BufferFull => self.flush()?,
                Pause::DirectValue(index) => self.write_value(records[index].value)?,
            }
        }
        debug_assert_eq!(encoding.next, records.len(), "the frame has all its records");
        debug_assert_eq!(
            encoding.offset - offset,
            u64::from(header.body_bytes),
            "the frame is as long as its header says"
        );
        Ok(())
    }

    /// Encodes records into `out` until the buffer is full or a value is to be written directly.
    fn encode_some(
        &self,
        encoding: &mut Encoding<'_>,
        out: &mut Vec<u8>,
        pointers: &mut Vec<ValuePointer>,
    ) -> Pause {
        while let Some(record) = encoding.records.get(encoding.next) {
            if out.len() >= self.settings.buffer_bytes {
                return Pause::BufferFull;
            }
            let (index, offset) = (encoding.next, encoding.offset);
            let seqno = encoding.first_seqno + index as u64;
            let is_large = record.value.len() >= DIRECT_VALUE_BYTES;
            let direct = is_large && !self.seal.is_encrypted();
            let start = out.len();
            if direct {
                record.encode_prefix(out, &self.seal, offset, seqno);
            } else {
                record.encode(out, &self.seal, offset, seqno);
            }
            let beside = if direct { record.value.len() } else { 0 };
            let length = (out.len() - start + beside) as u32;
            pointers.push(ValuePointer { segment: self.syncer.segment.id(), offset, length });
            encoding.next += 1;
            encoding.offset += u64::from(length);
            if direct {
                return Pause::DirectValue(index);
            }
        }
        Pause::Done
    }

    /// Writes the buffered bytes to the file, whether or not they end with a whole frame.
    fn flush(&mut self) -> Result<()> {
        self.prepare_appends();
        let Syncer { segment, file } = &self.syncer;
        let flushed = self.syncer.tail().flush(|bytes, offset| file.write_at(bytes, offset));
        flushed.doing("write the segment", segment.path())?;
        self.request_writeback();
        Ok(())
    }

    /// Reserves space behind the written part. A process that ends here leaves zeroes behind the
    /// last frame; replay recognizes them as unwritten.
    fn prepare_appends(&mut self) {
        let Syncer { segment: _, file } = &self.syncer;
        let tail = self.syncer.tail();
        let step = self.settings.prepare_bytes;
        if step > 0 && tail.appended() > self.prepared.max(tail.written()) {
            let from = tail.written();
            let len =
                step.max(from.min(self.settings.most_prepared_bytes)).max(tail.appended() - from);
            file.prepare_appends(from, len);
            self.prepared = from + len;
        }
    }

    fn write_value(&mut self, value: &[u8]) -> Result<()> {
        self.flush()?;
        let Syncer { segment, file } = &self.syncer;
        let tail = self.syncer.tail();
        file.write_at(value, tail.written()).doing("write the segment", segment.path())?;
        tail.wrote_directly(value.len() as u64);
        self.request_writeback();
        Ok(())
    }

    fn request_writeback(&mut self) {
        let written = self.syncer.tail().written();
        if written - self.writeback_requested >= self.settings.writeback_bytes {
            self.syncer.tail().request_writeback(written);
            self.writeback_requested = written;
            self.is_writeback_due = true;
        }
    }

    /// Returns true if somebody should call [`Syncer::write_back`], once for each time it is due.
    pub fn take_writeback_due(&mut self) -> bool {
        std::mem::take(&mut self.is_writeback_due)
    }

    fn refuse(&mut self, error: Error) -> Error {
        self.refusal.get_or_insert(error).clone()
    }

    /// Hands everything appended to the operating system, so that it survives the end of this
    /// process. May be called again after a failed write (see the top of this file).
    pub fn write_out(&mut self) -> Result<()> {
        if let Some(error) = self.syncer.tail().sync_failure() {
            return Err(self.refuse(error));
        }
        if let Err(error) = self.flush() {
            self.refuse(error.clone());
            return Err(error);
        }
        debug_assert!(self.good <= self.end, "whole frames are cut");
        debug_assert!(self.syncer.tail().written() >= self.end, "the buffer is written out");
        self.good = self.end;
        self.syncer.tail().set_whole(self.good);
        Ok(())
    }

    /// Records that all appended frames are commits that readers see, so that a [`FrameReader`]
    /// finds them too.
    ///
    /// [`FrameReader`]: super::FrameReader
    pub fn note_committed(&self) {
        self.syncer.tail().set_committed(self.end);
    }

    /// Discards, after a failed write, the frames at and behind offset `len`, a former
    /// [`SegmentWriter::len`], so that a repeated [`SegmentWriter::write_out`] saves only the
    /// frames before it.
    pub fn cut(&mut self, len: u64) {
        assert!(self.is_failed(), "frames are taken back only after a failure");
        assert!((self.good..=self.end).contains(&len), "{len} is not among the frames to be cut");
        self.syncer.tail().truncate(len);
        self.end = len;
    }

    /// Seals the segment: writes out the frames that count, takes no more frames, and returns the
    /// final length. For a failed writer that is [`SegmentWriter::good_len`]; its buffered bytes
    /// stay readable as long as the segment is held. The next [`Syncer::sync`] makes all of it
    /// durable, and drops the space that was prepared and not needed.
    pub fn seal(&mut self) -> Result<u64> {
        let failed = self.good != self.end && self.is_failed();
        if !failed {
            self.write_out()?;
        }
        if self.is_failed() {
            // I9: most often the disk is full, and what goes on in the next segment needs room.
            // Nothing behind the final length counts, so a failure does no harm.
            let _ = self.syncer.file.set_len(self.good);
        } else {
            self.syncer.tail().request_cut(self.good);
        }
        if !failed {
            self.syncer.tail().release();
        }
        self.refuse(Error::internal("the segment is sealed"));
        Ok(self.good)
    }
}
