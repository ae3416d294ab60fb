//! Floor 8: the background threads and the choice of their next job. One thread flushes and
//! prepares spare segments, others compact and drop dead segments, one runs value GC, one syncs
//! the log behind the writers, and for [`Durability::SyncEvery`].
//!
//! A job is done, obsolete (the database closes, or its keyspace was dropped) or has failed; the
//! kind of an error does not matter. A failed job is tried again after growing pauses, while its
//! thread does other work. Until it succeeds, writers that are stalled for want of it get its
//! error, so that nobody waits for room that will not come (I9). After a failed sync the database
//! is read-only and nothing is tried any more (I8).
//!
//! Locks: `state` is held to look for work and to record it, never during a job.
//!
//! [`Durability::SyncEvery`]: crate::Durability::SyncEvery

mod choice;
mod collect;
mod failures;
mod foreground;
mod jobs;
mod log_sync;
mod optional;
mod pinning;
mod running;
mod scan_order;
mod wait;

use crate::base::error::Error;
use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::commit::group::Committer;
use crate::compaction::picker::{CompactionCursors, RunningCompactions};
use crate::env::sync::{Condvar, Mutex};
use crate::env::threads::Join;
use crate::gc::collector::Collector;
use crate::hot::StaleTrigger;
use crate::read::demand::ScanDemands;
use crate::version::runtime::Runtime;
pub use choice::CompactionReason;
use failures::Failures;
pub use foreground::SpanClaim;
use running::RunningJobs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Idle threads look for work at least this often, in case a wake-up is missed.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct BackgroundState {
    busy: RunningCompactions,
    /// The keyspaces that are being flushed, each with the bytes of log that were written when the
    /// oldest entry came that waited for it.
    flushing: BTreeMap<KeyspaceId, u64>,
    compaction_cursors: BTreeMap<KeyspaceId, CompactionCursors>,
    /// The keyspace of the last compaction that was chosen.
    compacted_last: Option<KeyspaceId>,
    failures: Failures,
    /// The panic that ended a thread. It stays, as nobody does the thread's work any more.
    died: Option<Error>,
    sync_due: Option<Duration>,
    closing: bool,
    /// True while a table is loaded into memory.
    pinning: bool,
    /// True while a job runs that scans have paid for; there is one at a time.
    ordering: bool,
    /// When the last such job ended.
    ordered_at: Option<Duration>,
    /// True if space is low.
    is_low: bool,
    /// The newest commit if nothing was written after it for a while, and space is not low. The
    /// database stays idle until there is a newer one.
    idle_at: Option<SeqNo>,
    /// Number of running jobs on the background's own threads.
    jobs: usize,
    /// Number of running jobs on users' threads.
    foreground_jobs: usize,
    /// What runs, for people who look.
    running: RunningJobs,
}

/// What the background does by itself.
#[derive(Debug, Clone, Copy)]
pub struct BackgroundSettings {
    /// True if value GC runs by itself.
    pub gc_automatic: bool,
    /// From when on a table is compacted for its stale entries.
    pub early_compaction: StaleTrigger,
}

/// The state that background threads and the foreground share.
pub struct Background {
    runtime: Runtime,
    committer: Arc<Committer>,
    collector: Collector,
    settings: BackgroundSettings,
    /// What scans have paid for the disorder of values; `None` if nothing is done about it.
    demands: Option<Arc<ScanDemands>>,
    state: Mutex<BackgroundState>,
    changed: Condvar,
    /// For the thread that syncs the log.
    log_changed: Condvar,
    threads: Mutex<Vec<Box<dyn Join>>>,
}

/// The kind of work that a thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Flush,
    Compact,
    Collect,
}

impl Background {
    /// Creates the state; no thread runs yet. Jobs sync the log of `committer` before they write
    /// tables, and its stalled writers are notified when a job has made room.
    pub fn new(
        runtime: Runtime,
        committer: Arc<Committer>,
        collector: Collector,
        settings: BackgroundSettings,
    ) -> Self {
        Background {
            runtime,
            committer,
            collector,
            settings,
            demands: None,
            state: Mutex::new(BackgroundState::default()),
            changed: Condvar::new(),
            log_changed: Condvar::new(),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// Puts values in order where scans have paid for it, if there are `demands`.
    pub fn ordering(self, demands: Option<Arc<ScanDemands>>) -> Self {
        Background { demands, ..self }
    }

    /// Starts the threads.
    pub fn start(self: &Arc<Self>, compaction_threads: usize) -> std::io::Result<()> {
        let mut threads = self.threads.lock();
        assert!(threads.is_empty(), "threads are started once: each role but one has one thread");
        let spawner = &self.runtime.env.threads;
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
            self.runtime.env.threads.lower_priority();
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
        let Err(error) = self.runtime.health.guard(&format!("thread {name}"), guarded) else {
            return;
        };
        self.runtime.note_background_error(error.clone());
        self.state.lock().died = Some(error);
        self.changed.notify_all();
        self.committer.stall_controller().notify();
    }

    /// Stops all threads. A running job, here or on a user's thread, ends early and leaves nothing.
    pub fn stop(&self) {
        self.runtime.close();
        self.state.lock().closing = true;
        self.changed.notify_all();
        self.log_changed.notify_all();
        self.committer.stall_controller().close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                self.runtime.counters.background_errors.add(1);
            }
        }
        // The jobs of our own threads ended with the threads, even if a panic kept them from being
        // counted down; only users' threads are left to wait for.
        let mut state = self.state.lock();
        while state.foreground_jobs > 0 {
            state = self.changed.wait(state);
        }
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
                let time = self.wait_time(RECHECK_INTERVAL, &state);
                state = self.changed.wait_timeout(state, time).0;
            };
            let kind = work.kind();
            state.jobs += 1;
            let number = self.begin_work(&work, &mut state);
            drop(state);
            let outcome = self.run_guarded(&work);
            self.report_failure(&outcome);
            let mut state = self.state.lock();
            state.running.end(number);
            self.release(work, &mut state);
            assert!(state.jobs > 0, "a job that ends was counted when it began");
            state.jobs -= 1;
            self.note(kind, outcome, &mut state);
            drop(state);
            self.committer.stall_controller().notify();
            self.press_for_level0();
        }
    }
}
