//! The thread that syncs the log behind the writers: the segments that are full, and for
//! [`Durability::SyncEvery`](crate::Durability::SyncEvery) what was written. It also starts the
//! writeback of the segment that is being written, and prepares the next one.

use super::{Background, BackgroundState, RECHECK_INTERVAL};
use crate::base::error::Result;
use crate::throttle::retry;
use crate::version::health::JobKind;
use crate::version::job::JobError;
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

    /// Records how a sync of the log ended that was due. I2: one that failed before anything was
    /// synced, because the disk has no room for what is to be written first, is still due.
    fn note_log_sync(&self, outcome: Result<()>, state: &mut BackgroundState) {
        if self.runtime.health.check().is_err() {
            // I8: nothing is synced any more, and writers get the error.
            self.runtime.counters.background_errors.add(u64::from(outcome.is_err()));
            return;
        }
        let failed = outcome.is_err();
        self.note(JobKind::LogSync, outcome.map_err(JobError::from), state);
        if failed {
            let pause = retry::pause(state.failures.count(JobKind::LogSync));
            let again = self.runtime.env.clock.now().saturating_add(pause);
            state.sync_due = Some(state.sync_due.map_or(again, |due| due.min(again)));
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
                let outcome = self.committer.sync().map(|_| ());
                // The error that makes the database read-only is an event of its own.
                if self.runtime.health.check().is_ok() {
                    self.report_failure(&outcome.clone().map_err(JobError::from));
                }
                state = self.state.lock();
                self.note_log_sync(outcome, &mut state);
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
