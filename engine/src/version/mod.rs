//! Floor 4: the set of live files. Only this room decides which files exist.
//!
//! A [`Version`] is the immutable set of live tables and segments; an [`edit::Edit`] changes one
//! version into the next, through the manifest. A [`view::View`] is what a reader holds: the
//! memtables of one keyspace and a version. A file that a reader can reach is never removed: it is
//! unlinked only after the last version, memtable or view that names it was dropped (I5).
//!
//! Locks, in the order they are taken: the set's `manifest`, held while an edit is written, since
//! edits are serial; its `keyspaces`; the list of live snapshots, while a view is published in
//! which a compaction filter has changed something; a keyspace's `view_update`. None is held during
//! the I/O of a reader. Leaves, under which no other lock is taken: those of [`pins`], of
//! [`pinning`], of the purge queue and of the versions alive. (`hard_links` of the set comes before
//! all of them.)

pub mod alive;
pub mod batch_places;
pub mod build;
pub mod built_in_merges;
pub mod compaction_filter;
pub mod edit;
pub mod entries;
pub mod expiry;
pub mod files;
mod filtered;
pub mod garbage;
pub mod health;
pub mod job;
pub mod keys;
pub mod levels;
pub mod log_pins;
pub mod manifest;
pub mod manifest_reader;
pub mod merge_operator;
pub mod merging;
pub mod owner;
pub mod pinning;
pub mod pins;
pub mod placing;
pub mod references;
pub mod resolve;
pub mod runtime;
pub mod segment_output;
pub mod separation;
pub mod set;
pub mod settings;
pub mod snapshots;
pub mod spared;
#[cfg(test)]
mod tests;
pub mod unnamed;
pub mod view;
pub mod walks;

use crate::base::expiry::Deadline;
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId, TableId};
use crate::base::size::FILE_BLOCK_BYTES;
use crate::segment::SegmentKind;
use alive::AliveMark;
use files::names::FileName;
use files::{RelocationHandle, SegmentHandle, TableHandle};
use garbage::SegmentUses;
use levels::Levels;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A position in the log: a segment and a byte offset in it at which a frame starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition {
    /// The id of the segment.
    pub segment: SegmentId,
    /// The byte offset in the segment; 0 stands for its first frame.
    pub offset: u64,
}

/// The state of a keyspace as the manifest records it.
#[derive(Debug, Clone)]
pub struct KeyspaceVersion {
    /// The keyspace's name in the API.
    pub name: String,
    /// The name of the comparator of its keys.
    pub order: String,
    /// The settings as text, see [`settings::KeyspaceOptions`].
    pub settings: String,
    /// Every entry up to this sequence number is in tables; replay skips it.
    pub flushed: SeqNo,
    /// The tables by level.
    pub levels: Arc<Levels>,
}

/// The state of a segment as the manifest records it.
#[derive(Clone)]
pub struct LiveSegment {
    /// The handle through which the segment is read.
    pub handle: Arc<SegmentHandle>,
    /// The final length in bytes once the segment is sealed, all of it durable; else `None`.
    pub sealed: Option<u64>,
    /// Ranges that were punched or are going to be; no live record is in them.
    pub holes: Holes,
}

impl LiveSegment {
    /// Returns the bytes that the file takes on disk once its holes are punched; `None` while it is
    /// being written and may be preallocated.
    pub fn allocated(&self) -> Option<u64> {
        let length = self.sealed?.next_multiple_of(FILE_BLOCK_BYTES);
        Some(length.saturating_sub(hole_bytes(&self.holes)))
    }

    /// Returns true if any of these bytes lies in a hole, so that its content may be lost.
    pub fn is_punched(&self, offset: u64, length: u64) -> bool {
        is_punched(&self.holes, offset, length)
    }
}

/// Returns the bytes of all holes together.
pub fn hole_bytes(holes: &Holes) -> u64 {
    holes.iter().map(|&(_, len)| len).sum()
}

/// Returns true if any of `length` bytes from `offset` on lies in one of `holes`.
pub fn is_punched(holes: &Holes, offset: u64, length: u64) -> bool {
    let end = offset.saturating_add(length);
    let next = holes.partition_point(|(hole, len)| hole + len <= offset);
    holes.get(next).is_some_and(|(hole, _)| *hole < end)
}

/// The holes of a segment as pairs of offset and length: ascending, disjoint, in whole units of
/// [`HOLE_UNIT`] bytes.
pub type Holes = Arc<[(u64, u64)]>;

/// Holes begin and end at multiples of this many bytes.
pub const HOLE_UNIT: u64 = FILE_BLOCK_BYTES;

/// An immutable set of live files. Clones share the parts that did not change.
#[derive(Clone, Default)]
pub struct Version {
    /// The keyspaces by id.
    pub keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceVersion>>,
    /// The segments by id, both log and sorted ones.
    pub segments: Arc<BTreeMap<SegmentId, LiveSegment>>,
    /// The relocations by freed segment. Each says where that segment's records went, and stays for
    /// as long as a table may still name the segment.
    pub relocations: Arc<BTreeMap<SegmentId, Arc<RelocationHandle>>>,
    /// The exact number of records and bytes that the tables reference in each segment.
    pub uses: Arc<SegmentUses>,
    /// The position at which replay starts.
    pub head: LogPosition,
    /// The greatest deadline by which an entry was dropped; zero if none was.
    pub dropped_until: Deadline,
    /// The number of edits since the opening that led to this version; newer versions have greater
    /// numbers.
    pub number: u64,
    /// The version counts as alive for as long as this mark is held.
    pub mark: Arc<AliveMark>,
}

impl Version {
    /// Returns the state of a keyspace; `None` if it was dropped.
    pub fn keyspace(&self, id: KeyspaceId) -> Option<&Arc<KeyspaceVersion>> {
        self.keyspaces.get(&id)
    }

    /// Returns true if this segment is a part of the log.
    pub fn is_log(&self, id: SegmentId) -> bool {
        let live = self.segments.get(&id);
        live.is_some_and(|live| live.handle.segment.kind() == SegmentKind::Log)
    }

    /// Returns the ids of all tables.
    pub fn table_ids(&self) -> FxHashSet<TableId> {
        let levels = self.keyspaces.values().map(|keyspace| &keyspace.levels);
        levels.flat_map(|levels| levels.tables().map(|(_, table)| table.meta.id)).collect()
    }

    /// Returns the newest sequence number of an entry in a table; 0 if there is none. Costs a look
    /// at all tables.
    pub fn newest_in_tables(&self) -> SeqNo {
        let tables = self.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
        tables.map(|(_, table)| table.meta.summary.max_seqno).max().unwrap_or(0)
    }

    /// Takes over the handles that another version of the same database has of the same files, with
    /// what they have open, in place of its own.
    pub fn share_handles_of(&mut self, other: &Version) {
        let known = other.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
        let known: FxHashMap<TableId, &Arc<TableHandle>> =
            known.map(|(_, table)| (table.meta.id, table)).collect();
        for keyspace in self.keyspaces.values_mut() {
            Arc::make_mut(&mut Arc::make_mut(keyspace).levels).share_handles(&known);
        }
        for (id, live) in Arc::make_mut(&mut self.segments) {
            let same = other.segments.get(id).map(|it| &it.handle);
            let same = same.filter(|it| it.segment.identity() == live.handle.segment.identity());
            live.handle = same.unwrap_or(&live.handle).clone();
        }
        for (id, relocation) in Arc::make_mut(&mut self.relocations) {
            let same = other.relocations.get(id).filter(|it| it.meta == relocation.meta);
            *relocation = same.unwrap_or(relocation).clone();
        }
    }

    /// Returns true if this version has the table, segment or relocation of this name. Costs a look
    /// at all tables, or at all relocations.
    pub fn names(&self, name: FileName) -> bool {
        match name {
            FileName::Table(id) => {
                let mut levels = self.keyspaces.values().map(|keyspace| &keyspace.levels);
                levels.any(|levels| levels.tables().any(|(_, table)| table.meta.id == id))
            }
            FileName::Segment(id) => self.segments.contains_key(&id),
            FileName::Relocation(id) => self.relocations.values().any(|it| it.meta.id == id),
            _ => false,
        }
    }

    /// Returns the paths of all files of this version.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let tables = self.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
        let tables = tables.map(|(_, table)| table.path().to_path_buf());
        let segments = self.segments.values().map(|live| live.handle.path().to_path_buf());
        let relocations =
            self.relocations.values().filter_map(|it| it.path().map(Path::to_path_buf));
        tables.chain(segments).chain(relocations)
    }

    /// Returns the bytes of all files of this version, but at most `enough`; it stops adding there.
    pub fn bytes_up_to(&self, enough: u64) -> u64 {
        let segments = self
            .segments
            .values()
            .map(|live| live.sealed.unwrap_or_else(|| live.handle.segment.appended()));
        let tables = self.keyspaces.values().flat_map(|keyspace| keyspace.levels.tables());
        let tables = tables.map(|(_, table)| table.meta.bytes);
        let relocations = self.relocations.values().map(|relocation| relocation.meta.bytes);
        let mut sum = 0u64;
        segments
            .chain(tables)
            .chain(relocations)
            .take_while(|bytes| {
                // I7: lengths are from files.
                sum = bytes.saturating_add(sum);
                sum < enough
            })
            .for_each(drop);
        sum.min(enough)
    }
}
