//! Snapshots: a pinned moment of all keyspaces. One that outlives its database only holds memory.

use crate::db::Database;
use crate::fork::OfProcess;
use crate::guard::quiet;
use crate::handle::Handle;
use engine::Snapshot;

/// A snapshot as C holds it.
pub struct SnapshotHandle {
    /// What to read at.
    pub snapshot: OfProcess<Snapshot>,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_snapshot(db: Handle<Database>) -> Handle<SnapshotHandle> {
    quiet(Handle::NULL, || {
        let snapshot = OfProcess::new(db.pin()?.engine()?.snapshot());
        Ok(Handle::new(SnapshotHandle { snapshot }))
    })
}

/// The database is named for LevelDB's sake; it may be closed already.
#[unsafe(no_mangle)]
extern "C" fn leveldb_release_snapshot(_: Handle<Database>, snapshot: Handle<SnapshotHandle>) {
    quiet((), || {
        snapshot.close();
        Ok(())
    });
}
