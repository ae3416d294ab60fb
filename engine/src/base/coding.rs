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

    /// Reads a varint of any length. Those of offsets have four bytes or so, and a value pointer is
    /// decoded some five times for each entry that a compaction writes.
    #[inline]
    fn long_varint(&mut self) -> Result<u64> {
        let found = first_bytes(self.rest).and_then(varint_in);
        match found.and_then(|(value, len)| Some((value, self.rest.get(len..)?))) {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            None => self.any_varint(),
        }
    }

    /// Reads a varint byte by byte, and tells what is wrong with one that is none.
    #[cold]
    fn any_varint(&mut self) -> Result<u64> {
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
    #[inline]
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

/// Returns the first eight bytes as a little-endian number, with zeroes for those that are missing;
/// `None` if there are fewer than four.
#[inline]
fn first_bytes(bytes: &[u8]) -> Option<u64> {
    if let Some(all) = bytes.first_chunk() {
        return Some(u64::from_le_bytes(*all));
    }
    let (low, high) = (bytes.first_chunk()?, bytes.last_chunk()?);
    // Bytes that are in both are the same.
    let high = u64::from(u32::from_le_bytes(*high)) << (8 * (bytes.len() - 4));
    Some(u64::from(u32::from_le_bytes(*low)) | high)
}

/// Returns the varint that begins with the lowest byte of `bytes`, and the number of its bytes;
/// `None` if it has more than eight, or more than it needs.
#[inline]
fn varint_in(bytes: u64) -> Option<(u64, usize)> {
    let ends = !bytes & 0x8080_8080_8080_8080;
    let len = ends.trailing_zeros() as usize / 8 + 1;
    // There are no ends at all, or the last byte says nothing.
    if len > 8 || len > 1 && (bytes >> (8 * (len - 1))) as u8 == 0 {
        return None;
    }
    let kept = bytes & (u64::MAX >> (64 - 8 * len)) & 0x7f7f_7f7f_7f7f_7f7f;
    // Groups of 7 bits are pushed together by twos, then those of 14, then those of 28.
    let twos = (kept & 0x007f_007f_007f_007f) | (kept & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (twos & 0x0000_3fff_0000_3fff) | (twos & 0x3fff_0000_3fff_0000) >> 2;
    Some(((fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4, len))
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

    /// Whatever follows a varint, and however much, it is read the same, and so is none.
    #[test]
    fn a_varint_is_read_the_same_wherever_it_stands() {
        let random = |seed: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        for seed in 0..50_000 {
            let mut bytes = random(seed).to_le_bytes().to_vec();
            bytes.extend(random(seed + 7).to_le_bytes());
            // Most bytes of numbers this long go on.
            let goes_on = random(seed + 13) as usize % 12;
            bytes.iter_mut().take(goes_on).for_each(|byte| *byte |= 0x80);
            for len in 0..bytes.len() {
                let (mut fast, mut slow) = (Reader::new(&bytes[..len]), Reader::new(&bytes[..len]));
                let (found, expected) = (fast.varint(), slow.any_varint());
                assert_eq!(found.ok(), expected.ok(), "{:?}", &bytes[..len]);
                assert_eq!(fast.rest.len(), slow.rest.len());
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
