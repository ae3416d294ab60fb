//! Sorting of more than fits into memory: sorted files of a bounded part each, which an ingest
//! merges. Of several values of a key, the last counts.

use crate::open;
use cleavedb::{Error, IngestOptions, Keyspace, Result, SortedFileOptions, SortedFileWriter};
use std::fs;
use std::io::ErrorKind;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default of the memory that sorting takes, in MiB.
pub(crate) const MEMORY_MIB: u64 = 256;
/// The bytes of memory that a pair takes besides its own.
const PAIR_BYTES: usize = 64;
/// A load ingests its files once there are this many; one ingest takes at most a thousand.
const MOST_FILES: usize = 500;
/// What the names of directories for the files of a sort begin with.
const SCRATCH_PREFIX: &str = "sorting-";

/// The files of a sort.
pub(crate) struct SortedRuns {
    /// Returns the path of file number n.
    path_of: Box<dyn Fn(usize) -> PathBuf>,
    most_bytes: usize,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    files: Vec<PathBuf>,
}

impl SortedRuns {
    pub(crate) fn new(memory_mib: u64, path_of: impl Fn(usize) -> PathBuf + 'static) -> Self {
        let most_bytes = usize::try_from(memory_mib << 20).unwrap_or(usize::MAX);
        let (pairs, bytes, files) = (Vec::new(), 0, Vec::new());
        SortedRuns { path_of: Box::new(path_of), most_bytes, pairs, bytes, files }
    }

    pub(crate) fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.bytes += key.len() + value.len() + PAIR_BYTES;
        self.pairs.push((key, value));
        if self.bytes >= self.most_bytes { self.write() } else { Ok(()) }
    }

    /// Writes what is in memory to a file.
    fn write(&mut self) -> Result<()> {
        // The sort keeps equal keys in their order, so the last one comes last.
        self.pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let path = (self.path_of)(self.files.len());
        let mut file = SortedFileWriter::create(&path, &file_options())?;
        for (index, (key, value)) in self.pairs.iter().enumerate() {
            if self.pairs.get(index + 1).is_none_or(|next| next.0 != *key) {
                file.put(key, value)?;
            }
        }
        file.finish()?;
        self.files.push(path);
        self.pairs.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Returns the files written so far, in the order in which later ones count, and forgets them.
    fn take_files(&mut self) -> Vec<PathBuf> {
        mem::take(&mut self.files)
    }

    /// Writes the rest, and returns the files in the order in which later ones count.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        if !self.pairs.is_empty() {
            self.write()?;
        }
        Ok(self.files)
    }
}

/// Returns the options of all files of a sort: where keys were given, they are encrypted.
fn file_options() -> SortedFileOptions {
    match open::keys() {
        Some(keys) => SortedFileOptions::encrypted(Arc::new(keys)),
        None => SortedFileOptions::default(),
    }
}

/// A directory for the files of a sort. Dropping it removes it.
struct Scratch(PathBuf);

impl Scratch {
    /// Creates one in `temp`, under a name that is free there: a process of the same number may
    /// have left its own behind.
    fn create(temp: &Path) -> Result<Scratch> {
        let process = std::process::id();
        let mut number = 0u64;
        loop {
            let name = match number {
                0 => format!("{SCRATCH_PREFIX}{process}"),
                _ => format!("{SCRATCH_PREFIX}{process}-{number}"),
            };
            let dir = temp.join(name);
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Scratch(dir)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(Error::io("create a directory", &dir, error)),
            }
        }
    }
}

/// Removes the directories that loads left in that of their database when they were killed. The
/// caller has the database open, so no load uses them.
pub(crate) fn remove_leftovers(database: &Path) -> Result<()> {
    let failed = |error| Error::io("read the directory", database, error);
    for entry in fs::read_dir(database).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if is_scratch(&entry.file_name().to_string_lossy())
            && entry.file_type().map_err(failed)?.is_dir()
        {
            let dir = entry.path();
            fs::remove_dir_all(&dir).map_err(|error| Error::io("remove", &dir, error))?;
        }
    }
    Ok(())
}

/// Returns true if loads name their directories so: by a process, and a number. A program may keep
/// others beside a database.
fn is_scratch(name: &str) -> bool {
    let numbers = name.strip_prefix(SCRATCH_PREFIX).unwrap_or_default();
    !numbers.is_empty() && numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left behind; the next load makes a directory of its own.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Loads pairs by ingesting them: straight away as long as their keys ascend, sorted first from
/// then on.
pub(crate) struct SortedLoader<'a> {
    keyspace: &'a Keyspace,
    ingestion: Option<cleavedb::Ingestion<'a>>,
    last_key: Option<Vec<u8>>,
    temp: PathBuf,
    /// Removed only once all of it was ingested.
    scratch: Option<Scratch>,
    memory_mib: u64,
    runs: Option<SortedRuns>,
}

impl<'a> SortedLoader<'a> {
    pub(crate) fn new(keyspace: &'a Keyspace, temp: &Path, memory_mib: u64) -> Result<Self> {
        let ingestion = Some(keyspace.begin_ingest(&IngestOptions::default())?);
        Ok(SortedLoader {
            keyspace,
            ingestion,
            last_key: None,
            temp: temp.to_path_buf(),
            scratch: None,
            memory_mib,
            runs: None,
        })
    }

    pub(crate) fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        if let Some(runs) = &mut self.runs {
            runs.add(key, value)?;
            if runs.files.len() == MOST_FILES {
                let files = runs.take_files();
                return ingest_files(self.keyspace, files);
            }
            return Ok(());
        }
        let ascends = self.last_key.as_ref().is_none_or(|last| *last < key);
        if let Some(ingestion) = self.ingestion.as_mut().filter(|_| ascends) {
            ingestion.put(&key, &value)?;
            self.last_key = Some(key);
            return Ok(());
        }
        // What was in order takes effect first, so what follows counts.
        if let Some(ingestion) = self.ingestion.take() {
            ingestion.finish()?;
        }
        let dir = self.scratch.insert(Scratch::create(&self.temp)?).0.clone();
        let runs = SortedRuns::new(self.memory_mib, move |number| dir.join(number.to_string()));
        self.runs.insert(runs).add(key, value)
    }

    /// Has all that was not yet ingested take effect.
    pub(crate) fn finish(mut self) -> Result<()> {
        if let Some(ingestion) = self.ingestion.take() {
            ingestion.finish()?;
        }
        if let Some(runs) = self.runs.take() {
            ingest_files(self.keyspace, runs.finish()?)?;
        }
        Ok(())
    }
}

/// Has files of a sort take effect, and removes them.
fn ingest_files(keyspace: &Keyspace, files: Vec<PathBuf>) -> Result<()> {
    keyspace.ingest(&files, &IngestOptions::default())?;
    // The values lie beside them; what cannot be removed goes with the directory.
    for file in files {
        let values = file.with_extension("values");
        let _ = (fs::remove_file(&file), fs::remove_file(values));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More files than one ingest takes, and what a load left that was killed.
    #[test]
    fn more_files_than_one_ingest_takes_are_ingested_in_steps() {
        let dir = tempfile::tempdir().unwrap();
        let db = cleavedb::open(dir.path()).unwrap();
        let keyspace = db.default_keyspace();
        let leftover = dir.path().join("sorting-1-7");
        fs::create_dir(&leftover).unwrap();
        fs::write(leftover.join("0"), "").unwrap();
        let of_others = dir.path().join("sorting-hats");
        fs::create_dir(&of_others).unwrap();
        remove_leftovers(dir.path()).unwrap();
        assert!(!leftover.exists() && of_others.exists());
        fs::remove_dir(&of_others).unwrap();
        let mut loader = SortedLoader::new(&keyspace, dir.path(), 1).unwrap();
        loader.add(b"b".to_vec(), b"in order".to_vec()).unwrap();
        loader.add(b"a".to_vec(), vec![1; 5000]).unwrap();
        loader.runs.as_mut().unwrap().most_bytes = 1;
        for number in 0..MOST_FILES {
            let value = format!("{number}").into_bytes();
            loader.add(vec![b'a' + (number % 3) as u8], value).unwrap();
        }
        assert_eq!(db.stats().ingests, 2, "one in order, one when the files were too many");
        let left = fs::read_dir(&loader.scratch.as_ref().unwrap().0).unwrap().count();
        assert_eq!(left, 0, "files that were ingested are removed");
        loader.add(b"d".to_vec(), vec![2; 5000]).unwrap();
        loader.finish().unwrap();
        let found: Vec<_> = keyspace.keys().map(|key| key.unwrap()).collect();
        assert_eq!(found, [b"a", b"b", b"c", b"d"]);
        for number in MOST_FILES - 3..MOST_FILES {
            let value = keyspace.get([b'a' + (number % 3) as u8]).unwrap().unwrap();
            assert_eq!(value, number.to_string());
        }
        assert!(fs::read_dir(dir.path()).unwrap().all(|entry| {
            !entry.unwrap().file_name().to_string_lossy().starts_with(SCRATCH_PREFIX)
        }));
    }
}
