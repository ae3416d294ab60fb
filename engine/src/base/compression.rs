//! Codecs for blocks and single values: none, LZ4, and Zstandard behind the `zstd` feature. Bytes
//! are stored compressed only if that saves enough space.

use super::error::{Error, Result};
use super::memory::zeroed;
use crate::costly_check;

/// A compression codec. The numbers are persistent.
///
/// ```
/// use cleavedb::{Codec, KeyspaceOptions};
/// let best = if Codec::Zstd.is_available() { Codec::Zstd } else { Codec::Lz4 };
/// let options = KeyspaceOptions { value_codec: best, ..KeyspaceOptions::default() };
/// options.validate()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
#[repr(u8)]
pub enum Codec {
    /// No compression.
    None = 0,
    /// The LZ4 block format: fast, and the default for blocks.
    #[default]
    Lz4 = 1,
    /// Zstandard level 1: smaller than LZ4 and slower to write. It needs the `zstd` feature.
    Zstd = 2,
}

impl Codec {
    /// Returns the codec with this persistent number.
    pub(crate) fn from_number(number: u8) -> Result<Codec> {
        match number {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Lz4),
            2 => Ok(Codec::Zstd),
            _ => Err(Error::unsupported(format!(
                "codec {number} is unknown to this build, which knows 0 to 2"
            ))),
        }
    }

    /// Returns true if this build can read and write this codec.
    pub fn is_available(self) -> bool {
        self != Codec::Zstd || cfg!(feature = "zstd")
    }
}

/// Returns true if compression saves more than an eighth. A smaller saving is not worth the cost of
/// decompressing at every read.
fn pays(raw: usize, compressed: usize) -> bool {
    compressed < raw - raw / 8
}

/// Compresses `raw`. Returns the codec and the compressed bytes, or `None` if the raw bytes are to
/// be stored because compression saves too little or is switched off.
pub fn compress(codec: Codec, raw: &[u8]) -> Option<(Codec, Vec<u8>)> {
    let compressed = match codec {
        Codec::None => return None,
        Codec::Lz4 => lz4_flex::block::compress(raw),
        #[cfg(feature = "zstd")]
        Codec::Zstd => zstd::bulk::compress(raw, 1).ok()?,
        #[cfg(not(feature = "zstd"))]
        Codec::Zstd => return None,
    };
    if !pays(raw.len(), compressed.len()) {
        return None;
    }
    costly_check!(
        "I3",
        decompress(codec, &compressed, raw.len()).is_ok_and(|found| found == raw),
        "{codec:?} does not give back the {} bytes that it compressed",
        raw.len()
    );
    Some((codec, compressed))
}

/// Decides which blocks of a file are compressed: after some in a row for which it did not pay,
/// only one in so many is tried, until one pays again. What can't be compressed, such as pictures
/// or what is compressed already, then costs a sixteenth of the time, and at most fifteen blocks
/// behind it are stored as they are although compressing them would pay. Of blocks of both kinds in
/// turn, all are tried.
#[derive(Debug, Default)]
pub struct CompressionTrials {
    /// The number of blocks since the last one for which it paid.
    in_vain: u32,
}

/// The number of blocks in a row after which, and of which, only one is tried.
const TRIAL_BLOCKS: u32 = 16;

impl CompressionTrials {
    /// Returns the codec for the next block, where `wanted` is the one that is asked for.
    pub fn codec(&self, wanted: Codec) -> Codec {
        let is_tried = self.in_vain < TRIAL_BLOCKS || self.in_vain.is_multiple_of(TRIAL_BLOCKS);
        if is_tried { wanted } else { Codec::None }
    }

    /// Notes the codec that the block got.
    pub fn note(&mut self, used: Codec) {
        self.in_vain = if used == Codec::None { self.in_vain.wrapping_add(1) } else { 0 };
    }
}

/// The largest number of bytes that one byte of LZ4 can decompress to.
const LZ4_MOST: usize = 255;

/// Decompresses `stored` bytes, whose checksum has been verified, into exactly `raw_len` bytes. The
/// caller has bounded `raw_len` (I7); no memory is allocated for a length that `stored` cannot
/// decompress to.
pub fn decompress(codec: Codec, stored: &[u8], raw_len: usize) -> Result<Vec<u8>> {
    let wrong = |why: String| Error::corruption(format!("cannot decompress: {why}"));
    let raw = match codec {
        Codec::None => stored.to_vec(),
        Codec::Lz4 => {
            if raw_len > stored.len().saturating_mul(LZ4_MOST) {
                let found = stored.len();
                return Err(wrong(format!("{found} bytes of lz4 can't become {raw_len}")));
            }
            let mut raw = zeroed(raw_len as u64)?;
            let written = lz4_flex::block::decompress_into(stored, &mut raw)
                .map_err(|error| wrong(error.to_string()))?;
            raw.truncate(written);
            raw
        }
        #[cfg(feature = "zstd")]
        Codec::Zstd => {
            // Each frame that the engine writes states the length of its content.
            let said = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
            if said != Some(raw_len as u64) {
                return Err(wrong(format!("{said:?} bytes are said to be in {raw_len}")));
            }
            let mut raw = zeroed(raw_len as u64)?;
            let written = zstd::bulk::decompress_to_buffer(stored, &mut raw)
                .map_err(|error| wrong(error.to_string()))?;
            raw.truncate(written);
            raw
        }
        #[cfg(not(feature = "zstd"))]
        Codec::Zstd => {
            return Err(Error::unsupported("these bytes are compressed with zstd")
                .advise("build with the `zstd` feature"));
        }
    };
    if raw.len() != raw_len {
        return Err(wrong(format!("{} bytes came out where {raw_len} were promised", raw.len())));
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::super::error::ErrorKind;
    use super::*;

    #[test]
    fn compresses_only_where_it_pays() {
        let text = b"abcdefgh".repeat(100);
        let (codec, small) = compress(Codec::Lz4, &text).unwrap();
        assert!(small.len() < text.len() / 2);
        assert_eq!(decompress(codec, &small, text.len()).unwrap(), text);
        let noise: Vec<u8> =
            (0..512u64).flat_map(|i| super::super::checksum::seed(i, 1).to_le_bytes()).collect();
        assert!(compress(Codec::Lz4, &noise).is_none());
        assert!(compress(Codec::None, &text).is_none());
        assert!(compress(Codec::Lz4, b"").is_none());
    }

    #[test]
    fn blocks_are_tried_seldom_where_none_compresses() {
        let mut trials = CompressionTrials::default();
        let mut tried = |paid: fn(u32) -> bool| {
            let mut count = 0;
            for block in 0..160 {
                let is_tried = trials.codec(Codec::Lz4) == Codec::Lz4;
                count += u32::from(is_tried);
                trials.note(if is_tried && paid(block) { Codec::Lz4 } else { Codec::None });
            }
            count
        };
        assert_eq!(tried(|block| block % 16 == 0), 160, "some compress");
        assert_eq!(tried(|_| false), 1 + 10, "none does");
        assert_eq!(tried(|block| block >= 16), 2 + 142, "the second trial pays");
    }

    #[test]
    fn a_wrong_length_is_corruption() {
        let text = b"abcdefgh".repeat(100);
        let (codec, small) = compress(Codec::Lz4, &text).unwrap();
        for wrong in [0, 1, text.len() - 1, text.len() + 1] {
            assert!(decompress(codec, &small, wrong).is_err(), "{wrong}");
        }
        assert!(Codec::from_number(9).is_err());
    }

    #[test]
    fn i7_a_length_that_cannot_come_out_takes_no_memory() {
        // This is the longest run that LZ4 can encode, so the compression ratio is as high as
        // possible.
        let zeroes = vec![0; 1 << 20];
        let (codec, small) = compress(Codec::Lz4, &zeroes).unwrap();
        assert!(small.len() * (LZ4_MOST + 1) > zeroes.len());
        assert_eq!(decompress(codec, &small, zeroes.len()).unwrap(), zeroes);
        // A process cannot have this much memory: allocating it would abort the test.
        let error = decompress(codec, &small, isize::MAX as usize).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("lz4 can't become"), "{error}");
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn i7_a_length_that_zstd_does_not_say_takes_no_memory() {
        let (codec, small) = compress(Codec::Zstd, &vec![0; 1 << 20]).unwrap();
        assert_eq!(decompress(codec, &small, 1 << 20).unwrap().len(), 1 << 20);
        let error = decompress(codec, &small, isize::MAX as usize).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}
