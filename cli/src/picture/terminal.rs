//! The segment map in characters.
//!
//! In colour, a cell is a green block as high as its live share, on the colour of what most of the
//! rest holds. Without colour, it is a digit for the live share, or a letter for another content.

use super::{Holds, kind, live_percent, merged, most_of_the_rest};
use crate::text::human_bytes;
use cleavedb::{SpaceCell, SpaceReport};
use std::fmt::Write;

/// Columns of a row before its cells.
const LABEL: usize = 35;
const FEWEST_CELLS: usize = 8;
const MOST_CELLS: usize = 64;

/// The characters for a live share of nothing, one eighth, and so on.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LIVE: &str = "32";
const RESET: &str = "\x1b[0m";

/// Draws the map for a terminal of `width` columns.
pub(crate) fn draw(report: &SpaceReport, width: usize, colours: bool) -> String {
    let cells = width.saturating_sub(LABEL).clamp(FEWEST_CELLS, MOST_CELLS);
    let mut out = String::new();
    let _ = writeln!(out, "{:<8} {:<6} {:>10} {:>6}  map", "segment", "kind", "on disk", "live");
    for segment in &report.segments {
        let size = human_bytes(segment.allocated);
        let (kind, live) = (kind(segment), live_percent(segment));
        let _ = write!(out, "{:08} {kind:<6} {size:>10} {live:>4} %  ", segment.id);
        let row = merged(&segment.cells, cells);
        if colours {
            push_coloured(&mut out, &row);
        } else {
            out.extend(row.iter().map(letter));
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
    out.push('\n');
    out.push_str(&legend(colours));
    out
}

fn legend(colours: bool) -> String {
    let mut out = String::new();
    if colours {
        let _ = writeln!(out, "\x1b[{LIVE}m▁▄█{RESET} live: as high as its share");
    } else {
        out.push_str("# live: 95 % and more  1-9: tenths live  0: hardly live\n");
    }
    for holds in &Holds::ALL[1..] {
        let mark = match (holds, colours) {
            (Holds::Unwritten, _) => "blank".to_owned(),
            (_, true) => format!("\x1b[{}m  {RESET}", background(*holds)),
            (_, false) => rest_letter(*holds).to_string(),
        };
        let _ = writeln!(out, "{mark} {}: {}", holds.name(), holds.meaning());
    }
    out.push_str("log* is the log since the head\n");
    out
}

fn push_coloured(out: &mut String, row: &[SpaceCell]) {
    let mut now = String::new();
    for cell in row {
        let style = match cell.live {
            100 => LIVE.to_owned(),
            _ => format!("{LIVE};{}", background(most_of_the_rest(cell))),
        };
        if style != now {
            let _ = write!(out, "\x1b[0;{style}m");
            now = style;
        }
        let eighths = usize::from(cell.live).div_ceil(12).min(8);
        out.push(BLOCKS[if cell.live < 97 { eighths.min(7) } else { 8 }]);
    }
    if !row.is_empty() {
        out.push_str(RESET);
    }
}

/// Returns the colour of the background behind the live share.
fn background(holds: Holds) -> &'static str {
    match holds {
        Holds::Live => "42",
        Holds::Pinned => "43",
        Holds::Garbage => "41",
        Holds::Log => "44",
        Holds::Hole => "100",
        Holds::Unwritten => "49",
    }
}

fn letter(cell: &SpaceCell) -> char {
    match cell.live {
        95..=100 => '#',
        0 => rest_letter(most_of_the_rest(cell)),
        live => char::from(b'0' + ((live + 5) / 10).min(9)),
    }
}

fn rest_letter(holds: Holds) -> char {
    match holds {
        Holds::Live => '#',
        Holds::Pinned => 'p',
        Holds::Garbage => '.',
        Holds::Log => '-',
        Holds::Hole => '_',
        Holds::Unwritten => ' ',
    }
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
    use super::super::tests_report::report;
    use super::*;

    #[test]
    fn plain() {
        let text = draw(&report(), 100, false);
        assert_eq!(text, include_str!("golden/map.txt"), "\n{text}");
    }

    #[test]
    fn in_colour() {
        let text = draw(&report(), 100, true);
        let shown = text.replace('\x1b', "^");
        assert_eq!(shown, include_str!("golden/map_coloured.txt"), "\n{shown}");
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        for width in [0, 43, 60, 99, 100, 500] {
            for line in draw(&report(), width, false).lines().take(report().segments.len() + 1) {
                let columns = line.chars().count();
                assert!(columns <= width.max(LABEL + FEWEST_CELLS), "{width}: {line}");
            }
        }
    }
}
