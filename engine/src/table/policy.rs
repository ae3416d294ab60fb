//! Filters made by the user instead of the engine: bytes that only the policy understands.
//!
//! Place in the data's way: `writer.rs` hands all user keys of a table to the policy and stores
//! what it makes as the filter block, with the policy's name in the properties; `reader.rs` asks
//! the policy before it looks for a key. A table whose filter is of another policy, or of one that
//! was not given, is read as if it had none.

use std::sync::Arc;

/// Makes and asks filters for the tables of a database.
///
/// It may never deny a key that is there: such a key would not be found. Called by background
/// threads and by readers, at the same time.
pub trait FilterPolicy: Send + Sync {
    /// Recorded with each table; a filter is only shown to the policy of the same name. Change it
    /// with the meaning of the bytes.
    fn name(&self) -> &str;
    /// The filter of these keys, which are in order and without repetition. At most 1 GiB.
    fn create(&self, keys: &[&[u8]]) -> Vec<u8>;
    /// False if `key` was certainly not among the keys that `filter` was created of.
    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool;
}

/// Collects the keys of a table for its policy.
pub(super) struct PolicyBuilder {
    policy: Arc<dyn FilterPolicy>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl PolicyBuilder {
    pub(super) fn new(policy: Arc<dyn FilterPolicy>) -> Self {
        PolicyBuilder { policy, bytes: Vec::new(), ends: Vec::new() }
    }

    pub(super) fn name(&self) -> &str {
        self.policy.name()
    }

    pub(super) fn add(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The filter block.
    pub(super) fn finish(&self) -> Vec<u8> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let keys: Vec<&[u8]> =
            starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end]).collect();
        self.policy.create(&keys)
    }
}

/// A policy and what it made of one table.
pub(super) struct PolicyFilter {
    pub(super) policy: Arc<dyn FilterPolicy>,
    pub(super) bytes: Vec<u8>,
}
