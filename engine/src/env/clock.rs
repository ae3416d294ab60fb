//! Time, through one door.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock. In a simulation it moves with each step, with each reading, and when everybody waits.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
    /// The time since `begun`, an earlier reading; zero if that is still to come.
    ///
    /// Two readings are subtracted here and in [`Clock::left`] only, which can't overflow: any
    /// time may pass between the reading that a decision was made on and the next one.
    fn since(&self, begun: Duration) -> Duration {
        self.now().saturating_sub(begun)
    }
    /// The time that is left until the moment `until`; zero if it has passed.
    fn left(&self, until: Duration) -> Duration {
        until.saturating_sub(self.now())
    }
    /// Time since 1970, for people to read.
    fn wall(&self) -> Duration;
}

/// The system's clocks. `now` counts from the clock's creation.
pub(super) struct OsClock {
    start: Instant,
}

impl Default for OsClock {
    fn default() -> Self {
        OsClock { start: Instant::now() }
    }
}

impl Clock for OsClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall(&self) -> Duration {
        // A clock set to before 1970 is shown as 1970: nothing but messages depends on it.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
