//! Time, through one door.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock. In simulation it moves only when everybody waits.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
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
