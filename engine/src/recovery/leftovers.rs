//! Finds the files that a crash left behind and no edit names, and removes them.

use crate::base::error::{Error, IoContext, Result};
use crate::base::pointer::{MAX_ID, RelocationId, SegmentId};
use crate::env::Env;
use crate::recovery::manifest::Manifested;
use crate::segment::{SegmentKind, read_head};
use crate::version::files::names;
use crate::version::manifest::Current;
use crate::version::owner;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file whose id is this far above the manifest's next id is not ours. A crash does leave files
/// with ids above all that the manifest has, but never by this much.
pub const MAX_UNKNOWN_IDS: u64 = 1 << 32;

/// Files in the directory that no live edit names.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Files of ours: outputs of jobs, and manifests, that a crash interrupted.
    pub orphans: Vec<PathBuf>,
    /// Number of files that are not ours.
    pub foreign: u64,
    /// The next free id for files and keyspaces, above the ids of these files too.
    pub next_file: u64,
}

/// Lists the directory's files that the version does not name.
pub fn find_leftovers(
    env: &Env,
    dir: &Path,
    known: &Manifested,
    current: Current,
) -> Result<Leftovers> {
    let version = &known.version;
    let mut found = Leftovers { next_file: known.next_file, ..Leftovers::default() };
    let live_tables = version.table_ids();
    let live_relocations: BTreeSet<RelocationId> =
        version.relocations.values().map(|relocation| relocation.meta.id).collect();
    for path in env.fs.list(dir).doing("list", dir)? {
        use names::FileName;
        let name = names::parse(&path);
        let (id, live) = match name {
            FileName::Table(id) => (id.0, live_tables.contains(&id)),
            FileName::Segment(id) => (id.0, version.segments.contains_key(&id)),
            FileName::Relocation(id) => (id.0, live_relocations.contains(&id)),
            FileName::Manifest(id) => (id, id == current.manifest),
            FileName::Aside(id) => (id.0, true),
            FileName::Fixed => {
                use names::{CURRENT_NEW, KEYS_NEW, OPTIONS_NEW, PROBE};
                let begun = [CURRENT_NEW, KEYS_NEW, OPTIONS_NEW, PROBE];
                (0, !begun.iter().any(|name| path.ends_with(name)))
            }
            FileName::Note => continue,
            FileName::Foreign => {
                found.foreign += 1;
                continue;
            }
        };
        // No edit names the bytes kept aside, but they are kept.
        let is_named = live && !matches!(name, FileName::Aside(_));
        if !is_named && id >= known.next_file.saturating_add(MAX_UNKNOWN_IDS) {
            found.foreign += 1;
            continue;
        }
        found.next_file = found.next_file.max(id + 1).min(MAX_ID);
        if let FileName::Segment(id) = name
            && !live
            && id >= version.head.segment
        {
            check_never_begun(env, dir, current, id)?;
        }
        if live {
            continue;
        }
        let path = dir.join(path.file_name().unwrap_or_default());
        let is_ours = match owner::is_ours(env, &path, database_in(&path, current)) {
            // Nobody needs it to open the database. Who writes the next one says what is wrong.
            Err(_) if path.ends_with(names::OPTIONS_NEW) => false,
            is_ours => is_ours?,
        };
        if is_ours {
            found.orphans.push(path);
        } else {
            found.foreign += 1;
        }
    }
    Ok(found)
}

/// Returns the database id that a file must carry to be ours, or `None` for the files that creation
/// leaves behind: their database id is not recorded anywhere.
fn database_in(path: &Path, current: Current) -> Option<u64> {
    names::parse(path).number().map(|_| current.database)
}

/// What has come of removing orphans.
#[derive(Debug, Default)]
pub struct RemovedOrphans {
    /// The number of files that are gone.
    pub count: u64,
    /// Files that could not be removed.
    pub left: Vec<PathBuf>,
    /// The first reason why one could not.
    pub error: Option<Error>,
}

/// Removes the orphans. One that can't be removed keeps no other from it.
///
/// Call this only after every live file was found, so that what only looks like an orphan because
/// the manifest is damaged is not thrown away; and only once the manifest in force is known to be
/// durable: after a process ended, that which was read, or CURRENT, may exist in the page cache
/// alone.
pub fn remove_orphans(env: &Env, orphans: Vec<PathBuf>) -> RemovedOrphans {
    let mut done = RemovedOrphans::default();
    for path in orphans.into_iter().filter(|path| !path.ends_with(names::CURRENT_NEW)) {
        // I5: no durable edit names the file, and nobody has it open, because we hold the lock. A
        // crash before or after leaves an orphan for the next opening, or nothing.
        match env.fs.remove(&path).doing("remove what a crash left over", &path) {
            Ok(()) => done.count += 1,
            Err(error) => {
                done.error.get_or_insert(error);
                done.left.push(path);
            }
        }
    }
    done
}

/// Refuses a log segment at or behind the head that was written to but is not in the manifest.
/// Segments enter the manifest before their first write and leave it only once the head has passed
/// them, so the manifest has lost its end and the file is data, not an orphan.
fn check_never_begun(env: &Env, dir: &Path, current: Current, id: SegmentId) -> Result<()> {
    let path = names::segment(dir, id);
    let file = env.fs.open(&path).doing("open", &path)?;
    // A sorted segment enters the manifest only once it is whole, so after a crash it is an orphan.
    let head = read_head(&*file, &path, current.database, id);
    if !matches!(head, Ok(Some(head)) if head.kind == SegmentKind::Log) {
        return Ok(());
    }
    Err(Error::corruption(format!("the manifest does not know log segment {id}, which was in use"))
        .in_file(&names::manifest(dir, current.manifest))
        .advise("the manifest has lost its end: restore the database from a checkpoint"))
}
