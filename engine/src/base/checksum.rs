//! Checksums: XXH3, seeded with the identity of the bytes that they protect. The right bytes in the
//! wrong place (another file, another offset) therefore do not validate either.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// The value of every checksum in fuzzing builds. With real checksums, no fuzzed input would ever
/// reach a decoder.
const FUZZED: u32 = 1;

/// Returns the 32-bit checksum of `bytes`, bound to `seed`: the low half of XXH3-64.
///
/// The result is never zero (a zero is replaced by one), so a run of zeroes never validates against
/// a stored checksum of zero.
pub fn checksum32(seed: u64, bytes: &[u8]) -> u32 {
    if cfg!(fuzzing) {
        return FUZZED;
    }
    (xxh3_64_with_seed(bytes, seed) as u32).max(1)
}

/// Returns [`checksum32`] of `first` followed by `second`, for bytes that are not contiguous. It is
/// slower than [`checksum32`] for short pieces.
pub fn checksum32_of_two(seed: u64, first: &[u8], second: &[u8]) -> u32 {
    if cfg!(fuzzing) {
        return FUZZED;
    }
    let mut state = Xxh3::with_seed(seed);
    state.update(first);
    state.update(second);
    (state.digest() as u32).max(1)
}

/// Returns the 64-bit checksum of `bytes`, bound to `seed`. It is never zero.
pub fn checksum64(seed: u64, bytes: &[u8]) -> u64 {
    if cfg!(fuzzing) {
        return FUZZED.into();
    }
    xxh3_64_with_seed(bytes, seed).max(1)
}

/// Makes a seed from two numbers, such as a file id and an offset in that file.
pub fn seed(a: u64, b: u64) -> u64 {
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    xxh3_64(&bytes)
}

/// An incremental XXH3-64. The hash does not depend on how the bytes are cut into pieces.
#[derive(Clone, Default)]
pub struct RunningHash(Xxh3);

impl RunningHash {
    /// Makes the hash of no bytes yet, bound to `seed`.
    pub fn with_seed(seed: u64) -> Self {
        RunningHash(Xxh3::with_seed(seed))
    }

    /// Returns the [`checksum32`] of all bytes added so far, bound to the seed that this hash was
    /// made with.
    pub fn checksum32(&self) -> u32 {
        (self.hash() as u32).max(1)
    }

    /// Returns the [`checksum64`] of all bytes added so far, bound to the seed that this hash was
    /// made with.
    pub fn checksum64(&self) -> u64 {
        self.hash().max(1)
    }

    /// Adds the next bytes to the hash.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of all bytes added so far.
    pub fn hash(&self) -> u64 {
        if cfg!(fuzzing) {
            return FUZZED.into();
        }
        self.0.digest()
    }
}

/// Returns the hash of a user key that filters and cache shards use. It is part of the table
/// format.
pub fn key_hash(user_key: &[u8]) -> u64 {
    xxh3_64(user_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_never_validate() {
        for len in 0..256 {
            assert_ne!(checksum32(7, &vec![0; len]), 0);
            assert_ne!(checksum64(7, &vec![0; len]), 0);
        }
    }

    #[test]
    fn the_place_is_part_of_the_checksum() {
        assert_ne!(checksum32(seed(1, 0), b"block"), checksum32(seed(1, 4096), b"block"));
        assert_ne!(checksum32(seed(1, 0), b"block"), checksum32(seed(2, 0), b"block"));
    }

    #[test]
    fn two_pieces_are_as_good_as_one() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i * 31) as u8).collect();
        for at in [0, 1, 16, 17, 240, 241, 1024, 1999, 2000] {
            let (first, second) = bytes.split_at(at);
            assert_eq!(checksum32_of_two(9, first, second), checksum32(9, &bytes), "{at}");
            let mut running = RunningHash::default();
            running.update(first);
            running.update(second);
            assert_eq!(running.hash(), xxh3_64(&bytes), "{at}");
        }
    }

    #[test]
    fn the_hash_is_part_of_the_format() {
        assert_eq!(key_hash(b""), 0x2d06_8005_38d3_94c2);
    }
}
