//! The signal that commits give to those who wait for the next one: consumers of the change feed.
//!
//! Writers pay for it only while somebody waits. Who wants to wait says so under the lock of the
//! log, where it also looks once more whether there is something new; the leader looks, under the
//! same lock, at one flag. So either the leader sees the flag, or the waiting side sees the commit.
//!
//! Lock: a leaf, taken under the lock of the log.

use crate::env::sync::{Condvar, Mutex};
use std::time::Duration;

/// The signal of a database.
#[derive(Default)]
pub struct CommitSignal {
    /// How often the signal was given.
    given: Mutex<u64>,
    changed: Condvar,
}

impl CommitSignal {
    /// Returns how often the signal was given. Read it before looking for what it announces.
    pub fn given(&self) -> u64 {
        *self.given.lock()
    }

    /// Gives the signal to all who wait.
    pub fn give(&self) {
        *self.given.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until the signal was given more than `seen` times, for at most `time`. May return
    /// early.
    pub fn wait(&self, seen: u64, time: Duration) {
        let given = self.given.lock();
        if *given == seen {
            drop(self.changed.wait_timeout(given, time));
        }
    }
}
