//! A backup without a database: lists, verifies and deletes points.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::db::backup::catalog::{self, Catalog, NamedFile};
use crate::db::backup::point::{PointDescription, sum};
use crate::db::backup::restoring::{RestoreReport, restore};
use crate::db::backup::{check_keep, copying};
use crate::db::long_pass::{LongPass, PassOptions, PassProgress};
use crate::env::fs::Hold;
use crate::env::{Env, OsSettings};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The backup in a directory, which [`Db::backup`](crate::Db::backup) fills. No database has to be
/// open, and no key is needed for the backup of an encrypted one.
///
/// ```
/// # let dir = cleavedb::doc_dir("backups");
/// # let db = cleavedb::open(dir.join("store"))?;
/// # db.backup(dir.join("backup"))?;
/// use cleavedb::Backups;
/// let backups = Backups::new(dir.join("backup"));
/// for point in backups.list()?.points {
///     println!("point {}: {} files, {} bytes", point.number, point.files, point.bytes);
/// }
/// assert!(backups.verify(None)?.is_sound());
/// backups.restore(None, dir.join("restored"))?;
/// assert!(cleavedb::open(dir.join("restored"))?.check()?.is_clean());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Clone)]
pub struct Backups {
    env: Env,
    dir: PathBuf,
    pass: PassOptions,
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backups").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// A point of a backup: a whole state of the database. [`Backups`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupPoint {
    /// The number of the point; later points have greater ones.
    pub number: u64,
    /// The id of the database.
    pub database: u64,
    /// True if the database is encrypted.
    pub is_encrypted: bool,
    /// The time when the point was made, since 1970.
    pub made: Duration,
    /// The sequence number of the last commit in it.
    pub seqno: SeqNo,
    /// The files of the point.
    pub files: u64,
    /// The bytes of these files, which a restore needs at most.
    pub bytes: u64,
    /// The bytes of those files that the point added to the backup.
    pub added_bytes: u64,
}

/// The points of a backup.
///
/// ```
/// # let dir = cleavedb::doc_dir("point-list");
/// # cleavedb::open(dir.join("store"))?.backup(dir.join("backup"))?;
/// let list = cleavedb::Backups::new(dir.join("backup")).list()?;
/// assert_eq!(list.points[0].number, 1);
/// assert!(list.unreadable.is_empty());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PointList {
    /// The points, oldest first.
    pub points: Vec<BackupPoint>,
    /// The numbers of points whose descriptions cannot be read, and why.
    pub unreadable: Vec<(u64, Error)>,
}

/// A file of a backup that is not as it was written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BackupProblem {
    /// What is wrong, with the file.
    pub error: Error,
    /// The points that need the file, oldest first. The others are not affected.
    pub points: Vec<u64>,
}

/// The result of verifying a backup.
///
/// ```
/// # let dir = cleavedb::doc_dir("backup-check");
/// # cleavedb::open(dir.join("store"))?.backup(dir.join("backup"))?;
/// let check = cleavedb::Backups::new(dir.join("backup")).verify(None)?;
/// for problem in &check.problems {
///     println!("{}; points {:?} need it", problem.error, problem.points);
/// }
/// assert!(check.is_sound());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BackupCheck {
    /// The points that were verified.
    pub points: Vec<u64>,
    /// The files read; one that several points share is read once.
    pub files: u64,
    /// The bytes read.
    pub bytes: u64,
    /// All that is wrong.
    pub problems: Vec<BackupProblem>,
}

impl BackupCheck {
    /// Returns true if everything that was verified is as it was written.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// What a deletion of points has done. [`Backups::keep_newest`] has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedPoints {
    /// The points that were deleted.
    pub points: Vec<u64>,
    /// The bytes of disk that came back.
    pub freed_bytes: u64,
}

impl Backups {
    /// Returns the backup in the directory `dir`. Costs no I/O, so it also works where none is.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-new");
    /// use cleavedb::{Backups, ErrorKind};
    /// let error = Backups::new(dir.join("nowhere")).list().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// ```
    pub fn new(dir: impl AsRef<Path>) -> Backups {
        let env = Env::os(&OsSettings::default());
        Backups { env, dir: dir.as_ref().to_path_buf(), pass: PassOptions::default() }
    }

    /// Replaces the operating system's files, time, threads and randomness.
    #[cfg(feature = "sim")]
    #[doc(hidden)]
    #[must_use]
    pub fn env(mut self, env: Env) -> Backups {
        self.env = env;
        self
    }

    /// Sets how many bytes per second [`Backups::verify`] and [`Backups::restore`] read at most.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-rate");
    /// # cleavedb::open(dir.join("store"))?.backup(dir.join("backup"))?;
    /// let gently = cleavedb::Backups::new(dir.join("backup")).bytes_per_second(50 << 20);
    /// assert!(gently.verify(None)?.is_sound());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    #[must_use]
    pub fn bytes_per_second(mut self, rate: u64) -> Backups {
        self.pass.bytes_per_second = Some(rate);
        self
    }

    /// Has [`Backups::verify`] and [`Backups::restore`] call `tell` after each piece that was read.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-progress");
    /// # cleavedb::open(dir.join("store"))?.backup(dir.join("backup"))?;
    /// let backups = cleavedb::Backups::new(dir.join("backup"))
    ///     .on_progress(|progress| assert!(progress.done_bytes <= progress.all_bytes));
    /// backups.verify(None)?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    #[must_use]
    pub fn on_progress(mut self, tell: impl Fn(PassProgress) + Send + Sync + 'static) -> Backups {
        self.pass.on_progress = Some(Arc::new(tell));
        self
    }

    /// Lists the points. Costs a read of each description, and works while a backup is made.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-list");
    /// # let db = cleavedb::open(dir.join("store"))?;
    /// db.backup(dir.join("backup"))?;
    /// db.backup(dir.join("backup"))?;
    /// let points = cleavedb::Backups::new(dir.join("backup")).list()?.points;
    /// assert_eq!(points.iter().map(|point| point.number).collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn list(&self) -> Result<PointList> {
        let catalog = Catalog::read(&self.env, &self.dir)?;
        Ok(PointList {
            points: catalog.points.values().map(listed).collect(),
            unreadable: catalog.unreadable.into_iter().collect(),
        })
    }

    /// Reads every file of a point, or of all points, and compares its length and checksum with
    /// what the points say. Collects what is wrong; an error means that the verification itself was
    /// impossible.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-verify");
    /// # let point = cleavedb::open(dir.join("store"))?.backup(dir.join("backup"))?.point;
    /// let check = cleavedb::Backups::new(dir.join("backup")).verify(Some(point))?;
    /// assert!(check.is_sound() && check.points == [point]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn verify(&self, point: Option<u64>) -> Result<BackupCheck> {
        self.pass.check()?;
        let (_lock, catalog) = self.to_read()?;
        let mut check = BackupCheck::default();
        let wanted = |number: u64| point.is_none_or(|point| point == number);
        for (&number, error) in catalog.unreadable.iter().filter(|(number, _)| wanted(**number)) {
            check.points.push(number);
            check.problems.push(BackupProblem { error: error.clone(), points: vec![number] });
        }
        if check.points.is_empty() {
            catalog.point(point)?;
        }
        check.points.extend(catalog.points.keys().filter(|number| wanted(**number)));
        check.points.sort_unstable();
        let named: Vec<NamedFile<'_>> = catalog.named_files(point).into_values().collect();
        let all_bytes = sum(named.iter().map(|named| named.file.length));
        let mut pass = LongPass::new(&self.env, &self.pass, all_bytes);
        for named in named {
            check.files += 1;
            let (path, database) = (catalog.path_of(named.file), named.database);
            match copying::verify(&self.env, database, named.file, &path, &mut pass) {
                Ok(()) => {}
                // A device that cannot read a sector says so by an error of the call.
                Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
                    check.problems.push(BackupProblem { error, points: named.points });
                }
                Err(error) => return Err(error),
            }
        }
        check.bytes = pass.done_bytes();
        Ok(check)
    }

    /// Makes a database of a point, or of the newest one, in the new or empty directory `target`.
    /// All files of the point are verified first: if one is damaged, the call fails with
    /// [`ErrorKind::Corruption`], and nothing is written. It also fails if `target` holds anything.
    ///
    /// The new database may live beside the one that was backed up. It is a copy of it, with the
    /// same id, so keep their backups in directories of their own. An encrypted one is opened with
    /// the keys it had then.
    ///
    /// Costs two reads of the point's files, and writes them once. A restore that is cut short
    /// leaves a directory without CURRENT, which no opening takes for a database: remove it, and
    /// restore again.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-restore");
    /// # let db = cleavedb::open(dir.join("store"))?;
    /// # db.default_keyspace().put("one", "eins")?;
    /// # db.backup(dir.join("backup"))?;
    /// let backups = cleavedb::Backups::new(dir.join("backup"));
    /// let report = backups.restore(None, dir.join("restored"))?;
    /// println!("{} bytes were restored", report.bytes);
    /// let restored = cleavedb::open(dir.join("restored"))?;
    /// assert_eq!(restored.default_keyspace().get("one")?.unwrap(), "eins");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Corruption`]: crate::ErrorKind::Corruption
    pub fn restore(&self, point: Option<u64>, target: impl AsRef<Path>) -> Result<RestoreReport> {
        self.pass.check()?;
        let (_lock, catalog) = self.to_read()?;
        restore(&self.env, &self.pass, &catalog, point, target.as_ref())
    }

    /// Deletes points, and the files that no other point needs. A point that cannot be read can be
    /// deleted too; as long as there is another such point, no file is removed. Fails before
    /// anything is deleted if one of the points is not there.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-delete");
    /// # let db = cleavedb::open(dir.join("store"))?;
    /// # let (first, second) = (db.backup(dir.join("backup"))?, db.backup(dir.join("backup"))?);
    /// let backups = cleavedb::Backups::new(dir.join("backup"));
    /// backups.delete(&[first.point])?;
    /// assert_eq!(backups.list()?.points[0].number, second.point);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete(&self, points: &[u64]) -> Result<DeletedPoints> {
        let (_lock, mut catalog) = self.to_change()?;
        let numbers: BTreeSet<u64> = points.iter().copied().collect();
        for &number in numbers.iter().filter(|number| !catalog.unreadable.contains_key(number)) {
            catalog.point(Some(number))?;
        }
        let freed_bytes = catalog.delete_points(&self.env, &numbers)?;
        Ok(DeletedPoints { points: numbers.into_iter().collect(), freed_bytes })
    }

    /// Deletes all points but the newest `keep`, and the files that only they need. Points that
    /// cannot be read neither count nor go.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("backups-keep");
    /// # let db = cleavedb::open(dir.join("store"))?;
    /// # for _ in 0..3 { db.backup(dir.join("backup"))?; }
    /// let deleted = cleavedb::Backups::new(dir.join("backup")).keep_newest(1)?;
    /// assert_eq!(deleted.points, [1, 2]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn keep_newest(&self, keep: usize) -> Result<DeletedPoints> {
        check_keep(Some(keep))?;
        let (_lock, mut catalog) = self.to_change()?;
        let (points, freed_bytes) = keep_newest(&self.env, &mut catalog, keep)?;
        Ok(DeletedPoints { points, freed_bytes })
    }

    fn to_read(&self) -> Result<(impl Sized + use<>, Catalog)> {
        self.locked(Hold::Shared)
    }

    fn to_change(&self) -> Result<(impl Sized + use<>, Catalog)> {
        self.locked(Hold::Alone)
    }

    /// Locks the directory and reads it. What is no backup is refused before the lock file is
    /// created in it.
    fn locked(&self, hold: Hold) -> Result<(impl Sized + use<>, Catalog)> {
        Catalog::read(&self.env, &self.dir)?;
        let lock = catalog::lock(&self.env, &self.dir, hold)?;
        Ok((lock, Catalog::read(&self.env, &self.dir)?))
    }
}

/// Deletes all readable points but the newest `keep`. Returns their numbers, and the bytes of disk
/// that come back.
pub(super) fn keep_newest(
    env: &Env,
    catalog: &mut Catalog,
    keep: usize,
) -> Result<(Vec<u64>, u64)> {
    let too_many = catalog.points.len().saturating_sub(keep);
    let numbers: BTreeSet<u64> = catalog.points.keys().take(too_many).copied().collect();
    let freed_bytes = catalog.delete_points(env, &numbers)?;
    Ok((numbers.into_iter().collect(), freed_bytes))
}

fn listed(point: &PointDescription) -> BackupPoint {
    BackupPoint {
        number: point.number,
        database: point.database,
        is_encrypted: point.is_encrypted,
        made: Duration::from_millis(point.time_millis),
        seqno: point.seqno,
        files: point.files.len() as u64,
        bytes: point.bytes(),
        added_bytes: sum(point.added().map(|file| file.length)),
    }
}
