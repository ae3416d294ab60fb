//! The format of a block of entries, which data blocks and the index block share.
//!
//! ```text
//! entry*         each: shared (varint)    bytes of key taken over from the entry before
//!                      unshared (varint)  bytes of key that follow
//!                      payload (varint)   bytes of payload that follow those
//!                      key bytes, payload bytes
//! restart*       u32 each: offset of an entry that shares nothing, ascending, the first one zero
//! restart count  u32, at least one
//! ```
//! The key is the *internal* key: the user key followed by its eight trailer bytes. If user keys
//! are equal, the shared bytes extend into the trailer. Data blocks restart every 16 entries, the
//! index at each entry.
//!
//! Reader: binary search over the restarts, whose keys are stored in full, then forward from the
//! last one before the target. Bytes come here only after their checksum was verified. Even so, no
//! bytes can make this code panic or loop for ever: whatever does not fit is corruption (I7).

use crate::base::coding::{Reader, put_varint};
use crate::base::error::{Error, Result};
use crate::base::key::{KeyOrder, MAX_KEY_BYTES, Trailer, push_internal, split_internal};
use crate::cache::BlockBytes;
use std::ops::Range;

/// The number of entries of a data block from one restart to the next.
pub(super) const RESTART_INTERVAL: usize = 16;

const COUNT_BYTES: usize = 4;

/// Makes a corruption error for a malformed block.
pub(super) fn broken(what: &str) -> Error {
    Error::corruption(format!("the block is malformed: {what}"))
}

/// The places of the parts of one entry in the block.
pub(super) struct RawEntry {
    pub(super) shared: usize,
    pub(super) key: Range<usize>,
    pub(super) payload: Range<usize>,
}

/// Decodes the entry at offset `at`. Returns `None` if a part of it would lie outside `entries`.
#[inline]
pub(super) fn decode_entry(entries: &[u8], at: usize) -> Option<RawEntry> {
    let rest = entries.get(at..)?;
    let (shared, unshared, payload, head) = match *rest {
        [shared, unshared, payload, ..] if (shared | unshared | payload) < 0x80 => {
            (usize::from(shared), usize::from(unshared), usize::from(payload), 3)
        }
        _ => long_lengths(rest)?,
    };
    let key_start = at + head;
    let key_end = key_start.checked_add(unshared)?;
    let payload_end = key_end.checked_add(payload)?;
    (payload_end <= entries.len()).then_some(RawEntry {
        shared,
        key: key_start..key_end,
        payload: key_end..payload_end,
    })
}

fn long_lengths(rest: &[u8]) -> Option<(usize, usize, usize, usize)> {
    let mut reader = Reader::new(rest);
    let shared = reader.length(MAX_KEY_BYTES + Trailer::BYTES).ok()?;
    let unshared = reader.length(rest.len()).ok()?;
    let payload = reader.length(rest.len()).ok()?;
    Some((shared, unshared, payload, rest.len() - reader.rest().len()))
}

/// A decoded block and the place of its restarts. It is cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Block {
    bytes: BlockBytes,
    entries_end: usize,
    restarts: usize,
}

impl Block {
    /// Makes a block from its decoded bytes, and locates the restarts at its end.
    pub(super) fn new(bytes: BlockBytes) -> Result<Block> {
        let (before, count) =
            bytes.split_last_chunk::<COUNT_BYTES>().ok_or_else(|| broken("it is too short"))?;
        let restarts = u32::from_le_bytes(*count) as usize;
        let entries_end = restarts
            .checked_mul(4)
            .and_then(|bytes| before.len().checked_sub(bytes))
            .filter(|&end| restarts > 0 && end > 0)
            .ok_or_else(|| broken("its restarts do not fit"))?;
        Ok(Block { bytes, entries_end, restarts })
    }

    /// Returns the bytes of the entries.
    #[inline]
    pub(super) fn entries(&self) -> &[u8] {
        self.bytes.get(..self.entries_end).unwrap_or_default()
    }

    /// Returns the number of restarts.
    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    /// Returns the memory that the block takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the offset that restart `number` points to.
    #[inline]
    pub(super) fn restart(&self, number: usize) -> Result<usize> {
        let field = self.entries_end + 4 * number;
        match self.bytes.get(field..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(offset) if number < self.restarts => Ok(u32::from_le_bytes(*offset) as usize),
            _ => Err(broken("a restart is missing")),
        }
    }

    /// Returns the internal key and the payload of the entry at restart `number`.
    #[inline]
    pub(super) fn restart_entry(&self, number: usize) -> Result<(&[u8], &[u8])> {
        let entries = self.entries();
        let entry = decode_entry(entries, self.restart(number)?)
            .filter(|entry| entry.shared == 0 && entry.key.len() >= Trailer::BYTES)
            .ok_or_else(|| broken("a restart points at no entry"))?;
        let key = entries.get(entry.key).unwrap_or_default();
        Ok((key, entries.get(entry.payload).unwrap_or_default()))
    }

    /// Returns the number of restarts whose keys are before the target. Only the restarts in
    /// `unclear` are compared: the caller has found that those before it are before the target, and
    /// those after it are not.
    #[inline]
    pub(super) fn restarts_before(
        &self,
        unclear: Range<usize>,
        order: &KeyOrder,
        user_key: &[u8],
        trailer: Trailer,
    ) -> Result<usize> {
        debug_assert!(unclear.start <= unclear.end && unclear.end <= self.restarts);
        let Range { start: mut low, end: mut high } = unclear;
        while low < high {
            let middle = low + (high - low) / 2;
            let key = split_internal(self.restart_entry(middle)?.0);
            if order.compare_entries(key, (user_key, trailer)).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// A builder of blocks, one after the other.
pub(super) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    interval: usize,
    since_restart: usize,
    last_key: Vec<u8>,
    next_key: Vec<u8>,
}

impl BlockBuilder {
    /// Makes a builder of blocks that restart every `interval` entries.
    pub(super) fn new(interval: usize) -> Self {
        assert!(interval > 0, "each restart begins with an entry");
        BlockBuilder {
            bytes: Vec::new(),
            restarts: Vec::new(),
            interval,
            since_restart: 0,
            last_key: Vec::new(),
            next_key: Vec::new(),
        }
    }

    /// Returns true if the block has no entry yet.
    pub(super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Returns the size in bytes that the block would have if it were finished now.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + COUNT_BYTES
    }

    /// Returns the internal key added last, in this block or an earlier one.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends an entry. Requires: entries come in order, and the block stays below 4 GiB.
    pub(super) fn add(&mut self, user_key: &[u8], trailer: Trailer, payload: &[u8]) {
        debug_assert!(self.since_restart <= self.interval, "a restart was left out");
        self.next_key.clear();
        push_internal(&mut self.next_key, user_key, trailer);
        let shared = if self.is_empty() || self.since_restart == self.interval {
            let offset = u32::try_from(self.bytes.len()).expect("blocks are below 4 GiB");
            self.restarts.push(offset);
            self.since_restart = 0;
            0
        } else {
            common_prefix(&self.last_key, &self.next_key)
        };
        let unshared = &self.next_key[shared..];
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, unshared.len() as u64);
        put_varint(&mut self.bytes, payload.len() as u64);
        self.bytes.extend_from_slice(unshared);
        self.bytes.extend_from_slice(payload);
        self.since_restart += 1;
        std::mem::swap(&mut self.last_key, &mut self.next_key);
    }

    /// Finishes the block, returns the result of `take` on its bytes, and begins the next block.
    pub(super) fn finish<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        debug_assert!(self.restarts.is_sorted() && self.restarts.first() == Some(&0));
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        let result = take(&self.bytes);
        self.bytes.clear();
        self.restarts.clear();
        self.since_restart = 0;
        result
    }
}

/// Returns the length of the common prefix of `a` and `b`.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::EntryKind;
    use std::sync::Arc;

    #[test]
    fn the_bytes_are_as_documented() {
        let mut builder = BlockBuilder::new(2);
        for (key, seqno) in [(b"aab", 1), (b"aac", 1), (b"aac", 0)] {
            builder.add(key, Trailer::new(seqno, EntryKind::Put), b"v");
        }
        let size = builder.size();
        let bytes = builder.finish(<[u8]>::to_vec);
        assert_eq!(size, bytes.len());
        let trailer = b"\x01\x01\0\0\0\0\0\0";
        let expected = [
            b"\0\x0b\x01aab".as_slice(),
            trailer,
            b"v\x02\x09\x01c",
            trailer,
            b"v\0\x0b\x01aac\x01\0\0\0\0\0\0\0v",
            b"\0\0\0\0\x1c\0\0\0\x02\0\0\0",
        ];
        assert_eq!(bytes, expected.concat());
        let block = Block::new(Arc::new(bytes)).unwrap();
        assert_eq!(block.restart_entry(1).unwrap().0, b"aac\x01\0\0\0\0\0\0\0");
        assert!(block.restart_entry(2).is_err());
    }

    #[test]
    fn restarts_that_do_not_fit_are_refused() {
        let bad: [&[u8]; 6] = [
            b"",
            b"\0\0\0",
            b"\0\0\0\0",
            b"\0\0\0\0\x01\0\0\0",
            b"xx\0\0\0\0\x02\0\0\0",
            b"xxxx\xff\xff\xff\xff",
        ];
        for bytes in bad {
            assert!(Block::new(Arc::new(bytes.to_vec())).is_err(), "{bytes:?}");
        }
    }
}
