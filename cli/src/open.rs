//! Opens databases and keyspaces for all commands, so that every command treats a path alike.

use crate::place::{self, PathKind};
use cleavedb::{Db, ErrorKind, GcOptions, Keyspace, Options, Result};
use std::path::Path;

/// Opens an existing database without changing anything in it.
pub(crate) fn read_only(path: &Path) -> Result<Db> {
    existing(path, Options { read_only: true, ..Options::default() })
}

/// Opens an existing database for writing.
pub(crate) fn to_change(path: &Path) -> Result<Db> {
    existing(path, Options::default())
}

fn existing(path: &Path, options: Options) -> Result<Db> {
    match place::look(path)? {
        PathKind::Database => {
            let gc = last_gc_options(path);
            Db::builder(path).options(Options { create_if_missing: false, gc, ..options }).open()
        }
        place => Err(place.refuse(path)),
    }
}

/// Returns the GC options of the last opening, most likely by the program that owns the database,
/// so that space is explained and freed by its rules. Returns the defaults if they are not
/// recorded.
fn last_gc_options(path: &Path) -> GcOptions {
    let text = std::fs::read_to_string(path.join("OPTIONS")).unwrap_or_default();
    GcOptions::from_text(&text).unwrap_or_default()
}

/// Opens a database for writing and creates it where there is nothing. A directory that holds
/// something else is refused, because files of two owners in one directory get mixed up.
pub(crate) fn to_fill(path: &Path, options: Options) -> Result<Db> {
    match place::look(path)? {
        place @ (PathKind::File | PathKind::Foreign(_)) => Err(place.refuse(path)),
        PathKind::Database if options.gc == GcOptions::default() => existing(path, options),
        // The engine recognizes what a crash while it created a database may have left.
        _ => Db::builder(path).options(Options { create_if_missing: true, ..options }).open(),
    }
}

/// Opens the keyspace `name`, which must exist.
pub(crate) fn known_keyspace(db: &Db, name: &str) -> Result<Keyspace> {
    db.keyspace(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => error
            .in_file(db.path())
            .advise(format!("choose one with -k: {}", db.keyspaces().join(", "))),
        _ => error,
    })
}
