//! The log format of LevelDB and RocksDB, which their manifests and write-ahead logs have in
//! common: blocks of 32 KiB, in which records lie whole or in fragments.
//!
//! ```text
//! fragment    masked CRC-32C of all behind it, 4 | length, 2 | type, 1 | [log number, 4] | bytes
//! types       1 whole, 2 first, 3 middle, 4 last; 5 to 8 the same with a log number, for files
//!             that are written again (RocksDB); 0 is space that was allocated ahead
//! ```
//!
//! A record that the end of the file cuts short was being written when the program ended. It is no
//! damage, and the stores leave it out as well.

use crate::import::crc32c::{crc32c, masked};
use cleavedb::{Error, Result};
use std::borrow::Cow;

pub(crate) const BLOCK_BYTES: usize = 32 << 10;
pub(crate) const HEADER_BYTES: usize = 7;
const RECYCLED_HEADER_BYTES: usize = 11;

/// A fragment, and whether it begins and ends a record.
struct Fragment<'a> {
    begins: bool,
    ends: bool,
    bytes: &'a [u8],
}

/// Walks over the records of a log.
pub(crate) struct LogWalk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number in the file's name. Records of another one are what an earlier file left.
    number: u64,
}

impl<'a> LogWalk<'a> {
    pub(crate) fn new(bytes: &'a [u8], number: u64) -> Self {
        LogWalk { bytes, at: 0, number }
    }

    /// Returns the next record and its offset, or `None` at the end of the log.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Cow<'a, [u8]>)>> {
        let mut offset = self.at as u64;
        let mut whole: Option<Vec<u8>> = None;
        loop {
            let fragment_at = self.at as u64;
            let Some(fragment) = self.fragment()? else { return Ok(None) };
            if fragment.begins != whole.is_none() {
                return Err(Error::corruption("a record of the log begins within another one")
                    .at(fragment_at));
            }
            if fragment.begins {
                offset = fragment_at;
                if fragment.ends {
                    return Ok(Some((offset, Cow::Borrowed(fragment.bytes))));
                }
            }
            let parts = whole.get_or_insert_default();
            parts.extend_from_slice(fragment.bytes);
            if fragment.ends {
                return Ok(Some((offset, Cow::Owned(whole.unwrap_or_default()))));
            }
        }
    }

    fn fragment(&mut self) -> Result<Option<Fragment<'a>>> {
        loop {
            let left = BLOCK_BYTES - self.at % BLOCK_BYTES;
            if left < HEADER_BYTES {
                self.at = (self.at + left).min(self.bytes.len());
                continue;
            }
            let Some(header) = self.bytes.get(self.at..self.at + HEADER_BYTES) else {
                return Ok(None);
            };
            let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
            let kind = header[6];
            if kind == 0 && length == 0 {
                // What follows in this block was allocated and never written.
                self.at = (self.at + left).min(self.bytes.len());
                if self.at == self.bytes.len() {
                    return Ok(None);
                }
                continue;
            }
            match self.body(header, kind, length, left)? {
                Body::Fragment(fragment) => return Ok(Some(fragment)),
                Body::Nothing => {}
                Body::End => return Ok(None),
            }
        }
    }

    fn body(&mut self, header: &[u8], kind: u8, length: usize, left: usize) -> Result<Body<'a>> {
        let damaged = |what: &str| Err(Error::corruption(what).at(self.at as u64));
        let is_recycled = matches!(kind, 5..=8);
        let header_bytes = if is_recycled { RECYCLED_HEADER_BYTES } else { HEADER_BYTES };
        let end = self.at + header_bytes + length;
        if header_bytes + length > left {
            return damaged("a record of the log leaves its block");
        }
        let Some(body) = self.bytes.get(self.at + header_bytes..end) else {
            return Ok(Body::End);
        };
        let summed = &self.bytes[self.at + 6..end];
        if is_recycled {
            // What an earlier file left has a good checksum, or one over bytes that are half new.
            let number = &self.bytes[self.at + HEADER_BYTES..self.at + RECYCLED_HEADER_BYTES];
            if number != &self.number.to_le_bytes()[..4] {
                return Ok(Body::End);
            }
        }
        let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        if !cfg!(fuzzing) && stored != masked(crc32c(&[summed])) {
            return damaged("the checksum of a record of the log does not match");
        }
        if kind == 9 {
            return Err(Error::unsupported("the log is compressed").at(self.at as u64));
        }
        if matches!(kind, 10 | 11) {
            return Err(
                Error::unsupported("the log has user-defined timestamps").at(self.at as u64)
            );
        }
        if kind == 0 || kind > 8 && kind < 128 {
            return damaged("a record of the log has an unknown type");
        }
        self.at = end;
        if kind >= 128 {
            // Types from 128 on may be left out by those who do not know them.
            return Ok(Body::Nothing);
        }
        let kind = if is_recycled { kind - 4 } else { kind };
        let (begins, ends) = (matches!(kind, 1 | 2), matches!(kind, 1 | 4));
        Ok(Body::Fragment(Fragment { begins, ends, bytes: body }))
    }
}

/// What a header leads to.
enum Body<'a> {
    Fragment(Fragment<'a>),
    Nothing,
    End,
}

/// Appends records to a log in memory.
#[derive(Default)]
pub(crate) struct LogBytes(Vec<u8>);

impl LogBytes {
    pub(crate) fn push(&mut self, record: &[u8]) {
        let mut rest = record;
        let mut begins = true;
        loop {
            let left = BLOCK_BYTES - self.0.len() % BLOCK_BYTES;
            if left < HEADER_BYTES {
                self.0.resize(self.0.len() + left, 0);
                continue;
            }
            let (part, behind) = rest.split_at(rest.len().min(left - HEADER_BYTES));
            let kind = match (begins, behind.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            self.0.extend_from_slice(&masked(crc32c(&[&[kind], part])).to_le_bytes());
            self.0.extend_from_slice(&(part.len() as u16).to_le_bytes());
            self.0.push(kind);
            self.0.extend_from_slice(part);
            if behind.is_empty() {
                return;
            }
            (rest, begins) = (behind, false);
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut walk = LogWalk::new(bytes, 7);
        let mut out = Vec::new();
        while let Some((_, record)) = walk.next()? {
            out.push(record.into_owned());
        }
        Ok(out)
    }

    fn sample() -> (Vec<Vec<u8>>, Vec<u8>) {
        // The third leaves six bytes of its block, which are too few for a header.
        let lengths = [0, 1, BLOCK_BYTES - 3 * HEADER_BYTES - 1 - 6, 3 * BLOCK_BYTES, 9];
        let records: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, &length)| vec![at as u8; length]).collect();
        let mut log = LogBytes::default();
        records.iter().for_each(|record| log.push(record));
        (records, log.into_bytes())
    }

    #[test]
    fn records_of_any_length_are_put_together() {
        let (expected, bytes) = sample();
        assert_eq!(records(&bytes).unwrap(), expected);
        let mut ahead = bytes.clone();
        ahead.resize(bytes.len() + 3 * BLOCK_BYTES, 0);
        assert_eq!(records(&ahead).unwrap(), expected, "zeroes that were allocated ahead");
    }

    #[test]
    fn a_log_that_was_cut_short_keeps_its_whole_records() {
        let (expected, bytes) = sample();
        for length in (0..bytes.len()).step_by(97).chain(bytes.len() - 30..bytes.len()) {
            let found = records(&bytes[..length]).unwrap();
            assert_eq!(found, expected[..found.len()], "{length}");
            assert!(found.len() < expected.len());
        }
    }

    #[test]
    fn damage_is_an_error_with_its_place() {
        let (_, bytes) = sample();
        for at in [7, 14, 20, 40_000, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let error = records(&damaged).unwrap_err();
            assert!(error.offset().unwrap() <= at as u64, "{error}");
        }
    }

    #[test]
    fn what_an_earlier_file_left_ends_a_log() {
        let recycled = |number: u32, bytes: &[u8]| {
            let number = number.to_le_bytes();
            let mut out = masked(crc32c(&[&[5], &number, bytes])).to_le_bytes().to_vec();
            out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            out.push(5);
            out.extend_from_slice(&number);
            out.extend_from_slice(bytes);
            out
        };
        let log = [recycled(7, b"new"), recycled(6, b"old")].concat();
        assert_eq!(records(&log).unwrap(), [b"new"]);
    }
}
