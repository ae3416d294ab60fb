//! Floor 4: what is live. The only room that decides which files exist.
//!
//! A [`Version`] is the immutable set of live tables and segments; an [`edit::Edit`] changes one
//! into the next, through the manifest. A [`view::View`] is what a reader holds: the memtables of
//! one keyspace and a version. Nothing a reader can reach is ever taken away under it: files go
//! when the last version, memtable or view that names them is dropped (I5).
//!
//! Locks, in the order they are taken: the set's `manifest`, held while an edit is written, since
//! edits are serial; its `keyspaces`; a keyspace's `changing`. None is held during the I/O of a
//! reader. Leaves, under which no other is taken: that of [`pins`] and that of the files to purge.

mod alive;
pub mod build;
pub mod edit;
pub mod entries;
pub mod files;
pub mod garbage;
pub mod health;
pub mod job;
pub mod levels;
pub mod manifest;
pub mod manifest_reader;
pub mod owner;
pub mod pins;
pub mod placing;
pub mod references;
pub mod resolve;
pub mod set;
pub mod settings;
pub mod snapshots;
#[cfg(test)]
mod tests;
pub mod view;

use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use alive::AliveMark;
use files::{RelocationHandle, SegmentHandle};
use garbage::SegmentUses;
use levels::Levels;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A place in the log: a segment and a byte offset in it, at which a frame starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition {
    /// The segment.
    pub segment: SegmentId,
    /// Where in it; 0 stands for its first frame.
    pub offset: u64,
}

/// A keyspace as the manifest knows it.
#[derive(Debug, Clone)]
pub struct KeyspaceVersion {
    /// The name users call it by.
    pub name: String,
    /// The name of the order of its keys.
    pub order: String,
    /// Its settings as text, see [`settings::KeyspaceOptions`].
    pub settings: String,
    /// Every entry up to here is in tables: replay skips it.
    pub flushed: SeqNo,
    /// The tables.
    pub levels: Arc<Levels>,
}

/// A segment as the manifest knows it.
#[derive(Clone)]
pub struct LiveSegment {
    /// The open file and its identity.
    pub handle: Arc<SegmentHandle>,
    /// Its final length once sealed; every byte before is durable.
    pub sealed: Option<u64>,
    /// Ranges that were, or are going to be, punched: nothing live is in them.
    pub holes: Holes,
}

impl LiveSegment {
    /// True if any of these bytes is in a hole: what was there may be gone.
    pub fn is_punched(&self, offset: u64, length: u64) -> bool {
        is_punched(&self.holes, offset, length)
    }
}

/// True if any of `length` bytes from `offset` on is in one of `holes`.
pub fn is_punched(holes: &Holes, offset: u64, length: u64) -> bool {
    let end = offset.saturating_add(length);
    let next = holes.partition_point(|(hole, len)| hole + len <= offset);
    holes.get(next).is_some_and(|(hole, _)| *hole < end)
}

/// Ranges of a segment, each an offset and a length: ascending, disjoint, in whole units of
/// [`HOLE_UNIT`] bytes.
pub type Holes = Arc<[(u64, u64)]>;

/// What holes begin and end at multiples of.
pub const HOLE_UNIT: u64 = 4 << 10;

/// An immutable set of live files. Cloning shares what did not change.
#[derive(Clone, Default)]
pub struct Version {
    /// The keyspaces by id.
    pub keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceVersion>>,
    /// The segments by id, log and sorted ones.
    pub segments: Arc<BTreeMap<SegmentId, LiveSegment>>,
    /// Where the records of freed segments went, by the freed segment, for as long as a table may
    /// still name it.
    pub relocations: Arc<BTreeMap<SegmentId, Arc<RelocationHandle>>>,
    /// What the tables reference in each segment, exactly.
    pub uses: Arc<SegmentUses>,
    /// Where replay starts.
    pub head: LogPosition,
    /// How many edits since the opening led here; tells older versions from newer ones.
    pub number: u64,
    /// As long as somebody holds this, the version counts as alive.
    pub mark: Arc<AliveMark>,
}

impl Version {
    /// The tables of a keyspace; `None` if it was dropped.
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceVersion>> {
        self.keyspaces.get(&id)
    }

    /// Bytes of its files; `enough` if there are at least as many, which is found out quickly.
    pub fn bytes_up_to(&self, enough: u64) -> u64 {
        let segments = self
            .segments
            .values()
            .map(|live| live.sealed.unwrap_or_else(|| live.handle.segment.appended()));
        let tables = self.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
        let tables = tables.map(|(_, table)| table.meta.bytes);
        let relocations = self.relocations.values().map(|relocation| relocation.meta.bytes);
        let mut sum = 0;
        segments
            .chain(tables)
            .chain(relocations)
            .take_while(|bytes| {
                sum += bytes;
                sum < enough
            })
            .for_each(drop);
        sum.min(enough)
    }
}
