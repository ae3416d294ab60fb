//! Chooses the next job: flushes first, then files to unlink, compactions, and dead segments.

use super::{Background, BackgroundState, Role};
use crate::compaction::picker::{Pick, pick};
use crate::gc::dead;
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

/// A compaction that is marked as running.
pub(super) struct Claimed {
    pub(super) keyspace: Arc<KeyspaceState>,
    pub(super) levels: Arc<Levels>,
    pub(super) pick: Pick,
    pub(super) claim: u64,
    /// True if values are to be rewritten in key order too.
    pub(super) reorganize: bool,
}

impl Background {
    /// Returns the most urgent work for this role and marks it as taken.
    pub(super) fn find(&self, role: Role, state: &mut BackgroundState) -> Option<BackgroundWork> {
        if self.runtime.health.check().is_err() {
            return None;
        }
        let set = &self.runtime.set;
        if role == Role::Flush {
            let due = set.keyspaces().into_iter().find(|keyspace| {
                !keyspace.peek().immutables.is_empty() && !state.flushing.contains(&keyspace.id)
            });
            if let Some(keyspace) = due {
                state.flushing.insert(keyspace.id);
                return Some(BackgroundWork::Flush(keyspace));
            }
            return self.committer.log().wants_spare().then_some(BackgroundWork::Spare);
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
        for keyspace in self.runtime.set.keyspaces() {
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

    /// Releases what the job had claimed, so that others may take it.
    pub(super) fn release(&self, work: BackgroundWork, state: &mut BackgroundState) {
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
}
