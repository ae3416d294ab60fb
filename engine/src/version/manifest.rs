//! The manifest: the durable log of edits, and CURRENT, which names the one in force.
//!
//! ```text
//! manifest = head (40 bytes, kind "MANI") record*
//! record   = length u32 | checksum u32, over the payload, seeded by (manifest id, offset of the
//!            record) | payload: the bytes of one edit
//! CURRENT  = head (40 bytes, kind "CURR"; its file id is the id of the manifest in force)
//! ```
//!
//! The first record is the whole state as one edit. Each record is synced before its edit takes
//! effect, and thus before the next one is written. A record is valid if its length fits the file
//! and its checksum holds. A reader takes records up to the first invalid one. If nothing valid
//! follows, that was an edit cut short by a crash, which never took effect; if a valid record
//! follows, the invalid one had been synced and was damaged since: corruption.
//!
//! A manifest is never appended to after a restart. The first edit of each opening begins a new
//! one, and so does an edit after which the file has grown to several times its state.

use crate::base::checksum::{checksum32, seed};
use crate::base::error::{Error, ErrorKind, InFile, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::env::Env;
use crate::env::fs::File;
use crate::version::edit::Edit;
use crate::version::files::names;
use crate::version::manifest_reader::ManifestReader;
use crate::version::owner;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const RECORD_HEAD: usize = 8;
/// The greatest length of an edit in bytes; a longer record is invalid.
pub(super) const MAX_EDIT_BYTES: usize = 1 << 30;
/// A manifest is rewritten once it is this many times larger than its first record, and larger than
/// [`MIN_REWRITE_BYTES`].
const GROWTH: u64 = 4;
/// The size in bytes up to which a manifest is never rewritten for its growth.
const MIN_REWRITE_BYTES: u64 = 256 << 10;

fn frame(manifest: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= MAX_EDIT_BYTES, "no reader takes an edit of {} bytes", payload.len());
    let mut out = Vec::with_capacity(RECORD_HEAD + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum32(seed(manifest, offset), payload).to_le_bytes());
    out.extend_from_slice(payload);
    out
}

/// A manifest that is open for appending.
pub struct ManifestWriter {
    id: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    length: u64,
    state_bytes: u64,
}

/// The error of an append, with whether the manifest can still be trusted.
pub enum AppendError {
    /// The file is as it was before; the edit did not take effect.
    Undone(Error),
    /// The content on disk is unknown (I8).
    Unknown(Error),
}

impl ManifestWriter {
    /// Writes manifest `id` with the whole `state` as its first record, and puts it in force.
    pub fn create(env: &Env, dir: &Path, database: u64, id: u64, state: &Edit) -> Result<Self> {
        let path = names::manifest(dir, id);
        let written = Self::write_new(env, &path, database, id, state);
        let (file, length) = written.inspect_err(|_| {
            // CURRENT does not name it; if it cannot be removed, it is an orphan for the next
            // opening.
            let _ = env.fs.remove(&path);
        })?;
        set_current(env, dir, database, id)?;
        Ok(ManifestWriter { id, path, file, length, state_bytes: length })
    }

    fn write_new(
        env: &Env,
        path: &Path,
        database: u64,
        id: u64,
        state: &Edit,
    ) -> Result<(Arc<dyn File>, u64)> {
        let file = env.fs.create(path).doing("create the manifest", path)?;
        let mut bytes = Header::new(FileKind::Manifest, database, id).encode().to_vec();
        let record = frame(id, bytes.len() as u64, &state.encode());
        bytes.extend_from_slice(&record);
        file.write_at(&bytes, 0).doing("write the manifest", path)?;
        // A crash before the rename in `set_current` leaves a manifest that CURRENT does not name;
        // the next opening removes it.
        file.sync().doing("sync the manifest", path)?;
        Ok((file, bytes.len() as u64))
    }

    /// Returns the id in the manifest's file name.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns true if the file has grown enough beyond the state it describes to be rewritten.
    pub fn is_outgrown(&self) -> bool {
        self.length > MIN_REWRITE_BYTES && self.length > GROWTH * self.state_bytes
    }

    /// Appends `edit` and makes it durable.
    pub fn append(&mut self, edit: &Edit) -> Result<(), AppendError> {
        debug_assert!(self.state_bytes <= self.length, "a manifest begins with the whole state");
        debug_assert!(!edit.is_empty(), "an edit without changes needs no record");
        let record = frame(self.id, self.length, &edit.encode());
        if let Err(error) = self.file.write_at(&record, self.length) {
            return Err(self.undo(Error::io("write the manifest", &self.path, error)));
        }
        // A crash before this sync ends may keep the edit or lose it. Either is fine: files it adds
        // are durable already, and files it removes are unlinked only afterwards.
        if let Err(error) = self.file.sync() {
            return Err(AppendError::Unknown(Error::io("sync the manifest", &self.path, error)));
        }
        self.length += record.len() as u64;
        Ok(())
    }

    /// Cuts off a record that was written in part. It must not become valid after a crash, since
    /// the caller is about to delete the files that it would name.
    fn undo(&self, error: Error) -> AppendError {
        let undone = self.file.set_len(self.length).and_then(|()| self.file.sync());
        match undone {
            Ok(()) => AppendError::Undone(error),
            Err(_) => AppendError::Unknown(error),
        }
    }
}

/// Puts manifest `id` in force atomically.
fn set_current(env: &Env, dir: &Path, database: u64, id: u64) -> Result<()> {
    let new = dir.join(names::CURRENT_NEW);
    let current = dir.join(names::CURRENT);
    owner::begin_anew(env, &new, Header::new(FileKind::Current, database, id))?;
    // This makes the names of the new manifest and of all files in its state durable before CURRENT
    // can name it. A crash before the rename is durable leaves the old manifest in force; its files
    // still exist, because nothing is unlinked before.
    env.fs.sync_dir(dir).doing("sync the directory", dir)?;
    env.fs.rename(&new, &current).map_err(|error| in_doubt(&current, error))?;
    env.fs.sync_dir(dir).map_err(|error| in_doubt(&current, error))
}

/// Returns the error for a failure at or after the rename, which leaves open which manifest is in
/// force. A full disk is not distinguished here, because writing could not simply resume (I8).
fn in_doubt(current: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot put a new manifest in force: {error}"))
        .in_file(current)
}

/// The content of CURRENT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    /// The database's id.
    pub database: u64,
    /// The id of the manifest in force.
    pub manifest: u64,
}

/// Reads CURRENT.
pub fn read_current(env: &Env, dir: &Path) -> Result<Current> {
    let path = dir.join(names::CURRENT);
    let file = env.fs.open(&path).doing("open", &path)?;
    let len = file.len().doing("measure", &path)?;
    // One byte more is read to detect a longer file, however long it is.
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(HEADER_BYTES + 1)];
    file.read_exact_at(&mut bytes, 0).doing("read", &path)?;
    let header = Header::decode(&bytes).in_file(&path)?;
    if header.kind != FileKind::Current || bytes.len() != HEADER_BYTES {
        return Err(Error::corruption("this is not a CURRENT file").in_file(&path));
    }
    Ok(Current { database: header.database, manifest: header.file })
}

/// The end of a manifest's file.
pub struct ManifestEnd {
    /// The length of the file in bytes.
    pub length: u64,
    /// True if the file ends in a record that a crash cut short, whose edit never took effect.
    pub is_torn: bool,
}

/// Calls `each` with the edits of manifest `id` of `database`, in order; the first is the whole
/// state.
pub fn read_manifest(
    env: &Env,
    dir: &Path,
    database: u64,
    id: u64,
    mut each: impl FnMut(Edit) -> Result<()>,
) -> Result<ManifestEnd> {
    let path = names::manifest(dir, id);
    let mut reader = ManifestReader::open(env, &path)?;
    reader.header().check(FileKind::Manifest, database, id).in_file(&path)?;
    let mut count = 0;
    let end = reader.for_each(|_, edit| {
        count += 1;
        each(edit).in_file(&path)
    })?;
    if count == 0 || reader.find_record(end + 1)?.is_some() {
        // Neither can be caused by a crash: the first record was synced before CURRENT named the
        // file, and every record is synced before the next one is written.
        return Err(Error::corruption("an edit in the manifest does not match its checksum")
            .in_file(&path)
            .at(end)
            .advise("restore the database from a checkpoint"));
    }
    let length = reader.length();
    Ok(ManifestEnd { length, is_torn: end < length })
}

/// Syncs manifest `id` and the directory entry of its name. If the former process was killed, what
/// the opening has read may be only in the page cache. Changes no file.
pub fn sync_manifest(env: &Env, dir: &Path, id: u64) -> Result<()> {
    let path = names::manifest(dir, id);
    // I2: a power failure after this loses nothing that the opening has shown. One before it may
    // lose the last edit, as if its writer had been stopped a moment earlier.
    env.fs.open_write(&path).doing("open", &path)?.sync().doing("sync the manifest", &path)?;
    env.fs.sync_dir(dir).doing("sync the directory", dir)
}

/// The readable part of a manifest that may be damaged.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// The edits in the order in which they were written.
    pub edits: Vec<Edit>,
    /// The number of these edits that come before any damage.
    pub unbroken: usize,
    /// True if nothing but these edits is in the file: none is missing, not even at its end.
    pub is_whole: bool,
}

/// Returns every readable edit of a manifest of `database`, even behind damage: a record's checksum
/// is seeded by its offset, so records can be searched for. Returns no edits if the manifest
/// belongs to another database.
pub fn salvage(env: &Env, path: &Path, database: u64) -> Result<Salvaged> {
    let mut reader = ManifestReader::open(env, path)?;
    let mut found = Salvaged::default();
    if reader.header().database != database {
        return Ok(found);
    }
    let (mut next, mut is_unbroken) = (HEADER_BYTES as u64, true);
    // If the search fails, the edits found before it are all that can be saved.
    while let Ok(Some((offset, payload))) = reader.find_record(next) {
        is_unbroken &= offset == next;
        next = offset + (RECORD_HEAD + payload.len()) as u64;
        match Edit::decode(&payload) {
            Ok(edit) => {
                found.edits.push(edit);
                found.unbroken += usize::from(is_unbroken);
            }
            Err(_) => is_unbroken = false,
        }
    }
    found.is_whole = is_unbroken && next == reader.length();
    Ok(found)
}
