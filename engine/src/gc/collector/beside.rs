//! Work, such as a liveness scan, on a thread beside that of value GC, which goes on meanwhile. The
//! new thread has the priority of the thread that starts it, which was lowered already.
//!
//! Lock: `outcome`, a leaf, held for moments only.

use crate::env::sync::{Condvar, Mutex};
use crate::env::threads::{Join, Threads};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the two threads share.
struct SideTaskShared<T> {
    /// The result of the work; `None` until it ends.
    outcome: Mutex<Option<T>>,
    ended: Condvar,
    is_given_up: AtomicBool,
}

/// Work under way on another thread. Dropping it gives the work up and waits for its end, so it
/// never outlives its owner.
pub(super) struct Beside<T> {
    shared: Arc<SideTaskShared<T>>,
    thread: Option<Box<dyn Join>>,
}

impl<T: Send + 'static> Beside<T> {
    /// Begins the work, which must not panic, and must end early once its flag says that it is
    /// given up. Fails if the system has no thread left.
    pub(super) fn begin(
        threads: &Arc<dyn Threads>,
        name: &str,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> io::Result<Beside<T>> {
        let shared = Arc::new(SideTaskShared {
            outcome: Mutex::new(None),
            ended: Condvar::new(),
            is_given_up: AtomicBool::new(false),
        });
        let theirs = shared.clone();
        let work = move || {
            let outcome = work(&theirs.is_given_up);
            *theirs.outcome.lock() = Some(outcome);
            theirs.ended.notify_all();
        };
        let thread = threads.spawn(name, Box::new(work))?;
        Ok(Beside { shared, thread: Some(thread) })
    }

    /// Waits for at most `time`; returns true if the work is over.
    pub(super) fn is_over_within(&self, time: Duration) -> bool {
        let outcome = self.shared.outcome.lock();
        if outcome.is_some() || time.is_zero() {
            return outcome.is_some();
        }
        self.shared.ended.wait_timeout(outcome, time).0.is_some()
    }

    /// Returns the result of the work, which must be over.
    pub(super) fn outcome(self) -> T {
        self.shared.outcome.lock().take().expect("the work is over")
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.is_given_up.store(true, Ordering::Relaxed);
            // Nobody needs the result, and the work does not panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, OsSettings};

    fn threads() -> Arc<dyn Threads> {
        Env::os(&OsSettings::default()).threads
    }

    /// Begins work that goes on until it is given up, and then sets `said`.
    fn until_given_up(said: &Arc<AtomicBool>) -> Beside<()> {
        let said = said.clone();
        let work = move |is_given_up: &AtomicBool| {
            while !is_given_up.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            said.store(true, Ordering::Relaxed);
        };
        Beside::begin(&threads(), "test", work).unwrap()
    }

    #[test]
    fn its_outcome_arrives() {
        let beside = Beside::begin(&threads(), "test", |_| 7).unwrap();
        while !beside.is_over_within(Duration::from_secs(1)) {}
        assert_eq!(beside.outcome(), 7);
    }

    #[test]
    fn it_has_ended_once_it_is_given_up() {
        let said = Arc::new(AtomicBool::new(false));
        let beside = until_given_up(&said);
        assert!(!beside.is_over_within(Duration::ZERO));
        assert!(!beside.is_over_within(Duration::from_nanos(1)));
        drop(beside);
        assert!(said.load(Ordering::Relaxed));
    }
}
