//! The engine's only access to time.

use std::time::{Duration, Instant, UNIX_EPOCH};

/// A time of the system's clock, as users say it.
pub use std::time::SystemTime;

/// Returns the time from 1970 to `time`; zero for a time before.
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A clock. A simulated one advances with each step, with each reading, and when all threads wait.
pub trait Clock: Send + Sync {
    /// Returns the time since some fixed moment; it never goes back.
    fn now(&self) -> Duration;
    /// Returns the time since `begun`, an earlier reading; zero if `begun` lies in the future.
    ///
    /// Readings are subtracted only here and in [`Clock::left`], which can't overflow: any time may
    /// pass between the reading that a decision was based on and the next one.
    fn since(&self, begun: Duration) -> Duration {
        self.now().saturating_sub(begun)
    }
    /// Returns the time that is left until the moment `until`; zero if it has passed.
    fn left(&self, until: Duration) -> Duration {
        until.saturating_sub(self.now())
    }
    /// Returns the time since 1970, for people to read and for the deadlines of values. It can be
    /// set, also back.
    fn wall(&self) -> Duration;
}

/// The system's clocks. `now` counts from the creation of this value.
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
        // A clock set to before 1970 is read as 1970; the expiry clock then runs by `now`.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
