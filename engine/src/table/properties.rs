//! The content of a table in numbers: its properties block, and its description in the manifest.
//!
//! ```text
//! properties   table id (varint), keyspace id (varint), keyspace name (length, bytes),
//!              comparator name (length, bytes), codec (u8), summary,
//!              name of the filter policy (length, bytes) if the filter is one of the user's,
//!              else empty if one of the next two is there; name of the keyspace's merge operator
//!              (length, bytes) if it has one, else empty if the next is there; sequence number
//!              up to which tables have all commits to the keyspace (varint) if there is one
//! meta         table id (varint), bytes of the file (varint), summary      in the manifest
//!
//! summary      entries, tombstones, bytes of user keys, bytes of payloads (varints)
//!              smallest and largest internal key (length, bytes)
//!              smallest and largest sequence number (varints)
//!              fingerprint (u64): XXH3-64 over the checksums of all data blocks, in order
//!              count of segments (varint), then by ascending id, per segment: id, records
//!              referenced, bytes referenced (varints)
//!              count of groups of deadlines (varint), then by ascending deadline, per group: its
//!              last deadline, as the distance from that of the group before, entries (varints)
//! ```
//! Validity: there are 1 to 2^48 entries, and no more tombstones and references together than
//! entries; keys have a possible length and kind; sequence numbers are in order and within 56 bits.
//! The properties and the meta of a table have the same summary; [`super::Table::verify`] compares
//! it with the content.
//!
//! The keyspace and its merge operator are recorded for repairs: without a manifest, nothing else
//! says to which keyspace a table belongs, or what makes values of its operands. So is what had
//! been flushed: the newest commits may be deletions, which a compaction drops with what they hide,
//! and the log may still have what they hide.
//!
//! Because of the fingerprint, an older file in the place of a table is refused even if it was
//! valid once and has the same id, length and numbers. Such a file can come from a backup, or from
//! a checkpoint that was written to since.
//!
//! I3, I4: `gc/dead.rs` decides by these counts whether any table still references a segment, so
//! they are exact: they are counted while entries are written, from the pointers that are written.

use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::compression::Codec;
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, Result};
use crate::base::expiry::DeadlineCounts;
use crate::base::key::{
    EntryKind, MAX_KEY_BYTES, MAX_SEQNO, SeqNo, Trailer, internal_key, split_internal,
};
use crate::base::pointer::{KeyspaceId, SegmentId, TableId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bound on the entries of a table. With it the numbers of all tables can be summed up without
/// overflow.
const MAX_ENTRIES: u64 = 1 << 48;

/// The use of one segment by a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentUse {
    /// The number of records of the segment that the table references.
    pub count: u64,
    /// The bytes of these records, headers and keys included.
    pub bytes: u64,
}

/// The content of a table in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The number of entries, tombstones and older versions included.
    pub entries: u64,
    /// The number of tombstones.
    pub tombstones: u64,
    /// The bytes of all user keys.
    pub key_bytes: u64,
    /// The bytes of all payloads: inline values and encoded pointers.
    pub payload_bytes: u64,
    /// The first internal key.
    pub smallest: Vec<u8>,
    /// The last internal key.
    pub largest: Vec<u8>,
    /// The smallest sequence number.
    pub min_seqno: SeqNo,
    /// The largest sequence number.
    pub max_seqno: SeqNo,
    /// A hash of all entries, inline values and pointers included, which distinguishes the table
    /// from others with the same numbers.
    pub fingerprint: u64,
    /// The records that the table references, per segment.
    pub segments: BTreeMap<SegmentId, SegmentUse>,
    /// The entries that expire, by when.
    pub deadlines: DeadlineCounts,
}

impl Summary {
    /// Counts one more entry. The caller sets the largest key and the fingerprint once, after the
    /// last entry. A payload that does not fit its kind is corruption, and leaves the summary
    /// unchanged.
    pub(super) fn count(
        &mut self,
        user_key: &[u8],
        trailer: Trailer,
        payload: &[u8],
    ) -> Result<()> {
        let kind = trailer.kind()?;
        let Payload { deadline, slot, .. } = Payload::decode(kind, payload)?;
        if let Some(deadline) = deadline {
            self.deadlines.add(deadline);
        }
        if let Slot::Pointer(pointer) = slot {
            let used = self.segments.entry(pointer.segment).or_default();
            used.count += 1;
            used.bytes += u64::from(pointer.length);
        }
        let seqno = trailer.seqno();
        if self.entries == 0 {
            self.smallest = internal_key(user_key, trailer);
            (self.min_seqno, self.max_seqno) = (seqno, seqno);
        }
        self.entries += 1;
        self.tombstones += u64::from(kind == EntryKind::Delete);
        self.key_bytes += user_key.len() as u64;
        self.payload_bytes += payload.len() as u64;
        self.min_seqno = self.min_seqno.min(seqno);
        self.max_seqno = self.max_seqno.max(seqno);
        Ok(())
    }

    /// Returns the bytes of the records of separated values that the entries point to.
    pub fn value_bytes(&self) -> u64 {
        // I7: the numbers are from files.
        self.segments.values().map(|used| used.bytes).fold(0, u64::saturating_add)
    }

    /// Returns the user key of the first entry.
    pub fn smallest_key(&self) -> &[u8] {
        split_internal(&self.smallest).0
    }

    /// Returns the user key of the last entry.
    pub fn largest_key(&self) -> &[u8] {
        split_internal(&self.largest).0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.entries, self.tombstones, self.key_bytes, self.payload_bytes] {
            put_varint(out, number);
        }
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
        put_varint(out, self.min_seqno);
        put_varint(out, self.max_seqno);
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        put_varint(out, self.segments.len() as u64);
        for (segment, used) in &self.segments {
            for number in [segment.0, used.count, used.bytes] {
                put_varint(out, number);
            }
        }
        self.deadlines.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut summary = Summary {
            entries: reader.varint()?,
            tombstones: reader.varint()?,
            key_bytes: reader.varint()?,
            payload_bytes: reader.varint()?,
            smallest: decode_key(reader)?,
            largest: decode_key(reader)?,
            min_seqno: reader.varint()?,
            max_seqno: reader.varint()?,
            fingerprint: reader.u64()?,
            segments: decode_segments(reader)?,
            deadlines: DeadlineCounts::default(),
        };
        let most = summary.entries.saturating_sub(summary.tombstones);
        summary.deadlines = DeadlineCounts::decode(reader, most)?;
        let references = summary
            .segments
            .values()
            .try_fold(summary.tombstones, |sum, used| sum.checked_add(used.count));
        let possible = (1..=MAX_ENTRIES).contains(&summary.entries)
            && references.is_some_and(|sum| sum <= summary.entries)
            && summary.min_seqno <= summary.max_seqno
            && summary.max_seqno <= MAX_SEQNO;
        if !possible {
            return Err(Error::corruption("the numbers of a table contradict each other"));
        }
        Ok(summary)
    }
}

fn decode_key(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let key = reader.bytes()?;
    let (user_key, trailer) = split_internal(key);
    trailer.kind()?;
    if key.len() < Trailer::BYTES || user_key.len() > MAX_KEY_BYTES {
        return Err(Error::corruption(format!("a key can't have {} bytes", key.len())));
    }
    Ok(key.to_vec())
}

/// Returns the map in nodes that are full. A map that grew by insertions in ascending order takes
/// nearly twice the memory, and each table of a large store may name thousands of segments.
pub(super) fn dense(
    segments: impl IntoIterator<Item = (SegmentId, SegmentUse)>,
) -> BTreeMap<SegmentId, SegmentUse> {
    BTreeMap::from_iter(segments)
}

fn decode_segments(reader: &mut Reader<'_>) -> Result<BTreeMap<SegmentId, SegmentUse>> {
    let mut segments: Vec<(SegmentId, SegmentUse)> = Vec::new();
    // A segment takes at least one byte per field, which bounds the count.
    for _ in 0..reader.length(reader.rest().len() / 3)? {
        let segment = SegmentId::decode(reader)?;
        let used = SegmentUse { count: reader.varint()?, bytes: reader.varint()? };
        let ascends = segments.last().is_none_or(|(last, _)| *last < segment);
        if !ascends || used.count == 0 {
            return Err(Error::corruption(format!("the use of segment {segment} is misplaced")));
        }
        segments.push((segment, used));
    }
    Ok(dense(segments))
}

/// The keyspace of a table, as the table itself records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOwner {
    /// The id of the keyspace.
    pub id: KeyspaceId,
    /// The name of the keyspace when the table was written; a keyspace keeps its name for life.
    pub name: String,
    /// The name of its merge operator, which it keeps for life, too.
    pub merge_operator: Option<String>,
    /// All commits to it up to this sequence number are in its tables, or were overwritten or
    /// deleted, once this table is one of them; 0 if nothing is known of that.
    pub flushed: SeqNo,
}

/// The properties block of a table: what the table says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Its id.
    pub id: TableId,
    /// The keyspace of the table.
    pub owner: TableOwner,
    /// The name of the comparator of its keys.
    pub comparator: String,
    /// The codec of the blocks that compressed well enough.
    pub codec: Codec,
    /// The content of the table in numbers.
    pub summary: Arc<Summary>,
    /// The name of the policy that made the filter; `None` if the engine made it or there is none.
    pub filter_policy: Option<String>,
}

fn name(reader: &mut Reader<'_>) -> Result<String> {
    let name = std::str::from_utf8(reader.bytes()?);
    let name = name.map_err(|_| Error::corruption("a name in the properties is not UTF-8"))?;
    Ok(name.to_string())
}

/// Returns the next name, or `None` if it is empty or at the end.
fn optional_name(reader: &mut Reader<'_>) -> Result<Option<String>> {
    if reader.is_empty() {
        return Ok(None);
    }
    Ok(Some(name(reader)?).filter(|name| !name.is_empty()))
}

impl Properties {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.id.0);
        put_varint(&mut out, self.owner.id.0);
        put_bytes(&mut out, self.owner.name.as_bytes());
        put_bytes(&mut out, self.comparator.as_bytes());
        out.push(self.codec as u8);
        self.summary.encode(&mut out);
        let (policy, operator) = (&self.filter_policy, &self.owner.merge_operator);
        let flushed = Some(self.owner.flushed).filter(|seqno| *seqno > 0);
        if policy.is_some() || operator.is_some() || flushed.is_some() {
            put_bytes(&mut out, policy.as_deref().unwrap_or_default().as_bytes());
        }
        if operator.is_some() || flushed.is_some() {
            put_bytes(&mut out, operator.as_deref().unwrap_or_default().as_bytes());
        }
        if let Some(flushed) = flushed {
            put_varint(&mut out, flushed);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let id = TableId::decode(&mut reader)?;
        let (owner_id, owner_name) = (KeyspaceId::decode(&mut reader)?, name(&mut reader)?);
        let comparator = name(&mut reader)?;
        let codec = Codec::from_number(reader.u8()?)?;
        let summary = Arc::new(Summary::decode(&mut reader)?);
        let filter_policy = optional_name(&mut reader)?;
        let merge_operator = optional_name(&mut reader)?;
        let flushed = if reader.is_empty() { 0 } else { reader.varint()? };
        if flushed > MAX_SEQNO {
            return Err(Error::corruption(format!("{flushed} is no sequence number")));
        }
        let owner = TableOwner { id: owner_id, name: owner_name, merge_operator, flushed };
        reader.finish("the properties block")?;
        Ok(Properties { id, owner, comparator, codec, summary, filter_policy })
    }
}

/// The description of a table in the manifest. It is cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMeta {
    /// The id, the same as in the name and header of the file.
    pub id: TableId,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The content of the table in numbers.
    pub summary: Arc<Summary>,
    /// Range tombstones up to this sequence number hide nothing that is in the table. The manifest
    /// keeps the number apart from the rest of the description.
    pub applied_ranges: SeqNo,
    /// The sequence number of the ingest that brought the table, or 0. Its entries are stored with
    /// the number 0, because they are written before the ingest gets its own; each of them counts
    /// as one of this number. The manifest keeps it, too, and `summary` has it already.
    pub ingested_at: SeqNo,
}

impl TableMeta {
    /// Returns the description once the table is ingested at `seqno`; 0 changes nothing. It is an
    /// error if the table's entries have numbers of their own.
    pub fn ingested(self, seqno: SeqNo) -> Result<TableMeta> {
        if seqno == 0 {
            return Ok(self);
        }
        if self.summary.max_seqno > 0 {
            let message = format!("table {} was ingested, and its entries have numbers", self.id);
            return Err(Error::corruption(message));
        }
        let mut summary = (*self.summary).clone();
        (summary.min_seqno, summary.max_seqno) = (seqno, seqno);
        Ok(TableMeta { summary: Arc::new(summary), ingested_at: seqno, ..self })
    }

    /// Returns true if one ingest brought both tables.
    pub fn is_of_one_ingest_with(&self, other: &TableMeta) -> bool {
        self.ingested_at > 0 && self.ingested_at == other.ingested_at
    }

    /// Returns the summary as the file has it.
    pub fn stored_summary(&self) -> Cow<'_, Summary> {
        if self.ingested_at == 0 {
            return Cow::Borrowed(&*self.summary);
        }
        Cow::Owned(Summary { min_seqno: 0, max_seqno: 0, ..(*self.summary).clone() })
    }

    /// Appends the encoded description.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id.0);
        put_varint(out, self.bytes);
        self.stored_summary().encode(out);
    }

    /// Reads a description that [`TableMeta::encode`] wrote, from verified bytes (I7).
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let id = TableId::decode(reader)?;
        let bytes = reader.varint()?;
        let summary = Arc::new(Summary::decode(reader)?);
        Ok(TableMeta { id, bytes, summary, applied_ranges: 0, ingested_at: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rng;
    use super::*;
    use crate::base::pointer::ValuePointer;

    fn summary() -> Summary {
        let mut summary = Summary::default();
        let mut add = |key: &[u8], seqno, slot: Slot<'_>| {
            let mut payload = Vec::new();
            let entry = Payload::from(slot);
            entry.encode(&mut payload);
            summary.count(key, Trailer::new(seqno, entry.kind()), &payload).unwrap();
        };
        let pointer = |segment, length| {
            Slot::Pointer(ValuePointer { segment: SegmentId(segment), offset: 0, length })
        };
        add(b"a", 9, pointer(7, 100));
        add(b"b", 3, Slot::Delete);
        add(b"c", 5, pointer(2, ValuePointer::MIN_LENGTH));
        add(b"d", 8, pointer(7, u32::MAX));
        add(b"ee", 4, Slot::Inline(b"value"));
        summary.largest = internal_key(b"ee", Trailer::new(4, EntryKind::Put));
        summary.fingerprint = u64::MAX - 1;
        summary
    }

    #[test]
    fn i03_references_are_counted_per_segment() {
        let summary = summary();
        assert_eq!((summary.entries, summary.tombstones), (5, 1));
        assert_eq!((summary.key_bytes, summary.payload_bytes), (6, 5 + 3 + 3 + 7));
        assert_eq!((summary.min_seqno, summary.max_seqno), (3, 9));
        let expected = [
            (SegmentId(2), SegmentUse { count: 1, bytes: ValuePointer::MIN_LENGTH.into() }),
            (SegmentId(7), SegmentUse { count: 2, bytes: 100 + u64::from(u32::MAX) }),
        ];
        assert_eq!(summary.segments, BTreeMap::from(expected));
        let mut same = summary.clone();
        let pointer = Trailer::new(1, EntryKind::PutPointer);
        assert!(same.count(b"x", pointer, b"no pointer at all").is_err());
        assert!(same.count(b"x", Trailer(0xff), b"").is_err());
        assert_eq!(same, summary);
    }

    #[test]
    fn metas_and_properties_round_trip() {
        let summary = Arc::new(summary());
        let summary_of = summary.clone();
        let meta = TableMeta {
            id: TableId(300),
            bytes: 1 << 40,
            summary: summary_of,
            applied_ranges: 0,
            ingested_at: 0,
        };
        let mut out = Vec::new();
        meta.encode(&mut out);
        out.push(77);
        let mut reader = Reader::new(&out);
        assert_eq!(TableMeta::decode(&mut reader).unwrap(), meta);
        assert_eq!(reader.rest(), [77]);
        let named = |name: &str| Some(name.to_owned());
        let cases =
            [(None, None), (named("p"), None), (None, named("o")), (named("p"), named("o"))];
        let cases = cases.iter().flat_map(|case| [(case.clone(), 0), (case.clone(), 300)]);
        for ((filter_policy, merge_operator), flushed) in cases {
            let id = KeyspaceId(70_000);
            let properties = Properties {
                id: TableId(1),
                owner: TableOwner { id, name: "ключи".into(), merge_operator, flushed },
                comparator: "é".into(),
                codec: Codec::Zstd,
                summary: summary.clone(),
                filter_policy,
            };
            let bytes = properties.encode();
            assert_eq!(Properties::decode(&bytes).unwrap(), properties);
            for len in 0..bytes.len() {
                let less = Properties::decode(&bytes[..len]);
                assert!(less.is_err() || less.unwrap() != properties, "{len} bytes");
            }
        }
    }

    #[test]
    fn contradictions_are_corruption() {
        let spoil = |spoil: fn(&mut Summary)| {
            let mut bad = summary();
            spoil(&mut bad);
            let mut out = Vec::new();
            bad.encode(&mut out);
            Summary::decode(&mut Reader::new(&out))
        };
        spoil(|_| {}).unwrap();
        assert!(spoil(|s| s.entries = 0).is_err());
        assert!(spoil(|s| s.entries = MAX_ENTRIES).is_ok());
        assert!(spoil(|s| s.entries = MAX_ENTRIES + 1).is_err());
        assert!(spoil(|s| s.tombstones = 3).is_err());
        assert!(spoil(|s| s.min_seqno = 10).is_err());
        assert!(spoil(|s| s.max_seqno = MAX_SEQNO + 1).is_err());
        assert!(spoil(|s| s.smallest = vec![0; 7]).is_err());
        assert!(spoil(|s| s.largest = vec![9; 9]).is_err());
        assert!(spoil(|s| s.largest = vec![0; MAX_KEY_BYTES + 9]).is_err());
        let impossible = SegmentUse { count: u64::MAX, bytes: 0 };
        for (id, used) in [(9, SegmentUse::default()), (9, impossible)] {
            let mut bad = summary();
            bad.segments.insert(SegmentId(id), used);
            let mut out = Vec::new();
            bad.encode(&mut out);
            assert!(Summary::decode(&mut Reader::new(&out)).is_err());
        }
    }

    #[test]
    fn i07_no_bytes_make_it_panic() {
        let mut rng = Rng::new(3);
        let mut good = Vec::new();
        let summary = Arc::new(summary());
        TableMeta { id: TableId(1), bytes: 5, summary, applied_ranges: 0, ingested_at: 0 }
            .encode(&mut good);
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..1 + rng.below(5) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.below(256) as u8;
            }
            let _ = TableMeta::decode(&mut Reader::new(&bytes));
        }
    }
}
