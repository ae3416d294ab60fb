//! The bytes of files that jobs are writing and that no version names yet. They take space before
//! anything that they replace is removed, so value GC counts them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of tables and sorted segments that jobs are writing.
#[derive(Debug, Default)]
pub struct UnnamedBytes {
    of_memtables: AtomicU64,
    of_others: AtomicU64,
}

/// Where what a job writes comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenFrom {
    /// Memtables that wait for their flush, and hold it until the files are named.
    Memtables,
    /// Anything else.
    Others,
}

impl UnnamedBytes {
    /// Returns the number of bytes.
    pub fn get(&self) -> u64 {
        self.of(WrittenFrom::Memtables) + self.of(WrittenFrom::Others)
    }

    /// Returns the number of bytes that were written from there.
    pub fn of(&self, from: WrittenFrom) -> u64 {
        self.counter(from).load(Ordering::Relaxed)
    }

    /// Adds bytes that a job wrote.
    pub fn add(&self, bytes: u64, from: WrittenFrom) {
        self.counter(from).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts `bytes`, which a job had added, because its files are now named or discarded.
    pub fn end(&self, bytes: u64, from: WrittenFrom) {
        let before = self.counter(from).fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} of {before} bytes without a name were named");
    }

    fn counter(&self, from: WrittenFrom) -> &AtomicU64 {
        match from {
            WrittenFrom::Memtables => &self.of_memtables,
            WrittenFrom::Others => &self.of_others,
        }
    }
}
