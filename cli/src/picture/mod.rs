//! The segment map as a picture: a row for each segment, a cell for each part of it, coloured by
//! content. [`terminal`] draws it with characters, [`svg`] as a file for a browser.

pub(crate) mod svg;
pub(crate) mod terminal;
#[cfg(test)]
pub(crate) mod tests_report;

use cleavedb::{SegmentSpace, SpaceCell};

/// The kinds of content of a cell, in the order in which they are drawn, from the bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Live,
    Pinned,
    Garbage,
    Log,
    Hole,
    Unwritten,
}

impl Holds {
    pub(crate) const ALL: [Holds; 6] =
        [Holds::Live, Holds::Pinned, Holds::Garbage, Holds::Log, Holds::Hole, Holds::Unwritten];

    /// Returns the name, as in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Holds::Live => "live",
            Holds::Pinned => "pinned",
            Holds::Garbage => "garbage",
            Holds::Log => "log",
            Holds::Hole => "hole",
            Holds::Unwritten => "unwritten",
        }
    }

    /// Returns the explanation, for the legend.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Holds::Live => "values that reads see",
            Holds::Pinned => "values that only snapshots and iterators see",
            Holds::Garbage => "what nobody sees",
            Holds::Log => "needed until a flush",
            Holds::Hole => "given back",
            Holds::Unwritten => "prepared for appends",
        }
    }
}

/// Returns the shares of a cell in percent, by kind of content.
pub(crate) fn shares(cell: &SpaceCell) -> [(Holds, u8); 6] {
    let parts = [cell.live, cell.pinned, cell.garbage, cell.log, cell.hole, cell.unwritten];
    let mut shares = Holds::ALL.map(|holds| (holds, 0));
    for (share, part) in shares.iter_mut().zip(parts) {
        share.1 = part;
    }
    shares
}

/// Returns the kind with the largest share of a cell apart from live values.
pub(crate) fn most_of_the_rest(cell: &SpaceCell) -> Holds {
    let rest = &shares(cell)[1..];
    // Of equal shares, the kind that is listed first wins, because the more important kinds come
    // first.
    rest.iter().rev().max_by_key(|(_, share)| *share).map_or(Holds::Garbage, |(holds, _)| *holds)
}

/// Merges the cells into at most `most` wider ones.
pub(crate) fn merged(cells: &[SpaceCell], most: usize) -> Vec<SpaceCell> {
    let count = cells.len().min(most);
    let group =
        |index: usize| &cells[index * cells.len() / count..(index + 1) * cells.len() / count];
    (0..count).map(|index| average(group(index))).collect()
}

fn average(cells: &[SpaceCell]) -> SpaceCell {
    let mean = |share: fn(&SpaceCell) -> u8| {
        let sum: usize = cells.iter().map(|cell| usize::from(share(cell))).sum();
        (sum / cells.len()) as u8
    };
    let mut cell = SpaceCell::default();
    cell.live = mean(|cell| cell.live);
    cell.pinned = mean(|cell| cell.pinned);
    cell.garbage = mean(|cell| cell.garbage);
    cell.log = mean(|cell| cell.log);
    cell.hole = mean(|cell| cell.hole);
    cell.unwritten = mean(|cell| cell.unwritten);
    // Percents lost by rounding go to the kind with the largest share.
    let left = 100 - shares(&cell).iter().map(|(_, share)| share).sum::<u8>();
    let [live, rest] =
        [cell.live, shares(&cell).iter().skip(1).map(|(_, s)| *s).max().unwrap_or(0)];
    let most = if live >= rest { Holds::Live } else { most_of_the_rest(&cell) };
    *match most {
        Holds::Live => &mut cell.live,
        Holds::Pinned => &mut cell.pinned,
        Holds::Garbage => &mut cell.garbage,
        Holds::Log => &mut cell.log,
        Holds::Hole => &mut cell.hole,
        Holds::Unwritten => &mut cell.unwritten,
    } += left;
    cell
}

/// Returns the kind of a segment; `*` marks the log from the head on.
pub(crate) fn kind(segment: &SegmentSpace) -> &'static str {
    match (segment.sorted, segment.replay) {
        (true, _) => "sorted",
        (false, true) => "log*",
        (false, false) => "log",
    }
}

/// Returns the live share of a segment's allocated bytes, in percent.
pub(crate) fn live_percent(segment: &SegmentSpace) -> u64 {
    let share = segment.live_bytes as f64 * 100.0 / segment.allocated.max(1) as f64;
    share.round().min(100.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(live: u8, pinned: u8, garbage: u8, hole: u8) -> SpaceCell {
        let mut cell = SpaceCell::default();
        (cell.live, cell.pinned, cell.garbage, cell.hole) = (live, pinned, garbage, hole);
        cell
    }

    #[test]
    fn cells_are_merged_and_stay_whole() {
        let cells: Vec<SpaceCell> = (0..64).map(|n| cell(n, 30, 70 - n, 0)).collect();
        for most in [1, 2, 7, 63, 64, 100] {
            let merged = merged(&cells, most);
            assert_eq!(merged.len(), most.min(64));
            for cell in merged {
                assert_eq!(shares(&cell).iter().map(|(_, share)| share).sum::<u8>(), 100);
                assert!((29..=31).contains(&cell.pinned), "{cell:?}");
            }
        }
        assert_eq!(merged(&cells, 64), cells);
        assert_eq!(merged(&[], 9), []);
        let halves = merged(&[cell(100, 0, 0, 0), cell(0, 0, 1, 99)], 1);
        assert_eq!(halves, [cell(51, 0, 0, 49)]);
    }

    #[test]
    fn the_rest_is_named_by_what_it_mostly_holds() {
        assert_eq!(most_of_the_rest(&cell(90, 1, 5, 4)), Holds::Garbage);
        assert_eq!(most_of_the_rest(&cell(0, 0, 40, 60)), Holds::Hole);
        assert_eq!(most_of_the_rest(&cell(20, 40, 40, 0)), Holds::Pinned);
    }
}
