//! What LMDB's own tool `mdb_dump` prints: for each database a header, and its keys and values in
//! hexadecimal, each on a line behind a blank.

use super::input::ImportInput;
use super::source::{ImportPair, Source};
use crate::text;
use cleavedb::{Error, Result};
use std::path::Path;

/// A dump that is read.
pub(crate) struct MdbDumpSource {
    input: ImportInput,
    line: Vec<u8>,
    /// True within the pairs of a database.
    is_inside: bool,
}

impl MdbDumpSource {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self::new(ImportInput::open(path)?))
    }

    pub(crate) fn new(input: ImportInput) -> Self {
        MdbDumpSource { input, line: Vec::new(), is_inside: false }
    }

    /// Takes a line of a header.
    fn header(&self, name: &mut String) -> Result<()> {
        let line = String::from_utf8_lossy(&self.line);
        let Some((field, value)) = line.split_once('=') else {
            return Err(self.input.in_line("is no line of a header of mdb_dump"));
        };
        let unsupported = |what: &str, advice: &str| {
            let located = self.input.in_line("");
            let error = Error::unsupported(what).advise(advice);
            Err(error.in_file(located.file().unwrap_or(Path::new(""))))
        };
        match (field, value) {
            ("VERSION", "3") | ("format", "bytevalue") => {}
            ("VERSION", _) => {
                return unsupported("the dump has an unknown version", "use mdb_dump of LMDB 0.9");
            }
            // A backslash stands for itself there, and also begins an escape.
            ("format", _) => {
                return unsupported(
                    "the dump is in mdb_dump's printable format, which is ambiguous",
                    "dump without -p",
                );
            }
            ("database", value) => *name = value.to_string(),
            ("type", "btree") => {}
            ("type", _) => return unsupported("the dump is of no tree", "use LMDB's mdb_dump"),
            ("duplicates" | "dupsort" | "dupfixed", "1") => {
                return unsupported(
                    "a key of the database may have several values",
                    "write a program that reads them and puts each under a key of its own",
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// Decodes the line, which must begin with a blank.
    fn bytes(&self) -> Result<Vec<u8>> {
        let digits = self.line.strip_prefix(b" ");
        digits.and_then(|digits| text::unhex(digits).ok()).ok_or_else(|| {
            self.input.in_line("is no key or value in hexadecimal").advise("dump it once more")
        })
    }

    fn cut_short(&self) -> Error {
        self.input.in_line("is the last one, but the dump is not complete").advise("dump it again")
    }
}

impl Source for MdbDumpSource {
    fn next_part(&mut self) -> Result<Option<String>> {
        let mut name = String::new();
        if !self.input.read_line(&mut self.line)? {
            return Ok(None);
        }
        while self.line != b"HEADER=END" {
            self.header(&mut name)?;
            if !self.input.read_line(&mut self.line)? {
                return Err(self.cut_short());
            }
        }
        self.is_inside = true;
        Ok(Some(name))
    }

    fn next(&mut self, pair: &mut ImportPair) -> Result<bool> {
        if !self.is_inside {
            return Ok(false);
        }
        if !self.input.read_line(&mut self.line)? {
            return Err(self.cut_short());
        }
        if self.line == b"DATA=END" {
            self.is_inside = false;
            return Ok(false);
        }
        let key = self.bytes()?;
        if !self.input.read_line(&mut self.line)? {
            return Err(self.cut_short());
        }
        pair.set(&key, &self.bytes()?);
        Ok(true)
    }

    fn ascends(&self) -> bool {
        // Not with integer keys, for example.
        false
    }

    fn share(&self) -> Option<f64> {
        self.input.share()
    }
}
