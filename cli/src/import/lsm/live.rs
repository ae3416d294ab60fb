//! What a manifest amounts to: the live tables of each column family, and where its logs begin.

use super::edit::{ListedTable, ManifestField, fields};
use super::log::LogWalk;
use cleavedb::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// A column family, and for LevelDB the store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveFamily {
    pub(crate) name: String,
    /// By level and number.
    pub(crate) tables: BTreeMap<(u32, u64), ListedTable>,
    /// The first log with writes that are not in tables.
    pub(crate) log_number: u64,
    comparator: Option<String>,
}

/// What is live.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveSet {
    pub(crate) families: BTreeMap<u32, LiveFamily>,
    /// A log that LevelDB had not yet finished with.
    pub(crate) prev_log_number: u64,
    /// No log before this one is needed.
    pub(crate) min_log_number: u64,
}

impl LiveSet {
    /// Reads a manifest. Errors tell the record's offset, not the file.
    pub(crate) fn read(manifest: &[u8]) -> Result<Self> {
        let mut live = LiveSet::default();
        live.families.insert(0, LiveFamily { name: "default".into(), ..LiveFamily::default() });
        let mut log = LogWalk::new(manifest, 0);
        let mut is_empty = true;
        while let Some((offset, record)) = log.next()? {
            is_empty = false;
            live.apply(&record).map_err(|error| error.at(offset))?;
        }
        if is_empty {
            return Err(Error::corruption("the manifest has no record").at(0));
        }
        Ok(live)
    }

    /// Takes in a record, which is of one column family.
    fn apply(&mut self, record: &[u8]) -> Result<()> {
        let mut family = 0;
        let mut log_number = None;
        let (mut is_dropped, mut added) = (false, None);
        let mut all = Vec::new();
        fields(record, |field| {
            match field {
                ManifestField::ColumnFamily(number) => family = number,
                ManifestField::LogNumber(number) => log_number = Some(number),
                ManifestField::PrevLogNumber(number) => self.prev_log_number = number,
                ManifestField::MinLogNumber(number) => self.min_log_number = number,
                ManifestField::DropColumnFamily => is_dropped = true,
                // It comes behind the family's comparator.
                ManifestField::AddColumnFamily(name) => added = Some(name),
                ManifestField::Ignored => {}
                field => all.push(field),
            }
            Ok(())
        })?;
        if is_dropped {
            self.families.remove(&family);
            return Ok(());
        }
        if let Some(name) = added {
            self.families.insert(family, LiveFamily { name, ..LiveFamily::default() });
        }
        for field in all {
            self.family(family)?.change(field);
        }
        if let Some(number) = log_number {
            self.family(family)?.log_number = number;
        }
        Ok(())
    }

    fn family(&mut self, number: u32) -> Result<&mut LiveFamily> {
        self.families.get_mut(&number).ok_or_else(|| {
            Error::corruption(format!("the manifest names the unknown column family {number}"))
        })
    }

    /// Fails if keys are not in the order of their bytes.
    pub(crate) fn check_order(&self, manifest: &Path) -> Result<()> {
        for family in self.families.values() {
            let Some(comparator) = family.comparator.as_deref().filter(|name| *name != BYTEWISE)
            else {
                continue;
            };
            let what = format!("the keys are in the order of the comparator {comparator:?}");
            let advice = format!(
                "only stores with {BYTEWISE} can be imported; write a program that \
                                  reads this one with its comparator and puts what it reads"
            );
            return Err(Error::unsupported(what).in_file(manifest).advise(advice));
        }
        Ok(())
    }
}

impl LiveFamily {
    fn change(&mut self, field: ManifestField) {
        match field {
            ManifestField::Comparator(name) => self.comparator = Some(name),
            ManifestField::NewTable(table) => {
                self.tables.insert((table.level, table.number), table);
            }
            ManifestField::DeletedTable { level, number } => {
                self.tables.remove(&(level, number));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::cursor::{put_prefixed, put_varint};
    use crate::import::lsm::LogBytes;

    /// A field of numbers.
    fn numbers(record: &mut Vec<u8>, fields: &[u64]) {
        fields.iter().for_each(|number| put_varint(*number, record));
    }

    fn text(record: &mut Vec<u8>, tag: u64, text: &str) {
        put_varint(tag, record);
        put_prefixed(text.as_bytes(), record);
    }

    fn table(record: &mut Vec<u8>, level: u64, number: u64) {
        numbers(record, &[7, level, number, 100]);
        put_prefixed(b"a01234567", record);
        put_prefixed(b"z01234567", record);
    }

    fn read(records: &[Vec<u8>]) -> Result<LiveSet> {
        let mut log = LogBytes::default();
        records.iter().for_each(|record| log.push(record));
        LiveSet::read(&log.into_bytes())
    }

    #[test]
    fn tables_move_and_families_come_and_go() {
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        text(&mut first, 1, BYTEWISE);
        numbers(&mut first, &[2, 3, 9, 2]);
        table(&mut first, 0, 5);
        table(&mut first, 1, 6);
        // A trivial move: the table goes away from a level and comes to the next one.
        numbers(&mut second, &[6, 0, 5, 2, 8]);
        table(&mut second, 1, 5);
        numbers(&mut third, &[200, 4]);
        text(&mut third, 1, BYTEWISE);
        text(&mut third, 201, "people");
        let mut all = vec![first, second, third];
        let live = read(&all).unwrap();
        let default = &live.families[&0];
        assert_eq!(default.tables.keys().collect::<Vec<_>>(), [&(1, 5), &(1, 6)]);
        assert_eq!((default.log_number, live.prev_log_number), (8, 2));
        assert_eq!(live.families[&4].name, "people");
        live.check_order(Path::new("MANIFEST-000001")).unwrap();
        let mut dropped = Vec::new();
        numbers(&mut dropped, &[200, 4, 202]);
        all.push(dropped);
        assert_eq!(read(&all).unwrap().families.len(), 1);
    }

    #[test]
    fn stores_that_only_their_program_can_read_are_refused() {
        let mut record = Vec::new();
        text(&mut record, 1, "by.length");
        let error = read(&[record]).unwrap().check_order(Path::new("m")).unwrap_err();
        assert!(error.to_string().contains("by.length"), "{error}");
        let cases: [(&[u64], &str); 4] = [
            (&[400, 1], "blob files"),
            (&[(1 << 13) + 6, 1, 0], "timestamps"),
            (&[77, 1], "cannot be understood"),
            (&[200, 9, 2, 1], "unknown column family 9"),
        ];
        for (fields, expected) in cases {
            let mut record = Vec::new();
            numbers(&mut record, fields);
            let error = read(&[Vec::new(), record]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.offset(), Some(7));
        }
        let mut ignored = Vec::new();
        text(&mut ignored, (1 << 13) + 99, "for those who know it");
        assert!(read(&[ignored]).is_ok());
        assert!(read(&[]).unwrap_err().to_string().contains("no record"));
    }
}
