//! The tables of a level, none of which overlaps another, read as one. Only one is open at a time.

use super::edit::ListedTable;
use super::entry::{EntryRun, RunEntry, split_key};
use super::table::{BytesRead, TableWalk};
use cleavedb::{Error, Result};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Reads tables one behind the other.
pub(crate) struct LevelWalk {
    dir: PathBuf,
    tables: VecDeque<ListedTable>,
    read: BytesRead,
    open: Option<TableWalk>,
    /// The last key of the table before.
    last: Option<Vec<u8>>,
}

impl LevelWalk {
    /// Takes tables in any order.
    pub(crate) fn new(dir: &Path, mut tables: Vec<ListedTable>, read: &BytesRead) -> Self {
        tables.sort_by(|a, b| a.smallest.cmp(&b.smallest).then(a.number.cmp(&b.number)));
        let (dir, tables, read) = (dir.to_path_buf(), tables.into(), read.clone());
        LevelWalk { dir, tables, read, open: None, last: None }
    }
}

impl EntryRun for LevelWalk {
    fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(open) = &mut self.open {
                if open.advance()? {
                    break;
                }
                self.open = None;
            }
            let Some(table) = self.tables.pop_front() else { return Ok(false) };
            let open = self.open.insert(open_table(&self.dir, &table, &self.read)?);
            if open.advance()? {
                let key = open.entry().key;
                if self.last.as_deref().is_some_and(|last| key < last) {
                    let (file, offset) = open.place();
                    let what = "tables of one level overlap";
                    return Err(Error::corruption(what).in_file(&file).at(offset));
                }
                self.last = split_key(&table.largest).ok().map(|(key, _)| key.to_vec());
                break;
            }
        }
        Ok(true)
    }

    fn entry(&self) -> RunEntry<'_> {
        match &self.open {
            Some(open) => open.entry(),
            None => RunEntry { key: &[], tag: 0, value: &[] },
        }
    }

    fn place(&self) -> (PathBuf, u64) {
        self.open.as_ref().map_or((self.dir.clone(), 0), EntryRun::place)
    }
}

/// Parts tables into as few groups as can be, so that none of a group overlaps another. Each group
/// has one file open, and a store may have more tables in level 0 than a process may have files
/// open.
pub(crate) fn apart(mut tables: Vec<ListedTable>) -> Vec<Vec<ListedTable>> {
    let key = |internal: &[u8]| internal[..internal.len().saturating_sub(8)].to_vec();
    tables.sort_by_key(|table| key(&table.smallest));
    let mut groups: Vec<Vec<ListedTable>> = Vec::new();
    for table in tables {
        let begin = key(&table.smallest);
        let fits = |group: &&mut Vec<ListedTable>| {
            group.last().is_none_or(|last| key(&last.largest) < begin)
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(table),
            None => groups.push(vec![table]),
        }
    }
    groups
}

/// Opens a table under the name that it has: LevelDB's end with `.ldb`, those of its early versions
/// and of RocksDB with `.sst`.
pub(crate) fn open_table(dir: &Path, table: &ListedTable, read: &BytesRead) -> Result<TableWalk> {
    let name = |end: &str| dir.join(format!("{:06}.{end}", table.number));
    let (ldb, sst) = (name("ldb"), name("sst"));
    let path = if ldb.exists() { ldb } else { sst };
    if !path.exists() {
        let what = "a table that the manifest lists is missing";
        return Err(Error::corruption(what).in_file(&path));
    }
    TableWalk::open(&path, table.largest_seqno, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_overlap_go_to_different_groups() {
        let table = |number: u64, smallest: &str, largest: &str| ListedTable {
            level: 0,
            number,
            bytes: 0,
            smallest: format!("{smallest}01234567").into(),
            largest: format!("{largest}01234567").into(),
            largest_seqno: None,
        };
        let tables = [(1, "a", "c"), (2, "d", "f"), (3, "c", "d"), (4, "x", "z"), (5, "b", "y")];
        let tables = tables.map(|(number, smallest, largest)| table(number, smallest, largest));
        let groups = apart(tables.to_vec());
        let numbers: Vec<Vec<u64>> =
            groups.iter().map(|group| group.iter().map(|table| table.number).collect()).collect();
        assert_eq!(numbers, [vec![1, 2, 4], vec![5], vec![3]]);
        assert!(apart(Vec::new()).is_empty());
    }
}
