//! The rule of the ceiling of space (I10): as space nears the ceiling, each write is delayed in
//! proportion to its bytes, more and more, so that value GC keeps up. It never stops a writer.
//!
//! Value GC sets where delays begin and how steeply they grow; between two such settings the delay
//! follows the bytes of log written, so a burst of writes slows itself down. While no delay is due,
//! the check is one load of memory that nobody writes to.
//!
//! The delay is a rate: all writers share one queue in time. Each takes a place in it whose length
//! is proportional to its bytes, and waits until its place ends. Waits too short to be timed are
//! added to later ones.

use crate::env::clock::Clock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The longest delay of a commit.
const LONGEST: Duration = Duration::from_millis(20);
/// A shorter wait is skipped and added to later ones.
const SHORTEST: Duration = Duration::from_micros(250);
/// The factor of the delay at `soft_bytes + width_bytes`: the delay grows with the square of the
/// distance from `soft_bytes`, and at half the width the factor is 1.
const AT_FULL_WIDTH: f64 = 4.0;
/// The greatest factor: however space grows, a byte is delayed by at most this times the time that
/// GC needs to free one.
const LARGEST: f64 = 8.0;

/// The position from which writers are delayed, and the growth of the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpacePace {
    /// The position where delays begin, in bytes of log written since the opening; negative if it
    /// was passed before the opening.
    pub soft_bytes: i64,
    /// Width of the ramp in bytes: at `soft_bytes + width_bytes` the delay is four times the delay
    /// at half the width.
    pub width_bytes: u64,
    /// The delay at half the width in nanoseconds per byte: the time that value GC needs to free a
    /// byte.
    pub nanos_per_byte: f64,
}

impl SpacePace {
    /// The pace without any delay.
    pub const NONE: SpacePace =
        SpacePace { soft_bytes: i64::MAX, width_bytes: 1, nanos_per_byte: 0.0 };

    /// Returns the delay in nanoseconds per byte when `log_bytes` of log were written.
    pub fn at(&self, log_bytes: u64) -> f64 {
        let over = log_position(log_bytes).saturating_sub(self.soft_bytes).max(0) as f64;
        let part = over / self.width_bytes.max(1) as f64;
        self.nanos_per_byte * (AT_FULL_WIDTH * part * part).min(LARGEST)
    }
}

/// The current pace and the queue in time, which writers share.
pub struct PaceMaker {
    soft_bytes: AtomicI64,
    width_bytes: AtomicU64,
    /// The bits of an `f64`.
    nanos_per_byte: AtomicU64,
    /// The time until which places in the queue are taken, in nanoseconds of the clock.
    taken_until: AtomicU64,
}

impl Default for PaceMaker {
    fn default() -> Self {
        let maker = PaceMaker {
            soft_bytes: AtomicI64::new(0),
            width_bytes: AtomicU64::new(0),
            nanos_per_byte: AtomicU64::new(0),
            taken_until: AtomicU64::new(0),
        };
        maker.set(SpacePace::NONE);
        maker
    }
}

impl PaceMaker {
    /// Sets the pace. A concurrent writer may read a mix of the old and the new, which is harmless.
    pub fn set(&self, pace: SpacePace) {
        self.width_bytes.store(pace.width_bytes, Ordering::Relaxed);
        self.nanos_per_byte.store(pace.nanos_per_byte.to_bits(), Ordering::Relaxed);
        self.soft_bytes.store(pace.soft_bytes, Ordering::Relaxed);
    }

    /// Returns the current pace.
    pub fn get(&self) -> SpacePace {
        SpacePace {
            soft_bytes: self.soft_bytes.load(Ordering::Relaxed),
            width_bytes: self.width_bytes.load(Ordering::Relaxed),
            nanos_per_byte: f64::from_bits(self.nanos_per_byte.load(Ordering::Relaxed)),
        }
    }

    /// Returns true if writers are delayed when `log_bytes` of log were written.
    #[inline]
    pub fn is_on(&self, log_bytes: u64) -> bool {
        log_position(log_bytes) > self.soft_bytes.load(Ordering::Relaxed)
    }

    /// Takes a place for `bytes` in the queue; returns the time until which to wait, or `None`.
    pub fn place(&self, bytes: u64, log_bytes: u64, clock: &dyn Clock) -> Option<Duration> {
        let cost = (self.get().at(log_bytes) * bytes as f64).min(LONGEST.as_nanos() as f64) as u64;
        let now = nanos(clock.now());
        let longest = now + nanos(LONGEST);
        let take = |until: u64| Some((until.max(now) + cost).min(longest));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.taken_until.fetch_update(set, fetch, take).unwrap_or(now);
        let until = (before.max(now) + cost).min(longest);
        (until - now >= nanos(SHORTEST)).then(|| Duration::from_nanos(until))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

fn log_position(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: SpacePace = SpacePace { soft_bytes: 1000, width_bytes: 1000, nanos_per_byte: 10.0 };

    #[derive(Default)]
    struct ByHand(AtomicU64);

    impl Clock for ByHand {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.0.load(Ordering::Relaxed))
        }
        fn wall(&self) -> Duration {
            self.now()
        }
    }

    fn set_to(pace: SpacePace) -> PaceMaker {
        let maker = PaceMaker::default();
        maker.set(pace);
        assert_eq!(maker.get(), pace);
        maker
    }

    #[test]
    fn delays_rise_smoothly_from_nothing_to_a_bound() {
        assert_eq!([0, 999, 1000].map(|bytes| PACE.at(bytes)), [0.0; 3]);
        assert_eq!((PACE.at(1500), PACE.at(2000)), (10.0, 40.0));
        assert!(PACE.at(1001) < 0.001, "no step");
        assert_eq!(PACE.at(u64::MAX), 80.0);
        let long_ago = SpacePace { soft_bytes: -500, ..PACE };
        assert_eq!(long_ago.at(0), 10.0);
        assert_eq!(SpacePace::NONE.at(u64::MAX), 0.0);
    }

    #[test]
    fn it_is_off_until_the_soft_bound() {
        let maker = PaceMaker::default();
        assert!(!maker.is_on(u64::MAX));
        maker.set(PACE);
        assert!(!maker.is_on(1000));
        assert!(maker.is_on(1001));
    }

    #[test]
    fn the_rate_is_kept_however_the_bytes_come() {
        for bytes in [100, 1000, 30_000, 1_000_000] {
            let (maker, clock) = (set_to(PACE), ByHand::default());
            let total = 10_000_000;
            for _ in 0..total / bytes {
                if let Some(until) = maker.place(bytes, 1500, &clock) {
                    assert!(until >= clock.now() + SHORTEST);
                    clock.0.store(nanos(until), Ordering::Relaxed);
                }
            }
            // The delay is 10 ns per byte; at most one wait too short to be timed is left over.
            let expected = Duration::from_nanos(total * 10);
            assert!(clock.now() <= expected && clock.now() + SHORTEST > expected);
        }
    }

    #[test]
    fn no_commit_waits_longer_than_the_bound() {
        let (maker, clock) = (set_to(PACE), ByHand::default());
        for _ in 0..3 {
            assert_eq!(maker.place(1 << 40, 1 << 40, &clock), Some(LONGEST));
        }
    }
}
