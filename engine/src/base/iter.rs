//! The contract of every iterator over entries: memtable, table, level, merge.

use super::error::Result;
use super::key::Trailer;

/// Walks entries in the order of [`super::key::KeyOrder::compare_entries`]: user keys ascending,
/// the newest entry of a key first.
///
/// An iterator starts *invalid*. Positioning calls do the I/O and return its errors; after an
/// error the iterator is invalid. The accessors may be called only while it is valid.
pub trait EntryIter: Send {
    /// True if it stands on an entry.
    fn valid(&self) -> bool;
    /// Stands on the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Stands on the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Stands on the first entry at or behind (`user_key`, `trailer`).
    fn seek(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()>;
    /// Stands on the last entry strictly before (`user_key`, `trailer`).
    fn seek_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()>;
    /// Steps to the next entry. Requires: valid.
    fn next(&mut self) -> Result<()>;
    /// Steps to the entry before. Requires: valid.
    fn prev(&mut self) -> Result<()>;
    /// The user key it stands on.
    fn user_key(&self) -> &[u8];
    /// The sequence number and kind it stands on. The kind is one that exists.
    fn trailer(&self) -> Trailer;
    /// The stored payload: an inline value, an encoded pointer, or nothing for a tombstone;
    /// [`super::entry::Slot::decode`] reads it.
    fn payload(&self) -> &[u8];
}
