//! Reads a manifest record by record.
//!
//! Nothing in a file is used before its checksum holds, not even a length: a sparse file can claim
//! any length. So a record is hashed piece by piece first, and memory for all of it is allocated
//! only after its checksum was verified. At most one record and one piece are held.

use crate::base::checksum::{RunningHash, seed};
use crate::base::coding::Reader;
use crate::base::error::{Error, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::memory::zeroed;
use crate::base::seal::{
    DatabaseIdentity, FileCipher, SALT_BYTES, TAG_BYTES, nonce, wrong_encryption,
};
use crate::env::Env;
use crate::env::fs::File;
use crate::version::edit::Edit;
use crate::version::manifest::{MAX_EDIT_BYTES, RECORD_HEAD};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of one read in bytes.
const PIECE_BYTES: usize = 256 << 10;
/// The greatest length of a manifest in bytes. None is longer: a manifest is rewritten once it is
/// several times as large as its state, and no state is longer than an eighth of this. That of a
/// terabyte of values of 1 KiB takes a gigabyte.
pub(super) const MAX_MANIFEST_BYTES: u64 = 64 << 30;
/// The bytes that a search hashes before it gives up, at least.
const MAX_SEARCH_BYTES: u64 = 4 << 30;
/// How often a search hashes each byte of a file before it gives up, on average. A crash leaves a
/// part of one record, in which a search looks at each place for the head of another. In many of
/// them four bytes look like the length of a record, some megabytes of a long edit, and in few of
/// these the payload also looks like an edit and is hashed: some hundred times each byte.
const MAX_SEARCHES: u64 = 1024;
/// A record is looked for only if fewer records than this were cut off in its place before, which
/// takes hours of a full disk. In an encrypted database that is all of a payload that shows.
const MAX_CUT: u32 = 1 << 24;
/// The bytes that are looked at to tell whether they may begin an edit.
const LOOK_BYTES: u64 = 16 << 10;

/// The bytes that end the payload of an encrypted record: the tag, and a number of the nonce.
const SEAL_BYTES: usize = TAG_BYTES + 4;

/// Decrypts in place the payload of the record at `offset`.
fn open(cipher: &FileCipher, offset: u64, payload: &mut [u8]) -> Result<()> {
    let short = || Error::corruption("an edit is shorter than its tag");
    let (rest, cut) = payload.split_last_chunk_mut::<4>().ok_or_else(short)?;
    let (sealed, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or_else(short)?;
    cipher.open_with(&nonce(offset, u32::from_le_bytes(*cut)), &[], sealed, tag)
}

/// A record as its head describes it, which was not verified.
struct ClaimedRecord {
    /// The offset of the payload.
    start: u64,
    /// The length of the payload in bytes.
    length: u64,
    /// The checksum of the payload.
    sum: u32,
}

/// A manifest that is open for reading.
pub struct ManifestReader {
    file: Arc<dyn File>,
    path: PathBuf,
    header: Header,
    len: u64,
    piece: Vec<u8>,
    /// The offset where the piece begins.
    piece_at: u64,
    patience: u64,
    cipher: Option<FileCipher>,
    /// The offset of the first record.
    first: u64,
}

impl ManifestReader {
    /// Opens the manifest at `path` and verifies its header. The caller checks the header's ids.
    pub fn open(env: &Env, path: &Path, database: &DatabaseIdentity) -> Result<ManifestReader> {
        let file = env.fs.open(path).doing("open", path)?;
        let len = file.len().doing("measure", path)?;
        if len > MAX_MANIFEST_BYTES {
            let message = format!("no manifest has {len} bytes");
            return Err(Error::corruption(message).in_file(path));
        }
        let mut head = vec![0; HEADER_BYTES.min(usize::try_from(len).unwrap_or(HEADER_BYTES))];
        file.read_exact_at(&mut head, 0).doing("read", path)?;
        let header = Header::decode(&head).map_err(|error| error.in_file(path))?;
        if header.is_encrypted != database.is_encrypted() {
            return Err(wrong_encryption(database, "the manifest").in_file(path));
        }
        let (mut cipher, mut first) = (None, HEADER_BYTES as u64);
        if database.is_encrypted() && len >= first + SALT_BYTES as u64 {
            let mut salt = [0; SALT_BYTES];
            file.read_exact_at(&mut salt, first).doing("read", path)?;
            cipher = database.cipher(FileKind::Manifest, header.file, &salt);
            first += SALT_BYTES as u64;
        }
        let (piece, path) = (Vec::new(), path.to_path_buf());
        let patience = len.saturating_mul(MAX_SEARCHES).max(MAX_SEARCH_BYTES);
        let piece_at = 0;
        Ok(ManifestReader { file, path, header, len, piece, piece_at, patience, cipher, first })
    }

    /// Returns the length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.len
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the offset of the first record.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the length in bytes of the record with this payload.
    pub fn record_bytes(&self, payload: &[u8]) -> u64 {
        let seal_bytes = if self.cipher.is_some() { SEAL_BYTES } else { 0 };
        (RECORD_HEAD + payload.len() + seal_bytes) as u64
    }

    /// Calls `each` with the offset and edit of every record up to the first invalid one; returns
    /// the offset of that one.
    pub fn for_each(&mut self, each: impl FnMut(u64, Edit) -> Result<()>) -> Result<u64> {
        self.for_each_from(self.first, each)
    }

    /// Does as [`ManifestReader::for_each`], from the record at `offset` on.
    pub fn for_each_from(
        &mut self,
        mut offset: u64,
        mut each: impl FnMut(u64, Edit) -> Result<()>,
    ) -> Result<u64> {
        while let Some(payload) = self.record_at(offset)? {
            let edit =
                Edit::decode(&payload).map_err(|error| error.at(offset).in_file(&self.path))?;
            each(offset, edit)?;
            offset += self.record_bytes(&payload);
        }
        Ok(offset)
    }

    /// Returns the payload of the record at `offset` if the record is valid.
    pub fn record_at(&mut self, offset: u64) -> Result<Option<Vec<u8>>> {
        let Some((start, length)) = self.valid_at(offset)? else { return Ok(None) };
        let mut payload = zeroed(length).map_err(|error| error.in_file(&self.path))?;
        match self.bytes(start, payload.len().min(PIECE_BYTES))? {
            Some(piece) if piece.len() == payload.len() => payload.copy_from_slice(piece),
            _ => self.file.read_exact_at(&mut payload, start).doing("read", &self.path)?,
        }
        if let Some(cipher) = &self.cipher {
            // The checksum holds, so no crash cut the record short: if it does not open, it was
            // forged.
            let opened = open(cipher, offset, &mut payload);
            opened.map_err(|error| error.in_file(&self.path).at(offset))?;
            payload.truncate(payload.len() - SEAL_BYTES);
        }
        Ok(Some(payload))
    }

    /// Returns the offset and payload of the first valid record at or behind `from`.
    ///
    /// Costs a look at each byte up to it, and a hash of all that may be a record.
    pub fn find_record(&mut self, from: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let mut offset = from;
        while offset < self.len {
            // The first is taken for what it is even if this build does not know such an edit.
            if (offset == from || self.may_be_record(offset)?)
                && let Some(payload) = self.record_at(offset)?
            {
                return Ok(Some((offset, payload)));
            }
            offset += 1;
        }
        Ok(None)
    }

    /// Returns false if no record of an edit can begin at `offset`.
    fn may_be_record(&mut self, offset: u64) -> Result<bool> {
        let Some(found) = self.claimed_at(offset)? else { return Ok(false) };
        if self.cipher.is_some() {
            let mut cut = [0; 4];
            let Some(at) = (found.start + found.length).checked_sub(4) else { return Ok(false) };
            self.file.read_exact_at(&mut cut, at).doing("read", &self.path)?;
            return Ok(u32::from_le_bytes(cut) < MAX_CUT);
        }
        let part = found.length.min(LOOK_BYTES);
        let bytes = self.bytes(found.start, part as usize)?;
        Ok(bytes.is_some_and(|bytes| Edit::may_begin_with(bytes, part == found.length)))
    }

    /// Returns what the record at `offset` says of itself, if that is possible.
    fn claimed_at(&mut self, offset: u64) -> Result<Option<ClaimedRecord>> {
        let Some(head) = self.bytes(offset, RECORD_HEAD)? else { return Ok(None) };
        let mut head = Reader::new(head);
        let (length, sum) = (u64::from(head.u32()?), head.u32()?);
        let start = offset + RECORD_HEAD as u64;
        let fits = start.checked_add(length).is_some_and(|end| end <= self.len);
        let is_possible = length > 0 && length <= MAX_EDIT_BYTES as u64 && fits;
        Ok(is_possible.then_some(ClaimedRecord { start, length, sum }))
    }

    /// Returns the offset and length of the payload of the record at `offset` if the record is
    /// valid.
    fn valid_at(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let Some(ClaimedRecord { start, length, sum }) = self.claimed_at(offset)? else {
            return Ok(None);
        };
        let mut hash = RunningHash::with_seed(seed(self.header.file, offset));
        let mut hashed = 0;
        while hashed < length {
            let part = (length - hashed).min(PIECE_BYTES as u64);
            let Some(bytes) = self.bytes(start + hashed, part as usize)? else { return Ok(None) };
            hash.update(bytes);
            hashed += part;
        }
        if hash.checksum32() == sum {
            return Ok(Some((start, length)));
        }
        self.patience = self.patience.checked_sub(length).ok_or_else(|| {
            Error::corruption("the end of the manifest is too strange to be a torn write")
                .in_file(&self.path)
                .at(offset)
                .advise("restore the database from a checkpoint")
        })?;
        Ok(None)
    }

    /// Returns `len` bytes (at most [`PIECE_BYTES`]) at `offset`; `None` if the file ends before
    /// them.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<Option<&[u8]>> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let held = offset >= self.piece_at
            && offset + len as u64 <= self.piece_at + self.piece.len() as u64;
        if !held {
            let part = (self.len - offset).min(PIECE_BYTES as u64) as usize;
            let mut piece = std::mem::take(&mut self.piece);
            piece.resize(part, 0);
            self.file.read_exact_at(&mut piece, offset).doing("read", &self.path)?;
            (self.piece, self.piece_at) = (piece, offset);
        }
        let at = (offset - self.piece_at) as usize;
        Ok(self.piece.get(at..at + len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{EntryKind, Trailer, internal_key};
    use crate::base::pointer::{KeyspaceId, TableId};
    use crate::table::{Summary, TableMeta};
    use crate::version::edit::Change;
    use crate::version::files::names;
    use crate::version::manifest::ManifestWriter;

    /// Returns the addition of a table whose keys are big-endian integers of seven bytes.
    fn table(number: u64) -> Change {
        let key = |number: u64| internal_key(&number.to_be_bytes()[1..], trailer(number));
        let first = 70_000 + number * 30;
        let summary = Summary {
            entries: 30,
            key_bytes: 210,
            payload_bytes: 3000,
            smallest: key(first),
            largest: key(first + 29),
            min_seqno: first,
            max_seqno: first + 29,
            fingerprint: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ..Summary::default()
        };
        let (id, bytes) = (TableId(number), 600_000 + number);
        let summary = Arc::new(summary);
        let meta = TableMeta { id, bytes, summary, applied_ranges: 0, ingested_at: 0 };
        Change::AddTable { keyspace: KeyspaceId(1), level: 6, meta: Arc::new(meta) }
    }

    fn trailer(number: u64) -> Trailer {
        Trailer::new(number, EntryKind::Put)
    }

    /// Returns how often each byte of a torn record with this payload is hashed, on average, until
    /// it is clear that no record follows.
    fn passes_over(database: &DatabaseIdentity, payload: &[u8]) -> f64 {
        let (env, simulation) = Env::simulated(1);
        simulation.run(|| {
            let dir = Path::new("db");
            env.fs.create_dir_all(dir).unwrap();
            let state = Edit::new(vec![Change::NextFile(2)]);
            let end = ManifestWriter::create(&env, dir, database, 1, &state).unwrap().length();
            let path = names::manifest(dir, 1);
            let torn = [&(payload.len() as u32).to_le_bytes()[..], &[0xa7; 4], payload].concat();
            env.fs.open_write(&path).unwrap().write_at(&torn, end).unwrap();
            let mut reader = ManifestReader::open(&env, &path, database).unwrap();
            let patience = reader.patience;
            assert_eq!(reader.for_each(|_, _| Ok(())).unwrap(), end);
            assert!(reader.find_record(end + 1).unwrap().is_none());
            (patience - reader.patience) as f64 / torn.len() as f64
        })
    }

    /// Symptom: after a crash while a long edit was written, the database could not be opened.
    /// Cause: the search behind the torn record hashed all that any four bytes of it could be the
    /// length of, in each table about a megabyte, and gave up. Now it hashes what also looks like
    /// an edit, and gives up later the longer the file is.
    #[test]
    fn a_torn_edit_of_many_tables_is_told_from_damage() {
        let edit = Edit::new((1..50_000).map(table).collect()).encode();
        let passes = passes_over(&DatabaseIdentity::from(7), &edit);
        assert!(passes < MAX_SEARCHES as f64 / 4.0, "each byte is hashed {passes} times");
    }

    /// The same for an encrypted edit, whose bytes look like any.
    #[test]
    fn a_torn_edit_that_is_encrypted_is_told_from_damage() {
        let word = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mixed = (0..400_000).flat_map(|number| word(word(number)).to_le_bytes());
        let payload: Vec<u8> = mixed.collect();
        let passes = passes_over(&DatabaseIdentity::encrypted(7), &payload);
        assert!(passes < 8.0, "each byte is hashed {passes} times");
    }
}
