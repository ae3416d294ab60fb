//! Reads a table from its first entry to its last: its footer, its index in one or two steps, and
//! its blocks one after the other.

use super::block::{BlockWalk, HandleCoding, handles};
use super::codec::{MAX_BLOCK_BYTES, unpack};
use super::edit::ListedTable;
use super::entry::{EntryRun, RunEntry, before, split_key};
use super::footer::{BlockSpan, FOOTER_BYTES, TRAILER_BYTES, TableFooter};
use crate::import::cursor::ByteCursor;
use cleavedb::{Error, Result};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const PROPERTIES: &[u8] = b"rocksdb.properties";
const RANGE_DELETIONS: &[u8] = b"rocksdb.range_del";
const INDEX: &[u8] = b"rocksdb.index";
const DICTIONARY: &[u8] = b"rocksdb.compression_dict";
/// The types of indexes that have partitions, and that have first keys.
const TWO_LEVEL_INDEX: u32 = 2;
const FIRST_KEY_INDEX: u32 = 3;

/// How many bytes of blocks were read, for the progress.
pub(crate) type BytesRead = Rc<Cell<u64>>;

/// A file with blocks.
struct TableFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    footer: TableFooter,
}

impl TableFile {
    fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut end = vec![0; bytes.min(FOOTER_BYTES as u64) as usize];
        let end_at = bytes - end.len() as u64;
        file.read_exact_at(&mut end, end_at).map_err(failed)?;
        let footer = TableFooter::decode(&end, bytes);
        let footer = footer.map_err(|error| error.in_file(path).at(end_at))?;
        Ok(TableFile { file, path: path.to_path_buf(), bytes, footer })
    }

    fn block(&self, handle: BlockSpan) -> Result<Vec<u8>> {
        let located = |error: Error| error.in_file(&self.path).at(handle.offset);
        let end = handle.size.checked_add(TRAILER_BYTES as u64);
        let end = end.and_then(|size| handle.offset.checked_add(size));
        if end.is_none_or(|end| end > self.bytes) {
            return Err(located(Error::corruption("a block lies behind the end of the table")));
        }
        if handle.size > MAX_BLOCK_BYTES as u64 {
            // A file with holes may be far larger than the memory.
            return Err(located(Error::corruption("a block is larger than the largest value")));
        }
        let mut stored = vec![0; handle.size as usize + TRAILER_BYTES];
        let read = self.file.read_exact_at(&mut stored, handle.offset);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        unpack(&self.footer, &stored, handle.offset).map_err(located)
    }

    /// Returns the entries of a block, which must be few: metaindex and properties.
    fn map(&self, handle: BlockSpan) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let located = |error: Error| error.in_file(&self.path).at(handle.offset);
        let mut walk = BlockWalk::new(self.block(handle)?).map_err(located)?;
        let mut map = BTreeMap::new();
        while walk.advance().map_err(located)? {
            map.insert(walk.key().to_vec(), walk.value().to_vec());
        }
        Ok(map)
    }

    fn handles(&self, handle: BlockSpan, coding: HandleCoding) -> Result<VecDeque<BlockSpan>> {
        let found = handles(&self.block(handle)?, coding);
        Ok(found.map_err(|error| error.in_file(&self.path).at(handle.offset))?.into())
    }
}

/// A range that RocksDB deleted, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErasedRange {
    pub(crate) begin: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) seqno: u64,
    /// The bounds of the table that holds the range; `None` if a log holds it.
    pub(crate) bounds: Option<Rc<TableBounds>>,
}

impl ErasedRange {
    /// Returns true if the range deletes the entry, whose key must lie in it.
    pub(crate) fn hides(&self, entry: &RunEntry<'_>) -> bool {
        let is_within = |bounds: &Rc<TableBounds>| bounds.contains((entry.key, entry.tag));
        self.seqno > entry.seqno() && self.bounds.as_ref().is_none_or(is_within)
    }
}

/// The first and the last internal key of a table, as the manifest has them.
///
/// RocksDB writes a deleted range in full to each table that a compaction makes of it, and cuts it
/// to the table's bounds when it reads. A range that is not cut deletes too much: once a neighbour
/// has come to the deepest level, it has lost its copy of the range, and its entries have the
/// sequence number 0, even those that were put after the deletion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableBounds {
    pub(crate) smallest: (Vec<u8>, u64),
    pub(crate) largest: (Vec<u8>, u64),
}

impl TableBounds {
    /// Returns true if the internal key lies between the bounds or is one of them. Where a deleted
    /// range goes on in the next table, the largest key has the highest sequence number of all, so
    /// that it comes before the entries of its key, which are the next table's.
    fn contains(&self, internal: (&[u8], u64)) -> bool {
        let [smallest, largest] =
            [&self.smallest, &self.largest].map(|(key, tag)| (key.as_slice(), *tag));
        !before(internal, smallest) && !before(largest, internal)
    }
}

/// A table that is read.
pub(crate) struct TableWalk {
    file: TableFile,
    coding: HandleCoding,
    /// Index blocks whose blocks are still to come.
    partitions: VecDeque<BlockSpan>,
    blocks: VecDeque<BlockSpan>,
    block: BlockWalk,
    block_at: u64,
    read: BytesRead,
    /// The number that all entries have, if it is not theirs: of tables made outside of the store.
    seqno: Option<u64>,
    range_deletions: Option<BlockSpan>,
    before: Vec<u8>,
}

impl TableWalk {
    /// Opens a table. `largest_seqno` is what the manifest says.
    pub(crate) fn open(path: &Path, largest_seqno: Option<u64>, read: &BytesRead) -> Result<Self> {
        let file = TableFile::open(path)?;
        let mut walk = TableWalk {
            coding: HandleCoding::default(),
            partitions: VecDeque::new(),
            blocks: VecDeque::new(),
            block: BlockWalk::default(),
            block_at: 0,
            read: read.clone(),
            seqno: None,
            range_deletions: None,
            before: Vec::new(),
            file,
        };
        let index = walk.file.footer.index;
        let (index, is_two_level) = match index {
            Some(index) if walk.file.footer.version == 0 => (index, false),
            index => walk.properties(index, largest_seqno)?,
        };
        let handles = walk.file.handles(index, walk.coding)?;
        match is_two_level {
            true => walk.partitions = handles,
            false => walk.blocks = handles,
        }
        Ok(walk)
    }

    /// Reads what a table of RocksDB says of itself. Returns where its index is, and whether that
    /// has partitions.
    fn properties(
        &mut self,
        index: Option<BlockSpan>,
        largest_seqno: Option<u64>,
    ) -> Result<(BlockSpan, bool)> {
        let at = self.file.footer.metaindex;
        let located = |error: Error| error.in_file(&self.file.path).at(at.offset);
        let metaindex = self.file.map(at)?;
        let named = |name: &[u8]| {
            metaindex.get(name).and_then(|value| BlockSpan::decode(&mut ByteCursor::new(value)))
        };
        if metaindex.contains_key(DICTIONARY) {
            let what = "blocks of the table are compressed with a dictionary";
            return Err(located(Error::unsupported(what)));
        }
        self.range_deletions = named(RANGE_DELETIONS);
        let missing = |what: &str| located(Error::corruption(format!("the table has no {what}")));
        let index = index.or_else(|| named(INDEX)).ok_or_else(|| missing("index"))?;
        let properties = named(PROPERTIES).ok_or_else(|| missing("properties"))?;
        let properties = self.file.map(properties)?;
        let number = |name: &str| {
            let value = properties.get(name.as_bytes())?;
            ByteCursor::new(value).varint64()
        };
        let fixed = |name: &str| ByteCursor::new(properties.get(name.as_bytes())?).fixed32();
        let index_type = fixed("rocksdb.block.based.table.index.type").unwrap_or(0);
        if index_type > FIRST_KEY_INDEX {
            let what = format!("the table has an index of the unknown type {index_type}");
            return Err(located(Error::unsupported(what)));
        }
        if fixed("rocksdb.external_sst_file.version") == Some(2) {
            self.seqno = largest_seqno;
        }
        self.coding = HandleCoding {
            is_delta: number("rocksdb.index.value.is.delta.encoded").unwrap_or(0) != 0,
            has_first_key: index_type == FIRST_KEY_INDEX,
        };
        Ok((index, index_type == TWO_LEVEL_INDEX))
    }

    /// Returns the ranges that the table deletes within its bounds, which `listed` has.
    pub(crate) fn deleted_ranges(&self, listed: &ListedTable) -> Result<Vec<ErasedRange>> {
        let Some(handle) = self.range_deletions else { return Ok(Vec::new()) };
        let located = |error: Error| error.in_file(&self.file.path).at(handle.offset);
        // The keys of an ingested table have the sequence number 0 in the manifest, too.
        let bound = |(key, tag): (&[u8], u64)| (key.to_vec(), self.numbered(tag));
        let smallest = bound(split_key(&listed.smallest)?);
        let largest = bound(split_key(&listed.largest)?);
        let bounds = Rc::new(TableBounds { smallest, largest });
        let mut walk = BlockWalk::new(self.file.block(handle)?).map_err(located)?;
        let mut ranges = Vec::new();
        while walk.advance().map_err(located)? {
            let (begin, tag) = split_key(walk.key()).map_err(located)?;
            let seqno = self.seqno.unwrap_or(tag >> 8);
            ranges.push(ErasedRange {
                begin: begin.to_vec(),
                end: walk.value().to_vec(),
                seqno,
                bounds: Some(bounds.clone()),
            });
        }
        Ok(ranges)
    }

    /// Goes on to the next block. Returns false behind the last one.
    fn next_block(&mut self) -> Result<bool> {
        while self.blocks.is_empty() {
            let Some(partition) = self.partitions.pop_front() else { return Ok(false) };
            self.blocks = self.file.handles(partition, self.coding)?;
        }
        let Some(handle) = self.blocks.pop_front() else { return Ok(false) };
        self.block_at = handle.offset;
        self.read.set(self.read.get() + handle.size);
        let block = BlockWalk::new(self.file.block(handle)?);
        self.block = block.map_err(|error| error.in_file(&self.file.path).at(handle.offset))?;
        Ok(true)
    }

    /// Returns the key and the tag of the last entry, after an [`EntryRun::advance`] that returned
    /// false; `None` if the table has no entry.
    pub(crate) fn last_entry(&self) -> Option<(&[u8], u64)> {
        split_key(&self.before).ok().map(|(key, tag)| (key, self.numbered(tag)))
    }

    /// Returns the tag with the number that all entries have, if there is one.
    fn numbered(&self, tag: u64) -> u64 {
        self.seqno.map_or(tag, |seqno| seqno << 8 | tag & 0xff)
    }

    fn located(&self, error: Error) -> Error {
        error.in_file(&self.file.path).at(self.block_at)
    }
}

impl EntryRun for TableWalk {
    fn advance(&mut self) -> Result<bool> {
        self.before.clear();
        self.before.extend_from_slice(self.block.key());
        while !self.block.advance().map_err(|error| self.located(error))? {
            if !self.next_block()? {
                return Ok(false);
            }
        }
        let (key, tag) = split_key(self.block.key()).map_err(|error| self.located(error))?;
        if let Ok((key_before, tag_before)) = split_key(&self.before)
            && !before((key_before, tag_before), (key, tag))
        {
            return Err(self.located(Error::corruption("keys of the table are out of order")));
        }
        Ok(true)
    }

    fn entry(&self) -> RunEntry<'_> {
        let (key, tag) = split_key(self.block.key()).unwrap_or_default();
        RunEntry { key, tag: self.numbered(tag), value: self.block.value() }
    }

    fn place(&self) -> (PathBuf, u64) {
        (self.file.path.clone(), self.block_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All entries of an ingested table have the number that it got with its ingestion, although
    /// its file and the bounds in the manifest say 0. A lower bound with 0 would come behind all
    /// older entries of the first key, and the range would not hide them.
    #[test]
    fn the_bounds_of_an_ingested_table_have_its_number() {
        let path = "tests/stores/rocksdb-clipped/000026.sst";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let internal = |key: &str, tag: u64| [key.as_bytes(), &tag.to_le_bytes()].concat();
        let listed = ListedTable {
            level: 1,
            number: 26,
            bytes: 0,
            smallest: internal("key000", 0xf),
            largest: internal("key012", u64::MAX << 8 | 0xf),
            largest_seqno: Some(70),
        };
        let mut walk = TableWalk::open(&path, listed.largest_seqno, &BytesRead::default()).unwrap();
        walk.seqno = listed.largest_seqno;
        let ranges = walk.deleted_ranges(&listed).unwrap();
        let [range] = ranges.as_slice() else { panic!("{ranges:?}") };
        assert_eq!((range.begin.as_slice(), range.seqno), (&b"key000"[..], 70));
        let hides = |key: &str, seqno: u64| {
            range.hides(&RunEntry { key: key.as_bytes(), tag: seqno << 8 | 1, value: b"" })
        };
        assert!(hides("key000", 69) && hides("key000", 0) && hides("key011", 0));
        assert!(!hides("key000", 70) && !hides("key013", 0));
    }
}
