//! The files of a directory of LevelDB or RocksDB beside its tables: the lock, CURRENT, and logs.

use crate::text::human_bytes;
use cleavedb::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// CURRENT has a line, and the options of RocksDB some hundred for each column family.
const MAX_TEXT_BYTES: u64 = 64 << 20;
/// A log has about as many bytes as a memtable, and a manifest some for each table.
pub(super) const MAX_LOG_BYTES: u64 = 8 << 30;

/// The lock that keeps a program from opening the store while it is read. It goes with the
/// process's first close of the file, so nothing else may open LOCK until this is dropped.
pub(crate) struct ForeignLock(#[expect(dead_code, reason = "held until it is dropped")] File);

impl ForeignLock {
    /// Locks a store as its own library does, but shared, so that it need not be writable. A copy
    /// may lack the file, and then nobody has it open.
    pub(crate) fn hold(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("LOCK");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Some(ForeignLock(file))),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                let what = "another process has this store open";
                Err(Error::new(ErrorKind::Locked, what)
                    .in_file(dir)
                    .advise("close it there, or import a copy that was made while it was closed"))
            }
            Err(errno) => Err(Error::io("lock", &path, errno.into())),
        }
    }
}

/// Reads a file as a whole, which must not be longer than `most` bytes.
pub(crate) fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>> {
    let failed = |error| Error::io("read", path, error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 <= most {
        return Ok(bytes);
    }
    Err(Error::corruption(format!("the file is longer than {}", human_bytes(most))).in_file(path))
}

/// Returns the path of the manifest in force.
pub(crate) fn manifest_path(dir: &Path) -> Result<PathBuf> {
    let current = dir.join("CURRENT");
    let text = read_whole(&current, MAX_TEXT_BYTES)?;
    let name = text.strip_suffix(b"\n").filter(|name| file_number(name, "MANIFEST-", "").is_some());
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| {
        Error::corruption("CURRENT does not name a manifest").in_file(&current).at(0)
    })?;
    Ok(dir.join(name))
}

/// Returns the number between the two ends of a name.
fn file_number(name: &[u8], begin: &str, end: &str) -> Option<u64> {
    let digits = name.strip_prefix(begin.as_bytes())?.strip_suffix(end.as_bytes())?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// Returns the write-ahead logs with their numbers, in ascending order.
pub(crate) fn logs(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut logs = numbered(dir, "", ".log")?;
    logs.sort();
    Ok(logs)
}

fn numbered(dir: &Path, begin: &str, end: &str) -> Result<Vec<(u64, PathBuf)>> {
    let failed = |error| Error::io("list this directory", dir, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Some(number) = file_number(entry.file_name().as_encoded_bytes(), begin, end) {
            found.push((number, entry.path()));
        }
    }
    Ok(found)
}

/// Fails if RocksDB's logs from this number on are in another directory. They are not read there,
/// because a copy of a store still names that of the original.
pub(crate) fn check_log_dir(dir: &Path, first: u64) -> Result<()> {
    if !logs(dir)?.is_empty() {
        return Ok(());
    }
    let Some((_, options)) = numbered(dir, "OPTIONS-", "")?.into_iter().max() else {
        return Ok(());
    };
    let text = read_whole(&options, MAX_TEXT_BYTES)?;
    let text = String::from_utf8_lossy(&text);
    let named = text.lines().find_map(|line| line.trim().strip_prefix("wal_dir="));
    let Some(named) = named.map(Path::new).filter(|named| named.is_dir()) else { return Ok(()) };
    if logs(named)?.iter().all(|(number, _)| *number < first) {
        return Ok(());
    }
    Err(Error::unsupported("the logs of the store are in another directory")
        .in_file(named)
        .advise("copy its files with the ending .log beside the tables, and import again"))
}
