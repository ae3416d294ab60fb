//! Repairs a database on the user's word: one that opens and passes the check stays as it is, any
//! other is saved by the room `repair`.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::db::Db;
use crate::db::builder::Builder;
use crate::env::Env;
use crate::env::fs::Hold;
use crate::recovery::place;
use crate::repair::{RepairReport, Salvage};
use crate::version::files::names::{self, FileName};
use std::collections::BTreeSet;
use std::path::Path;

impl Db {
    /// Repairs the database at `path`, which nobody may hold open. A database that opens and passes
    /// the check is left as it is. Reads everything. See [`Builder::repair`] for databases that
    /// need a comparator.
    ///
    /// Fails with [`ErrorKind::Locked`] if somebody holds it open, and with [`ErrorKind::NotFound`]
    /// if no file of a database is there.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("db-repair");
    /// # cleavedb::open(&dir)?.close()?;
    /// let report = cleavedb::Db::repair(&dir)?;
    /// println!("{} keys saved, {} lost", report.keys, report.lost_keys);
    /// for problem in &report.problems {
    ///     println!("{problem}");
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Locked`]: crate::ErrorKind::Locked
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport> {
        Db::builder(path).repair()
    }
}

impl Builder {
    /// Repairs the database instead of opening it: saves what tables and log still hold when the
    /// manifest, or other files, are lost or damaged. Data may be lost, and the report says how
    /// much. Files that can't be used are set aside in the folder `lost`, never removed, and so are
    /// segments that no key leads into any more. What can be read of a damaged segment is copied to
    /// a new one, which needs room for it.
    ///
    /// Needs the merge operators of all keyspaces, and the comparators that the database was
    /// created with: fails with [`ErrorKind::InvalidOption`], before anything is changed, if a
    /// keyspace has an operator that was not given, if tables are ordered by one that was not
    /// given, or if one was given for tables ordered by another. A keyspace whose comparator no
    /// manifest and no table records is ordered by the one given for its name, `default` or
    /// `recovered-` and its number, or else by bytes.
    ///
    /// Keyspaces that were dropped stay dropped as far as a manifest still records it; see
    /// [`RepairReport::recovered_keyspaces`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("builder-repair");
    /// use cleavedb::{Db, Options};
    /// # cleavedb::open(&dir)?.close()?;
    /// let report = Db::builder(&dir).options(Options::default()).repair()?;
    /// assert!(report.was_healthy);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn repair(mut self) -> Result<RepairReport> {
        let env = self.env_to_use();
        self = self.only_existing(&env);
        let files = self.our_files(&env)?;
        let mut report = RepairReport::default();
        if files.contains(&FileName::Fixed) && self.is_whole(&env, &mut report)? {
            return Ok(RepairReport { was_healthy: true, ..Default::default() });
        }
        self.salvage(&env, &mut report)?;
        let db = self.only_reading().open()?;
        let found = db.check()?.problems;
        report.problems.extend(found.into_iter().map(|finding| finding.error));
        db.close()?;
        // The check before the repair may have met the same.
        let mut told = BTreeSet::new();
        report.problems.retain(|problem| told.insert(problem.to_string()));
        Ok(report)
    }

    fn our_files(&self, env: &Env) -> Result<Vec<FileName>> {
        let dir = self.dir();
        let files = env.fs.list(dir).doing("list", dir)?;
        let found: Vec<FileName> = files
            .iter()
            .map(|path| names::parse(path))
            .filter(|named| !matches!(named, FileName::Note | FileName::Foreign))
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
        // What a crash left behind, such as a table that no edit names, may be of use to a repair.
        let db = match self.clone().only_reading().open() {
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
        let dir = self.dir();
        let _lock = place::lock(env, dir, Hold::Alone, &env.threads.describe_process())?;
        Salvage {
            env,
            dir,
            comparators: self.comparators(),
            merge_operators: self.merge_operators(),
            keyspace: self.keyspace_options(),
            filter_policy: self.policy(),
            keys: self.key_provider(),
        }
        .run(report)
    }
}

/// Returns true if an error means damaged files, rather than a fault of the caller or the system.
fn is_damage(error: &Error) -> bool {
    let manifest_gone = error.kind() == ErrorKind::Io
        && error.file().is_some_and(|file| matches!(names::parse(file), FileName::Manifest(_)));
    error.kind() == ErrorKind::Corruption || manifest_gone
}
