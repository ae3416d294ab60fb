//! Fetches the values of pointers, one or many at once. Only here does a value pointer become a
//! value for a user, and here its record is verified to be the right one (I3).

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::ValuePointer;
use crate::base::value::Value;
use crate::env::batch_read::{BatchReader, PendingReads};
use crate::env::read_buffers::ReadBuffer;
use crate::read::demand::{ScanDemands, ScanNotes};
use crate::read::read_plan::{FetchWay, ReadPlan};
use crate::read::walk_files::{WalkFiles, shared_file};
use crate::read::wants::{KeptKey, Wants};
use crate::segment::{RecordSeal, Segment, VerifiedValue};
use crate::stats::Counters;
use crate::version::batch_places::BatchPlaces;
use crate::version::view::View;
use std::ops::Range;
use std::sync::Arc;

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
    pub fn many(&self, view: &Arc<View>, wants: Wants) -> Fetching {
        self.submit(view, wants, None)
    }

    /// Does as [`Fetcher::many`] for the next values of a walk forward that has come far.
    pub fn next_of_walk(&self, view: &Arc<View>, wants: Wants, files: &mut WalkFiles) -> Fetching {
        files.begin_batch();
        self.submit(view, wants, Some(files))
    }

    fn submit(
        &self,
        view: &Arc<View>,
        wants: Wants,
        mut files: Option<&mut WalkFiles>,
    ) -> Fetching {
        let all = wants.all();
        let (places, order, lost) = BatchPlaces::find(view, all.len(), |index| all[index].pointer);
        let mut ways: Vec<FetchWay> = all.iter().map(|_| FetchWay::Alone).collect();
        for (index, error) in lost {
            ways[index] = FetchWay::Lost(error);
        }
        let mut plan = ReadPlan::default();
        for index in order {
            let (segment, pointer) = places.of(index);
            let file = || match &mut files {
                Some(files) => files.of(segment),
                None => shared_file(segment),
            };
            ways[index] = plan.add(pointer, segment.is_in_file(pointer), file);
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

enum ReadRun {
    Pending,
    /// The bytes, or `None` if the read failed.
    Read(Option<ReadBuffer>),
}

/// A batch of values that are being read. Dropping it cancels the reads that have not begun.
pub struct Fetching {
    view: Arc<View>,
    wants: Wants,
    places: BatchPlaces,
    ways: Vec<FetchWay>,
    runs: Vec<ReadRun>,
    starts: Vec<u64>,
    /// The bytes of all reads.
    read_bytes: u64,
    reads: Box<dyn PendingReads>,
}

/// A value that was fetched and verified.
pub enum LentValue {
    /// The value is stored as it is, here in the memory of its batch.
    InBatch(LentPlace),
    /// The value is a copy.
    Owned(Value),
}

/// The place of a value in the memory of its batch.
pub struct LentPlace {
    run: usize,
    range: Range<usize>,
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

    /// Returns a key that was kept with the requests.
    pub fn key(&self, kept: KeptKey) -> &[u8] {
        self.wants.key(kept)
    }

    /// Waits for value number `index` and returns it. An error concerns this value only.
    pub fn take(&mut self, index: usize) -> Result<Value> {
        match self.lend(index)? {
            LentValue::InBatch(place) => Ok(Value::copy_from(self.lent(&place))),
            LentValue::Owned(value) => Ok(value),
        }
    }

    /// Does as [`Fetching::take`] without a copy, if the value is stored as it is.
    pub fn lend(&mut self, index: usize) -> Result<LentValue> {
        self.wait(index)?;
        let (want, keyspace) = (&self.wants.all()[index], self.view.keyspace);
        let (key, (segment, pointer)) = (self.wants.key(want.key), self.place(index));
        let Some((run, range)) = self.fetched(index)? else {
            return segment.read_value(pointer, keyspace, key, want.seqno).map(LentValue::Owned);
        };
        let record = &self.bytes(run)[range.clone()];
        Ok(match segment.verify_slice(record, pointer, keyspace, key, want.seqno)? {
            VerifiedValue::Plain { len } => {
                LentValue::InBatch(LentPlace { run, range: range.end - len..range.end })
            }
            VerifiedValue::Owned(value) => LentValue::Owned(value),
        })
    }

    /// Returns the bytes of a value that [`Fetching::lend`] found in the batch.
    pub fn lent(&self, place: &LentPlace) -> &[u8] {
        &self.bytes(place.run)[place.range.clone()]
    }

    /// Waits for value number `index` and passes its whole stored record to `copy`, with the seal
    /// of its segment's records and its offset there.
    pub fn record<R>(
        &mut self,
        index: usize,
        copy: impl FnOnce(&[u8], &RecordSeal, u64) -> Result<R>,
    ) -> Result<R> {
        self.wait(index)?;
        let (want, keyspace) = (&self.wants.all()[index], self.view.keyspace);
        let (key, seqno) = (self.wants.key(want.key), want.seqno);
        let (segment, pointer) = self.place(index);
        let Some((run, range)) = self.fetched(index)? else {
            let record = segment.read_record(pointer, keyspace, key, seqno)?;
            return copy(&record, segment.seal(), pointer.offset);
        };
        let record = &self.bytes(run)[range];
        segment.check_slice(record, pointer, keyspace, key, seqno)?;
        copy(record, segment.seal(), pointer.offset)
    }

    /// Returns where value number `index` is. Requires: it is not lost.
    fn place(&self, index: usize) -> (&Segment, ValuePointer) {
        self.places.of(index)
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

    /// Returns the run and the place there of the record for which [`Fetching::wait`] has waited;
    /// `None` if the record has to be read by itself.
    fn fetched(&self, index: usize) -> Result<Option<(usize, Range<usize>)>> {
        let FetchWay::ReadRun(run) = self.ways[index] else {
            return Ok(None);
        };
        // The read may have failed because of a neighbour, so each of its values is tried by
        // itself.
        let ReadRun::Read(Some(bytes)) = &self.runs[run] else {
            return Ok(None);
        };
        let (segment, pointer) = self.place(index);
        let start = (pointer.offset - self.starts[run]) as usize;
        let range = start..start + pointer.length as usize;
        if range.end > bytes.len() {
            let error = Error::corruption("a read came back short");
            return Err(error.in_file(segment.path()).at(pointer.offset));
        }
        Ok(Some((run, range)))
    }

    /// Returns the bytes of a run; empty if it was not read.
    fn bytes(&self, run: usize) -> &[u8] {
        match &self.runs[run] {
            ReadRun::Read(Some(bytes)) => bytes,
            ReadRun::Read(None) | ReadRun::Pending => &[],
        }
    }
}
