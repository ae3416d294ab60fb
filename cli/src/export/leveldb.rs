//! Writes a directory of LevelDB: all tables lie in its deepest level, so that LevelDB has nothing
//! to compact when it opens them.

use super::table::{TableFill, WrittenTable};
use crate::import::cursor::{put_prefixed, put_varint};
use crate::import::lsm::LogBytes;
use crate::place::{self, PathKind};
use crate::progress::Progress;
use crate::sync::sync_dir;
use cleavedb::{Error, ErrorKind, Keyspace, ReadOptions, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

const LEVEL: u64 = 6;
const MANIFEST_NUMBER: u64 = 1;
const FIRST_TABLE_NUMBER: u64 = 2;
/// LevelDB's own tables have 2 MiB; fewer files are as good where nothing is compacted.
const TABLE_BYTES: u64 = 16 << 20;

/// What was exported.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportCount {
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
}

/// Writes the keyspace, as it is now, to a directory that must be new or empty.
///
/// CURRENT comes last. Before it is there, LevelDB and we take the directory for no store, so a
/// crash leaves nothing that looks complete.
pub(crate) fn export(keyspace: &Keyspace, dir: &Path) -> Result<ExportCount> {
    match place::look(dir)? {
        PathKind::Missing => {
            fs::create_dir_all(dir).map_err(|error| Error::io("create", dir, error))?;
        }
        PathKind::Empty => {}
        _ => {
            let what = "there is something at this path already";
            return Err(Error::new(ErrorKind::AlreadyExists, what)
                .in_file(dir)
                .advise("name a new or empty directory"));
        }
    }
    let mut count = ExportCount::default();
    let mut progress = Progress::new("pairs", true);
    let mut tables: Vec<WrittenTable> = Vec::new();
    let mut open: Option<TableFill> = None;
    let options = ReadOptions::new().fill_cache(false);
    for entry in keyspace.range_with(.., &options) {
        let (key, value) = entry?;
        if let Some(full) = open.take_if(|table| table.bytes() >= TABLE_BYTES) {
            tables.push(full.finish()?);
        }
        let table = match &mut open {
            Some(table) => table,
            None => {
                let number = FIRST_TABLE_NUMBER + tables.len() as u64;
                open.insert(TableFill::create(dir, number)?)
            }
        };
        table.put(&key, &value)?;
        count.pairs += 1;
        count.bytes += (key.len() + value.len()) as u64;
        progress.show(count.pairs, None);
    }
    if let Some(last) = open {
        tables.push(last.finish()?);
    }
    install(dir, &tables)?;
    Ok(count)
}

/// Writes the manifest and CURRENT.
fn install(dir: &Path, tables: &[WrittenTable]) -> Result<()> {
    let name = format!("MANIFEST-{MANIFEST_NUMBER:06}");
    // A crash behind this leaves a manifest that no CURRENT names.
    write_synced(&dir.join(&name), &manifest(tables))?;
    // A power cut must not leave CURRENT and lose the names of what it leads to.
    sync_dir(dir)?;
    let (unfinished, current) = (dir.join("CURRENT.new"), dir.join("CURRENT"));
    write_synced(&unfinished, format!("{name}\n").as_bytes())?;
    // A crash before the rename leaves no store, one behind it the whole.
    fs::rename(&unfinished, &current).map_err(|error| Error::io("rename", &unfinished, error))?;
    sync_dir(dir)
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io("write", path, error);
    let mut file = File::create_new(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}

/// Returns the manifest: one record with the comparator, the counters, and the tables.
fn manifest(tables: &[WrittenTable]) -> Vec<u8> {
    let mut edit = Vec::new();
    put_varint(1, &mut edit);
    put_prefixed(b"leveldb.BytewiseComparator", &mut edit);
    let next_file = FIRST_TABLE_NUMBER + tables.len() as u64;
    // There is no log; the next number is free, and all entries have the sequence number 1.
    for (field, number) in [(2, 0), (9, 0), (3, next_file), (4, 1)] {
        put_varint(field, &mut edit);
        put_varint(number, &mut edit);
    }
    for table in tables {
        for number in [7, LEVEL, table.number, table.bytes] {
            put_varint(number, &mut edit);
        }
        put_prefixed(&table.smallest, &mut edit);
        put_prefixed(&table.largest, &mut edit);
    }
    let mut log = LogBytes::default();
    log.push(&edit);
    log.into_bytes()
}
