//! Copies live records of some segments into one sorted segment. It reads them in the order of
//! place, in few large reads, and writes them in the order of keys: all of them if they fit in its
//! memory, otherwise part after part.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::aligned::AlignedBuffer;
use crate::env::fs::{AccessPattern, File};
use crate::gc::overwritten::Overwritten;
use crate::gc::quarantine::is_damage;
use crate::gc::record_list::{LiveRecord, RecordList};
use crate::segment::{RecordView, SegmentKind, SortedWriter};
use crate::throttle::reads::IoPriority;
use crate::version::files::SegmentHandle;
use crate::version::job::JobError;
use crate::version::runtime::Runtime;
use std::cell::Cell;
use std::sync::Arc;

/// The most bytes of one read, unless one record is longer.
const READ_BYTES: usize = 1 << 20;

/// The most bytes written between two calls of the I/O budget, but for one record.
const SPEND_BYTES: u64 = 1 << 20;

/// The longest gap in bytes that is read over, because that takes less time than another read.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// A segment to be freed, open for reading.
pub struct VictimReader<'a> {
    /// The handle of the segment.
    pub handle: Arc<SegmentHandle>,
    file: Arc<dyn File>,
    /// True if the page cache is asked first. It is false once something was not there, and where
    /// `file` is read through the cache anyway.
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
        // Log segments are read through the page cache, which may still hold what users wrote
        // lately; sorted ones are read around it, as far as it does not have them.
        let asks_cache = handle.segment.kind() == SegmentKind::Sorted;
        let opened = if asks_cache { fs.open_direct(path) } else { fs.open(path) };
        let file = opened.doing("open a segment", path).map_err(failed)?;
        file.advise(AccessPattern::Sequential);
        let (asks_cache, moved) = (Cell::new(asks_cache), Vec::with_capacity(list.len()));
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

    /// Returns true if nothing in the segment is live.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn failed(&self, error: Error, record: LiveRecord) -> Failure {
        let error = error.in_file(self.handle.path()).at(record.offset);
        Failure::of(vec![self.handle.id()], error)
    }
}

/// A record, and the index of its source.
#[derive(Clone, Copy)]
struct RecordToMove {
    source: usize,
    record: LiveRecord,
}

/// Memory for the records that are being copied.
pub struct CopyMemory<'a> {
    /// The memory itself; it grows as is needed.
    pub buffer: &'a mut AlignedBuffer,
    /// The most bytes that are loaded at a time, unless a single read has more.
    pub most_bytes: u64,
}

/// Copies the records of `sources` in the order of keys, except those that died since they were
/// listed. If they do not fit in `memory`, they are copied in several parts, by place, each in the
/// order of keys. Returns the number of bytes read.
pub fn copy(
    context: &Runtime,
    sources: &mut [VictimReader<'_>],
    overwritten: &Overwritten,
    writer: &mut SortedWriter,
    memory: CopyMemory<'_>,
) -> Result<u64, Failure> {
    let items = sources.iter().enumerate().flat_map(|(source, open)| {
        open.list.iter().map(move |record| RecordToMove { source, record })
    });
    let mut items: Vec<RecordToMove> = items.collect();
    items.sort_unstable_by_key(|item| (item.source, item.record.offset));
    let mut runs = RecordRuns { rest: &items };
    let mut read = 0;
    loop {
        let chunk = runs.next_chunk(memory.most_bytes);
        if chunk.is_empty() {
            break;
        }
        let loaded = Loaded::read(context, sources, &chunk, memory.buffer)?;
        read += loaded.read;
        copy_loaded(context, sources, &loaded, overwritten, writer)?;
    }
    debug_assert!(
        sources.iter().all(|source| source.moved.len() <= source.list.len()),
        "only listed records are moved, each once"
    );
    Ok(read)
}

/// Copies the records of a chunk.
fn copy_loaded(
    context: &Runtime,
    sources: &mut [VictimReader<'_>],
    loaded: &Loaded<'_>,
    overwritten: &Overwritten,
    writer: &mut SortedWriter,
) -> Result<(), Failure> {
    let mut unspent = 0;
    for LoadedRecord { item, bytes } in &loaded.records {
        let source = &mut sources[item.source];
        let seal = source.handle.segment.seal();
        // If a table can't be read, it hides nothing here: moving a dead record does no harm.
        // Reads, compactions and liveness scans of the table report the error.
        let is_wanted = |view: &RecordView<'_>| !overwritten.hides(view).unwrap_or(false);
        let to = match writer.copy_if(bytes, seal, item.record.offset, is_wanted) {
            Ok(Some(to)) => to,
            Ok(None) => continue,
            Err(error) if error.kind() == ErrorKind::Corruption => {
                return Err(source.failed(error, item.record));
            }
            Err(error) => return Err(error.into()),
        };
        source.moved.push(Moved { from: item.record.offset, to });
        unspent += u64::from(to.length);
        if unspent >= SPEND_BYTES {
            context.check_closing()?;
            context.budget.spend(IoPriority::Gc, std::mem::take(&mut unspent));
        }
    }
    if unspent > 0 {
        // With little memory, no chunk may have as many bytes as are spent at a time.
        context.budget.spend(IoPriority::Gc, unspent);
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
            run.read(sources, &mut bytes[end..end + run.len()])?;
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

/// Neighbouring records of one segment, which one read covers.
struct RecordRun<'a> {
    /// The records, in the order of their places.
    items: &'a [RecordToMove],
    source: usize,
    /// The offset in the segment where the read begins, at the beginning of a block.
    start: u64,
    /// Number of bytes from there to the end of the last record.
    needed: usize,
    /// Bytes of the records themselves.
    live: usize,
}

impl<'a> RecordRun<'a> {
    fn of(items: &'a [RecordToMove]) -> RecordRun<'a> {
        let (first, last) = (&items[0], &items[items.len() - 1]);
        debug_assert!(
            items.iter().all(|item| item.source == first.source),
            "one read is of one segment"
        );
        let start = first.record.offset - first.record.offset % FILE_BLOCK_BYTES;
        let needed = (last.record.offset - start) as usize + last.record.length as usize;
        let live = items.iter().map(|item| item.record.length as usize).sum();
        RecordRun { items, source: first.source, start, needed, live }
    }

    /// Returns the number of bytes of the read, which are whole blocks.
    fn len(&self) -> usize {
        self.needed.next_multiple_of(FILE_BLOCK_BYTES as usize)
    }

    /// Returns true if the records stay where they were read. If they were pushed together each
    /// time, all that is moved would be copied once more.
    fn is_dense(&self) -> bool {
        self.live >= self.needed / 2
    }

    /// Returns the number of bytes of memory that the records take for as long as the chunk is in
    /// use.
    fn kept(&self) -> usize {
        let bytes = if self.is_dense() { self.needed } else { self.live };
        bytes.next_multiple_of(FILE_BLOCK_BYTES as usize)
    }

    /// Reads the run to the beginning of `bytes`.
    fn read(&self, sources: &[VictimReader<'_>], bytes: &mut [u8]) -> Result<(), Failure> {
        let source = &sources[self.source];
        if source.read_cached(&mut bytes[..self.needed], self.start) {
            return Ok(());
        }
        let (file, path) = (&source.file, source.handle.path());
        let read = file.read_at(bytes, self.start).and_then(|read| match read < self.needed {
            // The file may end within the last block, but not within a record.
            true => file.read_exact_at(&mut bytes[read..self.needed], self.start + read as u64),
            false => Ok(()),
        });
        let first = self.items[0].record;
        read.doing("read live records", path).map_err(|error| source.failed(error, first))
    }

    /// Calls `place` with each record and its start in `bytes`, to the beginning of which the run
    /// was read.
    fn place(&self, bytes: &mut [u8], mut place: impl FnMut(RecordToMove, usize)) {
        let mut end = 0;
        for item in self.items {
            let LiveRecord { offset, length, .. } = item.record;
            let (mut start, len) = ((offset - self.start) as usize, length as usize);
            if !self.is_dense() {
                bytes.copy_within(start..start + len, end);
                (start, end) = (end, end + len);
            }
            place(*item, start);
        }
    }
}

/// Divides records, which are in the order of place, into runs.
struct RecordRuns<'a> {
    rest: &'a [RecordToMove],
}

impl<'a> RecordRuns<'a> {
    /// Returns the next runs that fit in `most` bytes of memory while they are read, at least one
    /// if there is one.
    fn next_chunk(&mut self, most: u64) -> Vec<RecordRun<'a>> {
        let (mut chunk, mut kept) = (Vec::new(), 0);
        while let Some((run, behind)) = self.split() {
            if !chunk.is_empty() && (kept + run.len()) as u64 > most {
                break;
            }
            kept += run.kept();
            chunk.push(run);
            self.rest = behind;
        }
        chunk
    }

    /// Returns the next run, and the records behind it.
    fn split(&self) -> Option<(RecordRun<'a>, &'a [RecordToMove])> {
        let first = self.rest.first()?;
        let mut end = first.record.offset;
        let apart = self.rest.iter().position(|item| {
            let is_far = item.source != first.source || item.record.offset > end + MAX_GAP_BYTES;
            end = item.record.offset + u64::from(item.record.length);
            let is_first = item.record.offset == first.record.offset;
            is_far || !is_first && end - first.record.offset > READ_BYTES as u64
        });
        let (run, behind) = self.rest.split_at(apart.unwrap_or(self.rest.len()));
        Some((RecordRun::of(run), behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns records of two segments: one of `length` bytes every `step` bytes.
    fn items(count: u64, length: u32, step: u64) -> Vec<RecordToMove> {
        let record = |rank| LiveRecord { rank, length, offset: rank * step };
        let of = |source| move |rank| RecordToMove { source, record: record(rank) };
        (0..count).map(of(0)).chain((0..count).map(of(1))).collect()
    }

    #[test]
    fn chunks_fit_in_memory_and_have_all_records() {
        let cases =
            [(3000, 1000, 1000), (3000, 1000, 3000), (40, 1000, 100_000), (7, 5 << 20, 6 << 20)];
        for (count, length, step) in cases {
            let items = items(count, length, step);
            for most in [32 << 10, 1 << 20, 2 << 20, 16 << 20, 1 << 40] {
                let (mut runs, mut seen, mut chunks) = (RecordRuns { rest: &items }, Vec::new(), 0);
                loop {
                    let chunk = runs.next_chunk(most);
                    let Some(last) = chunk.last() else { break };
                    chunks += 1;
                    let before: usize = chunk[..chunk.len() - 1].iter().map(RecordRun::kept).sum();
                    let fits = (before + last.len()) as u64 <= most;
                    assert!(fits || chunk.len() == 1, "{length} every {step} in {most}");
                    let place = |item: &RecordToMove| (item.source, item.record.offset);
                    seen.extend(chunk.iter().flat_map(|run| run.items).map(place));
                }
                let all: Vec<_> = items.iter().map(|it| (it.source, it.record.offset)).collect();
                assert!(seen == all, "{} of {} records", seen.len(), all.len());
                assert!(most < 1 << 40 || chunks == 1);
            }
        }
    }
}
