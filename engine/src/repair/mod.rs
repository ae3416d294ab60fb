//! Floor 8: repairs a database that can't be opened, or whose check finds damage, from what its
//! files still hold.
//!
//! ```text
//! facts.rs       which keyspaces there are, by the manifests or else by the tables
//! values.rs      where values are, in segments kept and freed
//! ingests.rs     which ingests took effect
//! segments.rs    which segments there are, where they end, and which are the end of the log
//! sources.rs     what tables and the end of the log still hold
//! log_damage.rs  which damage has taken commits from the log
//! rebuild.rs     reads all of it, then puts a new manifest in force
//! tree.rs        both merged into new tables
//! saved_values.rs  copies of the values in segments that do not stay
//! aside.rs       moves what is not needed to `lost`
//! ```
//! `db/repair.rs` comes here only with a database that does not open, or that fails its check.
//!
//! Values stay where they are: segments are kept and only the tree is written anew, with pointers
//! that lead straight to the values, so that relocations are no longer needed. Of a segment with
//! damage, what can be read is copied to a new one. The newest version of each key counts. If its
//! value can't be read, or had been given up as garbage, the key is lost and counted: an older
//! value in its place would be a wrong value (I3, I6). Nothing is unlinked: what is not part of the
//! new database, such as a segment that no new table points into, goes to the folder `lost` in its
//! directory.
//!
//! A crash before the new CURRENT leaves the damaged database, with orphans or with files in `lost`
//! that the next repair reads or leaves alone, so the repair can be repeated.

mod aside;
mod facts;
mod ingests;
mod log_damage;
mod rebuild;
mod saved_values;
mod segments;
mod sources;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use crate::base::error::{Error, Result};
use crate::env::Env;
use crate::env::key_provider::KeyProvider;
use crate::recovery::comparators::Comparators;
use crate::table::FilterPolicy;
use crate::version::merging::MergeOperators;
use crate::version::settings::KeyspaceOptions;
use aside::check_lost;
use facts::RepairFacts;
use rebuild::Rebuild;
use std::path::Path;
use std::sync::Arc;

pub use aside::LOST;

/// The result of a repair.
///
/// In a keyspace with a merge operator, operands are kept even if what they were merged with could
/// not be read: the key then has the value that the rest of them make. A problem names each damaged
/// table of such a keyspace; a damaged log has the same effect on what was in no table yet.
///
/// ```
/// # let dir = cleavedb::doc_dir("repair-report");
/// cleavedb::open(&dir)?.close()?;
/// let report = cleavedb::Db::repair(&dir)?;
/// assert!(report.was_healthy);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// True if nothing was wrong and the database was left as it is. The other fields are zero
    /// then.
    pub was_healthy: bool,
    /// Keys in the repaired database.
    pub keys: u64,
    /// Tables of which all entries could be read.
    pub tables: u64,
    /// Tables of which a part could not be read, or that are missing. Nobody knows how many keys
    /// were there. Such a key has the value that an older table or the log still have of it, if
    /// any.
    pub damaged_tables: u64,
    /// Segments that were kept: those with values of the repaired database, unless a part of them
    /// is damaged. What can be read of such a segment is copied to a new one.
    pub segments: u64,
    /// Relocations of freed segments that were read completely; the new pointers bypass them.
    pub relocations: u64,
    /// Records of the log that were in no table yet.
    pub log_records: u64,
    /// Keys that are gone because their newest value could not be read.
    pub lost_keys: u64,
    /// Damaged segments of the log of which tables do not have everything. What was committed
    /// behind the damage is lost, of nobody knows how many keys, and each of these is as it was
    /// before. What a crash kept from being written whole is no damage.
    pub damaged_log_segments: u64,
    /// Keyspaces that no manifest mentions any more, except `default`. They have the names that
    /// their tables give, or `recovered-` and a number if they were in no table yet, and the
    /// settings that the builder was given. If one of them had been dropped before the manifest
    /// was lost, drop it again.
    pub recovered_keyspaces: Vec<String>,
    /// Files moved to the folder `lost`.
    pub files_set_aside: u64,
    /// The problems that were found. Of the lost keys, the first hundred are named, and a problem
    /// says how many more there are.
    pub problems: Vec<Error>,
}

/// A database to save, and what its user gave to open it.
pub struct Salvage<'a> {
    /// The world outside.
    pub env: &'a Env,
    /// The directory of the database, whose lock is held.
    pub dir: &'a Path,
    /// The comparators that the user gave.
    pub comparators: &'a Comparators,
    /// The merge operators that the user gave.
    pub merge_operators: &'a MergeOperators,
    /// Settings for keyspaces whose own are lost.
    pub keyspace: &'a KeyspaceOptions,
    /// The policy for the filters of the new tables, if the user gave one.
    pub filter_policy: Option<&'a Arc<dyn FilterPolicy>>,
    /// The source of the keys if the database is encrypted.
    pub keys: Option<&'a dyn KeyProvider>,
}

impl Salvage<'_> {
    /// Writes a new tree and manifest from what the files still hold, and adds to the report what
    /// was found and what is lost.
    pub fn run(&self, report: &mut RepairReport) -> Result<()> {
        check_lost(self.env, &self.dir.join(LOST))?;
        let (comparators, keyspace) = (self.comparators, self.keyspace);
        let facts = RepairFacts::gather(self.env, self.dir, comparators, keyspace, self.keys)?;
        Rebuild::new(self, facts).run(report)
    }
}
