//! Flushes and compactions that a user or the end of a session asks for.

use crate::background::CompactionReason;
use crate::base::error::{ErrorKind, Result};
use crate::commit::group::LogReach;
use crate::compaction::deletions::MAX_READ_BYTES;
use crate::compaction::level0;
use crate::compaction::picker::pick_range;
use crate::compaction::{flush, fold, reorganize};
use crate::db::{Core, Db};
use crate::version::files::TableHandle;
use crate::version::levels::{Levels, bounds};
use crate::version::runtime::Runtime;
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Core {
    /// Folds what a session that did not close left in small files or mostly dead, and drops
    /// segments that are wholly dead. It runs after recovery settled such a session, and takes
    /// about as long as a flush. Tombstones are left to the background, so that an opening neither
    /// waits for the limit of background I/O nor depends on tables that it need not read.
    pub(crate) fn tidy_after_recovery(&self) -> Result<()> {
        self.tidy(|_| Ok(()))
    }

    /// Folds what the session leaves in small files or mostly dead, merges tombstones that free
    /// most of what they meet, and drops segments that are wholly dead. It runs at the end of a
    /// session that wrote, and takes about as long as a flush and as reading [`MAX_READ_BYTES`] of
    /// tables.
    pub(crate) fn tidy_at_closing(&self) -> Result<()> {
        self.tidy(|runtime| self.merge_deleted(runtime))
    }

    fn tidy(&self, merge: impl FnOnce(&Runtime) -> Result<()>) -> Result<()> {
        if !self.set.is_changed() {
            return Ok(());
        }
        // Background jobs end early when the database closes. These belong to closing, so they
        // must not.
        let runtime = self.runtime.for_closing();
        let tidied = self.fold_leftover(&runtime);
        let tidied = tidied.and_then(|()| merge(&runtime));
        let tidied = tidied.and_then(|()| self.background.drop_dead());
        // I9: nothing is lost when the disk is full; the next session tries again.
        tidied.or_else(|error| match error.kind() {
            ErrorKind::DiskFull => Ok(()),
            _ => Err(error),
        })
    }

    /// Merges what the session and those before it left into one table and one segment, if that is
    /// in many small files or mostly dead. Requires that no other job runs and nobody writes.
    /// Nothing depends on it, so a failure, such as a damaged block, is counted and reported, and
    /// leaves that keyspace as it is. Fails only if the disk is full, or the database turned
    /// read-only.
    fn fold_leftover(&self, runtime: &Runtime) -> Result<()> {
        let (set, segment_bytes) = (&self.set, self.options.segment_bytes);
        let keyspaces = set.keyspaces();
        let no_snapshots = self.snapshots.list().is_empty();
        let fold = fold::due(&set.current(), &keyspaces, segment_bytes, no_snapshots)?;
        let Some(fold) = fold else {
            return Ok(());
        };
        let log_end = {
            let log = self.committer.hold();
            for keyspace in &keyspaces {
                keyspace.rotate_memtable();
            }
            LogReach { position: self.committer.log().end(&log), seqno: self.snapshots.visible() }
        };
        for keyspace in &keyspaces {
            let seen = self.snapshots.seen();
            match fold::run(runtime, fold, keyspace, seen, log_end.position) {
                Ok(report) => {
                    self.counters.flushes.add(1);
                    self.counters.flush_bytes_written.add(report.bytes + report.values_written);
                    self.counters.entries_dropped.add(report.dropped);
                }
                // A keyspace that was dropped meanwhile leaves nothing to fold.
                Err(_) if keyspace.check().is_err() => {}
                Err(error) if error.kind() == ErrorKind::DiskFull => return Err(error),
                Err(error) => runtime.note_background_error(error),
            }
        }
        // I8: after a failed sync closing says so.
        self.health.check()?;
        flush::move_head_to(runtime, log_end).map(|_| ())
    }

    /// Merges tombstones with the tables below them, where most of what is read goes. Requires what
    /// [`Core::fold_leftover`] does. Nothing depends on it, so the first failure, such as a damaged
    /// block, is counted and reported, and ends it: a later session goes on. Fails only if the
    /// database turned read-only.
    fn merge_deleted(&self, runtime: &Runtime) -> Result<()> {
        if !self.snapshots.list().is_empty() {
            return Ok(());
        }
        let mut left = MAX_READ_BYTES;
        for keyspace in self.set.keyspaces() {
            let read = self.background.merge_deleted(runtime, &keyspace, left);
            match read {
                Ok(read) => left = left.saturating_sub(read),
                // A keyspace that was dropped meanwhile leaves nothing to merge.
                Err(_) if keyspace.check().is_err() => {}
                Err(error) => {
                    runtime.note_background_error(error.into());
                    break;
                }
            }
        }
        // I8: after a failed sync closing says so.
        self.health.check()
    }

    /// Seals the memtables of these keyspaces and waits until they are flushed.
    pub(crate) fn flush(&self, keyspaces: &[Arc<KeyspaceState>]) -> Result<()> {
        self.check_writable()?;
        let mut waiting = Vec::new();
        let log_bytes = {
            let _log = self.committer.hold();
            for keyspace in keyspaces {
                keyspace.rotate_memtable();
                waiting.push((keyspace.clone(), keyspace.view().immutables.clone()));
            }
            self.committer.stall_controller().log_bytes.load(Ordering::Relaxed)
        };
        let ids: Vec<_> = keyspaces.iter().map(|keyspace| keyspace.id).collect();
        self.background.wait_until(&ids, || {
            waiting.iter().all(|(keyspace, before)| {
                let now = keyspace.view();
                let is_new = |m| !before.iter().any(|old| Arc::ptr_eq(old, m));
                // A keyspace that was dropped meanwhile has no immutable memtables.
                now.immutables.iter().all(is_new)
            })
        })?;
        self.background.wait_for_flushes(&ids, log_bytes);
        self.pass_what_is_flushed()
    }

    /// Moves the head of the log to its end if no memtable has anything. A flush moves it too, but
    /// none came for what is behind the head if that is of dropped keyspaces, or was ingested.
    fn pass_what_is_flushed(&self) -> Result<()> {
        let end = self.committer.reach();
        if end <= self.set.current().head || self.set.first_unflushed(&[]).is_some() {
            return Ok(());
        }
        flush::move_head(&self.runtime, &self.committer)?;
        self.background.move_head();
        Ok(())
    }

    /// Moves the head of the log after a drop of a keyspace, once much of what is behind it is
    /// needed no more: no flush may ever come to do it. Nothing depends on that, so a failure is
    /// counted and reported, and the next drop or flush tries again.
    pub(super) fn pass_what_was_dropped(&self) {
        let head = flush::next_head(&self.set, self.committer.reach(), &[]);
        if !self.committer.stall_controller().is_far(self.set.current().head, head) {
            return;
        }
        if let Err(error) = flush::move_head(&self.runtime, &self.committer) {
            self.runtime.note_background_error(error);
        }
    }

    /// Rewrites the tables between two user keys, level by level, down to the deepest.
    pub(crate) fn compact(
        &self,
        keyspace: &Arc<KeyspaceState>,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<()> {
        self.flush(std::slice::from_ref(keyspace))?;
        // What a job writes that began before keeps what snapshots saw then that may be gone now.
        // Its tables would be taken for new ones below.
        self.background.wait_for_running(keyspace.id)?;
        let deepest = keyspace.view().levels.deepest().unwrap_or(0).max(1);
        let first_new = self.set.allocate()?;
        // A large ingest goes down piece by piece, so that flushes go on meanwhile.
        let options = keyspace.options();
        while level0::oldest_part(&keyspace.view().levels, &options).is_some() {
            self.background.run_chosen(keyspace, CompactionReason::Manual, |levels| {
                level0::pick_oldest_part(levels, &options)
            })?;
        }
        for level in 0..deepest {
            // Tables that arrive in a level while it is compacted may wait for the next compaction.
            self.background.run_chosen(keyspace, CompactionReason::Manual, |levels| {
                pick_range(levels, level, range, false)
            })?;
        }
        // Tables of the deepest level that no compaction rewrote may hold entries that only
        // snapshots saw which are gone now. They are rewritten one at a time, because the tables
        // between them stay.
        let is_old = |table: &Arc<TableHandle>| table.meta.id.0 < first_new;
        let has_old = |levels: &Levels| {
            pick_range(levels, deepest, range, true).is_some_and(|p| p.inputs.iter().any(is_old))
        };
        while has_old(&keyspace.view().levels) {
            self.background.run_chosen(keyspace, CompactionReason::Manual, |levels| {
                let mut pick = pick_range(levels, deepest, range, true)?;
                pick.inputs.retain(is_old);
                pick.inputs.truncate(1);
                (!pick.inputs.is_empty()).then_some(pick)
            })?;
        }
        Ok(())
    }

    /// Compacts the tables between two user keys to the deepest level, then rewrites them there
    /// with their values in key order, about one segment's worth per job.
    pub(crate) fn reorganize(
        &self,
        keyspace: &Arc<KeyspaceState>,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<()> {
        self.compact(keyspace, range)?;
        let deepest = keyspace.view().levels.deepest().unwrap_or(0).max(1);
        let mut done: Option<Vec<u8>> = None;
        loop {
            let mut last = None;
            self.background.run_chosen(keyspace, CompactionReason::Reorganization, |levels| {
                let size = self.options.segment_bytes;
                let pick = reorganize::pick(levels, deepest, done.as_deref(), range, size)?;
                last = pick.inputs.last().map(|table| bounds(table).1.to_vec());
                Some(pick)
            })?;
            if last.is_none() {
                return Ok(());
            }
            let order = &keyspace.order;
            assert!(
                done.iter().zip(&last).all(|(done, last)| order.compare(done, last).is_lt()),
                "each round begins behind the one before, so that reorganizing ends"
            );
            done = last;
        }
    }
}

impl Db {
    /// Flushes the memtables of all keyspaces and waits for it. Statistics count it then, and
    /// listeners were told.
    ///
    /// Costs a write of the keys and small values that are in memory. Writers go on meanwhile.
    /// Fails with [`ErrorKind::ReadOnly`] if the database takes no writes, and with the error of
    /// the flush, such as [`ErrorKind::DiskFull`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-flush"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// db.flush()?;
    /// assert_eq!(words.tables().len(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.core.flush(&self.core.states())
    }

    /// Compacts all keyspaces completely and waits for it. Rewrites every table, but no separated
    /// value that is where the settings say.
    ///
    /// Costs a flush, and a read and a write of all tables for each level that they are in. It is
    /// worth its cost after many deletions, or before a checkpoint that is kept. Fails as
    /// [`Db::flush`] does.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-compact"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.delete("one")?;
    /// db.compact()?;
    /// assert!(words.tables().is_empty());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn compact(&self) -> Result<()> {
        self.core.check_writable()?;
        for keyspace in self.core.states() {
            let outcome = self.core.compact(&keyspace, (None, None));
            // A keyspace that was dropped meanwhile has nothing left to compact.
            if keyspace.check().is_ok() {
                outcome?;
            }
        }
        self.core.background.wait_idle()
    }

    /// Waits until the background work has nothing to do.
    ///
    /// Other threads that write meanwhile may keep it from returning. Fails with the error of a
    /// background job that cannot go on, such as [`ErrorKind::DiskFull`]. It does not wait for a
    /// compaction that only frees space if that does not fit on the disk.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("wait-idle"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// db.flush()?;
    /// db.wait_idle()?;
    /// assert_eq!(db.stats().background_errors, 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn wait_idle(&self) -> Result<()> {
        self.core.check_writable()?;
        self.core.background.wait_idle()
    }
}
