//! The file system as the engine sees it: all I/O goes through these traits, in production and in
//! simulation.
//!
//! All calls return [`io::Error`]; the rooms above add the file and the operation.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Returns the directory that has the name `path`: the working directory for a bare name.
pub fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// The expected pattern of reads of a file; it is passed on to the kernel as advice where possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPattern {
    /// Point reads; read-ahead would be wasted.
    Random,
    /// One pass from front to back, as recovery and checks make it.
    Sequential,
}

/// The mode in which a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Exclusive: there is no other holder.
    Alone,
    /// Shared with other holders, all of which only read.
    Shared,
}

impl Hold {
    /// Returns true if two holders in these modes may hold the lock at once.
    pub fn goes_with(self, other: Hold) -> bool {
        self == Hold::Shared && other == Hold::Shared
    }

    /// Returns the text that names `holder` in messages.
    pub(super) fn text(self, holder: &str) -> String {
        match self {
            Hold::Alone => holder.to_owned(),
            Hold::Shared => format!("{READERS}, the last of them {holder}"),
        }
    }
}

/// The beginning of a holder's text if the lock is shared.
pub(super) const READERS: &str = "readers";

/// Returns true if [`Fs::lock`] failed because of holders that only read.
pub fn is_held_by_readers(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock && error.to_string().starts_with(READERS)
}

/// The beginning of every lock file of CleaveDB; the text that names the holder follows.
pub(super) const LOCK_HEAD: &str = "CleaveDB lock, held by ";

/// The kind of thing that a name in a directory stands for; a symbolic link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket.
    Socket,
    /// A symbolic link, a pipe or a device.
    Other,
}

/// An open directory. Calls go to this directory even if its path is later replaced by another.
pub trait Directory: Send + Sync {
    /// Returns the sorted names of the files in the directory.
    fn list(&self) -> io::Result<Vec<PathBuf>>;
    /// Removes the name of a file in the directory.
    fn remove(&self, name: &OsStr) -> io::Result<()>;
    /// Moves the file `from` into the directory; fails with `AlreadyExists` if the name is taken.
    fn take(&self, from: &Path, name: &OsStr) -> io::Result<()>;
}

/// An open file. All calls may come from many threads at once.
pub trait File: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; returns fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Fills `buf` from `offset` on if that needs no wait for the device. Returns false if it does,
    /// and then the content of `buf` is unspecified.
    fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        let _ = (buf, offset);
        false
    }
    /// Writes all of `buf` at `offset`, extending the file if need be. After an error any part of
    /// it may have been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Hands all that was written over to the system, if some of it was only gathered. An error is
    /// that of a write; a sync after it fails for no want of room.
    fn write_out(&self) -> io::Result<()> {
        Ok(())
    }
    /// Makes the content and the length durable. After an error nothing may be assumed about the
    /// bytes written since the last success, and the call must not be repeated (I8).
    fn sync(&self) -> io::Result<()>;
    /// Starts the write-back of a range without waiting, which makes the next `sync` shorter. It is
    /// a hint and does nothing where the system can't do it. The caller is not going to write
    /// before the end of the range again: such a write would have no advantage from
    /// `prepare_appends`.
    fn start_writeback(&self, offset: u64, len: u64);
    /// Starts to read a range into memory of the system without waiting, because the caller is
    /// going to read it. It is a hint and does nothing where the system can't do it.
    fn start_read(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Prepares for appends: the caller will soon write the `len` bytes from `from` on, in order.
    /// It may extend the file over them with zeroes; `set_len` takes back the unused part. It is a
    /// hint that makes writes cheaper, and does nothing where the system can't do it or the disk is
    /// full.
    fn prepare_appends(&self, from: u64, len: u64) {
        let _ = (from, len);
    }
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts or extends the file (with zeroes) to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Frees the blocks that lie wholly inside the range. They read as zeroes afterwards, and the
    /// length stays. Fails with `Unsupported` where the file system can't do it, or where it gives
    /// no other file room.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Returns the bytes of disk that the file has allocated.
    fn allocated(&self) -> io::Result<u64>;
    /// Returns the number of names of the file; more than one means that a checkpoint shares it.
    fn links(&self) -> io::Result<u64>;
    /// Passes on the expected pattern of reads. A hint.
    fn advise(&self, advice: AccessPattern);
    /// Returns the descriptor, which io_uring needs; `None` in simulation.
    #[cfg(any(feature = "sim", feature = "io-uring"))]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>>;

    /// Fills `buf` from `offset` on; fails with `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.read_at(buf, offset)?;
        if read == buf.len() {
            return Ok(());
        }
        Err(ends_early(buf.len() - read))
    }

    /// Returns true if the file has no bytes.
    #[cfg(feature = "sim")]
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Returns the error of a read that wants `missing` bytes beyond the end of the file.
pub(super) fn ends_early(missing: usize) -> io::Error {
    let text = format!("the file ends {missing} bytes too early");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

/// A file's sizes and times as the file system reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// Length in bytes.
    pub len: u64,
    /// Bytes of disk that the file has allocated.
    pub allocated: u64,
    /// Number of names of the file.
    pub links: u64,
    /// Time of the last modification, since 1970; `None` if unknown.
    pub modified: Option<Duration>,
}

/// A held lock on a database directory; dropping it releases the lock.
pub trait Lock: Send + Sync {}

/// How many bytes Linux reads ahead of a file, unless a device or its owner asks for more.
pub const USUAL_READ_AHEAD_BYTES: u64 = 128 << 10;

/// The interface to a file system, the real one or a simulated one.
pub trait Fs: Send + Sync {
    /// Creates a file that must not exist, for reading and writing, with mode 0600.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Creates a file as [`Fs::create`] does, which is written from front to back and synced, with
    /// bytes that are not read soon. Where the system supports it, such writes take no page of its
    /// cache.
    fn create_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create(path)
    }
    /// Opens an existing regular file for reading; a symbolic link is followed.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens a file as [`Fs::open`] does, for long reads of bytes that will not be read again soon.
    /// Where the system supports it, such reads don't evict others from the page cache.
    fn open_direct(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }
    /// Opens an existing regular file for reading and writing. A symbolic link is refused, because
    /// it may lead to anybody's file.
    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Gives a file a new name, replacing the file that had it. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Returns how many bytes were in the system's memory only as this thread removed their files;
    /// it never decreases. `None` if the system doesn't tell, or has no device for files in `dir`.
    fn removed_unwritten(&self, dir: &Path) -> Option<u64> {
        let _ = dir;
        None
    }
    /// Returns how many bytes the system reads ahead of a file at `path` that is read in sequence,
    /// or what most do if it doesn't tell.
    fn read_ahead_bytes(&self, path: &Path) -> u64 {
        let _ = path;
        USUAL_READ_AHEAD_BYTES
    }
    /// Gives a file a second name, which must not exist. Durable after `sync_dir`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates a directory and its missing parents with mode 0700; it is no error if it exists.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory that must not exist, with mode 0700.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens an existing directory; a symbolic link is refused.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Directory>>;
    /// Returns the kind of the thing at `path`, or `None` if there is none. A link is not followed.
    fn kind(&self, path: &Path) -> io::Result<Option<NameKind>>;
    /// Removes an empty directory. Fails with `Unsupported` where there are no real directories.
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the sorted names of the files in a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Measures a file. The operating system's version does so without opening it: opening and
    /// closing a locked file could release its lock, and opening a pipe could wait for ever.
    fn measure(&self, path: &Path) -> io::Result<Measure> {
        let file = self.open(path)?;
        let (len, allocated, links) = (file.len()?, file.allocated()?, file.links()?);
        Ok(Measure { len, allocated, links, modified: None })
    }
    /// Returns the path of an existing directory that is the same whatever links lead to it.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
    /// Returns true if something has that name.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Returns the bytes that can still be written to the file system that holds `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// Takes the advisory lock on the file `path`, which is created if need be. The file then holds
    /// `holder` (a process id and the program's name), if it can be written.
    ///
    /// A symbolic link and a file with any other content are refused with `InvalidData` and left
    /// unchanged. If the lock is held in a mode that excludes this one, even by this process, the
    /// error is `WouldBlock`. Its message is the text that the holder wrote; with several holders,
    /// the text of the last one that could write.
    fn lock(&self, path: &Path, hold: Hold, holder: &str) -> io::Result<Box<dyn Lock>>;
}
