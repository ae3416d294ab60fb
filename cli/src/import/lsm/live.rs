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
