//! The encoding of a record: one put, merge or delete of a key, with its own checksum. The format
//! is at the top of `format.rs`.
//!
//! I7: the checksum is verified over all bytes of a record before a field is used, and every length
//! is bounded. A read by pointer takes the extent from the pointer; a read of a frame takes it from
//! the fields, bounded by the limits and by the frame, and then verifies the checksum.

use crate::base::bounds::Bounds;
use crate::base::checksum::{checksum32, checksum32_of_two, seed};
use crate::base::coding::{Reader, put_varint, varint_len};
use crate::base::compression::{Codec, decompress};
use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::header::FileKind;
use crate::base::key::{MAX_KEY_BYTES, MAX_SEQNO, MAX_VALUE_BYTES, SeqNo};
use crate::base::pointer::{KeyspaceId, SegmentId, TableId, ValuePointer};
use crate::base::seal::{DatabaseIdentity, FileCipher, TAG_BYTES};

/// The least length of a record in bytes.
pub const MIN_RECORD_BYTES: usize = ValuePointer::MIN_LENGTH as usize;

/// The greatest length of a record in bytes.
pub const MAX_RECORD_BYTES: usize = 96 + MAX_KEY_BYTES + MAX_VALUE_BYTES;

/// Compression of values of so many bytes saves more than the five bytes that their length takes.
const MIN_TELLING_BYTES: usize = 64;

/// The length of the checksum at the front of a record, in bytes.
const CHECKSUM_BYTES: usize = 4;

/// What binds the records of a segment to their places, and seals them if the database is
/// encrypted. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RecordSeal {
    epoch: u64,
    cipher: Option<FileCipher>,
}

impl From<u64> for RecordSeal {
    /// Returns the seal of the records of a segment with this epoch that is not encrypted.
    fn from(epoch: u64) -> Self {
        RecordSeal { epoch, cipher: None }
    }
}

impl RecordSeal {
    /// Returns the seal of the records of segment `id`.
    pub fn of(database: &DatabaseIdentity, id: SegmentId, epoch: u64) -> RecordSeal {
        // The epoch was drawn for this segment, so it is the salt too.
        let cipher = database.cipher(FileKind::Segment, id.0, &epoch.to_le_bytes());
        RecordSeal { epoch, cipher }
    }

    /// Returns the seed of the checksums.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns true if records are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// Returns how many bytes longer the seal makes a record.
    #[inline]
    pub(super) fn tag_bytes(&self) -> usize {
        if self.cipher.is_some() { TAG_BYTES } else { 0 }
    }

    /// Returns how many bytes lie before the fields of a record.
    #[inline]
    fn front_bytes(&self) -> usize {
        CHECKSUM_BYTES + self.tag_bytes()
    }

    /// Encrypts and checksums the record that fills `record`, whose last `body_bytes` are the key
    /// and the value. It is to lie at `offset`.
    #[inline]
    pub(super) fn close(&self, record: &mut [u8], body_bytes: usize, offset: u64) {
        if let Some(cipher) = &self.cipher {
            let (front, rest) = record.split_at_mut(CHECKSUM_BYTES + TAG_BYTES);
            let (fields, body) = rest.split_at_mut(rest.len() - body_bytes);
            front[CHECKSUM_BYTES..].copy_from_slice(&cipher.seal(offset, fields, body));
        }
        let (open, covered) = record.split_at_mut(CHECKSUM_BYTES);
        open.copy_from_slice(&checksum32(seed(self.epoch, offset), covered).to_le_bytes());
    }

    /// Decrypts in place the record that fills `record`, whose checksum was verified. A record that
    /// does not open was forged, or its key is not the right one; a crash leaves none.
    pub(super) fn decrypt(&self, record: &mut [u8], offset: u64) -> Result<()> {
        let Some(cipher) = &self.cipher else { return Ok(()) };
        let body_bytes = RecordFields::decode(record, self.front_bytes())?.body_bytes();
        let short = || Error::corruption("a record is shorter than its fields say");
        let (front, rest) =
            record.split_first_chunk_mut::<{ CHECKSUM_BYTES + TAG_BYTES }>().ok_or_else(short)?;
        let fields_bytes = rest.len().checked_sub(body_bytes).ok_or_else(short)?;
        let (fields, body) = rest.split_at_mut(fields_bytes);
        let tag = front.last_chunk::<TAG_BYTES>().ok_or_else(short)?;
        cipher.open(offset, fields, body, tag)
    }

    /// Makes room for the tag of `other` in the open record that begins at `begin` of `out`, or
    /// takes it away. Requires: one of the two seals encrypts.
    pub(super) fn change(&self, other: &RecordSeal, out: &mut Vec<u8>, begin: usize) {
        let tag = begin + CHECKSUM_BYTES..begin + self.front_bytes();
        out.splice(tag, std::iter::repeat_n(0, other.tag_bytes()));
    }

    /// Verifies the checksum of the record that fills `record`.
    pub(super) fn verify(&self, record: &[u8], offset: u64) -> Result<()> {
        verify(record, self.epoch, offset)
    }
}

/// The operation that a record describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// The key is deleted.
    Delete,
    /// The key gets a value, with or without a deadline.
    Put,
    /// All keys of a range are deleted. The record's value is the kind of both ends, one byte as in
    /// [`Bounds::ends`], and the upper key; its key is the lower one.
    DeleteRange,
    /// Tables with keys of a range were ingested at this place in the order of commits. The
    /// record's value is that of [`RecordKind::DeleteRange`] with the ids of the tables before the
    /// upper key, as [`ingest_value`] encodes them.
    Ingest,
    /// The value is an operand, which is merged with what the key had before.
    Merge,
}

impl RecordKind {
    /// Returns true if the record is about a range of keys rather than about one.
    pub fn has_range(self) -> bool {
        matches!(self, RecordKind::DeleteRange | RecordKind::Ingest)
    }

    /// Returns true if the record has a value for its key.
    #[inline]
    pub fn has_value(self) -> bool {
        matches!(self, RecordKind::Put | RecordKind::Merge)
    }
}

/// The persistent number of a deletion.
const DELETE: u8 = 0;
/// The persistent number of a put without a deadline.
const PUT: u8 = 1;
/// The persistent number of a put with a deadline.
const PUT_EXPIRING: u8 = 2;
/// The persistent number of the deletion of a range.
const DELETE_RANGE: u8 = 3;
/// The persistent number of a merge.
const MERGE: u8 = 4;
/// The persistent number of an ingest.
const INGEST: u8 = 5;

/// A record to write.
#[derive(Debug, Clone, Copy)]
pub struct RecordInput<'a> {
    /// The operation.
    pub kind: RecordKind,
    /// The keyspace of the key.
    pub keyspace: KeyspaceId,
    /// The codec of `value`.
    pub codec: Codec,
    /// The length of the value in bytes once decompressed.
    pub raw_len: u32,
    /// The time at which the value expires; `None` if it never does.
    pub deadline: Option<Deadline>,
    /// The user key.
    pub key: &'a [u8],
    /// The value as it is to be stored, compressed by `codec`.
    pub value: &'a [u8],
}

impl<'a> RecordInput<'a> {
    /// Returns a put of an uncompressed value.
    pub fn put(keyspace: KeyspaceId, key: &'a [u8], value: &'a [u8]) -> Self {
        let raw_len = value.len() as u32;
        let (kind, codec, deadline) = (RecordKind::Put, Codec::None, None);
        RecordInput { kind, keyspace, codec, raw_len, deadline, key, value }
    }

    /// Returns a delete.
    pub fn delete(keyspace: KeyspaceId, key: &'a [u8]) -> Self {
        RecordInput { kind: RecordKind::Delete, ..Self::put(keyspace, key, b"") }
    }

    /// Returns the deletion of a range. `ends` is what [`range_ends`] returns for it.
    #[cfg(test)]
    pub fn delete_range(keyspace: KeyspaceId, range: &'a Bounds, ends: &'a [u8]) -> Self {
        let key = range.lower.as_deref().unwrap_or_default();
        RecordInput { kind: RecordKind::DeleteRange, ..Self::put(keyspace, key, ends) }
    }

    /// Returns the length in bytes that the record has under this sequence number if it is not
    /// encrypted.
    #[inline]
    pub fn record_bytes(&self, seqno: SeqNo) -> usize {
        self.prefix_bytes(seqno) + self.value.len()
    }

    /// Returns the part of [`RecordInput::record_bytes`] that lies before the stored value.
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
            + self.deadline.map_or(0, Deadline::encoded_len)
            + self.key.len()
    }

    /// Returns the least length in bytes of a value whose record, which is this one but for the
    /// value, has `bytes` bytes. It is the length itself, unless the value is compressed, or was
    /// ingested, so that its record has a shorter number.
    pub fn least_value_bytes(&self, seqno: SeqNo, bytes: usize, is_encrypted: bool) -> usize {
        debug_assert!(self.value.is_empty(), "a record without its value");
        let tag = if is_encrypted { TAG_BYTES } else { 0 };
        let rest = (bytes + 1).saturating_sub(self.prefix_bytes(seqno) + tag);
        let fits = |value: &usize| varint_len(*value as u64) + value <= rest;
        let stored = (1..=5).map(|length| rest.saturating_sub(length)).find(fits).unwrap_or(0);
        // Compression saves more than an eighth, else it is not used. From some length on that is
        // more than the field with the length of the value takes that only such records have.
        if stored < MIN_TELLING_BYTES { 0 } else { stored }
    }

    /// Asserts the limits that the callers have checked.
    fn assert_within_limits(&self) {
        assert!(self.key.len() <= MAX_KEY_BYTES, "a key over the limit");
        assert!(self.value.len().max(self.raw_len as usize) <= MAX_VALUE_BYTES, "value too long");
        assert!(self.codec != Codec::None || self.raw_len as usize == self.value.len());
        let is_bare = match self.kind {
            RecordKind::Put => true,
            RecordKind::Merge => self.deadline.is_none(),
            RecordKind::Delete => self.value.is_empty() && self.deadline.is_none(),
            RecordKind::DeleteRange | RecordKind::Ingest => {
                self.codec == Codec::None && self.deadline.is_none()
            }
        };
        assert!(is_bare, "a delete with a value or a deadline");
    }

    /// Returns the persistent number of the operation.
    #[inline]
    fn number(&self) -> u8 {
        match (self.kind, self.deadline) {
            (RecordKind::Delete, _) => DELETE,
            (RecordKind::DeleteRange, _) => DELETE_RANGE,
            (RecordKind::Ingest, _) => INGEST,
            (RecordKind::Merge, _) => MERGE,
            (RecordKind::Put, None) => PUT,
            (RecordKind::Put, Some(_)) => PUT_EXPIRING,
        }
    }

    /// Appends everything before the stored value, with zeroes in place of checksum and tag.
    #[inline]
    fn put_prefix(&self, out: &mut Vec<u8>, seal: &RecordSeal, seqno: SeqNo) {
        self.assert_within_limits();
        out.extend_from_slice(&[0; CHECKSUM_BYTES + TAG_BYTES][..seal.front_bytes()]);
        out.push(self.number() | (self.codec as u8) << 4);
        put_varint(out, self.keyspace.0);
        put_varint(out, seqno);
        put_varint(out, self.key.len() as u64);
        put_varint(out, self.value.len() as u64);
        if self.codec != Codec::None {
            put_varint(out, self.raw_len.into());
        }
        if let Some(deadline) = self.deadline {
            deadline.encode(out);
        }
        out.extend_from_slice(self.key);
    }

    /// Appends the record as it is to lie at `offset` of the segment.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>, seal: &RecordSeal, offset: u64, seqno: SeqNo) {
        let start = out.len();
        self.put_prefix(out, seal, seqno);
        out.extend_from_slice(self.value);
        let foretold = self.record_bytes(seqno) + seal.tag_bytes();
        debug_assert_eq!(out.len() - start, foretold, "the length is foretold");
        seal.close(&mut out[start..], self.key.len() + self.value.len(), offset);
    }

    /// Appends the record without its stored value, which the caller writes right behind it.
    /// Requires: records are not encrypted.
    pub fn encode_prefix(&self, out: &mut Vec<u8>, seal: &RecordSeal, offset: u64, seqno: SeqNo) {
        assert!(!seal.is_encrypted(), "a value is encrypted with its record");
        let (start, epoch) = (out.len(), seal.epoch);
        self.put_prefix(out, seal, seqno);
        debug_assert_eq!(out.len() - start, self.prefix_bytes(seqno), "the length is foretold");
        let (open, covered) = out[start..].split_at_mut(CHECKSUM_BYTES);
        let sum = checksum32_of_two(seed(epoch, offset), covered, self.value);
        open.copy_from_slice(&sum.to_le_bytes());
    }
}

/// Returns the value of the record that deletes `range`.
pub fn range_ends(range: &Bounds) -> Vec<u8> {
    let upper = range.upper.as_deref().unwrap_or_default();
    [&[range.ends()], upper].concat()
}

/// Returns the value of the record of an ingest of `tables`, whose keys are in `range`.
pub fn ingest_value(range: &Bounds, tables: &[TableId]) -> Vec<u8> {
    let mut value = vec![range.ends()];
    put_varint(&mut value, tables.len() as u64);
    tables.iter().for_each(|table| put_varint(&mut value, table.0));
    value.extend_from_slice(range.upper.as_deref().unwrap_or_default());
    value
}

/// A verified record that borrows the buffer it was read into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// The operation.
    pub kind: RecordKind,
    /// The keyspace of the key.
    pub keyspace: KeyspaceId,
    /// The sequence number: the position in the order of commits.
    pub seqno: SeqNo,
    /// The codec of `value`.
    pub codec: Codec,
    /// The length of the value in bytes once decompressed.
    pub raw_len: u32,
    /// The time at which the value expires; `None` if it never does.
    pub deadline: Option<Deadline>,
    /// The user key.
    pub key: &'a [u8],
    /// The value as it is stored, compressed by `codec`.
    pub value: &'a [u8],
    /// The offset of the record in its segment.
    pub offset: u64,
    /// The length of the whole record in bytes.
    pub length: u32,
}

/// Returns the operation, whether it has a deadline, and the codec.
fn nibbles(byte: u8) -> Result<(RecordKind, bool, Codec)> {
    let (kind, expires) = match byte & 0xf {
        DELETE => (RecordKind::Delete, false),
        PUT => (RecordKind::Put, false),
        PUT_EXPIRING => (RecordKind::Put, true),
        DELETE_RANGE => (RecordKind::DeleteRange, false),
        MERGE => (RecordKind::Merge, false),
        INGEST => (RecordKind::Ingest, false),
        other => {
            return Err(Error::unsupported(format!(
                "record kind {other} is unknown to this build, which knows 0 to {INGEST}"
            )));
        }
    };
    Ok((kind, expires, Codec::from_number(byte >> 4)?))
}

impl<'a> RecordView<'a> {
    /// Decodes the record that fills `bytes` exactly, as a read by pointer fetches it.
    pub fn decode_exact(bytes: &'a [u8], epoch: u64, offset: u64) -> Result<Self> {
        // I7: the pointer gives the extent, so the checksum is verified before any field is read.
        verify(bytes, epoch, offset)?;
        Self::opened(bytes, &epoch.into(), offset)
    }

    /// Decodes the record that fills `bytes` exactly. Requires: its checksum was verified, and it
    /// was decrypted if it was encrypted.
    pub(super) fn opened(bytes: &'a [u8], seal: &RecordSeal, offset: u64) -> Result<Self> {
        let (view, rest) = Self::parse(bytes, seal.front_bytes(), offset)?;
        Reader::new(rest).finish("the record")?;
        Ok(view)
    }

    /// Verifies and decrypts in place the record that fills `bytes` exactly, and decodes it.
    pub(super) fn open(bytes: &'a mut [u8], seal: &RecordSeal, offset: u64) -> Result<Self> {
        // I7: the checksum is verified before any field is read.
        seal.verify(bytes, offset)?;
        seal.decrypt(bytes, offset)?;
        Self::opened(bytes, seal, offset)
    }

    /// Decodes the record at the front of `bytes`; returns it and the bytes behind it.
    pub fn decode_front(
        bytes: &'a [u8],
        epoch: u64,
        offset: u64,
    ) -> Result<(RecordView<'a>, &'a [u8])> {
        let len = front_bytes(bytes, &epoch.into())?;
        let (record, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
        Ok((Self::decode_exact(record, epoch, offset)?, rest))
    }

    /// Returns the value as the user wrote it.
    pub fn raw_value(&self) -> Result<Vec<u8>> {
        decompress(self.codec, self.value, self.raw_len as usize)
    }

    fn parse(bytes: &'a [u8], front: usize, offset: u64) -> Result<(RecordView<'a>, &'a [u8])> {
        let fields = RecordFields::decode(bytes, front)?;
        let RecordFields { kind, codec, keyspace, seqno, raw_len, deadline, .. } = fields;
        if seqno > MAX_SEQNO || kind == RecordKind::Delete && raw_len.max(fields.stored_len) > 0 {
            return Err(Error::corruption("a record has impossible fields"));
        }
        let mut reader = Reader::new(bytes);
        reader.take(fields.bytes)?;
        let (key, value) = (reader.take(fields.key_len)?, reader.take(fields.stored_len)?);
        let rest = reader.rest();
        let (raw_len, length) = (raw_len as u32, (bytes.len() - rest.len()) as u32);
        let view = RecordView {
            kind,
            keyspace,
            seqno,
            codec,
            raw_len,
            deadline,
            key,
            value,
            offset,
            length,
        };
        if kind.has_range() {
            view.range()?;
        }
        Ok((view, rest))
    }

    /// Returns the range that the record is about. Requires: it is about a range.
    pub fn range(&self) -> Result<Bounds> {
        debug_assert!(self.kind.has_range());
        let (ends, _, upper) = self.range_fields()?;
        Bounds::from_ends(ends, self.key, upper)
    }

    /// Returns the ids of the tables that were ingested. Requires: the record is of an ingest.
    pub fn ingested_tables(&self) -> Result<Vec<TableId>> {
        debug_assert_eq!(self.kind, RecordKind::Ingest);
        Ok(self.range_fields()?.1)
    }

    /// Returns the kinds of the ends, the ingested tables, and the upper key.
    fn range_fields(&self) -> Result<(u8, Vec<TableId>, &'a [u8])> {
        if self.codec != Codec::None || self.value.is_empty() {
            return Err(Error::corruption("a record about a range has impossible fields"));
        }
        let mut reader = Reader::new(self.value);
        let ends = reader.u8()?;
        let count = if self.kind == RecordKind::Ingest { reader.varint()? } else { 0 };
        // I7: each id takes a byte at least, so a count that is too large is an error soon.
        let tables = (0..count).map(|_| TableId::decode(&mut reader)).collect::<Result<_>>()?;
        Ok((ends, tables, reader.rest()))
    }
}

/// The fields before the key of a record.
struct RecordFields {
    kind: RecordKind,
    codec: Codec,
    keyspace: KeyspaceId,
    seqno: SeqNo,
    key_len: usize,
    stored_len: usize,
    raw_len: usize,
    deadline: Option<Deadline>,
    /// The length in bytes of what lies before the key.
    bytes: usize,
}

impl RecordFields {
    /// Decodes the fields of the record at the front of `bytes`, which begin behind `front` bytes.
    /// I7: every length is bounded.
    fn decode(bytes: &[u8], front: usize) -> Result<RecordFields> {
        let mut reader = Reader::new(bytes);
        reader.take(front)?;
        let (kind, expires, codec) = nibbles(reader.u8()?)?;
        let keyspace = KeyspaceId::decode(&mut reader)?;
        let seqno = reader.varint()?;
        let key_len = reader.length(MAX_KEY_BYTES)?;
        let stored_len = reader.length(MAX_VALUE_BYTES)?;
        let raw_len =
            if codec == Codec::None { stored_len } else { reader.length(MAX_VALUE_BYTES)? };
        let deadline = if expires { Some(Deadline::decode(&mut reader)?) } else { None };
        let bytes = bytes.len() - reader.rest().len();
        Ok(RecordFields {
            kind,
            codec,
            keyspace,
            seqno,
            key_len,
            stored_len,
            raw_len,
            deadline,
            bytes,
        })
    }

    /// Returns the length in bytes of the key and the stored value.
    fn body_bytes(&self) -> usize {
        self.key_len + self.stored_len
    }
}

/// Returns the length in bytes that the record at the front of `bytes` claims, bounded by the
/// limits and by `bytes`. Its kind and codec need not be known, so that those of a newer build are
/// told from damage by the checksum first.
pub(super) fn front_bytes(bytes: &[u8], seal: &RecordSeal) -> Result<usize> {
    let mut reader = Reader::new(bytes);
    reader.take(seal.front_bytes())?;
    let first = reader.u8()?;
    let (compressed, expires) = (first >> 4 != 0, first & 0xf == PUT_EXPIRING);
    reader.varint()?;
    reader.varint()?;
    let key_len = reader.length(MAX_KEY_BYTES)?;
    let stored_len = reader.length(MAX_VALUE_BYTES)?;
    if compressed {
        reader.varint()?;
    }
    if expires {
        Deadline::decode(&mut reader)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pointer::MAX_ID;

    #[test]
    fn records_know_their_size_and_place() {
        let key = vec![b'k'; MAX_KEY_BYTES];
        let mut compressed = RecordInput::put(KeyspaceId(300), b"key", b"squeezed");
        (compressed.codec, compressed.raw_len) = (Codec::Lz4, 1 << 20);
        let mut expiring = RecordInput::put(KeyspaceId(1), b"key", b"value");
        expiring.deadline = Some(Deadline(1_767_225_600_000));
        let range = Bounds {
            lower: Some(b"a".to_vec()),
            upper: Some(b"b".to_vec()),
            open_lower: true,
            closed_upper: false,
        };
        let (ends, all) = (range_ends(&range), Bounds::default());
        let tables = [TableId(7), TableId(1000), TableId(3)];
        let ingest = ingest_value(&range, &tables);
        let squeezed_expiring = RecordInput { deadline: Some(Deadline(u64::MAX)), ..compressed };
        for input in [
            RecordInput::put(KeyspaceId(0), b"", b""),
            RecordInput::put(KeyspaceId(1), &key, b"value"),
            RecordInput::delete(KeyspaceId(MAX_ID), b"gone"),
            RecordInput { kind: RecordKind::Merge, ..RecordInput::put(KeyspaceId(2), b"n", b"1") },
            RecordInput { kind: RecordKind::Merge, ..compressed },
            compressed,
            expiring,
            squeezed_expiring,
            RecordInput::delete_range(KeyspaceId(3), &range, &ends),
            RecordInput::delete_range(KeyspaceId(3), &all, &[0]),
            RecordInput {
                kind: RecordKind::Ingest,
                ..RecordInput::put(KeyspaceId(4), b"a", &ingest)
            },
        ] {
            let mut out = b"before".to_vec();
            input.encode(&mut out, &5.into(), 1000, MAX_SEQNO);
            let bytes = &out[6..];
            assert_eq!(bytes.len(), input.record_bytes(MAX_SEQNO));
            assert!(bytes.len() >= MIN_RECORD_BYTES);
            let view = RecordView::decode_exact(bytes, 5, 1000).unwrap();
            assert_eq!((view.kind, view.keyspace), (input.kind, input.keyspace));
            assert_eq!((view.codec, view.raw_len), (input.codec, input.raw_len));
            assert_eq!((view.key, view.value), (input.key, input.value));
            assert_eq!((view.seqno, view.offset), (MAX_SEQNO, 1000));
            assert_eq!(view.deadline, input.deadline);
            if view.kind.has_range() {
                let expected = if input.key.is_empty() { &all } else { &range };
                assert_eq!(view.range().unwrap(), *expected);
            }
            if view.kind == RecordKind::Ingest {
                assert_eq!(view.ingested_tables().unwrap(), tables);
            }
            assert_eq!(view.length as usize, bytes.len());
            assert!(RecordView::decode_exact(bytes, 5, 1001).is_err(), "another offset");
            assert!(RecordView::decode_exact(bytes, 6, 1000).is_err(), "another epoch");
            let mut prefix = Vec::new();
            input.encode_prefix(&mut prefix, &5.into(), 1000, MAX_SEQNO);
            prefix.extend_from_slice(input.value);
            assert_eq!(prefix, bytes, "written in two pieces");
        }
    }
}
