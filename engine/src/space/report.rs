//! The fields of a [`SpaceReport`], as plain data; `table.rs` and `json.rs` print it.

use crate::base::key::SeqNo;
use crate::version::settings::Separation;
use std::time::Duration;

/// The purpose of a file.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("file-class"))?;
/// for class in db.space()?.classes {
///     println!("{}: {} files, {} bytes", class.class.name(), class.files, class.allocated);
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileClass {
    /// Log segments from the head on, which recovery would replay.
    Log,
    /// Sealed segments before the head, log and sorted ones, which hold separated values.
    Segments,
    /// Tables: keys, small values, pointers, indexes, filters.
    Tables,
    /// Relocations, which lead to the moved values of freed segments.
    Relocations,
    /// The manifest, CURRENT, OPTIONS and LOCK.
    Manifest,
    /// Bytes cut off a torn log, and files that are not CleaveDB's.
    #[default]
    Other,
}

impl FileClass {
    /// All classes.
    pub const ALL: &[FileClass] = &[
        FileClass::Log,
        FileClass::Segments,
        FileClass::Tables,
        FileClass::Relocations,
        FileClass::Manifest,
        FileClass::Other,
    ];

    /// Returns the name of the class.
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

/// The files of one class; [`FileClass`] has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassSpace {
    /// The class.
    pub class: FileClass,
    /// Number of files.
    pub files: u64,
    /// Bytes of disk that they take.
    pub allocated: u64,
    /// Sum of their lengths in bytes.
    pub length: u64,
    /// Those of the allocated bytes that a second name shares, usually a checkpoint's. They are
    /// freed only when that is deleted, too.
    pub shared: u64,
}

/// The content of all blocks of the store, in bytes. The parts add up to what is allocated.
/// [`SpaceReport`] has an example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceParts {
    /// Records of separated values that reads see now.
    pub live: u64,
    /// Records of separated values that only snapshots and iterators see.
    pub pinned: u64,
    /// All other bytes in sealed segments before the head.
    pub garbage: u64,
    /// All other bytes in the log from the head on, needed until its entries are in tables.
    pub log: u64,
    /// Live tables.
    pub tree: u64,
    /// Files that were replaced and wait for their last reader, or for their removal.
    pub obsolete: u64,
    /// Manifest, CURRENT, OPTIONS, LOCK, relocations.
    pub metadata: u64,
    /// Files of running jobs, files that a crash left, and files that are not ours.
    pub other: u64,
}

impl SpaceParts {
    /// Returns the parts with their names, in the order of this struct.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let parts = [
            ("live", self.live),
            ("pinned", self.pinned),
            ("garbage", self.garbage),
            ("log", self.log),
            ("tree", self.tree),
            ("obsolete", self.obsolete),
            ("metadata", self.metadata),
            ("other", self.other),
        ];
        parts.into_iter()
    }

    /// Returns the sum of all parts.
    pub fn total(&self) -> u64 {
        self.named().map(|(_, bytes)| bytes).sum()
    }
}

/// The space of one keyspace. *Live* is what reads see now. [`SpaceReport`] has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceSpace {
    /// The keyspace's name.
    pub name: String,
    /// Number of live keys.
    pub entries: u64,
    /// Bytes of live keys and values in the tree, before the compression of its blocks.
    pub inline_bytes: u64,
    /// Bytes of live keys and separated values, as stored.
    pub separated_bytes: u64,
    /// Number of versions that only snapshots and iterators see.
    pub pinned_entries: u64,
    /// Bytes of those versions, in the tree and in segments.
    pub pinned_bytes: u64,
    /// Number of tables.
    pub tables: u64,
    /// Bytes of the tables' files.
    pub table_bytes: u64,
    /// Entries in the tables, including tombstones and versions that nobody sees.
    pub table_entries: u64,
    /// When large values are separated: as it was set, or, where that is [`Separation::Auto`] and
    /// the database is open for writing, as the engine has chosen.
    pub separation: Separation,
    /// True if the engine has chosen that. Values of 32 KiB and more are separated at write then,
    /// whatever it has chosen for the others.
    pub is_separation_chosen: bool,
    /// The name of the reason for the engine's choice, if it has chosen: `log_spared`, `log_kept`,
    /// `scanned` or `delayed`, as in [`Event::SeparationChosen`](crate::Event::SeparationChosen).
    pub separation_reason: Option<&'static str>,
    /// What reads cost scans because values were strewn, in bytes that could have been moved in
    /// that time, as far as it was not paid for putting them in order. It is known to the process
    /// that scanned, while it has the database open.
    pub scan_cost_bytes: u64,
    /// Bytes of values that were put in order because of that. Both count half after an hour.
    pub ordered_bytes: u64,
}

impl KeyspaceSpace {
    /// Returns the bytes that reads see now, as stored.
    pub fn live_bytes(&self) -> u64 {
        self.inline_bytes + self.separated_bytes
    }

    /// Estimates the bytes of tables taken by entries that nobody sees, from the entries' count.
    pub fn stale_table_bytes(&self) -> u64 {
        let seen = self.entries + self.pinned_entries;
        let stale = self.table_entries.saturating_sub(seen);
        let share = stale as f64 / self.table_entries.max(1) as f64;
        (self.table_bytes as f64 * share) as u64
    }
}

/// Shares of one part of a segment by content, in percent; together a hundred. [`SpaceReport`] has
/// an example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceCell {
    /// Records that reads see now.
    pub live: u8,
    /// Records that only snapshots and iterators see.
    pub pinned: u8,
    /// Bytes that nobody sees and no recovery needs.
    pub garbage: u8,
    /// Log from the head on, except for live and pinned records.
    pub log: u8,
    /// Bytes given back to the file system.
    pub hole: u8,
    /// Bytes prepared for appends, not written yet.
    pub unwritten: u8,
}

/// The space of one segment; [`SpaceReport`] has an example.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SegmentSpace {
    /// The segment's id, which is part of its file name.
    pub id: u64,
    /// True for a sorted segment; the records of others are in the order of commits.
    pub sorted: bool,
    /// True once the segment is sealed.
    pub sealed: bool,
    /// True if recovery would replay it, because it is part of the log from the head on.
    pub replay: bool,
    /// Length of the file in bytes.
    pub length: u64,
    /// Bytes of disk that the file takes.
    pub allocated: u64,
    /// Number of records that reads see now.
    pub live_records: u64,
    /// Bytes of those records.
    pub live_bytes: u64,
    /// Bytes of records that only snapshots and iterators see.
    pub pinned_bytes: u64,
    /// Bytes of records that tables refer to, seen or not.
    pub referenced_bytes: u64,
    /// All other allocated bytes; 0 if it is part of the log from the head on.
    pub garbage_bytes: u64,
    /// Bytes given back to the file system.
    pub hole_bytes: u64,
    /// Time since the last write to the file; `None` if the file system does not report it.
    pub age: Option<Duration>,
    /// Number of names of the file; more than one means that a checkpoint shares it.
    pub links: u64,
    /// The reason why value GC takes or leaves the segment.
    pub reason: String,
    /// The content of the segment in up to 64 equal parts.
    pub cells: Vec<SpaceCell>,
}

/// A holder that keeps space from being freed; [`SpaceReport`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderSpace {
    /// "snapshot", "cursor" or "iterator"; "reader" for a read or job that is under way.
    pub kind: &'static str,
    /// The keyspace that it reads; `None` if it sees all.
    pub keyspace: Option<String>,
    /// Time since it was created.
    pub age: Duration,
    /// Sequence number of the newest commit that it sees.
    pub seqno: SeqNo,
    /// Number of old versions that it sees and no older holder does.
    pub versions: u64,
    /// Bytes of those versions, in the tree and in segments.
    pub version_bytes: u64,
    /// Number of replaced files that it holds and no older holder does.
    pub files: u64,
    /// Bytes of disk that those files take.
    pub file_bytes: u64,
}

impl HolderSpace {
    /// Returns all bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.version_bytes + self.file_bytes
    }
}

/// A report on where the blocks of a database are and what they hold, per keyspace and per segment,
/// who keeps what from being freed, and where the manifest and the disk differ.
///
/// ```
/// # let dir = cleavedb::doc_dir("space");
/// let db = cleavedb::open(&dir)?;
/// db.default_keyspace().put("key", vec![7; 4096])?;
/// let space = db.space()?;
/// assert!(space.live_bytes > 4096);
/// assert_eq!(space.parts.total(), space.allocated);
/// for (name, bytes) in space.parts.named() {
///     println!("{name}: {bytes} bytes");
/// }
/// for keyspace in &space.keyspaces {
///     println!("{}: {} keys, {} bytes", keyspace.name, keyspace.entries, keyspace.live_bytes());
/// }
/// for segment in space.segments.iter().filter(|segment| segment.garbage_bytes > 0) {
///     println!("segment {}: {}", segment.id, segment.reason);
///     let free = segment.cells.iter().filter(|cell| cell.hole == 100).count();
///     println!("{free} of its {} parts are holes", segment.cells.len());
/// }
/// for holder in &space.holders {
///     println!("a {} of age {:?} keeps {} bytes", holder.kind, holder.age, holder.bytes());
/// }
/// // All of it as text for people, and as JSON.
/// println!("{space}");
/// assert!(space.to_json().starts_with('{'));
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SpaceReport {
    /// Sequence number of the newest commit that the report counts.
    pub seqno: SeqNo,
    /// Bytes of disk that all files of the database take.
    pub allocated: u64,
    /// Bytes of keys and values that reads see now, as stored.
    pub live_bytes: u64,
    /// Bytes given back to the file system inside segments.
    pub hole_bytes: u64,
    /// The ceiling of [`SpaceReport::allocated`] in bytes: what reads, snapshots and cursors see
    /// times [`GcOptions::max_space_amplification`], or plus [`GcOptions::space_allowance_bytes`]
    /// if that is more. Replaced files that are still read may come on top. `None` if value GC is
    /// off.
    ///
    /// [`GcOptions::max_space_amplification`]: crate::GcOptions::max_space_amplification
    /// [`GcOptions::space_allowance_bytes`]: crate::GcOptions::space_allowance_bytes
    pub ceiling_bytes: Option<u64>,
    /// The bytes to which [`SpaceReport::allocated`] comes while nobody writes: what reads,
    /// snapshots and cursors see times [`GcOptions::settled_space_amplification`]. Replaced files
    /// that are still read may come on top. `None` if value GC is off.
    ///
    /// [`GcOptions::settled_space_amplification`]: crate::GcOptions::settled_space_amplification
    pub settled_bytes: Option<u64>,
    /// The content of all blocks.
    pub parts: SpaceParts,
    /// The files by class.
    pub classes: Vec<ClassSpace>,
    /// The keyspaces by name.
    pub keyspaces: Vec<KeyspaceSpace>,
    /// The segments by id.
    pub segments: Vec<SegmentSpace>,
    /// The holders of old versions and replaced files, the oldest first. Space with several holders
    /// counts for the oldest.
    pub holders: Vec<HolderSpace>,
    /// Differences between the manifest and the disk, as sentences.
    pub warnings: Vec<String>,
}

impl SpaceReport {
    /// Returns the bytes on disk for each live byte, or `None` while nothing is live.
    pub fn amplification(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| self.allocated as f64 / self.live_bytes as f64)
    }
}
