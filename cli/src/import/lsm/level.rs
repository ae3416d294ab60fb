//! The tables of a level, none of which overlaps another, read as one. Only one is open at a time.

use super::edit::ListedTable;
use super::entry::{EntryRun, RunEntry, before, key_order, split_key};
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
    /// The key and the tag of the last entry that was read of the tables before.
    last: Option<(Vec<u8>, u64)>,
}

impl LevelWalk {
    /// Takes tables in any order.
    pub(crate) fn new(dir: &Path, mut tables: Vec<ListedTable>, read: &BytesRead) -> Self {
        tables.sort_by(|a, b| {
            // Versions of one key may each fill a table, and the newer one comes first.
            let [first, second] =
                [a, b].map(|table| split_key(&table.smallest).unwrap_or_default());
            key_order(first, second).then(a.number.cmp(&b.number))
        });
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
                // What was read, not what the manifest says: the merge relies on the order.
                if let Some((key, tag)) = open.last_entry() {
                    self.last = Some((key.to_vec(), tag));
                }
                self.open = None;
            }
            let Some(table) = self.tables.pop_front() else { return Ok(false) };
            let open = self.open.insert(open_table(&self.dir, &table, &self.read)?);
            if open.advance()? {
                let first = open.entry();
                if let Some((key, tag)) = &self.last
                    && !before((key, *tag), (first.key, first.tag))
                {
                    let (file, offset) = open.place();
                    let what = "tables of one level overlap";
                    return Err(Error::corruption(what).in_file(&file).at(offset));
                }
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
    use crate::export::TableFill;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Writes a table of values, and returns it as a manifest lists it.
    fn write_table(dir: &Path, number: u64, entries: &[(&str, u64)]) -> ListedTable {
        let mut fill = TableFill::create(dir, number).unwrap();
        for (key, seqno) in entries {
            fill.put_entry(key.as_bytes(), seqno << 8 | 1, b"value").unwrap();
        }
        let written = fill.finish().unwrap();
        ListedTable {
            level: 1,
            number,
            bytes: written.bytes,
            smallest: written.smallest,
            largest: written.largest,
            largest_seqno: None,
        }
    }

    fn walked(dir: &Path, tables: Vec<ListedTable>) -> Result<Vec<(String, u64)>> {
        let mut walk = LevelWalk::new(dir, tables, &Rc::new(Cell::new(0)));
        let mut entries = Vec::new();
        while walk.advance()? {
            let entry = walk.entry();
            entries.push((String::from_utf8_lossy(entry.key).into_owned(), entry.seqno()));
        }
        Ok(entries)
    }

    #[test]
    fn tables_that_reach_beyond_what_the_manifest_says_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = write_table(dir.path(), 1, &[("a", 1), ("x", 1)]);
        let second = write_table(dir.path(), 2, &[("m", 1)]);
        first.largest = second.smallest.clone();
        let error = walked(dir.path(), vec![first, second]).unwrap_err();
        assert!(error.to_string().contains("tables of one level overlap"), "{error}");
        assert_eq!(error.file(), Some(dir.path().join("000002.ldb").as_path()));
    }

    #[test]
    fn versions_of_a_key_in_tables_of_their_own_come_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let old = write_table(dir.path(), 1, &[("k", 5), ("l", 2)]);
        let new = write_table(dir.path(), 2, &[("k", 9)]);
        let entries = walked(dir.path(), vec![old.clone(), new]).unwrap();
        assert_eq!(entries, [("k".into(), 9), ("k".into(), 5), ("l".into(), 2)]);
        let empty = ListedTable { smallest: Vec::new(), ..write_table(dir.path(), 3, &[]) };
        assert_eq!(walked(dir.path(), vec![old, empty]).unwrap().len(), 2);
    }

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
