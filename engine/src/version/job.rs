//! The result of every background job: flush, compaction or value GC.

use crate::base::error::Error;

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
