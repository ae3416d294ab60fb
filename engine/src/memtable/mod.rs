//! Floor 2: the memtable, where a keyspace keeps its newest entries until they are flushed: an
//! ordered map from (user key, sequence number) to a value, a value pointer or a tombstone.
//!
//! The data's way: the commit room inserts what is in the log; reads ask it before any table; a
//! flush walks it once, in order, and writes a table. Nothing is ever removed from it.
//!
//! It is a skip list. One thread inserts at a time; any number read meanwhile, without locks and
//! without waiting. Entries, links and bytes live in append-only arenas (`arena.rs`) and name
//! each other by 32-bit numbers; an entry is written in full and then published with a release
//! store of its number in the lowest level, which a reader's acquire load pairs with. So a
//! reader that sees an entry sees all of it, and having seen one insertion it sees all before.
//! A search touches one cache line per entry it passes (`node.rs`).
//!
//! Invariants: I6 (an entry that was inserted is found until the memtable is dropped).
//!
//! Locks: `inserter`, a leaf; taken by insertions only.

mod arena;
mod iter;
mod node;

#[cfg(test)]
mod tests;

pub use iter::MemtableIter;

use crate::base::entry::Slot;
use crate::base::key::{EntryKind, KeyOrder, SeqNo, Trailer};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::costly_check;
use crate::env::sync::Mutex;
use arena::Arena;
use node::{NODE_LEVELS, Node, SHORT_KEY_BYTES, Words, words_of};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The number of the list's head, which is no entry; as a link it means "none".
const HEAD: u32 = 0;

/// Levels of the list. Each has half of the entries of the one below, so this is enough for tens
/// of millions. (A quarter would save links, but a search would pass more entries, and each
/// costs a cache line.)
const MAX_LEVELS: usize = 24;

/// What an allocation costs besides its bytes, about.
const ALLOCATION_BYTES: usize = 16;

/// A value pointer, in a form that can be written while shared.
#[derive(Default)]
struct PointerCell {
    segment: AtomicU64,
    offset: AtomicU64,
    length: AtomicU32,
}

/// An ordered map of entries; see the top of this file.
pub struct Memtable {
    order: KeyOrder,
    nodes: Arena<Node>,
    /// The links of the levels that nodes have no room for.
    towers: Arena<AtomicU32>,
    /// The pointers of short keys.
    pointers: Arena<PointerCell>,
    /// Values of short keys; long keys with their payloads.
    bytes: Arena<OnceLock<Box<[u8]>>>,
    /// How many levels have entries; a search starts at the highest.
    levels: AtomicU32,
    entries: AtomicU64,
    used_bytes: AtomicU64,
    inserter: Mutex<Inserter>,
}

/// What only the inserting thread needs.
struct Inserter {
    /// On each level, the last entry before the one that was inserted last, or that one itself:
    /// the place where the next one goes if keys come in order.
    before: [u32; MAX_LEVELS],
    random: u64,
    /// Bytes of records that newer entries hide, by their segment.
    hidden: BTreeMap<SegmentId, u64>,
    /// Where the arenas end.
    nodes: u32,
    towers: u32,
    pointers: u32,
    bytes: u32,
}

impl Inserter {
    /// Draws on how many levels an entry appears: on one more with a chance of a half each.
    fn draw_levels(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random.leading_zeros() as usize).min(MAX_LEVELS - 1)
    }
}

/// What a search looks for.
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
    /// An empty memtable of a keyspace that is ordered so.
    pub fn new(order: KeyOrder) -> Self {
        let inserter = Inserter {
            before: [HEAD; MAX_LEVELS],
            // Fixed, so that the same insertions always make the same list.
            random: 0x9e37_79b9_7f4a_7c15,
            hidden: BTreeMap::new(),
            nodes: 0,
            towers: 0,
            pointers: 0,
            bytes: 0,
        };
        let table = Memtable {
            order,
            nodes: Arena::new(),
            towers: Arena::new(),
            pointers: Arena::new(),
            bytes: Arena::new(),
            levels: AtomicU32::new(1),
            entries: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            inserter: Mutex::new(inserter),
        };
        let mut inserter = table.inserter.lock();
        assert_eq!(table.nodes.append(&mut inserter.nodes, 1), HEAD);
        table.raise_tower(&mut inserter, table.nodes.get(HEAD), MAX_LEVELS);
        drop(inserter);
        table
    }

    /// How many entries it has.
    pub fn entries(&self) -> u64 {
        self.entries.load(Acquire)
    }

    /// True if it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The memory that its entries take, in bytes.
    pub fn bytes(&self) -> usize {
        self.used_bytes.load(Relaxed) as usize
    }

    /// Adds an entry. Requires: `trailer` has the kind of `slot`, and no entry has this key and
    /// sequence number yet.
    pub fn insert(&self, user_key: &[u8], trailer: Trailer, slot: Slot<'_>) {
        assert_eq!(trailer.0 as u8, slot.kind() as u8, "the trailer tells the kind of the slot");
        let target = SearchKey::new(user_key, trailer);
        let mut inserter = self.inserter.lock();
        self.find_neighbours(&mut inserter, &target);
        self.count_hidden(&mut inserter, &target);
        let levels = inserter.draw_levels();
        let number = self.nodes.append(&mut inserter.nodes, 1);
        let node = self.nodes.get(number);
        node.fill(&target.words, trailer);
        let payload_bytes = self.fill_payload(&mut inserter, node, user_key, slot);
        self.raise_tower(&mut inserter, node, levels);
        self.link(&mut inserter, number, node, levels);
        let tower_bytes = levels.saturating_sub(NODE_LEVELS) * size_of::<AtomicU32>();
        let bytes = size_of::<Node>() + tower_bytes + payload_bytes;
        // Only the holder of the lock writes these.
        self.used_bytes.store(self.used_bytes.load(Relaxed) + bytes as u64, Relaxed);
        self.entries.store(self.entries.load(Relaxed) + 1, Release);
    }

    /// Finds the newest entry of `user_key` at or below `seqno` and hands it to `found`.
    pub fn get<R>(
        &self,
        user_key: &[u8],
        seqno: SeqNo,
        found: impl FnOnce(Trailer, Slot<'_>) -> R,
    ) -> Option<R> {
        let target = SearchKey::new(user_key, Trailer::seek(seqno));
        let number = self.search(&target, |_, _| {}).1;
        if number == HEAD {
            return None;
        }
        let node = self.nodes.get(number);
        let is_same = self.compare_keys(node, &target) == Ordering::Equal;
        is_same.then(|| found(node.trailer(), self.slot(node)))
    }

    /// The last entry before `target` and the first at or behind it. Tells `descends` the last
    /// entry before on each level.
    #[inline]
    fn search(&self, target: &SearchKey<'_>, mut descends: impl FnMut(usize, u32)) -> (u32, u32) {
        let mut level = self.levels.load(Acquire) as usize - 1;
        let (mut at, mut node) = (HEAD, self.nodes.get(HEAD));
        // What the level above stopped at; it need not be compared again.
        let mut behind = HEAD;
        loop {
            let next = self.next(node, level).load(Acquire);
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

    /// The last entry of all.
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
                Ordering::Equal if node.has_long_key() => self.long_key(node).cmp(target.key),
                order => order,
            },
            KeyOrder::Custom(comparator) if node.has_long_key() => {
                comparator.compare(self.long_key(node), target.key)
            }
            KeyOrder::Custom(comparator) => {
                comparator.compare(node.short_key().as_slice(), target.key)
            }
        }
    }

    /// Makes `inserter.before` the entries that the target goes behind on each level.
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

    /// Counts what the target is about to hide: the entry that it goes in front of, if that is of
    /// the same key. Out of order, behind a newer one, it would be hidden itself; that is not
    /// counted.
    fn count_hidden(&self, inserter: &mut Inserter, target: &SearchKey<'_>) {
        let next = self.nodes.get(inserter.before[0]).next[0].load(Relaxed);
        if next == HEAD {
            return;
        }
        let node = self.nodes.get(next);
        if self.compare_keys(node, target) == Ordering::Equal
            && let Slot::Pointer(pointer) = self.slot(node)
        {
            *inserter.hidden.entry(pointer.segment).or_default() += u64::from(pointer.length);
        }
    }

    /// Bytes of records that only snapshots can see any more, as newer entries of this memtable
    /// hide them, by their segment.
    pub fn hidden(&self) -> BTreeMap<SegmentId, u64> {
        self.inserter.lock().hidden.clone()
    }

    /// Gives a node room for its links above [`NODE_LEVELS`].
    fn raise_tower(&self, inserter: &mut Inserter, node: &Node, levels: usize) {
        if levels > NODE_LEVELS {
            let links = (levels - NODE_LEVELS) as u32;
            node.tower.store(self.towers.append(&mut inserter.towers, links), Relaxed);
        }
    }

    /// Stores the payload, and a long key with it; returns how many bytes that takes.
    fn fill_payload(
        &self,
        inserter: &mut Inserter,
        node: &Node,
        key: &[u8],
        slot: Slot<'_>,
    ) -> usize {
        let mut keep = |bytes: Box<[u8]>| {
            let number = self.bytes.append(&mut inserter.bytes, 1);
            let taken = bytes.len() + ALLOCATION_BYTES + size_of::<OnceLock<Box<[u8]>>>();
            assert!(self.bytes.get(number).set(bytes).is_ok(), "numbers are given out once");
            node.payload.store(number, Relaxed);
            taken
        };
        if key.len() > SHORT_KEY_BYTES {
            return keep(join(key, slot));
        }
        match slot {
            Slot::Delete => 0,
            Slot::Inline(value) => keep(value.into()),
            Slot::Pointer(pointer) => {
                let number = self.pointers.append(&mut inserter.pointers, 1);
                let cell = self.pointers.get(number);
                cell.segment.store(pointer.segment.0, Relaxed);
                cell.offset.store(pointer.offset, Relaxed);
                cell.length.store(pointer.length, Relaxed);
                node.payload.store(number, Relaxed);
                size_of::<PointerCell>()
            }
        }
    }

    /// Publishes a node: on the lowest level first, which alone decides what is in the list.
    fn link(&self, inserter: &mut Inserter, number: u32, node: &Node, levels: usize) {
        if levels > self.levels.load(Relaxed) as usize {
            self.levels.store(levels as u32, Release);
        }
        for (level, before) in inserter.before.iter_mut().enumerate().take(levels) {
            let link = self.next(self.nodes.get(*before), level);
            self.next(node, level).store(link.load(Relaxed), Relaxed);
            // Release: whoever loads this number sees the node, its bytes and its links.
            link.store(number, Release);
            *before = number;
        }
    }

    fn kept(&self, node: &Node) -> &[u8] {
        let bytes = self.bytes.get(node.payload.load(Relaxed)).get();
        bytes.expect("bytes are kept before their node is published")
    }

    /// The key of a node that has no room for it.
    fn long_key(&self, node: &Node) -> &[u8] {
        split(self.kept(node)).0
    }

    fn slot(&self, node: &Node) -> Slot<'_> {
        let kind = node.trailer().kind().expect("an insertion checks the kind");
        if node.has_long_key() {
            let payload = split(self.kept(node)).1;
            return Slot::decode(kind, payload).expect("an insertion encoded it");
        }
        match kind {
            EntryKind::Delete => Slot::Delete,
            EntryKind::Put => Slot::Inline(self.kept(node)),
            EntryKind::PutPointer => {
                let cell = self.pointers.get(node.payload.load(Relaxed));
                Slot::Pointer(ValuePointer {
                    segment: SegmentId(cell.segment.load(Relaxed)),
                    offset: cell.offset.load(Relaxed),
                    length: cell.length.load(Relaxed),
                })
            }
        }
    }
}

/// A long key and its payload in one allocation: the length of the key, the key, the payload.
fn join(key: &[u8], slot: Slot<'_>) -> Box<[u8]> {
    let payload_len = match &slot {
        Slot::Delete => 0,
        Slot::Inline(value) => value.len(),
        Slot::Pointer(pointer) => pointer.encoded_len(),
    };
    let mut out = Vec::with_capacity(4 + key.len() + payload_len);
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    slot.encode(&mut out);
    out.into_boxed_slice()
}

/// What [`join`] joined: key and payload.
fn split(joined: &[u8]) -> (&[u8], &[u8]) {
    let (len, rest) = joined.split_first_chunk().expect("a joined key begins with its length");
    rest.split_at(u32::from_le_bytes(*len) as usize)
}
