//! Rows of styled text, which know their width, and become escape codes only at the end.

/// The looks of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// As the terminal has it.
    Plain,
    /// A heading.
    Strong,
    /// A label, less important than the number beside it.
    Faint,
    /// All is well.
    Good,
    /// Look at it.
    Warning,
    /// Act on it.
    Bad,
    /// A bar across the screen.
    Bar,
    /// The live part of a segment, on garbage.
    Cell,
}

impl Look {
    fn code(self) -> &'static str {
        match self {
            Look::Plain => "0",
            Look::Strong => "1",
            Look::Faint => "2",
            Look::Good => "32",
            Look::Warning => "33",
            Look::Bad => "1;31",
            Look::Bar => "7",
            Look::Cell => "32;41",
        }
    }
}

/// A row of the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row(Vec<(Look, String)>);

impl Row {
    /// Returns a row of one piece.
    pub(crate) fn of(look: Look, text: impl Into<String>) -> Row {
        Row::default().and(look, text)
    }

    /// Adds a piece.
    pub(crate) fn and(mut self, look: Look, text: impl Into<String>) -> Row {
        self.0.push((look, shown(&text.into())));
        self
    }

    /// Adds a plain piece.
    pub(crate) fn plain(self, text: impl Into<String>) -> Row {
        self.and(Look::Plain, text)
    }

    /// Returns the number of columns.
    #[cfg(test)]
    pub(crate) fn width(&self) -> usize {
        self.0.iter().flat_map(|(_, text)| text.chars()).map(columns).sum()
    }

    /// Cuts the row, or fills it with blanks, so that it has `width` columns.
    pub(crate) fn fitted(mut self, width: usize) -> Row {
        let mut left = width;
        let mut is_cut = false;
        for (_, text) in &mut self.0 {
            let letters = std::mem::take(text);
            for letter in letters.chars() {
                is_cut |= columns(letter) > left;
                if !is_cut {
                    left -= columns(letter);
                    text.push(letter);
                }
            }
        }
        let look = self.0.last().map_or(Look::Plain, |(look, _)| *look);
        let look = if look == Look::Bar { Look::Bar } else { Look::Plain };
        self.0.push((look, " ".repeat(left)));
        self
    }

    /// Joins two rows, the second from column `at` on.
    pub(crate) fn beside(self, at: usize, other: Row) -> Row {
        let mut row = self.fitted(at);
        row.0.extend(other.0);
        row
    }

    /// Appends the row to `out`, with escape codes if colours are wanted.
    pub(crate) fn push_to(&self, out: &mut String, colours: bool) {
        for (look, text) in &self.0 {
            if text.is_empty() {
                continue;
            }
            if *look == Look::Plain || !colours {
                out.push_str(text);
            } else {
                out.push_str("\x1b[");
                out.push_str(look.code());
                out.push('m');
                out.push_str(text);
                out.push_str("\x1b[0m");
            }
        }
    }
}

/// Returns text of another process without what could change the terminal or the order of columns:
/// control characters, marks of direction, and letters without a column of their own.
fn shown(text: &str) -> String {
    text.chars().map(|letter| if is_odd(letter) { '\u{fffd}' } else { letter }).collect()
}

fn is_odd(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the columns that a letter takes: two for those of East Asia and for pictures.
fn columns(letter: char) -> usize {
    let is_wide = matches!(letter,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{303e}' | '\u{3041}'..='\u{a4cf}'
        | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f000}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}');
    if is_wide { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_width_that_is_wanted_and_no_foreign_codes() {
        let row = Row::of(Look::Strong, "ab").plain("cd\x1b[2J");
        assert_eq!(row.width(), 8);
        for width in [0, 1, 3, 8, 20] {
            assert_eq!(row.clone().fitted(width).width(), width);
        }
        let wide = Row::of(Look::Plain, "\u{8868}\u{202e}e\u{301}\u{1f600}").plain("x");
        assert_eq!(wide.width(), 8);
        for width in 0..12 {
            assert_eq!(wide.clone().fitted(width).width(), width);
        }
        let mut plain = String::new();
        row.clone().beside(10, Row::of(Look::Bad, "x")).push_to(&mut plain, false);
        assert_eq!(plain, "abcd\u{fffd}[2J  x");
        let mut coloured = String::new();
        row.push_to(&mut coloured, true);
        assert_eq!(coloured, "\x1b[1mab\x1b[0mcd\u{fffd}[2J");
    }
}
