//! The rule of slow reads: how fast background work may write, so that it gives way to reads.
//!
//! There is no limit until one is needed: by the user, who may set a cap, or by reads, of which one
//! in 64 is timed. When their mean time rises over that of reads in quiet, the limit is lowered
//! step by step, and raised again when they recover. The limit is a heuristic: with too few reads,
//! or no quiet time to compare with, nobody is held up. A lasting change of the load is taken for
//! the new quiet time after some seconds.
//!
//! Value GC gets a quarter of any limit while compaction spends too, and all of it while compaction
//! rests, so neither starves. Flushes are never held up, as writers wait for them. When space nears
//! its ceiling, the disk is nearly full or L0 fills up, only the user's cap applies.

use std::time::Duration;

/// The kind of background work that spends the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoPriority {
    /// A flush; its bytes are counted, but it is never held up.
    Flush,
    /// A compaction.
    Compaction,
    /// Value GC.
    Gc,
}

/// A reason not to hold background work up for the sake of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// Space nears its ceiling, or the disk is nearly full.
    Space = 1,
    /// L0 fills up.
    Level0 = 2,
}

/// Reads are slow if their mean is more than this many times the quiet time, and also exceeds it by
/// `SLOW_BY_NANOS`.
const SLOW: f64 = 1.3;
/// Least excess over the quiet time, in nanoseconds, that counts as slow. Below that reads wait for
/// a processor, not for the device: measured on two cores, reads from memory took 5 µs in quiet and
/// 20 µs beside writers, whatever compaction did, and limiting it only let L0 grow.
const SLOW_BY_NANOS: f64 = 20_000.0;
/// A read's time is capped at this many times the quiet time; otherwise a read that lost its
/// processor for milliseconds would outweigh all others.
const OUTLIER: f64 = 8.0;
/// The cap of a read's time in nanoseconds before the quiet time is known.
const OUTLIER_NANOS: u64 = 10_000_000;
/// Least time between two looks at the reads: enough for a mean of many reads, and short against
/// what a user notices.
const WINDOW: Duration = Duration::from_millis(100);
/// Least number of samples for a mean: fewer say nothing.
pub const LEAST_SAMPLES: u64 = 16;
/// If fewer than `LEAST_SAMPLES` busy reads come in this time, the limit for reads is lifted.
pub const NOBODY: Duration = Duration::from_secs(2);
/// Background work that has spent nothing for this long has rested and was not held up: a limit
/// for reads has a spender wait for a quarter of a second at most for each MiB (`LEAST_LIMIT` and
/// `GC_SHARE`).
const RESTED: Duration = Duration::from_secs(2);
/// A read counts as quiet if no background work has spent for this long, after which a device has
/// written what it had buffered.
const QUIET_AFTER: Duration = Duration::from_millis(500);
/// Lowest limit, in bytes per second, however slow reads are: with less, writers would have to wait
/// for background work before long.
pub const LEAST_LIMIT: f64 = (16 << 20) as f64;
/// A limit that rises above this, in bytes per second, is dropped: no device is faster.
const NO_LIMIT: f64 = (2u64 << 30) as f64;
/// The factor of the limit after a window with slow reads. It falls faster than it rises, because
/// reads come first.
const FALL: f64 = 0.7;
/// The factor of the limit after a window without slow reads.
const RISE: f64 = 1.25;
/// The share of the limit that value GC gets while compaction spends too.
const GC_SHARE: f64 = 0.25;
/// A spender that has not spent for this long is resting, and its share is free.
const RESTING: Duration = Duration::from_millis(500);
/// The weight of a new mean of quiet reads in the quiet time.
const LEARNING: f64 = 0.5;
/// The factor by which the quiet time grows with each slow window, to follow a new load.
const DRIFT: f64 = 1.01;
/// Score of L0 from which compaction is no longer held up for reads: L0 is then twice as full as
/// when its compaction became due.
const LEVEL0_PRESSES: f64 = 2.0;

/// Returns true if L0 with this score lifts the limit ([`Pressure::Level0`]): reads get slower with
/// each table in L0 and writers wait in the end, so compaction must not be held up for reads. Where
/// L0 delays writers already, it must not be as soon as it is due, at a score of 1.
pub fn level0_presses(score: f64, delays_writers: bool) -> bool {
    score >= LEVEL0_PRESSES || score >= 1.0 && delays_writers
}

/// Returns true if space lifts the limit ([`Pressure::Space`]): it nears its ceiling or the disk is
/// nearly full, and value GC can free some.
pub fn space_presses(is_near_ceiling: bool, is_disk_low: bool, winnable: u64) -> bool {
    (is_near_ceiling || is_disk_low) && winnable > 0
}

/// Returns true if a read that ended counts as quiet, when background work last spent that long
/// ago.
#[inline]
pub fn is_quiet(since_spending: Duration) -> bool {
    since_spending > QUIET_AFTER
}

/// Returns the time until which background work was held up for reads, if the limit is found lifted
/// at the time `now` and the last spending before was at the time `spent`.
pub fn held_up_until(spent: Duration, now: Duration) -> Duration {
    if now.saturating_sub(spent) > RESTED { spent } else { now }
}

/// What was seen of reads and of background work in a window.
#[derive(Debug, Clone, Copy)]
pub struct ReadWindow {
    /// The time since the window began.
    pub elapsed: Duration,
    /// The mean time in nanoseconds of reads beside background work; `None` if there were too few.
    pub busy_nanos: Option<f64>,
    /// The bytes that background work wrote.
    pub spent: u64,
}

/// The limit for the sake of reads, and the time of reads that it is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReadLimit {
    /// The limit in bytes per second.
    limit: Option<f64>,
    /// Mean time of a read in quiet, in nanoseconds; `None` before the first quiet reads.
    quiet_nanos: Option<f64>,
}

/// How fast background work may write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BackgroundRate {
    /// As fast as the device allows.
    Unlimited,
    /// At most the user's cap, in bytes per second.
    Capped(f64),
    /// At most this many bytes per second, for the sake of reads.
    ForReads(f64),
}

impl BackgroundRate {
    /// Returns the limit in bytes per second, if there is one.
    pub fn bytes_per_second(self) -> Option<f64> {
        match self {
            BackgroundRate::Unlimited => None,
            BackgroundRate::Capped(rate) | BackgroundRate::ForReads(rate) => Some(rate),
        }
    }
}

impl ReadLimit {
    /// Returns true if a window is long enough to be judged.
    pub fn is_due(elapsed: Duration) -> bool {
        elapsed >= WINDOW
    }

    /// Learns the mean time of reads in quiet, in nanoseconds.
    pub fn learn(&mut self, mean: f64) {
        let before = self.quiet_nanos.unwrap_or(mean);
        self.quiet_nanos = Some(before + LEARNING * (mean - before));
    }

    /// Returns the longest time, in nanoseconds, that one read counts as.
    pub fn outlier_nanos(&self) -> u64 {
        self.quiet_nanos.map_or(OUTLIER_NANOS, |quiet| (OUTLIER * quiet) as u64)
    }

    /// Adapts the limit to a window that is due. Returns false if the window goes on, because too
    /// few reads were seen.
    pub fn judge(&mut self, window: ReadWindow) -> bool {
        match window.busy_nanos {
            Some(mean) => self.adapt(mean, window.spent as f64 / window.elapsed.as_secs_f64()),
            None if window.elapsed < NOBODY => return false,
            None => self.limit = None,
        }
        true
    }

    /// Adapts the limit after a window in which reads took `mean` nanoseconds and background work
    /// wrote `spent` bytes per second.
    fn adapt(&mut self, mean: f64, spent: f64) {
        let Some(quiet) = self.quiet_nanos else {
            return;
        };
        if mean > SLOW * quiet && mean > quiet + SLOW_BY_NANOS {
            let from = self.limit.unwrap_or(spent).min(spent.max(LEAST_LIMIT));
            self.limit = Some((FALL * from).max(LEAST_LIMIT));
            self.quiet_nanos = Some(quiet * DRIFT);
        } else {
            self.limit = self.limit.map(|limit| limit * RISE).filter(|&limit| limit < NO_LIMIT);
        }
    }

    /// Returns the limit in force, with the user's cap in bytes per second, if there is one;
    /// `pressed` is true while there is a [`Pressure`].
    pub fn in_force(&self, cap: Option<u64>, pressed: bool) -> BackgroundRate {
        let cap = cap.map(|cap| cap as f64);
        match (self.limit.filter(|_| !pressed), cap) {
            (Some(limit), cap) if cap.is_none_or(|cap| limit < cap) => {
                BackgroundRate::ForReads(limit)
            }
            (_, Some(cap)) => BackgroundRate::Capped(cap),
            (_, None) => BackgroundRate::Unlimited,
        }
    }
}

/// The accounts of compaction and value GC, which share the limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct BudgetLanes {
    compaction: BudgetLane,
    gc: BudgetLane,
}

/// The account of one spender.
#[derive(Debug, Clone, Copy, Default)]
struct BudgetLane {
    /// The moment from which on all its spending is within the limit.
    paid: Duration,
    /// The time of its last spending; `None` if there was none.
    spent: Option<Duration>,
}

impl BudgetLanes {
    /// Charges `bytes` that were written at the time `now`; returns the moment until which the
    /// spender has to wait, if any.
    pub fn charge(
        &mut self,
        priority: IoPriority,
        bytes: u64,
        rate: BackgroundRate,
        now: Duration,
    ) -> Option<Duration> {
        let (mine, other, share) = match priority {
            IoPriority::Flush => return None,
            IoPriority::Gc => (&mut self.gc, self.compaction, GC_SHARE),
            IoPriority::Compaction => (&mut self.compaction, self.gc, 1.0 - GC_SHARE),
        };
        mine.spent = Some(now);
        let share = if other.is_resting(now) { 1.0 } else { share };
        let rate = rate.bytes_per_second()? * share;
        mine.paid = mine.paid.max(now) + Duration::from_secs_f64(bytes as f64 / rate);
        Some(mine.paid)
    }
}

impl BudgetLane {
    fn is_resting(&self, now: Duration) -> bool {
        self.spent.is_none_or(|spent| now.saturating_sub(spent) > RESTING) && self.paid <= now
    }
}
