//! The node of the skip list: one entry in one cache line, with the key, the trailer and the lower
//! links.
//!
//! Safe Rust can write shared memory through atomics only, so a key is stored as four numbers. That
//! is also the fastest way to compare keys: the first 31 bytes of the key, padded with zeroes, and
//! its length, read as big-endian numbers, sort like the keys. (If the padded bytes are equal, the
//! shorter key is the longer one without some zeroes at its end.)

use crate::base::key::Trailer;
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The length of the longest key that lives in the node, in bytes.
pub(super) const SHORT_KEY_BYTES: usize = 31;

/// The value that replaces the length of a key that does not fit the node.
const LONG: u64 = 32;

/// The bit of a trailer's kind, beyond all kinds, that says in a node that the payload is short.
const SHORT_PAYLOAD: u64 = 1 << 7;

/// The number of levels whose links live in the node. The links of higher levels are in an arena of
/// the memtable.
pub(super) const NODE_LEVELS: usize = 4;

/// The start of a key, or all of it, as numbers that sort like the keys.
pub(super) type Words = [u64; 4];

/// Returns the numbers of `key`.
#[inline]
pub(super) fn words_of(key: &[u8]) -> Words {
    let mut bytes = [0; SHORT_KEY_BYTES + 1];
    let kept = key.len().min(SHORT_KEY_BYTES);
    bytes[..kept].copy_from_slice(&key[..kept]);
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    words[3] |= (key.len() as u64).min(LONG);
    words
}

/// The bytes of a key that lives in its node.
#[derive(Clone, Copy, Default)]
pub(super) struct ShortKey([u8; SHORT_KEY_BYTES + 1]);

impl ShortKey {
    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0[..usize::from(self.0[SHORT_KEY_BYTES])]
    }
}

/// The node of an entry. Everything but the links is written before its number is published and
/// never again, so relaxed loads are enough.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Node {
    key: [AtomicU64; 4],
    trailer: AtomicU64,
    /// The next entry on each of the lower levels; 0 if there is none.
    pub(super) next: [AtomicU32; NODE_LEVELS],
    /// The number of the first link of the higher levels in the towers arena.
    pub(super) tower: AtomicU32,
    /// The number of the payload in its arena (`payloads.rs`).
    pub(super) payload: AtomicU32,
}

impl Node {
    pub(super) fn fill(&self, words: &Words, trailer: Trailer) {
        for (cell, word) in self.key.iter().zip(words) {
            cell.store(*word, Relaxed);
        }
        self.trailer.store(trailer.0, Relaxed);
    }

    #[inline]
    pub(super) fn trailer(&self) -> Trailer {
        Trailer(self.trailer.load(Relaxed) & !SHORT_PAYLOAD)
    }

    pub(super) fn mark_short_payload(&self) {
        self.trailer.store(self.trailer.load(Relaxed) | SHORT_PAYLOAD, Relaxed);
    }

    #[inline]
    pub(super) fn has_short_payload(&self) -> bool {
        self.trailer.load(Relaxed) & SHORT_PAYLOAD != 0
    }

    #[inline]
    pub(super) fn has_long_key(&self) -> bool {
        self.key[3].load(Relaxed) as u8 == LONG as u8
    }

    /// Compares the key words of the node. Long keys whose words are equal must be compared in
    /// full.
    #[inline]
    pub(super) fn compare_words(&self, words: &Words) -> Ordering {
        for (cell, word) in self.key.iter().zip(words) {
            let own = cell.load(Relaxed);
            if own != *word {
                return own.cmp(word);
            }
        }
        Ordering::Equal
    }

    /// Returns the key. Requires: the key is a short one.
    #[inline]
    pub(super) fn short_key(&self) -> ShortKey {
        let mut key = ShortKey::default();
        for (bytes, cell) in key.0.as_chunks_mut::<8>().0.iter_mut().zip(&self.key) {
            *bytes = cell.load(Relaxed).to_be_bytes();
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_cache_line() {
        assert_eq!(size_of::<Node>(), 64);
    }

    #[test]
    fn numbers_are_ordered_as_the_keys_are() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for len in [1, 2, 7, 8, 9, 16, 30, 31] {
            for fill in [0u8, 1, 0x7f, 0xff] {
                for last in [0u8, 1, 0x80, 0xff] {
                    let mut key = vec![fill; len];
                    key[len - 1] = last;
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            let node = Node::default();
            node.fill(&words_of(a), Trailer(7));
            assert_eq!(node.short_key().as_slice(), a);
            assert!(!node.has_long_key());
            for b in &keys {
                assert_eq!(node.compare_words(&words_of(b)), a.cmp(b), "{a:?} {b:?}");
            }
            let long = [&a[..], &[0; 40]].concat();
            assert_eq!(node.compare_words(&words_of(&long)), Ordering::Less);
            node.fill(&words_of(&long), Trailer(7));
            assert!(node.has_long_key());
        }
    }
}
