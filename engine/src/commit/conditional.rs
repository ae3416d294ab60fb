//! Conditional commits: what they rely on is checked under the lock of the log, so that nobody else
//! writes between the check and the commit. The check looks at what is in memory: the keys of the
//! last commits, else the memtables and the rest of the group.

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::commit::batch::{Batch, CommitFrame};
use crate::commit::conditions::{ConditionCheck, Conditions};
use crate::commit::group::{Committer, Durability, check_all, each_run};
use crate::commit::log::Log;
use crate::commit::recent::RecentKeys;
use crate::commit::request::CommitOutcome;
use crate::env::planted::PlantedFault;
use crate::segment::RecordKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// While one of these lives, the keys of all commits are noted, so that a conditional commit is
/// checked quickly.
pub struct CommitWatch(Arc<Committer>);

impl Drop for CommitWatch {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Committer {
    /// Lets the write stall controller admit, delay or refuse a commit. It is asked once for what
    /// is written, however often the commit of that is tried.
    pub fn admit_frame(&self, frame: &CommitFrame<'_>) -> Result<()> {
        let keyspaces = each_run(frame.targets.iter().map(|target| target.keyspace));
        let only_deletes = || frame.only_deletes();
        self.parts.stall_controller.admit(keyspaces, frame.user_bytes, only_deletes)
    }

    /// Does as [`Committer::admit_frame`] for a batch.
    pub fn admit_batch(&self, batch: &Batch) -> Result<()> {
        let keyspaces = each_run(batch.keyspaces());
        let only_deletes = || batch.only_deletes();
        self.parts.stall_controller.admit(keyspaces, batch.user_bytes(), only_deletes)
    }

    /// Commits a frame that was admitted if its conditions hold. Between the check and the commit
    /// nobody else writes. `own` copies the frame to a batch if it has to wait in the queue.
    pub fn commit_frame_if(
        &self,
        frame: CommitFrame<'_>,
        conditions: Option<&Conditions<'_>>,
        durability: Durability,
        own: impl FnOnce() -> Result<Arc<Batch>>,
    ) -> Result<CommitOutcome> {
        if self.takes_lead(durability) {
            return self.lead_alone(frame, conditions, durability);
        }
        self.wait_in_queue(own()?, conditions.map(Conditions::owned), durability)
    }

    /// Commits a batch as [`Committer::commit_frame_if`] does.
    pub fn commit_batch_if(
        &self,
        batch: &Arc<Batch>,
        conditions: Option<&Conditions<'_>>,
        durability: Durability,
    ) -> Result<CommitOutcome> {
        if self.takes_lead(durability) {
            let (records, targets) = batch.records();
            let user_bytes = batch.user_bytes();
            let frame = CommitFrame { records: &records, targets: &targets, user_bytes };
            return self.lead_alone(frame, conditions, durability);
        }
        self.wait_in_queue(batch.clone(), conditions.map(Conditions::owned), durability)
    }

    /// Lets the keys of all commits be noted until the watch is dropped.
    pub fn watch(self: &Arc<Self>) -> CommitWatch {
        self.watches.fetch_add(1, Ordering::Relaxed);
        CommitWatch(self.clone())
    }

    /// Decides under the lock of the log whether a frame may be committed from `first_seqno` on,
    /// and notes its keys then. Returns the outcome that it has if the group is committed.
    ///
    /// The time is read under the lock, so whoever has seen a value expire, and was committed
    /// before, has seen it at an earlier time.
    ///
    /// Conditions are checked against all commits before this one. `group` are the frames of its
    /// own group that were admitted before; their keys are noted already, but for all of them only
    /// if they are few.
    pub(super) fn admit(
        &self,
        log: &mut Log,
        frame: &CommitFrame<'_>,
        conditions: Option<&Conditions<'_>>,
        (group, first_seqno): (&[CommitFrame<'_>], SeqNo),
    ) -> Result<CommitOutcome> {
        check_all(frame.targets.iter().map(|target| target.keyspace))?;
        if let Some(conditions) = conditions {
            conditions.check_keyspaces()?;
            // I6: what others have seen expire is not relied on, nor put again.
            let expiry = &self.parts.runtime.snapshots.expiry;
            let expired = conditions.until.as_ref().and_then(|until| until.expired(expiry.now()));
            let planted = self.parts.runtime.env.planted;
            if let Some(key) = expired
                && !planted.is(PlantedFault::ExpiryForgotten)
            {
                return Ok(CommitOutcome::Conflict(key));
            }
            match conditions.check(&log.recent, group, planted) {
                ConditionCheck::Hold => {}
                ConditionCheck::Written(key) => return Ok(CommitOutcome::Conflict(key)),
                ConditionCheck::Unknown => return Ok(CommitOutcome::Unknown),
            }
        }
        let last_seqno = first_seqno + frame.records.len() as u64 - 1;
        let is_watched = self.watches.load(Ordering::Relaxed) > 0;
        let noted = if is_watched { frame.records.len().min(RecentKeys::MAX_KEYS) } else { 0 };
        let skipped = frame.records.len() - noted;
        if skipped > 0 && !self.parts.runtime.env.planted.is(PlantedFault::SkippedForgotten) {
            log.recent.skip_to(first_seqno + skipped as u64 - 1);
        }
        let first_noted = first_seqno + skipped as u64;
        for (record, seqno) in frame.records[skipped..].iter().zip(first_noted..) {
            match record.kind {
                // The recent keys have no ranges, so whoever began before searches elsewhere.
                RecordKind::DeleteRange | RecordKind::Ingest => log.recent.skip_to(seqno),
                _ => log.recent.note(seqno, record.keyspace, record.key),
            }
        }
        Ok(CommitOutcome::Committed(last_seqno))
    }
}
