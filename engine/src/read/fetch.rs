//! Fetches the values of pointers, one or many at once. Only here does a value pointer become a
//! value for a user, and here its record is verified to be the right one (I3).

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::base::size::FILE_BLOCK_BYTES;
use crate::base::value::Value;
use crate::cache::WalkFile;
use crate::env::batch_read::{BatchReader, PendingReads, ReadRequest};
use crate::env::fs::File;
use crate::read::demand::{ScanDemands, ScanNotes};
use crate::segment::{RecordSeal, Segment, SegmentKind};
use crate::stats::Counters;
use crate::version::files::SegmentHandle;
use crate::version::view::View;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The greatest gap in bytes between two records that are read together; reading the gap costs less
/// than another read.
const MAX_GAP_BYTES: u64 = FILE_BLOCK_BYTES;
/// The greatest length in bytes of one read of several records, so that reads still run in
/// parallel.
const MAX_RUN_BYTES: u64 = 256 << 10;

/// The greatest length in bytes of one read of several records from a file that a walk has for
/// itself, which is a whole window: the system reads ahead only if the reads of a file come one
/// after the other.
///
/// Measured with 258,000 values of 1 KiB in key order and a cold page cache: 929,000 pairs a second
/// with 256 KiB, read by several threads at once, and 1,036,000 with 4 MiB.
const MAX_STREAM_BYTES: u64 = 4 << 20;

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
        self.submit(view, wants, None)
    }

    /// Does as [`Fetcher::many`] for the next values of a walk forward that has come far.
    pub fn next_of_walk(
        &self,
        view: &Arc<View>,
        wants: Vec<Want>,
        files: &mut WalkFiles,
    ) -> Fetching {
        files.begin_batch();
        self.submit(view, wants, Some(files))
    }

    fn submit(
        &self,
        view: &Arc<View>,
        wants: Vec<Want>,
        mut files: Option<&mut WalkFiles>,
    ) -> Fetching {
        let places: Vec<_> = wants.iter().map(|want| view.place(want.pointer)).collect();
        let mut order: Vec<usize> = (0..wants.len()).collect();
        order.sort_by_key(|&index| places[index].as_ref().ok().map(|(_, pointer)| *pointer));
        let mut plan = ReadPlan::default();
        let mut ways: Vec<FetchWay> = wants.iter().map(|_| FetchWay::Alone).collect();
        for index in order {
            if let Ok((handle, pointer)) = &places[index] {
                let segment = &handle.segment;
                let file = || match &mut files {
                    Some(files) => files.of(segment),
                    None => shared_file(segment),
                };
                ways[index] = plan.add(*pointer, segment.is_in_file(*pointer), file);
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

/// Returns the file of a segment that all readers share, and how long a read of several records may
/// be.
fn shared_file(segment: &Segment) -> Result<(Arc<dyn File>, u64)> {
    Ok((segment.file()?, MAX_RUN_BYTES))
}

/// The files of sorted segments that a long walk has opened once more: the system reads ahead of
/// each, because the walk alone reads it, and from front to back.
///
/// Measured with 258,000 values of 1 KiB in 32 sorted segments and a cold page cache: a full scan
/// took 0.6 of the time and 0.7 of the processor time.
#[derive(Default)]
pub struct WalkFiles {
    files: BTreeMap<SegmentId, LentFile>,
    batch: u64,
}

struct LentFile {
    own: WalkFile,
    /// The last batch with a value of the segment.
    batch: u64,
}

/// The greatest number of files that a walk opens for itself.
const MOST_WALK_FILES: usize = 64;
/// A file that so many batches had no use for is closed: the walk has probably left the segment.
const UNUSED_BATCHES: u64 = 2;

impl WalkFiles {
    /// Begins the next batch: closes what the last ones did not use.
    fn begin_batch(&mut self) {
        self.batch += 1;
        let oldest = self.batch.saturating_sub(UNUSED_BATCHES);
        self.files.retain(|_, lent| lent.batch >= oldest);
    }

    /// Returns the walk's own file of a sorted segment, and how long a read of several records may
    /// be. Where it can't have one, and of other segments, it is the shared file.
    fn of(&mut self, segment: &Segment) -> Result<(Arc<dyn File>, u64)> {
        if segment.kind() != SegmentKind::Sorted {
            return shared_file(segment);
        }
        let is_full = self.files.len() >= MOST_WALK_FILES;
        let lent = match self.files.entry(segment.identity().id) {
            Entry::Occupied(lent) => lent.into_mut(),
            Entry::Vacant(_) if is_full => return shared_file(segment),
            Entry::Vacant(place) => match segment.open_for_walk() {
                Some(own) => place.insert(LentFile { own, batch: 0 }),
                None => return shared_file(segment),
            },
        };
        lent.batch = self.batch;
        Ok((lent.own.file.clone(), MAX_STREAM_BYTES))
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
    /// The greatest length of the last read, if it gets more records.
    most_bytes: u64,
}

impl ReadPlan {
    /// Adds the next pointer in the order of places: to the last read if it is near, else to a new
    /// one, from `file`, which also says how long a read of several records may be. A record that
    /// is not in the file yet is read by itself.
    fn add(
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
        match file() {
            Ok((file, most_bytes)) => {
                self.requests.push(ReadRequest { file, offset, len });
                self.most_bytes = most_bytes;
            }
            Err(error) => return FetchWay::Lost(error),
        }
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
    use crate::cache::OpenFiles;
    use crate::cache::memory_fs::MemoryFs;
    use crate::env::fs::Fs;
    use crate::segment::SegmentIdentity;
    use crate::version::files::PathSource;
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
    fn a_walk_opens_the_files_of_sorted_segments_once_and_closes_those_it_has_left() {
        let fs = Arc::new(MemoryFs::default());
        let open = Arc::new(OpenFiles::new(fs.clone(), 1000));
        let segment = |id: u64, kind| {
            let path = Path::new("segment").join(id.to_string());
            if id != 3 {
                fs.put(&path, Vec::new());
            }
            let identity = SegmentIdentity { database: 1, id: SegmentId(id), kind, epoch: 1 };
            let source = PathSource { files: open.clone(), path: path.clone() };
            Segment::open(identity, path, Arc::new(source))
        };
        let mut files = WalkFiles::default();
        files.begin_batch();
        let held = |files: &WalkFiles| files.files.len();
        files.of(&segment(1, SegmentKind::Sorted)).unwrap();
        files.of(&segment(1, SegmentKind::Sorted)).unwrap();
        files.of(&segment(2, SegmentKind::Log)).unwrap();
        assert_eq!(held(&files), 1);
        assert!(files.of(&segment(3, SegmentKind::Sorted)).is_err(), "there is no such file");
        assert_eq!(held(&files), 1);
        (4..100).for_each(|id| drop(files.of(&segment(id, SegmentKind::Sorted)).unwrap()));
        assert_eq!(files.files.len(), MOST_WALK_FILES);
        for _ in 0..UNUSED_BATCHES {
            files.begin_batch();
            files.of(&segment(1, SegmentKind::Sorted)).unwrap();
            assert_eq!(files.files.len(), MOST_WALK_FILES);
        }
        files.begin_batch();
        assert_eq!(held(&files), 1);
        files.of(&segment(100, SegmentKind::Sorted)).unwrap();
        assert_eq!(held(&files), 2);
    }

    #[test]
    fn golden_neighbours_are_read_together() {
        golden("read/testdata/reads.txt", run);
    }
}
