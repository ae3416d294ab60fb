//! The live records of a relocation in memory, chunk after chunk. While one is copied, a thread
//! loads the next: a thread that did one after the other waited for the device for a third of its
//! time (`bench/record/2026-11-29-gc-in-time.md`).

use crate::base::error::Error;
use crate::env::aligned::AlignedBuffer;
use crate::gc::beside::Beside;
use crate::gc::record_runs::{RecordRuns, RecordToMove, parts};
use crate::gc::victim_reader::{Failure, VictimReader};
use crate::version::job::JobError;
use crate::version::runtime::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory for the records that are being copied.
pub struct CopyMemory<'a> {
    /// Buffers of earlier copies; they grow as is needed.
    pub buffers: &'a mut Vec<AlignedBuffer>,
    /// The most bytes of a chunk, unless a single read has more. There are two chunks at a time.
    pub most_bytes: u64,
}

/// Records in memory.
pub struct LoadedChunk {
    buffer: AlignedBuffer,
    /// The number of bytes of the buffer that are in use.
    len: usize,
    /// The records in the order of keys, each with its start in the buffer.
    places: Vec<(RecordToMove, usize)>,
    /// The number of records up to the end of this chunk.
    end: usize,
    /// Number of bytes read.
    pub read: u64,
    /// True if the page cache lacked something of each of its segments.
    pub is_missed: bool,
}

impl LoadedChunk {
    /// Returns the records with their bytes, in the order of keys.
    pub fn records(&mut self) -> impl Iterator<Item = (RecordToMove, &[u8])> {
        let bytes: &[u8] = self.buffer.at_least(self.len);
        let places = self.places.iter();
        places.map(|&(item, start)| (item, &bytes[start..start + item.record.length as usize]))
    }
}

/// What is to be loaded, from the first record to the last.
struct ChunkPlan {
    runtime: Runtime,
    readers: Vec<Arc<VictimReader>>,
    /// Part after part, each in the order of places.
    items: Vec<RecordToMove>,
    /// The ends of the parts.
    ends: Vec<usize>,
    /// The most bytes of a chunk, unless a single read has more.
    most_bytes: u64,
}

impl ChunkPlan {
    /// Returns the records from number `at` on to the end of their part.
    fn rest(&self, at: usize) -> RecordRuns<'_> {
        let part = self.ends.partition_point(|&end| end <= at);
        let end = self.ends.get(part).copied().unwrap_or(at);
        RecordRuns { rest: &self.items[at..end] }
    }

    /// Returns true if the chunk from `at` on is a single read that takes more than its share of
    /// memory, which is to hold no second one beside it.
    fn is_large(&self, at: usize) -> bool {
        let first = self.rest(at).next_chunk(0);
        first.first().is_some_and(|run| run.len() as u64 > self.most_bytes)
    }

    /// Loads the chunk from `at` on into `buffer`; there must be one. It ends early once
    /// `is_given_up`.
    fn load(
        &self,
        at: usize,
        mut buffer: AlignedBuffer,
        is_given_up: &AtomicBool,
    ) -> Result<LoadedChunk, Failure> {
        let runs = self.rest(at).next_chunk(self.most_bytes);
        let mut kept = 0;
        let ends = runs.iter().map(|run| {
            let end = kept + run.len();
            kept += run.kept();
            end
        });
        let len = ends.max().unwrap_or_default();
        let bytes = buffer.at_least(len);
        let records: usize = runs.iter().map(|run| run.items.len()).sum();
        let mut places = Vec::with_capacity(records);
        let (mut start, mut read) = (0, 0);
        for run in &runs {
            self.runtime.check_closing()?;
            if is_given_up.load(Ordering::Relaxed) {
                let given_up = Error::wrong_state("the relocation was given up");
                return Err(JobError::Obsolete(given_up).into());
            }
            self.readers[run.source].read(run, &mut bytes[start..start + run.len()])?;
            read += run.needed as u64;
            run.place(&mut bytes[start..], |item, within| places.push((item, start + within)));
            start += run.kept();
        }
        assert_eq!(places.len(), records, "I3: each listed record is loaded");
        places.sort_unstable_by_key(|(item, _)| item.record.rank);
        let is_missed = runs.iter().all(|run| self.readers[run.source].is_missed());
        let end = at + places.len();
        Ok(LoadedChunk { buffer, len, places, end, read, is_missed })
    }
}

/// The chunks of a relocation, in order.
pub struct LoadedChunks<'a> {
    plan: Arc<ChunkPlan>,
    /// The number of records that the chunks so far had.
    at: usize,
    /// The chunk that a thread loads.
    ahead: Option<Beside<Result<LoadedChunk, Failure>>>,
    /// Buffers to load into.
    buffers: &'a mut Vec<AlignedBuffer>,
}

impl<'a> LoadedChunks<'a> {
    /// Divides `items`, whose sources are `readers`, into chunks.
    pub fn new(
        context: &Runtime,
        readers: Vec<Arc<VictimReader>>,
        mut items: Vec<RecordToMove>,
        memory: CopyMemory<'a>,
    ) -> Self {
        let most_bytes = memory.most_bytes;
        let mut end = 0;
        let ends = parts(&mut items, most_bytes).into_iter().map(|part| {
            end += part.len();
            end
        });
        let (runtime, ends) = (context.clone(), ends.collect());
        let plan = Arc::new(ChunkPlan { runtime, readers, items, ends, most_bytes });
        LoadedChunks { plan, at: 0, ahead: None, buffers: memory.buffers }
    }

    /// Returns the next chunk, which goes to [`LoadedChunks::give_back`] once it is copied; `None`
    /// behind the last one. I3: what is not loaded is not moved, and would be lost with its
    /// segment, so there is no end before the last record.
    pub fn next(&mut self) -> Result<Option<LoadedChunk>, Failure> {
        let chunk = match self.ahead.take() {
            Some(ahead) => ahead.outcome()??,
            None if self.at == self.plan.items.len() => return Ok(None),
            None => self.load_here()?,
        };
        assert!(chunk.end > self.at, "a chunk has a record");
        self.at = chunk.end;
        if chunk.len as u64 <= self.plan.most_bytes {
            self.load_ahead();
        }
        Ok(Some(chunk))
    }

    fn load_here(&mut self) -> Result<LoadedChunk, Failure> {
        let buffer = self.buffers.pop().unwrap_or_default();
        // A large one leaves no memory for another buffer.
        if self.plan.is_large(self.at) {
            self.buffers.clear();
        }
        self.plan.load(self.at, buffer, &AtomicBool::new(false))
    }

    /// Has another thread load the next chunk, unless it is large. If the system has no thread
    /// left, it is loaded here once it is its turn.
    fn load_ahead(&mut self) {
        if self.at == self.plan.items.len() || self.plan.is_large(self.at) {
            return;
        }
        let (plan, at) = (self.plan.clone(), self.at);
        let buffer = self.buffers.pop().unwrap_or_default();
        let work = move |is_given_up: &AtomicBool| Ok(plan.load(at, buffer, is_given_up));
        let Runtime { env, health, .. } = &self.plan.runtime;
        let names = ("cleave-load", "a relocation");
        self.ahead = Beside::begin(&env.threads, health, names, work).ok();
    }

    /// Takes a chunk back whose records are copied.
    pub fn give_back(&mut self, chunk: LoadedChunk) {
        self.buffers.push(chunk.buffer);
    }
}
