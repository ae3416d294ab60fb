//! Estimates how much is live where all values are in tables, by a sample of their keys. Pure.
//!
//! There a liveness scan would read every value and free nothing: what is dead goes with
//! compaction. But the bounds of space need to know how much that is. An entry that is not in the
//! oldest sorted run of its keyspace is either of a new key, or it hides an older entry. What share
//! hides one, the filters of the older tables tell (`hidden_sample.rs`).

use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels, table_bytes};
use std::sync::Arc;

/// What tables and memtables hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeSpread {
    /// Bytes of all entries.
    pub bytes: u64,
    /// Bytes of those that are not in the oldest run of their keyspace.
    pub above_bytes: u64,
    /// Bytes of those that are not in memtables, either: a sample is taken of them.
    pub sampled_bytes: u64,
    /// The number of entries in tables.
    pub entries: u64,
}

/// Returns the sorted runs of a keyspace, the newest first.
pub fn runs(levels: &Levels) -> Vec<&[Arc<TableHandle>]> {
    let deeper = (1..LEVELS).map(|level| levels.level(level));
    levels.level0_runs().chain(deeper.filter(|run| !run.is_empty())).collect()
}

impl TreeSpread {
    /// Returns the spread of one keyspace's tables.
    pub fn of(levels: &Levels) -> Self {
        let runs = runs(levels);
        // I7: the numbers are from files.
        let bytes = runs.iter().map(|run| table_bytes(run)).fold(0, u64::saturating_add);
        let oldest = runs.last().map_or(0, |run| table_bytes(run));
        let (above_bytes, entries) = (bytes.saturating_sub(oldest), levels.entries());
        TreeSpread { bytes, above_bytes, sampled_bytes: above_bytes, entries }
    }

    /// Adds what another keyspace, or a memtable, holds.
    pub fn add(&mut self, other: &TreeSpread) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.above_bytes = self.above_bytes.saturating_add(other.above_bytes);
        self.sampled_bytes = self.sampled_bytes.saturating_add(other.sampled_bytes);
        self.entries = self.entries.saturating_add(other.entries);
    }
}

/// The entries of some blocks above the oldest runs, and those that hide older ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HiddenSample {
    /// The number of blocks.
    pub blocks: u32,
    /// The sum over the blocks of the share of their entries that hide an older one.
    pub hiding: f64,
    /// The sum over the blocks of the number of such entries per byte of the block's table.
    pub density: f64,
}

impl HiddenSample {
    /// Adds a block with `entries` entries, of which `hiding` hide older ones, from a table with
    /// `per_byte` entries per byte.
    pub fn add(&mut self, entries: u32, hiding: u32, per_byte: f64) {
        let share = f64::from(hiding) / f64::from(entries.max(1));
        self.blocks += 1;
        self.hiding += share;
        self.density += share * per_byte;
    }
}

/// The last sample, and the tree that it was taken of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HiddenShare {
    sample: HiddenSample,
    /// `None` before the first sample.
    of: Option<TreeSpread>,
}

/// A new sample is due once this part (one in this many) of the tree has come or gone.
const CHANGED_PART: u64 = 32;

impl HiddenShare {
    /// Takes a sample of such a tree.
    pub fn learn(&mut self, sample: HiddenSample, tree: &TreeSpread) {
        *self = HiddenShare { sample, of: Some(*tree) };
    }

    /// Returns true if the tree is another than that of the last sample.
    pub fn is_due(&self, tree: &TreeSpread) -> bool {
        let Some(of) = self.of else {
            return tree.above_bytes > 0;
        };
        let changed = of.bytes.abs_diff(tree.bytes) + of.above_bytes.abs_diff(tree.above_bytes);
        // A flush leaves both as they are, but a sample from before it may have found nothing.
        let flushed = tree.sampled_bytes.saturating_sub(of.sampled_bytes);
        changed.max(flushed) > of.bytes / CHANGED_PART
    }

    /// Returns the share of the entries above the oldest runs that hide an older one; 0 until a
    /// sample has shown one.
    pub fn get(&self) -> f64 {
        self.sample.hiding / f64::from(self.sample.blocks.max(1))
    }

    /// Returns the bytes of entries that newer ones hide. Those hidden are taken to be as long as
    /// the mean: a tombstone is short, and what it hides is not.
    fn hidden(&self, spread: &TreeSpread) -> u64 {
        let density = self.sample.density / f64::from(self.sample.blocks.max(1));
        let mean = spread.bytes as f64 / spread.entries.max(1) as f64;
        ((density * spread.above_bytes as f64 * mean) as u64).min(spread.bytes)
    }

    /// Returns the bytes of live entries.
    pub fn live(&self, spread: &TreeSpread) -> u64 {
        spread.bytes.saturating_sub(self.hidden(spread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with an entry for each hundred bytes.
    fn spread(bytes: u64, above_bytes: u64) -> TreeSpread {
        TreeSpread { bytes, above_bytes, sampled_bytes: above_bytes, entries: bytes / 100 }
    }

    #[test]
    fn new_keys_are_live_and_overwritten_ones_are_hidden() {
        let (mut share, tree) = (HiddenShare::default(), spread(1500, 500));
        assert_eq!(share.live(&tree), 1500, "nothing is known yet");
        let mut sample = HiddenSample::default();
        sample.add(4, 0, 0.01);
        share.learn(sample, &tree);
        assert_eq!(share.live(&tree), 1500, "a load of new keys");
        sample.add(4, 4, 0.01);
        share.learn(sample, &tree);
        assert_eq!((share.get(), share.live(&tree)), (0.5, 1250));
        assert_eq!(share.live(&spread(1500, 1000)), 1000, "what was measured holds for more");
    }

    #[test]
    fn tombstones_hide_more_than_they_are_long() {
        let mut sample = HiddenSample::default();
        // Entries of 10 bytes, in a tree where the mean entry has 50.
        sample.add(100, 100, 0.1);
        let mut share = HiddenShare::default();
        let tree = TreeSpread { bytes: 1000, above_bytes: 100, sampled_bytes: 100, entries: 20 };
        share.learn(sample, &tree);
        assert_eq!(share.live(&tree), 500);
        sample.add(100, 100, 1e9);
        share.learn(sample, &tree);
        assert_eq!(share.live(&tree), 0, "no more is hidden than there is");
    }

    #[test]
    fn a_sample_is_due_when_the_tree_has_changed() {
        let mut share = HiddenShare::default();
        assert!(!share.is_due(&spread(3200, 0)), "nothing can be hidden");
        assert!(share.is_due(&spread(3200, 1)));
        share.learn(HiddenSample::default(), &spread(3200, 320));
        assert!(!share.is_due(&spread(3250, 370)), "a part in 32");
        assert!(share.is_due(&spread(3251, 370)) && share.is_due(&spread(3100, 319)));
    }

    /// Where all that was new lay in memtables, a sample found nothing that hides, and the flush
    /// that brought it to tables changed no sum: space stayed above the ceiling.
    #[test]
    fn a_sample_is_due_when_memtables_come_to_tables() {
        let mut share = HiddenShare::default();
        let before = TreeSpread { sampled_bytes: 0, ..spread(3200, 320) };
        share.learn(HiddenSample::default(), &before);
        assert!(!share.is_due(&before));
        assert!(!share.is_due(&TreeSpread { sampled_bytes: 100, ..before }), "a part in 32");
        assert!(share.is_due(&TreeSpread { sampled_bytes: 101, ..before }));
    }
}
