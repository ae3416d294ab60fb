//! Whether the database may still write. A failed sync is final (I8): what the kernel holds is
//! unknown from then on, so the database turns read-only and names the error; only reopening,
//! which reads what is really on disk, decides again.

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::sync::Mutex;
use crate::env::threads::panic_text;
use crate::events::{Event, Events};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// The state of the whole database's right to write.
#[derive(Default)]
pub struct Health {
    failed: OnceLock<Error>,
    paused: Mutex<Option<Error>>,
    /// Whom to tell of what happens.
    pub events: Arc<Events>,
}

impl Health {
    /// All is well.
    pub fn new(events: Arc<Events>) -> Self {
        Health { events, ..Health::default() }
    }

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
        if self.failed.set(cause.clone()).is_ok() {
            self.events.emit(Event::TurnedReadOnly { error: cause.clone() });
        }
        self.check().err().unwrap_or_else(|| cause.clone())
    }

    /// Runs `work`. A panic in it, which a bug here can cause or code of the user's that is called
    /// in it, ends writing for good but not the process: what it was doing is half done. The panic
    /// is named by `what` and by its text in the error that everybody gets from then on.
    ///
    /// What `work` shares with others is seen again after a panic. It has to be whole between any
    /// two statements there, unless only writers look at it: they are refused from then on.
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
