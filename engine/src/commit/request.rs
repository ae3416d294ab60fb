//! A commit that waits for a leader, and the outcome of a commit.

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::commit::batch::Batch;
use crate::commit::conditions::{ChangedKey, Conditions};
use crate::commit::group::Durability;
use crate::env::sync::{Condvar, Mutex};
use std::sync::Arc;

/// The outcome of a commit that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// All of it is visible; the last operation has this sequence number.
    Committed(SeqNo),
    /// Nothing was written, because something that the commit relies on was written by
    /// somebody else, or has expired.
    Conflict(ChangedKey),
    /// Nothing was written, because it is not known any more what others wrote.
    Unknown,
}

impl CommitOutcome {
    /// Returns the sequence number of the last operation of a commit without conditions.
    pub fn seqno(self) -> SeqNo {
        match self {
            CommitOutcome::Committed(seqno) => seqno,
            _ => unreachable!("a commit without conditions is not refused"),
        }
    }
}

/// A commit that waits in the queue for a leader.
pub struct Request {
    /// What is to be committed.
    pub batch: Arc<Batch>,
    /// What the commit relies on.
    pub conditions: Option<Conditions<'static>>,
    /// The level of durability that it asks for.
    pub durability: Durability,
    /// What has become of it.
    pub outcome: Mutex<RequestOutcome>,
    /// Signalled when the outcome changes.
    pub changed: Condvar,
}

/// What has become of a request.
#[derive(Default)]
pub enum RequestOutcome {
    /// Nothing yet.
    #[default]
    Waiting,
    /// The writer of this request now leads and must commit the next group, which it heads.
    Lead,
    /// It was committed, or not.
    Done(Result<CommitOutcome>),
}

impl Request {
    /// Makes a request that waits.
    pub fn new(
        batch: Arc<Batch>,
        conditions: Option<Conditions<'static>>,
        durability: Durability,
    ) -> Self {
        let (outcome, changed) = (Mutex::new(RequestOutcome::Waiting), Condvar::new());
        Request { batch, conditions, durability, outcome, changed }
    }

    /// Tells the waiting writer that it leads.
    pub fn take_over(&self) {
        *self.outcome.lock() = RequestOutcome::Lead;
        self.changed.notify_one();
    }

    /// Sets the outcome and wakes the waiting writer.
    pub fn end(&self, outcome: Result<CommitOutcome>) {
        *self.outcome.lock() = RequestOutcome::Done(outcome);
        self.changed.notify_one();
    }
}
