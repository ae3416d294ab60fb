//! Floor 2: the caches of the read path: decoded blocks of tables and relocations, open files, and
//! open tables (`tables.rs`, `eviction.rs`); and the account of tables that are pinned (`tree.rs`).
//!
//! Place in the data's way: `table/reader.rs` and `relocation/reader.rs` look a block up in
//! [`BlockCache`] before they read it, and get the file to read from [`OpenFiles`]. All caches
//! treat blocks, files and tables as opaque.
//!
//! Invariants: a block is cached only after its checksum held and it was decompressed (I7), so that
//! a hit needs no check. File ids are never used twice, so a cached block cannot become stale. A
//! file is unlinked and closed in one step, [`OpenFiles::remove`] (I5), because a deleted file that
//! a cache kept open would hold its space on disk.
//!
//! Locks: one mutex per shard of the open files, held while a file is opened or unlinked; no other
//! lock is taken under it. The block cache locks its shards inside single calls, which never wait
//! for I/O or for another thread's load: two readers that miss the same block both read it.

mod eviction;
#[cfg(test)]
pub(crate) mod memory_fs;
mod tables;
mod tree;

pub use tables::{CachedTable, MemoryCharge, TableCache, TableRef, TableSlot};
pub use tree::{TreeCharge, TreeMemory};

use crate::base::checksum::key_hash;
use crate::base::error::{IoContext, Result};
use crate::env::fs::{AccessPattern, File, Fs};
use crate::env::sync::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The verified and decompressed bytes of a block.
pub type BlockBytes = Arc<Vec<u8>>;

/// The key of a block: the file that holds it, and its byte offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockKey {
    /// The id of the file, a table or a relocation. No two files of a database have the same id.
    pub file: u64,
    /// The byte offset at which the block begins.
    pub offset: u64,
}

impl BlockKey {
    /// Returns the hash of the key. It has no random seed, so evictions are the same in every run
    /// and a simulation can be replayed.
    #[inline]
    fn mix(self) -> u64 {
        const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];
        let once = (self.file.wrapping_mul(ODD[0]) ^ self.offset).wrapping_mul(ODD[1]);
        (once ^ (once >> 32)).wrapping_mul(ODD[0])
    }
}

impl Hash for BlockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.mix());
    }
}

/// A hasher that returns the hash that [`BlockKey`] has already computed.
#[derive(Clone, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = key_hash(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

/// A factory of [`Mixed`] hashers without a random seed.
#[derive(Clone, Default)]
struct Unseeded;

impl BuildHasher for Unseeded {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed::default()
    }
}

/// The memory in bytes that a cached block takes beyond its own bytes: two allocations and the
/// cache's entry.
const OVERHEAD_BYTES: u64 = 120;

/// The weight function of the block cache: the memory of a block in bytes, overhead included.
#[derive(Clone)]
struct ByBytes;

impl Weighter<BlockKey, BlockBytes> for ByBytes {
    fn weight(&self, _key: &BlockKey, block: &BlockBytes) -> u64 {
        block.capacity() as u64 + OVERHEAD_BYTES
    }
}

type BlockMap =
    Cache<BlockKey, BlockBytes, ByBytes, Unseeded, DefaultLifecycle<BlockKey, BlockBytes>>;

/// One shard of the hit and miss counters, on a cache line of its own. Threads that read different
/// blocks rarely share a shard.
#[repr(align(64))]
#[derive(Default)]
struct CacheCounterShard {
    hits: AtomicU64,
    misses: AtomicU64,
}

const CACHE_COUNTER_SHARDS: usize = 16;

/// A byte-bounded, scan-resistant cache of decoded blocks, for the files of one database.
pub struct BlockCache {
    blocks: Option<BlockMap>,
    capacity: u64,
    lanes: [CacheCounterShard; CACHE_COUNTER_SHARDS],
}

/// The statistics and content of a [`BlockCache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockCacheStats {
    /// The number of [`BlockCache::get`] calls that found the block.
    pub hits: u64,
    /// The number of [`BlockCache::get`] calls that did not find the block.
    pub misses: u64,
    /// The number of blocks held.
    pub blocks: u64,
    /// The bytes held, overhead included.
    pub bytes: u64,
    /// The capacity in bytes.
    pub capacity_bytes: u64,
}

impl BlockCache {
    /// The largest number of shards: more than the threads that read at once.
    const MAX_SHARDS: u64 = 64;
    /// The least capacity of a shard in bytes. A shard holds no more than its share of the
    /// capacity, so the share must be large against a block.
    const MIN_SHARD_BYTES: u64 = 1 << 20;
    /// The largest estimated number of blocks. The estimate sizes the record of recently evicted
    /// ones.
    const MAX_ESTIMATED_ITEMS: u64 = 1 << 20;
    /// The assumed size of a block in bytes, for that estimate.
    const TYPICAL_BLOCK_BYTES: u64 = 4 << 10;

    /// Makes a cache of at most `capacity_bytes`. Zero switches the cache off.
    pub fn new(capacity_bytes: u64) -> Self {
        let lanes = Default::default();
        if capacity_bytes == 0 {
            return BlockCache { blocks: None, capacity: 0, lanes };
        }
        let shards = (capacity_bytes / Self::MIN_SHARD_BYTES).clamp(1, Self::MAX_SHARDS);
        let shards = 1 << shards.ilog2();
        debug_assert!((1..=Self::MAX_SHARDS).contains(&shards));
        // Memory for this many items is allocated at once. An estimate that is far too low costs
        // little.
        let items = capacity_bytes / Self::TYPICAL_BLOCK_BYTES;
        let items = items.clamp(32 * shards, Self::MAX_ESTIMATED_ITEMS);
        // The number of shards is set explicitly, so that it does not depend on the machine's
        // cores.
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            .estimated_items_capacity(items as usize)
            .weight_capacity(capacity_bytes)
            .build()
            .expect("capacity and items are set");
        let blocks = Cache::with_options(options, ByBytes, Unseeded, DefaultLifecycle::default());
        BlockCache { blocks: Some(blocks), capacity: capacity_bytes, lanes }
    }

    /// Returns the block, or `None` if it is not held. Counts the lookup and refreshes the block's
    /// recency.
    pub fn get(&self, key: BlockKey) -> Option<BlockBytes> {
        let found = self.blocks.as_ref()?.get(&key);
        let lane = &self.lanes[(key.mix() >> 60) as usize % CACHE_COUNTER_SHARDS];
        let counter = if found.is_some() { &lane.hits } else { &lane.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Returns the block, or `None` if it is not held. The lookup is not counted and does not
    /// refresh the block's recency; full passes use it.
    pub fn peek(&self, key: BlockKey) -> Option<BlockBytes> {
        self.blocks.as_ref()?.peek(&key)
    }

    /// Inserts a block, unless it is too large for a shard.
    pub fn insert(&self, key: BlockKey, block: BlockBytes) {
        if let Some(blocks) = &self.blocks {
            blocks.insert(key, block);
        }
    }

    /// Returns the statistics and the content counts.
    pub fn stats(&self) -> BlockCacheStats {
        let sum = |of: fn(&CacheCounterShard) -> &AtomicU64| {
            self.lanes.iter().map(|lane| of(lane).load(Ordering::Relaxed)).sum()
        };
        BlockCacheStats {
            hits: sum(|lane| &lane.hits),
            misses: sum(|lane| &lane.misses),
            blocks: self.blocks.as_ref().map_or(0, |blocks| blocks.len() as u64),
            bytes: self.blocks.as_ref().map_or(0, |blocks| blocks.weight()),
            capacity_bytes: self.capacity,
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.stats(), f)
    }
}

/// An open file and the tick of its last use.
struct OpenFile {
    file: Arc<dyn File>,
    last_used: u64,
}

/// One shard of the open files. Each use gets the next tick, so no two files have the same
/// `last_used`.
#[derive(Default)]
struct OpenFileShard {
    files: BTreeMap<OsString, OpenFile>,
    tick: u64,
    opened: u64,
    evicted: u64,
}

impl OpenFileShard {
    fn touch(&mut self, path: &OsStr) -> Option<Arc<dyn File>> {
        self.tick += 1;
        let open = self.files.get_mut(path)?;
        open.last_used = self.tick;
        Some(Arc::clone(&open.file))
    }

    /// Removes and returns the least recently used file, or `None` if there is none. A shard is
    /// small and opening a file is slow, so a scan here is cheaper than keeping the files in order
    /// at each use.
    fn take_oldest(&mut self) -> Option<OpenFile> {
        let oldest = self.files.iter().min_by_key(|(_, open)| open.last_used)?.0.clone();
        self.evicted += 1;
        self.files.remove(&oldest)
    }
}

/// A cache of at most a fixed number of files that are open for reading. A new file evicts the
/// least recently used one, which is closed when its last reader has finished.
///
/// The kernel is advised to expect random reads. Long walks open their files once more
/// ([`OpenFiles::open_for_walk`]); a quarter of the number is kept for them.
pub struct OpenFiles {
    fs: Arc<dyn Fs>,
    shards: Vec<Mutex<OpenFileShard>>,
    max_per_shard: usize,
    /// The number of files that walks may open yet.
    left_for_walks: Arc<AtomicUsize>,
    /// How far the system reads ahead of each of those; known once there was one.
    read_ahead: OnceLock<u64>,
}

/// A file that a walk has open for itself.
pub struct WalkFile {
    /// The file.
    pub file: Arc<dyn File>,
    /// About how many bytes the system reads ahead of it.
    pub read_ahead: u64,
    left: Arc<AtomicUsize>,
}

impl Drop for WalkFile {
    fn drop(&mut self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// The statistics and content of [`OpenFiles`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFilesStats {
    /// The number of files held open.
    pub open: u64,
    /// The number of files opened since the start.
    pub opened: u64,
    /// The number of files closed since the start to make room for others.
    pub evicted: u64,
}

impl OpenFiles {
    const MAX_SHARDS: usize = 16;
    /// The least number of files for each shard. With one shard the order of use is exact.
    const MIN_SHARD_FILES: usize = 16;

    /// Makes a cache that keeps at most `max` files of `fs` open (at least one).
    pub fn new(fs: Arc<dyn Fs>, max: usize) -> Self {
        let of_walks = if cfg!(target_os = "linux") { max / 4 } else { 0 };
        let max = max - of_walks;
        let shards = (max / Self::MIN_SHARD_FILES).clamp(1, Self::MAX_SHARDS);
        let max_per_shard = (max / shards).max(1);
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        let left_for_walks = Arc::new(of_walks.into());
        OpenFiles { fs, shards, max_per_shard, left_for_walks, read_ahead: OnceLock::new() }
    }

    fn with_shard<R>(&self, path: &Path, work: impl FnOnce(&mut OpenFileShard) -> R) -> R {
        let hash = key_hash(path.as_os_str().as_encoded_bytes());
        let shard = &self.shards[(hash % self.shards.len() as u64) as usize];
        work(&mut shard.lock())
    }

    /// Returns the open file at `path`, and opens it if it is not open yet.
    pub fn get(&self, path: &Path) -> Result<Arc<dyn File>> {
        // The lock is held while the file is opened. Otherwise `remove` could run between opening
        // and inserting, and a deleted file would stay open. The evicted file is closed after the
        // lock is released.
        let (file, _evicted) = self.with_shard(path, |shard| -> Result<_> {
            if let Some(file) = shard.touch(path.as_os_str()) {
                return Ok((file, None));
            }
            let file = self.fs.open(path).doing("open", path)?;
            file.advise(AccessPattern::Random);
            shard.opened += 1;
            let full = shard.files.len() >= self.max_per_shard;
            let evicted = if full { shard.take_oldest() } else { None };
            let open = OpenFile { file: Arc::clone(&file), last_used: shard.tick };
            let before = shard.files.insert(path.as_os_str().to_os_string(), open);
            debug_assert!(before.is_none(), "a file is opened once");
            assert!(shard.files.len() <= self.max_per_shard, "more files are open than may be");
            Ok((file, evicted))
        })?;
        Ok(file)
    }

    /// Opens the file at `path` once more, for one walk that reads it in sequence: the system reads
    /// ahead of it. The caller closes it. Returns `None` if other walks have as many as they may,
    /// the file can't be opened, or the system takes no advice: the walk reads the shared one then.
    pub fn open_for_walk(&self, path: &Path) -> Option<WalkFile> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let left = &self.left_for_walks;
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        let Ok(file) = self.fs.open(path) else {
            left.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        file.advise(AccessPattern::Sequential);
        let read_ahead = *self.read_ahead.get_or_init(|| self.fs.read_ahead_bytes(path));
        Some(WalkFile { file, read_ahead, left: left.clone() })
    }

    /// I5: unlinks and closes a file in one step, so that no reader can open it in between and
    /// leave it in the cache. The caller has made sure that nobody can reach the file any more.
    /// After a crash here the file exists or not; if it does, the next open deletes it because no
    /// version names it.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let (_closed_unlocked, removed) = self
            .with_shard(path, |shard| (shard.files.remove(path.as_os_str()), self.fs.remove(path)));
        match removed {
            // The file was removed by other means, so the wanted state holds.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.doing("remove", path),
        }
    }

    /// Closes a file that another process has removed, or is about to.
    pub fn forget(&self, path: &Path) {
        let _closed_unlocked = self.with_shard(path, |shard| shard.files.remove(path.as_os_str()));
    }

    /// Returns every file held open with its path, sorted by path.
    pub fn held(&self) -> Vec<(PathBuf, Arc<dyn File>)> {
        let mut held = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            held.extend(shard.files.iter().map(|(path, open)| (path.into(), open.file.clone())));
        }
        held.sort_by(|(one, _): &(PathBuf, _), (other, _)| one.cmp(other));
        held
    }

    /// Returns the statistics and the content counts.
    pub fn stats(&self) -> OpenFilesStats {
        let mut sum = OpenFilesStats::default();
        for shard in &self.shards {
            let shard = shard.lock();
            sum.open += shard.files.len() as u64;
            sum.opened += shard.opened;
            sum.evicted += shard.evicted;
        }
        sum
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.stats(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::memory_fs::MemoryFs;
    use super::*;
    use std::path::PathBuf;

    #[test]
    #[cfg(target_os = "linux")]
    fn walks_have_a_quarter_of_the_files() {
        let (fs, path) = (Arc::new(MemoryFs::default()), Path::new("a"));
        fs.put(path, vec![1]);
        let files = OpenFiles::new(fs, 16);
        let walks: Vec<_> = (0..9).map_while(|_| files.open_for_walk(path)).collect();
        assert_eq!(walks.len(), 4);
        assert!(files.open_for_walk(Path::new("none")).is_none());
        drop(walks);
        assert!(files.open_for_walk(Path::new("none")).is_none(), "there is no such file");
        assert_eq!((0..9).map_while(|_| files.open_for_walk(path)).count(), 9, "each is closed");
        assert!(OpenFiles::new(Arc::new(MemoryFs::default()), 3).open_for_walk(path).is_none());
    }

    fn key(file: u64, offset: u64) -> BlockKey {
        BlockKey { file, offset }
    }

    #[test]
    fn blocks_come_back_and_are_counted() {
        let cache = BlockCache::new(1 << 20);
        assert!(cache.get(key(1, 40)).is_none());
        cache.insert(key(1, 40), Arc::new(vec![7; 100]));
        assert_eq!(*cache.get(key(1, 40)).unwrap(), vec![7; 100]);
        assert!(cache.get(key(2, 40)).is_none());
        assert!(cache.peek(key(1, 40)).is_some() && cache.peek(key(1, 41)).is_none());
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.blocks), (1, 2, 1));
        assert_eq!(stats.bytes, 100 + OVERHEAD_BYTES);
    }

    #[test]
    fn the_cache_keeps_to_its_bytes() {
        for capacity in [10_000u64, 3 << 20, 100 << 20] {
            let cache = BlockCache::new(capacity);
            for table in 0..3 * capacity / 4096 {
                cache.insert(key(table, table * 4096), Arc::new(vec![0; 4096]));
            }
            let bytes = cache.stats().bytes;
            assert!(bytes <= capacity && bytes >= capacity / 2, "{bytes} of {capacity}");
            let before = cache.stats().blocks;
            cache.insert(key(1, 1), Arc::new(vec![0; capacity as usize + 1]));
            assert_eq!(cache.stats().blocks, before);
        }
        let off = BlockCache::new(0);
        off.insert(key(1, 1), Arc::new(vec![1]));
        assert!(off.get(key(1, 1)).is_none());
        assert_eq!(off.stats(), BlockCacheStats::default());
    }

    #[test]
    fn what_is_evicted_is_the_same_in_every_run() {
        let held = || {
            let cache = BlockCache::new(4 << 20);
            for n in 0..5000u64 {
                cache.insert(key(n / 7, n % 7 * 4096), Arc::new(vec![0; 4096]));
                cache.get(key(n * n % 700, 4096));
            }
            (0..5000u64)
                .filter(|n| cache.peek(key(n / 7, n % 7 * 4096)).is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(held(), held());
    }

    fn files(fs: &Arc<MemoryFs>, max: usize, names: usize) -> (OpenFiles, Vec<PathBuf>) {
        let paths: Vec<_> = (0..names).map(|n| PathBuf::from(format!("db/{n}.sst"))).collect();
        for path in &paths {
            fs.create(path).unwrap();
        }
        (OpenFiles::new(fs.clone(), max), paths)
    }

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let fs = Arc::new(MemoryFs::default());
        let (files, paths) = files(&fs, 3, 4);
        for path in &paths[..3] {
            files.get(path).unwrap();
        }
        files.get(&paths[0]).unwrap();
        files.get(&paths[3]).unwrap();
        assert_eq!(files.stats(), OpenFilesStats { open: 3, opened: 4, evicted: 1 });
        files.get(&paths[0]).unwrap();
        assert_eq!(files.stats().opened, 4);
        files.get(&paths[1]).unwrap();
        assert_eq!(files.stats().opened, 5);
    }

    #[test]
    fn a_reader_keeps_its_file_and_nobody_else_does() {
        let fs = Arc::new(MemoryFs::default());
        let (files, paths) = files(&fs, 1, 2);
        let held = files.get(&paths[0]).unwrap();
        files.get(&paths[1]).unwrap();
        assert_eq!(Arc::strong_count(&held), 2, "the file system and this reader");
        assert_eq!(files.stats(), OpenFilesStats { open: 1, opened: 2, evicted: 1 });
    }

    #[test]
    fn i05_a_removed_file_is_not_kept_open() {
        let fs = Arc::new(MemoryFs::default());
        let (files, paths) = files(&fs, 10, 1);
        let held = files.get(&paths[0]).unwrap();
        files.remove(&paths[0]).unwrap();
        assert_eq!(Arc::strong_count(&held), 1, "only this reader holds the deleted file");
        let error = files.get(&paths[0]).map(|_| ()).unwrap_err();
        assert_eq!(error.file(), Some(&*paths[0]));
        files.remove(&paths[0]).unwrap();
        assert_eq!(files.stats().open, 0);
    }

    #[test]
    fn many_files_stay_within_the_bound() {
        let fs = Arc::new(MemoryFs::default());
        let (files, paths) = files(&fs, 100, 500);
        for path in paths.iter().chain(&paths) {
            files.get(path).unwrap();
            assert!(files.stats().open <= 100);
        }
        assert!(files.stats().open > 50);
    }
}
