//! The picture of a segment: the file in equal parts, with the share of each kind of content in
//! each.

use crate::base::size::FILE_BLOCK_BYTES;
use crate::space::report::SpaceCell;

/// The most parts that a picture has.
const MAX_CELLS: u64 = 64;
/// The least bytes of a part: a file system's block.
const MIN_CELL_BYTES: u64 = FILE_BLOCK_BYTES;

/// A builder that sums up the ranges of one file.
pub(super) struct Cells {
    length: u64,
    live: Vec<u64>,
    pinned: Vec<u64>,
}

impl Cells {
    /// Creates the sums for a file of this length, with nothing seen yet.
    pub(super) fn new(length: u64) -> Self {
        let count = length.div_ceil(MIN_CELL_BYTES).min(MAX_CELLS) as usize;
        Cells { length, live: vec![0; count], pinned: vec![0; count] }
    }

    /// Adds a record that reads see now, or that only snapshots see.
    pub(super) fn add(&mut self, offset: u64, length: u64, only_by_snapshots: bool) {
        let into = if only_by_snapshots { &mut self.pinned } else { &mut self.live };
        spread(self.length, into, offset, length);
    }

    /// Returns the cells. What is not seen, not in a hole and before `written` is garbage, or
    /// `log`.
    pub(super) fn finish(self, holes: &[(u64, u64)], written: u64, is_log: bool) -> Vec<SpaceCell> {
        let count = self.live.len();
        let (mut hole, mut unwritten) = (vec![0; count], vec![0; count]);
        for &(offset, length) in holes {
            spread(self.length, &mut hole, offset, length);
        }
        spread(self.length, &mut unwritten, written, self.length.saturating_sub(written));
        let cell = |index: usize| {
            let bytes =
                start_of(self.length, count, index + 1) - start_of(self.length, count, index);
            let mut left = 100;
            let mut share = |part: u64| {
                let percent = percent(part, bytes).min(left);
                left -= percent;
                percent
            };
            let mut cell = SpaceCell {
                live: share(self.live[index]),
                pinned: share(self.pinned[index]),
                hole: share(hole[index]),
                unwritten: share(unwritten[index]),
                ..SpaceCell::default()
            };
            *if is_log { &mut cell.log } else { &mut cell.garbage } = left;
            let shares = [cell.live, cell.pinned, cell.hole, cell.unwritten, cell.log];
            debug_assert_eq!(
                shares.iter().sum::<u8>() + cell.garbage,
                100,
                "the shares of a part add up to all of it"
            );
            cell
        };
        (0..count).map(cell).collect()
    }
}

/// Returns a rounded percentage, but at least 1 for any part that is not 0.
fn percent(part: u64, whole: u64) -> u8 {
    if part == 0 {
        return 0;
    }
    let rounded = (part as f64 * 100.0 / whole.max(1) as f64).round();
    (rounded as u8).clamp(1, 100)
}

/// Returns the offset where part `index` of `count` begins.
fn start_of(length: u64, count: usize, index: usize) -> u64 {
    (u128::from(length) * index as u128 / count.max(1) as u128) as u64
}

/// Adds the bytes of a range to the parts of the file that they fall in; bytes behind the file's
/// end are left out.
fn spread(length: u64, parts: &mut [u64], offset: u64, bytes: u64) {
    let end = offset.saturating_add(bytes).min(length);
    if offset >= end {
        return;
    }
    let before: u64 = parts.iter().sum();
    let count = parts.len();
    let first = (u128::from(offset) * count as u128 / u128::from(length)) as usize;
    for (index, part) in parts.iter_mut().enumerate().skip(first) {
        let (from, to) = (start_of(length, count, index), start_of(length, count, index + 1));
        if from >= end {
            break;
        }
        *part += end.min(to).saturating_sub(offset.max(from));
    }
    debug_assert_eq!(parts.iter().sum::<u64>() - before, end - offset, "each byte is in one part");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(live: u8, pinned: u8, garbage: u8, hole: u8, unwritten: u8) -> SpaceCell {
        SpaceCell { live, pinned, garbage, log: 0, hole, unwritten }
    }

    #[test]
    fn records_fall_into_the_parts_they_cover() {
        let mut cells = Cells::new(4 * 4096);
        cells.add(4096 - 1024, 2048, false);
        cells.add(2 * 4096, 1024, true);
        cells.add(3 * 4096, 9 * 4096, false);
        let finished = cells.finish(&[(2 * 4096 + 2048, 2048)], 3 * 4096 + 2048, false);
        let expected = [
            cell(25, 0, 75, 0, 0),
            cell(25, 0, 75, 0, 0),
            cell(0, 25, 25, 50, 0),
            // A record behind the written end is one that is still in a buffer.
            cell(100, 0, 0, 0, 0),
        ];
        assert_eq!(finished, expected);
    }

    #[test]
    fn any_length_adds_up() {
        for length in [0, 1, 4095, 4096, 4097, 70_000, (64 << 20) + 7, u64::MAX >> 1] {
            let mut cells = Cells::new(length);
            let count = cells.live.len() as u64;
            assert!(count <= 64 && count * 4096 <= length.saturating_add(4095));
            cells.add(0, length / 2, false);
            cells.add(length / 2, length - length / 2, true);
            let sum: u64 = cells.live.iter().chain(&cells.pinned).sum();
            assert_eq!(sum, length);
            for cell in cells.finish(&[], length, true) {
                assert_eq!(
                    u32::from(cell.live) + u32::from(cell.pinned) + u32::from(cell.log),
                    100
                );
            }
        }
    }

    #[test]
    fn the_least_record_shows() {
        let mut cells = Cells::new(64 << 20);
        cells.add(5 << 20, 90, false);
        let cells = cells.finish(&[], 64 << 20, false);
        assert_eq!(cells[5], cell(1, 0, 99, 0, 0));
        assert_eq!(cells[6], cell(0, 0, 100, 0, 0));
    }
}
