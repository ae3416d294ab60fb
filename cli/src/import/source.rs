//! What every store that data is moved in from looks like to the import: parts, one for each
//! keyspace, and pairs in each.

use cleavedb::Result;
use std::time::SystemTime;

/// A key and its value, whose buffers are used again.
#[derive(Debug, Default)]
pub(crate) struct ImportPair {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// When the value ceases to be there.
    pub(crate) expires: Option<SystemTime>,
}

impl ImportPair {
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        self.expires = None;
    }
}

/// A store, or the text or stream that its own tool wrote.
pub(crate) trait Source {
    /// Goes to the next part and returns its name, or an empty one if there is but one part.
    fn next_part(&mut self) -> Result<Option<String>>;

    /// Reads the part's next pair. Returns false at the end of the part.
    fn next(&mut self, pair: &mut ImportPair) -> Result<bool>;

    /// Returns true if the keys of each part are certain to ascend, each once.
    fn ascends(&self) -> bool;

    /// Returns the share (0 to 1) that was read, if it is known.
    fn share(&self) -> Option<f64>;
}
