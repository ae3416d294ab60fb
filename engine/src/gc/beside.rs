//! Work, such as a liveness scan, on a thread beside that of value GC, which goes on meanwhile. The
//! new thread has the priority of the thread that starts it, which was lowered already. A panic in
//! the work ends writing, as that of any job does, and is its outcome.
//!
//! Lock: `outcome`, a leaf, held for moments only.

use crate::env::sync::{Condvar, Mutex};
use crate::env::threads::{Join, Threads};
use crate::version::health::Health;
use crate::version::job::JobResult;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the two threads share.
struct SideTaskShared<T> {
    /// The result of the work; `None` until it ends.
    outcome: Mutex<Option<JobResult<T>>>,
    ended: Condvar,
    is_given_up: AtomicBool,
}

/// Work under way on another thread. Dropping it gives the work up and waits for its end, so it
/// never outlives its owner.
pub struct Beside<T> {
    shared: Arc<SideTaskShared<T>>,
    thread: Option<Box<dyn Join>>,
}

impl<T: Send + 'static> Beside<T> {
    /// Begins the work `name` on a thread called `thread`. It must end early once its flag says
    /// that it is given up. Fails if the system has no thread left.
    pub fn begin(
        threads: &Arc<dyn Threads>,
        health: &Arc<Health>,
        (thread, name): (&str, &'static str),
        work: impl FnOnce(&AtomicBool) -> JobResult<T> + Send + 'static,
    ) -> io::Result<Beside<T>> {
        let shared = Arc::new(SideTaskShared {
            outcome: Mutex::new(None),
            ended: Condvar::new(),
            is_given_up: AtomicBool::new(false),
        });
        let (theirs, health) = (shared.clone(), health.clone());
        let work = move || {
            // The guard is on the thread, so that a panic is reported even if nobody takes the
            // outcome.
            let outcome = health.guard(name, || work(&theirs.is_given_up));
            *theirs.outcome.lock() = Some(outcome);
            theirs.ended.notify_all();
        };
        let thread = threads.spawn(thread, Box::new(work))?;
        Ok(Beside { shared, thread: Some(thread) })
    }

    /// Waits for at most `time`; returns true if the work is over.
    pub fn is_over_within(&self, time: Duration) -> bool {
        let outcome = self.shared.outcome.lock();
        if outcome.is_some() || time.is_zero() {
            return outcome.is_some();
        }
        self.shared.ended.wait_timeout(outcome, time).0.is_some()
    }

    /// Waits for the end of the work and returns its result.
    pub fn outcome(mut self) -> JobResult<T> {
        if let Some(thread) = self.thread.take() {
            // The guard has made a panic the outcome.
            let _ = thread.join();
        }
        self.shared.outcome.lock().take().expect("the thread leaves an outcome")
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.is_given_up.store(true, Ordering::Relaxed);
            // Nobody needs the result, and a panic was reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, OsSettings};
    use crate::version::job::JobError;

    fn begin<T: Send + 'static>(
        work: impl FnOnce(&AtomicBool) -> JobResult<T> + Send + 'static,
    ) -> Beside<T> {
        let threads = Env::os(&OsSettings::default()).threads;
        Beside::begin(&threads, &Arc::default(), ("test", "a test"), work).unwrap()
    }

    /// Begins work that goes on until it is given up, and then sets `said`.
    fn until_given_up(said: &Arc<AtomicBool>) -> Beside<()> {
        let said = said.clone();
        let work = move |is_given_up: &AtomicBool| {
            while !is_given_up.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            said.store(true, Ordering::Relaxed);
            Ok(())
        };
        begin(work)
    }

    #[test]
    fn its_outcome_arrives() {
        let beside = begin(|_| Ok(7));
        while !beside.is_over_within(Duration::from_secs(1)) {}
        assert!(beside.is_over_within(Duration::ZERO));
        assert_eq!(beside.outcome().unwrap(), 7);
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

    #[test]
    fn a_panic_there_is_its_outcome() {
        let beside = begin(|_| -> JobResult<u32> { panic!("what went wrong") });
        let error = JobError::failure(&beside.outcome().unwrap_err()).unwrap().to_string();
        assert!(error.contains("a test panicked: what went wrong"), "{error}");
    }
}
