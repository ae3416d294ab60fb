//! What a backup directory holds: the points, the files that they name, and what is left over.
//!
//! ```text
//! LOCK                       held while somebody writes or reads the files
//! PPPPPPPP.point             the description of point P
//! PPPPPPPP-NNNNNNNN.tbl …    a file of the database that was copied for point P
//! *.unfinished               one of these before it is renamed
//! ```
//!
//! A file counts only if a description names it. So whatever a crash leaves between two
//! descriptions is known as left over, and the next call that writes removes it. As long as a
//! description cannot be read, nobody knows what it names, and no file is removed.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::pointer::MAX_ID;
use crate::db::backup::point::{PointDescription, StoredFile};
use crate::env::Env;
use crate::env::fs::{Hold, Lock};
use crate::version::files::names::{self, FileName};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const POINT: &str = ".point";
const UNFINISHED: &str = ".unfinished";

/// The meaning of a name in a backup directory.
#[derive(Debug, PartialEq, Eq)]
pub enum BackupName {
    /// The description of a point.
    Point(u64),
    /// A file that was copied for this point.
    Stored(u64),
    /// A file that was not finished, for this point.
    Unfinished(u64),
    /// The lock file.
    Lock,
    /// A name that is not ours.
    Foreign,
}

impl BackupName {
    /// Parses a name. Only names exactly as this module writes them are ours.
    pub fn parse(path: &Path) -> BackupName {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return BackupName::Foreign;
        };
        if name == names::LOCK {
            return BackupName::Lock;
        }
        let (whole, is_finished) = match name.strip_suffix(UNFINISHED) {
            Some(whole) => (whole, false),
            None => (name, true),
        };
        let (digits, found) = match (whole.strip_suffix(POINT), whole.split_once('-')) {
            (Some(digits), _) => (digits, BackupName::Point as fn(u64) -> BackupName),
            (None, Some((digits, rest))) if is_stored_name(rest) => {
                (digits, BackupName::Stored as fn(u64) -> BackupName)
            }
            _ => return BackupName::Foreign,
        };
        match digits.parse::<u64>() {
            Ok(number) if number <= MAX_ID && format!("{number:08}") == digits => {
                if is_finished {
                    found(number)
                } else {
                    BackupName::Unfinished(number)
                }
            }
            _ => BackupName::Foreign,
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            BackupName::Point(number)
            | BackupName::Stored(number)
            | BackupName::Unfinished(number) => Some(*number),
            BackupName::Lock | BackupName::Foreign => None,
        }
    }
}

fn is_stored_name(name: &str) -> bool {
    let numbered = matches!(
        names::parse(Path::new(name)),
        FileName::Table(_) | FileName::Segment(_) | FileName::Relocation(_) | FileName::Manifest(_)
    );
    numbered || name == names::KEYS
}

/// Returns the path of the description of a point.
pub fn point_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}{POINT}"))
}

/// Returns the path under which a file is written before it gets its name.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// Locks a backup directory. Those who only read share the lock, and go without it where nobody can
/// write: on a medium that is read-only.
pub fn lock(env: &Env, dir: &Path, hold: Hold) -> Result<Option<Box<dyn Lock>>> {
    use std::io::ErrorKind as Io;
    let path = dir.join(names::LOCK);
    match env.fs.lock(&path, hold, &env.threads.describe_process()) {
        Ok(lock) => Ok(Some(lock)),
        Err(error)
            if hold == Hold::Shared
                && matches!(error.kind(), Io::PermissionDenied | Io::ReadOnlyFilesystem) =>
        {
            Ok(None)
        }
        Err(error) if error.kind() == Io::WouldBlock => {
            Err(Error::new(ErrorKind::Locked, format!("the backup is in use by {error}"))
                .in_file(dir)
                .advise("try again when that has ended"))
        }
        Err(error) if error.kind() == Io::InvalidData => {
            Err(Error::invalid_argument(format!("the backup cannot be locked: {error}"))
                .in_file(&path))
        }
        Err(error) => Err(Error::io("lock the backup", &path, error)),
    }
}

/// The contents of a backup directory.
pub struct Catalog {
    dir: PathBuf,
    /// The points that could be read, by number.
    pub points: BTreeMap<u64, PointDescription>,
    /// The points whose descriptions are damaged or of a newer build, and why.
    pub unreadable: BTreeMap<u64, Error>,
    /// The names of the files, finished or not; descriptions are not among them.
    files: BTreeSet<PathBuf>,
    /// The greatest number of a point in any name.
    newest_number: u64,
}

impl Catalog {
    /// Reads the directory `dir`, which must be a backup. Costs a read of each description.
    pub fn read(env: &Env, dir: &Path) -> Result<Catalog> {
        if !env.fs.exists(dir).doing("look for", dir)? {
            return Err(Error::not_found("there is no backup here")
                .in_file(dir)
                .advise("check the path"));
        }
        let listed = env.fs.list(dir).doing("list", dir)?;
        check_a_backup(dir, &listed)?;
        let mut catalog = Catalog {
            dir: dir.to_path_buf(),
            points: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            files: BTreeSet::new(),
            newest_number: 0,
        };
        for path in listed {
            let name = BackupName::parse(&path);
            catalog.newest_number = catalog.newest_number.max(name.number().unwrap_or(0));
            match name {
                BackupName::Point(number) => catalog.read_point(env, number)?,
                BackupName::Stored(_) | BackupName::Unfinished(_) => {
                    catalog.files.extend(path.file_name().map(PathBuf::from));
                }
                BackupName::Lock | BackupName::Foreign => {}
            }
        }
        Ok(catalog)
    }

    fn read_point(&mut self, env: &Env, number: u64) -> Result<()> {
        let path = point_path(&self.dir, number);
        match PointDescription::read(env, &path, number) {
            Ok(point) => drop(self.points.insert(number, point)),
            Err(error)
                if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported) =>
            {
                self.unreadable.insert(number, error);
            }
            // Whoever only lists holds no lock, so the point may have been deleted since.
            Err(_) if !env.fs.exists(&path).doing("look for", &path)? => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Refuses a backup of another database.
    pub fn check_database(&self, database: u64) -> Result<()> {
        match self.points.values().find(|point| point.database != database) {
            None => Ok(()),
            Some(_) => Err(Error::invalid_argument("this is the backup of another database")
                .in_file(&self.dir)
                .advise("choose a directory of its own for each database")),
        }
    }

    /// Returns the number of the next point, greater than any that a name has.
    pub fn next_number(&self) -> Result<u64> {
        let next = self.newest_number + 1;
        if next <= MAX_ID {
            return Ok(next);
        }
        Err(Error::new(ErrorKind::LimitReached, "all numbers of points are used up")
            .in_file(&self.dir)
            .advise("begin a new backup in another directory"))
    }

    /// Returns the point of this number, or the newest. An unreadable point is an error, also if it
    /// is the newest: another one than was asked for would be an old state.
    pub fn point(&self, number: Option<u64>) -> Result<&PointDescription> {
        let all = self.points.keys().chain(self.unreadable.keys());
        let none = || {
            Error::not_found("the backup has no point yet")
                .in_file(&self.dir)
                .advise("make a backup first")
        };
        let number = number.or_else(|| all.max().copied()).ok_or_else(none)?;
        if let Some(error) = self.unreadable.get(&number) {
            return Err(error.clone().advise("name another point of this backup"));
        }
        self.points.get(&number).ok_or_else(|| {
            Error::not_found(format!("the backup has no point {number}"))
                .in_file(&self.dir)
                .advise("list the points of the backup")
        })
    }

    /// Returns the path of a stored file.
    pub fn path_of(&self, file: &StoredFile) -> PathBuf {
        self.dir.join(file.stored_name())
    }

    /// Returns true if a file of this name is there.
    pub fn has(&self, file: &StoredFile) -> bool {
        self.files.contains(Path::new(&file.stored_name()))
    }

    /// Returns each file that a readable point of `numbers` names, and the numbers of these points;
    /// all points if that is `None`.
    pub fn named_files(&self, numbers: Option<u64>) -> BTreeMap<String, NamedFile<'_>> {
        let mut named = BTreeMap::new();
        let wanted = |number: u64| numbers.is_none_or(|wanted| wanted == number);
        for point in self.points.values().filter(|point| wanted(point.number)) {
            for file in &point.files {
                let entry = named.entry(file.stored_name()).or_insert_with(|| NamedFile {
                    file,
                    database: point.database,
                    points: Vec::new(),
                });
                entry.points.push(point.number);
            }
        }
        named
    }

    /// Removes the descriptions of points, and then what no other point names. Returns the bytes of
    /// disk that this frees.
    pub fn delete_points(&mut self, env: &Env, numbers: &BTreeSet<u64>) -> Result<u64> {
        let fs = &env.fs;
        for &number in numbers {
            let path = point_path(&self.dir, number);
            // A crash here leaves any of the points deleted, and files that none names.
            fs.remove(&path).doing("remove", &path)?;
            self.points.remove(&number);
            self.unreadable.remove(&number);
        }
        if !numbers.is_empty() {
            // The files go only once the descriptions are gone for good: no power cut brings back a
            // description whose files are missing.
            fs.sync_dir(&self.dir).doing("sync the directory", &self.dir)?;
        }
        self.remove_unnamed(env)
    }

    /// Removes what no point names: what a crash left over, and the files of deleted points.
    /// Returns the bytes of disk that this frees. Removes nothing while a point cannot be read, as
    /// it may name anything.
    pub fn remove_unnamed(&mut self, env: &Env) -> Result<u64> {
        if !self.unreadable.is_empty() {
            return Ok(0);
        }
        let named = self.named_files(None);
        let is_unnamed = |name: &PathBuf| !name.to_str().is_some_and(|it| named.contains_key(it));
        let unnamed: Vec<PathBuf> =
            self.files.iter().filter(|it| is_unnamed(it)).cloned().collect();
        drop(named);
        let mut freed = 0;
        for name in unnamed {
            let path = self.dir.join(&name);
            freed += env.fs.measure(&path).doing("measure", &path)?.allocated;
            // A crash here, or a power cut that brings a name back, leaves files that no point
            // names: they are removed the next time.
            env.fs.remove(&path).doing("remove", &path)?;
            self.files.remove(&name);
        }
        Ok(freed)
    }
}

/// A stored file, and the points that name it.
pub struct NamedFile<'a> {
    /// The file.
    pub file: &'a StoredFile,
    /// The database it belongs to.
    pub database: u64,
    /// The numbers of the points, ascending.
    pub points: Vec<u64>,
}

/// Refuses a directory that is no backup: that of a database, or one that holds other files and no
/// point. An empty one may become a backup.
fn check_a_backup(dir: &Path, listed: &[PathBuf]) -> Result<()> {
    let refuse = |what: String| {
        Err(Error::invalid_argument(what)
            .in_file(dir)
            .advise("check the path; a backup needs a directory of its own"))
    };
    if listed.iter().any(|path| path.ends_with(names::CURRENT)) {
        return refuse("this is the directory of a database, not a backup".into());
    }
    let parsed = |path: &PathBuf| BackupName::parse(path);
    if listed.iter().any(|path| matches!(parsed(path), BackupName::Point(_))) {
        return Ok(());
    }
    match listed.iter().find(|path| parsed(path) == BackupName::Foreign) {
        Some(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            refuse(format!("the directory holds {name:?} and no point of a backup"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_strictly() {
        let parse = |name: &str| BackupName::parse(Path::new(name));
        assert_eq!(parse("00000012.point"), BackupName::Point(12));
        assert_eq!(parse("00000012-00000007.tbl"), BackupName::Stored(12));
        assert_eq!(parse("00000012-KEYS"), BackupName::Stored(12));
        assert_eq!(parse("00000012-KEYS.unfinished"), BackupName::Unfinished(12));
        assert_eq!(parse("backup/00000012.point.unfinished"), BackupName::Unfinished(12));
        assert_eq!(parse("LOCK"), BackupName::Lock);
        for foreign in [
            "12.point",
            "+0000012.point",
            "00000012.points",
            "00000012-7.tbl",
            "00000012-00000007.cut",
            "00000012-CURRENT",
            "00000007.tbl",
            "00000012",
            "notes.unfinished",
        ] {
            assert_eq!(parse(foreign), BackupName::Foreign, "{foreign}");
        }
        let path = unfinished(&point_path(Path::new("backup"), 3));
        assert_eq!(path, Path::new("backup/00000003.point.unfinished"));
    }
}
