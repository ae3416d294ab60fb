//! How far cursors walk: the lengths of a keyspace's last walks, by which the next ones read
//! ahead, and what all walks have read, by which it is chosen how values are separated.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// One read costs about as much as reading or writing so many bytes in order: devices with few
/// reads per second move more in the time of one, fast ones less.
pub const READ_BYTES: u64 = 16 << 10;

/// The number of walks that are remembered. With 8 of them, walks of any length up to 100 read 1.56
/// values for each that is asked for, with 32 1.38, and with any number 1.33
/// (`bench/record/2026-11-27-auto-again.md`).
const LAST_WALKS: usize = 32;
/// A walk that goes on for so many values or more goes on for long: what is read ahead of it grows.
const LONG: u32 = 255;

/// The numbers of values that the last walks over a keyspace asked for, and what all of them read.
/// In memory only: it is a guess, and a wrong one costs reads in vain or reads one after the other.
#[derive(Debug, Default)]
pub struct WalkLengths {
    /// The lengths of the last walks, a ring; 0 where there was none.
    last: [AtomicU32; LAST_WALKS],
    /// The number of walks so far.
    noted: AtomicUsize,
    /// What the next walk is expected to ask for. It is asked for more often than walks end.
    expected: AtomicU32,
    /// What all reads would have cost if the values had been strewn, and what it cost that some
    /// were, as [`take_costs`](Self::take_costs) says.
    if_strewn: AtomicU64,
    waste: AtomicU64,
}

impl WalkLengths {
    /// Notes a walk that asked for so many values, one at least.
    pub fn note(&self, values: u64) {
        let length = u32::try_from(values).unwrap_or(u32::MAX);
        let number = self.noted.fetch_add(1, Relaxed);
        self.last[number % LAST_WALKS].store(length, Relaxed);
        if number > 0 {
            self.expected.store(self.median(0), Relaxed);
        }
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

    /// Returns the number of values that the next walk will probably ask for: half of the last ones
    /// asked for no more. It is 0 after fewer than two walks, as one says little.
    pub fn expected(&self) -> usize {
        self.expected.load(Relaxed) as usize
    }

    /// Returns the number of values for which a walk that has asked for `walked` will probably go
    /// on: half of the last ones that went as far asked for no more. `None` if none did, or most
    /// went on for long.
    pub fn beyond(&self, walked: u64) -> Option<usize> {
        let walked = u32::try_from(walked).unwrap_or(u32::MAX);
        let median = self.median(walked);
        (median > walked && median < LONG).then(|| (median - walked) as usize)
    }

    /// Returns the median of the lengths above `least`, the lesser of two; 0 if there are none.
    fn median(&self, least: u32) -> u32 {
        let mut lengths = [0; LAST_WALKS];
        let mut count = 0;
        for length in self.last.iter().map(|length| length.load(Relaxed)) {
            if length > least {
                lengths[count] = length;
                count += 1;
            }
        }
        if count == 0 {
            return 0;
        }
        *lengths[..count].select_nth_unstable((count - 1) / 2).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_last_walks_went_no_further_than_expected() {
        let walks = WalkLengths::default();
        let mut seen = Vec::new();
        for values in [100, 90, 1, 1, 100, 5000, u64::MAX, u64::MAX, u64::MAX, u64::MAX] {
            walks.note(values);
            seen.push(walks.expected());
        }
        assert_eq!(seen, [0, 90, 90, 1, 90, 90, 100, 100, 100, 100]);
        (0..LAST_WALKS).for_each(|_| walks.note(7));
        assert_eq!(walks.expected(), 7, "what is long ago is forgotten");
        (0..LAST_WALKS).for_each(|_| walks.note(5000));
        assert_eq!(walks.expected(), 5000, "tables are read as far ahead as that");
    }

    #[test]
    fn walks_go_on_as_far_as_half_of_those_that_went_as_far() {
        let walks = WalkLengths::default();
        assert_eq!(walks.beyond(0), None, "nothing is known");
        (1..=8).for_each(|number| walks.note(10 * number));
        let beyond = [0, 40, 59, 60, 79, 80, 1000].map(|walked| walks.beyond(walked));
        assert_eq!(beyond, [Some(40), Some(20), Some(11), Some(10), Some(1), None, None]);
        assert_eq!(walks.expected(), 40);
        (0..3).for_each(|_| walks.note(1000));
        assert_eq!(walks.beyond(70), None, "most of them went on for long");
        assert_eq!(walks.beyond(40), Some(40));
    }

    /// With as many values as the shorter of the last two walks asked for, and twice as many in
    /// each next window, walks of any length up to 100 read 1.75 values for each that was asked
    /// for.
    #[test]
    fn walks_of_any_length_read_little_in_vain() {
        let (env, walks) = (crate::env::Env::simulated(3).0, WalkLengths::default());
        let (mut asked, mut read, mut windows) = (0, 0, 0);
        for _ in 0..20_000 {
            let length = 1 + env.random.next_u64() % 100;
            let mut ahead = 0;
            while ahead < length {
                // What is read where nothing is known is as in `read/window.rs`.
                ahead += walks.beyond(ahead).map_or(ahead.max(2) * 2, |more| more.max(4) as u64);
                windows += 1;
            }
            (asked, read) = (asked + length, read + ahead);
            walks.note(length);
        }
        let (in_vain, windows) = (read * 100 / asked, windows * 100 / 20_000);
        assert!((130..145).contains(&in_vain) && windows < 210, "{in_vain}, {windows}");
    }
}
