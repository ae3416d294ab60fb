//! What RocksDB's own tool prints with `ldb dump --hex`: `0xKEY ==> 0xVALUE` on each line. It is
//! the way in for stores with features that are not read here.

use super::input::ImportInput;
use super::source::{ImportPair, Source};
use crate::text;
use cleavedb::Result;
use std::path::Path;

const ARROW: &[u8] = b" ==> ";
/// The begin of the last line of a dump.
const COUNT: &[u8] = b"Keys in range: ";

/// A dump that is read.
pub(crate) struct LdbDumpSource {
    input: ImportInput,
    line: Vec<u8>,
    is_begun: bool,
    /// The pairs that were read.
    pairs: u64,
}

impl LdbDumpSource {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self::new(ImportInput::open(path)?))
    }

    pub(crate) fn new(input: ImportInput) -> Self {
        LdbDumpSource { input, line: Vec::new(), is_begun: false, pairs: 0 }
    }
}

fn parse(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let arrow = line.windows(ARROW.len()).position(|part| part == ARROW)?;
    let bytes = |text: &[u8]| text::unhex(text.strip_prefix(b"0x")?).ok();
    Some((bytes(&line[..arrow])?, bytes(&line[arrow + ARROW.len()..])?))
}

impl Source for LdbDumpSource {
    fn next_part(&mut self) -> Result<Option<String>> {
        let is_first = !self.is_begun;
        self.is_begun = true;
        Ok(is_first.then(String::new))
    }

    fn next(&mut self, pair: &mut ImportPair) -> Result<bool> {
        while self.input.read_line(&mut self.line)? {
            if self.line.is_empty() {
                continue;
            }
            // A dump ends with a count, a scan doesn't.
            if let Some(count) = self.line.strip_prefix(COUNT) {
                if count != self.pairs.to_string().as_bytes() {
                    let what = format!("says otherwise: {} pairs came before it", self.pairs);
                    let error = self.input.in_line(&what);
                    return Err(error.advise("the dump is not complete: make it once more"));
                }
                // Another dump may follow.
                self.pairs = 0;
                continue;
            }
            let Some((key, value)) = parse(&self.line) else {
                let error = self.input.in_line("is not 0xKEY ==> 0xVALUE");
                return Err(
                    error.advise("dump with --hex; what else ldb prints is an error of its")
                );
            };
            pair.set(&key, &value);
            self.pairs += 1;
            return Ok(true);
        }
        Ok(false)
    }

    fn ascends(&self) -> bool {
        // Not with a comparator of the program's.
        false
    }

    fn share(&self) -> Option<f64> {
        self.input.share()
    }
}
