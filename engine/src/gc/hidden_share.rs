//! Estimates how much is live where all values are in tables, without reading any. Pure.
//!
//! There a liveness scan would read every value and free nothing: what is dead goes with
//! compaction. But the bounds of space need to know how much that is. An entry above the longest
//! sorted run of its keyspace is either of a new key, or it hides an older entry. What share of
//! them hides one, the merges into the deepest level tell: there each entry from above either
//! drops one, or is new.

use crate::version::levels::{LEVELS, Levels, table_bytes};

/// The entries that merges into the deepest level of a keyspace took from above, and those that
/// they dropped, at most as many. Sums since the opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BottomMerges {
    /// Entries from above.
    pub entries: u64,
    /// Entries dropped.
    pub dropped: u64,
}

/// What tables and memtables hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeSpread {
    /// Bytes of all entries.
    pub bytes: u64,
    /// Bytes of those that are not in the longest run of their keyspace.
    pub above_bytes: u64,
    /// The number of entries in tables.
    pub entries: u64,
}

impl TreeSpread {
    /// Returns the spread of one keyspace's tables.
    pub fn of(levels: &Levels) -> Self {
        let level0 = levels.level0_runs().map(table_bytes);
        let deeper = (1..LEVELS).map(|level| levels.bytes(level));
        let (mut bytes, mut longest) = (0u64, 0u64);
        for run in level0.chain(deeper) {
            bytes = bytes.saturating_add(run);
            longest = longest.max(run);
        }
        let entries = levels.tables().map(|(_, table)| table.meta.summary.entries);
        // I7: the numbers are from files.
        let entries = entries.fold(0, u64::saturating_add);
        TreeSpread { bytes, above_bytes: bytes - longest, entries }
    }

    /// Adds what another keyspace, or a memtable, holds.
    pub fn add(&mut self, other: &TreeSpread) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.above_bytes = self.above_bytes.saturating_add(other.above_bytes);
        self.entries = self.entries.saturating_add(other.entries);
    }
}

/// The share of the entries above the longest runs that hide an older one, as lately measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HiddenShare {
    seen: BottomMerges,
    entries: f64,
    dropped: f64,
}

/// Merges are forgotten once this part (one in this many) of the entries of all tables was merged
/// after them.
const WINDOW_PART: f64 = 4.0;

impl HiddenShare {
    /// Learns from the merges up to now, in a tree of that many entries.
    pub fn learn(&mut self, merges: BottomMerges, tree_entries: u64) {
        let entries = merges.entries.saturating_sub(self.seen.entries) as f64;
        let dropped = merges.dropped.saturating_sub(self.seen.dropped) as f64;
        self.seen = merges;
        let kept = 1.0 - (entries * WINDOW_PART / tree_entries.max(1) as f64).min(1.0);
        self.entries = self.entries * kept + entries;
        self.dropped = self.dropped * kept + dropped;
    }

    /// Returns the share; 0 until a merge has shown one.
    pub fn get(&self) -> f64 {
        if self.entries > 0.0 { (self.dropped / self.entries).min(1.0) } else { 0.0 }
    }

    /// Returns the bytes of entries that newer ones hide.
    fn hidden(&self, spread: &TreeSpread) -> u64 {
        // No more is hidden than there is below.
        let below = spread.bytes.saturating_sub(spread.above_bytes);
        ((self.get() * spread.above_bytes as f64) as u64).min(below)
    }

    /// Returns the bytes of live entries.
    pub fn live(&self, spread: &TreeSpread) -> u64 {
        spread.bytes.saturating_sub(self.hidden(spread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(bytes: u64, above_bytes: u64) -> TreeSpread {
        TreeSpread { bytes, above_bytes, entries: 1000 }
    }

    #[test]
    fn new_keys_are_live_and_overwritten_ones_are_hidden() {
        let mut share = HiddenShare::default();
        assert_eq!(share.live(&spread(1500, 500)), 1500, "nothing is known yet");
        share.learn(BottomMerges { entries: 100, dropped: 0 }, 1000);
        assert_eq!(share.live(&spread(1500, 500)), 1500, "a load of new keys");
        share.learn(BottomMerges { entries: 1100, dropped: 1000 }, 1000);
        assert_eq!((share.get(), share.live(&spread(1500, 500))), (1.0, 1000));
        assert_eq!(share.live(&spread(1500, 1400)), 1400, "no more is hidden than is below");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut share = HiddenShare::default();
        share.learn(BottomMerges { entries: 1000, dropped: 1000 }, 1000);
        share.learn(BottomMerges { entries: 1010, dropped: 1000 }, 1000);
        assert!(share.get() > 0.9, "a few merges are no turn: {}", share.get());
        share.learn(BottomMerges { entries: 1300, dropped: 1000 }, 1000);
        assert_eq!(share.get(), 0.0);
        share.learn(BottomMerges { entries: 1300, dropped: 1000 }, 1000);
        assert_eq!(share.get(), 0.0, "no merge changes nothing");
    }
}
