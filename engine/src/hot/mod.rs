//! Floor 2: hot-update awareness, after "A hot-update-aware optimization to the query of LSM-Tree"
//! (Lin, Chen 2022). The *update table* maps keys to their newest entry in tables: its sequence
//! number and the table that holds it. The *score table* counts, for each table, the entries that
//! newer ones supersede.
//!
//! Place in the data's way: `compaction/output.rs` tells of the entries that it writes to tables. A
//! flush makes an entry the newest one of its key, and the entry it takes the place of becomes
//! stale; a compaction that follows entries only moves them to another table. Then
//!
//! - such a compaction drops an entry if a newer one is known (`compaction/retain.rs`), although
//!   its inputs do not have the newer one,
//! - tables of which much is stale are compacted early (`compaction/early.rs`),
//! - a point read goes straight to the table that has the newest entry, where tables have no
//!   filters, which would say for less that a key is not there (`read/get.rs`).
//!
//! # Why a fact stays true
//!
//! Everything here may be forgotten at any time, which costs I/O and never an answer. What is here
//! must be right, and these rules see to that:
//!
//! - *A key has an entry with this sequence number.* Only a flush or a fold says so, once its table
//!   is whole. Until its edit is durable, a crash may lose the entry, as the log need not be synced
//!   up to there (`commit/wal_only.rs`). So a compaction goes by an entry only if the published
//!   version says that everything up to its number is flushed. From then on the entry, or one that
//!   hides as much, is in a table: compaction drops the newest entry of a key only if a durable one
//!   hides it, or if it is a tombstone with nothing below it to hide (I6). So an older entry may be
//!   dropped wherever it is met, unless a snapshot is between the two: the edit that does so comes
//!   behind that of the flush. After a flush that failed, the number says the same of the next one,
//!   which has all that the first had, or what hides it.
//! - *No table has a newer one.* Flushes and folds of a keyspace are serial and oldest first, and
//!   each tells of all its keys before the version that has its table is published. A reader who
//!   finds a newer table in its view therefore finds the newer fact here, or none if it was
//!   forgotten. A compaction can't make an older entry the newest: it only changes the table of the
//!   entry that is named, and never adds a key.
//! - *This table holds it.* Tables never change, and their ids are never used again. The reader
//!   looks the table up in its own version; if it is not there, as before a flush is installed, or
//!   during the compaction that replaces it, the reader searches as usual.
//!
//! To be told after the edit would be simpler, but between the edit and the version that has its
//! table all other edits wait, and with them writers who need a segment of the log: some 70 ms for
//! the 450 000 keys of a memtable with values of 100 bytes. So a flush keeps its notes (`notes.rs`)
//! until its table is whole, and tells them without a lock. Between that and its edit compactions
//! can't go by the entries that were known before; they keep what those hide, and nobody counts it
//! as stale.
//!
//! The score of a table is kept as long as a version has it or a job is writing it.
//!
//! Locks: one for each shard, all leaves, and `known`, held while the shards are summed up.

mod notes;
mod ring;
mod shard;
mod trigger;
mod update_table;

pub use notes::FlushNotes;
pub use shard::{TableScore, TableScores};
pub use trigger::StaleTrigger;
pub use update_table::{ScoredTable, UpdateTable};
