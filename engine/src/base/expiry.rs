//! Deadlines: the time at which an entry expires. An expired entry is a tombstone to its readers.
//!
//! [`Deadline::has_passed`] is the only place that compares a deadline with a time. The time comes
//! from the expiry clock (`version/expiry.rs`), which never goes back.

use super::coding::{Reader, put_varint, varint_len};
use super::error::Result;

/// The time at which an entry expires, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Deadline(pub u64);

/// A reading of the expiry clock, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ExpiryTime(pub u64);

impl Deadline {
    /// Returns true if an entry with this deadline is expired at `now`.
    #[inline]
    pub fn has_passed(self, now: ExpiryTime) -> bool {
        self.0 <= now.0
    }

    /// Returns the length of [`Deadline::encode`]'s output in bytes.
    #[inline]
    pub fn encoded_len(self) -> usize {
        varint_len(self.0)
    }

    /// Appends the deadline as a varint.
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
    }

    /// Reads a deadline that [`Deadline::encode`] wrote.
    #[inline]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Deadline> {
        Ok(Deadline(reader.varint()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_expired_from_its_deadline_on() {
        let deadline = Deadline(1000);
        assert!(!deadline.has_passed(ExpiryTime(999)));
        assert!(deadline.has_passed(ExpiryTime(1000)));
        assert!(!Deadline(u64::MAX).has_passed(ExpiryTime(u64::MAX - 1)));
    }

    #[test]
    fn deadlines_round_trip() {
        for deadline in [0, 1, 127, 128, 1_767_225_600_000, u64::MAX].map(Deadline) {
            let mut out = Vec::new();
            deadline.encode(&mut out);
            assert_eq!(out.len(), deadline.encoded_len());
            let mut reader = Reader::new(&out);
            assert_eq!(Deadline::decode(&mut reader).unwrap(), deadline);
            assert!(reader.is_empty());
        }
    }
}
