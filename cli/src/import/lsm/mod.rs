//! LevelDB and RocksDB, whose directories have the same plan: CURRENT names a manifest, the
//! manifest lists tables and where the logs begin. Nothing of theirs is linked, and nothing is
//! written.
//!
//! | file | what it reads |
//! |---|---|
//! | `directory.rs` | LOCK, CURRENT, and which logs there are |
//! | `log.rs` | the records of manifests and logs; it writes them, too |
//! | `edit.rs`, `live.rs` | the manifest, and what it amounts to |
//! | `logged.rs` | batches in the logs |
//! | `footer.rs`, `codec.rs`, `block.rs`, `table.rs` | a table, from its end to its entries |
//! | `level.rs` | the tables of a level, one behind the other |
//! | `entry.rs`, `merge.rs` | entries with their numbers, and which of them a reader would see |

mod block;
mod codec;
#[cfg(any(test, fuzzing))]
mod decoded;
mod directory;
mod edit;
mod entry;
mod footer;
mod level;
mod live;
mod log;
mod logged;
mod merge;
mod table;

#[cfg(any(test, fuzzing))]
pub(crate) use decoded::decode_all;
pub(crate) use directory::ForeignLock;
#[cfg(test)]
pub(crate) use directory::read_whole;
pub(crate) use footer::{LEVELDB_FOOTER_BYTES, LEVELDB_MAGIC};
pub(crate) use log::LogBytes;

use crate::import::source::{ImportPair, Source};
use cleavedb::{Error, ErrorKind, Result};
use directory::MAX_LOG_BYTES;
use entry::EntryRun;
use level::{LevelWalk, apart, open_table};
use live::{LiveFamily, LiveSet};
use log::LogWalk;
use logged::LoggedEntries;
use merge::VisiblePairs;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use table::{BytesRead, ErasedRange};

/// Whose directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LsmStore {
    LevelDb,
    RocksDb,
}

/// A store that is read.
pub(crate) struct LsmSource {
    store: LsmStore,
    dir: PathBuf,
    /// The families to come, and what the logs have for them.
    families: std::vec::IntoIter<(LiveFamily, LoggedEntries)>,
    /// The last log, for errors about what was in one.
    last_log: PathBuf,
    pairs: Option<VisiblePairs>,
    read: BytesRead,
    table_bytes: u64,
}

impl LsmSource {
    /// Opens a store, which the caller has locked.
    pub(crate) fn open(store: LsmStore, dir: &Path) -> Result<Self> {
        Self::read(store, dir).map_err(advised)
    }

    fn read(store: LsmStore, dir: &Path) -> Result<Self> {
        let manifest = directory::manifest_path(dir)?;
        let bytes = directory::read_whole(&manifest, MAX_LOG_BYTES)?;
        let live = LiveSet::read(&bytes).map_err(|error| error.in_file(&manifest))?;
        live.check_order(&manifest)?;
        let (mut logged, last_log) = read_logs(dir, &live)?;
        let families: Vec<_> = live.families.into_iter().collect();
        let tables = families.iter().flat_map(|(_, family)| family.tables.values());
        let table_bytes = tables.map(|table| table.bytes).fold(0, u64::saturating_add);
        let families: Vec<_> = families
            .into_iter()
            .map(|(number, family)| (family, logged.remove(&number).unwrap_or_default()))
            .collect();
        Ok(LsmSource {
            store,
            dir: dir.to_path_buf(),
            families: families.into_iter(),
            last_log,
            pairs: None,
            read: Rc::new(Cell::new(0)),
            table_bytes,
        })
    }

    fn pairs(&self, family: LiveFamily, logged: LoggedEntries) -> Result<VisiblePairs> {
        let mut runs: Vec<Box<dyn EntryRun>> = Vec::new();
        let mut ranges = match self.store {
            LsmStore::LevelDb => Vec::new(),
            LsmStore::RocksDb => self.deleted_ranges(&family)?,
        };
        let (mut newest, mut levels) = (Vec::new(), BTreeMap::<u32, Vec<_>>::new());
        for table in family.tables.into_values() {
            match table.level {
                0 => newest.push(table),
                level => levels.entry(level).or_default().push(table),
            }
        }
        // Tables of level 0 may overlap.
        for tables in apart(newest).into_iter().chain(levels.into_values()) {
            runs.push(Box::new(LevelWalk::new(&self.dir, tables, &self.read)));
        }
        ranges.extend_from_slice(&logged.ranges);
        runs.push(Box::new(logged.into_run(self.last_log.clone())));
        VisiblePairs::new(runs, ranges)
    }

    /// Returns the ranges that tables of a family delete, which hide entries of other tables too,
    /// but only between the bounds of their own.
    fn deleted_ranges(&self, family: &LiveFamily) -> Result<Vec<ErasedRange>> {
        let mut ranges = Vec::new();
        for table in family.tables.values() {
            ranges.extend(open_table(&self.dir, table, &self.read)?.deleted_ranges(table)?);
        }
        Ok(ranges)
    }
}

impl Source for LsmSource {
    fn next_part(&mut self) -> Result<Option<String>> {
        let Some((family, logged)) = self.families.next() else { return Ok(None) };
        let name = family.name.clone();
        self.pairs = Some(self.pairs(family, logged).map_err(advised)?);
        // LevelDB has no names.
        Ok(Some(if self.store == LsmStore::LevelDb { String::new() } else { name }))
    }

    fn next(&mut self, pair: &mut ImportPair) -> Result<bool> {
        let Some(pairs) = &mut self.pairs else { return Ok(false) };
        let Some(entry) = pairs.next().map_err(advised)? else { return Ok(false) };
        pair.set(entry.key, entry.value);
        Ok(true)
    }

    fn ascends(&self) -> bool {
        true
    }

    fn share(&self) -> Option<f64> {
        (self.table_bytes > 0).then(|| self.read.get() as f64 / self.table_bytes as f64)
    }
}

/// Names the way around what this reader does not do, and around damage.
fn advised(error: Error) -> Error {
    match (error.kind(), error.advice()) {
        (ErrorKind::Corruption, None) => error.advise(
            "open the store once with its own library, which may mend it, or restore it from a \
             backup",
        ),
        (ErrorKind::Unsupported, None) => error.advise(
            "have RocksDB's own tool print it: \
             ldb dump --hex --db=DIR | cleave import --from ldb-dump - DB",
        ),
        _ => error,
    }
}

/// Reads the logs whose writes are not all in tables. Returns what they hold for each family, and
/// the path of the last one.
fn read_logs(dir: &Path, live: &LiveSet) -> Result<(BTreeMap<u32, LoggedEntries>, PathBuf)> {
    let first = live.families.values().map(|family| family.log_number).min().unwrap_or(0);
    let first = first.max(live.min_log_number);
    let mut logged: BTreeMap<u32, LoggedEntries> = BTreeMap::new();
    let mut last = dir.to_path_buf();
    directory::check_log_dir(dir, first)?;
    for (number, path) in directory::logs(dir)? {
        let is_previous = number == live.prev_log_number;
        if number < first && !is_previous {
            continue;
        }
        let bytes = directory::read_whole(&path, MAX_LOG_BYTES)?;
        let mut walk = LogWalk::new(&bytes, number);
        let located = |error: Error| error.in_file(&path);
        while let Some((offset, batch)) = walk.next().map_err(located)? {
            let read = logged::writes(&batch, |write| {
                let family = live.families.get(&write.family);
                // A family that was dropped, or whose part of this log is in a table.
                if family.is_some_and(|family| number >= family.log_number || is_previous) {
                    logged.entry(write.family).or_default().add(&write);
                }
                Ok(())
            });
            read.map_err(|error| located(error.at(offset)))?;
        }
        last = path;
    }
    Ok((logged, last))
}
