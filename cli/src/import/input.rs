//! Text and streams that the tools of other stores write: from a file, or from standard input.

use cleavedb::{Error, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 << 10;
/// The longest line: a key and a value of the largest size, each byte as two digits.
const MAX_LINE_BYTES: u64 = (2 << 30) + (1 << 20);

/// A stream that is read, and how far.
pub(crate) struct ImportInput {
    reader: Box<dyn BufRead>,
    name: PathBuf,
    /// The size of a file.
    bytes: Option<u64>,
    /// The bytes before the next one.
    pub(crate) at: u64,
    /// The line that was read last, from 1.
    pub(crate) line: u64,
}

/// Returns true if a path stands for standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

impl ImportInput {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if is_standard_input(path) {
            return Ok(Self::new(Box::new(io::stdin()), Path::new("standard input"), None));
        }
        let failed = |error| Error::io("read", path, error);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Self::new(Box::new(file), path, bytes))
    }

    /// Takes a stream that errors call `name`.
    pub(crate) fn new(reader: Box<dyn Read>, name: &Path, bytes: Option<u64>) -> Self {
        let reader = Box::new(BufReader::with_capacity(BUFFER_BYTES, reader));
        ImportInput { reader, name: name.to_path_buf(), bytes, at: 0, line: 0 }
    }

    /// Reads up to `count` bytes, fewer only at the end of the stream. Memory is taken for what is
    /// there, not for what a length claims.
    pub(crate) fn read(&mut self, count: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let read = self.reader.by_ref().take(count).read_to_end(out);
        self.at += read.map_err(|error| Error::io("read", &self.name, error))? as u64;
        Ok(())
    }

    /// Reads a line without its end. Returns false at the end of the stream.
    pub(crate) fn read_line(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        let mut limited = self.reader.by_ref().take(MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', out);
        let read = read.map_err(|error| Error::io("read", &self.name, error))? as u64;
        self.at += read;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if out.last() == Some(&b'\n') {
            out.pop();
        } else if read == MAX_LINE_BYTES {
            return Err(self.in_line("is longer than the largest pair"));
        }
        Ok(true)
    }

    /// Returns the error that says what is wrong with the line read last.
    pub(crate) fn in_line(&self, what: &str) -> Error {
        Error::corruption(format!("line {} {what}", self.line)).in_file(&self.name)
    }

    /// Returns an error with this stream's name, and the place of what begins at `offset`.
    pub(crate) fn located(&self, error: Error, offset: u64) -> Error {
        error.in_file(&self.name).at(offset)
    }

    pub(crate) fn share(&self) -> Option<f64> {
        let bytes = self.bytes.filter(|&bytes| bytes > 0)?;
        Some(self.at as f64 / bytes as f64)
    }
}
