//! The manifest: the durable log of edits, and CURRENT, which names the one in force.
//!
//! ```text
//! manifest = head (40 bytes, kind "MANI") record*
//! record   = length u32 | checksum u32, over the payload, seeded by (manifest id, offset of the
//!            record) | payload: the bytes of one edit
//! CURRENT  = head (40 bytes, kind "CURR"; its file id is the id of the manifest in force)
//! ```
//!
//! In an encrypted database 16 bytes, the salt, lie between head and first record; each payload is
//! encrypted, and ends with its tag of 16 bytes (`base/seal.rs`) and a u32: how many records were
//! cut off at this offset before, which is the end of the nonce.
//!
//! The first record is the whole state as one edit, or as many records are as that needs: each edit
//! but the last says that the state goes on. Each record is synced before its edit takes
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
use crate::base::seal::{DatabaseIdentity, FileCipher, nonce};
use crate::base::size::sized;
use crate::env::Env;
use crate::env::fs::File;
use crate::version::edit::Edit;
use crate::version::files::names;
use crate::version::manifest_reader::{MAX_MANIFEST_BYTES, ManifestReader};
use crate::version::owner;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const RECORD_HEAD: usize = 8;
/// The greatest length of an edit in bytes; a longer record is invalid.
pub(super) const MAX_EDIT_BYTES: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };
/// The bytes of a state from which on it goes on in another record. Each table names the segments
/// that it points into, so the state of a terabyte of small values takes a gigabyte.
const STATE_PART_BYTES: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };
/// A manifest is rewritten once it is this many times larger than its state, and larger than
/// [`MIN_REWRITE_BYTES`].
const GROWTH: u64 = 4;
/// The size in bytes up to which a manifest is never rewritten for its growth.
const MIN_REWRITE_BYTES: u64 = 256 << 10;

/// Returns the record of an edit. `cut` is the number of records that were cut off at `offset`.
fn frame(
    manifest: u64,
    cipher: Option<&FileCipher>,
    offset: u64,
    cut: u32,
    mut payload: Vec<u8>,
) -> Result<Vec<u8>> {
    if let Some(cipher) = cipher {
        let tag = cipher.seal_with(&nonce(offset, cut), &[], &mut payload);
        payload.extend_from_slice(&tag);
        payload.extend_from_slice(&cut.to_le_bytes());
    }
    if payload.len() > MAX_EDIT_BYTES {
        // No reader takes it.
        return Err(too_long("an edit", payload.len()));
    }
    let mut out = Vec::with_capacity(RECORD_HEAD + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum32(seed(manifest, offset), &payload).to_le_bytes());
    out.extend_from_slice(&payload);
    Ok(out)
}

fn too_long(what: &str, bytes: usize) -> Error {
    let what = format!("{what} of {} is longer than any may be", sized(bytes as u64));
    Error::new(ErrorKind::LimitReached, what).advise(
        "each table names all segments that it points into, so larger segments and tables, or \
         several databases, keep the manifest smaller",
    )
}

/// Returns manifest `id` as it begins, with the whole `state`, and the cipher of its next records.
fn first_bytes(
    database: &DatabaseIdentity,
    id: u64,
    state: &Edit,
) -> Result<(Vec<u8>, Option<FileCipher>)> {
    let salt = database.salt();
    let cipher = salt.and_then(|salt| database.cipher(FileKind::Manifest, id, &salt));
    let mut bytes = Header::new(FileKind::Manifest, database.id, id)
        .encrypted(database.is_encrypted())
        .encode()
        .to_vec();
    bytes.extend_from_slice(salt.as_ref().map_or(&[], |salt| salt.as_slice()));
    for part in state.encode_parts(STATE_PART_BYTES) {
        let record = frame(id, cipher.as_ref(), bytes.len() as u64, 0, part)?;
        bytes.extend_from_slice(&record);
    }
    // A manifest grows to several times its state before it is written anew.
    if bytes.len() as u64 > MAX_MANIFEST_BYTES / (2 * GROWTH) {
        return Err(too_long("a state", bytes.len()));
    }
    Ok((bytes, cipher))
}

/// Returns a whole manifest that holds `state`, for a copy of the database. The id must never have
/// been used by this opening (I12).
pub fn whole_manifest(database: &DatabaseIdentity, id: u64, state: &Edit) -> Result<Vec<u8>> {
    Ok(first_bytes(database, id, state)?.0)
}

/// A manifest that is open for appending.
pub struct ManifestWriter {
    id: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    cipher: Option<FileCipher>,
    length: u64,
    state_bytes: u64,
    /// How many records were cut off again at the end of the file.
    cut: u32,
}

/// The error of an append, with whether the manifest can still be trusted.
pub enum AppendError {
    /// The file is as it was before; the edit did not take effect.
    Undone(Error),
    /// The content on disk is unknown (I8).
    Unknown(Error),
}

impl ManifestWriter {
    /// Writes manifest `id` with the whole `state`, and puts it in force.
    pub fn create(
        env: &Env,
        dir: &Path,
        database: impl Into<DatabaseIdentity>,
        id: u64,
        state: &Edit,
    ) -> Result<Self> {
        let (path, database) = (names::manifest(dir, id), database.into());
        let (bytes, cipher) = first_bytes(&database, id, state)?;
        let written = Self::write_new(env, &path, &bytes);
        let (file, length) = written.inspect_err(|_| {
            // CURRENT does not name it; if it cannot be removed, it is an orphan for the next
            // opening.
            let _ = env.fs.remove(&path);
        })?;
        let is_encrypted = database.is_encrypted();
        let wanted = Current { database: database.id, manifest: id, is_encrypted };
        put_in_force(env, dir, wanted).inspect_err(|error| {
            // I9: a full disk leaves the old manifest in force, and this one takes its space.
            if error.kind() == ErrorKind::DiskFull {
                let _ = env.fs.remove(&path);
            }
        })?;
        Ok(ManifestWriter { id, path, file, cipher, length, state_bytes: length, cut: 0 })
    }

    fn write_new(env: &Env, path: &Path, bytes: &[u8]) -> Result<(Arc<dyn File>, u64)> {
        let file = env.fs.create(path).doing("create the manifest", path)?;
        file.write_at(bytes, 0).doing("write the manifest", path)?;
        // A crash before the rename in `put_in_force` leaves a manifest that CURRENT does not name;
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
        let record = frame(self.id, self.cipher.as_ref(), self.length, self.cut, edit.encode());
        let record = record.map_err(AppendError::Undone)?;
        // I12: if this record is cut off, the next one at its offset is sealed with another nonce.
        self.cut = self.cut.checked_add(1).ok_or_else(|| {
            AppendError::Undone(Error::internal("the manifest failed four thousand million times"))
        })?;
        if let Err(error) = self.file.write_at(&record, self.length) {
            return Err(self.undo(Error::io("write the manifest", &self.path, error)));
        }
        // A crash before this sync ends may keep the edit or lose it. Either is fine: files it adds
        // are durable already, and files it removes are unlinked only afterwards.
        if let Err(error) = self.file.sync() {
            return Err(AppendError::Unknown(Error::io("sync the manifest", &self.path, error)));
        }
        (self.length, self.cut) = (self.length + record.len() as u64, 0);
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

/// Puts a manifest in force atomically.
pub fn put_in_force(env: &Env, dir: &Path, wanted: Current) -> Result<()> {
    let new = dir.join(names::CURRENT_NEW);
    let current = dir.join(names::CURRENT);
    let header = Header::new(FileKind::Current, wanted.database, wanted.manifest);
    owner::begin_anew(env, &new, &header.encrypted(wanted.is_encrypted).encode())?;
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
    /// True if the database is encrypted.
    pub is_encrypted: bool,
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
    let Header { database, file: manifest, is_encrypted, .. } = header;
    Ok(Current { database, manifest, is_encrypted })
}

/// The end of a manifest's file.
pub struct ManifestEnd {
    /// The length of the file in bytes.
    pub length: u64,
    /// True if the file ends in a record that a crash cut short, whose edit never took effect.
    pub is_torn: bool,
}

/// Calls `each` with the edits of manifest `id` of `database`, in order; the first ones are the
/// whole state.
pub fn read_manifest(
    env: &Env,
    dir: &Path,
    database: impl Into<DatabaseIdentity>,
    id: u64,
    mut each: impl FnMut(Edit) -> Result<()>,
) -> Result<ManifestEnd> {
    let path = names::manifest(dir, id);
    let database = database.into();
    let mut reader = open_in_force(env, &path, &database)?;
    reader.header().check(FileKind::Manifest, database.id, id).in_file(&path)?;
    let (mut count, mut goes_on) = (0, false);
    let end = reader.for_each(|_, edit| {
        (count, goes_on) = (count + 1, edit.goes_on());
        each(edit).in_file(&path)
    })?;
    if count == 0 || goes_on || reader.find_record(end + 1)?.is_some() {
        // None of that can be caused by a crash: the state was synced before CURRENT named the
        // file, and every record is synced before the next one is written.
        return Err(damaged(&path, end));
    }
    let length = reader.length();
    Ok(ManifestEnd { length, is_torn: end < length })
}

/// Opens the manifest that CURRENT names.
fn open_in_force(env: &Env, path: &Path, database: &DatabaseIdentity) -> Result<ManifestReader> {
    ManifestReader::open(env, path, database).map_err(|error| match env.fs.exists(path) {
        Ok(false) => Error::corruption("the manifest that CURRENT names is missing")
            .in_file(path)
            .advise("restore it, or the whole database, from a backup; else `cleave repair`"),
        _ => error,
    })
}

fn damaged(path: &Path, offset: u64) -> Error {
    Error::corruption("an edit in the manifest does not match its checksum")
        .in_file(path)
        .at(offset)
        .advise("restore the database from a checkpoint")
}

/// Calls `each` with the edits from offset `from` on, or from the first one if it is `None`, of a
/// manifest to which another process may be appending. Returns the offset of the next record.
///
/// A record that is not there as a whole ends the walk, whatever lies behind it. Each of those
/// before it may be taken: it is synced before its edit takes effect, but what it names is durable
/// already, and what it removes is still there. If `is_strict`, nobody appends, and damage is told
/// from what a crash cut short, as [`read_manifest`] does.
pub fn read_manifest_live(
    env: &Env,
    dir: &Path,
    database: &DatabaseIdentity,
    id: u64,
    from: Option<u64>,
    is_strict: bool,
    mut each: impl FnMut(Edit) -> Result<()>,
) -> Result<u64> {
    let path = names::manifest(dir, id);
    let mut reader = open_in_force(env, &path, database)?;
    reader.header().check(FileKind::Manifest, database.id, id).in_file(&path)?;
    let (first, mut goes_on) = (reader.first(), false);
    let end = reader.for_each_from(from.unwrap_or(first), |_, edit| {
        goes_on = edit.goes_on();
        each(edit).in_file(&path)
    })?;
    // The state was synced before CURRENT named the file.
    if end == first || goes_on || is_strict && reader.find_record(end + 1)?.is_some() {
        return Err(damaged(&path, end));
    }
    Ok(end)
}

/// Syncs manifest `id` and the directory entry of its name. If the former process was killed, what
/// the opening has read may be only in the page cache. Changes no file.
///
/// I8: if a sync of the former process failed, the kernel may take pages for clean that never
/// reached the disk, and this does not write them again. So the last edit, of which nobody was told
/// that it is durable, may be shown by this opening and be gone after a power failure. Nothing that
/// is written from now on can depend on it alone: the first edit begins a new manifest, with the
/// whole state.
pub fn sync_manifest(env: &Env, dir: &Path, id: u64) -> Result<()> {
    let path = names::manifest(dir, id);
    // I2: a power failure after this loses nothing that the opening has shown, unless a sync failed
    // before. One before it may lose the last edit, as if its writer had been stopped a moment
    // earlier.
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

impl Salvaged {
    /// Returns true if the file ends within the state that it begins with, or is damaged there.
    pub fn is_part(&self) -> bool {
        self.unbroken > 0 && self.edits.iter().take(self.unbroken).all(Edit::goes_on)
    }
}

/// Returns every readable edit of a manifest of `database`, even behind damage: a record's checksum
/// is seeded by its offset, so records can be searched for. Returns no edits if the manifest
/// belongs to another database, or is a copy under another number than its own.
pub fn salvage(env: &Env, path: &Path, database: impl Into<DatabaseIdentity>) -> Result<Salvaged> {
    let database = database.into();
    let mut reader = ManifestReader::open(env, path, &database)?;
    let mut found = Salvaged::default();
    let header = reader.header();
    let is_ours = header.kind == FileKind::Manifest && header.database == database.id;
    if !is_ours || names::parse(path) != names::FileName::Manifest(header.file) {
        return Ok(found);
    }
    let (mut next, mut is_unbroken) = (reader.first(), true);
    // If the search fails, the edits found before it are all that can be saved.
    while let Ok(Some((offset, payload))) = reader.find_record(next) {
        is_unbroken &= offset == next;
        next = offset + reader.record_bytes(&payload);
        match Edit::decode(&payload) {
            Ok(edit) => {
                found.edits.push(edit);
                found.unbroken += usize::from(is_unbroken);
            }
            Err(_) => is_unbroken = false,
        }
    }
    let goes_on = found.edits.last().is_some_and(Edit::goes_on);
    found.is_whole = is_unbroken && !goes_on && next == reader.length();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pointer::KeyspaceId;
    use crate::env::sim::{Call, FaultPlan};
    use crate::version::edit::Change;

    /// Creates an encrypted manifest 1 with `state`.
    fn begun(env: &Env, state: &Edit) -> (&'static Path, DatabaseIdentity, ManifestWriter) {
        let (dir, database) = (Path::new("db"), DatabaseIdentity::encrypted(7));
        env.fs.create_dir_all(dir).unwrap();
        let writer = ManifestWriter::create(env, dir, &database, 1, state).unwrap();
        (dir, database, writer)
    }

    /// Returns the edits of manifest 1, which must not end in a torn one.
    fn edits(env: &Env, dir: &Path, database: &DatabaseIdentity) -> Vec<Edit> {
        let mut found = Vec::new();
        let each = |edit: Edit| {
            found.push(edit);
            Ok(())
        };
        assert!(!read_manifest(env, dir, database, 1, each).unwrap().is_torn);
        found
    }

    /// Appends an edit to a new encrypted manifest, after `failures` failed tries; returns the
    /// bytes of its record.
    fn record_after(failures: u64) -> Vec<u8> {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let state = Edit::new(vec![Change::NextFile(2)]);
            let (dir, database, mut writer) = begun(&env, &state);
            let (start, edit) = (writer.length(), Edit::new(vec![Change::LastSeqno(9)]));
            for _ in 0..failures {
                simulation.fail(FaultPlan::new(Call::Write).on(".man").nth(1));
                assert!(matches!(writer.append(&edit), Err(AppendError::Undone(_))));
                assert_eq!(writer.length(), start);
            }
            simulation.clear_faults();
            assert!(writer.append(&edit).is_ok());
            assert_eq!(edits(&env, dir, &database), [state, edit]);
            simulation.read_file(names::manifest(dir, 1)).split_off(start as usize)
        })
    }

    /// The bytes of a record that failed may be on the device, and whoever has both could tell what
    /// the two have in common if they were sealed with one nonce.
    #[test]
    fn i12_an_edit_in_place_of_one_that_was_cut_off_has_another_nonce() {
        let records = [0, 1, 2].map(record_after);
        assert_eq!(records[0], record_after(0), "the rest is the same in each run");
        for (first, second) in [(0, 1), (0, 2), (1, 2)] {
            let shared = records[first][8..].windows(3).any(|window| {
                records[second][8..records[second].len() - 4].windows(3).any(|it| it == window)
            });
            assert!(!shared, "{first} {second}: {records:?}");
        }
    }

    /// Guards against a part of a state that is taken for all of it, as a torn edit is left out.
    #[test]
    fn a_long_state_is_in_several_records_and_none_may_be_missing() {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let state = Edit::new((0..60_000).map(Change::LastSeqno).collect());
            let (dir, database, mut writer) = begun(&env, &state);
            assert!(writer.append(&Edit::new(vec![Change::NextFile(9)])).is_ok());
            let (mut found, mut ends) = (Vec::new(), Vec::new());
            let mut reader =
                ManifestReader::open(&env, &names::manifest(dir, 1), &database).unwrap();
            let each = |at, edit: Edit| {
                ends.push(at);
                found.extend(edit.changes);
                Ok(())
            };
            reader.for_each(each).unwrap();
            found.retain(|change| *change != Change::StateGoesOn);
            assert_eq!(found.pop(), Some(Change::NextFile(9)));
            assert!(found == state.changes && ends.len() > 3, "{} records", ends.len());
            let is_read = || {
                let whole = read_manifest(&env, dir, &database, 1, |_| Ok(())).is_ok();
                let live =
                    read_manifest_live(&env, dir, &database, 1, None, false, |_| Ok(())).is_ok();
                assert_eq!(whole, live);
                whole
            };
            assert!(is_read());
            // The file ends before the last edit, and then before the last record of the state.
            let cut = |at: u64| {
                simulation.corrupt(names::manifest(dir, 1), |bytes| {
                    bytes.truncate(at as usize);
                })
            };
            cut(ends.pop().unwrap());
            assert!(is_read());
            let whole = salvage(&env, &names::manifest(dir, 1), &database).unwrap();
            cut(ends.pop().unwrap());
            assert!(!is_read());
            let part = salvage(&env, &names::manifest(dir, 1), &database).unwrap();
            assert!(whole.is_whole && !whole.is_part());
            assert!(!part.is_whole && part.is_part() && !part.edits.is_empty());
        });
    }

    /// A panic came after the edit was durable, and the job that unwound removed its files.
    #[test]
    fn an_edit_that_no_reader_would_take_is_refused_and_the_next_one_is_appended() {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let state = Edit::new(vec![Change::NextFile(2)]);
            let (dir, database, mut writer) = begun(&env, &state);
            let settings = "x".repeat(MAX_EDIT_BYTES);
            let long = Edit::new(vec![Change::SetKeyspace { id: KeyspaceId(1), settings }]);
            let refused = writer.append(&long);
            let Err(AppendError::Undone(error)) = refused else { panic!("it took effect") };
            assert_eq!(error.kind(), ErrorKind::LimitReached);
            let error = ManifestWriter::create(&env, dir, &database, 3, &long).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::LimitReached);
            let edit = Edit::new(vec![Change::LastSeqno(9)]);
            assert!(writer.append(&edit).is_ok());
            assert_eq!(edits(&env, dir, &database), [state, edit]);
        });
    }

    #[test]
    fn a_forged_edit_is_corruption_and_not_torn() {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let state = Edit::new(vec![Change::NextFile(2)]);
            let (dir, database, writer) = begun(&env, &state);
            let start = 56;
            simulation.corrupt(names::manifest(dir, 1), |bytes| {
                bytes[start + RECORD_HEAD] ^= 1;
                let sum = checksum32(seed(1, start as u64), &bytes[start + RECORD_HEAD..]);
                bytes[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
            });
            drop(writer);
            let read = read_manifest(&env, dir, &database, 1, |_| Ok(()));
            let error = read.err().expect("it was changed");
            assert!(error.message().contains("do not open"), "{error}");
            let error = read_manifest(&env, dir, 7, 1, |_| Ok(())).err().unwrap();
            assert!(error.message().contains("is encrypted"), "{error}");
        });
    }
}
