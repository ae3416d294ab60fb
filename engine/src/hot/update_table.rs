//! The update table of a database, in shards, and the scores of its tables.

use super::ring::{HotEntry, short_id};
use super::shard::{Shard, TableScore, TableScores, hash_of};
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, TableId};
use crate::env::sync::Mutex;
use crate::stats::Counter;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A power of two; more than the threads that read, flush and compact at once on most machines.
const SHARDS: u64 = 16;

/// The newest entry of a key that is in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestEntry {
    /// The sequence number of the entry.
    pub seqno: SeqNo,
    /// The table that holds it, unless a compaction is moving it.
    pub table: TableId,
}

/// The statistics of an update table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateTableStats {
    /// The keys whose newest entry is known.
    pub keys: u64,
    /// The bytes of memory in use.
    pub bytes: u64,
    /// The most bytes that it may use; 0 if it is switched off.
    pub capacity_bytes: u64,
    /// The keys that were forgotten to make room for others.
    pub evicted_keys: u64,
}

/// A table with its score.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ScoredTable {
    /// The table's number, as in its file name.
    pub id: u64,
    /// The keyspace of the table.
    pub keyspace: String,
    /// The level of the table.
    pub level: usize,
    /// Entries in the table.
    pub entries: u64,
    /// Bytes of the table.
    pub bytes: u64,
    /// What is known about its entries.
    pub score: TableScore,
}

/// What is known of tables as a whole.
#[derive(Default)]
struct KnownTables {
    /// The tables that jobs are writing, until a version has them or they are given up.
    unnamed: FxHashSet<TableId>,
    /// The score of each table, summed up over all shards when a job last ended.
    scores: Arc<TableScores>,
}

/// The update table of a database.
pub struct UpdateTable {
    shards: Vec<Mutex<Shard>>,
    capacity: u64,
    known: Mutex<KnownTables>,
    /// Point reads that asked for a key that no memtable had.
    pub lookups: Counter,
    /// Those that found its entry in the table that was named.
    pub short_cuts: Counter,
}

impl UpdateTable {
    /// Makes an empty table that uses up to `capacity` bytes of memory; with 0 it stays empty.
    pub fn new(capacity: u64) -> Self {
        let shards = if capacity == 0 { 0 } else { SHARDS };
        UpdateTable {
            shards: (0..shards).map(|_| Mutex::new(Shard::new(capacity / SHARDS))).collect(),
            capacity,
            known: Mutex::default(),
            lookups: Counter::default(),
            short_cuts: Counter::default(),
        }
    }

    /// Returns true if nothing is noted here.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.shards.is_empty()
    }

    /// Returns the shard of a key, its hash, and the short id of its keyspace.
    #[inline]
    fn shard(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<(&Mutex<Shard>, u64, u32)> {
        if self.is_off() {
            return None;
        }
        let keyspace = short_id(keyspace)?;
        let hash = hash_of(keyspace, key);
        // The index of a shard uses the lowest and the highest bits.
        let shard = &self.shards[(hash >> 40 & (SHARDS - 1)) as usize];
        Some((shard, hash, keyspace))
    }

    /// Returns the most bytes of memory that it may use.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Notes that a flush or a fold has written an entry of `key` to `table`; the entry has `bytes`
    /// bytes, its separated value included. I6: the version with the table is not published yet.
    pub fn flushed(
        &self,
        (keyspace, key): (KeyspaceId, &[u8]),
        seqno: SeqNo,
        table: TableId,
        bytes: u32,
    ) {
        if let Some((shard, hash, keyspace)) = self.shard(keyspace, key) {
            let entry = HotEntry { keyspace, seqno, table, bytes };
            shard.lock().flushed(hash, key, &entry);
        }
    }

    /// Notes that a compaction writes the entry of `key` with this sequence number to `table`.
    pub fn moved(&self, (keyspace, key): (KeyspaceId, &[u8]), seqno: SeqNo, table: TableId) {
        if let Some((shard, hash, keyspace)) = self.shard(keyspace, key) {
            shard.lock().moved(hash, (keyspace, key), seqno, table);
        }
    }

    /// Returns the newest entry of `key` in tables, if it is known. I6: it may not be durable yet,
    /// which is for the caller to find out.
    #[inline]
    pub fn newest(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<NewestEntry> {
        let (shard, hash, keyspace) = self.shard(keyspace, key)?;
        let entry = shard.lock().get(hash, keyspace, key)?;
        Some(NewestEntry { seqno: entry.seqno, table: entry.table })
    }

    /// Notes that a job begins to write `table`, so that its scores are kept although no version
    /// has it.
    pub fn begin(&self, table: TableId) {
        if !self.is_off() {
            self.known.lock().unnamed.insert(table);
        }
    }

    /// Notes that a job has ended that was writing these tables. Those that are to keep their
    /// scores are in a version by now.
    pub fn end(&self, tables: &[TableId]) {
        if !self.is_off() {
            let mut known = self.known.lock();
            tables.iter().for_each(|table| _ = known.unnamed.remove(table));
        }
    }

    /// Sums the scores up, and forgets those of tables that are neither in the current version, the
    /// tables of which `live` returns, nor being written. Called when a job has ended; costs some
    /// nanoseconds for each table and shard.
    pub fn sum_scores(&self, live: impl FnOnce() -> FxHashSet<TableId>) {
        // The lock is held throughout, so that an older sum never follows a newer one, and that a
        // table which is no longer unnamed is live, or was.
        let mut known = self.known.lock();
        let live = live();
        let mut sums = TableScores::default();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.retain(|table| live.contains(&table) || known.unnamed.contains(&table));
            shard.sum(&mut sums);
        }
        known.scores = Arc::new(sums);
    }

    /// Returns the scores of the last sum.
    pub fn scores(&self) -> Arc<TableScores> {
        self.known.lock().scores.clone()
    }

    /// Returns the statistics.
    pub fn stats(&self) -> UpdateTableStats {
        let mut stats =
            UpdateTableStats { capacity_bytes: self.capacity, ..UpdateTableStats::default() };
        for shard in &self.shards {
            let (keys, evicted, bytes) = shard.lock().extent();
            stats.keys += keys;
            stats.evicted_keys += evicted;
            stats.bytes += bytes;
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, pair};

    const KEYSPACE: KeyspaceId = KeyspaceId(3);

    /// Notes what happens as text: `flush k9 table=4 bytes=100` writes the key `k` with the
    /// sequence number 9, `move k9 table=5`, `evict` fills the memory with other keys; `live 4`
    /// and `gone 4`: a version has a table, or not any more; `given-up 4` is one of a job that
    /// failed. A job is writing all other tables. `sum` ends a job. Answers what is known of each
    /// key asked for by `? k`, and all scores.
    fn follow(lines: &[&str]) -> String {
        let hot = UpdateTable::new(64 << 10);
        let (mut text, mut live) = (String::new(), FxHashSet::default());
        let mut begun = FxHashSet::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let field = |name: &str| {
                let found = words.iter().map(|word| pair(word)).find(|(field, _)| *field == name);
                found.map_or(0, |(_, value)| value.parse::<u64>().unwrap())
            };
            let table = TableId(field("table"));
            if matches!(words[0], "flush" | "move") && begun.insert(table) {
                hot.begin(table);
            }
            let id = || TableId(words[1].parse().unwrap());
            let entry = || {
                let (key, seqno) = words[1].split_at(1);
                ((KEYSPACE, key.as_bytes()), seqno.parse().unwrap())
            };
            match words[0] {
                "flush" => hot.flushed(entry().0, entry().1, table, field("bytes") as u32),
                "move" => hot.moved(entry().0, entry().1, table),
                "live" => {
                    assert!(live.insert(id()));
                    hot.end(&[id()]);
                }
                "gone" => assert!(live.remove(&id())),
                "sum" => hot.sum_scores(|| live.clone()),
                "given-up" => hot.end(&[id()]),
                "evict" => (0..5000u32).for_each(|key| {
                    hot.flushed((KEYSPACE, &key.to_le_bytes()), 1, TableId(0), 0);
                }),
                "?" => {
                    let found = hot.newest(KEYSPACE, words[1].as_bytes());
                    text += &match found {
                        Some(newest) => {
                            format!("{}: {} in table {}\n", words[1], newest.seqno, newest.table)
                        }
                        None => format!("{}: unknown\n", words[1]),
                    };
                }
                _ => panic!("{line}"),
            }
        }
        hot.sum_scores(|| live.clone());
        let scores = hot.scores();
        let scores = scores.iter().filter(|(id, _)| id.0 > 0);
        let mut scores: Vec<_> = scores.map(|(id, score)| (*id, *score)).collect();
        scores.sort_by_key(|(id, _)| *id);
        for (id, score) in scores {
            let TableScore { newest_entries, stale_entries, stale_bytes } = score;
            text += &format!("table {id}: {newest_entries} newest, {stale_entries} stale");
            text += &format!(" of {stale_bytes} bytes\n");
        }
        text
    }

    #[test]
    fn golden_update_table() {
        golden("hot/testdata/update_table.txt", follow);
    }

    #[test]
    fn a_million_keys_of_16_bytes_fit_the_default() {
        let hot = UpdateTable::new(64 << 20);
        let keys = 1_300_000u64;
        for number in 0..keys {
            let mut key = [b'k'; 16];
            key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            hot.flushed((KEYSPACE, &key), number + 1, TableId(1), 1000);
        }
        let stats = hot.stats();
        assert!(stats.keys >= 1_000_000 && stats.keys + stats.evicted_keys == keys, "{stats:?}");
        assert!(stats.bytes <= stats.capacity_bytes, "{stats:?}");
    }

    #[test]
    fn the_memory_is_bounded_for_short_keys_that_come_and_go() {
        let hot = UpdateTable::new(4 << 20);
        for number in 0..400_000u32 {
            let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            hot.flushed((KEYSPACE, &key), u64::from(number) + 1, TableId(1), 1000);
            // Some get another turn.
            hot.flushed((KEYSPACE, &key), u64::from(number) + 2, TableId(1), 1000);
        }
        let stats = hot.stats();
        assert!(stats.bytes <= stats.capacity_bytes, "{stats:?}");
        assert_eq!(stats.keys + stats.evicted_keys, 400_000);
        assert!(stats.keys > 60_000, "{stats:?}");
    }

    #[test]
    fn nothing_is_noted_while_it_is_off() {
        let hot = UpdateTable::new(0);
        assert!(hot.is_off());
        hot.flushed((KEYSPACE, b"a"), 1, TableId(1), 1);
        hot.moved((KEYSPACE, b"a"), 1, TableId(2));
        assert_eq!(hot.newest(KEYSPACE, b"a"), None);
        assert_eq!(hot.stats(), UpdateTableStats::default());
    }

    #[test]
    fn keyspaces_have_keys_of_their_own() {
        let hot = UpdateTable::new(1 << 20);
        hot.flushed((KEYSPACE, b"a"), 1, TableId(1), 1);
        hot.flushed((KeyspaceId(4), b"a"), 2, TableId(2), 1);
        assert_eq!(hot.newest(KEYSPACE, b"a"), Some(NewestEntry { seqno: 1, table: TableId(1) }));
        let far = KeyspaceId(1 << 40);
        hot.flushed((far, b"a"), 3, TableId(3), 1);
        assert_eq!(hot.newest(far, b"a"), None, "its id is too long");
    }
}
