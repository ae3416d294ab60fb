//! One put or deletion on its way to a commit: checked, compressed where it pays, and copied only
//! if it has to wait for other writers.

use crate::base::error::Result;
use crate::base::expiry::Deadline;
use crate::commit::batch::{Batch, CommitFrame, RecordTarget, StoredValue, check_key, deletion};
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// A put, or a deletion, of bytes that the caller holds.
pub(super) struct SingleWrite<'a> {
    keyspace: &'a Arc<KeyspaceState>,
    key: &'a [u8],
    /// What is put, as it was passed and as it is stored; `None` for a deletion.
    value: Option<(&'a [u8], StoredValue)>,
    deadline: Option<Deadline>,
}

impl<'a> SingleWrite<'a> {
    /// Prepares a put, or a deletion if `value` is `None`.
    pub fn prepare(
        keyspace: &'a Keyspace,
        key: &'a [u8],
        value: Option<&'a [u8]>,
        options: &WriteOptions,
    ) -> Result<Self> {
        check_key(key)?;
        let deadline = value.and_then(|_| keyspace.deadline(options.expiry));
        let value = match value {
            Some(value) => Some((value, StoredValue::prepare(&keyspace.state, value)?)),
            None => None,
        };
        Ok(SingleWrite { keyspace: &keyspace.state, key, value, deadline })
    }

    /// Calls `commit` with the frame of the write.
    pub fn with_frame<R>(&self, commit: impl FnOnce(CommitFrame<'_>) -> R) -> R {
        let (record, separated, value_bytes) = match &self.value {
            Some((value, stored)) => {
                let record = stored.record(self.keyspace, self.key, value, self.deadline);
                (record, stored.separated, value.len())
            }
            None => (deletion(self.keyspace, self.key), false, 0),
        };
        let target = RecordTarget { keyspace: self.keyspace, separated, range: None };
        let user_bytes = (self.key.len() + value_bytes) as u64;
        commit(CommitFrame { records: &[record], targets: &[target], user_bytes })
    }

    /// Returns a batch that does the same and owns its bytes.
    pub fn to_batch(&self) -> Result<Batch> {
        let mut batch = Batch::default();
        match &self.value {
            Some((value, _)) => batch.put(self.keyspace, self.key, value, self.deadline)?,
            None => batch.delete(self.keyspace, self.key)?,
        }
        Ok(batch)
    }
}
