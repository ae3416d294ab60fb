//! Write batches. In LevelDB a batch exists before its database does, so a batch keeps plain bytes
//! and becomes a batch of the engine when it is written.
//!
//! The calls that add to a batch have no `errptr`, so the write returns their first error (a key
//! that is too long, an invalid handle of a keyspace).

use crate::border::{Bytes, CallbackState, KeyBounds};
use crate::guard::quiet;
use crate::handle::Handle;
use engine::{
    Error, Expected, Expiry, Keyspace, MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS, Result, WriteBatch,
};
use std::ffi::c_char;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// A batch as C holds it.
#[derive(Default)]
pub struct BatchHandle {
    /// Writing and iterating share this `Arc`, so that they need not hold the lock.
    operations: Mutex<Arc<Operations>>,
}

/// The contents of a batch.
#[derive(Default, Clone)]
pub struct Operations {
    list: Vec<BatchStep>,
    requirements: Vec<BatchRequirement>,
    bytes: Vec<u8>,
    error: Option<Error>,
}

#[derive(Clone)]
struct BatchStep {
    /// `None` stands for the keyspace `default` of the database that the batch is written to.
    keyspace: Option<Keyspace>,
    key: Range<usize>,
    /// `None` deletes the key.
    value: Option<Range<usize>>,
    /// True if the value is an operand to be merged.
    merges: bool,
    /// When the value expires; `None` leaves that to the keyspace.
    expiry: Option<Expiry>,
    /// The range that is deleted; `None` for a step about `key` alone.
    range: Option<DeletedRange>,
}

/// A range of keys, which has to do with the key of its step.
#[derive(Clone)]
enum DeletedRange {
    /// From that key on; each end may be open.
    Between { from_first: bool, until: Option<Range<usize>> },
    /// What begins with that key.
    Prefix,
}

/// What must be under a key for the batch to be written.
#[derive(Clone)]
struct BatchRequirement {
    keyspace: Keyspace,
    key: Range<usize>,
    expected: RequiredEntry,
}

/// An [`Expected`] whose value is among the bytes of the batch.
#[derive(Clone)]
enum RequiredEntry {
    Absent,
    Version(u64),
    Value(Range<usize>),
}

impl Operations {
    /// Fails if the batch would exceed the engine's limits. The write would refuse it as well, but
    /// a batch that is appended to itself again and again would use up the memory before that.
    fn check_room(&self, operations: usize, bytes: usize) -> Result<()> {
        let count = self.list.len() + self.requirements.len();
        if count + operations > MAX_BATCH_OPERATIONS || self.bytes.len() + bytes > MAX_BATCH_BYTES {
            return Err(Error::invalid_argument(format!(
                "a batch of more than {MAX_BATCH_OPERATIONS} operations or {MAX_BATCH_BYTES} bytes"
            ))
            .advise("write several smaller ones"));
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn keep_requirement(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        expected: Expected<'_>,
    ) -> Result<BatchRequirement> {
        let value = if let Expected::Value(value) = expected { value.len() } else { 0 };
        self.check_room(1, key.len() + value)?;
        let key = self.keep(key);
        let expected = match expected {
            Expected::Absent => RequiredEntry::Absent,
            Expected::Version(version) => RequiredEntry::Version(version),
            Expected::Value(value) => RequiredEntry::Value(self.keep(value)),
        };
        Ok(BatchRequirement { keyspace, key, expected })
    }

    fn append(&mut self, other: &Operations) {
        let count = other.list.len() + other.requirements.len();
        if let Err(error) = self.check_room(count, other.bytes.len()) {
            self.error.get_or_insert(error);
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = |range: &Range<usize>| range.start + start..range.end + start;
        self.list.extend(other.list.iter().map(|operation| BatchStep {
            keyspace: operation.keyspace.clone(),
            key: moved(&operation.key),
            value: operation.value.as_ref().map(moved),
            merges: operation.merges,
            expiry: operation.expiry,
            range: operation.range.as_ref().map(|range| match range {
                DeletedRange::Between { from_first, until } => DeletedRange::Between {
                    from_first: *from_first,
                    until: until.as_ref().map(moved),
                },
                DeletedRange::Prefix => DeletedRange::Prefix,
            }),
        }));
        self.requirements.extend(other.requirements.iter().map(|requirement| BatchRequirement {
            keyspace: requirement.keyspace.clone(),
            key: moved(&requirement.key),
            expected: match &requirement.expected {
                RequiredEntry::Value(value) => RequiredEntry::Value(moved(value)),
                other => other.clone(),
            },
        }));
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
    }

    /// Returns a batch of the engine, or the first error of the calls that added to this one.
    pub fn for_engine(&self, default: &Keyspace) -> Result<WriteBatch> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let mut batch = WriteBatch::new();
        for requirement in &self.requirements {
            let expected = match &requirement.expected {
                RequiredEntry::Absent => Expected::Absent,
                RequiredEntry::Version(version) => Expected::Version(*version),
                RequiredEntry::Value(value) => Expected::Value(&self.bytes[value.clone()]),
            };
            let key = &self.bytes[requirement.key.clone()];
            batch.require(&requirement.keyspace, key, expected);
        }
        for operation in &self.list {
            let keyspace = operation.keyspace.as_ref().unwrap_or(default);
            let key = &self.bytes[operation.key.clone()];
            let value = operation.value.as_ref().map(|value| &self.bytes[value.clone()]);
            match (value, &operation.range) {
                (Some(operand), _) if operation.merges => batch.merge(keyspace, key, operand),
                (Some(value), _) => match operation.expiry {
                    Some(expiry) => batch.put_expiring(keyspace, key, value, expiry),
                    None => batch.put(keyspace, key, value),
                },
                (None, None) => batch.delete(keyspace, key),
                (None, Some(DeletedRange::Prefix)) => batch.delete_prefix(keyspace, key),
                (None, Some(DeletedRange::Between { from_first, until })) => {
                    let lower = match from_first {
                        true => Bound::Unbounded,
                        false => Bound::Included(key),
                    };
                    let until = until.clone().map(|until| &self.bytes[until]);
                    let upper = until.map_or(Bound::Unbounded, Bound::Excluded);
                    batch.delete_range(keyspace, (lower, upper))
                }
            };
        }
        Ok(batch)
    }
}

impl BatchHandle {
    /// Returns the contents as of now.
    pub fn operations(&self) -> Arc<Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a put, perhaps with an expiry, or a deletion if there is no value. An error is kept for
    /// the write.
    pub fn add(
        &self,
        keyspace: Option<Keyspace>,
        key: Result<&[u8]>,
        value: Result<Option<&[u8]>>,
        expiry: Option<Expiry>,
    ) {
        self.add_value(keyspace, key, value, (false, expiry));
    }

    /// Adds a merge. An error is kept for the write.
    pub fn add_merge(&self, keyspace: Keyspace, key: Result<&[u8]>, operand: Result<&[u8]>) {
        self.add_value(Some(keyspace), key, operand.map(Some), (true, None));
    }

    fn add_value(
        &self,
        keyspace: Option<Keyspace>,
        key: Result<&[u8]>,
        value: Result<Option<&[u8]>>,
        (merges, expiry): (bool, Option<Expiry>),
    ) {
        self.change(|operations| {
            match key.and_then(|key| {
                let value = value?;
                operations.check_room(1, key.len() + value.map_or(0, <[u8]>::len))?;
                Ok((key, value))
            }) {
                Ok((key, value)) => {
                    let key = operations.keep(key);
                    let value = value.map(|value| operations.keep(value));
                    let step = BatchStep { keyspace, key, value, merges, expiry, range: None };
                    operations.list.push(step);
                }
                Err(error) => {
                    operations.error.get_or_insert(error);
                }
            }
        });
    }

    /// Adds the deletion of a range. An error is kept for the write.
    pub fn add_range(&self, keyspace: Keyspace, range: Result<KeyBounds<'_>>) {
        self.change(|operations| {
            let key = |bound: Bound<&[u8]>| match bound {
                Bound::Included(key) | Bound::Excluded(key) => key.len(),
                Bound::Unbounded => 0,
            };
            let range = range.and_then(|range| {
                operations.check_room(1, key(range.0) + key(range.1))?;
                Ok(range)
            });
            match range {
                Ok((lower, upper)) => {
                    let mut keep = |bound: Bound<&[u8]>| match bound {
                        Bound::Included(key) | Bound::Excluded(key) => Some(operations.keep(key)),
                        Bound::Unbounded => None,
                    };
                    let (lower, until) = (keep(lower), keep(upper));
                    let range = Some(DeletedRange::Between { from_first: lower.is_none(), until });
                    let (keyspace, key) = (Some(keyspace), lower.unwrap_or_default());
                    let (value, merges, expiry) = (None, false, None);
                    let step = BatchStep { keyspace, key, value, merges, expiry, range };
                    operations.list.push(step);
                }
                Err(error) => {
                    operations.error.get_or_insert(error);
                }
            }
        });
    }

    /// Adds the deletion of what begins with a prefix. An error is kept for the write.
    pub fn add_prefix(&self, keyspace: Keyspace, prefix: Result<&[u8]>) {
        self.change(|operations| {
            let prefix = prefix.and_then(|prefix| {
                operations.check_room(1, prefix.len())?;
                Ok(prefix)
            });
            match prefix {
                Ok(prefix) => {
                    let (keyspace, key) = (Some(keyspace), operations.keep(prefix));
                    let (value, merges, expiry) = (None, false, None);
                    let range = Some(DeletedRange::Prefix);
                    let step = BatchStep { keyspace, key, value, merges, expiry, range };
                    operations.list.push(step);
                }
                Err(error) => {
                    operations.error.get_or_insert(error);
                }
            }
        });
    }

    /// Adds a requirement. An error is kept for the write.
    pub fn require(&self, keyspace: Keyspace, key: Result<&[u8]>, expected: Result<Expected<'_>>) {
        self.change(|operations| {
            match key.and_then(|key| operations.keep_requirement(keyspace, key, expected?)) {
                Ok(requirement) => operations.requirements.push(requirement),
                Err(error) => {
                    operations.error.get_or_insert(error);
                }
            }
        });
    }

    /// Keeps `error` for the write, unless there is an earlier one.
    pub fn refuse(&self, error: Error) {
        self.change(|operations| {
            operations.error.get_or_insert(error);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Operations)) {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut operations));
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_create() -> Handle<BatchHandle> {
    quiet(Handle::NULL, || Handle::new(BatchHandle::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_destroy(batch: Handle<BatchHandle>) {
    quiet((), || {
        batch.close();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_clear(batch: Handle<BatchHandle>) {
    quiet((), || {
        batch.pin()?.change(|operations| {
            operations.list.clear();
            operations.requirements.clear();
            operations.bytes.clear();
            operations.error = None;
        });
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_put(
    batch: Handle<BatchHandle>,
    key: Bytes,
    klen: usize,
    val: Bytes,
    vlen: usize,
) {
    quiet((), || {
        batch.pin()?.add(None, key.key(klen), val.value(vlen).map(Some), None);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_delete(batch: Handle<BatchHandle>, key: Bytes, klen: usize) {
    quiet((), || {
        batch.pin()?.add(None, key.key(klen), Ok(None), None);
        Ok(())
    });
}

type OnPut = extern "C-unwind" fn(CallbackState, *const c_char, usize, *const c_char, usize);
type OnDelete = extern "C-unwind" fn(CallbackState, *const c_char, usize);

/// Calls back for every operation, in order. Nothing is locked or pinned meanwhile, so the
/// callbacks may use the batch; changes they make are not iterated. An exception that a callback
/// throws reaches the caller.
#[unsafe(no_mangle)]
extern "C-unwind" fn leveldb_writebatch_iterate(
    batch: Handle<BatchHandle>,
    state: CallbackState,
    put: Option<OnPut>,
    deleted: Option<OnDelete>,
) {
    let operations = quiet(Arc::default(), || Ok(batch.pin()?.operations()));
    for operation in &operations.list {
        let key = &operations.bytes[operation.key.clone()];
        if operation.range.is_some() || operation.merges {
            // LevelDB's callbacks know neither ranges nor merges: an operand that is taken for the
            // value of a put would replace what it belongs to.
            continue;
        }
        match (&operation.value, put, deleted) {
            (Some(value), Some(put), _) => {
                let value = &operations.bytes[value.clone()];
                put(state, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
            }
            (None, _, Some(deleted)) => deleted(state, key.as_ptr().cast(), key.len()),
            _ => {}
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_append(
    destination: Handle<BatchHandle>,
    source: Handle<BatchHandle>,
) {
    quiet((), || {
        let source = source.pin()?.operations();
        destination.pin()?.change(|operations| operations.append(&source));
        Ok(())
    });
}
