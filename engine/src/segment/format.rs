//! The format of a segment, and encoding and decoding of its head. Frame headers and records are
//! encoded in `frame.rs` and `record.rs`.
//!
//! ```text
//! file    = head | frame*            all integers little-endian; "varint" is LEB128, minimal
//!
//! head, written once when the segment is activated (before, the file may exist empty)
//!   offset  bytes  what
//!        0     40  file header (base::header): kind "SEGM", database, segment id
//!       40      1  kind: 1 log, 2 sorted
//!       41      1  1 if the records are encrypted, else 0
//!       42      6  how far below this segment's id the first segment of the log was that was not
//!                  known to be synced when this one was begun; 0: all before it were
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
//!        4      1  low nibble: 0 delete, 1 put, 2 put with a deadline, 3 delete of a range,
//!                  4 merge, 5 ingest; high nibble: codec of the stored value
//!        5 varint  keyspace
//!          varint  sequence number
//!          varint  length of the key, at most 64 KiB
//!          varint  length of the stored value, at most 1 GiB; 0 for a delete
//!          varint  length of the raw value, at most 1 GiB; absent if the codec is none
//!          varint  deadline, in milliseconds since 1970; only in a put with a deadline
//!               …  key
//!               …  stored value
//! ```
//!
//! In an encrypted segment 16 bytes more lie behind a record's checksum: the tag of key and stored
//! value, which are encrypted, and of the fields before them, which are not (`base/seal.rs`).
//!
//! The delete of a range has the lower key as its key. Its value is a byte of bits and the upper
//! key: 1, there is a lower key; 2, it is excluded; 4, there is an upper key; 8, it is included.
//!
//! A put is stored in the same way whether the tree keeps its value inline or points to it.
//!
//! **Validity.** A frame is valid if its header's checksum holds, its body lies within the file,
//! and exactly the promised number of records fills the body, each with a good checksum and, in a
//! log segment, with consecutive sequence numbers that begin with the header's. No checksum is ever
//! zero, so zeroes never validate. The seeds contain the epoch and the offset, so bytes of another
//! file and bytes moved within a file do not validate either.
//!
//! **Readers.** *By pointer*: a reader fetches `length` bytes at `offset`, verifies the checksum
//! over all of them, and then requires that the fields fill them exactly and name the right
//! keyspace, key and sequence number. *By scan of a sealed segment*, whose final length is in the
//! head of the next segment or in the manifest: all frames must be valid and the last must end
//! exactly there; anything else is corruption. *By scan of an unsynced segment*, which was sealed
//! and perhaps not synced before a crash, and *of the tail*, the last log segment after a crash: at
//! the first bad frame, at offset X, there are two cases. If a sync reached X, this is
//! corruption. If none did, this is a torn write, after which any part of the unsynced rest may be
//! present, even whole later frames. The frames that follow decide: the rest of the file is
//! searched byte by byte, and if it holds a valid frame whose `durable` is greater than X, then X
//! was on stable storage before that frame was made, so this is corruption. Otherwise, if only
//! zeroes follow, they were prepared for appends and never written; else the tail from X on is torn
//! and is ignored. The rule cannot detect corruption of the last synced frames of a crashed log if
//! no later frame was written after their sync. After a clean close the manifest holds the length,
//! and the segment is read as sealed.

use crate::base::checksum::checksum64;
use crate::base::coding::Reader;
use crate::base::error::{Error, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::key::{MAX_SEQNO, SeqNo};
use crate::base::pointer::{MAX_ID, SegmentId};

/// The length of an encoded [`SegmentHead`] in bytes; the first frame begins at this offset.
pub const HEAD_BYTES: usize = HEADER_BYTES + 48;

/// The bytes of a head that say what was not synced before it.
const BELOW_BYTES: usize = 6;

/// The order of a segment's records. The numbers are persistent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Commit order: the segment is a part of the log.
    #[default]
    Log = 1,
    /// Key order, perhaps of several parts: the segment holds values copied by value GC or by a
    /// compaction job.
    Sorted = 2,
}

/// The decoded head of an activated segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHead {
    /// The id of the database that the segment belongs to.
    pub database: u64,
    /// The segment's id, the same as in its file name.
    pub id: SegmentId,
    /// The order of the segment's records.
    pub kind: SegmentKind,
    /// True if the records are encrypted.
    pub is_encrypted: bool,
    /// The random number that seeds every checksum of the file.
    pub epoch: u64,
    /// The sequence number of the first record; 0 in a sorted segment.
    pub first_seqno: SeqNo,
    /// The log segment before this one; `None` for the first and for sorted segments.
    pub previous: Option<SegmentId>,
    /// The final length of the previous segment in bytes; 0 if there is none.
    pub previous_bytes: u64,
    /// The first segment of the log that was not known to be synced when this one was begun; `None`
    /// if all before this one were.
    pub first_unsynced: Option<SegmentId>,
}

/// The fields that the manifest records for a segment and that its head must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentIdentity {
    /// The id of the database that the segment belongs to.
    pub database: u64,
    /// The segment's id, the same as in its file name.
    pub id: SegmentId,
    /// The order of the segment's records.
    pub kind: SegmentKind,
    /// The seed of the segment's checksums.
    pub epoch: u64,
}

impl SegmentHead {
    /// Returns the fields that the manifest records too.
    pub fn identity(&self) -> SegmentIdentity {
        let SegmentHead { database, id, kind, epoch, .. } = *self;
        SegmentIdentity { database, id, kind, epoch }
    }

    /// Returns the id below which every segment of the log was synced before this head was written.
    pub fn synced_below(&self) -> SegmentId {
        self.first_unsynced.unwrap_or(self.id)
    }

    /// Returns the encoded head.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let previous = self.previous.map_or(0, |id| id.0);
        assert_eq!(previous == 0, self.previous.is_none(), "segment 0 does not exist");
        let mut out = [0; HEAD_BYTES];
        let header = Header::new(FileKind::Segment, self.database, self.id.0).encode();
        out[..HEADER_BYTES].copy_from_slice(&header);
        out[40] = self.kind as u8;
        out[41] = self.is_encrypted.into();
        let below = self.id.0.checked_sub(self.synced_below().0).expect("an earlier segment");
        assert!(below < 1 << (8 * BELOW_BYTES), "ids are given out one by one");
        out[42..48].copy_from_slice(&below.to_le_bytes()[..BELOW_BYTES]);
        out[48..56].copy_from_slice(&self.epoch.to_le_bytes());
        out[56..64].copy_from_slice(&self.first_seqno.to_le_bytes());
        out[64..72].copy_from_slice(&previous.to_le_bytes());
        out[72..80].copy_from_slice(&self.previous_bytes.to_le_bytes());
        let sum = checksum64(self.epoch, &out[HEADER_BYTES..80]);
        out[80..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the head of segment `id` of `database`; the head of any other segment is an error.
    pub fn decode(bytes: &[u8], database: u64, id: SegmentId) -> Result<SegmentHead> {
        Header::decode_expected(bytes, FileKind::Segment, database, id.0)?;
        let mut reader = Reader::new(bytes.get(HEADER_BYTES..).unwrap_or_default());
        let covered = reader.clone().take(40)?;
        let kind = reader.u8()?;
        let encrypted = reader.u8()?;
        let below = reader.take(BELOW_BYTES)?;
        let epoch = reader.u64()?;
        let first_seqno = reader.u64()?;
        let previous = reader.u64()?;
        let previous_bytes = reader.u64()?;
        // I7: the epoch is needed for the checksum; no other field is used before the checksum
        // holds.
        if reader.u64()? != checksum64(epoch, covered) {
            return Err(Error::corruption("the segment head's checksum does not match"));
        }
        let kind = SegmentKind::from_number(kind.into())?;
        let mut bytes = [0; 8];
        bytes[..BELOW_BYTES].copy_from_slice(below);
        let below = u64::from_le_bytes(bytes);
        // What was not synced is the segment before this one, or further back.
        let is_possible = below == 0
            || id.0.checked_sub(below).is_some_and(|first| first > 0 && first <= previous);
        if first_seqno > MAX_SEQNO || previous > MAX_ID || encrypted > 1 || !is_possible {
            return Err(Error::corruption("the segment head has impossible fields"));
        }
        let previous = (previous != 0).then_some(SegmentId(previous));
        let is_encrypted = encrypted == 1;
        Ok(SegmentHead {
            database,
            id,
            kind,
            is_encrypted,
            epoch,
            first_seqno,
            previous,
            previous_bytes,
            first_unsynced: (below > 0).then_some(SegmentId(id.0 - below)),
        })
    }
}

impl SegmentKind {
    /// Returns the kind with this persistent number.
    pub fn from_number(number: u64) -> Result<SegmentKind> {
        match number {
            1 => Ok(SegmentKind::Log),
            2 => Ok(SegmentKind::Sorted),
            other => Err(Error::corruption(format!("segment kind {other} does not exist"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: SegmentHead = SegmentHead {
        database: 7,
        id: SegmentId(12),
        kind: SegmentKind::Log,
        is_encrypted: true,
        epoch: 0xdead_beef,
        first_seqno: 100,
        previous: Some(SegmentId(11)),
        previous_bytes: 4096,
        first_unsynced: Some(SegmentId(9)),
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
    fn a_head_says_up_to_where_the_log_was_synced() {
        for (first_unsynced, below) in [(None, 12), (Some(11), 11), (Some(1), 1)] {
            let first_unsynced = first_unsynced.map(SegmentId);
            let head = SegmentHead { first_unsynced, ..HEAD };
            let read = SegmentHead::decode(&head.encode(), 7, SegmentId(12)).unwrap();
            assert_eq!((read, read.synced_below()), (head, SegmentId(below)));
        }
        let own = SegmentHead { previous: Some(SegmentId(8)), ..HEAD };
        let error = SegmentHead::decode(&own.encode(), 7, SegmentId(12)).unwrap_err();
        assert!(error.to_string().contains("impossible"), "a segment behind the previous: {error}");
    }
}
