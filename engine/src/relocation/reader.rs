//! An open relocation, which maps old offsets to new places: one record, many, or all of them.
//!
//! Place in the data's way: `version` resolves a pointer into a freed segment through
//! [`RelocationTable::find`], which searches the directory in memory and reads one block through
//! the cache. A liveness scan resolves many pointers at once through
//! [`RelocationTable::find_ascending`]. Value GC composes chains, and checks verify the file, with
//! [`RelocationTable::for_each`].
//!
//! Invariants: I7 (bytes are verified before they are parsed or cached). Errors name the file and
//! the offset of the block. The file is opened through [`OpenFiles`] at each read.

use super::block::{RelocationBlock, RelocationEntry};
use super::format::{
    BLOCKS_START, BlockAt, FOOTER_BYTES, RelocationDirectory, RelocationFooter, unseal,
};
use super::meta::{RelocationMeta, TargetUse};
use crate::base::blocks::CHECKSUM_BYTES;
use crate::base::blocks::{BlockFingerprint, FileSeed};
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::memory::zeroed;
use crate::base::pointer::{RelocationId, SegmentId, ValuePointer};
use crate::cache::{BlockBytes, BlockCache, BlockKey, CachedTable, MemoryCharge, OpenFiles};
use crate::env::fs::File;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The least number of bytes that a pass over the whole file reads at a time, unless fewer are left
/// or a single block is larger.
const WINDOW_BYTES: u64 = 256 << 10;

/// A relocation that is open for reading, by any number of threads.
pub struct RelocationTable {
    files: Arc<OpenFiles>,
    path: PathBuf,
    meta: Arc<RelocationMeta>,
    cache: Arc<BlockCache>,
    seed: FileSeed,
    directory: RelocationDirectory,
    /// The memory that the relocation is charged while it lives.
    charge: Option<MemoryCharge>,
}

impl RelocationMeta {
    /// Reads the description of relocation `id` from the file itself, for the inspector and for
    /// repairs.
    pub fn read(
        file: &dyn File,
        path: &Path,
        database: u64,
        id: RelocationId,
    ) -> Result<RelocationMeta> {
        read_directory(file, path, database, id).map(|(meta, _)| meta)
    }
}

fn read_directory(
    file: &dyn File,
    path: &Path,
    database: u64,
    id: RelocationId,
) -> Result<(RelocationMeta, RelocationDirectory)> {
    let read = || -> Result<_> {
        let bytes = file.len().doing("get the length of", path)?;
        let footer_at = bytes
            .checked_sub(FOOTER_BYTES as u64)
            .filter(|at| *at >= BLOCKS_START)
            .ok_or_else(|| Error::corruption("the relocation ends before its footer"))?;
        let header = read_at(file, path, 0, HEADER_BYTES as u64)?;
        Header::decode_expected(&header, FileKind::Relocation, database, id.0)
            .map_err(|error| error.at(0))?;
        let seed = FileSeed::new(database, id.0);
        let footer = read_at(file, path, footer_at, FOOTER_BYTES as u64)?;
        let footer = RelocationFooter::decode(&footer, seed, footer_at)
            .map_err(|error| error.at(footer_at))?;
        // The footer has checked that the directory lies between the header and itself.
        let sealed = read_at(file, path, footer.directory, footer.len)?;
        let directory = unseal(seed, footer.directory, &sealed)
            .and_then(|bytes| RelocationDirectory::decode(bytes, footer.directory))
            .map_err(|error| error.at(footer.directory))?;
        Ok((directory.meta(id, bytes), directory))
    };
    read().map_err(|error| advise(error.in_file(path)))
}

fn read_at(file: &dyn File, path: &Path, offset: u64, len: u64) -> Result<Vec<u8>> {
    // `len` is bounded: callers have compared it with the length of the file.
    let mut bytes = zeroed(len)?;
    file.read_exact_at(&mut bytes, offset).doing("read", path).map_err(|error| error.at(offset))?;
    Ok(bytes)
}

fn advise(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corruption => error.advise("restore this file from a checkpoint or a backup"),
        _ => error,
    }
}

impl RelocationTable {
    /// Opens the relocation at `path`. A file that differs from `meta` is refused.
    pub fn open(
        files: Arc<OpenFiles>,
        path: PathBuf,
        meta: Arc<RelocationMeta>,
        database: u64,
        cache: Arc<BlockCache>,
    ) -> Result<RelocationTable> {
        let file = files.get(&path)?;
        let (found, directory) = read_directory(&*file, &path, database, meta.id)?;
        if found != *meta {
            let message = format!(
                "relocation {} is not the one that the manifest means: their contents differ",
                meta.id
            );
            return Err(advise(Error::corruption(message).in_file(&path)));
        }
        let seed = FileSeed::new(database, meta.id.0);
        Ok(RelocationTable { files, path, meta, cache, seed, directory, charge: None })
    }

    /// Returns the new place of the record that was at `old_offset` of the freed segment, or `None`
    /// if the record was garbage. Reads at most one block.
    pub fn find(&self, old_offset: u64) -> Result<Option<ValuePointer>> {
        let blocks = &self.directory.blocks;
        let behind = blocks.partition_point(|block| block.first <= old_offset);
        let Some(at) = behind.checked_sub(1).and_then(|number| blocks.get(number)) else {
            return Ok(None);
        };
        let block = self.block(at)?;
        let found = self.find_in(&block, at, old_offset);
        found.map_err(|error| self.place(error, at))
    }

    /// Looks up many records, whose old offsets ascend, and calls `each` with the result of each
    /// lookup as [`RelocationTable::find`] returns it, in the same order. The first error of `each`
    /// ends it. Reads each block at most once.
    pub fn find_ascending<E: From<Error>>(
        &self,
        old_offsets: impl Iterator<Item = u64>,
        mut each: impl FnMut(Option<ValuePointer>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut old_offsets = old_offsets.peekable();
        let mut rest = self.directory.blocks.as_slice();
        while let Some(&next) = old_offsets.peek() {
            let behind = rest.partition_point(|block| block.first <= next);
            let Some(number) = behind.checked_sub(1) else {
                old_offsets.next();
                each(None)?;
                continue;
            };
            rest = &rest[number..];
            let (at, next_first) = (&rest[0], rest.get(1).map(|block| block.first));
            let bytes = self.block(at)?;
            let block = self.parse(&bytes, at).and_then(RelocationBlock::ascending);
            let mut found = block.map_err(|error| self.place(error, at))?;
            let is_here = |offset: &u64| next_first.is_none_or(|first| *offset < first);
            while let Some(old_offset) = old_offsets.next_if(is_here) {
                let entry = found.find(old_offset).map_err(|error| self.place(error, at))?;
                each(entry.map(|entry| self.moved(entry)))?;
            }
        }
        Ok(())
    }

    fn find_in(&self, block: &[u8], at: &BlockAt, old_offset: u64) -> Result<Option<ValuePointer>> {
        let found = self.parse(block, at)?.find(old_offset)?;
        Ok(found.map(|entry| self.moved(entry)))
    }

    /// Parses the block at `at` and checks that its first entry is the one that the directory
    /// names.
    fn parse<'a>(&self, block: &'a [u8], at: &BlockAt) -> Result<RelocationBlock<'a>> {
        let block = RelocationBlock::parse(block, self.directory.targets.len())?;
        if block.first()? != at.first {
            return Err(misplaced());
        }
        Ok(block)
    }

    fn moved(&self, entry: RelocationEntry) -> ValuePointer {
        let (segment, _) = self.directory.targets[entry.target];
        ValuePointer { segment, offset: entry.new_offset, length: entry.length }
    }

    /// Calls `each` with every move in order of old offset: old offset, target, new offset, length.
    /// The first error of `each` ends it. Reads the whole file again, and checks the directory
    /// against the entries. The pass does not use the cache.
    pub fn for_each(
        &self,
        mut each: impl FnMut(u64, SegmentId, u64, u32) -> Result<()>,
    ) -> Result<()> {
        let mut seen = RelocationCheck::default();
        seen.targets.resize(self.directory.targets.len(), TargetUse::default());
        let mut rest = self.directory.blocks.as_slice();
        while let Some(first) = rest.first() {
            let window = rest.partition_point(|it| it.end() <= first.offset + WINDOW_BYTES).max(1);
            let (now, later) = rest.split_at(window);
            let end = now.last().map_or(first.end(), BlockAt::end);
            let file = self.files.get(&self.path)?;
            let bytes = read_at(&*file, &self.path, first.offset, end - first.offset)?;
            for at in now {
                let from = (at.offset - first.offset) as usize;
                let sealed = &bytes[from..from + at.len as usize];
                let entries = self.check_block(at, sealed, &mut seen);
                for entry in entries.map_err(|error| self.place(error, at))? {
                    let (segment, _) = self.directory.targets[entry.target];
                    each(entry.old_offset, segment, entry.new_offset, entry.length)?;
                }
            }
            rest = later;
        }
        let numbers = self.directory.targets.iter().map(|(_, used)| used);
        if seen.fingerprint.value() != self.directory.fingerprint
            || !numbers.eq(seen.targets.iter())
        {
            let message = "the relocation's numbers or fingerprint are not those of its entries";
            return Err(advise(Error::corruption(message).in_file(&self.path)));
        }
        Ok(())
    }

    /// Verifies a block as it lies in the file and returns its entries.
    fn check_block(
        &self,
        at: &BlockAt,
        sealed: &[u8],
        seen: &mut RelocationCheck,
    ) -> Result<Vec<RelocationEntry>> {
        let block =
            RelocationBlock::parse(unseal(self.seed, at.offset, sealed)?, seen.targets.len())?;
        seen.fingerprint.add(sealed);
        let found = block.entries()?;
        for entry in &found {
            if entry.old_offset < seen.old_end {
                return Err(misplaced());
            }
            seen.old_end = entry.old_end();
            let used = &mut seen.targets[entry.target];
            used.count += 1;
            used.bytes = used.bytes.saturating_add(entry.length.into());
        }
        if found.first().is_none_or(|first| first.old_offset != at.first) {
            return Err(misplaced());
        }
        Ok(found)
    }

    /// Returns the bytes of a block, without its checksum, from the cache or the file.
    fn block(&self, at: &BlockAt) -> Result<BlockBytes> {
        let key = BlockKey { file: self.meta.id.0, offset: at.offset };
        if let Some(block) = self.cache.get(key) {
            return Ok(block);
        }
        let file = self.files.get(&self.path)?;
        let mut bytes = read_at(&*file, &self.path, at.offset, at.len.into())?;
        unseal(self.seed, at.offset, &bytes).map_err(|error| self.place(error, at))?;
        bytes.truncate(bytes.len() - CHECKSUM_BYTES);
        let block = Arc::new(bytes);
        self.cache.insert(key, Arc::clone(&block));
        Ok(block)
    }

    fn place(&self, error: Error, at: &BlockAt) -> Error {
        advise(error.in_file(&self.path).at(at.offset))
    }
}

/// The numbers that a pass over a relocation has found so far.
#[derive(Default)]
struct RelocationCheck {
    fingerprint: BlockFingerprint,
    targets: Vec<TargetUse>,
    old_end: u64,
}

fn misplaced() -> Error {
    Error::corruption("the block does not begin where the directory says")
}

impl CachedTable for RelocationTable {
    /// Returns the bytes of memory that the relocation takes while it is open: its directory.
    fn memory_bytes(&self) -> u64 {
        let bytes = std::mem::size_of::<Self>()
            + self.directory.targets.capacity() * std::mem::size_of::<(SegmentId, TargetUse)>()
            + self.directory.blocks.capacity() * std::mem::size_of::<BlockAt>();
        bytes as u64
    }

    fn keep(&mut self, charge: MemoryCharge) {
        self.charge = Some(charge);
    }
}

impl fmt::Debug for RelocationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relocation {} ({})", self.meta.id, self.path.display())
    }
}
