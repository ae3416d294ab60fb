//! A shard of the update table: the index of a ring of entries, and the counts of tables.

use super::ring::{EntryRing, HotEntry, MAX_HOT_KEY_BYTES};
use crate::base::checksum::key_hash;
use crate::base::key::SeqNo;
use crate::base::pointer::TableId;
use hashbrown::HashTable;
use rustc_hash::FxHashMap;

/// What is known about the entries of one table.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("table-score"))?;
/// for table in db.table_scores() {
///     println!("{}: {} stale of {}", table.id, table.score.stale_entries, table.entries);
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableScore {
    /// Entries that are known to be the newest of their key.
    pub newest_entries: u64,
    /// Entries that newer ones supersede, since the table was written.
    pub stale_entries: u64,
    /// The bytes of those, with their separated values.
    pub stale_bytes: u64,
}

/// The scores of tables.
pub type TableScores = FxHashMap<TableId, TableScore>;

impl TableScore {
    /// Adds the counts of another shard.
    pub fn add(&mut self, other: &TableScore) {
        self.newest_entries += other.newest_entries;
        self.stale_entries += other.stale_entries;
        self.stale_bytes += other.stale_bytes;
    }
}

/// The most entries that get another turn to make room for one: it bounds the time of a note.
const MAX_TURNS: usize = 8;

/// Returns the hash of a key in a keyspace.
pub fn hash_of(keyspace: u32, key: &[u8]) -> u64 {
    key_hash(key) ^ u64::from(keyspace).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One shard. All methods take the hash of the key, which chose the shard.
pub struct Shard {
    index: HashTable<u32>,
    ring: EntryRing,
    scores: TableScores,
    most_keys: usize,
    evicted: u64,
}

/// The part of the memory that entries take, in percent. The rest is for the index of their keys.
const RING_PERCENT: u64 = 68;
/// The bytes that the index takes for each of its buckets.
const BUCKET_BYTES: u64 = 5;

impl Shard {
    /// Makes an empty shard that uses at most `bytes` of memory.
    pub fn new(bytes: u64) -> Self {
        let ring_bytes = (bytes * RING_PERCENT / 100).min(u64::from(u32::MAX));
        // The index has a power of two of buckets, of which an eighth stays empty. It may double
        // once, when removed keys have used up the empty ones.
        let buckets = (bytes - ring_bytes) / (2 * BUCKET_BYTES);
        let buckets = buckets.checked_ilog2().map_or(0, |log| 1 << log);
        Shard {
            index: HashTable::new(),
            ring: EntryRing::new(ring_bytes as usize),
            scores: FxHashMap::default(),
            most_keys: buckets / 8 * 7,
            evicted: 0,
        }
    }

    /// Returns the entry of a key.
    pub fn get(&self, hash: u64, keyspace: u32, key: &[u8]) -> Option<HotEntry> {
        self.find(hash, keyspace, key).map(|offset| self.ring.entry(offset))
    }

    fn find(&self, hash: u64, keyspace: u32, key: &[u8]) -> Option<u32> {
        let is_it = |&offset: &u32| {
            self.ring.key(offset) == key && self.ring.entry(offset).keyspace == keyspace
        };
        self.index.find(hash, is_it).copied()
    }

    /// Notes that a flush wrote `entry`; an older one becomes stale. An entry that is older than
    /// the known one changes nothing; the same one is written again after a flush that failed.
    pub fn flushed(&mut self, hash: u64, key: &[u8], entry: &HotEntry) {
        let Some(offset) = self.find(hash, entry.keyspace, key) else {
            return self.insert(hash, key, entry);
        };
        let old = self.ring.entry(offset);
        if old.seqno > entry.seqno {
            return;
        }
        self.leave(old.table, |score| {
            if old.seqno < entry.seqno {
                score.stale_entries += 1;
                score.stale_bytes += u64::from(old.bytes);
            }
        });
        self.ring.set(offset, entry);
        self.ring.touch(offset);
        self.enter(entry.table);
    }

    /// Notes that a compaction wrote the entry of `seqno` to `table`; only the entry that is named
    /// here moves.
    pub fn moved(
        &mut self,
        hash: u64,
        (keyspace, key): (u32, &[u8]),
        seqno: SeqNo,
        table: TableId,
    ) {
        let Some(offset) = self.find(hash, keyspace, key) else { return };
        let old = self.ring.entry(offset);
        if old.seqno != seqno {
            return;
        }
        self.ring.set(offset, &HotEntry { table, ..old });
        self.leave(old.table, |_| ());
        self.enter(table);
    }

    /// Counts an entry of `table` that is the newest of its key.
    fn enter(&mut self, table: TableId) {
        self.scores.entry(table).or_default().newest_entries += 1;
    }

    /// Counts that an entry of `table` is no longer known to be the newest; `also` is done to the
    /// same score. A table that was forgotten may still be named by keys, and stays forgotten.
    fn leave(&mut self, table: TableId, also: impl FnOnce(&mut TableScore)) {
        if let Some(score) = self.scores.get_mut(&table) {
            score.newest_entries = score.newest_entries.saturating_sub(1);
            also(score);
        }
    }

    fn insert(&mut self, hash: u64, key: &[u8], entry: &HotEntry) {
        if key.len() > MAX_HOT_KEY_BYTES {
            return;
        }
        let mut turns = MAX_TURNS;
        let offset = loop {
            let has_room = self.index.len() < self.most_keys;
            if has_room && let Some(offset) = self.ring.push(entry, key) {
                break offset;
            }
            if !self.give_up_oldest(&mut turns) {
                return;
            }
        };
        self.index_at(hash, offset);
        self.enter(entry.table);
    }

    fn index_at(&mut self, hash: u64, offset: u32) {
        let Shard { index, ring, .. } = self;
        let hash_at = |&offset: &u32| hash_of(ring.entry(offset).keyspace, ring.key(offset));
        index.insert_unique(hash, offset, hash_at);
    }

    /// Removes the oldest entry; one that was noted again since gets another turn as the newest.
    /// Returns false if there is none.
    fn give_up_oldest(&mut self, turns: &mut usize) -> bool {
        let Shard { index, ring, .. } = self;
        let popped = ring.pop(|ring, offset, noted_again| {
            let (entry, key) = (ring.entry(offset), ring.key(offset));
            let hash = hash_of(entry.keyspace, key);
            let known = index.find_entry(hash, |&other| other == offset);
            known.expect("what is not removed is in the index").remove();
            let again = noted_again && *turns > 0;
            (hash, entry, again.then(|| key.to_vec()))
        });
        let Some((hash, entry, again)) = popped else { return false };
        // There may be no room at the end of the memory; then the fact is forgotten after all.
        let kept = again.and_then(|key| {
            *turns -= 1;
            self.ring.push(&entry, &key)
        });
        match kept {
            Some(offset) => self.index_at(hash, offset),
            None => {
                self.leave(entry.table, |_| ());
                self.evicted += 1;
            }
        }
        true
    }

    /// Forgets the counts of all tables but those for which `is_kept` returns true.
    pub fn retain(&mut self, is_kept: impl Fn(TableId) -> bool) {
        self.scores.retain(|table, _| is_kept(*table));
    }

    /// Adds the counts of this shard to `sums`.
    pub fn sum(&self, sums: &mut TableScores) {
        for (table, score) in &self.scores {
            sums.entry(*table).or_default().add(score);
        }
    }

    /// Returns the number of keys and of evicted ones, and the bytes of memory in use.
    pub fn extent(&self) -> (u64, u64, u64) {
        let bytes = self.ring.bytes() + self.index.allocation_size();
        (self.index.len() as u64, self.evicted, bytes as u64)
    }
}
