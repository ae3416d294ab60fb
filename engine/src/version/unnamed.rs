//! The bytes of files that jobs are writing and that no version names yet. They take space before
//! anything that they replace is removed, so value GC counts them.

use crate::throttle::reads::IoPriority;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of tables and sorted segments that jobs are writing.
#[derive(Debug, Default)]
pub struct UnnamedBytes {
    of_flushes: AtomicU64,
    of_others: AtomicU64,
}

impl UnnamedBytes {
    /// Returns the number of bytes.
    pub fn get(&self) -> u64 {
        self.of_flushes() + self.of_others.load(Ordering::Relaxed)
    }

    /// Returns the number of those that flushes wrote. Memtables hold what is in them, too.
    pub fn of_flushes(&self) -> u64 {
        self.of_flushes.load(Ordering::Relaxed)
    }

    /// Adds bytes that a job of this priority wrote.
    pub fn add(&self, bytes: u64, priority: IoPriority) {
        self.counter(priority).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts `bytes`, which a job had added, because its files are now named or discarded.
    pub fn end(&self, bytes: u64, priority: IoPriority) {
        let before = self.counter(priority).fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} of {before} bytes without a name were named");
    }

    fn counter(&self, priority: IoPriority) -> &AtomicU64 {
        if priority == IoPriority::Flush { &self.of_flushes } else { &self.of_others }
    }
}
