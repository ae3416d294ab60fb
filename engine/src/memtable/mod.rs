//! Floor 2: the memtable, which holds the newest entries of a keyspace until they are flushed. It
//! is an ordered map from (user key, sequence number) to a value, a value pointer or a tombstone.
//!
//! The data's way: the commit room inserts entries that are in the log; reads search the memtable
//! before any table; a flush walks it once, in order, and writes a table. No entry is ever removed.
//!
//! It is a skip list. One thread inserts at a time; any number of threads read meanwhile, without
//! locks and without waiting. Entries, links and bytes live in append-only arenas (`arena.rs`) and
//! refer to each other by 32-bit numbers. An entry is written in full and then published by a
//! release store of its number in the lowest level, which pairs with the acquire load of a reader.
//! So a reader that sees an entry sees all of it, and also sees all earlier insertions. A search
//! touches one cache line per entry that it passes (`node.rs`). A large memtable has a filter, too
//! (`filter.rs`), so that most look-ups of keys that it does not hold need no search. Who looks a
//! key up to write it may note where the search ended (`place.rs`), so that the insertion need not
//! search.
//!
//! Invariants: I6 (an entry that was inserted is found until the memtable is dropped; its key is in
//! the filter before that).
//!
//! Locks: `inserter`, a leaf lock, taken by insertions, and by what returns their counts
//! ([`Memtable::records`], [`Memtable::expired`], [`Memtable::inline`], [`Memtable::absorbed`]).

mod arena;
mod counts;
mod filter;
mod iter;
mod node;
mod payloads;
mod place;
mod ranges;

#[cfg(test)]
mod tests;

pub use counts::{AbsorbedBytes, InlineBytes, RecordBytes};
pub use iter::MemtableIter;
pub use place::KeyPlace;

use crate::base::bounds::Bounds;
use crate::base::checksum::key_hash;
use crate::base::entry::Payload;
use crate::base::expiry::{DeadlineCounts, ExpiryTime};
use crate::base::key::{EntryKind, KeyOrder, SeqNo, Trailer};
use crate::base::pointer::SegmentId;
use crate::base::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::costly_check;
use crate::env::sync::Mutex;
use arena::Arena;
use counts::EntryCounts;
use filter::KeyFilter;
use node::{NODE_LEVELS, Node, SHORT_KEY_BYTES, Words, words_of};
use payloads::{PayloadEnds, Payloads, PointerCell, ShortPayload};
use ranges::MemtableRanges;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

/// The number of the list's head, which is no entry. As a link it means that no entry follows.
const HEAD: u32 = 0;

/// The number of levels of the list. Each level has half of the entries of the one below, so 24 are
/// enough for tens of millions. (A quarter would save links, but a search would pass more entries,
/// and each of them costs a cache line.)
const MAX_LEVELS: usize = 24;

/// The processor has most entries of the upper levels in its cache: of so many below the highest no
/// entry is loaded ahead. Among 600,000 entries the four lowest levels are left, and an insertion
/// or a look-up takes an eighth less time (`bench/record/2026-11-29-delayed-writers.md`).
const CACHED_LEVELS: usize = 11;

/// The approximate memory of a range tombstone besides its keys: in the list, the summaries and the
/// places of its set, and in its own allocations.
const RANGE_TOMBSTONE_BYTES: usize = 200;

/// A memtable gets a filter once it has this part (one in this many) of the keys that the filter
/// has room for. A smaller one is searched within the processor's caches, and a database may have
/// very many small ones.
const FILTER_FROM_PART: usize = 32;
/// The most keys that a filter has room for: 2.5 MiB of memory. The insertion that makes it zeroes
/// that and walks over a 32nd as many entries, which takes a few milliseconds. Beyond, a filter
/// excludes less and less.
const MAX_FILTER_KEYS: usize = 2 << 20;

/// A concurrent ordered map of entries; the module documentation describes it.
pub struct Memtable {
    /// No other memtable of this process has the same number.
    number: u64,
    order: KeyOrder,
    /// The keys that the filter is to have room for; `None` if the memtable never gets one.
    filter_keys: Option<usize>,
    /// The filter, made when a part of these keys is there.
    filter: OnceLock<KeyFilter>,
    nodes: Arena<Node>,
    /// The links on levels above [`NODE_LEVELS`], for which nodes have no room.
    towers: Arena<AtomicU32>,
    payloads: Payloads,
    /// The number of levels that have entries. A search starts at the highest of them.
    levels: AtomicU32,
    entries: AtomicU64,
    tombstones: AtomicU64,
    used_bytes: AtomicU64,
    ranges: MemtableRanges,
    /// The greatest sequence number of an entry.
    newest_entry: AtomicU64,
    inserter: Mutex<Inserter>,
}

/// The state of insertions, guarded by [`Memtable::inserter`].
struct Inserter {
    /// For each level, the entry inserted last or the last entry before it. The next entry goes
    /// there if keys arrive in order.
    before: [u32; MAX_LEVELS],
    random: u64,
    counts: EntryCounts,
    /// The entries that expire, by when.
    deadlines: DeadlineCounts,
    /// The ends of the arenas.
    nodes: u32,
    towers: u32,
    payloads: PayloadEnds,
}

impl Inserter {
    /// Draws the number of levels for an entry: each further level has a probability of one half.
    fn draw_levels(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random.leading_zeros() as usize).min(MAX_LEVELS - 1)
    }
}

/// The target of a search.
struct SearchKey<'a> {
    words: Words,
    key: &'a [u8],
    trailer: Trailer,
}

impl<'a> SearchKey<'a> {
    fn new(key: &'a [u8], trailer: Trailer) -> Self {
        SearchKey { words: words_of(key), key, trailer }
    }
}

impl Memtable {
    /// Makes an empty memtable of a keyspace with this key order. It never gets a filter.
    pub fn new(order: KeyOrder) -> Self {
        Memtable::with_room(order, 0)
    }

    /// Makes an empty memtable that is about to get `room_bytes` bytes of entries. It may get more.
    pub fn with_room(order: KeyOrder, room_bytes: u64) -> Self {
        let inserter = Inserter {
            before: [HEAD; MAX_LEVELS],
            // The seed is fixed, so that the same insertions always make the same list.
            random: 0x9e37_79b9_7f4a_7c15,
            counts: EntryCounts::default(),
            deadlines: DeadlineCounts::default(),
            nodes: 0,
            towers: 0,
            payloads: PayloadEnds::default(),
        };
        // Keys that are equal to a comparator need not have the same bytes, nor the same hash.
        let may_filter = room_bytes > 0 && matches!(order, KeyOrder::Bytewise);
        // As many entries as fill the memtable, if keys are short and values separated.
        let keys = room_bytes as usize / (size_of::<Node>() + size_of::<PointerCell>());
        let table = Memtable {
            number: place::next_memtable(),
            order,
            filter_keys: may_filter.then_some(keys.min(MAX_FILTER_KEYS)),
            filter: OnceLock::new(),
            nodes: Arena::new(),
            towers: Arena::new(),
            payloads: Payloads::new(),
            levels: AtomicU32::new(1),
            entries: AtomicU64::new(0),
            tombstones: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            ranges: MemtableRanges::default(),
            newest_entry: AtomicU64::new(0),
            inserter: Mutex::new(inserter),
        };
        let mut inserter = table.inserter.lock();
        assert_eq!(table.nodes.append(&mut inserter.nodes, 1), HEAD);
        table.raise_tower(&mut inserter, table.nodes.get(HEAD), MAX_LEVELS);
        drop(inserter);
        table
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> u64 {
        self.entries.load(Acquire)
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// Returns the memory that the entries take, in bytes.
    pub fn bytes(&self) -> usize {
        self.used_bytes.load(Relaxed) as usize
    }

    /// Adds an entry. Requires: `trailer` has the kind of `payload`, and no entry has the same key
    /// and sequence number.
    pub fn insert<'a>(&self, user_key: &[u8], trailer: Trailer, payload: impl Into<Payload<'a>>) {
        self.insert_at(None, user_key, trailer, payload);
    }

    /// Adds an entry as [`Memtable::insert`] does, without a search if `place` is where a search
    /// for the key ended here and nothing was inserted since.
    pub fn insert_at<'a>(
        &self,
        place: Option<&KeyPlace>,
        user_key: &[u8],
        trailer: Trailer,
        payload: impl Into<Payload<'a>>,
    ) {
        let payload = payload.into();
        assert_eq!(trailer.0 as u8, payload.kind() as u8, "the trailer tells the payload's kind");
        let target = SearchKey::new(user_key, trailer);
        let mut inserter = self.inserter.lock();
        if let Some(before) = place.and_then(|place| place.before_in(self)) {
            inserter.before = before;
        }
        self.find_neighbours(&mut inserter, &target);
        self.count_hidden(&mut inserter, &target);
        inserter.counts.add(user_key, payload.slot);
        if let Some(deadline) = payload.deadline {
            inserter.deadlines.add(deadline);
        }
        let levels = inserter.draw_levels();
        debug_assert!((1..=inserter.before.len()).contains(&levels));
        let number = self.nodes.append(&mut inserter.nodes, 1);
        let node = self.nodes.get(number);
        node.fill(&target.words, trailer);
        let payload_bytes = self.payloads.fill(&mut inserter.payloads, node, user_key, payload);
        let filter_bytes = self.add_to_filter(user_key);
        self.raise_tower(&mut inserter, node, levels);
        self.link(&mut inserter, number, node, levels);
        let tower_bytes = levels.saturating_sub(NODE_LEVELS) * size_of::<AtomicU32>();
        let bytes = size_of::<Node>() + tower_bytes + payload_bytes + filter_bytes;
        // Only the holder of the lock writes these counters.
        self.used_bytes.store(self.used_bytes.load(Relaxed) + bytes as u64, Relaxed);
        let newest = self.newest_entry.load(Relaxed).max(trailer.seqno());
        self.newest_entry.store(newest, Release);
        if matches!(trailer.kind(), Ok(EntryKind::Delete)) {
            self.tombstones.store(self.tombstones.load(Relaxed) + 1, Relaxed);
        }
        self.entries.store(self.entries.load(Relaxed) + 1, Release);
    }

    /// Adds a range tombstone. It counts as an entry. Requires: none of the same number is here.
    ///
    /// Costs a logarithmic number of copies of each, over all insertions.
    pub fn insert_range(&self, range: Arc<Bounds>, seqno: SeqNo) {
        let _inserter = self.inserter.lock();
        let bytes = range.bytes() + RANGE_TOMBSTONE_BYTES;
        // I6: it is here before its number becomes visible, as entries are.
        self.ranges.add(&self.order, RangeTombstone { range, seqno });
        self.used_bytes.store(self.used_bytes.load(Relaxed) + bytes as u64, Relaxed);
        self.entries.store(self.entries.load(Relaxed) + 1, Release);
    }

    /// Returns true if there are range tombstones.
    #[inline]
    pub fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Returns the range tombstones in several sets.
    pub fn ranges(&self) -> Vec<Arc<RangeTombstones>> {
        self.ranges.sets()
    }

    /// Returns the newest sequence number of a range tombstone over `key` that the reader sees.
    #[inline]
    pub fn newest_range(&self, key: &[u8], sees: impl Fn(SeqNo) -> bool) -> Option<SeqNo> {
        let mut newest = None;
        self.ranges.each(|set| {
            newest = newest.max(set.newest(key, &sees).map(|tombstone| tombstone.seqno));
        });
        newest
    }

    /// Returns true if `hidden` hides all entries in its range, those of later insertions excepted,
    /// which a reader who sees only what was there before does not see either.
    fn may_skip(&self, hidden: &RangeTombstone) -> bool {
        // A user's order may be none, and a search by it could go back.
        let is_ordered = matches!(self.order, KeyOrder::Bytewise);
        is_ordered && self.newest_entry.load(Acquire) < hidden.seqno
    }

    /// Returns the number of entries that delete their key.
    pub fn tombstones(&self) -> u64 {
        self.tombstones.load(Relaxed)
    }

    /// Returns how many entries are expired at `now`, or fewer.
    pub fn expired(&self, now: ExpiryTime) -> u64 {
        self.inserter.lock().deadlines.passed(now)
    }

    /// Calls `found` with the newest entry of `user_key` at or below `seqno` and returns the
    /// result, or `None` if there is no such entry.
    pub fn get<R>(
        &self,
        user_key: &[u8],
        seqno: SeqNo,
        found: impl FnOnce(Trailer, Payload<'_>) -> R,
    ) -> Option<R> {
        if !self.may_hold(user_key) {
            return None;
        }
        self.get_searching(user_key, seqno, |_, _| {}, found)
    }

    /// Does what [`Memtable::get`] does and notes where the search ended, if there was one.
    pub fn get_noting<R>(
        &self,
        user_key: &[u8],
        seqno: SeqNo,
        place: &mut KeyPlace,
        found: impl FnOnce(Trailer, Payload<'_>) -> R,
    ) -> Option<R> {
        if !self.may_hold(user_key) {
            return None;
        }
        let before = place.begin(self);
        self.get_searching(user_key, seqno, |level, at| before[level] = at, found)
    }

    /// Returns false if no entry that the reader knows of has this key.
    #[inline]
    fn may_hold(&self, user_key: &[u8]) -> bool {
        // I6: an entry that the reader knows of is in the filter, if there is one.
        self.filter.get().is_none_or(|filter| filter.may_hold(key_hash(user_key)))
    }

    #[inline]
    fn get_searching<R>(
        &self,
        user_key: &[u8],
        seqno: SeqNo,
        descends: impl FnMut(usize, u32),
        found: impl FnOnce(Trailer, Payload<'_>) -> R,
    ) -> Option<R> {
        let target = SearchKey::new(user_key, Trailer::seek(seqno));
        let number = self.search(&target, descends).1;
        if number == HEAD {
            return None;
        }
        let node = self.nodes.get(number);
        let is_same = self.compare_keys(node, &target) == Ordering::Equal;
        if !is_same {
            return None;
        }
        let mut room = ShortPayload::new();
        Some(found(node.trailer(), self.payloads.decode(node, &mut room)))
    }

    /// Returns the last entry before `target` and the first at or after it. Calls `descends` for
    /// each level, from the highest to the lowest, with the last entry before `target` on that
    /// level.
    #[inline]
    fn search(&self, target: &SearchKey<'_>, mut descends: impl FnMut(usize, u32)) -> (u32, u32) {
        let mut level = self.levels.load(Acquire) as usize - 1;
        let loaded_below = level.saturating_sub(CACHED_LEVELS);
        let (mut at, mut node) = (HEAD, self.nodes.get(HEAD));
        // The entry at which the level above stopped; it need not be compared again.
        let mut behind = HEAD;
        loop {
            let next = self.next(node, level).load(Acquire);
            // There the search goes on if `next` is not before the target. It loads while `next` is
            // compared.
            if level > 0 && level < loaded_below {
                self.load(self.next(node, level - 1));
            }
            if next != behind && next != HEAD {
                let next_node = self.nodes.get(next);
                if self.is_before(next_node, target) {
                    (at, node) = (next, next_node);
                    continue;
                }
            }
            descends(level, at);
            if level == 0 {
                return (at, next);
            }
            behind = next;
            level -= 1;
        }
    }

    /// Has the processor load the entry behind a link into its cache; nothing here waits for it.
    #[inline]
    fn load(&self, link: &AtomicU32) {
        black_box(self.nodes.get(link.load(Acquire)).trailer());
    }

    /// Returns the last entry of the list, or [`HEAD`] if the list is empty.
    fn last(&self) -> u32 {
        let mut level = self.levels.load(Acquire) as usize - 1;
        let mut at = HEAD;
        loop {
            match self.next(self.nodes.get(at), level).load(Acquire) {
                HEAD if level == 0 => return at,
                HEAD => level -= 1,
                next => at = next,
            }
        }
    }

    #[inline]
    fn next<'a>(&'a self, node: &'a Node, level: usize) -> &'a AtomicU32 {
        match node.next.get(level) {
            Some(link) => link,
            None => self.towers.get(node.tower.load(Relaxed) + (level - NODE_LEVELS) as u32),
        }
    }

    #[inline]
    fn is_before(&self, node: &Node, target: &SearchKey<'_>) -> bool {
        match self.compare_keys(node, target) {
            Ordering::Less => true,
            // Newer entries come first.
            Ordering::Equal => node.trailer() > target.trailer,
            Ordering::Greater => false,
        }
    }

    #[inline]
    fn compare_keys(&self, node: &Node, target: &SearchKey<'_>) -> Ordering {
        match &self.order {
            KeyOrder::Bytewise => match node.compare_words(&target.words) {
                Ordering::Equal if node.has_long_key() => {
                    self.with_key(node, |key| key.cmp(target.key))
                }
                order => order,
            },
            KeyOrder::Custom(comparator) => {
                self.with_key(node, |key| comparator.compare(key, target.key))
            }
        }
    }

    /// Calls `work` with the key of a node. It is never inlined, so that the comparison of words
    /// is, of which a search makes some dozens.
    #[inline(never)]
    fn with_key<R>(&self, node: &Node, work: impl FnOnce(&[u8]) -> R) -> R {
        match node.has_long_key() {
            true => work(self.payloads.long_key(node)),
            false => work(node.short_key().as_slice()),
        }
    }

    /// Sets `inserter.before` to the entries after which the target is inserted on each level.
    fn find_neighbours(&self, inserter: &mut Inserter, target: &SearchKey<'_>) {
        let last = inserter.before[0];
        let is_next = |next: u32| next == HEAD || !self.is_before(self.nodes.get(next), target);
        let node = self.nodes.get(last);
        if last == HEAD || !self.is_before(node, target) || !is_next(node.next[0].load(Relaxed)) {
            self.search(target, |level, at| inserter.before[level] = at);
        }
        costly_check!(
            "I6",
            match self.nodes.get(inserter.before[0]).next[0].load(Relaxed) {
                HEAD => true,
                next => {
                    let node = self.nodes.get(next);
                    node.trailer().seqno() != target.trailer.seqno()
                        || self.compare_keys(node, target) != Ordering::Equal
                }
            },
            "a key was inserted twice with sequence number {}",
            target.trailer.seqno()
        );
    }

    /// Counts what the target is about to hide: the record or the inline value of the next entry,
    /// if that has the same key. A target that arrives out of order, after a newer entry, would be
    /// hidden itself; that case is not counted.
    fn count_hidden(&self, inserter: &mut Inserter, target: &SearchKey<'_>) {
        let next = self.nodes.get(inserter.before[0]).next[0].load(Relaxed);
        // An operand hides nothing: what it is merged with is needed.
        let is_merge = target.trailer.kind().is_ok_and(EntryKind::is_merge);
        if next == HEAD || is_merge {
            return;
        }
        let node = self.nodes.get(next);
        if self.compare_keys(node, target) != Ordering::Equal {
            return;
        }
        let mut room = ShortPayload::new();
        let hidden = self.payloads.decode(node, &mut room).slot;
        inserter.counts.hide(target.key, hidden);
    }

    /// Returns what was put, and how much of it memtables with all values would have absorbed that
    /// are full with `room_bytes` bytes.
    pub fn absorbed(&self, room_bytes: u64) -> AbsorbedBytes {
        self.inserter.lock().counts.absorbed(room_bytes)
    }

    /// Returns, by segment, the bytes of the records that entries point to.
    pub fn records(&self) -> BTreeMap<SegmentId, RecordBytes> {
        self.inserter.lock().counts.records.clone()
    }

    /// Returns the bytes of the entries with inline values.
    pub fn inline(&self) -> InlineBytes {
        self.inserter.lock().counts.inline
    }

    /// Allocates the links of a node above [`NODE_LEVELS`].
    fn raise_tower(&self, inserter: &mut Inserter, node: &Node, levels: usize) {
        if levels > NODE_LEVELS {
            let links = (levels - NODE_LEVELS) as u32;
            node.tower.store(self.towers.append(&mut inserter.towers, links), Relaxed);
        }
    }

    /// Adds a key to the filter, before its entry is published. Makes the filter if it is due.
    /// Returns the number of bytes allocated.
    fn add_to_filter(&self, key: &[u8]) -> usize {
        if let Some(filter) = self.filter.get() {
            filter.add(key_hash(key));
            return 0;
        }
        let entries = self.entries() as usize;
        let is_due = |keys: &usize| entries >= keys / FILTER_FROM_PART;
        let Some(keys) = self.filter_keys.filter(is_due) else {
            return 0;
        };
        let filter = KeyFilter::with_room_for(keys);
        filter.add(key_hash(key));
        let mut number = self.nodes.get(HEAD).next[0].load(Relaxed);
        while number != HEAD {
            let node = self.nodes.get(number);
            self.with_key(node, |key| filter.add(key_hash(key)));
            number = node.next[0].load(Relaxed);
        }
        let bytes = filter.bytes();
        assert!(self.filter.set(filter).is_ok(), "one thread inserts at a time");
        bytes
    }

    /// Links a node into its levels, the lowest first. The lowest level alone decides what is in
    /// the list, so linking it publishes the node.
    fn link(&self, inserter: &mut Inserter, number: u32, node: &Node, levels: usize) {
        if levels > self.levels.load(Relaxed) as usize {
            self.levels.store(levels as u32, Release);
        }
        for (level, before) in inserter.before.iter_mut().enumerate().take(levels) {
            let link = self.next(self.nodes.get(*before), level);
            self.next(node, level).store(link.load(Relaxed), Relaxed);
            // Release: a thread that loads this number sees the node, its bytes and its links.
            link.store(number, Release);
            *before = number;
        }
    }
}
