//! Finds what was written after a given moment: keys and ranges of keys that have an entry with a
//! greater sequence number. Only the memtables and tables that have such entries are read.

use crate::base::bounds::Bounds;
use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{MAX_SEQNO, SeqNo, Trailer};
use crate::base::range_tombstone::RangeTombstone;
use crate::read::input::SortedRunIter;
use crate::read::level_iter::{LevelIter, ReadMode};
use crate::read::merge::MergeIter;
use crate::version::files::TableHandle;
use crate::version::levels::LEVELS;
use crate::version::view::View;
use std::sync::Arc;

/// Returns true if the memtables of `view` have an entry of `key` that was written after `since`.
pub fn memtables_have(view: &View, key: &[u8], since: SeqNo) -> bool {
    let mut newer = view.memtables().filter(|memtable| memtable.last_seqno() > since);
    newer.any(|memtable| {
        if memtable.table.newest_range(key, |_| true).is_some_and(|it| it > since) {
            return true;
        }
        let newest = memtable.table.get(key, MAX_SEQNO, |trailer, _| trailer.seqno());
        newest.is_some_and(|seqno| seqno > since)
    })
}

/// A search for the entries of one view that were written after a sequence number.
///
/// I6: a compaction may have dropped such an entry because a newer one hides it, which is then
/// found instead. It drops a tombstone only if no older entry of the key is left. Where a snapshot
/// at the sequence number lives, which would have kept that entry, the key had no value then and
/// has none now, so that nothing has changed.
pub struct ChangeSearch {
    /// It keeps the files that are read.
    view: Arc<View>,
    since: SeqNo,
}

impl ChangeSearch {
    /// Prepares a search in `view`. Costs no I/O.
    pub fn new(view: Arc<View>, since: SeqNo) -> Self {
        ChangeSearch { view, since }
    }

    fn is_newer(&self, handle: &TableHandle) -> bool {
        handle.meta.summary.max_seqno > self.since
    }

    /// Returns true if `key` was written. Costs a point read of each memtable and table that may
    /// hold such an entry, after a look at their filters.
    pub fn has_key(&self, key: &[u8]) -> Result<bool> {
        if memtables_have(&self.view, key, self.since) {
            return Ok(true);
        }
        let is_newer = |seqno: SeqNo| seqno > self.since;
        let levels = &self.view.levels;
        if levels.ranges().newest(key, |_| true).is_some_and(|it| is_newer(it.seqno)) {
            return Ok(true);
        }
        for handle in levels.holders(key).filter(|handle| self.is_newer(handle)) {
            let newest = |trailer: Trailer, _: &[u8]| trailer.seqno();
            if handle.table()?.get(key, MAX_SEQNO, false, newest)?.is_some_and(is_newer) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the first key within `bounds` that was written. Costs a walk over all entries there
    /// of the memtables and tables that have newer entries.
    ///
    /// A range tombstone counts as written at the first place within `bounds` that it is over,
    /// whether or not there was a key.
    pub fn first_key(&self, bounds: &Bounds) -> Result<Option<Vec<u8>>> {
        let order = self.view.levels.order();
        let is_newer =
            |it: &&RangeTombstone| it.seqno > self.since && it.range.overlaps(bounds, order);
        if let Some(deleted) = self.view.ranges().iter().find(is_newer) {
            let begin = deleted.range.begin().later(bounds.begin(), order);
            return Ok(Some(begin.key().unwrap_or_default().to_vec()));
        }
        let mut entries = MergeIter::new(order.clone(), self.newer_runs()?);
        entries.seek_cut(bounds.begin())?;
        while entries.valid() && !bounds.is_behind(order, entries.user_key()) {
            if entries.trailer().seqno() > self.since {
                return Ok(Some(entries.user_key().to_vec()));
            }
            entries.next()?;
        }
        Ok(None)
    }

    /// Returns an iterator over each sorted run, without the memtables and tables in which nothing
    /// is newer.
    fn newer_runs(&self) -> Result<Vec<SortedRunIter>> {
        let (levels, mode) = (&self.view.levels, ReadMode::Uncached);
        let mut runs = Vec::new();
        for memtable in self.view.memtables().filter(|it| it.last_seqno() > self.since) {
            runs.push(SortedRunIter::Memtable(memtable.table.iter()));
        }
        // The tables of one ingest have one number.
        for run in levels.level0_runs().filter(|run| self.is_newer(&run[0])) {
            runs.push(SortedRunIter::level0(levels.order(), run, mode)?);
        }
        for level in 1..LEVELS {
            let newer = levels.level(level).iter().filter(|handle| self.is_newer(handle));
            let tables: Vec<_> = newer.cloned().collect();
            if !tables.is_empty() {
                let order = levels.order().clone();
                runs.push(SortedRunIter::Level(LevelIter::new(order, tables, mode)));
            }
        }
        Ok(runs)
    }
}
