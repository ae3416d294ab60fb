//! Lines that a load leaves out: their errors are told at its end, and their texts go to a file.

use crate::format::read::{Record, Records};
use crate::output::note;
use crate::sync::sync_dir_of;
use crate::text::{counted, human_count};
use cleavedb::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Errors that are told one by one; of the others, only the number is.
const MOST_TOLD: usize = 10;

/// The lines that were left out.
pub(super) struct Rejects {
    /// False if the first bad line ends the load.
    are_kept: bool,
    count: u64,
    first: Vec<String>,
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl Rejects {
    /// Bad lines are kept if `keep_going`, or if there is a file for them. A resumed load adds to
    /// its file.
    pub(super) fn new(keep_going: bool, file: Option<&Path>, resumes: bool) -> Result<Self> {
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let options = match resumes {
                true => options.append(true).create(true),
                false => options.write(true).create_new(true),
            };
            let opened = options.open(path).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => {
                    Error::already_exists("there is a file of that name already")
                        .in_file(path)
                        .advise("remove it, or choose another name")
                }
                _ => Error::io("create", path, error),
            });
            opened.map(|file| (path.to_path_buf(), BufWriter::new(file)))
        };
        let file = file.map(open).transpose()?;
        let are_kept = keep_going || file.is_some();
        Ok(Rejects { are_kept, count: 0, first: Vec::new(), file })
    }

    /// Returns the next record, and puts aside the bad lines before it if they are kept.
    pub(super) fn next_good(&mut self, records: &mut dyn Records) -> Result<Option<Record>> {
        loop {
            let error = match records.next() {
                Err(error) if self.are_kept => error,
                other => return other,
            };
            let Some(line) = records.pass_bad() else { return Err(error) };
            if let Some((path, file)) = &mut self.file {
                let failed = |error| Error::io("write", path, error);
                // A header makes the file one that can be loaded, but one is enough.
                let is_new = file.get_ref().metadata().map_err(failed)?.len() == 0;
                let heading = if is_new && self.count == 0 { records.heading() } else { None };
                let heading = heading.unwrap_or_default();
                file.write_all(&heading).and_then(|()| file.write_all(&line)).map_err(failed)?;
            }
            if self.first.len() < MOST_TOLD {
                self.first.push(error.message().to_owned());
            }
            self.count += 1;
        }
    }

    /// Makes sure that what was put aside so far survives a crash.
    pub(super) fn sync(&mut self) -> Result<()> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let failed = |error| Error::io("write", path, error);
        // A crash before this loses lines that no note says are passed: a resumed load meets them
        // again, and those that the file has by then are in it twice.
        file.flush().map_err(failed)?;
        if !file.get_ref().metadata().map_err(failed)?.is_file() {
            // A pipe or a device can't be synced.
            return Ok(());
        }
        file.get_ref().sync_all().map_err(failed)?;
        sync_dir_of(path)
    }

    /// Makes sure of the file, and tells what was left out. Returns true if something was.
    pub(super) fn finish(mut self) -> Result<bool> {
        if let Some((path, file)) = &mut self.file {
            file.flush().map_err(|error| Error::io("write", path, error))?;
        }
        if self.count == 0 {
            return Ok(false);
        }
        for error in &self.first {
            note!("{error}");
        }
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            note!("and {} more", human_count(more));
        }
        let left_out = counted(self.count, "line");
        match &self.file {
            Some((path, _)) => {
                let path = path.display();
                note!("left out {left_out}: correct {path} and load it");
            }
            None => note!("left out {left_out}; --rejects FILE would have kept them"),
        }
        Ok(true)
    }
}
