//! The builder of a database, and the ways to open one.

use crate::base::error::Result;
use crate::base::key::Comparator;
use crate::db::Db;
use crate::db::control::recent::RecentEvents;
use crate::db::open::Opening;
use crate::db::options::Options;
use crate::env::Env;
use crate::env::key_provider::KeyProvider;
use crate::events::{EventListener, Events};
use crate::recovery::comparators::Comparators;
use crate::table::FilterPolicy;
use crate::version::compaction_filter::{CompactionFilter, CompactionFilters};
use crate::version::merge_operator::MergeOperator;
use crate::version::merging::MergeOperators;
use crate::version::settings::KeyspaceOptions;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The builder of a [`Db`]: collects settings and components, then opens the database.
///
/// ```
/// # let dir = cleavedb::doc_dir("builder");
/// use cleavedb::{Db, Options};
/// let options = Options { cache_bytes: 16 << 20, ..Options::default() };
/// let db = Db::builder(&dir).options(options).open()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder opens nothing until `open` is called"]
pub struct Builder {
    dir: PathBuf,
    options: Options,
    env: Option<Env>,
    comparators: Comparators,
    merge_operators: MergeOperators,
    filter_policy: Option<Arc<dyn FilterPolicy>>,
    compaction_filters: CompactionFilters,
    keys: Option<Arc<dyn KeyProvider>>,
    listener: Option<Arc<dyn EventListener>>,
    beside_others: bool,
    keeps_options: bool,
}

impl Builder {
    pub(crate) fn new(dir: &Path) -> Self {
        Builder {
            dir: dir.to_path_buf(),
            options: Options::default(),
            env: None,
            comparators: Comparators::default(),
            merge_operators: MergeOperators::default(),
            filter_policy: None,
            compaction_filters: CompactionFilters::new(),
            #[cfg(feature = "sim")]
            keys: crate::env::key_provider::test_key(),
            #[cfg(not(feature = "sim"))]
            keys: None,
            listener: None,
            beside_others: false,
            keeps_options: false,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn comparators(&self) -> &Comparators {
        &self.comparators
    }

    pub(super) fn merge_operators(&self) -> &MergeOperators {
        &self.merge_operators
    }

    pub(super) fn keyspace_options(&self) -> &KeyspaceOptions {
        &self.options.keyspace
    }

    pub(super) fn policy(&self) -> Option<&Arc<dyn FilterPolicy>> {
        self.filter_policy.as_ref()
    }

    pub(super) fn env_to_use(&self) -> Env {
        self.env.clone().unwrap_or_else(|| Env::os(&self.options.os_settings()))
    }

    /// Opens an existing database for writing and creates nothing, for repairs. Nothing is freed or
    /// moved meanwhile, so that what is damaged stays as it was found. That is no setting of the
    /// database's owner, so OPTIONS stays, too.
    pub(super) fn only_existing(mut self, env: &Env) -> Self {
        self.env = Some(env.clone());
        self.options.create_if_missing = false;
        self.options.error_if_exists = false;
        self.options.read_only = false;
        self.options.gc.automatic = false;
        self.keeps_options = true;
        self.compaction_filters.clear();
        self
    }

    /// Opens the database for the check before or after a repair, which removes nothing.
    pub(super) fn only_reading(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// Sets the options.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("builder-options");
    /// use cleavedb::{Db, Options};
    /// let options = Options { max_open_files: 100, ..Options::default() };
    /// let db = Db::builder(&dir).options(options).open()?;
    /// assert_eq!(db.options().max_open_files, 100);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Replaces the operating system's files, time, threads and randomness.
    #[cfg(feature = "sim")]
    #[doc(hidden)]
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Encrypts the database if it is created, and opens it if it is encrypted: all keys, values
    /// and names of keyspaces, in all its files, by AES-256-GCM-SIV, so that nobody without a key
    /// can read them or change them unnoticed. [`KeyProvider`] has an example; `SECURITY.md` says
    /// what stays visible.
    ///
    /// A database is encrypted from its creation on, or not at all: fails with
    /// [`ErrorKind::InvalidOption`] before anything is touched if it is not encrypted, or if
    /// `provider` lacks its key. Without `provider`, an encrypted database is refused in the same
    /// way. If the provider's current key is a new one, opening for writing wraps the keys of the
    /// files with it, which rewrites one small file, and seals new files with a new data key.
    ///
    /// [`ErrorKind::InvalidOption`]: crate::ErrorKind::InvalidOption
    pub fn encryption(mut self, provider: Arc<dyn KeyProvider>) -> Self {
        self.keys = Some(provider);
        self
    }

    pub(super) fn key_provider(&self) -> Option<&dyn KeyProvider> {
        self.keys.as_deref()
    }

    /// Orders the keys of a keyspace by `comparator` instead of by bytes. The comparator's name is
    /// recorded when the keyspace is created; opening it with another one is refused.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("builder-comparator");
    /// use cleavedb::{Comparator, Db};
    /// use std::{cmp::Ordering, sync::Arc};
    ///
    /// struct Reversed;
    ///
    /// impl Comparator for Reversed {
    ///     fn name(&self) -> &str {
    ///         "example.Reversed"
    ///     }
    ///     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
    ///         b.cmp(a)
    ///     }
    /// }
    ///
    /// let db = Db::builder(&dir).comparator("newest first", Arc::new(Reversed)).open()?;
    /// let days = db.create_keyspace("newest first")?;
    /// days.put("2026-01-01", "")?;
    /// days.put("2026-01-02", "")?;
    /// assert_eq!(days.first_key_value()?.unwrap().0, b"2026-01-02");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn comparator(mut self, keyspace: &str, comparator: Arc<dyn Comparator>) -> Self {
        self.comparators.set(keyspace, comparator);
        self
    }

    /// Lets keyspaces use `operator`, which [`MergeOperator`] has an example of: those that name it
    /// in [`KeyspaceOptions::merge_operator`] when they are created. A database with such a
    /// keyspace can only be opened with it, or with [`Builder::without_merge_operators`].
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.merge_operators.add(operator);
        self
    }

    /// Opens the database although merge operators of its keyspaces are not given, as a tool does
    /// that does not know them. There, a read of a key with operands and a merge fail with
    /// [`ErrorKind::WrongState`]; all else works, and nothing is lost: operands stay as they are.
    ///
    /// [`ErrorKind::WrongState`]: crate::ErrorKind::WrongState
    pub fn without_merge_operators(mut self) -> Self {
        self.merge_operators.allow_stand_ins();
        self
    }

    /// Builds and queries filters with `policy` instead of the engine's, in all keyspaces, for
    /// tables written from now on. Tables with the engine's filters keep them.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("builder-filter-policy");
    /// # use cleavedb::{Db, FilterPolicy};
    /// # use std::sync::Arc;
    /// # struct FirstBytes;
    /// # impl FilterPolicy for FirstBytes {
    /// #     fn name(&self) -> &str { "example.FirstBytes" }
    /// #     fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
    /// #         keys.iter().filter_map(|key| key.first().copied()).collect()
    /// #     }
    /// #     fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
    /// #         key.first().is_none_or(|first| filter.contains(first))
    /// #     }
    /// # }
    /// let db = Db::builder(&dir).filter_policy(Arc::new(FirstBytes)).open()?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.flush()?;
    /// assert!(words.contains_key("one")? && !words.contains_key("two")?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn filter_policy(mut self, policy: Arc<dyn FilterPolicy>) -> Self {
        self.filter_policy = Some(policy);
        self
    }

    /// Has the compactions of a keyspace ask `filter` which entries stay, go, or get another value.
    /// The filter is not recorded: it must be given at each opening that shall filter.
    /// [`CompactionFilter`] says what is asked when, and has an example.
    ///
    /// Costs a call for each entry that is compacted, and a read for each separated value that the
    /// filter asks for.
    pub fn compaction_filter(mut self, keyspace: &str, filter: Arc<dyn CompactionFilter>) -> Self {
        self.compaction_filters.insert(keyspace.to_owned(), filter);
        self
    }

    /// Sets a listener that is called for flushes, compactions, write stalls, errors in the
    /// background, and more. See [`EventListener`] for an example.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("builder-event-listener");
    /// # use cleavedb::{Db, Event, EventListener};
    /// # use std::sync::Arc;
    /// # struct Printer;
    /// # impl EventListener for Printer {
    /// #     fn on_event(&self, event: &Event) {
    /// #         println!("{event:?}");
    /// #     }
    /// # }
    /// let db = Db::builder(&dir).event_listener(Arc::new(Printer)).open()?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn event_listener(mut self, listener: Arc<dyn EventListener>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Allows creating the database in a directory that holds other files, unless they are those of
    /// another store. Without this, other files are taken as the sign of a wrong path.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("builder-beside");
    /// use cleavedb::{Db, ErrorKind};
    /// std::fs::create_dir_all(&dir)?;
    /// std::fs::write(dir.join("notes.txt"), "not a database")?;
    /// let refused = Db::builder(&dir).open().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    /// let db = Db::builder(&dir).beside_other_files().open()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn beside_other_files(mut self) -> Self {
        self.beside_others = true;
        self
    }

    /// Opens the database, or creates it if [`Options::create_if_missing`] is set and there is
    /// none.
    ///
    /// Replays the log behind the head: at most `max_replay_bytes` of it. Fails with
    /// [`ErrorKind::Locked`] if somebody holds it open (unless both only read), with
    /// [`ErrorKind::Corruption`], file and offset if what is on disk is not what was written, and
    /// with [`ErrorKind::Unsupported`] if a newer build wrote it.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("builder-open");
    /// use cleavedb::{Db, ErrorKind};
    /// let db = Db::builder(&dir).open()?;
    /// // A second handle of the same directory needs the first one to be closed.
    /// let second = Db::builder(&dir).open().unwrap_err();
    /// assert_eq!(second.kind(), ErrorKind::Locked);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Locked`]: crate::ErrorKind::Locked
    /// [`ErrorKind::Corruption`]: crate::ErrorKind::Corruption
    /// [`ErrorKind::Unsupported`]: crate::ErrorKind::Unsupported
    pub fn open(mut self) -> Result<Db> {
        self.options.validate()?;
        self.options.follow |= self.options.follow_pinned;
        self.options.read_only |= self.options.follow;
        self.merge_operators.validate()?;
        let env = self.env_to_use();
        let is_asked = env.sockets.is_some() && self.options.control_socket;
        let recent = (is_asked && !self.options.read_only)
            .then(|| Arc::new(RecentEvents::new(env.clock.clone())));
        let recorder = recent.clone().map(|recent| recent as Arc<dyn EventListener>);
        let filtered = self.compaction_filters.keys().cloned();
        Opening {
            merge_operators: self
                .merge_operators
                .with_filtered(filtered)
                .following(self.options.follow),
            env,
            dir: self.dir,
            options: self.options,
            comparators: self.comparators,
            filter_policy: self.filter_policy,
            compaction_filters: self.compaction_filters,
            keys: self.keys,
            events: Arc::new(Events::new(self.listener).recorded_by(recorder)),
            recent,
            beside_others: self.beside_others,
            keeps_options: self.keeps_options,
        }
        .run()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("path", &self.dir)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Opens the database at `path` with the default settings, or creates it if there is none.
///
/// ```
/// # let dir = cleavedb::doc_dir("open");
/// let db = cleavedb::open(&dir)?;
/// db.default_keyspace().put("hello", "world")?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub fn open(path: impl AsRef<Path>) -> Result<Db> {
    Db::builder(path).open()
}
