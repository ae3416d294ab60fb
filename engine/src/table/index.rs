//! The index: which data block may hold a key.
//!
//! It is a block (`block.rs`) that restarts at each entry, one entry per data block:
//!
//! ```text
//! key      a *bound*: at or behind every entry of the block, before every entry of the next
//! payload  handle of the block: offset (varint), length with trailer (varint)
//! ```
//! The bound is the block's last internal key, or, where keys are ordered by bytes, a shorter user
//! key strictly between the last of this block and the first of the next, with the trailer that
//! sorts first. So a search for (key, sequence number) ends in one block: a bound that is no entry
//! has a user key that no entry has.
//!
//! In memory, where keys are ordered by bytes, eight bytes of each bound are kept in an array of
//! numbers besides ([`Heads`]): nearly all of a search happens there.
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

/// The index of an open table.
pub(super) struct Index {
    block: Block,
    heads: Option<Heads>,
}

/// Of each bound's user key, the eight bytes behind what all of them begin with, as a number that
/// sorts like them. A shorter one is padded with zeros, which can make heads equal, never misorder.
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

    /// The bounds before the range are before `user_key`, those behind it are behind; of those in
    /// it their heads do not tell.
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
    /// Reads an index and checks that its handles cover the data, which ends at `data_end`.
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

    /// How many data blocks there are.
    pub(super) fn len(&self) -> usize {
        self.block.restarts()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let heads = self.heads.as_ref().map_or(0, |heads| 8 * heads.heads.capacity());
        self.block.bytes() + heads
    }

    /// The number of the block where a search for the first entry at or behind the target starts;
    /// `None` if all entries are before it.
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

    /// Where block `number` is.
    #[inline]
    pub(super) fn handle(&self, number: usize) -> Result<BlockHandle> {
        let mut reader = Reader::new(self.block.restart_entry(number)?.1);
        let handle = BlockHandle::decode(&mut reader)?;
        reader.finish("a block handle")?;
        Ok(handle)
    }

    /// The bound of block `number`, an internal key.
    pub(super) fn bound(&self, number: usize) -> Result<&[u8]> {
        Ok(self.block.restart_entry(number)?.0)
    }
}

/// Collects the bounds and handles of the blocks as they are written.
pub(super) struct IndexBuilder {
    block: BlockBuilder,
    /// The block written last, whose bound depends on the key that follows.
    open: Option<BlockHandle>,
    payload: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn new() -> Self {
        IndexBuilder { block: BlockBuilder::new(1), open: None, payload: Vec::new() }
    }

    /// Bytes that the index takes so far.
    pub(super) fn size(&self) -> usize {
        self.block.size()
    }

    /// Notes that a block was written.
    pub(super) fn wrote(&mut self, handle: BlockHandle) {
        debug_assert!(self.open.is_none());
        self.open = Some(handle);
    }

    /// Notes the last key of the block written last, if that is new, and the first one behind.
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

    /// Notes the table's last key and hands over the finished index.
    pub(super) fn finish<R>(&mut self, last: &[u8], take: impl FnOnce(&[u8]) -> R) -> R {
        let (user_key, trailer) = split_internal(last);
        self.close(user_key, trailer);
        self.block.finish(take)
    }
}

/// The shortest bound between a block's last key and the next block's first one.
fn bound<'a>(order: &KeyOrder, last: &'a [u8], next_user_key: &'a [u8]) -> (&'a [u8], Trailer) {
    let (last_user_key, last_trailer) = split_internal(last);
    let len = common_prefix(last_user_key, next_user_key) + 1;
    let bytewise = matches!(order, KeyOrder::Bytewise);
    match next_user_key.get(..len) {
        Some(short) if bytewise && len < next_user_key.len() && len < last_user_key.len() => {
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
