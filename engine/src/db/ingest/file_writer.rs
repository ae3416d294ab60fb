//! Writes sorted files outside of a database, to be ingested later.
//!
//! The files get their names only when they are complete and synced, the table last. A crash before
//! leaves files whose names end in `.unfinished`, or a segment without its table: neither can be
//! ingested, and the next writer for that path replaces the former.

use super::sorted_file::{NO_KEYSPACE, TABLE, VALUES, new_identity, unfinished, values_path};
use crate::base::compression::{Codec, compress};
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, IoContext, Result, shown_key};
use crate::base::expiry::Deadline;
use crate::base::key::{Comparator, KeyOrder, Trailer};
use crate::base::pointer::ValuePointer;
use crate::base::seal::DatabaseIdentity;
use crate::commit::batch::{check_key, check_value};
use crate::env::clock::{SystemTime, since_1970};
use crate::env::fs::{File, parent_of};
use crate::env::key_provider::KeyProvider;
use crate::env::{Env, OsSettings};
use crate::segment::{
    RecordInput, RecordKind, RecordSeal, SegmentIdentity, SegmentKind, SortedWriter,
};
use crate::table::{TableOwner, TableSettings, TableWriter};
use crate::version::settings::KeyspaceOptions;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of a block in a sorted file, in bytes. It is read from front to back only.
const BLOCK_BYTES: usize = 32 << 10;

/// The settings of a sorted file. Keyspaces with any settings can ingest it: these decide anew
/// which values are large, and how they are compressed. Only the order of the keys must be the
/// same.
///
/// ```
/// use cleavedb::{Codec, SortedFileOptions};
/// let options = SortedFileOptions { codec: Codec::None, ..SortedFileOptions::default() };
/// assert_eq!(options.separation_threshold, 1024);
/// ```
#[derive(Clone)]
pub struct SortedFileOptions {
    /// The order of the keys: byte order, the default, or that of a comparator.
    pub comparator: Option<Arc<dyn Comparator>>,
    /// Values of this length in bytes and more are written to a file of their own, beside the
    /// keys. Default 1024.
    pub separation_threshold: usize,
    /// Where the key comes from that encrypts the file; its first one is taken. A database that is
    /// opened with that key, be it a former one, can ingest the file. Default `None`: keys and
    /// values can be read by anybody who can read the file, also if an encrypted database is to
    /// ingest it. [`SortedFileOptions::encrypted`] has an example.
    pub encryption: Option<Arc<dyn KeyProvider>>,
    /// The codec of blocks of keys and small values, and of large values; default LZ4.
    pub codec: Codec,
}

impl Default for SortedFileOptions {
    fn default() -> Self {
        let KeyspaceOptions { separation_threshold, block_codec, .. } = KeyspaceOptions::default();
        let (comparator, encryption, codec) = (None, None, block_codec);
        SortedFileOptions { comparator, separation_threshold, encryption, codec }
    }
}

impl SortedFileOptions {
    /// Returns the defaults with encryption by a key.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("sorted-file-encryption");
    /// use cleavedb::{Db, EncryptionKey, IngestOptions, SortedFileOptions, SortedFileWriter};
    /// use std::sync::Arc;
    /// let key = Arc::new(EncryptionKey::new([7; 32]));
    /// let db = Db::builder(dir.join("store")).encryption(key.clone()).open()?;
    /// let mut file = SortedFileWriter::create(dir.join("a"), &SortedFileOptions::encrypted(key))?;
    /// file.put("name", "unreadable on the disk")?;
    /// file.finish()?;
    /// let report = db.default_keyspace().ingest(&[dir.join("a")], &IngestOptions::default())?;
    /// assert_eq!((report.entries, report.files_in_clear), (1, 0));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn encrypted(provider: Arc<dyn KeyProvider>) -> Self {
        SortedFileOptions { encryption: Some(provider), ..Self::default() }
    }
}

impl fmt::Debug for SortedFileOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedFileOptions")
            .field("comparator", &self.comparator.as_ref().map(|it| it.name().to_owned()))
            .field("separation_threshold", &self.separation_threshold)
            .field("is_encrypted", &self.encryption.is_some())
            .field("codec", &self.codec)
            .finish()
    }
}

/// What was written to a sorted file. [`SortedFileWriter::finish`] has an example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SortedFileReport {
    /// The number of keys, deletions included.
    pub entries: u64,
    /// The bytes of the file, and of the one with the large values.
    pub bytes: u64,
}

struct Values {
    writer: SortedWriter,
    file: Arc<dyn File>,
}

/// Writes keys in ascending order to a file outside of any database; [`Keyspace::ingest`] takes it.
/// Any number of writers can be at work, in any programs: so data can be prepared in parallel, and
/// on other machines.
///
/// Where values are large, there is a second file, with the same name and `.values` behind it. They
/// belong together: rename or move both.
///
/// ```
/// # let dir = cleavedb::doc_dir("sorted-file-writer");
/// # let db = cleavedb::open(&dir)?;
/// use cleavedb::{IngestOptions, SortedFileOptions, SortedFileWriter};
/// let mut file = SortedFileWriter::create(dir.join("a"), &SortedFileOptions::default())?;
/// file.put("one", "eins")?;
/// file.delete("two")?;
/// assert!(file.put("old", "not in order").is_err());
/// file.finish()?;
/// db.default_keyspace().ingest(&[dir.join("a")], &IngestOptions::default())?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
///
/// [`Keyspace::ingest`]: crate::Keyspace::ingest
pub struct SortedFileWriter {
    env: Env,
    path: PathBuf,
    database: DatabaseIdentity,
    threshold: usize,
    codec: Codec,
    order: KeyOrder,
    /// `None` once it was finished.
    table: Option<(TableWriter, Arc<dyn File>)>,
    values: Option<Values>,
    last_key: Option<Vec<u8>>,
    entries: u64,
    stored: Vec<u8>,
    failed: Option<Error>,
}

impl fmt::Debug for SortedFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortedFileWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Creates a file that may have been left unfinished before.
fn create_anew(env: &Env, path: &Path) -> Result<Arc<dyn File>> {
    let path = unfinished(path);
    if env.fs.exists(&path).doing("look for", &path)? {
        env.fs.remove(&path).doing("remove an unfinished file", &path)?;
    }
    env.fs.create(&path).doing("create a sorted file", &path)
}

impl SortedFileWriter {
    /// Begins a file at `path`, where there must be none.
    pub fn create(path: impl AsRef<Path>, options: &SortedFileOptions) -> Result<Self> {
        Self::begin(Env::os(&OsSettings::default()), path.as_ref(), options)
    }

    /// Begins a file in an environment.
    #[cfg(feature = "sim")]
    #[doc(hidden)]
    pub fn create_in(
        env: Env,
        path: impl AsRef<Path>,
        options: &SortedFileOptions,
    ) -> Result<Self> {
        Self::begin(env, path.as_ref(), options)
    }

    fn begin(env: Env, path: &Path, options: &SortedFileOptions) -> Result<Self> {
        let path = path.to_path_buf();
        for taken in [&path, &values_path(&path)] {
            if env.fs.exists(taken).doing("look for", taken)? {
                return Err(Error::already_exists("there is a file of that name already")
                    .in_file(taken)
                    .advise("remove it, or choose another name"));
            }
        }
        let database = new_identity(&env, options.encryption.as_deref())?;
        let file = create_anew(&env, &path)?;
        let order = match &options.comparator {
            Some(comparator) => KeyOrder::Custom(comparator.clone()),
            None => KeyOrder::Bytewise,
        };
        let codec = options.codec;
        let settings = TableSettings { block_bytes: BLOCK_BYTES, codec, filter_bits_per_key: 0 };
        let (id, name) = (NO_KEYSPACE, String::new());
        let owner = TableOwner { id, name, merge_operator: None, flushed: 0 };
        let shown = unfinished(&path);
        let table = TableWriter::create(
            file.clone(),
            shown,
            TABLE,
            &database,
            owner,
            order.clone(),
            settings,
        )?;
        Ok(SortedFileWriter {
            env,
            path,
            database,
            threshold: options.separation_threshold,
            codec,
            order,
            table: Some((table, file)),
            values: None,
            last_key: None,
            entries: 0,
            stored: Vec::new(),
            failed: None,
        })
    }

    /// Puts a value under a key that comes behind all before.
    ///
    /// Fails with [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the key does
    /// not come behind the one before, or if key or value are too large; then it is left out, and
    /// the file can go on. Any other error is final.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Some(value.as_ref()), None)
    }

    /// Puts a value that expires at `time`. One without a time gets the default of the keyspace
    /// that ingests it.
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        let millis = u64::try_from(since_1970(time).as_millis()).unwrap_or(u64::MAX);
        self.add(key.as_ref(), Some(value.as_ref()), Some(Deadline(millis)))
    }

    /// Deletes a key that comes behind all before.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), None, None)
    }

    fn add(&mut self, key: &[u8], value: Option<&[u8]>, deadline: Option<Deadline>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        check_key(key)?;
        value.map_or(Ok(()), check_value)?;
        if let Some(last) = &self.last_key
            && self.order.compare(last, key).is_ge()
        {
            let (last, key) = (shown_key(last), shown_key(key));
            return Err(Error::invalid_argument(format!(
                "the key {key} does not come behind {last}, which was written before it"
            ))
            .in_file(&self.path)
            .advise("sort the keys, each of them once"));
        }
        match &mut self.last_key {
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            none => *none = Some(key.to_vec()),
        }
        let written = self.write(key, value, deadline);
        written.inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn write(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        deadline: Option<Deadline>,
    ) -> Result<()> {
        let slot = match value {
            None => Slot::Delete,
            Some(value) if value.len() >= self.threshold => {
                Slot::Pointer(self.write_value(key, value, deadline)?)
            }
            Some(value) => Slot::Inline(value),
        };
        let payload = Payload { deadline, ..slot.into() };
        self.stored.clear();
        payload.encode(&mut self.stored);
        let (table, _) = self.table.as_mut().expect("it is taken by `finish` only");
        table.add(key, Trailer::new(0, payload.kind()), &self.stored)?;
        self.entries += 1;
        Ok(())
    }

    fn write_value(
        &mut self,
        key: &[u8],
        value: &[u8],
        deadline: Option<Deadline>,
    ) -> Result<ValuePointer> {
        if self.values.is_none() {
            let path = values_path(&self.path);
            let file = create_anew(&self.env, &path)?;
            let epoch = self.env.random.next_u64();
            let (database, kind) = (self.database.id, SegmentKind::Sorted);
            let identity = SegmentIdentity { database, id: VALUES, kind, epoch };
            let seal = RecordSeal::of(&self.database, VALUES, epoch);
            let writer = SortedWriter::create(file.clone(), &unfinished(&path), identity, seal)?;
            self.values = Some(Values { writer, file });
        }
        let values = self.values.as_mut().expect("created just now");
        let compressed = compress(self.codec, value);
        let (codec, stored) = match &compressed {
            Some((codec, bytes)) => (*codec, bytes.as_slice()),
            None => (Codec::None, value),
        };
        let record = RecordInput {
            kind: RecordKind::Put,
            keyspace: NO_KEYSPACE,
            codec,
            raw_len: value.len() as u32,
            deadline,
            key,
            value: stored,
        };
        values.writer.add(&record, 0)
    }

    /// Completes the file: from now on it is on the device under its name. A file without keys is
    /// an error, and there is none then.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("sorted-file-finish");
    /// use cleavedb::{SortedFileOptions, SortedFileWriter};
    /// # let _db = cleavedb::open(&dir)?;
    /// let mut file = SortedFileWriter::create(dir.join("file"), &SortedFileOptions::default())?;
    /// file.put("key", "value")?;
    /// assert_eq!(file.finish()?.entries, 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn finish(mut self) -> Result<SortedFileReport> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.entries == 0 {
            return Err(
                Error::invalid_argument("a sorted file needs at least one key").in_file(&self.path)
            );
        }
        let report = self.complete();
        report.inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn complete(&mut self) -> Result<SortedFileReport> {
        let (table, file) = self.table.take().expect("it is taken here only");
        let mut bytes = table.finish()?.bytes;
        file.sync().doing("sync a sorted file", &self.path)?;
        if let Some(Values { writer, file }) = self.values.take() {
            let path = values_path(&self.path);
            bytes += writer.finish()?;
            file.sync().doing("sync a sorted file", &path)?;
            // A crash from here on leaves values without keys, which nothing takes for a file.
            self.env.fs.rename(&unfinished(&path), &path).doing("rename a sorted file", &path)?;
            self.sync_dir()?;
        }
        let path = &self.path;
        self.env.fs.rename(&unfinished(path), path).doing("rename a sorted file", path)?;
        // A crash before this is durable leaves the file unfinished or complete.
        self.sync_dir()?;
        Ok(SortedFileReport { entries: self.entries, bytes })
    }

    fn sync_dir(&self) -> Result<()> {
        let dir = parent_of(&self.path);
        self.env.fs.sync_dir(dir).doing("sync the directory", dir)
    }
}

impl Drop for SortedFileWriter {
    fn drop(&mut self) {
        // What is complete has another name by now. What cannot be removed is replaced by the next
        // writer.
        for path in [self.path.clone(), values_path(&self.path)] {
            let _ = self.env.fs.remove(&unfinished(&path));
        }
    }
}
