//! The header of a frame, which holds one commit. The format and the rule of validity are at the
//! top of `format.rs`.
//!
//! I1: a frame is accepted whole or not at all: the header promises how many records fill the body,
//! and `scan.rs` verifies it. I7: the checksum is verified first, then every field is bounded.

use super::record::{MIN_RECORD_BYTES, RecordInput, RecordSeal};
use crate::base::checksum::{checksum32, seed};
use crate::base::error::{Error, Result};
use crate::base::key::{MAX_SEQNO, SeqNo};

/// The length of a frame's header in bytes.
pub const FRAME_HEADER_BYTES: usize = 24;

/// The decoded header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the body in bytes.
    pub body_bytes: u32,
    /// The number of records in the body.
    pub count: u32,
    /// The number of bytes of the segment that were known to be synced when the frame was made;
    /// `u32::MAX` stands for that many or more.
    pub durable: u32,
    /// The sequence number of the first record; 0 in a sorted segment.
    pub first_seqno: SeqNo,
}

impl FrameHeader {
    /// Encodes the header for a frame at `offset`.
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

    /// Decodes the fields without verifying them; they may have any value.
    pub fn peek(bytes: &[u8; FRAME_HEADER_BYTES]) -> FrameHeader {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let first_seqno = u64::from_le_bytes(std::array::from_fn(|i| bytes[16 + i]));
        FrameHeader { body_bytes: u32_at(4), count: u32_at(8), durable: u32_at(12), first_seqno }
    }

    /// Decodes and verifies the header of a frame at `offset`; `left` bytes of the file follow the
    /// header.
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

    /// Returns the sequence number of the last record. The fields must be plausible.
    pub fn last_seqno(&self) -> SeqNo {
        self.first_seqno + u64::from(self.count) - 1
    }

    /// Returns the length in bytes of the whole frame.
    pub fn frame_bytes(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(self.body_bytes)
    }

    /// Returns true if a frame can have these fields when `left` bytes follow its header.
    pub fn is_plausible(&self, left: u64) -> bool {
        let records_fit = u64::from(self.count) * MIN_RECORD_BYTES as u64 <= self.body_bytes.into();
        let last = self.first_seqno.saturating_add(u64::from(self.count).saturating_sub(1));
        self.count > 0 && records_fit && u64::from(self.body_bytes) <= left && last <= MAX_SEQNO
    }
}

/// Returns the length in bytes of the body of a frame that holds `records`, numbered from
/// `first_seqno` on. It is an error if that exceeds a frame's limit of 4 GiB.
pub fn body_bytes(
    first_seqno: SeqNo,
    records: &[RecordInput<'_>],
    seal: &RecordSeal,
) -> Result<u32> {
    let numbered = (first_seqno..).zip(records);
    let bytes = |record: &RecordInput<'_>, seqno| record.record_bytes(seqno) + seal.tag_bytes();
    let body: u64 = numbered.map(|(seqno, record)| bytes(record, seqno) as u64).sum();
    u32::try_from(body).map_err(|_| {
        Error::invalid_argument(format!("a batch of {body} bytes does not fit a frame of 4 GiB"))
            .advise("split the batch")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

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
