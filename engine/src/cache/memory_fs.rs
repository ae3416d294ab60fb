//! An in-memory file system for unit tests, with only what tables and caches need.

use crate::env::fs::{
    AccessPattern, Directory, File, Fs, Hold, Lock, NameKind, USUAL_READ_AHEAD_BYTES,
};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// An in-memory file that records the sizes of its writes, and how it is going to be read.
#[derive(Default)]
pub(crate) struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    pub(crate) writes: Mutex<Vec<usize>>,
    pub(crate) started_reads: Mutex<Vec<std::ops::Range<u64>>>,
    pub(crate) advice: Mutex<Vec<AccessPattern>>,
}

impl MemoryFile {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap();
        let end = offset as usize + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buf);
        self.writes.lock().unwrap().push(buf.len());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn start_writeback(&self, _offset: u64, _len: u64) {}

    fn start_read(&self, offset: u64, len: u64) {
        self.started_reads.lock().unwrap().push(offset..offset + len);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn punch(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }

    fn links(&self) -> io::Result<u64> {
        Ok(1)
    }

    fn advise(&self, advice: AccessPattern) {
        self.advice.lock().unwrap().push(advice);
    }

    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// Named in-memory files. Methods that tests of this floor never call return `Unsupported`.
#[derive(Default)]
pub(crate) struct MemoryFs {
    files: Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>,
    /// How far files are read ahead, unless it is as usual.
    read_ahead: Option<u64>,
}

impl MemoryFs {
    /// Makes a file system that reads so many bytes ahead.
    pub(crate) fn reading_ahead(bytes: u64) -> Self {
        MemoryFs { read_ahead: Some(bytes), ..MemoryFs::default() }
    }

    pub(crate) fn file(&self, path: &Path) -> Arc<MemoryFile> {
        self.files.lock().unwrap().get(path).expect("the test created it").clone()
    }

    /// Replaces the file at `path` by a new file with these bytes.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        let file = MemoryFile { bytes: Mutex::new(bytes), ..MemoryFile::default() };
        self.files.lock().unwrap().insert(path.to_path_buf(), Arc::new(file));
    }
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Fs for MemoryFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.put(path, Vec::new());
        self.open(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let files = self.files.lock().unwrap();
        let file = files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::clone(file) as Arc<dyn File>)
    }

    fn read_ahead_bytes(&self, _path: &Path) -> u64 {
        self.read_ahead.unwrap_or(USUAL_READ_AHEAD_BYTES)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unsupported()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.files.lock().unwrap().remove(path);
        removed.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn hard_link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unsupported()
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        unsupported()
    }

    fn open_dir(&self, _path: &Path) -> io::Result<Box<dyn Directory>> {
        unsupported()
    }

    fn kind(&self, _path: &Path) -> io::Result<Option<NameKind>> {
        unsupported()
    }

    fn list(&self, _path: &Path) -> io::Result<Vec<PathBuf>> {
        unsupported()
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.files.lock().unwrap().contains_key(path))
    }

    fn free_space(&self, _path: &Path) -> io::Result<u64> {
        unsupported()
    }

    fn lock(&self, _path: &Path, _hold: Hold, _holder: &str) -> io::Result<Box<dyn Lock>> {
        unsupported()
    }
}
