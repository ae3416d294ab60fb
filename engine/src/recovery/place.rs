//! Checks what is at a path before a database is opened there: nothing, a database of ours, or
//! somebody else's files. The check comes before anything is touched, the lock file included, so
//! what is not ours stays as it is.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::env::Env;
use crate::env::fs::{Hold, Lock, is_held_by_readers};
use crate::version::files::names::{self, FileName};
use crate::version::manifest::read_current;
use crate::version::owner;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often who wants the lock alone looks again whether readers still hold it, and the time
/// between two looks.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The requirements on a path that is opened, and what may be done there.
#[derive(Debug, Clone, Copy)]
pub struct PlaceRules {
    /// True if a database is created where there is none.
    pub create_if_missing: bool,
    /// True if a database that exists is refused.
    pub error_if_exists: bool,
    /// True if nothing is written, so that nothing is created either.
    pub read_only: bool,
    /// True if files that belong to no store may be there when the database is created.
    pub beside_others: bool,
}

/// Refuses a path that can't be opened by `rules`. `exists` is true if CURRENT is there.
pub fn check_wanted(env: &Env, dir: &Path, rules: PlaceRules, exists: bool) -> Result<()> {
    check_not_of_another_store(env, dir, exists)?;
    if exists && rules.error_if_exists {
        return Err(Error::already_exists("there is a database already")
            .in_file(dir)
            .advise("choose another directory, or open without `error_if_exists`"));
    }
    if !exists && (rules.read_only || !rules.create_if_missing) {
        check_not_foreign(env, dir)?;
        check_has_no_data(env, dir)?;
        return Err(Error::not_found("there is no database here")
            .in_file(dir)
            .advise("check the path"));
    }
    if !exists && env.fs.exists(dir).doing("look for", dir)? {
        check_empty(env, dir, rules.beside_others)?;
    }
    Ok(())
}

/// Locks the database in `dir`; the error says who holds it open.
pub fn lock(env: &Env, dir: &Path, hold: Hold, holder: &str) -> Result<Box<dyn Lock>> {
    try_lock(env, dir, hold, holder).map_err(|error| not_locked(dir, error))
}

/// Locks the database in `dir`; the error is the file system's. Waits a moment for readers: those
/// who follow a database hold the lock now and then, to see whether anybody writes.
pub fn try_lock(env: &Env, dir: &Path, hold: Hold, holder: &str) -> std::io::Result<Box<dyn Lock>> {
    let path = dir.join(names::LOCK);
    let mut tries = 0;
    loop {
        match env.fs.lock(&path, hold, holder) {
            Err(error) if is_held_by_readers(&error) && tries < LOCK_TRIES => {
                tries += 1;
                env.threads.sleep(LOCK_PAUSE);
            }
            lock => return lock,
        }
    }
}

/// Returns the error for a database in `dir` that could not be locked.
pub fn not_locked(dir: &Path, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::InvalidData {
        return Error::invalid_argument(format!("the database cannot be locked: {error}"))
            .in_file(&dir.join(names::LOCK));
    }
    if error.kind() != std::io::ErrorKind::WouldBlock {
        return Error::io("lock the database", &dir.join(names::LOCK), error);
    }
    Error::new(ErrorKind::Locked, format!("the database is held open by {error}"))
        .in_file(dir)
        .advise("close it there first")
}

/// Refuses the directory of another store. `exists` is true if CURRENT is there. If CURRENT is
/// ours, so is the directory, whatever else lies in it.
pub fn check_not_of_another_store(env: &Env, dir: &Path, exists: bool) -> Result<()> {
    if exists && read_current(env, dir).is_err() { check_not_foreign(env, dir) } else { Ok(()) }
}

fn check_not_foreign(env: &Env, dir: &Path) -> Result<()> {
    let Some(store) = foreign_store(env, dir) else {
        return Ok(());
    };
    Err(Error::invalid_argument(format!("this is {store}, not one of CleaveDB"))
        .in_file(dir)
        .advise("check the path, or choose an empty or a new directory"))
}

/// Refuses a directory in which no database can be created. With `beside_others`, files that belong
/// to no store are allowed. Returns the manifests, and KEYS, that a crash during an earlier
/// creation left there.
pub fn check_empty(env: &Env, dir: &Path, beside_others: bool) -> Result<Vec<PathBuf>> {
    check_not_foreign(env, dir)?;
    let mut left = Vec::new();
    for path in env.fs.list(dir).doing("list", dir)? {
        let name = path.file_name().unwrap_or_default();
        match names::parse(&path) {
            FileName::Fixed => {
                owner::check_ours(env, &dir.join(name))?;
                if name == names::KEYS {
                    left.push(dir.join(name));
                }
            }
            FileName::Foreign | FileName::Note if beside_others => {}
            FileName::Manifest(_) => {
                owner::check_ours(env, &dir.join(name))?;
                left.push(dir.join(name));
            }
            FileName::Foreign => {
                let name = name.to_string_lossy();
                let what = format!("the directory holds {name:?}, which is not CleaveDB's");
                return Err(Error::invalid_argument(what)
                    .in_file(dir)
                    .advise("choose an empty or a new directory"));
            }
            // It tells what was stored in the database that was here, which is gone.
            FileName::Note => {
                let name = name.to_string_lossy();
                let what = format!("{name:?} is the note of a load into a database that is gone");
                return Err(Error::invalid_argument(what)
                    .in_file(dir)
                    .advise("remove it, and load from the beginning"));
            }
            FileName::Table(_)
            | FileName::Segment(_)
            | FileName::Relocation(_)
            | FileName::Aside(_) => return Err(lost_current(dir)),
        }
    }
    Ok(left)
}

/// Refuses a directory without CURRENT that has files of a database beside those of its creation.
fn check_has_no_data(env: &Env, dir: &Path) -> Result<()> {
    if !env.fs.exists(dir).doing("look for", dir)? {
        return Ok(());
    }
    let files = env.fs.list(dir).doing("list", dir)?;
    for path in files {
        let is_data = matches!(names::parse(&path), FileName::Table(_) | FileName::Segment(_));
        let path = dir.join(path.file_name().unwrap_or_default());
        if is_data && owner::is_ours(env, &path, None)? {
            return Err(lost_current(dir));
        }
    }
    Ok(())
}

fn lost_current(dir: &Path) -> Error {
    Error::corruption("CURRENT is missing from this database").in_file(dir).advise(
        "restore it, or the whole database, from a backup; else `cleave repair`; or destroy \
             the database, if that was begun",
    )
}

/// Returns the name of the store whose files are in `dir`, or `None`. It is recognized by file
/// names that only that store uses. LevelDB and RocksDB take a directory without CURRENT for no
/// database, so for these CURRENT must be there.
fn foreign_store(env: &Env, dir: &Path) -> Option<&'static str> {
    let files = env.fs.list(dir).ok()?;
    let names = || files.iter().filter_map(|path| path.file_name()?.to_str());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbered = |part: &str| names().any(|name| name.strip_prefix(part).is_some_and(is_number));
    let is_value_log = |name: &str| name.strip_suffix(".vlog").is_some_and(is_number);
    let has_current = names().any(|name| name == names::CURRENT);
    match () {
        () if has_current && numbered("OPTIONS-") => Some("a RocksDB database"),
        () if has_current && numbered("MANIFEST-") => Some("a LevelDB database"),
        () if names().any(|name| is_value_log(name) || name == "KEYREGISTRY") => {
            Some("a Badger database")
        }
        () => None,
    }
}
