//! The context and result of every background job: flush, compaction or value GC.

use crate::base::error::Error;
use crate::env::Env;
use crate::env::budget::Budget;
use crate::events::Event;
use crate::version::health::Health;
use crate::version::set::VersionSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of a background job.
pub type JobResult<T = ()> = std::result::Result<T, JobError>;

/// The reason why a background job was not done. It does not depend on the kind of [`Error`]: a
/// failure of any kind is counted, reported and retried later.
#[derive(Debug, Clone)]
pub enum JobError {
    /// The job is not needed any more: the database closes, the keyspace was dropped, or the facts
    /// that the job was picked on have changed. This is not a failure; a caller that requested the
    /// job gets the error.
    Obsolete(Error),
    /// The job failed.
    Failed(Error),
}

impl JobError {
    /// Returns the error if it is a failure; `None` if the job became obsolete.
    pub fn failure(&self) -> Option<&Error> {
        match self {
            JobError::Obsolete(_) => None,
            JobError::Failed(error) => Some(error),
        }
    }
}

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        JobError::Failed(error)
    }
}

impl From<JobError> for Error {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Obsolete(error) | JobError::Failed(error) => error,
        }
    }
}

/// The parts of a database that every job needs.
#[derive(Clone)]
pub struct JobContext {
    /// Files, clock and threads.
    pub env: Env,
    /// The set that holds the live version.
    pub set: Arc<VersionSet>,
    /// Whether the database may still write.
    pub health: Arc<Health>,
    /// The budget of background I/O.
    pub budget: Arc<Budget>,
    /// Set when the database closes, so that jobs end early.
    pub closing: Arc<AtomicBool>,
}

impl JobContext {
    /// Reports an event to the listeners.
    pub fn emit(&self, event: Event) {
        self.health.events.emit(event);
    }

    /// Returns true once the database is closing.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns [`JobError::Obsolete`] once the database is closing.
    pub fn check_closing(&self) -> JobResult {
        if self.is_closing() {
            return Err(JobError::Obsolete(Error::closed("the database is closing")));
        }
        Ok(())
    }
}
