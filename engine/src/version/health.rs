//! The state that decides whether the database may still write. A failed sync is final (I8): the
//! state of the kernel's cache is unknown from then on, so the database turns read-only and reports
//! the error. Only reopening, which reads what is really on disk, can make it writable again.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::pointer::KeyspaceId;
use crate::env::sync::Mutex;
use crate::env::threads::panic_text;
use crate::events::{Event, Events};
use crate::stats::StallReason;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// A kind of background work, as far as its failures are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobKind {
    /// Flushes of a keyspace.
    Flush(KeyspaceId),
    /// Compactions of a keyspace that a full level makes due, or a user.
    Compaction(KeyspaceId),
    /// Compactions of a keyspace for the sake of its space or its dead values. No rule that delays
    /// writers waits for them.
    OptionalCompaction(KeyspaceId),
    /// Preparing the next segment of the log.
    SpareSegment,
    /// Dropping segments in which nothing is live.
    DeadSegments,
    /// Loading tables into memory.
    PinTables,
    /// Unlinking obsolete files.
    Purge,
    /// Value GC.
    ValueGc,
    /// Syncing the log when that is due.
    LogSync,
}

impl JobKind {
    /// Returns the keyspace that the work is for, if it is for one.
    pub fn keyspace(self) -> Option<KeyspaceId> {
        match self {
            JobKind::Flush(keyspace)
            | JobKind::Compaction(keyspace)
            | JobKind::OptionalCompaction(keyspace) => Some(keyspace),
            _ => None,
        }
    }
}

/// The write state of a database: whether it may still write, and the reason if not.
#[derive(Default)]
pub struct Health {
    failed: OnceLock<Error>,
    /// The errors of jobs that failed when they were last tried.
    failed_jobs: Mutex<BTreeMap<JobKind, Error>>,
    /// The listeners for events.
    pub events: Arc<Events>,
}

impl Health {
    /// Creates the healthy state.
    pub fn new(events: Arc<Events>) -> Self {
        Health { events, ..Health::default() }
    }

    /// Sets the reason why a job cannot be done for now (I9: a full disk), or clears it. Unlike
    /// [`Health::fail`] this is not final.
    pub fn note_job(&self, job: JobKind, error: Option<Error>) {
        let mut failed = self.failed_jobs.lock();
        match error {
            Some(error) => failed.insert(job, error),
            None => failed.remove(&job),
        };
    }

    /// Returns the error of a job that failed when it was last tried, flushes first. Only those
    /// count that `counts` accepts.
    pub fn failed_job(&self, counts: impl Fn(JobKind) -> bool) -> Option<Error> {
        let failed = self.failed_jobs.lock();
        failed.iter().find(|(job, _)| counts(**job)).map(|(_, error)| error.clone())
    }

    /// Returns the error of this job if it failed when it was last tried.
    pub fn error_of(&self, job: JobKind) -> Option<Error> {
        self.failed_jobs.lock().get(&job).cloned()
    }

    /// Returns the error of the job that a writer to `keyspace` waits for by the rule `reason`, if
    /// that job failed when it was last tried. The log is held back by the flushes of all
    /// keyspaces.
    pub fn hindrance(&self, keyspace: KeyspaceId, reason: StallReason) -> Option<Error> {
        let failed = self.failed_jobs.lock();
        let of_any_flush = || failed.iter().find(|(job, _)| matches!(job, JobKind::Flush(_)));
        match reason {
            StallReason::Memtables => failed.get(&JobKind::Flush(keyspace)).cloned(),
            StallReason::Level0Full => failed.get(&JobKind::Compaction(keyspace)).cloned(),
            StallReason::Replay => of_any_flush().map(|(_, error)| error.clone()),
            // A sync of the log that failed has turned the database read-only.
            StallReason::LogSync
            | StallReason::Level0Slow
            | StallReason::Space
            | StallReason::Ingest => None,
        }
    }

    /// Turns the database read-only for good and keeps the first cause. Returns the error that
    /// writers get from now on.
    pub fn fail(&self, cause: &Error) -> Error {
        // I8: nothing ever resets this.
        if self.failed.set(cause.clone()).is_ok() {
            self.events.emit(Event::TurnedReadOnly { error: cause.clone() });
        }
        self.check().err().unwrap_or_else(|| cause.clone())
    }

    /// Runs `work` and catches a panic in it, caused by a bug here or by user code that it calls. A
    /// panic turns the database read-only, since the operation is half done, but does not end the
    /// process. Writers then get an error that contains `what` and the panic's text.
    ///
    /// State that `work` shares with others is used again after a panic. It must be consistent
    /// between any two statements of `work`, unless only writers use it: they are refused from then
    /// on.
    pub fn guard<T, E: From<Error>>(
        &self,
        what: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let text = panic_text(&*panic);
            let error = Error::internal(format!("{what} panicked: {text}"));
            Err(self.fail(&error).into())
        })
    }

    /// Returns an error if the database has turned read-only.
    pub fn check(&self) -> Result<()> {
        match self.failed.get() {
            None => Ok(()),
            Some(cause) => Err(Error::new(
                ErrorKind::ReadOnly,
                format!("the database has turned read-only after an error: {cause}"),
            )
            .advise("close it, check the disk, and open it again: recovery finds what is safe")),
        }
    }

    /// Returns the error that made the database read-only, if any.
    pub fn cause(&self) -> Option<&Error> {
        self.failed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_lasts_and_says_what_panicked() {
        let health = Health::default();
        assert_eq!(health.guard("counting", || Ok::<_, Error>(7)).unwrap(), 7);
        health.check().unwrap();
        let error = health.guard::<(), Error>("counting", || panic!("at {}", 8)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        assert!(error.to_string().contains("counting panicked: at 8"), "{error}");
        assert!(health.check().unwrap_err().to_string().contains("counting panicked: at 8"));
    }

    #[test]
    fn i9_writers_get_the_error_of_what_they_wait_for() {
        use StallReason::{Level0Full, Level0Slow, Memtables, Replay, Space};
        let (bad, good) = (KeyspaceId(1), KeyspaceId(2));
        let health = Health::default();
        health.note_job(JobKind::ValueGc, Some(Error::internal("gc")));
        health.note_job(JobKind::Flush(bad), Some(Error::internal("flush")));
        health.note_job(JobKind::Compaction(good), Some(Error::internal("compaction")));
        health.note_job(JobKind::OptionalCompaction(bad), Some(Error::internal("optional")));
        let told = |keyspace, reason| {
            let error = health.hindrance(keyspace, reason);
            error.map(|error| error.to_string()).unwrap_or_default()
        };
        for (keyspace, reason, expected) in [
            (bad, Memtables, "flush"),
            (good, Memtables, ""),
            (bad, Level0Full, ""),
            (good, Level0Full, "compaction"),
            (bad, Replay, "flush"),
            (good, Replay, "flush"),
            (bad, Level0Slow, ""),
            (bad, Space, ""),
        ] {
            let text = told(keyspace, reason);
            assert!(text.contains(expected), "{reason:?}: {text}");
            assert_eq!(text.is_empty(), expected.is_empty(), "{reason:?}: {text}");
        }
        assert!(health.failed_job(|_| true).unwrap().to_string().contains("flush"));
        let optional = health.failed_job(|job| job == JobKind::OptionalCompaction(bad));
        assert!(optional.unwrap().to_string().contains("optional"));
        assert!(health.failed_job(|job| job == JobKind::Purge).is_none());
        health.note_job(JobKind::Flush(bad), None);
        assert_eq!(told(good, Replay), "");
    }

    #[test]
    fn i8_the_first_failure_is_final() {
        let health = Health::default();
        health.check().unwrap();
        health.fail(&Error::corruption("first"));
        let error = health.fail(&Error::corruption("second"));
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        assert!(error.to_string().contains("first"), "{error}");
        assert!(health.check().is_err());
    }
}
