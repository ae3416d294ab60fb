//! Parallel reads through Linux's io_uring: one thread keeps up to 64 reads in flight, and none of
//! them blocks it.
//!
//! The thread owns the ring, and with it each buffer that the kernel writes to, from submission to
//! completion. It sleeps in the kernel until a read is complete or its wake event (an eventfd that
//! the ring polls) is set. A flag under the inbox's lock says whether that is needed, so no batch
//! is ever left behind. Lock order: inbox, then batch.
//!
//! Many environments forbid io_uring (containers since 2023). [`RingReader::new`] then fails, and
//! threads are used.

use super::batch_read::{BatchReader, BatchResults, PendingReads, ReadBatch, ReadRequest};
use super::fork::{OfProcess, Process};
use super::fs::ends_early;
use super::read_buffers::{ReadBuffer, ReadBuffers};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::event::EventfdFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The most reads in flight. Devices that serve more at once are rare, and each read takes a
/// buffer.
const IN_FLIGHT: usize = 64;
/// Number of ring entries: room for all reads in flight and the poll of the wake event.
const RING_ENTRIES: u32 = 2 * IN_FLIGHT as u32;
/// The mark of the wake event's poll; completions of reads carry an index into `flights` instead.
const WAKE_MARK: u64 = u64::MAX;
/// The length in bytes of the longest single read; the kernel accepts no longer one.
const LONGEST_READ: usize = 1 << 30;

/// A batch reader that reads through a ring.
pub(super) struct RingReader {
    shared: Arc<RingShared>,
    thread: Option<OfProcess<JoinHandle<()>>>,
    buffers: Arc<ReadBuffers>,
    process: Process,
}

struct RingShared {
    inbox: Mutex<Inbox>,
    wake_event: OwnedFd,
}

#[derive(Default)]
struct Inbox {
    /// Batches that may still have unclaimed requests.
    batches: VecDeque<Arc<ReadBatch>>,
    /// True if the thread found nothing more to begin, and sleeps or is about to.
    asleep: bool,
    closed: bool,
}

impl RingReader {
    /// Sets up a ring and its thread. Fails where the kernel has none or forbids it.
    pub(super) fn new() -> io::Result<RingReader> {
        let ring = IoUring::new(RING_ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !(probe.is_supported(opcode::Read::CODE) && probe.is_supported(opcode::PollAdd::CODE)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let wake_event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(RingShared { inbox: Mutex::default(), wake_event });
        let worker = Ring {
            ring,
            shared: Arc::clone(&shared),
            flights: (0..IN_FLIGHT).map(|_| None).collect(),
            free: (0..IN_FLIGHT).collect(),
        };
        let builder = std::thread::Builder::new().name("cleavedb-read-ring".to_owned());
        let thread = Some(OfProcess::new(builder.spawn(move || worker.work())?));
        Ok(RingReader { shared, thread, buffers: Arc::default(), process: Process::this() })
    }
}

impl BatchReader for RingReader {
    fn submit(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        let (batch, waiting) = ReadBatch::new(requests, &self.buffers);
        if waiting == 0 {
            return Box::new(BatchResults::new(batch));
        }
        let mut inbox = self.shared.lock();
        // If the ring broke down, `take` makes the reads itself.
        if !inbox.closed {
            inbox.batches.push_back(Arc::clone(&batch));
            self.shared.wake(inbox);
        }
        Box::new(BatchResults::new(batch))
    }

    fn name(&self) -> &'static str {
        if self.shared.lock().closed { "one by one, as io_uring broke down" } else { "io_uring" }
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        // A child process lacks the thread, which may hold the lock for ever, and shares the wake
        // event.
        if self.process.is_gone() {
            return;
        }
        let mut inbox = self.shared.lock();
        inbox.closed = true;
        let forgotten = std::mem::take(&mut inbox.batches);
        self.shared.wake(inbox);
        drop(forgotten); // may close files: not under the lock
        if let Some(thread) = self.thread.take().and_then(OfProcess::into_inner) {
            // If the thread panicked, its flights were ended with an error (see `Ring::drop`).
            let _ = thread.join();
        }
    }
}

impl RingShared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the wake event if the thread sleeps.
    fn wake(&self, mut inbox: MutexGuard<'_, Inbox>) {
        let rings = std::mem::take(&mut inbox.asleep);
        drop(inbox);
        if rings {
            // The write fails only if the counter is full, and then the wake event is already set.
            #[expect(
                clippy::host_endian_bytes,
                reason = "an eventfd takes the machine's own order"
            )]
            let one = 1_u64.to_ne_bytes();
            let _ = rustix::io::write(&self.wake_event, &one);
        }
    }

    /// Claims the next request, one of each batch in turn. `Err` if there will be none any more.
    fn next(&self) -> Result<Option<(Arc<ReadBatch>, usize, ReadRequest)>, ReaderClosed> {
        let mut inbox = self.lock();
        while let Some(batch) = inbox.batches.pop_front() {
            if let Some((index, request)) = batch.claim() {
                inbox.batches.push_back(Arc::clone(&batch));
                return Ok(Some((batch, index, request)));
            }
        }
        if inbox.closed {
            return Err(ReaderClosed);
        }
        inbox.asleep = true;
        Ok(None)
    }
}

/// The error for a reader that was dropped.
struct ReaderClosed;

/// A read that the kernel works on.
struct Flight {
    batch: Arc<ReadBatch>,
    index: usize,
    request: ReadRequest,
    buffer: ReadBuffer,
    /// Number of bytes read so far.
    read: usize,
}

/// The state that the ring's thread owns.
struct Ring {
    ring: IoUring,
    shared: Arc<RingShared>,
    flights: Vec<Option<Flight>>,
    /// The indices of the empty places in `flights`.
    free: Vec<usize>,
}

impl Ring {
    fn work(mut self) {
        self.watch_wake_event();
        loop {
            let closed = self.begin_all().is_err();
            if closed && self.free.len() == IN_FLIGHT {
                debug_assert!(
                    self.flights.iter().all(Option::is_none),
                    "no buffer is freed while the kernel writes to it"
                );
                return;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                // Interrupted, or completions have to be taken first: both are fine.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => {}
                Err(_) => return,
            }
            self.take_completions();
        }
    }

    /// Begins requests while there are any and there is room in flight.
    fn begin_all(&mut self) -> Result<(), ReaderClosed> {
        while let Some(&place) = self.free.last() {
            let Some((batch, index, request)) = self.shared.next()? else {
                return Ok(());
            };
            if request.file.descriptor().is_none() || request.len == 0 {
                let read = request.read(&batch.buffers);
                batch.close_and_finish(index, request, read);
                continue;
            }
            match batch.buffers.take(request.len) {
                Err(error) => batch.finish(index, Err(error)),
                Ok(buffer) => {
                    assert!(self.flights[place].is_none(), "a free place has no read in flight");
                    self.free.pop();
                    self.flights[place] = Some(Flight { batch, index, request, buffer, read: 0 });
                    self.submit(place);
                }
            }
        }
        Ok(())
    }

    /// Submits a flight, or the rest of it, to the kernel.
    fn submit(&mut self, place: usize) {
        let Some(flight) = &mut self.flights[place] else { return };
        let Some(descriptor) = flight.request.file.descriptor() else { return };
        let offset = flight.request.offset + flight.read as u64;
        let missing = &mut flight.buffer[flight.read..];
        let len = missing.len().min(LONGEST_READ) as u32;
        let file = types::Fd(descriptor.as_raw_fd());
        let read = opcode::Read::new(file, missing.as_mut_ptr(), len).offset(offset);
        self.push(&read.build().user_data(place as u64));
    }

    fn watch_wake_event(&mut self) {
        let wake_event = types::Fd(self.shared.wake_event.as_raw_fd());
        let readable = u32::from(libc::POLLIN.unsigned_abs());
        self.push(&opcode::PollAdd::new(wake_event, readable).build().user_data(WAKE_MARK));
    }

    #[expect(unsafe_code, reason = "the kernel writes to memory that the entry points at")]
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: an entry is a poll, which has no memory, or a read into the buffer of a flight in
        // `self.flights`. The bytes of that buffer are not touched, moved (they are pages of their
        // own or on the heap, and nobody resizes them) or freed until the read's completion was
        // taken: a flight leaves the table in `complete` only, and `Ring::drop` leaks the others.
        // The file stays open as long, because the flight holds it; the wake event stays open as
        // long as `self.shared` exists.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "there is room for all flights and the wake event");
    }

    fn take_completions(&mut self) {
        let completions: Vec<(u64, i32)> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (user_data, result) in completions {
            if user_data == WAKE_MARK {
                // This empties the counter; that it is empty already is no error.
                let _ = rustix::io::read(&self.shared.wake_event, &mut [0_u8; 8]);
                self.watch_wake_event();
            } else {
                self.complete(user_data as usize, result);
            }
        }
    }

    /// Ends a flight, or continues it if the kernel read only a part.
    fn complete(&mut self, place: usize, result: i32) {
        let Some(flight) = &mut self.flights[place] else { return };
        let result = match usize::try_from(result) {
            Ok(0) => Err(ends_early(flight.buffer.len() - flight.read)),
            Ok(read) => {
                flight.read += read;
                assert!(flight.read <= flight.buffer.len(), "a read fills its buffer at most");
                if flight.read < flight.buffer.len() {
                    return self.submit(place);
                }
                Ok(())
            }
            Err(_) if matches!(-result, libc::EINTR | libc::EAGAIN) => return self.submit(place),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        if let Some(flight) = self.flights[place].take() {
            self.free.push(place);
            let Flight { batch, index, request, buffer, .. } = flight;
            batch.close_and_finish(index, request, result.map(|()| buffer));
        }
    }
}

impl Drop for Ring {
    /// Ends all flights. When the thread ends normally there are none. If the ring broke down, the
    /// kernel may still write to the buffers: they are leaked, and their takers get an error.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        for flight in self.flights.drain(..).flatten() {
            let Flight { batch, index, request, buffer, .. } = flight;
            #[expect(clippy::disallowed_methods, reason = "the kernel may still write to it")]
            std::mem::forget((request, buffer));
            batch.finish(index, Err(io::Error::other("reading through io_uring broke down")));
        }
    }
}
