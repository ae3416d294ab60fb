//! The engine's only source of randomness, so that a simulated run repeats from its seed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers for identities and epochs, not for secrets.
pub trait Random: Send + Sync {
    /// Returns the next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The operating system's randomness. The standard library draws the keys of its hash function from
/// the system, and a keyed hash of a counter is a random sequence. No two processes share one.
#[derive(Default)]
pub(super) struct OsRandom {
    keys: RandomState,
    drawn: AtomicU64,
}

impl Random for OsRandom {
    fn next_u64(&self) -> u64 {
        let mut hasher = self.keys.build_hasher();
        hasher.write_u64(self.drawn.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_of_two_sources_do_not_repeat() {
        let sources = [OsRandom::default(), OsRandom::default()];
        let drawn: BTreeSet<u64> =
            (0..2000).map(|index: usize| sources[index % 2].next_u64()).collect();
        assert_eq!(drawn.len(), 2000);
    }
}
