//! One block of a relocation: entries in groups, each of which can be decoded by itself, so that a
//! look-up searches the groups and decodes one of them. The bytes are told in `format.rs`.
//!
//! I7: the block's checksum was verified before it is parsed; every offset is bounded all the same.

use super::format::BLOCK_BYTES;
use crate::base::coding::{Reader, put_varint};
use crate::base::error::{Error, Result};

/// A group begins at every so many entries.
const GROUP_ENTRIES: usize = 16;
/// No entry is larger: three varints of 64 bits and one of 32.
const MAX_ENTRY_BYTES: usize = 35;
/// The start of a group, and the count of groups.
const START_BYTES: usize = 2;

/// One move of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelocationEntry {
    pub(super) old_offset: u64,
    /// Index into the directory's targets.
    pub(super) target: usize,
    pub(super) new_offset: u64,
    pub(super) length: u32,
}

impl RelocationEntry {
    /// Where the record ended in the freed segment; making and decoding check that it fits.
    pub(super) fn old_end(&self) -> u64 {
        self.old_offset.saturating_add(self.length.into())
    }

    /// Appends it behind an entry whose record ended at `end`; 0 at the start of a group.
    fn encode(&self, out: &mut Vec<u8>, end: u64) {
        put_varint(out, self.old_offset - end);
        put_varint(out, self.target as u64);
        put_varint(out, self.new_offset);
        put_varint(out, self.length.into());
    }

    /// Reads what [`RelocationEntry::encode`] wrote behind a record that ended at `end`.
    fn decode(reader: &mut Reader<'_>, end: u64, targets: usize) -> Result<RelocationEntry> {
        let gap = reader.varint()?;
        let target = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        let (new_offset, length) = (reader.varint()?, reader.varint32()?);
        let old_offset = end.checked_add(gap);
        let old_end = old_offset.and_then(|offset| offset.checked_add(length.into()));
        let new_end = new_offset.checked_add(length.into());
        let (Some(old_offset), Some(_), Some(_)) = (old_offset, old_end, new_end) else {
            return Err(Error::corruption("an entry has the offset of no record"));
        };
        if target >= targets || length == 0 {
            return Err(Error::corruption("an entry has an impossible target or length"));
        }
        Ok(RelocationEntry { old_offset, target, new_offset, length })
    }
}

/// Gathers the entries of a block.
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

    /// True if one more entry fits.
    pub(super) fn has_room(&self) -> bool {
        let starts = (self.starts.len() + 2) * START_BYTES;
        self.bytes.len() + MAX_ENTRY_BYTES + starts <= BLOCK_BYTES
    }

    /// Adds an entry behind those before. Requires: it has room.
    pub(super) fn add(&mut self, entry: &RelocationEntry) {
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
        out.append(&mut self.bytes);
        for start in &self.starts {
            out.extend_from_slice(&start.to_le_bytes());
        }
        out.extend_from_slice(&(self.starts.len() as u16).to_le_bytes());
        *self = BlockWriter::default();
    }
}

/// A block that was read.
#[derive(Clone, Copy)]
pub(super) struct RelocationBlock<'a> {
    entries: &'a [u8],
    starts: &'a [[u8; START_BYTES]],
    targets: usize,
}

impl<'a> RelocationBlock<'a> {
    /// Of a file with that many targets.
    pub(super) fn parse(bytes: &'a [u8], targets: usize) -> Result<Self> {
        let wrong = || Error::corruption("a block's groups are not where it says");
        let (rest, count) = bytes.split_last_chunk::<START_BYTES>().ok_or_else(wrong)?;
        let starts_len = usize::from(u16::from_le_bytes(*count)) * START_BYTES;
        let entries_len = rest.len().checked_sub(starts_len).ok_or_else(wrong)?;
        let (entries, starts) = rest.split_at_checked(entries_len).ok_or_else(wrong)?;
        let (starts, _) = starts.as_chunks::<START_BYTES>();
        let block = RelocationBlock { entries, starts, targets };
        // Every group begins where the one before ended: the walk checks that too.
        if block.start(0) != Some(0) {
            return Err(wrong());
        }
        Ok(block)
    }

    fn start(&self, group: usize) -> Option<usize> {
        self.starts.get(group).map(|&start| usize::from(u16::from_le_bytes(start)))
    }

    /// The bytes from the start of a group on.
    fn behind_start(&self, group: usize) -> Result<&'a [u8]> {
        let start = self.start(group).and_then(|start| self.entries.get(start..));
        start.ok_or_else(|| Error::corruption("a group begins behind the end of its block"))
    }

    /// The bytes of a group's entries.
    fn group(&self, group: usize) -> Result<&'a [u8]> {
        let end = self.start(group + 1).unwrap_or(self.entries.len());
        let bytes = self.start(group).and_then(|start| self.entries.get(start..end));
        bytes.ok_or_else(|| Error::corruption("a group ends before it begins"))
    }

    /// The old offset that a group begins with.
    fn first_of(&self, group: usize) -> Result<u64> {
        Reader::new(self.behind_start(group)?).varint()
    }

    /// The old offset that the block begins with.
    pub(super) fn first(&self) -> Result<u64> {
        self.first_of(0)
    }

    /// The entry of exactly this old offset.
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

    /// Looks up offsets that ascend.
    pub(super) fn ascending(self) -> Result<Ascending<'a>> {
        let reader = Reader::new(self.group(0)?);
        Ok(Ascending { block: self, group: 0, reader, end: 0, entry: None })
    }

    /// All entries, checked against each other and the starts of the groups.
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

/// Looks offsets up that ascend: each from where the one before was found, so that many of them
/// take one walk over the block.
pub(super) struct Ascending<'a> {
    block: RelocationBlock<'a>,
    /// The group that the reader is in, up to its end.
    group: usize,
    reader: Reader<'a>,
    /// Where the record of the entry before the reader ended; 0 at the start of a group.
    end: u64,
    /// The entry before the reader, while it may be asked for.
    entry: Option<RelocationEntry>,
}

impl Ascending<'_> {
    /// The entry of exactly this old offset, which is no less than the one asked for before.
    pub(super) fn find(&mut self, old_offset: u64) -> Result<Option<RelocationEntry>> {
        self.skip_groups(old_offset)?;
        loop {
            if let Some(entry) = self.entry.filter(|entry| entry.old_offset >= old_offset) {
                return Ok((entry.old_offset == old_offset).then_some(entry));
            }
            if self.reader.is_empty() {
                // The next group begins behind the offset.
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
                // In steps of all lengths, with offsets between and twice the same.
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
