//! The file system as the engine sees it: the one door for I/O, in production and in simulation.
//!
//! All calls return [`io::Error`]; the rooms above add the file and what was being done to it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What reads of a file will look like; passed on to the kernel where it takes such advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPattern {
    /// Point reads: reading ahead would be wasted.
    Random,
    /// One pass from front to back: recovery, checking.
    Sequential,
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// By nobody else.
    Alone,
    /// With others who share it: those that only read.
    Shared,
}

impl Hold {
    /// True if both may hold a lock at once.
    pub fn goes_with(self, other: Hold) -> bool {
        self == Hold::Shared && other == Hold::Shared
    }

    /// Who holds it so, for messages.
    pub(super) fn text(self, holder: &str) -> String {
        match self {
            Hold::Alone => holder.to_owned(),
            Hold::Shared => format!("{READERS}, the last of them {holder}"),
        }
    }
}

/// How that begins if the lock is shared.
pub(super) const READERS: &str = "readers";

/// What a lock file of ours begins with; who holds it follows.
pub(super) const LOCK_HEAD: &str = "CleaveDB lock, held by ";

/// What a name in a directory stands for, if a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, a pipe, a socket or a device.
    Other,
}

/// An open directory. Whatever is put in the place of its path later, calls go to this one.
pub trait Directory: Send + Sync {
    /// The names of the files in it, sorted.
    fn list(&self) -> io::Result<Vec<PathBuf>>;
    /// Takes away the name of a file in it.
    fn remove(&self, name: &OsStr) -> io::Result<()>;
    /// Moves the file `from` into it; `AlreadyExists` if something has that name here.
    fn take(&self, from: &Path, name: &OsStr) -> io::Result<()>;
}

/// An open file. All calls may come from many threads at once.
pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; returns fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Fills `buf` from `offset` on if the system can do so without waiting for the device; false
    /// if it can't, and then `buf` holds anything.
    fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        let _ = (buf, offset);
        false
    }
    /// Writes all of `buf` at `offset`, extending the file if need be. On an error any part of
    /// it may have been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the content durable, and the length. After an error nothing may be assumed of what
    /// was written since the last success, and the call must not be repeated (I8).
    fn sync(&self) -> io::Result<()>;
    /// Asks for the writing back of a range to begin, without waiting: smooths the next `sync`.
    /// A hint; does nothing where the system can't.
    fn start_writeback(&self, offset: u64, len: u64);
    /// Prepares for appends: the `len` bytes from `from` on will be written soon, in order. May
    /// extend the file over them with zeroes; `set_len` takes back what was not needed. A hint
    /// that makes writes cheaper; does nothing where the system can't, or the disk is full.
    fn prepare_appends(&self, from: u64, len: u64) {
        let _ = (from, len);
    }
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeroes) to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Frees the blocks wholly inside the range; they read as zeroes then, the length stays.
    /// `Unsupported` where the file system can't.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Bytes of disk really taken.
    fn allocated(&self) -> io::Result<u64>;
    /// How many names the file has; more than one means a checkpoint shares it.
    fn links(&self) -> io::Result<u64>;
    /// Says what reads will look like. A hint.
    fn advise(&self, advice: AccessPattern);
    /// The descriptor, for kernels that take many reads at once; `None` in simulation.
    #[cfg(any(feature = "sim", feature = "io-uring"))]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>>;

    /// Reads exactly `buf.len()` bytes at `offset`; a file that ends before is `UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.read_at(buf, offset)?;
        if read == buf.len() {
            return Ok(());
        }
        Err(ends_early(buf.len() - read))
    }

    /// True if it has no bytes.
    #[cfg(feature = "sim")]
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// The error of a read that wants `missing` bytes more than there are.
pub(super) fn ends_early(missing: usize) -> io::Error {
    let text = format!("the file ends {missing} bytes too early");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

/// What a file system says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// Length in bytes.
    pub len: u64,
    /// Bytes of disk really taken.
    pub allocated: u64,
    /// How many names the file has.
    pub links: u64,
    /// When it was last written to, since 1970; `None` where nobody knows.
    pub modified: Option<Duration>,
}

/// A held lock on a database directory; dropping it lets go.
pub trait Lock: Send + Sync {}

/// A file system.
pub trait Fs: Send + Sync {
    /// Creates a file that must not exist, for reading and writing, mode 0600.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing regular file for reading; a link to one is followed.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// As [`Fs::open`], for long reads of what will not be read again soon: they don't take the
    /// place of others in the system's cache, where it knows how.
    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }
    /// Opens an existing regular file for reading and writing. A link is refused, whatever it
    /// leads to: what is behind it may be anybody's.
    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Gives a file a new name, replacing what had it. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes away a file's name. Durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name, which must not exist. Durable after `sync_dir`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates a directory and those above it, mode 0700; fine if it exists.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory that must not exist, mode 0700.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens an existing directory; a link to one is refused.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Directory>>;
    /// What has that name, `None` if nothing has. A link is not followed.
    fn kind(&self, path: &Path) -> io::Result<Option<NameKind>>;
    /// Takes away a directory that is empty. `Unsupported` where there are no real directories.
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The names of the files in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Measures a file. The system's does it without opening the file, which for one that is
    /// locked could let go of the lock, and for one of another kind could wait for ever.
    fn measure(&self, path: &Path) -> io::Result<Measure> {
        let file = self.open(path)?;
        let (len, allocated, links) = (file.len()?, file.allocated()?, file.links()?);
        Ok(Measure { len, allocated, links, modified: None })
    }
    /// True if there is something of that name.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Bytes that can still be written to the file system that holds `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// Takes the advisory lock on the file `path`, which is created if need be and then holds
    /// `holder` (a process id and the program's name), if it can be written. A file that holds
    /// anything else than such a text, and a link, is refused with `InvalidData`, and stays as it
    /// is. If it is held in a way
    /// that excludes this one, be it by this very process, the error is `WouldBlock` and its
    /// message is what the holder wrote; of several, the last that could write.
    fn lock(&self, path: &Path, hold: Hold, holder: &str) -> io::Result<Box<dyn Lock>>;
}
