//! The contract of every iterator over entries: of a memtable, a table, a level or a merge.

use super::bounds::Cut;
use super::error::Result;
use super::key::{KeyOrder, MAX_SEQNO, Trailer};
use super::range_tombstone::RangeTombstone;

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
    /// Moves forward, over the current entry and others that `hidden` hides as it does the current
    /// one: to the next entry, or to one behind which it need not hide all. Requires: valid.
    fn next_behind(&mut self, hidden: &RangeTombstone) -> Result<()> {
        let _ = hidden;
        self.next()
    }
    /// Does as [`EntryIter::next_behind`] backward.
    fn prev_before(&mut self, hidden: &RangeTombstone) -> Result<()> {
        let _ = hidden;
        self.prev()
    }
    /// Moves forward, towards the first entry at or after (`user_key`, `trailer`), which is behind
    /// the current one: to the next entry, or over others that are before that place. A merge moves
    /// the input with the current entry. Requires: valid, and the order of bytes.
    fn next_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        let _ = (user_key, trailer);
        self.next()
    }
    /// Does as [`EntryIter::next_towards`] backward, towards the first entry at or after a place
    /// before the current entry: to the previous entry, or over others behind that place. The first
    /// one there may be the current one.
    fn prev_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        let _ = (user_key, trailer);
        self.prev()
    }
    /// Moves to no entry.
    fn leave(&mut self);
    /// Moves to the first entry behind a place.
    fn seek_cut(&mut self, cut: Cut<'_>) -> Result<()> {
        match cut {
            Cut::First => self.seek_to_first()?,
            Cut::Before(key) => self.seek(key, Trailer::seek(MAX_SEQNO))?,
            Cut::Behind(key) => self.seek(key, Trailer::LAST)?,
            Cut::Last => self.leave(),
        }
        Ok(())
    }
    /// Moves to the last entry before a place.
    fn seek_before_cut(&mut self, cut: Cut<'_>) -> Result<()> {
        match cut {
            Cut::First => self.leave(),
            Cut::Before(key) => self.seek_before(key, Trailer::seek(MAX_SEQNO))?,
            Cut::Behind(key) => self.seek_before(key, Trailer::LAST)?,
            Cut::Last => self.seek_to_last()?,
        }
        Ok(())
    }
    /// Returns the user key of the current entry.
    fn user_key(&self) -> &[u8];
    /// Returns the trailer (sequence number and kind) of the current entry. Its kind is a valid
    /// one.
    fn trailer(&self) -> Trailer;
    /// Returns the stored payload: an inline value, an encoded pointer, or nothing for a tombstone.
    /// [`super::entry::Slot::decode`] decodes it.
    fn payload(&self) -> &[u8];
}

/// The user key at which a walk over entries in order stands.
#[derive(Default)]
pub struct CurrentKey {
    bytes: Vec<u8>,
    is_set: bool,
}

impl CurrentKey {
    /// Takes the key of the next entry. Returns true if it is another key than that of the entry
    /// before; then this entry is the newest of its key.
    #[inline]
    pub fn enter(&mut self, order: &KeyOrder, user_key: &[u8]) -> bool {
        if self.is_set && order.compare(user_key, &self.bytes).is_eq() {
            return false;
        }
        self.is_set = true;
        self.bytes.clear();
        self.bytes.extend_from_slice(user_key);
        true
    }

    /// Returns the key; it is empty before the first entry.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_of_each_key_enters_it() {
        let mut key = CurrentKey::default();
        let walk = ["", "", "a", "a", "ab", "b"];
        let entered = walk.map(|user_key| {
            let is_new = key.enter(&KeyOrder::Bytewise, user_key.as_bytes());
            assert_eq!(key.bytes(), user_key.as_bytes());
            is_new
        });
        assert_eq!(entered, [true, false, true, false, true, true]);
    }
}
