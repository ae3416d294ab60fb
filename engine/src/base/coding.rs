//! Encoding of integers and byte strings: fixed little-endian integers, LEB128 varints, and a
//! reader that cannot run past the end of its input (I7: every length is bounded before it is
//! used).

use super::error::{Error, Result};

/// The length in bytes of the longest varint of a `u64`.
pub const MAX_VARINT_BYTES: usize = 10;

/// Appends `value` to `out` as a varint: seven bits per byte, the lowest bits first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the number of bytes that [`put_varint`] appends for `value`.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends the length of `bytes` as a varint, then `bytes`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads fields from the front of a byte slice. Every read is bounded by the bytes that are left.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

fn short(what: &str) -> Error {
    Error::corruption(format!("{what} runs past the end of its container"))
}

impl<'a> Reader<'a> {
    /// Makes a reader over `bytes`, whose checksum the caller has verified (I7).
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Returns the bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true if all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(len).ok_or_else(|| short("a byte string"))?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk().ok_or_else(|| short("an integer"))?;
        self.rest = tail;
        Ok(*head)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a fixed little-endian 16-bit integer.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads a fixed little-endian 32-bit integer.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a fixed little-endian 64-bit integer.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a varint. A varint that does not fit 64 bits or is longer than needed is corruption:
    /// each number has exactly one encoding.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        // Most varints have one or two bytes.
        match *self.rest {
            [a, ref rest @ ..] if a < 0x80 => {
                self.rest = rest;
                Ok(u64::from(a))
            }
            [a, b, ref rest @ ..] if (1..0x80).contains(&b) => {
                self.rest = rest;
                Ok(u64::from(a & 0x7f) | u64::from(b) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(MAX_VARINT_BYTES).enumerate() {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index as u32;
            if shift == 63 && bits > 1 {
                return Err(Error::corruption("a varint does not fit 64 bits"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                if byte == 0 && index > 0 {
                    return Err(Error::corruption("a varint is longer than it needs to be"));
                }
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(short("a varint"))
    }

    /// Reads a varint that must fit 32 bits.
    pub fn varint32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?)
            .map_err(|_| Error::corruption("a varint does not fit the 32 bits of its field"))
    }

    /// Reads a length or count: a varint that must be at most `max`.
    pub fn length(&mut self, max: usize) -> Result<usize> {
        let value = self.varint()?;
        usize::try_from(value).ok().filter(|&len| len <= max).ok_or_else(|| {
            Error::corruption(format!("a length of {value} is over its bound of {max}"))
        })
    }

    /// Reads a byte string and the length in front of it, as [`put_bytes`] writes them.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.length(self.rest.len())?;
        self.take(len)
    }

    /// Returns a corruption error if bytes are left over. `what` names the container in the
    /// message.
    pub fn finish(self, what: &str) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::corruption(format!("{what} has {} bytes too many", self.rest.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                let mut reader = Reader::new(&out);
                assert_eq!(reader.varint().unwrap(), value);
                reader.finish("varint").unwrap();
            }
        }
    }

    #[test]
    fn hostile_varints_are_errors() {
        for bytes in [&[0x80u8; 11][..], &[0xff; 10], &[0x80, 0x00], &[], &[0x80]] {
            assert!(Reader::new(bytes).varint().is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_lying_length_is_an_error() {
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(Reader::new(&out).bytes().unwrap(), b"abc");
        assert!(Reader::new(&out[..3]).bytes().is_err());
        assert!(Reader::new(&out).length(2).is_err());
    }
}
