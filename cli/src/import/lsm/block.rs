//! Blocks of a table: entries in the order of their keys, each key without what it shares with the
//! one before.
//!
//! ```text
//! entry      shared, unshared, length of the value | the key's rest | value
//! at the end restarts, 4 each | [hash index of RocksDB] | how many restarts, and flags, 4
//! ```
//!
//! An index block of RocksDB may leave the length of values out, because they are handles of blocks
//! and end by themselves ([`HandleCoding`]).

use super::footer::{BlockSpan, TRAILER_BYTES};
use crate::import::cursor::ByteCursor;
use cleavedb::{Error, Result};
use std::ops::Range;

const HASH_INDEX: u32 = 1 << 31;
/// Keys at even distances: a hint for searches, which a walk does not need.
const UNIFORM_KEYS: u32 = 1 << 29;
/// Bits for the number of restarts. Other bits are of formats that are not known here.
const MAX_RESTARTS: u32 = (1 << 28) - 1;

/// Walks over the entries of a block.
#[derive(Default)]
pub(crate) struct BlockWalk {
    bytes: Vec<u8>,
    at: usize,
    /// Where the entries end.
    end: usize,
    key: Vec<u8>,
    value: Range<usize>,
}

impl BlockWalk {
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self> {
        let end = entries_end(&bytes)?;
        Ok(BlockWalk { bytes, at: 0, end, key: Vec::new(), value: 0..0 })
    }

    /// Goes to the next entry. Returns false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.at >= self.end {
            return Ok(false);
        }
        let mut cursor = ByteCursor::new(&self.bytes[self.at..self.end]);
        let taken = entry_key(&mut cursor, true, &mut self.key)
            .and_then(|(_, length)| cursor.take(length).map(|_| length));
        let Some(length) = taken else {
            return Err(Error::corruption("a block has an entry that cannot be understood"));
        };
        self.at += cursor.at();
        self.value = self.at - length..self.at;
        Ok(true)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[self.value.clone()]
    }
}

/// Returns where the entries of a block end.
fn entries_end(bytes: &[u8]) -> Result<usize> {
    let short = || Error::corruption("a block is too short for what it says of itself");
    let (rest, footer) = bytes.split_last_chunk::<4>().ok_or_else(short)?;
    let footer = u32::from_le_bytes(*footer);
    let restarts = footer & !(HASH_INDEX | UNIFORM_KEYS);
    if restarts > MAX_RESTARTS {
        return Err(Error::unsupported("a block has a format that is not known here"));
    }
    let mut end = rest.len();
    if footer & HASH_INDEX != 0 {
        let (_, buckets) = rest.split_last_chunk::<2>().ok_or_else(short)?;
        let index = 2 + usize::from(u16::from_le_bytes(*buckets));
        end = end.checked_sub(index).ok_or_else(short)?;
    }
    end.checked_sub(restarts as usize * 4).ok_or_else(short)
}

/// Takes an entry's lengths and its key. Returns what the key shares with the one before, and the
/// length of the value, which is 0 if the entry does not tell it.
fn entry_key(
    cursor: &mut ByteCursor<'_>,
    has_length: bool,
    key: &mut Vec<u8>,
) -> Option<(usize, usize)> {
    let (shared, unshared) = (cursor.varint32()? as usize, cursor.varint32()? as usize);
    let length = if has_length { cursor.varint32()? as usize } else { 0 };
    if shared > key.len() {
        return None;
    }
    let rest = cursor.take(unshared)?;
    key.truncate(shared);
    key.extend_from_slice(rest);
    Some((shared, length))
}

/// How an index block writes handles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HandleCoding {
    /// A handle whose key shares bytes with the one before tells only how its size differs from
    /// that one's: the blocks are neighbours.
    pub(crate) is_delta: bool,
    /// A handle has the first key of its block behind it.
    pub(crate) has_first_key: bool,
}

/// Returns the handles of an index block.
pub(crate) fn handles(bytes: &[u8], coding: HandleCoding) -> Result<Vec<BlockSpan>> {
    let end = entries_end(bytes)?;
    let mut cursor = ByteCursor::new(&bytes[..end]);
    let (mut key, mut handles) = (Vec::new(), Vec::new());
    while !cursor.is_empty() {
        let handle = handle(&mut cursor, coding, &mut key, handles.last());
        handles.push(handle.ok_or_else(|| {
            Error::corruption("the index of a table has an entry that cannot be understood")
        })?);
    }
    Ok(handles)
}

fn handle(
    cursor: &mut ByteCursor<'_>,
    coding: HandleCoding,
    key: &mut Vec<u8>,
    before: Option<&BlockSpan>,
) -> Option<BlockSpan> {
    let (shared, length) = entry_key(cursor, !coding.is_delta, key)?;
    if !coding.is_delta {
        let mut value = ByteCursor::new(cursor.take(length)?);
        return BlockSpan::decode(&mut value);
    }
    let handle = if shared == 0 {
        BlockSpan::decode(cursor)?
    } else {
        let before = before?;
        let zigzag = cursor.varint64()?;
        let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let offset = before.offset.checked_add(before.size)?.checked_add(TRAILER_BYTES as u64)?;
        BlockSpan { offset, size: before.size.checked_add_signed(delta)? }
    };
    if coding.has_first_key {
        cursor.prefixed()?;
    }
    Some(handle)
}
