//! Open files of a version and their end: a table, segment or relocation that no version names
//! any more is unlinked when the last reader lets go of it, never earlier (I5).

use crate::base::error::{Error, Result};
use crate::base::key::KeyOrder;
use crate::base::pointer::{MAX_ID, RelocationId, SegmentId, TableId, ValuePointer};
use crate::cache::{BlockCache, OpenFiles};
use crate::env::fs::File;
use crate::env::sync::Mutex;
use crate::relocation::{RelocationMeta, RelocationTable};
use crate::segment::{FileSource, Segment, SegmentIdentity, SegmentKind};
use crate::table::{FilterPolicy, Table, TableMeta, TableStats};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Names of the files in a database directory.
pub mod names {
    use super::{MAX_ID, Path, PathBuf, RelocationId, SegmentId, TableId};

    /// The lock that keeps a second opener out.
    pub const LOCK: &str = "LOCK";
    /// Which manifest is in force.
    pub const CURRENT: &str = "CURRENT";
    /// A new CURRENT before it is renamed.
    pub const CURRENT_NEW: &str = "CURRENT.new";
    /// The settings in force, as text for people.
    pub const OPTIONS: &str = "OPTIONS";
    /// A scratch file of value GC, there for a moment only.
    pub const PROBE: &str = "PROBE";

    /// A table's file.
    pub fn table(dir: &Path, id: TableId) -> PathBuf {
        dir.join(format!("{:08}.tbl", id.0))
    }

    /// A segment's file.
    pub fn segment(dir: &Path, id: SegmentId) -> PathBuf {
        dir.join(format!("{:08}.seg", id.0))
    }

    /// The file of a relocation that has one.
    pub fn relocation(dir: &Path, id: RelocationId) -> PathBuf {
        dir.join(format!("{:08}.rel", id.0))
    }

    /// A manifest's file.
    pub fn manifest(dir: &Path, id: u64) -> PathBuf {
        dir.join(format!("{id:08}.man"))
    }

    /// Where bytes cut off a segment's torn tail are kept.
    pub fn aside(dir: &Path, id: SegmentId) -> PathBuf {
        dir.join(format!("{:08}.cut", id.0))
    }

    /// What a name stands for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FileName {
        /// A table.
        Table(TableId),
        /// A segment.
        Segment(SegmentId),
        /// A relocation.
        Relocation(RelocationId),
        /// A manifest.
        Manifest(u64),
        /// Bytes cut off a segment.
        Aside(SegmentId),
        /// One of the files without a number.
        Fixed,
        /// Not ours.
        Foreign,
    }

    impl FileName {
        /// The number in the name; `None` if it has none.
        pub fn number(self) -> Option<u64> {
            match self {
                FileName::Table(id) => Some(id.0),
                FileName::Segment(id) | FileName::Aside(id) => Some(id.0),
                FileName::Relocation(id) => Some(id.0),
                FileName::Manifest(id) => Some(id),
                FileName::Fixed | FileName::Foreign => None,
            }
        }
    }

    /// Reads a file name; only exactly what this module writes is ours, so a number above
    /// [`MAX_ID`] is somebody else's.
    pub fn parse(path: &Path) -> FileName {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return FileName::Foreign;
        };
        if [LOCK, CURRENT, CURRENT_NEW, OPTIONS, PROBE].contains(&name) {
            return FileName::Fixed;
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

/// Files that no version names any more: those that somebody still reads, and those whose last
/// user is gone, waiting to be unlinked by the background.
#[derive(Default)]
pub struct PurgeQueue {
    waiting: Mutex<ObsoleteFiles>,
}

#[derive(Default)]
struct ObsoleteFiles {
    /// Held by a reader.
    read: BTreeSet<PathBuf>,
    /// Held by nobody.
    free: Vec<PathBuf>,
}

impl PurgeQueue {
    fn expect(&self, path: &Path) {
        self.waiting.lock().read.insert(path.to_path_buf());
    }

    fn push(&self, path: PathBuf) {
        let mut waiting = self.waiting.lock();
        waiting.read.remove(&path);
        waiting.free.push(path);
    }

    /// Takes everything that can be unlinked.
    pub fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.waiting.lock().free)
    }

    /// Puts back what could not be unlinked yet.
    pub fn put_back(&self, paths: Vec<PathBuf>) {
        self.waiting.lock().free.extend(paths);
    }

    /// True if nothing can be unlinked.
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().free.is_empty()
    }

    /// Files that wait for their last reader, sorted.
    pub fn still_read(&self) -> Vec<PathBuf> {
        self.waiting.lock().read.iter().cloned().collect()
    }

    /// Files that wait to be unlinked, as nobody reads them any more.
    pub fn unread(&self) -> Vec<PathBuf> {
        self.waiting.lock().free.clone()
    }
}

/// Ties a file's end to the end of its last user.
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
        // Whoever marks holds the handle, so its end comes behind this.
        self.purge.expect(&self.path);
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for FileLifetime {
    fn drop(&mut self) {
        // I5: nobody holds the handle any more, so nobody can reach the file.
        if *self.obsolete.get_mut() {
            self.purge.push(std::mem::take(&mut self.path));
        }
    }
}

/// What tables need to be opened; shared by all of a database.
pub struct TableContext {
    /// The database directory.
    pub dir: PathBuf,
    /// The database's id, part of every file's head.
    pub database: u64,
    /// Open files, bounded.
    pub files: Arc<OpenFiles>,
    /// Blocks in memory.
    pub cache: Arc<BlockCache>,
    /// Counters of table reads.
    pub stats: Arc<TableStats>,
    /// Where files go whose last user is gone.
    pub purge: Arc<PurgeQueue>,
    /// Makes and asks filters in place of the engine's.
    pub filter_policy: Option<Arc<dyn FilterPolicy>>,
}

/// A live table. It is opened at its first use, so that opening a database costs no I/O per
/// table.
pub struct TableHandle {
    /// What the manifest says about it.
    pub meta: Arc<TableMeta>,
    order: KeyOrder,
    context: Arc<TableContext>,
    opened: OnceLock<Arc<Table>>,
    ending: FileLifetime,
}

impl TableHandle {
    /// A handle; the file is not touched yet.
    pub fn new(meta: Arc<TableMeta>, order: KeyOrder, context: Arc<TableContext>) -> Self {
        let path = names::table(&context.dir, meta.id);
        let ending = FileLifetime::new(path, context.purge.clone());
        TableHandle { meta, order, context, opened: OnceLock::new(), ending }
    }

    /// The open table: reads its head, index and filter the first time.
    pub fn table(&self) -> Result<&Arc<Table>> {
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let table = Table::open(
            self.context.files.clone(),
            self.path().to_path_buf(),
            self.meta.clone(),
            self.context.database,
            self.order.clone(),
            self.context.cache.clone(),
            self.context.stats.clone(),
        )?;
        let table = Arc::new(table.with_policy(self.context.filter_policy.as_ref()));
        // Two readers may open it at once; the second one's work is dropped.
        Ok(self.opened.get_or_init(|| table))
    }

    /// Bytes of memory that its index and filter pin.
    pub fn pinned_bytes(&self) -> u64 {
        self.opened.get().map_or(0, |table| table.pinned_bytes() as u64)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.ending.path
    }

    /// Says that no version names it any more; the edit that says so is durable.
    pub(super) fn mark_obsolete(&self) {
        self.ending.mark();
    }
}

/// The relocation of a freed segment. Like a table it is opened at its first use; one without
/// entries has no file.
pub struct RelocationHandle {
    /// What the manifest says about it.
    pub meta: Arc<RelocationMeta>,
    context: Arc<TableContext>,
    opened: OnceLock<Arc<RelocationTable>>,
    ending: Option<FileLifetime>,
}

impl RelocationHandle {
    /// A handle; the file is not touched yet.
    pub fn new(meta: Arc<RelocationMeta>, context: Arc<TableContext>) -> Self {
        let ending = meta.has_file().then(|| {
            FileLifetime::new(names::relocation(&context.dir, meta.id), context.purge.clone())
        });
        RelocationHandle { meta, context, opened: OnceLock::new(), ending }
    }

    /// The open relocation: reads its directory the first time. `None` if there is no file.
    pub fn table(&self) -> Result<Option<&Arc<RelocationTable>>> {
        let Some(ending) = &self.ending else {
            return Ok(None);
        };
        if let Some(table) = self.opened.get() {
            return Ok(Some(table));
        }
        let table = RelocationTable::open(
            self.context.files.clone(),
            ending.path.clone(),
            self.meta.clone(),
            self.context.database,
            self.context.cache.clone(),
        )?;
        // Two readers may open it at once; the second one's work is dropped.
        Ok(Some(self.opened.get_or_init(|| Arc::new(table))))
    }

    /// Where the record is now that was at `old_offset`; `None` if it was garbage.
    pub fn find(&self, old_offset: u64) -> Result<Option<ValuePointer>> {
        match self.table()? {
            Some(table) => table.find(old_offset),
            None => Ok(None),
        }
    }

    /// Where records are now whose old offsets ascend, in the same order; see
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

    /// Bytes of memory that its directory pins.
    pub fn pinned_bytes(&self) -> u64 {
        self.opened.get().map_or(0, |table| table.pinned_bytes() as u64)
    }

    /// Where its file is, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.ending.as_ref().map(|ending| ending.path.as_path())
    }

    /// Says that no version names it any more; the edit that says so is durable.
    pub(super) fn mark_obsolete(&self) {
        if let Some(ending) = &self.ending {
            ending.mark();
        }
    }
}

/// A file by its path, opened when needed and kept open for a while.
struct PathSource {
    files: Arc<OpenFiles>,
    path: PathBuf,
}

impl FileSource for PathSource {
    fn file(&self) -> Result<Arc<dyn File>> {
        self.files.get(&self.path)
    }
}

/// A live segment.
pub struct SegmentHandle {
    /// The reader of its records.
    pub segment: Arc<Segment>,
    ending: FileLifetime,
}

impl SegmentHandle {
    /// A handle on a segment that nobody writes to any more.
    pub fn open(id: SegmentId, kind: SegmentKind, epoch: u64, context: &TableContext) -> Self {
        Self::make(id, kind, epoch, context, Segment::open)
    }

    /// A handle on a segment that is going to be written.
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
        let identity = SegmentIdentity { database: context.database, id, kind, epoch };
        let segment = Arc::new(open(identity, path.clone(), Arc::new(source)));
        SegmentHandle { segment, ending: FileLifetime::new(path, context.purge.clone()) }
    }

    /// Its id.
    pub fn id(&self) -> SegmentId {
        self.segment.id()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.ending.path
    }

    /// Says that no version names it any more; the edit that says so is durable.
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
        assert_eq!((purge.still_read(), purge.unread()), (vec![path.into()], vec![]));
        assert!(purge.is_empty(), "a reader has it");
        drop(reader);
        assert_eq!((purge.still_read(), purge.unread()), (vec![], vec![path.into()]));
        assert_eq!(purge.take(), [path]);
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
        for foreign in ["7.tbl", "00000007.ldb", "x.seg", "00000007", "+0000007.tbl", "notes.txt"] {
            assert_eq!(parse(Path::new(foreign)), FileName::Foreign, "{foreign}");
        }
    }
}
