//! The queue in time in which writers wait while space nears its ceiling (I10), as long as the rule
//! in [`ceiling`](crate::throttle::ceiling) says. While no delay is due, the check is one load of
//! memory that nobody writes to.

use crate::env::clock::Clock;
use crate::throttle::ceiling::{SpacePace, is_worth_waiting, log_position, take_place};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The current pace and the queue in time, which writers share.
pub struct PaceMaker {
    soft_bytes: AtomicI64,
    width_bytes: AtomicU64,
    /// The bits of an `f64`.
    nanos_per_byte: AtomicU64,
    memtable_bytes: AtomicU64,
    inline_memtable_bytes: AtomicU64,
    /// The most that the two become: there is no memory for more.
    most_memtable_bytes: u64,
    /// The time until which places in the queue are taken, in nanoseconds of the clock.
    taken_until: AtomicU64,
}

impl PaceMaker {
    /// Creates one that lets no memtable have more bytes than this, and delays nobody yet.
    pub fn new(most_memtable_bytes: u64) -> Self {
        let maker = PaceMaker {
            soft_bytes: AtomicI64::new(0),
            width_bytes: AtomicU64::new(0),
            nanos_per_byte: AtomicU64::new(0),
            memtable_bytes: AtomicU64::new(0),
            inline_memtable_bytes: AtomicU64::new(0),
            most_memtable_bytes,
            taken_until: AtomicU64::new(0),
        };
        maker.set(SpacePace::NONE);
        maker
    }

    /// Sets the pace. A concurrent writer may read a mix of the old and the new, which is harmless.
    pub fn set(&self, pace: SpacePace) {
        self.width_bytes.store(pace.width_bytes, Ordering::Relaxed);
        self.nanos_per_byte.store(pace.nanos_per_byte.to_bits(), Ordering::Relaxed);
        for (cell, bytes) in [
            (&self.memtable_bytes, pace.memtable_bytes),
            (&self.inline_memtable_bytes, pace.inline_memtable_bytes),
        ] {
            cell.store(bytes.min(self.most_memtable_bytes), Ordering::Relaxed);
        }
        self.soft_bytes.store(pace.soft_bytes, Ordering::Relaxed);
    }

    /// Returns the current pace.
    pub fn get(&self) -> SpacePace {
        SpacePace {
            soft_bytes: self.soft_bytes.load(Ordering::Relaxed),
            width_bytes: self.width_bytes.load(Ordering::Relaxed),
            nanos_per_byte: f64::from_bits(self.nanos_per_byte.load(Ordering::Relaxed)),
            memtable_bytes: self.memtable_bytes(),
            inline_memtable_bytes: self.inline_memtable_bytes(),
        }
    }

    /// Returns the bytes at which a memtable is full if its keyspace allows more.
    #[inline]
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Returns the same where memtables hold all values, whether or not they do now.
    pub fn inline_memtable_bytes(&self) -> u64 {
        self.inline_memtable_bytes.load(Ordering::Relaxed)
    }

    /// Returns true if writers are delayed when `log_bytes` of log were written.
    #[inline]
    pub fn is_on(&self, log_bytes: u64) -> bool {
        log_position(log_bytes) > self.soft_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of log after which writers are delayed, when `log_bytes` were written; 0
    /// if they are.
    pub fn bytes_until_delays(&self, log_bytes: u64) -> u64 {
        let soft = self.soft_bytes.load(Ordering::Relaxed);
        let left = soft.saturating_add(1).saturating_sub(log_position(log_bytes));
        u64::try_from(left).unwrap_or(0)
    }

    /// Takes a place for `bytes` in the queue; returns the time until which to wait, or `None`.
    pub fn place(&self, bytes: u64, log_bytes: u64, clock: &dyn Clock) -> Option<Duration> {
        let cost = self.get().cost(bytes, log_bytes);
        let now = nanos(clock.now());
        let take = |taken: u64| Some(take_place(taken, now, cost));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let taken = self.taken_until.fetch_update(set, fetch, take).unwrap_or(now);
        let until = take_place(taken, now, cost);
        is_worth_waiting(now, until).then(|| Duration::from_nanos(until))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::ceiling::{LONGEST, SHORTEST};

    const PACE: SpacePace =
        SpacePace { soft_bytes: 1000, width_bytes: 1000, nanos_per_byte: 10.0, ..SpacePace::NONE };

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
        let maker = PaceMaker::new(u64::MAX);
        maker.set(pace);
        assert_eq!(maker.get(), pace);
        maker
    }

    #[test]
    fn no_memtable_has_more_than_there_is_memory_for() {
        let maker = PaceMaker::new(24);
        assert_eq!(maker.memtable_bytes(), 24);
        for (memtable_bytes, expected) in [(10, 10), (30, 24), (u64::MAX, 24)] {
            maker.set(SpacePace { memtable_bytes, ..PACE });
            assert_eq!((maker.memtable_bytes(), maker.inline_memtable_bytes()), (expected, 24));
            let inline_memtable_bytes = memtable_bytes;
            maker.set(SpacePace { inline_memtable_bytes, ..PACE });
            assert_eq!((maker.memtable_bytes(), maker.inline_memtable_bytes()), (24, expected));
        }
    }

    #[test]
    fn it_is_off_until_the_soft_bound() {
        let maker = PaceMaker::new(u64::MAX);
        assert!(!maker.is_on(u64::MAX));
        assert!(maker.bytes_until_delays(1 << 60) > 1 << 60);
        maker.set(PACE);
        assert!(!maker.is_on(1000));
        assert!(maker.is_on(1001));
        let left = [0, 999, 1000, 1001, u64::MAX].map(|bytes| maker.bytes_until_delays(bytes));
        assert_eq!(left, [1001, 2, 1, 0, 0], "it is on behind the last of them");
        maker.set(SpacePace { soft_bytes: -5, ..PACE });
        assert_eq!(maker.bytes_until_delays(0), 0);
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
