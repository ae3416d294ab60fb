//! Runs a workload on its threads and adds up what they did.

use super::report::Report;
use super::values::key;
use super::worker::{Tally, Worker};
use super::{Plan, Workload};
use crate::progress::Progress;
use cleavedb::Result;
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Operations between two looks at the progress line.
const SHOW_EVERY: u64 = 256;

/// What the threads of one workload share.
pub(super) struct Shared {
    total: u64,
    num: u64,
    stop_at: Option<Instant>,
    done: AtomicU64,
    failed: AtomicBool,
    progress: Mutex<Progress>,
}

impl Shared {
    /// Counts operations; breaks when time is up or another thread has failed.
    pub(super) fn count(&self, ops: u64, now: Instant) -> ControlFlow<()> {
        let done = self.done.fetch_add(ops, Ordering::Relaxed) + ops;
        if done % SHOW_EVERY < ops
            && let Ok(mut progress) = self.progress.try_lock()
        {
            let share = (self.stop_at.is_none()).then(|| done as f64 / self.total as f64);
            progress.show(done, share);
        }
        let late = self.stop_at.is_some_and(|stop_at| now >= stop_at);
        if late || self.failed.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// The bounds of the keys that belong to `part` of the operations; the first and the last
    /// part are open, so that together they have everything.
    pub(super) fn stretch(&self, part: &Range<u64>) -> Range<Option<Vec<u8>>> {
        let scaled =
            |at: u64| (u128::from(at) * u128::from(self.num) / u128::from(self.total)) as u64;
        let lower = (part.start > 0).then(|| key(scaled(part.start)).to_vec());
        let upper = (part.end < self.total).then(|| key(scaled(part.end)).to_vec());
        lower..upper
    }
}

/// Runs `workload`, the `turn`th of this call.
pub(super) fn measure(plan: &Plan<'_>, workload: Workload, turn: u64) -> Result<Report> {
    let load = plan.load;
    let total = if workload.fills() { load.num } else { load.reads.unwrap_or(load.num) }.max(1);
    // An empty value makes the pool now, outside of the measured time.
    plan.values.make(b"", 0, &mut Vec::new());
    let started = Instant::now();
    let shared = Shared {
        total,
        num: load.num,
        stop_at: plan.duration.map(|duration| started + duration),
        done: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        progress: Mutex::new(Progress::new("operations", true)),
    };
    let tally = run_threads(plan, workload, &shared, turn)?;
    let seconds = started.elapsed().as_secs_f64();
    drop(shared);
    let settling = Instant::now();
    if load.settle {
        plan.db.wait_idle()?;
    }
    let settle_seconds = load.settle.then(|| settling.elapsed().as_secs_f64());
    Ok(Report { workload, threads: load.threads, tally, seconds, settle_seconds })
}

fn run_threads(plan: &Plan<'_>, workload: Workload, shared: &Shared, turn: u64) -> Result<Tally> {
    let threads = plan.load.threads;
    thread::scope(|scope| {
        let start = |number: u64| {
            let part = shared.total * number / threads..shared.total * (number + 1) / threads;
            // A workload never sees the random numbers of another one, in this call or the next.
            let stream = (workload as u64) << 32 | turn << 16 | number;
            let worker = Worker::new(plan, workload, shared, part, stream);
            scope.spawn(move || {
                let tally = worker.run();
                shared.failed.fetch_or(tally.is_err(), Ordering::Relaxed);
                tally
            })
        };
        let handles: Vec<_> = (0..threads).map(start).collect();
        let mut sum = Tally::new();
        for handle in handles {
            sum.add(&handle.join().expect("a worker does not panic")?);
        }
        Ok(sum)
    })
}
