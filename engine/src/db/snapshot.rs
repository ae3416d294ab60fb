//! A pinned moment of the whole database.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::db::Core;
use crate::version::pins::{Pin, PinKind, PinOwner};
use crate::version::snapshots::SnapshotPin;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What all keyspaces held at one moment. Cheap to take and to clone; dropping the last clone
/// lets go of what only it could see.
///
/// Whatever reads a keyspace reads it at a snapshot if [`ReadOptions::snapshot`] names it.
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
    core: Arc<Core>,
    pin: Arc<SnapshotPin>,
}

impl Snapshot {
    pub(crate) fn take(core: &Arc<Core>) -> Self {
        let pin = core.snapshots.take(core.env.clock.now());
        Snapshot { core: core.clone(), pin: Arc::new(pin) }
    }

    /// The moment that an iterator over `keyspace` walks.
    pub(super) fn for_iterator(core: &Arc<Core>, keyspace: KeyspaceId) -> Self {
        let now = core.env.clock.now();
        let pin = core.snapshots.take_for(PinKind::Iterator, Some(keyspace), now);
        Snapshot { core: core.clone(), pin: Arc::new(pin) }
    }

    /// Notes an iterator over `keyspace` that walks this moment.
    pub(super) fn pin_iterator(&self, keyspace: KeyspaceId) -> Pin {
        let (seqno, since) = (self.seqno(), self.core.env.clock.now());
        let owner = PinOwner { kind: PinKind::Iterator, keyspace: Some(keyspace), seqno, since };
        self.core.snapshots.pins.register(owner, None)
    }

    /// Its entry in the registry of who holds on.
    pub(super) fn pin(&self) -> &Pin {
        &self.pin.pin
    }

    /// It sees every commit up to this number.
    pub fn seqno(&self) -> SeqNo {
        self.pin.seqno
    }

    /// How long ago it was taken.
    pub fn age(&self) -> Duration {
        self.core.env.clock.now().saturating_sub(self.pin.taken)
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
