//! The tables of a keyspace, one by one, and how much of the disk a range of keys takes.

use crate::base::entry::Slot;
use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, MAX_SEQNO, Trailer};
use crate::db::key_range::{KeyRange, bounds_of};
use crate::db::keyspace::Keyspace;
use crate::memtable::Memtable;
use crate::read::visible::Bounds;
use crate::version::files::TableHandle;
use crate::version::levels::{Levels, bounds};
use std::sync::Arc;

/// One table of a keyspace.
///
/// ```
/// # let dir = cleavedb::doc_dir("tables");
/// let db = cleavedb::open(&dir)?;
/// let keys = db.default_keyspace();
/// keys.put("a", "1")?;
/// keys.flush()?;
/// assert_eq!(keys.tables()[0].smallest, b"a");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Its id, which is in its file's name.
    pub id: u64,
    /// The level it is in.
    pub level: usize,
    /// Bytes of its file.
    pub bytes: u64,
    /// Entries in it, tombstones and older versions included.
    pub entries: u64,
    /// Bytes of records in segments that it refers to.
    pub referenced_bytes: u64,
    /// The first user key.
    pub smallest: Vec<u8>,
    /// The last user key.
    pub largest: Vec<u8>,
}

fn referenced(table: &TableHandle) -> u64 {
    table.meta.summary.segments.values().map(|used| used.bytes).sum()
}

impl Keyspace {
    /// Its tables, upper levels first.
    pub fn tables(&self) -> Vec<TableInfo> {
        let info = |(level, table): (usize, &Arc<TableHandle>)| {
            let (smallest, largest) = bounds(table);
            TableInfo {
                id: table.meta.id.0,
                level,
                bytes: table.meta.bytes,
                entries: table.meta.summary.entries,
                referenced_bytes: referenced(table),
                smallest: smallest.to_vec(),
                largest: largest.to_vec(),
            }
        };
        self.state.view().levels.tables().map(info).collect()
    }

    /// About how many bytes of tables and segments the keys in a range take. Costs no I/O but the
    /// opening of tables that were not read before, and a walk over what memtables hold of it.
    ///
    /// Whole tables count exactly. Of a table that reaches out of the range those blocks count
    /// that the index says are inside, and of the values it refers to the same share.
    pub fn approximate_bytes(&self, range: impl KeyRange) -> Result<u64> {
        self.core.check_open()?;
        let range = bounds_of(&range);
        let view = self.state.view();
        let mut total = 0;
        for (_, table) in view.levels.tables() {
            total += bytes_within(&view.levels, table, &range)?;
        }
        for memtable in view.memtables() {
            total += memtable_bytes_within(&memtable.table, &self.state.order, &range)?;
        }
        Ok(total)
    }
}

/// What the entries of a memtable take in the log.
fn memtable_bytes_within(
    memtable: &Arc<Memtable>,
    order: &KeyOrder,
    range: &Bounds,
) -> Result<u64> {
    let mut entries = memtable.iter();
    match &range.lower {
        Some(lower) => entries.seek(lower, Trailer::seek(MAX_SEQNO))?,
        None => entries.seek_to_first()?,
    }
    let inside =
        |key: &[u8]| range.upper.as_ref().is_none_or(|upper| order.compare(key, upper).is_lt());
    let mut total = 0;
    while entries.valid() && inside(entries.user_key()) {
        let stored = match Slot::decode(entries.trailer().kind()?, entries.payload())? {
            Slot::Pointer(pointer) => u64::from(pointer.length),
            _ => (entries.user_key().len() + entries.payload().len()) as u64,
        };
        total += stored;
        entries.next()?;
    }
    Ok(total)
}

fn bytes_within(levels: &Levels, table: &TableHandle, range: &Bounds) -> Result<u64> {
    let order = levels.order();
    let (smallest, largest) = bounds(table);
    let behind = |bound: &[u8]| order.compare(bound, largest).is_gt();
    let before = |bound: &[u8]| order.compare(bound, smallest).is_le();
    let offset = |bound: &[u8]| match (before(bound), behind(bound)) {
        (true, _) => Ok(0),
        (_, true) => Ok(table.meta.bytes),
        _ => table.table()?.approximate_offset(bound, Trailer::seek(MAX_SEQNO)),
    };
    let from = range.lower.as_deref().map_or(Ok(0), offset)?;
    let to = range.upper.as_deref().map_or(Ok(table.meta.bytes), offset)?;
    let inside = to.saturating_sub(from);
    let share = u128::from(referenced(table)) * u128::from(inside);
    let share = share / u128::from(table.meta.bytes.max(1));
    Ok(inside + u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use crate::KeyspaceOptions;

    #[test]
    fn a_range_takes_its_share() {
        let dir = crate::doc_dir("approximate");
        let db = crate::open(&dir).unwrap();
        let options = KeyspaceOptions { separation_threshold: 500, ..Default::default() };
        let keys = db.keyspace_with("k", options).unwrap();
        for n in 0..2000u32 {
            let size = if n < 1000 { 100 } else { 1000 };
            keys.put(format!("{n:05}"), vec![n as u8; size]).unwrap();
        }
        let in_memory = keys.approximate_bytes("01000".."99999").unwrap();
        assert!((1_000_000..1_200_000).contains(&in_memory), "{in_memory}");
        assert_eq!(keys.approximate_bytes("x".."z").unwrap(), 0);
        keys.flush().unwrap();
        let bytes = |from: &str, to: &str| keys.approximate_bytes(from..to).unwrap();
        let whole = bytes("", "z");
        assert!(whole > 1_000_000, "separated values count: {whole}");
        assert_eq!(whole, keys.approximate_bytes(..).unwrap());
        assert_eq!(bytes("x", "z"), 0);
        assert_eq!(bytes("01000", "00000"), 0);
        let (left, right) = (bytes("00000", "01000"), bytes("01000", "99999"));
        assert!(left > 0 && right > 0 && (left + right).abs_diff(whole) < whole / 10);
    }
}
