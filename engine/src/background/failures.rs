//! Reports failed jobs, and decides when they are tried again.
//!
//! Each job has failures of its own. While one waits for its next try, its thread does other work,
//! so that what fails for good holds up nothing that does not depend on it.

use super::{Background, BackgroundState};
use crate::base::error::Error;
use crate::base::pointer::KeyspaceId;
use crate::events::Event;
use crate::throttle::retry;
use crate::version::health::JobKind;
use crate::version::job::{JobError, JobResult};
use std::collections::BTreeMap;
use std::time::Duration;

/// The failures of a job since it last succeeded.
struct JobFailure {
    count: u32,
    next_try: Duration,
    /// The number of the version that was current at the last failure.
    version: u64,
}

/// The jobs that failed when they were last tried.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<JobKind, JobFailure>);

impl Failures {
    /// Notes that a job failed at the time `now`, when the version with this number was current.
    fn add(&mut self, job: JobKind, now: Duration, version: u64) {
        let failure = self.0.entry(job).or_insert(JobFailure { count: 0, next_try: now, version });
        failure.version = version;
        failure.count = failure.count.saturating_add(1);
        let next_try = now + retry::pause(failure.count);
        debug_assert!(next_try >= failure.next_try, "each failure puts the next try off");
        failure.next_try = next_try;
    }

    /// Notes that a job is not to be held up any more; returns true if it was.
    fn remove(&mut self, job: JobKind) -> bool {
        self.0.remove(&job).is_some()
    }

    /// Returns how often the job failed in a row.
    pub(super) fn count(&self, job: JobKind) -> u32 {
        self.0.get(&job).map_or(0, |failure| failure.count)
    }

    /// Returns the number of the version that was current when the job failed, if it did when it
    /// was last tried.
    pub(super) fn version(&self, job: JobKind) -> Option<u64> {
        self.0.get(&job).map(|failure| failure.version)
    }

    /// Returns the keyspaces in which compactions of full levels failed when they were last tried.
    fn compactions(&self) -> Vec<KeyspaceId> {
        let of = |job: &JobKind| match job {
            JobKind::Compaction(id) => Some(*id),
            _ => None,
        };
        self.0.keys().filter_map(of).collect()
    }

    /// Returns the jobs that are not to be tried yet.
    pub(super) fn resting(&self, now: impl FnOnce() -> Duration) -> Vec<JobKind> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let now = now();
        let rests = self.0.iter().filter(|(_, failure)| now < failure.next_try);
        rests.map(|(job, _)| *job).collect()
    }

    /// Returns the time of the earliest next try that is after `now`.
    fn next_try(&self, now: Duration) -> Option<Duration> {
        self.0.values().map(|failure| failure.next_try).filter(|next| *next > now).min()
    }
}

impl Background {
    /// Emits an event if the job failed. Requires: the caller holds no lock, because a listener is
    /// the user's code.
    pub(super) fn report_failure<T>(&self, outcome: &JobResult<T>) {
        if let Err(JobError::Failed(error)) = outcome {
            self.runtime.emit(Event::BackgroundError { error: error.clone() });
        }
    }

    /// Records how a job ended.
    pub(super) fn note(&self, job: JobKind, outcome: JobResult, state: &mut BackgroundState) {
        let health = &self.runtime.health;
        match outcome {
            Ok(()) => {
                if state.failures.remove(job) {
                    health.note_job(job, None);
                }
            }
            Err(JobError::Obsolete(_)) => {}
            Err(JobError::Failed(error)) => {
                self.runtime.counters.background_errors.add(1);
                // What is tried for a keyspace that was dropped meanwhile is never tried again.
                let version = self.runtime.set.current();
                if job.keyspace().is_some_and(|id| version.keyspace(id).is_none()) {
                    return;
                }
                state.failures.add(job, self.runtime.env.clock.now(), version.number);
                // I9: writers that wait for this job get the reason why it can't be done.
                health.note_job(job, Some(error));
            }
        }
    }

    /// Forgets the failures of jobs that nobody needs any more.
    pub(super) fn forget_failures(&self, jobs: &[JobKind], state: &mut BackgroundState) {
        for job in jobs {
            state.failures.remove(*job);
            self.runtime.health.note_job(*job, None);
        }
    }

    /// Forgets that compactions of full levels failed in keyspaces in which no level is full any
    /// more: somebody else has done what they failed to do, such as a program that compacts.
    pub(super) fn forget_needless_compactions(&self, state: &mut BackgroundState) {
        for id in state.failures.compactions() {
            let keyspaces = self.runtime.set.keyspaces();
            let keyspace = keyspaces.iter().find(|keyspace| keyspace.id == id);
            let is_full = keyspace.is_some_and(|keyspace| {
                let scores = self.level_scores(keyspace, &keyspace.peek().levels);
                scores.iter().any(|score| *score >= 1.0)
            });
            if !is_full {
                self.forget_failures(&[JobKind::Compaction(id)], state);
            }
        }
    }

    /// Returns how long a thread without work may wait: at most `longest`, and not beyond the next
    /// try of a job that failed.
    pub(super) fn wait_time(&self, longest: Duration, state: &BackgroundState) -> Duration {
        let clock = &self.runtime.env.clock;
        let next = state.failures.next_try(clock.now());
        next.map_or(longest, |next| clock.left(next).min(longest))
    }

    /// Pauses the thread of value GC after a failure, because that is likely to last.
    pub(super) fn rest_from_gc(&self) {
        let clock = &self.runtime.env.clock;
        let mut state = self.state.lock();
        while !state.closing && state.failures.resting(|| clock.now()).contains(&JobKind::ValueGc) {
            let time = self.wait_time(retry::LONGEST_PAUSE, &state);
            state = self.changed.wait_timeout(state, time).0;
        }
    }

    /// Returns the error of a job that failed when it was last tried, flushes first, or the reason
    /// why value GC can't free something, as long as that lasts.
    pub fn error(&self) -> Option<Error> {
        let died = self.state.lock().died.clone();
        died.or_else(|| self.runtime.health.failed_job(|_| true))
            .or_else(|| self.collector.quarantined())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pointer::KeyspaceId;

    #[test]
    fn each_job_is_tried_again_after_pauses_of_its_own() {
        let (bad, worse) = (JobKind::Flush(KeyspaceId(1)), JobKind::Flush(KeyspaceId(2)));
        let mut failures = Failures::default();
        let second = Duration::from_secs(1);
        assert!(failures.resting(|| unreachable!("nothing failed")).is_empty());
        failures.add(bad, second, 7);
        (0..40).for_each(|_| failures.add(worse, second, 7));
        assert_eq!((failures.count(bad), failures.count(worse)), (1, 40));
        assert_eq!(failures.resting(|| second), [bad, worse]);
        assert_eq!(failures.next_try(second), Some(second + retry::pause(1)));
        assert_eq!(failures.resting(|| second + retry::pause(1)), [worse]);
        assert_eq!(
            failures.next_try(second + retry::pause(1)),
            Some(second + retry::LONGEST_PAUSE)
        );
        assert!(failures.resting(|| second + retry::LONGEST_PAUSE).is_empty());
        assert_eq!(failures.next_try(second + retry::LONGEST_PAUSE), None);
        assert!(failures.remove(bad) && !failures.remove(bad));
        assert_eq!((failures.count(bad), failures.version(bad)), (0, None));
        assert_eq!(failures.version(worse), Some(7));
        failures.add(worse, second, 8);
        assert_eq!(failures.version(worse), Some(8), "the last failure counts");
    }
}
