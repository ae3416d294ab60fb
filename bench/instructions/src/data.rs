//! The data of all paths: keys of 16 bytes, put in an order that looks random, and values that
//! hardly compress.

use cleavedb::{Db, GcOptions, Keyspace, KeyspaceOptions, Options, Result, Separation, WriteBatch};
use std::path::Path;

/// Length of a value that stays in the tree.
pub(crate) const INLINE_BYTES: usize = 100;
/// Length of a value that is separated.
pub(crate) const SEPARATED_BYTES: usize = 1024;

/// Length of the bytes that values are cut from.
const NOISE_BYTES: usize = 64 << 10;
/// Entries of a batch when a store is filled, because single puts take longer.
const BATCH: u64 = 100;
/// Step of the order in which keys are visited: prime, so that each comes once as long as their
/// number is no multiple of it.
const STRIDE: u64 = 7919;

/// Opens a new store with the default settings, but for what works by itself: values are collected
/// when the measured part says so, and nobody asks for statistics.
pub(crate) fn open(dir: &Path) -> Result<Db> {
    let options = Options {
        // By default as many as half of the processors, which differ between machines.
        compaction_threads: 1,
        control_socket: false,
        scan_order: false,
        gc: GcOptions { automatic: false, ..GcOptions::default() },
        // Paths of separated values are those of values in the log.
        keyspace: KeyspaceOptions { separation: Separation::AtWrite, ..KeyspaceOptions::default() },
        ..Options::default()
    };
    Db::builder(dir).options(options).open()
}

/// Returns the key of a number; keys are in the order of their numbers.
pub(crate) fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:....00000000";
    key[4..12].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns all numbers below `count` in an order that looks random.
pub(crate) fn strewn(count: u64) -> impl Iterator<Item = u64> + Clone {
    (0..count).map(move |at| at * STRIDE % count)
}

/// SampleValues of one length, the same in each run.
pub(crate) struct SampleValues {
    noise: Vec<u8>,
    bytes: usize,
}

impl SampleValues {
    /// Prepares values of so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        // Knuth's constants for a linear congruence; the high bits are the better ones.
        let mut state = 1u64;
        let mut noise = Vec::with_capacity(NOISE_BYTES);
        while noise.len() < NOISE_BYTES {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            noise.extend_from_slice(&state.to_be_bytes()[..4]);
        }
        SampleValues { noise, bytes }
    }

    /// Returns the value of a key's number.
    pub(crate) fn at(&self, number: u64) -> &[u8] {
        let begin = (number * STRIDE) as usize % (NOISE_BYTES - self.bytes);
        &self.noise[begin..begin + self.bytes]
    }
}

/// Puts the pairs of these numbers, by batches.
pub(crate) fn fill(
    db: &Db,
    keyspace: &Keyspace,
    values: &SampleValues,
    numbers: impl Iterator<Item = u64>,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(keyspace, key(number), values.at(number));
        if batch.len() as u64 == BATCH {
            db.write(std::mem::take(&mut batch))?;
        }
    }
    db.write(batch)
}
