//! A snapshot of the whole database.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::db::Core;
use crate::db::holders::CoreHold;
use crate::version::expiry::{Moment, ReadPoint};
use crate::version::pins::{Pin, PinKind, PinOwner};
use crate::version::snapshots::SnapshotPin;
use crate::version::view::View;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A pinned state of all keyspaces at one moment. It is cheap to take and to clone; dropping the
/// last clone frees what only it could see.
///
/// Every read takes a snapshot through [`ReadOptions::snapshot`].
///
/// ```
/// # let dir = cleavedb::doc_dir("snapshot");
/// use cleavedb::ReadOptions;
/// let db = cleavedb::open(&dir)?;
/// let keys = db.default_keyspace();
/// keys.put("a", "1")?;
/// let before = db.snapshot();
/// keys.put("a", "2")?;
/// let then = ReadOptions::new().snapshot(&before);
/// assert_eq!(keys.get_with("a", &then)?.unwrap(), "1");
/// assert_eq!(keys.get("a")?.unwrap(), "2");
/// # Ok::<(), cleavedb::Error>(())
/// ```
///
/// [`ReadOptions::snapshot`]: crate::ReadOptions::snapshot
#[derive(Clone)]
pub struct Snapshot {
    core: CoreHold,
    pin: Arc<SnapshotPin>,
}

impl Snapshot {
    pub(crate) fn take(core: &Arc<Core>) -> Self {
        let pin = core.snapshots.take(core.env.clock.now());
        Snapshot { core: CoreHold::new(core.clone()), pin: Arc::new(pin) }
    }

    /// Takes a snapshot for an iterator over `keyspace` and registers it under that iterator.
    pub(super) fn for_iterator(core: &Arc<Core>, keyspace: KeyspaceId) -> Self {
        let now = core.env.clock.now();
        let pin = core.snapshots.take_for(PinKind::Iterator, Some(keyspace), now);
        Snapshot { core: CoreHold::new(core.clone()), pin: Arc::new(pin) }
    }

    /// Takes a snapshot for a transaction, or for a batch with requirements, and registers it as
    /// that of a transaction.
    pub(super) fn for_transaction(core: &Arc<Core>) -> Self {
        let now = core.env.clock.now();
        let pin = core.snapshots.take_for(PinKind::Transaction, None, now);
        Snapshot { core: CoreHold::new(core.clone()), pin: Arc::new(pin) }
    }

    /// Registers an iterator over `keyspace` that walks this snapshot.
    pub(super) fn pin_iterator(&self, keyspace: KeyspaceId) -> Pin {
        let (seqno, since) = (self.seqno(), self.core.env.clock.now());
        let owner = PinOwner { kind: PinKind::Iterator, keyspace: Some(keyspace), seqno, since };
        self.core.snapshots.pins.register(owner, None)
    }

    /// Returns the snapshot's entry in the registry of pins.
    pub(super) fn pin(&self) -> &Pin {
        &self.pin.pin
    }

    /// Returns the sequence number of the newest commit that the snapshot sees.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("snapshot-seqno"))?;
    /// let before = db.snapshot();
    /// db.default_keyspace().put("one", "eins")?;
    /// assert!(before.seqno() < db.snapshot().seqno());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn seqno(&self) -> SeqNo {
        self.pin.seqno
    }

    /// Returns how long ago the snapshot was taken.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("snapshot-age"))?;
    /// let snapshot = db.snapshot();
    /// if snapshot.age() > std::time::Duration::from_secs(3600) {
    ///     println!("this snapshot has kept old versions for an hour");
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn age(&self) -> Duration {
        self.core.env.clock.now().saturating_sub(self.pin.taken)
    }

    /// Returns what reads at this snapshot see. Deadlines are judged by the time at which it was
    /// taken, so that each read of it returns the same.
    pub(super) fn point(&self) -> ReadPoint<'static> {
        ReadPoint { seqno: self.pin.seqno, moment: Moment::At(self.pin.time) }
    }

    /// Returns the view to read instead of `view`, if a compaction filter has changed since what
    /// the snapshot sees.
    pub(super) fn view_before(&self, view: &View) -> Option<Arc<View>> {
        self.pin.view_before(view)
    }

    pub(crate) fn belongs_to(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.core, core)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("seqno", &self.seqno()).finish_non_exhaustive()
    }
}
