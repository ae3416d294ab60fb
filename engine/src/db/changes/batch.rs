//! What a consumer of the change feed gets: the changes of one commit.

use crate::base::bounds::Bounds;
use crate::base::compression::{Codec, decompress};
use crate::base::error::Result;
use crate::base::expiry::Deadline;
use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::db::key_range::ends_of;
use crate::env::clock::SystemTime;
use crate::segment::{Frame, RecordKind, RecordView};
use crate::version::Version;
use rustc_hash::FxHashMap;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Duration;

/// The changes of one commit: of a put, a batch, or a transaction. It is in memory as a whole.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("change-batch"))?;
/// use cleavedb::WriteBatch;
/// let words = db.default_keyspace();
/// let mut batch = WriteBatch::new();
/// batch.put(&words, "one", "eins").delete(&words, "two");
/// db.write(batch)?;
/// let batch = db.changes(0)?.next_batch()?.unwrap();
/// assert_eq!(batch.len(), 2);
/// assert_eq!((batch.first_seqno(), batch.last_seqno()), (1, 2));
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct ChangeBatch {
    first_seqno: SeqNo,
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    records: Vec<StoredChange>,
}

/// One change, with the places of its parts in the bytes of the batch.
#[derive(Clone)]
struct StoredChange {
    keyspace: KeyspaceId,
    name: Option<Arc<str>>,
    key: Range<usize>,
    value: Range<usize>,
    kind: RecordKind,
    deadline: Option<Deadline>,
    /// The range that was deleted, if this is such a deletion.
    range: Option<Bounds>,
}

/// One change of a batch.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("change"))?;
/// let users = db.create_keyspace("users")?;
/// users.put("ada", "1815")?;
/// let batch = db.changes(0)?.next_batch()?.unwrap();
/// let change = batch.iter().next().unwrap();
/// assert_eq!((change.keyspace, change.key), (Some("users"), &b"ada"[..]));
/// assert_eq!(change.seqno, db.visible_seqno());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyChange<'a> {
    /// The sequence number: the version that [`Keyspace::get_versioned`] returns.
    ///
    /// [`Keyspace::get_versioned`]: crate::Keyspace::get_versioned
    pub seqno: SeqNo,
    /// The name of the keyspace, or `None` if it was dropped by the time the batch was handed out.
    pub keyspace: Option<&'a str>,
    /// The id of the keyspace. An id is used once: a keyspace that is created later under the same
    /// name has another.
    pub keyspace_id: u64,
    /// The key.
    pub key: &'a [u8],
    /// What was done to the key.
    pub what: Changed<'a>,
}

/// What a change did to its key.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("changed"))?;
/// use cleavedb::Changed;
/// let words = db.default_keyspace();
/// words.put("one", "eins")?;
/// let batch = db.changes(0)?.next_batch()?.unwrap();
/// let what = batch.iter().next().unwrap().what;
/// assert_eq!(what, Changed::Put { value: b"eins", deadline: None });
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed<'a> {
    /// The key got this value.
    Put {
        /// The value, decompressed.
        value: &'a [u8],
        /// When the value expires; `None` if it never does. It may have passed.
        deadline: Option<SystemTime>,
    },
    /// This operand was merged with what was under the key, by the keyspace's merge operator.
    Merge {
        /// The operand, decompressed.
        operand: &'a [u8],
    },
    /// The key has no value any more.
    Delete,
    /// All keys of a range have no value any more: those that had one before this change. The
    /// change's key is the lower end, empty if there is none.
    DeleteRange {
        /// The lower end.
        lower: Bound<&'a [u8]>,
        /// The upper end.
        upper: Bound<&'a [u8]>,
    },
    /// Sorted tables with keys of a range were ingested ([`Keyspace::ingest`]). The log does not
    /// have what is in them: a consumer reads the range anew. In rare cases, after a crash or a
    /// full disk at that moment, nothing has changed. The change's key is the lower end.
    ///
    /// [`Keyspace::ingest`]: crate::Keyspace::ingest
    Ingested {
        /// The lower end: the first key that was ingested.
        lower: Bound<&'a [u8]>,
        /// The upper end: the last key that was ingested.
        upper: Bound<&'a [u8]>,
    },
}

impl fmt::Debug for Changed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Changed::Put { value, deadline } => f
                .debug_struct("Put")
                .field("value", &format_args!("\"{}\"", value.escape_ascii()))
                .field("deadline", deadline)
                .finish(),
            Changed::Merge { operand } => f
                .debug_struct("Merge")
                .field("operand", &format_args!("\"{}\"", operand.escape_ascii()))
                .finish(),
            Changed::Delete => f.write_str("Delete"),
            Changed::DeleteRange { lower, upper } => {
                f.debug_struct("DeleteRange").field("lower", lower).field("upper", upper).finish()
            }
            Changed::Ingested { lower, upper } => {
                f.debug_struct("Ingested").field("lower", lower).field("upper", upper).finish()
            }
        }
    }
}

/// The names of keyspaces that a consumer has met.
#[derive(Default)]
pub(super) struct KeyspaceNames(FxHashMap<KeyspaceId, Arc<str>>);

impl KeyspaceNames {
    fn of(&mut self, id: KeyspaceId, version: &Version) -> Option<Arc<str>> {
        let Some(keyspace) = version.keyspace(id) else {
            self.0.remove(&id);
            return None;
        };
        let name = self.0.entry(id).or_insert_with(|| keyspace.name.as_str().into());
        Some(name.clone())
    }
}

impl ChangeBatch {
    /// Copies a frame of the log. `version` has the names of keyspaces.
    pub(super) fn of(
        frame: &Frame<'_>,
        names: &mut KeyspaceNames,
        version: &Version,
    ) -> Result<ChangeBatch> {
        // The sum is bounded by what the frame's records say, and these were verified (I7); but
        // compressed values are larger than the frame.
        let stored = |record: &RecordView<'_>| record.key.len() + record.value.len();
        let mut bytes = Vec::with_capacity(frame.records.iter().map(stored).sum());
        let mut records: Vec<StoredChange> = Vec::with_capacity(frame.records.len());
        for record in &frame.records {
            let name = match records.last() {
                Some(last) if last.keyspace == record.keyspace => last.name.clone(),
                _ => names.of(record.keyspace, version),
            };
            let start = bytes.len();
            let range = if record.kind.has_range() { Some(record.range()?) } else { None };
            bytes.extend_from_slice(record.key);
            let middle = bytes.len();
            if record.codec == Codec::None {
                bytes.extend_from_slice(record.value);
            } else {
                let raw_len = record.raw_len as usize;
                bytes.extend_from_slice(&decompress(record.codec, record.value, raw_len)?);
            }
            debug_assert_eq!(bytes.len() - middle, record.raw_len as usize, "all of it is copied");
            records.push(StoredChange {
                keyspace: record.keyspace,
                name,
                key: start..middle,
                value: middle..bytes.len(),
                kind: record.kind,
                deadline: record.deadline,
                range,
            });
        }
        Ok(ChangeBatch { first_seqno: frame.header.first_seqno, bytes, records })
    }

    /// Returns the sequence number of the first change.
    pub fn first_seqno(&self) -> SeqNo {
        self.first_seqno
    }

    /// Returns the sequence number of the last change: what a consumer that has dealt with the
    /// batch passes to [`Db::changes`](crate::Db::changes) the next time.
    pub fn last_seqno(&self) -> SeqNo {
        self.first_seqno + self.records.len() as u64 - 1
    }

    /// Returns the number of changes. A batch has one at least.
    #[expect(clippy::len_without_is_empty, reason = "no commit is empty")]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Iterates over the changes in their order. A key may have several; the last counts.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("change-batch-iter"))?;
    /// db.default_keyspace().put("one", "eins")?;
    /// let batch = db.changes(0)?.next_batch()?.unwrap();
    /// assert_eq!(batch.iter().map(|change| change.seqno).collect::<Vec<_>>(), [1]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn iter(&self) -> ChangesOf<'_> {
        ChangesOf { batch: self, next: 0 }
    }

    /// Returns change number `index`, counted from 0, or `None` if the batch has fewer.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("change-batch-get"))?;
    /// db.default_keyspace().put("one", "eins")?;
    /// let batch = db.changes(0)?.next_batch()?.unwrap();
    /// assert_eq!(batch.get(0).unwrap().key, b"one");
    /// assert!(batch.get(1).is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn get(&self, index: usize) -> Option<KeyChange<'_>> {
        let record = self.records.get(index)?;
        let value = &self.bytes[record.value.clone()];
        let what = match record.kind {
            RecordKind::Put => Changed::Put { value, deadline: record.deadline.map(time_of) },
            RecordKind::Merge => Changed::Merge { operand: value },
            RecordKind::Delete => Changed::Delete,
            RecordKind::DeleteRange => {
                let (lower, upper) = ends_of(record.range.as_ref()?);
                Changed::DeleteRange { lower, upper }
            }
            RecordKind::Ingest => {
                let (lower, upper) = ends_of(record.range.as_ref()?);
                Changed::Ingested { lower, upper }
            }
        };
        Some(KeyChange {
            seqno: self.first_seqno + index as u64,
            keyspace: record.name.as_deref(),
            keyspace_id: record.keyspace.0,
            key: &self.bytes[record.key.clone()],
            what,
        })
    }
}

/// Returns the time of a deadline; one beyond all times of the system is the end of the year 9999.
fn time_of(deadline: Deadline) -> SystemTime {
    const END_OF_9999: Duration = Duration::from_secs(253_402_300_799);
    let epoch = SystemTime::UNIX_EPOCH;
    epoch.checked_add(Duration::from_millis(deadline.0)).unwrap_or(epoch + END_OF_9999)
}

impl<'a> IntoIterator for &'a ChangeBatch {
    type Item = KeyChange<'a>;
    type IntoIter = ChangesOf<'a>;

    fn into_iter(self) -> ChangesOf<'a> {
        self.iter()
    }
}

impl fmt::Debug for ChangeBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Iterates over the changes of a batch, in their order; [`ChangeBatch::iter`] makes it.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("changes-of"))?;
/// db.default_keyspace().put("one", "eins")?;
/// let batch = db.changes(0)?.next_batch()?.unwrap();
/// for change in &batch {
///     println!("{}: {}", change.seqno, change.key.escape_ascii());
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ChangesOf<'a> {
    batch: &'a ChangeBatch,
    next: usize,
}

impl<'a> Iterator for ChangesOf<'a> {
    type Item = KeyChange<'a>;

    fn next(&mut self) -> Option<KeyChange<'a>> {
        let change = self.batch.get(self.next)?;
        self.next += 1;
        Some(change)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batch.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for ChangesOf<'_> {}
