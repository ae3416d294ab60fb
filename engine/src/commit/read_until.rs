//! Until when a commit may rely on what was read. That a value expires is no write, so it does not
//! show in the order of the log; but whoever reads after its deadline knows that it is gone, and
//! may act on it. So a commit that relies on the value has to come before.

use crate::base::expiry::{Deadline, ExpiryTime};
use crate::commit::conditions::ChangedKey;
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// The value that expires first of those that were read, whatever their number.
#[derive(Clone)]
pub struct ReadUntil {
    deadline: Deadline,
    keyspace: Arc<KeyspaceState>,
    key: Box<[u8]>,
}

impl ReadUntil {
    /// Notes that a value was read that expires at `deadline`.
    pub fn note(
        earliest: &mut Option<ReadUntil>,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        deadline: Deadline,
    ) {
        if earliest.as_ref().is_none_or(|earliest| deadline < earliest.deadline) {
            let (keyspace, key) = (keyspace.clone(), key.into());
            *earliest = Some(ReadUntil { deadline, keyspace, key });
        }
    }

    /// Returns the key whose value has expired by `now`, if it has.
    pub fn expired(&self, now: ExpiryTime) -> Option<ChangedKey> {
        let key = || ChangedKey {
            keyspace: self.keyspace.name.clone(),
            key: self.key.clone(),
            has_expired: true,
        };
        self.deadline.has_passed(now).then(key)
    }
}
