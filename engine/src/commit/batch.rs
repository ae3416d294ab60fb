//! The operations of a commit: checked, compressed where it pays, and ready for a frame.

use crate::base::bounds::Bounds;
use crate::base::compression::{Codec, compress, decompress};
use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::key::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::memtable::KeyPlace;
use crate::segment::{RecordInput, RecordKind, range_ends};
use crate::version::settings::Separation;
use crate::version::view::KeyspaceState;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The greatest number of bytes of keys and values in one batch; a frame's length has 32 bits.
pub const MAX_BATCH_BYTES: usize = 2 << 30;

/// The greatest number of operations in one batch.
pub const MAX_BATCH_OPERATIONS: usize = 1 << 26;

/// Returns an error if the key is over the limit of 64 KiB.
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY_BYTES {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "a key of {} bytes is over the limit of 64 KiB",
        key.len()
    ))
    .advise("use a shorter key, such as a hash of it"))
}

/// Returns an error if the value is over the limit of 1 GiB.
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE_BYTES {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "a value of {} bytes is over the limit of 1 GiB",
        value.len()
    ))
    .advise("split it over several keys"))
}

/// Returns an error if a value expires in a keyspace that merges: what it is merged to would depend
/// on when it is.
pub fn check_deadline(keyspace: &KeyspaceState, deadline: Option<Deadline>) -> Result<()> {
    if deadline.is_none() || keyspace.merging().is_none() {
        return Ok(());
    }
    let name = &keyspace.name;
    Err(Error::invalid_argument(format!(
        "a value of keyspace {name:?} can't expire, because the keyspace has a merge operator"
    ))
    .advise("put it without an expiry, or into another keyspace"))
}

/// Returns an error if the keyspace has no merge operator, or if that refuses the operand.
pub fn check_operand(keyspace: &KeyspaceState, key: &[u8], operand: &[u8]) -> Result<()> {
    match keyspace.merging() {
        Some(merging) => merging.check(key, operand),
        None => {
            let name = &keyspace.name;
            Err(Error::invalid_argument(format!("keyspace {name:?} has no merge operator"))
                .advise("create a keyspace with one: it is fixed when a keyspace is created"))
        }
    }
}

/// The destination of a record besides the log.
#[derive(Clone, Copy)]
pub struct RecordTarget<'a> {
    /// The keyspace whose memtable takes the entry.
    pub keyspace: &'a Arc<KeyspaceState>,
    /// True if the memtable takes a pointer instead of the value.
    pub separated: bool,
    /// The range that the record deletes; `None` for a record of one key.
    pub range: Option<&'a Arc<Bounds>>,
    /// Where the key was found when it was read for this commit.
    pub place: Option<&'a KeyPlace>,
}

impl RecordTarget<'_> {
    /// Returns true if the value of `record`, which is separated, would be so whatever the engine
    /// chose.
    pub fn is_separation_fixed(&self, record: &RecordInput<'_>) -> bool {
        let options = self.keyspace.options();
        options.separates_at_write(record.raw_len as usize, Separation::AtFlush)
    }
}

/// One commit, borrowed: the records of its frame and the target of each.
#[derive(Clone, Copy)]
pub struct CommitFrame<'a> {
    /// The records for the log.
    pub records: &'a [RecordInput<'a>],
    /// The target of each record, in the same order.
    pub targets: &'a [RecordTarget<'a>],
    /// Bytes of keys and uncompressed values.
    pub user_bytes: u64,
}

impl CommitFrame<'_> {
    /// Returns true if all records are deletions.
    pub fn only_deletes(&self) -> bool {
        self.records.iter().all(|record| !record.kind.has_value())
    }
}

/// A value in the form in which the log stores it.
pub struct StoredValue {
    codec: Codec,
    compressed: Option<Vec<u8>>,
    raw_len: u32,
    /// True if the memtable takes a pointer to the value.
    pub separated: bool,
}

impl StoredValue {
    /// Decides whether `value` is separated, and compresses it if that pays. Inline values are left
    /// to the compression of blocks.
    pub fn prepare(keyspace: &KeyspaceState, value: &[u8]) -> Result<Self> {
        check_value(value)?;
        let options = keyspace.options();
        let separated = options.separates_at_write(value.len(), keyspace.choice.now());
        let worth_trying = separated && value.len() >= options.value_compression_min_bytes;
        let compressed = worth_trying.then(|| compress(options.value_codec, value)).flatten();
        let (codec, compressed) = match compressed {
            Some((codec, bytes)) => (codec, Some(bytes)),
            None => (Codec::None, None),
        };
        Ok(StoredValue { codec, compressed, raw_len: value.len() as u32, separated })
    }

    /// Returns the record for the log.
    pub fn record<'a>(
        &'a self,
        keyspace: &KeyspaceState,
        kind: RecordKind,
        key: &'a [u8],
        value: &'a [u8],
        deadline: Option<Deadline>,
    ) -> RecordInput<'a> {
        RecordInput {
            kind,
            keyspace: keyspace.id,
            codec: self.codec,
            raw_len: self.raw_len,
            deadline,
            key,
            value: self.compressed.as_deref().unwrap_or(value),
        }
    }
}

/// Returns the record of a deletion.
pub fn deletion<'a>(keyspace: &KeyspaceState, key: &'a [u8]) -> RecordInput<'a> {
    RecordInput::delete(keyspace.id, key)
}

struct BatchOperation {
    keyspace: Arc<KeyspaceState>,
    kind: RecordKind,
    codec: Codec,
    raw_len: u32,
    deadline: Option<Deadline>,
    separated: bool,
    key: Range<usize>,
    value: Range<usize>,
    /// The range that is deleted; `None` for an operation on one key.
    range: Option<Arc<Bounds>>,
}

/// Several operations that become visible together or not at all (I1). It owns its bytes.
#[derive(Default)]
pub struct Batch {
    operations: Vec<BatchOperation>,
    bytes: Vec<u8>,
    user_bytes: u64,
}

impl Batch {
    /// Adds a put of a value under a key, with the time at which it expires.
    pub fn put(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        value: &[u8],
        deadline: Option<Deadline>,
    ) -> Result<()> {
        check_key(key)?;
        check_deadline(keyspace, deadline)?;
        let stored = StoredValue::prepare(keyspace, value)?;
        let bytes = stored.compressed.as_deref().unwrap_or(value);
        self.push(keyspace, (RecordKind::Put, deadline), &stored, key, bytes)
    }

    /// Adds a merge of an operand with what is under a key.
    pub fn merge(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        check_key(key)?;
        check_operand(keyspace, key, operand)?;
        let stored = StoredValue::prepare(keyspace, operand)?;
        let bytes = stored.compressed.as_deref().unwrap_or(operand);
        self.push(keyspace, (RecordKind::Merge, None), &stored, key, bytes)
    }

    /// Adds the deletion of a key.
    pub fn delete(&mut self, keyspace: &Arc<KeyspaceState>, key: &[u8]) -> Result<()> {
        check_key(key)?;
        let nothing =
            StoredValue { codec: Codec::None, compressed: None, raw_len: 0, separated: false };
        self.push(keyspace, (RecordKind::Delete, None), &nothing, key, &[])
    }

    /// Adds the deletion of all keys of a range. Nothing is added if the range is empty.
    pub fn delete_range(&mut self, keyspace: &Arc<KeyspaceState>, range: Bounds) -> Result<()> {
        for key in [&range.lower, &range.upper].into_iter().flatten() {
            check_key(key)?;
        }
        if range.is_empty(&keyspace.order) {
            return keyspace.check();
        }
        let ends = range_ends(&range);
        let (codec, raw_len) = (Codec::None, ends.len() as u32);
        let stored = StoredValue { codec, compressed: None, raw_len, separated: false };
        let lower = range.lower.clone().unwrap_or_default();
        self.push(keyspace, (RecordKind::DeleteRange, None), &stored, &lower, &ends)?;
        self.operations.last_mut().expect("it was added").range = Some(Arc::new(range));
        Ok(())
    }

    fn push(
        &mut self,
        keyspace: &Arc<KeyspaceState>,
        (kind, deadline): (RecordKind, Option<Deadline>),
        stored: &StoredValue,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        keyspace.check()?;
        let full = self.operations.len() >= MAX_BATCH_OPERATIONS;
        if full || self.bytes.len() + key.len() + value.len() > MAX_BATCH_BYTES {
            return Err(Error::invalid_argument(
                "the batch is full: it may hold 2 GiB, 67 million operations",
            )
            .advise("write it and go on with another one"));
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.operations.push(BatchOperation {
            keyspace: keyspace.clone(),
            kind,
            codec: stored.codec,
            raw_len: stored.raw_len,
            deadline,
            separated: stored.separated,
            key: start..middle,
            value: middle..self.bytes.len(),
            range: None,
        });
        debug_assert!(kind != RecordKind::Delete || value.is_empty(), "a deletion has no value");
        debug_assert!(stored.raw_len as usize >= value.len(), "compression made a value longer");
        self.user_bytes += key.len() as u64 + u64::from(stored.raw_len);
        Ok(())
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns true if the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns true if all operations are deletions.
    pub fn only_deletes(&self) -> bool {
        self.operations.iter().all(|operation| !operation.kind.has_value())
    }

    /// Returns the bytes of keys and values that the batch holds in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of keys and values as the user passed them.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Removes all operations; keeps the memory.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.bytes.clear();
        self.user_bytes = 0;
    }

    /// Removes the operations from number `len` on.
    pub fn truncate(&mut self, len: usize) {
        for removed in self.operations.drain(len..) {
            self.user_bytes -= removed.key.len() as u64 + u64::from(removed.raw_len);
        }
        self.bytes.truncate(self.operations.last().map_or(0, |last| last.value.end));
    }

    /// Returns the key of operation `index`.
    pub fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.operations[index].key.clone()]
    }

    /// Returns the range that operation `index` deletes; `None` if it is about one key.
    pub fn range(&self, index: usize) -> Option<&Arc<Bounds>> {
        self.operations[index].range.as_ref()
    }

    /// Returns the keyspace of operation `index`.
    pub fn keyspace(&self, index: usize) -> &Arc<KeyspaceState> {
        &self.operations[index].keyspace
    }

    /// Returns true if operation `index` merges an operand with what is under its key.
    pub fn is_merge(&self, index: usize) -> bool {
        self.operations[index].kind == RecordKind::Merge
    }

    /// Returns the value that operation `index` puts, or the operand that it merges, as the user
    /// passed it; `None` for a deletion.
    pub fn value(&self, index: usize) -> Result<Option<Cow<'_, [u8]>>> {
        let operation = &self.operations[index];
        let stored = &self.bytes[operation.value.clone()];
        Ok(match (operation.kind, operation.codec) {
            (RecordKind::Delete | RecordKind::DeleteRange | RecordKind::Ingest, _) => None,
            (RecordKind::Put | RecordKind::Merge, Codec::None) => Some(Cow::Borrowed(stored)),
            (RecordKind::Put | RecordKind::Merge, codec) => {
                Some(Cow::Owned(decompress(codec, stored, operation.raw_len as usize)?))
            }
        })
    }

    /// Returns when the value that operation `index` puts expires, `Some(None)` if never, as with
    /// an operand that it merges; `None` for a deletion.
    pub fn deadline(&self, index: usize) -> Option<Option<Deadline>> {
        let operation = &self.operations[index];
        let has_value = matches!(operation.kind, RecordKind::Put | RecordKind::Merge);
        has_value.then_some(operation.deadline)
    }

    /// Iterates over the keyspace of each operation, in order; a keyspace may come many times.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceState>> {
        self.operations.iter().map(|operation| &operation.keyspace)
    }

    /// Returns the records and targets of the batch's frame.
    pub fn records(&self) -> (Vec<RecordInput<'_>>, Vec<RecordTarget<'_>>) {
        let record = |operation: &BatchOperation| RecordInput {
            kind: operation.kind,
            keyspace: operation.keyspace.id,
            codec: operation.codec,
            raw_len: operation.raw_len,
            deadline: operation.deadline,
            key: &self.bytes[operation.key.clone()],
            value: &self.bytes[operation.value.clone()],
        };
        let records = self.operations.iter().map(record).collect();
        let targets = self.operations.iter().map(|operation| RecordTarget {
            keyspace: &operation.keyspace,
            separated: operation.separated,
            range: operation.range.as_ref(),
            place: None,
        });
        (records, targets.collect())
    }
}
