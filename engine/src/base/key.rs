//! User keys, internal keys and their order. A *user key* is the key that the caller passes; an
//! *internal key* is a user key followed by eight bytes that hold the sequence number and the kind
//! of the entry.

use super::error::{Error, Result};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A sequence number: the position of an entry in the commit order of the database. Zero is before
/// every commit.
pub type SeqNo = u64;

/// The highest sequence number. It takes 56 bits, so that a sequence number and a kind fit eight
/// bytes.
pub const MAX_SEQNO: SeqNo = (1 << 56) - 1;

/// The first sequence number that no commit gets. Numbers from here on are for entries that are in
/// no file: a transaction's own writes, which are newer than all that it reads.
pub const FIRST_OWN_SEQNO: SeqNo = 1 << 55;

/// The length of the longest user key, in bytes.
pub const MAX_KEY_BYTES: usize = 64 << 10;

/// The length of the longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// The kind of an entry. The numbers are persistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The entry is a tombstone: the key has no value from this sequence number on.
    Delete = 0,
    /// The entry holds the value inline.
    Put = 1,
    /// The entry holds a value pointer; the value is in a segment.
    PutPointer = 2,
    /// The entry holds a deadline and then the value inline.
    PutExpiring = 3,
    /// The entry holds a deadline and then a value pointer.
    PointerExpiring = 4,
    /// The entry holds an operand inline, which is merged with what the key had before.
    Merge = 5,
    /// The entry holds a pointer to such an operand; the operand is in a segment.
    MergePointer = 6,
}

/// Kept apart, so that what cursors call for each entry is short enough to be inlined.
#[cold]
fn unknown_kind(number: u8) -> Error {
    Error::corruption(format!("entry kind {number} does not exist"))
}

impl EntryKind {
    /// Returns the kind with this persistent number.
    #[inline]
    pub fn from_number(number: u8) -> Result<EntryKind> {
        match number {
            0 => Ok(EntryKind::Delete),
            1 => Ok(EntryKind::Put),
            2 => Ok(EntryKind::PutPointer),
            3 => Ok(EntryKind::PutExpiring),
            4 => Ok(EntryKind::PointerExpiring),
            5 => Ok(EntryKind::Merge),
            6 => Ok(EntryKind::MergePointer),
            _ => Err(unknown_kind(number)),
        }
    }

    /// Returns true if entries of this kind have a deadline.
    #[inline]
    pub fn has_deadline(self) -> bool {
        matches!(self, EntryKind::PutExpiring | EntryKind::PointerExpiring)
    }

    /// Returns true if entries of this kind have their value in a segment.
    #[inline]
    pub fn is_pointer(self) -> bool {
        matches!(self, EntryKind::PutPointer | EntryKind::PointerExpiring | EntryKind::MergePointer)
    }

    /// Returns true if entries of this kind are operands: they hide nothing that is older.
    #[inline]
    pub fn is_merge(self) -> bool {
        matches!(self, EntryKind::Merge | EntryKind::MergePointer)
    }
}

/// A total order of user keys, for keyspaces that are not in byte order.
///
/// [`Builder::comparator`](crate::Builder::comparator) sets one.
///
/// ```
/// use cleavedb::Comparator;
/// use std::cmp::Ordering;
///
/// /// Orders keys without regard to the case of ASCII letters, and by bytes where only it differs.
/// struct NoCase;
///
/// impl Comparator for NoCase {
///     fn name(&self) -> &str {
///         "example.NoCase"
///     }
///     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
///         let lower = |key: &[u8]| key.to_ascii_lowercase();
///         lower(a).cmp(&lower(b)).then_with(|| a.cmp(b))
///     }
/// }
/// assert!(NoCase.compare(b"ada", b"Bob").is_lt());
/// ```
pub trait Comparator: Send + Sync {
    /// Returns the name that is recorded with the keyspace. Opening the keyspace with a comparator
    /// of another name is refused.
    fn name(&self) -> &str;
    /// Compares two user keys. The order must be total and never change, and two keys may be equal
    /// only if their bytes are, because filters and checksums use the bytes.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
}

/// The order of the keys of a keyspace: byte order, or a comparator of the user.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// Lexicographic by unsigned bytes.
    #[default]
    Bytewise,
    /// The order of the comparator.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// The name that is recorded for byte order.
    pub const BYTEWISE_NAME: &'static str = "cleavedb.Bytewise";

    /// Returns the name that is recorded with the keyspace.
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

    /// Compares two entries: by user key ascending, then the newest first.
    #[inline]
    pub fn compare_entries(&self, a: (&[u8], Trailer), b: (&[u8], Trailer)) -> Ordering {
        self.compare(a.0, b.0).then_with(|| b.1.cmp(&a.1))
    }

    /// Sorts `list` by `compare`, which goes by this order. A user's comparator may be no order,
    /// with which the library's sort may panic; then the result is in some order, too.
    pub fn sort<T: Clone>(&self, list: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
        if matches!(self, KeyOrder::Bytewise) {
            list.sort_by(compare);
            return;
        }
        let mut length = 1;
        while length < list.len() {
            let mut merged = Vec::with_capacity(list.len());
            for pair in list.chunks(2 * length) {
                let (mut a, mut b) = pair.split_at(length.min(pair.len()));
                while let ([first, ..], [second, ..]) = (a, b) {
                    let from = if compare(second, first).is_lt() { &mut b } else { &mut a };
                    merged.push(from[0].clone());
                    *from = &from[1..];
                }
                merged.extend_from_slice(a);
                merged.extend_from_slice(b);
            }
            *list = merged;
            length *= 2;
        }
    }

    /// Compares two internal keys as tables store them. Both must be at least [`Trailer::BYTES`]
    /// long; every decoder checks that.
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

/// The sequence number and kind of an entry in one integer, ordered by sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// The size of the trailer at the end of an internal key, in bytes.
    pub const BYTES: usize = 8;

    /// Makes the trailer of an entry.
    #[inline]
    pub fn new(seqno: SeqNo, kind: EntryKind) -> Self {
        debug_assert!(seqno <= MAX_SEQNO, "I6: {seqno} would be cut to another number");
        Trailer(seqno << 8 | kind as u64)
    }

    /// Returns the trailer at which a search as of `seqno` starts: it sorts before every entry of
    /// its user key with a sequence number at or below `seqno`.
    #[inline]
    pub fn seek(seqno: SeqNo) -> Self {
        debug_assert!(seqno <= MAX_SEQNO, "I6: {seqno} would be cut to another number");
        Trailer(seqno << 8 | 0xff)
    }

    /// The trailer that sorts after every entry of its user key.
    pub const LAST: Trailer = Trailer(0);

    /// Returns the sequence number.
    #[inline]
    pub fn seqno(self) -> SeqNo {
        self.0 >> 8
    }

    /// Returns the trailer of an entry that is stored with the number 0 and was ingested at
    /// `seqno`; 0 changes nothing.
    #[inline]
    pub fn ingested(self, seqno: SeqNo) -> Trailer {
        if seqno == 0 { self } else { Trailer(seqno << 8 | self.0 & 0xff) }
    }

    /// Returns the kind, or a corruption error if no such kind exists.
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

/// Returns the internal key of (`user_key`, `trailer`).
pub fn internal_key(user_key: &[u8], trailer: Trailer) -> Vec<u8> {
    let mut out = Vec::with_capacity(user_key.len() + Trailer::BYTES);
    push_internal(&mut out, user_key, trailer);
    out
}

/// Splits an internal key into user key and trailer. An input that is too short counts as a user
/// key with [`Trailer::LAST`], which no search matches; decoders reject it earlier.
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
