//! The background threads and the choice of their next job. One thread flushes and prepares spare
//! segments, others compact and drop dead segments, one runs value GC, one syncs the log for
//! [`Durability::SyncEvery`].
//!
//! A job is done, obsolete (the database closes, or its keyspace was dropped) or has failed; the
//! kind of an error does not matter. A failed job is tried again after growing pauses. Until it
//! succeeds, stalled writers get its error, so that nobody waits for room that will not come (I9).
//! After a failed sync the database is read-only and nothing is tried any more (I8).
//!
//! Locks: `state` is held to look for work and to record it, never during a job.
//!
//! [`Durability::SyncEvery`]: crate::Durability::SyncEvery

mod collect;
mod wait;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::pointer::KeyspaceId;
use crate::base::size::sized;
use crate::commit::group::Committer;
use crate::commit::stall::WriteStallController;
use crate::compaction::picker::{CompactionCursors, Pick, RunningCompactions, pick, scores};
use crate::compaction::{flush, job, reorganize};
use crate::env::budget::Pressure;
use crate::env::sync::{Condvar, Mutex, MutexGuard};
use crate::env::threads::Join;
use crate::events::Event;
use crate::gc::collector::Collector;
use crate::gc::dead;
use crate::stats::Counters;
use crate::version::job::{JobContext, JobError, JobResult};
use crate::version::levels::{Levels, bounds};
use crate::version::snapshots::Snapshots;
use crate::version::view::KeyspaceState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pause of a thread after its first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Idle threads look for work at least this often, in case a wake-up is missed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Score of L0 from which compaction is no longer held up for reads: L0 is then twice as full as
/// when its compaction became due.
const LEVEL0_PRESSES: f64 = 2.0;

/// The parts of a database that background jobs work on.
pub struct Workplace {
    /// The context that every job gets.
    pub context: JobContext,
    /// The committer, whose log is synced before tables are.
    pub committer: Arc<Committer>,
    /// The write stall controller, which is notified when a job has made room.
    pub stall_controller: Arc<WriteStallController>,
    /// The live snapshots, whose versions compaction must keep.
    pub snapshots: Arc<Snapshots>,
    /// The counters of the statistics.
    pub counters: Arc<Counters>,
    /// The collector that runs value GC.
    pub collector: Collector,
    /// True if value GC runs by itself.
    pub gc_automatic: bool,
}

#[derive(Default)]
struct BackgroundState {
    busy: RunningCompactions,
    flushing: BTreeSet<KeyspaceId>,
    compaction_cursors: BTreeMap<KeyspaceId, CompactionCursors>,
    /// Failures in a row, by [`Role`].
    failures: [u32; 3],
    error: Option<Error>,
    /// The reason why value GC can't go on. No writer waits for value GC, so no writer gets
    /// this error.
    gc_error: Option<Error>,
    sync_due: Option<Duration>,
    closing: bool,
    /// True if nothing was written for a while.
    idle: bool,
    /// Number of running jobs on the background's own threads.
    jobs: usize,
    /// Number of running jobs on users' threads.
    foreground_jobs: usize,
}

/// A running job on a user's thread; `stop` waits until it is dropped.
struct ForegroundJob<'a>(&'a Background);

impl Drop for ForegroundJob<'_> {
    fn drop(&mut self) {
        self.0.state.lock().foreground_jobs -= 1;
        self.0.changed.notify_all();
    }
}

/// The state that background threads and the foreground share.
pub struct Background {
    place: Workplace,
    state: Mutex<BackgroundState>,
    changed: Condvar,
    threads: Mutex<Vec<Box<dyn Join>>>,
}

/// The kind of work that a thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Flush = 0,
    Compact = 1,
    Collect = 2,
}

/// A job that is already marked as taken.
enum BackgroundWork {
    Flush(Arc<KeyspaceState>),
    Spare,
    Compact(Claimed),
    DropDead,
    Purge,
}

/// A compaction that is marked as running.
pub struct Claimed {
    keyspace: Arc<KeyspaceState>,
    levels: Arc<Levels>,
    pick: Pick,
    claim: u64,
    /// True if values are to be rewritten in key order too.
    reorganize: bool,
}

impl Background {
    /// Creates the state; no thread runs yet.
    pub fn new(place: Workplace) -> Self {
        Background {
            place,
            state: Mutex::new(BackgroundState::default()),
            changed: Condvar::new(),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Starts the threads.
    pub fn start(self: &Arc<Self>, compaction_threads: usize) -> std::io::Result<()> {
        let mut threads = self.threads.lock();
        let spawner = &self.place.context.env.threads;
        let mut spawn = |name: &'static str, role: Option<Role>| {
            let this = self.clone();
            let body = move || this.live(name, || this.begin(role));
            threads.push(spawner.spawn(name, Box::new(body))?);
            Ok(())
        };
        spawn("cleave-flush", Some(Role::Flush))?;
        spawn("cleave-sync", None)?;
        spawn("cleave-gc", Some(Role::Collect))?;
        (0..compaction_threads).try_for_each(|_| spawn("cleave-compact", Some(Role::Compact)))
    }

    fn begin(&self, role: Option<Role>) {
        // Writers wait for syncs and flushes first, so all other threads run at a lower priority.
        if matches!(role, Some(Role::Collect | Role::Compact)) {
            self.place.context.env.threads.lower_priority();
        }
        match role {
            Some(Role::Collect) => self.collect(),
            Some(role) => self.work(role),
            None => self.sync_when_due(),
        }
    }

    /// Runs a thread's body. If it panics, nobody does the thread's work any more, so writing ends
    /// too: otherwise nobody would notice what is not synced, flushed or freed until it is too
    /// late.
    pub fn live(&self, name: &str, body: impl FnOnce()) {
        let guarded = || {
            body();
            Ok::<_, Error>(())
        };
        let Err(error) = self.place.context.health.guard(&format!("thread {name}"), guarded) else {
            return;
        };
        self.place.counters.background_errors.add(1);
        self.place.context.emit(Event::BackgroundError { error: error.clone() });
        self.state.lock().error = Some(error);
        self.changed.notify_all();
        self.place.stall_controller.notify();
    }

    /// Returns the context that jobs get.
    pub fn context(&self) -> &JobContext {
        &self.place.context
    }

    /// Wakes the threads because there may be work.
    pub fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    fn work(&self, role: Role) {
        loop {
            let mut state = self.state.lock();
            let work = loop {
                if state.closing {
                    return;
                }
                if let Some(work) = self.find(role, &mut state) {
                    break work;
                }
                state = self.changed.wait_timeout(state, LOOK_AGAIN).0;
            };
            state.jobs += 1;
            drop(state);
            let outcome = self.run_guarded(&work);
            self.report_failure(&outcome);
            let mut state = self.state.lock();
            self.release(work, &mut state);
            state.jobs -= 1;
            let failed = self.note(role, outcome, &mut state);
            drop(state);
            self.place.stall_controller.notify();
            self.press_for_level0();
            if failed {
                self.rest(role);
            }
        }
    }

    /// Returns the most urgent work for this role and marks it as taken.
    fn find(&self, role: Role, state: &mut BackgroundState) -> Option<BackgroundWork> {
        if self.place.context.health.check().is_err() {
            return None;
        }
        let set = &self.place.context.set;
        if role == Role::Flush {
            let due = set.keyspaces().into_iter().find(|keyspace| {
                !keyspace.peek().immutables.is_empty() && !state.flushing.contains(&keyspace.id)
            });
            if let Some(keyspace) = due {
                state.flushing.insert(keyspace.id);
                return Some(BackgroundWork::Flush(keyspace));
            }
            return self.place.committer.log().wants_spare().then_some(BackgroundWork::Spare);
        }
        if !set.tables().purge.is_empty() {
            return Some(BackgroundWork::Purge);
        }
        if let Some(claimed) = self.pick(state).or_else(|| self.pick_stale(state)) {
            return Some(BackgroundWork::Compact(claimed));
        }
        (!dead::pick(&set.current()).is_empty()).then_some(BackgroundWork::DropDead)
    }

    fn pick(&self, state: &mut BackgroundState) -> Option<Claimed> {
        for keyspace in self.place.context.set.keyspaces() {
            let levels = keyspace.view().levels.clone();
            let options = keyspace.options().clone();
            let compaction_cursors = state.compaction_cursors.entry(keyspace.id).or_default();
            let Some(pick) = pick(keyspace.id, &levels, &options, &state.busy, compaction_cursors)
            else {
                continue;
            };
            if let Some(last) = pick.inputs.last() {
                compaction_cursors[pick.level] = Some(bounds(last).1.to_vec());
            }
            if let Some(claim) = state.busy.claim(keyspace.id, &keyspace.order, &pick) {
                return Some(Claimed { keyspace, levels, pick, claim, reorganize: false });
            }
        }
        None
    }

    fn run_guarded(&self, work: &BackgroundWork) -> JobResult {
        self.guarded(|| self.run(work))
    }

    /// Runs a job. A panic in it ends writing but not the process.
    fn guarded<T>(&self, job: impl FnOnce() -> JobResult<T>) -> JobResult<T> {
        self.place.context.health.guard("a background job", job)
    }

    fn run(&self, work: &BackgroundWork) -> JobResult {
        match work {
            BackgroundWork::Flush(keyspace) => self.flush(keyspace),
            BackgroundWork::Spare => Ok(self.place.committer.log().prepare_spare().map(|_| ())?),
            BackgroundWork::Compact(claimed) => self.compact(claimed),
            BackgroundWork::DropDead => Ok(self.drop_dead()?),
            BackgroundWork::Purge => Ok(self.purge()?),
        }
    }

    fn flush(&self, keyspace: &Arc<KeyspaceState>) -> JobResult {
        let place = &self.place;
        let snapshots = || place.snapshots.list();
        let (context, name) = (&place.context, &keyspace.name);
        let _span = tracing::info_span!(target: "cleavedb", "flush", keyspace = name).entered();
        context.emit(Event::FlushBegun { keyspace: name.clone() });
        let begun = context.env.clock.now();
        let report = flush::run(context, &place.committer, keyspace, snapshots)?;
        let took = context.env.clock.since(begun);
        place.counters.latencies.flush.add(took);
        let (keyspace, bytes_written) = (name.clone(), report.bytes);
        context.emit(Event::FlushEnded { keyspace, bytes_written, took });
        place.counters.flushes.add(1);
        place.counters.flush_bytes_written.add(report.bytes);
        place.counters.entries_dropped.add(report.dropped);
        self.move_head();
        Ok(())
    }

    /// Forgets the compaction cursors of a dropped keyspace, and lets the head of the log pass its
    /// entries.
    pub fn forget(&self, keyspace: KeyspaceId) {
        self.state.lock().compaction_cursors.remove(&keyspace);
        self.move_head();
        self.wake();
    }

    /// Recomputes how far back in the log the oldest entry is that is not in a table, for the write
    /// stall controller.
    pub fn move_head(&self) {
        let stall_controller = &self.place.stall_controller;
        let mut oldest = stall_controller.log_bytes.load(Ordering::Relaxed);
        for keyspace in self.place.context.set.keyspaces() {
            let view = keyspace.view();
            oldest = view.memtables().filter_map(|m| m.first_bytes()).fold(oldest, u64::min);
        }
        // The value only grows, so a thread that looked earlier and stores later changes nothing.
        stall_controller.head_bytes.fetch_max(oldest, Ordering::Relaxed);
    }

    /// Lifts the limit on compaction while L0 fills up: reads get slower and writers wait in the
    /// end, so compaction must not be held up for the sake of reads.
    fn press_for_level0(&self) {
        let is_filling = |keyspace: &Arc<KeyspaceState>| {
            scores(&keyspace.peek().levels, &keyspace.options())[0] >= LEVEL0_PRESSES
        };
        let filling = self.place.context.set.keyspaces().iter().any(is_filling);
        self.place.context.budget.press(Pressure::Level0, filling);
    }

    fn compact(&self, claimed: &Claimed) -> JobResult {
        let place = &self.place;
        let Claimed { keyspace, levels, pick, reorganize, .. } = claimed;
        self.check_fits(claimed)?;
        let snapshots = place.snapshots.list();
        let run = if *reorganize { reorganize::run } else { job::run };
        let (context, name, level) = (&place.context, &keyspace.name, pick.level);
        let span = tracing::info_span!(target: "cleavedb", "compaction", keyspace = name, level);
        let _span = span.entered();
        let bytes = pick.bytes();
        context.emit(Event::CompactionBegun { keyspace: name.clone(), level, bytes });
        let begun = context.env.clock.now();
        let report = run(context, keyspace, levels, pick, snapshots)?;
        let took = context.env.clock.since(begun);
        place.counters.latencies.compaction.add(took);
        context.emit(Event::CompactionEnded {
            keyspace: name.clone(),
            level,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written + report.values_written,
            moved: report.moved,
            took,
        });
        if report.moved {
            place.counters.trivial_moves.add(1);
            return Ok(());
        }
        place.counters.compactions.add(1);
        place.counters.compaction_bytes_read.add(report.bytes_read);
        place.counters.compaction_bytes_written.add(report.bytes_written + report.values_written);
        place.counters.entries_dropped.add(report.dropped);
        Ok(())
    }

    /// Refuses a compaction whose output, with the values that it rewrites, may not fit on the disk
    /// (I9): half a compaction would fill the disk for nothing.
    fn check_fits(&self, claimed: &Claimed) -> Result<()> {
        let Claimed { keyspace, pick, reorganize, .. } = claimed;
        let values = if *reorganize { pick.value_bytes() } else { 0 };
        let bytes = pick.bytes().saturating_add(values);
        let (context, reserve) = (&self.place.context, &self.place.stall_controller.reserve);
        let dir = &context.set.tables().dir;
        let free = context.env.fs.free_space(dir).unwrap_or(u64::MAX);
        if bytes <= reserve.usable(free) || pick.is_move(keyspace.options().table_bytes) {
            return Ok(());
        }
        let (bytes, free) = (sized(bytes), sized(free));
        let what = format!("compacting {bytes} does not fit into {free} of free space");
        Err(Error::new(ErrorKind::DiskFull, what)
            .in_file(dir)
            .advise("free space on this file system; compaction then resumes"))
    }

    /// Releases what the job had claimed, so that others may take it.
    fn release(&self, work: BackgroundWork, state: &mut BackgroundState) {
        match &work {
            BackgroundWork::Flush(keyspace) => {
                state.flushing.remove(&keyspace.id);
            }
            BackgroundWork::Compact(claimed) => state.busy.release(claimed.claim, &claimed.pick),
            BackgroundWork::Spare | BackgroundWork::DropDead | BackgroundWork::Purge => {}
        }
        // Dropping the work releases the files that the job replaced, so that an idle database
        // has freed them.
        drop(work);
        self.changed.notify_all();
    }

    /// Emits an event if the job failed. Requires: no lock is held, because a listener is the
    /// user's code.
    fn report_failure<T>(&self, outcome: &JobResult<T>) {
        if let Err(JobError::Failed(error)) = outcome {
            self.place.context.emit(Event::BackgroundError { error: error.clone() });
        }
    }

    /// Records how a job ended; returns true if it failed.
    fn note(&self, role: Role, outcome: JobResult, state: &mut BackgroundState) -> bool {
        let Err(outcome) = outcome else {
            state.failures[role as usize] = 0;
            if role == Role::Collect {
                state.gc_error = None;
            } else if state.failures[..2] == [0; 2] {
                state.error = None;
                self.place.context.health.pause(None);
            }
            return false;
        };
        let JobError::Failed(error) = outcome else {
            return false;
        };
        self.place.counters.background_errors.add(1);
        state.failures[role as usize] = state.failures[role as usize].saturating_add(1);
        if role == Role::Collect {
            state.gc_error = Some(error);
            return true;
        }
        // I9: writers that wait for this job get the reason why it can't be done.
        self.place.context.health.pause(Some(error.clone()));
        state.error = Some(error);
        true
    }

    /// Pauses before the next try, because a failure is likely to last.
    fn rest(&self, role: Role) {
        let clock = &self.place.context.env.clock;
        let mut state = self.state.lock();
        let failures = state.failures[role as usize].clamp(1, 16);
        let until = clock.now() + (FIRST_PAUSE * (1 << (failures - 1))).min(LONGEST_PAUSE);
        while !state.closing && clock.now() < until {
            let left = clock.left(until);
            state = self.changed.wait_timeout(state, left).0;
        }
    }

    /// Requests a sync of the log within `time`.
    pub fn sync_within(&self, time: Duration) {
        let due = self.place.context.env.clock.now().saturating_add(time);
        let mut state = self.state.lock();
        if state.sync_due.is_none_or(|earlier| due < earlier) {
            state.sync_due = Some(due);
            self.changed.notify_all();
        }
    }

    fn sync_when_due(&self) {
        let clock = &self.place.context.env.clock;
        let mut state = self.state.lock();
        while !state.closing {
            let left = state.sync_due.map(|due| clock.left(due));
            if left == Some(Duration::ZERO) {
                state.sync_due = None;
                drop(state);
                // A failed sync has turned the database read-only (I8), so writers get the error.
                let outcome = self.place.committer.sync();
                self.place.counters.background_errors.add(u64::from(outcome.is_err()));
                state = self.state.lock();
                continue;
            }
            state = self.changed.wait_timeout(state, left.unwrap_or(LOOK_AGAIN)).0;
        }
    }

    /// Runs a compaction that `choose` picks on the caller's thread, once no running job conflicts
    /// with it. `choose` is called again whenever something changed; `None` ends the call. With
    /// `reorganize`, values are rewritten in key order too.
    pub fn run_chosen(
        &self,
        keyspace: &Arc<KeyspaceState>,
        reorganize: bool,
        mut choose: impl FnMut(&Levels) -> Option<Pick>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let claimed = loop {
            self.check_running(&state)?;
            keyspace.check()?;
            let levels = keyspace.view().levels.clone();
            let Some(pick) = choose(&levels) else {
                return Ok(());
            };
            let claim = state.busy.claim(keyspace.id, &keyspace.order, &pick);
            if let Some(claim) = claim {
                break Claimed { keyspace: keyspace.clone(), levels, pick, claim, reorganize };
            }
            state = self.changed.wait_timeout(state, LOOK_AGAIN).0;
        };
        let running = self.begin_foreground(state);
        let work = BackgroundWork::Compact(claimed);
        let outcome = self.run_guarded(&work);
        self.release(work, &mut self.state.lock());
        drop(running);
        self.place.stall_controller.notify();
        Ok(outcome?)
    }

    /// Counts a job on the caller's thread until the result is dropped.
    fn begin_foreground(&self, mut state: MutexGuard<'_, BackgroundState>) -> ForegroundJob<'_> {
        state.foreground_jobs += 1;
        ForegroundJob(self)
    }

    /// Stops all threads. A running job, here or on a user's thread, ends early and leaves nothing.
    pub fn stop(&self) {
        self.place.context.closing.store(true, Ordering::Relaxed);
        self.place.context.budget.close();
        self.state.lock().closing = true;
        self.changed.notify_all();
        self.place.stall_controller.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                self.place.counters.background_errors.add(1);
            }
        }
        // The jobs of our own threads ended with the threads, even if a panic kept them from being
        // counted down; only users' threads are left to wait for.
        let mut state = self.state.lock();
        while state.foreground_jobs > 0 {
            state = self.changed.wait(state);
        }
    }

    /// Returns the last error of a job, until one succeeds, or the reason why value GC can't free
    /// something, as long as that lasts.
    pub fn error(&self) -> Option<Error> {
        let state = self.state.lock();
        let failed = state.error.clone().or_else(|| state.gc_error.clone());
        drop(state);
        failed.or_else(|| self.place.collector.quarantined())
    }
}
