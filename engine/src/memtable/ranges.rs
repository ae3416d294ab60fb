//! The range tombstones of a memtable, which readers ask while more are added.
//!
//! They are in immutable sets of growing size, as in the logarithmic method (Bentley, Saxe 1980): a
//! new one is a set of its own, and sets of the same size become one, up to a limit. So adding one
//! costs a few copies of it in all, and a reader asks few sets.

use crate::base::key::KeyOrder;
use crate::base::range_tombstone::{RangeTombstone, RangeTombstones};
use arc_swap::ArcSwap;
use std::sync::{Arc, OnceLock};

/// Sets of this size do not become one, because that is done under the lock of the log, where it
/// takes some ten milliseconds. Without a limit, one of 40,000 range deletes took 200; with a
/// quarter of it, point reads beside 120,000 range tombstones took four times as long.
const MAX_MERGED: usize = 16 << 10;

/// The sets of range tombstones, each smaller than the one before or
/// of the greatest size.
type RangeSets = Vec<Arc<RangeTombstones>>;

/// The range tombstones of one memtable. One thread adds at a time.
#[derive(Default)]
pub(super) struct MemtableRanges {
    /// Made with the first range tombstone, so that a memtable without any costs a reader one look.
    sets: OnceLock<ArcSwap<RangeSets>>,
}

impl MemtableRanges {
    /// Returns true if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sets.get().is_none()
    }

    /// Adds a range tombstone. Readers who begin later see it.
    pub fn add(&self, order: &KeyOrder, tombstone: RangeTombstone) {
        let swap = self.sets.get_or_init(|| ArcSwap::from_pointee(Vec::new()));
        let mut sets = RangeSets::clone(&swap.load());
        sets.push(Arc::new(RangeTombstones::of(order.clone(), vec![tombstone])));
        while let [.., before, last] = &sets[..]
            && (before.len()..MAX_MERGED).contains(&last.len())
        {
            let merged = Arc::new(before.with(last.iter().cloned()));
            sets.truncate(sets.len() - 2);
            sets.push(merged);
        }
        swap.store(Arc::new(sets));
    }

    /// Returns the sets of all that were added until now.
    pub fn sets(&self) -> RangeSets {
        self.sets.get().map(|swap| RangeSets::clone(&swap.load())).unwrap_or_default()
    }

    /// Calls `visit` with each set of what was added until now.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(&RangeTombstones)) {
        if let Some(swap) = self.sets.get() {
            swap.load().iter().for_each(|set| visit(set));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::bounds::Bounds;

    #[test]
    fn sets_grow_and_stay_few() {
        let ranges = MemtableRanges::default();
        assert!(ranges.is_empty() && ranges.sets().is_empty());
        for seqno in 1..=50_000u64 {
            let key = |number: u64| Some(number.to_be_bytes().to_vec());
            let range = Bounds { lower: key(seqno), upper: key(seqno + 2), ..Bounds::default() };
            ranges.add(&KeyOrder::Bytewise, RangeTombstone { range: range.into(), seqno });
            let sets = ranges.sets();
            assert!(sets.len() <= 14 + 3, "{}", sets.len());
            assert_eq!(sets.iter().map(|set| set.len() as u64).sum::<u64>(), seqno);
            let newest = |key: u64| {
                let mut newest = None;
                ranges.each(|set| {
                    let found = set.newest(&key.to_be_bytes(), |_| true);
                    newest = newest.max(found.map(|it| it.seqno));
                });
                newest
            };
            assert_eq!(newest(seqno + 1), Some(seqno));
            assert_eq!((newest(seqno + 2), newest(0)), (None, None));
        }
    }
}
