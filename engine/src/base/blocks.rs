//! What tables and relocations have in common: their blocks are bound to their place by the seed of
//! the file, a fingerprint distinguishes files with the same numbers, and a footer ends the file.
//!
//! The last 16 bytes of a footer:
//!
//! ```text
//! bytes  what
//!     8  checksum64 of the footer's bytes before, seeded by (database, file, offset of the footer)
//!     8  magic of the kind of file
//! ```

use crate::base::checksum::{RunningHash, checksum64, seed};
use crate::base::coding::Reader;
use crate::base::error::{Error, Result};

/// The size of a block's checksum in bytes; it ends the block.
pub const CHECKSUM_BYTES: usize = 4;
/// The size of the checksum and the magic that end a footer, in bytes.
const FOOTER_END_BYTES: usize = 16;

/// The seed that binds the checksums of a file to it.
#[derive(Debug, Clone, Copy)]
pub struct FileSeed(u64);

impl FileSeed {
    /// Makes the seed of file `id` of a database.
    pub fn new(database: u64, id: u64) -> Self {
        FileSeed(seed(database, id))
    }

    /// Returns the seed for the checksum of what lies at `offset` in the file.
    pub fn at(self, offset: u64) -> u64 {
        seed(self.0, offset)
    }
}

/// The fingerprint of a file: XXH3-64 over the checksums of its blocks in file order.
#[derive(Default)]
pub struct BlockFingerprint(RunningHash);

impl BlockFingerprint {
    /// Adds the next sealed block, which ends `bytes`; earlier blocks may precede it. A block too
    /// short to have a checksum does not unseal either.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(&bytes[bytes.len().saturating_sub(CHECKSUM_BYTES)..]);
    }

    /// Returns the fingerprint of all blocks added.
    pub fn value(&self) -> u64 {
        self.0.hash()
    }
}

/// Ends the footer that starts at `start` in `out`. `seed` is that of the footer's place.
pub fn seal_footer(out: &mut Vec<u8>, start: usize, seed: u64, magic: [u8; 8]) {
    let sum = checksum64(seed, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&magic);
}

/// Returns the contents of a footer that [`seal_footer`] ended, which must be exactly
/// `footer_bytes` long. `kind`, such as `the table`, is the subject of the error. I7: the checksum
/// is verified before anybody gets the contents.
pub fn unseal_footer<'a>(
    bytes: &'a [u8],
    footer_bytes: usize,
    seed: u64,
    magic: [u8; 8],
    kind: &str,
) -> Result<&'a [u8]> {
    let mut reader = Reader::new(bytes);
    let covered = reader.take(footer_bytes.saturating_sub(FOOTER_END_BYTES))?;
    let sum = reader.u64()?;
    if reader.take(magic.len())? != magic {
        let what = format!("{kind} has no footer: it was not written to its end");
        return Err(Error::corruption(what));
    }
    reader.finish("the footer")?;
    if checksum64(seed, covered) != sum {
        return Err(Error::corruption("the footer's checksum does not match"));
    }
    Ok(covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 8] = *b"CLVTESTS";

    fn opened(bytes: &[u8], offset: u64) -> Result<&[u8]> {
        unseal_footer(bytes, 20, FileSeed::new(7, 1).at(offset), MAGIC, "the file")
    }

    #[test]
    fn i07_a_footer_opens_only_whole_and_in_its_place() {
        let mut footer = b"data".to_vec();
        seal_footer(&mut footer, 0, FileSeed::new(7, 1).at(100), MAGIC);
        assert_eq!(opened(&footer, 100).unwrap(), b"data");
        assert!(opened(&footer, 101).is_err());
        assert!(opened(&footer[..19], 100).is_err());
        assert!(opened(&[&footer[..], b"x"].concat(), 100).is_err());
        for at in 0..footer.len() {
            footer[at] ^= 1;
            assert!(opened(&footer, 100).is_err(), "byte {at}");
            footer[at] ^= 1;
        }
    }
}
