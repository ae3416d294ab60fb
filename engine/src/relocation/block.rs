//! The blocks of a relocation. Their entries are in groups that can be decoded independently, so
//! that a lookup searches the groups and decodes only one. `format.rs` describes the bytes.
//!
//! I7: a block is parsed only after its checksum was verified, and every offset is still bounded.

use super::format::BLOCK_BYTES;
use crate::base::coding::{Reader, put_varint};
use crate::base::error::{Error, Result};
use crate::base::pointer::is_in_a_file;

/// The number of entries in a group. Only the last group of a block may have fewer.
const GROUP_ENTRIES: usize = 16;
/// The size of the largest entry in bytes: three varints of 64 bits and one of 32.
const MAX_ENTRY_BYTES: usize = 35;
/// The size in bytes of the start of a group, and of the count of groups.
const START_BYTES: usize = 2;

/// One entry of a relocation: the move of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelocationEntry {
    pub(super) old_offset: u64,
    /// The index of the target segment in the directory's targets.
    pub(super) target: usize,
    pub(super) new_offset: u64,
    pub(super) length: u32,
}

impl RelocationEntry {
    /// Returns the offset at which the record ended in the freed segment. Writer and decoder check
    /// that it does not overflow.
    pub(super) fn old_end(&self) -> u64 {
        self.old_offset.saturating_add(self.length.into())
    }

    /// Appends the entry after one whose record ended at `end`, which is 0 at the start of a group.
    fn encode(&self, out: &mut Vec<u8>, end: u64) {
        debug_assert!(self.old_offset >= end && self.length > 0, "moves are encoded in order");
        put_varint(out, self.old_offset - end);
        put_varint(out, self.target as u64);
        put_varint(out, self.new_offset);
        put_varint(out, self.length.into());
    }

    /// Reads an entry that [`RelocationEntry::encode`] wrote after a record that ended at `end`.
    /// `targets` is the number of targets in the directory.
    fn decode(reader: &mut Reader<'_>, end: u64, targets: usize) -> Result<RelocationEntry> {
        let gap = reader.varint()?;
        let target = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        let (new_offset, length) = (reader.varint()?, reader.varint32()?);
        let old_offset = end.checked_add(gap);
        let old_end = old_offset.and_then(|offset| offset.checked_add(length.into()));
        let (Some(old_offset), Some(_)) = (old_offset, old_end) else {
            return Err(Error::corruption("an entry has the offset of no record"));
        };
        if !is_in_a_file(new_offset, length) {
            return Err(Error::corruption("an entry leads behind any file"));
        }
        if target >= targets || length == 0 {
            return Err(Error::corruption("an entry has an impossible target or length"));
        }
        Ok(RelocationEntry { old_offset, target, new_offset, length })
    }
}

/// Builds blocks of entries, one after the other.
#[derive(Default)]
pub(super) struct BlockWriter {
    bytes: Vec<u8>,
    starts: Vec<u16>,
    entries: usize,
    end: u64,
}

impl BlockWriter {
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns true if one more entry fits.
    pub(super) fn has_room(&self) -> bool {
        let starts = (self.starts.len() + 2) * START_BYTES;
        self.bytes.len() + MAX_ENTRY_BYTES + starts <= BLOCK_BYTES
    }

    /// Adds the next entry. Requires: the block has room.
    pub(super) fn add(&mut self, entry: &RelocationEntry) {
        debug_assert!(self.has_room(), "a block is full");
        if self.entries.is_multiple_of(GROUP_ENTRIES) {
            self.starts.push(self.bytes.len() as u16);
            self.end = 0;
        }
        entry.encode(&mut self.bytes, self.end);
        self.end = entry.old_end();
        self.entries += 1;
    }

    /// Appends the block to `out` and begins the next one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        assert!(!self.is_empty(), "a block without entries cannot be read");
        debug_assert_eq!(self.starts.len(), self.entries.div_ceil(GROUP_ENTRIES));
        out.append(&mut self.bytes);
        for start in &self.starts {
            out.extend_from_slice(&start.to_le_bytes());
        }
        out.extend_from_slice(&(self.starts.len() as u16).to_le_bytes());
        *self = BlockWriter::default();
    }
}

/// A parsed block.
#[derive(Clone, Copy)]
pub(super) struct RelocationBlock<'a> {
    entries: &'a [u8],
    starts: &'a [[u8; START_BYTES]],
    targets: usize,
}

impl<'a> RelocationBlock<'a> {
    /// Parses a block of a file with `targets` targets.
    pub(super) fn parse(bytes: &'a [u8], targets: usize) -> Result<Self> {
        let wrong = || Error::corruption("a block's groups are not where it says");
        let (rest, count) = bytes.split_last_chunk::<START_BYTES>().ok_or_else(wrong)?;
        let starts_len = usize::from(u16::from_le_bytes(*count)) * START_BYTES;
        let entries_len = rest.len().checked_sub(starts_len).ok_or_else(wrong)?;
        let (entries, starts) = rest.split_at_checked(entries_len).ok_or_else(wrong)?;
        let (starts, _) = starts.as_chunks::<START_BYTES>();
        let block = RelocationBlock { entries, starts, targets };
        // The first group begins at 0. That each other group begins where the one before ends is
        // checked by [`RelocationBlock::entries`].
        if block.start(0) != Some(0) {
            return Err(wrong());
        }
        Ok(block)
    }

    fn start(&self, group: usize) -> Option<usize> {
        self.starts.get(group).map(|&start| usize::from(u16::from_le_bytes(start)))
    }

    /// Returns the bytes from the start of a group to the end of the entries.
    fn behind_start(&self, group: usize) -> Result<&'a [u8]> {
        let start = self.start(group).and_then(|start| self.entries.get(start..));
        start.ok_or_else(|| Error::corruption("a group begins behind the end of its block"))
    }

    /// Returns the bytes of a group's entries.
    fn group(&self, group: usize) -> Result<&'a [u8]> {
        let end = self.start(group + 1).unwrap_or(self.entries.len());
        let bytes = self.start(group).and_then(|start| self.entries.get(start..end));
        bytes.ok_or_else(|| Error::corruption("a group ends before it begins"))
    }

    /// Returns the old offset of the first entry of a group.
    fn first_of(&self, group: usize) -> Result<u64> {
        Reader::new(self.behind_start(group)?).varint()
    }

    /// Returns the old offset of the first entry of the block.
    pub(super) fn first(&self) -> Result<u64> {
        self.first_of(0)
    }

    /// Returns the entry with exactly this old offset, or `None`.
    pub(super) fn find(&self, old_offset: u64) -> Result<Option<RelocationEntry>> {
        let (mut low, mut high) = (0, self.starts.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.first_of(middle)? <= old_offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut reader = Reader::new(self.group(low)?);
        let mut end = 0;
        while !reader.is_empty() {
            let entry = RelocationEntry::decode(&mut reader, end, self.targets)?;
            if entry.old_offset >= old_offset {
                return Ok((entry.old_offset == old_offset).then_some(entry));
            }
            end = entry.old_end();
        }
        Ok(None)
    }

    /// Returns a lookup for offsets that are asked for in ascending order.
    pub(super) fn ascending(self) -> Result<Ascending<'a>> {
        let reader = Reader::new(self.group(0)?);
        Ok(Ascending { block: self, group: 0, reader, end: 0, entry: None })
    }

    /// Returns all entries. Checks that they are in order and agree with the starts of the groups.
    pub(super) fn entries(&self) -> Result<Vec<RelocationEntry>> {
        let mut reader = Reader::new(self.entries);
        let (mut found, mut end, mut group) = (Vec::new(), 0, 0);
        while !reader.is_empty() {
            let at = self.entries.len() - reader.rest().len();
            let begins = self.start(group) == Some(at);
            group += usize::from(begins);
            let base = if begins { 0 } else { end };
            let entry = RelocationEntry::decode(&mut reader, base, self.targets)?;
            if entry.old_offset < end {
                return Err(Error::corruption("entries of a block are out of order"));
            }
            end = entry.old_end();
            found.push(entry);
        }
        if group != self.starts.len() {
            return Err(Error::corruption("a block has groups that begin at no entry"));
        }
        Ok(found)
    }
}

/// A lookup of ascending offsets. Each search goes on where the one before ended, so that many
/// lookups take one walk over the block.
pub(super) struct Ascending<'a> {
    block: RelocationBlock<'a>,
    /// The group whose entries the reader reads.
    group: usize,
    reader: Reader<'a>,
    /// The offset at which the record of the entry before the reader ended; 0 at the start of a
    /// group.
    end: u64,
    /// The entry before the reader; `None` at the start of a group.
    entry: Option<RelocationEntry>,
}

impl Ascending<'_> {
    /// Returns the entry with exactly this old offset, or `None`. The offset must not be less than
    /// the one of the call before.
    pub(super) fn find(&mut self, old_offset: u64) -> Result<Option<RelocationEntry>> {
        self.skip_groups(old_offset)?;
        loop {
            if let Some(entry) = self.entry.filter(|entry| entry.old_offset >= old_offset) {
                return Ok((entry.old_offset == old_offset).then_some(entry));
            }
            if self.reader.is_empty() {
                // The next group begins after the offset.
                return Ok(None);
            }
            let entry = RelocationEntry::decode(&mut self.reader, self.end, self.block.targets)?;
            self.end = entry.old_end();
            self.entry = Some(entry);
        }
    }

    fn skip_groups(&mut self, old_offset: u64) -> Result<()> {
        let mut group = self.group;
        while group + 1 < self.block.starts.len() && self.block.first_of(group + 1)? <= old_offset {
            group += 1;
        }
        if group > self.group {
            self.group = group;
            self.reader = Reader::new(self.block.group(group)?);
            (self.end, self.entry) = (0, None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> RelocationEntry {
        let (old_offset, new_offset) = (88 + 40 * number * number, 1000 + 13 * number);
        RelocationEntry { old_offset, target: (number % 3) as usize, new_offset, length: 12 }
    }

    fn block(count: u64) -> Vec<u8> {
        let (mut writer, mut bytes) = (BlockWriter::default(), Vec::new());
        (0..count).for_each(|number| writer.add(&entry(number)));
        writer.finish(&mut bytes);
        assert!(writer.is_empty());
        bytes
    }

    #[test]
    fn every_entry_is_found_and_no_other() {
        for count in [1, 2, 15, 16, 17, 32, 33, 100] {
            let bytes = block(count);
            let block = RelocationBlock::parse(&bytes, 3).unwrap();
            assert_eq!(block.first().unwrap(), 88);
            let all: Vec<RelocationEntry> = (0..count).map(entry).collect();
            assert_eq!(block.entries().unwrap(), all);
            for (number, entry) in all.iter().enumerate() {
                assert_eq!(block.find(entry.old_offset).unwrap(), Some(*entry));
                for other in [entry.old_offset - 1, entry.old_offset + 1, u64::MAX] {
                    assert_eq!(block.find(other).unwrap(), None);
                }
                // Lookups in steps of all lengths, with offsets in between and the same offset
                // twice.
                let mut ascending = block.ascending().unwrap();
                for entry in all.iter().step_by(number + 1) {
                    assert_eq!(ascending.find(entry.old_offset - 1).unwrap(), None);
                    assert_eq!(ascending.find(entry.old_offset).unwrap(), Some(*entry));
                    assert_eq!(ascending.find(entry.old_offset).unwrap(), Some(*entry));
                    assert_eq!(ascending.find(entry.old_offset + 1).unwrap(), None);
                }
                assert_eq!(ascending.find(u64::MAX).unwrap(), None);
            }
        }
    }

    #[test]
    fn a_full_block_is_no_larger_than_its_bound() {
        let mut writer = BlockWriter::default();
        let mut bytes = Vec::new();
        for number in 0.. {
            let (old_offset, target) = (number << 50, usize::MAX >> 1);
            writer.add(&RelocationEntry {
                old_offset,
                target,
                new_offset: 1 << 62,
                length: u32::MAX,
            });
            if !writer.has_room() {
                break;
            }
        }
        writer.finish(&mut bytes);
        assert!(bytes.len() <= BLOCK_BYTES && bytes.len() > BLOCK_BYTES - 80);
    }

    #[test]
    fn i07_an_entry_that_leads_behind_any_file_is_refused() {
        let last = i64::MAX as u64 - 12;
        for (new_offset, is_fine) in [(last, true), (last + 1, false), (u64::MAX, false)] {
            let mut bytes = Vec::new();
            RelocationEntry { new_offset, ..entry(0) }.encode(&mut bytes, 0);
            let decoded = RelocationEntry::decode(&mut Reader::new(&bytes), 0, 3);
            assert_eq!(decoded.is_ok(), is_fine, "{new_offset}");
        }
    }

    #[test]
    fn i07_hostile_blocks_are_errors_or_harmless() {
        let good = block(40);
        for len in 0..good.len() {
            if let Ok(block) = RelocationBlock::parse(&good[..len], 3) {
                harmless(block);
            }
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                if let Ok(block) = RelocationBlock::parse(&bad, 3) {
                    harmless(block);
                }
            }
        }
    }

    fn harmless(block: RelocationBlock<'_>) {
        let _ = (block.first(), block.entries(), block.find(5000));
        let Ok(mut ascending) = block.ascending() else {
            return;
        };
        for offset in [0, 5000, 5001, 40_000, u64::MAX] {
            let _ = ascending.find(offset);
        }
    }
}
