//! The thread that syncs the log behind the writers: the segments that are full, and for
//! [`Durability::SyncEvery`](crate::Durability::SyncEvery) what was written. It also starts the
//! writeback of the segment that is being written, and prepares the next one.

use super::{Background, RECHECK_INTERVAL};
use std::time::Duration;

impl Background {
    /// Requests a sync of the log within `time`.
    pub fn sync_within(&self, time: Duration) {
        let due = self.runtime.env.clock.now().saturating_add(time);
        let mut state = self.state.lock();
        if state.sync_due.is_none_or(|earlier| due < earlier) {
            state.sync_due = Some(due);
            self.log_changed.notify_all();
        }
    }

    /// Wakes the thread because a segment was sealed, or writeback is due.
    pub fn wake_sync(&self) {
        let _state = self.state.lock();
        self.log_changed.notify_all();
    }

    pub(super) fn sync_when_due(&self) {
        let clock = &self.runtime.env.clock;
        let mut state = self.state.lock();
        while !state.closing {
            let left = state.sync_due.map(|due| clock.left(due));
            if left == Some(Duration::ZERO) {
                state.sync_due = None;
                drop(state);
                // A failed sync has turned the database read-only (I8), so writers get the error.
                let outcome = self.committer.sync();
                self.runtime.counters.background_errors.add(u64::from(outcome.is_err()));
                state = self.state.lock();
                continue;
            }
            if self.runtime.health.check().is_ok() && self.committer.log().wants_sync() {
                drop(state);
                // I8: after a failure nothing is synced any more, as the database is read-only.
                let outcome = self.committer.log().sync_behind();
                self.runtime.counters.background_errors.add(u64::from(outcome.is_err()));
                // Writers may wait for it, and the manifest gets the lengths of what was synced.
                self.committer.stall_controller().notify();
                self.wake();
                state = self.state.lock();
                continue;
            }
            state = self.log_changed.wait_timeout(state, left.unwrap_or(RECHECK_INTERVAL)).0;
        }
    }
}
