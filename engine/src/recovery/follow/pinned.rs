//! The files of who follows a database and pins them: hard links in a directory of its own within
//! the database's, `pinned.1` to `pinned.16`.
//!
//! A file that has a second name is neither lost when the writer unlinks it nor punched (I5). The
//! directory is locked for as long as it is in use. What a killed process leaves in it is removed
//! by the next opening for writing, or by the next who pins.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::env::Env;
use crate::env::fork::Process;
use crate::env::fs::{Hold, Lock, NameKind};
use crate::version::files::names;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

/// How many can pin the files of one database at a time.
const MOST: usize = 16;

fn directory(database: &Path, number: usize) -> PathBuf {
    database.join(format!("pinned.{number}"))
}

/// A directory of hard links, which is removed at the end.
pub struct PinnedFiles {
    env: Env,
    /// The database's directory.
    database: PathBuf,
    dir: PathBuf,
    process: Process,
    _lock: Box<dyn Lock>,
}

impl PinnedFiles {
    /// Begins an empty directory in that of the database.
    pub fn begin(env: &Env, database: &Path) -> Result<PinnedFiles> {
        for number in 1..=MOST {
            let dir = directory(database, number);
            match env.fs.create_dir(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == IoErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot(Error::io("create", &dir, error))),
            }
            let Some(lock) = lock_if_free(env, &dir)? else { continue };
            remove_links(env, &dir)?;
            let (env, database, process) = (env.clone(), database.into(), Process::this());
            return Ok(PinnedFiles { env, database, dir, process, _lock: lock });
        }
        let what = format!("the files of the database are pinned {MOST} times");
        Err(Error::new(ErrorKind::LimitReached, what)
            .in_file(database)
            .advise("end one of those who follow it with `follow_pinned`"))
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Links the file of the database that is to have this path, in this directory. A file that is
    /// gone is an error.
    pub(super) fn link(&self, path: &Path) -> Result<()> {
        let from = self.database.join(path.file_name().unwrap_or_default());
        match self.env.fs.hard_link(&from, path) {
            Ok(()) => Ok(()),
            // Ids of files are given out once, so it is this file.
            Err(error) if error.kind() == IoErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == IoErrorKind::NotFound => {
                Err(Error::io("pin", &from, error))
            }
            Err(error) => Err(cannot(Error::io("pin", &from, error))),
        }
    }
}

impl Drop for PinnedFiles {
    fn drop(&mut self) {
        // In a child they are its parent's.
        if self.process.is_gone() {
            return;
        }
        // I5: these are second names. A crash in between leaves some, which the next opening for
        // writing removes; so does a failure.
        let _ = remove_links(&self.env, &self.dir).and_then(|()| remove_dir(&self.env, &self.dir));
    }
}

fn cannot(error: Error) -> Error {
    error.advise("follow the database without `follow_pinned`, or as a user who may write there")
}

/// Locks a directory of links; returns `None` if somebody else has, or has removed it.
fn lock_if_free(env: &Env, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    let path = dir.join(names::LOCK);
    match env.fs.lock(&path, Hold::Alone, &env.threads.describe_process()) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if matches!(error.kind(), IoErrorKind::WouldBlock | IoErrorKind::NotFound) => {
            Ok(None)
        }
        Err(error) => Err(cannot(Error::io("lock", &path, error))),
    }
}

/// Removes the links in a directory that is locked. Files with other names are left alone.
fn remove_links(env: &Env, dir: &Path) -> Result<()> {
    for path in env.fs.list(dir).doing("list", dir)? {
        if names::parse(&path).number().is_some() {
            let path = dir.join(path.file_name().unwrap_or_default());
            // I5: a second name of a file that the database may still have.
            env.fs.remove(&path).doing("remove", &path)?;
        }
    }
    Ok(())
}

/// Removes a directory without links while its lock is held.
fn remove_dir(env: &Env, dir: &Path) -> Result<()> {
    let lock = dir.join(names::LOCK);
    env.fs.remove(&lock).doing("remove", &lock)?;
    match env.fs.remove_dir(dir) {
        // The simulation has no directories, and who uses the name next takes it as it is.
        Err(error) if error.kind() == IoErrorKind::Unsupported => Ok(()),
        removed => removed.doing("remove", dir),
    }
}

/// Removes what processes that were killed have left. Fails if that can't be removed, as it keeps
/// space.
pub fn remove_stale(env: &Env, database: &Path) -> Result<()> {
    for number in 1..=MOST {
        let dir = directory(database, number);
        if env.fs.kind(&dir).doing("look for", &dir)? != Some(NameKind::Directory) {
            continue;
        }
        if let Some(_lock) = lock_if_free(env, &dir)? {
            remove_links(env, &dir)?;
            remove_dir(env, &dir)?;
        }
    }
    Ok(())
}
