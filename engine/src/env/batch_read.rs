//! Many reads at once, which make range queries over separated values fast (WiscKey, section
//! 3.3.1). A device answers thirty random reads in little more than the time of one.
//!
//! A batch is shared by the caller that takes its results and by the workers that read. Each
//! request is claimed by whichever comes first: a worker, or `take` itself if no worker has begun
//! it. So a result never waits in a queue, and a reader without a single worker still answers.

use super::fork::Process;
use super::fs::File;
use super::read_buffers::{ReadBuffer, ReadBuffers};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One read: `len` bytes at `offset`.
#[derive(Clone)]
pub struct ReadRequest {
    /// The file to read from.
    pub file: Arc<dyn File>,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes; if the file ends before, this request fails with `UnexpectedEof`.
    pub len: usize,
}

/// Reads that are under way. Dropping the handle cancels those that have not begun.
pub trait PendingReads: Send + Sync {
    /// Waits for request number `index` of the batch and takes its bytes or its error. Each may be
    /// taken once. Errors of other requests do not matter here.
    fn take(&mut self, index: usize) -> io::Result<ReadBuffer>;
}

/// A reader that can have many reads in flight.
pub trait BatchReader: Send + Sync {
    /// Hands over a batch and returns at once.
    fn submit(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads>;
    /// Returns the way of reading, for statistics: "threads", "io_uring" or "one by one", with the
    /// reason if it replaces another.
    fn name(&self) -> &'static str;
}

/// The way in which parallel reads are made.
///
/// ```
/// use cleavedb::{Options, ParallelReads};
/// let options = Options { parallel_reads: ParallelReads::Threads, ..Options::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ParallelReads {
    /// A pool of threads, because it works everywhere. Measured with a cold page cache on a small
    /// machine, neither it (32 threads) nor a ring (64 reads in flight) was always faster.
    #[default]
    Auto,
    /// A pool of threads.
    Threads,
    /// Linux's io_uring if the kernel allows it and the crate is built with feature `io-uring`,
    /// else threads.
    IoUring,
    /// No parallel reads: each value is read when it is needed.
    Off,
}

impl ReadRequest {
    /// Makes the read in this thread. A panic becomes an error, as others wait for the result.
    pub(super) fn read(&self, buffers: &Arc<ReadBuffers>) -> io::Result<ReadBuffer> {
        // If there is no memory for it, only this request fails.
        let mut bytes = buffers.take(self.len)?;
        catch_unwind(AssertUnwindSafe(|| self.file.read_exact_at(&mut bytes, self.offset)))
            .unwrap_or_else(|_| Err(io::Error::other("reading the file panicked")))?;
        Ok(bytes)
    }

    /// Returns the bytes if they are in the page cache.
    fn read_cached(&self, buffers: &Arc<ReadBuffers>) -> Option<ReadBuffer> {
        let mut bytes = buffers.take(self.len).ok()?;
        self.file.read_cached(&mut bytes, self.offset).then_some(bytes)
    }
}

/// The progress of one request.
enum ReadSlot {
    Waiting(ReadRequest),
    Reading,
    Done(io::Result<ReadBuffer>),
    Taken,
}

/// A batch of requests. Its lock is a leaf: nothing is locked under it.
pub(super) struct ReadBatch {
    slots: Mutex<ReadSlots>,
    done: Condvar,
    /// The memory for its reads.
    pub(super) buffers: Arc<ReadBuffers>,
}

struct ReadSlots {
    slots: Vec<ReadSlot>,
    /// Index of the first slot that may wait for a worker; no slot before it does.
    next: usize,
    /// The slot whose result is awaited, if any; at most one thread takes results.
    awaited: Option<usize>,
}

/// Number of cache misses in a row after which the rest of a batch is not tried in the cache.
const MAX_CACHE_MISSES: usize = 2;

impl ReadBatch {
    /// Creates a batch and returns it with the number of requests that workers have to read. Bytes
    /// in the page cache are read at once: handing them to a worker takes longer than reading them.
    pub(super) fn new(
        requests: Vec<ReadRequest>,
        buffers: &Arc<ReadBuffers>,
    ) -> (Arc<ReadBatch>, usize) {
        let (mut misses, mut waiting) = (0, 0);
        let mut slot = |request: ReadRequest| {
            let cached =
                if misses < MAX_CACHE_MISSES { request.read_cached(buffers) } else { None };
            match cached {
                Some(bytes) => {
                    misses = 0;
                    ReadSlot::Done(Ok(bytes))
                }
                None => {
                    misses += 1;
                    waiting += 1;
                    ReadSlot::Waiting(request)
                }
            }
        };
        let slots: Vec<_> = requests.into_iter().map(&mut slot).collect();
        debug_assert_eq!(
            slots.iter().filter(|slot| slot.waits()).count(),
            waiting,
            "workers are woken for the requests that wait"
        );
        let slots = ReadSlots { slots, next: 0, awaited: None };
        let (slots, done) = (Mutex::new(slots), Condvar::new());
        (Arc::new(ReadBatch { slots, done, buffers: Arc::clone(buffers) }), waiting)
    }

    /// Claims the next request that nobody has begun. Its result must be passed to
    /// [`ReadBatch::finish`].
    pub(super) fn claim(&self) -> Option<(usize, ReadRequest)> {
        let mut slots = self.lock();
        while slots.next < slots.slots.len() {
            let index = slots.next;
            slots.next += 1;
            if let Some(request) = slots.claim(index) {
                return Some((index, request));
            }
        }
        None
    }

    pub(super) fn finish(&self, index: usize, result: io::Result<ReadBuffer>) {
        let mut slots = self.lock();
        debug_assert!(
            matches!(slots.slots[index], ReadSlot::Reading),
            "request {index} is finished once, by the worker that claimed it"
        );
        slots.slots[index] = ReadSlot::Done(result);
        let awaited = slots.awaited == Some(index);
        drop(slots);
        if awaited {
            self.done.notify_one();
        }
    }

    /// Does as [`ReadBatch::finish`], and lets go of the file before: whoever has the result may
    /// count on it that the worker keeps no file open that was removed meanwhile. A panic in that
    /// goes on once the result is there.
    pub(super) fn close_and_finish(
        &self,
        index: usize,
        request: ReadRequest,
        result: io::Result<ReadBuffer>,
    ) {
        let closed = catch_unwind(AssertUnwindSafe(|| drop(request)));
        self.finish(index, result);
        if let Err(panic) = closed {
            resume_unwind(panic);
        }
    }

    fn take(&self, index: usize) -> io::Result<ReadBuffer> {
        let mut slots = self.lock();
        if let Some(request) = slots.claim(index) {
            slots.slots[index] = ReadSlot::Taken;
            drop(slots);
            return request.read(&self.buffers);
        }
        loop {
            match std::mem::replace(&mut slots.slots[index], ReadSlot::Taken) {
                ReadSlot::Done(result) => {
                    slots.awaited = None;
                    return result;
                }
                ReadSlot::Reading => slots.slots[index] = ReadSlot::Reading,
                ReadSlot::Taken | ReadSlot::Waiting(_) => {
                    drop(slots);
                    panic!("request {index} of a batch was taken twice");
                }
            }
            slots.awaited = Some(index);
            slots = self.done.wait(slots).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Cancels the requests that nobody has begun and releases their files.
    fn cancel(&self) {
        let mut slots = self.lock();
        let cancelled: Vec<ReadSlot> =
            slots.slots.iter_mut().filter(|slot| slot.waits()).map(ReadSlot::cancel).collect();
        drop(slots);
        drop(cancelled); // closes files, which may take a while: not under the lock
    }

    fn lock(&self) -> MutexGuard<'_, ReadSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadSlots {
    fn claim(&mut self, index: usize) -> Option<ReadRequest> {
        match std::mem::replace(&mut self.slots[index], ReadSlot::Reading) {
            ReadSlot::Waiting(request) => Some(request),
            other => {
                self.slots[index] = other;
                None
            }
        }
    }
}

impl ReadSlot {
    fn waits(&self) -> bool {
        matches!(self, ReadSlot::Waiting(_))
    }

    fn cancel(&mut self) -> ReadSlot {
        std::mem::replace(self, ReadSlot::Taken)
    }
}

/// The results of a batch, for its submitter.
pub(super) struct BatchResults {
    batch: Arc<ReadBatch>,
    process: Process,
}

impl BatchResults {
    pub(super) fn new(batch: Arc<ReadBatch>) -> BatchResults {
        BatchResults { batch, process: Process::this() }
    }
}

impl PendingReads for BatchResults {
    fn take(&mut self, index: usize) -> io::Result<ReadBuffer> {
        self.batch.take(index)
    }
}

impl Drop for BatchResults {
    fn drop(&mut self) {
        // In a child, a reader that does not exist there may hold the lock for ever.
        if !self.process.is_gone() {
            self.batch.cancel();
        }
    }
}

/// A reader without parallel reads: each read is made when its result is taken.
#[derive(Default)]
pub(super) struct OneByOne {
    buffers: Arc<ReadBuffers>,
}

impl BatchReader for OneByOne {
    fn submit(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        Box::new(BatchResults::new(ReadBatch::new(requests, &self.buffers).0))
    }

    fn name(&self) -> &'static str {
        "one by one"
    }
}
