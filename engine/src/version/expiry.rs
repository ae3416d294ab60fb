//! The expiry clock, by which entries expire. It follows the wall clock, but never goes back while
//! the database is open, and it never stands still.
//!
//! It is the engine's other clock, which is monotonic, plus a *lead*: the greatest distance by
//! which the wall clock was ever seen to be ahead of that. So when the wall clock steps forward,
//! the expiry clock steps with it; when the wall clock steps back, the expiry clock goes on at its
//! usual pace. Entries written after a step back live as long as they were told to.
//!
//! The manifest records the greatest deadline by which compaction has dropped something. An opening
//! starts the clock there at the least, so that what expired and was dropped stays absent, together
//! with everything that had to expire before it. The clock may fall behind what readers of an
//! earlier session saw, if the wall clock was set back in between: what had expired then, and was
//! not dropped, is seen again until its deadline comes once more.

use crate::base::expiry::{Deadline, ExpiryTime};
use crate::base::key::SeqNo;
use crate::env::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock by which the entries of one database expire.
pub struct ExpiryClock {
    clock: Arc<dyn Clock>,
    /// The distance from the monotonic clock to the expiry clock, in milliseconds. It never
    /// shrinks.
    lead: AtomicU64,
}

impl ExpiryClock {
    /// Creates a clock that follows the wall clock of `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        ExpiryClock { clock, lead: AtomicU64::new(0) }
    }

    /// Returns the time. No call that begins later, on any thread, returns an earlier one.
    ///
    /// Costs two readings of the system's clocks.
    pub fn now(&self) -> ExpiryTime {
        // In this order: time that passes in between makes the lead too small, never too great.
        let wall = self.clock.wall().as_millis();
        let now = self.monotonic();
        let seen = u64::try_from(wall).unwrap_or(u64::MAX).saturating_sub(now);
        let mut lead = self.lead.load(Ordering::Acquire);
        if lead < seen {
            // Rarely: threads that read the time at once do not meet on the counter.
            lead = self.lead.fetch_max(seen, Ordering::AcqRel).max(seen);
        }
        ExpiryTime(now.saturating_add(lead))
    }

    /// Makes sure that everything up to `deadline` is expired from now on.
    pub fn pass(&self, deadline: Deadline) {
        let lead = deadline.0.saturating_sub(self.monotonic());
        self.lead.fetch_max(lead, Ordering::AcqRel);
        debug_assert!(deadline.has_passed(self.now()));
    }

    fn monotonic(&self) -> u64 {
        u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The time by which a reader judges deadlines.
#[derive(Clone, Copy)]
pub enum Moment<'a> {
    /// The time of a snapshot or of a cursor, fixed when it was made.
    At(ExpiryTime),
    /// The time of the call, read only if an entry with a deadline is met.
    Now(&'a ExpiryClock),
}

impl Moment<'_> {
    /// Returns the time.
    #[inline]
    pub fn time(self) -> ExpiryTime {
        match self {
            Moment::At(time) => time,
            Moment::Now(clock) => clock.now(),
        }
    }
}

/// What a reader sees: the newest entry, and when.
#[derive(Clone, Copy)]
pub struct ReadPoint<'a> {
    /// The reader sees entries at or below this sequence number.
    pub seqno: SeqNo,
    /// The time by which the reader judges deadlines.
    pub moment: Moment<'a>,
}

impl ReadPoint<'_> {
    /// Returns the point of a reader at `seqno` to whom nothing has expired.
    pub fn timeless(seqno: SeqNo) -> ReadPoint<'static> {
        ReadPoint { seqno, moment: Moment::At(ExpiryTime::default()) }
    }

    /// Returns the same point with its time fixed, for a reader that makes more than one call.
    pub fn fixed(self) -> ReadPoint<'static> {
        ReadPoint { seqno: self.seqno, moment: Moment::At(self.moment.time()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Duration;

    /// Clocks that show what they are told: the monotonic one, and the wall clock.
    #[derive(Default)]
    struct Told(Mutex<(u64, u64)>);

    impl Told {
        fn tell(&self, now: u64, wall: u64) {
            *self.0.lock().unwrap() = (now, wall);
        }
    }

    impl Clock for Told {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.lock().unwrap().0)
        }

        fn wall(&self) -> Duration {
            Duration::from_millis(self.0.lock().unwrap().1)
        }
    }

    #[test]
    fn the_clock_neither_goes_back_nor_stands_still() {
        let told = Arc::new(Told::default());
        let clock = ExpiryClock::new(told.clone());
        // The monotonic clock, the wall clock, and the expiry clock.
        let cases = [
            (10, 1_000_010, 1_000_010),
            (20, 1_000_020, 1_000_020),
            // An hour ahead, and back again: time goes on from there.
            (30, 4_600_030, 4_600_030),
            (40, 1_000_040, 4_600_040),
            (1_040, 1_001_040, 4_601_040),
            // To before 1970, and behind the monotonic clock.
            (1_050, 0, 4_601_050),
            // The wall clock has caught up.
            (1_060, 5_000_000, 5_000_000),
            (1_070, 5_000_010, 5_000_010),
        ];
        for (now, wall, expected) in cases {
            told.tell(now, wall);
            assert_eq!(clock.now(), ExpiryTime(expected), "{now} {wall}");
        }
    }

    #[test]
    fn what_was_dropped_stays_expired() {
        let told = Arc::new(Told::default());
        told.tell(5, 100);
        let clock = ExpiryClock::new(told.clone());
        clock.pass(Deadline(70));
        assert_eq!(clock.now(), ExpiryTime(100), "the wall clock is ahead of it");
        clock.pass(Deadline(900));
        assert_eq!(clock.now(), ExpiryTime(900));
        told.tell(8, 103);
        assert_eq!(clock.now(), ExpiryTime(903));
        clock.pass(Deadline(u64::MAX));
        assert_eq!(clock.now(), ExpiryTime(u64::MAX));
    }
}
