//! Lists the tables of a keyspace, and estimates the bytes and keys of a key range.

use crate::base::bounds::Bounds;
use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, MAX_SEQNO, Trailer};
use crate::db::key_range::{KeyRange, bounds_of};
use crate::db::keyspace::Keyspace;
use crate::memtable::Memtable;
use crate::version::files::TableHandle;
use crate::version::levels::{Levels, bounds};
use std::fmt;
use std::sync::Arc;

/// The description of one table of a keyspace.
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
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// The table's id, which is part of its file name.
    pub id: u64,
    /// The level that the table is in.
    pub level: usize,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Number of entries, tombstones and older versions included.
    pub entries: u64,
    /// Bytes of records in segments that the table refers to.
    pub referenced_bytes: u64,
    /// The first user key.
    pub smallest: Vec<u8>,
    /// The last user key.
    pub largest: Vec<u8>,
}

impl fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys are data, so they are not shown.
        f.debug_struct("TableInfo")
            .field("id", &self.id)
            .field("level", &self.level)
            .field("bytes", &self.bytes)
            .field("entries", &self.entries)
            .field("referenced_bytes", &self.referenced_bytes)
            .finish_non_exhaustive()
    }
}

impl Keyspace {
    /// Returns the tables of the keyspace, upper levels first.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("keyspace-tables"))?.default_keyspace();
    /// words.put("one", "eins")?;
    /// words.flush()?;
    /// for table in words.tables() {
    ///     println!("L{} {} entries, {} bytes", table.level, table.entries, table.bytes);
    /// }
    /// assert_eq!(words.tables()[0].entries, 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn tables(&self) -> Vec<TableInfo> {
        let info = |(level, table): (usize, &Arc<TableHandle>)| {
            let (smallest, largest) = bounds(table);
            TableInfo {
                id: table.meta.id.0,
                level,
                bytes: table.meta.bytes,
                entries: table.meta.summary.entries,
                referenced_bytes: table.meta.summary.value_bytes(),
                smallest: smallest.to_vec(),
                largest: largest.to_vec(),
            }
        };
        self.state.view().levels.tables().map(info).collect()
    }

    /// Returns about how many bytes of tables and segments a key range takes, separated values
    /// included.
    ///
    /// Tables inside the range count exactly. Of a table that reaches out of the range, the blocks
    /// that the index places inside count, and the same share of the values it refers to. So each
    /// end of the range may be wrong by a block for each sorted run, and by as much as the values
    /// of a table differ in size over its keys. Overwritten and deleted entries, those of deleted
    /// ranges included, count until compaction drops them. Compressed data counts as stored.
    ///
    /// Costs no I/O except for opening tables that were not read before, and a walk over the
    /// range's entries in memtables.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("approximate-size");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// words.put("one", vec![1; 100_000])?;
    /// assert!(words.approximate_size("a".."z")? >= 100_000);
    /// assert_eq!(words.approximate_size("a".."b")?, 0);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        let range = bounds_of(&range);
        let view = self.view()?;
        let mut total: u64 = 0;
        for (_, table) in view.levels.tables() {
            total = total.saturating_add(size_within(&view.levels, table, &range)?);
        }
        for memtable in view.memtables() {
            walk(&memtable.table, &self.state.order, &range, |key, payload| {
                total = total.saturating_add(match payload.slot {
                    Slot::Pointer(pointer) => u64::from(pointer.length),
                    Slot::Inline(value) => (key.len() + value.len()) as u64,
                    Slot::Delete => key.len() as u64,
                });
            })?;
        }
        Ok(total)
    }

    /// Returns about how many keys in a range have a value; `..` covers the whole keyspace.
    ///
    /// The estimate is the number of entries that have not expired, less two for each tombstone:
    /// itself, and what it deletes. It is exact for a keyspace that was compacted completely while
    /// no snapshot was held and that was not written to since. Otherwise a key counts once more for
    /// each older value that compaction did not drop yet, and once less for each deletion of a key
    /// that was not there. How many have expired is known in groups only, so a few of those whose
    /// time has just come may still count. Of a table that reaches out of the range, a share of its
    /// entries counts, by bytes: each end of the range may be wrong by a block's keys for each
    /// sorted run, and by as much as the size of entries varies within a table. To count exactly,
    /// use `keyspace.range(range).keys().count()`.
    ///
    /// Costs as much as [`Keyspace::approximate_size`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("approximate-len");
    /// let db = cleavedb::open(&dir)?;
    /// let words = db.default_keyspace();
    /// for key in ["one", "two", "three"] {
    ///     words.put(key, "")?;
    /// }
    /// assert_eq!(words.approximate_len(..)?, 3);
    /// assert_eq!(words.approximate_len("p"..)?, 2);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn approximate_len(&self, range: impl KeyRange) -> Result<u64> {
        let range = bounds_of(&range);
        let view = self.view()?;
        let (mut values, mut deletions) = (0, 0);
        let now = self.core.snapshots.expiry.now();
        for (_, table) in view.levels.tables() {
            let inside = bytes_within(&view.levels, table, &range)?;
            let summary = &table.meta.summary;
            // I7: the counts of deadlines are bounded by the others when they are decoded.
            let absent = summary.tombstones + summary.deadlines.passed(now);
            // Where in the table the expired ones are is unknown: they count as outside of the
            // range as far as there is room for them.
            let within = share(summary.entries.saturating_sub(summary.tombstones), inside, table);
            values += within.min(summary.entries.saturating_sub(absent));
            deletions += share(summary.tombstones, inside, table);
        }
        for memtable in view.memtables() {
            let mut last: Option<Vec<u8>> = None;
            walk(&memtable.table, &self.state.order, &range, |key, payload| {
                // The newest entry of a key comes first; older ones are hidden.
                if last.as_deref() == Some(key) {
                    return;
                }
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
                match payload.slot {
                    Slot::Delete => deletions += 1,
                    Slot::Inline(_) | Slot::Pointer(_) => {
                        values += u64::from(payload.seen_at(|| now) != Slot::Delete);
                    }
                }
            })?;
        }
        Ok(values.saturating_sub(deletions))
    }
}

/// Calls `visit` for each entry of a memtable within a range, the newest first for each key.
fn walk(
    memtable: &Arc<Memtable>,
    order: &KeyOrder,
    range: &Bounds,
    mut visit: impl FnMut(&[u8], Payload<'_>),
) -> Result<()> {
    let mut entries = memtable.iter();
    entries.seek_cut(range.begin())?;
    while entries.valid() && !range.is_behind(order, entries.user_key()) {
        let payload = Payload::decode(entries.trailer().kind()?, entries.payload())?;
        visit(entries.user_key(), payload);
        entries.next()?;
    }
    Ok(())
}

/// Returns about how many bytes of a table's file are within a range.
fn bytes_within(levels: &Levels, table: &TableHandle, range: &Bounds) -> Result<u64> {
    let order = levels.order();
    let (smallest, largest) = bounds(table);
    if !range.meets(order, smallest, largest) {
        return Ok(0);
    }
    let offset = |bound| table.table()?.approximate_offset(bound, Trailer::seek(MAX_SEQNO));
    let from = match &range.lower {
        Some(lower) if range.is_before(order, smallest) => offset(lower)?,
        _ => 0,
    };
    let to = match &range.upper {
        Some(upper) if range.is_behind(order, largest) => offset(upper)?,
        _ => table.meta.bytes,
    };
    Ok(to.saturating_sub(from))
}

/// Returns the share of `all` that corresponds to `inside` bytes of a table's file.
fn share(all: u64, inside: u64, table: &TableHandle) -> u64 {
    let share = u128::from(all) * u128::from(inside) / u128::from(table.meta.bytes.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn size_within(levels: &Levels, table: &TableHandle, range: &Bounds) -> Result<u64> {
    let inside = bytes_within(levels, table, range)?;
    // I7: the numbers are from files.
    Ok(inside.saturating_add(share(table.meta.summary.value_bytes(), inside, table)))
}

#[cfg(test)]
mod tests {
    use crate::KeyspaceOptions;

    #[test]
    fn a_range_takes_its_share() {
        let dir = crate::doc_dir("approximate");
        let db = crate::open(&dir).unwrap();
        let options = KeyspaceOptions { separation_threshold: 500, ..Default::default() };
        let keys = db.create_keyspace_with("k", options).unwrap();
        for n in 0..2000u32 {
            let size = if n < 1000 { 100 } else { 1000 };
            keys.put(format!("{n:05}"), vec![n as u8; size]).unwrap();
        }
        let in_memory = keys.approximate_size("01000".."99999").unwrap();
        assert!((1_000_000..1_200_000).contains(&in_memory), "{in_memory}");
        assert_eq!(keys.approximate_size("x".."z").unwrap(), 0);
        keys.flush().unwrap();
        let bytes = |from: &str, to: &str| keys.approximate_size(from..to).unwrap();
        let whole = bytes("", "z");
        assert!(whole > 1_000_000, "separated values count: {whole}");
        assert_eq!(whole, keys.approximate_size(..).unwrap());
        assert_eq!(bytes("x", "z"), 0);
        assert_eq!(bytes("01000", "00000"), 0);
        assert_eq!(keys.approximate_size("00000"..="01999").unwrap(), whole, "with the last key");
        assert_eq!(keys.approximate_size("02000"..="03000").unwrap(), 0);
        let (left, right) = (bytes("00000", "01000"), bytes("01000", "99999"));
        assert!(left > 0 && right > 0 && (left + right).abs_diff(whole) < whole / 10);
    }

    #[test]
    fn a_length_is_exact_once_compacted_and_never_far_off() {
        let dir = crate::doc_dir("approximate-len-test");
        let db = crate::open(&dir).unwrap();
        let keys = db.default_keyspace();
        let len = |from: &str, to: &str| keys.approximate_len(from..to).unwrap();
        assert_eq!((keys.approximate_len(..).unwrap(), len("a", "z")), (0, 0));
        for n in 0..2000u32 {
            keys.put(format!("{n:05}"), [7; 100]).unwrap();
        }
        assert_eq!((len("", "z"), len("00500", "01000")), (2000, 500));
        assert_eq!(keys.approximate_len("00500"..="00509").unwrap(), 10);
        keys.flush().unwrap();
        assert_eq!(len("", "z"), 2000);
        assert_eq!(keys.approximate_len("00000"..="01999").unwrap(), 2000);
        assert!(len("00500", "01000").abs_diff(500) < 100, "{}", len("00500", "01000"));
        // A deletion counts for itself and for what it deletes, in a memtable as in a table.
        for n in 0..1000u32 {
            keys.delete(format!("{n:05}")).unwrap();
        }
        assert_eq!(keys.approximate_len(..).unwrap(), 1000);
        keys.flush().unwrap();
        assert_eq!(keys.approximate_len(..).unwrap(), 1000);
        // Overwritten keys count twice until they are compacted; the estimate never falls below 0.
        keys.put("01500", "again").unwrap();
        keys.delete("never there").unwrap();
        keys.flush().unwrap();
        assert_eq!(keys.approximate_len(..).unwrap(), 1000);
        keys.put("01500", "and again").unwrap();
        assert_eq!(keys.approximate_len(..).unwrap(), 1001);
        keys.compact_range(..).unwrap();
        assert_eq!(keys.approximate_len(..).unwrap(), 1000);
        keys.delete("x").unwrap();
        assert_eq!(len("w", "y"), 0);
    }
}
