//! The payload of an entry: an inline value, a value pointer, or nothing for a tombstone; before a
//! value or a pointer, the deadline of an entry that expires.

use super::coding::Reader;
use super::error::Result;
use super::expiry::{Deadline, ExpiryTime};
use super::key::{EntryKind, Trailer};
use super::pointer::ValuePointer;

/// Returns the bytes that an entry takes in a table, and its separated value in a segment.
pub fn entry_bytes(user_key: &[u8], trailer: Trailer, payload: &[u8]) -> Result<u64> {
    let separated = match Slot::decode(trailer.kind()?, payload)? {
        Slot::Pointer(pointer) => u64::from(pointer.length),
        Slot::Inline(_) | Slot::Delete => 0,
    };
    Ok((user_key.len() + Trailer::BYTES + payload.len()) as u64 + separated)
}

/// The value of one entry, borrowed from the buffer that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot<'a> {
    /// The key is deleted.
    Delete,
    /// The value itself.
    Inline(&'a [u8]),
    /// The place of the separated value.
    Pointer(ValuePointer),
}

impl<'a> Slot<'a> {
    /// Decodes the value of an entry of `kind`, whether or not it has expired.
    #[inline]
    pub fn decode(kind: EntryKind, stored: &'a [u8]) -> Result<Self> {
        Ok(Payload::decode(kind, stored)?.slot)
    }
}

/// The payload of one entry: its value, and when it expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload<'a> {
    /// True if the value is an operand, which is merged with what the key had before.
    pub is_merge: bool,
    /// The time at which the entry expires; `None` if it never does. A tombstone has none.
    pub deadline: Option<Deadline>,
    /// The value.
    pub slot: Slot<'a>,
}

impl<'a> From<Slot<'a>> for Payload<'a> {
    fn from(slot: Slot<'a>) -> Self {
        Payload { is_merge: false, deadline: None, slot }
    }
}

impl<'a> Payload<'a> {
    /// What is left of an entry that has expired for everybody who sees it, to hide what is older:
    /// it has expired at any time, whatever the clock says. It is no tombstone, because a tombstone
    /// counts as the deletion of something, and what expires has mostly nothing below it.
    pub const EXPIRED: Payload<'static> =
        Payload { is_merge: false, deadline: Some(Deadline(0)), slot: Slot::Inline(b"") };

    /// Returns the payload of an operand.
    pub fn operand(slot: Slot<'a>) -> Self {
        Payload { is_merge: true, deadline: None, slot }
    }

    /// Returns the same payload with the value elsewhere, in another form.
    pub fn with_slot<'b>(&self, slot: Slot<'b>) -> Payload<'b> {
        Payload { is_merge: self.is_merge, deadline: self.deadline, slot }
    }

    /// Returns true for [`Payload::EXPIRED`], and for what a user has put with its deadline.
    pub fn is_expired_for_all(&self) -> bool {
        self.deadline == Payload::EXPIRED.deadline
    }

    /// Returns the entry kind of this payload.
    pub fn kind(&self) -> EntryKind {
        match (self.slot, self.deadline) {
            (Slot::Delete, _) => EntryKind::Delete,
            (Slot::Inline(_), _) if self.is_merge => EntryKind::Merge,
            (Slot::Pointer(_), _) if self.is_merge => EntryKind::MergePointer,
            (Slot::Inline(_), None) => EntryKind::Put,
            (Slot::Pointer(_), None) => EntryKind::PutPointer,
            (Slot::Inline(_), Some(_)) => EntryKind::PutExpiring,
            (Slot::Pointer(_), Some(_)) => EntryKind::PointerExpiring,
        }
    }

    /// Returns what a reader at `now` sees of the entry: an expired one is a tombstone.
    ///
    /// The time is only asked for if the entry has a deadline.
    #[inline]
    pub fn seen_at(&self, now: impl FnOnce() -> ExpiryTime) -> Slot<'a> {
        match self.deadline {
            Some(deadline) if deadline.has_passed(now()) => Slot::Delete,
            _ => self.slot,
        }
    }

    /// Returns the number of bytes that a table stores for this payload.
    pub fn encoded_len(&self) -> usize {
        let deadline = self.deadline.map_or(0, Deadline::encoded_len);
        match self.slot {
            Slot::Delete => 0,
            Slot::Inline(value) => deadline + value.len(),
            Slot::Pointer(pointer) => deadline + pointer.encoded_len(),
        }
    }

    /// Appends the bytes that a table stores for this payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.deadline.is_none() || self.slot != Slot::Delete && !self.is_merge);
        if let Some(deadline) = self.deadline {
            deadline.encode(out);
        }
        match self.slot {
            Slot::Delete => {}
            Slot::Inline(value) => out.extend_from_slice(value),
            Slot::Pointer(pointer) => pointer.encode(out),
        }
    }

    /// Decodes the bytes that a table stores for an entry of `kind`.
    #[inline]
    pub fn decode(kind: EntryKind, stored: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(stored);
        let deadline = match kind.has_deadline() {
            true => Some(Deadline::decode(&mut reader)?),
            false => None,
        };
        let slot = match kind {
            EntryKind::Delete => {
                reader.finish("a tombstone")?;
                Slot::Delete
            }
            EntryKind::Put | EntryKind::PutExpiring | EntryKind::Merge => {
                Slot::Inline(reader.rest())
            }
            EntryKind::PutPointer | EntryKind::PointerExpiring | EntryKind::MergePointer => {
                let pointer = ValuePointer::decode(&mut reader)?;
                reader.finish("a value pointer")?;
                Slot::Pointer(pointer)
            }
        };
        Ok(Payload { is_merge: kind.is_merge(), deadline, slot })
    }
}

/// Returns the deadline of an entry of `kind`, if it has one. Costs nothing for an entry without.
#[inline]
pub fn deadline_of(kind: EntryKind, stored: &[u8]) -> Result<Option<Deadline>> {
    match kind.has_deadline() {
        true => Deadline::decode(&mut Reader::new(stored)).map(Some),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pointer::SegmentId;
    use super::*;

    #[test]
    fn payloads_round_trip() {
        let pointer = ValuePointer { segment: SegmentId(1), offset: 64, length: 90 };
        let slots = [Slot::Delete, Slot::Inline(b"v"), Slot::Inline(b""), Slot::Pointer(pointer)];
        for slot in slots {
            for deadline in [None, Some(Deadline(0)), Some(Deadline(u64::MAX))] {
                if slot == Slot::Delete && deadline.is_some() {
                    continue;
                }
                let payload = Payload { is_merge: false, deadline, slot };
                let mut out = Vec::new();
                payload.encode(&mut out);
                assert_eq!(out.len(), payload.encoded_len());
                assert_eq!(Payload::decode(payload.kind(), &out).unwrap(), payload);
                assert_eq!(Slot::decode(payload.kind(), &out).unwrap(), slot);
                assert_eq!(deadline_of(payload.kind(), &out).unwrap(), deadline);
            }
        }
        for slot in &slots[1..] {
            let (payload, mut out) = (Payload::operand(*slot), Vec::new());
            payload.encode(&mut out);
            assert_eq!(out.len(), payload.encoded_len());
            assert!(payload.kind().is_merge());
            assert_eq!(Payload::decode(payload.kind(), &out).unwrap(), payload);
        }
        assert!(Slot::decode(EntryKind::MergePointer, b"\x07").is_err(), "no pointer");
        assert!(Slot::decode(EntryKind::Delete, b"x").is_err());
        assert!(Slot::decode(EntryKind::PutPointer, b"\x01\x02\x03\x04").is_err());
        assert!(Slot::decode(EntryKind::PutExpiring, b"").is_err(), "no deadline");
        assert!(Slot::decode(EntryKind::PutExpiring, b"\xff").is_err(), "half a deadline");
        assert!(Slot::decode(EntryKind::PointerExpiring, b"\x07").is_err(), "no pointer");
    }

    #[test]
    fn an_expired_entry_is_a_tombstone() {
        let slot = Slot::Inline(b"v");
        let payload = Payload { is_merge: false, deadline: Some(Deadline(9)), slot };
        assert_eq!(payload.seen_at(|| ExpiryTime(8)), Slot::Inline(b"v"));
        assert_eq!(payload.seen_at(|| ExpiryTime(9)), Slot::Delete);
        let lasting = Payload::from(Slot::Inline(b"v"));
        assert_eq!(lasting.seen_at(|| unreachable!("nothing expires")), Slot::Inline(b"v"));
    }
}
