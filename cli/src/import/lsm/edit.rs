//! The records of a manifest: which tables a store gained and lost, and which logs are behind them.
//! RocksDB's have more fields than LevelDB's, whose numbers they share.

use crate::import::cursor::ByteCursor;
use cleavedb::{Error, Result};

/// Fields with this bit are for those who know them; others step over them.
const SAFE_TO_IGNORE: u32 = 1 << 13;
/// The same within a new file, the other way around.
const NOT_SAFE_TO_IGNORE: u32 = 1 << 6;
const DB_ID: u32 = SAFE_TO_IGNORE + 1;
const OLD_BLOB_ADDITION: u32 = SAFE_TO_IGNORE + 2;
const OLD_WAL_ADDITION: u32 = SAFE_TO_IGNORE + 4;
const OLD_WAL_DELETION: u32 = SAFE_TO_IGNORE + 5;
const FULL_HISTORY_TS_LOW: u32 = SAFE_TO_IGNORE + 6;
/// A store has fewer levels; the bound keeps a wrong number from being believed.
const MAX_LEVEL: u32 = 255;

/// A table as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedTable {
    pub(crate) level: u32,
    pub(crate) number: u64,
    /// The size of its file.
    pub(crate) bytes: u64,
    /// The internal keys at its ends.
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// The newest sequence number in it, if it is told.
    pub(crate) largest_seqno: Option<u64>,
}

/// One field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ManifestField {
    Comparator(String),
    LogNumber(u64),
    PrevLogNumber(u64),
    MinLogNumber(u64),
    DeletedTable { level: u32, number: u64 },
    NewTable(ListedTable),
    ColumnFamily(u32),
    AddColumnFamily(String),
    DropColumnFamily,
    Ignored,
}

/// Calls `each` for each field of a record.
pub(crate) fn fields(
    record: &[u8],
    mut each: impl FnMut(ManifestField) -> Result<()>,
) -> Result<()> {
    let mut cursor = ByteCursor::new(record);
    while !cursor.is_empty() {
        let damaged = || Error::corruption("a record of the manifest cannot be understood");
        let tag = cursor.varint32().ok_or_else(damaged)?;
        check_supported(tag)?;
        let field = match tag {
            7 | 100 | 102 | 103 => ManifestField::NewTable(new_table(tag, &mut cursor)?),
            _ => plain_field(tag, &mut cursor).ok_or_else(damaged)?,
        };
        each(field)?;
    }
    Ok(())
}

fn check_supported(tag: u32) -> Result<()> {
    match tag {
        400 | 401 | OLD_BLOB_ADDITION => Err(Error::unsupported("the store has blob files")),
        FULL_HISTORY_TS_LOW => Err(Error::unsupported("the store has user-defined timestamps")),
        _ => Ok(()),
    }
}

fn plain_field(tag: u32, cursor: &mut ByteCursor<'_>) -> Option<ManifestField> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(match tag {
        1 => ManifestField::Comparator(text(cursor.prefixed()?)),
        2 => ManifestField::LogNumber(cursor.varint64()?),
        3 | 4 => cursor.varint64().map(|_| ManifestField::Ignored)?,
        5 => {
            level(cursor)?;
            cursor.prefixed()?;
            ManifestField::Ignored
        }
        6 => ManifestField::DeletedTable { level: level(cursor)?, number: cursor.varint64()? },
        9 => ManifestField::PrevLogNumber(cursor.varint64()?),
        10 => ManifestField::MinLogNumber(cursor.varint64()?),
        200 => ManifestField::ColumnFamily(cursor.varint32()?),
        201 => ManifestField::AddColumnFamily(text(cursor.prefixed()?)),
        202 => ManifestField::DropColumnFamily,
        203 | 300 => cursor.varint32().map(|_| ManifestField::Ignored)?,
        DB_ID => cursor.prefixed().map(|_| ManifestField::Ignored)?,
        // These two came before the rule that such fields begin with their length.
        OLD_WAL_ADDITION => old_wal_addition(cursor)?,
        OLD_WAL_DELETION => cursor.varint64().map(|_| ManifestField::Ignored)?,
        _ if tag & SAFE_TO_IGNORE != 0 => cursor.prefixed().map(|_| ManifestField::Ignored)?,
        _ => return None,
    })
}

fn level(cursor: &mut ByteCursor<'_>) -> Option<u32> {
    cursor.varint32().filter(|&level| level <= MAX_LEVEL)
}

/// A log's number, then its fields: 2 and a size, or 1 for their end.
fn old_wal_addition(cursor: &mut ByteCursor<'_>) -> Option<ManifestField> {
    cursor.varint64()?;
    loop {
        match cursor.varint32()? {
            1 => return Some(ManifestField::Ignored),
            2 => cursor.varint64()?,
            _ => return None,
        };
    }
}

fn new_table(tag: u32, cursor: &mut ByteCursor<'_>) -> Result<ListedTable> {
    let damaged = || Error::corruption("the manifest lists a table that cannot be understood");
    let (table, path) = listed(tag, cursor).ok_or_else(damaged)?;
    let mut path = path;
    if tag == 103 {
        loop {
            let field = cursor.varint32().ok_or_else(damaged)?;
            if field == 1 {
                break;
            }
            let bytes = cursor.prefixed().ok_or_else(damaged)?;
            match field {
                // The first of its blob files.
                4 => return Err(Error::unsupported("the store has blob files")),
                65 => path = bytes.first().copied().map_or(u32::MAX, u32::from),
                _ if field & NOT_SAFE_TO_IGNORE != 0 => {
                    let what = format!("the manifest lists a table with the unknown field {field}");
                    return Err(Error::unsupported(what));
                }
                _ => {}
            }
        }
    }
    if path != 0 {
        return Err(Error::unsupported("tables of the store lie in several directories"));
    }
    Ok(table)
}

/// Reads the fields that all have, and returns the table and its path's number.
fn listed(tag: u32, cursor: &mut ByteCursor<'_>) -> Option<(ListedTable, u32)> {
    let (level, number) = (level(cursor)?, cursor.varint64()?);
    let path = if tag == 102 { cursor.varint32()? } else { 0 };
    let bytes = cursor.varint64()?;
    let (smallest, largest) = (internal_key(cursor)?, internal_key(cursor)?);
    let largest_seqno = match tag {
        7 => None,
        _ => {
            cursor.varint64()?;
            Some(cursor.varint64()?)
        }
    };
    Some((ListedTable { level, number, bytes, smallest, largest, largest_seqno }, path))
}

fn internal_key(cursor: &mut ByteCursor<'_>) -> Option<Vec<u8>> {
    cursor.prefixed().filter(|key| key.len() >= 8).map(<[u8]>::to_vec)
}
