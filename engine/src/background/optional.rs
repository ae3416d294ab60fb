//! Chooses compactions that no level makes due: those that free space, those that make dead values
//! known early, and those that put values in order for scans. They run while no level is full.

use super::choice::{ChosenCompaction, CompactionReason, CompactionTurn};
use super::{Background, BackgroundState};
use crate::compaction::early::{self, EarlyFacts};
use crate::compaction::picker::Pick;
use crate::compaction::settle::{self, SettleFacts};
use crate::compaction::stale::{self, StaleFacts};
use crate::hot::StaleTrigger;
use crate::version::health::JobKind;
use std::cell::LazyCell;

impl Background {
    /// Finds such a compaction without marking it. Those that free space come first, whatever their
    /// keyspace. If there is none, also returns the room that one waits for, or 0.
    pub(super) fn find_optional(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
    ) -> (Option<ChosenCompaction>, u64) {
        // I9: what does not fit is not begun, so that it does not fail, and is picked once it fits.
        let most_bytes = LazyCell::new(|| self.committer.room_for_job());
        let most_bytes = || *most_bytes;
        let stale = self.find_stale(resting, state, &most_bytes);
        match stale.or_else(|| self.find_early(resting, state, &most_bytes)) {
            None => self.find_disorder(resting, state, &most_bytes),
            found => (found, 0),
        }
    }

    /// Finds a compaction for the stale or hidden entries that tables hold. `most_bytes` returns
    /// the most bytes that one may write.
    fn find_stale(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
        most_bytes: &dyn Fn() -> u64,
    ) -> Option<ChosenCompaction> {
        let reserve = &self.committer.stall_controller().reserve;
        let (version, seen) = (self.runtime.set.current(), self.runtime.snapshots.seen());
        let snapshots = &seen.snapshots;
        // A long step of value GC may have begun before users came back.
        let is_idle = state.idle_at == Some(self.runtime.snapshots.visible());
        let turn: CompactionTurn = (JobKind::OptionalCompaction, state.compacted_last);
        self.find_compaction(resting, turn, |keyspace, view| {
            let options = keyspace.options();
            // I9: what goes without being read needs no room, and makes some.
            let fits = |pick: &Pick| {
                pick.is_move(&keyspace.order, &options)
                    || stale::unread(&view.levels, pick, &seen).is_some()
                    || pick.bytes() <= most_bytes()
            };
            let known = StaleFacts {
                oldest_snapshot: snapshots.first().copied(),
                seen: &seen,
                // Pointers through a damaged one stay as they are, so a rewrite would gain nothing.
                is_relocated: &|segment| {
                    let relocation = version.relocations.get(&segment);
                    relocation.is_some_and(|relocation| !relocation.is_damaged())
                },
                // With no room for more, a rewrite of stale tables pays off as it does when idle.
                idle: is_idle || state.is_low,
                // When space is low, puts can wait because L0 takes much of it, and much of L0 may
                // be stale.
                level0_bytes: if reserve.is_low() { reserve.found().notable() } else { u64::MAX },
                is_worth: &fits,
            };
            let stale = stale::pick(keyspace.id, &view.levels, &state.busy, &known);
            if let Some(pick) = stale {
                return Some((CompactionReason::StaleTables, pick));
            }
            // What failed on this version would be picked again, and fail again.
            let failed_on = state.failures.version(JobKind::OptionalCompaction(keyspace.id));
            if failed_on == Some(version.number) {
                return None;
            }
            let facts = SettleFacts {
                ratio: self.collector.merging_ratio(is_idle)?,
                options: &options,
                most_bytes,
                snapshots,
            };
            let pick = settle::pick(keyspace.id, &view.levels, &state.busy, &facts)?;
            Some((CompactionReason::Settling, pick))
        })
    }

    /// Finds a table of which much is stale, as far as the update table knows. `most_bytes` returns
    /// the most bytes that its compaction may write.
    fn find_early(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
        most_bytes: &dyn Fn() -> u64,
    ) -> Option<ChosenCompaction> {
        let hot = &self.runtime.hot;
        let trigger = self.settings.early_compaction;
        // I9: what is not urgent leaves the last space to others.
        let is_low = self.committer.stall_controller().reserve.is_low();
        if hot.is_off() || trigger == StaleTrigger::Off || is_low {
            return None;
        }
        let (scores, snapshots) = (hot.scores(), self.runtime.snapshots.list());
        let turn: CompactionTurn = (JobKind::OptionalCompaction, state.compacted_last);
        self.find_compaction(resting, turn, |keyspace, view| {
            let flushed = view.version.keyspace(keyspace.id)?.flushed;
            let facts = EarlyFacts { scores: &scores, trigger, snapshots: &snapshots, flushed };
            let pick = early::pick(keyspace.id, &view.levels, &state.busy, &facts);
            let pick = pick.filter(|pick| pick.bytes() <= most_bytes())?;
            Some((CompactionReason::Early, pick))
        })
    }
}
