//! Where a search of a memtable ended. Who reads a key in order to write it searches for it twice,
//! and the second search, under the lock of the log, finds what the first one found if nothing was
//! inserted in between. Then the insertion begins where the first one ended.

use super::{HEAD, MAX_LEVELS, Memtable};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of no memtable.
const NOWHERE: u64 = 0;

/// Returns the number of a new memtable.
pub(super) fn next_memtable() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(NOWHERE + 1);
    NEXT.fetch_add(1, Relaxed)
}

/// The place of a key in a memtable, noted by [`Memtable::get_noting`]. It holds nothing alive, and
/// is of no use once anything else was inserted.
pub struct KeyPlace {
    memtable: u64,
    /// The number of entries that the memtable had when the search began.
    entries: u64,
    /// For each level, the last entry before the key.
    before: [u32; MAX_LEVELS],
}

impl Default for KeyPlace {
    fn default() -> Self {
        KeyPlace { memtable: NOWHERE, entries: 0, before: [HEAD; MAX_LEVELS] }
    }
}

impl KeyPlace {
    /// Begins to note a search of `table`; returns where its levels are to be noted.
    pub(super) fn begin(&mut self, table: &Memtable) -> &mut [u32; MAX_LEVELS] {
        // I6: the entries are counted before the search. An insertion counts its entry last, so one
        // of which the search sees only a part makes the number differ.
        *self =
            KeyPlace { memtable: table.number, entries: table.entries(), ..KeyPlace::default() };
        &mut self.before
    }

    /// Returns, for each level of `table`, the last entry before the key, if that is still known.
    /// The caller holds the lock of insertions.
    pub(super) fn before_in(&self, table: &Memtable) -> Option<[u32; MAX_LEVELS]> {
        let is_current = self.memtable == table.number && self.entries == table.entries();
        is_current.then_some(self.before)
    }
}
