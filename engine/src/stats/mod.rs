//! Floor 0: numbers. What the engine counts while it works, grouped by purpose; read as one
//! plain report by the roof.

mod gc;

pub use gc::{GcCounters, GcStats};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A count that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds one; returns the count before.
    #[inline]
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a time in nanoseconds.
    pub fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a writer was delayed or made to wait (I10). Each reason has a count and a time.
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
    /// Space nears its target: each write is delayed a little, so that value GC keeps up.
    Space,
}

impl StallReason {
    /// All reasons.
    pub const ALL: [StallReason; 5] = [
        StallReason::Memtables,
        StallReason::Level0Slow,
        StallReason::Level0Full,
        StallReason::Replay,
        StallReason::Space,
    ];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            StallReason::Memtables => "memtables_full",
            StallReason::Level0Slow => "level0_slow",
            StallReason::Level0Full => "level0_full",
            StallReason::Replay => "replay_full",
            StallReason::Space => "space_target",
        }
    }
}

/// How often and how long writers waited for one reason.
#[derive(Debug, Default)]
pub struct StallCounter {
    count: Counter,
    nanos: Counter,
}

/// Everything that is counted for one open database.
#[derive(Debug, Default)]
pub struct Counters {
    /// Commits (batches).
    pub commits: Counter,
    /// Entries written by users.
    pub entries_written: Counter,
    /// Deletions among them.
    pub deletes_written: Counter,
    /// Bytes of keys and values put, as they are stored.
    pub put_bytes_stored: Counter,
    /// Bytes of keys and values written by users.
    pub user_bytes_written: Counter,
    /// Bytes appended to the log, frames and records with their heads.
    pub log_bytes_written: Counter,
    /// Syncs of log segments.
    pub log_syncs: Counter,
    /// Log segments begun.
    pub log_rotations: Counter,
    /// Memtables written to L0.
    pub flushes: Counter,
    /// Bytes of tables that flushes wrote.
    pub flush_bytes_written: Counter,
    /// Compactions that rewrote tables.
    pub compactions: Counter,
    /// Tables moved a level down without being rewritten.
    pub trivial_moves: Counter,
    /// Bytes of tables that compactions read.
    pub compaction_bytes_read: Counter,
    /// Bytes of tables that compactions wrote.
    pub compaction_bytes_written: Counter,
    /// Entries that flushes and compactions dropped, as nobody could see them.
    pub entries_dropped: Counter,
    /// Point reads.
    pub gets: Counter,
    /// Point reads that found a value.
    pub gets_found: Counter,
    /// Reads of separated values from segments.
    pub value_reads: Counter,
    /// Bytes of separated values read from segments.
    pub value_bytes_read: Counter,
    /// Separated values that a cursor had fetched before they were asked for.
    pub prefetched_values: Counter,
    /// Segments dropped because nothing in them was live.
    pub segments_dropped: Counter,
    /// Files unlinked.
    pub files_removed: Counter,
    /// Background jobs that failed.
    pub background_errors: Counter,
    /// Writes refused as the last space of the disk is kept for what makes room.
    pub writes_refused_for_space: Counter,
    /// What value GC did.
    pub gc: GcCounters,
    stalls: [StallCounter; StallReason::ALL.len()],
}

impl Counters {
    /// Counts one delay of a writer.
    pub fn stall(&self, reason: StallReason, time: Duration) {
        let counter = &self.stalls[reason as usize];
        counter.count.add(1);
        counter.nanos.add_time(time);
    }

    /// How often and how long writers waited, for each reason.
    pub fn stalls(&self) -> impl Iterator<Item = (StallReason, u64, Duration)> + '_ {
        StallReason::ALL.into_iter().map(|reason| {
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
