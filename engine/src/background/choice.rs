//! Chooses the next job: flushes first, then files to unlink, compactions of full levels, tables to
//! load into memory, other compactions, and dead segments. Jobs that rest after a failure are
//! passed over.

use super::{Background, BackgroundState, Role};
use crate::base::pointer::KeyspaceId;
use crate::compaction::picker::{self, CompactionCursors, Pick};
use crate::gc::dead;
use crate::version::health::JobKind;
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::pinning::TableToPin;
use crate::version::settings::KeyspaceOptions;
use crate::version::view::{KeyspaceState, View};
use std::sync::Arc;

/// A job that is already marked as taken.
pub(super) enum BackgroundWork {
    Flush(Arc<KeyspaceState>),
    Spare,
    Compact(Claimed),
    DropDead,
    Purge,
    Pin(TableToPin),
}

impl BackgroundWork {
    /// Returns the kind of the work, which tells its failures from others.
    pub(super) fn kind(&self) -> JobKind {
        match self {
            BackgroundWork::Flush(keyspace) => JobKind::Flush(keyspace.id),
            BackgroundWork::Spare => JobKind::SpareSegment,
            BackgroundWork::Compact(claimed) => claimed.chosen.kind(),
            BackgroundWork::DropDead => JobKind::DeadSegments,
            BackgroundWork::Purge => JobKind::Purge,
            BackgroundWork::Pin(_) => JobKind::PinTables,
        }
    }
}

/// The reason for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// L0 has too many tables, or a deeper level too many bytes (`compaction/picker.rs`).
    FullLevel,
    /// A table is worth it for its content, or L0 for the space that it takes
    /// (`compaction/stale.rs`).
    StaleTables,
    /// Tables hide too much of what is below them, and the database is idle, or its space nears the
    /// ceiling (`compaction/settle.rs`).
    Settling,
    /// Much of a table is stale, as far as the update table knows (`compaction/early.rs`).
    Early,
    /// A session that closes merges what it deleted (`compaction/deletions.rs`).
    Deletions,
    /// Scans have paid for putting about so many bytes of values in order; 0 if what is in L0 is to
    /// be brought down first (`compaction/scan_order.rs`).
    ScanOrder(u64),
    /// A program asked for it.
    Manual,
    /// A program asked for it, and for values in key order (`compaction/reorganize.rs`).
    Reorganization,
    /// A program asked for it, and for values where the settings say (`compaction/convert.rs`).
    Conversion,
}

/// A compaction that was chosen, and is not marked as running yet.
pub(super) struct ChosenCompaction {
    pub(super) keyspace: Arc<KeyspaceState>,
    /// The tables of which `pick` chose some.
    pub(super) levels: Arc<Levels>,
    pub(super) pick: Pick,
    pub(super) reason: CompactionReason,
}

impl ChosenCompaction {
    fn kind(&self) -> JobKind {
        let kind = match self.reason {
            CompactionReason::StaleTables
            | CompactionReason::Settling
            | CompactionReason::Early
            | CompactionReason::ScanOrder(_) => JobKind::OptionalCompaction,
            CompactionReason::FullLevel
            | CompactionReason::Deletions
            | CompactionReason::Manual
            | CompactionReason::Reorganization
            | CompactionReason::Conversion => JobKind::Compaction,
        };
        kind(self.keyspace.id)
    }
}

/// A compaction that is marked as running.
pub(super) struct Claimed {
    pub(super) chosen: ChosenCompaction,
    claim: u64,
}

impl BackgroundState {
    /// Marks a compaction as running; returns `None` if a running one conflicts with it.
    pub(super) fn claim(&mut self, chosen: ChosenCompaction) -> Option<Claimed> {
        let ChosenCompaction { keyspace, pick, reason, .. } = &chosen;
        let claim = self.busy.claim(keyspace.id, &keyspace.order, pick)?;
        if let (CompactionReason::FullLevel, Some(last)) = (reason, pick.inputs.last()) {
            let cursors = self.compaction_cursors.entry(keyspace.id).or_default();
            cursors[pick.level] = Some(bounds(last).1.to_vec());
        }
        self.ordering |= matches!(reason, CompactionReason::ScanOrder(_));
        self.compacted_last = Some(keyspace.id);
        Some(Claimed { chosen, claim })
    }
}

/// The kind of compactions that are looked for, and the keyspace of the last one.
pub(super) type CompactionTurn = (fn(KeyspaceId) -> JobKind, Option<KeyspaceId>);

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
            if let Some((oldest, keyspace)) = self.find_flush(&resting, state) {
                let running = state.flushing.insert(keyspace.id, oldest);
                assert!(running.is_none(), "one flush of keyspace {} at a time", keyspace.id);
                return Some(BackgroundWork::Flush(keyspace));
            }
            let is_wanted = self.committer.log().wants_spare();
            if !is_wanted && state.failures.count(JobKind::SpareSegment) > 0 {
                // Writers create a spare that they lack, and have done what this job failed to do.
                self.forget_failures(&[JobKind::SpareSegment], state);
            }
            let is_due = is_wanted && may_run(JobKind::SpareSegment);
            return is_due.then_some(BackgroundWork::Spare);
        }
        let is_purged = set.tables().purge.is_empty();
        if is_purged && state.failures.count(JobKind::Purge) > 0 {
            // Value GC unlinks files as well, and has done what this job failed to do.
            self.forget_failures(&[JobKind::Purge], state);
        }
        if !is_purged && may_run(JobKind::Purge) {
            return Some(BackgroundWork::Purge);
        }
        self.forget_needless_compactions(state);
        let full = self.find_full_level(&resting, state);
        let is_full = full.is_some();
        if is_full {
            // What scans wait for does not run before levels are in shape.
            self.collector.room().ask(0);
        }
        if let Some(claimed) = full.and_then(|chosen| state.claim(chosen)) {
            return Some(BackgroundWork::Compact(claimed));
        }
        // What a full level merges away soon is not worth loading, but nothing else is as short.
        if may_run(JobKind::PinTables)
            && let Some(work) = self.claim_pinning(state)
        {
            return Some(work);
        }
        // None begins while a full level only waits for a job to end: it would hold the level up.
        let optional = match is_full {
            true => None,
            false => {
                let (found, room) = self.find_optional(&resting, state);
                self.collector.room().ask(room);
                found
            }
        };
        if let Some(claimed) = optional.and_then(|chosen| state.claim(chosen)) {
            return Some(BackgroundWork::Compact(claimed));
        }
        let are_dropped = dead::pick(&set.current()).is_empty();
        if are_dropped && state.failures.count(JobKind::DeadSegments) > 0 {
            // Value GC drops dead segments as well, and has done what this job failed to do.
            self.forget_failures(&[JobKind::DeadSegments], state);
        }
        let is_due = !are_dropped && may_run(JobKind::DeadSegments);
        is_due.then_some(BackgroundWork::DropDead)
    }

    /// Returns the keyspace to be flushed next: the one with the oldest entry that is not in a
    /// table. So none waits for ever behind others, and the head of the log moves furthest. With it
    /// come the bytes of log that were written before that entry.
    fn find_flush(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
    ) -> Option<(u64, Arc<KeyspaceState>)> {
        let age = |keyspace: &Arc<KeyspaceState>| {
            if state.flushing.contains_key(&keyspace.id)
                || resting.contains(&JobKind::Flush(keyspace.id))
            {
                return None;
            }
            let view = keyspace.peek();
            view.immutables.iter().map(|memtable| memtable.first_bytes().unwrap_or(0)).min()
        };
        let due = self.runtime.set.keyspaces().into_iter();
        let due = due.filter_map(|keyspace| age(&keyspace).map(|age| (age, keyspace)));
        due.min_by_key(|(age, _)| *age)
    }

    /// Returns the settings of a keyspace with the size that its memtables have at the most.
    pub fn options_in_force(&self, keyspace: &KeyspaceState) -> KeyspaceOptions {
        let most = self.committer.stall_controller().most_memtable_bytes();
        let options = keyspace.options();
        let memtable_bytes = options.memtable_bytes.min(most);
        KeyspaceOptions { memtable_bytes, ..KeyspaceOptions::clone(&options) }
    }

    /// Returns how urgent a compaction of each level is; it is due from 1.0 on.
    pub fn level_scores(&self, keyspace: &KeyspaceState, levels: &Levels) -> [f64; LEVELS] {
        picker::scores(levels, &self.options_in_force(keyspace))
    }

    /// Finds a compaction that the fill of a level makes due, without marking it.
    pub(super) fn find_full_level(
        &self,
        resting: &[JobKind],
        state: &BackgroundState,
    ) -> Option<ChosenCompaction> {
        let first_tables = CompactionCursors::default();
        let after = state.compacted_last;
        self.find_compaction(resting, (JobKind::Compaction, after), |keyspace, view| {
            let (id, options) = (keyspace.id, self.options_in_force(keyspace));
            let cursors = state.compaction_cursors.get(&id).unwrap_or(&first_tables);
            let pick = picker::pick(id, &view.levels, &options, &state.busy, cursors)?;
            Some((CompactionReason::FullLevel, pick))
        })
    }

    /// Returns what `pick` finds in the first keyspace whose compactions of this kind do not rest
    /// and in which it finds something. Those behind `after` come first: otherwise one of which a
    /// level is always full would keep all others waiting, and their writers, for as long as it is
    /// written.
    pub(super) fn find_compaction(
        &self,
        resting: &[JobKind],
        (kind, after): CompactionTurn,
        mut pick: impl FnMut(&KeyspaceState, &View) -> Option<(CompactionReason, Pick)>,
    ) -> Option<ChosenCompaction> {
        let mut keyspaces = self.runtime.set.keyspaces();
        let next = keyspaces.partition_point(|keyspace| Some(keyspace.id) <= after);
        keyspaces.rotate_left(next);
        keyspaces.into_iter().find_map(|keyspace| {
            if resting.contains(&kind(keyspace.id)) {
                return None;
            }
            let view = keyspace.view();
            let (reason, pick) = pick(&keyspace, &view)?;
            Some(ChosenCompaction { keyspace, levels: view.levels.clone(), pick, reason })
        })
    }

    /// Releases what the job had claimed, so that others may take it.
    pub(super) fn release(&self, work: BackgroundWork, state: &mut BackgroundState) {
        match &work {
            BackgroundWork::Flush(keyspace) => {
                let was_taken = state.flushing.remove(&keyspace.id);
                assert!(was_taken.is_some(), "a flush of keyspace {} ends twice", keyspace.id);
            }
            BackgroundWork::Compact(Claimed { chosen, claim }) => {
                state.busy.release(*claim, &chosen.pick);
                if let CompactionReason::ScanOrder(moved) = chosen.reason {
                    assert!(state.ordering, "one job for the order of values ends once");
                    state.ordering = false;
                    state.ordered_at = Some(self.runtime.env.clock.now());
                    // The next one waits until value GC has counted what this one wrote. A
                    // compaction of L0 wrote no values.
                    if moved > 0 {
                        self.collector.room().forget();
                    }
                }
            }
            BackgroundWork::Pin(_) => {
                assert!(state.pinning, "a table is no longer being pinned twice");
                state.pinning = false;
            }
            BackgroundWork::Spare | BackgroundWork::DropDead | BackgroundWork::Purge => {}
        }
        // Dropping the work releases the files that the job replaced, so that an idle database
        // has freed them.
        drop(work);
        self.changed.notify_all();
    }
}
