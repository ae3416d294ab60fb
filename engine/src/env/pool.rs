//! Parallel reads by threads that block in `pread`. This works everywhere, up to the number of
//! threads that a system can reasonably run.
//!
//! Threads start when requests wait and all other threads are busy, up to a limit, and end with the
//! pool. Batches are served in turn, one request each, so that a long scan does not hold up a short
//! one. Lock order: queue, then batch.

use super::batch_read::{BatchReader, BatchResults, PendingReads, ReadBatch, ReadRequest};
use super::fork::{OfProcess, Process};
use super::read_buffers::ReadBuffers;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A batch reader that reads with a pool of threads.
pub(super) struct ThreadPool {
    shared: Arc<PoolShared>,
    limit: usize,
    threads: Mutex<Vec<OfProcess<JoinHandle<()>>>>,
    buffers: Arc<ReadBuffers>,
    process: Process,
}

struct PoolShared {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Batches that may still have unclaimed requests.
    batches: VecDeque<Arc<ReadBatch>>,
    /// Number of threads that wait for work. One that was just woken still counts until it runs, so
    /// this is a hint: it decides how many are started, never whether a request is read.
    idle: usize,
    closed: bool,
}

impl ThreadPool {
    /// Creates a pool of at most `limit` threads; none is started yet.
    pub(super) fn new(limit: usize) -> ThreadPool {
        let shared = PoolShared { queue: Mutex::new(Queue::default()), work: Condvar::new() };
        ThreadPool {
            shared: Arc::new(shared),
            limit: limit.max(1),
            threads: Mutex::default(),
            buffers: Arc::default(),
            process: Process::this(),
        }
    }

    /// Starts up to `wanted` threads for requests that found no idle one. If the system has no
    /// thread left, that is no error: other threads, or `take`, make the reads.
    fn start_threads(&self, wanted: usize) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..wanted.min(self.limit.saturating_sub(threads.len())) {
            let shared = Arc::clone(&self.shared);
            let name = format!("cleavedb-read-{}", threads.len());
            match thread::Builder::new().name(name).spawn(move || shared.live()) {
                Ok(thread) => threads.push(OfProcess::new(thread)),
                Err(_) => return,
            }
        }
        debug_assert!(threads.len() <= self.limit, "the pool keeps to its limit");
    }
}

impl BatchReader for ThreadPool {
    fn submit(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        let (batch, waiting) = ReadBatch::new(requests, &self.buffers);
        if waiting > 0 {
            let woken = self.shared.push(Arc::clone(&batch), waiting);
            self.start_threads(waiting - woken);
        }
        Box::new(BatchResults::new(batch))
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        // A child has none of the threads, and one of them may hold the lock for ever.
        if self.process.is_gone() {
            return;
        }
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.batches.clear();
        drop(queue);
        self.shared.work.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..).filter_map(OfProcess::into_inner) {
            // The thread never ends by a panic, see `live`.
            let _ = thread.join();
        }
    }
}

impl PoolShared {
    /// Queues a batch; returns the number of idle threads that were woken for it.
    fn push(&self, batch: Arc<ReadBatch>, requests: usize) -> usize {
        let mut queue = self.lock();
        debug_assert!(!queue.closed, "nobody uses a pool that is being dropped");
        queue.batches.push_back(batch);
        debug_assert!(requests > 0, "a batch is queued for the requests that wait");
        let woken = requests.min(queue.idle);
        drop(queue);
        for _ in 0..woken {
            self.work.notify_one();
        }
        woken
    }

    /// Runs a reader thread until the pool is closed. A read that panics becomes an error of its
    /// request. A panic after that, for example in closing a file, must not end the thread: the
    /// pool would silently shrink by one each time.
    fn live(&self) {
        while catch_unwind(AssertUnwindSafe(|| self.work())).is_err() {}
    }

    fn work(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            let Some(batch) = queue.batches.pop_front() else {
                queue.idle += 1;
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            if let Some((index, request)) = batch.claim() {
                queue.batches.push_back(Arc::clone(&batch));
                drop(queue);
                let read = request.read(&batch.buffers);
                batch.close_and_finish(index, request, read); // closing takes a while: not locked
                drop(batch);
                queue = self.lock();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
