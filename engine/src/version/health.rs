//! Whether the database may still write. A failed sync is final (I8): what the kernel holds is
//! unknown from then on, so the database turns read-only and names the error; only reopening,
//! which reads what is really on disk, decides again.

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::sync::Mutex;
use std::sync::OnceLock;

/// The state of the whole database's right to write.
#[derive(Default)]
pub struct Health {
    failed: OnceLock<Error>,
    paused: Mutex<Option<Error>>,
}

impl Health {
    /// Says why background work can't go on for now (I9: a full disk), or that it can again.
    /// Unlike [`Health::fail`] this passes.
    pub fn pause(&self, cause: Option<Error>) {
        *self.paused.lock() = cause;
    }

    /// Why background work pauses, if it does.
    pub fn paused(&self) -> Option<Error> {
        self.paused.lock().clone()
    }

    /// Turns the database read-only for good; the first cause is kept. Returns the error that
    /// writers get from now on.
    pub fn fail(&self, cause: &Error) -> Error {
        // I8: nothing ever resets this.
        let _ = self.failed.set(cause.clone());
        self.check().err().unwrap_or_else(|| cause.clone())
    }

    /// An error if the database has turned read-only.
    pub fn check(&self) -> Result<()> {
        match self.failed.get() {
            None => Ok(()),
            Some(cause) => Err(Error::new(
                ErrorKind::ReadOnly,
                format!("the database has turned read-only after an error: {cause}"),
            )
            .advise("close it, check the disk, and open it again: recovery tells what is safe")),
        }
    }

    /// The error that made it read-only, if any.
    pub fn cause(&self) -> Option<&Error> {
        self.failed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
