//! The rules of the tree and the log (I10): how a write is held up when flushes and compactions
//! fall behind.

use crate::stats::StallReason;
use std::time::Duration;

/// The limits of the tree and the log at which writers are held up.
#[derive(Debug, Clone)]
pub struct StallLimits {
    /// The memtables of a keyspace that may wait for their flush while writes fill one more. Once
    /// that is full, too, writes wait: memtables take memory.
    pub immutables: usize,
    /// From this many tables in L0 on, each write is delayed: every read has to look at all of
    /// them.
    pub level0_slow: usize,
    /// From this many tables in L0 on, writes wait.
    pub level0_full: usize,
    /// From this many bytes of log behind the head on, writes wait: an opening replays them.
    pub replay_bytes: u64,
    /// Writes wait while this many full segments of the log wait for their sync: what is not synced
    /// takes page cache, and a power cut takes it.
    pub unsynced: usize,
    /// A memtable is full once it has so many bytes, if its keyspace allows more: the process has
    /// no memory for more.
    pub memtable_bytes: u64,
}

/// The segments of `StallLimits::unsynced`: with those of large stores, at most 256 MiB. A device
/// that takes what is written as fast as it comes never has more than one or two.
pub const MOST_UNSYNCED: usize = 4;

/// Writers that were admitted may fill this many more segments before one of them has to wait for
/// the syncs, with the log in its hands.
const MORE_UNSYNCED: usize = 4;

/// Returns true if a segment may only be begun once the earlier ones are synced, of which
/// `unsynced` are not.
pub fn rotation_waits(unsynced: usize) -> bool {
    unsynced >= MOST_UNSYNCED + MORE_UNSYNCED
}

/// The delay of a write at `level0_slow` tables in L0; each further table adds as much. So
/// compaction gets a little ahead before writes have to wait, and no write sees a sudden stop.
const SLOW_STEP: Duration = Duration::from_micros(100);

/// Waiting writers check the rules at least this often, in case a wake-up is missed.
pub const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The reasons that these rules give.
pub const REASONS: [StallReason; 5] = [
    StallReason::Memtables,
    StallReason::Level0Slow,
    StallReason::Level0Full,
    StallReason::Replay,
    StallReason::LogSync,
];

/// The facts about the tree and the log on which a verdict depends.
#[derive(Debug, Clone, Copy, Default)]
pub struct StallFacts {
    /// The number of the keyspace's memtables that wait for their flush.
    pub immutables: usize,
    /// The number of tables in L0 of the keyspace.
    pub level0: usize,
    /// The bytes of log behind the head.
    pub backlog: u64,
    /// The number of full segments of the log that wait for their sync.
    pub unsynced: usize,
}

/// The decision about a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The write goes on.
    Go,
    /// The write goes on after this time, for the reason [`StallReason::Level0Slow`].
    Delay(Duration),
    /// The write waits until the facts have changed.
    Wait(StallReason),
}

impl StallLimits {
    /// Decides whether a write goes on, is delayed or waits. A rule by which it waits goes before
    /// one that delays it.
    pub fn judge(&self, facts: StallFacts) -> Verdict {
        if facts.immutables > self.immutables {
            return Verdict::Wait(StallReason::Memtables);
        }
        if facts.level0 >= self.level0_full {
            return Verdict::Wait(StallReason::Level0Full);
        }
        if facts.backlog >= self.replay_bytes {
            return Verdict::Wait(StallReason::Replay);
        }
        if facts.unsynced >= self.unsynced {
            return Verdict::Wait(StallReason::LogSync);
        }
        if facts.level0 >= self.level0_slow {
            let over = (facts.level0 - self.level0_slow + 1) as u32;
            return Verdict::Delay(SLOW_STEP * over);
        }
        Verdict::Go
    }

    /// Panics if writes to an empty database would wait, for nothing could end such a wait.
    pub fn check(&self) {
        assert!(self.immutables > 0, "{self:?}");
        assert!(self.level0_full > 0 && self.level0_slow <= self.level0_full, "{self:?}");
        assert!(self.replay_bytes > 0 && self.unsynced > 0, "{self:?}");
        assert!(self.memtable_bytes > 0, "{self:?}");
    }
}
