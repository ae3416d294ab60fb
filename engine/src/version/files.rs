//! Handles of a version's files and their removal: a table, segment or relocation that no version
//! names any more is unlinked after its last reader is gone, never earlier (I5).

use crate::base::error::{Error, Result};
use crate::base::key::KeyOrder;
use crate::base::pointer::{MAX_ID, RelocationId, SegmentId, TableId, ValuePointer};
use crate::base::seal::DatabaseIdentity;
use crate::cache::{BlockCache, OpenFiles, TableCache, TableRef, TableSlot, WalkFile};
use crate::env::fork::Process;
use crate::env::fs::{File, Fs};
use crate::env::sync::Mutex;
use crate::relocation::{RelocationMeta, RelocationTable};
use crate::segment::{FileSource, Segment, SegmentIdentity, SegmentKind};
use crate::table::{FilterPolicy, Table, TableMeta, TableSource, TableStats, start_walk};
use crate::version::pinning::{PinMark, PinnedTree};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The names of the files in a database directory.
pub mod names {
    use super::{MAX_ID, Path, PathBuf, RelocationId, SegmentId, TableId};

    /// The lock file that excludes a second opener.
    pub const LOCK: &str = "LOCK";
    /// The file that names the manifest in force.
    pub const CURRENT: &str = "CURRENT";
    /// A new CURRENT before it is renamed.
    pub const CURRENT_NEW: &str = "CURRENT.new";
    /// The settings in force as text for people.
    pub const OPTIONS: &str = "OPTIONS";
    /// The next OPTIONS, before it is renamed.
    pub const OPTIONS_NEW: &str = "OPTIONS.new";
    /// A scratch file of value GC that exists only for a moment.
    pub const PROBE: &str = "PROBE";
    /// The socket at which the process that has the database open for writing can be asked.
    pub const CONTROL: &str = "CONTROL";
    /// The wrapped data keys of an encrypted database.
    pub const KEYS: &str = "KEYS";
    /// The next KEYS, before it is renamed.
    pub const KEYS_NEW: &str = "KEYS.new";
    /// The begin of the names of notes; 16 hexadecimal digits follow.
    pub const NOTE: &str = "loading-";

    /// Returns the path of a table.
    pub fn table(dir: &Path, id: TableId) -> PathBuf {
        dir.join(format!("{:08}.tbl", id.0))
    }

    /// Returns the path of a segment.
    pub fn segment(dir: &Path, id: SegmentId) -> PathBuf {
        dir.join(format!("{:08}.seg", id.0))
    }

    /// Returns the path of a relocation that has a file.
    pub fn relocation(dir: &Path, id: RelocationId) -> PathBuf {
        dir.join(format!("{:08}.rel", id.0))
    }

    /// Returns the path of a manifest.
    pub fn manifest(dir: &Path, id: u64) -> PathBuf {
        dir.join(format!("{id:08}.man"))
    }

    /// Returns the path of the file that keeps the bytes cut off a segment's torn tail.
    pub fn aside(dir: &Path, id: SegmentId) -> PathBuf {
        dir.join(format!("{:08}.cut", id.0))
    }

    /// The meaning of a file name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum FileName {
        /// A table.
        Table(TableId),
        /// A segment.
        Segment(SegmentId),
        /// A relocation.
        Relocation(RelocationId),
        /// A manifest.
        Manifest(u64),
        /// Bytes cut off a segment's torn tail.
        Aside(SegmentId),
        /// One of the fixed names.
        Fixed,
        /// The note of a command on its progress, beside the files of the engine.
        Note,
        /// Not a name that CleaveDB uses.
        Foreign,
    }

    impl FileName {
        /// Returns the number in the name; `None` if it has none.
        pub fn number(self) -> Option<u64> {
            match self {
                FileName::Table(id) => Some(id.0),
                FileName::Segment(id) | FileName::Aside(id) => Some(id.0),
                FileName::Relocation(id) => Some(id.0),
                FileName::Manifest(id) => Some(id),
                FileName::Fixed | FileName::Note | FileName::Foreign => None,
            }
        }
    }

    /// Returns true for 16 hexadecimal digits.
    fn is_note_number(digits: &str) -> bool {
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == 16 && digits.bytes().all(is_digit)
    }

    /// Parses a file name. Only names exactly as this module writes them are accepted, so a number
    /// above [`MAX_ID`] is foreign.
    pub fn parse(path: &Path) -> FileName {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return FileName::Foreign;
        };
        let fixed =
            [LOCK, CURRENT, CURRENT_NEW, OPTIONS, OPTIONS_NEW, PROBE, CONTROL, KEYS, KEYS_NEW];
        if fixed.contains(&name) {
            return FileName::Fixed;
        }
        if name.strip_prefix(NOTE).is_some_and(|it| is_note_number(it.trim_end_matches(".new"))) {
            return FileName::Note;
        }
        let Some((digits, suffix)) = name.split_once('.') else {
            return FileName::Foreign;
        };
        let Ok(id) = digits.parse::<u64>() else {
            return FileName::Foreign;
        };
        if id > MAX_ID || format!("{id:08}") != digits {
            return FileName::Foreign;
        }
        match suffix {
            "tbl" => FileName::Table(TableId(id)),
            "seg" => FileName::Segment(SegmentId(id)),
            "rel" => FileName::Relocation(RelocationId(id)),
            "man" => FileName::Manifest(id),
            "cut" => FileName::Aside(SegmentId(id)),
            _ => FileName::Foreign,
        }
    }
}

/// Files that no version names any more: those that still have a reader, and those without one,
/// which wait for background work to unlink them.
#[derive(Default)]
pub struct PurgeQueue {
    waiting: Mutex<ObsoleteFiles>,
    process: Process,
}

#[derive(Default)]
struct ObsoleteFiles {
    /// Files that still have a reader.
    read: BTreeSet<PathBuf>,
    /// Files without a reader.
    free: BTreeSet<PathBuf>,
}

impl PurgeQueue {
    fn expect(&self, path: &Path) {
        self.waiting.lock().read.insert(path.to_path_buf());
    }

    fn push(&self, path: PathBuf) {
        let mut waiting = self.waiting.lock();
        let was_read = waiting.read.remove(&path);
        debug_assert!(was_read, "I5: {} is free, and never became obsolete", path.display());
        waiting.free.insert(path);
    }

    /// Takes all files that can be unlinked.
    pub fn take(&self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut self.waiting.lock().free)
    }

    /// Puts back files that could not be unlinked yet.
    pub fn put_back(&self, paths: Vec<PathBuf>) {
        self.waiting.lock().free.extend(paths);
    }

    /// Returns true if this file waits for its last reader, or to be unlinked.
    pub fn has(&self, path: &Path) -> bool {
        let waiting = self.waiting.lock();
        waiting.read.contains(path) || waiting.free.contains(path)
    }

    /// Returns true if no file can be unlinked.
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().free.is_empty()
    }

    /// Returns the files that wait for their last reader, sorted.
    pub fn still_read(&self) -> Vec<PathBuf> {
        self.waiting.lock().read.iter().cloned().collect()
    }

    /// Returns the files without a reader that wait to be unlinked.
    pub fn unread(&self) -> Vec<PathBuf> {
        self.waiting.lock().free.iter().cloned().collect()
    }
}

/// Queues an obsolete file for removal when its last handle is dropped.
struct FileLifetime {
    path: PathBuf,
    obsolete: AtomicBool,
    purge: Arc<PurgeQueue>,
}

impl FileLifetime {
    fn new(path: PathBuf, purge: Arc<PurgeQueue>) -> Self {
        FileLifetime { path, obsolete: AtomicBool::new(false), purge }
    }

    fn mark(&self) {
        // The caller holds the handle, so it is dropped after this.
        self.purge.expect(&self.path);
        let before = self.obsolete.swap(true, Ordering::AcqRel);
        assert!(!before, "{} became obsolete twice", self.path.display());
    }
}

impl Drop for FileLifetime {
    fn drop(&mut self) {
        // I5: no handle is left, so nobody can reach the file. In a child that says nothing: the
        // parent has handles of its own, and removes its files itself.
        if *self.obsolete.get_mut() && !self.purge.process.is_gone() {
            self.purge.push(std::mem::take(&mut self.path));
        }
    }
}

/// The context that tables, relocations and segments need to be opened; one per database.
pub struct TableContext {
    /// The database directory.
    pub dir: PathBuf,
    /// The database's id, which every file's head contains, and the keys that seal its files.
    pub identity: DatabaseIdentity,
    /// The bounded cache of open files.
    pub files: Arc<OpenFiles>,
    /// The cache of blocks.
    pub cache: Arc<BlockCache>,
    /// The cache of open tables and relocations.
    pub open_tables: Arc<TableCache>,
    /// The tables that are in memory as a whole.
    pub tree: PinnedTree,
    /// Counters of table reads.
    pub stats: Arc<TableStats>,
    /// The queue for obsolete files.
    pub purge: Arc<PurgeQueue>,
    /// The user's filter policy in place of the engine's; `None` for the engine's.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
}

/// The bounds of what a database keeps open and in memory.
#[derive(Debug, Clone, Copy)]
pub struct TableLimits {
    /// Files that are kept open at a time.
    pub open_files: usize,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// Bytes of indexes, filters and directories of open tables and relocations.
    pub index_and_filter_bytes: u64,
    /// Bytes of pinned tables; with 0 none is pinned.
    pub tree_bytes: u64,
}

impl TableLimits {
    /// A few files and no cached block, for stores of tests.
    #[cfg(any(test, fuzzing))]
    pub const TESTS: TableLimits = TableLimits {
        open_files: 9,
        cache_bytes: 0,
        index_and_filter_bytes: u64::MAX,
        tree_bytes: 0,
    };
}

impl TableContext {
    /// Creates the context of a database with the engine's filters, with nothing open yet.
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: PathBuf,
        identity: impl Into<DatabaseIdentity>,
        limits: TableLimits,
    ) -> Self {
        TableContext {
            dir,
            identity: identity.into(),
            files: Arc::new(OpenFiles::new(fs, limits.open_files)),
            cache: Arc::new(BlockCache::new(limits.cache_bytes)),
            open_tables: Arc::new(TableCache::new(limits.index_and_filter_bytes)),
            tree: PinnedTree::new(limits.tree_bytes),
            stats: Arc::default(),
            purge: Arc::default(),
            filter_policy: None,
        }
    }
}

/// A live table. It is opened when it is used, so that opening a database costs no I/O per table,
/// and again if the table cache let go of it since.
pub struct TableHandle {
    /// The metadata from the manifest.
    pub meta: Arc<TableMeta>,
    order: KeyOrder,
    context: Arc<TableContext>,
    slot: TableSlot<Table>,
    pub(super) pin_mark: PinMark,
    ending: FileLifetime,
}

impl TableHandle {
    /// Creates a handle without touching the file.
    pub fn new(meta: Arc<TableMeta>, order: KeyOrder, context: Arc<TableContext>) -> Self {
        let path = names::table(&context.dir, meta.id);
        let ending = FileLifetime::new(path, context.purge.clone());
        let slot = TableSlot::new(context.open_tables.clone());
        TableHandle { meta, order, context, slot, pin_mark: PinMark::default(), ending }
    }

    /// Returns the open table. Costs no I/O if the table cache holds it, else its head, index and
    /// filter are read.
    #[inline]
    pub fn table(&self) -> Result<TableRef<Table>> {
        self.slot.get(|| self.open())
    }

    /// Has the system begin to read what a long walk will read first here, forward or `backward`,
    /// unless the table is open: then its tail is in memory, and its blocks may be.
    /// It is a hint, so a file that can't be opened is no error here.
    pub fn start_walk(&self, backward: bool) {
        if !self.slot.is_open()
            && let Ok(file) = self.context.files.get(self.path())
        {
            start_walk(&*file, &self.meta, backward);
        }
    }

    /// Opens the table anew.
    pub(super) fn open(&self) -> Result<Table> {
        let table = Table::open(self.source())?;
        Ok(table.with_policy(self.context.filter_policy.as_ref()))
    }

    /// Opens the table anew for a repair; see [`Table::open_for_salvage`].
    pub fn open_for_salvage(&self) -> Result<Table> {
        Table::open_for_salvage(self.source())
    }

    fn source(&self) -> TableSource {
        TableSource {
            files: self.context.files.clone(),
            path: self.path().to_path_buf(),
            meta: self.meta.clone(),
            database: (&self.context.identity).into(),
            order: self.order.clone(),
            cache: self.context.cache.clone(),
            stats: self.context.stats.clone(),
        }
    }

    /// Has readers use `table` from now on, which this handle has opened.
    pub(super) fn hold(&self, table: Table) {
        self.slot.hold(table);
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.ending.path
    }

    /// Marks the table as named by no version any more; the edit that removed it is durable.
    pub(super) fn mark_obsolete(&self) {
        self.ending.mark();
    }

    /// Returns true if no version names the table any more.
    pub(super) fn is_obsolete(&self) -> bool {
        self.ending.obsolete.load(Ordering::Acquire)
    }
}

/// The relocation of a freed segment. It is opened when it is used, like a table; a relocation
/// without entries has no file.
pub struct RelocationHandle {
    /// The metadata from the manifest.
    pub meta: Arc<RelocationMeta>,
    context: Arc<TableContext>,
    slot: TableSlot<RelocationTable>,
    ending: Option<FileLifetime>,
    /// True once a pointer could not be made direct, because a part of the file is damaged.
    is_damaged: AtomicBool,
}

impl RelocationHandle {
    /// Creates a handle without touching the file.
    pub fn new(meta: Arc<RelocationMeta>, context: Arc<TableContext>) -> Self {
        let ending = meta.has_file().then(|| {
            FileLifetime::new(names::relocation(&context.dir, meta.id), context.purge.clone())
        });
        let slot = TableSlot::new(context.open_tables.clone());
        RelocationHandle { meta, context, slot, ending, is_damaged: AtomicBool::new(false) }
    }

    /// Returns true if a part of the file was found damaged since the opening.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Notes that a part of the file is damaged.
    pub fn note_damage(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    /// Returns the open relocation, or `None` if it has no file. Costs no I/O if the table cache
    /// holds it, else its directory is read.
    pub fn table(&self) -> Result<Option<TableRef<RelocationTable>>> {
        let Some(ending) = &self.ending else {
            return Ok(None);
        };
        let open = || {
            RelocationTable::open(
                self.context.files.clone(),
                ending.path.clone(),
                self.meta.clone(),
                self.context.identity.id,
                self.context.cache.clone(),
            )
        };
        self.slot.get(open).map(Some)
    }

    /// Returns where the record that was at `old_offset` is now; `None` if it was garbage.
    pub fn find(&self, old_offset: u64) -> Result<Option<ValuePointer>> {
        match self.table()? {
            Some(table) => table.find(old_offset),
            None => Ok(None),
        }
    }

    /// Calls `each` with the current places of records whose old offsets ascend, in that order; see
    /// [`RelocationTable::find_ascending`].
    pub fn find_ascending<E: From<Error>>(
        &self,
        old_offsets: impl Iterator<Item = u64>,
        mut each: impl FnMut(Option<ValuePointer>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.table()? {
            Some(table) => table.find_ascending(old_offsets, each),
            None => old_offsets.map(|_| None).try_for_each(&mut each),
        }
    }

    /// Returns the path of the file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.ending.as_ref().map(|ending| ending.path.as_path())
    }

    /// Marks the relocation as named by no version any more; the edit that removed it is durable.
    pub(super) fn mark_obsolete(&self) {
        if let Some(ending) = &self.ending {
            ending.mark();
        }
    }
}

/// A file by its path; the cache of open files opens it when needed.
pub struct PathSource {
    /// The cache.
    pub files: Arc<OpenFiles>,
    /// The path of the file.
    pub path: PathBuf,
}

impl FileSource for PathSource {
    fn file(&self) -> Result<Arc<dyn File>> {
        self.files.get(&self.path)
    }

    fn open_for_walk(&self) -> Option<WalkFile> {
        self.files.open_for_walk(&self.path)
    }
}

/// A live segment and its file's lifetime.
pub struct SegmentHandle {
    /// The reader of the segment's records.
    pub segment: Arc<Segment>,
    ending: FileLifetime,
}

impl SegmentHandle {
    /// Creates a handle of a segment that is no longer written.
    pub fn open(id: SegmentId, kind: SegmentKind, epoch: u64, context: &TableContext) -> Self {
        Self::make(id, kind, epoch, context, Segment::open)
    }

    /// Creates a handle of a segment that is about to be written.
    pub fn for_writing(
        id: SegmentId,
        kind: SegmentKind,
        epoch: u64,
        context: &TableContext,
    ) -> Self {
        Self::make(id, kind, epoch, context, Segment::for_writing)
    }

    fn make(
        id: SegmentId,
        kind: SegmentKind,
        epoch: u64,
        context: &TableContext,
        open: fn(SegmentIdentity, PathBuf, Arc<dyn FileSource>) -> Segment,
    ) -> Self {
        let path = names::segment(&context.dir, id);
        let source = PathSource { files: context.files.clone(), path: path.clone() };
        let identity = SegmentIdentity { database: context.identity.id, id, kind, epoch };
        let segment = open(identity, path.clone(), Arc::new(source)).sealed_by(&context.identity);
        let segment = Arc::new(segment);
        SegmentHandle { segment, ending: FileLifetime::new(path, context.purge.clone()) }
    }

    /// Returns the segment's id.
    pub fn id(&self) -> SegmentId {
        self.segment.id()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.ending.path
    }

    /// Marks the segment as named by no version any more; the edit that removed it is durable.
    pub(super) fn mark_obsolete(&self) {
        self.ending.mark();
    }
}

#[cfg(test)]
mod tests {
    use super::names::{FileName, parse};
    use super::*;

    #[test]
    fn i05_an_obsolete_file_waits_for_its_last_reader() {
        let purge = Arc::new(PurgeQueue::default());
        let path = Path::new("db/00000007.seg");
        let ending = Arc::new(FileLifetime::new(path.into(), purge.clone()));
        let reader = ending.clone();
        ending.mark();
        drop(ending);
        assert!(purge.has(path) && !purge.has(Path::new("other")));
        assert_eq!((purge.still_read(), purge.unread()), (vec![path.into()], vec![]));
        assert!(purge.is_empty(), "a reader has it");
        drop(reader);
        assert_eq!((purge.still_read(), purge.unread()), (vec![], vec![path.into()]));
        assert_eq!(purge.take(), BTreeSet::from([path.to_path_buf()]));
        let live = FileLifetime::new("db/00000008.seg".into(), purge.clone());
        drop(live);
        assert!(purge.is_empty() && purge.still_read().is_empty(), "it was never obsolete");
    }

    #[test]
    fn names_are_read_strictly() {
        let dir = Path::new("db");
        assert_eq!(parse(&names::table(dir, TableId(7))), FileName::Table(TableId(7)));
        let large = SegmentId(123_456_789_012);
        assert_eq!(parse(&names::segment(dir, large)), FileName::Segment(large));
        assert_eq!(
            parse(&names::relocation(dir, RelocationId(8))),
            FileName::Relocation(RelocationId(8))
        );
        assert_eq!(parse(&names::manifest(dir, 3)), FileName::Manifest(3));
        assert_eq!(parse(Path::new("db/CURRENT")), FileName::Fixed);
        assert_eq!(parse(Path::new("db/loading-8690bea2700423be")), FileName::Note);
        for foreign in ["loading-8690bea2700423b", "loading-8690bea2700423bE"] {
            assert_eq!(parse(Path::new(foreign)), FileName::Foreign, "{foreign}");
        }
        for foreign in ["7.tbl", "00000007.ldb", "x.seg", "00000007", "+0000007.tbl", "notes.txt"] {
            assert_eq!(parse(Path::new(foreign)), FileName::Foreign, "{foreign}");
        }
    }
}
