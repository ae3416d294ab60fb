//! A segment that a relocation frees, open for reading: out of the page cache where that has it,
//! around it elsewhere.

use crate::base::error::{Error, IoContext, Result};
use crate::base::pointer::SegmentId;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::fs::{AccessPattern, File};
use crate::gc::quarantine::is_damage;
use crate::gc::record_list::LiveRecord;
use crate::gc::record_runs::RecordRun;
use crate::version::files::SegmentHandle;
use crate::version::job::JobError;
use crate::version::runtime::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A segment to be freed, open for reading.
pub struct VictimReader {
    /// The handle of the segment.
    pub handle: Arc<SegmentHandle>,
    file: Arc<dyn File>,
    /// True if the page cache is asked first, until something was not there.
    asks_cache: AtomicBool,
}

/// An error of a relocation, with the segments that caused it; none if others would fail, too.
#[derive(Debug)]
pub struct Failure {
    /// The segments that could not be read, or to which a relocation leads that could not be read.
    pub segments: Vec<SegmentId>,
    /// The error itself.
    pub error: JobError,
}

impl Failure {
    /// Creates a failure that is caused by these segments.
    pub fn of(segments: Vec<SegmentId>, mut error: Error) -> Failure {
        if is_damage(&error) && error.advice().is_none() {
            error = error.advise("run `cleave check`; restore this file, or repair the database");
        }
        Failure { segments, error: error.into() }
    }
}

impl From<Failure> for JobError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        Failure { segments: Vec::new(), error }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        JobError::from(error).into()
    }
}

impl VictimReader {
    /// Opens the file of `handle`.
    pub fn open(context: &Runtime, handle: Arc<SegmentHandle>) -> Result<VictimReader, Failure> {
        let path = handle.path();
        let fs = &context.env.fs;
        let failed = |error| Failure::of(vec![handle.id()], error);
        // The page cache may have what users wrote or read lately. Long runs that it does not have
        // are read around it: nobody reads them there again, and to bring them in costs more.
        let file = fs.open_direct(path).doing("open a segment", path).map_err(failed)?;
        file.advise(AccessPattern::Sequential);
        Ok(VictimReader { handle, file, asks_cache: AtomicBool::new(true) })
    }

    /// Fills `bytes` from `offset` on out of the page cache, if it has them all. After the first
    /// time that it has not, it is asked no more: each question may have the system read a block.
    fn read_cached(&self, bytes: &mut [u8], offset: u64) -> bool {
        if self.is_missed() {
            return false;
        }
        // The last block comes first. A long read that misses would begin a long read-ahead.
        let last = bytes.len().saturating_sub(1) / FILE_BLOCK_BYTES as usize;
        let start = last * FILE_BLOCK_BYTES as usize;
        let is_there = self.file.read_cached(&mut bytes[start..], offset + start as u64)
            && self.file.read_cached(bytes, offset);
        self.asks_cache.store(is_there, Ordering::Relaxed);
        is_there
    }

    /// Returns true if something was not in the page cache. Some of the rest may be there; it is
    /// not asked for, as each question may read a block.
    pub fn is_missed(&self) -> bool {
        !self.asks_cache.load(Ordering::Relaxed)
    }

    /// Reads a run to the beginning of `bytes`.
    pub fn read(&self, run: &RecordRun<'_>, bytes: &mut [u8]) -> Result<(), Failure> {
        if self.read_cached(&mut bytes[..run.needed], run.start) {
            return Ok(());
        }
        let (file, path) = (&self.file, self.handle.path());
        let read = file.read_at(bytes, run.start).and_then(|read| match read < run.needed {
            // The file may end within the last block, but not within a record.
            true => file.read_exact_at(&mut bytes[read..run.needed], run.start + read as u64),
            false => Ok(()),
        });
        let first = run.items[0].record;
        read.doing("read live records", path).map_err(|error| self.failed(error, first))
    }

    /// Attributes an error to this record of the segment.
    pub fn failed(&self, error: Error, record: LiveRecord) -> Failure {
        let error = error.in_file(self.handle.path()).at(record.offset);
        Failure::of(vec![self.handle.id()], error)
    }
}
