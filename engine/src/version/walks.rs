//! How far cursors walk: the lengths of a keyspace's last walks, by which the next one begins to
//! read ahead, and what all walks have read, by which it is chosen how values are separated.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One read costs about as much as reading or writing so many bytes in order: devices with few
/// reads per second move more in the time of one, fast ones less.
pub const READ_BYTES: u64 = 16 << 10;

/// The numbers of values that the last two walks over a keyspace asked for, and what all of them
/// read. In memory only: it is a guess, and a wrong one costs reads in vain or reads one after the
/// other.
#[derive(Debug, Default)]
pub struct WalkLengths {
    last_two: AtomicU64,
    /// What all reads would have cost if the values had been strewn, and what it cost that some
    /// were, as [`take_costs`](Self::take_costs) says.
    if_strewn: AtomicU64,
    waste: AtomicU64,
}

impl WalkLengths {
    /// Notes a walk that asked for so many values. Of two that are noted at the same time, one may
    /// be lost.
    pub fn note(&self, values: u64) {
        let last = u64::from(u32::try_from(values).unwrap_or(u32::MAX));
        self.last_two.store(self.last_two.load(Relaxed) << 32 | last, Relaxed);
    }

    /// Notes what it would have cost a window if its values had been strewn, and what it cost that
    /// some were.
    pub fn note_costs(&self, if_strewn: u64, waste: u64) {
        self.if_strewn.fetch_add(if_strewn, Relaxed);
        if waste > 0 {
            self.waste.fetch_add(waste, Relaxed);
        }
    }

    /// Returns what the windows since the last call would have cost if all separated values had
    /// been strewn, and what it cost that some were: reads, in bytes that could have been moved in
    /// the time of each.
    pub fn take_costs(&self) -> (u64, u64) {
        (self.if_strewn.swap(0, Relaxed), self.waste.swap(0, Relaxed))
    }

    /// Returns the number of values that the next walk will probably ask for: as many as the
    /// shorter of the last two, because one long walk among short ones says little.
    pub fn expected(&self) -> usize {
        let lengths = self.last_two.load(Relaxed);
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
