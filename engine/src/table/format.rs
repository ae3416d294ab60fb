//! The format of a table file.
//!
//! ```text
//! 40 bytes   header (base/header.rs), kind "TABL", file id = table id
//! …          data blocks, one behind the other, in key order
//! …          filter block; absent where the keyspace has none
//! …          index block
//! …          properties block
//! 64 bytes   footer
//! ```
//! These parts adjoin. Every block is followed by its trailer:
//!
//! ```text
//! offset  bytes  what
//!      0      n  the block, perhaps compressed
//!      n      4  its length before compression
//!    n+4      1  codec (base/compression.rs)
//!    n+5      4  checksum32 of all before, seeded by (database, table, offset of the block)
//! ```
//! The footer:
//!
//! ```text
//! offset  bytes  what
//!      0     16  filter block: offset, length with trailer; both zero if absent
//!     16     16  index block: offset, length with trailer
//!     32     16  properties block: offset, length with trailer
//!     48      8  checksum64 of the 48 bytes before, seeded like a block's
//!     56      8  magic, "CLVTABLE"
//! ```
//! All integers are little-endian.
//!
//! Validity: the file is exactly as long as the manifest says; header and footer validate; filter,
//! index and properties lie back to back and end at the footer; the index's handles lie back to
//! back from the header to them; the properties agree with the manifest. A block is valid if its
//! checksum holds, its length is at most [`MAX_BLOCK_BYTES`] and decompression yields exactly that
//! length. Because each checksum is seeded by the place, a block or file that was swapped with
//! another never validates.
//!
//! Reader: length, header, footer; then filter, index and properties in one read, which stay in
//! memory; after that one read per data block. The contents of the blocks are described in
//! `block.rs` (data), `index.rs`, `filter.rs` and `properties.rs`.

use crate::base::blocks::{FileSeed, seal_footer, unseal_footer};
use crate::base::checksum::checksum32;
use crate::base::coding::{Reader, put_varint};
use crate::base::compression::{Codec, compress, decompress};
use crate::base::error::{Error, Result};
use crate::base::header::HEADER_BYTES;
use crate::base::key::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// The size of the trailer after every block, in bytes.
pub(super) const TRAILER_BYTES: usize = 9;
/// The size of the footer in bytes.
pub(super) const FOOTER_BYTES: usize = 64;
/// The size of the largest block before compression, in bytes: the largest entry plus room for
/// lengths and restarts.
pub(super) const MAX_BLOCK_BYTES: usize = MAX_VALUE_BYTES + MAX_KEY_BYTES + (2 << 20);
/// The file offset of the first data block.
pub(super) const DATA_START: u64 = HEADER_BYTES as u64;

const MAGIC: [u8; 8] = *b"CLVTABLE";

/// The place of a block in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHandle {
    pub(super) offset: u64,
    /// The size in the file in bytes, trailer included.
    pub(super) len: u32,
}

impl BlockHandle {
    /// Returns the offset after the block. Decoding has checked that it does not overflow.
    pub(super) fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.len));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Self::checked(reader.varint()?, u64::from(reader.varint32()?))
    }

    fn checked(offset: u64, len: u64) -> Result<Self> {
        let fits = len as usize >= TRAILER_BYTES && offset.checked_add(len).is_some();
        match u32::try_from(len) {
            Ok(len) if fits => Ok(BlockHandle { offset, len }),
            _ => Err(Error::corruption(format!("no block can be at {offset} with {len} bytes"))),
        }
    }
}

/// Appends `raw` to `out` as a block that will lie at `offset` in the file. The block is compressed
/// if that saves enough. Returns its handle.
pub(super) fn seal(
    out: &mut Vec<u8>,
    seed: FileSeed,
    offset: u64,
    codec: Codec,
    raw: &[u8],
) -> Result<BlockHandle> {
    if raw.len() > MAX_BLOCK_BYTES {
        return Err(Error::invalid_option(format!("a block of {} bytes is too large", raw.len()))
            .advise("set a smaller table size"));
    }
    let start = out.len();
    let used = match compress(codec, raw) {
        Some((used, compressed)) => {
            out.extend_from_slice(&compressed);
            used
        }
        None => {
            out.extend_from_slice(raw);
            Codec::None
        }
    };
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    out.push(used as u8);
    let sum = checksum32(seed.at(offset), &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
    Ok(BlockHandle { offset, len: (out.len() - start) as u32 })
}

/// The parts of a sealed block whose checksum was verified.
struct SealedBlock<'a> {
    codec: Codec,
    raw_len: usize,
    body: &'a [u8],
}

/// I7: splits a sealed block into its parts, only after its checksum was verified.
fn check(seed: FileSeed, offset: u64, sealed: &[u8]) -> Result<SealedBlock<'_>> {
    let short = || Error::corruption("the block is shorter than its trailer");
    let (covered, sum) = sealed.split_last_chunk::<4>().ok_or_else(short)?;
    if checksum32(seed.at(offset), covered) != u32::from_le_bytes(*sum) {
        return Err(Error::corruption("the block's checksum does not match"));
    }
    let (rest, codec) = covered.split_last_chunk::<1>().ok_or_else(short)?;
    let (body, raw_len) = rest.split_last_chunk::<4>().ok_or_else(short)?;
    let codec = Codec::from_number(codec[0])?;
    let raw_len = u32::from_le_bytes(*raw_len) as usize;
    if raw_len > MAX_BLOCK_BYTES || (codec == Codec::None && raw_len != body.len()) {
        return Err(Error::corruption(format!("a block can't be {raw_len} bytes long")));
    }
    Ok(SealedBlock { codec, raw_len, body })
}

/// Verifies the sealed block at `offset` and returns its decompressed bytes. They are not copied if
/// the block is not compressed.
pub(super) fn unseal(seed: FileSeed, offset: u64, mut sealed: Vec<u8>) -> Result<Vec<u8>> {
    let found = check(seed, offset, &sealed)?;
    if found.codec == Codec::None {
        sealed.truncate(found.raw_len);
        return Ok(sealed);
    }
    decompress(found.codec, found.body, found.raw_len)
}

/// Does the same as [`unseal`] for a slice of a buffer that holds other blocks as well.
pub(super) fn unseal_slice(seed: FileSeed, offset: u64, sealed: &[u8]) -> Result<Vec<u8>> {
    let found = check(seed, offset, sealed)?;
    decompress(found.codec, found.body, found.raw_len)
}

/// The footer, which says where the blocks after the data are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) filter: Option<BlockHandle>,
    pub(super) index: BlockHandle,
    pub(super) properties: BlockHandle,
}

impl Footer {
    /// Returns the offset at which the data blocks end.
    pub(super) fn data_end(&self) -> u64 {
        self.filter.map_or(self.index.offset, |filter| filter.offset)
    }

    /// Appends the footer, which will lie at `offset`.
    pub(super) fn encode(&self, out: &mut Vec<u8>, seed: FileSeed, offset: u64) {
        let start = out.len();
        for handle in [self.filter, Some(self.index), Some(self.properties)] {
            let (offset, len) = handle.map_or((0, 0), |handle| (handle.offset, handle.len));
            out.extend_from_slice(&offset.to_le_bytes());
            out.extend_from_slice(&u64::from(len).to_le_bytes());
        }
        seal_footer(out, start, seed.at(offset), MAGIC);
    }

    /// Decodes the footer that lies at `offset`, and checks that its blocks end there.
    pub(super) fn decode(bytes: &[u8], seed: FileSeed, offset: u64) -> Result<Footer> {
        let covered = unseal_footer(bytes, FOOTER_BYTES, seed.at(offset), MAGIC, "the table")?;
        let mut reader = Reader::new(covered);
        let filter = match (reader.u64()?, reader.u64()?) {
            (0, 0) => None,
            (offset, len) => Some(BlockHandle::checked(offset, len)?),
        };
        let index = BlockHandle::checked(reader.u64()?, reader.u64()?)?;
        let properties = BlockHandle::checked(reader.u64()?, reader.u64()?)?;
        let footer = Footer { filter, index, properties };
        let adjoin = filter.is_none_or(|filter| filter.end() == index.offset)
            && index.end() == properties.offset
            && properties.end() == offset
            && footer.data_end() >= DATA_START;
        if !adjoin {
            return Err(Error::corruption("the footer's blocks do not adjoin"));
        }
        Ok(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i07_a_block_validates_only_as_it_was_and_where_it_was() {
        let seed = FileSeed::new(7, 1);
        for (codec, raw) in [(Codec::Lz4, b"abcdefgh".repeat(50)), (Codec::None, b"abc".to_vec())] {
            let mut out = vec![0; 40];
            let handle = seal(&mut out, seed, 40, codec, &raw).unwrap();
            assert_eq!((handle.offset, handle.end()), (40, out.len() as u64));
            let sealed = &out[40..];
            assert_eq!(unseal(seed, 40, sealed.to_vec()).unwrap(), raw);
            assert_eq!(unseal_slice(seed, 40, sealed).unwrap(), raw);
            for other in [FileSeed::new(7, 2), FileSeed::new(8, 1)] {
                assert!(unseal(other, 40, sealed.to_vec()).is_err());
            }
            assert!(unseal(seed, 41, sealed.to_vec()).is_err());
            for at in 0..sealed.len() {
                let mut bad = sealed.to_vec();
                bad[at] ^= 1;
                assert!(unseal(seed, 40, bad).is_err(), "byte {at}");
                assert!(unseal_slice(seed, 40, &sealed[..at]).is_err(), "{at} bytes");
            }
        }
    }

    #[test]
    fn a_promised_length_is_bounded_before_it_is_used() {
        let seed = FileSeed::new(7, 1);
        for (raw_len, codec) in [(u32::MAX, 1u8), (4, 0), (3, 9), (MAX_BLOCK_BYTES as u32 + 1, 2)] {
            let mut sealed = b"abc".to_vec();
            sealed.extend_from_slice(&raw_len.to_le_bytes());
            sealed.push(codec);
            let sum = checksum32(seed.at(0), &sealed);
            sealed.extend_from_slice(&sum.to_le_bytes());
            let error = unseal(seed, 0, sealed).unwrap_err();
            let expected = if codec == 9 { "unknown" } else { "can't be" };
            assert!(error.message().contains(expected), "{raw_len} {codec}: {error}");
        }
        let mut huge = Vec::new();
        BlockHandle { offset: u64::MAX, len: 9 }.encode(&mut huge);
        assert!(BlockHandle::decode(&mut Reader::new(&huge)).is_err());
    }

    #[test]
    fn footers_round_trip_and_their_blocks_must_adjoin() {
        let seed = FileSeed::new(7, 1);
        let handle = |offset, len| BlockHandle { offset, len };
        let good = Footer {
            filter: Some(handle(100, 50)),
            index: handle(150, 20),
            properties: handle(170, 30),
        };
        let decode = |footer: Footer, offset| {
            let mut out = Vec::new();
            footer.encode(&mut out, seed, offset);
            assert_eq!(out.len(), FOOTER_BYTES);
            Footer::decode(&out, seed, offset)
        };
        assert_eq!(decode(good, 200).unwrap(), good);
        assert_eq!(good.data_end(), 100);
        let bare = Footer { filter: None, ..good };
        assert_eq!(decode(bare, 200).unwrap().data_end(), 150);
        assert!(decode(good, 201).is_err());
        assert!(decode(Footer { index: handle(151, 19), ..good }, 200).is_err());
        assert!(decode(Footer { filter: Some(handle(30, 120)), ..good }, 200).is_err());
        assert!(decode(Footer { index: handle(162, 8), ..bare }, 200).is_err());
        let mut out = Vec::new();
        good.encode(&mut out, seed, 200);
        for at in 0..FOOTER_BYTES {
            let mut bad = out.clone();
            bad[at] ^= 0x40;
            assert!(Footer::decode(&bad, seed, 200).is_err(), "byte {at}");
        }
    }
}
