//! The options of one read.

use crate::db::snapshot::Snapshot;
use crate::db::transaction::TransactionState;
use std::sync::Arc;

/// The options of one read: a `get`, or a whole scan.
///
/// Every call that reads a keyspace has a form that ends in `_with` and takes these. New options
/// may be added in any release, so they are set by chained calls. Checksums are no option: whatever
/// is read from a file is always verified before it is used.
///
/// ```
/// # let dir = cleavedb::doc_dir("read-options");
/// use cleavedb::ReadOptions;
/// let db = cleavedb::open(&dir)?;
/// let words = db.default_keyspace();
/// words.put("one", "eins")?;
/// let before = db.snapshot();
/// words.delete("one")?;
///
/// let then = ReadOptions::new().snapshot(&before);
/// assert_eq!(words.get_with("one", &then)?.unwrap(), "eins");
/// assert_eq!(words.iter_with(&then.clone().fill_cache(false)).count(), 1);
/// assert_eq!(words.iter().count(), 0);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The moment to read at. `None`, the default, is now; for a scan, the time it is made. Options
    /// of a transaction read at its moment, whatever this is.
    pub snapshot: Option<Snapshot>,
    /// Keeps the table blocks that are read in the block cache. Default true; false suits a scan
    /// over more than the cache holds, which would push out what other reads need.
    pub fill_cache: bool,
    /// Reads separated values in parallel ahead of a scan, once three values in a row were read, or
    /// at once where the last scans of the keyspace read more. Default true; false suits scans that
    /// stop after a few values. Point reads ignore it.
    pub read_ahead: bool,
    /// The transaction that reads, at its snapshot.
    pub(crate) transaction: Option<Arc<TransactionState>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { snapshot: None, fill_cache: true, read_ahead: true, transaction: None }
    }
}

impl ReadOptions {
    /// Returns the defaults: reads the present, fills the cache, reads ahead.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the options with which a transaction reads.
    pub(super) fn in_transaction(transaction: &Arc<TransactionState>) -> Self {
        let snapshot = Some(transaction.snapshot.clone());
        ReadOptions { snapshot, transaction: Some(transaction.clone()), ..Self::default() }
    }

    /// Returns the snapshot to read at; `None` is now.
    pub(super) fn read_snapshot(&self) -> Option<&Snapshot> {
        let transaction = self.transaction.as_ref();
        transaction.map(|transaction| &transaction.snapshot).or(self.snapshot.as_ref())
    }

    /// Sets [`ReadOptions::snapshot`]: reads what `snapshot` saw, outside of any transaction. The
    /// read fails if the snapshot is of another database.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self.transaction = None;
        self
    }

    /// Sets [`ReadOptions::fill_cache`].
    #[must_use]
    pub fn fill_cache(mut self, fill_cache: bool) -> Self {
        self.fill_cache = fill_cache;
        self
    }

    /// Sets [`ReadOptions::read_ahead`].
    #[must_use]
    pub fn read_ahead(mut self, read_ahead: bool) -> Self {
        self.read_ahead = read_ahead;
        self
    }
}
