//! A pinned moment of the whole database.

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::base::value::Value;
use crate::db::Core;
use crate::db::cursor::{Cursor, CursorOptions};
use crate::db::keyspace::{Keyspace, ReadOptions};
use crate::version::Version;
use crate::version::pins::PinKind;
use crate::version::snapshots::SnapshotPin;
use std::sync::Arc;
use std::time::Duration;

/// What all keyspaces held at one moment. Cheap to take and to clone; dropping the last clone
/// lets go of what only it could see.
///
/// ```
/// # let dir = cleavedb::doc_dir("snapshot");
/// let db = cleavedb::open(&dir)?;
/// let keys = db.default_keyspace();
/// keys.put("a", "1")?;
/// let before = db.snapshot();
/// keys.put("a", "2")?;
/// assert_eq!(before.get(&keys, "a")?.unwrap(), "1");
/// assert_eq!(keys.get("a")?.unwrap(), "2");
/// # Ok::<(), cleavedb::Error>(())
/// ```
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

    /// Notes that whoever holds it keeps the files of this version, too.
    pub(super) fn keeps(&self, version: &Arc<Version>) {
        self.pin.pin.keeps(version);
    }

    /// The value of a key at that moment.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let options = ReadOptions { snapshot: Some(self.clone()), ..Default::default() };
        keyspace.get_with(key, &options)
    }

    /// A cursor over a keyspace at that moment.
    pub fn cursor(&self, keyspace: &Keyspace) -> Result<Cursor> {
        keyspace.cursor_with(CursorOptions { snapshot: Some(self.clone()), ..Default::default() })
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
