//! Floor 0: the counters that the engine keeps while it works, grouped by purpose. `db` reads them
//! and reports them as statistics.

mod gc;
mod latency;

pub use gc::{GcCounters, GcStats};
pub use latency::{Latencies, LatencyHistograms, LatencyStats};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds one and returns the count before.
    #[inline]
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds `time` in nanoseconds.
    pub fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The reason why a writer was delayed or made to wait (I10). Each reason has a count and a time.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("stall-reason"))?;
/// for stall in db.stats().stalls {
///     println!("{}: {} times, {:?}", stall.reason.name(), stall.count, stall.time);
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallReason {
    /// Too many memtables wait for their flush.
    Memtables,
    /// L0 has grown: each write is delayed a little.
    Level0Slow,
    /// L0 is full: writes wait for a compaction.
    Level0Full,
    /// Recovery would have to replay more than `max_replay_bytes`: writes wait for a flush.
    Replay,
    /// Space nears its ceiling: each write is delayed a little, so that value GC keeps up.
    Space,
    /// An ingest is about to take effect in the keyspace: writes wait for the flush of what was
    /// written to its keys meanwhile.
    Ingest,
    /// Too many full segments of the log wait for their sync.
    LogSync,
}

impl StallReason {
    /// All reasons.
    pub const ALL: &[StallReason] = &[
        StallReason::Memtables,
        StallReason::Level0Slow,
        StallReason::Level0Full,
        StallReason::Replay,
        StallReason::Space,
        StallReason::Ingest,
        StallReason::LogSync,
    ];

    /// Returns the name of the reason in statistics.
    pub fn name(self) -> &'static str {
        match self {
            StallReason::Memtables => "memtables_full",
            StallReason::Level0Slow => "level0_slow",
            StallReason::Level0Full => "level0_full",
            StallReason::Replay => "replay_full",
            StallReason::Space => "space_ceiling",
            StallReason::Ingest => "ingest",
            StallReason::LogSync => "log_sync",
        }
    }
}

/// The number and total time of write stalls for one reason.
#[derive(Debug, Default)]
pub struct StallCounter {
    count: Counter,
    nanos: Counter,
}

/// The counters of one open database.
#[derive(Debug, Default)]
pub struct Counters {
    /// The number of commits (batches).
    pub commits: Counter,
    /// The number of entries written by users.
    pub entries_written: Counter,
    /// The number of deletions among the entries written by users.
    pub deletes_written: Counter,
    /// The number of deletions among the entries that were ingested.
    pub deletes_ingested: Counter,
    /// The bytes of keys and values put, as they are stored (after compression).
    pub put_bytes_stored: Counter,
    /// The bytes of keys and values written by users.
    pub user_bytes_written: Counter,
    /// The bytes appended to the log, including the headers of frames and records.
    pub log_bytes_written: Counter,
    /// Those of these bytes that a flush had replaced before they were synced.
    pub log_bytes_spared: Counter,
    /// The number of syncs of log segments.
    pub log_syncs: Counter,
    /// The number of log segments begun.
    pub log_rotations: Counter,
    /// The number of flushes; each writes the sealed memtables of a keyspace to L0.
    pub flushes: Counter,
    /// The bytes of tables, and of values separated at flush, that flushes wrote.
    pub flush_bytes_written: Counter,
    /// The number of compactions that rewrote tables.
    pub compactions: Counter,
    /// The number of those that were made because much of a table was stale.
    pub early_compactions: Counter,
    /// The number of tables moved a level down without being rewritten.
    pub trivial_moves: Counter,
    /// The bytes of tables that compactions read.
    pub compaction_bytes_read: Counter,
    /// The bytes of tables that compactions wrote.
    pub compaction_bytes_written: Counter,
    /// The number of entries that flushes and compactions dropped because no reader could see them.
    pub entries_dropped: Counter,
    /// The number of those that compactions dropped because a newer one was known to be in a table
    /// that they did not read.
    pub superseded_entries_dropped: Counter,
    /// The bytes of these, their separated values included.
    pub superseded_bytes_dropped: Counter,
    /// The number of entries that compaction filters were asked about.
    pub entries_filtered: Counter,
    /// The number of those that they dropped.
    pub filtered_entries_dropped: Counter,
    /// The number of those whose value they changed.
    pub filtered_entries_changed: Counter,
    /// The number of point reads.
    pub gets: Counter,
    /// The number of point reads that found a value.
    pub gets_found: Counter,
    /// The number of reads of separated values from segments.
    pub value_reads: Counter,
    /// The bytes of separated values read from segments.
    pub value_bytes_read: Counter,
    /// The number of separated values that a cursor had fetched before they were requested.
    pub prefetched_values: Counter,
    /// The number of reads that fetched them.
    pub prefetch_reads: Counter,
    /// The number of jobs that put values in key order because scans read them.
    pub scan_orders: Counter,
    /// The bytes of values that these wrote.
    pub scan_order_bytes_written: Counter,
    /// The time that these took, in nanoseconds.
    pub scan_order_nanos: Counter,
    /// The number of segments dropped because nothing in them was live.
    pub segments_dropped: Counter,
    /// The number of files unlinked.
    pub files_removed: Counter,
    /// The number of background jobs that failed.
    pub background_errors: Counter,
    /// The number of transactions and batches refused because others had written what they rely on,
    /// and of compare-and-sets repeated for that reason.
    pub conflicts: Counter,
    /// The number of searches in the tree for what others wrote, because it was not in memory any
    /// more.
    pub conflict_searches: Counter,
    /// The number of ingests that took effect.
    pub ingests: Counter,
    /// The number of entries that they brought.
    pub entries_ingested: Counter,
    /// The bytes of tables and of separated values that they wrote.
    pub ingest_bytes_written: Counter,
    /// The number of writes refused because the disk was down to its reserve.
    pub writes_refused_for_space: Counter,
    /// The counters of value GC.
    pub gc: GcCounters,
    /// The latency histograms, by kind of work.
    pub latencies: LatencyHistograms,
    stalls: [StallCounter; StallReason::ALL.len()],
}

impl Counters {
    /// Counts one stall of a writer that lasted `time`.
    pub fn stall(&self, reason: StallReason, time: Duration) {
        let counter = &self.stalls[reason as usize];
        counter.count.add(1);
        counter.nanos.add_time(time);
        self.latencies.stall.add(time);
    }

    /// Returns the number and total time of write stalls for each reason.
    pub fn stalls(&self) -> impl Iterator<Item = (StallReason, u64, Duration)> + '_ {
        StallReason::ALL.iter().map(|&reason| {
            let counter = &self.stalls[reason as usize];
            (reason, counter.count.get(), Duration::from_nanos(counter.nanos.get()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i10_each_stall_has_a_count_and_a_time() {
        let counters = Counters::default();
        counters.stall(StallReason::Replay, Duration::from_millis(2));
        counters.stall(StallReason::Replay, Duration::from_millis(3));
        let all: Vec<_> = counters.stalls().collect();
        assert_eq!(all[3], (StallReason::Replay, 2, Duration::from_millis(5)));
        assert_eq!(all[0], (StallReason::Memtables, 0, Duration::ZERO));
    }
}
