//! One put, merge or deletion on its way to a commit: checked, compressed where it pays, and copied
//! only if it has to wait for other writers.

use crate::base::error::Result;
use crate::base::expiry::Deadline;
use crate::commit::batch::{
    Batch, CommitFrame, RecordTarget, StoredValue, check_deadline, check_key, check_operand,
    deletion,
};
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::memtable::KeyPlace;
use crate::segment::RecordKind;
use crate::version::view::KeyspaceState;
use std::sync::Arc;

/// A put, a merge or a deletion, of bytes that the caller holds.
pub(super) struct SingleWrite<'a> {
    keyspace: &'a Arc<KeyspaceState>,
    key: &'a [u8],
    /// True if the value is an operand.
    is_merge: bool,
    /// What is put or merged, as it was passed and as it is stored; `None` for a deletion.
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
        check_deadline(&keyspace.state, deadline)?;
        let value = match value {
            Some(value) => Some((value, StoredValue::prepare(&keyspace.state, value)?)),
            None => None,
        };
        Ok(SingleWrite { keyspace: &keyspace.state, key, is_merge: false, value, deadline })
    }

    /// Prepares a merge of `operand`.
    pub fn merge(keyspace: &'a Keyspace, key: &'a [u8], operand: &'a [u8]) -> Result<Self> {
        check_key(key)?;
        let keyspace = &keyspace.state;
        check_operand(keyspace, key, operand)?;
        let value = Some((operand, StoredValue::prepare(keyspace, operand)?));
        Ok(SingleWrite { keyspace, key, is_merge: true, value, deadline: None })
    }

    /// Calls `commit` with the frame of the write.
    pub fn with_frame<R>(&self, commit: impl FnOnce(CommitFrame<'_>) -> R) -> R {
        self.with_frame_at(None, commit)
    }

    /// Does as [`SingleWrite::with_frame`] if the key was found at `place`.
    pub fn with_frame_at<R>(
        &self,
        place: Option<&KeyPlace>,
        commit: impl FnOnce(CommitFrame<'_>) -> R,
    ) -> R {
        let (record, separated, value_bytes) = match &self.value {
            Some((value, stored)) => {
                let kind = if self.is_merge { RecordKind::Merge } else { RecordKind::Put };
                let record = stored.record(self.keyspace, kind, self.key, value, self.deadline);
                (record, stored.separated, value.len())
            }
            None => (deletion(self.keyspace, self.key), false, 0),
        };
        let target = RecordTarget { keyspace: self.keyspace, separated, range: None, place };
        let user_bytes = (self.key.len() + value_bytes) as u64;
        commit(CommitFrame { records: &[record], targets: &[target], user_bytes })
    }

    /// Returns a batch that does the same and owns its bytes.
    pub fn to_batch(&self) -> Result<Batch> {
        let mut batch = Batch::default();
        match &self.value {
            Some((operand, _)) if self.is_merge => batch.merge(self.keyspace, self.key, operand)?,
            Some((value, _)) => batch.put(self.keyspace, self.key, value, self.deadline)?,
            None => batch.delete(self.keyspace, self.key)?,
        }
        Ok(batch)
    }
}
