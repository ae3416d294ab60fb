//! A filter over the keys of a memtable. A look-up of a key that is not there ends after one cache
//! line, where a search of the skip list would load about a dozen.
//!
//! It is a blocked Bloom filter (Putze, Sanders, Singler 2007): the bits of a key lie in one cache
//! line. One thread adds keys, before it publishes their entries, and never removes one; so a
//! reader that has learned of an entry in any way finds its key here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bits for each key that there is room for. With [`KEY_BITS`] bits set for each, about one of
/// fifty keys that are not there seems to be.
const BITS_FOR_KEY: usize = 10;

/// The number of bits set for a key. More would exclude better and cost every insertion.
const KEY_BITS: u32 = 5;

/// The bits that choose one bit of a block.
const CHOICE_BITS: u32 = 9;

/// A block: a cache line of bits.
#[derive(Default)]
#[repr(align(64))]
struct FilterLine([AtomicU64; 8]);

/// A set of keys that may seem to hold more of them than it does.
pub(super) struct KeyFilter {
    blocks: Box<[FilterLine]>,
}

impl KeyFilter {
    /// Makes an empty filter with room for this many keys; more make it useless, but not wrong.
    pub(super) fn with_room_for(keys: usize) -> Self {
        let blocks = (keys * BITS_FOR_KEY).div_ceil(1 << CHOICE_BITS).max(1);
        KeyFilter { blocks: (0..blocks).map(|_| FilterLine::default()).collect() }
    }

    /// Returns the memory that the filter takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }

    /// Returns the block for a key with this hash, and the choices of its bits.
    #[inline]
    fn block(&self, hash: u64) -> (&FilterLine, impl Iterator<Item = (usize, u64)> + use<>) {
        // The high half chooses the block. The bits are cut from a product, because the low half
        // alone has too few.
        let number = ((hash >> 32) * self.blocks.len() as u64) >> 32;
        let choices = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - 45);
        let bits = (0..KEY_BITS).map(move |turn| {
            let choice = choices >> (turn * CHOICE_BITS);
            ((choice & 7) as usize, 1 << ((choice >> 3) & 63))
        });
        (&self.blocks[number as usize], bits)
    }

    /// Adds a key with this hash. Only one thread at a time may do so.
    #[inline]
    pub(super) fn add(&self, hash: u64) {
        let (block, bits) = self.block(hash);
        for (word, bit) in bits {
            block.0[word].store(block.0[word].load(Relaxed) | bit, Relaxed);
        }
    }

    /// Returns false if no key with this hash was added.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let (block, mut bits) = self.block(hash);
        bits.all(|(word, bit)| block.0[word].load(Relaxed) & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::checksum::key_hash;

    #[test]
    fn keys_that_were_added_are_held_and_few_others() {
        let keys = 20_000u32;
        let filter = KeyFilter::with_room_for(keys as usize);
        assert_eq!(filter.bytes(), (keys as usize * BITS_FOR_KEY).div_ceil(512) * 64);
        let hash = |number: u32| key_hash(&number.to_be_bytes());
        assert!((0..keys).all(|number| !filter.may_hold(hash(number))));
        (0..keys).for_each(|number| filter.add(hash(number)));
        assert!((0..keys).all(|number| filter.may_hold(hash(number))));
        let wrong = (keys..11 * keys).filter(|&number| filter.may_hold(hash(number))).count();
        let share = wrong as f64 / f64::from(10 * keys);
        assert!(share < 0.02, "{share} of the keys that are not there");
        assert!(share > 0.002, "{share}: this is no filter");
    }

    #[test]
    fn no_room_and_too_many_keys_are_no_error() {
        let filter = KeyFilter::with_room_for(0);
        assert!(!filter.may_hold(7));
        (0..10_000).for_each(|number| filter.add(key_hash(&[number as u8, 1])));
        assert!(filter.may_hold(key_hash(&[200, 1])));
    }
}
