//! A queue of entries of different lengths in one bounded piece of memory. Removing the oldest one
//! makes room for the next, so nothing is ever allocated for an entry.

use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, TableId};

/// A fact of the update table, without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotEntry {
    /// The keyspace of the key; only ids that fit are noted.
    pub keyspace: u32,
    /// The sequence number of the newest entry in tables.
    pub seqno: SeqNo,
    /// The table that holds that entry.
    pub table: TableId,
    /// The bytes of the entry and of its separated value.
    pub bytes: u32,
}

/// Returns the short form of a keyspace's id, if it has one. Ids are counted up from 1, together
/// with those of files, so only very old databases have keyspaces without.
pub fn short_id(keyspace: KeyspaceId) -> Option<u32> {
    u32::try_from(keyspace.0).ok()
}

/// The length of an entry before its key: length of the key, whether it was noted again, keyspace,
/// bytes, and sequence number and table of seven bytes each.
const HEADER_BYTES: usize = 2 + 1 + 4 + 4 + 7 + 7;
const AGAIN_AT: usize = 2;

/// Longer keys are not noted: they would push out many others.
pub const MAX_HOT_KEY_BYTES: usize = 1024;

/// The ring. Offsets name entries until they are removed.
pub struct EntryRing {
    memory: Vec<u8>,
    capacity: usize,
    /// The offset of the oldest entry.
    oldest: usize,
    /// The offset behind the newest entry.
    next: usize,
    /// While the newest entries are before the oldest: where the upper part ends.
    upper_end: Option<usize>,
}

impl EntryRing {
    /// Makes an empty ring that grows up to `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        assert!(u32::try_from(capacity).is_ok(), "offsets take four bytes");
        EntryRing { memory: Vec::new(), capacity, oldest: 0, next: 0, upper_end: None }
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.memory.capacity()
    }

    /// Adds an entry and returns its offset, or `None` if there is no room for it now.
    pub fn push(&mut self, entry: &HotEntry, key: &[u8]) -> Option<u32> {
        debug_assert!(key.len() <= MAX_HOT_KEY_BYTES, "a long key is not noted");
        let length = HEADER_BYTES + key.len();
        let limit = if self.upper_end.is_some() { self.oldest } else { self.capacity };
        if self.next + length > limit {
            if self.upper_end.is_some() || length > self.oldest {
                return None;
            }
            self.upper_end = Some(self.next);
            self.next = 0;
        }
        let offset = self.next;
        self.next += length;
        if self.memory.len() < self.next {
            self.grow();
        }
        let (header, rest) = self.memory[offset..self.next].split_at_mut(HEADER_BYTES);
        header[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
        header[AGAIN_AT] = 0;
        header[3..7].copy_from_slice(&entry.keyspace.to_le_bytes());
        rest.copy_from_slice(key);
        self.set(offset as u32, entry);
        Some(offset as u32)
    }

    /// Extends the memory up to `next`. It grows twofold, but never beyond the capacity.
    fn grow(&mut self) {
        if self.memory.capacity() < self.next {
            let twofold = (2 * self.memory.capacity()).clamp(self.next, self.capacity);
            self.memory.reserve_exact(twofold - self.memory.len());
        }
        self.memory.resize(self.next, 0);
    }

    /// Removes the oldest entry and returns what `last` returns for its offset and whether it was
    /// noted again; `None` if there is no entry.
    pub fn pop<R>(&mut self, last: impl FnOnce(&EntryRing, u32, bool) -> R) -> Option<R> {
        if self.is_empty() {
            return None;
        }
        let offset = self.oldest as u32;
        let result = last(self, offset, self.memory[self.oldest + AGAIN_AT] != 0);
        self.oldest += HEADER_BYTES + self.key(offset).len();
        if self.upper_end == Some(self.oldest) {
            (self.oldest, self.upper_end) = (0, None);
        }
        if self.is_empty() {
            (self.oldest, self.next) = (0, 0);
        }
        Some(result)
    }

    fn is_empty(&self) -> bool {
        self.upper_end.is_none() && self.oldest == self.next
    }

    /// Returns the entry at `offset`.
    pub fn entry(&self, offset: u32) -> HotEntry {
        let header = self.header(offset);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let long = |at: usize| {
            u64::from_le_bytes(std::array::from_fn(|i| if i < 7 { header[at + i] } else { 0 }))
        };
        let (keyspace, bytes) = (word(3), word(7));
        HotEntry { keyspace, seqno: long(11), table: TableId(long(18)), bytes }
    }

    /// Returns the key of the entry at `offset`.
    pub fn key(&self, offset: u32) -> &[u8] {
        let header = self.header(offset);
        let length = u16::from_le_bytes([header[0], header[1]]) as usize;
        &self.memory[offset as usize + HEADER_BYTES..][..length]
    }

    /// Changes everything but the key of the entry at `offset`.
    pub fn set(&mut self, offset: u32, entry: &HotEntry) {
        debug_assert_eq!(
            self.entry(offset).keyspace,
            entry.keyspace,
            "a fact changes its keyspace"
        );
        debug_assert!(entry.seqno >> 56 == 0 && entry.table.0 >> 56 == 0, "{entry:?}");
        let header = &mut self.memory[offset as usize..][..HEADER_BYTES];
        header[7..11].copy_from_slice(&entry.bytes.to_le_bytes());
        header[11..18].copy_from_slice(&entry.seqno.to_le_bytes()[..7]);
        header[18..25].copy_from_slice(&entry.table.0.to_le_bytes()[..7]);
    }

    /// Records that the entry at `offset` was noted again.
    pub fn touch(&mut self, offset: u32) {
        self.memory[offset as usize + AGAIN_AT] = 1;
    }

    fn header(&self, offset: u32) -> &[u8; HEADER_BYTES] {
        let header = self.memory[offset as usize..].first_chunk();
        header.expect("an entry is whole in the ring")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn entry(number: u64) -> HotEntry {
        HotEntry { keyspace: 7, seqno: number << 40, table: TableId(number << 33), bytes: 99 }
    }

    #[test]
    fn a_ring_holds_what_was_pushed_until_its_turn_comes() {
        let mut ring = EntryRing::new(1000);
        let mut expected: VecDeque<(u32, u64, Vec<u8>)> = VecDeque::new();
        for number in 1..5000u64 {
            let key = vec![number as u8; (number * 7 % 60) as usize];
            let offset = loop {
                if let Some(offset) = ring.push(&entry(number), &key) {
                    break offset;
                }
                let (oldest, ..) = expected.pop_front().unwrap();
                assert_eq!(ring.pop(|_, offset, again| (offset, again)), Some((oldest, true)));
            };
            ring.touch(offset);
            expected.push_back((offset, number, key));
            for (offset, number, key) in &expected {
                assert_eq!((ring.entry(*offset), ring.key(*offset)), (entry(*number), &key[..]));
            }
        }
        assert!(expected.len() > 10 && ring.bytes() <= 1024);
        assert!(expected.iter().all(|_| ring.pop(|_, _, _| ()).is_some()));
        assert_eq!(ring.pop(|_, offset, _| offset), None, "nothing is left");
    }
}
