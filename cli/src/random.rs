//! Random numbers, permutations and hashes from a seed, so that a run can be repeated.

/// Spreads the bits of `x` over the whole result; a bijection (the finish of SplitMix64).
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns a hash of `bytes` that is the same in every release.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash.rotate_left(5) ^ u64::from_le_bytes(word))
    })
}

/// A fast generator of random numbers, good enough for benchmarks.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        SplitMix64(mix(seed ^ mix(stream.wrapping_add(1))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number from 0 to 1, less than 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A random order of the numbers below `count` that takes no memory. It is a Feistel network over
/// the next even power of two, applied again until the result falls below `count`.
pub(crate) struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Permutation { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// Returns the number at place `index`, which must be below the count.
    pub(crate) fn at(&self, index: u64) -> u64 {
        assert!(index < self.count);
        let mut number = self.round_trip(index);
        // The network's range has at most 4 numbers for each one wanted, so this ends soon.
        while number >= self.count {
            number = self.round_trip(number);
        }
        number
    }

    fn round_trip(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..4 {
            let mixed = mix(right ^ self.seed.rotate_left(round * 16) ^ (u64::from(round) << 60));
            (left, right) = (right, left ^ (mixed & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_permutation_has_every_number_once() {
        for count in [1, 2, 3, 4, 5, 17, 256, 1000] {
            let order = Permutation::new(count, 7);
            let seen: BTreeSet<u64> = (0..count).map(|index| order.at(index)).collect();
            assert_eq!(seen, (0..count).collect());
        }
        let order = Permutation::new(1000, 7);
        assert!((0..1000).filter(|&index| order.at(index) == index).count() < 20);
    }

    #[test]
    fn random_numbers_stay_below_their_end() {
        let mut random = SplitMix64::new(1, 0);
        let seen: BTreeSet<u64> = (0..200).map(|_| random.below(10)).collect();
        assert_eq!(seen, (0..10).collect());
        let shares: Vec<f64> = (0..1000).map(|_| random.share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = shares.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
    }
}
