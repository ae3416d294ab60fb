//! How far an interrupted load came: a small file in the database's directory, beside the files of
//! the engine, which leaves it alone. `--resume` goes on from there.

use super::Load;
use crate::random::hash;
use crate::sync::sync_dir_of;
use cleavedb::{Error, Result};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What the names of these files begin with.
const PREFIX: &str = "loading-";
/// The longest file of this kind that is read.
const MOST_BYTES: u64 = 1 << 20;

/// The place where the progress of a load is kept.
pub(super) struct LoadMark {
    path: PathBuf,
    /// What is loaded where and how: only the same can be resumed.
    what: String,
}

impl LoadMark {
    /// Returns the mark of this load; the file need not exist.
    pub(super) fn new(args: &Load, input: &Path) -> LoadMark {
        // A path that was typed differently is the same input; standard input has a name only.
        let input = fs::canonicalize(input).unwrap_or_else(|_| input.to_path_buf());
        let (text, keyspace) = (&args.input, &args.target.keyspace);
        let what = format!(
            "{} into {keyspace:?}, format {:?}, key {:?}, values {:?}, raw {}, header {} {}, \
             delimiter {:?}",
            input.display(),
            text.format,
            text.key,
            text.value,
            text.raw,
            text.header,
            text.no_header,
            text.delimiter
        );
        let name = format!("{PREFIX}{:016x}", hash(what.as_bytes()));
        LoadMark { path: args.target.dir.join(name), what }
    }

    /// Returns the number of lines that an interrupted load has stored.
    pub(super) fn lines(&self) -> Result<Option<u64>> {
        let damaged = || {
            Error::invalid_argument("this is not the note of an interrupted load")
                .in_file(&self.path)
                .advise("remove the file, and load from the beginning")
        };
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &self.path, error)),
            Ok(metadata) if metadata.len() > MOST_BYTES => return Err(damaged()),
            Ok(_) => {}
        }
        let bytes = fs::read(&self.path).map_err(|error| Error::io("read", &self.path, error))?;
        let note: Value = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        // Two loads have the same name of a file once in a long while.
        match note["load"].as_str() {
            Some(what) if what == self.what => note["lines"].as_u64().map(Some).ok_or_else(damaged),
            Some(_) => Ok(None),
            None => Err(damaged()),
        }
    }

    /// Notes that `lines` are stored; the caller has made them durable.
    pub(super) fn write(&self, lines: u64) -> Result<()> {
        let failed = |error| Error::io("write", &self.path, error);
        let text = format!("{}\n", json!({ "load": self.what, "lines": lines }));
        let new = self.path.with_extension("new");
        let mut file = File::create(&new).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        // A crash before this leaves the former note, whose lines are stored as well.
        fs::rename(&new, &self.path).map_err(failed)
    }

    /// Forgets what an earlier load noted: this one begins anew, perhaps with another input of the
    /// same name.
    pub(super) fn begin(&self) -> Result<()> {
        self.remove()?;
        // A crash before this may leave the note, but nothing of this load yet, so who resumes it
        // then resumes the earlier one. After it there is no note until this load writes its own:
        // resumed before that, it starts at the beginning. A load that was complete did not make
        // sure that its note is gone, so this is done even where none was seen.
        sync_dir_of(&self.path)
    }

    /// Forgets it: the load is complete.
    pub(super) fn remove(&self) -> Result<()> {
        // A crash before this leaves a note of lines that are all stored: nothing is lost by it.
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("remove", &self.path, error))
            }
            _ => Ok(()),
        }
    }
}
