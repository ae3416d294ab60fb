//! The ends of tables: where their indexes are, and which checksums their blocks have.
//!
//! ```text
//! LevelDB         handles of metaindex and index, padded to 40 | magic, 8
//! RocksDB 1 to 5  checksum kind, 1 | handles, padded to 40 | version, 4 | magic, 8
//! RocksDB 6       checksum kind, 1 | 3e 00 7a 00 | checksum, 4 | base, 4 | size of
//!                 metaindex, 4 | zeroes, 24 | version, 4 | magic, 8
//! ```
//!
//! From version 6 on a checksum has something added that is made of the base and the block's
//! offset, and the metaindex, which lies right before the footer, names the index.

use crate::import::crc32c::{crc32c, masked};
use crate::import::cursor::ByteCursor;
use cleavedb::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;
use xxhash_rust::xxh32::Xxh32;
use xxhash_rust::xxh64::Xxh64;

/// Behind each block: the kind of its compression, and a checksum of 4.
pub(crate) const TRAILER_BYTES: usize = 5;
/// The end of a file that holds any of the footers.
pub(crate) const FOOTER_BYTES: usize = 53;
pub(crate) const LEVELDB_FOOTER_BYTES: usize = 48;
pub(crate) const LEVELDB_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const ROCKSDB_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const PLAIN_MAGICS: [u64; 2] = [0x8242_2296_63bf_4564, 0x4f34_18eb_7a8f_13b8];
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];
/// A padding that RocksDB multiplies the last byte with, because XXH3 is not cheap to extend.
const LAST_BYTE_FACTOR: u32 = 0x6b90_83d9;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    pub(crate) offset: u64,
    /// Its bytes, without the trailer.
    pub(crate) size: u64,
}

impl BlockSpan {
    pub(crate) fn decode(cursor: &mut ByteCursor<'_>) -> Option<Self> {
        Some(BlockSpan { offset: cursor.varint64()?, size: cursor.varint64()? })
    }
}

/// The checksum of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumKind {
    None,
    Crc32c,
    XxHash32,
    XxHash64,
    Xxh3,
}

impl ChecksumKind {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => ChecksumKind::None,
            1 => ChecksumKind::Crc32c,
            2 => ChecksumKind::XxHash32,
            3 => ChecksumKind::XxHash64,
            4 => ChecksumKind::Xxh3,
            _ => return None,
        })
    }

    /// Returns the checksum of bytes and one more, as it is stored.
    fn sum(self, bytes: &[u8], last: u8) -> u32 {
        match self {
            ChecksumKind::None => 0,
            ChecksumKind::Crc32c => masked(crc32c(&[bytes, &[last]])),
            ChecksumKind::XxHash32 => {
                let mut hash = Xxh32::new(0);
                hash.update(bytes);
                hash.update(&[last]);
                hash.digest()
            }
            ChecksumKind::XxHash64 => {
                let mut hash = Xxh64::new(0);
                hash.update(bytes);
                hash.update(&[last]);
                hash.digest() as u32
            }
            ChecksumKind::Xxh3 => {
                xxh3_64(bytes) as u32 ^ u32::from(last).wrapping_mul(LAST_BYTE_FACTOR)
            }
        }
    }
}

/// What a footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableFooter {
    /// 0 for a table of LevelDB.
    pub(crate) version: u32,
    checksum: ChecksumKind,
    /// 0 if checksums have nothing added.
    base: u32,
    pub(crate) metaindex: BlockSpan,
    /// `None` if the metaindex names it.
    pub(crate) index: Option<BlockSpan>,
}

impl TableFooter {
    /// Decodes the last bytes of a file of `file_bytes`, up to [`FOOTER_BYTES`] of them.
    pub(crate) fn decode(end: &[u8], file_bytes: u64) -> Result<Self> {
        let (rest, magic) = end
            .split_last_chunk::<8>()
            .ok_or_else(|| Error::corruption("the table is too short to be one"))?;
        match u64::from_le_bytes(*magic) {
            LEVELDB_MAGIC => leveldb(rest),
            ROCKSDB_MAGIC => rocksdb(rest, end, file_bytes),
            magic if PLAIN_MAGICS.contains(&magic) => {
                Err(Error::unsupported("the table has RocksDB's plain format, not blocks"))
            }
            _ => Err(Error::corruption(
                "the table does not end with the mark of one: it is damaged, or encrypted",
            )),
        }
    }

    /// Returns true if `stored` is the checksum of a block at this offset. While fuzzing, all are,
    /// so that what is behind them is reached.
    pub(crate) fn is_sum(&self, stored: u32, bytes: &[u8], kind: u8, offset: u64) -> bool {
        cfg!(fuzzing)
            || self.checksum == ChecksumKind::None
            || stored == self.checksum.sum(bytes, kind).wrapping_add(self.added(offset))
    }

    fn added(&self, offset: u64) -> u32 {
        match self.base {
            0 => 0,
            base => base ^ (offset as u32).wrapping_add((offset >> 32) as u32),
        }
    }
}

fn leveldb(rest: &[u8]) -> Result<TableFooter> {
    let handles = rest.last_chunk::<40>().and_then(|bytes| handle_pair(bytes));
    let (metaindex, index) = handles.ok_or_else(damaged)?;
    let checksum = ChecksumKind::Crc32c;
    Ok(TableFooter { version: 0, checksum, base: 0, metaindex, index: Some(index) })
}

fn handle_pair(bytes: &[u8]) -> Option<(BlockSpan, BlockSpan)> {
    let mut cursor = ByteCursor::new(bytes);
    Some((BlockSpan::decode(&mut cursor)?, BlockSpan::decode(&mut cursor)?))
}

fn damaged() -> Error {
    Error::corruption("the end of the table cannot be understood")
}

fn rocksdb(rest: &[u8], end: &[u8], file_bytes: u64) -> Result<TableFooter> {
    let (rest, version) = rest.split_last_chunk::<4>().ok_or_else(damaged)?;
    let version = u32::from_le_bytes(*version);
    let part = rest.last_chunk::<41>().ok_or_else(damaged)?;
    let checksum = ChecksumKind::of(part[0]).ok_or_else(|| {
        Error::unsupported(format!("the table has checksums of the unknown kind {}", part[0]))
    })?;
    match version {
        1..=5 => {
            let (metaindex, index) = handle_pair(&part[1..]).ok_or_else(damaged)?;
            Ok(TableFooter { version, checksum, base: 0, metaindex, index: Some(index) })
        }
        6 => extended(version, checksum, part, end, file_bytes),
        _ => Err(Error::unsupported(format!(
            "the table has the format version {version}, and 1 to 6 are known"
        ))),
    }
}

fn extended(
    version: u32,
    checksum: ChecksumKind,
    part: &[u8; 41],
    end: &[u8],
    file_bytes: u64,
) -> Result<TableFooter> {
    let mut cursor = ByteCursor::new(&part[1..]);
    let magic = cursor.take(4).ok_or_else(damaged)?;
    let (stored, base) = (cursor.fixed32().ok_or_else(damaged)?, cursor.fixed32());
    let (base, size) = (base.ok_or_else(damaged)?, cursor.fixed32().ok_or_else(damaged)?);
    if magic != EXTENDED_MAGIC || base == 0 {
        return Err(damaged());
    }
    if part[33..].iter().any(|&byte| byte != 0) {
        return Err(Error::unsupported("the table uses a feature that is not known here"));
    }
    let footer_at = file_bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(damaged)?;
    let metaindex_end = footer_at.checked_sub(TRAILER_BYTES as u64).ok_or_else(damaged)?;
    let offset = metaindex_end.checked_sub(u64::from(size)).ok_or_else(damaged)?;
    let metaindex = BlockSpan { offset, size: u64::from(size) };
    let footer = TableFooter { version, checksum, base, metaindex, index: None };
    let mut summed = *end.last_chunk::<FOOTER_BYTES>().ok_or_else(damaged)?;
    summed[5..9].fill(0);
    let (last, summed) = summed.split_last().ok_or_else(damaged)?;
    if !footer.is_sum(stored, summed, *last, footer_at) {
        return Err(Error::corruption("the checksum of the table's footer does not match"));
    }
    Ok(footer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rocksdb_footer(version: u32, checksum: u8) -> Vec<u8> {
        let mut end = vec![checksum, 5, 6, 7, 8];
        end.resize(41, 0);
        end.extend_from_slice(&version.to_le_bytes());
        end.extend_from_slice(&ROCKSDB_MAGIC.to_le_bytes());
        end
    }

    #[test]
    fn footers_that_are_not_known_are_refused() {
        let footer = TableFooter::decode(&rocksdb_footer(5, 1), 1000).unwrap();
        assert_eq!(footer.metaindex, BlockSpan { offset: 5, size: 6 });
        assert_eq!(footer.index, Some(BlockSpan { offset: 7, size: 8 }));
        let refused = |end: &[u8]| TableFooter::decode(end, 1000).unwrap_err().to_string();
        assert!(refused(&rocksdb_footer(7, 1)).contains("format version 7, and 1 to 6"));
        assert!(refused(&rocksdb_footer(5, 9)).contains("unknown kind 9"));
        assert!(refused(&[0; 53]).contains("damaged, or encrypted"));
        assert!(refused(&PLAIN_MAGICS[0].to_le_bytes()).contains("plain format"));
        assert!(refused(&rocksdb_footer(6, 1)).contains("cannot be understood"));
    }

    #[test]
    fn a_block_has_a_checksum_of_each_kind() {
        for (number, kind) in [(1, ChecksumKind::Crc32c), (2, ChecksumKind::XxHash32)]
            .into_iter()
            .chain([(3, ChecksumKind::XxHash64), (4, ChecksumKind::Xxh3)])
        {
            let mut footer = TableFooter::decode(&rocksdb_footer(5, number), 1000).unwrap();
            assert_eq!(footer.checksum, kind);
            let sum = kind.sum(b"block", 7);
            assert!(footer.is_sum(sum, b"block", 7, 4096));
            assert!(!footer.is_sum(sum, b"block", 6, 4096), "{kind:?}");
            assert!(!footer.is_sum(sum, b"blocK", 7, 4096), "{kind:?}");
            footer.base = 99;
            assert!(!footer.is_sum(sum, b"block", 7, 4096), "the offset counts");
        }
    }
}
