//! Walks the frames of a segment from front to back: recovery replays the log with it; checks and
//! the inspector read whole segments.
//!
//! The file is read in large pieces, and at most one piece and one frame are held in memory.
//! Upholds I1 (a frame is handed out whole and verified, or not at all) and I2 (corruption is
//! distinguished from a torn tail; the rule is at the top of `format.rs`). No locks.

use super::format::{HEAD_BYTES, SegmentHead, SegmentKind};
use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use super::reader::RESTORE;
use super::record::{RecordSeal, RecordView, front_bytes};
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::env::fs::{AccessPattern, File};
use std::path::Path;

/// The size of one read in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// A buffer that grew beyond this many bytes for a large frame is shrunk after it.
const KEPT_BYTES: usize = 16 << 20;

/// The caller's knowledge of the end of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanMode {
    /// The segment has exactly this many bytes; anything behind them is ignored.
    Sealed(u64),
    /// The segment was sealed with this many bytes, but it may not have been synced before a crash:
    /// the first frame that is not there as a whole ends the scan, unless a later one says that it
    /// was synced. What lies behind the length is ignored.
    Unsynced(u64),
    /// This is the last segment of the log, and its final length was not recorded.
    Tail,
    /// Another process may be writing to the segment: the first frame that is not there as a whole
    /// ends the scan, whatever lies behind it, since it may be on its way.
    Live,
}

/// The position where a scan begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanStart {
    /// Offset of the first frame to read.
    pub offset: u64,
    /// The first sequence number of that frame, if known. Ignored for a sorted segment.
    pub seqno: Option<SeqNo>,
}

impl ScanStart {
    /// Returns the start at the first frame of a segment.
    pub fn first(head: &SegmentHead) -> ScanStart {
        ScanStart { offset: HEAD_BYTES as u64, seqno: Some(head.first_seqno) }
    }
}

/// A frame that was verified as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The offset where the frame begins.
    pub offset: u64,
    /// The offset where the next frame begins.
    pub end: u64,
    /// The frame's header.
    pub header: FrameHeader,
    /// The frame's records, in order.
    pub records: Vec<RecordView<'a>>,
}

/// The kind of bytes behind the last valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanTail {
    /// Nothing, or only zeroes: bytes that were prepared for appends.
    Clean,
    /// A write that did not reach the disk whole: these bytes are not part of the log.
    Torn {
        /// The offset where they begin.
        offset: u64,
        /// The number of these bytes.
        bytes: u64,
    },
}

/// The result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanEnd {
    /// The offset where the last frame ends.
    pub end_offset: u64,
    /// The sequence number that follows the last record; `None` if no frame was read and none was
    /// expected, or if the segment is sorted.
    pub next_seqno: Option<SeqNo>,
    /// True if bytes are left over behind the last frame.
    pub tail: ScanTail,
}

/// Reads the head of segment `id`. Returns `None` if the segment was never activated: the file is
/// empty, or holds only zeroes where the head would be.
pub fn read_head(
    file: &dyn File,
    path: &Path,
    database: u64,
    id: SegmentId,
) -> Result<Option<SegmentHead>> {
    let mut bytes = [0; HEAD_BYTES];
    let read = file.read_at(&mut bytes, 0).doing("read the segment's head", path)?;
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let head = bytes.get(..read).unwrap_or_default();
    SegmentHead::decode(head, database, id).map(Some).map_err(|error| place(error, path, 0))
}

/// Calls `each` with every frame of `file` from `start` on, in order. `head` was read from `file`,
/// and `seal` is that of its records.
///
/// An error of `each` ends the scan and is returned unchanged.
pub fn scan(
    file: &dyn File,
    path: &Path,
    head: &SegmentHead,
    seal: &RecordSeal,
    mode: ScanMode,
    start: ScanStart,
    each: &mut dyn FnMut(&Frame<'_>) -> Result<()>,
) -> Result<ScanEnd> {
    file.advise(AccessPattern::Sequential);
    let present = file.len().doing("read the length of", path)?;
    let limit = match mode {
        ScanMode::Sealed(len) => len,
        // A length may be lost with the bytes.
        ScanMode::Unsynced(len) => len.min(present),
        ScanMode::Tail | ScanMode::Live => present,
    };
    if limit > present || start.offset > limit || start.offset < HEAD_BYTES as u64 {
        let from = start.offset;
        let what = format!(
            "the segment has {present} bytes where frames from byte {from} to {limit} are expected"
        );
        return Err(place(Error::corruption(what), path, present.min(from)));
    }
    check_sealed(head, seal).map_err(|error| place(error, path, 0))?;
    let is_log = head.kind == SegmentKind::Log;
    let mut next_seqno = start.seqno.filter(|_| is_log);
    let mut window = ScanBuffer::new(ScannedFile { file, path }, seal.clone(), limit);
    let mut offset = start.offset;
    while offset < limit {
        let reason = match window.frame(head, offset)? {
            Ok(frame) => {
                let first = frame.header.first_seqno;
                if let Some(expected) = next_seqno.filter(|&expected| expected != first) {
                    let what = format!("a frame begins with {first}, where {expected} comes next");
                    return Err(place(Error::corruption(what), path, offset));
                }
                each(&frame)?;
                next_seqno = is_log.then(|| first + frame.records.len() as u64);
                offset = frame.end;
                continue;
            }
            Err(reason) => place(reason, path, offset),
        };
        // I11: a record that this build cannot read must not be taken for torn.
        if matches!(mode, ScanMode::Sealed(_)) || reason.kind() != ErrorKind::Corruption {
            return Err(reason);
        }
        if mode == ScanMode::Live {
            return Ok(ScanEnd { end_offset: offset, next_seqno, tail: ScanTail::Clean });
        }
        return match window.evidence_of_sync(head, offset, next_seqno)? {
            Some(witness) => Err(rotten(path, offset, witness)),
            None => {
                let tail = match written_bytes(file, path, offset, limit)? {
                    0 => ScanTail::Clean,
                    bytes => ScanTail::Torn { offset, bytes },
                };
                Ok(ScanEnd { end_offset: offset, next_seqno, tail })
            }
        };
    }
    Ok(ScanEnd { end_offset: offset, next_seqno, tail: ScanTail::Clean })
}

/// Returns the offset of a frame that was made when a part of its segment had been synced, or
/// `None` if there is no such frame. Syncs of the log begin with the oldest segment, so all
/// segments before this one were synced, too (I2).
pub fn evidence_of_any_sync(
    file: &dyn File,
    path: &Path,
    head: &SegmentHead,
    seal: &RecordSeal,
) -> Result<Option<u64>> {
    let limit = file.len().doing("read the length of", path)?;
    let mut window = ScanBuffer::new(ScannedFile { file, path }, seal.clone(), limit);
    window.evidence_of_sync(head, 0, Some(head.first_seqno))
}

/// Refuses a segment that is encrypted in a database that is not, or the other way round: a forger
/// could replace an encrypted segment with another.
pub(super) fn check_sealed(head: &SegmentHead, seal: &RecordSeal) -> Result<()> {
    match (head.is_encrypted, seal.is_encrypted()) {
        (true, false) => Err(Error::corruption(
            "the segment is encrypted, and its database is not, or its keys were not given",
        )),
        (false, true) => {
            Err(Error::corruption("the segment is not encrypted, and its database is"))
        }
        _ => Ok(()),
    }
}

/// Returns how many bytes from `from` on lie before the trailing zeroes of the file, which were
/// prepared for appends and never written.
pub fn written_bytes(file: &dyn File, path: &Path, from: u64, end: u64) -> Result<u64> {
    let mut end = end;
    let mut piece = vec![0; PIECE_BYTES];
    while end > from {
        let len = PIECE_BYTES.min(usize::try_from(end - from).unwrap_or(PIECE_BYTES));
        let bytes = &mut piece[..len];
        file.read_exact_at(bytes, end - len as u64).doing("read the end of the log", path)?;
        if let Some(last) = bytes.iter().rposition(|&byte| byte != 0) {
            return Ok(end - from - (len - last - 1) as u64);
        }
        end -= len as u64;
    }
    Ok(0)
}

pub(super) fn place(error: Error, path: &Path, offset: u64) -> Error {
    let error = error.in_file(path).at(offset);
    if error.kind() == ErrorKind::Corruption { error.advise(RESTORE) } else { error }
}

fn rotten(path: &Path, offset: u64, witness: u64) -> Error {
    let what = format!(
        "a frame of the log is damaged, though it was synced: the frame at byte {witness} says so"
    );
    place(Error::corruption(what), path, offset)
}

/// Where the bytes of a scan come from.
pub(super) trait ScanSource {
    /// Fills `room` with the bytes at `offset`.
    fn read_exact(&self, room: &mut [u8], offset: u64) -> Result<()>;

    /// Returns the path of the file, for errors.
    fn path(&self) -> &Path;
}

/// A file that nobody writes to.
struct ScannedFile<'f> {
    file: &'f dyn File,
    path: &'f Path,
}

impl ScanSource for ScannedFile<'_> {
    fn read_exact(&self, room: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(room, offset).doing("read the segment", self.path)
    }

    fn path(&self) -> &Path {
        self.path
    }
}

/// A part of a file in memory, moved forward along the file.
pub(super) struct ScanBuffer<S> {
    source: S,
    seal: RecordSeal,
    /// The records of the frame that was decrypted last.
    opened: Vec<u8>,
    /// The offset where the file ends as far as the scan is concerned.
    limit: u64,
    /// The file offset of the first byte of `buffer`.
    start: u64,
    buffer: Vec<u8>,
    filled: usize,
}

impl<S: ScanSource> ScanBuffer<S> {
    pub(super) fn new(source: S, seal: RecordSeal, limit: u64) -> Self {
        let (opened, buffer) = (Vec::new(), Vec::new());
        ScanBuffer { source, seal, opened, limit, start: 0, buffer, filled: 0 }
    }

    /// Moves the limit. What lies before it must not change any more.
    pub(super) fn set_limit(&mut self, limit: u64) {
        debug_assert!(limit >= self.limit, "what was read stays");
        self.limit = limit;
    }

    /// Returns the source.
    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// Returns the `len` bytes at `offset`, which must lie before the limit.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        assert!(len as u64 <= self.limit - offset, "a read over the limit");
        let end = offset + len as u64;
        if offset < self.start || end > self.start + self.filled as u64 {
            self.move_to(offset, len)?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.buffer[from..from + len])
    }

    /// Frees the buffer if a long frame made it long.
    pub(super) fn let_go(&mut self) {
        if self.buffer.len() > KEPT_BYTES {
            (self.buffer, self.filled) = (Vec::new(), 0);
        }
        if self.opened.capacity() > KEPT_BYTES {
            self.opened = Vec::new();
        }
    }

    /// Moves the start to `offset` and reads at least `len` bytes, or a whole piece if the file has
    /// it.
    fn move_to(&mut self, offset: u64, len: usize) -> Result<()> {
        let skipped = offset.checked_sub(self.start).map_or(self.filled, |skipped| {
            usize::try_from(skipped).unwrap_or(usize::MAX).min(self.filled)
        });
        self.buffer.copy_within(skipped..self.filled, 0);
        self.filled -= skipped;
        self.start = offset;
        let left = usize::try_from(self.limit - offset).unwrap_or(usize::MAX);
        let wanted = len.max(PIECE_BYTES.max(self.filled)).min(left);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        } else if self.buffer.len() > wanted.max(KEPT_BYTES) {
            self.buffer.truncate(wanted);
            self.buffer.shrink_to_fit();
        }
        let room = &mut self.buffer[self.filled..wanted];
        let from = offset + self.filled as u64;
        self.source.read_exact(room, from)?;
        self.filled = wanted;
        Ok(())
    }

    /// Returns the header of the frame at `offset`, or as the inner error why there is none.
    pub(super) fn header(
        &mut self,
        head: &SegmentHead,
        offset: u64,
    ) -> Result<Result<FrameHeader>> {
        let left = self.limit - offset;
        let Some(left) = left.checked_sub(FRAME_HEADER_BYTES as u64) else {
            return Ok(Err(Error::corruption("the file ends in a frame header")));
        };
        let bytes = self.bytes(offset, FRAME_HEADER_BYTES)?.first_chunk();
        let bytes = bytes.expect("as many bytes as were asked for");
        // I7: verify the checksum, then the bounds, and only then allocate memory for the body.
        Ok(FrameHeader::decode(bytes, head.epoch, offset, left))
    }

    /// Returns the frame at `offset`, or as the inner error why there is none.
    pub(super) fn frame(&mut self, head: &SegmentHead, offset: u64) -> Result<Result<Frame<'_>>> {
        let header = match self.header(head, offset)? {
            Ok(header) => header,
            Err(reason) => return Ok(Err(reason)),
        };
        let end = offset + FRAME_HEADER_BYTES as u64 + u64::from(header.body_bytes);
        let frame = |records| Frame { offset, end, header, records };
        if !self.seal.is_encrypted() {
            let body = self.bytes(offset, (end - offset) as usize)?;
            let body = body.get(FRAME_HEADER_BYTES..).unwrap_or_default();
            return Ok(records(head, offset, &header, body).map(frame));
        }
        let mut opened = std::mem::take(&mut self.opened);
        opened.clear();
        opened.extend_from_slice(self.bytes(offset, (end - offset) as usize)?);
        self.opened = opened;
        let body = self.opened.get_mut(FRAME_HEADER_BYTES..).unwrap_or_default();
        match open_records(head, &self.seal, offset, &header, body) {
            Ok(records) => Ok(Ok(frame(records))),
            Err(FrameError::NoFrame(error)) => Ok(Err(error)),
            Err(FrameError::Forged(error)) => Err(place(error, self.source.path(), offset)),
        }
    }

    /// Searches behind the bad frame at `bad` for a valid frame that was made when `bad` was
    /// already synced (I2); returns the offset of that frame.
    fn evidence_of_sync(
        &mut self,
        head: &SegmentHead,
        bad: u64,
        next_seqno: Option<SeqNo>,
    ) -> Result<Option<u64>> {
        let least_seqno = next_seqno.unwrap_or(0);
        // A header matches its checksum by accident once in 2^32 offsets, so only a hostile file
        // can make us verify many bodies.
        // I7: a sparse file can claim any length.
        let mut patience = (self.limit - bad).saturating_mul(8).saturating_add(PIECE_BYTES as u64);
        let mut at = bad + 1;
        while self.limit.saturating_sub(at) >= FRAME_HEADER_BYTES as u64 {
            let len = (PIECE_BYTES as u64).min(self.limit - at) as usize;
            let limit = self.limit;
            let piece = self.bytes(at, len)?;
            let is_candidate = |(index, bytes): (usize, &[u8])| {
                let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
                let header = FrameHeader::peek(bytes);
                let offset = at + index as u64;
                // The cheap tests come first, since almost no arbitrary bytes pass them.
                let vouches = u64::from(header.durable) > bad && header.first_seqno >= least_seqno;
                let left = limit - offset - FRAME_HEADER_BYTES as u64;
                let holds = vouches
                    && u64::from(header.durable) <= offset
                    && FrameHeader::decode(bytes, head.epoch, offset, left).is_ok();
                holds.then_some((offset, header.body_bytes))
            };
            let mut places = piece.windows(FRAME_HEADER_BYTES).enumerate();
            let Some((offset, body_bytes)) = places.find_map(is_candidate) else {
                at += (len - FRAME_HEADER_BYTES + 1) as u64;
                continue;
            };
            if self.frame(head, offset)?.is_ok() {
                return Ok(Some(offset));
            }
            patience = patience.checked_sub(body_bytes.into()).ok_or_else(|| {
                let what = "the end of the log is too strange to be a torn write";
                place(Error::corruption(what), self.source.path(), bad)
            })?;
            at = offset + 1;
        }
        Ok(None)
    }
}

/// The reason why there is no frame at an offset of an encrypted segment.
enum FrameError {
    /// Damage, or a torn write.
    NoFrame(Error),
    /// The checksums hold and a tag does not. No crash leaves that, so it is never taken for torn.
    Forged(Error),
}

impl From<Error> for FrameError {
    fn from(error: Error) -> Self {
        FrameError::NoFrame(error)
    }
}

/// Verifies the records of a frame at `offset`, decrypts them in place, and decodes them.
fn open_records<'a>(
    head: &SegmentHead,
    seal: &RecordSeal,
    offset: u64,
    header: &FrameHeader,
    body: &'a mut [u8],
) -> Result<Vec<RecordView<'a>>, FrameError> {
    let start = offset + FRAME_HEADER_BYTES as u64;
    let (mut at, mut lengths) = (0, Vec::with_capacity(header.count as usize));
    // I1: all checksums are verified before anything is decrypted, so that a torn frame is not
    // taken for a forged one.
    for _ in 0..header.count {
        let (place, rest) = (start + at as u64, body.get(at..).unwrap_or_default());
        let length = front_bytes(rest, seal).map_err(|error| error.at(place))?;
        let record = rest.get(..length).unwrap_or_default();
        seal.verify(record, place).map_err(|error| error.at(place))?;
        lengths.push(length);
        at += length;
    }
    if at != body.len() {
        return Err(Error::corruption("a frame has bytes behind its last record").into());
    }
    let (mut rest, mut place) = (body, start);
    let mut records = Vec::with_capacity(lengths.len());
    for (length, number) in lengths.into_iter().zip(0..) {
        let (record, behind) = rest.split_at_mut(length);
        seal.decrypt(record, place).map_err(|error| match error.kind() {
            ErrorKind::Corruption => FrameError::Forged(error.at(place)),
            _ => FrameError::NoFrame(error.at(place)),
        })?;
        let record = RecordView::opened(record, seal, place).map_err(|error| error.at(place))?;
        check_number(head, header, number, &record)?;
        records.push(record);
        (rest, place) = (behind, place + length as u64);
    }
    Ok(records)
}

/// Checks that record `number` of a frame of the log has the sequence number that comes next.
fn check_number(
    head: &SegmentHead,
    header: &FrameHeader,
    number: u32,
    record: &RecordView<'_>,
) -> Result<()> {
    let expected = header.first_seqno + u64::from(number);
    if head.kind != SegmentKind::Log || record.seqno == expected {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "a record has sequence number {}, where {expected} comes next",
        record.seqno
    ))
    .at(record.offset))
}

/// Decodes and verifies the records of a frame at `offset`.
fn records<'a>(
    head: &SegmentHead,
    offset: u64,
    header: &FrameHeader,
    body: &'a [u8],
) -> Result<Vec<RecordView<'a>>> {
    // The header was found plausible, so this many records do fit the body.
    let mut records = Vec::with_capacity(header.count as usize);
    let mut rest = body;
    for number in 0..header.count {
        let at = offset + FRAME_HEADER_BYTES as u64 + (body.len() - rest.len()) as u64;
        let (record, behind) =
            RecordView::decode_front(rest, head.epoch, at).map_err(|error| error.at(at))?;
        check_number(head, header, number, &record)?;
        records.push(record);
        rest = behind;
    }
    if rest.is_empty() {
        return Ok(records);
    }
    Err(Error::corruption("a frame has bytes behind its last record"))
}
