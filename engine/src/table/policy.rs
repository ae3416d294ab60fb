//! Filter policies: filters that the user makes instead of the engine, as bytes that only the
//! policy understands.
//!
//! Place in the data's way: `writer.rs` passes all user keys of a table to the policy and stores
//! the result as the filter block, with the policy's name in the properties. `reader.rs` calls the
//! policy before it searches for a key. A table whose filter was made by another policy, or whose
//! policy was not given, is read as if it had no filter.

use std::sync::Arc;

/// A user-defined filter for the tables of a database.
///
/// It must never deny a key that is present, because such a key would not be found. Background
/// threads and readers call it at the same time.
///
/// [`Builder::filter_policy`](crate::Builder::filter_policy) sets one.
///
/// ```
/// use cleavedb::FilterPolicy;
///
/// /// Remembers the first byte of each key: enough where that byte tells kinds of keys apart.
/// struct FirstBytes;
///
/// impl FilterPolicy for FirstBytes {
///     fn name(&self) -> &str {
///         "example.FirstBytes"
///     }
///     fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
///         let mut firsts: Vec<u8> = keys.iter().filter_map(|key| key.first().copied()).collect();
///         firsts.dedup();
///         firsts
///     }
///     fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool {
///         key.first().is_none_or(|first| filter.contains(first))
///     }
/// }
/// let filter = FirstBytes.create(&[b"ada", b"alan"]);
/// assert!(FirstBytes.may_contain(b"alonzo", &filter));
/// assert!(!FirstBytes.may_contain(b"grace", &filter));
/// ```
pub trait FilterPolicy: Send + Sync {
    /// Returns the name of the policy. It is recorded with each table, and a filter is only passed
    /// to the policy of the same name. Change the name when the meaning of the bytes changes.
    fn name(&self) -> &str;
    /// Returns the filter of these keys, which are in order and distinct. A filter is at most 1
    /// GiB.
    fn create(&self, keys: &[&[u8]]) -> Vec<u8>;
    /// Returns false if `key` was certainly not among the keys that `filter` was created from.
    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool;
}

/// A builder of a policy's filter, which collects the keys of a table.
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

    /// Returns the filter block that the policy makes.
    pub(super) fn finish(&self) -> Vec<u8> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let keys: Vec<&[u8]> =
            starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end]).collect();
        self.policy.create(&keys)
    }
}

/// A policy and the filter that it made for one table.
pub(super) struct PolicyFilter {
    pub(super) policy: Arc<dyn FilterPolicy>,
    pub(super) bytes: Vec<u8>,
}
