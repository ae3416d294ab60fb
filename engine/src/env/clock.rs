//! Time, through one door.

use std::time::Duration;

/// A clock. In simulation it moves only when everybody waits.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
    /// Time since 1970, for people to read.
    fn wall(&self) -> Duration;
}
