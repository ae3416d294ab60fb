//! A census on a thread of its own: counting takes as long as writing some hundredths of the data,
//! and meanwhile the collector frees what the census before found.
//!
//! Both may go on at once because a census looks at views that were taken before it began: it holds
//! tables, memtables and relocations, and no segment (I5).
//!
//! Lock: `state` here, a leaf, held for moments only.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::SegmentId;
use crate::env::sync::{Condvar, Mutex};
use crate::env::threads::Join;
use crate::gc::census::{self, Census, Scope};
use crate::version::entries::EntriesView;
use crate::version::job::JobContext;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a census looks at, for whoever takes it; see [`Scope`].
pub(super) struct Task {
    pub(super) context: JobContext,
    pub(super) seqno: SeqNo,
    pub(super) snapshots: Vec<SeqNo>,
    pub(super) views: Vec<EntriesView>,
    pub(super) wanted: Vec<SegmentId>,
    pub(super) max_listed: usize,
}

/// A census that was taken.
pub(super) struct Taken {
    pub(super) census: Census,
    /// How long that took.
    pub(super) time: Duration,
}

impl Task {
    /// Takes the census on this thread, unless the database closes or it `is_given_up`.
    pub(super) fn run(&self, is_given_up: &AtomicBool) -> Result<Taken> {
        let scope = Scope {
            seqno: self.seqno,
            snapshots: &self.snapshots,
            views: &self.views,
            wanted: &self.wanted,
            max_listed: self.max_listed,
        };
        let clock = &self.context.env.clock;
        let begun = clock.now();
        let census = census::take(&scope, || {
            if is_given_up.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Busy, "the census was given up"));
            }
            self.context.check_closing()
        })?;
        Ok(Taken { census, time: clock.now() - begun })
    }
}

/// What the two threads share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
    is_given_up: AtomicBool,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// `None` once it is over: it panicked.
    outcome: Option<Result<Taken>>,
}

/// Says that it is over, also after a panic.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.ended.notify_all();
    }
}

/// A census under way.
pub(super) struct Counting {
    shared: Arc<Shared>,
    thread: Box<dyn Join>,
}

impl Counting {
    /// Begins it. Fails if the system has no thread left.
    pub(super) fn begin(task: Arc<Task>) -> io::Result<Counting> {
        let shared = Arc::new(Shared::default());
        let ending = Ending(shared.clone());
        let threads = task.context.env.threads.clone();
        let work = move || {
            task.context.env.threads.give_way();
            let outcome = task.run(&ending.0.is_given_up);
            ending.0.state.lock().outcome = Some(outcome);
        };
        let thread = threads.spawn("cleave-census", Box::new(work))?;
        Ok(Counting { shared, thread })
    }

    /// Waits for at most so long; true once it is over.
    pub(super) fn is_over_within(&self, time: Duration) -> bool {
        let state = self.shared.state.lock();
        if state.is_over || time.is_zero() {
            return state.is_over;
        }
        self.shared.ended.wait_timeout(state, time).0.is_over
    }

    /// What came of it, once it is over.
    pub(super) fn outcome(self) -> Result<Taken> {
        if let Err(text) = self.thread.join() {
            // As if it had happened on this thread, whose guard ends writing.
            panic!("the census panicked: {text}");
        }
        self.shared.state.lock().outcome.take().expect("its thread ended without a panic")
    }

    /// Ends it early.
    pub(super) fn give_up(self) {
        self.shared.is_given_up.store(true, Ordering::Relaxed);
        // Nobody wants to know what came of it; a panic would say nothing about the data.
        let _ = self.thread.join();
    }
}
