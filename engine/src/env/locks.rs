//! Advisory locks on the files of the real file system.
//!
//! On network file systems such a lock belongs to the process, so that a second one of the same
//! process would be granted, and closing the second descriptor would free the first. Hence what
//! this process holds is looked up before a file is opened, and those who share a lock share its
//! descriptor.
//!
//! Lock: `locks`, a leaf, held while one file is opened and locked, which waits for nobody.

use super::fs::{Hold, Lock, READERS};
use arc_swap::ArcSwapOption;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A lock file that says more about its holder than this is cut in messages.
const HOLDER_TEXT_LIMIT: u64 = 4096;

/// Device and inode: who a file is, whatever path led to it.
type FileIdentity = (u64, u64);

/// One lock of this process.
struct ProcessLock {
    /// Open as long as somebody here holds the lock.
    file: Weak<File>,
    hold: Hold,
    /// Who, for messages: the last that came.
    holder: String,
}

impl ProcessLock {
    /// One more holder, if both share it.
    fn join(&mut self, hold: Hold, holder: &str) -> io::Result<Arc<File>> {
        let file = self.file.upgrade();
        let shared = file.filter(|_| hold.goes_with(self.hold));
        let Some(file) = shared else {
            return Err(io::Error::new(ErrorKind::WouldBlock, self.holder.clone()));
        };
        holder.clone_into(&mut self.holder);
        // The text only serves messages of others: what it said before serves as well.
        let _ = write_holder(&file, holder);
        Ok(file)
    }
}

/// The locks that a process holds.
struct ProcessLocks {
    process: u32,
    locks: Mutex<BTreeMap<FileIdentity, ProcessLock>>,
    /// Of the process this one was forked from. A thread that is not here any more may have been
    /// changing it, so it is never looked at, nor dropped.
    _of_parent: Option<Arc<ProcessLocks>>,
}

impl ProcessLocks {
    fn locks(&self) -> MutexGuard<'_, BTreeMap<FileIdentity, ProcessLock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The locks of this process. A child begins with none, and with a mutex that nobody holds: the
/// parent's may be held by a thread that the child does not have.
fn held() -> Arc<ProcessLocks> {
    static HELD: ArcSwapOption<ProcessLocks> = ArcSwapOption::const_empty();
    let process = std::process::id();
    loop {
        let known = HELD.load_full();
        if let Some(held) = known.as_ref().filter(|held| held.process == process) {
            return held.clone();
        }
        let locks = Mutex::new(BTreeMap::new());
        let new = Arc::new(ProcessLocks { process, locks, _of_parent: known.clone() });
        HELD.compare_and_swap(&known, Some(new));
    }
}

/// A lock that somebody here holds.
pub(super) struct OsLock {
    identity: FileIdentity,
    /// Gone while it is dropped.
    file: Option<Arc<File>>,
    /// Whose it is, and where it is noted.
    held: Arc<ProcessLocks>,
}

impl Lock for OsLock {}

impl OsLock {
    /// See [`super::fs::Fs::lock`].
    pub(super) fn take(path: &Path, hold: Hold, holder: &str) -> io::Result<OsLock> {
        let (held, holder) = (held(), &hold.text(holder));
        let mut locks = held.locks();
        loop {
            if let Some(identity) = who_is_at(path)?
                && let Some(taken) = locks.get_mut(&identity)
            {
                let file = Some(taken.join(hold, holder)?);
                drop(locks);
                return Ok(OsLock { identity, file, held });
            }
            let file = Arc::new(lock_file(path, hold, holder)?);
            let identity = identity(&file.metadata()?);
            // Whoever held it before may have removed it, and what is there now is another.
            if who_is_at(path)? == Some(identity)
                && let Entry::Vacant(free) = locks.entry(identity)
            {
                let holder = holder.to_owned();
                free.insert(ProcessLock { file: Arc::downgrade(&file), hold, holder });
                drop(locks);
                return Ok(OsLock { identity, file: Some(file), held });
            }
        }
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        // A child has a copy of the descriptor, and with it the power to end its parent's lock:
        // it closes its copy, and no more.
        if self.held.process != std::process::id() {
            return;
        }
        let mut locks = self.held.locks();
        if let Some(file) = self.file.take().and_then(Arc::into_inner) {
            // Not by closing alone: a process being spawned by another thread holds a copy of
            // every descriptor until it executes its program, and with it the lock.
            let _ = file.unlock();
            locks.remove(&self.identity);
        }
    }
}

/// Opens the file and locks it.
fn lock_file(path: &Path, hold: Hold, holder: &str) -> io::Result<File> {
    let (file, refused) = open(path, hold)?;
    let locked = match hold {
        Hold::Alone => file.try_lock(),
        Hold::Shared => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            // One more could read: then only readers hold it.
            let is_shared = hold == Hold::Alone && file.try_lock_shared().is_ok();
            return Err(io::Error::new(ErrorKind::WouldBlock, who_holds(&file, is_shared)));
        }
        // Some media that can't be written don't know locks either.
        Err(TryLockError::Error(error)) => return Err(refused.unwrap_or(error)),
    }
    if refused.is_none() {
        match (write_holder(&file, holder), hold) {
            (Err(error), Hold::Alone) => return Err(error),
            // Reading goes on where the disk is full.
            (Err(_), Hold::Shared) | (Ok(()), _) => {}
        }
    }
    Ok(file)
}

/// Opens the lock file; with the error, if that was possible for reading only.
fn open(path: &Path, hold: Hold) -> io::Result<(File, Option<io::Error>)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    match options.open(path) {
        Ok(file) => Ok((file, None)),
        Err(refused) if reading_will_do(hold, refused.kind()) => match File::open(path) {
            Ok(file) => Ok((file, Some(refused))),
            Err(_) => Err(refused),
        },
        Err(refused) => Err(refused),
    }
}

/// True if a lock file that was refused with `error` may be opened for reading instead.
fn reading_will_do(hold: Hold, error: ErrorKind) -> bool {
    let cannot_write = matches!(error, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    hold == Hold::Shared && cannot_write
}

/// The text only serves messages: no sync. After a crash the system has let go of the lock, and
/// what the file says no longer matters. Never empty meanwhile, for whoever reads it then.
fn write_holder(file: &File, holder: &str) -> io::Result<()> {
    file.write_all_at(holder.as_bytes(), 0)?;
    file.set_len(holder.len() as u64)
}

/// What the lock file says of those who hold it, if it was one of them that wrote that.
fn who_holds(file: &File, is_shared: bool) -> String {
    let text = written_holder(file);
    if is_shared && !text.starts_with(READERS) {
        return format!("{READERS} who could not write who they are");
    }
    text
}

fn written_holder(file: &File) -> String {
    let mut text = Vec::new();
    match file.take(HOLDER_TEXT_LIMIT).read_to_end(&mut text) {
        Ok(0) => "somebody who has not said who".to_owned(),
        Ok(_) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => format!("a holder whose name cannot be read: {error}"),
    }
}

/// The file of that name, if there is one.
fn who_is_at(path: &Path) -> io::Result<Option<FileIdentity>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(identity(&found))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn identity(of: &fs::Metadata) -> FileIdentity {
    (of.dev(), of.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_needs_no_file_to_write_to() {
        for error in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            assert!(reading_will_do(Hold::Shared, error));
            assert!(!reading_will_do(Hold::Alone, error));
        }
        assert!(!reading_will_do(Hold::Shared, ErrorKind::NotFound));
    }
}
