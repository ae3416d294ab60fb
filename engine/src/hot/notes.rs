//! What a flush is going to tell the update table: the newest entry of each key that it wrote.

use super::ring::MAX_HOT_KEY_BYTES;
use super::update_table::UpdateTable;
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, TableId};

/// The notes take at most one part in this many of what the update table may: those of a memtable
/// of 64 MiB with values of 100 bytes fit, if the update table has as much.
const NOTES_PART: u64 = 4;

/// The length of a note before its key: length of the key, bytes of the entry, sequence number.
const HEADER_BYTES: usize = 2 + 4 + 8;

/// The entries of one table that is being written, in the order of the table.
///
/// The update table is told of them once the table is whole: what it knew before is true until
/// then, and compactions that run beside the flush go by it. Costs some thirty bytes for each key
/// of a usual length.
#[derive(Default)]
pub struct FlushNotes {
    table: Option<TableId>,
    notes: Vec<u8>,
    last_key: Option<Vec<u8>>,
}

impl FlushNotes {
    /// Notes that an entry of `key` goes to `table`; it has `bytes` bytes, its separated value
    /// included. Of a key only the first entry counts, which is the newest.
    ///
    /// Notes that take too much memory are handed to `hot` at once, as are those of another table.
    pub fn add(
        &mut self,
        hot: &UpdateTable,
        (keyspace, key): (KeyspaceId, &[u8]),
        seqno: SeqNo,
        table: TableId,
        bytes: u64,
    ) {
        if key.len() > MAX_HOT_KEY_BYTES {
            // The update table knows no such key, so it knows no older entry either.
            return;
        }
        if self.last_key.as_deref() == Some(key) {
            return;
        }
        let last_key = self.last_key.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(key);
        let length = HEADER_BYTES + key.len();
        let most = usize::try_from(hot.capacity() / NOTES_PART).unwrap_or(usize::MAX);
        if self.table != Some(table) || self.notes.len() + length > most {
            self.hand_over(hot, keyspace);
            self.table = Some(table);
        }
        self.make_room(length, most);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.notes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.notes.extend_from_slice(&bytes.to_le_bytes());
        self.notes.extend_from_slice(&seqno.to_le_bytes());
        self.notes.extend_from_slice(key);
    }

    /// Makes room for `length` more bytes. The memory grows twofold, but not beyond `most` bytes,
    /// unless the first note alone is longer.
    fn make_room(&mut self, length: usize, most: usize) {
        let (len, capacity) = (self.notes.len(), self.notes.capacity());
        if capacity - len < length {
            let least = len + length;
            let twofold = capacity.saturating_mul(2).min(most).max(least);
            self.notes.reserve_exact(twofold - len);
        }
    }

    /// Tells `hot` of all that was noted, and forgets it.
    pub fn hand_over(&mut self, hot: &UpdateTable, keyspace: KeyspaceId) {
        let Some(table) = self.table else { return };
        let mut rest = &self.notes[..];
        while let Some((header, behind)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [l0, l1, b0, b1, b2, b3, seqno @ ..] = *header;
            let (key, behind) = behind.split_at(u16::from_le_bytes([l0, l1]).into());
            let bytes = u32::from_le_bytes([b0, b1, b2, b3]);
            hot.flushed((keyspace, key), u64::from_le_bytes(seqno), table, bytes);
            rest = behind;
        }
        self.notes = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYSPACE: KeyspaceId = KeyspaceId(3);

    /// Guards that nothing known before is lost while a flush writes, and that no older entry of a
    /// key takes the place of its newest.
    #[test]
    fn the_newest_entries_are_told_at_the_end() {
        let (hot, mut notes) = (UpdateTable::new(1 << 20), FlushNotes::default());
        hot.flushed((KEYSPACE, b"a"), 3, TableId(1), 10);
        let entries: [(&[u8], SeqNo); 4] = [(b"", 8), (b"", 2), (b"a", 9), (b"a", 7)];
        for (key, seqno) in entries {
            notes.add(&hot, (KEYSPACE, key), seqno, TableId(5), 10);
        }
        notes.add(&hot, (KEYSPACE, &[b'b'; MAX_HOT_KEY_BYTES + 1]), 9, TableId(5), 10);
        let newest = |key: &[u8]| hot.newest(KEYSPACE, key).map(|it| (it.seqno, it.table.0));
        assert_eq!((newest(b""), newest(b"a")), (None, Some((3, 1))));
        notes.hand_over(&hot, KEYSPACE);
        assert_eq!((newest(b""), newest(b"a")), (Some((8, 5)), Some((9, 5))));
        assert_eq!(hot.stats().keys, 2);
    }

    #[test]
    fn the_memory_of_notes_is_bounded() {
        // A quarter of it is no power of two, to which memory grows by itself.
        let (hot, mut notes) = (UpdateTable::new(72 << 10), FlushNotes::default());
        for number in 0..10_000_u32 {
            let (key, table) = (number.to_be_bytes(), TableId(u64::from(number / 3000)));
            notes.add(&hot, (KEYSPACE, &key), 9, table, 10);
            // An older entry, perhaps after a hand-over.
            notes.add(&hot, (KEYSPACE, &key), 4, table, 10);
            assert!(notes.notes.capacity() <= 18 << 10);
        }
        notes.hand_over(&hot, KEYSPACE);
        let stats = hot.stats();
        assert_eq!(stats.keys + stats.evicted_keys, 10_000);
        let newest = hot.newest(KEYSPACE, &9_999_u32.to_be_bytes()).unwrap();
        assert_eq!((newest.seqno, newest.table), (9, TableId(3)));
    }
}
