//! Finds out what is at a path: a database of ours, nothing, or something else, which is named.
//!
//! Only names and first bytes are looked at. The engine decides whether a database is sound.

use cleavedb::{Error, ErrorKind, Result};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// The first bytes of every file of ours.
const MAGIC: &[u8; 8] = b"CLEAVEDB";

/// The kinds of things at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// A directory with files of ours.
    Database,
    /// A directory with nothing but what a crash while a database was created may leave.
    Begun,
    /// Nothing is there.
    Missing,
    /// An empty directory.
    Empty,
    /// A file that is no directory.
    File,
    /// A directory of another store, with the store's name.
    Foreign(&'static str),
    /// A directory with other files, one of which is named.
    Other(String),
}

/// Finds out what is at `path`.
pub(crate) fn look(path: &Path) -> Result<PathKind> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PathKind::Missing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(PathKind::File),
        Err(error) => return Err(Error::io("read this directory", path, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list this directory", path, error))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let ours: Vec<_> = names.iter().filter(|name| is_ours(&path.join(name))).collect();
    if !ours.is_empty() {
        let is_begun = ours.into_iter().all(|name| comes_before_current(name));
        return Ok(if is_begun { PathKind::Begun } else { PathKind::Database });
    }
    if let Some(store) = foreign(path, &names) {
        return Ok(PathKind::Foreign(store));
    }
    Ok(names.into_iter().next().map_or(PathKind::Empty, PathKind::Other))
}

/// Returns true for a file of ours that is written before CURRENT is, which makes the database.
fn comes_before_current(name: &str) -> bool {
    matches!(name, "CURRENT.new" | "KEYS" | "KEYS.new") || name.ends_with(".man")
}

fn is_ours(file: &Path) -> bool {
    first_bytes::<8>(file).is_some_and(|bytes| bytes == *MAGIC)
}

fn first_bytes<const N: usize>(file: &Path) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // Only regular files are opened, because opening a named pipe would wait for its other end for
    // ever.
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    fs::File::open(file).ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn foreign(path: &Path, names: &[String]) -> Option<&'static str> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let ends = |end: &str| names.iter().any(|name| name.ends_with(end));
    let starts = |start: &str| names.iter().any(|name| name.starts_with(start));
    if first_bytes::<9>(&path.join("CURRENT")).is_some_and(|bytes| bytes == *b"MANIFEST-") {
        let rocks = has("IDENTITY") || starts("OPTIONS-");
        return Some(if rocks { "RocksDB" } else { "LevelDB" });
    }
    match () {
        () if has("MANIFEST") && (ends(".vlog") || has("KEYREGISTRY")) => Some("Badger"),
        () if has("data.mdb") => Some("LMDB"),
        () if starts("log.00") && ends(".bdb") => Some("Berkeley DB"),
        () => None,
    }
}

/// Returns the bytes that the files of a directory take on disk; holes take none.
pub(crate) fn allocated_bytes(path: &Path) -> Result<u64> {
    let failed = |error| Error::io("measure this directory", path, error);
    let mut bytes = 0;
    for entry in fs::read_dir(path).map_err(failed)? {
        match entry.map_err(failed)?.metadata() {
            Ok(metadata) => bytes += on_disk(&metadata),
            // The engine may remove files at any moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(bytes)
}

#[cfg(unix)]
fn on_disk(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn on_disk(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

impl PathKind {
    /// Returns the error that says that `path` is no database, and what to do.
    pub(crate) fn refuse(&self, path: &Path) -> Error {
        let (what, advice) = match self {
            PathKind::Database => unreachable!("a database is not refused"),
            PathKind::Missing => (
                "there is no database: nothing exists at this path".to_string(),
                "check the path; `cleave put` and `cleave load` create a database",
            ),
            PathKind::Empty => (
                "there is no database: the directory is empty".to_string(),
                "check the path; `cleave put` and `cleave load` create a database",
            ),
            PathKind::Begun => (
                "there is no database: its creation was cut short".to_string(),
                "`cleave put` and `cleave load` create it",
            ),
            PathKind::File => (
                "this is a file, not the directory of a database".to_string(),
                "give the directory of the database; `cleave inspect FILE` prints one file of it",
            ),
            PathKind::Foreign(store) => (
                format!("this is a directory of {store}, not of CleaveDB"),
                "`cleave import` imports it, or what that store's own tool dumps",
            ),
            PathKind::Other(name) => (
                format!("there is no database: the directory holds something else: {name:?}"),
                "give the directory of a database, or a new or empty one to create it",
            ),
        };
        let kind = match self {
            PathKind::File | PathKind::Foreign(_) => ErrorKind::InvalidArgument,
            _ => ErrorKind::NotFound,
        };
        Error::new(kind, what).in_file(path).advise(advice)
    }
}
