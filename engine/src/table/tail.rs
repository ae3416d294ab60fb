//! The tail of a table file: everything after the data. It is read and checked when the table is
//! opened, and again when the table is verified.

use super::filter::Filter;
use super::format::{BlockHandle, BlockSeal, DATA_START, Footer, footer_bytes};
use super::index::Index;
use super::properties::{Properties, TableMeta};
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::header::{FileKind, HEADER_BYTES, Header};
use crate::base::key::KeyOrder;
use crate::base::memory::zeroed;
use crate::base::pointer::TableId;
use crate::base::seal::{DatabaseIdentity, Salt};
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A filter as it is stored in the file.
pub(super) enum StoredFilter {
    /// A filter of the engine.
    Own(Filter),
    /// The filter of a user's policy, which the properties name; only the policy understands the
    /// bytes.
    OfPolicy(Vec<u8>),
}

impl StoredFilter {
    /// Returns false if the engine's filter denies the key with this hash.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        match self {
            StoredFilter::Own(filter) => filter.may_contain(hash),
            StoredFilter::OfPolicy(_) => true,
        }
    }
}

/// The part of a table that stays in memory while it is open, and the offset at which its data
/// ends.
pub(super) struct TableTail {
    pub(super) index: Index,
    pub(super) filter: Option<StoredFilter>,
    pub(super) properties: Properties,
    pub(super) data_end: u64,
    pub(super) seal: BlockSeal,
}

/// How much of a table must be whole to be opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TailDemand {
    /// All of it.
    Whole,
    /// What its entries can't be read without, for a repair. The header and the filter are not: the
    /// seeds of all checksums contain what the header says.
    Entries,
}

/// Has the system begin to read what opening the table will read: the head and, as far as can be
/// told, the tail. They lie apart, and the length of the tail is known only from its last bytes, so
/// an opening would wait for three reads one after the other.
///
/// Measured with 62 tables of 4 MiB and a cold page cache: the first 300 gets, most of which open a
/// table, took 0.85 of the time.
pub(super) fn start_reads(file: &dyn File, meta: &TableMeta) {
    file.start_read(0, HEADER_BYTES as u64);
    // The footer is read first, and of a long range the system may begin with the front only.
    let footer = FILE_BLOCK_BYTES.min(meta.bytes);
    file.start_read(meta.bytes - footer, footer);
    let tail = likely_bytes(meta).min(MOST_TAIL_BYTES);
    file.start_read(meta.bytes - tail, tail - footer);
}

/// The most bytes of a tail that are asked for before it is known how long it is.
const MOST_TAIL_BYTES: u64 = 1 << 20;

/// Returns the bytes that the tail of a table has at most if the table was made with options like
/// the default: 32 bytes in the index for a block of 4 KiB, two for each entry in the filter, and
/// the properties.
pub(super) fn likely_bytes(meta: &TableMeta) -> u64 {
    let filter = meta.summary.entries.saturating_mul(2);
    let all = filter.saturating_add(meta.bytes / 128).saturating_add(FILE_BLOCK_BYTES);
    all.min(meta.bytes)
}

impl TableTail {
    /// Reads and checks everything but the data. Errors name the file, and the offset if it is
    /// known.
    pub(super) fn read(
        file: &dyn File,
        path: &Path,
        meta: &TableMeta,
        database: &DatabaseIdentity,
        order: &KeyOrder,
        demand: TailDemand,
    ) -> Result<TableTail> {
        let found = Self::read_unnamed(file, path, meta, database, order, demand);
        found.map_err(|error| match error.kind() {
            ErrorKind::Corruption => {
                error.in_file(path).advise("restore this file from a checkpoint or a backup")
            }
            _ => error.in_file(path),
        })
    }

    fn read_unnamed(
        file: &dyn File,
        path: &Path,
        meta: &TableMeta,
        database: &DatabaseIdentity,
        order: &KeyOrder,
        demand: TailDemand,
    ) -> Result<TableTail> {
        let len = file.len().doing("get the length", path)?;
        let footer_bytes = footer_bytes(database.is_encrypted()) as u64;
        let min = DATA_START + footer_bytes;
        if len != meta.bytes || len < min {
            let message =
                format!("table {} has {len} bytes, the manifest says {}", meta.id, meta.bytes);
            return Err(Error::corruption(message));
        }
        start_reads(file, meta);
        if demand == TailDemand::Whole {
            let header = read(file, path, 0, HEADER_BYTES as u64)?;
            Header::decode_expected(&header, FileKind::Table, database.id, meta.id.0)
                .map_err(|error| error.at(0))?;
        }
        let footer_at = len - footer_bytes;
        let footer = read(file, path, footer_at, footer_bytes)?;
        let (footer, seal) = Footer::decode(&footer, database, meta.id, footer_at)
            .map_err(|error| error.at(footer_at))?;
        let data_end = footer.data_end();
        // Decoding the footer has checked that its blocks lie between the header and the footer.
        let blocks = MetaBlocks {
            bytes: read(file, path, data_end, footer_at - data_end)?,
            start: data_end,
            seal: &seal,
        };
        let properties = blocks.parse(footer.properties, |raw| Properties::decode(&raw))?;
        check_identity(&properties, meta, order)
            .map_err(|error| error.at(footer.properties.offset))?;
        let index = blocks.parse(footer.index, |raw| Index::new(Arc::new(raw), data_end, order))?;
        let last = index.len().saturating_sub(1);
        let ends = index.bound(last).is_ok_and(|bound| bound == meta.summary.largest);
        if !ends {
            let message = "the index does not end with the table's largest key";
            return Err(Error::corruption(message).at(footer.index.offset));
        }
        let filter = match blocks.filter(footer.filter, &properties) {
            Err(_) if demand == TailDemand::Entries => None,
            filter => filter?,
        };
        Ok(TableTail { index, filter, properties, data_end, seal })
    }
}

impl TableMeta {
    /// Reads the description of table `id` from the table itself, for the inspector and for
    /// repairs.
    pub fn read(
        file: &dyn File,
        path: &Path,
        database: impl Into<DatabaseIdentity>,
        id: TableId,
    ) -> Result<TableMeta> {
        let summary = Properties::read(file, path, database, id)?.summary;
        let bytes = file.len().doing("get the length of", path)?;
        Ok(TableMeta { id, bytes, summary, applied_ranges: 0, ingested_at: 0 })
    }
}

/// Returns the salt of an encrypted table, or `None` if it is not encrypted. Nothing of it is
/// verified yet: whoever opens the table with it does that.
pub fn salt_of(file: &dyn File, path: &Path) -> Result<Option<Salt>> {
    let bytes = file.len().doing("get the length of", path)?;
    let Some(at) = bytes.checked_sub(footer_bytes(true) as u64) else { return Ok(None) };
    Ok(Footer::salt(&read(file, path, at, footer_bytes(true) as u64)?))
}

impl Properties {
    /// Reads the properties of table `id`.
    pub fn read(
        file: &dyn File,
        path: &Path,
        database: impl Into<DatabaseIdentity>,
        id: TableId,
    ) -> Result<Properties> {
        let database = database.into();
        let footer_bytes = footer_bytes(database.is_encrypted()) as u64;
        let bytes = file.len().doing("get the length of", path)?;
        if bytes < DATA_START + footer_bytes {
            return Err(Error::corruption("the table ends before its footer").in_file(path));
        }
        let footer_at = bytes - footer_bytes;
        let footer = read(file, path, footer_at, footer_bytes)?;
        let (footer, seal) = Footer::decode(&footer, &database, id, footer_at)
            .map_err(|error| error.in_file(path).at(footer_at))?;
        let start = footer.data_end();
        let bytes = read(file, path, start, footer_at - start)?;
        let blocks = MetaBlocks { bytes, start, seal: &seal };
        blocks
            .parse(footer.properties, |raw| Properties::decode(&raw))
            .map_err(|error| error.in_file(path))
    }
}

fn read(file: &dyn File, path: &Path, offset: u64, len: u64) -> Result<Vec<u8>> {
    // `len` is bounded: callers have compared it with the length of the file.
    let mut bytes = zeroed(len)?;
    file.read_exact_at(&mut bytes, offset).doing("read", path).map_err(|error| error.at(offset))?;
    Ok(bytes)
}

/// The blocks between the data and the footer.
struct MetaBlocks<'s> {
    bytes: Vec<u8>,
    start: u64,
    seal: &'s BlockSeal,
}

impl MetaBlocks<'_> {
    fn filter(
        &self,
        handle: Option<BlockHandle>,
        properties: &Properties,
    ) -> Result<Option<StoredFilter>> {
        let Some(handle) = handle else { return Ok(None) };
        let filter = match properties.filter_policy.is_some() {
            true => self.parse(handle, |raw| Ok(StoredFilter::OfPolicy(raw))),
            false => self.parse(handle, |raw| Filter::decode(&raw).map(StoredFilter::Own)),
        };
        filter.map(Some)
    }

    fn parse<T>(&self, handle: BlockHandle, parse: impl FnOnce(Vec<u8>) -> Result<T>) -> Result<T> {
        let from = handle.offset.saturating_sub(self.start) as usize;
        let sealed = self.bytes.get(from..).and_then(|rest| rest.get(..handle.len as usize));
        self.seal
            .unseal_slice(handle.offset, sealed.unwrap_or_default())
            .and_then(parse)
            .map_err(|error| error.at(handle.offset))
    }
}

/// Checks that the table's properties agree with the manifest and the keyspace, that is, that it is
/// the table that the manifest means.
fn check_identity(properties: &Properties, meta: &TableMeta, order: &KeyOrder) -> Result<()> {
    if properties.comparator != order.name() {
        return Err(Error::invalid_option(format!(
            "table {} is ordered by {:?}, its keyspace was opened with {:?}",
            meta.id,
            properties.comparator,
            order.name()
        ))
        .advise("open the keyspace with the comparator that it was created with"));
    }
    if properties.id != meta.id || *properties.summary != *meta.stored_summary() {
        return Err(Error::corruption(format!(
            "table {} is not the one that the manifest means: their contents differ",
            meta.id
        )));
    }
    let summary = &meta.summary;
    if order.compare_internal(&summary.smallest, &summary.largest).is_gt() {
        return Err(Error::corruption("the table's smallest key is behind its largest"));
    }
    Ok(())
}
