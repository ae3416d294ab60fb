//! The thread that syncs the log for [`Durability::SyncEvery`](crate::Durability::SyncEvery).

use super::{Background, RECHECK_INTERVAL};
use std::time::Duration;

impl Background {
    /// Requests a sync of the log within `time`.
    pub fn sync_within(&self, time: Duration) {
        let due = self.runtime.env.clock.now().saturating_add(time);
        let mut state = self.state.lock();
        if state.sync_due.is_none_or(|earlier| due < earlier) {
            state.sync_due = Some(due);
            self.changed.notify_all();
        }
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
            state = self.changed.wait_timeout(state, left.unwrap_or(RECHECK_INTERVAL)).0;
        }
    }
}
