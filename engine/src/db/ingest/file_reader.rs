//! Reads sorted files, merged in the order of their keys.
//!
//! I7: the files may come from anywhere. Every block and every record is verified before it is
//! parsed, keys must ascend within each file, and in the end there must have been as many entries
//! as the file says. Whoever takes the entries lets nothing take effect before that.

use super::sorted_file::{NO_KEYSPACE, TABLE, VALUES, identity, values_path};
use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::expiry::Deadline;
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::seal::DatabaseIdentity;
use crate::cache::{BlockCache, OpenFiles};
use crate::env::Env;
use crate::env::key_provider::KeyProvider;
use crate::read::input::SortedRunIter;
use crate::read::level_iter::ReadMode;
use crate::read::merge::MergeIter;
use crate::segment::{Segment, SegmentIdentity, SegmentKind, read_head};
use crate::table::{Properties, Summary, Table, TableMeta, TableSource, TableStats};
use crate::version::files::PathSource;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most files of one ingest. Each takes some 300 KiB of memory to read ahead, and its index.
const MAX_FILES: usize = 1000;
/// The most descriptors of one ingest, well below the usual limit of a process. With more files,
/// some are opened again and again.
const OPEN_FILES: usize = 512;

/// An entry of a file.
pub(super) struct FileEntry<'a> {
    pub(super) key: &'a [u8],
    /// `None` for a deletion.
    pub(super) value: Option<Cow<'a, [u8]>>,
    pub(super) deadline: Option<Deadline>,
}

/// One file, with what was read of it so far.
struct SortedFile {
    path: PathBuf,
    summary: Arc<Summary>,
    values: Option<Segment>,
    is_encrypted: bool,
    last_key: Vec<u8>,
    entries: u64,
    key_bytes: u64,
    payload_bytes: u64,
}

/// Several files, merged. If they have a key twice, the later file counts.
pub(super) struct SortedFiles {
    order: KeyOrder,
    files: Vec<SortedFile>,
    /// The entries of file number n have the sequence number n + 1, so that those of later files
    /// come first.
    merged: MergeIter,
    is_begun: bool,
    last_key: Option<Vec<u8>>,
    repeated: u64,
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::corruption(what).in_file(path).advise("write the file anew")
}

/// A file that ends too early is damaged.
fn whole<T>(result: Result<T>, path: &Path) -> Result<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::Io if error.message().contains("too early") => {
            damaged(path, "the file ends too early")
        }
        ErrorKind::Corruption => error.in_file(path).advise("write the file anew"),
        _ => error,
    })
}

impl SortedFile {
    fn open(
        files: &Arc<OpenFiles>,
        path: &Path,
        order: &KeyOrder,
        seqno: SeqNo,
        keys: Option<&dyn KeyProvider>,
    ) -> Result<(Self, Arc<Table>)> {
        let file = files.get(path)?;
        let mut head = [0; HEADER_BYTES];
        whole(file.read_exact_at(&mut head, 0).doing("read", path), path)?;
        let head = whole(Header::decode(&head).map_err(|error| error.at(0)), path)?;
        if head.kind != FileKind::Table || head.file != TABLE.0 {
            return Err(damaged(path, "this is not a sorted file"));
        }
        let database = identity(&*file, path, head.database, keys)?;
        let properties = whole(Properties::read(&*file, path, &database, TABLE), path)?;
        if properties.owner.id != NO_KEYSPACE {
            return Err(damaged(path, "this is the table of a database, not a sorted file"));
        }
        if properties.comparator != order.name() {
            let (found, own) = (&properties.comparator, order.name());
            let message = format!("the file is ordered by {found:?}, the keyspace by {own:?}");
            let error = Error::invalid_option(message).in_file(path);
            return Err(error.advise("write the file with the keyspace's comparator"));
        }
        let summary = properties.summary.clone();
        let is_apart = summary.segments.keys().any(|segment| *segment != VALUES);
        if summary.max_seqno > 0 || is_apart {
            return Err(damaged(path, "the file's numbers are those of no sorted file"));
        }
        let meta = whole(TableMeta::read(&*file, path, &database, TABLE), path)?;
        let meta = Arc::new(meta.ingested(seqno)?);
        let source = TableSource {
            files: files.clone(),
            path: path.to_path_buf(),
            meta,
            database: database.clone(),
            order: order.clone(),
            cache: Arc::new(BlockCache::new(0)),
            stats: Arc::new(TableStats::default()),
        };
        let table = Arc::new(whole(Table::open(source), path)?);
        let values = match summary.segments.is_empty() {
            true => None,
            false => Some(open_values(files, path, &database)?),
        };
        let (path, last_key) = (path.to_path_buf(), Vec::new());
        let (entries, key_bytes, payload_bytes) = (0, 0, 0);
        let file = SortedFile {
            path,
            summary,
            values,
            is_encrypted: database.is_encrypted(),
            last_key,
            entries,
            key_bytes,
            payload_bytes,
        };
        Ok((file, table))
    }

    /// Counts an entry, and checks that it comes behind the one before.
    fn check(&mut self, order: &KeyOrder, key: &[u8], payload: &[u8]) -> Result<()> {
        if self.entries > 0 && order.compare(&self.last_key, key).is_ge() {
            return Err(damaged(&self.path, "the keys of the file do not ascend"));
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        self.key_bytes += key.len() as u64;
        self.payload_bytes += payload.len() as u64;
        Ok(())
    }

    /// Checks that all entries were read.
    fn check_end(&self) -> Result<()> {
        let Summary { entries, key_bytes, payload_bytes, .. } = &*self.summary;
        let found = (self.entries, self.key_bytes, self.payload_bytes);
        if found != (*entries, *key_bytes, *payload_bytes) {
            return Err(damaged(&self.path, "the file has not as many entries as it says"));
        }
        Ok(())
    }
}

fn open_values(
    files: &Arc<OpenFiles>,
    path: &Path,
    database: &DatabaseIdentity,
) -> Result<Segment> {
    let path = values_path(path);
    let file = files.get(&path)?;
    let head = whole(read_head(&*file, &path, database.id, VALUES), &path)?;
    let Some(head) = head.filter(|head| head.kind == SegmentKind::Sorted) else {
        return Err(damaged(&path, "the file has no values"));
    };
    if head.is_encrypted != database.is_encrypted() {
        return Err(damaged(&path, "the values are those of another file"));
    }
    let (id, kind, epoch) = (VALUES, SegmentKind::Sorted, head.epoch);
    let identity = SegmentIdentity { database: database.id, id, kind, epoch };
    let source = PathSource { files: files.clone(), path: path.clone() };
    Ok(Segment::open(identity, path, Arc::new(source)).sealed_by(database))
}

impl SortedFiles {
    /// Opens files, encrypted ones with a key of `keys`; nothing of their entries is read yet.
    pub(super) fn open(
        env: &Env,
        paths: &[PathBuf],
        order: &KeyOrder,
        keys: Option<&dyn KeyProvider>,
    ) -> Result<SortedFiles> {
        if paths.len() > MAX_FILES {
            let message = format!("{} files are over the limit of {MAX_FILES}", paths.len());
            return Err(Error::invalid_argument(message).advise("ingest them in several calls"));
        }
        let opened = Arc::new(OpenFiles::new(env.fs.clone(), OPEN_FILES));
        let (mut files, mut runs) = (Vec::new(), Vec::new());
        for (path, seqno) in paths.iter().zip(1..) {
            let (file, table) = SortedFile::open(&opened, path, order, seqno, keys)?;
            runs.push(SortedRunIter::Table(ReadMode::FullScan.iter(&table)));
            files.push(file);
        }
        let merged = MergeIter::new(order.clone(), runs);
        let (order, is_begun, last_key, repeated) = (order.clone(), false, None, 0);
        Ok(SortedFiles { order, files, merged, is_begun, last_key, repeated })
    }

    /// Returns how many of the files are not encrypted.
    pub(super) fn in_clear(&self) -> u64 {
        self.files.iter().filter(|file| !file.is_encrypted).count() as u64
    }

    /// Returns how many entries were left out because later files have their keys again.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns the next entry; `None` at the end, once all files have proven to be whole.
    pub(super) fn next(&mut self) -> Result<Option<FileEntry<'_>>> {
        loop {
            let moved =
                if self.is_begun { self.merged.next() } else { self.merged.seek_to_first() };
            moved?;
            self.is_begun = true;
            if !self.merged.valid() {
                self.files.iter().try_for_each(SortedFile::check_end)?;
                return Ok(None);
            }
            let (key, trailer) = (self.merged.user_key(), self.merged.trailer());
            let number = (trailer.seqno() as usize).wrapping_sub(1);
            let Some(file) = self.files.get_mut(number) else {
                return Err(Error::internal("an entry of no file was merged"));
            };
            file.check(&self.order, key, self.merged.payload())?;
            if let Some(last) = &self.last_key
                && self.order.compare(last, key).is_eq()
            {
                self.repeated += 1;
                continue;
            }
            match &mut self.last_key {
                Some(last) => {
                    last.clear();
                    last.extend_from_slice(key);
                }
                none => *none = Some(key.to_vec()),
            }
            break;
        }
        self.entry().map(Some)
    }

    /// Returns the current entry with its value.
    fn entry(&self) -> Result<FileEntry<'_>> {
        let (key, trailer) = (self.merged.user_key(), self.merged.trailer());
        let file = &self.files[trailer.seqno() as usize - 1];
        let payload = trailer.kind().and_then(|kind| Payload::decode(kind, self.merged.payload()));
        let Payload { is_merge, deadline, slot } = whole(payload, &file.path)?;
        if is_merge {
            return Err(damaged(&file.path, "it holds an operand, which no writer makes"));
        }
        let value = match slot {
            Slot::Delete => None,
            Slot::Inline(value) => Some(Cow::Borrowed(value)),
            Slot::Pointer(pointer) => {
                let Some(values) = &file.values else {
                    return Err(damaged(&file.path, "a value is in a file that is not there"));
                };
                let value = values.read_value(pointer, NO_KEYSPACE, key, 0);
                Some(Cow::Owned(whole(value, &file.path)?.into_vec()))
            }
        };
        Ok(FileEntry { key, value, deadline })
    }
}
