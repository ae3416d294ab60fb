//! Keys and their order. A *user key* is what the caller passes; an *internal key* is a user key
//! followed by eight bytes that hold the sequence number and the kind of the entry.

use super::error::{Error, Result};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The place of an entry in the one commit order of a database. Zero is before every commit.
pub type SeqNo = u64;

/// Sequence numbers take 56 bits, so that a number and a kind fit eight bytes.
pub const MAX_SEQNO: SeqNo = (1 << 56) - 1;

/// The longest user key, in bytes.
pub const MAX_KEY_BYTES: usize = 64 << 10;

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// What an entry says about its key. The numbers are persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has no value from here on (a tombstone).
    Delete = 0,
    /// The value follows inline.
    Put = 1,
    /// A value pointer follows; the value is in a segment.
    PutPointer = 2,
}

impl EntryKind {
    /// The kind with this persistent number.
    pub fn from_number(number: u8) -> Result<EntryKind> {
        match number {
            0 => Ok(EntryKind::Delete),
            1 => Ok(EntryKind::Put),
            2 => Ok(EntryKind::PutPointer),
            _ => Err(Error::corruption(format!("entry kind {number} does not exist"))),
        }
    }
}

/// A total order of user keys, for keyspaces that are not ordered by bytes.
pub trait Comparator: Send + Sync {
    /// A name that is recorded with the keyspace; opening it with another one is refused.
    fn name(&self) -> &str;
    /// Compares two user keys. Must be total, the same for ever, and equal only for equal bytes:
    /// filters and checksums go by the bytes.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
}

/// How a keyspace orders its keys: by bytes, or by a comparator of the user's.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// Lexicographic by unsigned bytes.
    #[default]
    Bytewise,
    /// As the comparator says.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// The name recorded for the byte order.
    pub const BYTEWISE_NAME: &'static str = "cleavedb.Bytewise";

    /// The name that is recorded with the keyspace.
    pub fn name(&self) -> &str {
        match self {
            KeyOrder::Bytewise => Self::BYTEWISE_NAME,
            KeyOrder::Custom(comparator) => comparator.name(),
        }
    }

    /// Compares two user keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::Custom(comparator) => comparator.compare(a, b),
        }
    }

    /// Compares two entries: by user key, then newest first.
    #[inline]
    pub fn compare_entries(&self, a: (&[u8], Trailer), b: (&[u8], Trailer)) -> Ordering {
        self.compare(a.0, b.0).then_with(|| b.1.cmp(&a.1))
    }

    /// Compares two internal keys as tables store them; both are at least [`Trailer::BYTES`]
    /// long, as every decoder checks.
    #[inline]
    pub fn compare_internal(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_entries(split_internal(a), split_internal(b))
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sequence number and kind in one number, ordered by the sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// The bytes that a trailer takes at the end of an internal key.
    pub const BYTES: usize = 8;

    /// The trailer of an entry.
    #[inline]
    pub fn new(seqno: SeqNo, kind: EntryKind) -> Self {
        debug_assert!(seqno <= MAX_SEQNO);
        Trailer(seqno << 8 | kind as u64)
    }

    /// The trailer that sorts before every entry of its user key with a sequence number at or
    /// below `seqno`: where a search at that point in time starts.
    #[inline]
    pub fn seek(seqno: SeqNo) -> Self {
        Trailer(seqno << 8 | 0xff)
    }

    /// The trailer that sorts behind every entry of its user key.
    pub const LAST: Trailer = Trailer(0);

    /// The sequence number.
    #[inline]
    pub fn seqno(self) -> SeqNo {
        self.0 >> 8
    }

    /// The kind, which is corruption if it does not exist.
    #[inline]
    pub fn kind(self) -> Result<EntryKind> {
        EntryKind::from_number(self.0 as u8)
    }
}

/// Appends the internal key of (`user_key`, `trailer`) to `out`.
pub fn push_internal(out: &mut Vec<u8>, user_key: &[u8], trailer: Trailer) {
    out.extend_from_slice(user_key);
    out.extend_from_slice(&trailer.0.to_le_bytes());
}

/// The internal key of (`user_key`, `trailer`).
pub fn internal_key(user_key: &[u8], trailer: Trailer) -> Vec<u8> {
    let mut out = Vec::with_capacity(user_key.len() + Trailer::BYTES);
    push_internal(&mut out, user_key, trailer);
    out
}

/// Splits an internal key; one that is too short counts as a user key with the last trailer,
/// which no search ever matches. Decoders reject it earlier.
#[inline]
pub fn split_internal(internal: &[u8]) -> (&[u8], Trailer) {
    match internal.split_last_chunk::<{ Trailer::BYTES }>() {
        Some((user_key, trailer)) => (user_key, Trailer(u64::from_le_bytes(*trailer))),
        None => (internal, Trailer::LAST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_entries_sort_first() {
        let order = KeyOrder::Bytewise;
        let new = internal_key(b"k", Trailer::new(9, EntryKind::Delete));
        let old = internal_key(b"k", Trailer::new(3, EntryKind::Put));
        let next = internal_key(b"k\0", Trailer::new(99, EntryKind::Put));
        assert_eq!(order.compare_internal(&new, &old), Ordering::Less);
        assert_eq!(order.compare_internal(&old, &next), Ordering::Less);
        let at_five = internal_key(b"k", Trailer::seek(5));
        assert_eq!(order.compare_internal(&new, &at_five), Ordering::Less);
        assert_eq!(order.compare_internal(&at_five, &old), Ordering::Less);
        let at_three = internal_key(b"k", Trailer::seek(3));
        assert_eq!(order.compare_internal(&at_three, &old), Ordering::Less);
    }

    #[test]
    fn internal_keys_split_again() {
        let trailer = Trailer::new(MAX_SEQNO, EntryKind::PutPointer);
        let key = internal_key(b"abc", trailer);
        assert_eq!(split_internal(&key), (&b"abc"[..], trailer));
        assert_eq!(trailer.kind().unwrap(), EntryKind::PutPointer);
        assert_eq!(trailer.seqno(), MAX_SEQNO);
        assert_eq!(split_internal(b"abc").0, b"abc");
    }
}
