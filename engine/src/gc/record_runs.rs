//! Divides the records that a relocation copies: into parts that fit in memory, and a part into
//! runs of neighbours that one read covers. Pure.

use crate::base::size::FILE_BLOCK_BYTES;
use crate::gc::record_list::LiveRecord;

/// The most bytes of one read, unless one record is longer.
const READ_BYTES: usize = 1 << 20;

/// The longest gap in bytes that is read over, because that takes less time than another read.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// A record that is listed as live in one of the sources.
#[derive(Clone, Copy)]
pub struct RecordToMove {
    /// The index of its source.
    pub source: usize,
    /// The record itself.
    pub record: LiveRecord,
}

/// Records are copied by ranges of keys if a part has at least so many bytes of each stretch of a
/// source that is in the order of keys. With less, gaps would be read over, or reads be short.
const LEAST_SLICE_BYTES: u64 = 2 * MAX_GAP_BYTES;

/// Divides the records into parts that are copied one after the other, each in the order of places.
pub fn parts(items: &mut [RecordToMove], most_bytes: u64) -> Vec<&mut [RecordToMove]> {
    let by_place = |item: &RecordToMove| (item.source, item.record.offset);
    items.sort_unstable_by_key(by_place);
    let is_break = |pair: &&[RecordToMove]| {
        pair[0].source != pair[1].source || pair[0].record.rank > pair[1].record.rank
    };
    let stretches = 1 + items.windows(2).filter(is_break).count() as u64;
    // Gaps that are read over take memory, too: about as much as the records at most.
    let most = most_bytes / 2;
    let bytes = |items: &[RecordToMove]| -> u64 {
        items.iter().map(|item| u64::from(item.record.length)).sum()
    };
    let all = bytes(items);
    let slice = u128::from(all / stretches) * u128::from(most) / u128::from(all.max(1));
    if all <= most || slice < LEAST_SLICE_BYTES.into() {
        return vec![items];
    }
    items.sort_unstable_by_key(|item| item.record.rank);
    let (mut parts, mut rest) = (Vec::new(), items);
    while !rest.is_empty() {
        let mut sum = 0;
        let mut fits = |item: &RecordToMove| {
            sum += u64::from(item.record.length);
            sum <= most
        };
        let count = rest.iter().take_while(|item| fits(item)).count().max(1);
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(count);
        part.sort_unstable_by_key(by_place);
        parts.push(part);
        rest = behind;
    }
    parts
}

/// Neighbouring records of one segment, which one read covers.
pub struct RecordRun<'a> {
    /// The records, in the order of their places.
    pub items: &'a [RecordToMove],
    /// The index of their source.
    pub source: usize,
    /// The offset in the segment where the read begins, at the beginning of a block.
    pub start: u64,
    /// Number of bytes from there to the end of the last record.
    pub needed: usize,
    /// Bytes of the records themselves.
    live: usize,
}

impl<'a> RecordRun<'a> {
    fn of(items: &'a [RecordToMove]) -> RecordRun<'a> {
        let first = &items[0];
        debug_assert!(
            items.iter().all(|item| item.source == first.source),
            "one read is of one segment"
        );
        let start = first.record.offset - first.record.offset % FILE_BLOCK_BYTES;
        // I7: by a damaged pointer, a record may end behind the next one.
        let needed =
            (items.iter().map(|item| item.record.end()).max().unwrap_or(start) - start) as usize;
        let live = items.iter().map(|item| item.record.length as usize).sum();
        RecordRun { items, source: first.source, start, needed, live }
    }

    /// Returns the number of bytes of the read, which are whole blocks.
    pub fn len(&self) -> usize {
        self.needed.next_multiple_of(FILE_BLOCK_BYTES as usize)
    }

    /// Returns true if the records stay where they were read. If they were pushed together each
    /// time, all that is moved would be copied once more.
    fn is_dense(&self) -> bool {
        self.live >= self.needed / 2
    }

    /// Returns the number of bytes of memory that the records take for as long as the chunk is in
    /// use.
    pub fn kept(&self) -> usize {
        let bytes = if self.is_dense() { self.needed } else { self.live };
        bytes.next_multiple_of(FILE_BLOCK_BYTES as usize)
    }

    /// Calls `place` with each record and its start in `bytes`, to the beginning of which the run
    /// was read.
    pub fn place(&self, bytes: &mut [u8], mut place: impl FnMut(RecordToMove, usize)) {
        let mut end = 0;
        for item in self.items {
            let LiveRecord { offset, length, .. } = item.record;
            let (mut start, len) = ((offset - self.start) as usize, length as usize);
            if !self.is_dense() {
                bytes.copy_within(start..start + len, end);
                (start, end) = (end, end + len);
            }
            place(*item, start);
        }
    }
}

/// Divides records, which are in the order of place, into runs.
pub struct RecordRuns<'a> {
    /// The records that are left.
    pub rest: &'a [RecordToMove],
}

impl<'a> RecordRuns<'a> {
    /// Returns the next runs that fit in `most` bytes of memory while they are read, at least one
    /// if there is one.
    pub fn next_chunk(&mut self, most: u64) -> Vec<RecordRun<'a>> {
        let (mut chunk, mut kept) = (Vec::new(), 0);
        while let Some((run, behind)) = self.split() {
            if !chunk.is_empty() && (kept + run.len()) as u64 > most {
                break;
            }
            kept += run.kept();
            chunk.push(run);
            self.rest = behind;
        }
        chunk
    }

    /// Returns the next run, and the records behind it.
    fn split(&self) -> Option<(RecordRun<'a>, &'a [RecordToMove])> {
        let first = self.rest.first()?;
        let mut last_end = first.record.offset;
        let apart = self.rest.iter().position(|item| {
            let is_far =
                item.source != first.source || item.record.offset > last_end + MAX_GAP_BYTES;
            last_end = last_end.max(item.record.end());
            let is_first = item.record.offset == first.record.offset;
            is_far || !is_first && last_end - first.record.offset > READ_BYTES as u64
        });
        let (run, behind) = self.rest.split_at(apart.unwrap_or(self.rest.len()));
        Some((RecordRun::of(run), behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns records of two segments: one of `length` bytes every `step` bytes.
    fn items(count: u64, length: u32, step: u64) -> Vec<RecordToMove> {
        let record = |rank| LiveRecord { rank, length, offset: rank * step };
        let of = |source| move |rank| RecordToMove { source, record: record(rank) };
        (0..count).map(of(0)).chain((0..count).map(of(1))).collect()
    }

    fn bytes(items: &[RecordToMove]) -> u64 {
        items.iter().map(|item| u64::from(item.record.length)).sum()
    }

    /// Parts by place left a sorted segment in as many runs as there were parts.
    #[test]
    fn what_lies_in_the_order_of_keys_is_divided_by_keys() {
        let mut items = items(3000, 1000, 1500);
        items.reverse();
        let all = bytes(&items);
        assert_eq!(parts(&mut items.clone(), 2 * all).len(), 1, "all fits");
        let parts = parts(&mut items, 1 << 20);
        assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), 6000);
        assert!(parts.len() > 10 && parts.iter().all(|part| bytes(part) <= 512 << 10));
        for pair in parts.windows(2) {
            let last = pair[0].iter().map(|item| item.record.rank).max();
            assert!(last <= pair[1].iter().map(|item| item.record.rank).min());
        }
        let by_place = |item: &RecordToMove| (item.source, item.record.offset);
        assert!(parts.iter().all(|part| part.is_sorted_by_key(by_place)));
    }

    #[test]
    fn what_lies_in_any_order_is_divided_by_place() {
        let mut items = items(3000, 1000, 1500);
        items.iter_mut().for_each(|item| item.record.rank = item.record.rank * 677 % 3000);
        let parts = parts(&mut items, 1 << 20);
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [6000]);
    }

    /// A part by keys has a record that is larger than memory, too.
    #[test]
    fn a_record_that_is_longer_than_a_part_is_one() {
        let mut items = items(7, 5 << 20, 6 << 20);
        assert!(parts(&mut items, 1 << 20).iter().all(|part| part.len() == 1));
    }

    /// A record whose pointer is damaged was cut off at the end of the next one.
    #[test]
    fn i07_a_record_that_ends_behind_the_next_one_is_read_as_a_whole() {
        let item = |offset, length| RecordToMove {
            source: 0,
            record: LiveRecord { rank: offset, length, offset },
        };
        let items = [item(4096, 5000), item(5096, 100)];
        let run = RecordRun::of(&items);
        assert_eq!((run.start, run.needed), (4096, 5000));
        let mut bytes = vec![7; run.len()];
        run.place(&mut bytes, |item, start| {
            assert!(start + item.record.length as usize <= run.kept());
        });
    }

    #[test]
    fn chunks_fit_in_memory_and_have_all_records() {
        let cases =
            [(3000, 1000, 1000), (3000, 1000, 3000), (40, 1000, 100_000), (7, 5 << 20, 6 << 20)];
        for (count, length, step) in cases {
            let items = items(count, length, step);
            for most in [32 << 10, 1 << 20, 2 << 20, 16 << 20, 1 << 40] {
                let (mut runs, mut seen, mut chunks) = (RecordRuns { rest: &items }, Vec::new(), 0);
                loop {
                    let chunk = runs.next_chunk(most);
                    let Some(last) = chunk.last() else { break };
                    chunks += 1;
                    let before: usize = chunk[..chunk.len() - 1].iter().map(RecordRun::kept).sum();
                    let fits = (before + last.len()) as u64 <= most;
                    assert!(fits || chunk.len() == 1, "{length} every {step} in {most}");
                    let place = |item: &RecordToMove| (item.source, item.record.offset);
                    seen.extend(chunk.iter().flat_map(|run| run.items).map(place));
                }
                let all: Vec<_> = items.iter().map(|it| (it.source, it.record.offset)).collect();
                assert!(seen == all, "{} of {} records", seen.len(), all.len());
                assert!(most < 1 << 40 || chunks == 1);
            }
        }
    }
}
