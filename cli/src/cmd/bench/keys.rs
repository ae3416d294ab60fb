//! Which keys are there, those that were loaded and those that threads insert behind them, and how
//! they are drawn.

use super::BenchPlan;
use super::mix::Mix;
use super::values::{KEY_BYTES, key};
use super::workload::{Distribution, LoadArgs, Workload};
use super::zipf::Zipf;
use crate::random::SplitMix64;
use cleavedb::{ReadOptions, Result};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of keys, all of whose numbers are below it. An insertion adds its key once it has
/// ended, and after those that began before it, so a key that is drawn is always there.
pub(super) struct KeyCount {
    begun: AtomicU64,
    there: AtomicU64,
    /// Keys that were inserted before one of a lower number.
    ahead: Mutex<BTreeSet<u64>>,
}

impl KeyCount {
    pub(super) fn new(count: u64) -> Self {
        KeyCount {
            begun: AtomicU64::new(count),
            there: AtomicU64::new(count),
            ahead: Mutex::new(BTreeSet::new()),
        }
    }

    /// Returns the number of keys.
    pub(super) fn get(&self) -> u64 {
        self.there.load(Ordering::Acquire)
    }

    /// Returns the number of the next new key, which nobody else gets.
    pub(super) fn begin_insert(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that key `number` is in the store.
    pub(super) fn end_insert(&self, number: u64) {
        let mut ahead = self.ahead.lock().expect("no holder of this lock panics");
        ahead.insert(number);
        let mut there = self.there.load(Ordering::Relaxed);
        while ahead.remove(&there) {
            there += 1;
        }
        self.there.store(there, Ordering::Release);
    }
}

/// How keys are drawn.
pub(super) enum Draw {
    /// All alike.
    Uniform,
    /// By Zipf's law; the popular keys are spread over all.
    Zipf(Zipf),
    /// By Zipf's law; the highest key is the most popular.
    Latest(Zipf),
}

impl Draw {
    /// Returns the way in which `workload` draws keys.
    pub(super) fn of(workload: Workload, load: &LoadArgs) -> Draw {
        let mix = Mix::of(workload);
        let usual = if mix.is_some() { Distribution::Zipf } else { Distribution::Uniform };
        match load.distribution.unwrap_or(usual) {
            Distribution::Zipf if mix.is_some_and(|mix| mix.latest) => {
                Draw::Latest(Zipf::new(load.num))
            }
            Distribution::Zipf => Draw::Zipf(Zipf::new(load.num)),
            Distribution::Uniform => Draw::Uniform,
        }
    }

    /// Returns the number of a key, of which there are `keys`.
    pub(super) fn next(&self, keys: u64, random: &mut SplitMix64) -> u64 {
        match self {
            Draw::Uniform => random.below(keys),
            Draw::Zipf(zipf) => zipf.next(random),
            Draw::Latest(zipf) => keys - zipf.rank(random),
        }
    }
}

/// Returns the number behind the last key of the keyspace, at least `--num`.
pub(super) fn count_stored(plan: &BenchPlan<'_>) -> Result<u64> {
    let mut cursor = plan.keyspace.range_with(.., &ReadOptions::new()).into_cursor()?;
    cursor.seek_to_last()?;
    let last = if cursor.valid() { number_of(cursor.key()) } else { None };
    Ok(plan.load.num.max(last.map_or(0, |number| number + 1)))
}

/// Returns the number whose key this is; `None` for a key of somebody else.
fn number_of(bytes: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (bytes.len() == KEY_BYTES && key(number) == bytes).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_once_it_and_all_before_it_are_there() {
        let keys = KeyCount::new(10);
        let numbers = [(); 3].map(|()| keys.begin_insert());
        assert_eq!(numbers, [10, 11, 12]);
        keys.end_insert(11);
        keys.end_insert(12);
        assert_eq!(keys.get(), 10);
        keys.end_insert(10);
        assert_eq!(keys.get(), 13);
    }

    #[test]
    fn the_highest_keys_are_the_latest_and_follow_insertions() {
        let (draw, mut random) = (Draw::Latest(Zipf::new(1000)), SplitMix64::new(1, 0));
        for keys in [1000, 1500] {
            let drawn: Vec<u64> = (0..2000).map(|_| draw.next(keys, &mut random)).collect();
            assert!(drawn.iter().all(|number| (keys - 1000..keys).contains(number)));
            let latest = drawn.iter().filter(|number| **number >= keys - 100).count();
            assert!(latest > 1200, "{latest} of 2000 drawn are of the last tenth");
        }
    }

    #[test]
    fn only_keys_of_this_command_have_numbers() {
        assert_eq!(number_of(&key(1234)), Some(1234));
        for foreign in [&b"mine"[..], b"1234", b"+000000000000012", b"\xff000000000000012"] {
            assert_eq!(number_of(foreign), None, "{foreign:?}");
        }
    }
}
