//! Ids of files and keyspaces, and the value pointer that the tree stores in place of a separated
//! value (WiscKey, section 3.2).

use super::coding::{Reader, put_varint, varint_len};
use super::error::{Error, Result};
use std::fmt;

/// The highest id of a file or keyspace. A file whose name has a higher number is foreign, and a
/// higher id inside a file is corruption. The bound makes sure that an id can always be
/// incremented.
pub const MAX_ID: u64 = (1 << 56) - 1;

/// Reads an id as a varint. I7: an id above [`MAX_ID`] is refused here, before anything is added to
/// it.
#[inline]
pub fn read_id(reader: &mut Reader<'_>) -> Result<u64> {
    let id = reader.varint()?;
    if id <= MAX_ID {
        return Ok(id);
    }
    Err(Error::corruption(format!("an id of {id} is over its bound of {MAX_ID}")))
}

macro_rules! file_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Reads the id as a varint, and refuses an id above [`MAX_ID`].
            #[inline]
            pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
                read_id(reader).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

file_id! {
    /// The id of a segment file. It is never used twice in a database.
    SegmentId
}
file_id! {
    /// The id of a table file. It is never used twice in a database.
    TableId
}
file_id! {
    /// The id of a relocation file. It is never used twice in a database; 0 stands for none.
    RelocationId
}
file_id! {
    /// The id of a keyspace. It is never used twice in a database.
    KeyspaceId
}

/// A value pointer: the record of a separated value is the `length` bytes at `offset` of `segment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValuePointer {
    /// The segment that holds the record.
    pub segment: SegmentId,
    /// The byte offset of the record in the segment file.
    pub offset: u64,
    /// The length of the whole record, header and key included, in bytes.
    pub length: u32,
}

impl ValuePointer {
    /// The length of the shortest record in bytes: checksum, kind, keyspace, sequence number and
    /// two lengths.
    pub const MIN_LENGTH: u32 = 9;

    /// Appends the pointer as three varints.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        put_varint(out, self.segment.0);
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.length));
        debug_assert_eq!(out.len() - start, self.encoded_len(), "room is made for all of it");
    }

    /// Returns the number of bytes that [`ValuePointer::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        varint_len(self.segment.0) + varint_len(self.offset) + varint_len(u64::from(self.length))
    }

    /// Reads a pointer that [`ValuePointer::encode`] wrote. I7: a pointer shorter than any record
    /// is refused here, because sums over pointers rely on the minimum.
    #[inline]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let pointer = ValuePointer {
            segment: SegmentId::decode(reader)?,
            offset: reader.varint()?,
            length: reader.varint32()?,
        };
        if pointer.length < Self::MIN_LENGTH {
            let length = pointer.length;
            let what = format!("a value pointer has a length of {length}, less than any record");
            return Err(Error::corruption(what));
        }
        if !is_in_a_file(pointer.offset, pointer.length) {
            let offset = pointer.offset;
            let what = format!("a value pointer has an offset of {offset}, behind any file");
            return Err(Error::corruption(what));
        }
        Ok(pointer)
    }
}

/// Returns true if a file can have a record there: none is longer than `i64::MAX` bytes. I7: sums
/// over places rely on it.
pub fn is_in_a_file(offset: u64, length: u32) -> bool {
    offset <= i64::MAX as u64 - u64::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_round_trip() {
        let pointer = ValuePointer { segment: SegmentId(300), offset: 1 << 40, length: u32::MAX };
        let mut out = Vec::new();
        pointer.encode(&mut out);
        assert_eq!(out.len(), pointer.encoded_len());
        assert_eq!(ValuePointer::decode(&mut Reader::new(&out)).unwrap(), pointer);
    }

    #[test]
    fn i07_a_pointer_shorter_than_a_record_is_refused() {
        for (length, is_fine) in [(0, false), (8, false), (9, true)] {
            let mut out = Vec::new();
            ValuePointer { segment: SegmentId(1), offset: 64, length }.encode(&mut out);
            assert_eq!(ValuePointer::decode(&mut Reader::new(&out)).is_ok(), is_fine, "{length}");
        }
    }

    #[test]
    fn i07_a_pointer_behind_any_file_is_refused() {
        let last = i64::MAX as u64 - 100;
        for (offset, is_fine) in [(last, true), (last + 1, false), (u64::MAX, false)] {
            let mut out = Vec::new();
            ValuePointer { segment: SegmentId(1), offset, length: 100 }.encode(&mut out);
            assert_eq!(ValuePointer::decode(&mut Reader::new(&out)).is_ok(), is_fine, "{offset}");
        }
    }
}
