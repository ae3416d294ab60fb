//! What a [`SpaceReport`] says: plain data. How it is printed is in `table.rs` and `json.rs`.

use crate::base::key::SeqNo;
use std::time::Duration;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileClass {
    /// Log segments since the head: recovery would replay them.
    Log,
    /// Closed segments behind the head, log and sorted ones: homes of separated values.
    Segments,
    /// Tables: keys, small values, pointers, indexes, filters.
    Tables,
    /// Where values of freed segments have moved to.
    Relocations,
    /// The manifest, CURRENT, OPTIONS and LOCK.
    Manifest,
    /// Bytes cut off a torn log, and what is not CleaveDB's.
    Other,
}

impl FileClass {
    /// Every class.
    pub const ALL: [FileClass; 6] = [
        FileClass::Log,
        FileClass::Segments,
        FileClass::Tables,
        FileClass::Relocations,
        FileClass::Manifest,
        FileClass::Other,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FileClass::Log => "log",
            FileClass::Segments => "segments",
            FileClass::Tables => "tables",
            FileClass::Relocations => "relocations",
            FileClass::Manifest => "manifest",
            FileClass::Other => "other",
        }
    }
}

/// The files of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSpace {
    /// Which.
    pub class: FileClass,
    /// How many files.
    pub files: u64,
    /// Bytes of disk they take.
    pub allocated: u64,
    /// Their lengths.
    pub length: u64,
    /// Of what they take, what a second name shares: usually a checkpoint's. It comes back only
    /// when that is deleted, too.
    pub shared: u64,
}

/// What all blocks of the store hold. The parts add up to what is allocated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceParts {
    /// Records of separated values that reads see now.
    pub live: u64,
    /// Records of separated values that only snapshots and iterators see.
    pub pinned: u64,
    /// All else in closed segments behind the head.
    pub garbage: u64,
    /// All else in the log since the head; needed until the entries in it are in tables.
    pub log: u64,
    /// Live tables.
    pub tree: u64,
    /// Files that were replaced already and wait for their last reader, or for their removal.
    pub obsolete: u64,
    /// Manifest, CURRENT, OPTIONS, LOCK, relocations.
    pub metadata: u64,
    /// Files of running jobs, of crashes, and of others.
    pub other: u64,
}

impl SpaceParts {
    /// The parts by name, in the order of this struct.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("live", self.live),
            ("pinned", self.pinned),
            ("garbage", self.garbage),
            ("log", self.log),
            ("tree", self.tree),
            ("obsolete", self.obsolete),
            ("metadata", self.metadata),
            ("other", self.other),
        ]
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// One keyspace. Live is what reads see now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyspaceSpace {
    /// Its name.
    pub name: String,
    /// Live keys.
    pub entries: u64,
    /// Live keys and values that are in the tree, before the compression of its blocks.
    pub inline_bytes: u64,
    /// Live keys and separated values, as stored.
    pub separated_bytes: u64,
    /// Versions that only snapshots and iterators see.
    pub pinned_entries: u64,
    /// Bytes of those, in the tree and in segments.
    pub pinned_bytes: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of their files.
    pub table_bytes: u64,
    /// Entries in them, tombstones and versions included that nobody sees.
    pub table_entries: u64,
}

impl KeyspaceSpace {
    /// Bytes that reads see now, as stored.
    pub fn live_bytes(&self) -> u64 {
        self.inline_bytes + self.separated_bytes
    }

    /// Bytes of its tables that are taken by entries nobody sees; an estimate from their count.
    pub fn stale_table_bytes(&self) -> u64 {
        let seen = self.entries + self.pinned_entries;
        let stale = self.table_entries.saturating_sub(seen);
        let share = stale as f64 / self.table_entries.max(1) as f64;
        (self.table_bytes as f64 * share) as u64
    }
}

/// Which share of a part of a segment holds what, in percent; together a hundred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceCell {
    /// Records that reads see now.
    pub live: u8,
    /// Records that only snapshots and iterators see.
    pub pinned: u8,
    /// What nobody sees and no recovery needs.
    pub garbage: u8,
    /// Log since the head, besides live and pinned records.
    pub log: u8,
    /// Given back to the file system.
    pub hole: u8,
    /// Prepared for appends, not written yet.
    pub unwritten: u8,
}

/// One segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SegmentSpace {
    /// Its id, as in its file's name.
    pub id: u64,
    /// True if its records are in key order; else they are in the order of arrival.
    pub sorted: bool,
    /// True once it is closed.
    pub sealed: bool,
    /// True if recovery would replay it: it is part of the log since the head.
    pub replay: bool,
    /// Length of its file.
    pub length: u64,
    /// Bytes of disk it takes.
    pub allocated: u64,
    /// Records that reads see now.
    pub live_records: u64,
    /// Bytes of those.
    pub live_bytes: u64,
    /// Bytes of records that only snapshots and iterators see.
    pub pinned_bytes: u64,
    /// Bytes of records that tables name, seen or not.
    pub referenced_bytes: u64,
    /// What it takes besides, unless it is part of the log since the head.
    pub garbage_bytes: u64,
    /// Bytes given back to the file system.
    pub hole_bytes: u64,
    /// How long ago it was written to last, where the file system tells.
    pub age: Option<Duration>,
    /// How many names its file has; more than one means that a checkpoint shares it.
    pub links: u64,
    /// Why its garbage goes or stays.
    pub reason: String,
    /// The segment in up to 64 equal parts.
    pub cells: Vec<SpaceCell>,
}

/// Somebody who keeps space from coming back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderSpace {
    /// "snapshot", "cursor" or "iterator"; "reader" for a read or job that is under way.
    pub kind: &'static str,
    /// The keyspace it walks; `None` if it sees all.
    pub keyspace: Option<String>,
    /// How long it has been there.
    pub age: Duration,
    /// It sees every commit up to this one.
    pub seqno: SeqNo,
    /// Versions that nobody older sees, and that are no longer the newest of their keys.
    pub versions: u64,
    /// Bytes of those, in the tree and in segments.
    pub version_bytes: u64,
    /// Files that were replaced already and that nobody older reads.
    pub files: u64,
    /// Bytes of disk they take.
    pub file_bytes: u64,
}

impl HolderSpace {
    /// What it holds, all together.
    pub fn bytes(&self) -> u64 {
        self.version_bytes + self.file_bytes
    }
}

/// Where the blocks of a database are and what they hold, per keyspace and per segment, who
/// keeps what from coming back, and where the books differ from the disk.
///
/// ```
/// # let dir = cleavedb::doc_dir("space");
/// let db = cleavedb::open(&dir)?;
/// db.default_keyspace().put("key", vec![7; 4096])?;
/// let space = db.space()?;
/// assert!(space.live_bytes > 4096);
/// assert_eq!(space.parts.total(), space.allocated);
/// println!("{space}");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceReport {
    /// It counts every commit up to this one.
    pub seqno: SeqNo,
    /// Bytes of disk that all files of the database take.
    pub allocated: u64,
    /// Keys and values that reads see now, as stored.
    pub live_bytes: u64,
    /// Bytes given back to the file system inside of segments.
    pub hole_bytes: u64,
    /// What [`SpaceReport::amplification`] should not exceed, if garbage is collected.
    pub target: Option<f64>,
    /// What the blocks hold.
    pub parts: SpaceParts,
    /// The files by class.
    pub classes: Vec<ClassSpace>,
    /// The keyspaces by name.
    pub keyspaces: Vec<KeyspaceSpace>,
    /// The segments by id.
    pub segments: Vec<SegmentSpace>,
    /// Who holds old versions and replaced files, the oldest first. What several hold is counted
    /// at the oldest.
    pub holders: Vec<HolderSpace>,
    /// Where the books and the disk differ.
    pub warnings: Vec<String>,
}

impl SpaceReport {
    /// Bytes on disk for each live byte; `None` while nothing is live.
    pub fn amplification(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| self.allocated as f64 / self.live_bytes as f64)
    }
}
