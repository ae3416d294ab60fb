//! What the write-ahead logs hold: batches of writes, whose newest value of each key is kept in
//! memory, as it was in the memtable of the program that wrote them.
//!
//! ```text
//! batch    first sequence number, 8 | number of writes, 4 | writes
//! write    kind, 1 | [column family] | key | [value]        strings with their lengths before them
//! ```

use super::entry::{EntryRun, MERGE, RunEntry, SINGLE_DELETION, VALUE, WIDE_COLUMNS};
use super::table::ErasedRange;
use crate::import::cursor::ByteCursor;
use cleavedb::{Error, Result};
use std::collections::{BTreeMap, btree_map};
use std::path::PathBuf;

const BATCH_HEADER_BYTES: usize = 12;

/// A write of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoggedWrite<'a> {
    pub(crate) family: u32,
    pub(crate) key: &'a [u8],
    /// The value, or the end of a deleted range.
    pub(crate) value: &'a [u8],
    pub(crate) seqno: u64,
    pub(crate) kind: LoggedKind,
}

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoggedKind {
    /// An entry of this kind.
    Entry(u8),
    ErasedRange,
}

/// Calls `each` for each write of a batch.
pub(crate) fn writes<'a>(
    batch: &'a [u8],
    mut each: impl FnMut(LoggedWrite<'a>) -> Result<()>,
) -> Result<()> {
    let damaged = || Error::corruption("a batch of the log cannot be understood");
    let mut cursor = ByteCursor::new(batch);
    let seqno = cursor.fixed64().ok_or_else(damaged)?;
    let count = u64::from(cursor.fixed32().ok_or_else(damaged)?);
    if batch.len() == BATCH_HEADER_BYTES && count > 0 {
        return Err(damaged());
    }
    let mut seen = 0;
    while !cursor.is_empty() {
        let tag = cursor.byte().ok_or_else(damaged)?;
        check_supported(tag)?;
        let seqno = seqno.checked_add(seen).filter(|seqno| *seqno < 1 << 56).ok_or_else(damaged)?;
        if let Some(write) = write(tag, seqno, &mut cursor).ok_or_else(damaged)? {
            seen += 1;
            each(write)?;
        }
    }
    if seen == count { Ok(()) } else { Err(damaged()) }
}

fn check_supported(tag: u8) -> Result<()> {
    let what = match tag {
        9..=0xc | 0x12 | 0x13 | 0x15 => "transactions that were prepared and not yet finished",
        0x10 | 0x11 => "values in blob files",
        0x14 => "user-defined timestamps",
        0x18 | 0x19 => "values with write times",
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("the log holds {what}")))
}

/// Takes a write. The inner `None` is something that writes nothing.
#[expect(clippy::option_option, reason = "damage is the outer one")]
fn write<'a>(tag: u8, seqno: u64, cursor: &mut ByteCursor<'a>) -> Option<Option<LoggedWrite<'a>>> {
    let (has_family, kind) = match tag {
        0 | 1 | MERGE | SINGLE_DELETION | WIDE_COLUMNS => (false, LoggedKind::Entry(tag)),
        4 => (true, LoggedKind::Entry(0)),
        5 => (true, LoggedKind::Entry(VALUE)),
        6 => (true, LoggedKind::Entry(MERGE)),
        8 => (true, LoggedKind::Entry(SINGLE_DELETION)),
        0xe => (true, LoggedKind::ErasedRange),
        0xf => (false, LoggedKind::ErasedRange),
        0x17 => (true, LoggedKind::Entry(WIDE_COLUMNS)),
        // A note of the program's, and a mark.
        3 => return cursor.prefixed().map(|_| None),
        0xd => return Some(None),
        _ => return None,
    };
    let family = if has_family { cursor.varint32()? } else { 0 };
    let key = cursor.prefixed()?;
    let has_value = !matches!(kind, LoggedKind::Entry(0 | SINGLE_DELETION));
    let value = if has_value { cursor.prefixed()? } else { &[] };
    Some(Some(LoggedWrite { family, key, value, seqno, kind }))
}

/// The newest writes of one column family.
#[derive(Default)]
pub(crate) struct LoggedEntries {
    entries: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    pub(crate) ranges: Vec<ErasedRange>,
}

impl LoggedEntries {
    pub(crate) fn add(&mut self, write: &LoggedWrite<'_>) {
        match write.kind {
            LoggedKind::ErasedRange => self.ranges.push(ErasedRange {
                begin: write.key.to_vec(),
                end: write.value.to_vec(),
                seqno: write.seqno,
                // What the memtable deletes is not cut.
                bounds: None,
            }),
            LoggedKind::Entry(kind) => {
                let tag = write.seqno << 8 | u64::from(kind);
                match self.entries.get_mut(write.key) {
                    Some(entry) if entry.0 > tag => {}
                    Some(entry) => *entry = (tag, write.value.to_vec()),
                    None => {
                        self.entries.insert(write.key.to_vec(), (tag, write.value.to_vec()));
                    }
                }
            }
        }
    }

    /// Returns the entries in order. Their place is that of the last log.
    pub(crate) fn into_run(self, log: PathBuf) -> LoggedWalk {
        LoggedWalk { entries: self.entries.into_iter(), entry: Default::default(), log }
    }
}

/// Walks over what logs held.
pub(crate) struct LoggedWalk {
    entries: btree_map::IntoIter<Vec<u8>, (u64, Vec<u8>)>,
    entry: (Vec<u8>, (u64, Vec<u8>)),
    log: PathBuf,
}

impl EntryRun for LoggedWalk {
    fn advance(&mut self) -> Result<bool> {
        let Some(entry) = self.entries.next() else { return Ok(false) };
        self.entry = entry;
        Ok(true)
    }

    fn entry(&self) -> RunEntry<'_> {
        let (key, (tag, value)) = &self.entry;
        RunEntry { key, tag: *tag, value }
    }

    fn place(&self) -> (PathBuf, u64) {
        (self.log.clone(), 0)
    }
}
