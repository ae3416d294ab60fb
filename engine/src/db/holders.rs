//! Counts who holds a database open, so that a program whose database does not close can find out
//! why.

use crate::base::error::Result;
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

/// A user's hold on an open database. The last one that goes closes it, on its own thread. So
/// whoever drops it can open the database anew at once, even if a thread of the engine still has
/// the core in hand.
pub(crate) struct CoreHold {
    core: OfProcess<Arc<Core>>,
    /// False for holds of the engine's own threads, which do not count.
    is_users: bool,
}

impl CoreHold {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        core.holds.fetch_add(1, Ordering::Relaxed);
        CoreHold { core: OfProcess::new(core), is_users: true }
    }

    /// Returns the core, or an error in a child of the process that opened the database.
    pub(crate) fn get(&self) -> Result<&Arc<Core>> {
        self.core.get()
    }
}

impl Clone for CoreHold {
    fn clone(&self) -> Self {
        self.holds.fetch_add(usize::from(self.is_users), Ordering::Relaxed);
        CoreHold { core: self.core.clone(), is_users: self.is_users }
    }
}

impl Drop for CoreHold {
    fn drop(&mut self) {
        // What other holds did to the core before they went happened before it closes.
        if self.is_users && self.holds.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Nobody is left to return an error to; what was committed is in the log all the same.
            let _ = self.close();
        }
    }
}

impl Deref for CoreHold {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        &self.core
    }
}

/// A counted handle of a user on the database.
pub(crate) struct CoreHandle(CoreHold);

impl CoreHandle {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        core.handles.fetch_add(1, Ordering::Relaxed);
        CoreHandle(CoreHold::new(core))
    }

    /// Returns a handle for a thread of the engine, which does not count and keeps nothing open.
    pub(super) fn of_engine(core: Arc<Core>) -> Self {
        CoreHandle(CoreHold { core: OfProcess::new(core), is_users: false })
    }
}

impl Clone for CoreHandle {
    fn clone(&self) -> Self {
        self.0.handles.fetch_add(usize::from(self.0.is_users), Ordering::Relaxed);
        CoreHandle(self.0.clone())
    }
}

impl Drop for CoreHandle {
    fn drop(&mut self) {
        let counted = usize::from(self.0.is_users);
        let before = self.0.handles.fetch_sub(counted, Ordering::Relaxed);
        debug_assert!(before >= counted, "each handle is counted once");
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
