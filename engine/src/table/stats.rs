//! What reading tables cost. Counters only; nothing decides by them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters on a cache line of their own; threads that ask for different keys rarely share one.
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

/// Counts what reads of tables do; shared by as many tables as the caller likes.
#[derive(Default)]
pub struct TableStats {
    lanes: [TableCounterShard; TABLE_COUNTER_SHARDS],
}

/// The counts of a [`TableStats`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableCounts {
    /// Reads of data blocks from files, several adjoining ones at once counting as one.
    pub block_reads: u64,
    /// Bytes of these.
    pub block_read_bytes: u64,
    /// Questions to filters.
    pub filter_checks: u64,
    /// Those that saved a look into the table.
    pub filter_useful: u64,
    /// Those that did not although the table has no version of the key.
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

    /// The sums.
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
