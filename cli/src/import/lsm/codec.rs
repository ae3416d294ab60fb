//! Blocks as they are stored, with their trailers, become what they were before compression.

use super::footer::TableFooter;
use crate::import::cursor::ByteCursor;
use cleavedb::{Error, Result};
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// The largest block that is unpacked: a value may have up to 1 GiB.
pub(super) const MAX_BLOCK_BYTES: usize = (1 << 30) + (64 << 20);
/// The most bytes that one compressed byte stands for, rounded up; a claim of more is damage.
const SNAPPY_RATIO: usize = 32;
const LZ4_RATIO: usize = 256;

/// The ways in which blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockCodec {
    None,
    Snappy,
    /// The length stands before the bytes.
    Lz4,
    Zstd {
        has_length: bool,
    },
}

/// Verifies a block with its trailer, which lies at `offset`, and returns what it holds.
pub(crate) fn unpack(footer: &TableFooter, stored: &[u8], offset: u64) -> Result<Vec<u8>> {
    let (bytes, sum) =
        stored.split_last_chunk::<4>().ok_or_else(|| Error::corruption("a block is too short"))?;
    let (&kind, bytes) =
        bytes.split_last().ok_or_else(|| Error::corruption("a block is too short"))?;
    if !footer.is_sum(u32::from_le_bytes(*sum), bytes, kind, offset) {
        return Err(Error::corruption("the checksum of a block does not match"));
    }
    decompress(codec(footer.version, kind)?, bytes)
}

fn codec(version: u32, kind: u8) -> Result<BlockCodec> {
    let name = match (version, kind) {
        (_, 0) => return Ok(BlockCodec::None),
        (_, 1) => return Ok(BlockCodec::Snappy),
        (0, 2) => return Ok(BlockCodec::Zstd { has_length: false }),
        (2.., 4 | 5) => return Ok(BlockCodec::Lz4),
        (2.., 7) => return Ok(BlockCodec::Zstd { has_length: true }),
        (1.., 2) => "zlib".to_string(),
        (1.., 3) => "bzip2".to_string(),
        _ => format!("a codec of the number {kind}"),
    };
    Err(Error::unsupported(format!("a block is compressed with {name}")))
}

/// Unpacks bytes without a trailer.
#[cfg(any(test, fuzzing))]
pub(super) fn decompressed(version: u32, kind: u8, bytes: &[u8]) -> Result<Vec<u8>> {
    decompress(codec(version, kind)?, bytes)
}

fn decompress(codec: BlockCodec, bytes: &[u8]) -> Result<Vec<u8>> {
    let damaged = || Error::corruption("a compressed block cannot be unpacked");
    match codec {
        BlockCodec::None => Ok(bytes.to_vec()),
        BlockCodec::Snappy => {
            let length = snap::raw::decompress_len(bytes).map_err(|_| damaged())?;
            check_length(length, bytes.len().saturating_mul(SNAPPY_RATIO))?;
            let mut out = vec![0; length];
            let written = snap::raw::Decoder::new().decompress(bytes, &mut out);
            written.map_err(|_| damaged()).map(|_| out)
        }
        BlockCodec::Lz4 => {
            let (length, bytes) = split_length(bytes).ok_or_else(damaged)?;
            check_length(length, bytes.len().saturating_mul(LZ4_RATIO))?;
            let mut out = vec![0; length];
            match lz4_flex::block::decompress_into(bytes, &mut out) {
                Ok(written) if written == length => Ok(out),
                _ => Err(damaged()),
            }
        }
        BlockCodec::Zstd { has_length } => {
            let (length, bytes) = match has_length {
                true => split_length(bytes).ok_or_else(damaged)?,
                false => (MAX_BLOCK_BYTES, bytes),
            };
            check_length(length, usize::MAX)?;
            let mut out = Vec::new();
            let decoder = StreamingDecoder::new(bytes).map_err(|_| damaged())?;
            decoder.take(length as u64 + 1).read_to_end(&mut out).map_err(|_| damaged())?;
            let is_whole = if has_length { out.len() == length } else { out.len() <= length };
            if is_whole { Ok(out) } else { Err(damaged()) }
        }
    }
}

/// Takes the length before compressed bytes.
fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut cursor = ByteCursor::new(bytes);
    let length = cursor.varint32()? as usize;
    Some((length, &bytes[cursor.at()..]))
}

fn check_length(length: usize, plausible: usize) -> Result<()> {
    if length <= MAX_BLOCK_BYTES.min(plausible) {
        return Ok(());
    }
    Err(Error::corruption(format!("a compressed block claims to hold {length} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn each_codec_gives_back_what_was_compressed() {
        let text = b"the same words, the same words, the same words again ".repeat(40);
        let with_length = |packed: Vec<u8>| {
            let mut out = Vec::new();
            crate::import::cursor::put_varint(text.len() as u64, &mut out);
            out.extend(packed);
            out
        };
        let zstd = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
        let snappy = snap::raw::Encoder::new().compress_vec(&text).unwrap();
        let lz4 = lz4_flex::block::compress(&text);
        // LevelDB's second codec is zstd, which RocksDB has at 7 and with the length before it.
        let cases = [
            (0, 0, text.clone()),
            (0, 1, snappy.clone()),
            (0, 2, zstd.clone()),
            (5, 1, snappy),
            (5, 4, with_length(lz4.clone())),
            (2, 5, with_length(lz4.clone())),
            (6, 7, with_length(zstd.clone())),
        ];
        for (version, kind, packed) in cases {
            assert_eq!(decompressed(version, kind, &packed).unwrap(), text, "{version} {kind}");
        }
        for (version, kind) in [(0, 3), (0, 7), (1, 4), (5, 2), (5, 3), (5, 0x80)] {
            let error = decompressed(version, kind, &text).unwrap_err().to_string();
            assert!(error.contains("compressed with"), "{error}");
        }
        let mut short = with_length(zstd);
        short[0] ^= 1;
        assert!(decompressed(6, 7, &short).is_err(), "the length is another one");
        let claims = [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &lz4[..]].concat();
        let error = decompressed(6, 4, &claims).unwrap_err().to_string();
        assert!(error.contains("claims to hold"), "{error}");
    }
}
