//! Moves files that the repaired database does not need to the folder `lost`.
//!
//! I5: what no manifest names is an orphan, which the next opening removes. So each file gets its
//! name in `lost` before the new manifest is in force, and loses the one beside it afterwards:
//! whenever a crash comes, one of the two is left. Where the file system has no hard links, files
//! are moved afterwards.

use crate::base::error::{Error, IoContext, Result};
use crate::env::Env;
use crate::env::fs::NameKind;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder for files that could not be used.
pub const LOST: &str = "lost";

/// Refuses a link, or a file, in the place of `lost`, before anything is done.
pub fn check_lost(env: &Env, lost: &Path) -> Result<()> {
    match env.fs.kind(lost).doing("look for", lost)? {
        None | Some(NameKind::Directory) => Ok(()),
        Some(NameKind::File | NameKind::Socket | NameKind::Other) => Err(Error::invalid_argument(
            "this is where a repair puts files aside, and it is no directory",
        )
        .in_file(lost)
        .advise("move it away")),
    }
}

/// Files that are on their way to `lost`.
pub struct FilesAside<'a> {
    env: &'a Env,
    dir: &'a Path,
    lost: PathBuf,
    /// Those that have names in `lost` by now.
    linked: Vec<PathBuf>,
    /// Those that are yet to be moved.
    others: Vec<PathBuf>,
}

impl<'a> FilesAside<'a> {
    /// Gives these files of `dir` names in `lost`, too.
    pub fn link(env: &'a Env, dir: &'a Path, paths: Vec<PathBuf>) -> Result<FilesAside<'a>> {
        let (linked, others) = (Vec::new(), Vec::new());
        let mut aside = FilesAside { env, dir, lost: dir.join(LOST), linked, others };
        if paths.is_empty() {
            return Ok(aside);
        }
        let lost = &aside.lost;
        env.fs.create_dir_all(lost).doing("create the directory", lost)?;
        for path in paths {
            let is_linked = link_as_free(env, &path, lost);
            if is_linked { &mut aside.linked } else { &mut aside.others }.push(path);
        }
        // A crash before or after this leaves the damaged database, whose files may have other
        // names in `lost`. The next repair gives them further ones. The name of `lost` itself is
        // durable before CURRENT names the manifest, which syncs the directory.
        env.fs.sync_dir(lost).doing("sync the directory", lost)?;
        Ok(aside)
    }

    /// Takes the files out of the database's directory, which a new manifest is in force of.
    /// Returns how many there were.
    pub fn finish(self) -> Result<u64> {
        let (env, dir, lost) = (self.env, self.dir, &self.lost);
        for path in &self.linked {
            // I5: the file has a durable name in `lost`. A crash before or after this leaves it
            // there, and perhaps an orphan beside the database.
            env.fs.remove(path).doing("set aside", path)?;
        }
        self.others.iter().try_for_each(|path| move_as_free(env, path, lost))?;
        if !self.others.is_empty() {
            // A power cut before this may leave a file in either place; after the next sync it
            // might be in neither.
            env.fs.sync_dir(lost).doing("sync the directory", lost)?;
        }
        // A crash before or after this is fine: what comes back in the directory is an orphan.
        env.fs.sync_dir(dir).doing("sync the directory", dir)?;
        Ok((self.linked.len() + self.others.len()) as u64)
    }
}

/// Returns names for a file: its own, then its own with numbers.
fn names_for(path: &Path) -> impl Iterator<Item = OsString> {
    let name = path.file_name().unwrap_or_default().to_os_string();
    let numbered = name.clone();
    std::iter::once(name).chain((1..).map(move |number: u64| {
        let mut name = numbered.clone();
        name.push(format!(".{number}"));
        name
    }))
}

/// Gives a file a second name that is free in `lost`. Returns false if that is not possible there.
fn link_as_free(env: &Env, path: &Path, lost: &Path) -> bool {
    for name in names_for(path) {
        match env.fs.hard_link(path, &lost.join(name)) {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => return false,
        }
    }
    unreachable!("there are more numbers than files")
}

/// Moves a file to `lost`, under a name that is free there.
fn move_as_free(env: &Env, path: &Path, lost: &Path) -> Result<()> {
    let open = env.fs.open_dir(lost).doing("open the directory", lost)?;
    for name in names_for(path) {
        // A crash before or after the move is fine: the file is in one place or the other, whole.
        match open.take(path, &name) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("set aside", path, error)),
        }
    }
    unreachable!("there are more numbers than files")
}
