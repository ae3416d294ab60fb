//! Fetches the values of pointers, one or many at once. Only here does a value pointer become a
//! value for a user, and here its record is verified to be the right one (I3).

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::ValuePointer;
use crate::base::size::FILE_BLOCK_BYTES;
use crate::base::value::Value;
use crate::env::batch_read::{BatchReader, PendingReads, ReadRequest};
use crate::read::demand::{ScanDemands, ScanNotes};
use crate::segment::{RecordSeal, Segment};
use crate::stats::Counters;
use crate::version::files::SegmentHandle;
use crate::version::view::View;
use std::sync::Arc;

/// The greatest gap in bytes between two records that are read together; reading the gap costs less
/// than another read.
const MAX_GAP_BYTES: u64 = FILE_BLOCK_BYTES;
/// The greatest length in bytes of one read of several records, so that reads still run in
/// parallel.
const MAX_RUN_BYTES: u64 = 256 << 10;

/// A request for a separated value.
pub struct Want {
    /// The pointer to the value.
    pub pointer: ValuePointer,
    /// The user key that the record must have.
    pub key: Vec<u8>,
    /// The sequence number that the record must have.
    pub seqno: SeqNo,
}

/// Reads separated values.
#[derive(Clone)]
pub struct Fetcher {
    reader: Arc<dyn BatchReader>,
    counters: Arc<Counters>,
    demands: Option<Arc<ScanDemands>>,
}

impl Fetcher {
    /// Creates a fetcher that reads batches through `reader`.
    pub fn new(reader: Arc<dyn BatchReader>, counters: Arc<Counters>) -> Self {
        Fetcher { reader, counters, demands: None }
    }

    /// Has cursors note what the order of values costs them, if anything is done about it.
    pub fn noting(self, demands: Option<Arc<ScanDemands>>) -> Self {
        Fetcher { demands, ..self }
    }

    /// Returns the notes of a new cursor.
    pub fn notes(&self) -> ScanNotes {
        ScanNotes::new(self.demands.clone())
    }

    /// Counts values that are fetched before they are asked for, and the reads that this takes.
    pub fn note_prefetched(&self, values: usize, reads: usize) {
        self.counters.prefetched_values.add(values as u64);
        self.counters.prefetch_reads.add(reads as u64);
    }

    /// Returns one value, with one read.
    pub fn value(
        &self,
        view: &View,
        pointer: ValuePointer,
        key: &[u8],
        seqno: SeqNo,
    ) -> Result<Value> {
        self.count(pointer);
        let (handle, pointer) = view.place(pointer)?;
        handle.segment.read_value(pointer, view.keyspace, key, seqno)
    }

    /// Does as [`Fetcher::value`], but passes the value's bytes to `take` instead of returning an
    /// owned value.
    pub fn read_pinned<R>(
        &self,
        view: &View,
        pointer: ValuePointer,
        key: &[u8],
        seqno: SeqNo,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        self.count(pointer);
        let (handle, pointer) = view.place(pointer)?;
        handle.segment.read_value_pinned(pointer, view.keyspace, key, seqno, take)
    }

    fn count(&self, pointer: ValuePointer) {
        self.counters.value_reads.add(1);
        self.counters.value_bytes_read.add(u64::from(pointer.length));
    }

    /// Starts to fetch many values: sorted by place, neighbours in one read, the reads in parallel.
    pub fn many(&self, view: &Arc<View>, wants: Vec<Want>) -> Fetching {
        let places: Vec<_> = wants.iter().map(|want| view.place(want.pointer)).collect();
        let mut order: Vec<usize> = (0..wants.len()).collect();
        order.sort_by_key(|&index| places[index].as_ref().ok().map(|(_, pointer)| *pointer));
        let mut plan = ReadPlan::default();
        let mut ways: Vec<FetchWay> = wants.iter().map(|_| FetchWay::Alone).collect();
        for index in order {
            if let Ok((handle, pointer)) = &places[index] {
                ways[index] = plan.add(handle.segment.read_request(*pointer), *pointer);
            }
        }
        self.counters.value_reads.add(wants.len() as u64);
        let read_bytes = plan.requests.iter().map(|request| request.len as u64).sum();
        self.counters.value_bytes_read.add(read_bytes);
        debug_assert!(plan.requests.len() <= wants.len(), "a read serves at least one value");
        let runs = plan.requests.iter().map(|_| ReadRun::Pending).collect();
        let starts = plan.requests.iter().map(|request| request.offset).collect();
        let reads = self.reader.submit(plan.requests);
        Fetching { view: view.clone(), wants, places, ways, runs, starts, read_bytes, reads }
    }
}

/// The segment of a value and its place there; both may differ from its pointer's.
type ValueLocation = (Arc<SegmentHandle>, ValuePointer);

/// The way in which one value of a batch is fetched.
enum FetchWay {
    /// As a part of the read with this index.
    ReadRun(usize),
    /// By itself, because it may still be in the write buffer.
    Alone,
    /// Not at all, because of this error.
    Lost(Error),
}

#[derive(Default)]
struct ReadPlan {
    requests: Vec<ReadRequest>,
    last: Option<ValuePointer>,
}

impl ReadPlan {
    /// Adds the next pointer in the order of places: to the last read if it is near, else to a new
    /// one. `request` would read its record alone; there is none while the record is in the write
    /// buffer.
    fn add(&mut self, request: Result<Option<ReadRequest>>, pointer: ValuePointer) -> FetchWay {
        let is_next = self.last.is_none_or(|last| last <= pointer);
        debug_assert!(is_next, "records are added in the order of their places");
        let request = match request {
            Ok(Some(request)) => request,
            Ok(None) => return FetchWay::Alone,
            Err(error) => return FetchWay::Lost(error),
        };
        let end = pointer.offset + u64::from(pointer.length);
        let same_file = self.last.is_some_and(|last| last.segment == pointer.segment);
        if let Some(run) = self.requests.last_mut().filter(|_| same_file) {
            let run_end = run.offset + run.len as u64;
            if pointer.offset <= run_end + MAX_GAP_BYTES && end - run.offset <= MAX_RUN_BYTES {
                run.len = (end.max(run_end) - run.offset) as usize;
                return FetchWay::ReadRun(self.requests.len() - 1);
            }
        }
        self.requests.push(request);
        self.last = Some(pointer);
        FetchWay::ReadRun(self.requests.len() - 1)
    }
}

enum ReadRun {
    Pending,
    /// The bytes, or `None` if the read failed.
    Read(Option<Vec<u8>>),
}

/// A batch of values that are being read. Dropping it cancels the reads that have not begun.
pub struct Fetching {
    view: Arc<View>,
    wants: Vec<Want>,
    places: Vec<Result<ValueLocation>>,
    ways: Vec<FetchWay>,
    runs: Vec<ReadRun>,
    starts: Vec<u64>,
    /// The bytes of all reads.
    read_bytes: u64,
    reads: Box<dyn PendingReads>,
}

/// A record of a batch.
enum Fetched<'a> {
    /// The record is among the bytes of a read.
    Slice(&'a [u8]),
    /// The record has to be read by itself.
    Alone,
}

impl Fetching {
    /// Returns the number of reads that the batch takes, but for values in the write buffer.
    pub fn reads(&self) -> usize {
        self.runs.len()
    }

    /// Returns the number of bytes that these reads have, those between the values included.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns the number of values of the batch.
    pub fn values(&self) -> usize {
        self.wants.len()
    }

    /// Waits for value number `index` and returns it. An error concerns this value only.
    pub fn take(&mut self, index: usize) -> Result<Value> {
        self.wait(index)?;
        let (want, keyspace) = (&self.wants[index], self.view.keyspace);
        let (segment, pointer) = self.place(index)?;
        match self.fetched(index)? {
            Fetched::Alone => segment.read_value(pointer, keyspace, &want.key, want.seqno),
            Fetched::Slice(record) => {
                segment.verify_slice(record, pointer, keyspace, &want.key, want.seqno)
            }
        }
    }

    /// Waits for value number `index` and passes its whole stored record to `copy`, with the seal
    /// of its segment's records and its offset there.
    pub fn record<R>(
        &mut self,
        index: usize,
        copy: impl FnOnce(&[u8], &RecordSeal, u64) -> Result<R>,
    ) -> Result<R> {
        self.wait(index)?;
        let (want, keyspace) = (&self.wants[index], self.view.keyspace);
        let (segment, pointer) = self.place(index)?;
        let (key, seqno) = (&want.key, want.seqno);
        match self.fetched(index)? {
            Fetched::Alone => {
                let record = segment.read_record(pointer, keyspace, key, seqno)?;
                copy(&record, segment.seal(), pointer.offset)
            }
            Fetched::Slice(record) => {
                segment.check_slice(record, pointer, keyspace, key, seqno)?;
                copy(record, segment.seal(), pointer.offset)
            }
        }
    }

    fn place(&self, index: usize) -> Result<(&Segment, ValuePointer)> {
        let (handle, pointer) = self.places[index].as_ref().map_err(Error::clone)?;
        Ok((&handle.segment, *pointer))
    }

    /// Waits for the read that contains value number `index`, if there is one.
    fn wait(&mut self, index: usize) -> Result<()> {
        match &self.ways[index] {
            FetchWay::Lost(error) => Err(error.clone()),
            FetchWay::Alone => Ok(()),
            FetchWay::ReadRun(run) => {
                let run = *run;
                if matches!(self.runs[run], ReadRun::Pending) {
                    self.runs[run] = ReadRun::Read(self.reads.take(run).ok());
                }
                Ok(())
            }
        }
    }

    /// Returns the record for which [`Fetching::wait`] has waited.
    fn fetched(&self, index: usize) -> Result<Fetched<'_>> {
        let FetchWay::ReadRun(run) = self.ways[index] else {
            return Ok(Fetched::Alone);
        };
        // The read may have failed because of a neighbour, so each of its values is tried by
        // itself.
        let ReadRun::Read(Some(bytes)) = &self.runs[run] else {
            return Ok(Fetched::Alone);
        };
        let (segment, pointer) = self.place(index)?;
        let start = (pointer.offset - self.starts[run]) as usize;
        let record = bytes.get(start..start + pointer.length as usize).ok_or_else(|| {
            Error::corruption("a read came back short").in_file(segment.path()).at(pointer.offset)
        })?;
        Ok(Fetched::Slice(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::{golden, number};
    use crate::base::pointer::SegmentId;
    use crate::cache::memory_fs::MemoryFs;
    use crate::env::fs::Fs;
    use std::path::Path;

    /// Runs a case: `1 0 100` is a record by segment, offset and length, in the order of places;
    /// `buffered` behind it says that it is in the write buffer, `lost` that its file is.
    fn run(lines: &[&str]) -> String {
        let file = MemoryFs::default().create(Path::new("segment")).unwrap();
        let mut plan = ReadPlan::default();
        let mut text = String::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let (segment, offset) = (SegmentId(number(words[0])), number(words[1]));
            let pointer = ValuePointer { segment, offset, length: number(words[2]) as u32 };
            let len = pointer.length as usize;
            let request = match words.get(3) {
                None => Ok(Some(ReadRequest { file: file.clone(), offset, len })),
                Some(&"buffered") => Ok(None),
                Some(_) => Err(Error::closed("the file is lost")),
            };
            text += &match plan.add(request, pointer) {
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
