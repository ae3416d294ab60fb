//! The picture as a self-contained SVG file. Each cell is a stack with the live share at the
//! bottom. Tooltips show the numbers. Kinds of content differ in colour and, for those who see no
//! difference in these, in pattern; the colours are those of Okabe and Ito, and follow the reader's
//! dark or light mode.

use super::cells::{Holds, MapCell};
use super::rows::{MapRow, NAME, rows};
use super::terminal::of_length;
use super::{Caption, parts, spread, totals};
use crate::text::human_bytes;
use cleavedb::SpaceReport;
use std::fmt::Write;

const MARGIN: usize = 16;
const LABEL: usize = 288;
const CELLS: usize = 640;
const ROW: usize = 20;
const BAR: usize = 16;
const WIDTH: usize = MARGIN + LABEL + CELLS + MARGIN;
/// Where the bar of the whole store, the legend, the head of the map and its rows begin.
const WHOLE: usize = 62;
const LEGEND: usize = WHOLE + 38;
const HEAD: usize = LEGEND + 62;
const TOP: usize = HEAD + 10;
/// Kinds in a line of the legend.
const LEGEND_COLUMNS: usize = 5;
/// Pixels that the smallest bar has.
const LEAST: usize = 2;

/// Colours on a light page and on a dark one.
const STYLE: &str = "<style>\n\
    text{fill:#222;font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;\
    white-space:pre}\n\
    .page{fill:#fff}.title{font-size:16px}.dim{fill:#666}.frame{fill:none;stroke:#bbb}\n\
    .live{fill:#009e73}.pinned{fill:#e69f00}.garbage{fill:#d55e00}.log{fill:#56b4e9}\n\
    .tree{fill:#0072b2}.obsolete{fill:#cc79a7}.metadata{fill:#999}.other{fill:#555}\n\
    .hole{fill:#eceff1}.unwritten{fill:#f8f9fa}.mark{stroke:#fff;stroke-opacity:.55;fill:none}\n\
    .hollow{stroke:#b0b6ba;fill:none}\n\
    @media (prefers-color-scheme:dark){\n\
    .page{fill:#14171a}text{fill:#e4e6e8}.dim{fill:#9aa0a6}.frame{stroke:#4a5056}\n\
    .mark{stroke:#14171a}.hole{fill:#262b30}.unwritten{fill:#1b1f23}.hollow{stroke:#565d64}}\n\
    </style>\n";

/// Returns the lines that tell a kind from the others without colour, on a tile of eight by eight.
fn pattern(holds: Holds) -> &'static str {
    match holds {
        Holds::Live => "",
        Holds::Pinned => "M-2 2L2 -2M0 8L8 0M6 10L10 6",
        Holds::Garbage => "M0 0L8 8M0 8L8 0",
        Holds::Log => "M0 4H8",
        Holds::Tree => "M4 0V8",
        Holds::Obsolete => "M-2 6L2 10M0 0L8 8M6 -2L10 2",
        Holds::Metadata => "M1.5 2H3.5M5.5 6H7.5",
        Holds::Other => "M0 4H8M4 0V8",
        Holds::Hole => "M3.5 4H4.5",
        Holds::Unwritten => "",
    }
}

fn push_patterns(out: &mut String) {
    out.push_str("<defs>\n");
    for holds in Holds::ALL {
        let (name, lines) = (holds.name(), pattern(holds));
        let mark = if holds == Holds::Hole { "hollow" } else { "mark" };
        let _ = writeln!(
            out,
            "<pattern id=\"of-{name}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
             <rect class=\"{name}\" width=\"8\" height=\"8\"/>\
             <path class=\"{mark}\" d=\"{lines}\"/></pattern>"
        );
    }
    out.push_str("</defs>\n");
}

/// Draws the picture.
pub(crate) fn draw(report: &SpaceReport, caption: &Caption) -> String {
    let rows = rows(report);
    let height = TOP + rows.len() * ROW + ROW + MARGIN;
    let title = escaped(&caption.title());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" xml:space=\"preserve\" role=\"img\" \
         aria-label=\"{title}\">\n\
         <title>{title}</title>\n{STYLE}"
    );
    push_patterns(&mut out);
    let _ = write!(
        out,
        "<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"28\"{}>{title}</text>\n\
         <text class=\"dim\" x=\"{MARGIN}\" y=\"48\">{}</text>\n",
        fitted(caption.title().chars().count()),
        escaped(&totals(report))
    );
    push_whole(&mut out, report);
    push_legend(&mut out, report);
    push_head(&mut out, &rows);
    let longest = rows.iter().map(|row| row.length).max().unwrap_or(0);
    for (index, row) in rows.iter().enumerate() {
        push_row(&mut out, row, longest, TOP + index * ROW);
    }
    let _ = writeln!(
        out,
        "<text class=\"dim\" x=\"{MARGIN}\" y=\"{}\">log* is the log since the head; \
         of segments, live is the share of what is on disk</text>",
        TOP + rows.len() * ROW + 16
    );
    out.push_str("</svg>\n");
    out
}

/// Returns the attributes that squeeze a title into the page if it has too many letters.
fn fitted(letters: usize) -> String {
    let width = WIDTH - 2 * MARGIN;
    match letters * 10 > width {
        true => format!(" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\""),
        false => String::new(),
    }
}

/// Draws what the whole store holds as one bar.
fn push_whole(out: &mut String, report: &SpaceReport) {
    let width = WIDTH - 2 * MARGIN;
    let bytes = parts(report);
    for (holds, from, to) in spread(report, width) {
        let of_kind = bytes.iter().find(|(kind, _)| *kind == holds).map_or(0, |(_, bytes)| *bytes);
        let share = of_kind as f64 * 100.0 / report.allocated.max(1) as f64;
        let _ = writeln!(
            out,
            "<g><title>{}: {}, {share:.0} %: {}</title><rect fill=\"url(#of-{0})\" x=\"{}\" \
             y=\"{WHOLE}\" width=\"{}\" height=\"22\"/></g>",
            holds.name(),
            human_bytes(of_kind),
            holds.meaning(),
            MARGIN + from,
            to - from
        );
    }
    let _ = writeln!(
        out,
        "<rect class=\"frame\" x=\"{MARGIN}\" y=\"{WHOLE}\" width=\"{width}\" height=\"22\"/>"
    );
}

/// Draws the legend, with what the store has of each kind.
fn push_legend(out: &mut String, report: &SpaceReport) {
    let bytes = parts(report);
    for (index, holds) in Holds::ALL.into_iter().enumerate() {
        let x = MARGIN + index % LEGEND_COLUMNS * (WIDTH - 2 * MARGIN) / LEGEND_COLUMNS;
        let y = LEGEND + index / LEGEND_COLUMNS * 18;
        let of_kind = bytes.iter().find(|(kind, _)| *kind == holds).map(|(_, bytes)| *bytes);
        let of_kind = match holds {
            Holds::Hole => Some(report.hole_bytes),
            _ => of_kind,
        };
        let size = of_kind.map_or(String::new(), |bytes| format!(" {}", human_bytes(bytes)));
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect fill=\"url(#of-{name})\" x=\"{x}\" y=\"{y}\" width=\"14\" \
             height=\"12\"/><rect class=\"frame\" x=\"{x}\" y=\"{y}\" width=\"14\" height=\"12\"/>\
             <text x=\"{}\" y=\"{}\">{name}{size}</text></g>",
            holds.meaning(),
            x + 20,
            y + 10,
            name = holds.name()
        );
    }
}

fn push_head(out: &mut String, rows: &[MapRow]) {
    let longest = rows.iter().map(|row| row.length).max().unwrap_or(0);
    let columns = format!("{:<NAME$} {:<6} {:>10} {:>6}", "name", "kind", "on disk", "live");
    let _ = writeln!(
        out,
        "<text class=\"dim\" x=\"{MARGIN}\" y=\"{HEAD}\">{columns}</text>\
         <text class=\"dim\" x=\"{}\" y=\"{HEAD}\">{}</text>",
        MARGIN + LABEL,
        of_length(longest)
    );
}

fn push_row(out: &mut String, row: &MapRow, longest: u64, y: usize) {
    let live = row.live.map_or(String::new(), |live| format!("{live} %"));
    let size = human_bytes(row.allocated);
    let label = format!("{:<NAME$} {:<6} {size:>10} {live:>6}", row.name, row.kind);
    let _ = writeln!(
        out,
        "<g><title>{}</title><text x=\"{MARGIN}\" y=\"{}\">{}</text></g>",
        escaped(&row.about),
        y + 12,
        escaped(&label)
    );
    let share = row.length as f64 / longest.max(1) as f64;
    let width = ((CELLS as f64 * share).round() as usize).max(LEAST);
    let count = row.cells.len();
    let mut first = 0;
    // Equal neighbours are drawn as one, so that a file of hundreds of rows stays small.
    for run in row.cells.chunk_by(|one, other| one == other) {
        let end = first + run.len();
        let x = |cell: usize| MARGIN + LABEL + cell * width / count;
        if x(end) > x(first) {
            let _ = write!(out, "<g><title>{}</title>", escaped(&tooltip(row, first, end)));
            push_stack(out, &run[0], x(first), y, x(end) - x(first));
            out.push_str("</g>\n");
        }
        first = end;
    }
}

fn push_stack(out: &mut String, cell: &MapCell, x: usize, y: usize, width: usize) {
    let mut below = 0;
    for (holds, share) in cell.shares() {
        // Heights are in hundredths, so that the parts of a stack meet.
        let at = |percent: usize| y as f64 + BAR as f64 * (100 - percent) as f64 / 100.0;
        let top = below + usize::from(share);
        let (from, to) = (at(below), at(top));
        let _ = write!(
            out,
            "<rect fill=\"url(#of-{})\" x=\"{x}\" y=\"{to:.2}\" width=\"{width}\" \
             height=\"{:.2}\"/>",
            holds.name(),
            from - to
        );
        below = top;
    }
}

/// Returns the tooltip for cells `first` to `end`.
fn tooltip(row: &MapRow, first: usize, end: usize) -> String {
    let count = row.cells.len() as u64;
    let at = |cell: usize| human_bytes(row.length / count * cell as u64);
    let mut text = format!("{}, {} to {}:", row.name, at(first), at(end));
    for (holds, share) in row.cells[first].shares() {
        let _ = write!(text, " {} {share} %", holds.name());
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
    use super::super::tests_report::{caption, report};
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
        let svg = draw(&report(), &caption("a<b>&\"c\"\x1b"));
        assert!(check_tags(&svg) > 200);
        assert!(svg.contains(
            "<title>Space of a&lt;b&gt;&amp;&quot;c&quot;, 2026-11-25 04:40:45Z</title>"
        ));
        assert!(svg.contains(
            "256.0 MiB on disk, 128.0 MiB live, amplification 2.00, \
             settles at 153.6 MiB, ceiling 384.0 MiB"
        ));
        // A row of equal cells is one bar over the whole width.
        assert!(svg.contains("00000012, 0 B to 64.0 MiB: live 100 %</title>"));
        assert!(svg.contains(&format!("width=\"{CELLS}\" height=\"16.00\"/></g>")));
        let hole = "00000021, 16.0 MiB to 32.0 MiB: live 3 % hole 97 %</title>";
        assert!(svg.contains(hole));
        assert!(svg.contains("&quot;more&quot;; shared with a checkpoint</title>"));
        // What is not in segments is there as well.
        assert!(svg.contains("keyspace naïve names &lt;of&gt; people: 2.0 MiB in 1 table"));
        assert!(svg.contains(">relocations "));
        assert!(svg.contains("<title>tree: 10.0 MiB, 4 %: "));
    }

    /// Two kinds of which one must be told from the other differ in more than the colour.
    #[test]
    fn kinds_differ_without_colour() {
        let mut patterns: Vec<&str> = Holds::ALL.into_iter().map(pattern).collect();
        patterns.retain(|lines| !lines.is_empty());
        // Live is plain and unwritten is the page.
        assert_eq!(patterns.len(), Holds::ALL.len() - 2);
        patterns.sort_unstable();
        patterns.dedup();
        assert_eq!(patterns.len(), Holds::ALL.len() - 2);
    }

    #[test]
    fn a_store_without_segments_is_a_picture_too() {
        assert!(check_tags(&draw(&SpaceReport::default(), &caption("DB"))) > 10);
    }
}
