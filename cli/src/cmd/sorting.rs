//! Sorting of more than fits into memory: sorted files of a bounded part each, which an ingest
//! merges. Of several values of a key, the last counts.

use cleavedb::{Error, IngestOptions, Keyspace, Result, SortedFileOptions, SortedFileWriter};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The default of the memory that sorting takes, in MiB.
pub(crate) const MEMORY_MIB: u64 = 256;
/// The bytes of memory that a pair takes besides its own.
const PAIR_BYTES: usize = 64;

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
        let mut file = SortedFileWriter::create(&path, &SortedFileOptions::default())?;
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

    /// Writes the rest, and returns the files in the order in which later ones count.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        if !self.pairs.is_empty() {
            self.write()?;
        }
        Ok(self.files)
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
                0 => format!("sorting-{process}"),
                _ => format!("sorting-{process}-{number}"),
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
            return runs.add(key, value);
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
            self.keyspace.ingest(&runs.finish()?, &IngestOptions::default())?;
        }
        Ok(())
    }
}
