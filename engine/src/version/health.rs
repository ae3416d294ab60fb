//! The state that decides whether the database may still write. A failed sync is final (I8): the
//! state of the kernel's cache is unknown from then on, so the database turns read-only and reports
//! the error. Only reopening, which reads what is really on disk, can make it writable again.

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::sync::Mutex;
use crate::env::threads::panic_text;
use crate::events::{Event, Events};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// The write state of a database: whether it may still write, and the reason if not.
#[derive(Default)]
pub struct Health {
    failed: OnceLock<Error>,
    paused: Mutex<Option<Error>>,
    /// The listeners for events.
    pub events: Arc<Events>,
}

impl Health {
    /// Creates the healthy state.
    pub fn new(events: Arc<Events>) -> Self {
        Health { events, ..Health::default() }
    }

    /// Sets the reason why background work cannot go on for now (I9: a full disk), or clears it.
    /// Unlike [`Health::fail`] this is not final.
    pub fn pause(&self, cause: Option<Error>) {
        *self.paused.lock() = cause;
    }

    /// Returns why background work pauses; `None` if it does not.
    pub fn paused(&self) -> Option<Error> {
        self.paused.lock().clone()
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
            .advise("close it, check the disk, and open it again: recovery tells what is safe")),
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
