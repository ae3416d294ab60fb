//! Floor 9, the top: the public types, and how the rooms below are put together.
//!
//! [`Db`] and [`Keyspace`] are handles on one shared [`Core`]; dropping the last handle closes the
//! database. Nothing here decides what is live (`version` does), what a commit is (`commit`) or
//! what a value is (`read`).

pub mod batch;
pub mod builder;
pub mod check;
pub mod checkpoint;
pub mod cursor;
pub mod destroy;
pub mod gc;
pub mod holders;
pub mod inspect;
pub mod key_range;
pub mod keyspace;
mod keyspaces;
pub mod open;
pub mod options;
pub mod range;
pub mod read_options;
pub mod reads;
pub mod repair;
pub mod report;
mod scans;
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
use crate::compaction::picker::pick_range;
use crate::compaction::{flush, fold, reorganize};
use crate::env::fork::Process;
use crate::env::fs::Lock;
use crate::env::sync::Mutex;
use crate::events::Event;
use crate::read::fetch::Fetcher;
use crate::recovery::RecoveryReport;
use crate::recovery::comparators::Comparators;
use crate::version::files::TableHandle;
use crate::version::levels::{Levels, bounds};
use crate::version::runtime::Runtime;
use crate::version::view::KeyspaceState;
use arc_swap::ArcSwap;
use batch::WriteBatch;
use builder::Builder;
use holders::CoreHandle;
use options::{Options, WriteOptions, check_durability};
use snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The state that all handles of one open database share.
pub(crate) struct Core {
    pub(crate) runtime: Runtime,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) committer: Arc<Committer>,
    pub(crate) fetcher: Fetcher,
    pub(crate) background: Arc<Background>,
    pub(crate) comparators: Comparators,
    pub(crate) recovered: RecoveryReport,
    /// Ends, in bytes, of the segments whose length the manifest did not have when it was opened.
    pub(crate) log_ends: BTreeMap<SegmentId, u64>,
    /// The keyspaces by name. They change under `ddl` only.
    keyspaces: ArcSwap<BTreeMap<String, Arc<KeyspaceState>>>,
    /// Serializes creating and dropping keyspaces.
    ddl: Mutex<()>,
    closed: AtomicBool,
    /// The process that opened the database. All calls are refused in its children, before they
    /// take a lock.
    process: Process,
    /// Number of live handles of the database and its keyspaces.
    handles: AtomicUsize,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

impl Deref for Core {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl Core {
    /// The door through which every call enters: fails in a child of the process that opened the
    /// database, and once it was closed. Whatever takes a lock, waits or does I/O comes after it.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.process.check()?;
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
        self.process.check()?;
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
        let runtime = self.runtime.for_closing();
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
            let report = fold::run(&runtime, keyspace, snapshots, log_end, extent);
            // A keyspace that was dropped meanwhile leaves nothing to fold.
            if report.is_err() && keyspace.check().is_err() {
                continue;
            }
            let report = report?;
            self.counters.flushes.add(1);
            self.counters.flush_bytes_written.add(report.bytes);
            self.counters.entries_dropped.add(report.dropped);
        }
        flush::move_head_to(&runtime, log_end).map(|_| ())
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
        self.keyspaces.load().values().cloned().collect()
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
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("db-builder");
    /// use cleavedb::{Db, Durability, Options};
    /// let options = Options { durability: Durability::Sync, ..Options::default() };
    /// let db = Db::builder(&dir).options(options).open()?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Returns the directory of the database.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("db-path");
    /// let db = cleavedb::open(&dir)?;
    /// assert_eq!(db.path(), dir);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.core.dir
    }

    /// Returns the settings that the database was opened with.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-options"))?;
    /// assert!(!db.options().read_only);
    /// println!("the cache holds {} bytes", db.options().cache_bytes);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn options(&self) -> &Options {
        &self.core.options
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
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("write-with"))?;
    /// use cleavedb::{Durability, WriteBatch, WriteOptions};
    /// let accounts = db.create_keyspace("accounts")?;
    /// let mut transfer = WriteBatch::new();
    /// transfer.put(&accounts, "ada", "90").put(&accounts, "grace", "110");
    /// db.write_with(transfer, &WriteOptions::new().durability(Durability::Sync))?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
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
    ///
    /// Costs no I/O.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-snapshot"))?;
    /// use cleavedb::ReadOptions;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let before = db.snapshot();
    /// words.delete("one")?;
    /// assert!(words.contains_key_with("one", &ReadOptions::new().snapshot(&before))?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    #[must_use = "a snapshot that is dropped at once keeps nothing"]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.core)
    }

    /// Makes everything committed so far survive a power cut. Waits for one sync.
    ///
    /// Fails with [`ErrorKind::Io`] if the device refuses, and turns the database read-only then:
    /// after a failed sync nobody can say what is on the device.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("sync"))?;
    /// // Many writes that need not be durable one by one, and one sync for all of them.
    /// let words = db.default_keyspace();
    /// for key in ["one", "two", "three"] {
    ///     words.put(key, "")?;
    /// }
    /// db.sync()?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.core.check_writable()?;
        self.core.committer.sync().map(|_| ())
    }

    /// Flushes the memtables of all keyspaces and waits for it.
    ///
    /// Costs a write of the keys and small values that are in memory. Writers go on meanwhile.
    /// Fails with [`ErrorKind::ReadOnly`] if the database takes no writes, and with the error of
    /// the flush, such as [`ErrorKind::DiskFull`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-flush"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// db.flush()?;
    /// assert_eq!(words.tables().len(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.core.flush(&self.core.states())
    }

    /// Compacts all keyspaces completely and waits for it. Rewrites every table, but no separated
    /// value.
    ///
    /// Costs a flush, and a read and a write of all tables for each level that they are in. It is
    /// worth its cost after many deletions, or before a checkpoint that is kept. Fails as
    /// [`Db::flush`] does.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-compact"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.delete("one")?;
    /// db.compact()?;
    /// assert!(words.tables().is_empty());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
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
    ///
    /// Other threads that write meanwhile may keep it from returning. Fails with the error of a
    /// background job that cannot go on, such as [`ErrorKind::DiskFull`].
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("wait-idle"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// db.flush()?;
    /// db.wait_idle()?;
    /// assert_eq!(db.stats().background_errors, 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn wait_idle(&self) -> Result<()> {
        self.core.check_writable()?;
        self.core.background.wait_idle()
    }

    /// Returns the sequence number of the newest visible commit.
    ///
    /// Costs no I/O.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("visible-seqno"))?;
    /// let before = db.visible_seqno();
    /// db.default_keyspace().put("one", "eins")?;
    /// assert!(db.visible_seqno() > before);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn visible_seqno(&self) -> SeqNo {
        self.core.snapshots.visible()
    }

    /// Closes the database: ends background work and makes everything committed durable. Other
    /// handles, cursors and snapshots may outlive this; their calls that need the database return
    /// [`ErrorKind::Closed`].
    ///
    /// Costs a sync, and up to a flush if the session left many small files. Fails if the sync
    /// does; then recovery finds at the next opening what had reached the device.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("close"))?;
    /// use cleavedb::ErrorKind;
    /// let words = db.default_keyspace();
    /// db.close()?;
    /// assert_eq!(words.get("one").unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.core.close()
    }
}
