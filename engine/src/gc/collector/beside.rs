//! Work, such as a liveness scan, on a thread beside that of value GC, which goes on meanwhile. The
//! new thread has the priority of the thread that starts it, which was lowered already.
//!
//! Lock: `state`, a leaf, held for moments only.

use crate::env::sync::{Condvar, Mutex};
use crate::env::threads::{Join, Threads};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The state that the two threads share.
struct SideTaskShared<T> {
    state: Mutex<SideTaskState<T>>,
    ended: Condvar,
    is_given_up: AtomicBool,
}

struct SideTaskState<T> {
    is_over: bool,
    /// The result of the work; `None` until it ends, and for good if it panicked.
    outcome: Option<T>,
}

/// Marks the work as over when dropped, also after a panic.
struct EndOnDrop<T>(Arc<SideTaskShared<T>>);

impl<T> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.ended.notify_all();
    }
}

/// Work under way on another thread. Dropping it gives the work up and waits for its end, so it
/// never outlives its owner.
pub(super) struct Beside<T> {
    shared: Arc<SideTaskShared<T>>,
    thread: Option<Box<dyn Join>>,
}

impl<T: Send + 'static> Beside<T> {
    /// Begins the work, which must end early once its flag says that it is given up. Fails if the
    /// system has no thread left.
    pub(super) fn begin(
        threads: &Arc<dyn Threads>,
        name: &str,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> io::Result<Beside<T>> {
        let shared = Arc::new(SideTaskShared {
            state: Mutex::new(SideTaskState { is_over: false, outcome: None }),
            ended: Condvar::new(),
            is_given_up: AtomicBool::new(false),
        });
        let ending = EndOnDrop(shared.clone());
        let work = move || {
            let outcome = work(&ending.0.is_given_up);
            ending.0.state.lock().outcome = Some(outcome);
        };
        let thread = threads.spawn(name, Box::new(work))?;
        Ok(Beside { shared, thread: Some(thread) })
    }

    /// Waits for at most `time`; returns true if the work is over.
    pub(super) fn is_over_within(&self, time: Duration) -> bool {
        let state = self.shared.state.lock();
        if state.is_over || time.is_zero() {
            return state.is_over;
        }
        self.shared.ended.wait_timeout(state, time).0.is_over
    }

    /// Returns the result of the work, which must be over. A panic of the work panics here.
    pub(super) fn outcome(mut self) -> T {
        if let Some(Err(text)) = self.thread.take().map(Join::join) {
            // The panic counts as if it had happened on this thread, whose guard ends writing.
            panic!("a thread beside value GC panicked: {text}");
        }
        self.shared.state.lock().outcome.take().expect("it ended without a panic")
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.is_given_up.store(true, Ordering::Relaxed);
            // Nobody needs the result. The work only reads, so even a panic means nothing for what
            // is written.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Env, OsSettings};
    use std::panic::{AssertUnwindSafe, catch_unwind};

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

    #[test]
    fn a_panic_there_is_one_here() {
        let panics = |_: &AtomicBool| -> u32 { panic!("what went wrong") };
        let beside = Beside::begin(&threads(), "test", panics).unwrap();
        while !beside.is_over_within(Duration::from_secs(1)) {}
        let outcome = catch_unwind(AssertUnwindSafe(|| beside.outcome()));
        let text = outcome.unwrap_err();
        assert!(text.downcast_ref::<String>().unwrap().contains("what went wrong"));
    }
}
