//! The text below rows of columns: it goes to their parser line by line, each with a newline at its
//! end, so that the line of a row is known, and a quote that nothing closes shows.

use super::lines::MAX_RECORD_TEXT;
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
    /// Bytes that the row under way may still have.
    room: u64,
    is_over: bool,
}

impl RowText {
    pub(super) fn new(text: Box<dyn BufRead>, strips_returns: bool) -> Self {
        let (line, room) = (Vec::new(), MAX_RECORD_TEXT);
        RowText { text, strips_returns, line, taken: 0, lines: 0, room, is_over: false }
    }

    /// Begins another row. It fails once it has more bytes than any record, so that a quote that
    /// nothing closes does not take in a text that is larger than the memory.
    pub(super) fn begin_row(&mut self) {
        self.room = MAX_RECORD_TEXT;
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
        // Of a row that fills its room, one more byte is asked for.
        let mut limited = self.text.by_ref().take(self.room + 1);
        if self.is_over || limited.read_until(b'\n', &mut self.line)? == 0 {
            self.is_over = true;
            return Ok(());
        }
        self.lines += 1;
        let left = self.room.checked_sub(self.line.len() as u64);
        self.room = left.ok_or_else(|| too_long(self.lines))?;
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

/// The error of a row that is still not over in this line.
fn too_long(line: u64) -> io::Error {
    let what = format!("the row that goes on in line {line} is longer than any record");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn text(bytes: &'static str, room: u64) -> RowText {
        RowText { room, ..RowText::new(Box::new(Cursor::new(bytes)), false) }
    }

    #[test]
    fn a_row_that_never_ends_is_refused_before_it_fills_the_memory() {
        let all = |room| text("\"ab\ncd\nef\n", room).read_to_end(&mut Vec::new());
        assert_eq!(all(10).unwrap(), 10, "it has just room");
        let error = all(9).unwrap_err().to_string();
        assert!(error.contains("goes on in line 3 is longer"), "{error}");
        let mut endless = RowText { room: 99, ..RowText::new(Box::new(Repeated), false) };
        assert!(endless.next_line().is_err());
        assert!(endless.line.len() <= 100, "a line without an end is not read to its end");
    }

    #[test]
    fn each_row_has_room_of_its_own() {
        let mut rows = text("ab\ncd\n", 3);
        rows.next_line().unwrap();
        rows.begin_row();
        rows.next_line().unwrap();
        assert_eq!(rows.line, b"cd\n");
    }

    /// A text without an end, and without lines.
    struct Repeated;

    impl Read for Repeated {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }

    impl BufRead for Repeated {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            Ok(&[b'x'; 64])
        }

        fn consume(&mut self, _: usize) {}
    }
}
