//! The memory of parallel reads. Large buffers are used again, and are never on the heap.
//!
//! A long scan has some MiB of reads in flight, made by many threads. On the heap, each thread's
//! arena would keep what its buffers once took (`bench/record/2026-11-28-long-scan-memory.md`), and
//! the pages of a new buffer are made, zeroed and charged one by one, which takes about as long as
//! copying the bytes there.

use super::fork::Process;
use memmap2::MmapMut;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// From so many bytes on a buffer is kept for the next read. Smaller ones are on the heap, where
/// they come back into use by themselves.
const LEAST_KEPT_BYTES: usize = 64 << 10;
/// The most bytes that a reader keeps while nobody uses them. A long scan has three windows of 4
/// MiB at once, and its reads have some more between the values. Scans of 10,000 values of 1 KiB in
/// order read 1.84 million pairs per second with 16 MiB, 1.56 with 12, 1.25 with 8, and 1.18 with
/// buffers on the heap (`bench/record/2026-11-28-read-buffers.md`).
const MAX_IDLE_BYTES: usize = 16 << 20;

/// Buffers that wait for their next use.
#[derive(Default)]
pub(super) struct ReadBuffers {
    idle: Mutex<IdleBuffers>,
    process: Process,
}

#[derive(Default)]
struct IdleBuffers {
    /// The length of each is a power of two; the one that was used last comes last.
    buffers: Vec<MmapMut>,
    /// The bytes of all.
    bytes: usize,
}

/// The bytes of a read. A large one goes back to its reader when it is dropped.
pub struct ReadBuffer {
    memory: ReadMemory,
    len: usize,
}

enum ReadMemory {
    Heap(Vec<u8>),
    Kept { pages: MmapMut, owner: Arc<ReadBuffers> },
}

impl ReadBuffers {
    /// Returns a buffer of `len` bytes with any content; fails if there is no memory for it.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> io::Result<ReadBuffer> {
        let power = len.checked_next_power_of_two().filter(|_| len >= LEAST_KEPT_BYTES);
        let kept = power.and_then(|power| self.kept(power));
        let memory = match kept {
            Some(pages) => ReadMemory::Kept { pages, owner: Arc::clone(self) },
            None => ReadMemory::Heap(on_heap(len)?),
        };
        Ok(ReadBuffer { memory, len })
    }

    /// Returns a buffer that waits, or a new one; `None` if the system has no mapping left.
    fn kept(&self, len: usize) -> Option<MmapMut> {
        let mut idle = self.lock();
        if let Some(index) = idle.buffers.iter().rposition(|pages| pages.len() == len) {
            idle.bytes -= len;
            return Some(idle.buffers.remove(index));
        }
        drop(idle);
        MmapMut::map_anon(len).ok()
    }

    /// Keeps a buffer for its next use. If there are too many then, those go that nobody has used
    /// for longest: their lengths are perhaps not asked for any more.
    fn give_back(&self, pages: MmapMut) {
        // In a child, a thread that does not exist there may hold the lock for ever.
        if self.process.is_gone() {
            return;
        }
        let mut idle = self.lock();
        let too_many = idle.add(pages);
        drop(idle);
        drop(too_many); // to give pages back to the system takes a while: not under the lock
    }

    fn lock(&self) -> MutexGuard<'_, IdleBuffers> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleBuffers {
    /// Adds a buffer, and returns those for which there is no room then.
    fn add(&mut self, pages: MmapMut) -> Vec<MmapMut> {
        if pages.len() > MAX_IDLE_BYTES {
            return vec![pages];
        }
        self.bytes += pages.len();
        self.buffers.push(pages);
        let mut too_many = 0;
        while self.bytes > MAX_IDLE_BYTES {
            self.bytes -= self.buffers[too_many].len();
            too_many += 1;
        }
        self.buffers.drain(..too_many).collect()
    }
}

fn on_heap(len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

impl fmt::Debug for ReadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            ReadMemory::Heap(bytes) => bytes,
            ReadMemory::Kept { pages, .. } => &pages[..self.len],
        }
    }
}

impl DerefMut for ReadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            ReadMemory::Heap(bytes) => bytes,
            ReadMemory::Kept { pages, .. } => &mut pages[..self.len],
        }
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let taken = std::mem::replace(&mut self.memory, ReadMemory::Heap(Vec::new()));
        if let ReadMemory::Kept { pages, owner } = taken {
            owner.give_back(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many buffers wait, and their bytes.
    fn idle(buffers: &ReadBuffers) -> (usize, usize) {
        let idle = buffers.lock();
        (idle.buffers.len(), idle.bytes)
    }

    #[test]
    fn a_large_buffer_is_used_again() {
        let buffers = Arc::new(ReadBuffers::default());
        let mut first = buffers.take(LEAST_KEPT_BYTES + 1).unwrap();
        assert_eq!((first.len(), first[LEAST_KEPT_BYTES]), (LEAST_KEPT_BYTES + 1, 0));
        let place = first.as_ptr();
        first.fill(7);
        drop(first);
        assert_eq!(idle(&buffers), (1, 2 * LEAST_KEPT_BYTES));
        // One of another length is no use.
        drop(buffers.take(LEAST_KEPT_BYTES).unwrap());
        assert_eq!(idle(&buffers), (2, 3 * LEAST_KEPT_BYTES));
        let again = buffers.take(2 * LEAST_KEPT_BYTES).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (place, 2 * LEAST_KEPT_BYTES));
        assert_eq!(idle(&buffers), (1, LEAST_KEPT_BYTES));
    }

    #[test]
    fn small_ones_and_too_many_are_not_kept() {
        let buffers = Arc::new(ReadBuffers::default());
        drop(buffers.take(0).unwrap());
        drop(buffers.take(LEAST_KEPT_BYTES - 1).unwrap());
        drop(buffers.take(MAX_IDLE_BYTES + 1).unwrap());
        assert_eq!(idle(&buffers), (0, 0));
        let many: Vec<_> = (0..200).map(|_| buffers.take(100_000).unwrap()).collect();
        assert_eq!(idle(&buffers), (0, 0));
        drop(many);
        assert_eq!(idle(&buffers), (MAX_IDLE_BYTES >> 17, MAX_IDLE_BYTES));
    }

    /// Guards against buffers that nobody asks for any more, and that keep all others from being
    /// used again.
    #[test]
    fn what_was_used_last_is_kept() {
        let buffers = Arc::new(ReadBuffers::default());
        let many: Vec<_> = (0..200).map(|_| buffers.take(100_000).unwrap()).collect();
        drop(many);
        let large = MAX_IDLE_BYTES / 4;
        let place = buffers.take(large).unwrap().as_ptr();
        let kept = 1 + (MAX_IDLE_BYTES - large) / (128 << 10);
        assert_eq!(idle(&buffers), (kept, MAX_IDLE_BYTES));
        assert_eq!(buffers.take(large).unwrap().as_ptr(), place, "it is used again");
        drop(buffers.take(MAX_IDLE_BYTES + 1).unwrap());
        assert_eq!(idle(&buffers), (kept, MAX_IDLE_BYTES), "a longer one pushes nothing out");
    }

    #[test]
    fn without_memory_a_read_fails_and_nothing_else() {
        let buffers = Arc::new(ReadBuffers::default());
        let error = buffers.take(1 << 60).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn a_child_keeps_nothing_and_takes_no_lock() {
        let gone = Arc::new(ReadBuffers { process: Process::gone(), ..ReadBuffers::default() });
        let buffer = gone.take(LEAST_KEPT_BYTES).unwrap();
        let held = gone.lock();
        drop(buffer);
        drop(held);
        assert_eq!(idle(&gone), (0, 0));
    }
}
