//! Reads the manifest: its edits become a version, whose files must all be there.

use crate::base::error::{Error, InFile, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::MAX_ID;
use crate::env::Env;
use crate::version::Version;
use crate::version::build::{ComparatorOf, VersionBuilder};
use crate::version::edit::Change;
use crate::version::files::{TableContext, names};
use crate::version::manifest::{Current, read_manifest};
use crate::version::references::check_all;
use std::path::Path;
use std::sync::Arc;

/// The state that the manifest describes.
pub struct Manifested {
    /// The live files.
    pub version: Version,
    /// The next free id for files and keyspaces.
    pub next_file: u64,
    /// The newest sequence number in the manifest.
    pub last_seqno: SeqNo,
    /// Length of the manifest file in bytes.
    pub manifest_bytes: u64,
    /// True if the manifest ends in an edit that a crash cut short.
    pub is_torn: bool,
}

/// Reads the manifest that CURRENT names and builds its version.
pub fn read_version(
    env: &Env,
    tables: &Arc<TableContext>,
    current: Current,
    comparator_of: ComparatorOf<'_>,
) -> Result<Manifested> {
    let builder = VersionBuilder { tables, comparator_of };
    let path = names::manifest(&tables.dir, current.manifest);
    let (mut version, mut next_file, mut last_seqno) =
        (Version::default(), (current.manifest + 1).min(MAX_ID), 0);
    let end = read_manifest(env, &tables.dir, &tables.identity, current.manifest, |edit| {
        builder.apply_to(&mut version, &edit)?;
        let changes = edit.changes.iter();
        changes.for_each(|change| count_change(change, &mut next_file, &mut last_seqno));
        Ok(())
    })?;
    let found = Manifested {
        version,
        next_file,
        last_seqno,
        manifest_bytes: end.length,
        is_torn: end.is_torn,
    };
    check_version(&found.version).in_file(&path)?;
    Ok(found)
}

/// Raises the next free id and the newest sequence number to what follows from `change`.
pub fn count_change(change: &Change, next_file: &mut u64, last_seqno: &mut SeqNo) {
    if let Change::NextFile(id) = change {
        *next_file = (*next_file).max(*id);
    }
    *last_seqno = (*last_seqno).max(change.last_seqno());
    let id = added_id(change).unwrap_or(0);
    *next_file = (*next_file).max(id + 1).min(MAX_ID);
}

/// Checks the order of tables in their levels (I6), and that what a version names is there (I3).
pub fn check_version(version: &Version) -> Result<()> {
    version.keyspaces.values().try_for_each(|keyspace| keyspace.levels.check())?;
    check_all(version)
}

/// Returns the highest id that a change adds, or `None` if it adds nothing.
fn added_id(change: &Change) -> Option<u64> {
    match change {
        Change::AddKeyspace { id, .. } => Some(id.0),
        Change::AddTable { meta, .. } => Some(meta.id.0),
        Change::AddSegment { id, .. } => Some(id.0),
        Change::AddRelocation { meta } => Some(meta.id.0.max(meta.segment.0)),
        _ => None,
    }
}

/// Checks that every live file exists and has the length it must have.
pub fn check_files(env: &Env, version: &Version) -> Result<()> {
    let length = |path: &Path| {
        let file = env.fs.open(path).map_err(|error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let error = Error::io("open a live file", path, error);
            if !missing {
                return error;
            }
            Error::corruption("a file that the manifest names is missing")
                .in_file(path)
                .advise("restore it, or the whole database, from a checkpoint")
        })?;
        file.len().doing("measure", path)
    };
    for keyspace in version.keyspaces.values() {
        for (_, table) in keyspace.levels.tables() {
            let found = length(table.path())?;
            if found != table.meta.bytes {
                return Err(wrong_length(table.path(), found, table.meta.bytes));
            }
        }
    }
    for relocation in version.relocations.values() {
        let Some(path) = relocation.path() else { continue };
        let found = length(path)?;
        if found != relocation.meta.bytes {
            return Err(wrong_length(path, found, relocation.meta.bytes));
        }
    }
    for live in version.segments.values() {
        let found = length(live.handle.path())?;
        if live.sealed.is_some_and(|sealed| found < sealed) {
            return Err(wrong_length(live.handle.path(), found, live.sealed.unwrap_or(0)));
        }
    }
    Ok(())
}

fn wrong_length(path: &Path, found: u64, expected: u64) -> Error {
    Error::corruption(format!("the file has {found} bytes where the manifest says {expected}"))
        .in_file(path)
        .at(found.min(expected))
        .advise("restore it, or the whole database, from a checkpoint")
}
