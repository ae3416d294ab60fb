//! What a file of sorted keys consists of: a table, and beside it a sorted segment if large values
//! are apart. Both are in the formats of a database, with fixed ids, and an id of a database that
//! is drawn for each file at random: so the two are known to belong together, and neither is ever
//! taken for a file of a database. All entries and records have the number 0 and the keyspace 0.

use crate::base::pointer::{KeyspaceId, SegmentId, TableId};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The id of the table.
pub(super) const TABLE: TableId = TableId(1);
/// The id of the segment.
pub(super) const VALUES: SegmentId = SegmentId(2);
/// The keyspace that tables and records of no database name.
pub(super) const NO_KEYSPACE: KeyspaceId = KeyspaceId(0);

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the path of the segment beside the table at `path`.
pub(super) fn values_path(path: &Path) -> PathBuf {
    with_suffix(path, ".values")
}

/// Returns the path that a file has until it is complete.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    with_suffix(path, ".unfinished")
}
