//! The commit of what was read at a snapshot: transactions, and batches with requirements.

use crate::base::error::{Error, ErrorKind, Result};
use crate::commit::batch::Batch;
use crate::commit::conditions::{ChangedKey, Conditions};
use crate::commit::group::Durability;
use crate::commit::request::CommitOutcome;
use crate::db::Core;
use std::sync::Arc;

/// A commit is tried this often. Each attempt but the first follows a check of what was written
/// since the one before. It fails only if more was committed during the check than is kept of the
/// recent keys.
const MAX_ATTEMPTS: usize = 64;

/// Commits a batch that was admitted, once it is known whether its conditions hold. Returns a key
/// that is not as it was read any more; nothing was written then. Requires: the snapshot at which
/// the conditions begin lives.
pub(super) fn commit_checked(
    core: &Core,
    batch: &Arc<Batch>,
    mut conditions: Option<Conditions<'static>>,
    durability: Durability,
) -> Result<Option<ChangedKey>> {
    let conflicts = &core.counters.conflicts;
    for _ in 0..MAX_ATTEMPTS {
        match core.committer.commit_batch_if(batch, conditions.as_ref(), durability)? {
            CommitOutcome::Committed(_) => return Ok(None),
            CommitOutcome::Conflict(key) => {
                conflicts.add(1);
                return Ok(Some(key));
            }
            CommitOutcome::Unknown => {
                let conditions = conditions.as_mut().expect("only conditions can be unknown");
                core.counters.conflict_searches.add(1);
                core.check_open()?;
                if let Some(key) = conditions.check_tree(&core.snapshots)? {
                    conflicts.add(1);
                    return Ok(Some(key));
                }
            }
        }
    }
    conflicts.add(1);
    let message = "too much is written for what was read to be checked";
    Err(Error::new(ErrorKind::Conflict, message).advise("read less for one commit"))
}
