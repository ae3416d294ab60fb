//! The description of a relocation in the manifest.
//!
//! ```text
//! meta   as varints: relocation id, id of the freed segment, bytes of the file, number of entries
//!        fingerprint (u64)
//!        number of targets (varint); for each target, by ascending id, as varints: segment id,
//!          number of entries, bytes of their records
//! ```
//! Validity: a relocation has as many entries as its targets have together. A relocation without
//! entries means that all of the segment was garbage. It has no file, and its id, bytes and
//! fingerprint are 0.
//!
//! Because of the fingerprint, an older file in the place of a relocation is refused even if it was
//! valid once and has the same id and numbers. Tables have one for the same reason.

use crate::base::coding::{Reader, put_varint};
use crate::base::error::{Error, Result};
use crate::base::pointer::{RelocationId, SegmentId};
use std::collections::BTreeMap;

/// The use of one target segment by a relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetUse {
    /// The number of records that moved to the segment.
    pub count: u64,
    /// The bytes of these records, headers and keys included.
    pub bytes: u64,
}

/// The description of the relocation of one freed segment in the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelocationMeta {
    /// The id, the same as in the name and header of the file; 0 if there is no file.
    pub id: RelocationId,
    /// The freed segment.
    pub segment: SegmentId,
    /// The length of the file in bytes; 0 if there is no file.
    pub bytes: u64,
    /// The number of records that were moved.
    pub entries: u64,
    /// A hash of all entries, which distinguishes the file from others with the same numbers.
    pub fingerprint: u64,
    /// The segments that hold the moved records now.
    pub targets: BTreeMap<SegmentId, TargetUse>,
}

impl RelocationMeta {
    /// Makes the description for a segment without live records: no file, no entries.
    pub fn empty(segment: SegmentId) -> Self {
        let (id, targets) = (RelocationId(0), BTreeMap::new());
        RelocationMeta { id, segment, bytes: 0, entries: 0, fingerprint: 0, targets }
    }

    /// Returns true if the relocation has a file, that is, if it has entries.
    pub fn has_file(&self) -> bool {
        self.entries > 0
    }

    /// Appends the encoded description.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.id.0, self.segment.0, self.bytes, self.entries] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        put_varint(out, self.targets.len() as u64);
        for (segment, used) in &self.targets {
            for number in [segment.0, used.count, used.bytes] {
                put_varint(out, number);
            }
        }
    }

    /// Reads a description that [`RelocationMeta::encode`] wrote, from verified bytes (I7).
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let meta = RelocationMeta {
            id: RelocationId::decode(reader)?,
            segment: SegmentId::decode(reader)?,
            bytes: reader.varint()?,
            entries: reader.varint()?,
            fingerprint: reader.u64()?,
            targets: decode_targets(reader)?,
        };
        let counted = meta.targets.values().try_fold(0u64, |sum, used| sum.checked_add(used.count));
        let possible = match meta.entries {
            0 => meta == Self::empty(meta.segment),
            entries => {
                let leads_back = meta.targets.contains_key(&meta.segment);
                meta.id.0 > 0 && meta.bytes > 0 && counted == Some(entries) && !leads_back
            }
        };
        if !possible {
            return Err(Error::corruption("the numbers of a relocation contradict each other"));
        }
        Ok(meta)
    }
}

fn decode_targets(reader: &mut Reader<'_>) -> Result<BTreeMap<SegmentId, TargetUse>> {
    let mut targets = BTreeMap::new();
    // A target takes at least one byte per field, which bounds the count.
    for _ in 0..reader.length(reader.rest().len() / 3)? {
        let segment = SegmentId::decode(reader)?;
        let used = TargetUse { count: reader.varint()?, bytes: reader.varint()? };
        let ascends = targets.last_key_value().is_none_or(|(last, _)| *last < segment);
        if !ascends || used.count == 0 {
            return Err(Error::corruption(format!("target {segment} is misplaced")));
        }
        targets.insert(segment, used);
    }
    Ok(targets)
}
