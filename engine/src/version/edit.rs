//! One change of the set of live files, and its encoding in the manifest.
//!
//! An edit is a list of changes that take effect together. Each change is a tag byte and its
//! fields: varints, and byte strings preceded by their length. Tags are persistent.
//!
//! | tag | change | fields |
//! |---|---|---|
//! | 1 | keyspace added | id, name, order, settings, flushed seqno |
//! | 2 | keyspace settings | id, settings |
//! | 3 | keyspace dropped | id |
//! | 4 | table added | keyspace, level, table meta |
//! | 5 | table removed | keyspace, level, table |
//! | 6 | segment added | id, kind, epoch |
//! | 7 | segment sealed | id, length |
//! | 8 | segment removed | id |
//! | 9 | head moved | segment, offset |
//! | 10 | keyspace flushed | keyspace, seqno |
//! | 11 | next id, of files and keyspaces | id |
//! | 12 | last seqno | seqno |
//! | 13 | relocation added, in place of the segment's former one | relocation meta |
//! | 14 | relocation removed | freed segment |
//! | 15 | holes of a segment, in place of its former ones | segment, holes |
//! | 16 | expired entries dropped | greatest deadline among them |
//! | 17 | range tombstone added | keyspace, seqno, ends, lower key, upper key |
//! | 18 | range tombstone removed | keyspace, seqno |
//! | 19 | table added to which range tombstones were applied | seqno of the last, then as 4 |
//! | 20 | table added that was ingested | seqno of the ingest, then as 19 |
//!
//! The ends of a range tombstone are a number of bits: 1, there is a lower key; 2, it is excluded;
//! 4, there is an upper key; 8, it is included.
//!
//! Holes are encoded as varints: their count, then for each hole the gap from the end of the
//! previous one and the length, both in units of 4 KiB.

use crate::base::bounds::Bounds;
use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::key::{MAX_SEQNO, SeqNo};
use crate::base::pointer::{KeyspaceId, SegmentId, TableId, read_id};
use crate::base::range_tombstone::RangeTombstone;
use crate::relocation::RelocationMeta;
use crate::segment::SegmentKind;
use crate::table::TableMeta;
use crate::version::{HOLE_UNIT, Holes, LogPosition};
use std::sync::Arc;

/// One change of the set of live files.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Creates a keyspace.
    AddKeyspace {
        /// The keyspace's id, never used before.
        id: KeyspaceId,
        /// The keyspace's name in the API.
        name: String,
        /// The name of the comparator of its keys.
        order: String,
        /// The settings as text.
        settings: String,
        /// Every entry up to this sequence number is in tables.
        flushed: SeqNo,
    },
    /// Changes a keyspace's settings.
    SetKeyspace {
        /// The id of the keyspace.
        id: KeyspaceId,
        /// The new settings as text.
        settings: String,
    },
    /// Removes a keyspace and its tables.
    DropKeyspace {
        /// The id of the keyspace.
        id: KeyspaceId,
    },
    /// Adds a table.
    AddTable {
        /// The keyspace of the table.
        keyspace: KeyspaceId,
        /// The level of the table.
        level: usize,
        /// The table's metadata.
        meta: Arc<TableMeta>,
    },
    /// Removes a table, whose entries are in other tables now or not needed.
    RemoveTable {
        /// The keyspace of the table.
        keyspace: KeyspaceId,
        /// The level of the table.
        level: usize,
        /// The id of the table.
        id: TableId,
    },
    /// Adds a segment. The edit is durable before anything in the segment is acknowledged.
    AddSegment {
        /// The segment's id.
        id: SegmentId,
        /// The order of its records.
        kind: SegmentKind,
        /// The seed of its checksums.
        epoch: u64,
    },
    /// Records the final length of a segment, all of which is durable.
    SealSegment {
        /// The id of the segment.
        id: SegmentId,
        /// The final length in bytes.
        length: u64,
    },
    /// Removes a segment without live records.
    RemoveSegment {
        /// The id of the segment.
        id: SegmentId,
    },
    /// Moves the head of the log: replay starts there.
    Head(LogPosition),
    /// Records that every entry of a keyspace up to a sequence number is in tables.
    Flushed {
        /// The id of the keyspace.
        keyspace: KeyspaceId,
        /// The greatest such sequence number.
        seqno: SeqNo,
    },
    /// Records that ids of files and keyspaces below this one are used.
    NextFile(u64),
    /// Records that no commit had a greater sequence number when this was written.
    LastSeqno(SeqNo),
    /// Adds the relocation of a freed segment, in place of the segment's former relocation if there
    /// is one.
    AddRelocation {
        /// The relocation's metadata.
        meta: Arc<RelocationMeta>,
    },
    /// Removes the relocation of a freed segment that no table names any more.
    RemoveRelocation {
        /// The freed segment.
        segment: SegmentId,
    },
    /// Sets all ranges of a sealed segment that are punched or are going to be.
    Holes {
        /// The id of the segment.
        segment: SegmentId,
        /// The holes, in place of those recorded before.
        holes: Holes,
    },
    /// Records that entries with deadlines up to this one were dropped because they had expired.
    DroppedUntil(Deadline),
    /// Adds a range tombstone that was flushed.
    AddRange {
        /// The keyspace of the range.
        keyspace: KeyspaceId,
        /// The range and its sequence number.
        tombstone: RangeTombstone,
    },
    /// Removes a range tombstone that hides nothing in any table.
    RemoveRange {
        /// The keyspace of the range.
        keyspace: KeyspaceId,
        /// The sequence number, by which it is known.
        seqno: SeqNo,
    },
    /// Says at the end of an edit that the state which it begins, or goes on with, goes on in the
    /// next record.
    StateGoesOn,
}

/// A list of changes that take effect together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edit {
    /// The changes in the order they are applied.
    pub changes: Vec<Change>,
}

impl Edit {
    /// Creates an edit of these changes.
    pub fn new(changes: Vec<Change>) -> Self {
        Edit { changes }
    }

    /// Returns true if the edit has no change; it is then not written.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the newest sequence number that the edit names as used; 0 if it names none.
    pub fn last_seqno(&self) -> SeqNo {
        self.changes.iter().map(Change::last_seqno).max().unwrap_or_default()
    }

    /// Returns the encoding for the manifest.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for change in &self.changes {
            change.encode(&mut out);
        }
        out
    }

    /// Returns the encodings of one or several edits that do the same, each of about `part_bytes`
    /// bytes. All but the last end with [`Change::StateGoesOn`].
    pub fn encode_parts(&self, part_bytes: usize) -> Vec<Vec<u8>> {
        let (mut parts, mut part) = (Vec::new(), Vec::new());
        for change in &self.changes {
            if part.len() >= part_bytes {
                Change::StateGoesOn.encode(&mut part);
                parts.push(std::mem::take(&mut part));
            }
            change.encode(&mut part);
        }
        parts.push(part);
        parts
    }

    /// Returns true if the state that this edit is a part of goes on in the next one.
    pub fn goes_on(&self) -> bool {
        matches!(self.changes.last(), Some(Change::StateGoesOn))
    }

    /// Returns false if these bytes are certainly not what an edit begins with; `is_whole` says
    /// that they are all of it. I7: nothing is believed of them, as their checksum was not verified
    /// yet. This is to spare verifying it.
    pub fn may_begin_with(bytes: &[u8], is_whole: bool) -> bool {
        let Some(failure) = first_failure(bytes) else { return true };
        // What fails in the same way however much of the edit is there fails with all of it.
        let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
        !is_whole && first_failure(half).as_ref() != Some(&failure)
    }

    /// Decodes the output of [`Edit::encode`], whose checksum was verified before (I7).
    pub fn decode(bytes: &[u8]) -> Result<Edit> {
        let mut reader = Reader::new(bytes);
        let mut changes = Vec::new();
        while !reader.is_empty() {
            changes.push(Change::decode(&mut reader)?);
        }
        Ok(Edit { changes })
    }
}

/// The changes at the begin of an edit that are looked at to tell whether it is one. Bytes that are
/// none may look like one or two small changes.
const CHANGES_LOOKED_AT: usize = 8;

/// Returns in which place the first changes of an edit can't be decoded, and why.
fn first_failure(bytes: &[u8]) -> Option<(usize, String)> {
    let mut reader = Reader::new(bytes);
    for _ in 0..CHANGES_LOOKED_AT {
        if reader.is_empty() {
            break;
        }
        if let Err(error) = Change::decode(&mut reader) {
            return Some((bytes.len() - reader.rest().len(), error.message().to_owned()));
        }
    }
    None
}

impl Change {
    /// Returns the newest sequence number that the change names as used; 0 if it names none.
    pub fn last_seqno(&self) -> SeqNo {
        match self {
            Change::LastSeqno(seqno) | Change::Flushed { seqno, .. } => *seqno,
            Change::AddKeyspace { flushed, .. } => *flushed,
            Change::AddTable { meta, .. } => meta.ingested_at,
            _ => 0,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Change::AddKeyspace { id, name, order, settings, flushed } => {
                put_numbers(out, 1, &[id.0]);
                put_bytes(out, name.as_bytes());
                put_bytes(out, order.as_bytes());
                put_bytes(out, settings.as_bytes());
                put_varint(out, *flushed);
            }
            Change::SetKeyspace { id, settings } => {
                put_numbers(out, 2, &[id.0]);
                put_bytes(out, settings.as_bytes());
            }
            Change::DropKeyspace { id } => put_numbers(out, 3, &[id.0]),
            Change::AddTable { keyspace, level, meta } => {
                if meta.ingested_at > 0 {
                    let numbers = [meta.ingested_at, meta.applied_ranges, keyspace.0];
                    put_numbers(out, 20, &numbers);
                    put_varint(out, *level as u64);
                } else if meta.applied_ranges > 0 {
                    put_numbers(out, 19, &[meta.applied_ranges, keyspace.0, *level as u64]);
                } else {
                    put_numbers(out, 4, &[keyspace.0, *level as u64]);
                }
                meta.encode(out);
            }
            Change::RemoveTable { keyspace, level, id } => {
                put_numbers(out, 5, &[keyspace.0, *level as u64, id.0]);
            }
            Change::AddSegment { id, kind, epoch } => {
                put_numbers(out, 6, &[id.0, *kind as u64, *epoch]);
            }
            Change::SealSegment { id, length } => put_numbers(out, 7, &[id.0, *length]),
            Change::RemoveSegment { id } => put_numbers(out, 8, &[id.0]),
            Change::Head(at) => put_numbers(out, 9, &[at.segment.0, at.offset]),
            Change::Flushed { keyspace, seqno } => put_numbers(out, 10, &[keyspace.0, *seqno]),
            Change::NextFile(id) => put_numbers(out, 11, &[*id]),
            Change::LastSeqno(seqno) => put_numbers(out, 12, &[*seqno]),
            Change::AddRelocation { meta } => {
                out.push(13);
                meta.encode(out);
            }
            Change::RemoveRelocation { segment } => put_numbers(out, 14, &[segment.0]),
            Change::Holes { segment, holes } => {
                put_numbers(out, 15, &[segment.0]);
                put_holes(out, holes);
            }
            Change::DroppedUntil(deadline) => put_numbers(out, 16, &[deadline.0]),
            Change::AddRange { keyspace, tombstone } => {
                put_numbers(out, 17, &[keyspace.0, tombstone.seqno]);
                put_range(out, &tombstone.range);
            }
            Change::RemoveRange { keyspace, seqno } => put_numbers(out, 18, &[keyspace.0, *seqno]),
            Change::StateGoesOn => put_numbers(out, 21, &[]),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Change> {
        let tag = reader.u8()?;
        if (1..=3).contains(&tag) {
            return Self::decode_keyspace(tag, reader);
        }
        Ok(match tag {
            4 | 19 | 20 => Self::decode_table(tag, reader)?,
            5 => Change::RemoveTable {
                keyspace: KeyspaceId::decode(reader)?,
                level: reader.length(usize::MAX)?,
                id: TableId::decode(reader)?,
            },
            6 => Change::AddSegment {
                id: SegmentId::decode(reader)?,
                kind: SegmentKind::from_number(reader.varint()?)?,
                epoch: reader.varint()?,
            },
            7 => Change::SealSegment { id: SegmentId::decode(reader)?, length: reader.varint()? },
            8 => Change::RemoveSegment { id: SegmentId::decode(reader)? },
            9 => Change::Head(LogPosition {
                segment: SegmentId::decode(reader)?,
                offset: reader.varint()?,
            }),
            10 => Change::Flushed { keyspace: KeyspaceId::decode(reader)?, seqno: seqno(reader)? },
            11 => Change::NextFile(read_id(reader)?),
            12 => Change::LastSeqno(seqno(reader)?),
            13 => Change::AddRelocation { meta: Arc::new(RelocationMeta::decode(reader)?) },
            14 => Change::RemoveRelocation { segment: SegmentId::decode(reader)? },
            15 => {
                let segment = SegmentId::decode(reader)?;
                Change::Holes { segment, holes: read_holes(reader)? }
            }
            16 => Change::DroppedUntil(Deadline::decode(reader)?),
            17 => {
                let (keyspace, seqno) = (KeyspaceId::decode(reader)?, seqno(reader)?);
                let range = Arc::new(decode_range(reader)?);
                Change::AddRange { keyspace, tombstone: RangeTombstone { range, seqno } }
            }
            18 => {
                Change::RemoveRange { keyspace: KeyspaceId::decode(reader)?, seqno: seqno(reader)? }
            }
            21 => Change::StateGoesOn,
            _ => return Err(Error::corruption(format!("edit tag {tag} does not exist"))),
        })
    }

    /// Decodes the addition of a table by its tag.
    fn decode_table(tag: u8, reader: &mut Reader<'_>) -> Result<Change> {
        let ingested_at = if tag == 20 { seqno(reader)? } else { 0 };
        let applied_ranges = if tag == 4 { 0 } else { seqno(reader)? };
        if tag == 19 && applied_ranges == 0 {
            return Err(Error::corruption("a table has range tombstones up to number 0"));
        }
        if tag == 20 && ingested_at == 0 {
            return Err(Error::corruption("a table was ingested at number 0"));
        }
        let keyspace = KeyspaceId::decode(reader)?;
        let level = reader.length(usize::MAX)?;
        let meta = TableMeta { applied_ranges, ..TableMeta::decode(reader)? };
        let meta = Arc::new(meta.ingested(ingested_at)?);
        Ok(Change::AddTable { keyspace, level, meta })
    }

    fn decode_keyspace(tag: u8, reader: &mut Reader<'_>) -> Result<Change> {
        let id = KeyspaceId::decode(reader)?;
        Ok(match tag {
            1 => Change::AddKeyspace {
                id,
                name: text(reader)?,
                order: text(reader)?,
                settings: text(reader)?,
                flushed: seqno(reader)?,
            },
            2 => Change::SetKeyspace { id, settings: text(reader)? },
            _ => Change::DropKeyspace { id },
        })
    }
}

fn put_numbers(out: &mut Vec<u8>, tag: u8, numbers: &[u64]) {
    out.push(tag);
    for &number in numbers {
        put_varint(out, number);
    }
}

fn put_range(out: &mut Vec<u8>, range: &Bounds) {
    out.push(range.ends());
    put_bytes(out, range.lower.as_deref().unwrap_or_default());
    put_bytes(out, range.upper.as_deref().unwrap_or_default());
}

fn decode_range(reader: &mut Reader<'_>) -> Result<Bounds> {
    Bounds::from_ends(reader.u8()?, reader.bytes()?, reader.bytes()?)
}

/// Appends the encoded holes of a segment.
pub fn put_holes(out: &mut Vec<u8>, holes: &[(u64, u64)]) {
    put_varint(out, holes.len() as u64);
    let mut end = 0;
    for &(offset, len) in holes {
        let whole = offset.is_multiple_of(HOLE_UNIT) && len.is_multiple_of(HOLE_UNIT);
        assert!(whole && len > 0 && offset >= end, "holes are in order and in whole units");
        put_varint(out, (offset - end) / HOLE_UNIT);
        put_varint(out, len / HOLE_UNIT);
        end = offset + len;
    }
}

/// Decodes the output of [`put_holes`].
pub fn read_holes(reader: &mut Reader<'_>) -> Result<Holes> {
    let mut holes = Vec::new();
    let mut end = 0u64;
    // A hole takes at least one byte per field, which bounds the count.
    for _ in 0..reader.length(reader.rest().len() / 2)? {
        let units =
            reader.varint()?.checked_mul(HOLE_UNIT).zip(reader.varint()?.checked_mul(HOLE_UNIT));
        let hole = units.and_then(|(gap, len)| {
            let offset = end.checked_add(gap)?;
            Some((offset, len, offset.checked_add(len)?))
        });
        let Some((offset, len, behind)) = hole.filter(|(_, len, _)| *len > 0) else {
            return Err(Error::corruption("a segment has an impossible hole"));
        };
        holes.push((offset, len));
        end = behind;
    }
    Ok(holes.into())
}

fn seqno(reader: &mut Reader<'_>) -> Result<SeqNo> {
    let seqno = reader.varint()?;
    if seqno <= MAX_SEQNO {
        return Ok(seqno);
    }
    Err(Error::corruption(format!("a sequence number of {seqno} is over its bound of {MAX_SEQNO}")))
}

fn text(reader: &mut Reader<'_>) -> Result<String> {
    let bytes = reader.bytes()?;
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Error::corruption("a name in the manifest is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_round_trip() {
        let edit = Edit::new(vec![
            Change::AddKeyspace {
                id: KeyspaceId(1),
                name: "users".into(),
                order: "bytes".into(),
                settings: "separation = off".into(),
                flushed: 7,
            },
            Change::SetKeyspace { id: KeyspaceId(1), settings: String::new() },
            Change::DropKeyspace { id: KeyspaceId(1) },
            Change::RemoveTable { keyspace: KeyspaceId(2), level: 6, id: TableId(300) },
            Change::AddSegment { id: SegmentId(9), kind: SegmentKind::Log, epoch: u64::MAX },
            Change::SealSegment { id: SegmentId(9), length: 1 << 40 },
            Change::RemoveSegment { id: SegmentId(9) },
            Change::Head(LogPosition { segment: SegmentId(9), offset: 88 }),
            Change::Flushed { keyspace: KeyspaceId(1), seqno: 12 },
            Change::NextFile(10),
            Change::LastSeqno(99),
            Change::AddRelocation { meta: Arc::new(RelocationMeta::empty(SegmentId(9))) },
            Change::RemoveRelocation { segment: SegmentId(9) },
            Change::Holes {
                segment: SegmentId(9),
                holes: [(0, 4096), (4096, 8192), (1 << 40, 1 << 30)].into(),
            },
            Change::Holes { segment: SegmentId(9), holes: Holes::default() },
            Change::DroppedUntil(Deadline(1_767_225_600_000)),
            Change::StateGoesOn,
            Change::AddRange {
                keyspace: KeyspaceId(2),
                tombstone: RangeTombstone {
                    range: Arc::new(Bounds {
                        lower: Some(b"a".to_vec()),
                        upper: Some(Vec::new()),
                        open_lower: true,
                        closed_upper: true,
                    }),
                    seqno: 77,
                },
            },
            Change::AddRange {
                keyspace: KeyspaceId(2),
                tombstone: RangeTombstone { range: Arc::default(), seqno: 78 },
            },
            Change::RemoveRange { keyspace: KeyspaceId(2), seqno: 77 },
        ]);
        let bytes = edit.encode();
        assert_eq!(Edit::decode(&bytes).unwrap(), edit);
        for len in 0..bytes.len() {
            if let Ok(shorter) = Edit::decode(&bytes[..len]) {
                assert!(shorter.changes.len() < edit.changes.len());
            }
        }
        assert!(Edit::may_begin_with(&bytes, true));
        for len in 32..bytes.len() {
            assert!(Edit::may_begin_with(&bytes[..len], false), "the first {len} bytes");
        }
        let cut = &bytes[..bytes.len() / 3];
        assert!(!Edit::may_begin_with(cut, true), "a field is cut, and there is no more");
        assert!(!Edit::may_begin_with(&[&[0], &bytes[..]].concat(), false), "there is no tag 0");
        assert!(Edit::decode(&[20]).is_err());
        assert!(Edit::decode(&[19, 0, 1, 0]).is_err(), "a number that no range tombstone has");
        assert!(Edit::decode(&[17, 1, 5, 16, 0, 0]).is_err(), "an end that does not exist");
        assert!(Edit::decode(&[17, 1, 5, 2, 0, 0]).is_err(), "a key that is not there is excluded");
        assert!(Edit::decode(&[15, 9, 1, 0, 0]).is_err(), "a hole of no bytes");
        assert!(Edit::decode(&[0]).is_err());
    }
}
