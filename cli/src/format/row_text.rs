//! The text below rows of columns: it goes to their parser line by line, each with a newline at its
//! end, so that the line of a row is known, and a quote that nothing closes shows.

use csv::ByteRecord;
use std::io::{self, BufRead, Read};

/// A text that is read line by line. The parser's buffer has at most one line of it, so the line
/// that was read last is the one where the last row ended.
pub(super) struct RowText {
    text: Box<dyn BufRead>,
    /// True if a carriage return at the end of a line is no part of it.
    pub(super) strips_returns: bool,
    line: Vec<u8>,
    /// Bytes of the line that the parser has.
    taken: usize,
    /// Lines read so far.
    lines: u64,
    is_over: bool,
}

impl RowText {
    pub(super) fn new(text: Box<dyn BufRead>, strips_returns: bool) -> Self {
        RowText { text, strips_returns, line: Vec::new(), taken: 0, lines: 0, is_over: false }
    }

    /// Returns true if the row that was read last has a quote that is not closed: every other row
    /// ends at a newline, before its parser asks for more than there is.
    pub(super) fn is_unclosed(&self) -> bool {
        self.is_over
    }

    /// Returns the line where the row begins that was read last.
    pub(super) fn line_of(&self, row: &ByteRecord) -> u64 {
        let within = row.as_slice().iter().filter(|&&byte| byte == b'\n').count() as u64;
        // Without a closing quote, the newline that ends the last line is within the row, too.
        (self.lines + u64::from(self.is_over)).saturating_sub(within)
    }

    fn next_line(&mut self) -> io::Result<()> {
        self.line.clear();
        self.taken = 0;
        if self.is_over || self.text.read_until(b'\n', &mut self.line)? == 0 {
            self.is_over = true;
            return Ok(());
        }
        self.lines += 1;
        self.line.pop_if(|byte| *byte == b'\n');
        if self.strips_returns {
            self.line.pop_if(|byte| *byte == b'\r');
        }
        self.line.push(b'\n');
        Ok(())
    }
}

impl Read for RowText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.line.len() {
            self.next_line()?;
        }
        let count = (&self.line[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}
