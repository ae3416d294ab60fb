//! Ingest: sorted data comes straight into tables, without log and memtables, and takes effect at
//! once.
//!
//! | file | what |
//! |---|---|
//! | `ingestion.rs` | takes keys in order and writes the tables |
//! | `existing.rs` | leaves out keys that have a value already |
//! | `install.rs` | has the tables take effect |
//! | `sorted_file.rs` | the files that are written outside of a database |
//! | `file_writer.rs`, `file_reader.rs` | write such a file; read several, merged |

mod existing;
mod file_reader;
mod file_writer;
mod ingestion;
mod install;
pub(crate) mod sorted_file;

pub use file_writer::{SortedFileOptions, SortedFileReport, SortedFileWriter};
pub use ingestion::Ingestion;

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::db::keyspace::Keyspace;
use file_reader::{FileEntry, SortedFiles};
use std::path::Path;

/// Reads a sorted file to its end, and calls `each` with its keys.
#[cfg(fuzzing)]
pub(crate) fn read_sorted_file(
    env: &crate::env::Env,
    path: &Path,
    mut each: impl FnMut(&[u8]),
) -> Result<()> {
    let order = crate::base::key::KeyOrder::Bytewise;
    let mut files = SortedFiles::open(env, &[path.to_path_buf()], &order, None)?;
    while let Some(entry) = files.next()? {
        each(entry.key);
    }
    Ok(())
}

/// The options of an ingest.
///
/// ```
/// # let dir = cleavedb::doc_dir("ingest-options");
/// # let words = cleavedb::open(&dir)?.default_keyspace();
/// use cleavedb::IngestOptions;
/// words.put("one", "uno")?;
/// let below = IngestOptions::new().below(true);
/// let report = words.ingest_sorted_with([("one", "eins"), ("two", "zwei")], &below)?;
/// assert_eq!((report.entries, report.skipped), (1, 1));
/// assert_eq!(words.get("one")?.unwrap(), "uno");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IngestOptions {
    /// Leaves keys as they are that have a value already, and deletions out. Default false: what is
    /// ingested replaces what was there.
    ///
    /// A key has a value already if it has one when the ingest takes effect. It may also be left
    /// out if it had one at some time between [`Ingestion::finish`] and then, or was written in
    /// that time. A deleted key and an expired value do not count. The check reads the keys of the
    /// range once, and again if somebody writes there meanwhile; after three such rounds, writers
    /// to the keyspace wait for the next one, however long the range is.
    pub below: bool,
}

impl IngestOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`IngestOptions::below`].
    #[must_use]
    pub fn below(mut self, below: bool) -> Self {
        self.below = below;
        self
    }
}

/// What an ingest has done. [`Keyspace::ingest_sorted`] has an example.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// The sequence number of all that was ingested, or `None` if there was nothing to ingest.
    pub seqno: Option<SeqNo>,
    /// The keys that were ingested, deletions included.
    pub entries: u64,
    /// The keys that were left out because of [`IngestOptions::below`], and those that a later file
    /// has again.
    pub skipped: u64,
    /// The tables that were added.
    pub tables: u64,
    /// Their bytes, and those of the segments with the separated values.
    pub bytes_written: u64,
    /// The highest level that got a table: 0 if older data in L0 stood in the way.
    pub level: usize,
    /// The files whose keys and values anybody can read who can read the files, although the
    /// database is encrypted: remove them, or write them with [`SortedFileOptions::encryption`].
    /// 0 if the database is not encrypted.
    pub files_in_clear: u64,
}

impl Keyspace {
    /// Ingests pairs in ascending order of their keys: they go straight to tables, large values to
    /// sorted segments, without the log and the memtables. All of them take effect at once, or, if
    /// the call fails or the process ends, none. Only after an error that turned the database
    /// read-only, it is not known before the next opening which of the two it is.
    ///
    /// What is ingested replaces what keys had before. Readers and snapshots from before do not see
    /// it; to transactions it is a write of all keys from the first to the last, and the change
    /// feed tells of it as [`Changed::Ingested`](crate::Changed::Ingested). It is durable when the
    /// call returns, whatever the database's durability is. A keyspace's default for expiry counts
    /// as for puts.
    ///
    /// Costs one write of the data, with the speed of the device or of a processor, and at the end
    /// one sync of the log and one edit of the manifest, for which all writers wait. The memtables
    /// of the keyspace are flushed if they have keys between the first and the last. Otherwise
    /// writers go on; if some keep writing to that range, all that write to the keyspace wait at
    /// the end for a small flush ([`StallReason::Ingest`](crate::StallReason::Ingest)).
    ///
    /// Each table goes to the deepest level in which nothing of its range is above or beside it.
    /// Over older data that is L0 as often as not ([`IngestReport::level`] tells): the ingest is
    /// one more sorted run there, until compactions have moved it down, a large one piece by piece.
    /// Writers that fill L0 in the meantime wait for that.
    ///
    /// While it writes, an ingest is held up as a put of as many bytes is.
    ///
    /// Fails with [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if a key does
    /// not come behind the one before it, and otherwise as [`Keyspace::put`].
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("ingest-sorted"))?.default_keyspace();
    /// let squares = (0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_string()));
    /// let report = words.ingest_sorted(squares)?;
    /// assert_eq!(report.entries, 1000);
    /// assert_eq!(words.get(7u32.to_be_bytes())?.unwrap(), "49");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn ingest_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        self.ingest_sorted_with(pairs, &IngestOptions::default())
    }

    /// Ingests pairs as [`Keyspace::ingest_sorted`] does, with options. [`IngestOptions`] has an
    /// example.
    pub fn ingest_sorted_with<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
        options: &IngestOptions,
    ) -> Result<IngestReport> {
        let mut ingestion = self.begin_ingest(options)?;
        for (key, value) in pairs {
            ingestion.put(key, value)?;
        }
        ingestion.finish()
    }

    /// Begins an ingest into which keys are put one by one, in ascending order. Nothing is seen of
    /// it before [`Ingestion::finish`]; dropping it gives it up.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("begin-ingest"))?.default_keyspace();
    /// use cleavedb::IngestOptions;
    /// words.put("old", "")?;
    /// let mut ingestion = words.begin_ingest(&IngestOptions::default())?;
    /// ingestion.put("new", "value")?;
    /// ingestion.delete("old")?;
    /// assert!(words.get("new")?.is_none());
    /// ingestion.finish()?;
    /// assert_eq!(words.get("new")?.unwrap(), "value");
    /// assert!(words.get("old")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn begin_ingest(&self, options: &IngestOptions) -> Result<Ingestion<'_>> {
        Ingestion::begin(self, options.clone())
    }

    /// Ingests files that a [`SortedFileWriter`] has written, as [`Keyspace::ingest_sorted`] does.
    /// The files stay as they are. If several have the same key, the one that is named last counts.
    ///
    /// Costs a read of the files besides. Every byte is verified before anything takes effect: a
    /// damaged file is [`ErrorKind::Corruption`](crate::ErrorKind::Corruption), and a file in
    /// another order of keys than the keyspace's, or one that is encrypted with a key which the
    /// database was not opened with, is
    /// [`ErrorKind::InvalidOption`](crate::ErrorKind::InvalidOption).
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("ingest-files");
    /// use cleavedb::{IngestOptions, SortedFileOptions, SortedFileWriter};
    /// let db = cleavedb::open(&dir)?;
    /// let path = dir.join("words.sorted");
    /// let mut file = SortedFileWriter::create(&path, &SortedFileOptions::default())?;
    /// file.put("one", "eins")?;
    /// file.put("two", "zwei")?;
    /// file.finish()?;
    /// let words = db.default_keyspace();
    /// words.ingest(&[path], &IngestOptions::default())?;
    /// assert_eq!(words.get("two")?.unwrap(), "zwei");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn ingest<P: AsRef<Path>>(
        &self,
        files: &[P],
        options: &IngestOptions,
    ) -> Result<IngestReport> {
        let mut ingestion = self.begin_ingest(options)?;
        let paths: Vec<_> = files.iter().map(|path| path.as_ref().to_path_buf()).collect();
        let core = &self.core;
        let keys = core.keys.as_deref();
        let mut files = SortedFiles::open(&core.env, &paths, &self.state.order, keys)?;
        while let Some(entry) = files.next()? {
            let FileEntry { key, value, deadline } = entry;
            ingestion.add(key, value.as_deref(), deadline)?;
        }
        ingestion.skipped += files.repeated();
        let files_in_clear = if keys.is_some() { files.in_clear() } else { 0 };
        let report = ingestion.finish()?;
        Ok(IngestReport { files_in_clear, ..report })
    }
}
