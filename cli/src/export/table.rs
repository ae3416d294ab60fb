//! Writes a table of LevelDB: blocks of entries, an index of them, and a footer. The format is
//! described beside its readers, in `import/lsm/`.

use crate::import::crc32c::{crc32c, masked};
use crate::import::cursor::put_varint;
use crate::import::lsm::{LEVELDB_FOOTER_BYTES, LEVELDB_MAGIC};
use cleavedb::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The usual size of a block of LevelDB's.
const BLOCK_BYTES: usize = 4096;
/// Entries from one whole key to the next.
const RESTART_INTERVAL: usize = 16;
/// All entries have the first sequence number and are values.
pub(super) const TAG: u64 = 1 << 8 | 1;

/// A block that is filled.
struct BlockFill {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    interval: usize,
    entries: usize,
    last: Vec<u8>,
}

impl BlockFill {
    fn new(interval: usize) -> Self {
        BlockFill { bytes: Vec::new(), restarts: vec![0], interval, entries: 0, last: Vec::new() }
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        let mut shared = 0;
        if self.entries > 0 && self.entries.is_multiple_of(self.interval) {
            self.restarts.push(self.bytes.len() as u32);
        } else {
            shared = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
        }
        put_varint(shared as u64, &mut self.bytes);
        put_varint((key.len() - shared) as u64, &mut self.bytes);
        put_varint(value.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.entries += 1;
    }

    /// Returns the block and begins the next one.
    fn take(&mut self) -> Vec<u8> {
        let next = BlockFill::new(self.interval);
        let BlockFill { mut bytes, restarts, .. } = std::mem::replace(self, next);
        for restart in &restarts {
            bytes.extend_from_slice(&restart.to_le_bytes());
        }
        bytes.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        bytes
    }
}

/// A table that was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrittenTable {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// The internal keys at its ends.
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

/// A table that is written.
pub(crate) struct TableFill {
    file: BufWriter<File>,
    path: PathBuf,
    number: u64,
    at: u64,
    block: BlockFill,
    index: BlockFill,
    smallest: Option<Vec<u8>>,
    key: Vec<u8>,
    snappy: snap::raw::Encoder,
}

impl TableFill {
    pub(crate) fn create(dir: &Path, number: u64) -> Result<Self> {
        let path = dir.join(format!("{number:06}.ldb"));
        let file = File::create_new(&path).map_err(|error| Error::io("create", &path, error))?;
        Ok(TableFill {
            file: BufWriter::with_capacity(256 << 10, file),
            path,
            number,
            at: 0,
            block: BlockFill::new(RESTART_INTERVAL),
            index: BlockFill::new(1),
            smallest: None,
            key: Vec::new(),
            snappy: snap::raw::Encoder::new(),
        })
    }

    /// Puts a pair, whose key must come behind all before.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_entry(key, TAG, value)
    }

    /// Puts an entry, whose sequence number, shifted by 8, and kind are `tag`.
    pub(crate) fn put_entry(&mut self, key: &[u8], tag: u64, value: &[u8]) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.key.extend_from_slice(&tag.to_le_bytes());
        self.smallest.get_or_insert_with(|| self.key.clone());
        self.block.push(&self.key, value);
        if self.block.bytes.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Returns the bytes that were written.
    pub(super) fn bytes(&self) -> u64 {
        self.at
    }

    fn end_block(&mut self) -> Result<()> {
        let block = self.block.take();
        let handle = self.write_block(&block)?;
        self.index.push(&self.key, &handle);
        Ok(())
    }

    /// Writes a block with its trailer, and returns its handle.
    fn write_block(&mut self, block: &[u8]) -> Result<Vec<u8>> {
        // What a value of 1 GiB makes is beyond what Snappy takes at once; it stays as it is, as
        // what does not become smaller by an eighth does.
        let packed = self.snappy.compress_vec(block).ok();
        let packed = packed.filter(|packed| packed.len() < block.len() - block.len() / 8);
        let (stored, kind) = packed.as_deref().map_or((block, 0), |packed| (packed, 1));
        let mut handle = Vec::new();
        put_varint(self.at, &mut handle);
        put_varint(stored.len() as u64, &mut handle);
        self.write(stored)?;
        self.write(&[kind])?;
        self.write(&masked(crc32c(&[stored, &[kind]])).to_le_bytes())?;
        Ok(handle)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io("write", &self.path, error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes the rest and syncs the file.
    pub(crate) fn finish(mut self) -> Result<WrittenTable> {
        if self.block.entries > 0 {
            self.end_block()?;
        }
        let metaindex = BlockFill::new(RESTART_INTERVAL).take();
        let index = self.index.take();
        let mut footer = self.write_block(&metaindex)?;
        footer.extend(self.write_block(&index)?);
        footer.resize(LEVELDB_FOOTER_BYTES - 8, 0);
        footer.extend_from_slice(&LEVELDB_MAGIC.to_le_bytes());
        self.write(&footer)?;
        let failed = |error| Error::io("write", &self.path, error);
        self.file.flush().map_err(failed)?;
        // No manifest names the table yet: a crash leaves a file of a directory without CURRENT.
        self.file.get_ref().sync_all().map_err(failed)?;
        let smallest = self.smallest.unwrap_or_default();
        Ok(WrittenTable { number: self.number, bytes: self.at, smallest, largest: self.key })
    }
}
