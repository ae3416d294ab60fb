//! Floor 9, the top: the public types, and how the rooms below are put together.
//!
//! [`Db`] and [`Keyspace`] are handles on one shared [`Core`]; dropping the last handle closes the
//! database. Nothing here decides what is live (`version` does), what a commit is (`commit`) or
//! what a value is (`read`).

pub mod batch;
pub mod check;
pub mod checkpoint;
pub mod cursor;
pub mod destroy;
pub mod gc;
pub mod holders;
pub mod inspect;
pub mod key_range;
pub mod keyspace;
pub mod open;
pub mod options;
pub mod range;
pub mod read_options;
pub mod reads;
pub mod repair;
pub mod report;
pub mod snapshot;
pub mod space;
pub mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod timing;

use crate::background::Background;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::commit::group::{Committer, Durability};
use crate::commit::stall::WriteStallController;
use crate::compaction::picker::pick_range;
use crate::compaction::{flush, fold, reorganize};
use crate::env::Env;
use crate::env::budget::Budget;
use crate::env::fs::Lock;
use crate::env::sync::{Mutex, RwLock};
use crate::events::Event;
use crate::read::fetch::Fetcher;
use crate::recovery::comparators::Comparators;
use crate::recovery::recover::RecoveryReport;
use crate::stats::Counters;
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::files::TableHandle;
use crate::version::health::Health;
use crate::version::job::JobContext;
use crate::version::levels::{Levels, bounds};
use crate::version::set::VersionSet;
use crate::version::settings::{DEFAULT_KEYSPACE, KeyspaceOptions};
use crate::version::snapshots::Snapshots;
use crate::version::view::KeyspaceState;
use batch::WriteBatch;
use holders::CoreHandle;
use keyspace::Keyspace;
use open::Builder;
use options::{Options, WriteOptions, check_durability, check_level0};
use snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn not_found(keyspace: &str) -> Error {
    Error::not_found(format!("there is no keyspace {keyspace:?}"))
        .advise("create it, or choose one of those that `keyspaces` lists")
}

/// The state that all handles of one open database share.
pub(crate) struct Core {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) set: Arc<VersionSet>,
    pub(crate) health: Arc<Health>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) stall_controller: Arc<WriteStallController>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) fetcher: Fetcher,
    pub(crate) background: Arc<Background>,
    pub(crate) comparators: Comparators,
    pub(crate) recovered: RecoveryReport,
    /// Ends, in bytes, of the segments whose length the manifest did not have when it was opened.
    pub(crate) log_ends: BTreeMap<SegmentId, u64>,
    keyspaces: RwLock<BTreeMap<String, Arc<KeyspaceState>>>,
    /// Serializes creating and dropping keyspaces.
    ddl: Mutex<()>,
    closed: AtomicBool,
    /// Number of live handles of the database and its keyspaces.
    handles: AtomicUsize,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl Core {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed("the database was closed").advise("open it again"));
        }
        Ok(())
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.options.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the database was opened read-only")
                .advise("open it without `read_only` to write"));
        }
        Ok(())
    }

    pub(crate) fn durability(&self, options: &WriteOptions) -> Result<Durability> {
        let Some(durability) = options.durability else {
            return Ok(self.options.durability);
        };
        check_durability(durability)?;
        Ok(durability)
    }

    /// Stops the background, makes what was committed durable, and records where the log ends, so
    /// that a log that is cut short while closed is noticed. No failure in here loses a commit.
    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.background.stop();
        let outcome = if self.options.read_only { Ok(()) } else { self.seal_log() };
        let outcome = outcome.and_then(|()| self.leave_few_files());
        self.set.close();
        // Removes files whose last reader is gone. Those still held become orphans that the next
        // opening removes.
        let purged = self.set.purge().map(|_| ());
        *self.lock.lock() = None;
        let outcome = outcome.and(purged);
        let (path, error) = (self.dir.clone(), outcome.as_ref().err().cloned());
        self.health.events.emit(Event::Closed { path, error });
        outcome
    }

    fn seal_log(&self) -> Result<()> {
        let mut log = self.committer.hold();
        self.health.check()?;
        self.committer.log().seal(&mut log)
    }

    /// Folds what the session leaves in small files or mostly dead, and drops segments that are
    /// wholly dead. It runs at the end of a session that wrote, and after recovery settled one that
    /// did not close. It takes about as long as a flush.
    pub(crate) fn leave_few_files(&self) -> Result<()> {
        if !self.set.is_changed() {
            return Ok(());
        }
        let tidied = self.fold_leftover().and_then(|()| self.background.drop_dead());
        // I9: nothing is lost when the disk is full; the next session tries again.
        tidied.or_else(|error| match error.kind() {
            ErrorKind::DiskFull => Ok(()),
            _ => Err(error),
        })
    }

    /// Merges what the session and those before it left into one table and one segment, if that is
    /// in many small files or mostly dead. Requires that no other job runs and nobody writes.
    fn fold_leftover(&self) -> Result<()> {
        let (set, segment_bytes) = (&self.set, self.options.segment_bytes);
        let keyspaces = set.keyspaces();
        let no_snapshots = self.snapshots.list().is_empty();
        let Some(reason) = fold::due(&set.current(), &keyspaces, segment_bytes, no_snapshots)
        else {
            return Ok(());
        };
        // Background jobs end early when the database closes. This one belongs to closing, so it
        // must not.
        let context = JobContext { closing: Arc::default(), ..self.background.context().clone() };
        let log_end = {
            let log = self.committer.hold();
            for keyspace in &keyspaces {
                keyspace.rotate_memtable();
            }
            self.committer.log().end(&log)
        };
        for keyspace in &keyspaces {
            let snapshots = self.snapshots.list();
            let extent = (reason, segment_bytes);
            let report = fold::run(&context, keyspace, snapshots, log_end, extent);
            // A keyspace that was dropped meanwhile leaves nothing to fold.
            if report.is_err() && keyspace.check().is_err() {
                continue;
            }
            let report = report?;
            self.counters.flushes.add(1);
            self.counters.flush_bytes_written.add(report.bytes);
            self.counters.entries_dropped.add(report.dropped);
        }
        flush::move_head_to(&context, log_end).map(|_| ())
    }

    fn add_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceState>> {
        let order = self.comparators.order_for_new(name);
        let mut id = KeyspaceId(0);
        let add = |_: &Version| {
            // I6: the id was never used before, so what the log still holds of a keyspace dropped
            // earlier does not come back in this one.
            id = KeyspaceId(self.set.allocate()?);
            Ok(Edit::new(vec![Change::AddKeyspace {
                id,
                name: name.to_owned(),
                order: order.name().to_owned(),
                settings: options.to_text(),
                flushed: 0,
            }]))
        };
        // The edit is durable before the keyspace's first entry can be, so replay finds the
        // keyspace of each record.
        let version = self.set.apply(add, &[], None)?;
        let state = Arc::new(KeyspaceState::new(id, name.to_owned(), order, options, version));
        self.set.register(state.clone());
        self.keyspaces.write().insert(name.to_owned(), state.clone());
        Ok(state)
    }

    /// Creates a keyspace. Requires: `ddl` is held, and no keyspace has this name.
    fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceState>> {
        self.check_writable()?;
        options.validate()?;
        check_level0(&options, self.stall_controller.level0_stop())?;
        if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
            return Err(Error::invalid_argument(format!(
                "{name:?} can't be the name of a keyspace"
            ))
            .advise("use 1 to 255 bytes without control characters"));
        }
        self.add_keyspace(name, options)
    }

    /// Stores new settings of a keyspace durably and applies them from now on.
    pub(crate) fn set_options(
        &self,
        state: &KeyspaceState,
        options: KeyspaceOptions,
    ) -> Result<()> {
        self.check_writable()?;
        options.validate()?;
        check_level0(&options, self.stall_controller.level0_stop())?;
        let _ddl = self.ddl.lock();
        state.check()?;
        if **state.options() == options {
            return Ok(());
        }
        // A crash leaves the old settings or the new ones. Both are valid: they only say how new
        // files are written.
        let set = Change::SetKeyspace { id: state.id, settings: options.to_text() };
        self.set.apply(|_| Ok(Edit::new(vec![set])), &[], None)?;
        state.set_options(options);
        Ok(())
    }

    /// Seals the memtables of these keyspaces and waits until they are flushed.
    pub(crate) fn flush(&self, keyspaces: &[Arc<KeyspaceState>]) -> Result<()> {
        self.check_writable()?;
        let mut waiting = Vec::new();
        {
            let _log = self.committer.hold();
            for keyspace in keyspaces {
                keyspace.rotate_memtable();
                waiting.push((keyspace.clone(), keyspace.view().immutables.clone()));
            }
        }
        self.background.wait_until(|| {
            waiting.iter().all(|(keyspace, before)| {
                let now = keyspace.view();
                let is_new = |m| !before.iter().any(|old| Arc::ptr_eq(old, m));
                // A keyspace that was dropped meanwhile has no immutable memtables.
                now.immutables.iter().all(is_new)
            })
        })
    }

    /// Rewrites the tables between two user keys, level by level, down to the deepest.
    pub(crate) fn compact(
        &self,
        keyspace: &Arc<KeyspaceState>,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<()> {
        self.flush(std::slice::from_ref(keyspace))?;
        let deepest = keyspace.view().levels.deepest().unwrap_or(0).max(1);
        let first_new = self.set.allocate()?;
        for level in 0..deepest {
            // Tables that arrive in a level while it is compacted may wait for the next compaction.
            self.background
                .run_chosen(keyspace, false, |levels| pick_range(levels, level, range, false))?;
        }
        // Tables of the deepest level that no compaction rewrote may hold entries that only
        // snapshots saw which are gone now. They are rewritten one at a time, because the tables
        // between them stay.
        let is_old = |table: &Arc<TableHandle>| table.meta.id.0 < first_new;
        let has_old = |levels: &Levels| {
            pick_range(levels, deepest, range, true).is_some_and(|p| p.inputs.iter().any(is_old))
        };
        while has_old(&keyspace.view().levels) {
            self.background.run_chosen(keyspace, false, |levels| {
                let mut pick = pick_range(levels, deepest, range, true)?;
                pick.inputs.retain(is_old);
                pick.inputs.truncate(1);
                (!pick.inputs.is_empty()).then_some(pick)
            })?;
        }
        Ok(())
    }

    /// Compacts the tables between two user keys to the deepest level, then rewrites them there
    /// with their values in key order, about one segment's worth per job.
    pub(crate) fn reorganize(
        &self,
        keyspace: &Arc<KeyspaceState>,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<()> {
        self.compact(keyspace, range)?;
        let deepest = keyspace.view().levels.deepest().unwrap_or(0).max(1);
        let mut done: Option<Vec<u8>> = None;
        loop {
            let mut last = None;
            self.background.run_chosen(keyspace, true, |levels| {
                let size = self.options.segment_bytes;
                let pick = reorganize::pick(levels, deepest, done.as_deref(), range, size)?;
                last = pick.inputs.last().map(|table| bounds(table).1.to_vec());
                Some(pick)
            })?;
            if last.is_none() {
                return Ok(());
            }
            done = last;
        }
    }

    pub(crate) fn states(&self) -> Vec<Arc<KeyspaceState>> {
        self.keyspaces.read().values().cloned().collect()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The last handle is gone, so nobody is left to return an error to. What was committed is
        // in the log all the same, and the next opening recovers it.
        let _ = self.close();
    }
}

/// A database: a set of keyspaces that share one log, so that a batch over several is atomic.
///
/// Handles are cheap to clone and can be used from many threads. The database closes for all its
/// users when [`Db::close`] is called or when the last holder is dropped. Dropping this handle
/// alone does not close it: keyspaces, cursors, scans and snapshots also hold it open, and with it
/// the lock on the directory. [`Db::holders`] counts them.
///
/// ```
/// # let dir = cleavedb::doc_dir("db");
/// let db = cleavedb::open(&dir)?;
/// let users = db.open_or_create_keyspace("users")?;
/// users.put("ada", "1815")?;
/// assert_eq!(users.get("ada")?.unwrap(), "1815");
/// db.close()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) core: CoreHandle,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Db {
    /// Returns a builder that sets options and components of a database to open at `path`.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Returns the directory of the database.
    pub fn path(&self) -> &Path {
        &self.core.dir
    }

    /// Returns the settings that the database was opened with.
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// Opens the keyspace of this name, which must exist. Costs no I/O.
    ///
    /// Fails with [`ErrorKind::NotFound`] if there is none; see [`Db::create_keyspace`] and
    /// [`Db::open_or_create_keyspace`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("open-keyspace");
    /// use cleavedb::ErrorKind;
    /// let db = cleavedb::open(&dir)?;
    /// assert_eq!(db.keyspace("users").unwrap_err().kind(), ErrorKind::NotFound);
    /// db.create_keyspace("users")?;
    /// db.keyspace("users")?.put("ada", "1815")?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.core.check_open()?;
        let state = self.core.keyspaces.read().get(name).cloned();
        state.map(|state| self.handle(state)).ok_or_else(|| not_found(name))
    }

    /// Creates a keyspace with the settings of [`Options::keyspace`]. Costs one durable edit of the
    /// manifest.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if there is one of this name, and with
    /// [`ErrorKind::InvalidArgument`] unless the name has 1 to 255 bytes without control
    /// characters.
    pub fn create_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.create_keyspace_with(name, self.core.options.keyspace.clone())
    }

    /// Creates a keyspace as [`Db::create_keyspace`] does, with settings of its own. They are
    /// stored with the keyspace and stay until [`Keyspace::set_options`] changes them, whatever
    /// options the database is opened with.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("create-keyspace");
    /// use cleavedb::{ErrorKind, KeyspaceOptions, Separation};
    /// let db = cleavedb::open(&dir)?;
    /// let inline = KeyspaceOptions { separation: Separation::Off, ..Default::default() };
    /// db.create_keyspace_with("index", inline.clone())?;
    /// let again = db.create_keyspace_with("index", inline).unwrap_err();
    /// assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn create_keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let _ddl = self.core.ddl.lock();
        if self.core.keyspaces.read().contains_key(name) {
            self.core.check_open()?;
            return Err(Error::already_exists(format!("there is a keyspace {name:?} already"))
                .advise("open it with `keyspace`, or choose another name"));
        }
        self.core.create_keyspace(name, options).map(|state| self.handle(state))
    }

    /// Opens the keyspace of this name, or creates it with the settings of [`Options::keyspace`] if
    /// there is none. The settings of an existing keyspace stay as they are.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("open-or-create-keyspace");
    /// let db = cleavedb::open(&dir)?;
    /// db.open_or_create_keyspace("users")?.put("ada", "1815")?;
    /// assert_eq!(db.open_or_create_keyspace("users")?.get("ada")?.unwrap(), "1815");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn open_or_create_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.open_or_create_keyspace_with(name, self.core.options.keyspace.clone())
    }

    /// Opens a keyspace as [`Db::open_or_create_keyspace`] does; if it is created, it gets
    /// `options`.
    pub fn open_or_create_keyspace_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Keyspace> {
        let _ddl = self.core.ddl.lock();
        let known = self.core.keyspaces.read().get(name).cloned();
        let state = match known {
            Some(state) => self.core.check_open().map(|()| state)?,
            None => self.core.create_keyspace(name, options)?,
        };
        Ok(self.handle(state))
    }

    fn handle(&self, state: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { core: self.core.clone(), state }
    }

    /// Returns the keyspace called `default`, which always exists.
    pub fn default_keyspace(&self) -> Keyspace {
        let state = self.core.keyspaces.read().get(DEFAULT_KEYSPACE).cloned();
        let state = state.expect("the default keyspace can't be dropped");
        self.handle(state)
    }

    /// Returns the names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.core.keyspaces.read().keys().cloned().collect()
    }

    /// Drops a keyspace with everything in it. The background frees its space as soon as nobody
    /// reads it any more. The keyspace `default` can't be dropped.
    ///
    /// Cursors and scans that were made before go on reading what they saw. Every new call on a
    /// handle of the keyspace fails with [`ErrorKind::KeyspaceDropped`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.core.check_writable()?;
        if name == DEFAULT_KEYSPACE {
            return Err(Error::wrong_state("the keyspace `default` can't be dropped")
                .advise("delete its keys instead"));
        }
        let _ddl = self.core.ddl.lock();
        let state = self.core.keyspaces.read().get(name).cloned();
        let state = state.ok_or_else(|| not_found(name))?;
        let dropped = {
            // Holding the log puts the drop between two commits: those before went to the keyspace
            // and go with it, those after find it dropped. A crash leaves the keyspace as it was,
            // or without a trace: replay skips what the log holds of it.
            let _log = self.core.committer.hold();
            let change = Change::DropKeyspace { id: state.id };
            let dropped = self.core.set.apply(|_| Ok(Edit::new(vec![change])), &[], None);
            if dropped.is_err() && self.core.set.current().keyspace(state.id).is_some() {
                // I9: the edit failed and the keyspace is there as before, so it goes on; after a
                // failed sync, for readers only.
                return dropped.map(|_| ());
            }
            self.core.set.forget(state.id);
            dropped
        };
        self.core.keyspaces.write().remove(name);
        self.core.background.forget(state.id);
        self.core.stall_controller.notify();
        dropped.map(|_| ())
    }

    /// Writes a batch. All of it becomes visible at once, and after a crash all of it is there or
    /// nothing (I1).
    ///
    /// Costs one write of the log and, depending on the database's durability, one sync. If an
    /// operation of the batch is invalid (a key that is too long, a keyspace that was dropped or is
    /// of another database), fails with the first such error and writes nothing.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("write");
    /// use cleavedb::WriteBatch;
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// let mut batch = WriteBatch::new();
    /// batch.put(&words, "one", "eins").put(&words, "two", "zwei");
    /// db.write(batch)?;
    /// assert_eq!(words.iter().count(), 2);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::default())
    }

    /// Writes a batch as [`Db::write`] does, with a durability of its own.
    pub fn write_with(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        self.core.check_writable()?;
        let batch = batch.into_inner(&self.core)?;
        if batch.is_empty() {
            return Ok(());
        }
        let durability = self.core.durability(options)?;
        let keyspace = batch.keyspaces().next().map_or(KeyspaceId(0), |keyspace| keyspace.id);
        let commit = || self.core.committer.commit_batch(batch, durability);
        self.core.time_write(keyspace, commit).map(|_| ())
    }

    /// Pins the current state of all keyspaces. Snapshots are cheap and may be dropped in any
    /// order. A live snapshot keeps the space of what it sees.
    #[must_use = "a snapshot that is dropped at once keeps nothing"]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.core)
    }

    /// Makes everything committed so far survive a power cut. Waits for one sync.
    pub fn sync(&self) -> Result<()> {
        self.core.check_writable()?;
        self.core.committer.sync().map(|_| ())
    }

    /// Flushes the memtables of all keyspaces and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.core.flush(&self.core.states())
    }

    /// Compacts all keyspaces completely and waits for it. Rewrites every table, but no separated
    /// value.
    pub fn compact(&self) -> Result<()> {
        self.core.check_writable()?;
        for keyspace in self.core.states() {
            let outcome = self.core.compact(&keyspace, (None, None));
            // A keyspace that was dropped meanwhile has nothing left to compact.
            if keyspace.check().is_ok() {
                outcome?;
            }
        }
        self.core.background.wait_idle()
    }

    /// Waits until the background work has nothing to do.
    pub fn wait_idle(&self) -> Result<()> {
        self.core.check_writable()?;
        self.core.background.wait_idle()
    }

    /// Returns the sequence number of the newest visible commit.
    pub fn visible_seqno(&self) -> SeqNo {
        self.core.snapshots.visible()
    }

    /// Closes the database: ends background work and makes everything committed durable. Other
    /// handles, cursors and snapshots may outlive this; their calls that need the database return
    /// [`ErrorKind::Closed`].
    pub fn close(self) -> Result<()> {
        self.core.close()
    }
}
