//! Copies live records of some segments into one sorted segment. It reads them in the order of
//! place, in few large reads, and writes them in the order of keys.

use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::pointer::{SegmentId, ValuePointer};
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
/// listed. Returns the number of bytes read.
pub fn copy(
    context: &Runtime,
    sources: &mut [VictimReader<'_>],
    overwritten: &Overwritten,
    writer: &mut SortedWriter,
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
        let loaded = Loaded::read(context, sources, chunk)?;
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
struct Loaded {
    bytes: Vec<u8>,
    /// The start and length of each record of the chunk in `bytes`.
    places: Vec<(usize, usize)>,
    read: u64,
}

impl Loaded {
    fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|&(start, len)| &self.bytes[start..start + len])
    }

    fn read(
        context: &Runtime,
        sources: &[VictimReader<'_>],
        chunk: &[RecordToMove],
    ) -> Result<Loaded, Failure> {
        let mut order: Vec<usize> = (0..chunk.len()).collect();
        order.sort_unstable_by_key(|&index| (chunk[index].source, chunk[index].record.offset));
        let total: usize = chunk.iter().map(|item| item.record.length as usize).sum();
        let mut loaded =
            Loaded { bytes: Vec::with_capacity(total), places: vec![(0, 0); chunk.len()], read: 0 };
        let (mut rest, mut buffer) = (order.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (run, behind) = rest.split_at(run_len(chunk, rest));
            assert!(!run.is_empty(), "each read has a record, so that reading ends");
            context.check_closing()?;
            loaded.read_run(sources, chunk, run, &mut buffer)?;
            rest = behind;
        }
        assert_eq!(loaded.bytes.len(), total, "each record of the chunk was read once");
        Ok(loaded)
    }

    /// Reads neighbouring records with one read and keeps the live bytes of it.
    fn read_run(
        &mut self,
        sources: &[VictimReader<'_>],
        chunk: &[RecordToMove],
        run: &[usize],
        buffer: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let (first, last) = (&chunk[run[0]], &chunk[run[run.len() - 1]]);
        debug_assert!(
            run.iter().all(|&index| chunk[index].source == first.source),
            "one read is of one segment"
        );
        let source = &sources[first.source];
        let start = first.record.offset;
        let len = (last.record.offset - start) as usize + last.record.length as usize;
        buffer.resize(len, 0);
        let path = source.handle.path();
        let read = source.file.read_exact_at(buffer, start).doing("read live records", path);
        read.map_err(|error| source.failed(error, first.record))?;
        self.read += len as u64;
        for &index in run {
            let LiveRecord { offset, length, .. } = chunk[index].record;
            let from = (offset - start) as usize;
            self.places[index] = (self.bytes.len(), length as usize);
            self.bytes.extend_from_slice(&buffer[from..from + length as usize]);
        }
        Ok(())
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
