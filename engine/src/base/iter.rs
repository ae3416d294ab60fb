//! The contract of every iterator over entries: of a memtable, a table, a level or a merge.

use super::error::Result;
use super::key::Trailer;

/// An iterator over entries in the order of [`super::key::KeyOrder::compare_entries`]: user keys
/// ascending, the newest entry of a key first.
///
/// A new iterator is *invalid*: it stands on no entry. The positioning methods do the I/O and
/// return its errors; after an error the iterator is invalid. The accessors may be called only
/// while it is valid.
pub trait EntryIter: Send {
    /// Returns true if the iterator stands on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after (`user_key`, `trailer`).
    fn seek(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()>;
    /// Moves to the last entry strictly before (`user_key`, `trailer`).
    fn seek_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()>;
    /// Moves to the next entry. Requires: valid.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry. Requires: valid.
    fn prev(&mut self) -> Result<()>;
    /// Returns the user key of the current entry.
    fn user_key(&self) -> &[u8];
    /// Returns the trailer (sequence number and kind) of the current entry. Its kind is a valid
    /// one.
    fn trailer(&self) -> Trailer;
    /// Returns the stored payload: an inline value, an encoded pointer, or nothing for a tombstone.
    /// [`super::entry::Slot::decode`] decodes it.
    fn payload(&self) -> &[u8];
}
