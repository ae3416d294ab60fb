//! Repairs a database that can't be opened, or whose check finds damage, from what its files still
//! hold.
//!
//! ```text
//! opens and checks? ──► it stays as it is
//! else  facts.rs    which keyspaces there are, by the manifests or else by the tables
//!       values.rs   where values are, in segments kept and freed
//!       sources.rs  what tables and the end of the log still hold
//!       rebuild.rs  both merged into new tables, then a new manifest
//! ```
//! Values stay where they are: segments are kept and only the tree is written anew, with pointers
//! that lead straight to the values, so that relocations are no longer needed. The newest version
//! of each key counts. If its value can't be read, or had been given up as garbage, the key is lost
//! and counted: an older value in its place would be a wrong value (I3, I6). Nothing is unlinked:
//! what is not part of the new database goes to the folder `lost` in its directory.
//!
//! A crash before the new CURRENT leaves the damaged database, with orphans or with files in `lost`
//! that the next repair reads or leaves alone, so the repair can be repeated.

mod facts;
mod rebuild;
mod sources;
#[cfg(test)]
mod tests;
mod values;

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::db::Db;
use crate::db::open::Builder;
use crate::db::place;
use crate::env::Env;
use crate::env::fs::{Hold, Lock, NameKind};
use crate::version::files::names::{self, FileName};
use facts::Facts;
use rebuild::Rebuild;
use std::path::Path;

/// The folder for files that could not be used.
pub const LOST: &str = "lost";

/// The result of a repair.
///
/// ```
/// # let dir = cleavedb::doc_dir("repair-report");
/// cleavedb::open(&dir)?.close()?;
/// let report = cleavedb::Db::repair(&dir)?;
/// assert!(report.was_healthy);
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// True if nothing was wrong and the database was left as it is. The other fields are zero
    /// then.
    pub was_healthy: bool,
    /// Keys in the repaired database.
    pub keys: u64,
    /// Tables that were read completely.
    pub tables: u64,
    /// Segments that were kept.
    pub segments: u64,
    /// Relocations of freed segments that were read completely; the new pointers bypass them.
    pub relocations: u64,
    /// Records of the log that were in no table yet.
    pub log_records: u64,
    /// Keys that are gone because their newest value could not be read.
    pub lost_keys: u64,
    /// Keyspaces that no manifest mentions any more, except `default`. They have the names that
    /// their tables give, or `recovered-` and a number if they were in no table yet, and the
    /// settings that the builder was given. If one of them had been dropped before the manifest
    /// was lost, drop it again.
    pub recovered_keyspaces: Vec<String>,
    /// Files moved to the folder `lost`.
    pub files_set_aside: u64,
    /// The problems that were found.
    pub problems: Vec<Error>,
}

impl Db {
    /// Repairs the database at `path`, which nobody may hold open. A database that opens and passes
    /// the check is left as it is. Reads everything. See [`Builder::repair`] for databases that
    /// need a comparator.
    pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport> {
        Db::builder(path).repair()
    }
}

impl Builder {
    /// Repairs the database instead of opening it: saves what tables and log still hold when the
    /// manifest, or other files, are lost or damaged. Data may be lost, and the report says how
    /// much. Files that can't be used are set aside in the folder `lost`, never removed.
    ///
    /// Needs the comparators that the database was created with: fails with
    /// [`ErrorKind::InvalidOption`] if tables are ordered by one that was not given, or if one was
    /// given for tables ordered by another. A keyspace whose comparator no manifest and no table
    /// records is ordered by the one given for its name, `default` or `recovered-` and its number,
    /// or else by bytes.
    ///
    /// Keyspaces that were dropped stay dropped as far as a manifest still records it; see
    /// [`RepairReport::recovered_keyspaces`].
    pub fn repair(mut self) -> Result<RepairReport> {
        let env = self.env_to_use();
        self = self.only_existing(&env);
        let files = self.our_files(&env)?;
        let mut report = RepairReport::default();
        if files.contains(&FileName::Fixed) && self.is_whole(&env, &mut report)? {
            return Ok(RepairReport { was_healthy: true, ..Default::default() });
        }
        self.salvage(&env, &mut report)?;
        let db = self.open()?;
        let found = db.check()?.problems;
        report.problems.extend(found.into_iter().map(|finding| finding.error));
        db.close()?;
        Ok(report)
    }

    fn our_files(&self, env: &Env) -> Result<Vec<FileName>> {
        let dir = self.dir();
        let files = env.fs.list(dir).doing("list", dir)?;
        let found: Vec<FileName> = files
            .iter()
            .map(|path| names::parse(path))
            .filter(|named| *named != FileName::Foreign)
            .collect();
        if found.is_empty() {
            return Err(Error::not_found("there is no database here")
                .in_file(dir)
                .advise("check the path"));
        }
        Ok(found)
    }

    /// Returns true if the database opens and passes the check; otherwise records what is wrong.
    fn is_whole(&self, env: &Env, report: &mut RepairReport) -> Result<bool> {
        let current = self.dir().join(names::CURRENT);
        if !env.fs.exists(&current).doing("look for", &current)? {
            report.problems.push(Error::corruption("CURRENT is missing").in_file(self.dir()));
            return Ok(false);
        }
        let db = match self.clone().open() {
            Ok(db) => db,
            Err(error) if is_damage(&error) => {
                report.problems.push(error);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let check = db.check()?;
        db.close()?;
        // What this build can't verify is not damaged; a repair would lose it for nothing.
        if let Some(finding) = check.unverified.first() {
            return Err(finding.error.clone());
        }
        let is_damaged = check.is_damaged();
        report.problems.extend(check.problems.into_iter().map(|finding| finding.error));
        Ok(!is_damaged)
    }

    fn salvage(&self, env: &Env, report: &mut RepairReport) -> Result<()> {
        let _lock = self.lock(env)?;
        check_lost(env, &self.dir().join(LOST))?;
        let facts = Facts::gather(env, self.dir(), self.comparators(), self.keyspace_options())?;
        Rebuild::new(env, self, facts)?.run(report)
    }

    fn lock(&self, env: &Env) -> Result<Box<dyn Lock>> {
        place::lock(env, self.dir(), Hold::Alone, &env.threads.describe_process())
    }
}

/// Returns true if an error means damaged files, rather than a fault of the caller or the system.
fn is_damage(error: &Error) -> bool {
    let manifest_gone = error.kind() == ErrorKind::Io
        && error.file().is_some_and(|file| matches!(names::parse(file), FileName::Manifest(_)));
    error.kind() == ErrorKind::Corruption || manifest_gone
}

/// Refuses a link, or a file, in the place of `lost`, before anything is done.
fn check_lost(env: &Env, lost: &Path) -> Result<()> {
    match env.fs.kind(lost).doing("look for", lost)? {
        None | Some(NameKind::Directory) => Ok(()),
        Some(NameKind::File | NameKind::Other) => Err(Error::invalid_argument(
            "this is where a repair puts files aside, and it is no directory",
        )
        .in_file(lost)
        .advise("move it away")),
    }
}

/// Moves a file to `lost`, under a name that is free there.
fn set_aside(env: &Env, dir: &Path, path: &Path, report: &mut RepairReport) -> Result<()> {
    let lost = dir.join(LOST);
    env.fs.create_dir_all(&lost).doing("create the directory", &lost)?;
    let open = env.fs.open_dir(&lost).doing("open the directory", &lost)?;
    let name = path.file_name().unwrap_or_default();
    let mut target = name.to_os_string();
    let mut number = 0;
    // A crash before or after the move is fine: the file is in one place or the other, whole.
    while let Err(error) = open.take(path, &target) {
        if error.kind() != std::io::ErrorKind::AlreadyExists {
            return Err(Error::io("set aside", path, error));
        }
        number += 1;
        target = name.to_os_string();
        target.push(format!(".{number}"));
    }
    report.files_set_aside += 1;
    Ok(())
}
