//! An open table: one key, or one block.
//!
//! Place in the data's way: `read/get.rs` asks candidate tables, newest first, through
//! [`Table::get`]: filter, index, one block through the cache. `iter.rs` asks for block after
//! block.
//!
//! Invariants: I7 (what is read is checked before it is parsed or cached). Errors name the file and
//! the offset of the block. Index and filter stay in memory as long as the table is open; the file
//! itself is opened through [`OpenFiles`] at each read, and may be closed in between.

use super::block::Block;
use super::block_iter::BlockIter;
use super::filter::Filter;
use super::format::{BlockHandle, FileSeed, unseal, unseal_slice};
use super::index::Index;
use super::policy::{FilterPolicy, PolicyFilter};
use super::properties::{Properties, TableMeta};
use super::stats::TableStats;
use super::tail::{StoredFilter, TableTail};
use crate::base::checksum::key_hash;
use crate::base::error::{Error, IoContext, Result};
use crate::base::key::{KeyOrder, SeqNo, Trailer};
use crate::base::memory::zeroed;
use crate::cache::{BlockCache, BlockKey, OpenFiles};
use crate::env::fs::File;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table that is open for reading, by any number of threads.
pub struct Table {
    pub(super) files: Arc<OpenFiles>,
    pub(super) path: PathBuf,
    pub(super) meta: Arc<TableMeta>,
    pub(super) database: u64,
    pub(super) order: KeyOrder,
    cache: Arc<BlockCache>,
    pub(super) stats: Arc<TableStats>,
    pub(super) seed: FileSeed,
    pub(super) index: Index,
    filter: Option<Filter>,
    policy_filter: Option<PolicyFilter>,
    /// Of a policy that was not given yet.
    unread_filter: Option<Vec<u8>>,
    properties: Properties,
    pub(super) data_end: u64,
}

impl Table {
    /// Opens the table at `path` that `meta` describes; one that differs from it is refused.
    pub fn open(
        files: Arc<OpenFiles>,
        path: PathBuf,
        meta: Arc<TableMeta>,
        database: u64,
        order: KeyOrder,
        cache: Arc<BlockCache>,
        stats: Arc<TableStats>,
    ) -> Result<Table> {
        let file = files.get(&path)?;
        let tail = TableTail::read(&*file, &path, &meta, database, &order)?;
        let seed = FileSeed::new(database, meta.id);
        let TableTail { index, filter, properties, data_end } = tail;
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
            seed,
            index,
            filter,
            policy_filter: None,
            unread_filter,
            properties,
            data_end,
        })
    }

    /// Reads the filter, if it was made by a policy, with this one; one of another name is left
    /// alone.
    #[must_use]
    pub fn with_policy(mut self, policy: Option<&Arc<dyn FilterPolicy>>) -> Table {
        let bytes = self.unread_filter.take();
        let policy =
            policy.filter(|it| Some(it.name()) == self.properties.filter_policy.as_deref());
        self.policy_filter = policy
            .zip(bytes)
            .map(|(policy, bytes)| PolicyFilter { policy: Arc::clone(policy), bytes });
        self
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many data blocks it has.
    pub fn blocks(&self) -> usize {
        self.index.len()
    }

    /// Bytes of memory that it takes as long as it is open: index and filter.
    pub fn pinned_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::bytes);
        let of_policy = self.policy_filter.as_ref().map_or(0, |filter| filter.bytes.capacity());
        std::mem::size_of::<Self>() + self.index.bytes() + filter + of_policy
    }

    /// The key's hash if the filter lets it pass; zero where there is no filter. `None`: there is
    /// certainly no entry of the key.
    fn passes_filter(&self, user_key: &[u8]) -> Option<u64> {
        let Some(filter) = &self.filter else {
            let policy = self.policy_filter.as_ref();
            let passes = policy.is_none_or(|it| it.policy.may_contain(user_key, &it.bytes));
            return passes.then_some(0);
        };
        let hash = key_hash(user_key);
        let passes = filter.may_contain(hash);
        self.stats.count_filter_check(hash, !passes);
        passes.then_some(hash)
    }

    /// Hands the newest entry of `user_key` with a sequence number of at most `seqno` to `found`,
    /// tombstones included; `None` if there is none here. Reads at most one block.
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
        let entry = self.find(user_key, Trailer::seek(seqno), fill_cache)?;
        match entry {
            Some(entry) => Ok(Some(found(entry.trailer(), entry.payload()))),
            None => {
                // Of an earlier point in time it may be that there are only newer versions.
                if self.filter.is_some() && seqno >= self.meta.summary.max_seqno {
                    self.stats.count_false_positive(hash);
                }
                Ok(None)
            }
        }
    }

    /// Stands on the first entry of `user_key` at or behind `trailer`, if there is one. By the
    /// rule of bounds (`index.rs`) it can be in no block but the one that the index names.
    fn find(
        &self,
        user_key: &[u8],
        trailer: Trailer,
        fill_cache: bool,
    ) -> Result<Option<BlockIter>> {
        let Some(number) = self.block_for(user_key, trailer)? else {
            return Ok(None);
        };
        let handle = self.handle(number)?;
        let block = match self.cached(handle, fill_cache)? {
            Some(block) => block,
            None => self.load(handle, fill_cache)?,
        };
        let mut entry = BlockIter::new(block);
        entry.seek(&self.order, user_key, trailer).map_err(|error| self.at(error, handle))?;
        let hit = entry.valid() && self.order.compare(entry.user_key(), user_key).is_eq();
        Ok(hit.then_some(entry))
    }

    /// The block where a search starts; see [`Index::block_for`].
    pub(super) fn block_for(&self, user_key: &[u8], trailer: Trailer) -> Result<Option<usize>> {
        let number = self.index.block_for(&self.order, user_key, trailer);
        number.map_err(|error| error.in_file(&self.path))
    }

    /// About where in the file the first entry at or behind the target is: the start of its
    /// block. Costs no I/O.
    pub fn approximate_offset(&self, user_key: &[u8], trailer: Trailer) -> Result<u64> {
        match self.block_for(user_key, trailer)? {
            Some(number) => Ok(self.handle(number)?.offset),
            None => Ok(self.data_end),
        }
    }

    pub(super) fn handle(&self, number: usize) -> Result<BlockHandle> {
        self.index.handle(number).map_err(|error| error.in_file(&self.path))
    }

    /// Names the place of a block in an error.
    pub(super) fn at(&self, error: Error, handle: BlockHandle) -> Error {
        error.in_file(&self.path).at(handle.offset)
    }

    fn key(&self, handle: BlockHandle) -> BlockKey {
        BlockKey { file: self.meta.id.0, offset: handle.offset }
    }

    /// The block from the cache, if it is there. Who does not fill the cache does not warm it.
    pub(super) fn cached(&self, handle: BlockHandle, fill_cache: bool) -> Result<Option<Block>> {
        let key = self.key(handle);
        let bytes = if fill_cache { self.cache.get(key) } else { self.cache.peek(key) };
        bytes.map(Block::new).transpose().map_err(|error| self.at(error, handle))
    }

    /// The block from the file.
    pub(super) fn load(&self, handle: BlockHandle, fill_cache: bool) -> Result<Block> {
        self.adopt(handle, Cow::Owned(self.sealed(handle)?), fill_cache)
    }

    /// The block as it lies in the file, not checked yet.
    pub(super) fn sealed(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        // The length was checked against the file's when the index was.
        let mut sealed = zeroed(handle.len.into())?;
        self.read(&mut sealed, handle.offset)?;
        Ok(sealed)
    }

    /// Checks and unseals a block, and caches it.
    pub(super) fn adopt(
        &self,
        handle: BlockHandle,
        sealed: Cow<'_, [u8]>,
        fill_cache: bool,
    ) -> Result<Block> {
        let raw = match sealed {
            Cow::Owned(sealed) => unseal(self.seed, handle.offset, sealed),
            Cow::Borrowed(sealed) => unseal_slice(self.seed, handle.offset, sealed),
        };
        let bytes = Arc::new(raw.map_err(|error| self.at(error, handle))?);
        let block = Block::new(Arc::clone(&bytes)).map_err(|error| self.at(error, handle))?;
        if fill_cache {
            self.cache.insert(self.key(handle), bytes);
        }
        Ok(block)
    }

    /// Fills `buffer` from the file.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let file: Arc<dyn File> = self.files.get(&self.path)?;
        file.read_exact_at(buffer, offset)
            .doing("read", &self.path)
            .map_err(|error| error.at(offset))?;
        self.stats.count_read(offset, buffer.len() as u64);
        Ok(())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {} ({})", self.meta.id, self.path.display())
    }
}
