//! An order of keys for tests of what something costs.

use crate::base::key::Comparator;
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Orders keys by bytes and counts the comparisons.
#[derive(Default)]
pub struct CountedOrder(AtomicU64);

impl CountedOrder {
    /// Returns the number of comparisons since the last call.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Relaxed)
    }
}

impl Comparator for CountedOrder {
    fn name(&self) -> &str {
        "counted"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
}
