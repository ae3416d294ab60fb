//! Entries as both stores keep them: a key of the user's with a number and a kind behind it, newest
//! first among those of one key.

use cleavedb::{Error, Result};
use std::cmp::Ordering;
use std::path::PathBuf;

pub(crate) const DELETION: u8 = 0;
pub(crate) const VALUE: u8 = 1;
pub(crate) const MERGE: u8 = 2;
pub(crate) const SINGLE_DELETION: u8 = 7;
pub(crate) const BLOB: u8 = 0x11;
pub(crate) const DELETION_WITH_TIMESTAMP: u8 = 0x14;
pub(crate) const WIDE_COLUMNS: u8 = 0x16;

/// An entry of a sorted run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunEntry<'a> {
    pub(crate) key: &'a [u8],
    /// The sequence number, shifted by 8, and the kind.
    pub(crate) tag: u64,
    pub(crate) value: &'a [u8],
}

impl RunEntry<'_> {
    pub(crate) fn seqno(&self) -> u64 {
        self.tag >> 8
    }

    pub(crate) fn kind(&self) -> u8 {
        self.tag as u8
    }

    /// Returns the order of two entries: by key, then the newer one first.
    pub(crate) fn order(&self, other: &RunEntry<'_>) -> Ordering {
        key_order((self.key, self.tag), (other.key, other.tag))
    }
}

/// Something with entries in order: a table, the tables of a level, or what a log held.
pub(crate) trait EntryRun {
    /// Goes to the next entry, at first to the first one. Returns false at the end.
    fn advance(&mut self) -> Result<bool>;

    /// Returns the entry, after an [`EntryRun::advance`] that returned true.
    fn entry(&self) -> RunEntry<'_>;

    /// Returns the file of the entry, and where its block lies in it.
    fn place(&self) -> (PathBuf, u64);
}

/// Returns the parts of an internal key: the user's key, and number and kind.
pub(crate) fn split_key(internal: &[u8]) -> Result<(&[u8], u64)> {
    let (key, tag) = internal
        .split_last_chunk::<8>()
        .ok_or_else(|| Error::corruption("a key is too short for its sequence number"))?;
    Ok((key, u64::from_le_bytes(*tag)))
}

/// Returns the order of two internal keys: by the user's key, then the newer one first.
pub(crate) fn key_order(first: (&[u8], u64), second: (&[u8], u64)) -> Ordering {
    first.0.cmp(second.0).then(second.1.cmp(&first.1))
}

/// Returns true if the first internal key stands before the second.
pub(crate) fn before(first: (&[u8], u64), second: (&[u8], u64)) -> bool {
    key_order(first, second) == Ordering::Less
}
