//! The value as a user gets it: cheap to clone, and pinning no more than its own bytes.

use bytes::Bytes;
use std::fmt;
use std::ops::Deref;

/// A value read from the database. Dereferences to `[u8]`; a clone shares the bytes.
///
/// `Debug` shows the length only.
///
/// ```
/// let value = cleavedb::Value::from(b"hello".to_vec());
/// assert_eq!(value.len(), 5);
/// assert_eq!(value.clone().into_vec(), b"hello");
/// ```
#[derive(Clone, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Value(Bytes);

/// A slice of a read buffer is handed out as it is only if what it would pin besides is at most
/// this fraction of it.
const MAX_PINNED_SHARE: usize = 64;

impl Value {
    /// Copies `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        Value(Bytes::copy_from_slice(bytes))
    }

    /// The part `range` of `buffer`: without a copy where the rest of the buffer is negligible,
    /// else copied, so that a kept value never pins much more than itself.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    pub fn from_buffer(buffer: Vec<u8>, range: std::ops::Range<usize>) -> Self {
        let besides = buffer.capacity() - range.len();
        if besides <= range.len() / MAX_PINNED_SHARE {
            return Value(Bytes::from(buffer).slice(range));
        }
        Self::copy_from(&buffer[range])
    }

    /// The bytes as a vector; copies unless this is the only handle.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into()
    }

    /// The bytes as `bytes::Bytes`, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Value(Bytes::from(bytes))
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Value::copy_from(bytes)
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        &*self.0 == other.as_ref()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values are the user's secrets: they are in no log unless the user puts them there.
        write!(f, "Value({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_of_a_buffer_is_copied() {
        let buffer = vec![7u8; 1000];
        let pinned = buffer.as_ptr();
        let value = Value::from_buffer(buffer, 100..200);
        assert_eq!(value.len(), 100);
        assert!(!(pinned as usize..pinned as usize + 1000).contains(&(value.as_ptr() as usize)));
    }

    #[test]
    fn nearly_a_whole_buffer_is_shared() {
        let buffer = vec![7u8; 10_000];
        let start = buffer.as_ptr() as usize;
        let value = Value::from_buffer(buffer, 50..10_000);
        assert_eq!(value.as_ptr() as usize, start + 50);
    }
}
