//! Opens a database: takes the lock, reads the manifest, checks the files and replays the log.

use crate::background::Background;
use crate::base::error::{Error, IoContext, Result};
use crate::base::key::Comparator;
use crate::base::pointer::KeyspaceId;
use crate::cache::{BlockCache, OpenFiles};
use crate::commit::group::{CommitParts, Committer};
use crate::commit::log::{Log, LogSettings, LogShared};
use crate::commit::replay::{ReplayReport, replay};
use crate::commit::reserve::Reserve;
use crate::commit::stall::WriteStallController;
use crate::db::holders::CoreHandle;
use crate::db::options::Options;
use crate::db::{Core, Db};
use crate::env::Env;
use crate::env::fs::{Hold, Lock};
use crate::env::sync::{Mutex, RwLock};
use crate::events::{Event, EventListener, Events};
use crate::gc::collector::{Collector, CollectorParts};
use crate::read::fetch::Fetcher;
use crate::recovery::comparators::Comparators;
use crate::recovery::create;
use crate::recovery::place::{self, PlaceRules};
use crate::recovery::recover::{self, RecoveryReport};
use crate::table::{FilterPolicy, TableStats};
use crate::version::Version;
use crate::version::files::{PurgeQueue, TableContext, names};
use crate::version::health::Health;
use crate::version::manifest::{Current, read_current, sync_manifest};
use crate::version::owner;
use crate::version::runtime::Runtime;
use crate::version::set::{self, VersionSet};
use crate::version::settings::{DEFAULT_KEYSPACE, KeyspaceOptions};
use crate::version::view::KeyspaceState;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

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
    filter_policy: Option<Arc<dyn FilterPolicy>>,
    listener: Option<Arc<dyn EventListener>>,
    beside_others: bool,
}

impl Builder {
    pub(crate) fn new(dir: &Path) -> Self {
        Builder {
            dir: dir.to_path_buf(),
            options: Options::default(),
            env: None,
            comparators: Comparators::default(),
            filter_policy: None,
            listener: None,
            beside_others: false,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn comparators(&self) -> &Comparators {
        &self.comparators
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
    /// moved meanwhile, so that what is damaged stays as it was found.
    pub(super) fn only_existing(mut self, env: &Env) -> Self {
        self.env = Some(env.clone());
        self.options.create_if_missing = false;
        self.options.error_if_exists = false;
        self.options.read_only = false;
        self.options.gc.automatic = false;
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
    pub fn open(self) -> Result<Db> {
        self.options.validate()?;
        let env = self.env_to_use();
        let Builder { dir, options, comparators, filter_policy, listener, beside_others, .. } =
            self;
        let events = Arc::new(Events::new(listener));
        Opening { env, dir, options, comparators, filter_policy, events, beside_others }.run()
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

struct Opening {
    env: Env,
    dir: PathBuf,
    options: Options,
    comparators: Comparators,
    filter_policy: Option<Arc<dyn FilterPolicy>>,
    events: Arc<Events>,
    beside_others: bool,
}

/// The result of reading the manifest and the log.
struct Recovered {
    set: Arc<VersionSet>,
    health: Arc<Health>,
    /// Number of the manifest in force.
    manifest: u64,
    /// True if the manifest ends in an edit that a crash cut short.
    is_torn: bool,
    keyspaces: BTreeMap<String, Arc<KeyspaceState>>,
    /// Files that no live edit names.
    orphans: Vec<PathBuf>,
    replay: ReplayReport,
    report: RecoveryReport,
    last_seqno: u64,
}

impl Recovered {
    /// True if there is nothing to settle: the log is closed, and the manifest names exactly what
    /// is there.
    fn is_settled(&self) -> bool {
        let ReplayReport { sealed, never_begun, torn, .. } = &self.replay;
        let is_closed = sealed.is_empty() && never_begun.is_empty() && torn.is_empty();
        is_closed && !self.is_torn && self.orphans.is_empty()
    }
}

impl Opening {
    fn run(self) -> Result<Db> {
        let span = tracing::info_span!(target: "cleavedb", "open", path = %self.dir.display());
        let _span = span.entered();
        let begun = self.env.clock.now();
        let current_path = self.dir.join(names::CURRENT);
        let exists = self.env.fs.exists(&current_path).doing("look for", &current_path)?;
        place::check_wanted(&self.env, &self.dir, self.place_rules(), exists)?;
        let lock = self.lock(exists)?;
        // Another process may have created or destroyed the database before we had the lock.
        let exists = self.env.fs.exists(&current_path).doing("look for", &current_path)?;
        place::check_wanted(&self.env, &self.dir, self.place_rules(), exists)?;
        if !exists {
            let keyspace = &self.options.keyspace;
            create::create(&self.env, &self.dir, &self.comparators, keyspace, self.beside_others)?;
        }
        let recovered = self.recover()?;
        let core = self.assemble(recovered, lock)?;
        let found = &core.recovered;
        core.health.events.emit(Event::Opened {
            path: core.dir.clone(),
            replayed_records: found.replayed_records,
            replayed_bytes: found.replayed_bytes,
            torn_bytes: found.torn_bytes,
            took: core.env.clock.since(begun),
        });
        Ok(Db { core: CoreHandle::new(core) })
    }

    fn place_rules(&self) -> PlaceRules {
        PlaceRules {
            create_if_missing: self.options.create_if_missing,
            error_if_exists: self.options.error_if_exists,
            read_only: self.options.read_only,
            beside_others: self.beside_others,
        }
    }

    fn lock(&self, exists: bool) -> Result<Option<Box<dyn Lock>>> {
        let (fs, dir) = (&self.env.fs, &self.dir);
        if !exists {
            create::create_dir(&self.env, dir)?;
        }
        let path = dir.join(names::LOCK);
        let hold = if self.options.read_only { Hold::Shared } else { Hold::Alone };
        let holder = self.env.threads.describe_process();
        match fs.lock(&path, hold, &holder) {
            Ok(lock) => Ok(Some(lock)),
            // A read-only directory can be read without a lock, since nobody can write to it
            // either.
            Err(error)
                if self.options.read_only
                    && matches!(
                        error.kind(),
                        std::io::ErrorKind::PermissionDenied
                            | std::io::ErrorKind::ReadOnlyFilesystem
                    ) =>
            {
                Ok(None)
            }
            Err(error) => Err(place::not_locked(dir, error)),
        }
    }

    fn recover(&self) -> Result<Recovered> {
        let current = read_current(&self.env, &self.dir)?;
        let tables = self.table_context(current);
        let comparators = self.comparators.clone();
        let comparator_of = move |name: &str| comparators.named(name);
        let found = recover::read_version(&self.env, &tables, current, &comparator_of)?;
        recover::check_files(&self.env, &found.version)?;
        let left = recover::find_leftovers(&self.env, &self.dir, &found, current)?;
        let mut report =
            RecoveryReport { foreign_files: left.foreign, ..RecoveryReport::default() };
        let (keyspaces, by_id) = self.open_keyspaces(&found.version, &mut report)?;
        let replayed = replay(&self.env, &found.version, &mut |record| {
            recover::check_keyspace(&found, &record)?;
            recover::insert(&by_id, &found.version, &record)
        })?;
        report.replayed_bytes = replayed.bytes;
        report.replayed_records = replayed.records;
        report.torn_bytes = replayed.torn.iter().map(|torn| torn.bytes).sum();
        let last_seqno = found.last_seqno.max(replayed.last_seqno);
        let health = Arc::new(Health::new(self.events.clone()));
        let (manifest_bytes, is_torn) = (found.manifest_bytes, found.is_torn);
        let set = VersionSet::new(set::VersionSetParts {
            env: self.env.clone(),
            tables,
            health: health.clone(),
            version: found.version,
            next_file: left.next_file,
            last_seqno,
            comparator_of: Box::new(comparator_of),
        });
        by_id.into_values().for_each(|keyspace| set.register(keyspace));
        if !self.options.read_only {
            set.open_for_edits(current.manifest, manifest_bytes);
        }
        Ok(Recovered {
            set: Arc::new(set),
            health,
            manifest: current.manifest,
            is_torn,
            keyspaces,
            orphans: left.orphans,
            replay: replayed,
            report,
            last_seqno,
        })
    }

    fn table_context(&self, current: Current) -> Arc<TableContext> {
        Arc::new(TableContext {
            dir: self.dir.clone(),
            database: current.database,
            files: Arc::new(OpenFiles::new(self.env.fs.clone(), self.options.max_open_files)),
            cache: Arc::new(BlockCache::new(self.options.cache_bytes)),
            stats: Arc::new(TableStats::default()),
            purge: Arc::new(PurgeQueue::default()),
            filter_policy: self.filter_policy.clone(),
        })
    }

    #[expect(clippy::type_complexity, reason = "two maps of the same keyspaces, used here only")]
    fn open_keyspaces(
        &self,
        version: &Version,
        report: &mut RecoveryReport,
    ) -> Result<(BTreeMap<String, Arc<KeyspaceState>>, BTreeMap<KeyspaceId, Arc<KeyspaceState>>)>
    {
        let shared = Arc::new(version.clone());
        let (mut by_name, mut by_id) = (BTreeMap::new(), BTreeMap::new());
        for (&id, keyspace) in &version.keyspaces {
            let name = keyspace.name.clone();
            self.comparators.check(&name, &keyspace.order)?;
            let order = self.comparators.named(&keyspace.order)?;
            let (options, notes) = KeyspaceOptions::from_manifest(&keyspace.settings)?;
            report.adjusted_settings.extend(notes.iter().map(|note| format!("{name}: {note}")));
            let state = KeyspaceState::new(id, name.clone(), order, options, shared.clone());
            let state = Arc::new(state);
            by_name.insert(name, state.clone());
            by_id.insert(id, state);
        }
        if !by_name.contains_key(DEFAULT_KEYSPACE) {
            return Err(
                Error::corruption("the manifest has no keyspace `default`").in_file(&self.dir)
            );
        }
        Ok((by_name, by_id))
    }

    /// Makes what recovery found durable. If the last session closed cleanly, the manifest is
    /// synced and at most OPTIONS changes. Otherwise what a crash left is settled in this order:
    /// the log and the copy of the torn bytes are made durable, a new manifest comes into force,
    /// orphans are removed, the torn bytes are cut off. After a crash in between, the next opening
    /// repeats it.
    fn settle(&self, recovered: &mut Recovered) -> Result<()> {
        let (env, dir) = (&self.env, &self.dir);
        // The first edit replaces this file. A foreign one is refused now rather than then.
        owner::check_ours(env, &dir.join(names::CURRENT_NEW))?;
        if recovered.is_settled() {
            sync_manifest(env, dir, recovered.manifest)?;
            return create::write_options(env, dir, &self.options.to_text());
        }
        let database = recovered.set.tables().database;
        recover::sync_log(env, dir, &recovered.replay)?;
        for torn in recovered.replay.torn.iter().filter(|torn| torn.bytes > 0) {
            recover::put_aside(env, dir, database, torn)?;
        }
        // The first edit of this opening begins a new manifest.
        recovered.set.apply(|_| Ok(recover::settling_edit(&recovered.replay)), &[], None)?;
        recovered.report.orphans_removed = recover::remove_orphans(env, &recovered.orphans)?;
        for torn in recovered.replay.torn.iter().filter(|torn| torn.offset > 0) {
            recover::cut(env, dir, torn)?;
        }
        create::write_options(env, dir, &self.options.to_text())
    }

    fn assemble(self, mut recovered: Recovered, lock: Option<Box<dyn Lock>>) -> Result<Arc<Core>> {
        if !self.options.read_only {
            self.settle(&mut recovered)?;
        }
        let cap = self.options.background_bytes_per_second;
        let Recovered { set, health, .. } = &recovered;
        let runtime = Runtime::new(self.env.clone(), set.clone(), health.clone(), cap);
        runtime.snapshots.publish(recovered.last_seqno);
        let writable = !self.options.read_only;
        let compaction_threads = self.options.compaction_threads;
        let core = Arc::new_cyclic(|core| self.core(core, runtime, recovered, lock));
        if writable {
            core.leave_few_files()?;
            core.committer.seal_held_back();
            core.background.move_head();
            core.background.start(compaction_threads).doing("start threads for", &core.dir)?;
        }
        Ok(core)
    }

    fn core(
        self,
        core: &Weak<Core>,
        runtime: Runtime,
        recovered: Recovered,
        lock: Option<Box<dyn Lock>>,
    ) -> Core {
        let committer = Arc::new(self.committer(core, &runtime, &recovered));
        let collector = Collector::new(CollectorParts {
            context: runtime.clone(),
            committer: committer.clone(),
            snapshots: runtime.snapshots.clone(),
            stall_controller: committer.stall_controller().clone(),
            counters: runtime.counters.clone(),
            options: self.options.gc.clone(),
        });
        let gc_automatic = self.options.gc.automatic;
        let background =
            Background::new(runtime.clone(), committer.clone(), collector, gc_automatic);
        Core {
            fetcher: Fetcher::new(self.env.reader.clone(), runtime.counters.clone()),
            runtime,
            dir: self.dir,
            options: self.options,
            committer,
            background: Arc::new(background),
            comparators: self.comparators,
            recovered: recovered.report,
            log_ends: recovered.replay.sealed.into_iter().collect(),
            keyspaces: RwLock::new(recovered.keyspaces),
            ddl: Mutex::new(()),
            closed: AtomicBool::new(false),
            handles: AtomicUsize::new(0),
            lock: Mutex::new(lock),
        }
    }

    fn committer(&self, core: &Weak<Core>, runtime: &Runtime, recovered: &Recovered) -> Committer {
        let settings = LogSettings {
            segment_bytes: self.options.segment_bytes,
            buffer_bytes: self.options.write_buffer_bytes,
            mapped_appends: self.options.mapped_appends,
        };
        let (waker, syncer) = (core.clone(), core.clone());
        let parts = CommitParts {
            log: Arc::new(LogShared::new(runtime.clone(), settings)),
            stall_controller: Arc::new(self.stall_controller(runtime, recovered)),
            runtime: runtime.clone(),
            flush_after_log_bytes: self.options.max_replay_bytes / 2,
            wake: Box::new(move || {
                if let Some(core) = waker.upgrade() {
                    core.background.wake();
                }
            }),
            sync_within: Box::new(move |time| {
                if let Some(core) = syncer.upgrade() {
                    core.background.sync_within(time);
                }
            }),
        };
        Committer::new(parts, Log::after(recovered.last_seqno, recovered.replay.last))
    }

    fn stall_controller(&self, runtime: &Runtime, recovered: &Recovered) -> WriteStallController {
        let mut limits = self.options.stall_limits();
        // A keyspace keeps its settings between openings and may compact L0 only at more tables
        // than `level0_stop` now allows. Writers then wait only from that number on, or they would
        // wait for ever.
        for keyspace in recovered.keyspaces.values() {
            limits.level0_full = limits.level0_full.max(keyspace.options().level0_trigger);
        }
        let controller = WriteStallController::new(
            limits,
            runtime.counters.clone(),
            runtime.health.clone(),
            runtime.env.clock.clone(),
            Reserve::new(self.dir.clone()),
        );
        controller.log_bytes.store(recovered.replay.bytes, Ordering::Relaxed);
        controller
    }
}

impl Db {
    /// Returns the report of the opening: how much it replayed, cut off and removed. Costs no I/O.
    /// [`RecoveryReport`] has an example.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.core.recovered
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
