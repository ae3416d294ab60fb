//! Finds what was written after a given moment: keys and ranges of keys that have an entry with a
//! greater sequence number. Only the memtables and tables that have such entries are read.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, MAX_SEQNO, SeqNo, Trailer};
use crate::read::input::SortedRunIter;
use crate::read::level_iter::{LevelIter, ReadMode};
use crate::read::merge::MergeIter;
use crate::read::visible::Bounds;
use crate::version::files::TableHandle;
use crate::version::levels::LEVELS;
use crate::version::view::View;
use std::sync::Arc;

/// A search for the entries of one view that were written after a sequence number.
///
/// I6: a compaction may have dropped such an entry because a newer one hides it, which is then
/// found instead. It may also have dropped a tombstone with all that it hid. Where a snapshot at
/// the sequence number lives, this happens only to keys that had no value then and have none now.
pub struct ChangeSearch {
    order: KeyOrder,
    since: SeqNo,
    entries: MergeIter,
}

impl ChangeSearch {
    /// Prepares a search in `view`. Costs no I/O.
    pub fn new(view: &View, since: SeqNo) -> Result<Self> {
        let order = view.levels.order().clone();
        let is_newer = |handle: &&Arc<TableHandle>| handle.meta.summary.max_seqno > since;
        let mode = ReadMode::Cached;
        let mut inputs = Vec::new();
        for memtable in view.memtables().filter(|memtable| memtable.last_seqno() > since) {
            inputs.push(SortedRunIter::Memtable(memtable.table.iter()));
        }
        for handle in view.levels.level(0).iter().filter(is_newer) {
            inputs.push(SortedRunIter::Table(mode.iter(&*handle.table()?)));
        }
        for level in 1..LEVELS {
            let tables: Vec<_> =
                view.levels.level(level).iter().filter(is_newer).cloned().collect();
            if !tables.is_empty() {
                inputs.push(SortedRunIter::Level(LevelIter::new(order.clone(), tables, mode)));
            }
        }
        let entries = MergeIter::new(order.clone(), inputs);
        Ok(ChangeSearch { order, since, entries })
    }

    /// Returns true if `key` was written.
    pub fn has_key(&mut self, key: &[u8]) -> Result<bool> {
        // The newest entry of a key is its first.
        self.entries.seek(key, Trailer::seek(MAX_SEQNO))?;
        Ok(self.entries.valid()
            && self.order.compare(self.entries.user_key(), key).is_eq()
            && self.entries.trailer().seqno() > self.since)
    }

    /// Returns the first key within `bounds` that was written. Costs a walk over all entries there
    /// of the memtables and tables that are read.
    pub fn first_key(&mut self, bounds: &Bounds) -> Result<Option<Vec<u8>>> {
        match &bounds.lower {
            Some(lower) if bounds.open_lower => self.entries.seek(lower, Trailer::LAST)?,
            Some(lower) => self.entries.seek(lower, Trailer::seek(MAX_SEQNO))?,
            None => self.entries.seek_to_first()?,
        }
        while self.entries.valid() && !bounds.is_behind(&self.order, self.entries.user_key()) {
            if self.entries.trailer().seqno() > self.since {
                return Ok(Some(self.entries.user_key().to_vec()));
            }
            self.entries.next()?;
        }
        Ok(None)
    }
}
