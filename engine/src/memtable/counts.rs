//! What the entries of a memtable hold, and what of it newer entries of the same memtable hide.

use crate::base::entry::Slot;
use crate::base::pointer::SegmentId;
use std::collections::BTreeMap;

/// The bytes of the entries with inline values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InlineBytes {
    /// Bytes of their keys.
    pub keys: u64,
    /// Bytes of their values.
    pub values: u64,
    /// Those bytes of both that only snapshots can see, because newer entries of the memtable hide
    /// them.
    pub hidden: u64,
}

impl InlineBytes {
    /// Returns the bytes of keys and values that no newer entry of the memtable hides.
    pub fn visible(&self) -> u64 {
        (self.keys + self.values).saturating_sub(self.hidden)
    }
}

/// The bytes of the records of one segment that entries point to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordBytes {
    /// The number of all of them.
    pub count: u64,
    /// The bytes of all of them.
    pub all: u64,
    /// The bytes of those that only snapshots can see, because newer entries of the memtable hide
    /// their entries.
    pub hidden: u64,
}

/// Shorter inline values do not count as put: usual thresholds separate none, and there may be very
/// many of them. The memtable knows no threshold, so what lies between the two counts.
const COUNTED_BYTES: usize = 256;

/// What is absorbed is kept for each doubling of what was put from so many bytes on.
const FIRST_MARK_BYTES: u64 = 64 << 10;

/// Values that were put into a memtable, wherever they are, and what of them gets to no table,
/// because newer entries of the memtable hide it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AbsorbedBytes {
    /// Bytes of values, short ones excepted, and of records.
    pub put: u64,
    /// Those of them that are hidden.
    pub absorbed: u64,
}

/// The counts that insertions keep.
#[derive(Default)]
pub(super) struct EntryCounts {
    /// The bytes of the records that entries point to, by segment.
    pub(super) records: BTreeMap<SegmentId, RecordBytes>,
    pub(super) inline: InlineBytes,
    /// What was put, and how much of it is hidden.
    absorbed: AbsorbedBytes,
    /// How much was hidden when so much was put as [`FIRST_MARK_BYTES`], twice as much, and so on.
    marks: Vec<u64>,
}

impl EntryCounts {
    /// Counts an entry that is inserted.
    pub(super) fn add(&mut self, key: &[u8], slot: Slot<'_>) {
        match slot {
            Slot::Inline(value) => {
                self.inline.keys += key.len() as u64;
                self.inline.values += value.len() as u64;
            }
            Slot::Pointer(pointer) => {
                let records = self.records.entry(pointer.segment).or_default();
                records.count += 1;
                records.all += u64::from(pointer.length);
            }
            Slot::Delete => {}
        }
        self.absorbed.put += bytes_of(slot);
        while self.absorbed.put >= FIRST_MARK_BYTES << self.marks.len() {
            self.marks.push(self.absorbed.absorbed);
        }
    }

    /// Counts an entry that the one to be inserted next hides.
    pub(super) fn hide(&mut self, key: &[u8], slot: Slot<'_>) {
        match slot {
            Slot::Inline(value) => self.inline.hidden += (key.len() + value.len()) as u64,
            Slot::Pointer(pointer) => {
                let records = self.records.entry(pointer.segment).or_default();
                records.hidden += u64::from(pointer.length);
            }
            Slot::Delete => {}
        }
        self.absorbed.absorbed += bytes_of(slot);
    }

    /// Returns what was put, and how much of it memtables with all values would have absorbed that
    /// are full with `room_bytes` bytes. One with pointers holds many times as many entries as such
    /// a memtable, and far more of them are hidden; so its beginning tells, up to a mark.
    pub(super) fn absorbed(&self, room_bytes: u64) -> AbsorbedBytes {
        let AbsorbedBytes { put, absorbed } = self.absorbed;
        let fitting = (room_bytes / FIRST_MARK_BYTES).checked_ilog2().unwrap_or(0) as usize;
        match self.marks.get(fitting) {
            Some(hidden) if put > room_bytes => {
                let share = *hidden as f64 / (FIRST_MARK_BYTES << fitting) as f64;
                AbsorbedBytes { put, absorbed: (put as f64 * share) as u64 }
            }
            _ => AbsorbedBytes { put, absorbed },
        }
    }
}

/// Returns the bytes of the value or record of an entry, as far as they count.
fn bytes_of(slot: Slot<'_>) -> u64 {
    match slot {
        Slot::Inline(value) if value.len() >= COUNTED_BYTES => value.len() as u64,
        Slot::Pointer(pointer) => pointer.length.into(),
        Slot::Inline(_) | Slot::Delete => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pointer::ValuePointer;

    #[test]
    fn the_beginning_tells_what_smaller_memtables_absorb_wherever_values_are() {
        let length = 1 << 10;
        let pointer = ValuePointer { segment: SegmentId(7), offset: 0, length };
        for slot in [Slot::Inline(&[1; 1 << 10]), Slot::Pointer(pointer)] {
            let mut counts = EntryCounts::default();
            let kib = |absorbed: AbsorbedBytes| (absorbed.put >> 10, absorbed.absorbed >> 10);
            for number in 0..1000 {
                // A quarter is hidden at first, and then all.
                if number % 4 == 3 || number >= 256 {
                    counts.hide(b"key", slot);
                }
                counts.add(b"key", slot);
                if number == 99 {
                    assert_eq!(kib(counts.absorbed(64 << 10)), (100, 25));
                    assert_eq!(kib(counts.absorbed(1 << 30)), (100, 25), "all that is there");
                }
            }
            let of_room = |kib: u64| counts.absorbed(kib << 10).absorbed >> 10;
            assert_eq!([0, 1, 64, 255].map(of_room), [250; 4]);
            assert_eq!([256, 511].map(of_room), [250; 2]);
            assert_eq!([512, 999].map(of_room), [(64 + 256) * 1000 / 512; 2]);
            assert_eq!([1000, 1 << 30].map(of_room), [64 + 744; 2]);
        }
    }

    #[test]
    fn short_values_and_deletions_are_not_put() {
        let mut counts = EntryCounts::default();
        for slot in [Slot::Inline(&[1; COUNTED_BYTES - 1]), Slot::Delete] {
            counts.add(b"key", slot);
            counts.hide(b"key", slot);
        }
        assert_eq!(counts.absorbed(1 << 20), AbsorbedBytes::default());
        counts.add(b"key", Slot::Inline(&[1; COUNTED_BYTES]));
        counts.hide(b"key", Slot::Inline(&[1; COUNTED_BYTES]));
        let bytes = COUNTED_BYTES as u64;
        assert_eq!(counts.absorbed(1 << 20), AbsorbedBytes { put: bytes, absorbed: bytes });
    }
}
