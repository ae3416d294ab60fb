//! Chooses the next job: flushes first, then files to unlink, compactions, and dead segments. Jobs
//! that rest after a failure are passed over.

use super::{Background, BackgroundState, Role};
use crate::compaction::early::{self, EarlyFacts};
use crate::compaction::picker::{Pick, pick};
use crate::gc::dead;
use crate::hot::StaleTrigger;
use crate::version::health::JobKind;
use crate::version::levels::{Levels, bounds};
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// A job that is already marked as taken.
pub(super) enum BackgroundWork {
    Flush(Arc<KeyspaceState>),
    Spare,
    Compact(Claimed),
    DropDead,
    Purge,
}

impl BackgroundWork {
    /// Returns the kind of the work, which tells its failures from others.
    pub(super) fn kind(&self) -> JobKind {
        match self {
            BackgroundWork::Flush(keyspace) => JobKind::Flush(keyspace.id),
            BackgroundWork::Spare => JobKind::SpareSegment,
            BackgroundWork::Compact(claimed) => JobKind::Compaction(claimed.keyspace.id),
            BackgroundWork::DropDead => JobKind::DeadSegments,
            BackgroundWork::Purge => JobKind::Purge,
        }
    }
}

/// A compaction that is marked as running.
pub(super) struct Claimed {
    pub(super) keyspace: Arc<KeyspaceState>,
    pub(super) levels: Arc<Levels>,
    pub(super) pick: Pick,
    pub(super) claim: u64,
    /// True if values are to be rewritten in key order too.
    pub(super) reorganize: bool,
    /// True if it is done because much of the table is stale.
    pub(super) early: bool,
}

impl Background {
    /// Returns the most urgent work for this role and marks it as taken.
    pub(super) fn find(&self, role: Role, state: &mut BackgroundState) -> Option<BackgroundWork> {
        if self.runtime.health.check().is_err() {
            return None;
        }
        let set = &self.runtime.set;
        let resting = state.failures.resting(|| self.runtime.env.clock.now());
        let may_run = |kind| !resting.contains(&kind);
        if role == Role::Flush {
            if let Some(keyspace) = self.find_flush(&resting, state) {
                let is_free = state.flushing.insert(keyspace.id);
                assert!(is_free, "one flush of keyspace {} at a time", keyspace.id);
                return Some(BackgroundWork::Flush(keyspace));
            }
            let is_due = may_run(JobKind::SpareSegment) && self.committer.log().wants_spare();
            return is_due.then_some(BackgroundWork::Spare);
        }
        if may_run(JobKind::Purge) && !set.tables().purge.is_empty() {
            return Some(BackgroundWork::Purge);
        }
        let claimed = self.pick(&resting, state);
        let claimed = claimed.or_else(|| self.pick_stale(&resting, state));
        let claimed = claimed.or_else(|| self.pick_early(&resting, state));
        if let Some(claimed) = claimed {
            return Some(BackgroundWork::Compact(claimed));
        }
        let is_due = may_run(JobKind::DeadSegments) && !dead::pick(&set.current()).is_empty();
        is_due.then_some(BackgroundWork::DropDead)
    }

    /// Returns the keyspace to be flushed next: the one with the oldest entry that is not in a
    /// table. So none waits for ever behind others, and the head of the log moves furthest.
    fn find_flush(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
    ) -> Option<Arc<KeyspaceState>> {
        let age = |keyspace: &Arc<KeyspaceState>| {
            if state.flushing.contains(&keyspace.id)
                || resting.contains(&JobKind::Flush(keyspace.id))
            {
                return None;
            }
            let view = keyspace.peek();
            view.immutables.iter().map(|memtable| memtable.first_bytes().unwrap_or(0)).min()
        };
        let due = self.runtime.set.keyspaces().into_iter();
        let due = due.filter_map(|keyspace| age(&keyspace).map(|age| (age, keyspace)));
        due.min_by_key(|(age, _)| *age).map(|(_, keyspace)| keyspace)
    }

    fn pick(&self, resting: &[JobKind], state: &mut BackgroundState) -> Option<Claimed> {
        for keyspace in self.runtime.set.keyspaces() {
            if resting.contains(&JobKind::Compaction(keyspace.id)) {
                continue;
            }
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
                return Some(Claimed {
                    keyspace,
                    levels,
                    pick,
                    claim,
                    reorganize: false,
                    early: false,
                });
            }
        }
        None
    }

    /// Picks a table of which much is stale, as far as the update table knows, and marks it as
    /// taken.
    fn pick_early(&self, resting: &[JobKind], state: &mut BackgroundState) -> Option<Claimed> {
        let (keyspace, levels, pick) = self.find_early(resting, state)?;
        let claim = state.busy.claim(keyspace.id, &keyspace.order, &pick)?;
        Some(Claimed { keyspace, levels, pick, claim, reorganize: false, early: true })
    }

    /// Finds such a table without marking it.
    pub(super) fn find_early(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
    ) -> Option<(Arc<KeyspaceState>, Arc<Levels>, Pick)> {
        let hot = &self.runtime.hot;
        let trigger = self.settings.early_compaction;
        // I9: what is not urgent leaves the last space to others.
        let is_low = self.committer.stall_controller().reserve.is_low();
        if hot.is_off() || trigger == StaleTrigger::Off || is_low {
            return None;
        }
        let (scores, snapshots) = (hot.scores(), self.runtime.snapshots.list());
        self.runtime.set.keyspaces().into_iter().find_map(|keyspace| {
            if resting.contains(&JobKind::Compaction(keyspace.id)) {
                return None;
            }
            let view = keyspace.view();
            let levels = view.levels.clone();
            let flushed = view.version.keyspace(keyspace.id)?.flushed;
            let facts = EarlyFacts { scores: &scores, trigger, snapshots: &snapshots, flushed };
            let pick = early::pick(keyspace.id, &levels, &state.busy, &facts)?;
            Some((keyspace, levels, pick))
        })
    }

    /// Releases what the job had claimed, so that others may take it.
    pub(super) fn release(&self, work: BackgroundWork, state: &mut BackgroundState) {
        match &work {
            BackgroundWork::Flush(keyspace) => {
                let was_taken = state.flushing.remove(&keyspace.id);
                assert!(was_taken, "a flush of keyspace {} ends twice", keyspace.id);
            }
            BackgroundWork::Compact(claimed) => state.busy.release(claimed.claim, &claimed.pick),
            BackgroundWork::Spare | BackgroundWork::DropDead | BackgroundWork::Purge => {}
        }
        // Dropping the work releases the files that the job replaced, so that an idle database
        // has freed them.
        drop(work);
        self.changed.notify_all();
    }
}
