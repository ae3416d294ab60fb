//! Reads the frames of a log segment one by one, also while it is written: for the change feed.
//!
//! The file is read in the pieces of `scan.rs`; what is not in it yet comes from the write buffer.
//! Nothing behind the end that the caller names is looked at, so that frames of a commit that fails
//! are never taken for commits. No locks, but the leaf of `tail.rs` for what is buffered.

use super::format::{HEAD_BYTES, SegmentHead, SegmentKind};
use super::frame::FrameHeader;
use super::reader::Segment;
use super::scan::{Frame, ScanBuffer, ScanSource, place};
use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use std::path::Path;
use std::sync::Arc;

impl ScanSource for Arc<Segment> {
    fn read_exact(&self, room: &mut [u8], offset: u64) -> Result<()> {
        Segment::read_exact(self, room, offset)
    }

    fn path(&self) -> &Path {
        Segment::path(self)
    }
}

/// A reader of the frames of one log segment, in order.
pub struct FrameReader {
    head: SegmentHead,
    buffer: ScanBuffer<Arc<Segment>>,
    offset: u64,
}

impl FrameReader {
    /// Creates a reader at the first frame of `segment`, whose head is `head`.
    pub fn new(segment: Arc<Segment>, head: SegmentHead) -> FrameReader {
        assert_eq!(head.kind, SegmentKind::Log, "only the log is in the order of commits");
        let start = HEAD_BYTES as u64;
        let seal = segment.seal().clone();
        FrameReader { head, buffer: ScanBuffer::new(segment, seal, start), offset: start }
    }

    /// Returns the segment.
    pub fn segment(&self) -> &Arc<Segment> {
        self.buffer.source()
    }

    /// Returns the offset of the next frame.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Passes over the frames before offset `end` that have nothing behind `seqno`. Only their
    /// headers are verified.
    pub fn skip(&mut self, end: u64, seqno: SeqNo) -> Result<()> {
        while let Some(header) = self.peek(end)?
            && header.last_seqno() <= seqno
        {
            self.offset += header.frame_bytes();
        }
        Ok(())
    }

    /// Returns the next frame, verified as a whole (I1), if it ends at or before offset `end`,
    /// where a frame ends, and has no number greater than `last`. The reader stays where it is.
    pub fn next(&mut self, end: u64, last: SeqNo) -> Result<Option<Frame<'_>>> {
        if self.peek(end)?.is_none_or(|header| header.last_seqno() > last) {
            return Ok(None);
        }
        let offset = self.offset;
        let segment = self.buffer.source().clone();
        match self.buffer.frame(&self.head, offset)? {
            Ok(frame) => Ok(Some(frame)),
            Err(reason) => Err(place(reason, segment.path(), offset)),
        }
    }

    /// Goes on behind a frame that [`FrameReader::next`] has returned and that ends at offset
    /// `end`.
    pub fn pass(&mut self, end: u64) {
        debug_assert!(end > self.offset, "frames are passed one by one");
        self.offset = end;
        self.buffer.let_go();
    }

    /// Returns the first number of the next frame, if it ends at or before offset `end`. Only its
    /// header is verified.
    pub fn next_first(&mut self, end: u64) -> Result<Option<SeqNo>> {
        Ok(self.peek(end)?.map(|header| header.first_seqno))
    }

    /// Returns the header of the next frame.
    fn peek(&mut self, end: u64) -> Result<Option<FrameHeader>> {
        if self.offset >= end {
            return Ok(None);
        }
        self.buffer.set_limit(end);
        let header = self.buffer.header(&self.head, self.offset)?;
        let header =
            header.map_err(|reason| place(reason, self.buffer.source().path(), self.offset))?;
        // I7: the number is from a file.
        if header.first_seqno == 0 {
            let what = "a frame of the log has the number 0, which no commit has";
            return Err(place(Error::corruption(what), self.segment().path(), self.offset));
        }
        Ok(Some(header))
    }
}
