//! Recovery: the manifest's edits become a version, the log behind the head becomes memtables, and
//! what a crash left over is kept aside or removed.

use crate::base::entry::Slot;
use crate::base::error::{Error, IoContext, Result};
use crate::base::header::{FileKind, Header};
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::{KeyspaceId, MAX_ID, RelocationId, SegmentId, TableId, ValuePointer};
use crate::commit::replay::{ReplayReport, Replayed, TornTail};
use crate::env::Env;
use crate::env::fs::File;
use crate::segment::{RecordKind, SegmentKind, read_head};
use crate::version::Version;
use crate::version::build::VersionBuilder;
use crate::version::edit::{Change, Edit};
use crate::version::files::{TableContext, names};
use crate::version::manifest::{Current, read_manifest};
use crate::version::owner;
use crate::version::references::check_all;
use crate::version::view::KeyspaceState;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file whose id is this far above the manifest's next id is not ours. A crash does leave files
/// with ids above all that the manifest has, but never by this much.
pub const MAX_UNKNOWN_IDS: u64 = 1 << 32;
/// Bytes that are copied or rewritten at a time.
const COPY_BYTES: usize = 1 << 20;

/// A report of what recovery found and did.
///
/// ```
/// # let dir = cleavedb::doc_dir("recovery");
/// let db = cleavedb::open(&dir)?;
/// assert_eq!(db.recovery().torn_bytes, 0);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Records of the log that were replayed because they were not in tables yet.
    pub replayed_records: u64,
    /// Bytes of log read to replay them.
    pub replayed_bytes: u64,
    /// Bytes of the torn tail, which a crash cut short and which are no part of the log. They are
    /// kept in files that end in `.cut`, so that nothing is thrown away unseen.
    pub torn_bytes: u64,
    /// Orphans that were removed: files that a crash left behind and no edit names.
    pub orphans_removed: u64,
    /// Files in the directory that are not CleaveDB's; they are left alone.
    pub foreign_files: u64,
    /// Settings of keyspaces that were out of the range that this build allows, with the values
    /// used instead. Empty unless another build wrote the database.
    pub adjusted_settings: Vec<String>,
}

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
    comparator_of: crate::version::build::ComparatorOf<'_>,
) -> Result<Manifested> {
    let builder = VersionBuilder { tables, comparator_of };
    let path = names::manifest(&tables.dir, current.manifest);
    let (mut version, mut next_file, mut last_seqno) =
        (Version::default(), (current.manifest + 1).min(MAX_ID), 0);
    let end = read_manifest(env, &tables.dir, current.database, current.manifest, |edit| {
        builder.apply_to(&mut version, &edit)?;
        for change in &edit.changes {
            match change {
                Change::NextFile(id) => next_file = next_file.max(*id),
                Change::LastSeqno(seqno) | Change::Flushed { seqno, .. } => {
                    last_seqno = last_seqno.max(*seqno);
                }
                Change::AddKeyspace { flushed, .. } => {
                    last_seqno = last_seqno.max(*flushed);
                }
                _ => {}
            }
            let id = added_id(change).unwrap_or(0);
            next_file = next_file.max(id + 1).min(MAX_ID);
        }
        Ok(())
    })?;
    let found = Manifested {
        version,
        next_file,
        last_seqno,
        manifest_bytes: end.length,
        is_torn: end.is_torn,
    };
    for keyspace in found.version.keyspaces.values() {
        keyspace.levels.check().map_err(|error| error.in_file(&path))?;
    }
    check_all(&found.version).map_err(|error| error.in_file(&path))?;
    Ok(found)
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
    let mut live_tables: BTreeMap<TableId, ()> = BTreeMap::new();
    for keyspace in version.keyspaces.values() {
        live_tables.extend(keyspace.levels.tables().map(|(_, table)| (table.meta.id, ())));
    }
    let live_relocations: BTreeSet<RelocationId> =
        version.relocations.values().map(|relocation| relocation.meta.id).collect();
    for path in env.fs.list(dir).doing("list", dir)? {
        use names::FileName;
        let (id, live) = match names::parse(&path) {
            FileName::Table(id) => (id.0, live_tables.contains_key(&id)),
            FileName::Segment(id) => (id.0, version.segments.contains_key(&id)),
            FileName::Relocation(id) => (id.0, live_relocations.contains(&id)),
            FileName::Manifest(id) => (id, id == current.manifest),
            FileName::Aside(id) => (id.0, true),
            FileName::Fixed => {
                (0, !path.ends_with(names::CURRENT_NEW) && !path.ends_with(names::PROBE))
            }
            FileName::Foreign => {
                found.foreign += 1;
                continue;
            }
        };
        // No edit names the bytes kept aside, but they are kept.
        let is_named = live && !matches!(names::parse(&path), FileName::Aside(_));
        if !is_named && id >= known.next_file.saturating_add(MAX_UNKNOWN_IDS) {
            found.foreign += 1;
            continue;
        }
        found.next_file = found.next_file.max(id + 1).min(MAX_ID);
        if let FileName::Segment(id) = names::parse(&path)
            && !live
            && id >= version.head.segment
        {
            check_never_begun(env, dir, current, id)?;
        }
        if live {
            continue;
        }
        let path = dir.join(path.file_name().unwrap_or_default());
        if owner::is_ours(env, &path, database_in(&path, current))? {
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

/// Removes the orphans and returns their number.
///
/// Call this only after every live file was found, so that what only looks like an orphan because
/// the manifest is damaged is not thrown away; and only once a manifest of this opening is in
/// force: after a process ended, the manifest that was read, or CURRENT, may exist in the page
/// cache alone.
pub fn remove_orphans(env: &Env, orphans: &[PathBuf]) -> Result<u64> {
    let mut removed = 0;
    for path in orphans.iter().filter(|path| !path.ends_with(names::CURRENT_NEW)) {
        // I5: no durable edit names the file, and nobody has it open, because we hold the lock.
        env.fs.remove(path).doing("remove what a crash left over", path)?;
        removed += 1;
    }
    Ok(removed)
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

/// Refuses a record of a keyspace whose id the manifest never gave out, because the manifest has
/// lost its end then. A record of a keyspace that was dropped since is fine.
pub fn check_keyspace(found: &Manifested, replayed: &Replayed<'_>) -> Result<()> {
    let id = replayed.record.keyspace;
    if found.version.keyspaces.contains_key(&id) || id.0 < found.next_file {
        return Ok(());
    }
    Err(Error::corruption(format!("a commit is to keyspace {id}, which the manifest never knew"))
        .at(replayed.at.offset)
        .advise("the manifest has lost its end: restore the database from a checkpoint"))
}

/// Inserts a replayed record into its memtable, unless a table holds it already.
pub fn insert(
    keyspaces: &BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
    version: &Version,
    replayed: &Replayed<'_>,
) -> Result<()> {
    let record = replayed.record;
    // A record of a keyspace that was dropped since is skipped.
    let (Some(state), Some(known)) =
        (keyspaces.get(&record.keyspace), version.keyspace(record.keyspace))
    else {
        return Ok(());
    };
    if record.seqno <= known.flushed {
        return Ok(());
    }
    let pointer = ValuePointer {
        segment: replayed.segment.id(),
        offset: record.offset,
        length: record.length,
    };
    let options = state.options().clone();
    let raw;
    let slot = match record.kind {
        RecordKind::Delete => Slot::Delete,
        RecordKind::Put if options.separates(record.raw_len as usize) => Slot::Pointer(pointer),
        RecordKind::Put => {
            raw = record.raw_value()?;
            Slot::Inline(&raw)
        }
    };
    let view = state.view();
    view.active.note(replayed.at, replayed.log_bytes, replayed.segment, record.seqno);
    view.active.table.insert(record.key, Trailer::new(record.seqno, slot.kind()), slot);
    if view.active.bytes() >= options.memtable_bytes {
        state.rotate_memtable();
    }
    Ok(())
}

/// Syncs the segments whose lengths the manifest is about to record. After a process ended, what
/// replay read may exist in the page cache alone.
pub fn sync_log(env: &Env, dir: &Path, report: &ReplayReport) -> Result<()> {
    for &(id, length) in &report.sealed {
        let path = names::segment(dir, id);
        let file = env.fs.open_write(&path).doing("open", &path)?;
        // I8: the last segment is written again, because after a failed sync the kernel may take
        // pages for clean that never reached the disk, and would not sync them again. The bytes are
        // the same, so a crash at any point of this loses nothing that was there.
        if report.last == Some((id, length)) {
            rewrite(&*file, &path, length)?;
        }
        // I2: a power cut after this sync takes back nothing that was recovered. One before it may;
        // the next replay then ends where the segment does.
        file.sync().doing("sync", &path)?;
    }
    Ok(())
}

/// Writes the first `length` bytes of a file again.
fn rewrite(file: &dyn File, path: &Path, length: u64) -> Result<()> {
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(COPY_BYTES).min(COPY_BYTES)];
    let mut offset = 0;
    while offset < length {
        let part = buffer.len().min(usize::try_from(length - offset).unwrap_or(usize::MAX));
        file.read_exact_at(&mut buffer[..part], offset).doing("read", path)?;
        file.write_at(&buffer[..part], offset).doing("write again", path)?;
        offset += part as u64;
    }
    Ok(())
}

/// Copies the torn bytes to a file of their own, before they are cut off.
pub fn put_aside(env: &Env, dir: &Path, database: u64, torn: &TornTail) -> Result<()> {
    let from = names::segment(dir, torn.segment);
    let to = names::aside(dir, torn.segment);
    let source = env.fs.open(&from).doing("open", &from)?;
    if env.fs.exists(&to).doing("look for", &to)? {
        owner::check_ours(env, &to)?;
        // A crash ended the opening that began this copy. The segment still has the bytes.
        env.fs.remove(&to).doing("remove", &to)?;
    }
    let target = env.fs.create(&to).doing("create", &to)?;
    let head = Header::new(FileKind::Aside, database, torn.segment.0).encode();
    target.write_at(&head, 0).doing("write", &to)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = 0;
    while copied < torn.bytes {
        let part = buffer.len().min(usize::try_from(torn.bytes - copied).unwrap_or(usize::MAX));
        let read = source.read_at(&mut buffer[..part], torn.offset + copied);
        let read = read.doing("read the torn end of", &from)?;
        if read == 0 {
            break;
        }
        target.write_at(&buffer[..read], head.len() as u64 + copied).doing("write", &to)?;
        copied += read as u64;
    }
    target.sync().doing("sync", &to)?;
    env.fs.sync_dir(dir).doing("sync the directory", dir)
}

/// Cuts the torn bytes off a segment whose length is in the manifest by now.
pub fn cut(env: &Env, dir: &Path, torn: &TornTail) -> Result<()> {
    let path = names::segment(dir, torn.segment);
    let file = env.fs.open_write(&path).doing("open", &path)?;
    // A crash before or after this is fine: bytes behind the sealed length do not count.
    file.set_len(torn.offset).doing("cut the torn end of", &path)?;
    file.sync().doing("sync", &path)
}

/// Returns the edit that settles what replay found.
pub fn settling_edit(report: &ReplayReport) -> Edit {
    let seal = |&(id, length): &(SegmentId, u64)| Change::SealSegment { id, length };
    let remove = |&id: &SegmentId| Change::RemoveSegment { id };
    let mut changes: Vec<Change> = report.sealed.iter().map(seal).collect();
    changes.extend(report.never_begun.iter().map(remove));
    changes.push(Change::LastSeqno(report.last_seqno));
    Edit::new(changes)
}
