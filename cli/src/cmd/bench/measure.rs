//! Runs a workload on its threads and sums up what they did.

use super::BenchPlan;
use super::collect::{BenchGc, collect};
use super::conditional::{check_counters, sum_of_counters, versions};
use super::follow::{BenchFeed, changes_from_now, follow};
use super::keys::{KeyCount, count_stored};
use super::mix::Mix;
use super::report::BenchReport;
use super::tally::WorkerTally;
use super::values::key;
use super::worker::Worker;
use super::workload::Workload;
use crate::progress::Progress;
use cleavedb::{Error, Result};
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Number of operations between two updates of the progress line.
const SHOW_EVERY: u64 = 256;

/// The state that the threads of one workload share.
pub(super) struct BenchShared {
    /// The keys that random keys are drawn from.
    pub(super) keys: KeyCount,
    total: u64,
    num: u64,
    stop_at: Option<Instant>,
    done: AtomicU64,
    /// True if a thread has failed, or if this runs beside a workload that has ended.
    over: AtomicBool,
    progress: Mutex<Progress>,
    /// The version of each loaded key, for the workload that sets keys by their versions.
    pub(super) versions: Vec<AtomicU64>,
}

impl BenchShared {
    /// Shares `total` operations on keys of which there are `keys`, `num` of them loaded.
    fn new(keys: u64, total: u64, num: u64, stop_at: Option<Instant>, shown: bool) -> Self {
        BenchShared {
            keys: KeyCount::new(keys),
            total,
            num,
            stop_at,
            done: AtomicU64::new(0),
            over: AtomicBool::new(false),
            progress: Mutex::new(Progress::new("operations", shown)),
            versions: Vec::new(),
        }
    }

    /// Counts operations; breaks when the time or the count is used up, or `over` is set.
    pub(super) fn count(&self, ops: u64, now: Instant) -> ControlFlow<()> {
        let done = self.done.fetch_add(ops, Ordering::Relaxed) + ops;
        if done % SHOW_EVERY < ops
            && let Ok(mut progress) = self.progress.try_lock()
        {
            let share = (self.stop_at.is_none()).then(|| done as f64 / self.total as f64);
            progress.show(done, share);
        }
        let late = self.stop_at.is_some_and(|stop_at| now >= stop_at);
        if late || self.over.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Returns the number of operations that were counted.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the share of all operations that thread `number` of `threads` does.
    fn part(&self, number: u64, threads: u64) -> Range<u64> {
        let start = |number: u64| {
            (u128::from(self.total) * u128::from(number) / u128::from(threads)) as u64
        };
        start(number)..start(number + 1)
    }

    /// Returns the numbers of the loaded keys that belong to `part` of the operations; at least
    /// one.
    pub(super) fn own_keys(&self, part: &Range<u64>) -> Range<u64> {
        let start = self.scaled(part.start).min(self.num - 1);
        start..self.scaled(part.end).max(start + 1)
    }

    fn scaled(&self, at: u64) -> u64 {
        (u128::from(at) * u128::from(self.num) / u128::from(self.total)) as u64
    }

    /// Returns the bounds of the keys that belong to `part` of the operations. The first and the
    /// last part are open, so that together the parts cover every key.
    pub(super) fn stretch(&self, part: &Range<u64>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let lower = (part.start > 0).then(|| key(self.scaled(part.start)).to_vec());
        let upper = (part.end < self.total).then(|| key(self.scaled(part.end)).to_vec());
        let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
        (lower.map_or(Bound::Unbounded, Bound::Included), upper)
    }
}

/// Runs `workload`, which is number `turn` of this call of the command.
pub(super) fn measure(plan: &BenchPlan<'_>, workload: Workload, turn: u64) -> Result<BenchReport> {
    let load = plan.load;
    // Makes an empty value, so that the pool is created outside of the measured time.
    plan.values.make(b"", 0, &mut Vec::new());
    let mixed = Mix::of(workload).is_some();
    let keys = if mixed { count_stored(plan)? } else { load.num };
    // Read before the clock runs: an operation is one compare-and-set of a version that is known.
    let versions = if workload == Workload::Cas { versions(plan)? } else { Vec::new() };
    let stop_at = plan.duration.map(|duration| Instant::now() + duration);
    let shared = BenchShared::new(keys, workload.ops(load), load.num, stop_at, true);
    let shared = BenchShared { versions, ..shared };
    let counts = matches!(workload, Workload::Increment | Workload::Merge);
    let counted = if counts { sum_of_counters(plan, workload)? } else { 0 };
    let (done, gc, feed) = run_beside_feed(plan, workload, &shared, turn)?;
    let Done { mut tally, seconds, beside } = done;
    drop(shared);
    if counts {
        check_counters(plan, workload, counted, tally.ops)?;
    }
    let settling = Instant::now();
    if load.settle {
        plan.db.wait_idle()?;
    }
    let settle_seconds = load.settle.then(|| settling.elapsed().as_secs_f64());
    let sides = tally.sides.take();
    let threads = load.threads;
    Ok(BenchReport { workload, threads, tally, seconds, beside, sides, gc, feed, settle_seconds })
}

/// What a workload did, and what the threads did that read beside it.
struct Done {
    tally: WorkerTally,
    seconds: f64,
    beside: Option<WorkerTally>,
}

/// Runs `workload`, and a consumer of the change feed beside it if that was asked for.
fn run_beside_feed(
    plan: &BenchPlan<'_>,
    workload: Workload,
    shared: &BenchShared,
    turn: u64,
) -> Result<(Done, Option<BenchGc>, Option<BenchFeed>)> {
    let is_over = AtomicBool::new(false);
    // The first write of the workload may come before the consumer's thread runs.
    let changes = plan.load.follow.map(|how| changes_from_now(plan, how)).transpose()?;
    thread::scope(|scope| {
        let over = |_: &Error| shared.over.store(true, Ordering::Relaxed);
        let is_over = &is_over;
        let start = |changes| scope.spawn(move || follow(plan, changes, is_over).inspect_err(over));
        let following = changes.map(start);
        let done = run_beside_gc(plan, workload, shared, turn);
        is_over.store(true, Ordering::Relaxed);
        let feed = following.map(|thread| thread.join().expect("a consumer does not panic"));
        let (done, gc) = done?;
        Ok((done, gc, feed.transpose()?))
    })
}

/// Runs `workload`, and value GC beside it if that was asked for.
fn run_beside_gc(
    plan: &BenchPlan<'_>,
    workload: Workload,
    shared: &BenchShared,
    turn: u64,
) -> Result<(Done, Option<BenchGc>)> {
    thread::scope(|scope| {
        // The workload ends early if value GC fails.
        let over = |_: &Error| shared.over.store(true, Ordering::Relaxed);
        let collect = move || collect(plan, shared).inspect_err(over);
        let collecting = plan.load.collect.then(|| scope.spawn(collect));
        let done = run(plan, workload, shared, turn)?;
        let gc = collecting.map(|thread| thread.join().expect("value GC does not panic"));
        Ok((done, gc.transpose()?))
    })
}

fn run(plan: &BenchPlan<'_>, workload: Workload, shared: &BenchShared, turn: u64) -> Result<Done> {
    if plan.load.readers > 0 && (workload.fills() || workload.deletes()) {
        return run_beside_readers(plan, workload, shared, turn);
    }
    let started = Instant::now();
    let tally = run_threads(plan, workload, shared, plan.load.threads, turn)?;
    Ok(Done { tally, seconds: started.elapsed().as_secs_f64(), beside: None })
}

/// Runs `workload` while other threads read.
fn run_beside_readers(
    plan: &BenchPlan<'_>,
    workload: Workload,
    shared: &BenchShared,
    turn: u64,
) -> Result<Done> {
    let started = Instant::now();
    let num = plan.load.num;
    let readers = BenchShared::new(num, u64::MAX, num, None, false);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let beside = Workload::ReadRandom;
            let tally = run_threads(plan, beside, &readers, plan.load.readers, turn);
            // If the reads failed, the rest of the workload is of no use.
            shared.over.fetch_or(tally.is_err(), Ordering::Relaxed);
            tally
        });
        let tally = run_threads(plan, workload, shared, plan.load.threads, turn);
        let seconds = started.elapsed().as_secs_f64();
        readers.over.store(true, Ordering::Relaxed);
        let reads = reading.join().expect("a worker does not panic")?;
        Ok(Done { tally: tally?, seconds, beside: Some(reads) })
    })
}

fn run_threads(
    plan: &BenchPlan<'_>,
    workload: Workload,
    shared: &BenchShared,
    threads: u64,
    turn: u64,
) -> Result<WorkerTally> {
    thread::scope(|scope| {
        let start = |number: u64| {
            let part = shared.part(number, threads);
            // Each workload has random numbers of its own, in this call and the next.
            let stream = (workload as u64) << 32 | turn << 16 | number;
            let worker = Worker::new(plan, workload, shared, part, stream);
            scope.spawn(move || {
                let tally = worker.run();
                shared.over.fetch_or(tally.is_err(), Ordering::Relaxed);
                tally
            })
        };
        let handles: Vec<_> = (0..threads).map(start).collect();
        let mut sum = WorkerTally::new();
        for handle in handles {
            sum.add(&handle.join().expect("a worker does not panic")?);
        }
        Ok(sum)
    })
}
