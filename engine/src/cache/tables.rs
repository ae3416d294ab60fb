//! The table cache: the open tables and relocations, whose indexes, filters and directories
//! together take a bounded number of bytes.
//!
//! Place in the data's way: each handle in `version/files.rs` has a [`TableSlot`]. A reader finds
//! the open table there, or opens it, and the cache then lets go of tables that were not used
//! lately (`eviction.rs`).
//!
//! Invariants: the slots hold at most the bound. A table that its slot let go of lives as long as
//! its readers, and new readers share it with them. After that the next reader opens the file
//! again, with all checks of the first time (I7), and gets the error if that fails (I3).
//!
//! Locks: a slot's `last` and `queue` are leaves, never held together. No I/O is done under them,
//! and no table is freed.

use super::eviction::{Candidate, Choice, choose};
use crate::base::error::Result;
use crate::env::fork::Process;
use crate::env::sync::Mutex;
use crate::stats::Counter;
use arc_swap::{ArcSwapOption, Guard};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A file that is open for reading and takes memory for as long as it is.
pub trait CachedTable: Send + Sync + 'static {
    /// Returns the bytes of memory that the table takes.
    fn memory_bytes(&self) -> u64;
    /// Makes the table keep `charge` for as long as it lives.
    fn keep(&mut self, charge: MemoryCharge);
}

/// The bound on the memory of open tables, and the tables that it applies to.
pub struct TableCache {
    bound: u64,
    held: AtomicU64,
    opened: Counter,
    evicted: Counter,
    queue: Mutex<EvictionQueue>,
    process: Process,
}

/// The statistics of a [`TableCache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableCacheStats {
    /// The bytes of memory that open tables take, those included that only their readers hold.
    pub held_bytes: u64,
    /// The bytes that slots may hold.
    pub capacity_bytes: u64,
    /// The number of tables opened since the start.
    pub opened: u64,
    /// The number of tables that slots let go of since the start to make room for others.
    pub evicted: u64,
}

/// Bytes that an open table is charged; they are given back when it is freed.
pub struct MemoryCharge {
    cache: Arc<TableCache>,
    bytes: u64,
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.cache.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The tables that slots hold, in the order in which they are considered for eviction.
#[derive(Default)]
struct EvictionQueue {
    entries: BTreeMap<u64, QueueEntry>,
    last_place: u64,
    bytes: u64,
}

struct QueueEntry {
    content: Arc<dyn SlotContent>,
    bytes: u64,
}

impl EvictionQueue {
    /// Adds an entry at the end.
    fn push(&mut self, entry: QueueEntry) {
        self.last_place += 1;
        entry.content.set_place(self.last_place);
        self.bytes += entry.bytes;
        self.entries.insert(self.last_place, entry);
    }

    fn remove(&mut self, place: u64) -> Option<QueueEntry> {
        let entry = self.entries.remove(&place)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Makes room for `need` bytes. The caller frees the returned tables without the lock.
    fn make_room(&mut self, need: u64) -> Vec<Option<AnyTable>> {
        let candidates = self.entries.iter().map(|(&place, entry)| Candidate {
            place,
            bytes: entry.bytes,
            used: entry.content.is_used(),
        });
        let Choice { evict, spare } = choose(candidates, need);
        for entry in spare.into_iter().filter_map(|place| self.remove(place)).collect::<Vec<_>>() {
            entry.content.clear_used();
            self.push(entry);
        }
        let evicted = evict.into_iter().filter_map(|place| self.remove(place));
        evicted.map(|entry| entry.content.take()).collect()
    }
}

impl TableCache {
    /// Makes a cache whose slots hold at most `bound` bytes. With 0 they hold nothing.
    pub fn new(bound: u64) -> Self {
        TableCache {
            bound,
            held: AtomicU64::new(0),
            opened: Counter::default(),
            evicted: Counter::default(),
            queue: Mutex::default(),
            process: Process::this(),
        }
    }

    /// Returns the statistics.
    pub fn stats(&self) -> TableCacheStats {
        TableCacheStats {
            held_bytes: self.held.load(Ordering::Relaxed),
            capacity_bytes: self.bound,
            opened: self.opened.get(),
            evicted: self.evicted.get(),
        }
    }

    /// Lets `content` hold a table, unless it holds one already or the table is larger than the
    /// bound. Other tables make room for it.
    fn admit<T: CachedTable>(&self, content: &Arc<TableContent<T>>, table: &Arc<T>) {
        let bytes = table.memory_bytes();
        if bytes > self.bound {
            return;
        }
        let mut queue = self.queue.lock();
        if content.table.load().is_some() {
            return;
        }
        let need = (queue.bytes + bytes).saturating_sub(self.bound);
        let evicted = queue.make_room(need);
        content.clear_used();
        content.table.store(Some(Arc::clone(table)));
        queue.push(QueueEntry { content: content.clone(), bytes });
        debug_assert!(queue.bytes <= self.bound);
        drop(queue);
        self.evicted.add(evicted.len() as u64);
    }
}

impl Default for TableCache {
    /// Makes a cache without a bound.
    fn default() -> Self {
        TableCache::new(u64::MAX)
    }
}

impl fmt::Debug for TableCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.stats(), f)
    }
}

/// A table of any kind, taken out of its slot.
type AnyTable = Arc<dyn Any + Send + Sync>;

/// The content of a slot as the queue sees it. Only its `used` may change without the queue's lock.
trait SlotContent: Send + Sync {
    fn is_used(&self) -> bool;
    fn clear_used(&self);
    fn set_place(&self, place: u64);
    fn take(&self) -> Option<AnyTable>;
}

struct TableContent<T> {
    table: ArcSwapOption<T>,
    used: AtomicBool,
    place: AtomicU64,
}

impl<T: CachedTable> SlotContent for TableContent<T> {
    fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    fn clear_used(&self) {
        self.used.store(false, Ordering::Relaxed);
    }

    fn set_place(&self, place: u64) {
        self.place.store(place, Ordering::Relaxed);
    }

    fn take(&self) -> Option<AnyTable> {
        self.table.swap(None).map(|table| table as AnyTable)
    }
}

/// The place of one table, open or not.
pub struct TableSlot<T: CachedTable> {
    cache: Arc<TableCache>,
    content: Arc<TableContent<T>>,
    /// The table that was opened last, which may live on in its readers after its eviction.
    last: Mutex<Weak<T>>,
}

impl<T: CachedTable> TableSlot<T> {
    /// Makes a slot without a table.
    pub fn new(cache: Arc<TableCache>) -> Self {
        let content = TableContent {
            table: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            place: AtomicU64::new(0),
        };
        TableSlot { cache, content: Arc::new(content), last: Mutex::new(Weak::new()) }
    }

    /// Returns true if the slot holds the table.
    pub fn is_open(&self) -> bool {
        self.content.table.load().is_some()
    }

    /// Returns the table, which `open` opens if it is not open. Costs no lock while the slot holds
    /// the table.
    #[inline]
    pub fn get(&self, open: impl FnOnce() -> Result<T>) -> Result<TableRef<T>> {
        let table = self.content.table.load();
        if table.is_none() {
            return self.fill(open);
        }
        // Threads that use the table already share the line as long as nobody writes to it.
        if !self.content.used.load(Ordering::Relaxed) {
            self.content.used.store(true, Ordering::Relaxed);
        }
        Ok(TableRef(table))
    }

    #[cold]
    fn fill(&self, open: impl FnOnce() -> Result<T>) -> Result<TableRef<T>> {
        let living = self.last.lock().upgrade();
        let table = match living {
            Some(table) => table,
            None => self.open(open)?,
        };
        self.cache.admit(&self.content, &table);
        Ok(TableRef(Guard::from_inner(Some(table))))
    }

    fn open(&self, open: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        // I3: the reader gets the error. An absent key is the answer of an open table only.
        let mut table = open()?;
        let bytes = table.memory_bytes();
        self.cache.held.fetch_add(bytes, Ordering::Relaxed);
        table.keep(MemoryCharge { cache: self.cache.clone(), bytes });
        self.cache.opened.add(1);
        let table = Arc::new(table);
        let mut last = self.last.lock();
        // Two readers may open it at once; the second one's work is dropped.
        if let Some(first) = last.upgrade() {
            return Ok(first);
        }
        *last = Arc::downgrade(&table);
        Ok(table)
    }

    /// Puts `table` in the place of what the slot holds, for as long as the slot lives. It does not
    /// count towards the cache's bound, and makes room for no other table. Its owner charges its
    /// memory elsewhere (`tree.rs`).
    pub fn hold(&self, table: T) {
        let table = Arc::new(table);
        self.cache.opened.add(1);
        // Readers that open the file meanwhile share this table.
        *self.last.lock() = Arc::downgrade(&table);
        let mut queue = self.cache.queue.lock();
        let _entry = queue.remove(self.content.place.swap(0, Ordering::Relaxed));
        let _before = self.content.table.swap(Some(table));
        // What the slot held before is dropped after the lock is released.
        drop(queue);
    }
}

impl<T: CachedTable> Drop for TableSlot<T> {
    fn drop(&mut self) {
        // In a child another thread of the parent may hold the queue for ever.
        if self.cache.process.is_gone() {
            return;
        }
        // Nobody else has the slot, so what never had a place has none now.
        if self.content.place.load(Ordering::Relaxed) == 0 {
            return;
        }
        // An eviction elsewhere may move it in the queue until the lock is held. The entry is
        // dropped after the lock is released, and the table with it.
        let mut queue = self.cache.queue.lock();
        let _entry = queue.remove(self.content.place.load(Ordering::Relaxed));
        drop(queue);
    }
}

/// An open table that stays open for as long as this is held.
pub struct TableRef<T>(Guard<Option<Arc<T>>>);

impl<T> Deref for TableRef<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        self.0.as_ref().expect("only a slot that holds a table is referred to")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;

    /// A table that takes as many bytes as it says.
    struct Sized(u64, Option<MemoryCharge>);

    impl CachedTable for Sized {
        fn memory_bytes(&self) -> u64 {
            self.0
        }

        fn keep(&mut self, charge: MemoryCharge) {
            self.1 = Some(charge);
        }
    }

    type Slots = Vec<TableSlot<Sized>>;

    fn cache(bound: u64, slots: usize) -> (Arc<TableCache>, Slots) {
        let cache = Arc::new(TableCache::new(bound));
        let slots = (0..slots).map(|_| TableSlot::new(cache.clone())).collect();
        (cache, slots)
    }

    fn read(slot: &TableSlot<Sized>, bytes: u64) -> TableRef<Sized> {
        slot.get(|| Ok(Sized(bytes, None))).unwrap()
    }

    /// Returns the held bytes, and how often tables were opened and evicted.
    fn counts(cache: &TableCache) -> (u64, u64, u64) {
        let TableCacheStats { held_bytes, opened, evicted, .. } = cache.stats();
        (held_bytes, opened, evicted)
    }

    #[test]
    fn what_fits_is_opened_once() {
        let (cache, slots) = cache(300, 3);
        for _ in 0..5 {
            slots.iter().for_each(|slot| assert_eq!(read(slot, 100).0.as_ref().unwrap().0, 100));
        }
        assert_eq!(counts(&cache), (300, 3, 0));
    }

    #[test]
    fn the_slots_keep_to_the_bound_and_to_what_is_used() {
        let (cache, slots) = cache(1000, 50);
        read(&slots[0], 100);
        for slot in slots.iter().chain(&slots) {
            read(slot, 90);
            read(&slots[0], 100);
            assert!(counts(&cache).0 <= 1000);
        }
        let (held, opened, evicted) = counts(&cache);
        assert_eq!((held, opened), (100 + 10 * 90, 1 + 2 * 49), "the first was always used");
        assert_eq!(evicted, opened - 11);
    }

    #[test]
    fn readers_keep_what_was_evicted_and_share_it() {
        let (cache, slots) = cache(100, 2);
        let held = read(&slots[0], 100);
        let table = Arc::clone(&held);
        drop(held);
        read(&slots[1], 100);
        assert_eq!(counts(&cache), (200, 2, 1), "one in a slot, one held by its reader");
        assert!(Arc::ptr_eq(&read(&slots[0], 100), &table), "it is not opened again");
        assert_eq!(counts(&cache), (100, 2, 2), "it is in its slot again");
        drop(table);
        assert_eq!(counts(&cache).0, 100);
    }

    #[test]
    fn what_is_larger_than_the_bound_is_held_by_its_readers_only() {
        for bound in [0, 99] {
            let (cache, slots) = cache(bound, 1);
            let held = read(&slots[0], 100);
            assert!(Arc::ptr_eq(&read(&slots[0], 100), &held));
            assert_eq!(counts(&cache), (100, 1, 0));
            drop(held);
            assert_eq!(counts(&cache).0, 0);
        }
    }

    #[test]
    fn a_slot_that_goes_gives_its_bytes_back() {
        let (cache, mut slots) = cache(200, 3);
        read(&slots[0], 100);
        read(&slots[1], 100);
        slots.remove(0);
        assert_eq!(counts(&cache).0, 100);
        read(&slots[1], 100);
        assert_eq!(counts(&cache), (200, 3, 0), "there is room for another");
        slots.clear();
        assert_eq!(counts(&cache).0, 0);
        assert!(cache.queue.lock().entries.is_empty());
    }

    #[test]
    fn a_table_that_is_held_is_never_evicted_and_takes_no_room_of_others() {
        let (cache, mut slots) = cache(100, 3);
        let before = Arc::clone(&read(&slots[0], 100));
        slots[0].hold(Sized(90, None));
        assert_eq!(counts(&cache), (100, 2, 0), "its reader has the one before");
        drop(before);
        for _ in 0..3 {
            slots[1..].iter().for_each(|slot| drop(read(slot, 100)));
            assert_eq!(read(&slots[0], 1).0.as_ref().unwrap().0, 90);
        }
        assert_eq!(counts(&cache).0, 100, "the whole bound is for the others");
        slots.remove(0);
        slots.clear();
        assert!(cache.queue.lock().entries.is_empty());
    }

    /// Guards a child against waiting for a thread of its parent that held the queue at the fork.
    #[test]
    fn a_slot_that_goes_in_a_child_leaves_the_queue_alone() {
        let mut cache = TableCache::new(200);
        cache.process = Process::gone();
        let cache = Arc::new(cache);
        let slot = TableSlot::new(cache.clone());
        read(&slot, 100);
        drop(slot);
        assert_eq!(cache.queue.lock().entries.len(), 1);
    }

    #[test]
    fn i03_a_table_that_cannot_be_opened_again_is_an_error_until_it_can() {
        let (cache, slots) = cache(100, 2);
        read(&slots[0], 100);
        read(&slots[1], 100);
        let refused = slots[0].get(|| Err(Error::corruption("the footer is damaged")));
        assert_eq!(refused.map(|_| ()).unwrap_err().to_string(), "the footer is damaged");
        assert_eq!(counts(&cache), (100, 2, 1), "nothing made room for it");
        read(&slots[0], 100);
        assert_eq!(counts(&cache), (100, 3, 2));
    }
}
