//! Which reads fetch the values of a batch: neighbours are read together.

use crate::base::error::{Error, Result};
use crate::base::pointer::ValuePointer;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::batch_read::ReadRequest;
use crate::env::fs::File;
use std::sync::Arc;

/// The greatest gap in bytes between two records that are read together; reading the gap costs less
/// than another read.
const MAX_GAP_BYTES: u64 = FILE_BLOCK_BYTES;
/// The greatest length in bytes of one read of several records, so that reads still run in
/// parallel.
pub(super) const MAX_RUN_BYTES: u64 = 256 << 10;

/// The way in which one value of a batch is fetched.
pub(super) enum FetchWay {
    /// As a part of the read with this index.
    ReadRun(usize),
    /// By itself, because it may still be in the write buffer, or its file can't be opened now.
    Alone,
    /// Not at all, because of this error.
    Lost(Error),
}

/// The reads of a batch.
#[derive(Default)]
pub(super) struct ReadPlan {
    pub(super) requests: Vec<ReadRequest>,
    last: Option<ValuePointer>,
    /// The greatest length of the last read, if it gets more records.
    most_bytes: u64,
}

impl ReadPlan {
    /// Adds the next pointer in the order of places: to the last read if it is near, else to a new
    /// one, from `file`, which also says how long a read of several records may be. A record that
    /// is not in the file yet, or whose file can't be opened now, is read by itself.
    pub(super) fn add(
        &mut self,
        pointer: ValuePointer,
        is_in_file: Result<bool>,
        file: impl FnOnce() -> Result<(Arc<dyn File>, u64)>,
    ) -> FetchWay {
        let is_next = self.last.is_none_or(|last| last <= pointer);
        debug_assert!(is_next, "records are added in the order of their places");
        match is_in_file {
            Ok(true) => {}
            Ok(false) => return FetchWay::Alone,
            Err(error) => return FetchWay::Lost(error),
        }
        let end = pointer.offset + u64::from(pointer.length);
        let same_file = self.last.is_some_and(|last| last.segment == pointer.segment);
        if let Some(run) = self.requests.last_mut().filter(|_| same_file) {
            let run_end = run.offset + run.len as u64;
            if pointer.offset <= run_end + MAX_GAP_BYTES && end - run.offset <= self.most_bytes {
                run.len = (end.max(run_end) - run.offset) as usize;
                return FetchWay::ReadRun(self.requests.len() - 1);
            }
        }
        let (offset, len) = (pointer.offset, pointer.length as usize);
        // The process may have as many files open as it can, by other reads of this batch among
        // them. Once it is this value's turn, these may be over.
        let Ok((file, most_bytes)) = file() else { return FetchWay::Alone };
        self.requests.push(ReadRequest { file, offset, len });
        self.most_bytes = most_bytes;
        self.last = Some(pointer);
        FetchWay::ReadRun(self.requests.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, number};
    use crate::base::pointer::SegmentId;
    use crate::cache::memory_fs::MemoryFs;
    use crate::env::fs::Fs;
    use crate::read::walk_files::MAX_STREAM_BYTES;
    use std::path::Path;

    /// Runs a case: `1 0 100` is a record by segment, offset and length, in the order of places;
    /// `buffered` behind it says that it is in the write buffer, `lost` that its file is, `wrong`
    /// that the pointer is, and `walked` that a walk has the file for itself.
    fn run(lines: &[&str]) -> String {
        let file = MemoryFs::default().create(Path::new("segment")).unwrap();
        let mut plan = ReadPlan::default();
        let mut text = String::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let (segment, offset) = (SegmentId(number(words[0])), number(words[1]));
            let pointer = ValuePointer { segment, offset, length: number(words[2]) as u32 };
            let (is_in_file, opened) = match words.get(3) {
                None => (Ok(true), Ok((file.clone(), MAX_RUN_BYTES))),
                Some(&"walked") => (Ok(true), Ok((file.clone(), MAX_STREAM_BYTES))),
                Some(&"lost") => (Ok(true), Err(Error::closed("the file is lost"))),
                Some(&"buffered") => (Ok(false), Err(Error::closed("nobody asks for it"))),
                Some(_) => {
                    (Err(Error::corruption("no such record")), Err(Error::closed("nor here")))
                }
            };
            text += &match plan.add(pointer, is_in_file, || opened) {
                FetchWay::ReadRun(run) => format!("read {run}\n"),
                FetchWay::Alone => "alone\n".to_owned(),
                FetchWay::Lost(error) => format!("{:?}\n", error.kind()),
            };
        }
        for (index, request) in plan.requests.iter().enumerate() {
            text += &format!("read {index}: {} bytes at {}\n", request.len, request.offset);
        }
        text
    }

    #[test]
    fn golden_neighbours_are_read_together() {
        golden("read/testdata/reads.txt", run);
    }
}
