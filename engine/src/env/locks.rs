//! Advisory locks on the files of the real file system.
//!
//! On network file systems such a lock belongs to the process: a second lock by the same process
//! would be granted, and closing the second descriptor would release the first. Hence the locks of
//! this process are looked up before a file is opened, and holders that share a lock share its
//! descriptor.
//!
//! Lock: `locks`, a leaf, held while one file is opened and locked, which never blocks.

use super::fs::{Hold, LOCK_HEAD, Lock, READERS};
use super::links::{explain_link, in_place};
use arc_swap::ArcSwapOption;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The length in bytes at which a holder's text is cut in messages.
const HOLDER_TEXT_LIMIT: u64 = 256;

/// The number of tries after which locking fails, if the lock file is replaced during each try.
const TRIES: usize = 100;

/// Device and inode: they identify a file, whatever path led to it.
type FileIdentity = (u64, u64);

/// A lock that this process holds on one file.
struct ProcessLock {
    /// The locked file; it is open as long as somebody in this process holds the lock.
    file: Weak<File>,
    hold: Hold,
    /// The text of the latest holder, for messages.
    holder: String,
}

impl ProcessLock {
    /// Adds a holder if both modes are shared; fails with `WouldBlock` if not.
    fn join(&mut self, hold: Hold, holder: &str) -> io::Result<Arc<File>> {
        let file = self.file.upgrade();
        let shared = file.filter(|_| hold.goes_with(self.hold));
        let Some(file) = shared else {
            return Err(io::Error::new(ErrorKind::WouldBlock, self.holder.clone()));
        };
        holder.clone_into(&mut self.holder);
        // An error is ignored: the text only serves messages of others, and the old one will do.
        let _ = write_holder(&file, holder);
        Ok(file)
    }
}

/// The locks that a process holds.
struct ProcessLocks {
    process: u32,
    locks: Mutex<BTreeMap<FileIdentity, ProcessLock>>,
    /// The locks of the process that this one was forked from. They are never read nor dropped: a
    /// thread of the parent, which does not exist here, may have been changing them.
    _of_parent: Option<Arc<ProcessLocks>>,
}

impl ProcessLocks {
    fn locks(&self) -> MutexGuard<'_, BTreeMap<FileIdentity, ProcessLock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the locks of this process. A forked child begins with none and with a new mutex: the
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

/// A lock that somebody in this process holds.
pub(super) struct OsLock {
    identity: FileIdentity,
    /// The locked file; `None` only while this value is dropped.
    file: Option<Arc<File>>,
    /// The process's table of locks, in which this one is entered.
    held: Arc<ProcessLocks>,
}

impl Lock for OsLock {}

impl OsLock {
    /// Takes the lock on the file at `path`, see [`super::fs::Fs::lock`].
    pub(super) fn take(path: &Path, hold: Hold, holder: &str) -> io::Result<OsLock> {
        OsLock::take_from(&mut identity_at, path, hold, holder)
    }

    /// Takes the lock with `identity_at`, which tells the identity of the file at a path.
    fn take_from(
        identity_at: &mut dyn FnMut(&Path) -> io::Result<Option<FileIdentity>>,
        path: &Path,
        hold: Hold,
        holder: &str,
    ) -> io::Result<OsLock> {
        let (held, holder) = (held(), &hold.text(holder));
        let mut locks = held.locks();
        for _ in 0..TRIES {
            if let Some(identity) = identity_at(path)?
                && let Some(taken) = locks.get_mut(&identity)
            {
                let file = Some(taken.join(hold, holder)?);
                drop(locks);
                return Ok(OsLock { identity, file, held });
            }
            let file = Arc::new(lock_file(path, hold, holder)?);
            let identity = identity(&file.metadata()?);
            // A former holder may have removed the file, so that the path now leads to another one.
            if identity_at(path)? == Some(identity)
                && let Entry::Vacant(free) = locks.entry(identity)
            {
                let holder = holder.to_owned();
                free.insert(ProcessLock { file: Arc::downgrade(&file), hold, holder });
                drop(locks);
                return Ok(OsLock { identity, file: Some(file), held });
            }
        }
        Err(io::Error::new(
            ErrorKind::WouldBlock,
            "somebody who replaces the lock file all the time",
        ))
    }
}

impl Drop for OsLock {
    fn drop(&mut self) {
        // A forked child has a copy of the descriptor, and unlocking it would release the parent's
        // lock. It only closes its copy.
        if self.held.process != std::process::id() {
            return;
        }
        let mut locks = self.held.locks();
        if let Some(file) = self.file.take().and_then(Arc::into_inner) {
            // Closing is not enough: a process that another thread is spawning has a copy of every
            // descriptor until it executes its program, and that copy would keep the lock.
            let _ = file.unlock();
            let entered = locks.remove(&self.identity);
            debug_assert!(entered.is_some(), "a lock is in the table for as long as it is held");
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
            // If a shared lock could be taken, the holders are readers.
            let is_shared = hold == Hold::Alone && file.try_lock_shared().is_ok();
            return Err(io::Error::new(ErrorKind::WouldBlock, who_holds(&file, is_shared)));
        }
        // Some media that can't be written to don't support locks either.
        Err(TryLockError::Error(error)) => return Err(refused.unwrap_or(error)),
    }
    if refused.is_none() {
        match (write_holder(&file, holder), hold) {
            (Err(error), Hold::Alone) => return Err(error),
            // Readers go on even where the disk is full.
            (Err(_), Hold::Shared) | (Ok(()), _) => {}
        }
    }
    Ok(file)
}

/// Opens the lock file. If it could be opened for reading only, the error of opening it for writing
/// is returned with it.
fn open(path: &Path, hold: Hold) -> io::Result<(File, Option<io::Error>)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let (file, refused) = match options.custom_flags(in_place()).open(path) {
        Ok(file) => (file, None),
        Err(refused) if reading_will_do(hold, refused.kind()) => {
            match OpenOptions::new().read(true).custom_flags(in_place()).open(path) {
                Ok(file) => (file, Some(refused)),
                Err(_) => return Err(refused),
            }
        }
        Err(refused) => return Err(explain_link(refused)),
    };
    check_ours(&file)?;
    Ok((file, refused))
}

/// Refuses a file that CleaveDB did not write, before anything is written to it.
fn check_ours(file: &File) -> io::Result<()> {
    let mut head = [0; LOCK_HEAD.len()];
    let is_file = file.metadata()?.is_file();
    let read = if is_file { file.read_at(&mut head, 0)? } else { 0 };
    if is_file && (LOCK_HEAD.as_bytes().starts_with(&head[..read]) || head == [0; LOCK_HEAD.len()])
    {
        // A system crash may have left only a part of the text, or zeroes.
        return Ok(());
    }
    let message = "this is not a lock file of CleaveDB; move it away, or choose another directory";
    Err(io::Error::new(ErrorKind::InvalidData, message))
}

/// Returns true if a lock file that was refused with `error` may be opened for reading instead.
fn reading_will_do(hold: Hold, error: ErrorKind) -> bool {
    let cannot_write = matches!(error, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    hold == Hold::Shared && cannot_write
}

/// Writes the holder's text to the lock file without a sync, as it only serves messages: after a
/// crash the system has released the lock, and the text no longer matters. The file is never empty
/// in between, so that others can read it at any time.
fn write_holder(file: &File, holder: &str) -> io::Result<()> {
    let text = [LOCK_HEAD, holder].concat();
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Returns the text about the holders in the lock file. If the lock is shared, but the text was not
/// written by a reader, it says that the readers are unknown.
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
        Ok(_) => match text.strip_prefix(LOCK_HEAD.as_bytes()) {
            Some(holder) => printable(&String::from_utf8_lossy(holder)),
            None => "somebody who has not said who".to_owned(),
        },
        Err(error) => format!("a holder whose name cannot be read: {error}"),
    }
}

/// Returns the text with all characters escaped that could control the terminal it is shown on.
fn printable(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c.is_ascii_punctuation() || c == ' ';
    let mut shown = String::new();
    for c in text.chars() {
        if is_plain(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    shown
}

/// Returns the identity of the file at `path`, if there is one. A link is not followed, as it is
/// refused later.
fn identity_at(path: &Path) -> io::Result<Option<FileIdentity>> {
    match fs::symlink_metadata(path) {
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
    fn what_a_lock_file_says_is_shown_as_plain_text() {
        let text = "process 7 (caf\u{e9} \\ \u{1b}[2J\n\u{202e}x)";
        let shown = "process 7 (caf\u{e9} \\ \\u{1b}[2J\\n\\u{202e}x)";
        assert_eq!(printable(text), shown);
    }

    /// Somebody else replaces the lock file whenever it was locked. Each try then locks a file that
    /// is not the database's any more, and without a bound the opening would go on for ever.
    #[test]
    fn a_lock_file_that_is_replaced_all_the_time_is_given_up() {
        let path = std::env::temp_dir().join(format!("cleavedb-locks-{}", std::process::id()));
        let mut replaced = 0;
        let mut replacing = |path: &Path| {
            if path.exists() {
                replaced += 1;
                fs::remove_file(path)?;
            }
            identity_at(path)
        };
        let error = OsLock::take_from(&mut replacing, &path, Hold::Alone, "a test").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(error.to_string().contains("replaces the lock file"), "{error}");
        assert_eq!(replaced, TRIES);
        // The tries left no lock behind, and once nobody interferes, the first one succeeds.
        let lock = OsLock::take(&path, Hold::Alone, "a test").unwrap();
        assert!(OsLock::take(&path, Hold::Shared, "another").is_err());
        drop(lock);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn who_reads_needs_no_file_to_write_to() {
        for error in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            assert!(reading_will_do(Hold::Shared, error));
            assert!(!reading_will_do(Hold::Alone, error));
        }
        assert!(!reading_will_do(Hold::Shared, ErrorKind::NotFound));
    }
}
