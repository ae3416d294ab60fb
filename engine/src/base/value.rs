//! The value type that users get: cheap to clone, and never pins much more memory than its own
//! bytes.

use bytes::Bytes;
use std::fmt;
use std::ops::Deref;

/// A value read from the database. It dereferences to `[u8]`, and its clones share the bytes.
///
/// `Debug` shows the length only.
///
/// ```
/// let value = cleavedb::Value::from(b"hello".to_vec());
/// assert_eq!(value.len(), 5);
/// assert_eq!(value, "hello");
/// assert_eq!(&value[..2], b"he");
/// assert_eq!(value.clone().into_bytes(), &b"hello"[..]);
/// assert_eq!(value.into_vec(), b"hello");
/// ```
#[derive(Clone, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Value(Bytes);

/// The largest share of a value that it may pin as unused buffer: a slice of a read buffer is
/// shared only if the rest of the buffer is at most 1/64 of the slice. Otherwise the slice is
/// copied.
const MAX_PINNED_SHARE: usize = 64;

impl Value {
    /// Makes a value from a copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        Value(Bytes::copy_from_slice(bytes))
    }

    /// Makes a value of the part `range` of `buffer`. The part is shared if the rest of the buffer
    /// is negligible, and otherwise copied, so that a value never pins much more than its own
    /// bytes.
    ///
    /// # Panics
    /// Panics if the range is not within the buffer.
    pub(crate) fn from_buffer(buffer: Vec<u8>, range: std::ops::Range<usize>) -> Self {
        assert!(range.end <= buffer.len(), "{range:?} of {} bytes", buffer.len());
        let besides = buffer.capacity() - range.len();
        if besides <= range.len() / MAX_PINNED_SHARE {
            return Value(Bytes::from(buffer).slice(range));
        }
        Self::copy_from(&buffer[range])
    }

    /// Returns the bytes as a vector. They are copied unless this is the only handle to them.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into()
    }

    /// Returns the bytes as [`Bytes`] without a copy.
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
        // Values may be secret, so no log shows them unless the user writes them there.
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
