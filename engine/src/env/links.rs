//! Opening files and directories without being misled by symbolic links and special files.
//!
//! Anybody who can write to a directory can put a link there that leads to a file elsewhere, or a
//! pipe on which opening waits for ever. So links are not followed when a file is opened for
//! writing or a directory for deleting in it, and an opened file must be a regular one.

use super::fs::{Directory, NameKind};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fcntl_setfl, openat, renameat, unlinkat};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Returns the flags for opening without following a link or waiting for a pipe's other end.
pub(super) fn in_place() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32
}

/// Opens a regular file. A symbolic link is followed only if `is_written` is false.
pub(super) fn open_regular(path: &Path, is_written: bool) -> io::Result<File> {
    let flags = if is_written { in_place() } else { OFlags::NONBLOCK.bits() as i32 };
    let mut options = OpenOptions::new();
    options.read(true).write(is_written).custom_flags(flags);
    let file = loop {
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            opened => break opened.map_err(explain_link)?,
        }
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    // The flag was needed for opening only; with it, some kernels would let reads fail, not wait.
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Replaces the error of a refused link by one with a plain message.
pub(super) fn explain_link(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        let message = "it is a symbolic link, which is not followed here";
        return io::Error::new(ErrorKind::InvalidData, message);
    }
    error
}

/// Returns the kind of the thing at `path`, or `None` if there is none; a link is not followed.
pub(super) fn kind(path: &Path) -> io::Result<Option<NameKind>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(NameKind::File)),
        Ok(found) if found.is_dir() => Ok(Some(NameKind::Directory)),
        Ok(found) if found.file_type().is_socket() => Ok(Some(NameKind::Socket)),
        Ok(_) => Ok(Some(NameKind::Other)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// An open directory, held by its descriptor.
pub(super) struct OsDirectory(OwnedFd);

impl OsDirectory {
    pub(super) fn open(path: &Path) -> io::Result<OsDirectory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(OsDirectory(openat(rustix::fs::CWD, path, flags, Mode::empty())?))
    }
}

impl Directory for OsDirectory {
    fn list(&self) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if !entry.file_type().is_dir() && name != "." && name != ".." {
                names.push(PathBuf::from(name));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn take(&self, from: &Path, name: &OsStr) -> io::Result<()> {
        use rustix::fs::{CWD, statat};
        // Nobody else moves files here between the two calls, because the database is locked.
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => Ok(renameat(CWD, from, &self.0, name)?),
            Err(error) => Err(error.into()),
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        }
    }
}
