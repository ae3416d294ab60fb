//! Compaction filters: code of the user's that decides what a compaction keeps.
//!
//! Place in the data's way: `compaction/filtering.rs` asks the filter of a keyspace about entries
//! that a compaction would otherwise copy. No lock is held meanwhile.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, Result};
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::ValuePointer;
use crate::base::value::Value;
use crate::env::clock::SystemTime;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Code of the user's that compactions of a keyspace ask about each entry that they would keep: it
/// stays, it goes, or it gets another value. So data that has become useless goes without a write,
/// and values can be brought to a new form.
///
/// A filter must be a function of the entry alone: it is asked again whenever the entry is
/// compacted, never in a fixed order, by several threads at once, and by an attempt that is given
/// up, too. What it changes must be kept when it is asked about the outcome.
///
/// Flushes do not ask it, nor does a table that is moved to the next level as it is. So an entry is
/// asked about at some time after its flush, and by [`Db::compact`](crate::Db::compact) at the
/// latest. Until then, readers see the entry as it was written. Entries that a snapshot, a
/// transaction or a cursor can see when the compaction begins are kept without asking, and those
/// that are opened later see until their end what they saw first. A value that the compaction
/// itself merges from operands is asked about by the next one that comes across it. An older value
/// that newer ones hide from everybody may be asked about, too.
///
/// A change is no write: the key keeps its version and its expiry, and the change feed does not
/// tell it. A transaction that has read the old value does not conflict with it, and neither does a
/// compare-and-set between its read and its write.
///
/// If the filter panics, the compaction changes nothing, and the database turns read-only with an
/// error that names the filter, as it does after any panic of the user's code in the background.
///
/// [`Builder::compaction_filter`](crate::Builder::compaction_filter) sets one. It is not recorded:
/// while the database is open without it, nothing is filtered.
///
/// ```
/// # let dir = cleavedb::doc_dir("compaction-filter");
/// use cleavedb::{CompactionFilter, Db, FilterDecision, FilteredEntry, Result};
/// use std::sync::Arc;
///
/// /// Drops what belongs to closed accounts.
/// struct ClosedAccounts(Vec<&'static str>);
///
/// impl CompactionFilter for ClosedAccounts {
///     fn name(&self) -> &str {
///         "example.ClosedAccounts"
///     }
///     fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
///         let is_closed = |account: &&str| entry.key().starts_with(account.as_bytes());
///         let goes = self.0.iter().any(is_closed);
///         Ok(if goes { FilterDecision::Drop } else { FilterDecision::Keep })
///     }
/// }
///
/// let filter = Arc::new(ClosedAccounts(vec!["ada/"]));
/// let db = Db::builder(&dir).compaction_filter("default", filter).open()?;
/// let accounts = db.default_keyspace();
/// accounts.put("ada/1", "a letter")?;
/// accounts.put("bob/1", "a bill")?;
/// db.compact()?;
/// assert!(accounts.get("ada/1")?.is_none());
/// assert_eq!(accounts.get("bob/1")?.unwrap(), "a bill");
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub trait CompactionFilter: Send + Sync {
    /// Returns the name of the filter, which errors mention.
    fn name(&self) -> &str;

    /// Decides about an entry. An error, such as that of [`FilteredEntry::value`], ends the
    /// compaction, which is tried again later; nothing has changed then.
    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision>;
}

/// The decision of a [`CompactionFilter`] about an entry.
///
/// ```
/// use cleavedb::FilterDecision;
/// let decision = FilterDecision::Change(b"new".to_vec());
/// assert_ne!(decision, FilterDecision::Keep);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterDecision {
    /// The entry stays as it is.
    Keep,
    /// The entry goes, and its key has no value any more. Older values do not come back.
    Drop,
    /// The entry gets this value. It keeps its sequence number and the time at which it expires.
    Change(Vec<u8>),
}

/// An entry that a [`CompactionFilter`] is asked about.
///
/// ```
/// use cleavedb::{FilterDecision, FilteredEntry, Result};
///
/// /// Reads the value only of keys that begin with `log/`.
/// fn drop_empty_logs(entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
///     let goes = entry.key().starts_with(b"log/") && entry.value()?.is_empty();
///     Ok(if goes { FilterDecision::Drop } else { FilterDecision::Keep })
/// }
/// ```
pub struct FilteredEntry<'a> {
    key: &'a [u8],
    seqno: SeqNo,
    payload: Payload<'a>,
    level: usize,
    read: &'a dyn Fn(ValuePointer) -> Result<Value>,
    /// What was read of a separated value.
    separated: OnceCell<Result<Value>>,
}

impl<'a> FilteredEntry<'a> {
    /// Makes the entry that a compaction to `level` asks about. `read` reads a separated value.
    pub(crate) fn new(
        key: &'a [u8],
        trailer: Trailer,
        payload: &'a [u8],
        level: usize,
        read: &'a dyn Fn(ValuePointer) -> Result<Value>,
    ) -> Result<Self> {
        let payload = Payload::decode(trailer.kind()?, payload)?;
        let separated = OnceCell::new();
        Ok(FilteredEntry { key, seqno: trailer.seqno(), payload, level, read, separated })
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        self.key
    }

    /// Returns the sequence number, which is the version of the key.
    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }

    /// Returns the time at which the entry expires, if it does.
    pub fn expires_at(&self) -> Option<SystemTime> {
        let since_1970 = Duration::from_millis(self.payload.deadline?.0);
        SystemTime::UNIX_EPOCH.checked_add(since_1970)
    }

    /// Returns the level to which the compaction goes.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Returns true if the value is in a segment, so that [`FilteredEntry::value`] has to read it.
    pub fn is_separated(&self) -> bool {
        matches!(self.payload.slot, Slot::Pointer(_))
    }

    /// Returns the value. A separated value costs a read, once. If that fails the compaction does,
    /// whatever the filter decides.
    pub fn value(&self) -> Result<&[u8]> {
        match self.payload.slot {
            Slot::Inline(value) => Ok(value),
            Slot::Delete => Err(Error::internal("a filter is asked about a tombstone")),
            Slot::Pointer(pointer) => {
                let read = self.separated.get_or_init(|| (self.read)(pointer));
                read.as_ref().map(|value| &value[..]).map_err(Error::clone)
            }
        }
    }

    /// Returns the payload.
    pub(crate) fn payload(&self) -> Payload<'a> {
        self.payload
    }

    /// Returns the error of a read of the value that failed.
    pub(crate) fn failed_read(&self) -> Option<Error> {
        self.separated.get()?.as_ref().err().cloned()
    }
}

impl std::fmt::Debug for FilteredEntry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilteredEntry")
            .field("key", &self.key.escape_ascii().to_string())
            .field("seqno", &self.seqno)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

/// The filters of the keyspaces, by name.
pub type CompactionFilters = BTreeMap<String, Arc<dyn CompactionFilter>>;
