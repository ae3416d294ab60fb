//! Jobs on users' threads: compactions and collections that a program asked for.

use super::choice::{BackgroundWork, ChosenCompaction, Claimed, CompactionReason};
use super::{Background, BackgroundState, RECHECK_INTERVAL};
use crate::base::error::Result;
use crate::compaction::job::CompactionReport;
use crate::compaction::picker::{KeySpan, Pick};
use crate::env::sync::MutexGuard;
use crate::version::levels::Levels;
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// A running job on a user's thread; `stop` waits until it is dropped.
pub struct ForegroundJob<'a>(&'a Background);

impl Drop for ForegroundJob<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        debug_assert!(state.foreground_jobs > 0, "a job that ends was counted when it began");
        state.foreground_jobs -= 1;
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Keys with which no compaction begins.
pub struct SpanClaim<'a> {
    background: &'a Background,
    claim: u64,
    /// The level of the outputs of each job that was running, with the keys of its tables.
    pub running: Vec<(usize, KeySpan)>,
}

impl Drop for SpanClaim<'_> {
    fn drop(&mut self) {
        self.background.state.lock().busy.release_span(self.claim);
        self.background.changed.notify_all();
    }
}

impl Background {
    /// Runs a compaction that `choose` picks on the caller's thread, once no running job conflicts
    /// with it. `choose` is called again whenever something changed; `None` ends the call. Returns
    /// what was done, if anything was.
    pub fn run_chosen(
        &self,
        keyspace: &Arc<KeyspaceState>,
        reason: CompactionReason,
        mut choose: impl FnMut(&Levels) -> Option<Pick>,
    ) -> Result<Option<CompactionReport>> {
        let mut state = self.state.lock();
        let claimed = loop {
            self.check_running(&state)?;
            keyspace.check()?;
            let levels = keyspace.view().levels.clone();
            let Some(pick) = choose(&levels) else {
                return Ok(None);
            };
            let keyspace = keyspace.clone();
            let chosen = ChosenCompaction { keyspace, levels, pick, reason };
            if let Some(claimed) = state.claim(chosen) {
                break claimed;
            }
            state = self.changed.wait_timeout(state, RECHECK_INTERVAL).0;
        };
        let work = BackgroundWork::Compact(claimed);
        let number = self.begin_work(&work, &mut state);
        let running = self.begin_foreground(state);
        let BackgroundWork::Compact(Claimed { chosen, .. }) = &work else {
            unreachable!("it is made just above")
        };
        let outcome = self.guarded(|| self.compact(&self.runtime, chosen));
        let mut state = self.state.lock();
        state.running.end(number);
        // It may have done what a thread failed to do.
        self.forget_needless_compactions(&mut state);
        self.release(work, &mut state);
        drop(state);
        drop(running);
        self.committer.stall_controller().notify();
        Ok(Some(outcome?))
    }

    /// Counts a job on the caller's thread until the result is dropped: closing waits for it. Fails
    /// once the database closes.
    pub fn begin_job(&self) -> Result<ForegroundJob<'_>> {
        let state = self.state.lock();
        self.check_running(&state)?;
        Ok(self.begin_foreground(state))
    }

    /// Keeps compactions with the keys from `span.0` to `span.1` from being begun until the result
    /// is dropped.
    pub fn claim_span(&self, keyspace: &KeyspaceState, span: (&[u8], &[u8])) -> SpanClaim<'_> {
        let mut state = self.state.lock();
        let (claim, running) = state.busy.claim_span(keyspace.id, &keyspace.order, span);
        SpanClaim { background: self, claim, running }
    }

    /// Counts a job on the caller's thread until the result is dropped.
    pub(super) fn begin_foreground(
        &self,
        mut state: MutexGuard<'_, BackgroundState>,
    ) -> ForegroundJob<'_> {
        state.foreground_jobs += 1;
        ForegroundJob(self)
    }
}
