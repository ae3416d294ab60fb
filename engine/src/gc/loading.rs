//! The live records of a relocation in memory, chunk after chunk. If there is more than one, a
//! thread loads the next chunk while the one before is copied: a thread that did one after the
//! other waited for the device for a third of its time (`bench/record/2026-11-29-gc-in-time.md`).
//!
//! Lock: `state` of [`ChunkExchange`], a leaf, held for moments.

use crate::env::aligned::AlignedBuffer;
use crate::env::sync::{Condvar, Mutex};
use crate::gc::beside::Beside;
use crate::gc::record_runs::{RecordRun, RecordRuns, RecordToMove, parts};
use crate::gc::victim_reader::{Failure, VictimReader};
use crate::version::runtime::Runtime;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The chunk that is copied, and the one that is loaded meanwhile.
const BUFFERS: u64 = 2;

/// Memory for the records that are being copied.
pub struct CopyMemory<'a> {
    /// Buffers of earlier copies; they grow as is needed.
    pub buffers: &'a mut Vec<AlignedBuffer>,
    /// The most bytes that are loaded at a time, unless a single read has more.
    pub most_bytes: u64,
}

/// Records in memory.
pub struct LoadedChunk {
    buffer: AlignedBuffer,
    /// The number of bytes of the buffer that are in use.
    len: usize,
    /// The records in the order of keys, each with its start in the buffer.
    places: Vec<(RecordToMove, usize)>,
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
struct ChunkLoader {
    runtime: Runtime,
    readers: Vec<Arc<VictimReader>>,
    /// Part after part, each in the order of places.
    items: Vec<RecordToMove>,
    /// The ends of the parts that are left.
    ends: VecDeque<usize>,
    /// The number of items that were loaded.
    loaded: usize,
    /// The most bytes of a chunk, unless a single read has more.
    most_bytes: u64,
}

impl ChunkLoader {
    fn is_done(&self) -> bool {
        self.loaded == self.items.len()
    }

    /// Returns what is left of the part that is loaded, in the order of places.
    fn rest(&self) -> RecordRuns<'_> {
        let end = self.ends.front().copied().unwrap_or(self.loaded);
        RecordRuns { rest: &self.items[self.loaded..end] }
    }

    /// Returns true if the next chunk is a single read that takes more than its share of memory.
    fn is_next_large(&self) -> bool {
        let first = self.rest().next_chunk(0);
        first.first().is_some_and(|run| run.len() as u64 > self.most_bytes)
    }

    /// Loads the next chunk into `buffer`; there must be one.
    fn load(&mut self, buffer: AlignedBuffer) -> Result<LoadedChunk, Failure> {
        let end = self.ends[0];
        let mut runs = self.rest();
        let chunk = runs.next_chunk(self.most_bytes);
        let left = runs.rest.len();
        let loaded = self.read(&chunk, buffer)?;
        self.loaded = end - left;
        if left == 0 {
            self.ends.pop_front();
        }
        Ok(loaded)
    }

    fn read(
        &self,
        runs: &[RecordRun<'_>],
        mut buffer: AlignedBuffer,
    ) -> Result<LoadedChunk, Failure> {
        let mut kept = 0;
        let ends = runs.iter().map(|run| {
            let end = kept + run.len();
            kept += run.kept();
            end
        });
        let len = ends.max().unwrap_or_default();
        let bytes = buffer.at_least(len);
        let mut places = Vec::with_capacity(runs.iter().map(|run| run.items.len()).sum());
        let (mut end, mut read) = (0, 0);
        for run in runs {
            self.runtime.check_closing()?;
            self.readers[run.source].read(run, &mut bytes[end..end + run.len()])?;
            read += run.needed as u64;
            run.place(&mut bytes[end..], |item, start| places.push((item, end + start)));
            end += run.kept();
        }
        places.sort_unstable_by_key(|(item, _)| item.record.rank);
        let is_missed = runs.iter().all(|run| self.readers[run.source].is_missed());
        Ok(LoadedChunk { buffer, len, places, read, is_missed })
    }
}

/// What the two threads hand to each other.
#[derive(Default)]
struct ChunkExchangeState {
    /// What is to be loaded; `None` while the thread has it.
    loader: Option<ChunkLoader>,
    /// Buffers to load into.
    empty: Vec<AlignedBuffer>,
    /// Chunks to copy.
    loaded: VecDeque<LoadedChunk>,
    /// True once the thread has ended, after which there is no other one.
    is_over: bool,
    /// True once nobody takes anything from there any more.
    is_given_up: bool,
}

#[derive(Default)]
struct ChunkExchange {
    state: Mutex<ChunkExchangeState>,
    changed: Condvar,
}

impl ChunkExchange {
    /// Loads chunks into empty buffers until all are loaded, one fails, or nobody wants any more. A
    /// large one, of which memory is to hold no two, is left.
    fn load_all(&self) -> Result<(), Failure> {
        let Some(mut loader) = self.state.lock().loader.take() else { return Ok(()) };
        while !loader.is_done() && !loader.is_next_large() {
            let Some(buffer) = self.empty_buffer() else { return Ok(()) };
            let chunk = loader.load(buffer)?;
            self.state.lock().loaded.push_back(chunk);
            self.changed.notify_all();
        }
        self.state.lock().loader = Some(loader);
        Ok(())
    }

    /// Waits for a buffer; returns `None` if nobody wants more chunks.
    fn empty_buffer(&self) -> Option<AlignedBuffer> {
        let mut state = self.state.lock();
        loop {
            if state.is_given_up {
                return None;
            }
            if let Some(buffer) = state.empty.pop() {
                return Some(buffer);
            }
            state = self.changed.wait(state);
        }
    }

    /// Waits for a chunk; returns `None` if there comes none.
    fn loaded_chunk(&self) -> Option<LoadedChunk> {
        let mut state = self.state.lock();
        loop {
            if let Some(chunk) = state.loaded.pop_front() {
                return Some(chunk);
            }
            if state.is_over {
                return None;
            }
            state = self.changed.wait(state);
        }
    }
}

/// Ends the exchange when the thread ends, even if that is by a panic.
struct LoadingEnd(Arc<ChunkExchange>);

impl Drop for LoadingEnd {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

/// The chunks of a relocation, in order.
pub struct LoadedChunks<'a> {
    runtime: &'a Runtime,
    exchange: Arc<ChunkExchange>,
    /// The thread that loads chunks, while there is one.
    thread: Option<Beside<Result<(), Failure>>>,
    /// The number of records that are to be loaded.
    records_left: usize,
    /// Where the buffers go in the end.
    buffers: &'a mut Vec<AlignedBuffer>,
}

impl<'a> LoadedChunks<'a> {
    /// Divides `items`, whose sources are `readers`, into chunks.
    pub fn new(
        runtime: &'a Runtime,
        readers: Vec<Arc<VictimReader>>,
        mut items: Vec<RecordToMove>,
        memory: CopyMemory<'a>,
    ) -> Self {
        let most_bytes = memory.most_bytes / BUFFERS;
        let mut end = 0;
        let ends = parts(&mut items, most_bytes).into_iter().map(|part| {
            end += part.len();
            end
        });
        let (ends, records_left) = (ends.collect(), items.len());
        let loader =
            ChunkLoader { runtime: runtime.clone(), readers, items, ends, loaded: 0, most_bytes };
        let (loader, empty) = (Some(loader), std::mem::take(memory.buffers));
        let state = ChunkExchangeState { loader, empty, ..ChunkExchangeState::default() };
        let exchange =
            Arc::new(ChunkExchange { state: Mutex::new(state), changed: Condvar::new() });
        LoadedChunks { runtime, exchange, thread: None, records_left, buffers: memory.buffers }
    }

    /// Returns the next chunk, which goes to [`LoadedChunks::give_back`] once it is copied; `None`
    /// behind the last one.
    pub fn next(&mut self) -> Result<Option<LoadedChunk>, Failure> {
        let chunk = self.next_chunk()?;
        let records = chunk.as_ref().map_or(0, |chunk| chunk.places.len());
        // I3: what is not loaded is not moved, and would be lost with its segment.
        assert!(chunk.is_some() || self.records_left == 0, "a record is left that is live");
        self.records_left -= records;
        Ok(chunk)
    }

    fn next_chunk(&mut self) -> Result<Option<LoadedChunk>, Failure> {
        if self.thread.is_some()
            && let Some(chunk) = self.exchange.loaded_chunk()
        {
            return Ok(Some(chunk));
        }
        if let Some(thread) = self.thread.take() {
            thread.outcome()??;
        }
        self.load_here()
    }

    /// Loads the next chunk on this thread, and has another one load those behind it, unless there
    /// was one already: it has left what is large.
    fn load_here(&mut self) -> Result<Option<LoadedChunk>, Failure> {
        let mut state = self.exchange.state.lock();
        let loader = state.loader.take();
        let mut loader = loader.expect("a thread that did not fail puts it back");
        if loader.is_done() {
            return Ok(None);
        }
        let buffer = state.empty.pop().unwrap_or_default();
        let is_large = loader.is_next_large();
        if is_large {
            state.empty.clear();
        }
        drop(state);
        let chunk = loader.load(buffer)?;
        let has_room = !is_large && !loader.is_done() && !loader.is_next_large();
        let mut state = self.exchange.state.lock();
        state.loader = Some(loader);
        let was_thread = state.is_over;
        drop(state);
        if has_room && !was_thread {
            self.begin_thread();
        }
        Ok(Some(chunk))
    }

    /// Begins the thread. If the system has none left, the next chunk is loaded here, too.
    fn begin_thread(&mut self) {
        let mut state = self.exchange.state.lock();
        if state.empty.is_empty() {
            state.empty.push(AlignedBuffer::default());
        }
        drop(state);
        let theirs = self.exchange.clone();
        let work = move |_: &AtomicBool| {
            let end = LoadingEnd(theirs);
            Ok(end.0.load_all())
        };
        let (threads, health) = (&self.runtime.env.threads, &self.runtime.health);
        self.thread = Beside::begin(threads, health, ("cleave-load", "a relocation"), work).ok();
    }

    /// Takes a chunk back whose records are copied.
    pub fn give_back(&self, chunk: LoadedChunk) {
        self.exchange.state.lock().empty.push(chunk.buffer);
        self.exchange.changed.notify_all();
    }
}

impl Drop for LoadedChunks<'_> {
    fn drop(&mut self) {
        self.exchange.state.lock().is_given_up = true;
        self.exchange.changed.notify_all();
        // This waits for the thread, which has its files open.
        self.thread = None;
        self.buffers.append(&mut self.exchange.state.lock().empty);
    }
}
