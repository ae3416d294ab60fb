//! The payload of an entry: an inline value, a value pointer, or nothing for a tombstone.

use super::coding::Reader;
use super::error::Result;
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

/// The payload of one entry, borrowed from the buffer that holds it.
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
    /// Returns the entry kind of this payload.
    pub fn kind(&self) -> EntryKind {
        match self {
            Slot::Delete => EntryKind::Delete,
            Slot::Inline(_) => EntryKind::Put,
            Slot::Pointer(_) => EntryKind::PutPointer,
        }
    }

    /// Appends the bytes that a table stores for this payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Slot::Delete => {}
            Slot::Inline(value) => out.extend_from_slice(value),
            Slot::Pointer(pointer) => pointer.encode(out),
        }
    }

    /// Decodes the bytes that a table stores for an entry of `kind`.
    pub fn decode(kind: EntryKind, stored: &'a [u8]) -> Result<Self> {
        match kind {
            EntryKind::Delete => {
                Reader::new(stored).finish("a tombstone")?;
                Ok(Slot::Delete)
            }
            EntryKind::Put => Ok(Slot::Inline(stored)),
            EntryKind::PutPointer => {
                let mut reader = Reader::new(stored);
                let pointer = ValuePointer::decode(&mut reader)?;
                reader.finish("a value pointer")?;
                Ok(Slot::Pointer(pointer))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pointer::SegmentId;
    use super::*;

    #[test]
    fn slots_round_trip() {
        let pointer = ValuePointer { segment: SegmentId(1), offset: 64, length: 90 };
        for slot in [Slot::Delete, Slot::Inline(b"v"), Slot::Inline(b""), Slot::Pointer(pointer)] {
            let mut out = Vec::new();
            slot.encode(&mut out);
            assert_eq!(Slot::decode(slot.kind(), &out).unwrap(), slot);
        }
        assert!(Slot::decode(EntryKind::Delete, b"x").is_err());
        assert!(Slot::decode(EntryKind::PutPointer, b"\x01\x02\x03\x04").is_err());
    }
}
