//! Waits for the background: until a condition holds, or until no work is due.

use super::{Background, BackgroundState, RECHECK_INTERVAL};
use crate::base::error::{Error, Result};
use crate::base::pointer::KeyspaceId;
use crate::env::sync::MutexGuard;
use crate::gc::dead;
use crate::gc::picker::Mode;
use crate::version::health::JobKind;
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Background {
    /// Waits until `done` returns true. The failure of a flush of one of `flushed`, for which the
    /// caller waits, ends the wait if it occurs meanwhile.
    pub fn wait_until(&self, flushed: &[KeyspaceId], mut done: impl FnMut() -> bool) -> Result<()> {
        let failures =
            |state: &BackgroundState, id: &KeyspaceId| state.failures.count(JobKind::Flush(*id));
        let mut state = self.state.lock();
        let before: Vec<u32> = flushed.iter().map(|id| failures(&state, id)).collect();
        self.changed.notify_all();
        loop {
            if done() {
                return Ok(());
            }
            self.check_running(&state)?;
            let changed = flushed.iter().zip(&before);
            let changed = changed.filter(|(id, before)| failures(&state, id) != **before);
            let error_of = |id| self.runtime.health.error_of(JobKind::Flush(id));
            if let Some(error) = changed.map(|(id, _)| *id).find_map(error_of) {
                return Err(error);
            }
            state = self.wait_for_change(state);
        }
    }

    /// Waits until something changed. The others are woken as well only after a long wait, in case
    /// that they have missed it: two waiters that always did so would wake each other all the time.
    fn wait_for_change<'a>(
        &'a self,
        state: MutexGuard<'a, BackgroundState>,
    ) -> MutexGuard<'a, BackgroundState> {
        let (state, timed_out) = self.changed.wait_timeout(state, RECHECK_INTERVAL);
        if timed_out {
            self.changed.notify_all();
        }
        state
    }

    /// Waits until no flush of these keyspaces runs any more that began with an entry from before
    /// `log_bytes` bytes were logged. Memtables are gone before their flush is over, when its edit
    /// is published; statistics, events and scores follow. If the database fails or closes
    /// meanwhile, what was flushed is in tables all the same.
    pub fn wait_for_flushes(&self, keyspaces: &[KeyspaceId], log_bytes: u64) {
        let mut state = self.state.lock();
        // What was replayed counts as from before the first byte.
        let runs = |state: &BackgroundState, id| {
            state.flushing.get(id).is_some_and(|oldest| *oldest < log_bytes.max(1))
        };
        while keyspaces.iter().any(|id| runs(&state, id)) && self.check_running(&state).is_ok() {
            state = self.changed.wait_timeout(state, RECHECK_INTERVAL).0;
        }
    }

    /// Waits until the compactions of a keyspace that run now are over.
    pub fn wait_for_running(&self, keyspace: KeyspaceId) -> Result<()> {
        let mut state = self.state.lock();
        let running = state.busy.claims_of(keyspace);
        while state.busy.holds_any(&running) {
            self.check_running(&state)?;
            state = self.changed.wait_timeout(state, RECHECK_INTERVAL).0;
        }
        Ok(())
    }

    /// Waits until nothing is due: no flush, no compaction, nothing to free.
    pub fn wait_idle(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.changed.notify_all();
        loop {
            self.check_running(&state)?;
            if state.jobs + state.foreground_jobs == 0 && !self.is_due(&state) {
                return Ok(());
            }
            if let Some(error) = self.due_failure(&state) {
                return Err(error);
            }
            state = self.wait_for_change(state);
        }
    }

    /// Returns the error of a job that keeps the database from becoming idle. A compaction that is
    /// not due any more, such as one that settles, keeps nobody from anything.
    fn due_failure(&self, state: &BackgroundState) -> Option<Error> {
        let is_optional = |job| matches!(job, JobKind::OptionalCompaction(_));
        let health = &self.runtime.health;
        health.failed_job(|job| !is_optional(job)).or_else(|| {
            let failed = health.failed_job(is_optional);
            failed.filter(|_| self.find_optional(&[], state).0.is_some())
        })
    }

    /// Returns an error if no job will ever run again.
    pub(super) fn check_running(&self, state: &BackgroundState) -> Result<()> {
        self.runtime.health.check()?;
        if state.closing {
            return Err(Error::closed("the database was closed"));
        }
        Ok(())
    }

    fn is_due(&self, state: &BackgroundState) -> bool {
        let set = &self.runtime.set;
        let waits = |keyspace: &Arc<KeyspaceState>| !keyspace.peek().immutables.is_empty();
        let rests = self.collector.paused().load(Ordering::Relaxed);
        let mode = if self.settings.gc_automatic { Mode::Busy } else { Mode::Off };
        set.keyspaces().iter().any(waits)
            || self.find_full_level(&[], state).is_some()
            || self.find_optional(&[], state).0.is_some()
            || self.find_unpinned(state).is_some()
            || !rests && self.collector.is_due(mode).unwrap_or(false)
            || !set.tables().purge.is_empty()
            || !dead::pick(&set.current()).is_empty()
            || self.committer.log().wants_spare()
            || self.committer.log().wants_sync()
    }
}
