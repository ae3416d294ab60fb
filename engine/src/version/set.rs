//! Applies edits one at a time: first to the manifest, then to the readers' views; then files that
//! nobody can reach any more are unlinked (I5). Only this file publishes or deletes files.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::{KeyspaceId, MAX_ID, TableId};
use crate::costly_check;
use crate::env::Env;
use crate::env::sync::{Mutex, MutexGuard};
use crate::env::threads::is_panicking;
use crate::version::alive::{Alive, AliveVersion};
use crate::version::build::{Removed, VersionBuilder, state_of};
use crate::version::edit::{Change, Edit};
use crate::version::files::{SegmentHandle, TableContext, names};
use crate::version::health::Health;
use crate::version::log_pins::LogPins;
use crate::version::manifest::{AppendError, ManifestWriter};
use crate::version::references;
use crate::version::snapshots::Snapshots;
use crate::version::spared::SparedLog;
use crate::version::unnamed::UnnamedBytes;
use crate::version::view::{KeyspaceState, LoggedMemtable, NewMemtables};
use crate::version::{LogPosition, Version};
use arc_swap::ArcSwap;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memtables of a keyspace that an edit made durable in tables.
pub type Flushed = (KeyspaceId, Vec<Arc<LoggedMemtable>>);

/// The result of unlinking what nobody reads any more.
pub struct Purged {
    /// Number of files that were unlinked.
    pub files: u64,
    /// The first error, if some files could not be.
    pub outcome: Result<()>,
}

/// The keyspace in which an edit installs entries that a compaction filter has changed, the least
/// sequence number of those, and the snapshots that may see what they were.
pub type FilteredFrom<'a> = (KeyspaceId, SeqNo, &'a Snapshots);

/// Returns the order of a keyspace's keys for a comparator's name, while the database is open.
pub type KnownComparators = Box<dyn Fn(&str) -> Result<KeyOrder> + Send + Sync>;

/// The parts of a [`VersionSet`].
pub struct VersionSetParts {
    /// Files, clock and threads.
    pub env: Env,
    /// The context that handles need to open files.
    pub tables: Arc<TableContext>,
    /// The write state of the database.
    pub health: Arc<Health>,
    /// The recovered version.
    pub version: Version,
    /// The next free file id.
    pub next_file: u64,
    /// The newest recovered sequence number.
    pub last_seqno: SeqNo,
    /// The known comparators.
    pub comparator_of: KnownComparators,
    /// Whose the files are.
    pub files: FilesOf,
}

/// Whose the files of a version are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesOf {
    /// This process writes and removes them.
    Us,
    /// Another process does.
    Others,
    /// Another process does, and these are links of our own, which we remove.
    OthersPinned,
}

/// The live version and the manifest that records it.
pub struct VersionSet {
    env: Env,
    tables: Arc<TableContext>,
    health: Arc<Health>,
    comparator_of: KnownComparators,
    next_file: AtomicU64,
    last_seqno: AtomicU64,
    current: ArcSwap<Version>,
    alive: Alive,
    /// Serializes edits; held while one is applied.
    manifest: Mutex<Manifest>,
    keyspaces: Mutex<BTreeMap<KeyspaceId, Arc<KeyspaceState>>>,
    manifest_bytes: AtomicU64,
    unnamed: Arc<UnnamedBytes>,
    files: FilesOf,
    /// Held while files get second hard links, and while a file without one is punched (I5). Taken
    /// before all other locks.
    hard_links: Mutex<()>,
    log_pins: Arc<LogPins>,
    spared: SparedLog,
}

/// The destination of edits.
enum Manifest {
    /// No destination: the database is read-only or closed.
    Closed,
    /// The manifest that the opening has read. The first edit begins a new one in its place; a
    /// session without an edit leaves it in force.
    Read {
        /// The manifest's id.
        id: u64,
        /// The manifest's length in bytes.
        length: u64,
    },
    /// A manifest begun by this opening.
    Begun(ManifestWriter),
}

impl Manifest {
    fn length(&self) -> u64 {
        match self {
            Manifest::Closed => 0,
            Manifest::Read { length, .. } => *length,
            Manifest::Begun(writer) => writer.length(),
        }
    }
}

fn closed() -> Error {
    Error::closed("the database was closed")
}

impl VersionSet {
    /// Creates a set over a recovered version. It takes no edits yet.
    pub fn new(parts: VersionSetParts) -> Self {
        let current = Arc::new(parts.version);
        let alive = Alive::default();
        alive.note(&current, parts.env.clock.now());
        VersionSet {
            env: parts.env,
            tables: parts.tables,
            health: parts.health,
            comparator_of: parts.comparator_of,
            next_file: AtomicU64::new(parts.next_file),
            last_seqno: AtomicU64::new(parts.last_seqno),
            current: ArcSwap::new(current),
            alive,
            manifest: Mutex::new(Manifest::Closed),
            keyspaces: Mutex::new(BTreeMap::new()),
            manifest_bytes: AtomicU64::new(0),
            unnamed: Arc::default(),
            files: parts.files,
            hard_links: Mutex::new(()),
            log_pins: Arc::default(),
            spared: SparedLog::default(),
        }
    }

    /// Returns the pins of the log.
    pub fn log_pins(&self) -> &Arc<LogPins> {
        &self.log_pins
    }

    /// Returns what is known of the log that flushes have replaced.
    pub fn spared(&self) -> &SparedLog {
        &self.spared
    }

    /// Takes the lock for a checkpoint: no file is punched while it is held.
    pub fn keep_from_punching(&self) -> MutexGuard<'_, ()> {
        self.hard_links.lock()
    }

    /// Takes the lock for punching: no file gets a second hard link while it is held. Returns
    /// `None` if a checkpoint or another punch holds it.
    pub fn lock_hard_links_if_free(&self) -> Option<MutexGuard<'_, ()>> {
        self.hard_links.try_lock()
    }

    /// Takes edits from now on. The first of them begins a manifest in place of the one that was
    /// read, which has this id and length in bytes.
    pub fn open_for_edits(&self, id: u64, length: u64) {
        let mut manifest = self.manifest.lock();
        assert!(matches!(*manifest, Manifest::Closed), "a set is opened for edits once");
        *manifest = Manifest::Read { id, length };
    }

    /// Begins a new manifest that holds the whole of `version`, in place of the one in force.
    fn rewrite(&self, manifest: &mut Manifest, version: &Version, last_seqno: SeqNo) -> Result<()> {
        let old = match manifest {
            Manifest::Closed => return Err(closed()),
            Manifest::Read { id, .. } => *id,
            Manifest::Begun(writer) => writer.id(),
        };
        let id = self.allocate()?;
        assert_ne!(id, old, "the new manifest would be written over the one in force");
        let next = self.next_file.load(Ordering::SeqCst);
        let state = state_of(version, next, last_seqno);
        let (dir, database) = (&self.tables.dir, &self.tables.identity);
        let new = ManifestWriter::create(&self.env, dir, database, id, &state)?;
        self.manifest_bytes.fetch_add(new.length(), Ordering::Relaxed);
        *manifest = Manifest::Begun(new);
        // I5: CURRENT durably names the new manifest. A crash before the unlink leaves an orphan,
        // which the next opening removes. The new manifest is already in force, so a failed unlink
        // is not an error here: the background retries it.
        let old = names::manifest(dir, old);
        if self.unlink(&old).is_err() {
            self.tables.purge.put_back(vec![old]);
        }
        Ok(())
    }

    /// Returns true if there was an edit since the opening.
    pub fn is_changed(&self) -> bool {
        matches!(*self.manifest.lock(), Manifest::Begun(_))
    }

    /// Makes a version visible that another process has made, together with the number `shown` up
    /// to which it and the memtables of the keyspaces have everything. `new` are memtables that
    /// take the place of all others.
    ///
    /// I5: of files that it does not have any more, descriptors are closed after the last reader,
    /// or the links removed of who pins.
    pub fn follow(
        &self,
        version: Version,
        snapshots: &Snapshots,
        mut new: Option<NewMemtables>,
        shown: SeqNo,
    ) -> Result<()> {
        assert!(self.files != FilesOf::Us, "whoever writes makes its versions itself");
        let version = Arc::new(version);
        let removed = Removed::between(&self.current.load(), &version);
        self.alive.note(&version, self.env.clock.now());
        self.current.store(version.clone());
        let mut followed = Ok(());
        let keyspaces = self.keyspaces();
        snapshots.publish_followed(keyspaces.iter(), shown, |keyspace, number| {
            let own = new.as_mut().map(|new| new.remove(&keyspace.id).unwrap_or_default());
            let one = keyspace.follow(&version, own, shown, number);
            followed = std::mem::replace(&mut followed, Ok(())).and(one);
        });
        self.keyspaces.lock().retain(|id, _| version.keyspaces.contains_key(id));
        removed.mark_obsolete();
        followed
    }

    /// Refuses all edits from now on, waiting ones included. After this, another process may
    /// replace the manifest.
    pub fn close(&self) {
        *self.manifest.lock() = Manifest::Closed;
    }

    /// Returns an id never used before in this database, for a file or a keyspace. It is an error
    /// if all ids are used up, which no workload reaches.
    pub fn allocate(&self) -> Result<u64> {
        let next = |id: u64| (id < MAX_ID).then_some(id + 1);
        self.next_file.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).map_err(|_| {
            Error::new(ErrorKind::LimitReached, "all ids of files and keyspaces are used up")
                .in_file(&self.tables.dir)
                .advise("load the data into a new database")
        })
    }

    /// Returns the current version.
    pub fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// Returns the number of the oldest version that is still held, by a reader or by a job that
    /// began when it was current.
    pub fn oldest_alive(&self) -> u64 {
        self.oldest().number
    }

    /// Returns that version, and since when another one is in force.
    pub fn oldest(&self) -> AliveVersion {
        self.alive.oldest().unwrap_or_else(|| self.in_force())
    }

    /// Returns the oldest version whose files somebody holds.
    pub fn oldest_with_files(&self) -> AliveVersion {
        self.alive.oldest_with_files().unwrap_or_else(|| self.in_force())
    }

    fn in_force(&self) -> AliveVersion {
        AliveVersion { number: self.current.load().number, superseded_at: None }
    }

    /// Returns the context that tables and segments of this database are opened with.
    pub fn tables(&self) -> &Arc<TableContext> {
        &self.tables
    }

    /// Returns the length of the manifest in force, in bytes. It waits for an edit that is being
    /// applied, until all readers have its version.
    pub fn manifest_length(&self) -> u64 {
        self.manifest.lock().length()
    }

    /// Returns the bytes written to manifests since the opening.
    pub fn manifest_bytes(&self) -> u64 {
        self.manifest_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the files that jobs are writing and that no version names yet.
    pub fn unnamed(&self) -> &Arc<UnnamedBytes> {
        &self.unnamed
    }

    /// Records the newest sequence number for the next manifest.
    pub fn note_seqno(&self, seqno: SeqNo) {
        self.last_seqno.fetch_max(seqno, Ordering::SeqCst);
    }

    /// Registers an open keyspace, so that its view follows new versions.
    pub fn register(&self, keyspace: Arc<KeyspaceState>) {
        let before = self.keyspaces.lock().insert(keyspace.id, keyspace);
        debug_assert!(before.is_none(), "a keyspace is registered once");
    }

    /// Registers a keyspace that was just created, with the present version: edits that were made
    /// since the one that created it have gone by its view, which would keep their files.
    pub fn register_new(&self, keyspace: Arc<KeyspaceState>) {
        let _no_edit = self.manifest.lock();
        keyspace.install(&self.current(), &[], None);
        self.register(keyspace);
    }

    /// Undoes [`VersionSet::register`].
    pub fn forget(&self, id: KeyspaceId) {
        self.keyspaces.lock().remove(&id);
    }

    /// Returns the open keyspaces in the order of their ids.
    pub fn keyspaces(&self) -> Vec<Arc<KeyspaceState>> {
        self.keyspaces.lock().values().cloned().collect()
    }

    /// Returns the position of the oldest entry that is in no table once `flushed` are; `None` if
    /// there is none.
    pub fn first_unflushed(&self, flushed: &[Arc<LoggedMemtable>]) -> Option<LogPosition> {
        let keyspaces = self.keyspaces();
        keyspaces.iter().filter_map(|keyspace| keyspace.view().first_unflushed(flushed)).min()
    }

    /// Makes an edit durable, then visible. `plan` gets the version that the edit will apply to and
    /// returns the edit, all in one serial step, so that no two edits remove the same file.
    ///
    /// `segments` are handles of segments that the edit adds; `flushed` names the memtables whose
    /// entries the edit made durable in tables.
    pub fn apply(
        &self,
        plan: impl FnOnce(&Version) -> Result<Edit>,
        segments: &[Arc<SegmentHandle>],
        flushed: Option<Flushed>,
    ) -> Result<Arc<Version>> {
        self.apply_filtered(plan, segments, flushed, None)
    }

    /// Does as [`VersionSet::apply`] for an edit that may install what a compaction filter changed.
    pub fn apply_filtered(
        &self,
        plan: impl FnOnce(&Version) -> Result<Edit>,
        segments: &[Arc<SegmentHandle>],
        flushed: Option<Flushed>,
        filtered: Option<FilteredFrom<'_>>,
    ) -> Result<Arc<Version>> {
        let mut manifest = self.manifest.lock();
        self.health.check()?;
        let base = self.current.load_full();
        let mut edit = plan(&base)?;
        if edit.is_empty() {
            return Ok(base);
        }
        let builder = VersionBuilder { tables: &self.tables, comparator_of: &*self.comparator_of };
        let (mut version, removed) = builder.apply_tracking(&base, &edit, segments)?;
        // I6: a range tombstone goes with the edit that takes the last entry it may hide.
        let idle = Edit::new(idle_ranges(&base, &version, &edit));
        if !idle.is_empty() {
            builder.apply_to(&mut version, &idle)?;
            edit.changes.extend(idle.changes);
        }
        (version.number, version.mark) = (base.number + 1, Arc::default());
        check_levels(&version, &edit)?;
        references::check_edit(&version, &edit)?;
        edit.changes.push(Change::NextFile(self.next_file.load(Ordering::SeqCst)));
        // I6: the edit may be what makes a number durable, so it is noted for other edits once this
        // one is made.
        let last_seqno = edit.last_seqno().max(self.last_seqno.load(Ordering::SeqCst));
        if edit.changes.iter().any(|change| matches!(change, Change::Head(_))) {
            // I6: the log before the head may be the only record of these sequence numbers.
            edit.changes.push(Change::LastSeqno(last_seqno));
        }
        self.persist(&mut manifest, &edit, &version, last_seqno)?;
        self.note_seqno(last_seqno);
        // I2: what is before the head is not replayed any more.
        debug_assert!(version.head >= base.head, "the head of the log only moves forward");
        let version = Arc::new(version);
        self.alive.note(&version, self.env.clock.now());
        // I5: before readers get the next version, so that a consumer of the change feed finds each
        // segment in one of the two.
        let publish = || self.current.store(version.clone());
        self.log_pins.take_over(&base, removed.segments(), publish);
        self.publish(&version, flushed, filtered);
        // I5: the edit is durable; each file is unlinked after its last reader is gone.
        removed.mark_obsolete();
        if matches!(&*manifest, Manifest::Begun(writer) if writer.is_outgrown()) {
            // The edit itself is done: failing to write a new manifest does not undo it.
            if let Err(error) = self.rewrite(&mut manifest, &version, last_seqno) {
                self.rewrite_failed(&error)?;
            }
        }
        Ok(version)
    }

    /// Makes the edit that leads to `version` durable. `last_seqno` is the newest number then.
    fn persist(
        &self,
        manifest: &mut Manifest,
        edit: &Edit,
        version: &Version,
        last_seqno: SeqNo,
    ) -> Result<()> {
        let Manifest::Begun(writer) = manifest else {
            // The manifest that was read may be only in the page cache, or end in a torn record, so
            // nothing is appended to it. The edit takes effect with the first record of the new
            // manifest. A crash before CURRENT names the new one leaves the old one in force, and
            // an orphan.
            let begun = self.rewrite(manifest, version, last_seqno);
            return begun.or_else(|error| match error.kind() {
                ErrorKind::Closed => Err(error),
                _ => self.rewrite_failed(&error).and(Err(error)),
            });
        };
        let before = writer.length();
        match writer.append(edit) {
            Ok(()) => {
                self.manifest_bytes.fetch_add(writer.length() - before, Ordering::Relaxed);
                Ok(())
            }
            Err(AppendError::Undone(error)) => Err(error),
            // I8: it is unknown whether the edit is durable; nothing may rely on either case.
            Err(AppendError::Unknown(error)) => Err(self.health.fail(&error)),
        }
    }

    /// Handles a failed rewrite: the old manifest stays in force unless CURRENT is in doubt. A full
    /// disk never leaves CURRENT in doubt, nor does a state that is too long for a manifest.
    fn rewrite_failed(&self, error: &Error) -> Result<()> {
        if matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::LimitReached) {
            return Ok(());
        }
        Err(self.health.fail(error))
    }

    /// Makes a new version visible to the readers of each keyspace.
    fn publish(
        &self,
        version: &Arc<Version>,
        flushed: Option<Flushed>,
        filtered: Option<FilteredFrom<'_>>,
    ) {
        let (id, memtables) = flushed.unwrap_or_default();
        for keyspace in self.keyspaces.lock().values() {
            let gone = if keyspace.id == id { memtables.as_slice() } else { &[] };
            match filtered {
                Some((id, oldest, snapshots)) if id == keyspace.id => {
                    snapshots.publish_filtered(keyspace, oldest, |number| {
                        keyspace.install(version, gone, Some(number));
                    });
                }
                _ => keyspace.install(version, gone, None),
            }
        }
    }

    /// Unlinks files whose last user is gone. Called by background work after its jobs. A file that
    /// can't be unlinked keeps no other from it, and waits for the next call.
    pub fn purge(&self) -> Purged {
        let mut purged = Purged { files: 0, outcome: Ok(()) };
        let paths = self.tables.purge.take();
        if paths.is_empty() || self.health.check().is_err() {
            return purged;
        }
        let mut left = Vec::new();
        for path in paths {
            match self.unlink(&path) {
                Ok(()) => purged.files += 1,
                Err(error) => {
                    purged.outcome = purged.outcome.and(Err(error));
                    left.push(path);
                }
            }
        }
        if !left.is_empty() {
            self.tables.purge.put_back(left);
        }
        purged
    }

    /// Removes a file and closes its cached descriptor as one operation, because a deleted file
    /// that is still open keeps its disk space.
    fn unlink(&self, path: &Path) -> Result<()> {
        if self.files == FilesOf::Others {
            self.tables.files.forget(path);
            return Ok(());
        }
        // I5: no durable version names it. A crash before or after leaves an orphan, which the next
        // opening removes, or nothing.
        costly_check!(
            "I5",
            !self.current.load().names(names::parse(path)),
            "{} is live and would be unlinked",
            path.display()
        );
        match names::parse(path) {
            names::FileName::Segment(id) if self.spared.is_expected(id) => {
                let unwritten = || self.env.fs.removed_unwritten(&self.tables.dir);
                let before = unwritten();
                self.tables.files.remove(path)?;
                let after = unwritten();
                let unwritten =
                    before.zip(after).map(|(before, after)| after.saturating_sub(before));
                self.spared.note_removed(id, unwritten);
                Ok(())
            }
            _ => self.tables.files.remove(path),
        }
    }

    /// Removes files that a job wrote and whose edit did not take effect.
    pub fn discard(&self, files: &[PathBuf]) {
        if self.health.check().is_err() || is_panicking() {
            // I8: it is unknown whether an edit names them, as when a job panicked after its edit
            // was durable; the next opening decides.
            return;
        }
        for path in files {
            // A file that cannot be removed is an orphan for the next opening.
            let _ = self.unlink(path);
        }
    }
}

/// Returns the changes that remove the range tombstones which hide nothing any more after `edit`,
/// which has led from `base` to `version`.
fn idle_ranges(base: &Version, version: &Version, edit: &Edit) -> Vec<Change> {
    let mut touched: BTreeMap<KeyspaceId, (FxHashSet<SeqNo>, Vec<TableId>)> = BTreeMap::new();
    for change in &edit.changes {
        match change {
            Change::AddRange { keyspace, tombstone } => {
                touched.entry(*keyspace).or_default().0.insert(tombstone.seqno);
            }
            Change::RemoveTable { keyspace, id, .. } => {
                touched.entry(*keyspace).or_default().1.push(*id);
            }
            _ => {}
        }
    }
    let mut changes = Vec::new();
    for (keyspace, (added, removed)) in touched {
        let Some(state) = version.keyspace(keyspace) else { continue };
        if state.levels.ranges().is_empty() {
            continue;
        }
        let before = base.keyspace(keyspace).into_iter().flat_map(|it| it.levels.tables());
        let gone = before.filter(|(_, table)| removed.contains(&table.meta.id));
        let gone: Vec<_> = gone.map(|(_, table)| table.clone()).collect();
        let idle = state.levels.idle_ranges(&added, &gone).into_iter();
        changes.extend(idle.map(|seqno| Change::RemoveRange { keyspace, seqno }));
    }
    changes
}

/// I6: checks the order of tables in the levels that the edit touched.
fn check_levels(version: &Version, edit: &Edit) -> Result<()> {
    let mut touched: Vec<KeyspaceId> = Vec::new();
    for change in &edit.changes {
        if let Change::AddTable { keyspace, .. } = change
            && !touched.contains(keyspace)
        {
            touched.push(*keyspace);
        }
    }
    for id in touched {
        if let Some(keyspace) = version.keyspace(id) {
            keyspace.levels.check()?;
        }
    }
    Ok(())
}
