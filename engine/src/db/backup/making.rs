//! Makes a point of a backup: copies what the backup does not have, and describes the rest.

use crate::base::checksum::checksum64;
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::key::SeqNo;
use crate::db::Db;
use crate::db::backup::catalog::{self, Catalog};
use crate::db::backup::point::{PointDescription, StoredFile, StoredKind, sum};
use crate::db::backup::{BackupOptions, copying};
use crate::db::long_pass::{LongPass, PassOptions};
use crate::env::Env;
use crate::env::fs::Hold;
use crate::recovery::create;
use crate::version::build::state_of;
use crate::version::edit::Edit;
use crate::version::files::TableContext;
use crate::version::manifest::whole_manifest;
use crate::version::runtime::Runtime;
use crate::version::{Holes, Version, keys};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a backup has done. [`Db::backup`] has an example.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BackupReport {
    /// The number of the new point.
    pub point: u64,
    /// The files of the point.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The files that were copied; the backup had the others.
    pub copied_files: u64,
    /// The bytes that were copied.
    pub copied_bytes: u64,
    /// The points that were deleted because of [`BackupOptions::keep`].
    pub deleted_points: Vec<u64>,
    /// The bytes of disk that came back: of deleted points, and of what a call that was cut short
    /// had left over.
    pub freed_bytes: u64,
    /// Points whose descriptions cannot be read. As long as there are any, no file is removed.
    pub unreadable: Vec<Error>,
}

impl BackupReport {
    fn of(point: &PointDescription) -> BackupReport {
        BackupReport {
            point: point.number,
            files: point.files.len() as u64,
            bytes: point.bytes(),
            copied_files: point.added().count() as u64,
            copied_bytes: sum(point.added().map(StoredFile::copied_bytes)),
            ..BackupReport::default()
        }
    }
}

impl Db {
    /// Adds a point to the backup in the directory `dir`: all that was committed before the call.
    /// Creates the directory if it is missing. The points of a backup share the files that they
    /// have in common, and a file that the backup has is neither read nor copied again; so a second
    /// backup costs what was written since the first. [`Backups`](crate::Backups) lists, verifies,
    /// restores and deletes points.
    ///
    /// Each database needs a backup directory of its own. It holds copies, so it may be on another
    /// file system or machine. An encrypted database is backed up as it is: its points need its
    /// keys.
    ///
    /// Readers and writers go on; writers wait only while the active segment is sealed. Until the
    /// call ends, files of that moment are neither removed nor punched, which takes space. A
    /// database that was opened read-only can be backed up too, and nothing in it changes.
    ///
    /// Costs a read of all files that the backup does not have, a look at the length of each of the
    /// others, and a sync of each new file. If it fails or is cut short, the other points stay as
    /// they are, and the next call removes what is left over. Fails with
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked) if somebody else uses the backup, and with
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `dir` holds something
    /// else or lies within the database's own directory.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backup");
    /// use cleavedb::Backups;
    /// let db = cleavedb::open(dir.join("store"))?;
    /// db.default_keyspace().put("one", "eins")?;
    /// let monday = db.backup(dir.join("backup"))?;
    /// db.default_keyspace().put("one", "uno")?;
    /// let tuesday = db.backup(dir.join("backup"))?;
    /// println!("{} bytes were copied", tuesday.copied_bytes);
    ///
    /// let backups = Backups::new(dir.join("backup"));
    /// backups.restore(Some(monday.point), dir.join("restored"))?;
    /// let restored = cleavedb::open(dir.join("restored"))?;
    /// assert_eq!(restored.default_keyspace().get("one")?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(dir, &BackupOptions::default())
    }

    /// Adds a point to a backup as [`Db::backup`] does, with options.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backup-with");
    /// # let db = cleavedb::open(dir.join("store"))?;
    /// use cleavedb::BackupOptions;
    /// let keep_two = BackupOptions::new().keep(2);
    /// for _ in 0..3 {
    ///     db.backup_with(dir.join("backup"), &keep_two)?;
    /// }
    /// assert_eq!(cleavedb::Backups::new(dir.join("backup")).list()?.points.len(), 2);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn backup_with(
        &self,
        dir: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport> {
        self.core.check_open()?;
        if self.core.follower.is_some() {
            // I5: the writer may remove or punch what is copied, and still appends to its log.
            let error = Error::unsupported("who follows a database can't back it up");
            return Err(error.advise("have the process that writes it do that"));
        }
        options.check()?;
        let (env, dir) = (&self.core.env, dir.as_ref());
        self.refuse_own_directory(dir)?;
        if env.fs.exists(dir).doing("look for", dir)? {
            // What is not ours is refused before the lock file is created in it.
            Catalog::read(env, dir)?;
        } else {
            create::create_dir(env, dir)?;
        }
        let _lock = catalog::lock(env, dir, Hold::Alone)?;
        let mut catalog = Catalog::read(env, dir)?;
        let database = self.core.set.tables().identity.id;
        catalog.check_database(database)?;
        let freed_bytes = catalog.remove_unnamed(env)?;
        // I5: the version holds its files until they are copied, and no hole is punched in them
        // that it does not have.
        let (version, seqno) = self.core.consistent_version()?;
        let point = self.make_point(dir, &catalog, (&version, seqno), options)?;
        drop(version);
        let mut report = BackupReport { freed_bytes, ..BackupReport::of(&point) };
        catalog.points.insert(point.number, point);
        if let Some(keep) = options.keep {
            let made = format!("point {} was made all the same", report.point);
            let kept = super::backups::keep_newest(env, &mut catalog, keep);
            let (deleted, freed) = kept.map_err(|error| error.advise(made))?;
            report.deleted_points = deleted;
            report.freed_bytes += freed;
        }
        report.unreadable = catalog.unreadable.into_values().collect();
        Ok(report)
    }

    /// Copies what the backup lacks of this version, and then writes the description.
    fn make_point(
        &self,
        dir: &Path,
        catalog: &Catalog,
        (version, seqno): (&Version, SeqNo),
        options: &BackupOptions,
    ) -> Result<PointDescription> {
        let env = &self.core.env;
        let tables = self.core.set.tables();
        let known = KnownFiles::of(env, catalog)?;
        let number = catalog.next_number()?;
        let (runtime, verify) = (&self.core.runtime, options.verify);
        let maker = PointMaker { env, runtime, dir, catalog, known, tables, number, verify };
        let mut files = maker.data_files(version, &options.pass)?;
        files.extend(maker.keys()?);
        let manifest = self.core.set.allocate()?;
        let next_file = manifest + 1;
        assert!(
            version.segments.keys().all(|id| id.0 < next_file),
            "I6: what is restored gives out no id again"
        );
        files.push(maker.manifest(manifest, &state_of(version, next_file, seqno))?);
        files.sort_by_key(|file| (file.kind, file.id));
        let point = PointDescription {
            database: tables.identity.id,
            number,
            is_encrypted: tables.identity.is_encrypted(),
            time_millis: u64::try_from(env.clock.wall().as_millis()).unwrap_or(u64::MAX),
            seqno,
            manifest,
            files,
        };
        write_description(env, dir, &point)?;
        Ok(point)
    }
}

/// A point that is being made.
struct PointMaker<'a> {
    env: &'a Env,
    runtime: &'a Runtime,
    dir: &'a Path,
    catalog: &'a Catalog,
    known: KnownFiles<'a>,
    tables: &'a TableContext,
    number: u64,
    /// True if what the backup has is read before the point relies on it.
    verify: bool,
}

impl PointMaker<'_> {
    /// Returns the tables, segments and relocations of a version as they are in the backup, once
    /// those that it lacks are copied.
    fn data_files(&self, version: &Version, options: &PassOptions) -> Result<Vec<StoredFile>> {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for (path, wanted) in live_files(version, self.number) {
            match self.known.find(&wanted) {
                Some(known) => there.push((known, path, wanted)),
                None => missing.push((path, wanted)),
            }
        }
        let to_verify = there.iter().filter(|_| self.verify).map(|(known, ..)| known.length);
        let to_copy = missing.iter().map(|(_, file)| file.copied_bytes());
        let pass = LongPass::new(self.env, options, sum(to_verify.chain(to_copy)));
        let mut pass = pass.while_open(self.runtime);
        let mut files = Vec::new();
        for (known, path, wanted) in there {
            match self.is_sound(&known, &mut pass)? {
                true => files.push(known),
                false => missing.push((path, wanted)),
            }
        }
        for (path, mut file) in missing {
            let to = self.dir.join(file.stored_name());
            let (part, database) = (catalog::unfinished(&to), self.tables.identity.id);
            file.checksum = copying::copy(self.env, database, &file, (&path, &part), &mut pass)?;
            // A crash before or after this leaves a file that no description names: the next
            // backup removes it.
            self.env.fs.rename(&part, &to).doing("rename", &part)?;
            files.push(file);
        }
        Ok(files)
    }

    /// Returns false if the file is damaged. Looks only if that was asked for.
    fn is_sound(&self, known: &StoredFile, pass: &mut LongPass) -> Result<bool> {
        if !self.verify {
            return Ok(true);
        }
        let (database, path) = (self.tables.identity.id, self.catalog.path_of(known));
        match copying::verify(self.env, database, known, &path, pass) {
            Ok(()) => Ok(true),
            // A sector that cannot be read is damage as well.
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns KEYS as it is in the backup, if the database is encrypted. It does not change while
    /// the database is open.
    fn keys(&self) -> Result<Option<StoredFile>> {
        if !self.tables.identity.is_encrypted() {
            return Ok(None);
        }
        let bytes = keys::read_wrapped(self.env, &self.tables.dir)?;
        let identity = checksum64(self.tables.identity.id, &bytes);
        let file = new_file(StoredKind::Keys, 0, self.number, bytes.len() as u64);
        let wanted = StoredFile { identity, ..file };
        if let Some(known) = self.known.find(&wanted)
            && self.is_sound(&known, &mut LongPass::new(self.env, &PassOptions::default(), 0))?
        {
            return Ok(Some(known));
        }
        self.store(wanted, &bytes).map(Some)
    }

    /// Stores a manifest that holds `state`.
    fn manifest(&self, id: u64, state: &Edit) -> Result<StoredFile> {
        let bytes = whole_manifest(&self.tables.identity, id, state)?;
        self.store(new_file(StoredKind::Manifest, id, self.number, bytes.len() as u64), &bytes)
    }

    /// Stores a small file that is in memory.
    fn store(&self, mut file: StoredFile, bytes: &[u8]) -> Result<StoredFile> {
        let mut hash = file.hash(self.tables.identity.id);
        hash.update(bytes);
        file.checksum = hash.checksum64();
        write_new(self.env, &self.dir.join(file.stored_name()), bytes)?;
        Ok(file)
    }
}

/// The files that the backup has whole, as far as their lengths tell.
struct KnownFiles<'a>(BTreeMap<(StoredKind, u64), Vec<&'a StoredFile>>);

impl<'a> KnownFiles<'a> {
    /// Looks at the length of each file that a point names. One that is missing or was cut short is
    /// not among the files that the backup has, and is copied again.
    fn of(env: &Env, catalog: &'a Catalog) -> Result<Self> {
        let mut known: BTreeMap<_, Vec<&StoredFile>> = BTreeMap::new();
        for named in catalog.named_files(None).into_values() {
            let (file, path) = (named.file, catalog.path_of(named.file));
            if catalog.has(file)
                && env.fs.measure(&path).doing("measure", &path)?.len == file.length
            {
                known.entry((file.kind, file.id)).or_default().push(file);
            }
        }
        Ok(KnownFiles(known))
    }

    /// Returns the file that can stand for this one, if there is one.
    fn find(&self, wanted: &StoredFile) -> Option<StoredFile> {
        let candidates = self.0.get(&(wanted.kind, wanted.id))?;
        let fitting = candidates.iter().filter(|file| file.stands_for(wanted));
        // The newest was copied because those before it were damaged, or lacked what it has.
        fitting.max_by_key(|file| file.copied_by).map(|file| (*file).clone())
    }
}

fn new_file(kind: StoredKind, id: u64, copied_by: u64, length: u64) -> StoredFile {
    let holes = Holes::default();
    StoredFile { kind, id, copied_by, length, identity: 0, checksum: 0, holes }
}

/// Returns the files of a version, each with what it would be in the backup if it were copied for
/// this point.
fn live_files(version: &Version, number: u64) -> Vec<(PathBuf, StoredFile)> {
    let mut files = Vec::new();
    for keyspace in version.keyspaces.values() {
        for (_, table) in keyspace.levels.tables() {
            let file = new_file(StoredKind::Table, table.meta.id.0, number, table.meta.bytes);
            let identity = table.meta.summary.fingerprint;
            files.push((table.path().to_path_buf(), StoredFile { identity, ..file }));
        }
    }
    for (id, live) in version.segments.iter() {
        let Some(length) = live.sealed else { continue };
        let file = new_file(StoredKind::Segment, id.0, number, length);
        let (identity, holes) = (live.handle.segment.epoch(), live.holes.clone());
        files.push((live.handle.path().to_path_buf(), StoredFile { identity, holes, ..file }));
    }
    for relocation in version.relocations.values() {
        let Some(path) = relocation.path() else { continue };
        let meta = &relocation.meta;
        let file = new_file(StoredKind::Relocation, meta.id.0, number, meta.bytes);
        files.push((path.to_path_buf(), StoredFile { identity: meta.fingerprint, ..file }));
    }
    files
}

/// Writes a file under a name of its own, makes it durable, and renames it.
fn write_new(env: &Env, path: &Path, bytes: &[u8]) -> Result<()> {
    let part = catalog::unfinished(path);
    let file = env.fs.create(&part).doing("create", &part)?;
    file.write_at(bytes, 0).doing("write", &part)?;
    // A crash up to the rename leaves an unfinished file, which the next backup removes.
    file.sync().doing("sync", &part)?;
    env.fs.rename(&part, path).doing("rename", &part)
}

/// Writes the description, with which the point begins to exist.
fn write_description(env: &Env, dir: &Path, point: &PointDescription) -> Result<()> {
    let sync_dir = || env.fs.sync_dir(dir).doing("sync the directory", dir);
    // All names of the point's files are durable before its description can be there. A crash here
    // leaves files that no description names.
    sync_dir()?;
    write_new(env, &catalog::point_path(dir, point.number), &point.encode())?;
    // A crash before this leaves the point whole or not there at all.
    sync_dir()
}
