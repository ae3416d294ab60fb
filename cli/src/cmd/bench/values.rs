//! Keys, and values that prove themselves: the first bytes name the key and where the rest comes
//! from, so any value that is read can be compared in full without remembering what was written.
//!
//! ```text
//! offset  bytes  what (as many of these bytes as the value has)
//!      0      8  hash of the key
//!      8      7  where in the pool the rest begins
//!     15      1  which pool: the compressed share in percent
//!     16   rest  bytes of the pool from there on, round and round
//! ```
//!
//! Pools are the same in every run, so a later run can verify a store that an earlier one filled.

use crate::random::{SplitMix64, hash};
use std::sync::OnceLock;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;

/// Returns the key of number `index`: 16 decimal digits, so that keys sort as the numbers do.
pub(super) fn key(index: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    let mut rest = index;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Bytes of a pool: larger than a compressor's window, small enough for the processor's cache.
const POOL_BYTES: usize = 4 << 20;
const POOL_SEED: u64 = 0x706f_6f6c; // "pool"
const HEAD: usize = 16;
/// Period in bytes with which the compressible part repeats.
const CHUNK: usize = 128;

/// A source that makes and checks values.
pub(super) struct ValueSource {
    size: usize,
    percent: u8,
    pools: [OnceLock<Vec<u8>>; 101],
}

impl ValueSource {
    /// Creates a source of values of `size` bytes that compress to the share `ratio`.
    pub(super) fn new(size: usize, ratio: f64) -> Self {
        let percent = (ratio * 100.0).round().clamp(1.0, 100.0) as u8;
        ValueSource { size, percent, pools: [const { OnceLock::new() }; 101] }
    }

    /// Writes a value of `key` to `out`. Each `draw` gives another value.
    pub(super) fn make(&self, key: &[u8], draw: u64, out: &mut Vec<u8>) {
        let place = draw >> 8;
        out.clear();
        out.extend_from_slice(&hash(key).to_le_bytes());
        out.extend_from_slice(&(place | u64::from(self.percent) << 56).to_le_bytes());
        out.truncate(self.size);
        let pool = self.pool(self.percent);
        let mut at = place as usize % POOL_BYTES;
        while out.len() < self.size {
            let take = (self.size - out.len()).min(POOL_BYTES - at);
            out.extend_from_slice(&pool[at..at + take]);
            at = 0;
        }
    }

    /// Returns true if [`ValueSource::make`] made `value` for `key`, with any size and pool.
    pub(super) fn is_of(&self, key: &[u8], value: &[u8]) -> bool {
        let hash = hash(key).to_le_bytes();
        let Some((head, mut body)) = value.split_at_checked(HEAD) else {
            let known = value.len().min(hash.len());
            return value[..known] == hash[..known];
        };
        let place = u64::from_le_bytes(head[8..].try_into().expect("8 bytes"));
        let percent = (place >> 56) as u8;
        if head[..8] != hash || !(1..=100).contains(&percent) {
            return false;
        }
        let pool = self.pool(percent);
        let mut at = (place & ((1 << 56) - 1)) as usize % POOL_BYTES;
        while !body.is_empty() {
            let take = body.len().min(POOL_BYTES - at);
            if body[..take] != pool[at..at + take] {
                return false;
            }
            (body, at) = (&body[take..], 0);
        }
        true
    }

    fn pool(&self, percent: u8) -> &[u8] {
        self.pools[usize::from(percent)].get_or_init(|| make_pool(percent))
    }
}

fn make_pool(percent: u8) -> Vec<u8> {
    let mut random = SplitMix64::new(POOL_SEED, u64::from(percent));
    let fresh = (CHUNK * usize::from(percent) / 100).max(1);
    let mut pool = Vec::with_capacity(POOL_BYTES + CHUNK);
    while pool.len() < POOL_BYTES {
        let start = pool.len();
        while pool.len() < start + fresh {
            pool.extend_from_slice(&random.next().to_le_bytes());
        }
        pool.truncate(start + fresh);
        while pool.len() < start + CHUNK {
            let again = (start + CHUNK - pool.len()).min(fresh);
            pool.extend_from_within(start..start + again);
        }
    }
    pool.truncate(POOL_BYTES);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_of_its_key_only_and_every_changed_byte_is_noticed() {
        let mut value = Vec::new();
        for size in [1, 8, 15, 16, 17, 300, POOL_BYTES + 50] {
            let values = ValueSource::new(size, 1.0);
            values.make(b"0000000000000007", 12345, &mut value);
            assert_eq!(value.len(), size);
            assert!(values.is_of(b"0000000000000007", &value));
            assert!(!values.is_of(b"0000000000000008", &value));
        }
        let values = ValueSource::new(300, 0.5);
        values.make(b"k", u64::MAX, &mut value);
        for at in (0..8).chain(15..300) {
            value[at] ^= 1;
            assert!(!values.is_of(b"k", &value), "byte {at}");
            value[at] ^= 1;
        }
        assert!(ValueSource::new(1, 1.0).is_of(b"k", &value), "readers need not know the settings");
        assert!(values.is_of(b"any", b""));
    }

    #[test]
    fn keys_sort_as_their_numbers() {
        assert_eq!(&key(123), b"0000000000000123");
        assert!(key(999) < key(1000));
    }

    #[test]
    fn the_ratio_is_about_what_was_asked_for() {
        let distinct = |percent| {
            let pool = make_pool(percent);
            pool.chunks(CHUNK).take(100).filter(|chunk| chunk[..32] == chunk[32..64]).count()
        };
        assert_eq!((distinct(25), distinct(100)), (100, 0));
    }
}
