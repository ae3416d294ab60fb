//! The writer of table files. Entries are added in order.
//!
//! Place in the data's way: a flush or a compaction creates the file, adds entries in order, and
//! gets a [`TableMeta`] for the manifest. The file is written front to back in large pieces. The
//! kernel is told to start writing each piece back, so that the sync at the end is short.
//!
//! Nothing is synced here: the caller syncs file and directory before its manifest edit. A crash
//! before that edit leaves a file that no version names, which the next open deletes.
//!
//! Upholds I3: the references per segment are counted from the payloads that are written.

use super::block::{BlockBuilder, RESTART_INTERVAL};
use super::filter::FilterBuilder;
use super::format::{
    BlockHandle, BlockSeal, DATA_START, Footer, MAX_PAYLOAD_BYTES, MOST_FILLED_BYTES, PAGE_BYTES,
};
use super::index::IndexBuilder;
use super::policy::{FilterPolicy, PolicyBuilder};
use super::properties::{Properties, Summary, TableMeta, TableOwner, dense};
use crate::base::blocks::BlockFingerprint;
use crate::base::checksum::key_hash;
use crate::base::compression::{Codec, CompressionTrials};
use crate::base::error::{InFile, IoContext, Result};
use crate::base::header::{FileKind, Header};
use crate::base::key::{KeyOrder, MAX_KEY_BYTES, Trailer, split_internal};
use crate::base::pointer::TableId;
use crate::base::seal::DatabaseIdentity;
use crate::env::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// What an entry may add to a block beside key, trailer and payload, in bytes: its lengths and a
/// restart.
const ENTRY_OVERHEAD: usize = 16;

/// The largest value of [`TableSettings::block_bytes`], in bytes.
pub const MAX_BLOCK_TARGET_BYTES: usize = 1 << 20;

/// The bytes of an index from which on blocks grow with it. A memtable may have many long keys that
/// differ only in their last bytes, each of them a block of its own with all of the key in the
/// index, which may not be longer than any block.
const LONG_INDEX_BYTES: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };
/// Beyond that a block may have this part (one in this many) of the bytes of the index: at a
/// gigabyte of index a mebibyte, so that about eight gigabytes of keys have room.
const LONG_INDEX_PART: usize = if cfg!(test) { 16 } else { 1024 };

/// The number of finished bytes from which on they are written to the file.
const PIECE_BYTES: usize = 512 << 10;
/// The size of the largest single write in bytes, however large the entry.
const MAX_WRITE_BYTES: usize = 1 << 20;

/// The layout settings of a table. Readers do not depend on the settings that a table was written
/// with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSettings {
    /// The target size of a block before compression, in bytes. A block is closed before the entry
    /// that would make it larger; one of small entries that don't compress, where a page ends. At
    /// most [`MAX_BLOCK_TARGET_BYTES`]; 4096 by default, one page of most disks. Larger blocks
    /// compress better and make point reads more expensive.
    pub block_bytes: usize,
    /// The codec for blocks that compress well enough; LZ4 by default.
    pub codec: Codec,
    /// The bits of the filter per user key; 10 by default, which lets one absent key in eighty
    /// pass. Zero means no filter. The engine makes none either if a comparator orders the keys.
    pub filter_bits_per_key: u32,
}

impl Default for TableSettings {
    fn default() -> Self {
        TableSettings { block_bytes: 4096, codec: Codec::default(), filter_bits_per_key: 10 }
    }
}

/// A writer of one table.
pub struct TableWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    id: TableId,
    owner: TableOwner,
    seal: BlockSeal,
    order: KeyOrder,
    settings: TableSettings,
    trials: CompressionTrials,
    block: BlockBuilder,
    /// The number of entries in the open block.
    block_entries: u64,
    /// True if the open block is to end with a page: the one before was not compressed, and had so
    /// small entries that little was to be filled up.
    ends_with_pages: bool,
    index: IndexBuilder,
    filter: Option<FilterBuilder>,
    fingerprint: BlockFingerprint,
    policy: Option<PolicyBuilder>,
    summary: Summary,
    /// Finished bytes that are not written yet; they go to offset `written`.
    pending: Vec<u8>,
    written: u64,
}

impl TableWriter {
    /// Begins table `id` of `database` and the keyspace `owner` in an empty `file`. `path` is used
    /// in error messages.
    ///
    /// # Panics
    /// Panics if the settings are out of range.
    pub fn create(
        file: Arc<dyn File>,
        path: PathBuf,
        id: TableId,
        database: impl Into<DatabaseIdentity>,
        owner: TableOwner,
        order: KeyOrder,
        settings: TableSettings,
    ) -> Result<Self> {
        assert!((1..=MAX_BLOCK_TARGET_BYTES).contains(&settings.block_bytes), "{settings:?}");
        let database = database.into();
        let filtered = matches!(order, KeyOrder::Bytewise) && settings.filter_bits_per_key > 0;
        Ok(TableWriter {
            file,
            path,
            id,
            owner,
            seal: BlockSeal::for_writing(&database, id),
            order,
            settings,
            trials: CompressionTrials::default(),
            block: BlockBuilder::new(RESTART_INTERVAL),
            block_entries: 0,
            ends_with_pages: settings.codec == Codec::None
                && settings.block_bytes as u64 >= PAGE_BYTES,
            index: IndexBuilder::new(),
            filter: filtered.then(|| FilterBuilder::new(settings.filter_bits_per_key)),
            fingerprint: BlockFingerprint::default(),
            policy: None,
            summary: Summary::default(),
            pending: Header::new(FileKind::Table, database.id, id.0).encode().to_vec(),
            written: 0,
        })
    }

    /// Sets the policy that makes the filter instead of the engine; `None` changes nothing.
    #[must_use]
    pub fn with_policy(mut self, policy: Option<&Arc<dyn FilterPolicy>>) -> Self {
        assert_eq!(self.summary.entries, 0, "a filter covers all entries of its table");
        if let Some(policy) = policy {
            self.policy = Some(PolicyBuilder::new(Arc::clone(policy)));
            self.filter = None;
        }
        self
    }

    /// Adds the next entry in order. A payload that does not fit its kind is corruption of its
    /// source, and the entry is not added. After a failed write the table cannot be finished: drop
    /// the writer and remove the file.
    ///
    /// # Panics
    /// Panics if the entry does not sort strictly after the one before, or exceeds the size limits
    /// of keys and values.
    pub fn add(&mut self, user_key: &[u8], trailer: Trailer, payload: &[u8]) -> Result<()> {
        assert!(
            user_key.len() <= MAX_KEY_BYTES && payload.len() <= MAX_PAYLOAD_BYTES,
            "an entry of {} + {} bytes",
            user_key.len(),
            payload.len()
        );
        let last = split_internal(self.block.last_key());
        let first = self.summary.entries == 0;
        assert!(
            first || self.order.compare_entries(last, (user_key, trailer)).is_lt(),
            "table {}: {:?} {:?} was added behind {last:?}",
            self.id,
            user_key,
            trailer
        );
        let new_key = first || last.0 != user_key;
        self.summary.count(user_key, trailer, payload)?;
        // Lengths and a restart take a few more bytes, which do not matter to a target size.
        let grown = self.block.size() + user_key.len() + Trailer::BYTES + payload.len();
        if grown > self.most_bytes() && !self.block.is_empty() {
            self.finish_block(false)?;
        }
        self.index.goes_on(&self.order, self.block.last_key(), user_key);
        if let Some(filter) = self.filter.as_mut().filter(|_| new_key) {
            filter.add(key_hash(user_key));
        }
        if let Some(policy) = self.policy.as_mut().filter(|_| new_key) {
            policy.add(user_key);
        }
        self.block.add(user_key, trailer, payload);
        self.block_entries += 1;
        Ok(())
    }

    /// Returns the approximate size in bytes that the file would have if it were finished now.
    pub fn file_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, FilterBuilder::size);
        let tail = self.block.size() + self.index.size() + filter + self.seal.footer_bytes();
        self.block_bytes() + tail as u64
    }

    /// Writes the rest of the file and returns the description of the table. Does not sync.
    ///
    /// # Panics
    /// Panics if nothing was added, because an empty table is never made.
    pub fn finish(mut self) -> Result<TableMeta> {
        assert!(self.summary.entries > 0, "table {} has no entry", self.id);
        self.finish_block(true)?;
        self.summary.largest = self.block.last_key().to_vec();
        self.summary.fingerprint = self.fingerprint.value();
        self.summary.segments = dense(std::mem::take(&mut self.summary.segments));
        let summary = Arc::new(std::mem::take(&mut self.summary));
        let own = self.filter.take().map(FilterBuilder::finish);
        let policy = self.policy.take();
        let filter = match own.or_else(|| policy.as_ref().map(PolicyBuilder::finish)) {
            Some(filter) => Some(self.seal(Codec::None, &filter)?),
            None => None,
        };
        let index = self.index.finish(&summary.largest, <[u8]>::to_vec);
        let index = self.seal(self.settings.codec, &index)?;
        let properties = Properties {
            id: self.id,
            owner: self.owner.clone(),
            comparator: self.order.name().to_string(),
            codec: self.settings.codec,
            summary: Arc::clone(&summary),
            filter_policy: policy.map(|policy| policy.name().to_string()),
        };
        let properties = self.seal(self.settings.codec, &properties.encode())?;
        let end = self.block_bytes();
        Footer { filter, index, properties }.encode(&mut self.pending, &self.seal, end);
        self.write_pending()?;
        assert_eq!(
            self.written,
            end + self.seal.footer_bytes() as u64,
            "a table ends with its footer"
        );
        debug_assert!(summary.min_seqno <= summary.max_seqno);
        Ok(TableMeta {
            id: self.id,
            bytes: self.written,
            summary,
            applied_ranges: 0,
            ingested_at: 0,
        })
    }

    /// Returns the id of the table.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// Returns the bytes of the complete blocks, as they are in the file: the offset of the next
    /// one. Unlike [`TableWriter::file_bytes`], which counts the open block before it is
    /// compressed, this is never more than the finished file has.
    pub fn block_bytes(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn seal(&mut self, codec: Codec, raw: &[u8]) -> Result<BlockHandle> {
        let offset = self.block_bytes();
        let sealed = self.seal.seal(&mut self.pending, offset, (codec, false), raw);
        Ok(sealed.in_file(&self.path)?.0)
    }

    /// Returns the size that the open block may have with another entry.
    fn most_bytes(&self) -> usize {
        let (usual, index) = (self.settings.block_bytes, self.index.size());
        if index >= LONG_INDEX_BYTES {
            return usual.max(index / LONG_INDEX_PART);
        }
        if !self.ends_with_pages {
            return usual;
        }
        // The end of a page that is nearest to that of a block of the usual size.
        let half = PAGE_BYTES / 2;
        let end = (self.block_bytes() + usual as u64 - half).next_multiple_of(PAGE_BYTES);
        let most = (end - self.block_bytes()) as usize;
        most - self.seal.block_overhead() - ENTRY_OVERHEAD
    }

    /// Ends the open block. All but the last one may be filled up to end with a page.
    fn finish_block(&mut self, is_last: bool) -> Result<()> {
        let offset = self.block_bytes();
        assert!(!self.block.is_empty(), "a block without entries cannot be read");
        debug_assert!(offset >= DATA_START);
        let codec = self.trials.codec(self.settings.codec);
        let fills_page = !is_last && self.settings.block_bytes as u64 >= PAGE_BYTES;
        let most_bytes = std::mem::take(&mut self.block_entries) * MOST_FILLED_BYTES;
        self.ends_with_pages = fills_page && self.block.size() as u64 <= most_bytes;
        let (pending, seal) = (&mut self.pending, &self.seal);
        let sealed = self.block.finish(|raw| seal.seal(pending, offset, (codec, fills_page), raw));
        let (handle, used) = sealed.in_file(&self.path)?;
        self.trials.note(used);
        self.ends_with_pages &= used == Codec::None;
        debug_assert_eq!((handle.offset, handle.end()), (offset, self.block_bytes()), "gaps");
        self.index.wrote(handle);
        self.fingerprint.add(&self.pending);
        if self.pending.len() >= PIECE_BYTES {
            self.write_pending()?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<()> {
        for piece in self.pending.chunks(MAX_WRITE_BYTES) {
            self.file.write_at(piece, self.written).doing("write", &self.path)?;
            self.file.start_writeback(self.written, piece.len() as u64);
            self.written += piece.len() as u64;
        }
        self.pending.clear();
        Ok(())
    }
}
