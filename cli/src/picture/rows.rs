//! The rows of the map: segments, alone or several in one row, then tables and relocations.

use super::cells::{Holds, MapCell, merged};
use crate::text::{counted, human_bytes};
use cleavedb::{FileClass, KeyspaceSpace, SegmentSpace, SpaceReport};

/// Segments that have a row each; more share their rows with their neighbours.
const MOST_ROWS: usize = 200;
/// Cells of a row at most, as of a segment.
pub(super) const MOST_CELLS: usize = 64;
/// Letters of a row's name.
pub(super) const NAME: usize = 12;

/// One bar of the map.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MapRow {
    /// The segment's id, or a name, of [`NAME`] letters at most.
    pub(super) name: String,
    pub(super) kind: &'static str,
    /// Bytes that the bar's width stands for.
    pub(super) length: u64,
    /// Bytes on disk.
    pub(super) allocated: u64,
    /// The share of what is live in what is on disk, in percent; `None` if nothing could be.
    pub(super) live: Option<u64>,
    /// A sentence with the numbers.
    pub(super) about: String,
    pub(super) cells: Vec<MapCell>,
}

/// Returns all rows of a report.
pub(super) fn rows(report: &SpaceReport) -> Vec<MapRow> {
    let per_row = report.segments.len().div_ceil(MOST_ROWS).max(1);
    let mut rows: Vec<MapRow> = report.segments.chunks(per_row).map(of_segments).collect();
    let with_tables = report.keyspaces.iter().filter(|keyspace| keyspace.tables > 0);
    rows.extend(with_tables.map(of_tables));
    let relocations = report.classes.iter().find(|class| class.class == FileClass::Relocations);
    rows.extend(relocations.filter(|class| class.files > 0).map(|class| MapRow {
        name: "relocations".into(),
        kind: "",
        length: class.length,
        allocated: class.allocated,
        live: None,
        about: format!(
            "{}, which lead to the moved values of freed segments",
            counted(class.files, "relocation")
        ),
        cells: vec![MapCell::all(Holds::Metadata)],
    }));
    rows
}

/// Returns the row of neighbouring segments.
fn of_segments(segments: &[SegmentSpace]) -> MapRow {
    let sum = |bytes: fn(&SegmentSpace) -> u64| segments.iter().map(bytes).sum::<u64>();
    let (length, allocated) = (sum(|it| it.length), sum(|it| it.allocated));
    let first = &segments[0];
    let mut cells: Vec<MapCell> = Vec::new();
    for segment in segments {
        // Each has cells by its share of the row, as far as cells divide.
        let own: Vec<MapCell> = segment.cells.iter().map(MapCell::of).collect();
        let share = segment.length as f64 / length.max(1) as f64;
        let most = (MOST_CELLS as f64 * share).round() as usize;
        cells.extend(if segments.len() > 1 { merged(&own, most.max(1)) } else { own });
    }
    MapRow {
        name: match segments.len() {
            1 => format!("{:08}", first.id),
            many => format!("{:08}+{}", first.id, many - 1),
        },
        kind: kind(segments),
        length,
        allocated,
        live: Some(percent(sum(|it| it.live_bytes), allocated)),
        about: about(segments),
        cells: merged(&cells, MOST_CELLS),
    }
}

/// Returns the kind of segments; `*` marks the log from the head on.
fn kind(segments: &[SegmentSpace]) -> &'static str {
    let kind_of = |segment: &SegmentSpace| match (segment.sorted, segment.replay) {
        (true, _) => "sorted",
        (false, true) => "log*",
        (false, false) => "log",
    };
    let first = kind_of(&segments[0]);
    if segments.iter().all(|segment| kind_of(segment) == first) { first } else { "mixed" }
}

fn about(segments: &[SegmentSpace]) -> String {
    let sum = |bytes: fn(&SegmentSpace) -> u64| segments.iter().map(bytes).sum::<u64>();
    let who = match segments {
        [one] => format!("segment {}", one.id),
        [first, .., last] => format!("segments {} to {}", first.id, last.id),
        [] => String::new(),
    };
    let mut text = format!(
        "{who}: {} live in {}, {} pinned, {} garbage, {} holes",
        human_bytes(sum(|it| it.live_bytes)),
        counted(sum(|it| it.live_records), "record"),
        human_bytes(sum(|it| it.pinned_bytes)),
        human_bytes(sum(|it| it.garbage_bytes)),
        human_bytes(sum(|it| it.hole_bytes)),
    );
    if let [one] = segments {
        text += &format!("; {}", one.reason);
    }
    if segments.iter().any(|segment| segment.links > 1) {
        text.push_str("; shared with a checkpoint");
    }
    text
}

/// Returns the row of a keyspace's tables. Which entries are stale is known by their number only,
/// so they are drawn at its end.
fn of_tables(keyspace: &KeyspaceSpace) -> MapRow {
    let (bytes, stale) = (keyspace.table_bytes, keyspace.stale_table_bytes());
    let fresh = percent(bytes - stale.min(bytes), bytes);
    let filled = (MOST_CELLS as u64 * fresh).div_ceil(100) as usize;
    let mut cells = vec![MapCell::all(Holds::Tree); filled];
    cells.resize(MOST_CELLS, MapCell::all(Holds::Garbage));
    let name: Vec<char> = keyspace.name.chars().filter(|letter| !letter.is_control()).collect();
    MapRow {
        name: match name.len() {
            ..=NAME => name.into_iter().collect(),
            _ => name[..NAME - 1].iter().chain(['…'].iter()).collect(),
        },
        kind: "tables",
        length: bytes,
        allocated: bytes,
        live: Some(fresh),
        about: format!(
            "keyspace {}: {} in {}, {} of them in entries that nobody sees",
            keyspace.name,
            human_bytes(bytes),
            counted(keyspace.tables, "table"),
            human_bytes(stale)
        ),
        cells,
    }
}

/// Returns a share in percent.
fn percent(part: u64, whole: u64) -> u64 {
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    share.round().min(100.0) as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests_report::report;
    use super::*;

    #[test]
    fn few_segments_have_a_row_each_and_many_share_rows() {
        let mut report = report();
        let own = rows(&report);
        let names: Vec<&str> = own.iter().map(|row| row.name.as_str()).collect();
        let segments = ["00000007", "00000012", "00000021", "00000031", "00000032"];
        assert_eq!(names[..5], segments);
        assert_eq!(names[5..], ["default", "naïve names…", "relocations"]);
        let model = report.segments[1].clone();
        for count in [200, 201, 999, 10_000] {
            report.segments = (0..count)
                .map(|id| {
                    let mut segment = model.clone();
                    segment.id = id;
                    segment.sorted = id % 7 > 0;
                    segment
                })
                .collect();
            let rows = rows(&report);
            let of_segments: Vec<_> = rows.iter().filter(|row| row.kind != "tables").collect();
            let of_segments = &of_segments[..of_segments.len() - 1];
            assert!((100..=200).contains(&of_segments.len()), "{count}");
            assert_eq!(of_segments.iter().map(|row| row.length).sum::<u64>(), count * (64 << 20));
            for row in of_segments {
                assert!(row.cells.len() <= MOST_CELLS && row.name.len() <= NAME, "{row:?}");
                assert_eq!(row.live, Some(100));
            }
        }
        assert_eq!(rows(&report)[1].name, "00000050+49");
        assert_eq!(rows(&report)[1].kind, "mixed");
        assert!(rows(&report)[1].about.starts_with("segments 50 to 99: "));
    }

    /// A large neighbour gets more of the cells than a small one.
    #[test]
    fn cells_of_a_shared_row_go_by_length() {
        let report = report();
        let (mut large, mut small) = (report.segments[1].clone(), report.segments[1].clone());
        large.length = 48 << 20;
        small.length = 16 << 20;
        small.cells.fill(cleavedb::SpaceCell::default());
        small.cells.iter_mut().for_each(|cell| cell.garbage = 100);
        let row = of_segments(&[large, small]);
        let garbage = row.cells.iter().filter(|cell| cell.share(Holds::Garbage) == 100).count();
        assert_eq!((row.cells.len(), garbage), (64, 16));
    }

    #[test]
    fn stale_entries_of_tables_are_drawn_at_the_end() {
        let report = report();
        let row = of_tables(&report.keyspaces[0]);
        assert_eq!((row.kind, row.live), ("tables", Some(75)));
        let trees = row.cells.iter().filter(|cell| cell.share(Holds::Tree) == 100).count();
        assert_eq!((trees, row.cells.len()), (48, 64));
    }
}
