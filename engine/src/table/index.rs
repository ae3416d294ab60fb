//! The index of a table, which names the data block that may hold a key.
//!
//! The index is a block (`block.rs`) that restarts at each entry, with one entry per data block:
//!
//! ```text
//! key      a *bound*: at or behind every entry of the block, before every entry of the next
//! payload  handle of the block: offset (varint), length with trailer (varint)
//! ```
//! The bound is the block's last internal key. If keys are in byte order, it may instead be a
//! shorter user key, strictly between the last of this block and the first of the next, with the
//! trailer that sorts first. So a search for (key, sequence number) ends in one block, because a
//! bound that is no entry has a user key that no entry has.
//!
//! If keys are in byte order, memory also holds eight bytes of each bound in an array of numbers
//! ([`Heads`]), where nearly all of a search happens.
//!
//! Validity: the handles lie back to back from the header to the end of the data; the last bound is
//! the table's largest key.

use super::block::{Block, BlockBuilder, common_prefix};
use super::format::{BlockHandle, DATA_START};
use crate::base::coding::Reader;
use crate::base::error::{Error, Result};
use crate::base::key::{KeyOrder, MAX_SEQNO, Trailer, split_internal};
use crate::cache::BlockBytes;
use std::cmp::Ordering;
use std::ops::Range;

/// The index of an open table, which finds the data block that may hold a key.
pub(super) struct Index {
    block: Block,
    heads: Option<Heads>,
}

/// The heads of all bounds: of each user key, the eight bytes after the prefix that all of them
/// share, as a number that sorts like them. Shorter keys are padded with zeros, which can make
/// heads equal but never misorders them.
struct Heads {
    prefix: Vec<u8>,
    heads: Vec<u64>,
}

impl Heads {
    fn new(block: &Block) -> Result<Heads> {
        let user_key = |number| Ok::<_, Error>(split_internal(block.restart_entry(number)?.0).0);
        let (first, last) = (user_key(0)?, user_key(block.restarts() - 1)?);
        let prefix = first.get(..common_prefix(first, last)).unwrap_or_default().to_vec();
        let heads = (0..block.restarts())
            .map(|number| Ok(head(user_key(number)?.get(prefix.len()..).unwrap_or_default())))
            .collect::<Result<_>>()?;
        Ok(Heads { prefix, heads })
    }

    /// Returns the range of bounds whose heads do not decide. Bounds before the range sort before
    /// `user_key`, and bounds after the range sort after it.
    #[inline]
    fn range(&self, user_key: &[u8]) -> Range<usize> {
        let len = self.prefix.len().min(user_key.len());
        let (start, rest) = user_key.split_at(len);
        match start.cmp(&self.prefix) {
            Ordering::Less => 0..0,
            Ordering::Greater => self.heads.len()..self.heads.len(),
            Ordering::Equal => {
                let head = head(rest);
                let from = self.heads.partition_point(|&bound| bound < head);
                let rest = self.heads.get(from..).unwrap_or_default();
                from..from + rest.partition_point(|&bound| bound == head)
            }
        }
    }
}

#[inline]
fn head(rest: &[u8]) -> u64 {
    if let Some(bytes) = rest.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    for (byte, &from) in bytes.iter_mut().zip(rest) {
        *byte = from;
    }
    u64::from_be_bytes(bytes)
}

impl Index {
    /// Decodes an index and checks that its handles cover the data, which ends at `data_end`.
    pub(super) fn new(bytes: BlockBytes, data_end: u64, order: &KeyOrder) -> Result<Index> {
        let block = Block::new(bytes)?;
        let heads = match order {
            KeyOrder::Bytewise => Some(Heads::new(&block)?),
            KeyOrder::Custom(_) => None,
        };
        let index = Index { block, heads };
        let mut end = DATA_START;
        for number in 0..index.len() {
            let handle = index.handle(number)?;
            if handle.offset != end {
                return Err(Error::corruption(format!(
                    "block {number} is indexed at {}, where {end} was expected",
                    handle.offset
                )));
            }
            end = handle.end();
        }
        if end != data_end {
            return Err(Error::corruption(format!(
                "the indexed blocks end at {end}, the data at {data_end}"
            )));
        }
        Ok(index)
    }

    /// Returns the number of data blocks.
    pub(super) fn len(&self) -> usize {
        self.block.restarts()
    }

    /// Returns the memory that the index takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let heads = self.heads.as_ref().map_or(0, |heads| 8 * heads.heads.capacity());
        self.block.bytes() + heads
    }

    /// Returns the number of the block in which a search for the first entry at or after the target
    /// starts, or `None` if all entries are before it.
    #[inline]
    pub(super) fn block_for(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
        trailer: Trailer,
    ) -> Result<Option<usize>> {
        let unclear = match &self.heads {
            Some(heads) => heads.range(user_key),
            None => 0..self.len(),
        };
        let number = self.block.restarts_before(unclear, order, user_key, trailer)?;
        Ok((number < self.len()).then_some(number))
    }

    /// Returns the handle of block `number`.
    #[inline]
    pub(super) fn handle(&self, number: usize) -> Result<BlockHandle> {
        let mut reader = Reader::new(self.block.restart_entry(number)?.1);
        let handle = BlockHandle::decode(&mut reader)?;
        reader.finish("a block handle")?;
        Ok(handle)
    }

    /// Returns the bound of block `number`, an internal key.
    pub(super) fn bound(&self, number: usize) -> Result<&[u8]> {
        Ok(self.block.restart_entry(number)?.0)
    }
}

/// A builder of the index, which collects the bounds and handles of the blocks as they are written.
pub(super) struct IndexBuilder {
    block: BlockBuilder,
    /// The block written last, while its bound is open because it depends on the next key.
    open: Option<BlockHandle>,
    payload: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        IndexBuilder { block: BlockBuilder::new(1), open: None, payload: Vec::new() }
    }

    /// Returns the size in bytes that the index has so far.
    pub(super) fn size(&self) -> usize {
        self.block.size()
    }

    /// Adds a block that was written.
    pub(super) fn wrote(&mut self, handle: BlockHandle) {
        debug_assert!(self.open.is_none());
        self.open = Some(handle);
    }

    /// Closes the block written last, if it is still open, with a bound between its last key and
    /// the next user key.
    pub(super) fn goes_on(&mut self, order: &KeyOrder, last: &[u8], next_user_key: &[u8]) {
        if self.open.is_some() {
            let (user_key, trailer) = bound(order, last, next_user_key);
            self.close(user_key, trailer);
        }
    }

    fn close(&mut self, user_key: &[u8], trailer: Trailer) {
        if let Some(handle) = self.open.take() {
            self.payload.clear();
            handle.encode(&mut self.payload);
            self.block.add(user_key, trailer, &self.payload);
        }
    }

    /// Closes the last block with the table's last key, and returns the result of `take` on the
    /// finished index.
    pub(super) fn finish<R>(&mut self, last: &[u8], take: impl FnOnce(&[u8]) -> R) -> R {
        let (user_key, trailer) = split_internal(last);
        self.close(user_key, trailer);
        assert!(!self.block.is_empty(), "a table has at least one block");
        self.block.finish(take)
    }
}

/// Returns a bound between a block's last key and the next block's first one: the last key, or a
/// shorter user key.
fn bound<'a>(order: &KeyOrder, last: &'a [u8], next_user_key: &'a [u8]) -> (&'a [u8], Trailer) {
    let (last_user_key, last_trailer) = split_internal(last);
    let len = common_prefix(last_user_key, next_user_key) + 1;
    let bytewise = matches!(order, KeyOrder::Bytewise);
    match next_user_key.get(..len) {
        Some(short) if bytewise && len < next_user_key.len() && len < last_user_key.len() => {
            // I6: each key is looked for in the only block that can hold it.
            debug_assert!(last_user_key < short && short <= next_user_key);
            (short, Trailer::seek(MAX_SEQNO))
        }
        _ => (last_user_key, last_trailer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{EntryKind, internal_key};
    use std::sync::Arc;

    #[test]
    fn bounds_are_short_and_no_entries() {
        let trailer = Trailer::new(5, EntryKind::Put);
        let cases: [(&str, &str, &str); 7] = [
            ("apple", "banana", "b"),
            ("user:000199", "user:000200", "user:0002"),
            ("user:000200", "user:000201", "user:000200"),
            ("user:000199:x", "user:000200:a", "user:0002"),
            ("ab", "abcdef", "ab"),
            ("abcdef", "abd", "abcdef"),
            ("same", "same", "same"),
        ];
        for (last, next, expected) in cases {
            let last_key = internal_key(last.as_bytes(), trailer);
            let (short, found) = bound(&KeyOrder::Bytewise, &last_key, next.as_bytes());
            assert_eq!(short, expected.as_bytes(), "{last} {next}");
            assert_eq!(found == trailer, short == last.as_bytes());
            assert!(last.as_bytes() <= short && (short < next.as_bytes() || last == next));
        }
    }

    #[test]
    fn handles_must_cover_the_data() {
        let build = |handles: &[(u64, u32)]| {
            let mut builder = IndexBuilder::new();
            let last = internal_key(b"a", Trailer::new(1, EntryKind::Put));
            for &(offset, len) in handles {
                builder.goes_on(&KeyOrder::Bytewise, &last, b"b");
                builder.wrote(BlockHandle { offset, len });
            }
            builder.finish(&last, |bytes| Arc::new(bytes.to_vec()))
        };
        let good = Index::new(build(&[(40, 60), (100, 20)]), 120, &KeyOrder::Bytewise).unwrap();
        assert_eq!((good.len(), good.handle(1).unwrap().offset), (2, 100));
        assert!(Index::new(build(&[(40, 60), (100, 20)]), 121, &KeyOrder::Bytewise).is_err());
        assert!(Index::new(build(&[(40, 60), (101, 19)]), 120, &KeyOrder::Bytewise).is_err());
        assert!(Index::new(build(&[(41, 79)]), 120, &KeyOrder::Bytewise).is_err());
        assert!(Index::new(build(&[(40, 2)]), 42, &KeyOrder::Bytewise).is_err());
    }
}
