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
/// The bytes that a search hashes before it gives up. After a crash less than one record is
/// searched, which needs a small part of this.
const MAX_SEARCH_BYTES: u64 = 4 << 30;

/// The bytes that end the payload of an encrypted record: the tag, and a number of the nonce.
const SEAL_BYTES: usize = TAG_BYTES + 4;

/// Decrypts in place the payload of the record at `offset`.
fn open(cipher: &FileCipher, offset: u64, payload: &mut [u8]) -> Result<()> {
    let short = || Error::corruption("an edit is shorter than its tag");
    let (rest, cut) = payload.split_last_chunk_mut::<4>().ok_or_else(short)?;
    let (sealed, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or_else(short)?;
    cipher.open_with(&nonce(offset, u32::from_le_bytes(*cut)), &[], sealed, tag)
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
        let patience = MAX_SEARCH_BYTES;
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
    pub fn find_record(&mut self, from: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let mut offset = from;
        while offset < self.len {
            if let Some(payload) = self.record_at(offset)? {
                return Ok(Some((offset, payload)));
            }
            offset += 1;
        }
        Ok(None)
    }

    /// Returns the offset and length of the payload of the record at `offset` if the record is
    /// valid.
    fn valid_at(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let Some(head) = self.bytes(offset, RECORD_HEAD)? else { return Ok(None) };
        let mut head = Reader::new(head);
        let (length, sum) = (u64::from(head.u32()?), head.u32()?);
        let start = offset + RECORD_HEAD as u64;
        let fits = start.checked_add(length).is_some_and(|end| end <= self.len);
        if length == 0 || length > MAX_EDIT_BYTES as u64 || !fits {
            return Ok(None);
        }
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
