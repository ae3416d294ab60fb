//! Many reads at once: what makes range queries over separated values fast (WiscKey, section
//! 3.3.1). A device answers thirty random reads in little more than the time of one.
//!
//! A batch is shared by the one who takes its results and by the workers that read. Each request
//! is claimed by whoever comes first: a worker, or `take` itself when no worker has begun with
//! it. So a result never waits in a queue, and a reader without a single worker still answers.

use super::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One read: `len` bytes at `offset`.
#[derive(Clone)]
pub struct ReadRequest {
    /// Where from.
    pub file: Arc<dyn File>,
    /// First byte.
    pub offset: u64,
    /// How many bytes; a file that ends before is an `UnexpectedEof` error of this request.
    pub len: usize,
}

/// Reads that are under way. Dropping it cancels those that have not begun.
pub trait PendingReads: Send + Sync {
    /// Waits for request number `index` of the batch and takes its bytes or its error. Each may
    /// be taken once. Errors of other requests do not matter here.
    fn take(&mut self, index: usize) -> io::Result<Vec<u8>>;
}

/// A way to have many reads in flight.
pub trait BatchReader: Send + Sync {
    /// Hands over a batch and returns at once.
    fn submit(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads>;
    /// For statistics: "threads", "io_uring" or "one by one", and why if it was to be another.
    fn name(&self) -> &'static str;
}

/// Which way of reading is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParallelReads {
    /// A pool of threads: it works everywhere, and measured with a cold page cache on a small
    /// machine, neither it (32 threads) nor a ring (64 reads in flight) was always faster.
    #[default]
    Auto,
    /// A pool of threads.
    Threads,
    /// Linux's io_uring if the kernel allows it and the crate is built with feature `io-uring`,
    /// else threads.
    IoUring,
    /// None: each value is read when it is asked for.
    Off,
}

impl ReadRequest {
    /// Makes the read in this thread. A panic becomes an error, as others wait for the result.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = self.buffer()?;
        catch_unwind(AssertUnwindSafe(|| self.file.read_exact_at(&mut bytes, self.offset)))
            .unwrap_or_else(|_| Err(io::Error::other("reading the file panicked")))?;
        Ok(bytes)
    }

    /// The bytes, if they are in memory already.
    fn read_cached(&self) -> Option<Vec<u8>> {
        let mut bytes = self.buffer().ok()?;
        self.file.read_cached(&mut bytes, self.offset).then_some(bytes)
    }

    /// Room for the bytes; that there is none is an error of this request alone.
    pub(super) fn buffer(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.len)?;
        bytes.resize(self.len, 0);
        Ok(bytes)
    }
}

/// One request's way from asked to taken.
enum ReadSlot {
    Waiting(ReadRequest),
    Reading,
    Done(io::Result<Vec<u8>>),
    Taken,
}

/// Requests that were handed over together. Its lock is a leaf: nothing is locked under it.
pub(super) struct ReadBatch {
    slots: Mutex<ReadSlots>,
    done: Condvar,
}

struct ReadSlots {
    slots: Vec<ReadSlot>,
    /// No slot before this one waits for a worker.
    next: usize,
    /// The slot whose result somebody waits for; there is one taker at most.
    awaited: Option<usize>,
}

/// After this many requests in a row that need the device, the others are not tried in memory.
const CACHE_PATIENCE: usize = 2;

impl ReadBatch {
    /// A batch of these requests, and how many of them workers have to read. What is in the page
    /// cache is read at once: handing it to a worker takes longer than reading it.
    pub(super) fn new(requests: Vec<ReadRequest>) -> (Arc<ReadBatch>, usize) {
        let (mut misses, mut waiting) = (0, 0);
        let mut slot = |request: ReadRequest| {
            let cached = if misses < CACHE_PATIENCE { request.read_cached() } else { None };
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
        let slots = requests.into_iter().map(&mut slot).collect();
        let slots = ReadSlots { slots, next: 0, awaited: None };
        (Arc::new(ReadBatch { slots: Mutex::new(slots), done: Condvar::new() }), waiting)
    }

    /// Takes the next request that nobody has begun with. Its result must be given to
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

    pub(super) fn finish(&self, index: usize, result: io::Result<Vec<u8>>) {
        let mut slots = self.lock();
        slots.slots[index] = ReadSlot::Done(result);
        let awaited = slots.awaited == Some(index);
        drop(slots);
        if awaited {
            self.done.notify_one();
        }
    }

    fn take(&self, index: usize) -> io::Result<Vec<u8>> {
        let mut slots = self.lock();
        if let Some(request) = slots.claim(index) {
            slots.slots[index] = ReadSlot::Taken;
            drop(slots);
            return request.read();
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

    /// Forgets the requests that nobody has begun with; their files are let go.
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

/// The results of a batch, for the one who asked.
pub(super) struct BatchResults(pub(super) Arc<ReadBatch>);

impl PendingReads for BatchResults {
    fn take(&mut self, index: usize) -> io::Result<Vec<u8>> {
        self.0.take(index)
    }
}

impl Drop for BatchResults {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// No parallel reads: each is made when its result is taken.
pub(super) struct OneByOne;

impl BatchReader for OneByOne {
    fn submit(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        Box::new(BatchResults(ReadBatch::new(requests).0))
    }

    fn name(&self) -> &'static str {
        "one by one"
    }
}
