//! Floor 9, the top: the public types, and how the rooms below are put together.
//!
//! [`Db`] and [`Keyspace`] are handles on one shared [`Core`]; dropping the last handle closes the
//! database. Nothing here decides what is live (`version` does), what a commit is (`commit`) or
//! what a value is (`read`).

pub mod backup;
pub mod batch;
pub mod builder;
pub mod changes;
pub mod check;
pub mod checkpoint;
mod closing;
mod commit_checked;
pub mod compare;
pub(crate) mod control;
pub mod convert;
pub mod cursor;
pub mod delete_range;
pub mod destroy;
pub mod expiry;
pub mod follow;
pub mod gc;
pub mod holders;
pub mod ingest;
pub mod inspect;
pub mod key_range;
pub mod keyspace;
mod keyspaces;
pub mod long_pass;
mod maintenance;
pub mod open;
pub mod options;
pub mod range;
pub mod read_options;
pub mod reads;
pub mod repair;
pub mod report;
pub mod scan_costs;
mod scans;
mod single_write;
pub mod snapshot;
pub mod space;
pub mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod timing;
pub mod transaction;

use crate::background::Background;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::commit::group::{Committer, Durability};
use crate::env::fork::Process;
use crate::env::fs::Lock;
use crate::env::key_provider::KeyProvider;
use crate::env::sync::Mutex;
use crate::events::Event;
use crate::read::fetch::Fetcher;
use crate::recovery::RecoveryReport;
use crate::recovery::comparators::Comparators;
use crate::recovery::follow::Follower;
use crate::version::merging::MergeOperators;
use crate::version::runtime::Runtime;
use crate::version::view::KeyspaceState;
use arc_swap::ArcSwap;
use batch::WriteBatch;
use builder::Builder;
use closing::Closing;
use control::ControlServer;
use control::recent::RecentEvents;
use holders::CoreHandle;
use options::{Options, WriteOptions, check_durability};
use snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

/// The state that all handles of one open database share.
pub(crate) struct Core {
    pub(crate) runtime: Runtime,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) committer: Arc<Committer>,
    pub(crate) fetcher: Fetcher,
    pub(crate) background: Arc<Background>,
    pub(crate) comparators: Comparators,
    pub(crate) merge_operators: MergeOperators,
    /// Where the keys come from; `None` if the database is not encrypted. Encrypted sorted files
    /// are read with them.
    keys: Option<Arc<dyn KeyProvider>>,
    pub(crate) recovered: RecoveryReport,
    /// Ends, in bytes, of the segments whose length the manifest did not have when it was opened.
    pub(crate) log_ends: BTreeMap<SegmentId, u64>,
    /// The newest number that the opening found and knows to be on stable storage.
    pub(crate) settled_seqno: SeqNo,
    /// The keyspaces by name. They change under `ddl` only.
    keyspaces: ArcSwap<BTreeMap<String, Arc<KeyspaceState>>>,
    /// Serializes creating and dropping keyspaces.
    ddl: Mutex<()>,
    closing: Closing,
    /// The process that opened the database. All calls are refused in its children, before they
    /// take a lock.
    process: Process,
    /// Number of live handles of the database and its keyspaces.
    handles: AtomicUsize,
    /// Number of users' holds; the last one that goes closes the database.
    holds: AtomicUsize,
    /// Answers other processes, if this opening does.
    control: OnceLock<ControlServer>,
    /// What happened lately, for them.
    recent: Option<Arc<RecentEvents>>,
    lock: Mutex<Option<Box<dyn Lock>>>,
    /// Reads what another process writes; `None` unless the database was opened for that.
    pub(crate) follower: Option<Follower>,
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
        if self.closing.is_begun() {
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

    /// Closes the database, or waits for who closes it; returns what came of it.
    fn close(&self) -> Result<()> {
        self.process.check()?;
        self.closing.run(|| self.end())
    }

    /// Stops the background, makes what was committed durable, and records where the log ends, so
    /// that a log that is cut short while closed is noticed. No failure in here loses a commit.
    fn end(&self) -> Result<()> {
        if let Some(control) = self.control.get() {
            control.shut();
        }
        self.committer.signal.give();
        self.background.stop();
        // Jobs that others had asked for have ended now, so this waits for answers only.
        if let Some(control) = self.control.get() {
            control.end();
        }
        let outcome = if self.options.read_only { Ok(()) } else { self.seal_log() };
        let outcome = outcome.and_then(|()| self.tidy_at_closing());
        self.set.close();
        self.set.log_pins().close();
        // Removes files whose last reader is gone. Those still held become orphans that the next
        // opening removes.
        let purged = self.set.purge().outcome;
        self.follower.iter().for_each(Follower::end);
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

    pub(crate) fn states(&self) -> Vec<Arc<KeyspaceState>> {
        self.keyspaces.load().values().cloned().collect()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // It is closed already, unless the opening failed. Then the caller has that error, and what
        // was committed is in the log all the same.
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
    /// of another database), fails with the first such error and writes nothing. It fails with
    /// [`ErrorKind::Conflict`] if one of its requirements is not met ([`WriteBatch::require`]).
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
        options.check_no_expiry()?;
        self.core.check_writable()?;
        let (batch, requirements) = batch.into_inner(&self.core)?;
        let durability = self.core.durability(options)?;
        if !requirements.is_empty() {
            return compare::write_if(&self.core, batch, &requirements, durability);
        }
        if batch.is_empty() {
            return Ok(());
        }
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
        self.core.committer.sync_for_user()
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
    /// Costs a sync, and up to a flush if the session left many small files or mostly dead values.
    /// If tombstones delete at least half of what they meet in tables, these are merged: that
    /// reads at most 512 MiB and writes what is left of it. Fails if the sync does; then recovery
    /// finds at the next opening what had reached the device. If another thread closes the database
    /// or it was closed before, this waits for that and returns what came of it.
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
