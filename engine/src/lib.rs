//! CleaveDB: an embeddable key-value storage engine for SSDs.
//!
//! Large values are kept apart from keys: a value stays in the log (WiscKey, FAST '16), or a flush
//! brings it into key order (Titan), while a small tree holds keys and pointers. So compaction
//! moves keys only, writes are amplified little, and the tree mostly fits in memory. Keys and
//! values are bytes; keys are ordered, by default as bytes.
//!
//! # Open, write, read
//!
//! A database is a directory. [`open`] opens it, or creates it; [`Db::builder`] takes [`Options`].
//! One process at a time may write to it, or any number may read. A database holds *keyspaces*,
//! ordered maps with settings of their own; one called `default` is always there.
//!
//! ```
//! # let dir = cleavedb::doc_dir("crate");
//! let db = cleavedb::open(&dir)?;
//! let users = db.open_or_create_keyspace("users")?;
//! users.put("ada", "Countess of Lovelace")?;
//! if let Some(value) = users.get("ada")? {
//!     println!("{}", value.escape_ascii());
//! }
//! users.delete("ada")?;
//! assert!(users.get("ada")?.is_none());
//! db.close()?;
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! [`Db::keyspace`] opens a keyspace that must exist, [`Db::create_keyspace`] creates one, and
//! [`Keyspace::set_options`] changes its settings, which are stored with it. Each call that reads
//! or writes has a form that ends in `_with` and takes [`ReadOptions`] or [`WriteOptions`].
//!
//! # Batches
//!
//! A [`WriteBatch`] becomes visible at once, over all its keyspaces, and after a crash all of it
//! is there or nothing. It also costs less than single writes.
//!
//! ```
//! # let dir = cleavedb::doc_dir("crate-batch");
//! # let db = cleavedb::open(&dir)?;
//! use cleavedb::WriteBatch;
//! let (users, emails) = (db.create_keyspace("users")?, db.create_keyspace("emails")?);
//! let mut batch = WriteBatch::new();
//! batch.put(&users, "grace", "Hopper").put(&emails, "hopper@example.org", "grace");
//! db.write(batch)?;
//! # assert_eq!(emails.get("hopper@example.org")?.unwrap(), "grace");
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! # Transactions
//!
//! If a write depends on what was read, somebody else may write in between. For one key there are
//! [`Keyspace::compare_and_set`] and [`Keyspace::update`], for keys that are known
//! [`WriteBatch::require`], and for whatever is read on the way a [`Transaction`]: it reads at one
//! moment, keeps its writes to itself, and its commit fails with [`ErrorKind::Conflict`] if
//! somebody else wrote what it has read. [`Db::transact`] then runs it again.
//!
//! ```
//! # let dir = cleavedb::doc_dir("crate-transaction");
//! # let db = cleavedb::open(&dir)?;
//! # let users = db.default_keyspace();
//! let number = db.transact(|transaction| {
//!     let number = transaction.prefix(&users, "user:").count();
//!     transaction.put(&users, format!("user:{number}"), "Ada")?;
//!     Ok(number)
//! })?;
//! assert_eq!(users.get(format!("user:{number}"))?.unwrap(), "Ada");
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! # Scans
//!
//! [`Keyspace::range`], [`Keyspace::prefix`] and [`Keyspace::iter`] walk pairs in the order of
//! their keys, from both ends, as they were when the scan was made. [`Range::keys`] leaves the
//! values out, which then are not read. Large values are read ahead in parallel. A [`Cursor`] also
//! seeks and changes its direction.
//!
//! ```
//! # let dir = cleavedb::doc_dir("crate-scan");
//! # let db = cleavedb::open(&dir)?;
//! # let users = db.default_keyspace();
//! for key in ["ada", "alan", "grace"] {
//!     users.put(key, "")?;
//! }
//! for pair in users.range("a".."b") {
//!     let (key, value) = pair?;
//!     println!("{}: {} bytes", key.escape_ascii(), value.len());
//! }
//! assert_eq!(users.prefix("al").keys().count(), 1);
//! assert_eq!(users.last_key_value()?.unwrap().0, b"grace");
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! # Snapshots
//!
//! A [`Snapshot`] pins what all keyspaces hold at one moment. Every read can be made at a snapshot,
//! through [`ReadOptions::snapshot`]. As long as a snapshot lives, the space of what it sees cannot
//! be freed.
//!
//! ```
//! # let dir = cleavedb::doc_dir("crate-snapshot");
//! # let db = cleavedb::open(&dir)?;
//! # let users = db.default_keyspace();
//! use cleavedb::ReadOptions;
//! users.put("ada", "Byron")?;
//! let before = db.snapshot();
//! users.put("ada", "Lovelace")?;
//! let then = ReadOptions::new().snapshot(&before);
//! assert_eq!(users.get_with("ada", &then)?.unwrap(), "Byron");
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! # Changes
//!
//! [`Db::changes`] hands out what was committed behind a sequence number, in the order of commits,
//! each batch whole, and goes on as more is committed: for a copy elsewhere, an index or a cache.
//!
//! ```
//! # let dir = cleavedb::doc_dir("crate-changes");
//! # let db = cleavedb::open(&dir)?;
//! # let users = db.default_keyspace();
//! let mut changes = db.changes(db.visible_seqno())?;
//! users.put("ada", "Lovelace")?;
//! let batch = changes.next_batch()?.unwrap();
//! assert_eq!(batch.get(0).unwrap().key, b"ada");
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! # Durability
//!
//! [`Durability`] says what a write has survived once it returns. By default, [`Durability::Os`],
//! it survives the end of the process but not a power cut; [`Durability::Sync`] survives both. It
//! is set for the database by [`Options::durability`] and for a write by
//! [`WriteOptions::durability`]; [`Db::sync`] makes all that was written durable. What recovery
//! finds is always a prefix of the order of commits, each batch whole. [`Db::checkpoint`] makes a
//! copy that opens as a database of its own, by hard links. [`Db::backup`] adds a whole state to a
//! backup on another disk, and copies only what that lacks; [`Backups`] restores it.
//!
//! # Space
//!
//! Space of overwritten and deleted values comes back in the background, between two bounds:
//! [`GcOptions::max_space_amplification`] and [`GcOptions::settled_space_amplification`].
//! [`Db::space`] reports what takes the space, and which snapshots and cursors keep it from coming
//! back; [`Keyspace::approximate_size`] and [`Keyspace::approximate_len`] estimate a range.
//!
//! # Tuning
//!
//! The defaults suit values of some hundred bytes to some megabytes. The most important settings
//! are [`Options::cache_bytes`], the memory for blocks of the tree; [`Options::durability`];
//! [`KeyspaceOptions::separation_threshold`], the size from which on values live in the log; and
//! [`KeyspaceOptions::value_codec`]. [`Db::stats`] shows what the database does, and an
//! [`EventListener`] receives events as they happen.
//!
//! # Errors
//!
//! Every call that can fail returns an [`Error`], which says what happened, in which file, and
//! what to do. Programs decide by its [`ErrorKind`]. A key that is missing is no error. Damage on
//! disk is [`ErrorKind::Corruption`], never another value and never "not found": every byte has a
//! checksum that is verified before it is used. After a failed sync the database is read-only until
//! it is opened anew. [`Db::check`] verifies everything; [`Builder::repair`] saves what is intact.
//!
//! # Threads
//!
//! [`Db`], [`Keyspace`] and [`Snapshot`] are handles: cheap to clone, and usable from many threads
//! at once. Readers never wait for writers; writers that come at the same time are committed
//! together. The engine has threads of its own for flushes, compaction and freeing space, and needs
//! no async runtime: calls block, so in an async program run them on threads that may block. The
//! database closes with [`Db::close`] or its last handle; [`Db::holders`] counts what holds it
//! open.
//!
//! # Compatibility
//!
//! [`Options`], [`KeyspaceOptions`] and [`GcOptions`] are literals that end in
//! `..Default::default()`: a field may be added in any release, and that does not count as a
//! breaking change. [`ReadOptions`] and [`WriteOptions`] are set by chained calls. Reports,
//! statistics and events may gain fields. The feature `sim`, for simulated disks and clocks, may
//! change in any release.
//!
//! # More
//!
//! The repository has a guide to read from start to end (`docs/guide.md`), and pages on tuning
//! (`docs/tuning.md`), operations (`docs/operations.md`), space (`docs/space.md`), words
//! (`docs/glossary.md`) and trust (`SECURITY.md`).

// The modules are ordered by floors: each uses only lower ones. `base` and `stats` have shared
// types and counters; all I/O, time and threads go through `env`; `memtable` and `cache` hold data
// in memory; `segment`, `relocation` and `table` are the kinds of files; `version` is the set of
// live files; `read` and `commit` serve reads and writes; `compaction` and `gc` are background
// jobs; `recovery` opens what is on the disk; `background` chooses jobs; `repair` saves damaged
// databases and `space` reports space; `db` has the public types. ARCHITECTURE.md shows them on one
// page.

#![cfg_attr(not(feature = "sim"), warn(missing_debug_implementations))]

mod background;
mod base;
mod cache;
mod commit;
mod compaction;
mod db;
#[cfg(not(feature = "sim"))]
mod env;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod env;
mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod gc;
mod hot;
mod memtable;
mod read;
mod recovery;
mod relocation;
mod repair;
mod segment;
mod space;
mod stats;
mod table;
mod throttle;
mod version;

pub use base::compression::Codec;
pub use base::error::{Error, ErrorKind, Result};
pub use base::key::{Comparator, MAX_KEY_BYTES, MAX_VALUE_BYTES, SeqNo};
pub use base::seal::EncryptionKey;
pub use base::value::Value;
pub use commit::batch::{MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};
pub use commit::group::Durability;
pub use db::Db;
pub use db::backup::{
    BackupCheck, BackupOptions, BackupPoint, BackupProblem, BackupReport, Backups, DeletedPoints,
    PointList, RestoreReport,
};
pub use db::batch::WriteBatch;
pub use db::builder::{Builder, open};
pub use db::changes::{ChangeBatch, Changed, Changes, ChangesOf, ChangesOptions, KeyChange};
pub use db::check::{CheckOptions, CheckReport, Finding};
pub use db::compare::{Exchange, Expected, Versioned};
pub use db::convert::{ConvertOptions, ConvertReport};
pub use db::cursor::Cursor;
pub use db::expiry::{Expiry, Ttl};
pub use db::follow::CaughtUp;
pub use db::gc::GcReport;
pub use db::holders::Holders;
pub use db::ingest::{
    IngestOptions, IngestReport, Ingestion, SortedFileOptions, SortedFileReport, SortedFileWriter,
};
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use db::inspect::inspect_with;
pub use db::inspect::{inspect, inspect_encrypted};
pub use db::key_range::KeyRange;
pub use db::keyspace::Keyspace;
pub use db::long_pass::PassProgress;
pub use db::options::{Options, WriteOptions};
pub use db::range::{Keys, Range};
pub use db::read_options::ReadOptions;
pub use db::report::{KeyspaceStats, LevelStats, SegmentStats, StallStats, Stats};
pub use db::scan_costs::ScanCost;
pub use db::snapshot::Snapshot;
pub use db::tables::TableInfo;
pub use db::transaction::{Savepoint, Transaction};
pub use env::batch_read::ParallelReads;
pub use env::key_provider::{KeyFile, KeyProvider, KeyVariable};
pub use events::{Event, EventListener, OperationKind};
pub use gc::discardable::CollectDiscardable;
pub use gc::settings::GcOptions;
pub use hot::{ScoredTable, StaleTrigger, TableScore};
pub use recovery::RecoveryReport;
pub use repair::RepairReport;
pub use space::report::{
    ClassSpace, FileClass, HolderSpace, KeyspaceSpace, SegmentSpace, SpaceCell, SpaceParts,
    SpaceReport,
};
pub use stats::{GcStats, Latencies, LatencyStats, StallReason};
pub use table::FilterPolicy;
pub use version::built_in_merges::merge_operators;
pub use version::compaction_filter::{CompactionFilter, FilterDecision, FilteredEntry};
pub use version::merge_operator::MergeOperator;
pub use version::settings::{DEFAULT_KEYSPACE, KeyspaceOptions, Separation};

#[doc(hidden)]
pub use env::doc_dir;
#[doc(hidden)]
pub use env::fork::OfProcess;

/// The programs of the guide, which are compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide.md")]
mod guide {}
