//! How far cursors walk: the lengths of a keyspace's last walks, by which the next one begins to
//! read ahead.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The numbers of values that the last two walks over a keyspace asked for. In memory only: it is a
/// guess, and a wrong one costs reads in vain or reads one after the other.
#[derive(Debug, Default)]
pub struct WalkLengths(AtomicU64);

impl WalkLengths {
    /// Notes a walk that asked for so many values. Of two that are noted at the same time, one may
    /// be lost.
    pub fn note(&self, values: u64) {
        let last = u64::from(u32::try_from(values).unwrap_or(u32::MAX));
        self.0.store(self.0.load(Relaxed) << 32 | last, Relaxed);
    }

    /// Returns the number of values that the next walk will probably ask for: as many as the
    /// shorter of the last two, because one long walk among short ones says little.
    pub fn expected(&self) -> usize {
        let lengths = self.0.load(Relaxed);
        (lengths >> 32).min(lengths & u64::from(u32::MAX)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_of_the_last_two_is_expected() {
        let walks = WalkLengths::default();
        let mut seen = Vec::new();
        for values in [100, 90, 1, 100, 100, u64::MAX, u64::MAX] {
            walks.note(values);
            seen.push(walks.expected());
        }
        assert_eq!(seen, [0, 90, 1, 1, 100, 100, u32::MAX as usize]);
    }
}
