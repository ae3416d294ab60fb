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

/// What was known when a job last ended.
#[derive(Default)]
struct KnownTables {
    /// The tables of the version that was current then.
    live: FxHashSet<TableId>,
    /// The score of each table, summed up over all shards.
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

    /// Notes that a flush or a fold writes an entry of `key` to `table`; the entry has `bytes`
    /// bytes, its separated value included. The log is durable up to that entry, and the version
    /// with the table is not published yet.
    pub fn flushed(
        &self,
        (keyspace, key): (KeyspaceId, &[u8]),
        seqno: SeqNo,
        table: TableId,
        bytes: u64,
    ) {
        if let Some((shard, hash, keyspace)) = self.shard(keyspace, key) {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
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

    /// Returns the newest entry of `key` in tables, if it is known.
    #[inline]
    pub fn newest(&self, keyspace: KeyspaceId, key: &[u8]) -> Option<NewestEntry> {
        let (shard, hash, keyspace) = self.shard(keyspace, key)?;
        let entry = shard.lock().get(hash, keyspace, key)?;
        Some(NewestEntry { seqno: entry.seqno, table: entry.table })
    }

    /// Sums the scores up, and forgets those of tables that are gone since the last sum; `live`
    /// returns the tables of the current version. Tables that a job is still writing are in no
    /// version, and keep their scores. Called when a job has ended; costs some nanoseconds for each
    /// table and shard.
    pub fn sum_scores(&self, live: impl FnOnce() -> FxHashSet<TableId>) {
        // The lock is held throughout, so that an older sum never follows a newer one.
        let mut known = self.known.lock();
        let now = live();
        let gone: FxHashSet<TableId> = known.live.difference(&now).copied().collect();
        let mut sums = TableScores::default();
        for shard in &self.shards {
            let mut shard = shard.lock();
            if !gone.is_empty() {
                shard.forget(|table| gone.contains(&table));
            }
            shard.sum(&mut sums);
        }
        *known = KnownTables { live: now, scores: Arc::new(sums) };
    }

    /// Forgets the scores of tables that a job has given up.
    pub fn forget(&self, tables: &[TableId]) {
        if !tables.is_empty() {
            self.shards.iter().for_each(|shard| shard.lock().forget(|id| tables.contains(&id)));
        }
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
    /// and `gone 4`: a version has a table, or not any more; `sum` ends a job; `given-up 4` is a
    /// table of a job that failed. Answers what is known of each key asked for by `? k`, and all
    /// scores.
    fn follow(lines: &[&str]) -> String {
        let hot = UpdateTable::new(64 << 10);
        let (mut text, mut live) = (String::new(), FxHashSet::default());
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let field = |name: &str| {
                let found = words.iter().map(|word| pair(word)).find(|(field, _)| *field == name);
                found.map_or(0, |(_, value)| value.parse::<u64>().unwrap())
            };
            let table = TableId(field("table"));
            let entry = || {
                let (key, seqno) = words[1].split_at(1);
                ((KEYSPACE, key.as_bytes()), seqno.parse().unwrap())
            };
            match words[0] {
                "flush" => hot.flushed(entry().0, entry().1, table, field("bytes")),
                "move" => hot.moved(entry().0, entry().1, table),
                "live" => assert!(live.insert(TableId(words[1].parse().unwrap()))),
                "gone" => assert!(live.remove(&TableId(words[1].parse().unwrap()))),
                "sum" => hot.sum_scores(|| live.clone()),
                "given-up" => hot.forget(&[TableId(words[1].parse().unwrap())]),
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
