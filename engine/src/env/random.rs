//! The engine's only source of randomness, so that a simulated run repeats from its seed.

use std::io;

/// A source of random numbers.
pub trait Random: Send + Sync {
    /// Returns the next 64 random bits, for identities and epochs, not for secrets.
    fn next_u64(&self) -> u64;

    /// Fills `room` with random bytes that are fit for secrets.
    fn fill_secret(&self, room: &mut [u8]) -> io::Result<()>;
}

/// The operating system's randomness. A child process does not repeat what its parent draws.
pub(super) struct OsRandom;

impl Random for OsRandom {
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("the operating system gives out random numbers")
    }

    fn fill_secret(&self, room: &mut [u8]) -> io::Result<()> {
        getrandom::fill(room).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_of_two_sources_do_not_repeat() {
        let sources = [OsRandom, OsRandom];
        let drawn: BTreeSet<u64> =
            (0..2000).map(|index: usize| sources[index % 2].next_u64()).collect();
        assert_eq!(drawn.len(), 2000);
    }
}
