//! CleaveDB: an embeddable key-value storage engine for SSDs.
//!
//! Large values are kept apart from keys: a value is written once, into the log, and stays there,
//! while a small tree holds keys and pointers (WiscKey, FAST '16). So compaction moves keys only,
//! writes are amplified little, and the tree mostly fits in memory.
//!
//! ```
//! # let dir = cleavedb::doc_dir("crate");
//! use cleavedb::WriteBatch;
//!
//! let db = cleavedb::open(&dir)?;
//! let users = db.open_or_create_keyspace("users")?;
//! users.put("ada", "Countess of Lovelace")?;
//!
//! let mut batch = WriteBatch::new();
//! batch.put(&users, "grace", "Hopper").delete(&users, "ada");
//! db.write(batch)?;
//!
//! assert!(users.get("ada")?.is_none());
//! for item in users.prefix("gr") {
//!     let (key, value) = item?;
//!     println!("{}: {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! The rooms below are ordered by floors: each uses only those before it. `base` and `stats` are
//! words and numbers, `env` is the door to the outside world, `memtable` and `cache` are memory,
//! `segment`, `relocation` and `table` are files, `version` is what is live, `read` is the way
//! out, `commit` the way in, `compaction` and `gc` are background work, `db` is the roof.
//! ARCHITECTURE.md shows them on one page.

#![cfg_attr(not(feature = "sim"), warn(missing_debug_implementations))]

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
mod memtable;
mod read;
mod relocation;
mod segment;
mod stats;
mod table;
mod version;

pub use base::compression::Codec;
pub use base::error::{Error, ErrorKind, Result};
pub use base::key::{Comparator, MAX_KEY_BYTES, MAX_VALUE_BYTES, SeqNo};
pub use base::value::Value;
pub use commit::batch::{MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};
pub use commit::group::Durability;
pub use db::batch::WriteBatch;
pub use db::check::{CheckReport, Finding};
pub use db::cursor::Cursor;
pub use db::gc::GcReport;
pub use db::holders::Holders;
pub use db::inspect::inspect;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use db::inspect::inspect_with;
pub use db::key_range::KeyRange;
pub use db::keyspace::Keyspace;
pub use db::open::{Builder, open};
pub use db::options::{Options, WriteOptions};
pub use db::range::{Keys, Range};
pub use db::read_options::ReadOptions;
pub use db::recover::RecoveryReport;
pub use db::repair::RepairReport;
pub use db::report::{KeyspaceStats, LevelStats, SegmentStats, StallStats, Stats};
pub use db::snapshot::Snapshot;
pub use db::space::report::{
    ClassSpace, FileClass, HolderSpace, KeyspaceSpace, SegmentSpace, SpaceCell, SpaceParts,
    SpaceReport,
};
pub use db::tables::TableInfo;
pub use db::{DEFAULT_KEYSPACE, Db};
pub use env::batch_read::ParallelReads;
pub use events::{Event, EventListener, OperationKind};
pub use gc::settings::GcOptions;
pub use stats::{GcStats, Latencies, LatencyStats, StallReason};
pub use table::FilterPolicy;
pub use version::settings::{KeyspaceOptions, Separation};

#[doc(hidden)]
pub use env::doc_dir;
