//! The picture in characters.
//!
//! In colour, a cell is a green block as high as its live share, on the colour of what most of the
//! rest holds, whose letter stands there if nothing is live: colours alone are not told apart by
//! everybody. Without colour, it is a digit for the live share, or a letter for another content.

use super::cells::{Holds, MapCell, stretched};
use super::rows::{MOST_CELLS, MapRow, NAME, rows};
use super::{Caption, parts, spread, totals};
use crate::text::human_bytes;
use cleavedb::SpaceReport;
use std::fmt::Write;

/// Columns of a row before its cells.
const LABEL: usize = NAME + 27;
const FEWEST_CELLS: usize = 8;

/// The characters for a live share of nothing, one eighth, and so on.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LIVE: &str = "32";
const RESET: &str = "\x1b[0m";

/// Draws the picture for a terminal of `width` columns.
pub(crate) fn draw(report: &SpaceReport, caption: &Caption, width: usize, colours: bool) -> String {
    let cells = width.saturating_sub(LABEL).clamp(FEWEST_CELLS, MOST_CELLS);
    let mut out = format!("{}\n{}\n\n", printable(&caption.title()), totals(report));
    let whole = spread(report, cells).into_iter();
    let whole: Vec<MapCell> =
        whole.flat_map(|(holds, from, to)| vec![MapCell::all(holds); to - from]).collect();
    push_row(&mut out, &format!("{:<1$}", "the whole store", LABEL), &whole, colours);
    let rows = rows(report);
    let longest = rows.iter().map(|row| row.length).max().unwrap_or(0);
    let _ = writeln!(
        out,
        "\n{:<NAME$} {:<6} {:>10} {:>6}  {}",
        "name",
        "kind",
        "on disk",
        "live",
        of_length(longest)
    );
    for row in &rows {
        push_row(&mut out, &label(row), &stretched(&row.cells, bar(row, longest, cells)), colours);
    }
    out.push('\n');
    out.push_str(&legend(report, colours));
    out
}

/// Returns how a bar's length is read.
pub(super) fn of_length(longest: u64) -> String {
    format!("a bar is as long as its files are large; the widest is {}", human_bytes(longest))
}

fn label(row: &MapRow) -> String {
    let live = row.live.map_or(String::new(), |live| format!("{live} %"));
    let size = human_bytes(row.allocated);
    format!("{:<NAME$} {:<6} {size:>10} {live:>6}  ", row.name, row.kind)
}

/// Returns the number of cells of a row's bar, at least one if there is anything.
fn bar(row: &MapRow, longest: u64, cells: usize) -> usize {
    let share = row.length as f64 / longest.max(1) as f64;
    (cells as f64 * share).round().max(1.0) as usize
}

fn push_row(out: &mut String, label: &str, cells: &[MapCell], colours: bool) {
    out.push_str(label);
    if colours {
        push_coloured(out, cells);
    } else {
        out.extend(cells.iter().map(letter));
    }
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// Returns the meaning of each mark, with what the store has of it.
fn legend(report: &SpaceReport, colours: bool) -> String {
    let parts = parts(report);
    let size = |holds: Holds| match parts.iter().find(|(kind, _)| *kind == holds) {
        Some((_, bytes)) => human_bytes(*bytes),
        None if holds == Holds::Hole => human_bytes(report.hole_bytes),
        None => String::new(),
    };
    let mut out = String::new();
    for holds in Holds::ALL {
        let letter = rest_letter(holds);
        let mark = match (holds, colours) {
            (Holds::Live, true) => format!("\x1b[{LIVE}m▄█{RESET}"),
            (Holds::Unwritten, _) => "  ".to_owned(),
            (_, true) => format!("\x1b[{}m{letter}{letter}{RESET}", background(holds)),
            (_, false) => format!("{letter} "),
        };
        let (name, size) = (holds.name(), size(holds));
        let _ = writeln!(out, "{mark} {name:<9} {size:>10}  {}", holds.meaning());
    }
    out.push_str(match colours {
        true => "a green block is as high as the share of what is live\n",
        false => "# 95 % and more live  1-9 tenths live  0 hardly live\n",
    });
    out.push_str("log* is the log since the head\n");
    out
}

fn push_coloured(out: &mut String, row: &[MapCell]) {
    let mut now = String::new();
    for cell in row {
        let (live, rest) = (cell.share(Holds::Live), cell.most_of_the_rest());
        let style = match live {
            100 => LIVE.to_owned(),
            0 => background(rest).to_owned(),
            // The green comes last: the background brings a colour for letters.
            _ => format!("{};{LIVE}", background(rest)),
        };
        if style != now {
            let _ = write!(out, "\x1b[0;{style}m");
            now = style;
        }
        let eighths = usize::from(live).div_ceil(12).min(8);
        out.push(match live {
            0 => rest_letter(rest),
            97.. => BLOCKS[8],
            _ => BLOCKS[eighths.min(7)],
        });
    }
    if !row.is_empty() {
        out.push_str(RESET);
    }
}

/// Returns the colours of what is not live: a background, and letters that are read on it.
fn background(holds: Holds) -> &'static str {
    match holds {
        Holds::Live => "42",
        Holds::Pinned => "30;43",
        Holds::Garbage => "97;41",
        Holds::Log => "30;46",
        Holds::Tree => "97;44",
        Holds::Obsolete => "97;45",
        Holds::Metadata => "30;47",
        Holds::Other => "97;100",
        Holds::Hole => "90;49",
        Holds::Unwritten => "49",
    }
}

fn letter(cell: &MapCell) -> char {
    match cell.share(Holds::Live) {
        95..=100 => '#',
        0 => rest_letter(cell.most_of_the_rest()),
        live => char::from(b'0' + ((live + 5) / 10).min(9)),
    }
}

fn rest_letter(holds: Holds) -> char {
    match holds {
        Holds::Live => '#',
        Holds::Pinned => 'p',
        Holds::Garbage => '.',
        Holds::Log => '-',
        Holds::Tree => 't',
        Holds::Obsolete => 'o',
        Holds::Metadata => 'm',
        Holds::Other => '?',
        Holds::Hole => '_',
        Holds::Unwritten => ' ',
    }
}

/// Returns text without what a terminal would take for commands.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// Returns the width of the terminal on standard output, or a page's width if there is none.
pub(crate) fn width() -> usize {
    const USUAL: usize = 100;
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let of_terminal = asked.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
    of_terminal.or(columns).unwrap_or(USUAL)
}

/// Returns true if colours are welcome on a terminal: <https://no-color.org>.
pub(crate) fn may_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests_report::{caption, report};
    use super::*;

    #[test]
    fn plain() {
        let text = draw(&report(), &caption("DB"), 100, false);
        assert_eq!(text, include_str!("golden/map.txt"), "\n{text}");
    }

    #[test]
    fn in_colour() {
        let text = draw(&report(), &caption("D\x1bB"), 100, true);
        let shown = text.replace('\x1b', "^");
        assert_eq!(shown, include_str!("golden/map_coloured.txt"), "\n{shown}");
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        for width in [0, 43, 60, 99, 100, 500] {
            let text = draw(&report(), &caption("DB"), width, false);
            let is_bar = |line: &&str| line.contains(" MiB ") && line.contains(" %");
            assert!(text.lines().filter(is_bar).count() >= 4, "{text}");
            for line in text.lines().filter(is_bar) {
                let columns = line.chars().count();
                assert!(columns <= width.max(LABEL + FEWEST_CELLS), "{width}: {line}");
            }
        }
    }

    /// Rows were all as wide, whatever they stood for.
    #[test]
    fn a_bar_is_as_long_as_it_is_large() {
        let mut report = report();
        report.segments[1].length = 16 << 20;
        let text = draw(&report, &caption("DB"), 200, false);
        let cells = |id: &str| {
            let line = text.lines().find(|line| line.starts_with(id)).unwrap();
            line[LABEL..].chars().count()
        };
        assert_eq!((cells("00000007"), cells("00000012")), (64, 16));
    }
}
