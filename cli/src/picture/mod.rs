//! The space of a store as a picture: a bar of the whole, and below it a bar for each segment, for
//! the tables of each keyspace, and for relocations, each as long as it is large and coloured by
//! content. [`terminal`] draws it with characters, [`svg`] as a file for a browser.

mod cells;
mod rows;
pub(crate) mod svg;
pub(crate) mod terminal;
#[cfg(test)]
pub(crate) mod tests_report;

use crate::text::{counted, human_bytes};
use crate::time::date;
use cells::Holds;
use cleavedb::SpaceReport;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a picture shows besides the report.
pub(crate) struct Caption {
    /// The database's path.
    pub(crate) path: String,
    /// When the report was made, since 1970.
    pub(crate) at: Duration,
}

impl Caption {
    /// Returns the caption of a report that was just made.
    pub(crate) fn now(path: String) -> Caption {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Caption { path, at }
    }

    /// Returns the first line: whose space it is, and when it was so.
    fn title(&self) -> String {
        format!("Space of {}, {}", self.path, date(self.at))
    }
}

/// Returns the totals in a line.
fn totals(report: &SpaceReport) -> String {
    let (disk, live) = (human_bytes(report.allocated), human_bytes(report.live_bytes));
    let mut text = format!("{disk} on disk, {live} live");
    if let Some(amplification) = report.amplification() {
        text += &format!(", amplification {amplification:.2}");
    }
    if let (Some(settled), Some(ceiling)) = (report.settled_bytes, report.ceiling_bytes) {
        text += &format!(", settles at {}, ceiling {}", human_bytes(settled), human_bytes(ceiling));
    }
    let tables = report.keyspaces.iter().map(|keyspace| keyspace.tables).sum();
    let segments = counted(report.segments.len() as u64, "segment");
    text + &format!("; {segments}, {}", counted(tables, "table"))
}

/// Returns the bytes that the store has of each kind; they add up to what is allocated.
fn parts(report: &SpaceReport) -> [(Holds, u64); 8] {
    let parts = &report.parts;
    [
        (Holds::Live, parts.live),
        (Holds::Pinned, parts.pinned),
        (Holds::Garbage, parts.garbage),
        (Holds::Log, parts.log),
        (Holds::Tree, parts.tree),
        (Holds::Obsolete, parts.obsolete),
        (Holds::Metadata, parts.metadata),
        (Holds::Other, parts.other),
    ]
}

/// Returns where each part of the whole begins and ends on a bar of `width` units, without those
/// that there are none of. They touch, and the last one ends at the end.
fn spread(report: &SpaceReport, width: usize) -> Vec<(Holds, usize, usize)> {
    let parts = parts(report);
    let whole: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let at = |bytes: u64| (bytes as f64 * width as f64 / whole.max(1) as f64).round() as usize;
    let mut before = 0;
    let mut spread = Vec::new();
    for (holds, bytes) in parts.into_iter().filter(|(_, bytes)| *bytes > 0) {
        spread.push((holds, at(before), at(before + bytes)));
        before += bytes;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::tests_report::{caption, report};
    use super::*;

    #[test]
    fn the_bar_of_the_whole_has_no_gaps() {
        let report = report();
        for width in [1, 10, 64, 908] {
            let spread = spread(&report, width);
            assert_eq!((spread[0].1, spread[spread.len() - 1].2), (0, width));
            assert!(spread.windows(2).all(|pair| pair[0].2 == pair[1].1), "{spread:?}");
        }
        assert_eq!(spread(&SpaceReport::default(), 64), []);
    }

    #[test]
    fn the_caption_says_whose_and_when() {
        assert_eq!(caption("DB").title(), "Space of DB, 2026-11-25 04:40:45Z");
        let totals = totals(&report());
        assert!(totals.ends_with("ceiling 384.0 MiB; 5 segments, 5 tables"), "{totals}");
    }
}
