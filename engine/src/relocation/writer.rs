//! The writer of relocation files. Moves are added in order of old offset.
//!
//! Place in the data's way: value GC creates the file, adds each record that it moved, and gets a
//! [`RelocationMeta`] for the manifest. The file is written front to back in large pieces.
//!
//! Nothing is synced here: the caller syncs file and directory before its manifest edit. A crash
//! before that edit leaves a file that no version names, which the next open deletes.

use super::block::{BlockWriter, RelocationEntry};
use super::format::{BlockAt, RelocationDirectory, RelocationFooter, seal};
use super::meta::{RelocationMeta, TargetUse};
use crate::base::blocks::{BlockFingerprint, FileSeed};
use crate::base::error::{IoContext, Result};
use crate::base::header::{FileKind, Header};
use crate::base::pointer::{RelocationId, SegmentId};
use crate::env::fs::File;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The number of finished bytes from which on they are written to the file.
const PIECE_BYTES: usize = 512 << 10;

/// A writer of one relocation.
pub struct RelocationWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    id: RelocationId,
    seed: FileSeed,
    directory: RelocationDirectory,
    /// The index of each target in the directory.
    indexes: BTreeMap<SegmentId, usize>,
    fingerprint: BlockFingerprint,
    /// The block being filled. `first` is the old offset of its first entry, `old_end` the end of
    /// the record added last.
    block: BlockWriter,
    first: u64,
    old_end: u64,
    /// Finished bytes that are not written yet; they go to offset `written`.
    pending: Vec<u8>,
    written: u64,
}

impl RelocationWriter {
    /// Begins relocation `id` of the freed `segment` of `database` in an empty `file`. `path` is
    /// used in error messages.
    ///
    /// # Panics
    /// Panics if the id is 0, which stands for no file.
    pub fn create(
        file: Arc<dyn File>,
        path: PathBuf,
        database: u64,
        id: RelocationId,
        segment: SegmentId,
    ) -> Self {
        assert!(id.0 > 0, "relocation 0 does not exist");
        let (targets, blocks) = (Vec::new(), Vec::new());
        RelocationWriter {
            file,
            path,
            id,
            seed: FileSeed::new(database, id.0),
            directory: RelocationDirectory { segment, entries: 0, fingerprint: 0, targets, blocks },
            indexes: BTreeMap::new(),
            fingerprint: BlockFingerprint::default(),
            block: BlockWriter::default(),
            first: 0,
            old_end: 0,
            pending: Header::new(FileKind::Relocation, database, id.0).encode().to_vec(),
            written: 0,
        }
    }

    /// Adds a move: the record of `length` bytes at `old_offset` of the freed segment now lies at
    /// `new_offset` of `target`. After a failed write the relocation cannot be finished: drop the
    /// writer and remove the file.
    ///
    /// # Panics
    /// Panics if the record is not after the one before, has no bytes, or went to the segment that
    /// it came from.
    pub fn add(
        &mut self,
        old_offset: u64,
        target: SegmentId,
        new_offset: u64,
        length: u32,
    ) -> Result<()> {
        assert!(old_offset >= self.old_end && length > 0, "moves are added in order");
        assert_ne!(target, self.directory.segment, "a record is moved to another segment");
        let bytes = u64::from(length);
        assert!(old_offset.max(new_offset).checked_add(bytes).is_some(), "no such record");
        let target = self.count(target, bytes);
        let entry = RelocationEntry { old_offset, target, new_offset, length };
        if !self.block.has_room() {
            self.finish_block()?;
        }
        if self.block.is_empty() {
            self.first = old_offset;
        }
        self.block.add(&entry);
        self.old_end = entry.old_end();
        self.directory.entries += 1;
        Ok(())
    }

    /// Counts a record that moved to `target`, and returns the index of the target.
    fn count(&mut self, target: SegmentId, bytes: u64) -> usize {
        let targets = &mut self.directory.targets;
        let index = *self.indexes.entry(target).or_insert_with(|| {
            targets.push((target, TargetUse::default()));
            targets.len() - 1
        });
        let used = &mut targets[index].1;
        used.count += 1;
        used.bytes += bytes;
        index
    }

    /// Writes the rest of the file and returns its description. Does not sync.
    ///
    /// # Panics
    /// Panics if nothing was added, because a relocation without entries has no file (see
    /// [`RelocationMeta::empty`]).
    pub fn finish(mut self) -> Result<RelocationMeta> {
        assert!(self.directory.entries > 0, "relocation {} has no entry", self.id);
        self.finish_block()?;
        self.directory.fingerprint = self.fingerprint.value();
        let counted: u64 = self.directory.targets.iter().map(|(_, used)| used.count).sum();
        assert_eq!(counted, self.directory.entries, "each entry leads to one target");
        let (directory, start) = (self.end(), self.pending.len());
        self.directory.encode(&mut self.pending);
        seal(&mut self.pending, start, self.seed, directory);
        let end = self.end();
        RelocationFooter { directory, len: end - directory }.encode(
            &mut self.pending,
            self.seed,
            end,
        );
        self.write_pending()?;
        Ok(self.directory.meta(self.id, self.written))
    }

    /// Returns the file offset of the next block.
    fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn finish_block(&mut self) -> Result<()> {
        let (offset, start) = (self.end(), self.pending.len());
        self.block.finish(&mut self.pending);
        seal(&mut self.pending, start, self.seed, offset);
        self.fingerprint.add(&self.pending);
        let is_next = self.directory.blocks.last().is_none_or(|last| last.first < self.first);
        debug_assert!(is_next, "blocks are in the order of their first entries");
        let len = (self.pending.len() - start) as u32;
        self.directory.blocks.push(BlockAt { first: self.first, offset, len });
        if self.pending.len() >= PIECE_BYTES {
            self.write_pending()?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<()> {
        self.file.write_at(&self.pending, self.written).doing("write", &self.path)?;
        self.file.start_writeback(self.written, self.pending.len() as u64);
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

impl RelocationDirectory {
    /// Returns the description in the manifest of a file with this directory.
    pub(super) fn meta(&self, id: RelocationId, bytes: u64) -> RelocationMeta {
        RelocationMeta {
            id,
            segment: self.segment,
            bytes,
            entries: self.entries,
            fingerprint: self.fingerprint,
            targets: self.targets.iter().copied().collect(),
        }
    }
}
