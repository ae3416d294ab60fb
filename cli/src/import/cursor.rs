//! Reads numbers and strings out of foreign bytes, each within their bounds. Nothing here trusts a
//! length: what does not fit is `None`, and the caller says where that was.

/// A place in some bytes, from which values are taken.
#[derive(Debug, Clone)]
pub(crate) struct ByteCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteCursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        ByteCursor { bytes, at: 0 }
    }

    /// Returns how many bytes were taken.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Takes the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Takes a little-endian number of four bytes.
    pub(crate) fn fixed32(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)))
    }

    /// Takes a little-endian number of eight bytes.
    pub(crate) fn fixed64(&mut self) -> Option<u64> {
        self.take(8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
    }

    /// Takes a LEB128 number of up to 64 bits.
    pub(crate) fn varint64(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Takes a LEB128 number of up to 32 bits.
    pub(crate) fn varint32(&mut self) -> Option<u32> {
        self.varint64().and_then(|number| u32::try_from(number).ok())
    }

    /// Takes a length and as many bytes.
    pub(crate) fn prefixed(&mut self) -> Option<&'a [u8]> {
        let length = self.varint32()?;
        self.take(length as usize)
    }
}

/// Appends a LEB128 number.
pub(crate) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a length and the bytes.
pub(crate) fn put_prefixed(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_their_bytes_do() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(number, &mut bytes);
            let mut cursor = ByteCursor::new(&bytes);
            assert_eq!(cursor.varint64(), Some(number));
            assert!(cursor.is_empty());
            assert_eq!(ByteCursor::new(&bytes).varint32(), u32::try_from(number).ok());
            assert_eq!(ByteCursor::new(&bytes[..bytes.len() - 1]).varint64(), None);
        }
        assert_eq!(ByteCursor::new(&[0xff; 11]).varint64(), None, "more than 64 bits");
        assert_eq!(ByteCursor::new(&[1, 2, 3]).fixed32(), None);
        assert_eq!(ByteCursor::new(&[5, 1, 2]).prefixed(), None, "longer than the bytes");
        assert_eq!(ByteCursor::new(&[1]).take(usize::MAX), None);
    }
}
