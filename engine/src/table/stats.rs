//! Counters of what reading tables costs. No decision depends on them.

use std::sync::atomic::{AtomicU64, Ordering};

/// One shard of the counters, on a cache line of its own. Threads that look up different keys
/// rarely share a shard.
#[repr(align(64))]
#[derive(Default)]
struct TableCounterShard {
    block_reads: AtomicU64,
    block_read_bytes: AtomicU64,
    filter_checks: AtomicU64,
    filter_useful: AtomicU64,
    filter_false_positives: AtomicU64,
}

const TABLE_COUNTER_SHARDS: usize = 8;

/// The counters of reads of tables. Any number of tables can share them.
#[derive(Default)]
pub struct TableStats {
    lanes: [TableCounterShard; TABLE_COUNTER_SHARDS],
}

/// The counts of a [`TableStats`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableCounts {
    /// The number of reads of data blocks from files. A read of several adjoining blocks counts as
    /// one.
    pub block_reads: u64,
    /// The bytes of these reads.
    pub block_read_bytes: u64,
    /// The number of lookups in the engine's filters.
    pub filter_checks: u64,
    /// The number of these lookups that ruled the table out.
    pub filter_useful: u64,
    /// The number of these lookups that let a key pass although the table has no version of it.
    /// Reads as of a moment before the table's newest entry are not counted.
    pub filter_false_positives: u64,
}

impl TableStats {
    fn lane(&self, hash: u64) -> &TableCounterShard {
        &self.lanes[hash as usize % TABLE_COUNTER_SHARDS]
    }

    pub(super) fn count_read(&self, offset: u64, bytes: u64) {
        let lane = self.lane(offset >> 12);
        lane.block_reads.fetch_add(1, Ordering::Relaxed);
        lane.block_read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_filter_check(&self, hash: u64, useful: bool) {
        let lane = self.lane(hash);
        lane.filter_checks.fetch_add(1, Ordering::Relaxed);
        if useful {
            lane.filter_useful.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_false_positive(&self, hash: u64) {
        self.lane(hash).filter_false_positives.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the sums over all shards.
    pub fn counts(&self) -> TableCounts {
        let sum = |of: fn(&TableCounterShard) -> &AtomicU64| {
            self.lanes.iter().map(|lane| of(lane).load(Ordering::Relaxed)).sum()
        };
        TableCounts {
            block_reads: sum(|lane| &lane.block_reads),
            block_read_bytes: sum(|lane| &lane.block_read_bytes),
            filter_checks: sum(|lane| &lane.filter_checks),
            filter_useful: sum(|lane| &lane.filter_useful),
            filter_false_positives: sum(|lane| &lane.filter_false_positives),
        }
    }
}
