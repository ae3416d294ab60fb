//! The rule of the space target (I10): as space nears it, each write is delayed by its bytes, more
//! and more, so that value GC keeps up. It never stops anybody.
//!
//! Value GC sets from where on and how steeply; between two such settings the delay follows the
//! bytes of log that were written, so a burst of writes slows itself down. While nothing is due
//! this is one load that nobody writes to.
//!
//! The delay is a rate: all writers share one queue in time, in which each takes a place as long
//! as its bytes, and a writer waits for the place before its own to end. Waits too short for a
//! clock to keep are left to those who come later.

use crate::env::clock::Clock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The longest delay of a commit.
const LONGEST: Duration = Duration::from_millis(20);
/// A wait shorter than this is left for later.
const SHORTEST: Duration = Duration::from_micros(250);
/// Delays grow with the square of the way from the soft bound on; half-way it is a quarter.
const AT_FULL_WIDTH: f64 = 4.0;
/// However space grows, a byte is delayed no more than this times the time GC takes to free one.
const LARGEST: f64 = 8.0;

/// From where on writers are held up, and how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpacePace {
    /// Where delays begin, as bytes of log written since the opening; below zero if that was
    /// before.
    pub soft_bytes: i64,
    /// So many bytes later they are four times what they are half-way.
    pub width_bytes: u64,
    /// The delay half-way, in nanoseconds for each byte: what value GC needs to free one.
    pub nanos_per_byte: f64,
}

impl SpacePace {
    /// Nobody is held up.
    pub const NONE: SpacePace =
        SpacePace { soft_bytes: i64::MAX, width_bytes: 1, nanos_per_byte: 0.0 };

    /// The delay for each byte once the log is this long, in nanoseconds.
    pub fn at(&self, log_bytes: u64) -> f64 {
        let over = log_position(log_bytes).saturating_sub(self.soft_bytes).max(0) as f64;
        let part = over / self.width_bytes.max(1) as f64;
        self.nanos_per_byte * (AT_FULL_WIDTH * part * part).min(LARGEST)
    }
}

/// What writers read of it.
pub struct PaceMaker {
    soft_bytes: AtomicI64,
    width_bytes: AtomicU64,
    /// The bits of a float.
    nanos_per_byte: AtomicU64,
    /// Until when the places in the queue are taken, in nanoseconds of the clock.
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
    /// Sets the pace. A writer that looks meanwhile may mix the old and the new: harmless.
    pub fn set(&self, pace: SpacePace) {
        self.width_bytes.store(pace.width_bytes, Ordering::Relaxed);
        self.nanos_per_byte.store(pace.nanos_per_byte.to_bits(), Ordering::Relaxed);
        self.soft_bytes.store(pace.soft_bytes, Ordering::Relaxed);
    }

    /// The pace as it is set.
    pub fn get(&self) -> SpacePace {
        SpacePace {
            soft_bytes: self.soft_bytes.load(Ordering::Relaxed),
            width_bytes: self.width_bytes.load(Ordering::Relaxed),
            nanos_per_byte: f64::from_bits(self.nanos_per_byte.load(Ordering::Relaxed)),
        }
    }

    /// True if writers are held up when the log is this long.
    #[inline]
    pub fn is_on(&self, log_bytes: u64) -> bool {
        log_position(log_bytes) > self.soft_bytes.load(Ordering::Relaxed)
    }

    /// Takes a place for `bytes` in the queue; returns until when to wait, if at all.
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
            // 10 ns a byte; what is not yet worth a wait may be open.
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
