//! Copies live records of some segments into one sorted segment. It reads them in the order of
//! place, in few large reads, and writes them in the order of keys.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::base::size::FILE_BLOCK_BYTES;
use crate::env::aligned::AlignedBuffer;
use crate::env::fs::{AccessPattern, File};
use crate::gc::liveness_scan::LiveRecord;
use crate::gc::overwritten::Overwritten;
use crate::gc::quarantine::is_damage;
use crate::segment::{RecordView, SegmentKind, SortedWriter};
use crate::throttle::reads::IoPriority;
use crate::version::files::SegmentHandle;
use crate::version::job::JobError;
use crate::version::runtime::Runtime;
use std::sync::Arc;

/// Bytes of records that are read at a time and held in memory, except for the last chunk. A larger
/// number makes fewer and longer reads; log segments of the default size fit.
const CHUNK_BYTES: u64 = 64 << 20;

/// The most bytes of one read, unless one record is longer.
const READ_BYTES: usize = 1 << 20;

/// The number of bytes written between two calls of the I/O budget.
const SPEND_BYTES: u64 = 1 << 20;

/// The longest gap in bytes that is read over, because that takes less time than another read.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// A segment to be freed, open for reading.
pub struct VictimReader<'a> {
    /// The handle of the segment.
    pub handle: Arc<SegmentHandle>,
    file: Arc<dyn File>,
    list: &'a [LiveRecord],
    /// The old and new place of each record that was moved, in the order of keys.
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
        list: &'a [LiveRecord],
    ) -> Result<VictimReader<'a>, Failure> {
        let path = handle.path();
        let fs = &context.env.fs;
        // Log segments are read through the page cache, which may still hold what users wrote
        // lately; sorted ones are read around it.
        let opened = match handle.segment.kind() {
            SegmentKind::Log => fs.open(path),
            SegmentKind::Sorted => fs.open_direct(path),
        };
        let file = opened.doing("open a segment", path);
        let file = file.map_err(|error| Failure::of(vec![handle.id()], error))?;
        file.advise(AccessPattern::Sequential);
        let moved = Vec::with_capacity(list.len());
        Ok(VictimReader { handle, file, list, moved })
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

/// Copies the records of `sources` in the order of keys, except those that died since they were
/// listed. They are loaded into `buffer`. Returns the number of bytes read.
pub fn copy(
    context: &Runtime,
    sources: &mut [VictimReader<'_>],
    overwritten: &Overwritten,
    writer: &mut SortedWriter,
    buffer: &mut AlignedBuffer,
) -> Result<u64, Failure> {
    let items = sources.iter().enumerate().flat_map(|(source, open)| {
        open.list.iter().map(move |&record| RecordToMove { source, record })
    });
    let mut items: Vec<RecordToMove> = items.collect();
    items.sort_unstable_by_key(|item| item.record.rank);
    debug_assert!(
        items.windows(2).all(|pair| pair[0].record.rank < pair[1].record.rank),
        "the lists are of one walk, as ranks of different walks do not compare"
    );
    let (mut rest, mut read) = (items.as_slice(), 0);
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(chunk_len(rest));
        assert!(!chunk.is_empty(), "each chunk has a record, so that the copy ends");
        let loaded = Loaded::read(context, sources, chunk, buffer)?;
        read += loaded.read;
        let mut unspent = 0;
        for (item, record) in chunk.iter().zip(loaded.records()) {
            let source = &mut sources[item.source];
            let seal = source.handle.segment.seal();
            // If a table can't be read, it hides nothing here: moving a dead record does no harm.
            // Reads, compactions and liveness scans of the table report the error.
            let is_wanted = |view: &RecordView<'_>| !overwritten.hides(view).unwrap_or(false);
            let to = match writer.copy_if(record, seal, item.record.offset, is_wanted) {
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
        rest = behind;
    }
    debug_assert!(
        sources.iter().all(|source| source.moved.len() <= source.list.len()),
        "only listed records are moved, each once"
    );
    Ok(read)
}

/// Returns the number of records in the next chunk.
fn chunk_len(items: &[RecordToMove]) -> usize {
    let mut bytes = 0;
    let full = items.iter().position(|item| {
        bytes += u64::from(item.record.length);
        bytes >= CHUNK_BYTES
    });
    full.map_or(items.len(), |last| last + 1)
}

/// The records of a chunk in memory.
struct Loaded<'b> {
    bytes: &'b [u8],
    /// The start and length of each record of the chunk in `bytes`.
    places: Vec<(usize, usize)>,
    /// Number of bytes read.
    read: u64,
}

impl<'b> Loaded<'b> {
    fn records(&self) -> impl Iterator<Item = &'b [u8]> {
        let bytes = self.bytes;
        self.places.iter().map(move |&(start, len)| &bytes[start..start + len])
    }

    fn read(
        context: &Runtime,
        sources: &[VictimReader<'_>],
        chunk: &[RecordToMove],
        buffer: &'b mut AlignedBuffer,
    ) -> Result<Loaded<'b>, Failure> {
        let mut order: Vec<usize> = (0..chunk.len()).collect();
        order.sort_unstable_by_key(|&index| (chunk[index].source, chunk[index].record.offset));
        let (mut runs, mut rest) = (Vec::new(), order.as_slice());
        while !rest.is_empty() {
            let (run, behind) = rest.split_at(run_len(chunk, rest));
            assert!(!run.is_empty(), "each read has a record, so that reading ends");
            runs.push(RecordRun::of(chunk, run));
            rest = behind;
        }
        let kept: usize = runs.iter().map(RecordRun::kept).sum();
        let longest = runs.iter().map(RecordRun::len).max().unwrap_or_default();
        let bytes = buffer.at_least(kept + longest);
        let mut places = vec![(0, 0); chunk.len()];
        let (mut end, mut read) = (0, 0);
        for run in &runs {
            context.check_closing()?;
            run.read(sources, chunk, &mut bytes[end..end + run.len()])?;
            read += run.needed as u64;
            run.place(chunk, &mut bytes[end..], |index, start, len| {
                places[index] = (end + start, len);
            });
            end += run.kept();
        }
        assert!(places.iter().all(|&(_, len)| len > 0), "each record of the chunk was read");
        Ok(Loaded { bytes, places, read })
    }
}

/// Neighbouring records of one segment, which one read covers.
struct RecordRun<'a> {
    /// The indexes of the records, in the order of their places.
    records: &'a [usize],
    source: usize,
    /// The offset in the segment where the read begins, at the beginning of a block.
    start: u64,
    /// Number of bytes from there to the end of the last record.
    needed: usize,
    /// Bytes of the records themselves.
    live: usize,
}

impl<'a> RecordRun<'a> {
    fn of(chunk: &[RecordToMove], records: &'a [usize]) -> RecordRun<'a> {
        let (first, last) = (&chunk[records[0]], &chunk[records[records.len() - 1]]);
        debug_assert!(
            records.iter().all(|&index| chunk[index].source == first.source),
            "one read is of one segment"
        );
        let start = first.record.offset - first.record.offset % FILE_BLOCK_BYTES;
        let needed = (last.record.offset - start) as usize + last.record.length as usize;
        let live = records.iter().map(|&index| chunk[index].record.length as usize).sum();
        RecordRun { records, source: first.source, start, needed, live }
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
    fn read(
        &self,
        sources: &[VictimReader<'_>],
        chunk: &[RecordToMove],
        bytes: &mut [u8],
    ) -> Result<(), Failure> {
        let source = &sources[self.source];
        let (file, path) = (&source.file, source.handle.path());
        let read = file.read_at(bytes, self.start).and_then(|read| match read < self.needed {
            // The file may end within the last block, but not within a record.
            true => file.read_exact_at(&mut bytes[read..self.needed], self.start + read as u64),
            false => Ok(()),
        });
        let first = chunk[self.records[0]].record;
        read.doing("read live records", path).map_err(|error| source.failed(error, first))
    }

    /// Calls `place` with the index, the start and the length of each record in `bytes`, to the
    /// beginning of which the run was read.
    fn place(
        &self,
        chunk: &[RecordToMove],
        bytes: &mut [u8],
        mut place: impl FnMut(usize, usize, usize),
    ) {
        let mut end = 0;
        for &index in self.records {
            let LiveRecord { offset, length, .. } = chunk[index].record;
            let (mut start, len) = ((offset - self.start) as usize, length as usize);
            if !self.is_dense() {
                bytes.copy_within(start..start + len, end);
                (start, end) = (end, end + len);
            }
            place(index, start, len);
        }
    }
}

/// Returns the number of records in `order` that one read covers.
fn run_len(chunk: &[RecordToMove], order: &[usize]) -> usize {
    let first = &chunk[order[0]];
    let mut end = first.record.offset;
    let apart = order.iter().position(|&index| {
        let item = &chunk[index];
        let far = item.source != first.source || item.record.offset > end + MAX_GAP_BYTES;
        end = item.record.offset + u64::from(item.record.length);
        far || index != order[0] && end - first.record.offset > READ_BYTES as u64
    });
    apart.unwrap_or(order.len())
}
