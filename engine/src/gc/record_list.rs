//! The live records of a segment, as a liveness scan lists them. A scan costs as much as there are
//! keys, however few of them it lists. So a list takes little memory, a byte and a quarter for a
//! record in a sorted segment if all have one length, and one scan serves as many segments as
//! possible.

use crate::base::coding::{Reader, put_varint};

/// A live record of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveRecord {
    /// About its rank in the order of keyspaces and keys, among all records of the liveness scan.
    pub rank: u64,
    /// Length of the record in bytes.
    pub length: u32,
    /// Offset in the segment.
    pub offset: u64,
}

impl LiveRecord {
    /// Returns the offset behind the record. I7: both numbers may come from a damaged pointer.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length.into())
    }
}

/// Of the ranks, one in so many is kept, and those between are interpolated. Where several segments
/// are merged, the order of keys is then off by a few records of each, which costs readers nothing.
const RANK_EVERY: usize = 32;

/// Records in the order of their keys.
///
/// Of each the list has the gap between the one before and it. That is a number of times its length
/// if neighbours of the same length are dead, and is encoded as such a number, which mostly fits in
/// one byte with two flags. In the log, where keys are in no order, it may be negative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordList {
    encoded: Vec<u8>,
    /// The ranks of the first record and of each `RANK_EVERY`th behind it.
    ranks: Vec<u64>,
    count: usize,
    record_bytes: u64,
    last: LiveRecord,
    /// The longest gap before a record.
    widest_gap: u64,
    /// True if a record lies before the one that comes before it.
    goes_back: bool,
}

/// The length is another than that of the record before, and follows.
const OTHER_LENGTH: u64 = 1;
/// The gap is no multiple of the length, and follows.
const OTHER_GAP: u64 = 2;
const FLAG_BITS: u32 = 2;

impl RecordList {
    /// Appends a record, whose rank is above those of all others.
    pub fn push(&mut self, record: LiveRecord) {
        let LiveRecord { rank, length, offset } = record;
        assert!(
            rank > self.last.rank || self.count == 0,
            "the rank {rank} comes behind {}",
            self.last.rank
        );
        let gap = offset.wrapping_sub(wrapped_end(self.last));
        let times = gap / u64::from(length.max(1));
        let is_multiple = times.checked_mul(length.into()) == Some(gap) && times < 1 << 32;
        let mut number = if is_multiple { times << FLAG_BITS } else { OTHER_GAP };
        if length != self.last.length {
            number |= OTHER_LENGTH;
        }
        put_varint(&mut self.encoded, number);
        if number & OTHER_LENGTH != 0 {
            put_varint(&mut self.encoded, length.into());
        }
        if number & OTHER_GAP != 0 {
            put_varint(&mut self.encoded, to_zigzag(gap));
        }
        if self.count.is_multiple_of(RANK_EVERY) {
            self.ranks.push(rank);
        }
        // I7: places may come from a damaged relocation, so that they wrap around.
        match offset.checked_sub(self.last.end()) {
            Some(gap) => self.widest_gap = self.widest_gap.max(gap),
            None => self.goes_back = true,
        }
        self.count += 1;
        self.record_bytes = self.record_bytes.saturating_add(length.into());
        self.last = record;
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there is no record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of memory that the list takes.
    pub fn memory_bytes(&self) -> usize {
        self.encoded.len() + size_of_val(&self.ranks[..])
    }

    /// Returns the sum of the lengths of all records.
    pub fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// Returns true if the records are in the order of their places, too.
    pub fn is_in_place(&self) -> bool {
        !self.goes_back
    }

    /// Returns the longest gap before a record, and before the end of a segment of `sealed` bytes,
    /// if the records are in the order of their places.
    pub fn widest_gap(&self, sealed: u64) -> u64 {
        debug_assert!(self.is_in_place(), "a gap is between neighbours by place");
        self.widest_gap.max(sealed.saturating_sub(wrapped_end(self.last)))
    }

    /// Iterates over the records in the order of their keys, and so of their ranks.
    pub fn iter(&self) -> RecordIter<'_> {
        let encoded = Reader::new(&self.encoded);
        RecordIter { list: self, encoded, number: 0, last: LiveRecord::default() }
    }

    /// Returns the rank of the record with this number, as far as it is known.
    fn rank(&self, number: usize) -> u64 {
        let (group, behind) = (number / RANK_EVERY, number % RANK_EVERY);
        let first = self.ranks[group];
        let (next, steps) = match self.ranks.get(group + 1) {
            Some(&next) => (next, RANK_EVERY),
            None => (self.last.rank, (self.count - 1 - group * RANK_EVERY).max(1)),
        };
        let (span, behind, steps) = (next - first, behind as u64, steps as u64);
        // Where the product has no room, the quotient is precise enough.
        first + span.checked_mul(behind).map_or_else(|| span / steps * behind, |it| it / steps)
    }
}

impl FromIterator<LiveRecord> for RecordList {
    fn from_iter<I: IntoIterator<Item = LiveRecord>>(records: I) -> Self {
        let mut list = RecordList::default();
        records.into_iter().for_each(|record| list.push(record));
        list
    }
}

/// Returns the offset behind a record, from which gaps are encoded. I7: both numbers may come from
/// a damaged pointer, and a gap leads back to the same one whatever they are.
fn wrapped_end(record: LiveRecord) -> u64 {
    record.offset.wrapping_add(record.length.into())
}

/// Returns a number that is small if the difference `gap` is near zero, on either side.
fn to_zigzag(gap: u64) -> u64 {
    let sign = (gap.cast_signed() >> 63).cast_unsigned();
    gap << 1 ^ sign
}

fn from_zigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// The iterator of [`RecordList::iter`].
pub struct RecordIter<'a> {
    list: &'a RecordList,
    encoded: Reader<'a>,
    number: usize,
    last: LiveRecord,
}

impl Iterator for RecordIter<'_> {
    type Item = LiveRecord;

    fn next(&mut self) -> Option<LiveRecord> {
        if self.encoded.is_empty() {
            return None;
        }
        let mut decode = || self.encoded.varint().expect("a list is decoded as it was encoded");
        let number = decode();
        let length = if number & OTHER_LENGTH != 0 { decode() as u32 } else { self.last.length };
        let gap = match number & OTHER_GAP != 0 {
            true => from_zigzag(decode()),
            false => (number >> FLAG_BITS) * u64::from(length),
        };
        let (rank, offset) =
            (self.list.rank(self.number), wrapped_end(self.last).wrapping_add(gap));
        self.number += 1;
        self.last = LiveRecord { rank, length, offset };
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;

    #[test]
    fn records_come_back_where_they_were() {
        let (env, _) = Env::simulated(3);
        let random = || env.random.next_u64();
        for count in [0, 1, 2, 31, 32, 33, 1000] {
            let (mut rank, mut end, mut records) = (0, 0, Vec::new());
            for number in 0..count {
                rank += random() % 300 + u64::from(number > 0);
                let (offset, length) = match random() % 8 {
                    0 => (random(), random() as u32),
                    1 => (random() % 5000, (random() % 3) as u32),
                    2 => (end, (random() % 5000) as u32),
                    _ => (end + 1100 * (random() % 3), 1100),
                };
                end = offset.wrapping_add(length.into()) % (1 << 40);
                records.push(LiveRecord { rank, length, offset });
            }
            let list: RecordList = records.iter().copied().collect();
            let place = |it: LiveRecord| (it.offset, it.length);
            assert!(list.iter().map(place).eq(records.iter().copied().map(place)), "{count}");
            assert_eq!((list.len(), list.is_empty()), (count, count == 0));
            let bytes: u64 = records.iter().map(|it| u64::from(it.length)).sum();
            assert_eq!(list.record_bytes(), bytes);
            let ranks: Vec<u64> = list.iter().map(|it| it.rank).collect();
            assert!(ranks.is_sorted_by(|a, b| a < b), "a list is a list of its own records");
            for (record, rank) in records.iter().zip(ranks) {
                assert!(rank.abs_diff(record.rank) < 300 * RANK_EVERY as u64);
            }
            assert_eq!(list, list.iter().collect(), "what is left of a list is one");
        }
    }

    #[test]
    fn i07_the_greatest_numbers_have_room() {
        let most = LiveRecord { rank: u64::MAX, length: u32::MAX, offset: u64::MAX };
        let at = |rank| LiveRecord { rank, ..most };
        let list: RecordList = [at(0), most].into_iter().collect();
        assert!(list.iter().eq([at(0), most]));
        let far = LiveRecord { rank: 1, length: 1, offset: u64::MAX - 1 };
        let near = LiveRecord { rank: 0, length: 1, offset: 0 };
        let list: RecordList = [near, far].into_iter().collect();
        assert!(list.iter().eq([near, far]), "a great number of times the length");
        let list: RecordList = [at(0), at(1), at(2), most].into_iter().collect();
        let third = u64::MAX / 3;
        assert!(list.iter().eq([at(0), at(third), at(2 * third), most]));
    }

    /// Half of the records of a sorted segment, which has every hundredth key.
    #[test]
    fn a_record_takes_little_more_than_a_byte() {
        let (env, _) = Env::simulated(5);
        let is_live = |_: &u64| env.random.next_u64() & 1 == 1;
        let record = |n: u64| LiveRecord { rank: 100 * n, length: 1060, offset: 1060 * n };
        let list: RecordList = (0..60_000).filter(is_live).map(record).collect();
        assert!(4 * list.memory_bytes() <= 5 * list.len() + 40, "{} bytes", list.memory_bytes());
    }
}
