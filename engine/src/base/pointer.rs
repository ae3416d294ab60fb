//! Ids of files and the value pointer, the small stand-in that the tree stores for a separated
//! value (WiscKey, section 3.2).

use super::coding::{Reader, put_varint, varint_len};
use super::error::Result;
use std::fmt;

macro_rules! file_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

file_id! {
    /// Names a segment file; never used twice in a database.
    SegmentId
}
file_id! {
    /// Names a sorted table file; never used twice in a database.
    TableId
}
file_id! {
    /// Names a relocation file; never used twice in a database. 0 stands for none.
    RelocationId
}
file_id! {
    /// Names a keyspace; never used twice in a database.
    KeyspaceId
}

/// Where a separated value's record is: `length` bytes at `offset` of segment `segment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValuePointer {
    /// The segment that holds the record.
    pub segment: SegmentId,
    /// Byte offset of the record in the segment file.
    pub offset: u64,
    /// Length of the whole record, header and key included, in bytes.
    pub length: u32,
}

impl ValuePointer {
    /// Appends the pointer as three varints.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.segment.0);
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.length));
    }

    /// How many bytes [`ValuePointer::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        varint_len(self.segment.0) + varint_len(self.offset) + varint_len(u64::from(self.length))
    }

    /// Reads what [`ValuePointer::encode`] wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(ValuePointer {
            segment: SegmentId(reader.varint()?),
            offset: reader.varint()?,
            length: reader.varint32()?,
        })
    }
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
}
