//! Counts who holds a database open, so that a program whose database does not close can find out
//! why.

use crate::db::{Core, Db};
use crate::env::fork::OfProcess;
use crate::version::pins::PinKind;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of holders of a database, by kind; [`Db::holders`] counts them.
///
/// ```
/// let nobody = cleavedb::Holders::default();
/// assert_eq!(nobody.handles, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Holders {
    /// Handles of the database and of keyspaces.
    pub handles: usize,
    /// Cursors.
    pub cursors: usize,
    /// Scans: iterators over ranges, prefixes and keys.
    pub scans: usize,
    /// Snapshots; clones of one count once.
    pub snapshots: usize,
    /// Transactions that were begun and have not ended.
    pub transactions: usize,
    /// Consumers of the change feed, and pins of the log for them.
    pub changes: usize,
}

/// A counted handle of a user on the database.
pub(crate) struct CoreHandle(OfProcess<Arc<Core>>);

impl CoreHandle {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        core.handles.fetch_add(1, Ordering::Relaxed);
        CoreHandle(OfProcess::new(core))
    }
}

impl Clone for CoreHandle {
    fn clone(&self) -> Self {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        CoreHandle(self.0.clone())
    }
}

impl Drop for CoreHandle {
    fn drop(&mut self) {
        let before = self.0.handles.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "each handle is counted once");
    }
}

impl Deref for CoreHandle {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Db {
    /// Counts who holds the database open now: this handle, and whatever else was made from it and
    /// not dropped yet. Cheap. The report of [`Db::space`] lists them by name and age. In a forked
    /// child nothing is counted.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("holders");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.create_keyspace("words")?;
    /// let cursor = words.cursor()?;
    /// let holders = db.holders();
    /// assert_eq!((holders.handles, holders.cursors, holders.snapshots), (2, 1, 0));
    /// # drop(cursor);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn holders(&self) -> Holders {
        let mut holders = Holders::default();
        if self.core.process.is_gone() {
            return holders;
        }
        for holder in self.core.snapshots.pins.holders() {
            match holder.owner.kind {
                PinKind::Cursor => holders.cursors += 1,
                PinKind::Iterator => holders.scans += 1,
                PinKind::Snapshot => holders.snapshots += 1,
                PinKind::Transaction => holders.transactions += 1,
                PinKind::Changes => holders.changes += 1,
            }
        }
        // A scan has a handle of its keyspace, which is not the user's and so is not counted.
        let handles = self.core.handles.load(Ordering::Relaxed);
        holders.handles = handles.saturating_sub(holders.scans);
        holders
    }
}
