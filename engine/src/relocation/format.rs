//! The format of a relocation file.
//!
//! ```text
//! 40 bytes   header (base/header.rs), kind "RELO", file id = relocation id
//! …          blocks of entries, in order of old offset, each of about 4 KiB
//! …          directory
//! 32 bytes   footer
//! ```
//! These parts adjoin. Each block and the directory is followed by its checksum32, seeded by
//! (database, relocation, offset of the block). All integers are little-endian; a varint is
//! minimal LEB128.
//!
//! ```text
//! block        entries, back to back, in groups of 16; the last group may have fewer.
//!              An entry has four varints:
//!                distance in bytes from the end of the previous record to this record in the
//!                  freed segment; in the first entry of a group, from the start of the segment
//!                index of the target, which is the segment that holds the record now
//!                offset of the record in the target
//!                length of the record, which is the same in both segments
//!              start of each group in the block (u16 each), number of groups (u16)
//! directory    id of the freed segment (varint), number of entries (varint)
//!              fingerprint (u64): XXH3-64 over the checksums of all blocks, in order
//!              number of targets (varint); for each target, as varints: segment id, number of
//!                entries, bytes of their records
//!              number of blocks (varint); for each block, as varints: old offset of its first
//!                entry minus that of the previous block, length of the block with its checksum
//! footer
//!   offset  bytes  what
//!        0      8  offset of the directory
//!        8      8  length of the directory with its checksum
//!       16      8  checksum64 of the 16 bytes before, seeded like a block's
//!       24      8  magic, "CLVRELOC"
//! ```
//! An entry is 8 to 10 bytes for records of some hundred bytes to some KiB.
//!
//! Validity: the file is exactly as long as the manifest says; header, footer and directory
//! validate; the directory ends at the footer and the blocks lie back to back from the header to
//! it; old offsets ascend and the records of the entries do not overlap; there is at least one
//! entry; targets are distinct and not the freed segment; the directory agrees with the manifest.
//! A block is valid if its checksum holds and its first entry is the one that the directory names.
//! Only a pass over all entries checks that the directory's numbers are those of the entries.
//!
//! Reader: length, header, footer, then the directory, which stays in memory; after that one read
//! per block, through the cache. An old offset is searched for in the directory's blocks, then
//! among the groups of the one block that may have it, then in one group. If no entry has exactly
//! that offset, the record was garbage when the segment was freed.

use super::meta::TargetUse;
use crate::base::blocks::{CHECKSUM_BYTES, FileSeed, seal_footer, unseal_footer};
use crate::base::checksum::checksum32;
use crate::base::coding::{Reader, put_varint};
use crate::base::error::{Error, Result};
use crate::base::header::HEADER_BYTES;
use crate::base::pointer::SegmentId;
use std::collections::BTreeSet;

/// The size of the largest block in bytes, without its checksum.
pub(super) const BLOCK_BYTES: usize = 4 << 10;
/// The size of the footer in bytes.
pub(super) const FOOTER_BYTES: usize = 32;
/// The file offset of the first block.
pub(super) const BLOCKS_START: u64 = HEADER_BYTES as u64;

const MAGIC: [u8; 8] = *b"CLVRELOC";

/// Appends the checksum of the block that starts at `start` in `out` and will lie at `offset` in
/// the file.
pub(super) fn seal(out: &mut Vec<u8>, start: usize, seed: FileSeed, offset: u64) {
    let sum = checksum32(seed.at(offset), &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Returns the bytes of a sealed block without its checksum. I7: the checksum is verified first.
pub(super) fn unseal(seed: FileSeed, offset: u64, sealed: &[u8]) -> Result<&[u8]> {
    let (covered, sum) = sealed
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| Error::corruption("the block is shorter than its checksum"))?;
    if checksum32(seed.at(offset), covered) != u32::from_le_bytes(*sum) {
        return Err(Error::corruption("the block's checksum does not match"));
    }
    Ok(covered)
}

/// The place of a block and the old offset of its first entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockAt {
    pub(super) first: u64,
    pub(super) offset: u64,
    /// The size in the file in bytes, checksum included.
    pub(super) len: u32,
}

impl BlockAt {
    /// Returns the offset after the block. Decoding has checked that it does not overflow.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len.into())
    }
}

/// The directory of a relocation, which stays in memory while the relocation is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RelocationDirectory {
    pub(super) segment: SegmentId,
    pub(super) entries: u64,
    pub(super) fingerprint: u64,
    /// The targets and their use. Entries refer to them by index.
    pub(super) targets: Vec<(SegmentId, TargetUse)>,
    pub(super) blocks: Vec<BlockAt>,
}

impl RelocationDirectory {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.segment.0);
        put_varint(out, self.entries);
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        put_varint(out, self.targets.len() as u64);
        for (segment, used) in &self.targets {
            for number in [segment.0, used.count, used.bytes] {
                put_varint(out, number);
            }
        }
        put_varint(out, self.blocks.len() as u64);
        let mut before = 0;
        for block in &self.blocks {
            put_varint(out, block.first - before);
            put_varint(out, block.len.into());
            before = block.first;
        }
    }

    /// Decodes the directory at `offset`. The blocks must reach up to that offset.
    pub(super) fn decode(bytes: &[u8], offset: u64) -> Result<RelocationDirectory> {
        let mut reader = Reader::new(bytes);
        let segment = SegmentId::decode(&mut reader)?;
        let (entries, fingerprint) = (reader.varint()?, reader.u64()?);
        let targets = Self::decode_targets(&mut reader, segment)?;
        let blocks = Self::decode_blocks(&mut reader, offset)?;
        reader.finish("the directory")?;
        let counted = targets.iter().try_fold(0u64, |sum, (_, used)| sum.checked_add(used.count));
        if entries == 0 || counted != Some(entries) || blocks.len() as u64 > entries {
            return Err(Error::corruption("the numbers of a relocation contradict each other"));
        }
        Ok(RelocationDirectory { segment, entries, fingerprint, targets, blocks })
    }

    fn decode_targets(
        reader: &mut Reader<'_>,
        freed: SegmentId,
    ) -> Result<Vec<(SegmentId, TargetUse)>> {
        let mut targets: Vec<(SegmentId, TargetUse)> = Vec::new();
        let mut seen = BTreeSet::from([freed]);
        // A target takes at least one byte per field, which bounds the count.
        for _ in 0..reader.length(reader.rest().len() / 3)? {
            let segment = SegmentId::decode(reader)?;
            let used = TargetUse { count: reader.varint()?, bytes: reader.varint()? };
            if used.count == 0 || !seen.insert(segment) {
                return Err(Error::corruption(format!("target {segment} is impossible")));
            }
            targets.push((segment, used));
        }
        Ok(targets)
    }

    fn decode_blocks(reader: &mut Reader<'_>, end: u64) -> Result<Vec<BlockAt>> {
        let mut blocks: Vec<BlockAt> = Vec::new();
        let mut offset = BLOCKS_START;
        for _ in 0..reader.length(reader.rest().len() / 2)? {
            let (step, len) = (reader.varint()?, reader.varint32()?);
            let first = blocks.last().map_or(Some(step), |last| {
                last.first.checked_add(step).filter(|first| *first > last.first)
            });
            // An entry takes at least four bytes.
            let bounds = CHECKSUM_BYTES + 4..=CHECKSUM_BYTES + BLOCK_BYTES;
            let possible = bounds.contains(&(len as usize));
            let (Some(first), true) = (first, possible) else {
                return Err(Error::corruption("the directory has an impossible block"));
            };
            blocks.push(BlockAt { first, offset, len });
            offset = offset.saturating_add(len.into());
        }
        if offset != end || blocks.is_empty() {
            return Err(Error::corruption("the blocks do not reach from the header to the end"));
        }
        Ok(blocks)
    }
}

/// The footer, which says where the directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelocationFooter {
    pub(super) directory: u64,
    /// The length of the directory in bytes, checksum included.
    pub(super) len: u64,
}

impl RelocationFooter {
    /// Appends the footer, which will lie at `offset`.
    pub(super) fn encode(&self, out: &mut Vec<u8>, seed: FileSeed, offset: u64) {
        let start = out.len();
        out.extend_from_slice(&self.directory.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        seal_footer(out, start, seed.at(offset), MAGIC);
    }

    /// Decodes the footer that lies at `offset`, and checks that the directory ends there.
    pub(super) fn decode(bytes: &[u8], seed: FileSeed, offset: u64) -> Result<RelocationFooter> {
        let seed = seed.at(offset);
        let covered = unseal_footer(bytes, FOOTER_BYTES, seed, MAGIC, "the relocation")?;
        let mut reader = Reader::new(covered);
        let footer = RelocationFooter { directory: reader.u64()?, len: reader.u64()? };
        let adjoins = footer.directory.checked_add(footer.len) == Some(offset);
        if !adjoins || footer.directory < BLOCKS_START {
            return Err(Error::corruption("the footer's directory does not end at it"));
        }
        Ok(footer)
    }
}
