//! The view that a reader of one keyspace holds: its memtables and a version. Taking a view takes
//! no lock; everything in it stays readable for as long as it is held.
//!
//! Order matters: a reader takes the view first and the visible sequence number second. The
//! memtables of the view then hold every entry up to that number that was published before the
//! reader began.

use crate::base::entry::Payload;
use crate::base::error::{Error, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, SeqNo, Trailer};
use crate::base::pointer::{KeyspaceId, SegmentId, ValuePointer};
use crate::base::range_tombstone::RangeCover;
use crate::env::sync::Mutex;
use crate::memtable::Memtable;
use crate::version::files::SegmentHandle;
use crate::version::levels::Levels;
use crate::version::merging::Merging;
use crate::version::resolve::{Resolved, unknown};
use crate::version::separation::SeparationChoice;
use crate::version::settings::{KeyspaceOptions, Separation};
use crate::version::walks::WalkLengths;
use crate::version::{LogPosition, Version};
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A memtable with its position in the log and the segments that it pins.
pub struct LoggedMemtable {
    /// The entries.
    pub table: Arc<Memtable>,
    /// The position of its first entry in the log; the head must not move past it before its flush.
    first: OnceLock<LogPosition>,
    /// Bytes of log written since the opening when its first entry was inserted.
    first_bytes: AtomicU64,
    /// The id of the segment that holds its newest entries.
    last_segment: AtomicU64,
    last_seqno: AtomicU64,
    /// The segments that its pointers lead to; they stay for as long as the memtable does.
    pins: Mutex<Vec<Arc<SegmentHandle>>>,
}

impl LoggedMemtable {
    /// Creates an empty memtable that stays small.
    pub fn new(order: KeyOrder) -> Self {
        LoggedMemtable::of(Arc::new(Memtable::new(order)))
    }

    /// Creates an empty memtable for writers, to be flushed when it has these bytes.
    pub fn with_room(order: KeyOrder, bytes: u64) -> Self {
        LoggedMemtable::of(Arc::new(Memtable::with_room(order, bytes)))
    }

    /// Wraps these entries without a position in the log and without pins.
    fn of(table: Arc<Memtable>) -> Self {
        LoggedMemtable {
            table,
            first: OnceLock::new(),
            first_bytes: AtomicU64::new(0),
            last_segment: AtomicU64::new(0),
            last_seqno: AtomicU64::new(0),
            pins: Mutex::new(Vec::new()),
        }
    }

    /// Records which frame the entries come from, before they are inserted. Called only by the
    /// commit leader and by replay.
    pub fn note(
        &self,
        at: LogPosition,
        log_bytes: u64,
        segment: &Arc<SegmentHandle>,
        last_seqno: SeqNo,
    ) {
        let last_segment = self.last_segment.load(Ordering::Relaxed);
        debug_assert!(last_segment <= segment.id().0, "the log goes back to an older segment");
        debug_assert!(self.first.get().is_none_or(|first| *first <= at), "the log goes back");
        if last_segment != segment.id().0 {
            self.pins.lock().push(segment.clone());
            self.last_segment.store(segment.id().0, Ordering::Relaxed);
        }
        if self.first.set(at).is_ok() {
            self.first_bytes.store(log_bytes, Ordering::Relaxed);
        }
        self.last_seqno.store(last_seqno, Ordering::Relaxed);
    }

    /// Returns the bytes of memory that the memtable uses.
    pub fn bytes(&self) -> u64 {
        self.table.bytes() as u64
    }

    /// Returns the position of its first entry in the log; `None` while it is empty.
    pub fn first(&self) -> Option<LogPosition> {
        self.first.get().copied()
    }

    /// Returns the bytes of log written since the opening when its first entry was inserted; `None`
    /// while it is empty.
    pub fn first_bytes(&self) -> Option<u64> {
        self.first.get().map(|_| self.first_bytes.load(Ordering::Relaxed))
    }

    /// Returns the sequence number of its newest entry.
    pub fn last_seqno(&self) -> SeqNo {
        self.last_seqno.load(Ordering::Relaxed)
    }

    /// Returns a memtable with the entries newer than `seqno`: this one, unless it has others.
    fn behind(self: &Arc<Self>, order: &KeyOrder, seqno: SeqNo) -> Result<Arc<LoggedMemtable>> {
        let is_newer = |trailer: Trailer| trailer.seqno() > seqno;
        let mut iter = self.table.iter();
        iter.seek_to_first()?;
        let ranges = self.table.ranges();
        let mut all = ranges.iter().flat_map(|it| it.iter()).all(|it| it.seqno > seqno);
        while all && iter.valid() {
            all = is_newer(iter.trailer());
            iter.next()?;
        }
        if all {
            return Ok(self.clone());
        }
        let newer = LoggedMemtable::with_room(order.clone(), self.bytes());
        iter.seek_to_first()?;
        while iter.valid() {
            let trailer = iter.trailer();
            if is_newer(trailer) {
                let payload = Payload::decode(trailer.kind()?, iter.payload())?;
                newer.table.insert(iter.user_key(), trailer, payload);
            }
            iter.next()?;
        }
        for deleted in ranges.iter().flat_map(|it| it.iter()).filter(|it| it.seqno > seqno) {
            newer.table.insert_range(deleted.range.clone(), deleted.seqno);
        }
        newer.last_segment.store(self.last_segment.load(Ordering::Relaxed), Ordering::Relaxed);
        newer.last_seqno.store(self.last_seqno(), Ordering::Relaxed);
        newer.pins.lock().clone_from(&self.pins.lock());
        Ok(Arc::new(newer))
    }

    /// Returns a memtable with the same entries that pins no segments.
    pub(super) fn unpinned(&self) -> LoggedMemtable {
        LoggedMemtable::of(self.table.clone())
    }

    /// Returns the ids of the segments that the memtable pins.
    pub(super) fn pins(&self) -> Vec<SegmentId> {
        self.pins.lock().iter().map(|handle| handle.id()).collect()
    }

    pub(super) fn pinned(&self, id: SegmentId) -> Option<Arc<SegmentHandle>> {
        self.pins.lock().iter().find(|handle| handle.id() == id).cloned()
    }
}

/// Memtables by keyspace, newest first, that take the place of others.
pub type NewMemtables = BTreeMap<KeyspaceId, Vec<Arc<LoggedMemtable>>>;

/// The state of one keyspace at one moment. Only the active memtable still changes, by insertions.
#[derive(Clone)]
pub struct View {
    /// The keyspace of the view.
    pub keyspace: KeyspaceId,
    /// The live files of the whole database.
    pub version: Arc<Version>,
    /// The tables of this keyspace in that version.
    pub levels: Arc<Levels>,
    /// The memtable that commits are inserted into.
    pub active: Arc<LoggedMemtable>,
    /// The immutable memtables, which wait for their flush, newest first.
    pub immutables: Vec<Arc<LoggedMemtable>>,
    /// The number of the last installation of entries that a compaction filter changed, or of a
    /// view that another process made.
    pub installation: u64,
    /// The least number that this view may be read at: where another process writes, its
    /// compactions have dropped what was visible only before it. Zero where this one writes: a
    /// number that a reader gets after the view is not less than what its compactions went by.
    pub shown: SeqNo,
    /// The keyspace's merge operator, if it has one.
    pub merging: Option<Arc<Merging>>,
}

impl View {
    /// Iterates over all memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<LoggedMemtable>> {
        std::iter::once(&self.active).chain(&self.immutables)
    }

    /// Returns the position of the oldest entry in memtables other than `flushed`; `None` if there
    /// is none.
    pub fn first_unflushed(&self, flushed: &[Arc<LoggedMemtable>]) -> Option<LogPosition> {
        let is_flushed = |m: &Arc<LoggedMemtable>| flushed.iter().any(|f| Arc::ptr_eq(f, m));
        let waiting = self.memtables().filter(|memtable| !is_flushed(memtable));
        waiting.filter_map(|memtable| memtable.first()).min()
    }

    /// Returns the sets of range tombstones of all memtables and of the tables.
    pub fn ranges(&self) -> RangeCover {
        let memtables = self.memtables().filter(|memtable| memtable.table.has_ranges());
        let sets = memtables.flat_map(|memtable| memtable.table.ranges());
        RangeCover::new(self.levels.order().clone(), sets.chain([self.levels.ranges().clone()]))
    }

    /// Returns the newest sequence number of a range tombstone over `key` that the reader sees.
    ///
    /// Costs a look at each memtable if there are none, else a search in each that has some.
    #[inline]
    pub fn newest_range(&self, key: &[u8], sees: impl Fn(SeqNo) -> bool) -> Option<SeqNo> {
        let mut newest = None;
        for memtable in self.memtables().filter(|memtable| memtable.table.has_ranges()) {
            newest = newest.max(memtable.table.newest_range(key, &sees));
        }
        let below = self.levels.ranges();
        if below.is_empty() {
            return newest;
        }
        newest.max(below.newest(key, sees).map(|tombstone| tombstone.seqno))
    }

    /// Resolves a pointer of this view. The version holds the segments that tables point to, or
    /// their relocations; the memtables pin the segments that they point to (I3).
    pub fn resolve(&self, pointer: ValuePointer) -> Result<Resolved> {
        if let Some(resolved) = self.version.resolve(pointer)? {
            return Ok(resolved);
        }
        let pinned = self.memtables().find_map(|memtable| memtable.pinned(pointer.segment));
        pinned.map(|handle| Resolved::At(handle, pointer)).ok_or_else(|| unknown(pointer))
    }

    /// Returns true if every record of this segment is where its pointer says: the segment was
    /// neither relocated nor has it holes.
    pub fn is_whole(&self, segment: SegmentId) -> bool {
        match self.version.segments.get(&segment) {
            Some(live) => live.holes.is_empty(),
            // I3: a memtable pins it, or its pointers lead nowhere.
            None => !self.version.relocations.contains_key(&segment),
        }
    }

    /// Returns the place of a record that a reader can see; a pointer that leads nowhere is
    /// corruption.
    pub fn place(&self, pointer: ValuePointer) -> Result<(Arc<SegmentHandle>, ValuePointer)> {
        self.resolve(pointer)?.place(pointer)
    }
}

/// One open keyspace.
pub struct KeyspaceState {
    /// The keyspace's id in the manifest.
    pub id: KeyspaceId,
    /// The keyspace's name in the API.
    pub name: String,
    /// The order of its keys.
    pub order: KeyOrder,
    merging: Option<Arc<Merging>>,
    options: ArcSwap<KeyspaceOptions>,
    view: ArcSwap<View>,
    /// Serializes changes of the view; held only while the new view is built and swapped in.
    view_update: Mutex<()>,
    dropped: AtomicBool,
    /// The lengths of the last walks of cursors.
    pub walks: Arc<WalkLengths>,
    /// The engine's choice, where the settings leave separation to it.
    pub choice: SeparationChoice,
}

impl KeyspaceState {
    /// Creates a keyspace whose tables are in `version`, with an empty memtable. `merging` is its
    /// merge operator, if it has one.
    pub fn new(
        id: KeyspaceId,
        name: String,
        order: KeyOrder,
        options: KeyspaceOptions,
        merging: Option<Arc<Merging>>,
        version: Arc<Version>,
    ) -> Self {
        let levels = match version.keyspace(id) {
            Some(keyspace) => keyspace.levels.clone(),
            None => Arc::new(Levels::new(order.clone())),
        };
        let active = LoggedMemtable::with_room(order.clone(), options.memtable_bytes);
        let active = Arc::new(active);
        let immutables = Vec::new();
        let view = View {
            keyspace: id,
            version,
            levels,
            active,
            immutables,
            installation: 0,
            shown: 0,
            merging: merging.clone(),
        };
        KeyspaceState {
            id,
            name,
            order,
            merging,
            options: ArcSwap::from_pointee(options),
            view: ArcSwap::from_pointee(view),
            view_update: Mutex::new(()),
            dropped: AtomicBool::new(false),
            walks: Arc::default(),
            choice: SeparationChoice::default(),
        }
    }

    /// Returns the keyspace's merge operator, if it has one.
    pub fn merging(&self) -> Option<&Arc<Merging>> {
        self.merging.as_ref()
    }

    /// Returns the settings in force.
    pub fn options(&self) -> arc_swap::Guard<Arc<KeyspaceOptions>> {
        self.options.load()
    }

    /// Returns the policy for separating values: that of the settings, or what the engine has
    /// chosen.
    pub fn separation(&self) -> Separation {
        match self.options().separation {
            Separation::Auto => self.choice.now(),
            separation => separation,
        }
    }

    /// Changes the settings; they apply to everything written from now on.
    pub fn set_options(&self, options: KeyspaceOptions) {
        self.options.store(Arc::new(options));
    }

    /// Returns the current view.
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Returns the current view for the duration of one call, without counting a reference.
    pub fn peek(&self) -> arc_swap::Guard<Arc<View>> {
        self.view.load()
    }

    /// Returns the sequence number up to which all entries are durable in tables.
    pub fn flushed(&self) -> SeqNo {
        self.peek().version.keyspace(self.id).map_or(0, |keyspace| keyspace.flushed)
    }

    /// Returns an error if the keyspace was dropped. A reader checks this after it has a view; a
    /// writer, while it holds the log.
    pub fn check(&self) -> Result<()> {
        if !self.dropped.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::keyspace_dropped(&self.name))
    }

    /// Seals the active memtable and starts an empty one; returns false if the active one is empty.
    /// The caller holds the log, so that no commit is split between the two.
    pub fn rotate_memtable(&self) -> bool {
        let _view_update = self.view_update.lock();
        let old = self.view.load_full();
        if old.active.table.is_empty() {
            return false;
        }
        let is_newest =
            |before: &Arc<LoggedMemtable>| before.last_seqno() < old.active.last_seqno();
        debug_assert!(old.immutables.first().is_none_or(is_newest), "the newest comes first");
        let active = LoggedMemtable::with_room(self.order.clone(), self.options().memtable_bytes);
        let mut immutables = vec![old.active.clone()];
        immutables.extend(old.immutables.iter().cloned());
        let active = Arc::new(active);
        self.view.store(Arc::new(View { active, immutables, ..View::clone(&old) }));
        true
    }

    /// Publishes a new version to readers and at the same moment drops the memtables in `flushed`,
    /// whose entries it has in tables. If `version` lacks this keyspace, the keyspace ends.
    /// `installation` is the number of the installation if the version has entries that a
    /// compaction filter has changed.
    pub fn install(
        &self,
        version: &Arc<Version>,
        flushed: &[Arc<LoggedMemtable>],
        installation: Option<u64>,
    ) {
        let _view_update = self.view_update.lock();
        let old = self.view.load_full();
        let is_flushed = |memtable: &Arc<LoggedMemtable>| {
            flushed.iter().any(|flushed| Arc::ptr_eq(flushed, memtable))
        };
        let Some(keyspace) = version.keyspace(self.id) else {
            return self.end();
        };
        debug_assert!(version.number >= old.version.number, "an older version is installed");
        let immutables: Vec<_> =
            old.immutables.iter().filter(|m| !is_flushed(m)).cloned().collect();
        debug_assert_eq!(
            immutables.len() + flushed.len(),
            old.immutables.len(),
            "only memtables that waited are flushed"
        );
        self.view.store(Arc::new(View {
            version: version.clone(),
            levels: keyspace.levels.clone(),
            immutables,
            installation: installation.unwrap_or(old.installation),
            ..View::clone(&old)
        }));
    }

    /// Publishes a version that another process has made, whose tables have each entry of this
    /// keyspace that was flushed. Of the memtables the newer entries are kept, unless there are
    /// `new` ones in their place. `shown` is the number up to which version and memtables have
    /// everything.
    pub fn follow(
        &self,
        version: &Arc<Version>,
        new: Option<Vec<Arc<LoggedMemtable>>>,
        shown: SeqNo,
        installation: u64,
    ) -> Result<()> {
        let _view_update = self.view_update.lock();
        let old = self.view.load_full();
        let Some(keyspace) = version.keyspace(self.id) else {
            self.end();
            return Ok(());
        };
        let mut memtables = match new {
            Some(new) => new,
            None => {
                let newer = |it: &&Arc<LoggedMemtable>| it.last_seqno() > keyspace.flushed;
                let newer = old.memtables().filter(newer);
                newer.map(|it| it.behind(&self.order, keyspace.flushed)).collect::<Result<_>>()?
            }
        };
        let room = self.options().memtable_bytes;
        let fresh = || Arc::new(LoggedMemtable::with_room(self.order.clone(), room));
        let active = if memtables.is_empty() { fresh() } else { memtables.remove(0) };
        self.view.store(Arc::new(View {
            version: version.clone(),
            levels: keyspace.levels.clone(),
            active,
            immutables: memtables,
            installation,
            shown,
            ..View::clone(&old)
        }));
        Ok(())
    }

    /// Marks the keyspace as dropped. Handles that are kept hold no memtable, file or version any
    /// more.
    fn end(&self) {
        // This comes first, so that no reader takes the empty view for the keyspace's content.
        self.dropped.store(true, Ordering::Release);
        self.view.store(Arc::new(View {
            keyspace: self.id,
            version: Arc::default(),
            levels: Arc::new(Levels::new(self.order.clone())),
            active: Arc::new(LoggedMemtable::new(self.order.clone())),
            immutables: Vec::new(),
            installation: 0,
            shown: 0,
            merging: self.merging.clone(),
        }));
    }
}
