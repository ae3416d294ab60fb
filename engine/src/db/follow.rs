//! Databases that follow another process, which may be writing to them.

use crate::base::error::{Error, Result};
use crate::db::keyspace::Keyspace;
use crate::db::open::Opening;
use crate::db::options::Options;
use crate::db::read_options::ReadOptions;
use crate::db::snapshot::Snapshot;
use crate::db::{Core, Db};
use crate::env::Env;
use crate::env::fs::Hold;
use crate::env::sync::Mutex;
use crate::recovery::follow::pinned::PinnedFiles;
use crate::recovery::follow::{FollowParts, Follower, may_have_moved};
use crate::recovery::{Recovered, place};
use crate::version::files::names;
use crate::version::health::Health;
use crate::version::keys;
use crate::version::manifest::read_current;
use crate::version::set::FilesOf;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a read is tried anew at a newer state before its error is taken for damage.
const TRIES: usize = 8;

/// What [`Db::catch_up`] has read.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("caught-up"))?;
/// assert_eq!(db.catch_up()?.records, 0, "who writes is never behind");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaughtUp {
    /// Records of the log that were read. What was flushed meanwhile may have been passed over.
    pub records: u64,
    /// The newest commit that is visible now, as [`Db::visible_seqno`] returns it.
    pub seqno: u64,
}

impl Opening {
    /// Opens the database without a lock, to follow whoever writes to it.
    pub(super) fn follow(self) -> Result<Arc<Core>> {
        let current = read_current(&self.env, &self.dir)?;
        let identity = keys::identity(&self.env, &self.dir, current, self.keys.as_deref())?;
        let pins = self.options.follow_pinned;
        let pinned = pins.then(|| PinnedFiles::begin(&self.env, &self.dir)).transpose()?;
        let files = pinned.as_ref().map_or(FilesOf::Others, |_| FilesOf::OthersPinned);
        let dir = pinned.as_ref().map_or(&*self.dir, PinnedFiles::dir);
        let parts = FollowParts {
            env: self.env.clone(),
            dir: self.dir.clone(),
            tables: self.table_context(identity, dir),
            pinned: Mutex::new(pinned),
            files,
            comparators: self.comparators.clone(),
            merge_operators: self.merge_operators.clone(),
            health: Arc::new(Health::new(self.events.clone())),
            keys: self.keys.clone(),
        };
        let (follower, first) = Follower::begin(parts, current, || self.is_written())?;
        let recovered = Recovered::followed(follower.parts(), first);
        self.assemble(recovered, None, Some(follower))
    }

    /// Returns true if a process has the database open for writing. Where that can't be found out,
    /// as on a file system that can't be written to, nobody has.
    fn is_written(&self) -> bool {
        writer(&self.env, &self.dir).is_ok_and(|writer| writer.is_some())
    }
}

/// Returns the name of the process that has the database open for writing, if there is one.
///
/// The lock is held for a moment to find that out; an opening for writing waits that long.
fn writer(env: &Env, dir: &Path) -> io::Result<Option<String>> {
    let holder = env.threads.describe_process();
    match env.fs.lock(&dir.join(names::LOCK), Hold::Shared, &holder) {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

impl Core {
    /// Catches up if what readers see is older than the options allow.
    #[inline]
    pub(crate) fn follow_if_due(&self) -> Result<()> {
        match (&self.follower, self.options.follow_every) {
            (Some(follower), Some(most)) => self.follow_after(follower, most),
            _ => Ok(()),
        }
    }

    #[cold]
    fn follow_after(&self, follower: &Follower, most: Duration) -> Result<()> {
        if self.env.clock.since(follower.seen_at()) < most {
            return Ok(());
        }
        self.catch_up().map(|_| ())
    }

    pub(crate) fn catch_up(&self) -> Result<CaughtUp> {
        let Some(follower) = &self.follower else {
            return Ok(CaughtUp { records: 0, seqno: self.snapshots.visible() });
        };
        let _ddl = self.ddl.lock();
        let followed = follower.catch_up(&self.runtime)?;
        if followed.is_new_version {
            let keyspaces = self.set.keyspaces();
            let by_name = keyspaces.into_iter().map(|state| (state.name.clone(), state));
            self.keyspaces.store(Arc::new(by_name.collect::<BTreeMap<_, _>>()));
        }
        Ok(CaughtUp { records: followed.records, seqno: self.snapshots.visible() })
    }

    /// Reads, and reads again at a newer state if a file was gone.
    #[inline]
    pub(crate) fn again<R>(&self, mut read: impl FnMut() -> Result<R>) -> Result<R> {
        if self.follower.is_none() { read() } else { self.read_again(read) }
    }

    #[cold]
    fn read_again<R>(&self, mut read: impl FnMut() -> Result<R>) -> Result<R> {
        let mut tries = 0;
        loop {
            let version = self.set.current().number;
            match read() {
                Err(error) if tries < TRIES && self.has_moved(&error, version)? => tries += 1,
                read => return read,
            }
        }
    }

    /// Does as [`Core::again`] for reads of many keys at one moment.
    pub(crate) fn all_again<R>(&self, mut read: impl FnMut() -> Vec<Result<R>>) -> Vec<Result<R>> {
        let mut tries = 0;
        loop {
            let version = self.set.current().number;
            let found = read();
            let error = found.iter().find_map(|found| found.as_ref().err());
            let is_lost = error.is_some_and(|it| self.has_moved(it, version).unwrap_or(false));
            if !is_lost || tries == TRIES {
                return found;
            }
            tries += 1;
        }
    }

    /// Returns true if an error of who reads a version may come from what the writer has done to
    /// its files since: there is a newer version by now.
    pub(crate) fn has_moved(&self, error: &Error, version: u64) -> Result<bool> {
        if self.follower.is_none() || !may_have_moved(error) {
            return Ok(false);
        }
        self.catch_up()?;
        Ok(self.set.current().number > version)
    }

    /// Returns the error for a walk over a version whose files are gone, or `error` if that was not
    /// why.
    pub(crate) fn lost(&self, error: Error, version: u64) -> Error {
        match self.has_moved(&error, version) {
            Ok(true) => Error::wrong_state(format!("the writer has removed what is read: {error}"))
                .advise("begin anew, without this snapshot or walk: that sees a newer state"),
            _ => error,
        }
    }
}

impl Keyspace {
    /// Reads, and reads again at a newer state if a file was gone. At a snapshot there is no other
    /// state to go on with.
    #[inline]
    pub(super) fn again<R>(
        &self,
        options: &ReadOptions,
        mut read: impl FnMut() -> Result<R>,
    ) -> Result<R> {
        match options.read_snapshot() {
            None => self.core.again(read),
            Some(snapshot) => read().map_err(|error| self.lost_at(error, snapshot)),
        }
    }

    /// Returns the error for a read at a snapshot whose files are gone, or `error` if that was not
    /// why.
    #[cold]
    pub(super) fn lost_at(&self, error: Error, snapshot: &Snapshot) -> Error {
        let view = self.state.peek();
        let before = snapshot.view_before(&view);
        let version = before.map_or(view.version.number, |before| before.version.number);
        self.core.lost(error, version)
    }
}

impl Db {
    /// Reads what the process that writes the database has done since, and shows it to reads from
    /// now on. Does nothing in a database that was not opened to follow another process
    /// ([`Options::follow`](crate::Options::follow)).
    ///
    /// All commits whose writers had returned before this call, with a durability of
    /// [`Durability::Os`](crate::Durability::Os) or more, are visible behind it. Snapshots, cursors
    /// and scans go on seeing what they saw. After an error, so do all reads.
    ///
    /// Costs some small reads if there is nothing new, else as much as the new part of the log and
    /// of the manifest.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("catch-up");
    /// use cleavedb::{Db, Options};
    /// let writer = cleavedb::open(&dir)?; // in another process
    /// let follow = Options { follow: true, ..Options::default() };
    /// let reader = Db::builder(&dir).options(follow).open()?;
    /// writer.default_keyspace().put("one", "eins")?;
    /// let words = reader.default_keyspace();
    /// assert!(words.get("one")?.is_none());
    /// reader.catch_up()?;
    /// assert_eq!(words.get("one")?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn catch_up(&self) -> Result<CaughtUp> {
        self.core.check_open()?;
        self.core.catch_up()
    }

    /// Returns how old the state is that reads see: the time since the last catch-up began. Zero
    /// in a database that does not follow another process.
    ///
    /// Costs no I/O.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("age"))?;
    /// assert!(db.age().is_zero());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn age(&self) -> Duration {
        let follower = self.core.follower.as_ref();
        follower.map_or(Duration::ZERO, |it| self.core.env.clock.since(it.seen_at()))
    }

    /// Returns the name of the process that has the database at `path` open for writing, or `None`
    /// if nobody has. Whoever opens it meanwhile waits for a moment.
    ///
    /// Fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if there is no database.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("writer");
    /// use cleavedb::Db;
    /// let db = cleavedb::open(&dir)?;
    /// println!("in use by {}", Db::writer(&dir)?.unwrap());
    /// db.close()?;
    /// assert_eq!(Db::writer(&dir)?, None);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn writer(path: impl AsRef<Path>) -> Result<Option<String>> {
        let (env, dir) = (Env::os(&Options::default().os_settings()), path.as_ref());
        read_current(&env, dir)?;
        writer(&env, dir).map_err(|error| place::not_locked(dir, error))
    }

    /// Returns true if the database follows another process.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("follows"))?;
    /// assert!(!db.follows());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn follows(&self) -> bool {
        self.core.follower.is_some()
    }
}
