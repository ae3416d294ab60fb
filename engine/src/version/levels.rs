//! The tables of a keyspace by level: in L0 tables overlap and the newest comes first; L1 and below
//! are each a sorted run of disjoint tables, and so are those tables of L0 that came with one
//! ingest. Beside them are the range tombstones that were flushed and may still hide something in a
//! table.
//!
//! I6: a range tombstone stays for as long as a table may hold an entry that it hides. Such a table
//! overlaps its range, has an older entry, and was not written by a job that applied the range
//! tombstone. No other can come: flushes add newer entries only, and compactions get theirs from
//! tables that are here until then.

use super::files::TableHandle;
use crate::base::bounds::Bounds;
use crate::base::error::{Error, Result};
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::TableId;
use crate::base::range_tombstone::{RangeTombstone, RangeTombstones};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The number of levels, L0 included. With a fan-out of ten, L6 is meant for a hundred thousand
/// times as much as L1; as the last level it has no size limit.
pub const LEVELS: usize = 7;

/// The immutable set of tables of one keyspace by level.
#[derive(Clone)]
pub struct Levels {
    order: KeyOrder,
    levels: [Vec<Arc<TableHandle>>; LEVELS],
    derived: Derived,
    /// The range tombstones that may hide something in these tables.
    ranges: Arc<RangeTombstones>,
    /// The number of the newest ingest that is known: of those since the opening, and of those
    /// whose tables were there at the opening.
    ingested: SeqNo,
}

/// What follows from the tables, determined when it is needed.
#[derive(Clone, Default)]
struct Derived {
    /// The index behind the last table of each sorted run of L0.
    run_ends: OnceLock<Arc<[usize]>>,
    /// The bytes of the records of separated values that all tables reference.
    value_bytes: OnceLock<u64>,
}

/// Returns the least and the greatest user key of a table, both inclusive.
pub fn bounds(table: &TableHandle) -> (&[u8], &[u8]) {
    (table.meta.summary.smallest_key(), table.meta.summary.largest_key())
}

/// Splits tables of L0, newest first, into sorted runs: single tables, and those of one ingest in
/// the order of their keys.
pub fn level0_runs_of(
    tables: &[Arc<TableHandle>],
) -> impl Iterator<Item = &[Arc<TableHandle>]> + Clone {
    tables.chunk_by(|one, other| one.meta.is_of_one_ingest_with(&other.meta))
}

/// Returns the bytes of these tables' files.
pub fn table_bytes(tables: &[Arc<TableHandle>]) -> u64 {
    // I7: the numbers are from files.
    tables.iter().map(|table| table.meta.bytes).fold(0, u64::saturating_add)
}

impl Levels {
    /// Creates levels without tables.
    pub fn new(order: KeyOrder) -> Self {
        let ranges = Arc::new(RangeTombstones::new(order.clone()));
        let derived = Derived::default();
        Levels { order, levels: Default::default(), derived, ranges, ingested: 0 }
    }

    /// Creates levels with these tables, for tests of deciders.
    #[cfg(test)]
    pub fn of(order: KeyOrder, tables: impl IntoIterator<Item = (usize, TableHandle)>) -> Self {
        let mut levels = Levels::new(order);
        tables.into_iter().for_each(|(level, table)| levels.add(level, Arc::new(table)).unwrap());
        levels.check().unwrap();
        levels
    }

    /// Adds range tombstones, for tests of deciders.
    #[cfg(test)]
    pub fn with_ranges(mut self, ranges: Vec<RangeTombstone>) -> Self {
        self.change_ranges(ranges, &[]).unwrap();
        self
    }

    /// Returns the order of the keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Returns a copy with only the tables for which `keep` returns true.
    pub fn filtered(&self, keep: impl Fn(&TableHandle) -> bool) -> Levels {
        let mut kept = self.clone();
        kept.levels.iter_mut().for_each(|tables| tables.retain(|table| keep(table)));
        kept.derived = Derived::default();
        kept
    }

    /// Puts handles of the same tables in the place of its own.
    pub(super) fn share_handles(&mut self, known: &FxHashMap<TableId, &Arc<TableHandle>>) {
        for table in self.levels.iter_mut().flatten() {
            let same = known.get(&table.meta.id).filter(|it| it.meta == table.meta);
            *table = same.map_or_else(|| table.clone(), |it| Arc::clone(it));
        }
    }

    /// Returns the tables of one level.
    pub fn level(&self, level: usize) -> &[Arc<TableHandle>] {
        &self.levels[level]
    }

    /// Iterates over all tables with their levels, upper levels first.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableHandle>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |t| (level, t)))
    }

    /// Returns the bytes of all tables of one level.
    pub fn bytes(&self, level: usize) -> u64 {
        table_bytes(&self.levels[level])
    }

    /// Returns the bytes of the records of separated values that all tables reference. The first
    /// call costs a look at each table.
    pub fn value_bytes(&self) -> u64 {
        *self.derived.value_bytes.get_or_init(|| {
            let bytes = self.tables().map(|(_, table)| table.meta.summary.value_bytes());
            // I7: the numbers are from files.
            bytes.fold(0, u64::saturating_add)
        })
    }

    /// Returns the number of entries of all tables. Costs a look at each.
    pub fn entries(&self) -> u64 {
        // I7: the numbers are from files.
        let entries = self.tables().map(|(_, table)| table.meta.summary.entries);
        entries.fold(0, u64::saturating_add)
    }

    /// Returns the deepest level that has tables.
    pub fn deepest(&self) -> Option<usize> {
        (0..LEVELS).rev().find(|&level| !self.levels[level].is_empty())
    }

    /// Returns the only table of a level below L0 that may hold `user_key`.
    pub fn find(&self, level: usize, user_key: &[u8]) -> Option<&Arc<TableHandle>> {
        debug_assert!(level > 0, "tables of L0 overlap, so none of them is the one");
        self.find_in(&self.levels[level], user_key)
    }

    /// Returns the only table of a sorted run that may hold `user_key`.
    pub fn find_in<'a>(
        &self,
        run: &'a [Arc<TableHandle>],
        user_key: &[u8],
    ) -> Option<&'a Arc<TableHandle>> {
        let index =
            run.partition_point(|table| self.order.compare(bounds(table).1, user_key).is_lt());
        run.get(index).filter(|table| self.order.compare(bounds(table).0, user_key).is_le())
    }

    /// Returns the sorted runs of L0, as [`level0_runs_of`] does, but without a walk over its
    /// tables.
    pub fn level0_runs(&self) -> impl ExactSizeIterator<Item = &[Arc<TableHandle>]> {
        let tables = &self.levels[0];
        let ends = self.derived.run_ends.get_or_init(|| {
            let mut end = 0;
            let end_of = |run: &[_]| {
                end += run.len();
                end
            };
            level0_runs_of(tables).map(end_of).collect()
        });
        let begin = |run: usize| run.checked_sub(1).map_or(0, |before| ends[before]);
        (0..ends.len()).map(move |run| &tables[begin(run)..ends[run]])
    }

    /// Returns the tables of L0 that may hold `user_key`, newest first. Costs a bisection for each
    /// sorted run.
    pub fn level0_holders(&self, user_key: &[u8]) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.level0_runs().filter_map(move |run| self.find_in(run, user_key))
    }

    /// Returns the tables of all levels that may hold `user_key`. I6: L0 newest first, then deeper
    /// levels, so that what a table has of a key is newer than what those behind it have. Costs a
    /// bisection for each sorted run.
    pub fn holders(&self, user_key: &[u8]) -> impl Iterator<Item = &Arc<TableHandle>> {
        let below = (1..LEVELS).filter_map(move |level| self.find(level, user_key));
        self.level0_holders(user_key).chain(below)
    }

    /// Returns the table with this id, if it is here and may hold `user_key`.
    pub fn holder(&self, id: TableId, user_key: &[u8]) -> Option<&Arc<TableHandle>> {
        self.holders(user_key).find(|table| table.meta.id == id)
    }

    /// Returns the tables of a level below L0 that overlap the user keys from `smallest` to
    /// `largest`, both inclusive. Costs two bisections.
    pub fn overlapping(
        &self,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
    ) -> &[Arc<TableHandle>] {
        debug_assert!(level > 0, "tables of L0 are in the order of their age");
        self.overlapping_in(&self.levels[level], smallest, largest)
    }

    /// Returns the tables of a sorted run that overlap the user keys from `smallest` to `largest`.
    fn overlapping_in<'a>(
        &self,
        run: &'a [Arc<TableHandle>],
        smallest: &[u8],
        largest: &[u8],
    ) -> &'a [Arc<TableHandle>] {
        let begin =
            run.partition_point(|table| self.order.compare(bounds(table).1, smallest).is_lt());
        let end = run.partition_point(|table| self.order.compare(bounds(table).0, largest).is_le());
        // I7: a damaged manifest may say that a table ends before it begins, so a range may be
        // reversed. Opening that table tells.
        run.get(begin..end).unwrap_or_default()
    }

    /// Returns the tables of a level below L0 that may hold a key of `range`. Costs two bisections.
    pub fn meeting(&self, level: usize, range: &Bounds) -> &[Arc<TableHandle>] {
        debug_assert!(level > 0, "tables of L0 are in the order of their age");
        let tables = &self.levels[level];
        let begin = tables.partition_point(|table| range.is_before(&self.order, bounds(table).1));
        let end = tables.partition_point(|table| !range.is_behind(&self.order, bounds(table).0));
        // I7: as above.
        tables.get(begin..end).unwrap_or_default()
    }

    /// Returns the range tombstones that may hide something in these tables.
    pub fn ranges(&self) -> &Arc<RangeTombstones> {
        &self.ranges
    }

    /// Returns a sequence number behind which nothing was ingested since the opening. Up to there,
    /// an entry may have come to tables without having been in a memtable.
    pub fn ingested(&self) -> SeqNo {
        self.ingested
    }

    /// Returns the deepest level to which a newer table with the keys from `smallest` to `largest`
    /// can be added: no table of that level, nor of any above, may hold one of these keys. That is
    /// L0 if there is none. `is_free` tells whether no job is about to add a table there.
    pub fn deepest_above(
        &self,
        smallest: &[u8],
        largest: &[u8],
        is_free: impl Fn(usize) -> bool,
    ) -> usize {
        let is_hit = |run| !self.overlapping_in(run, smallest, largest).is_empty();
        if self.level0_runs().any(is_hit) {
            return 0;
        }
        let is_clear = |level: &usize| self.overlapping(*level, smallest, largest).is_empty();
        (1..LEVELS).take_while(is_clear).filter(|&level| is_free(level)).last().unwrap_or(0)
    }

    /// Returns the tables that may hold an entry which `tombstone` hides.
    pub fn hidden_in<'a>(
        &'a self,
        tombstone: &'a RangeTombstone,
    ) -> impl Iterator<Item = (usize, &'a Arc<TableHandle>)> {
        let range = &*tombstone.range;
        let above = self.levels[0].iter().filter(|table| {
            let (smallest, largest) = bounds(table);
            range.meets(&self.order, smallest, largest)
        });
        let below = (1..LEVELS)
            .flat_map(|level| self.meeting(level, range).iter().map(move |table| (level, table)));
        let may_hide = |(_, table): &(usize, &Arc<TableHandle>)| {
            let meta = &table.meta;
            meta.summary.min_seqno < tombstone.seqno && meta.applied_ranges < tombstone.seqno
        };
        above.map(|table| (0, table)).chain(below).filter(may_hide)
    }

    /// Returns the sequence numbers of the range tombstones that hide nothing in these tables: of
    /// those in `added`, and of those over the keys of the tables that are gone now. Only these can
    /// have become idle. Costs some bisections for each.
    pub(super) fn idle_ranges(
        &self,
        added: &FxHashSet<SeqNo>,
        gone: &[Arc<TableHandle>],
    ) -> Vec<SeqNo> {
        let mut asked: FxHashSet<SeqNo> = added.clone();
        for table in gone {
            self.ranges.any_over(bounds(table), &(0..=SeqNo::MAX), |it| {
                asked.insert(it.seqno);
                false
            });
        }
        if asked.is_empty() {
            return Vec::new();
        }
        let is_idle =
            |it: &&RangeTombstone| asked.contains(&it.seqno) && self.hidden_in(it).next().is_none();
        self.ranges.iter().filter(is_idle).map(|it| it.seqno).collect()
    }

    /// Adds range tombstones, and removes those with the sequence numbers in `removed`. It is an
    /// error if one of these is not here.
    pub(super) fn change_ranges(
        &mut self,
        added: Vec<RangeTombstone>,
        removed: &[SeqNo],
    ) -> Result<()> {
        let mut list: Vec<_> = self.ranges.iter().cloned().chain(added).collect();
        let removed: FxHashSet<SeqNo> = removed.iter().copied().collect();
        let before = list.len();
        list.retain(|it| !removed.contains(&it.seqno));
        if before - list.len() != removed.len() {
            return Err(Error::corruption("an edit removes a range tombstone that is not there"));
        }
        self.ranges = Arc::new(RangeTombstones::of(self.order.clone(), list));
        Ok(())
    }

    /// Returns true if a table at `level` or below, which must be below L0, may hold `user_key`.
    pub fn may_hold_from(&self, level: usize, user_key: &[u8]) -> bool {
        (level..LEVELS).any(|level| self.find(level, user_key).is_some())
    }

    /// Inserts a table at its place in the level.
    pub(super) fn add(&mut self, level: usize, table: Arc<TableHandle>) -> Result<()> {
        let tables = self.levels.get_mut(level).ok_or_else(|| {
            Error::corruption(format!("the manifest names level {level}, there are {LEVELS}"))
        })?;
        self.ingested = self.ingested.max(table.meta.ingested_at);
        let index = if level == 0 {
            // Flushes of a keyspace are serial, so sequence numbers order them. The tables of one
            // ingest have one number, and are in the order of their keys.
            let low = bounds(&table).0;
            tables.partition_point(|other| {
                let is_of_one = other.meta.is_of_one_ingest_with(&table.meta);
                other.meta.summary.max_seqno > table.meta.summary.max_seqno
                    || is_of_one && self.order.compare(bounds(other).0, low).is_lt()
            })
        } else {
            let low = bounds(&table).0;
            let order = &self.order;
            tables.partition_point(|other| order.compare(bounds(other).0, low).is_lt())
        };
        tables.insert(index, table);
        self.derived = Derived::default();
        Ok(())
    }

    /// Removes a table and returns it.
    pub(super) fn remove(&mut self, level: usize, id: TableId) -> Result<Arc<TableHandle>> {
        self.derived = Derived::default();
        let tables = self.levels.get_mut(level);
        let found = tables.and_then(|tables| {
            let index = tables.iter().position(|table| table.meta.id == id)?;
            Some(tables.remove(index))
        });
        found.ok_or_else(|| {
            Error::corruption(format!("an edit removes table {id} from level {level}, not there"))
        })
    }

    /// Checks the order of L0. A table that was flushed may have entries from before and from after
    /// an ingest, but those from before are of none of the ingested keys.
    fn check_level0(&self) -> Result<()> {
        let tables = &self.levels[0];
        let mut flushed: Option<&TableHandle> = None;
        for (index, table) in tables.iter().enumerate() {
            let summary = &table.meta.summary;
            if let Some(above) = index.checked_sub(1).map(|above| &tables[above]) {
                let is_newer = above.meta.summary.max_seqno > summary.max_seqno;
                if !is_newer && !above.meta.is_of_one_ingest_with(&table.meta) {
                    return Err(out_of_order(0, above, table));
                }
            }
            if table.meta.ingested_at > 0 {
                continue;
            }
            if let Some(above) = flushed
                && above.meta.summary.min_seqno <= summary.max_seqno
            {
                return Err(out_of_order(0, above, table));
            }
            flushed = Some(table);
        }
        Ok(())
    }

    /// I6: checks that a deeper entry is always older: L0 has the newest run first, and each run is
    /// sorted and disjoint by user key.
    pub fn check(&self) -> Result<()> {
        self.check_level0()?;
        let above = self.level0_runs().map(|run| (0, run));
        for (level, run) in above.chain((1..LEVELS).map(|level| (level, self.level(level)))) {
            for pair in run.windows(2) {
                let (_, high) = bounds(&pair[0]);
                let (low, _) = bounds(&pair[1]);
                if self.order.compare(high, low) != Ordering::Less {
                    return Err(out_of_order(level, &pair[0], &pair[1]));
                }
            }
        }
        Ok(())
    }
}

fn out_of_order(level: usize, a: &TableHandle, b: &TableHandle) -> Error {
    Error::corruption(format!(
        "tables {} and {} of level {level} overlap or stand in the wrong order",
        a.meta.id, b.meta.id
    ))
}

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (level, tables) in self.levels.iter().enumerate() {
            let ids: Vec<u64> = tables.iter().map(|table| table.meta.id.0).collect();
            if !ids.is_empty() {
                write!(f, "L{level}{ids:?} ")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pointer::SegmentId;
    use crate::cache::memory_fs::MemoryFs;
    use crate::table::{SegmentUse, Summary, TableMeta};
    use crate::version::files::{TableContext, TableLimits};
    use std::collections::BTreeMap;

    #[test]
    fn what_follows_from_the_tables_follows_their_changes() {
        let context =
            TableContext::new(Arc::new(MemoryFs::default()), "db".into(), 7, TableLimits::TESTS);
        let context = Arc::new(context);
        let table = |id: u64| {
            let segments =
                BTreeMap::from([(SegmentId(1), SegmentUse { count: 1, bytes: 100 * id })]);
            let summary = Arc::new(Summary { max_seqno: id, segments, ..Summary::default() });
            let (id, bytes, applied_ranges, ingested_at) = (TableId(id), 1000, 0, 0);
            let meta = TableMeta { id, bytes, summary, applied_ranges, ingested_at };
            Arc::new(TableHandle::new(Arc::new(meta), KeyOrder::Bytewise, context.clone()))
        };
        let derived = |levels: &Levels| (levels.level0_runs().len(), levels.value_bytes());
        let mut levels = Levels::new(KeyOrder::Bytewise);
        assert_eq!(derived(&levels), (0, 0));
        levels.add(0, table(1)).unwrap();
        assert_eq!(derived(&levels), (1, 100));
        levels.add(0, table(2)).unwrap();
        assert_eq!(derived(&levels), (2, 300));
        assert_eq!(derived(&levels.filtered(|table| table.meta.id == TableId(1))), (1, 100));
        levels.remove(0, TableId(1)).unwrap();
        assert_eq!(derived(&levels), (1, 200));
    }
}
