//! The end of an open database. Whoever closes it first does the work; everybody else who closes it
//! waits for that and gets its outcome, so that no close returns before what was committed is
//! durable and the directory is free for the next opening.
//!
//! Locks: `outcome` is held for a moment and never while the database closes. Who closes waits for
//! the threads of the background and for jobs on users' threads, so none of these may close it.

use crate::base::error::{Error, Result};
use crate::env::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a database is being closed, and what has come of it.
#[derive(Default)]
pub(super) struct Closing {
    is_begun: AtomicBool,
    /// What came of the one close; `None` until it has ended.
    outcome: Mutex<Option<Result<()>>>,
    ended: Condvar,
}

/// The close under way. It ends when this is dropped, also by a panic in it, for which nobody else
/// may wait for ever.
struct Ending<'a>(&'a Closing, Result<()>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.outcome.lock() = Some(self.1.clone());
        self.0.ended.notify_all();
    }
}

impl Closing {
    /// Returns true from the begin of the first close on.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    /// Has `close` close the database, unless somebody does or did so before. Returns what comes or
    /// came of it.
    pub(super) fn run(&self, close: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_begun.swap(true, Ordering::AcqRel) {
            return self.wait();
        }
        let mut ending = Ending(self, Err(Error::internal("closing the database panicked")));
        ending.1 = close();
        ending.1.clone()
    }

    fn wait(&self) -> Result<()> {
        let mut outcome = self.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            outcome = self.ended.wait(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn all_get_the_outcome_of_the_first() {
        let closing = Closing::default();
        assert!(!closing.is_begun());
        closing.run(|| Err(Error::internal("the first"))).unwrap_err();
        assert!(closing.is_begun());
        let error = closing.run(|| unreachable!("it is closed once")).unwrap_err();
        assert!(error.to_string().contains("the first"), "{error}");
    }

    #[test]
    fn a_panic_ends_the_wait() {
        let closing = Closing::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| closing.run(|| panic!("while closing"))));
        assert!(panicked.is_err());
        assert!(closing.run(|| Ok(())).unwrap_err().to_string().contains("panicked"));
    }
}
