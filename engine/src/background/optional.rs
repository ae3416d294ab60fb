//! Chooses compactions that nobody waits for: those that free space, and those that make dead
//! values known early. They run while no level is full.

use super::choice::{ChosenCompaction, CompactionReason};
use super::{Background, BackgroundState};
use crate::compaction::early::{self, EarlyFacts};
use crate::compaction::settle::{self, SettleFacts};
use crate::compaction::stale::{self, StaleFacts};
use crate::hot::StaleTrigger;
use crate::version::health::JobKind;

impl Background {
    /// Finds such a compaction without marking it. Those that free space come first, whatever their
    /// keyspace.
    pub(super) fn find_optional(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
    ) -> Option<ChosenCompaction> {
        self.find_stale(resting, state).or_else(|| self.find_early(resting, state))
    }

    /// Finds a compaction for the stale or hidden entries that tables hold.
    fn find_stale(&self, resting: &[JobKind], state: &BackgroundState) -> Option<ChosenCompaction> {
        let (set, reserve) = (&self.runtime.set, &self.committer.stall_controller().reserve);
        let version = set.current();
        let snapshots = self.runtime.snapshots.list();
        // A long step of value GC may have begun before users came back.
        let is_idle = state.idle_at == Some(self.runtime.snapshots.visible());
        let known = StaleFacts {
            oldest_snapshot: snapshots.first().copied(),
            is_relocated: &|segment| version.relocations.contains_key(&segment),
            // With no room for more, a rewrite of stale tables pays off as it does when idle.
            idle: is_idle || state.is_low,
            // When space is low, puts can wait because L0 takes much of it, and much of L0 may be
            // stale.
            level0_bytes: if reserve.is_low() { reserve.found().notable() } else { u64::MAX },
            is_worth: &|_| true,
        };
        let most_bytes = || {
            let free = self.runtime.env.fs.free_space(&set.tables().dir);
            reserve.usable(free.unwrap_or(u64::MAX))
        };
        self.find_compaction(resting, |keyspace, view| {
            let stale = stale::pick(keyspace.id, &view.levels, &state.busy, &known);
            if let Some(pick) = stale {
                return Some((CompactionReason::StaleTables, pick));
            }
            // What failed on this version would be picked again, and fail again.
            let failed_on = state.failures.version(JobKind::Compaction(keyspace.id));
            if !is_idle || failed_on == Some(version.number) {
                return None;
            }
            let facts = SettleFacts {
                ratio: self.collector.settled_ratio(),
                table_bytes: keyspace.options().table_bytes,
                most_bytes: &most_bytes,
                snapshots: &snapshots,
            };
            let pick = settle::pick(keyspace.id, &view.levels, &state.busy, &facts)?;
            Some((CompactionReason::Settling, pick))
        })
    }

    /// Finds a table of which much is stale, as far as the update table knows.
    fn find_early(&self, resting: &[JobKind], state: &BackgroundState) -> Option<ChosenCompaction> {
        let hot = &self.runtime.hot;
        let trigger = self.settings.early_compaction;
        // I9: what is not urgent leaves the last space to others.
        let is_low = self.committer.stall_controller().reserve.is_low();
        if hot.is_off() || trigger == StaleTrigger::Off || is_low {
            return None;
        }
        let (scores, snapshots) = (hot.scores(), self.runtime.snapshots.list());
        self.find_compaction(resting, |keyspace, view| {
            let flushed = view.version.keyspace(keyspace.id)?.flushed;
            let facts = EarlyFacts { scores: &scores, trigger, snapshots: &snapshots, flushed };
            let pick = early::pick(keyspace.id, &view.levels, &state.busy, &facts)?;
            Some((CompactionReason::Early, pick))
        })
    }
}
