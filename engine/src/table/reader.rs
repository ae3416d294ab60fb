//! An open table: reads one key or one block.
//!
//! Place in the data's way: `read/get.rs` searches candidate tables, newest first, through
//! [`Table::get`]: filter, index, then one block through the cache. `iter.rs` reads block after
//! block.
//!
//! Invariants: I7 (bytes are verified before they are parsed or cached). Errors name the file and
//! the offset of the block. Index and filter stay in memory as long as the table is open, which the
//! table cache decides; so do all blocks of a table that is pinned (`pinned.rs`). The file is
//! opened through [`OpenFiles`] at each read, and may be closed in between.

use super::block::Block;
use super::block_iter::BlockIter;
use super::filter::Filter;
use super::format::{BlockHandle, BlockSeal};
use super::index::Index;
use super::pinned::PinnedBlocks;
use super::policy::{FilterPolicy, PolicyFilter};
use super::properties::TableMeta;
use super::stats::TableStats;
use super::tail::{StoredFilter, TableTail, TailDemand};
use crate::base::checksum::key_hash;
use crate::base::error::{Error, IoContext, Result};
use crate::base::key::{KeyOrder, MAX_SEQNO, SeqNo, Trailer};
use crate::base::memory::zeroed;
use crate::base::seal::DatabaseIdentity;
use crate::cache::{BlockCache, BlockKey, CachedTable, MemoryCharge, OpenFiles, WalkFile};
use crate::env::fs::File;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What [`Table::start_get`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartedGet {
    /// Nothing: the table has certainly no entry that the get would return.
    Absent,
    /// Nothing: the block is in memory.
    InMemory,
    /// The system reads the block.
    Begun,
}

/// A table that is open for reading, by any number of threads.
pub struct Table {
    pub(super) files: Arc<OpenFiles>,
    pub(super) path: PathBuf,
    pub(super) meta: Arc<TableMeta>,
    pub(super) database: DatabaseIdentity,
    pub(super) order: KeyOrder,
    cache: Arc<BlockCache>,
    pub(super) stats: Arc<TableStats>,
    seal: BlockSeal,
    pub(super) index: Index,
    filter: Option<Filter>,
    policy_filter: Option<PolicyFilter>,
    /// The filter bytes of a policy that was not given yet.
    unread_filter: Option<Vec<u8>>,
    /// The name of the policy that made the filter; `None` for the engine's.
    filter_policy: Option<String>,
    pub(super) data_end: u64,
    /// The memory that the table is charged while it lives.
    charge: Option<MemoryCharge>,
    /// All blocks by number if the table is pinned, else none.
    pub(super) pinned: PinnedBlocks,
}

/// What a table is opened from, and what it shares with others.
pub struct TableSource {
    /// The files that are open.
    pub files: Arc<OpenFiles>,
    /// The path of the table's file.
    pub path: PathBuf,
    /// What is known of the table.
    pub meta: Arc<TableMeta>,
    /// The database that the table is of.
    pub database: DatabaseIdentity,
    /// The order of its keys.
    pub order: KeyOrder,
    /// The cache for its blocks.
    pub cache: Arc<BlockCache>,
    /// The counters of all tables.
    pub stats: Arc<TableStats>,
}

impl Table {
    /// Opens a table. A file that differs from what is known of it is refused.
    pub fn open(source: TableSource) -> Result<Table> {
        Self::open_if(source, TailDemand::Whole)
    }

    /// Opens the table for a repair, although its header or its filter may be damaged. Its entries
    /// can be read; whether they are in order, and all there, is not known.
    pub fn open_for_salvage(source: TableSource) -> Result<Table> {
        Self::open_if(source, TailDemand::Entries)
    }

    fn open_if(source: TableSource, demand: TailDemand) -> Result<Table> {
        let TableSource { files, path, meta, database, order, cache, stats } = source;
        let file = files.get(&path)?;
        let tail = TableTail::read(&*file, &path, &meta, &database, &order, demand)?;
        let TableTail { index, filter, properties, data_end, seal } = tail;
        let (filter, unread_filter) = match filter {
            Some(StoredFilter::Own(filter)) => (Some(filter), None),
            Some(StoredFilter::OfPolicy(bytes)) => (None, Some(bytes)),
            None => (None, None),
        };
        Ok(Table {
            files,
            path,
            meta,
            database,
            order,
            cache,
            stats,
            seal,
            index,
            filter,
            policy_filter: None,
            unread_filter,
            filter_policy: properties.filter_policy,
            data_end,
            charge: None,
            pinned: PinnedBlocks::default(),
        })
    }

    /// Attaches the policy that made the table's filter. A filter of another policy is ignored.
    #[must_use]
    pub fn with_policy(mut self, policy: Option<&Arc<dyn FilterPolicy>>) -> Table {
        let bytes = self.unread_filter.take();
        let policy = policy.filter(|it| Some(it.name()) == self.filter_policy.as_deref());
        self.policy_filter = policy
            .zip(bytes)
            .map(|(policy, bytes)| PolicyFilter { policy: Arc::clone(policy), bytes });
        self
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of data blocks.
    pub fn blocks(&self) -> usize {
        self.index.len()
    }

    /// Returns true if the table has a filter that can rule keys out.
    pub fn has_filter(&self) -> bool {
        self.filter.is_some() || self.policy_filter.is_some()
    }

    /// Returns whether the filter lets the key pass, and the key's hash, or zero if the engine's
    /// filter is absent. It counts nowhere.
    fn ask_filter(&self, user_key: &[u8]) -> (bool, u64) {
        let Some(filter) = &self.filter else {
            let policy = self.policy_filter.as_ref();
            return (policy.is_none_or(|it| it.policy.may_contain(user_key, &it.bytes)), 0);
        };
        let hash = key_hash(user_key);
        (filter.may_contain(hash), hash)
    }

    /// Returns the key's hash if the filter lets the key pass, or zero if the engine's filter is
    /// absent. Returns `None` if there is certainly no entry of the key.
    fn passes_filter(&self, user_key: &[u8]) -> Option<u64> {
        let (passes, hash) = self.ask_filter(user_key);
        if self.filter.is_some() {
            self.stats.count_filter_check(hash, !passes);
        }
        passes.then_some(hash)
    }

    /// Returns false if there is certainly no entry of the key.
    pub fn may_hold(&self, user_key: &[u8]) -> bool {
        self.passes_filter(user_key).is_some()
    }

    /// Returns true if there is an entry of the key, or the filter says that there may be one. It
    /// does not count as a check of the filter. Reads a block if there is no filter.
    pub fn has_key(&self, user_key: &[u8]) -> Result<bool> {
        match &self.filter {
            Some(filter) => Ok(filter.may_contain(key_hash(user_key))),
            None => Ok(self.find(user_key, Trailer::seek(MAX_SEQNO), false)?.is_some()),
        }
    }

    /// Has the system begin to read the block that [`Table::get`] will read, unless that is in
    /// memory. It does not count as a check of the filter.
    pub fn start_get(&self, user_key: &[u8], seqno: SeqNo) -> Result<StartedGet> {
        if seqno < self.meta.summary.min_seqno || !self.ask_filter(user_key).0 {
            return Ok(StartedGet::Absent);
        }
        let Some(number) = self.block_for(user_key, Trailer::seek(seqno))? else {
            return Ok(StartedGet::Absent);
        };
        if self.pinned.get(number).is_some() {
            return Ok(StartedGet::InMemory);
        }
        let handle = self.handle(number)?;
        if self.cache.peek(self.key(handle)).is_some() {
            return Ok(StartedGet::InMemory);
        }
        self.start_read(handle.offset, handle.len.into());
        Ok(StartedGet::Begun)
    }

    /// Calls `found` with the newest entry of `user_key` at or below `seqno`, tombstones included,
    /// and returns the result, or `None` if the table has no such entry. Reads at most one block.
    pub fn get<R>(
        &self,
        user_key: &[u8],
        seqno: SeqNo,
        fill_cache: bool,
        found: impl FnOnce(Trailer, &[u8]) -> R,
    ) -> Result<Option<R>> {
        if seqno < self.meta.summary.min_seqno {
            return Ok(None);
        }
        let Some(hash) = self.passes_filter(user_key) else {
            return Ok(None);
        };
        // I6: a reader below the number of an ingest was turned away above; its entries are stored
        // with the number 0, so a search for any number finds them.
        let entry = self.find(user_key, Trailer::seek(seqno), fill_cache)?;
        match entry {
            Some(entry) => Ok(Some(found(self.numbered(entry.trailer()), entry.payload()))),
            None => {
                // For an earlier point in time, the table may have only newer versions of the key;
                // then the filter was right.
                if self.filter.is_some() && seqno >= self.meta.summary.max_seqno {
                    self.stats.count_false_positive(hash);
                }
                Ok(None)
            }
        }
    }

    /// Returns the trailer of an entry by that of the stored one: in an ingested table, its number
    /// is that of the ingest (I6).
    #[inline]
    pub(super) fn numbered(&self, stored: Trailer) -> Trailer {
        stored.ingested(self.meta.ingested_at)
    }

    /// Returns an iterator on the first entry of `user_key` at or after `trailer`, or `None` if
    /// there is no such entry. By the rule of bounds (`index.rs`) only the block that the index
    /// names can hold it.
    fn find(
        &self,
        user_key: &[u8],
        trailer: Trailer,
        fill_cache: bool,
    ) -> Result<Option<BlockIter>> {
        let Some(number) = self.block_for(user_key, trailer)? else {
            return Ok(None);
        };
        let block = match self.pinned.get(number) {
            Some(block) => block,
            None => self.block(number, fill_cache)?,
        };
        let mut entry = BlockIter::new(block);
        entry.seek(&self.order, user_key, trailer).map_err(|error| self.in_block(error, number))?;
        let hit = entry.valid() && self.order.compare(entry.user_key(), user_key).is_eq();
        Ok(hit.then_some(entry))
    }

    /// Returns a block through the cache.
    fn block(&self, number: usize, fill_cache: bool) -> Result<Block> {
        let handle = self.handle(number)?;
        match self.cached(handle, fill_cache)? {
            Some(block) => Ok(block),
            None => self.load(handle, fill_cache),
        }
    }

    /// Returns the number of the block in which a search starts; see [`Index::block_for`].
    pub(super) fn block_for(&self, user_key: &[u8], trailer: Trailer) -> Result<Option<usize>> {
        let number = self.index.block_for(&self.order, user_key, trailer);
        number.map_err(|error| error.in_file(&self.path))
    }

    /// Returns about how many bytes of the file are for entries before the target: the blocks
    /// before that of the first entry at or after it, and the same share of the filter and the rest
    /// behind the blocks. Costs no I/O.
    pub fn approximate_offset(&self, user_key: &[u8], trailer: Trailer) -> Result<u64> {
        let end = match self.block_for(user_key, trailer)? {
            Some(number) => self.handle(number)?.offset,
            None => self.data_end,
        };
        let share = u128::from(end) * u128::from(self.meta.bytes) / u128::from(self.data_end);
        Ok(u64::try_from(share).unwrap_or(u64::MAX))
    }

    pub(super) fn handle(&self, number: usize) -> Result<BlockHandle> {
        self.index.handle(number).map_err(|error| error.in_file(&self.path))
    }

    /// Adds the place of a block to an error.
    pub(super) fn at(&self, error: Error, handle: BlockHandle) -> Error {
        error.in_file(&self.path).at(handle.offset)
    }

    /// Adds the place of block `number` to an error.
    #[cold]
    pub(super) fn in_block(&self, error: Error, number: usize) -> Error {
        match self.handle(number) {
            Ok(handle) => self.at(error, handle),
            Err(_) => error.in_file(&self.path),
        }
    }

    fn key(&self, handle: BlockHandle) -> BlockKey {
        BlockKey { file: self.meta.id.0, offset: handle.offset }
    }

    /// Returns the block from the cache, or `None` if it is not there. A read with `fill_cache =
    /// false` does not refresh the block's recency either.
    pub(super) fn cached(&self, handle: BlockHandle, fill_cache: bool) -> Result<Option<Block>> {
        let key = self.key(handle);
        let bytes = if fill_cache { self.cache.get(key) } else { self.cache.peek(key) };
        bytes.map(Block::new).transpose().map_err(|error| self.at(error, handle))
    }

    /// Reads the block from the file, without looking into the cache.
    pub(super) fn load(&self, handle: BlockHandle, fill_cache: bool) -> Result<Block> {
        self.adopt(handle, Cow::Owned(self.sealed(handle)?), fill_cache)
    }

    /// Reads the block as it lies in the file, not verified yet.
    pub(super) fn sealed(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        // The index bounded the length by the length of the file.
        let mut sealed = zeroed(handle.len.into())?;
        self.read(None, &mut sealed, handle.offset)?;
        Ok(sealed)
    }

    /// Verifies and unseals a block, and caches it if `fill_cache`.
    pub(super) fn adopt(
        &self,
        handle: BlockHandle,
        sealed: Cow<'_, [u8]>,
        fill_cache: bool,
    ) -> Result<Block> {
        let raw = match sealed {
            Cow::Owned(sealed) => self.seal.unseal(handle.offset, sealed),
            Cow::Borrowed(sealed) => self.seal.unseal_slice(handle.offset, sealed),
        };
        let bytes = Arc::new(raw.map_err(|error| self.at(error, handle))?);
        let block = Block::new(Arc::clone(&bytes)).map_err(|error| self.at(error, handle))?;
        if fill_cache {
            self.cache.insert(self.key(handle), bytes);
        }
        Ok(block)
    }

    /// Fills `buffer` from the file at `offset`, through `own` if the caller has the file open.
    pub(super) fn read(
        &self,
        own: Option<&dyn File>,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<()> {
        let read = match own {
            Some(file) => file.read_exact_at(buffer, offset),
            None => self.files.get(&self.path)?.read_exact_at(buffer, offset),
        };
        read.doing("read", &self.path).map_err(|error| error.at(offset))?;
        self.stats.count_read(offset, buffer.len() as u64);
        Ok(())
    }

    /// Opens the file once more, for a walk that reads it in sequence; `None` if the walk has to do
    /// with the shared one.
    pub(super) fn open_for_walk(&self) -> Option<WalkFile> {
        self.files.open_for_walk(&self.path)
    }

    /// Has the system read a range of the file that will be read soon. It is a hint, so a file that
    /// can't be opened is no error here.
    pub(super) fn start_read(&self, offset: u64, len: u64) {
        if let Ok(file) = self.files.get(&self.path) {
            file.start_read(offset, len);
        }
    }
}

impl CachedTable for Table {
    /// Returns the bytes of memory that the table takes while it is open: index and filter.
    fn memory_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, Filter::bytes);
        let of_policy = self.policy_filter.as_ref().map_or(0, |filter| filter.bytes.capacity());
        (std::mem::size_of::<Self>() + self.index.bytes() + filter + of_policy) as u64
    }

    fn keep(&mut self, charge: MemoryCharge) {
        self.charge = Some(charge);
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {} ({})", self.meta.id, self.path.display())
    }
}
