//! What every background job works with, be it a flush, a compaction or value GC.

use crate::base::error::Error;
use crate::env::Env;
use crate::env::budget::Budget;
use crate::events::Event;
use crate::version::health::Health;
use crate::version::set::VersionSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What came of a background job: it was done, or why not.
pub type JobResult<T = ()> = std::result::Result<T, JobError>;

/// Why a background job was not done. No kind of an [`Error`] tells the two apart: whatever kind a
/// failure has, it is counted, told and tried again later.
#[derive(Debug, Clone)]
pub enum JobError {
    /// Nobody wants it any more: the database closes, the keyspace was dropped, or what the job
    /// was picked on has changed. Not a failure; whoever asked for it by hand gets the error.
    Obsolete(Error),
    /// It could not be done.
    Failed(Error),
}

impl JobError {
    /// The error, if it is a failure.
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

/// What every job needs.
#[derive(Clone)]
pub struct JobContext {
    /// Files, time, threads.
    pub env: Env,
    /// The live version.
    pub set: Arc<VersionSet>,
    /// The right to write.
    pub health: Arc<Health>,
    /// What background work may write.
    pub budget: Arc<Budget>,
    /// Set when the database closes: jobs end early.
    pub closing: Arc<AtomicBool>,
}

impl JobContext {
    /// Tells of an event.
    pub fn emit(&self, event: Event) {
        self.health.events.emit(event);
    }

    /// True once the database is closing.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Ends the job once the database is closing.
    pub fn check_closing(&self) -> JobResult {
        if self.is_closing() {
            return Err(JobError::Obsolete(Error::closed("the database is closing")));
        }
        Ok(())
    }
}
