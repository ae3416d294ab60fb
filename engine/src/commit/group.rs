//! Group commit: the first writer to arrive leads. Writers that arrive while it works wait, and the
//! next leader commits all of them with one write and at most one sync.
//!
//! A lone writer pays for none of this: it finds the log free, and its bytes are copied from the
//! caller's slices straight into the frame. A writer that does not ask for a sync looks a few times
//! whether the log is free before it joins the queue, where it sleeps: most commits are over sooner
//! than a thread falls asleep and wakes up.

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::commit::batch::{Batch, CommitFrame};
use crate::commit::conditions::Conditions;
use crate::commit::log::{Log, LogShared};
use crate::commit::queue::{CommitQueue, strongest};
use crate::commit::request::{CommitOutcome, Request, RequestOutcome};
use crate::commit::signal::CommitSignal;
use crate::commit::stall::WriteStallController;
use crate::env::sync::{Mutex, MutexGuard};
use crate::version::LogPosition;
use crate::version::runtime::Runtime;
use crate::version::view::KeyspaceState;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// The level of durability that a write has reached when it is acknowledged.
///
/// ```
/// use cleavedb::{Durability, Options};
/// use std::time::Duration;
/// // A power cut costs at most the writes of the last tenth of a second.
/// let durability = Durability::SyncEvery(Duration::from_millis(100));
/// let options = Options { durability, ..Options::default() };
/// // As text, for configuration files.
/// assert_eq!("every:100ms".parse::<Durability>()?, durability);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The write is in a buffer of this process and is lost with the process. Fastest.
    Buffered,
    /// The write was handed to the operating system: it survives the end of the process, but not a
    /// power failure. The default, as in LevelDB and RocksDB.
    #[default]
    Os,
    /// The write is on the device and survives a power failure. Concurrent writers share one sync.
    Sync,
    /// As `Os`, and on the device at most this much later.
    SyncEvery(Duration),
}

/// The parts of a [`Committer`].
pub struct CommitParts {
    /// The shared part of the log.
    pub log: Arc<LogShared>,
    /// The rules that hold writers up.
    pub stall_controller: Arc<WriteStallController>,
    /// The parts of the database that its rooms share.
    pub runtime: Runtime,
    /// A memtable is flushed once this many bytes of log were written since its first entry.
    pub flush_after_log_bytes: u64,
    /// Wakes the background.
    pub wake: Box<dyn Fn() + Send + Sync>,
    /// Wakes the thread that syncs what was sealed.
    pub wake_sync: Box<dyn Fn() + Send + Sync>,
    /// Requests a sync within this time.
    pub sync_within: Box<dyn Fn(Duration) + Send + Sync>,
}

/// Commits every write of a database.
pub struct Committer {
    pub(super) parts: CommitParts,
    pub(super) log: Mutex<Log>,
    queue: CommitQueue<Arc<Request>>,
    /// The number of [`CommitWatch`](crate::commit::conditional::CommitWatch)es.
    pub(super) watches: AtomicUsize,
    /// Given at the next commit to those who wait for one.
    pub signal: CommitSignal,
}

impl Committer {
    /// Creates a committer that continues at `log`.
    pub fn new(parts: CommitParts, log: Log) -> Self {
        let (queue, watches) = (CommitQueue::default(), AtomicUsize::new(0));
        let signal = CommitSignal::default();
        Committer { parts, log: Mutex::new(log), queue, watches, signal }
    }

    /// Returns the shared part of the log.
    pub fn log(&self) -> &Arc<LogShared> {
        &self.parts.log
    }

    /// Returns the controller that holds writers up.
    pub fn stall_controller(&self) -> &Arc<WriteStallController> {
        &self.parts.stall_controller
    }

    /// Commits one frame whose bytes the caller holds. `own` copies it to a batch if it has to wait
    /// in the queue.
    pub fn commit(
        &self,
        frame: CommitFrame<'_>,
        durability: Durability,
        own: impl FnOnce() -> Result<Batch>,
    ) -> Result<SeqNo> {
        self.admit_frame(&frame)?;
        let own = || own().map(Arc::new);
        self.commit_frame_if(frame, None, durability, own).map(CommitOutcome::seqno)
    }

    /// Commits a batch.
    pub fn commit_batch(&self, batch: Batch, durability: Durability) -> Result<SeqNo> {
        self.admit_batch(&batch)?;
        self.commit_batch_if(&Arc::new(batch), None, durability).map(CommitOutcome::seqno)
    }

    /// Takes the lead if it is free, or becomes free while other threads run for a few turns. For
    /// writers that ask for a sync it must be free now: the more of them share a sync in the queue,
    /// the better.
    pub(super) fn takes_lead(&self, durability: Durability) -> bool {
        let threads = &self.parts.runtime.env.threads;
        let yields = if durability == Durability::Sync { 0 } else { threads.yields_before_sleep() };
        for _ in 0..yields {
            if self.queue.take_lead() {
                return true;
            }
            threads.yield_now();
        }
        self.queue.take_lead()
    }

    pub(super) fn wait_in_queue(
        &self,
        batch: Arc<Batch>,
        conditions: Option<Conditions<'static>>,
        durability: Durability,
    ) -> Result<CommitOutcome> {
        let request = Arc::new(Request::new(batch, conditions, durability));
        if let Some(head) = self.queue.join(request.clone()) {
            head.take_over();
        }
        let mut outcome = request.outcome.lock();
        loop {
            match std::mem::take(&mut *outcome) {
                RequestOutcome::Waiting => outcome = request.changed.wait(outcome),
                RequestOutcome::Done(result) => return result,
                RequestOutcome::Lead => {
                    drop(outcome);
                    self.lead();
                    outcome = request.outcome.lock();
                }
            }
        }
    }

    /// Passes the lead on. The caller leads.
    fn pass_on(&self) {
        if let Some(head) = self.queue.pass_on() {
            head.take_over();
        }
    }

    /// Commits a group from the front of the queue; the caller's own request is the first.
    fn lead(&self) {
        let mut log = self.log.lock();
        let group = self.queue.take_group(|request| request.batch.bytes() as u64);
        let outcomes = self.guarded(|| Ok(self.commit_requests(&mut log, &group)));
        drop(log);
        match outcomes {
            Ok(outcomes) => {
                group.iter().zip(outcomes).for_each(|(request, outcome)| request.end(outcome));
            }
            Err(error) => group.iter().for_each(|request| request.end(Err(error.clone()))),
        }
        self.pass_on();
        self.parts.stall_controller.report_space();
    }

    /// Commits the requests of a group that nothing stands against; returns the outcome of each
    /// request.
    fn commit_requests(&self, log: &mut Log, group: &[Arc<Request>]) -> Vec<Result<CommitOutcome>> {
        let owned: Vec<_> = group.iter().map(|request| request.batch.records()).collect();
        let frames = group.iter().zip(&owned).map(|(request, (records, targets))| {
            let user_bytes = request.batch.user_bytes();
            CommitFrame { records, targets, user_bytes }
        });
        let first_seqno = log.next_seqno;
        let mut next_seqno = first_seqno;
        let mut outcomes = Vec::with_capacity(group.len());
        let (mut admitted, mut durabilities) = (Vec::with_capacity(group.len()), Vec::new());
        for (request, frame) in group.iter().zip(frames) {
            let before = (&admitted[..], next_seqno);
            let outcome = self.admit(log, &frame, request.conditions.as_ref(), before);
            if let Ok(CommitOutcome::Committed(last)) = outcome {
                next_seqno = last + 1;
                admitted.push(frame);
                durabilities.push(request.durability);
            }
            outcomes.push(outcome);
        }
        if !admitted.is_empty()
            && let Err(error) = self.commit_group(log, &admitted, strongest(durabilities))
        {
            log.recent.take_back(first_seqno - 1);
            // A request may have been refused for what another one of the group would have written.
            let others = outcomes.iter_mut().filter(|outcome| outcome.is_ok());
            others.for_each(|outcome| *outcome = Err(error.clone()));
        }
        debug_assert_eq!(outcomes.len(), group.len(), "nobody waits for ever");
        outcomes
    }

    /// Commits one frame as the leader of a group of one.
    pub(super) fn lead_alone(
        &self,
        frame: CommitFrame<'_>,
        conditions: Option<&Conditions<'_>>,
        durability: Durability,
    ) -> Result<CommitOutcome> {
        let mut log = self.log.lock();
        let outcome = self.guarded(|| {
            let first_seqno = log.next_seqno;
            let outcome = self.admit(&mut log, &frame, conditions, (&[], first_seqno))?;
            if matches!(outcome, CommitOutcome::Committed(_)) {
                let committed = self.commit_group(&mut log, &[frame], durability);
                committed.inspect_err(|_| log.recent.take_back(first_seqno - 1))?;
            }
            Ok(outcome)
        });
        drop(log);
        self.pass_on();
        self.parts.stall_controller.report_space();
        outcome
    }

    /// Runs the leader's work on the log, whose lock it holds, so that the lead is passed on in any
    /// case. A panic in it, for example in a user's comparator, turns the database read-only before
    /// another writer gets the log: the write buffer may end in the middle of a frame, and
    /// memtables may hold a part of a batch. I1: the sequence numbers of that group are never
    /// published, and no memtable is flushed any more. The next opening finds whole frames in the
    /// log: all that was acknowledged, and perhaps batches of the group that panicked.
    pub(super) fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.parts.runtime.health.guard("a commit", work)
    }

    /// Returns the number of writers that wait in the queue.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.queue.queued()
    }

    /// Has the signal given at the next commit that is visible behind `seqno`. Returns false if
    /// there is one already. Waits for a leader at work.
    pub fn signal_after(&self, seqno: SeqNo) -> bool {
        let mut log = self.log.lock();
        let is_latest = self.parts.runtime.snapshots.visible() <= seqno;
        log.is_awaited |= is_latest;
        is_latest
    }

    /// Returns the visible sequence number between two commits. Waits for the one under way.
    ///
    /// I6: an ingest has its tables in a version before its number is visible, both within one
    /// commit. So of all that versions had before this call, nothing is newer than the number.
    pub fn visible_between_commits(&self) -> SeqNo {
        let _log = self.log.lock();
        self.parts.runtime.snapshots.visible()
    }

    /// Returns a number up to which every commit is durable. No entry of a table that is in the
    /// current version at the call is above it. Nothing is synced.
    pub fn durable_between_commits(&self) -> SeqNo {
        let newest = self.parts.runtime.set.current().newest_in_tables();
        // What an ingest has installed is visible once the lock is had.
        let _log = self.log.lock();
        // I2: a version has no table beside commits before it that may be lost. What made the
        // table's commits durable is noted only after the version is there.
        self.parts.log.note_durable(newest);
        self.parts.log.durable()
    }

    /// Holds up all commits until the guard is dropped.
    pub fn hold(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Returns the place behind the last commit. Waits for a leader at work.
    pub fn reach(&self) -> LogPosition {
        let log = self.log.lock();
        self.log().reach(&log)
    }

    /// Does as [`Committer::sync`] for a user who asked for it, as with a synced commit.
    pub fn sync_for_user(&self) -> Result<()> {
        self.log.lock().segments_since_sync = 0;
        self.sync().map(|_| ())
    }

    /// Makes everything committed so far durable, without holding writers up during the sync.
    /// Returns the end of the log at that time.
    pub fn sync(&self) -> Result<LogReach> {
        let (seqno, end, syncer) = {
            let mut log = self.log.lock();
            self.parts.runtime.health.check()?;
            // The lock of the log is held, so all that is visible was appended.
            let seqno = self.parts.runtime.snapshots.visible();
            if log.writer.is_none() && log.closed {
                return Err(Error::closed("the database was closed"));
            }
            match log.writer.as_mut() {
                // Nothing was written since the last segment was sealed, by this session or the one
                // before. This session's may not be synced.
                None => (seqno, self.parts.log.end(&log), None),
                Some(writer) => {
                    writer.write_out()?;
                    let (segment, offset) = (writer.segment().id(), writer.good_len());
                    let is_durable = writer.durable() >= offset;
                    let syncer = (!is_durable).then(|| writer.syncer());
                    (seqno, LogPosition { segment, offset }, syncer)
                }
            }
        };
        match syncer {
            // If the log is rotated meanwhile, the segment is synced here or there: no harm.
            Some(syncer) => self.parts.log.sync_up_to(&syncer, end.segment)?,
            None => self.parts.log.sync_sealed(end.segment)?,
        }
        self.parts.log.note_durable(seqno);
        Ok(LogReach { position: end, seqno })
    }
}

/// How far the log reached at some time.
#[derive(Debug, Clone, Copy)]
pub struct LogReach {
    /// The place behind the last commit.
    pub position: LogPosition,
    /// The newest number that was used before it.
    pub seqno: SeqNo,
}

/// Returns an error if one of these keyspaces was dropped. It is called under the lock of the log,
/// and keyspaces are dropped between two commits, so no write is acknowledged that cannot be read.
pub(super) fn check_all<'a>(keyspaces: impl Iterator<Item = &'a Arc<KeyspaceState>>) -> Result<()> {
    each_run(keyspaces).try_for_each(|keyspace| keyspace.check())
}

/// Iterates over the keyspaces, with several equal ones in a row only once.
pub(super) fn each_run<'a>(
    keyspaces: impl Iterator<Item = &'a Arc<KeyspaceState>>,
) -> impl Iterator<Item = &'a Arc<KeyspaceState>> {
    let mut last: Option<&Arc<KeyspaceState>> = None;
    keyspaces.filter(move |keyspace| {
        last.replace(keyspace).is_none_or(|last| !Arc::ptr_eq(last, keyspace))
    })
}
