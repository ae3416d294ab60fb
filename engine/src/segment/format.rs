//! The bytes of a segment: head, frames, records. Encoding and decoding, nothing else.
//!
//! ```text
//! file    = head | frame*            all integers little-endian; "varint" is LEB128, minimal
//!
//! head, written once when the segment is activated (before, the file may exist empty)
//!   offset  bytes  what
//!        0     40  file header (base::header): kind "SEGM", database, segment id
//!       40      1  kind: 1 log, 2 sorted
//!       41      7  zero
//!       48      8  epoch: random; seeds every checksum below and in the rest of the file
//!       56      8  sequence number of the first record; 0 in a sorted segment
//!       64      8  id of the log segment before this one, 0 = none
//!       72      8  final length of that one: what it holds beyond was never acknowledged
//!       80      8  checksum64 of bytes 40..80, seeded by the epoch
//!
//! frame, one per commit; its header:
//!        0      4  checksum32 of bytes 4..24, seeded by (epoch, offset of the frame)
//!        4      4  length of the body in bytes, > 0
//!        8      4  number of records, > 0
//!       12      4  durable: how many bytes of this file were known to be synced when the frame
//!                  was made; u32::MAX stands for that and more
//!       16      8  sequence number of the first record (56 bits); 0 in a sorted segment
//!       24      …  body: the records, back to back, filling it exactly
//!
//! record
//!        0      4  checksum32 of all bytes behind it, seeded by (epoch, offset of the record)
//!        4      1  low nibble: 0 delete, 1 put; high nibble: codec of the stored value
//!        5 varint  keyspace
//!          varint  sequence number
//!          varint  length of the key, at most 64 KiB
//!          varint  length of the stored value, at most 1 GiB; 0 for a delete
//!          varint  length of the raw value, at most 1 GiB; absent if the codec is none
//!               …  key
//!               …  stored value
//! ```
//!
//! A put is stored the same whether the tree will keep its value inline or point to it.
//!
//! **Validity.** A frame is valid if its header's checksum holds, its body lies within the file,
//! and exactly the promised number of records fills the body, each with a good checksum and, in
//! a log segment, with consecutive sequence numbers that begin with the header's. No checksum is
//! ever zero, so zeroes never validate; the seeds hold the epoch and the offset, so neither the
//! bytes of another file nor bytes moved within a file do.
//!
//! **Readers.** *By pointer*: the record's `length` bytes at `offset`; the checksum is verified
//! over all of them, then the fields must fill them exactly and name the right keyspace, key and
//! sequence number. *By scan* of a segment whose final length is known (the head of the next one
//! or the manifest says it): frames must be valid and end exactly there; anything else is
//! corruption. *By scan of the tail*, the last log segment after a crash: at the first bad frame,
//! at offset X, either X was reached by a sync (rot), or it was not (a torn write, after which
//! any part of the unsynced rest may be there, whole later frames included). Whether it was is
//! told by the frames that follow: if the rest of the file, searched byte by byte, holds a valid
//! frame whose `durable` lies behind X, then X was on stable storage before that frame was even
//! made, and this is corruption. Else the tail from X on is torn and to be ignored. What this
//! cannot tell is rot in the last synced frames of a crashed log that no later frame vouches
//! for; after a clean close the manifest knows the length, and that reads as "by scan".

use crate::base::checksum::{checksum32, checksum32_of_two, checksum64, seed};
use crate::base::coding::{Reader, put_varint, varint_len};
use crate::base::compression::{Codec, decompress};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::key::{MAX_KEY_BYTES, MAX_SEQNO, MAX_VALUE_BYTES, SeqNo};
use crate::base::pointer::{KeyspaceId, SegmentId};

/// The bytes that a [`SegmentHead`] takes; the first frame begins here.
pub const HEAD_BYTES: usize = HEADER_BYTES + 48;

/// The bytes of a frame before its body.
pub const FRAME_HEADER_BYTES: usize = 24;

/// No record is shorter: checksum, kind, keyspace, sequence number and two lengths.
pub const MIN_RECORD_BYTES: usize = 9;

/// No record is longer.
pub const MAX_RECORD_BYTES: usize = 64 + MAX_KEY_BYTES + MAX_VALUE_BYTES;

const CHECKSUM_BYTES: usize = 4;

/// In which order a segment's records are. The numbers are persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// In the order of commits: a part of the log.
    Log = 1,
    /// In key order: written by a flush or by value GC.
    Sorted = 2,
}

/// The first bytes of an activated segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHead {
    /// The database it belongs to.
    pub database: u64,
    /// Its id, the same as in its name.
    pub id: SegmentId,
    /// The order of its records.
    pub kind: SegmentKind,
    /// A random number that seeds every checksum of the file.
    pub epoch: u64,
    /// The sequence number of the first record; 0 in a sorted segment.
    pub first_seqno: SeqNo,
    /// The log segment before this one.
    pub previous: Option<SegmentId>,
    /// The final length of that one; 0 if there is none.
    pub previous_bytes: u64,
}

/// What the manifest knows of a segment, and what its head must say too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentIdentity {
    /// The database it belongs to.
    pub database: u64,
    /// Its id, the same as in its name.
    pub id: SegmentId,
    /// The order of its records.
    pub kind: SegmentKind,
    /// The seed of its checksums.
    pub epoch: u64,
}

impl SegmentHead {
    /// The part of it that the manifest knows.
    pub fn identity(&self) -> SegmentIdentity {
        let SegmentHead { database, id, kind, epoch, .. } = *self;
        SegmentIdentity { database, id, kind, epoch }
    }

    /// The bytes to write.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let previous = self.previous.map_or(0, |id| id.0);
        assert_eq!(previous == 0, self.previous.is_none(), "segment 0 does not exist");
        let mut out = [0; HEAD_BYTES];
        let header = Header::new(FileKind::Segment, self.database, self.id.0).encode();
        out[..HEADER_BYTES].copy_from_slice(&header);
        out[40] = self.kind as u8;
        out[48..56].copy_from_slice(&self.epoch.to_le_bytes());
        out[56..64].copy_from_slice(&self.first_seqno.to_le_bytes());
        out[64..72].copy_from_slice(&previous.to_le_bytes());
        out[72..80].copy_from_slice(&self.previous_bytes.to_le_bytes());
        let sum = checksum64(self.epoch, &out[HEADER_BYTES..80]);
        out[80..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the head of segment `id` of `database`; any other is refused.
    pub fn decode(bytes: &[u8], database: u64, id: SegmentId) -> Result<SegmentHead> {
        Header::decode_expected(bytes, FileKind::Segment, database, id.0)?;
        let mut reader = Reader::new(bytes.get(HEADER_BYTES..).unwrap_or_default());
        let covered = reader.clone().take(40)?;
        let kind = reader.u8()?;
        let zeroes = reader.take(7)?;
        let epoch = reader.u64()?;
        let first_seqno = reader.u64()?;
        let previous = reader.u64()?;
        let previous_bytes = reader.u64()?;
        // I7: the epoch is needed for the checksum; nothing is used before it holds.
        if reader.u64()? != checksum64(epoch, covered) {
            return Err(Error::corruption("the segment head's checksum does not match"));
        }
        let kind = SegmentKind::from_number(kind.into())?;
        if first_seqno > MAX_SEQNO || zeroes.iter().any(|&byte| byte != 0) {
            return Err(Error::corruption("the segment head has impossible fields"));
        }
        let previous = (previous != 0).then_some(SegmentId(previous));
        Ok(SegmentHead { database, id, kind, epoch, first_seqno, previous, previous_bytes })
    }
}

impl SegmentKind {
    /// The kind with this persistent number.
    pub fn from_number(number: u64) -> Result<SegmentKind> {
        match number {
            1 => Ok(SegmentKind::Log),
            2 => Ok(SegmentKind::Sorted),
            other => Err(Error::corruption(format!("segment kind {other} does not exist"))),
        }
    }
}

/// What a record says about its key. The numbers are persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// The key has no value from here on.
    Delete = 0,
    /// The key has this value from here on.
    Put = 1,
}

/// A record to write.
#[derive(Debug, Clone, Copy)]
pub struct RecordInput<'a> {
    /// What it says.
    pub kind: RecordKind,
    /// The keyspace it belongs to.
    pub keyspace: KeyspaceId,
    /// How `value` is compressed.
    pub codec: Codec,
    /// The length of the value once decompressed.
    pub raw_len: u32,
    /// The user key.
    pub key: &'a [u8],
    /// The value as it is to be stored.
    pub value: &'a [u8],
}

impl<'a> RecordInput<'a> {
    /// A put of a value that is stored as it is.
    pub fn put(keyspace: KeyspaceId, key: &'a [u8], value: &'a [u8]) -> Self {
        let raw_len = value.len() as u32;
        RecordInput { kind: RecordKind::Put, keyspace, codec: Codec::None, raw_len, key, value }
    }

    /// A delete.
    pub fn delete(keyspace: KeyspaceId, key: &'a [u8]) -> Self {
        RecordInput { kind: RecordKind::Delete, ..Self::put(keyspace, key, b"") }
    }

    /// How many bytes the record takes under this sequence number.
    #[inline]
    pub fn record_bytes(&self, seqno: SeqNo) -> usize {
        self.prefix_bytes(seqno) + self.value.len()
    }

    /// The part of [`RecordInput::record_bytes`] that lies before the stored value.
    #[inline]
    fn prefix_bytes(&self, seqno: SeqNo) -> usize {
        let raw = if self.codec == Codec::None { 0 } else { varint_len(self.raw_len.into()) };
        CHECKSUM_BYTES
            + 1
            + varint_len(self.keyspace.0)
            + varint_len(seqno)
            + varint_len(self.key.len() as u64)
            + varint_len(self.value.len() as u64)
            + raw
            + self.key.len()
    }

    /// Asserts what the layers above have promised to check.
    fn assert_within_limits(&self) {
        assert!(self.key.len() <= MAX_KEY_BYTES, "a key over the limit");
        assert!(self.value.len().max(self.raw_len as usize) <= MAX_VALUE_BYTES, "value too long");
        assert!(self.codec != Codec::None || self.raw_len as usize == self.value.len());
        assert!(self.kind == RecordKind::Put || self.value.is_empty(), "a delete with a value");
    }

    /// Appends what lies before the stored value, with the checksum still open.
    #[inline]
    fn put_prefix(&self, out: &mut Vec<u8>, seqno: SeqNo) {
        self.assert_within_limits();
        out.extend_from_slice(&[0; CHECKSUM_BYTES]);
        out.push(self.kind as u8 | (self.codec as u8) << 4);
        put_varint(out, self.keyspace.0);
        put_varint(out, seqno);
        put_varint(out, self.key.len() as u64);
        put_varint(out, self.value.len() as u64);
        if self.codec != Codec::None {
            put_varint(out, self.raw_len.into());
        }
        out.extend_from_slice(self.key);
    }

    /// Appends the record, which will lie at `offset` of the segment.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>, epoch: u64, offset: u64, seqno: SeqNo) {
        let start = out.len();
        self.put_prefix(out, seqno);
        out.extend_from_slice(self.value);
        let (open, covered) = out[start..].split_at_mut(CHECKSUM_BYTES);
        open.copy_from_slice(&checksum32(seed(epoch, offset), covered).to_le_bytes());
    }

    /// Appends the record up to its stored value, which the caller writes behind it.
    pub fn encode_prefix(&self, out: &mut Vec<u8>, epoch: u64, offset: u64, seqno: SeqNo) {
        let start = out.len();
        self.put_prefix(out, seqno);
        let (open, covered) = out[start..].split_at_mut(CHECKSUM_BYTES);
        let sum = checksum32_of_two(seed(epoch, offset), covered, self.value);
        open.copy_from_slice(&sum.to_le_bytes());
    }
}

/// The length of the body of a frame of these records, numbered from `first_seqno` on; an error if
/// no frame can hold it.
pub fn body_bytes(first_seqno: SeqNo, records: &[RecordInput<'_>]) -> Result<u32> {
    let numbered = (first_seqno..).zip(records);
    let body: u64 = numbered.map(|(seqno, record)| record.record_bytes(seqno) as u64).sum();
    u32::try_from(body).map_err(|_| {
        Error::invalid(format!("a batch of {body} bytes does not fit a frame of 4 GiB"))
            .advise("split the batch")
    })
}

/// A verified record, borrowed from where it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// What it says.
    pub kind: RecordKind,
    /// The keyspace it belongs to.
    pub keyspace: KeyspaceId,
    /// Its place in the commit order.
    pub seqno: SeqNo,
    /// How `value` is compressed.
    pub codec: Codec,
    /// The length of the value once decompressed.
    pub raw_len: u32,
    /// The user key.
    pub key: &'a [u8],
    /// The value as it is stored.
    pub value: &'a [u8],
    /// Where the record lies in its segment.
    pub offset: u64,
    /// The length of the whole record.
    pub length: u32,
}

fn nibbles(byte: u8) -> Result<(RecordKind, Codec)> {
    let kind = match byte & 0xf {
        0 => RecordKind::Delete,
        1 => RecordKind::Put,
        other => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("record kind {other} is unknown to this build, which knows 0 and 1"),
            ));
        }
    };
    Ok((kind, Codec::from_number(byte >> 4)?))
}

impl<'a> RecordView<'a> {
    /// Reads the record that fills `bytes` exactly: what a pointer names.
    pub fn decode_exact(bytes: &'a [u8], epoch: u64, offset: u64) -> Result<Self> {
        // I7: the pointer gives the extent, so the checksum is verified before any field is read.
        verify(bytes, epoch, offset)?;
        let (view, rest) = Self::fields(bytes, offset)?;
        Reader::new(rest).finish("the record")?;
        Ok(view)
    }

    /// Reads the record at the front of `bytes`, and returns what lies behind it.
    pub fn decode_front(
        bytes: &'a [u8],
        epoch: u64,
        offset: u64,
    ) -> Result<(RecordView<'a>, &'a [u8])> {
        let len = front_bytes(bytes)?;
        let (record, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
        Ok((Self::decode_exact(record, epoch, offset)?, rest))
    }

    /// The value as the user wrote it.
    pub fn raw_value(&self) -> Result<Vec<u8>> {
        decompress(self.codec, self.value, self.raw_len as usize)
    }

    fn fields(bytes: &'a [u8], offset: u64) -> Result<(RecordView<'a>, &'a [u8])> {
        let mut reader = Reader::new(bytes);
        reader.take(CHECKSUM_BYTES)?;
        let (kind, codec) = nibbles(reader.u8()?)?;
        let keyspace = KeyspaceId(reader.varint()?);
        let seqno = reader.varint()?;
        let key_len = reader.length(MAX_KEY_BYTES)?;
        let stored_len = reader.length(MAX_VALUE_BYTES)?;
        let raw_len =
            if codec == Codec::None { stored_len } else { reader.length(MAX_VALUE_BYTES)? };
        if seqno > MAX_SEQNO || kind == RecordKind::Delete && raw_len.max(stored_len) > 0 {
            return Err(Error::corruption("a record has impossible fields"));
        }
        let (key, value) = (reader.take(key_len)?, reader.take(stored_len)?);
        let rest = reader.rest();
        let (raw_len, length) = (raw_len as u32, (bytes.len() - rest.len()) as u32);
        let view = RecordView { kind, keyspace, seqno, codec, raw_len, key, value, offset, length };
        Ok((view, rest))
    }
}

/// How long the record at the front of `bytes` says it is, bounded by the limits and by `bytes`.
fn front_bytes(bytes: &[u8]) -> Result<usize> {
    let mut reader = Reader::new(bytes);
    reader.take(CHECKSUM_BYTES)?;
    let compressed = reader.u8()? >> 4 != 0;
    reader.varint()?;
    reader.varint()?;
    let key_len = reader.length(MAX_KEY_BYTES)?;
    let stored_len = reader.length(MAX_VALUE_BYTES)?;
    if compressed {
        reader.varint()?;
    }
    reader.take(key_len + stored_len)?;
    Ok(bytes.len() - reader.rest().len())
}

fn verify(record: &[u8], epoch: u64, offset: u64) -> Result<()> {
    let (stored, covered) = record
        .split_first_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| Error::corruption("a record is shorter than its checksum"))?;
    if checksum32(seed(epoch, offset), covered) == u32::from_le_bytes(*stored) {
        return Ok(());
    }
    Err(Error::corruption("a record's checksum does not match"))
}

/// The fixed part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the body.
    pub body_bytes: u32,
    /// The number of records in it.
    pub count: u32,
    /// How many bytes of the segment were known to be synced when the frame was made.
    pub durable: u32,
    /// The sequence number of the first record; 0 in a sorted segment.
    pub first_seqno: SeqNo,
}

impl FrameHeader {
    /// The bytes of the header of a frame at `offset`.
    pub fn encode(&self, epoch: u64, offset: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        out[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[8..12].copy_from_slice(&self.count.to_le_bytes());
        out[12..16].copy_from_slice(&self.durable.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_seqno.to_le_bytes());
        let sum = checksum32(seed(epoch, offset), &out[4..]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the fields without believing them: they may be anything.
    pub fn peek(bytes: &[u8; FRAME_HEADER_BYTES]) -> FrameHeader {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let first_seqno = u64::from_le_bytes(std::array::from_fn(|i| bytes[16 + i]));
        FrameHeader { body_bytes: u32_at(4), count: u32_at(8), durable: u32_at(12), first_seqno }
    }

    /// Reads the header of a frame at `offset`, behind which `left` bytes of the file remain.
    pub fn decode(
        bytes: &[u8; FRAME_HEADER_BYTES],
        epoch: u64,
        offset: u64,
        left: u64,
    ) -> Result<FrameHeader> {
        let [a, b, c, d, covered @ ..] = bytes;
        if checksum32(seed(epoch, offset), covered) != u32::from_le_bytes([*a, *b, *c, *d]) {
            return Err(Error::corruption("a frame header's checksum does not match"));
        }
        let header = Self::peek(bytes);
        if !header.is_plausible(left) {
            return Err(Error::corruption("a frame header has impossible fields"));
        }
        Ok(header)
    }

    /// True if the fields can be those of a frame behind whose header `left` bytes remain.
    pub fn is_plausible(&self, left: u64) -> bool {
        let records_fit = u64::from(self.count) * MIN_RECORD_BYTES as u64 <= self.body_bytes.into();
        let last = self.first_seqno.saturating_add(u64::from(self.count).saturating_sub(1));
        self.count > 0 && records_fit && u64::from(self.body_bytes) <= left && last <= MAX_SEQNO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: SegmentHead = SegmentHead {
        database: 7,
        id: SegmentId(12),
        kind: SegmentKind::Log,
        epoch: 0xdead_beef,
        first_seqno: 100,
        previous: Some(SegmentId(11)),
        previous_bytes: 4096,
    };

    #[test]
    fn heads_round_trip_and_every_flip_is_noticed() {
        let bytes = HEAD.encode();
        assert_eq!(SegmentHead::decode(&bytes, 7, SegmentId(12)).unwrap(), HEAD);
        for bit in 0..HEAD_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHead::decode(&bad, 7, SegmentId(12)).is_err(), "bit {bit}");
        }
        for len in 0..HEAD_BYTES {
            assert!(SegmentHead::decode(&bytes[..len], 7, SegmentId(12)).is_err(), "{len}");
        }
        assert!(SegmentHead::decode(&bytes, 8, SegmentId(12)).is_err());
        assert!(SegmentHead::decode(&bytes, 7, SegmentId(13)).is_err());
    }

    #[test]
    fn records_know_their_size_and_place() {
        let key = vec![b'k'; MAX_KEY_BYTES];
        let mut compressed = RecordInput::put(KeyspaceId(300), b"key", b"squeezed");
        (compressed.codec, compressed.raw_len) = (Codec::Lz4, 1 << 20);
        for input in [
            RecordInput::put(KeyspaceId(0), b"", b""),
            RecordInput::put(KeyspaceId(1), &key, b"value"),
            RecordInput::delete(KeyspaceId(u64::MAX), b"gone"),
            compressed,
        ] {
            let mut out = b"before".to_vec();
            input.encode(&mut out, 5, 1000, MAX_SEQNO);
            let bytes = &out[6..];
            assert_eq!(bytes.len(), input.record_bytes(MAX_SEQNO));
            assert!(bytes.len() >= MIN_RECORD_BYTES);
            let view = RecordView::decode_exact(bytes, 5, 1000).unwrap();
            assert_eq!((view.kind, view.keyspace), (input.kind, input.keyspace));
            assert_eq!((view.codec, view.raw_len), (input.codec, input.raw_len));
            assert_eq!((view.key, view.value), (input.key, input.value));
            assert_eq!((view.seqno, view.offset), (MAX_SEQNO, 1000));
            assert_eq!(view.length as usize, bytes.len());
            assert!(RecordView::decode_exact(bytes, 5, 1001).is_err(), "another offset");
            assert!(RecordView::decode_exact(bytes, 6, 1000).is_err(), "another epoch");
            let mut prefix = Vec::new();
            input.encode_prefix(&mut prefix, 5, 1000, MAX_SEQNO);
            prefix.extend_from_slice(input.value);
            assert_eq!(prefix, bytes, "written in two pieces");
        }
    }

    #[test]
    fn i7_frame_headers_are_bounded() {
        let good = FrameHeader { body_bytes: 90, count: 10, durable: 88, first_seqno: 1 };
        let decode = |header: FrameHeader, left| {
            FrameHeader::decode(&header.encode(1, 88), 1, 88, left).map_err(|e| e.kind())
        };
        assert_eq!(decode(good, 90), Ok(good));
        assert_eq!(decode(good, 89), Err(ErrorKind::Corruption));
        for bad in [
            FrameHeader { count: 11, ..good },
            FrameHeader { count: 0, ..good },
            FrameHeader { first_seqno: MAX_SEQNO - 8, ..good },
            FrameHeader { first_seqno: u64::MAX, ..good },
        ] {
            assert_eq!(decode(bad, 90), Err(ErrorKind::Corruption), "{bad:?}");
        }
        assert!(FrameHeader::decode(&good.encode(1, 88), 1, 89, 90).is_err(), "moved");
        assert!(FrameHeader::decode(&[0; 24], 1, 88, 90).is_err(), "zeroes");
    }
}
