//! The keys of the last commits, in memory. A conditional commit is checked against them under the
//! lock of the log, without a search in the tree and without I/O.
//!
//! Nothing is noted while nobody waits to make such a commit, so plain writes pay one comparison.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;

/// At most this many keys are kept in a generation. There are two, and a check looks up each of
/// their keys in what was read, under the lock of the log: that takes some 0.2 ms at most.
const GENERATION_KEYS: usize = 2048;
/// A generation is full once its keys have this many bytes.
const GENERATION_BYTES: usize = 512 << 10;

struct RecentKey {
    seqno: SeqNo,
    keyspace: KeyspaceId,
    /// The end of its bytes; they begin where those of the key before it end.
    end: usize,
}

#[derive(Default)]
struct Generation {
    keys: Vec<RecentKey>,
    bytes: Vec<u8>,
}

impl Generation {
    fn is_full(&self) -> bool {
        self.keys.len() >= GENERATION_KEYS || self.bytes.len() >= GENERATION_BYTES
    }

    /// Iterates over the keys that were written after `since`, oldest first.
    fn after(&self, since: SeqNo) -> impl Iterator<Item = (KeyspaceId, &[u8])> {
        // Most commits have read what the last one has written: then nothing is searched.
        let is_later = self.keys.last().is_some_and(|last| last.seqno > since);
        let first = match is_later {
            true => self.keys.partition_point(|key| key.seqno <= since),
            false => self.keys.len(),
        };
        (first..self.keys.len()).map(move |index| {
            let start = index.checked_sub(1).map_or(0, |before| self.keys[before].end);
            let key = &self.keys[index];
            (key.keyspace, &self.bytes[start..key.end])
        })
    }

    /// Removes all keys but keeps their memory, because others follow soon.
    fn clear(&mut self) {
        self.keys.clear();
        self.bytes.clear();
    }

    /// Removes the keys that were written after `seqno`.
    fn cut(&mut self, seqno: SeqNo) {
        self.keys.truncate(self.keys.partition_point(|key| key.seqno <= seqno));
        self.bytes.truncate(self.keys.last().map_or(0, |key| key.end));
    }
}

/// The keys of all commits after a certain one. It belongs to the holder of the log's lock.
pub struct RecentKeys {
    /// Every key that was written after this sequence number is in one of the generations.
    complete_after: SeqNo,
    older: Generation,
    newer: Generation,
}

impl RecentKeys {
    /// The most keys that are kept.
    pub const MAX_KEYS: usize = 2 * GENERATION_KEYS;

    /// Starts without the keys that were written up to `seqno`.
    pub fn starting_after(seqno: SeqNo) -> Self {
        let (older, newer) = Default::default();
        RecentKeys { complete_after: seqno, older, newer }
    }

    /// Notes that `key` is written at `seqno`, which is greater than all noted before.
    pub fn note(&mut self, seqno: SeqNo, keyspace: KeyspaceId, key: &[u8]) {
        if self.newer.is_full() {
            std::mem::swap(&mut self.older, &mut self.newer);
            if let Some(last) = self.newer.keys.last() {
                self.complete_after = self.complete_after.max(last.seqno);
            }
            self.newer.clear();
        }
        debug_assert!(self.newer.keys.last().is_none_or(|last| last.seqno < seqno));
        self.newer.bytes.extend_from_slice(key);
        self.newer.keys.push(RecentKey { seqno, keyspace, end: self.newer.bytes.len() });
    }

    /// Forgets everything: the keys up to `seqno` are not noted.
    pub fn skip_to(&mut self, seqno: SeqNo) {
        self.older.clear();
        self.newer.clear();
        self.complete_after = self.complete_after.max(seqno);
    }

    /// Takes the notes after `seqno` back, because their commits failed. The next commits get the
    /// same numbers, so whether they were skipped does not count either.
    pub fn take_back(&mut self, seqno: SeqNo) {
        self.older.cut(seqno);
        self.newer.cut(seqno);
        self.complete_after = self.complete_after.min(seqno);
    }

    /// Returns the keys that were written after `since`, or `None` if some of them are forgotten.
    pub fn after(&self, since: SeqNo) -> Option<impl Iterator<Item = (KeyspaceId, &[u8])>> {
        (since >= self.complete_after)
            .then(|| self.older.after(since).chain(self.newer.after(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(recent: &RecentKeys, since: SeqNo) -> Option<Vec<String>> {
        let text = |(keyspace, key): (KeyspaceId, &[u8])| {
            format!("{}:{}", keyspace.0, String::from_utf8_lossy(key))
        };
        Some(recent.after(since)?.map(text).collect())
    }

    #[test]
    fn finds_what_was_written_later() {
        let mut recent = RecentKeys::starting_after(0);
        for (seqno, key) in [(1, "a"), (2, ""), (5, "ccc")] {
            recent.note(seqno, KeyspaceId(seqno), key.as_bytes());
        }
        assert_eq!(keys(&recent, 0).unwrap(), ["1:a", "2:", "5:ccc"]);
        assert_eq!(keys(&recent, 1).unwrap(), ["2:", "5:ccc"]);
        assert_eq!(keys(&recent, 4).unwrap(), ["5:ccc"]);
        assert_eq!(keys(&recent, 5).unwrap(), [""; 0]);
        recent.take_back(1);
        assert_eq!(keys(&recent, 0).unwrap(), ["1:a"]);
        recent.note(2, KeyspaceId(7), b"again");
        assert_eq!(keys(&recent, 0).unwrap(), ["1:a", "7:again"]);
        recent.skip_to(9);
        assert_eq!((keys(&recent, 8), keys(&recent, 9)), (None, Some(Vec::new())));
        recent.skip_to(20);
        recent.take_back(9);
        assert_eq!((keys(&recent, 8), keys(&recent, 9)), (None, Some(Vec::new())));
        recent.note(10, KeyspaceId(1), b"x");
        assert_eq!((keys(&recent, 8), keys(&recent, 9)), (None, Some(vec!["1:x".to_owned()])));
    }

    /// The numbers of a commit that failed are given again, whether it was noted or not.
    #[test]
    fn what_failed_leaves_nothing_unknown() {
        let mut recent = RecentKeys::starting_after(0);
        recent.note(1, KeyspaceId(1), b"a");
        recent.skip_to(7);
        recent.take_back(1);
        assert_eq!((keys(&recent, 0), keys(&recent, 1)), (None, Some(Vec::new())));
        recent.note(2, KeyspaceId(1), b"b");
        assert_eq!((keys(&recent, 0), keys(&recent, 1)), (None, Some(vec!["1:b".to_owned()])));
        let many = 3 * GENERATION_KEYS as u64;
        (3..many).for_each(|seqno| recent.note(seqno, KeyspaceId(1), b"c"));
        recent.take_back(2);
        assert_eq!((keys(&recent, 1), keys(&recent, 2)), (None, Some(Vec::new())));
    }

    #[test]
    fn what_was_forgotten_is_never_taken_for_nothing() {
        for key_bytes in [3, 4096] {
            let mut recent = RecentKeys::starting_after(0);
            let key = vec![b'k'; key_bytes];
            for seqno in 1..=10_000 {
                recent.note(seqno, KeyspaceId(1), &key);
                let known = (0..seqno).rev().take_while(|&since| recent.after(since).is_some());
                // Only some numbers are tried: the test is quadratic.
                if seqno % 997 == 0 {
                    let known = known.count() as u64;
                    let found = recent.after(seqno - known).unwrap().count() as u64;
                    assert_eq!(found, known, "after {seqno} keys of {key_bytes} bytes");
                    let least =
                        seqno.min((GENERATION_BYTES / key_bytes).min(GENERATION_KEYS) as u64);
                    assert!((least..=2 * GENERATION_KEYS as u64 + 2).contains(&known), "{known}");
                }
            }
        }
    }
}
