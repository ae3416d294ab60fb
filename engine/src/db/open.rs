//! Opens a database: takes the lock, has the files read and checked, and puts the parts together.

use crate::background::{Background, BackgroundSettings};
use crate::base::error::{IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::seal::DatabaseIdentity;
use crate::commit::group::{CommitParts, Committer};
use crate::commit::log::{Log, LogSettings, LogShared};
use crate::commit::reserve::Reserve;
use crate::commit::stall::WriteStallController;
use crate::db::closing::Closing;
use crate::db::control::recent::RecentEvents;
use crate::db::holders::CoreHandle;
use crate::db::options::Options;
use crate::db::{Core, Db};
use crate::env::Env;
use crate::env::fork::Process;
use crate::env::fs::{Hold, Lock};
use crate::env::key_provider::KeyProvider;
use crate::env::sync::Mutex;
use crate::events::{Event, Events};
use crate::gc::collector::Collector;
use crate::hot::UpdateTable;
use crate::read::demand::ScanDemands;
use crate::read::fetch::Fetcher;
use crate::recovery::comparators::Comparators;
use crate::recovery::create;
use crate::recovery::follow::{Follower, pinned};
use crate::recovery::place::{self, PlaceRules};
use crate::recovery::{Recovered, Recovery, RecoveryReport};
use crate::table::FilterPolicy;
use crate::version::compaction_filter::CompactionFilters;
use crate::version::files::{TableContext, TableLimits, names};
use crate::version::keys;
use crate::version::manifest::read_current;
use crate::version::merging::MergeOperators;
use crate::version::runtime::Runtime;
use crate::version::settings::DEFAULT_KEYSPACE;
use arc_swap::ArcSwap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// An opening under way.
pub(super) struct Opening {
    pub(super) env: Env,
    pub(super) dir: PathBuf,
    pub(super) options: Options,
    pub(super) comparators: Comparators,
    pub(super) merge_operators: MergeOperators,
    pub(super) filter_policy: Option<Arc<dyn FilterPolicy>>,
    pub(super) compaction_filters: CompactionFilters,
    pub(super) keys: Option<Arc<dyn KeyProvider>>,
    pub(super) events: Arc<Events>,
    pub(super) recent: Option<Arc<RecentEvents>>,
    pub(super) beside_others: bool,
    /// True if the settings that OPTIONS records stay those of the opening before.
    pub(super) keeps_options: bool,
}

impl Opening {
    pub(super) fn run(self) -> Result<Db> {
        let span = tracing::info_span!(target: "cleavedb", "open", path = %self.dir.display());
        let _span = span.entered();
        let begun = self.env.clock.now();
        let current_path = self.dir.join(names::CURRENT);
        let exists = self.env.fs.exists(&current_path).doing("look for", &current_path)?;
        place::check_wanted(&self.env, &self.dir, self.place_rules(), exists)?;
        let core = match self.options.follow {
            true => self.follow()?,
            false => self.open(exists, &current_path)?,
        };
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

    /// Opens the database under its lock.
    fn open(self, exists: bool, current_path: &Path) -> Result<Arc<Core>> {
        let lock = self.lock(exists)?;
        // Another process may have created or destroyed the database before we had the lock.
        let exists = self.env.fs.exists(current_path).doing("look for", current_path)?;
        place::check_wanted(&self.env, &self.dir, self.place_rules(), exists)?;
        if exists && !self.options.read_only {
            pinned::remove_stale(&self.env, &self.dir)?;
        }
        if !exists {
            let keyspace = &self.options.keyspace;
            // An operator that is not known is refused before anything is created.
            self.merge_operators.of_new(DEFAULT_KEYSPACE, keyspace, &Arc::default())?;
            let (env, dir, keys) = (&self.env, &self.dir, self.keys.as_deref());
            let beside_others = self.beside_others;
            create::create(env, dir, &self.comparators, keyspace, keys, beside_others)?;
        }
        let mut recovered = self.recover()?;
        if self.rotate(&recovered)? {
            recovered = self.recover()?;
        }
        self.assemble(recovered, lock, None)
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
        let dir = &self.dir;
        if !exists {
            create::create_dir(&self.env, dir)?;
        }
        let hold = if self.options.read_only { Hold::Shared } else { Hold::Alone };
        let holder = self.env.threads.describe_process();
        match place::try_lock(&self.env, dir, hold, &holder) {
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
        let keys = self.keys.as_deref();
        let identity = keys::identity(&self.env, &self.dir, current, keys)?;
        Recovery {
            env: &self.env,
            tables: self.table_context(identity, &self.dir),
            current,
            comparators: &self.comparators,
            merge_operators: &self.merge_operators,
            events: self.events.clone(),
            read_only: self.options.read_only,
        }
        .run()
    }

    /// Wraps the data keys with the provider's current key if that is another one than before, and
    /// returns true if so. This is done before any file is written, whose key would be the former
    /// one. A crash after it leaves a database that opens with the current key.
    fn rotate(&self, recovered: &Recovered) -> Result<bool> {
        let Some(keys) = self.keys.as_deref().filter(|_| !self.options.read_only) else {
            return Ok(false);
        };
        let id = recovered.set.tables().identity.id;
        keys::rotate(&self.env, &self.dir, id, recovered.next_file, keys)
    }

    /// Returns the context of the tables in `dir`.
    pub(super) fn table_context(
        &self,
        identity: DatabaseIdentity,
        dir: &Path,
    ) -> Arc<TableContext> {
        let limits = TableLimits {
            open_files: self.options.max_open_files,
            cache_bytes: self.options.cache_bytes,
            index_and_filter_bytes: self.options.index_and_filter_capacity(),
            tree_bytes: self.options.pin_tree,
        };
        let context = TableContext::new(self.env.fs.clone(), dir.into(), identity, limits);
        Arc::new(TableContext { filter_policy: self.filter_policy.clone(), ..context })
    }

    pub(super) fn assemble(
        self,
        mut recovered: Recovered,
        lock: Option<Box<dyn Lock>>,
        follower: Option<Follower>,
    ) -> Result<Arc<Core>> {
        if !self.options.read_only {
            recovered.settle(&self.env)?;
            if !self.keeps_options {
                let written = create::write_options(&self.env, &self.dir, &self.options.to_text());
                recovered.tolerated.extend(written.err());
            }
        }
        let cap = self.options.background_bytes_per_second;
        let Recovered { set, health, .. } = &recovered;
        // Only flushes fill the update table, so it stays empty where nobody writes.
        let hot = UpdateTable::new(self.options.update_table_bytes);
        let runtime = Runtime::new(self.env.clone(), set.clone(), health.clone(), cap, hot)
            .with_filters(self.compaction_filters.clone());
        let tolerated = std::mem::take(&mut recovered.tolerated);
        tolerated.into_iter().for_each(|error| runtime.note_background_error(error));
        runtime.snapshots.publish(recovered.last_seqno);
        let writable = !self.options.read_only;
        let compaction_threads = self.options.compaction_threads;
        let core = Arc::new_cyclic(|core| self.core(core, runtime, recovered, lock, follower));
        if writable {
            core.tidy_after_recovery()?;
            core.committer.seal_held_back();
            core.background.move_head();
        }
        core.set.tables().tree.load(&core.runtime);
        if writable {
            core.background.start(compaction_threads).doing("start threads for", &core.dir)?;
            core.open_control_socket();
        }
        Ok(core)
    }

    fn core(
        self,
        core: &Weak<Core>,
        runtime: Runtime,
        recovered: Recovered,
        lock: Option<Box<dyn Lock>>,
        follower: Option<Follower>,
    ) -> Core {
        let committer = Arc::new(self.committer(core, &runtime, &recovered));
        let options = self.options.gc.clone();
        let collector = Collector::new(runtime.clone(), committer.clone(), options);
        let settings = BackgroundSettings {
            gc_automatic: self.options.gc.automatic,
            early_compaction: self.options.early_compaction,
        };
        let settled_seqno = settled_seqno(&recovered, self.options.read_only);
        // Where nobody compacts, nothing is done about the order of values.
        let orders = self.options.scan_order && !self.options.read_only;
        let demands = orders.then(|| Arc::new(ScanDemands::new(self.env.clock.clone())));
        let fetcher = Fetcher::new(self.env.reader.clone(), runtime.counters.clone());
        let background = Background::new(runtime.clone(), committer.clone(), collector, settings)
            .ordering(demands.clone());
        Core {
            fetcher: fetcher.noting(demands),
            runtime,
            dir: self.dir,
            options: self.options,
            committer,
            background: Arc::new(background),
            comparators: self.comparators,
            merge_operators: self.merge_operators,
            keys: self.keys,
            settled_seqno,
            recovered: recovered.report,
            log_ends: recovered.replay.sealed.into_iter().collect(),
            keyspaces: ArcSwap::from_pointee(recovered.keyspaces),
            ddl: Mutex::new(()),
            closing: Closing::default(),
            process: Process::this(),
            handles: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            control: OnceLock::new(),
            recent: self.recent,
            lock: Mutex::new(lock),
            follower,
        }
    }

    fn committer(&self, core: &Weak<Core>, runtime: &Runtime, recovered: &Recovered) -> Committer {
        let settings = LogSettings {
            segment_bytes: self.options.segment_bytes,
            ceiling: self.options.gc.max_space_amplification,
            allowance_bytes: self.options.gc.space_allowance_bytes,
            buffer_bytes: self.options.write_buffer_bytes,
            mapped_appends: self.options.mapped_appends,
        };
        let (waker, sync_waker, syncer) = (core.clone(), core.clone(), core.clone());
        let stall_controller = Arc::new(self.stall_controller(runtime, recovered));
        let unsynced = stall_controller.unsynced.clone();
        let parts = CommitParts {
            log: Arc::new(LogShared::new(runtime.clone(), settings, unsynced)),
            stall_controller,
            runtime: runtime.clone(),
            flush_after_log_bytes: self.options.max_replay_bytes / 2,
            wake: Box::new(move || {
                if let Some(core) = waker.upgrade() {
                    core.background.wake();
                }
            }),
            wake_sync: Box::new(move || {
                if let Some(core) = sync_waker.upgrade() {
                    core.background.wake_sync();
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
        let mut limits = self.options.stall_limits(runtime.env.memory_limit);
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

/// Returns the newest number of which the opening knows that it is on stable storage. An opening
/// that writes has settled what it found. One that does not may have read the end of the log from
/// the page cache: no sync reached the last segment of a session that did not close it.
fn settled_seqno(recovered: &Recovered, read_only: bool) -> SeqNo {
    let is_settled = !read_only || recovered.replay.sealed.is_empty();
    if is_settled { recovered.last_seqno } else { recovered.replay.settled_seqno }
}

impl Db {
    /// Returns the report of the opening: how much it replayed, cut off and removed. Costs no I/O.
    /// [`RecoveryReport`] has an example.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.core.recovered
    }
}
