//! The segment map as a self-contained SVG file. Each cell is a stack with the live share at the
//! bottom. Tooltips show the numbers; colours follow the reader's dark or light mode.

use super::{Holds, kind, live_percent, shares};
use crate::text::human_bytes;
use cleavedb::{SegmentSpace, SpaceCell, SpaceReport};
use std::fmt::Write;

const MARGIN: usize = 16;
const LABEL: usize = 252;
const CELLS: usize = 640;
const ROW: usize = 20;
const BAR: usize = 16;
const TOP: usize = 96;
const WIDTH: usize = MARGIN + LABEL + CELLS + MARGIN;

/// Colours by kind of content, on a light page and on a dark one.
const STYLE: &str = "<style>\n\
    text{fill:#222;font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px}\n\
    .page{fill:#fff}.title{font-size:16px}.dim{fill:#666}\n\
    .live{fill:#2a9d5c}.pinned{fill:#e0a100}.garbage{fill:#d1495b}.log{fill:#3f7fd6}\n\
    .hole{fill:#dfe3e6}.unwritten{fill:#f4f5f6}\n\
    @media (prefers-color-scheme:dark){\n\
    .page{fill:#14171a}text{fill:#e4e6e8}.dim{fill:#9aa0a6}\n\
    .live{fill:#3fbf76}.garbage{fill:#e0596b}.hole{fill:#363c42}.unwritten{fill:#1f2327}}\n\
    </style>\n";

/// Draws the map of the database called `name`.
pub(crate) fn draw(report: &SpaceReport, name: &str) -> String {
    let height = TOP + report.segments.len() * ROW + MARGIN;
    let title = escaped(&format!("Space of {name}"));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" xml:space=\"preserve\" role=\"img\" \
         aria-label=\"{title}\">\n\
         <title>{title}</title>\n{STYLE}\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"28\">{title}</text>\n\
         <text class=\"dim\" x=\"{MARGIN}\" y=\"48\">{}</text>\n",
        escaped(&summary(report))
    );
    push_legend(&mut out);
    for (index, segment) in report.segments.iter().enumerate() {
        push_row(&mut out, segment, TOP + index * ROW);
    }
    out.push_str("</svg>\n");
    out
}

fn summary(report: &SpaceReport) -> String {
    let (disk, live) = (human_bytes(report.allocated), human_bytes(report.live_bytes));
    let mut text = format!("{disk} on disk, {live} live");
    if let Some(amplification) = report.amplification() {
        let _ = write!(text, ", amplification {amplification:.2}");
    }
    if let (Some(settled), Some(ceiling)) = (report.settled_bytes, report.ceiling_bytes) {
        let _ =
            write!(text, ", settles at {}, ceiling {}", human_bytes(settled), human_bytes(ceiling));
    }
    text
}

fn push_legend(out: &mut String) {
    let mut x = MARGIN;
    for holds in Holds::ALL {
        let (name, meaning) = (holds.name(), holds.meaning());
        let _ = writeln!(
            out,
            "<g><title>{meaning}</title><rect class=\"{name}\" x=\"{x}\" y=\"62\" width=\"12\" \
             height=\"12\"/><text x=\"{}\" y=\"72\">{name}</text></g>",
            x + 18
        );
        x += 105;
    }
    let text = "log* is the log since the head";
    let _ = writeln!(out, "<text class=\"dim\" x=\"{x}\" y=\"72\">{text}</text>");
}

fn push_row(out: &mut String, segment: &SegmentSpace, y: usize) {
    let (id, size) = (segment.id, human_bytes(segment.allocated));
    let label = format!("{id:08} {:<6} {size:>10} {:>3} %", kind(segment), live_percent(segment));
    let _ = writeln!(
        out,
        "<g><title>{}</title><text x=\"{MARGIN}\" y=\"{}\">{label}</text></g>",
        escaped(&about(segment)),
        y + 12
    );
    let count = segment.cells.len();
    let mut first = 0;
    // Equal neighbours are drawn as one, so that a file of thousands of rows stays small.
    for run in segment.cells.chunk_by(|one, other| one == other) {
        let end = first + run.len();
        let x = |cell: usize| MARGIN + LABEL + cell * CELLS / count;
        let _ = write!(out, "<g><title>{}</title>", tooltip(segment, first, end));
        push_stack(out, &run[0], x(first), y, x(end) - x(first));
        out.push_str("</g>\n");
        first = end;
    }
}

fn push_stack(out: &mut String, cell: &SpaceCell, x: usize, y: usize, width: usize) {
    let mut below = 0;
    for (holds, share) in shares(cell).into_iter().filter(|(_, share)| *share > 0) {
        // Heights are in hundredths, so that the parts of a stack meet.
        let at = |percent: usize| y as f64 + BAR as f64 * (100 - percent) as f64 / 100.0;
        let top = below + usize::from(share);
        let (from, to) = (at(below), at(top));
        let _ = write!(
            out,
            "<rect class=\"{}\" x=\"{x}\" y=\"{to:.2}\" width=\"{width}\" height=\"{:.2}\"/>",
            holds.name(),
            from - to
        );
        below = top;
    }
}

fn about(segment: &SegmentSpace) -> String {
    let mut text = format!(
        "segment {}: {} live in {} records, {} pinned, {} garbage, {} holes; {}",
        segment.id,
        human_bytes(segment.live_bytes),
        segment.live_records,
        human_bytes(segment.pinned_bytes),
        human_bytes(segment.garbage_bytes),
        human_bytes(segment.hole_bytes),
        segment.reason
    );
    if segment.links > 1 {
        text.push_str("; shared with a checkpoint");
    }
    text
}

/// Returns the tooltip for cells `first` to `end`.
fn tooltip(segment: &SegmentSpace, first: usize, end: usize) -> String {
    let count = segment.cells.len() as u64;
    let at = |cell: usize| human_bytes(segment.length / count * cell as u64);
    let mut text = format!("segment {}, {} to {}:", segment.id, at(first), at(end));
    for (holds, share) in shares(&segment.cells[first]) {
        if share > 0 {
            let _ = write!(text, " {} {share} %", holds.name());
        }
    }
    text
}

/// Escapes text for use between tags and in quotes, and drops characters that XML can't hold.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests_report::report;
    use super::*;

    /// Checks that each tag is closed, in order; returns the number of tags.
    fn check_tags(svg: &str) -> usize {
        let mut open: Vec<&str> = Vec::new();
        let mut count = 0;
        for part in svg.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("a tag ends");
            assert!(!text.contains('"') && !text.contains(['\x00', '\x1b']), "{text}");
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(name);
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            count += 1;
        }
        assert!(open.is_empty(), "{open:?}");
        count
    }

    #[test]
    fn every_cell_is_drawn_once() {
        let svg = draw(&report(), "a<b>&\"c\"\x1b");
        assert!(check_tags(&svg) > 200);
        assert!(svg.contains("<title>Space of a&lt;b&gt;&amp;&quot;c&quot;</title>"));
        assert!(svg.contains(
            "256.0 MiB on disk, 128.0 MiB live, amplification 2.00, \
             settles at 153.6 MiB, ceiling 384.0 MiB"
        ));
        // A row of equal cells is one bar over the whole width.
        assert!(svg.contains("segment 12, 0 B to 64.0 MiB: live 100 %</title>"));
        assert!(svg.contains(&format!("width=\"{CELLS}\" height=\"16.00\"/></g>")));
        let hole = "segment 21, 16.0 MiB to 32.0 MiB: live 3 % hole 97 %</title>";
        assert!(svg.contains(hole));
        assert!(svg.contains("&quot;more&quot;; shared with a checkpoint</title>"));
    }

    #[test]
    fn a_store_without_segments_is_a_picture_too() {
        let mut nothing = report();
        nothing.segments.clear();
        assert!(check_tags(&draw(&nothing, "DB")) > 10);
    }
}
