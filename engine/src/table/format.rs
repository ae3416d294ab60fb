//! The format of a table file.
//!
//! ```text
//! 40 bytes   header (base/header.rs), kind "TABL", file id = table id
//! …          data blocks, one behind the other, in key order
//! …          filter block; absent where the keyspace has none
//! …          index block
//! …          properties block
//! 64 bytes   footer
//! ```
//! These parts adjoin. Every block is followed by its trailer:
//!
//! ```text
//! offset  bytes  what
//!      0      n  the block, compressed or with up to 256 zero bytes behind it
//!      n      4  its length before compression
//!    n+4      1  codec (base/compression.rs)
//!    n+5      4  checksum32 of all before, seeded by (database, table, offset of the block)
//! ```
//! The footer:
//!
//! ```text
//! offset  bytes  what
//!      0     16  filter block: offset, length with trailer; both zero if absent
//!     16     16  index block: offset, length with trailer
//!     32     16  properties block: offset, length with trailer
//!     48      8  checksum64 of the 48 bytes before, seeded like a block's
//!     56      8  magic, "CLVTABLE"
//! ```
//! All integers are little-endian.
//!
//! Validity: the file is exactly as long as the manifest says; header and footer validate; filter,
//! index and properties lie back to back and end at the footer; the index's handles lie back to
//! back from the header to them; the properties agree with the manifest. A block is valid if its
//! checksum holds, its length is at most [`MAX_BLOCK_BYTES`] and decompression yields exactly that
//! length; of one that is not compressed, what is behind that length is no part of it. Because each
//! checksum is seeded by the place, a block or file that was swapped with another never validates.
//!
//! Pages: the page cache and the device read whole pages, so a block that lies in two of them costs
//! up to twice the reads and twice the memory. Data blocks of small entries that are not compressed
//! end with a page for that: the writer chooses their sizes so, and fills up what is left.
//!
//! Reader: length, header, footer; then filter, index and properties in one read, which stay in
//! memory; after that one read per data block. The contents of the blocks are described in
//! `block.rs` (data), `index.rs`, `filter.rs` and `properties.rs`.

use crate::base::blocks::{FileSeed, seal_footer, unseal_footer};
use crate::base::checksum::checksum32;
use crate::base::coding::{MAX_VARINT_BYTES, Reader, put_varint};
use crate::base::compression::{Codec, compress, decompress};
use crate::base::error::{Error, Result};
use crate::base::header::{FileKind, HEADER_BYTES};
use crate::base::key::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::base::pointer::TableId;
use crate::base::seal::{
    DatabaseIdentity, FileCipher, SALT_BYTES, Salt, TAG_BYTES, wrong_encryption,
};

/// The size of the trailer after every block, in bytes.
pub(super) const TRAILER_BYTES: usize = 9;
/// The size of a page of the page cache, in bytes.
pub(super) const PAGE_BYTES: u64 = 4096;
/// The most bytes that a block is filled up with to end with its page: a part in 16. Of values of
/// 100 bytes that is 1.4 % of the table; a thread that gets them from a store larger than memory
/// makes 1.13 times the gets, and eight 1.28 times (`bench/record/2026-11-26-pages.md`).
pub(super) const MOST_FILLED_BYTES: u64 = PAGE_BYTES / 16;
/// The size in bytes of the footer of a table that is not encrypted.
pub(super) const PLAIN_FOOTER_BYTES: usize = 64;
/// The most bytes of a payload: a value with the deadline before it.
pub(super) const MAX_PAYLOAD_BYTES: usize = MAX_VALUE_BYTES + MAX_VARINT_BYTES;
/// The size of the largest block before compression, in bytes: the largest entry plus room for
/// lengths and restarts.
pub(super) const MAX_BLOCK_BYTES: usize = MAX_VALUE_BYTES + MAX_KEY_BYTES + (2 << 20);
/// The file offset of the first data block.
pub(super) const DATA_START: u64 = HEADER_BYTES as u64;

const MAGIC: [u8; 8] = *b"CLVTABLE";
/// The magic of an encrypted table.
const SEALED_MAGIC: [u8; 8] = *b"CLVTSEAL";

/// What binds the blocks of a table to their places, and seals them if the database is encrypted.
#[derive(Clone, Debug)]
pub(super) struct BlockSeal {
    seed: FileSeed,
    sealed: Option<(Salt, FileCipher)>,
}

impl BlockSeal {
    /// Returns the seal of a table that is about to be written.
    pub(super) fn for_writing(database: &DatabaseIdentity, id: TableId) -> BlockSeal {
        Self::new(database, id, database.salt())
    }

    fn new(database: &DatabaseIdentity, id: TableId, salt: Option<Salt>) -> BlockSeal {
        let sealed =
            salt.and_then(|salt| Some((salt, database.cipher(FileKind::Table, id.0, &salt)?)));
        BlockSeal { seed: FileSeed::new(database.id, id.0), sealed }
    }

    /// Returns the size of the footer in bytes.
    pub(super) fn footer_bytes(&self) -> usize {
        footer_bytes(self.sealed.is_some())
    }
}

/// Returns the size in bytes of the footer of a table.
pub(super) fn footer_bytes(is_encrypted: bool) -> usize {
    PLAIN_FOOTER_BYTES + if is_encrypted { SALT_BYTES } else { 0 }
}

/// The place of a block in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHandle {
    pub(super) offset: u64,
    /// The size in the file in bytes, trailer included.
    pub(super) len: u32,
}

impl BlockHandle {
    /// Returns the offset after the block. Decoding has checked that it does not overflow.
    pub(super) fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.len));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Self::checked(reader.varint()?, u64::from(reader.varint32()?))
    }

    fn checked(offset: u64, len: u64) -> Result<Self> {
        let fits = len as usize >= TRAILER_BYTES && offset.checked_add(len).is_some();
        match u32::try_from(len) {
            Ok(len) if fits => Ok(BlockHandle { offset, len }),
            _ => Err(Error::corruption(format!("no block can be at {offset} with {len} bytes"))),
        }
    }
}

/// The parts of a block in the file whose checksum was verified.
struct StoredBlock<'a> {
    codec: Codec,
    raw_len: usize,
    /// The contents, decrypted if the table is encrypted.
    body: &'a [u8],
}

impl BlockSeal {
    /// Returns the bytes that a block takes in the file beside its contents.
    pub(super) fn block_overhead(&self) -> usize {
        TRAILER_BYTES + if self.sealed.is_some() { TAG_BYTES } else { 0 }
    }

    /// Returns by how many bytes a block without compression that begins at `offset` is filled up.
    fn filled_bytes(&self, offset: u64, raw: &[u8]) -> usize {
        let end = offset + (raw.len() + self.block_overhead()) as u64;
        let rest = end.next_multiple_of(PAGE_BYTES) - end;
        if rest <= MOST_FILLED_BYTES { rest as usize } else { 0 }
    }

    /// Appends `raw` to `out` as a block that will lie at `offset` in the file. The block is
    /// compressed if that saves enough; otherwise, with `fills_page`, it is filled up to the end of
    /// its page if little is left of that. Returns its handle and the codec that it got.
    pub(super) fn seal(
        &self,
        out: &mut Vec<u8>,
        offset: u64,
        (codec, fills_page): (Codec, bool),
        raw: &[u8],
    ) -> Result<(BlockHandle, Codec)> {
        if raw.len() > MAX_BLOCK_BYTES {
            let what = format!("a block of {} bytes is too large", raw.len());
            return Err(Error::invalid_option(what).advise("set a smaller table size"));
        }
        let start = out.len();
        let used = match compress(codec, raw) {
            Some((used, compressed)) => {
                out.extend_from_slice(&compressed);
                used
            }
            None => {
                out.extend_from_slice(raw);
                let filled = if fills_page { self.filled_bytes(offset, raw) } else { 0 };
                out.resize(out.len() + filled, 0);
                Codec::None
            }
        };
        let [a, b, c, d] = (raw.len() as u32).to_le_bytes();
        let encoding = [a, b, c, d, used as u8];
        if let Some((_, cipher)) = &self.sealed {
            let tag = cipher.seal(offset, &encoding, &mut out[start..]);
            out.extend_from_slice(&tag);
        }
        out.extend_from_slice(&encoding);
        let sum = checksum32(self.seed.at(offset), &out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
        Ok((BlockHandle { offset, len: (out.len() - start) as u32 }, used))
    }

    /// Verifies the block at `offset` and returns its decompressed bytes. They are not copied if
    /// the block is not compressed.
    pub(super) fn unseal(&self, offset: u64, mut block: Vec<u8>) -> Result<Vec<u8>> {
        self.verify(offset, &block)?;
        self.decrypt(offset, &mut block)?;
        let found = self.parts(&block)?;
        if found.codec == Codec::None {
            let raw_len = found.raw_len;
            block.truncate(raw_len);
            return Ok(block);
        }
        decompress(found.codec, found.body, found.raw_len)
    }

    /// Does the same as [`BlockSeal::unseal`] for a slice of a buffer that holds other blocks as
    /// well.
    pub(super) fn unseal_slice(&self, offset: u64, block: &[u8]) -> Result<Vec<u8>> {
        if self.sealed.is_some() {
            return self.unseal(offset, block.to_vec());
        }
        self.verify(offset, block)?;
        let found = self.parts(block)?;
        decompress(found.codec, found.body, found.raw_len)
    }

    /// I7: verifies the checksum, before anything in the block is used.
    fn verify(&self, offset: u64, block: &[u8]) -> Result<()> {
        let (covered, sum) = block.split_last_chunk::<4>().ok_or_else(short)?;
        if checksum32(self.seed.at(offset), covered) == u32::from_le_bytes(*sum) {
            return Ok(());
        }
        Err(Error::corruption("the block's checksum does not match"))
    }

    /// Decrypts the body in place if the table is encrypted.
    fn decrypt(&self, offset: u64, block: &mut [u8]) -> Result<()> {
        let Some((_, cipher)) = &self.sealed else { return Ok(()) };
        let (rest, trailer) = block.split_last_chunk_mut::<TRAILER_BYTES>().ok_or_else(short)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or_else(short)?;
        let [a, b, c, d, codec, ..] = *trailer;
        cipher.open(offset, &[a, b, c, d, codec], body, tag)
    }

    /// Splits a verified and decrypted block into its parts.
    fn parts<'b>(&self, block: &'b [u8]) -> Result<StoredBlock<'b>> {
        let (rest, trailer) = block.split_last_chunk::<TRAILER_BYTES>().ok_or_else(short)?;
        let tag_bytes = if self.sealed.is_some() { TAG_BYTES } else { 0 };
        let body = rest.len().checked_sub(tag_bytes).and_then(|len| rest.get(..len));
        let body = body.ok_or_else(short)?;
        let [a, b, c, d, codec, ..] = *trailer;
        let codec = Codec::from_number(codec)?;
        let raw_len = u32::from_le_bytes([a, b, c, d]) as usize;
        let body = if codec == Codec::None { body.get(..raw_len) } else { Some(body) };
        match body.filter(|_| raw_len <= MAX_BLOCK_BYTES) {
            Some(body) => Ok(StoredBlock { codec, raw_len, body }),
            None => Err(Error::corruption(format!("a block can't be {raw_len} bytes long"))),
        }
    }
}

fn short() -> Error {
    Error::corruption("the block is shorter than its trailer")
}

/// The footer, which says where the blocks after the data are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) filter: Option<BlockHandle>,
    pub(super) index: BlockHandle,
    pub(super) properties: BlockHandle,
}

impl Footer {
    /// Returns the offset at which the data blocks end.
    pub(super) fn data_end(&self) -> u64 {
        self.filter.map_or(self.index.offset, |filter| filter.offset)
    }

    /// Appends the footer, which will lie at `offset`.
    pub(super) fn encode(&self, out: &mut Vec<u8>, seal: &BlockSeal, offset: u64) {
        let start = out.len();
        for handle in [self.filter, Some(self.index), Some(self.properties)] {
            let (offset, len) = handle.map_or((0, 0), |handle| (handle.offset, handle.len));
            out.extend_from_slice(&offset.to_le_bytes());
            out.extend_from_slice(&u64::from(len).to_le_bytes());
        }
        let magic = match &seal.sealed {
            Some((salt, _)) => {
                out.extend_from_slice(salt);
                SEALED_MAGIC
            }
            None => MAGIC,
        };
        seal_footer(out, start, seal.seed.at(offset), magic);
    }

    /// Returns the salt in the footer of an encrypted table; `None` if it is that of another.
    pub(super) fn salt(bytes: &[u8]) -> Option<Salt> {
        let handles_bytes = 6 * size_of::<u64>();
        let rest = bytes.get(handles_bytes..).filter(|_| bytes.ends_with(&SEALED_MAGIC))?;
        rest.first_chunk::<SALT_BYTES>().copied()
    }

    /// Decodes the footer that lies at `offset`, and checks that its blocks end there. Returns also
    /// what seals the blocks of table `id`.
    pub(super) fn decode(
        bytes: &[u8],
        database: &DatabaseIdentity,
        id: TableId,
        offset: u64,
    ) -> Result<(Footer, BlockSeal)> {
        // Whether the table is encrypted is not a matter of its own: a forger could replace an
        // encrypted table with another.
        let (magic, other) = match database.is_encrypted() {
            true => (SEALED_MAGIC, MAGIC),
            false => (MAGIC, SEALED_MAGIC),
        };
        if bytes.ends_with(&other) {
            return Err(wrong_encryption(database, "the table"));
        }
        let len = footer_bytes(database.is_encrypted());
        let seed = FileSeed::new(database.id, id.0).at(offset);
        let covered = unseal_footer(bytes, len, seed, magic, "the table")?;
        let mut reader = Reader::new(covered);
        let filter = match (reader.u64()?, reader.u64()?) {
            (0, 0) => None,
            (offset, len) => Some(BlockHandle::checked(offset, len)?),
        };
        let index = BlockHandle::checked(reader.u64()?, reader.u64()?)?;
        let properties = BlockHandle::checked(reader.u64()?, reader.u64()?)?;
        let salt = reader.rest().first_chunk::<SALT_BYTES>().copied();
        let footer = Footer { filter, index, properties };
        let adjoin = filter.is_none_or(|filter| filter.end() == index.offset)
            && index.end() == properties.offset
            && properties.end() == offset
            && footer.data_end() >= DATA_START;
        if !adjoin {
            return Err(Error::corruption("the footer's blocks do not adjoin"));
        }
        Ok((footer, BlockSeal::new(database, id, salt)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn databases() -> [DatabaseIdentity; 2] {
        [7.into(), DatabaseIdentity::encrypted(7)]
    }

    #[test]
    fn i07_a_block_validates_only_as_it_was_and_where_it_was() {
        for database in databases() {
            let seal = BlockSeal::for_writing(&database, TableId(1));
            let page = vec![7; PAGE_BYTES as usize - 150];
            for (codec, fills_page, raw) in [
                (Codec::Lz4, false, b"abcdefgh".repeat(50)),
                (Codec::None, true, b"abc".to_vec()),
                (Codec::None, true, page),
            ] {
                let mut out = vec![0; 40];
                let (handle, _) = seal.seal(&mut out, 40, (codec, fills_page), &raw).unwrap();
                assert_eq!((handle.offset, handle.end()), (40, out.len() as u64));
                let block = &out[40..];
                assert_eq!(seal.unseal(40, block.to_vec()).unwrap(), raw);
                assert_eq!(seal.unseal_slice(40, block).unwrap(), raw);
                for (database, id) in [(database.clone(), 2), (8.into(), 1)] {
                    let other = BlockSeal::for_writing(&database, TableId(id));
                    assert!(other.unseal(40, block.to_vec()).is_err());
                }
                assert!(seal.unseal(41, block.to_vec()).is_err());
                for at in 0..block.len() {
                    let mut bad = block.to_vec();
                    bad[at] ^= 1;
                    assert!(seal.unseal(40, bad).is_err(), "byte {at}");
                    assert!(seal.unseal_slice(40, &block[..at]).is_err(), "{at} bytes");
                }
            }
        }
    }

    #[test]
    fn an_encrypted_block_shows_nothing_and_cannot_be_forged() {
        let seal = BlockSeal::for_writing(&DatabaseIdentity::encrypted(7), TableId(1));
        let mut out = Vec::new();
        seal.seal(&mut out, 0, (Codec::None, false), b"a secret in a block").unwrap();
        assert!(!out.windows(6).any(|bytes| bytes == b"secret"));
        let covered = out.len() - 4;
        for at in 0..covered {
            let mut forged = out.clone();
            forged[at] ^= 1;
            let sum = checksum32(seal.seed.at(0), &forged[..covered]);
            forged[covered..].copy_from_slice(&sum.to_le_bytes());
            assert!(seal.unseal(0, forged).is_err(), "byte {at}, with a good checksum");
        }
    }

    #[test]
    fn a_promised_length_is_bounded_before_it_is_used() {
        let seal = BlockSeal::for_writing(&7.into(), TableId(1));
        for (raw_len, codec) in [(u32::MAX, 1u8), (4, 0), (3, 9), (MAX_BLOCK_BYTES as u32 + 1, 2)] {
            let mut block = b"abc".to_vec();
            block.extend_from_slice(&raw_len.to_le_bytes());
            block.push(codec);
            let sum = checksum32(seal.seed.at(0), &block);
            block.extend_from_slice(&sum.to_le_bytes());
            let error = seal.unseal(0, block).unwrap_err();
            let expected = if codec == 9 { "unknown" } else { "can't be" };
            assert!(error.message().contains(expected), "{raw_len} {codec}: {error}");
        }
        let mut huge = Vec::new();
        BlockHandle { offset: u64::MAX, len: 9 }.encode(&mut huge);
        assert!(BlockHandle::decode(&mut Reader::new(&huge)).is_err());
    }

    #[test]
    fn footers_round_trip_and_their_blocks_must_adjoin() {
        let handle = |offset, len| BlockHandle { offset, len };
        let good = Footer {
            filter: Some(handle(100, 50)),
            index: handle(150, 20),
            properties: handle(170, 30),
        };
        for database in databases() {
            let seal = BlockSeal::for_writing(&database, TableId(1));
            let decode = |footer: Footer, offset| {
                let mut out = Vec::new();
                footer.encode(&mut out, &seal, offset);
                assert_eq!(out.len(), seal.footer_bytes());
                Footer::decode(&out, &database, TableId(1), offset).map(|(footer, _)| footer)
            };
            assert_eq!(decode(good, 200).unwrap(), good);
            assert_eq!(good.data_end(), 100);
            let bare = Footer { filter: None, ..good };
            assert_eq!(decode(bare, 200).unwrap().data_end(), 150);
            assert!(decode(good, 201).is_err());
            assert!(decode(Footer { index: handle(151, 19), ..good }, 200).is_err());
            assert!(decode(Footer { filter: Some(handle(30, 120)), ..good }, 200).is_err());
            assert!(decode(Footer { index: handle(162, 8), ..bare }, 200).is_err());
            let mut out = Vec::new();
            good.encode(&mut out, &seal, 200);
            for at in 0..out.len() {
                let mut bad = out.clone();
                bad[at] ^= 0x40;
                assert!(Footer::decode(&bad, &database, TableId(1), 200).is_err(), "byte {at}");
            }
        }
        let [plain, encrypted] = databases();
        for (writer, reader) in [(&plain, &encrypted), (&encrypted, &plain)] {
            let mut out = Vec::new();
            good.encode(&mut out, &BlockSeal::for_writing(writer, TableId(1)), 200);
            let error = Footer::decode(&out, reader, TableId(1), 200).unwrap_err();
            assert!(error.message().contains("encrypted"), "{error}");
        }
    }
}
