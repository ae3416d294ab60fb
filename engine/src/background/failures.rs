//! Failed jobs: who is told, and when the next try is.

use super::{Background, BackgroundState, Role};
use crate::base::error::Error;
use crate::events::Event;
use crate::version::job::{JobError, JobResult};
use std::time::Duration;

/// Pause of a thread after its first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
impl Background {
    /// Emits an event if the job failed. Requires: no lock is held, because a listener is the
    /// user's code.
    pub(super) fn report_failure<T>(&self, outcome: &JobResult<T>) {
        if let Err(JobError::Failed(error)) = outcome {
            self.runtime.emit(Event::BackgroundError { error: error.clone() });
        }
    }

    /// Records how a job ended; returns true if it failed.
    pub(super) fn note(&self, role: Role, outcome: JobResult, state: &mut BackgroundState) -> bool {
        let Err(outcome) = outcome else {
            state.failures[role as usize] = 0;
            if role == Role::Collect {
                state.gc_error = None;
            } else if state.failures[..2] == [0; 2] {
                state.error = None;
                self.runtime.health.pause(None);
            }
            return false;
        };
        let JobError::Failed(error) = outcome else {
            return false;
        };
        self.runtime.counters.background_errors.add(1);
        state.failures[role as usize] = state.failures[role as usize].saturating_add(1);
        if role == Role::Collect {
            state.gc_error = Some(error);
            return true;
        }
        // I9: writers that wait for this job get the reason why it can't be done.
        self.runtime.health.pause(Some(error.clone()));
        state.error = Some(error);
        true
    }

    /// Pauses before the next try, because a failure is likely to last.
    pub(super) fn rest(&self, role: Role) {
        let clock = &self.runtime.env.clock;
        let mut state = self.state.lock();
        let failures = state.failures[role as usize].clamp(1, 16);
        let until = clock.now() + (FIRST_PAUSE * (1 << (failures - 1))).min(LONGEST_PAUSE);
        while !state.closing && clock.now() < until {
            let left = clock.left(until);
            state = self.changed.wait_timeout(state, left).0;
        }
    }

    /// Returns the last error of a job, until one succeeds, or the reason why value GC can't free
    /// something, as long as that lasts.
    pub fn error(&self) -> Option<Error> {
        let state = self.state.lock();
        let failed = state.error.clone().or_else(|| state.gc_error.clone());
        drop(state);
        failed.or_else(|| self.collector.quarantined())
    }
}
