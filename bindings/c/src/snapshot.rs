//! Snapshots of all keyspaces. A snapshot that outlives its database holds only memory.

use crate::db::Database;
use crate::guard::quiet;
use crate::handle::Handle;
use engine::{OfProcess, Snapshot};

/// A snapshot as C holds it.
pub struct SnapshotHandle {
    /// The engine's snapshot.
    pub snapshot: OfProcess<Snapshot>,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_snapshot(db: Handle<Database>) -> Handle<SnapshotHandle> {
    quiet(Handle::NULL, || {
        let snapshot = OfProcess::new(db.pin()?.engine()?.snapshot());
        Handle::new(SnapshotHandle { snapshot })
    })
}

/// Releases a snapshot. The database is an argument because LevelDB has it; it may be closed.
#[unsafe(no_mangle)]
extern "C" fn leveldb_release_snapshot(_: Handle<Database>, snapshot: Handle<SnapshotHandle>) {
    quiet((), || {
        snapshot.close();
        Ok(())
    });
}
