//! The option types. `docs/from-leveldb.md` has the table of what each option of LevelDB means
//! here. LevelDB's numbers are clamped to the engine's bounds, as LevelDB clamps them to its own.

use crate::cache::Cache;
use crate::compaction_filter::CCompactionFilter;
use crate::comparator::{BYTEWISE, CComparator, ComparatorHandle};
use crate::env::Environment;
use crate::filter::{CFilter, FilterHandle};
use crate::guard::quiet;
use crate::handle::{Handle, Plain};
use crate::merge::CMergeOperator;
use crate::snapshot::SnapshotHandle;
use engine::{
    Builder, Codec, Comparator, DEFAULT_KEYSPACE, Db, Durability, EncryptionKey, Error, ErrorKind,
    Keyspace, KeyspaceOptions, Options, ReadOptions, Result, Separation, Snapshot, WriteOptions,
};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The options of a database as C holds them.
pub struct DbOptions {
    settings: Mutex<Settings>,
}

/// A change of a keyspace's settings. A field that is `None` keeps its value on disk.
#[derive(Default, Clone)]
pub struct KeyspaceChanges {
    pub separation: Option<Separation>,
    pub separation_threshold: Option<usize>,
    pub convert_in_compactions: Option<bool>,
    pub codec: Option<Codec>,
    pub value_codec: Option<Codec>,
    pub block_bytes: Option<usize>,
    pub filter_bits_per_key: Option<u32>,
    pub table_bytes: Option<u64>,
    pub memtable_bytes: Option<u64>,
    pub default_ttl: Option<Option<Duration>>,
    pub merge_operator: Option<String>,
}

impl KeyspaceChanges {
    /// Stores the changes in the keyspace on disk. Does nothing if the database is read-only.
    pub fn store(&self, db: &Db, keyspace: &Keyspace) -> Result<()> {
        if db.options().read_only {
            return Ok(());
        }
        let mut options = keyspace.options();
        self.apply(&mut options);
        keyspace.set_options(options)
    }

    /// Applies the changes to `options`.
    pub fn apply(&self, options: &mut KeyspaceOptions) {
        fn set<T: Clone>(place: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                place.clone_from(value);
            }
        }
        set(&mut options.separation, &self.separation);
        set(&mut options.separation_threshold, &self.separation_threshold);
        set(&mut options.convert_in_compactions, &self.convert_in_compactions);
        set(&mut options.block_codec, &self.codec);
        set(&mut options.value_codec, &self.codec);
        set(&mut options.value_codec, &self.value_codec);
        set(&mut options.block_bytes, &self.block_bytes);
        set(&mut options.filter_bits_per_key, &self.filter_bits_per_key);
        set(&mut options.table_bytes, &self.table_bytes);
        set(&mut options.memtable_bytes, &self.memtable_bytes);
        set(&mut options.default_ttl, &self.default_ttl);
        if self.merge_operator.is_some() {
            options.merge_operator.clone_from(&self.merge_operator);
        }
    }
}

/// The settings that C has made.
pub struct Settings {
    pub options: Options,
    pub keyspace: KeyspaceChanges,
    comparator: Option<Arc<CComparator>>,
    filter: Option<Arc<CFilter>>,
    /// The compaction filters, by keyspace.
    pub compaction_filters: BTreeMap<String, Arc<CCompactionFilter>>,
    /// The user's merge operators.
    pub merge_operators: Vec<Arc<CMergeOperator>>,
    /// The current key, and behind it former ones; empty if databases are not encrypted.
    pub encryption_keys: Vec<EncryptionKey>,
    /// The first error of a setter, which opening returns.
    error: Option<Error>,
}

impl DbOptions {
    fn new() -> Self {
        let options = Options { create_if_missing: false, ..Options::default() };
        let keyspace = KeyspaceChanges::default();
        let settings = Settings {
            options,
            keyspace,
            comparator: None,
            filter: None,
            compaction_filters: BTreeMap::new(),
            merge_operators: Vec::new(),
            encryption_keys: Vec::new(),
            error: None,
        };
        DbOptions { settings: Mutex::new(settings) }
    }

    /// Changes the settings. An error is kept for opening.
    pub fn change(&self, change: impl FnOnce(&mut Settings) -> Result<()>) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = change(&mut settings) {
            settings.error.get_or_insert(error);
        }
    }

    /// Returns the changes of a keyspace's settings, or the first error of a setter.
    pub fn keyspace_changes(&self) -> Result<KeyspaceChanges> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        match &settings.error {
            Some(error) => Err(error.clone()),
            None => Ok(settings.keyspace.clone()),
        }
    }

    /// Returns a builder with these options, or the first error of a setter.
    pub fn builder(&self, path: &Path) -> Result<Builder> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &settings.error {
            return Err(error.clone());
        }
        let mut options = settings.options.clone();
        settings.keyspace.apply(&mut options.keyspace);
        let mut builder = Db::builder(path).options(options).beside_other_files();
        if let Some(order) = &settings.comparator {
            builder = builder.comparator(DEFAULT_KEYSPACE, order.clone());
        }
        if let Some(filter) = &settings.filter {
            builder = builder.filter_policy(filter.clone());
        }
        for (keyspace, filter) in &settings.compaction_filters {
            builder = builder.compaction_filter(keyspace, filter.clone());
        }
        for operator in &settings.merge_operators {
            builder = builder.merge_operator(operator.clone());
        }
        if !settings.encryption_keys.is_empty() {
            builder = builder.encryption(Arc::new(settings.encryption_keys.clone()));
        }
        Ok(builder)
    }

    /// Returns `error` in LevelDB's words if a database exists, or does not exist, contrary to the
    /// options. Programs compare these messages.
    fn as_leveldb_says(&self, error: Error, path: &Path) -> Error {
        let expected = [ErrorKind::NotFound, ErrorKind::AlreadyExists];
        if !expected.contains(&error.kind()) || error.file() != Some(path) {
            return error;
        }
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let wish = match path.join("CURRENT").exists() {
            true if settings.options.error_if_exists => "exists (error_if_exists is true)",
            false if !settings.options.create_if_missing => {
                "does not exist (create_if_missing is false)"
            }
            _ => return error,
        };
        Error::invalid_argument(format!("{}: {wish}", path.display()))
    }

    /// Opens the database at `path` and stores the changes in its keyspace `default`.
    pub fn open(&self, path: &Path) -> Result<Db> {
        let db = self.builder(path)?.open().map_err(|error| self.as_leveldb_says(error, path))?;
        self.keyspace_changes()?.store(&db, &db.default_keyspace())?;
        Ok(db)
    }
}

/// Runs a setter. Does nothing if the handle is refused.
pub fn set(options: Handle<DbOptions>, change: impl FnOnce(&mut Settings) -> Result<()>) {
    quiet((), || {
        options.pin()?.change(change);
        Ok(())
    });
}

/// Clamps an unsigned number of LevelDB to the bounds `low` and `high`.
fn within(value: usize, low: u64, high: u64) -> u64 {
    (value as u64).clamp(low, high)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_create() -> Handle<DbOptions> {
    quiet(Handle::NULL, || Handle::new(DbOptions::new()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_destroy(options: Handle<DbOptions>) {
    quiet((), || {
        options.close();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_comparator(
    options: Handle<DbOptions>,
    comparator: Handle<ComparatorHandle>,
) {
    set(options, |settings| {
        settings.comparator = None;
        if !comparator.is_null() {
            let order = comparator.pin()?.order.clone();
            settings.comparator = Some(order).filter(|order| order.name() != BYTEWISE);
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_filter_policy(
    options: Handle<DbOptions>,
    policy: Handle<FilterHandle>,
) {
    set(options, |settings| {
        settings.filter = None;
        settings.keyspace.filter_bits_per_key = None;
        if !policy.is_null() {
            match &*policy.pin()? {
                FilterHandle::Own(bits) => settings.keyspace.filter_bits_per_key = Some(*bits),
                FilterHandle::Custom(policy) => settings.filter = Some(policy.clone()),
            }
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_create_if_missing(options: Handle<DbOptions>, value: u8) {
    set(options, |settings| {
        settings.options.create_if_missing = value != 0;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_error_if_exists(options: Handle<DbOptions>, value: u8) {
    set(options, |settings| {
        settings.options.error_if_exists = value != 0;
        Ok(())
    });
}

/// Does nothing: checksums are always verified.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_paranoid_checks(_: Handle<DbOptions>, _: u8) {}

/// Does nothing: there is only one environment.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_env(_: Handle<DbOptions>, _: Handle<Environment>) {}

/// Does nothing: LevelDB's interface has no function that creates a logger.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_info_log(_: Handle<DbOptions>, _: *mut c_void) {}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_write_buffer_size(options: Handle<DbOptions>, bytes: usize) {
    set(options, |settings| {
        settings.keyspace.memtable_bytes = Some(within(bytes, 64 << 10, 1 << 30));
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_open_files(options: Handle<DbOptions>, files: c_int) {
    set(options, |settings| {
        settings.options.max_open_files = files.clamp(74, 50_000).unsigned_abs() as usize;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_cache(options: Handle<DbOptions>, cache: Handle<Cache>) {
    set(options, |settings| {
        settings.options.cache_bytes = match cache.is_null() {
            true => Options::default().cache_bytes,
            false => cache.pin()?.bytes.min(1 << 44),
        };
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_size(options: Handle<DbOptions>, bytes: usize) {
    set(options, |settings| {
        settings.keyspace.block_bytes = Some(within(bytes, 1 << 10, 1 << 20) as usize);
        Ok(())
    });
}

/// Does nothing: the table format fixes the restart interval.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_restart_interval(_: Handle<DbOptions>, _: c_int) {}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_file_size(options: Handle<DbOptions>, bytes: usize) {
    set(options, |settings| {
        settings.keyspace.table_bytes = Some(within(bytes, 1 << 20, 1 << 30));
        Ok(())
    });
}

/// Sets the compression: none for 0, and lz4 for every other codec of LevelDB.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_compression(options: Handle<DbOptions>, kind: c_int) {
    set(options, |settings| {
        settings.keyspace.codec = Some(if kind == 0 { Codec::None } else { Codec::Lz4 });
        Ok(())
    });
}

/// The options of a read as C holds them. The bits of the handle hold the common settings.
#[derive(Default)]
pub struct ReadSettings {
    /// The number of a snapshot's handle, or zero. It is looked up by each read.
    snapshot: AtomicUsize,
    /// The settings that only cursors have.
    pub cursor: Mutex<IteratorSettings>,
}

/// Bit: blocks that are read are not put into the cache.
const NO_FILL: u64 = 1;
/// Bit: a snapshot was set.
const AT_SNAPSHOT: u64 = 2;

impl Plain for ReadSettings {
    const TAG: u64 = 1;
}

/// The settings of cursors that `cleavedb/c.h` adds.
#[derive(Default, Clone)]
pub struct IteratorSettings {
    pub no_read_ahead: bool,
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    pub prefix: Option<Vec<u8>>,
}

/// Returns the engine's read options. Fails if the handle, or that of the snapshot, is not open.
#[inline]
pub fn read_options(handle: Handle<ReadSettings>) -> Result<ReadOptions> {
    let bits = handle.bits()?;
    let snapshot = if bits & AT_SNAPSHOT == 0 { None } else { snapshot_of(handle)? };
    let mut options = ReadOptions::new();
    options.snapshot = snapshot;
    options.fill_cache = bits & NO_FILL == 0;
    Ok(options)
}

#[cold]
fn snapshot_of(handle: Handle<ReadSettings>) -> Result<Option<Snapshot>> {
    let number = handle.pin()?.snapshot.load(Ordering::Relaxed);
    if number == 0 {
        return Ok(None);
    }
    let snapshot = Handle::<SnapshotHandle>::from_number(number).pin()?;
    Ok(Some(snapshot.snapshot.get()?.clone()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_create() -> Handle<ReadSettings> {
    quiet(Handle::NULL, || Handle::new_plain(ReadSettings::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_destroy(options: Handle<ReadSettings>) {
    quiet((), || {
        options.close();
        Ok(())
    });
}

/// Does nothing: checksums are always verified.
#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_verify_checksums(_: Handle<ReadSettings>, _: u8) {}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_fill_cache(options: Handle<ReadSettings>, value: u8) {
    quiet((), || options.set_bits(NO_FILL, value == 0));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_snapshot(
    options: Handle<ReadSettings>,
    snapshot: Handle<SnapshotHandle>,
) {
    quiet((), || {
        options.pin()?.snapshot.store(snapshot.number(), Ordering::Relaxed);
        options.set_bits(AT_SNAPSHOT, !snapshot.is_null())
    });
}

/// The options of a write as C holds them. The bits of the handle hold the common settings.
#[derive(Default)]
pub struct WriteSettings {
    /// The durability that `cleavedb/c.h` sets; it takes precedence over LevelDB's `sync`.
    own: Mutex<Option<Durability>>,
}

/// Bit: a write is acknowledged once it is on the device.
const SYNC: u64 = 1;
/// Bit: `own` is set.
const OWN: u64 = 2;

impl Plain for WriteSettings {
    const TAG: u64 = 2;
}

/// Returns the engine's write options. Fails if the handle is not open.
#[inline]
pub fn write_options(handle: Handle<WriteSettings>) -> Result<WriteOptions> {
    let bits = handle.bits()?;
    let durability = match bits {
        0 => None,
        _ if bits & OWN == 0 => Some(Durability::Sync),
        _ => *handle.pin()?.own.lock().unwrap_or_else(PoisonError::into_inner),
    };
    Ok(WriteOptions::new().durability(durability))
}

/// Sets a durability, which LevelDB does not have; `None` restores that of the database.
pub fn set_durability(handle: Handle<WriteSettings>, durability: Option<Durability>) -> Result<()> {
    *handle.pin()?.own.lock().unwrap_or_else(PoisonError::into_inner) = durability;
    handle.set_bits(OWN, durability.is_some())
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_create() -> Handle<WriteSettings> {
    quiet(Handle::NULL, || Handle::new_plain(WriteSettings::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_destroy(options: Handle<WriteSettings>) {
    quiet((), || {
        options.close();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_set_sync(options: Handle<WriteSettings>, value: u8) {
    quiet((), || options.set_bits(SYNC, value != 0));
}
