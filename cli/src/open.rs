//! Opens databases and keyspaces for all commands, so that every command treats a path alike.

use crate::output::note;
use crate::place::{self, PathKind};
use crate::progress::Progress;
use crate::text::human_bytes;
use cleavedb::{
    Builder, Db, Error, ErrorKind, Event, EventListener, GcOptions, KeyFile, Keyspace, Options,
    Result,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The file of keys that the command line names.
static KEY_FILE: OnceLock<PathBuf> = OnceLock::new();

/// Has all databases opened with the keys in this file, or else in the one that the environment
/// names.
pub(crate) fn set_key_file(given: Option<PathBuf>) {
    let named = std::env::var_os("CLEAVE_KEY_FILE").filter(|name| !name.is_empty());
    if let Some(path) = given.or(named.map(PathBuf::from)) {
        KEY_FILE.set(path).expect("the command line is read once");
    }
}

/// Returns the environment variable that gives a child process the same keys.
pub(crate) fn key_variable() -> Option<(&'static str, &'static Path)> {
    KEY_FILE.get().map(|path| ("CLEAVE_KEY_FILE", path.as_path()))
}

/// Returns the keys that were given, if any.
pub(crate) fn keys() -> Option<KeyFile> {
    KEY_FILE.get().map(KeyFile::new)
}

/// Opens an existing database to read some keys of it, also while another process writes to it.
pub(crate) fn to_read(path: &Path) -> Result<Db> {
    to_read_with(path, Options::default())
}

/// Opens an existing database with these options as [`to_read`] does.
pub(crate) fn to_read_with(path: &Path, options: Options) -> Result<Db> {
    let writer = writer(path);
    let db = existing(path, Options { follow: true, ..options })?;
    tell_age(&db, writer);
    Ok(db)
}

/// Opens an existing database to walk over much of it. Beside a process that writes, its files are
/// pinned, so that none is missed later on; where that can't be done, they are only read.
pub(crate) fn to_walk(path: &Path) -> Result<Db> {
    let writer = writer(path);
    let db = walked(path, writer.is_some())?;
    tell_age(&db, writer);
    Ok(db)
}

/// Opens an existing database as [`to_walk`] does, and does not say who writes to it.
pub(crate) fn to_walk_again(path: &Path) -> Result<Db> {
    walked(path, writer(path).is_some())
}

fn walked(path: &Path, is_written: bool) -> Result<Db> {
    let opened = |follow_pinned| {
        existing(path, Options { follow: true, follow_pinned, ..Options::default() })
    };
    match opened(is_written) {
        Err(error) if is_written && error.kind() == ErrorKind::Io => opened(false),
        opened => opened,
    }
}

/// Opens an existing database as it was left, to look at all of it. Nobody can write meanwhile,
/// unless a process has it open for writing already.
pub(crate) fn to_check(path: &Path) -> Result<Db> {
    match writer(path) {
        None => existing(path, Options { read_only: true, ..Options::default() }),
        Some(_) => to_walk(path),
    }
}

/// Opens an existing database to back it up. Nobody can write meanwhile.
pub(crate) fn read_only(path: &Path) -> Result<Db> {
    existing(path, Options { read_only: true, ..Options::default() })
}

/// Returns who has the database at `path` open for writing. What is wrong with the path is told by
/// its opening.
fn writer(path: &Path) -> Option<String> {
    Db::writer(path).unwrap_or_default()
}

/// Says how old the state is that is shown of a database in use.
fn tell_age(db: &Db, writer: Option<String>) {
    if let Some(writer) = writer {
        let age = db.age().as_secs_f64();
        note!("{} is in use by {writer}: as of {age:.1} s ago", db.path().display());
    }
}

/// Opens an existing database for writing.
pub(crate) fn to_change(path: &Path) -> Result<Db> {
    existing(path, Options::default())
}

fn existing(path: &Path, options: Options) -> Result<Db> {
    match place::look(path)? {
        PathKind::Database => {
            // Who changes nothing frees nothing either.
            let only_reads = options.read_only || options.follow;
            let gc = last_gc_options(path).or_else(|error| match only_reads {
                true => {
                    note!("the defaults are taken for the options of value GC: {error}");
                    Ok(GcOptions::default())
                }
                false => Err(error),
            })?;
            open(path, Options { create_if_missing: false, gc, ..options })
        }
        place => Err(place.refuse(path)),
    }
}

/// Returns the GC options of the last opening, most likely by the program that owns the database,
/// so that space is explained and freed by its rules. Returns the defaults if they are not
/// recorded, and an error if what is recorded can't be read: the opening would record others.
fn last_gc_options(path: &Path) -> Result<GcOptions> {
    let path = path.join("OPTIONS");
    match std::fs::read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            // A crash may have cut off the rest of a line.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let gc = GcOptions::from_text(whole).map_err(|error| {
                error.in_file(&path).advise(
                    "correct this line, or remove the file: then the defaults hold, or what the \
                     program sets that has the database",
                )
            })?;
            // Memory belongs to the process.
            Ok(GcOptions { memory_bytes: GcOptions::default().memory_bytes, ..gc })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(GcOptions::default()),
        Err(error) => Err(Error::io("read", &path, error)),
    }
}

/// Opens a database for writing and creates it where there is nothing. A directory that holds
/// something else is refused, because files of two owners in one directory get mixed up.
pub(crate) fn to_fill(path: &Path, options: Options) -> Result<Db> {
    to_fill_with(path, options, |_| ())
}

/// Opens a database as [`to_fill`] does, with the options of value GC that `set` makes of those of
/// the last opening, or of the defaults for a new database.
pub(crate) fn to_fill_with(
    path: &Path,
    options: Options,
    set: impl FnOnce(&mut GcOptions),
) -> Result<Db> {
    let (create_if_missing, mut gc) = match place::look(path)? {
        place @ (PathKind::File | PathKind::Foreign(_)) => return Err(place.refuse(path)),
        PathKind::Database => (false, last_gc_options(path)?),
        // The engine recognizes what a crash while it created a database may have left.
        _ => (true, GcOptions::default()),
    };
    set(&mut gc);
    open(path, Options { create_if_missing, gc, ..options })
}

/// Opens a database for writing as [`to_fill`] does, and its keyspace `name`. A new database is
/// created with it; in one that exists, a name that is not known was most likely mistyped, so the
/// keyspace is created only if `create` is true.
pub(crate) fn to_fill_keyspace(
    path: &Path,
    name: &str,
    create: bool,
    options: Options,
) -> Result<(Db, Keyspace)> {
    let is_new = place::look(path)? != PathKind::Database;
    let db = to_fill(path, options)?;
    let keyspace = match create || is_new {
        true => db.open_or_create_keyspace(name)?,
        false => known_keyspace_or(&db, name, "; or create it with --create")?,
    };
    Ok((db, keyspace))
}

/// Returns a builder with the keys that were given. Operators of other programs are unknown here:
/// keys with their operands can't be read, and everything else works.
pub(crate) fn builder(path: &Path) -> Builder {
    let builder = Db::builder(path).without_merge_operators();
    match keys() {
        Some(keys) => builder.encryption(Arc::new(keys)),
        None => builder,
    }
}

/// Opens a database, and shows how much of the tree is loaded if it is to be kept in memory.
fn open(path: &Path, options: Options) -> Result<Db> {
    let is_pinned = options.pin_tree > 0;
    let builder = builder(path).options(options);
    if is_pinned { builder.event_listener(Arc::new(Loading::new())).open() } else { builder.open() }
}

/// Shows the progress of an opening that loads the tree, and says what it left out.
struct Loading(Mutex<Option<Progress>>);

impl Loading {
    fn new() -> Self {
        Loading(Mutex::new(Some(Progress::new("bytes of tables", true))))
    }
}

impl EventListener for Loading {
    fn on_event(&self, event: &Event) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::TreeLoading { done_bytes, all_bytes, .. } => {
                let share = *done_bytes as f64 / (*all_bytes).max(1) as f64;
                progress.iter_mut().for_each(|it| it.show(*done_bytes, Some(share)));
            }
            Event::TreeLoaded { left_out, missing_bytes, .. } => {
                *progress = None;
                if *left_out > 0 && *missing_bytes > 0 {
                    let missing = human_bytes(*missing_bytes);
                    let (tables, do_not) = match left_out {
                        1 => ("table", "does not"),
                        _ => ("tables", "do not"),
                    };
                    note!(
                        "{left_out} {tables} {do_not} fit in memory; about {missing} more is needed"
                    );
                }
            }
            Event::TableNotPinned { table, error, .. } => {
                note!("{} stays on disk: {error}", table.display());
            }
            _ => {}
        }
    }
}

/// Opens the keyspace `name`, which must exist.
pub(crate) fn known_keyspace(db: &Db, name: &str) -> Result<Keyspace> {
    known_keyspace_or(db, name, "")
}

/// Opens the keyspace `name` as [`known_keyspace`] does; `or` is what else can be done without it.
pub(crate) fn known_keyspace_or(db: &Db, name: &str, or: &str) -> Result<Keyspace> {
    db.keyspace(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => error
            .in_file(db.path())
            .advise(format!("choose one with -k: {}{or}", db.keyspaces().join(", "))),
        _ => error,
    })
}
