//! The only place that opens databases and keyspaces, so that every command treats a path alike.

use crate::place::{self, Place};
use cleavedb::{Db, ErrorKind, GcOptions, Keyspace, Options, Result};
use std::path::Path;

/// Opens a database that must exist, changing nothing in it.
pub(crate) fn read_only(path: &Path) -> Result<Db> {
    existing(path, Options { read_only: true, ..Options::default() })
}

/// Opens a database that must exist, for writing.
pub(crate) fn to_change(path: &Path) -> Result<Db> {
    existing(path, Options::default())
}

fn existing(path: &Path, options: Options) -> Result<Db> {
    match place::look(path)? {
        Place::Database => {
            let gc = last_gc_options(path);
            Db::builder(path).options(Options { create_if_missing: false, gc, ..options }).open()
        }
        place => Err(place.refuse(path)),
    }
}

/// How value GC was set when the database was opened last, most likely by the program whose it is:
/// space is explained, and freed, by its rules. Where that is not told, by the usual ones.
fn last_gc_options(path: &Path) -> GcOptions {
    let text = std::fs::read_to_string(path.join("OPTIONS")).unwrap_or_default();
    GcOptions::from_text(&text).unwrap_or_default()
}

/// Opens a database for writing and creates it where there is nothing. A directory that holds
/// something else is refused: files of two owners in one directory end badly.
pub(crate) fn to_fill(path: &Path, options: Options) -> Result<Db> {
    match place::look(path)? {
        place @ (Place::File | Place::Foreign(_)) => Err(place.refuse(path)),
        Place::Database if options.gc == GcOptions::default() => existing(path, options),
        // The engine knows what a crash while it created a database may have left.
        _ => Db::builder(path).options(Options { create_if_missing: true, ..options }).open(),
    }
}

/// The keyspace `name`, which must exist.
pub(crate) fn known_keyspace(db: &Db, name: &str) -> Result<Keyspace> {
    db.keyspace(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => error
            .in_file(db.path())
            .advise(format!("choose one with -k: {}", db.keyspaces().join(", "))),
        _ => error,
    })
}
