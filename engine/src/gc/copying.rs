//! Copies live records of some segments into one sorted segment, in the order of keys. What does
//! not fit in its memory is copied part after part. Of sorted segments a part has the records of a
//! range of keys, which lie together in each of them, so that the parts follow each other in the
//! order of keys, too. Of others it has those of a range of places: a part by keys would read them
//! one by one.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::aligned::AlignedBuffer;
use crate::env::fs::{AccessPattern, File};
use crate::gc::overwritten::Overwritten;
use crate::gc::quarantine::is_damage;
use crate::gc::record_list::{LiveRecord, RecordList};
use crate::gc::record_runs::{RecordRun, RecordRuns, RecordToMove, parts};
use crate::segment::RecordView;
use crate::version::files::SegmentHandle;
use crate::version::job::JobError;
use crate::version::runtime::Runtime;
use crate::version::segment_output::SegmentOutput;
use std::cell::Cell;
use std::sync::Arc;

/// A segment to be freed, open for reading.
pub struct VictimReader<'a> {
    /// The handle of the segment.
    pub handle: Arc<SegmentHandle>,
    file: Arc<dyn File>,
    /// True if the page cache is asked first, until something was not there.
    asks_cache: Cell<bool>,
    list: &'a RecordList,
    /// The old and new place of each record that was moved, part after part in the order of keys.
    pub moved: Vec<Moved>,
}

/// The old and the new place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Offset in the old segment.
    pub from: u64,
    /// Pointer to the record's new place.
    pub to: ValuePointer,
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

impl<'a> VictimReader<'a> {
    /// Opens the file of `handle`; `list` has its live records in the order of keys.
    pub fn open(
        context: &Runtime,
        handle: Arc<SegmentHandle>,
        list: &'a RecordList,
    ) -> Result<VictimReader<'a>, Failure> {
        let path = handle.path();
        let fs = &context.env.fs;
        let failed = |error| Failure::of(vec![handle.id()], error);
        // The page cache may have what users wrote or read lately. Long runs that it does not have
        // are read around it: nobody reads them there again, and to bring them in costs more.
        let file = fs.open_direct(path).doing("open a segment", path).map_err(failed)?;
        file.advise(AccessPattern::Sequential);
        let (asks_cache, moved) = (Cell::new(true), Vec::with_capacity(list.len()));
        Ok(VictimReader { handle, file, asks_cache, list, moved })
    }

    /// Fills `bytes` from `offset` on out of the page cache, if it has them all. After the first
    /// time that it has not, it is asked no more: each question may have the system read a block.
    fn read_cached(&self, bytes: &mut [u8], offset: u64) -> bool {
        if !self.asks_cache.get() {
            return false;
        }
        // The last block comes first. A long read that misses would begin a long read-ahead.
        let last = bytes.len().saturating_sub(1) / FILE_BLOCK_BYTES as usize;
        let start = last * FILE_BLOCK_BYTES as usize;
        let is_there = self.file.read_cached(&mut bytes[start..], offset + start as u64)
            && self.file.read_cached(bytes, offset);
        self.asks_cache.set(is_there);
        is_there
    }

    /// Returns true if something was not in the page cache. Some of the rest may be there; it is
    /// not asked for, as each question may read a block.
    fn is_missed(&self) -> bool {
        !self.asks_cache.get()
    }

    /// Reads a run to the beginning of `bytes`.
    fn read(&self, run: &RecordRun<'_>, bytes: &mut [u8]) -> Result<(), Failure> {
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

    /// Returns true if nothing in the segment is live.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn failed(&self, error: Error, record: LiveRecord) -> Failure {
        let error = error.in_file(self.handle.path()).at(record.offset);
        Failure::of(vec![self.handle.id()], error)
    }
}

/// Memory for the records that are being copied.
pub struct CopyMemory<'a> {
    /// The memory itself; it grows as is needed.
    pub buffer: &'a mut AlignedBuffer,
    /// The most bytes that are loaded at a time, unless a single read has more.
    pub most_bytes: u64,
}

/// Copies the records of `sources` in the order of keys, except those that died since they were
/// listed. If they do not fit in `memory`, they are copied in several parts. Returns the number of
/// bytes read.
pub fn copy(
    context: &Runtime,
    sources: &mut [VictimReader<'_>],
    overwritten: &Overwritten,
    output: &mut SegmentOutput<'_>,
    memory: CopyMemory<'_>,
) -> Result<u64, Failure> {
    let items = sources.iter().enumerate().flat_map(|(source, open)| {
        open.list.iter().map(move |record| RecordToMove { source, record })
    });
    let mut items: Vec<RecordToMove> = items.collect();
    let mut read = 0;
    for part in parts(&mut items, memory.most_bytes) {
        let mut runs = RecordRuns { rest: part };
        loop {
            let chunk = runs.next_chunk(memory.most_bytes);
            if chunk.is_empty() {
                break;
            }
            let loaded = Loaded::read(context, sources, &chunk, memory.buffer)?;
            read += loaded.read;
            // What nobody has read lately need not come into the cache now.
            let are_missed = chunk.iter().all(|run| sources[run.source].is_missed());
            output.write_around_cache(are_missed);
            context.check_closing()?;
            copy_loaded(sources, &loaded, overwritten, output)?;
        }
    }
    debug_assert!(
        sources.iter().all(|source| source.moved.len() <= source.list.len()),
        "only listed records are moved, each once"
    );
    Ok(read)
}

/// Copies the records of a chunk.
fn copy_loaded(
    sources: &mut [VictimReader<'_>],
    loaded: &Loaded<'_>,
    overwritten: &Overwritten,
    output: &mut SegmentOutput<'_>,
) -> Result<(), Failure> {
    for LoadedRecord { item, bytes } in &loaded.records {
        let source = &mut sources[item.source];
        let seal = source.handle.segment.seal();
        // If a table can't be read, it hides nothing here: moving a dead record does no harm.
        // Reads, compactions and liveness scans of the table report the error.
        let is_wanted = |view: &RecordView<'_>| !overwritten.hides(view).unwrap_or(false);
        let to = match output.copy_if(bytes, seal, item.record.offset, is_wanted) {
            Ok(Some(to)) => to,
            Ok(None) => continue,
            Err(JobError::Failed(error)) if error.kind() == ErrorKind::Corruption => {
                return Err(source.failed(error, item.record));
            }
            Err(error) => return Err(error.into()),
        };
        source.moved.push(Moved { from: item.record.offset, to });
    }
    Ok(())
}

/// A record in memory.
struct LoadedRecord<'b> {
    item: RecordToMove,
    bytes: &'b [u8],
}

/// The records of a chunk in memory, in the order of keys.
struct Loaded<'b> {
    records: Vec<LoadedRecord<'b>>,
    /// Number of bytes read.
    read: u64,
}

impl<'b> Loaded<'b> {
    fn read(
        context: &Runtime,
        sources: &[VictimReader<'_>],
        runs: &[RecordRun<'_>],
        buffer: &'b mut AlignedBuffer,
    ) -> Result<Loaded<'b>, Failure> {
        let mut kept = 0;
        let ends = runs.iter().map(|run| {
            let end = kept + run.len();
            kept += run.kept();
            end
        });
        let bytes = buffer.at_least(ends.max().unwrap_or_default());
        let mut places = Vec::with_capacity(runs.iter().map(|run| run.items.len()).sum());
        let (mut end, mut read) = (0, 0);
        for run in runs {
            context.check_closing()?;
            sources[run.source].read(run, &mut bytes[end..end + run.len()])?;
            read += run.needed as u64;
            run.place(&mut bytes[end..], |item, start| places.push((item, end + start)));
            end += run.kept();
        }
        places.sort_unstable_by_key(|(item, _)| item.record.rank);
        let bytes: &'b [u8] = bytes;
        let record = |(item, start): (RecordToMove, usize)| LoadedRecord {
            item,
            bytes: &bytes[start..start + item.record.length as usize],
        };
        Ok(Loaded { records: places.into_iter().map(record).collect(), read })
    }
}
