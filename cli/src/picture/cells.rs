//! Cells: equal parts of a bar, each with the shares of what it holds in percent.

use cleavedb::SpaceCell;

/// The kinds of content, in the order in which they are drawn, from the bottom and from the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Live,
    Pinned,
    Garbage,
    Log,
    Tree,
    Obsolete,
    Metadata,
    Other,
    Hole,
    Unwritten,
}

impl Holds {
    pub(crate) const ALL: [Holds; 10] = [
        Holds::Live,
        Holds::Pinned,
        Holds::Garbage,
        Holds::Log,
        Holds::Tree,
        Holds::Obsolete,
        Holds::Metadata,
        Holds::Other,
        Holds::Hole,
        Holds::Unwritten,
    ];

    /// Returns the name, as in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Holds::Live => "live",
            Holds::Pinned => "pinned",
            Holds::Garbage => "garbage",
            Holds::Log => "log",
            Holds::Tree => "tree",
            Holds::Obsolete => "obsolete",
            Holds::Metadata => "metadata",
            Holds::Other => "other",
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
            Holds::Tree => "tables: keys, small values, pointers",
            Holds::Obsolete => "replaced files that are still read, or about to go",
            Holds::Metadata => "manifest, settings, relocations",
            Holds::Other => "files of running jobs, and of others",
            Holds::Hole => "given back",
            Holds::Unwritten => "prepared for appends",
        }
    }
}

/// The shares of a cell in percent, by kind of content; together a hundred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MapCell([u8; Holds::ALL.len()]);

impl MapCell {
    /// Returns a cell that holds nothing else.
    pub(super) fn all(holds: Holds) -> MapCell {
        let mut cell = MapCell::default();
        cell.0[holds as usize] = 100;
        cell
    }

    /// Returns a cell of a segment.
    pub(super) fn of(cell: &SpaceCell) -> MapCell {
        let shares = [
            (Holds::Live, cell.live),
            (Holds::Pinned, cell.pinned),
            (Holds::Garbage, cell.garbage),
            (Holds::Log, cell.log),
            (Holds::Hole, cell.hole),
            (Holds::Unwritten, cell.unwritten),
        ];
        let mut cell = MapCell::default();
        shares.iter().for_each(|(holds, share)| cell.0[*holds as usize] = *share);
        cell
    }

    /// Returns the share of one kind.
    pub(super) fn share(&self, holds: Holds) -> u8 {
        self.0[holds as usize]
    }

    /// Returns the kinds that it holds, with their shares.
    pub(super) fn shares(&self) -> impl Iterator<Item = (Holds, u8)> + use<> {
        let shares = self.0;
        Holds::ALL.into_iter().zip(shares).filter(|(_, share)| *share > 0)
    }

    /// Returns the kind with the largest share apart from live values.
    pub(super) fn most_of_the_rest(&self) -> Holds {
        let rest = Holds::ALL[1..].iter().rev();
        // Of equal shares, the kind that is listed first wins, because the more important kinds
        // come first.
        rest.copied().max_by_key(|holds| self.share(*holds)).unwrap_or(Holds::Garbage)
    }
}

/// Merges the cells into at most `most` wider ones.
pub(super) fn merged(cells: &[MapCell], most: usize) -> Vec<MapCell> {
    let count = cells.len().min(most);
    let group =
        |index: usize| &cells[index * cells.len() / count..(index + 1) * cells.len() / count];
    (0..count).map(|index| average(group(index))).collect()
}

/// Returns a bar of `width` cells: merged ones, or each as often as it takes.
pub(super) fn stretched(cells: &[MapCell], width: usize) -> Vec<MapCell> {
    if width <= cells.len() || cells.is_empty() {
        return merged(cells, width);
    }
    (0..width).map(|index| cells[index * cells.len() / width]).collect()
}

fn average(cells: &[MapCell]) -> MapCell {
    let mut average = MapCell::default();
    for holds in Holds::ALL {
        let sum: usize = cells.iter().map(|cell| usize::from(cell.share(holds))).sum();
        average.0[holds as usize] = (sum / cells.len()) as u8;
    }
    // Percents lost by rounding go to the kind with the largest share.
    let left = 100 - average.0.iter().sum::<u8>();
    let rest = average.most_of_the_rest();
    let most = if average.share(Holds::Live) >= average.share(rest) { Holds::Live } else { rest };
    average.0[most as usize] += left;
    average
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(live: u8, pinned: u8, garbage: u8, hole: u8) -> MapCell {
        let mut cell = SpaceCell::default();
        (cell.live, cell.pinned, cell.garbage, cell.hole) = (live, pinned, garbage, hole);
        MapCell::of(&cell)
    }

    #[test]
    fn cells_are_merged_and_stay_whole() {
        let cells: Vec<MapCell> = (0..64).map(|n| cell(n, 30, 70 - n, 0)).collect();
        for most in [1, 2, 7, 63, 64, 100] {
            let merged = merged(&cells, most);
            assert_eq!(merged.len(), most.min(64));
            for cell in merged {
                assert_eq!(cell.shares().map(|(_, share)| share).sum::<u8>(), 100);
                assert!((29..=31).contains(&cell.share(Holds::Pinned)), "{cell:?}");
            }
        }
        assert_eq!(merged(&cells, 64), cells);
        assert_eq!(merged(&[], 9), []);
        assert_eq!(stretched(&cells[..2], 5).iter().filter(|cell| **cell == cells[0]).count(), 3);
        assert_eq!((stretched(&cells, 9).len(), stretched(&[], 9).len()), (9, 0));
        let halves = merged(&[cell(100, 0, 0, 0), cell(0, 0, 1, 99)], 1);
        assert_eq!(halves, [cell(51, 0, 0, 49)]);
    }

    #[test]
    fn the_rest_is_named_by_what_it_mostly_holds() {
        assert_eq!(cell(90, 1, 5, 4).most_of_the_rest(), Holds::Garbage);
        assert_eq!(cell(0, 0, 40, 60).most_of_the_rest(), Holds::Hole);
        assert_eq!(cell(20, 40, 40, 0).most_of_the_rest(), Holds::Pinned);
        assert_eq!(MapCell::all(Holds::Tree).most_of_the_rest(), Holds::Tree);
    }
}
