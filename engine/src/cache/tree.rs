//! The account of the tables that are kept in memory as a whole (`Options::pin_tree`).
//!
//! Place in the data's way: `version/pinning.rs` chooses which tables are pinned, and
//! `table/pinned.rs` loads them. Each pinned table has a [`TreeCharge`] and gives it back when it
//! is freed, which can be long after its file left the tree, if a cursor of that time is still
//! open.
//!
//! Invariant: all charges together never exceed the bound, not even while a table is loaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bound on the memory of pinned tables, and what they take of it.
#[derive(Debug)]
pub struct TreeMemory {
    bound: u64,
    used: AtomicU64,
}

impl TreeMemory {
    /// Makes an account of which nothing is used. With a bound of 0 no table is ever pinned.
    pub fn new(bound: u64) -> Self {
        TreeMemory { bound, used: AtomicU64::new(0) }
    }

    /// Returns true if no table is ever pinned.
    pub fn is_off(&self) -> bool {
        self.bound == 0
    }

    /// Returns the bytes that pinned tables may take.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Returns the bytes that pinned tables take, those included that only their readers hold.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the bytes that are left of the bound.
    pub fn room(&self) -> u64 {
        self.bound - self.used()
    }

    /// Begins the charge of a table, with nothing in it yet.
    pub fn charge(self: &Arc<Self>) -> TreeCharge {
        TreeCharge { memory: self.clone(), bytes: 0 }
    }
}

/// The bytes that a table is charged; they are given back when this is dropped.
#[derive(Debug)]
pub struct TreeCharge {
    memory: Arc<TreeMemory>,
    bytes: u64,
}

impl TreeCharge {
    /// Takes `bytes` more. Returns false, and takes nothing, if the bound does not allow them.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let bound = self.memory.bound;
        let add = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= bound);
        let grown = self.memory.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if grown.is_ok() {
            self.bytes += bytes;
        }
        grown.is_ok()
    }

    /// Returns the bytes that were taken.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the most bytes that this charge could have now.
    pub fn most(&self) -> u64 {
        self.bytes + self.memory.room()
    }
}

impl Drop for TreeCharge {
    fn drop(&mut self) {
        let before = self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "{} of {before} bytes are given back", self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_keep_to_the_bound_and_give_back_what_they_took() {
        let memory = Arc::new(TreeMemory::new(100));
        let (mut one, mut two) = (memory.charge(), memory.charge());
        assert!(one.grow(60) && !two.grow(41) && two.grow(40) && !one.grow(1) && one.grow(0));
        assert_eq!((one.bytes(), two.bytes(), memory.room()), (60, 40, 0));
        assert!(!two.grow(u64::MAX));
        drop(one);
        assert_eq!((memory.room(), two.most()), (60, 100));
        assert_eq!((memory.used(), memory.bound()), (40, 100));
        drop(two);
        assert_eq!((memory.used(), memory.bound()), (0, 100));
    }
}
