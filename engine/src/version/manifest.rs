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
//! effect, and so before the next one is written. Validity: a record counts if its length fits
//! the file and its checksum holds. Reader: take records until one does not count. If nothing
//! valid follows, that was an edit cut short by a crash, which never took effect; if something
//! does, the record had been synced and has rotted since: corruption.
//!
//! A manifest is never appended to after a restart: each opening writes a new one, and so does an
//! edit that finds the file grown to several times its state.

use crate::base::checksum::{checksum32, seed};
use crate::base::error::{Error, ErrorKind, InFile, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::pointer::MAX_ID;
use crate::env::Env;
use crate::env::fs::File;
use crate::version::edit::Edit;
use crate::version::files::names;
use crate::version::manifest_reader::ManifestReader;
use crate::version::owner;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const RECORD_HEAD: usize = 8;
/// An edit larger than this is not one of ours.
pub(super) const MAX_EDIT_BYTES: usize = 1 << 30;
/// A manifest is rewritten once it is this many times larger than its first record...
const GROWTH: u64 = 4;
/// ...and at least this large, in bytes.
const MIN_REWRITE_BYTES: u64 = 256 << 10;

fn frame(manifest: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(RECORD_HEAD + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum32(seed(manifest, offset), payload).to_le_bytes());
    out.extend_from_slice(payload);
    out
}

/// A manifest open for appending.
pub struct ManifestWriter {
    id: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    length: u64,
    state_bytes: u64,
}

/// Why an edit could not be appended, and whether the manifest can still be trusted.
pub enum AppendError {
    /// The file is as it was before; the edit did not take effect.
    Undone(Error),
    /// What is on disk is unknown (I8).
    Unknown(Error),
}

impl ManifestWriter {
    /// Writes manifest `id` with the whole `state` as its first record and puts it in force.
    pub fn create(env: &Env, dir: &Path, database: u64, id: u64, state: &Edit) -> Result<Self> {
        let path = names::manifest(dir, id);
        let written = Self::write_new(env, &path, database, id, state);
        let (file, length) = written.inspect_err(|_| {
            // Nothing names it: what stays of it is an orphan for the next opening.
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
        // A crash before the rename in `set_current` leaves a manifest that nothing names; the
        // next opening removes it.
        file.sync().doing("sync the manifest", path)?;
        Ok((file, bytes.len() as u64))
    }

    /// The id in its name.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes in the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// True once it has outgrown the state it describes.
    pub fn is_outgrown(&self) -> bool {
        self.length > MIN_REWRITE_BYTES && self.length > GROWTH * self.state_bytes
    }

    /// Makes `edit` durable.
    pub fn append(&mut self, edit: &Edit) -> Result<(), AppendError> {
        let record = frame(self.id, self.length, &edit.encode());
        if let Err(error) = self.file.write_at(&record, self.length) {
            return Err(self.undo(Error::io("write the manifest", &self.path, error)));
        }
        // A crash before this sync ends may keep the edit or lose it. Either is fine: what it
        // adds is durable already, what it removes is unlinked only afterwards.
        if let Err(error) = self.file.sync() {
            return Err(AppendError::Unknown(Error::io("sync the manifest", &self.path, error)));
        }
        self.length += record.len() as u64;
        Ok(())
    }

    /// Takes back a record that was written in part: it must not come true after a crash, since
    /// the caller is about to delete the files it would name.
    fn undo(&self, error: Error) -> AppendError {
        let undone = self.file.set_len(self.length).and_then(|()| self.file.sync());
        match undone {
            Ok(()) => AppendError::Undone(error),
            Err(_) => AppendError::Unknown(error),
        }
    }
}

/// Puts manifest `id` in force, atomically.
fn set_current(env: &Env, dir: &Path, database: u64, id: u64) -> Result<()> {
    let new = dir.join(names::CURRENT_NEW);
    let current = dir.join(names::CURRENT);
    if env.fs.kind(&new).doing("look for", &new)?.is_some() {
        owner::check_ours(env, &new)?;
        env.fs.remove(&new).doing("remove", &new)?;
    }
    let file = env.fs.create(&new).doing("create", &new)?;
    let head = Header::new(FileKind::Current, database, id).encode();
    file.write_at(&head, 0).doing("write", &new)?;
    file.sync().doing("sync", &new)?;
    // The names of the new manifest and of all files its state names are durable before CURRENT
    // can name it. A crash before the rename is durable leaves the old manifest in force, whose
    // files still exist, as nothing is unlinked before.
    env.fs.sync_dir(dir).doing("sync the directory", dir)?;
    env.fs.rename(&new, &current).map_err(|error| in_doubt(&current, error))?;
    env.fs.sync_dir(dir).map_err(|error| in_doubt(&current, error))
}

/// From the rename on, an error of any kind leaves open which manifest is in force; so a full
/// disk is not told apart here, as writing could not simply resume (I8).
fn in_doubt(current: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot put a new manifest in force: {error}"))
        .in_file(current)
}

/// What CURRENT says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    /// The database's id.
    pub database: u64,
    /// The manifest in force.
    pub manifest: u64,
}

/// Reads CURRENT.
pub fn read_current(env: &Env, dir: &Path) -> Result<Current> {
    let path = dir.join(names::CURRENT);
    let file = env.fs.open(&path).doing("open", &path)?;
    let len = file.len().doing("measure", &path)?;
    // One byte more tells a longer file, however long that is.
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(HEADER_BYTES + 1)];
    file.read_exact_at(&mut bytes, 0).doing("read", &path)?;
    let header = Header::decode(&bytes).in_file(&path)?;
    if header.kind != FileKind::Current || bytes.len() != HEADER_BYTES {
        return Err(Error::corruption("this is not a CURRENT file").in_file(&path));
    }
    if header.file > MAX_ID {
        let message = format!("CURRENT names manifest {}, over the bound of {MAX_ID}", header.file);
        return Err(Error::corruption(message).in_file(&path));
    }
    Ok(Current { database: header.database, manifest: header.file })
}

/// How the file of a manifest ends.
pub struct ManifestEnd {
    /// Length of the file in bytes.
    pub length: u64,
    /// True if it ends in a record that a crash cut short, whose edit never took effect.
    pub is_torn: bool,
}

/// Hands the edits of manifest `id` of `database` to `each`, the whole state first.
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
        // The first record was synced before CURRENT named the file, and any record before the
        // next one was written: neither can be a crash's doing.
        return Err(Error::corruption("an edit in the manifest does not match its checksum")
            .in_file(&path)
            .at(end)
            .advise("restore the database from a checkpoint"));
    }
    let length = reader.length();
    Ok(ManifestEnd { length, is_torn: end < length })
}

/// Makes manifest `id` durable, and the name under which CURRENT names it: after the end of a
/// process the page cache alone may hold what an opening has read. Changes no file.
pub fn sync_manifest(env: &Env, dir: &Path, id: u64) -> Result<()> {
    let path = names::manifest(dir, id);
    // I2: a power cut after this takes nothing back that the opening shows. One before it may
    // take the last edit back, as if its writer had been cut off a moment earlier.
    env.fs.open_write(&path).doing("open", &path)?.sync().doing("sync the manifest", &path)?;
    env.fs.sync_dir(dir).doing("sync the directory", dir)
}

/// What can be read of a manifest that may be damaged.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// In the order in which they were written.
    pub edits: Vec<Edit>,
    /// How many of them come before any damage.
    pub unbroken: usize,
}

/// Every edit that can be read of a manifest of `database`, also behind damage: each record names
/// its place by its checksum. None if the manifest is another database's.
pub fn salvage(env: &Env, path: &Path, database: u64) -> Result<Salvaged> {
    let mut reader = ManifestReader::open(env, path)?;
    let mut found = Salvaged::default();
    if reader.header().database != database {
        return Ok(found);
    }
    let (mut next, mut is_unbroken) = (HEADER_BYTES as u64, true);
    // A search that fails ends what can be saved.
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
    Ok(found)
}
