//! The end of a segment that is being written: bytes that are not in the file yet, and the offsets
//! up to which it is written and synced. Shared by the one writer and any number of readers.
//!
//! ```text
//!   file                                    │ writing         │ filling
//!   0 …… durable …… whole …… written = start │ being handed to │ where frames are
//!                                           │ the system      │ appended
//! ```
//!
//! Two buffers alternate, so that readers never wait for a write: `writing` stays readable until
//! its bytes are in the file. Readers of bytes before `written` take no lock.
//!
//! Locks: `buffers` is held for copying only. `sync_failure` is held during a sync; only `buffers`
//! and the leaf lock of the file are taken under it.

use crate::base::error::{Error, IoContext, Result};
use crate::env::fs::File;
use crate::env::sync::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A sync of at least this many bytes begins with their writeback. Fewer cost less than the call.
const WRITEBACK_FIRST_BYTES: u64 = 256 << 10;

pub(super) struct LiveTail {
    /// Everything before this offset was handed to the operating system.
    written: AtomicU64,
    /// The end of the last whole frame before `written`: how far a sync may claim durability. If it
    /// were in the middle of a frame, later frames would declare the first half of that frame
    /// synced, and recovery would take the loss of the second half for corruption.
    whole: AtomicU64,
    /// Everything before this offset is on stable storage.
    durable: AtomicU64,
    /// The frames before this offset are commits that readers see. Behind it there may be frames of
    /// a commit that is going to fail.
    committed: AtomicU64,
    /// Writeback is to be started before this offset.
    writeback_due: AtomicU64,
    /// Writeback was started before this offset.
    written_back: AtomicU64,
    /// The final length, if the segment was sealed and its file not cut to it yet; else 0.
    to_be_cut: AtomicU64,
    buffers: Mutex<Buffers>,
    sync_failure: Mutex<Option<Error>>,
    /// True once `sync_failure` holds an error, so that a check does not wait for a sync.
    sync_failed: AtomicBool,
}

struct Buffers {
    /// The file offset where `writing` begins; `filling` follows it.
    start: u64,
    writing: Arc<Vec<u8>>,
    filling: Vec<u8>,
}

impl Buffers {
    fn end(&self) -> u64 {
        self.start + (self.writing.len() + self.filling.len()) as u64
    }

    /// Returns `writing`, which no write may be using.
    fn idle(&mut self) -> &mut Vec<u8> {
        Arc::get_mut(&mut self.writing).expect("only a write in progress shares the buffer")
    }
}

/// The result of [`LiveTail::find`].
pub(super) enum BytesLocation {
    /// All bytes are in the file.
    File,
    /// The range ends behind the last appended byte.
    Nowhere,
    /// The bytes are in memory, except for the first `missing` bytes, which are in the file.
    Memory { bytes: Vec<u8>, missing: usize },
}

impl LiveTail {
    /// Creates the tail of a file that holds `written` bytes, none of them known to be synced.
    pub(super) fn new(written: u64) -> Self {
        LiveTail {
            written: AtomicU64::new(written),
            whole: AtomicU64::new(written),
            durable: AtomicU64::new(0),
            committed: AtomicU64::new(written),
            writeback_due: AtomicU64::new(0),
            written_back: AtomicU64::new(0),
            to_be_cut: AtomicU64::new(0),
            buffers: Mutex::new(Buffers {
                start: written,
                writing: Arc::default(),
                filling: Vec::new(),
            }),
            sync_failure: Mutex::new(None),
            sync_failed: AtomicBool::new(false),
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the offset where the appended bytes end, buffered or not.
    pub(super) fn appended(&self) -> u64 {
        self.buffers.lock().end()
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Records that the frames before `end` are commits.
    pub(super) fn set_committed(&self, end: u64) {
        debug_assert!(end >= self.committed(), "what was committed stays so");
        self.committed.store(end, Ordering::Release);
    }

    /// Lets `fill` append to the buffer.
    pub(super) fn append<R>(&self, fill: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        fill(&mut self.buffers.lock().filling)
    }

    /// Hands all buffered bytes to `write`, without a lock held. If that fails, the bytes stay
    /// readable and the call can be repeated; it then writes the same bytes to the same offset.
    pub(super) fn flush(&self, write: impl Fn(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        loop {
            let (bytes, start) = {
                let mut buffers = self.buffers.lock();
                if buffers.writing.is_empty() {
                    let mut full = std::mem::take(&mut buffers.filling);
                    std::mem::swap(buffers.idle(), &mut full);
                    buffers.filling = full;
                }
                (Arc::clone(&buffers.writing), buffers.start)
            };
            if bytes.is_empty() {
                return Ok(());
            }
            write(&bytes, start)?;
            let len = bytes.len() as u64;
            drop(bytes);
            let mut buffers = self.buffers.lock();
            buffers.idle().clear();
            self.advance(&mut buffers, len);
        }
    }

    /// Records that all frames before `end`, and nothing else, were handed to the operating system.
    pub(super) fn set_whole(&self, end: u64) {
        assert!(end <= self.written());
        debug_assert!(end >= self.whole.load(Ordering::Relaxed), "whole frames stay whole");
        self.whole.store(end, Ordering::Release);
    }

    /// Records that `len` bytes were written to the file while the buffers were empty.
    pub(super) fn wrote_directly(&self, len: u64) {
        let mut buffers = self.buffers.lock();
        assert_eq!(buffers.end(), buffers.start, "a direct write overtook the buffer");
        self.advance(&mut buffers, len);
    }

    fn advance(&self, buffers: &mut Buffers, len: u64) {
        buffers.start += len;
        // Release: a reader that sees this offset also finds the bytes before it in the file.
        self.written.store(buffers.start, Ordering::Release);
    }

    /// Discards buffered bytes at and behind offset `end`.
    pub(super) fn truncate(&self, end: u64) {
        let mut buffers = self.buffers.lock();
        let keep = end.saturating_sub(buffers.start) as usize;
        let keep_writing = keep.min(buffers.writing.len());
        buffers.filling.truncate(keep - keep_writing);
        buffers.idle().truncate(keep_writing);
    }

    /// Frees the memory of the buffers, which must be empty.
    pub(super) fn release(&self) {
        let mut buffers = self.buffers.lock();
        assert_eq!(buffers.end(), buffers.start, "a sealed segment has no buffered bytes");
        buffers.writing = Arc::default();
        buffers.filling = Vec::new();
    }

    /// Locates `len` bytes at `offset` and copies those that are in memory.
    pub(super) fn find(&self, offset: u64, len: usize) -> BytesLocation {
        let end = offset + len as u64;
        if end <= self.written() {
            return BytesLocation::File;
        }
        let buffers = self.buffers.lock();
        if end <= buffers.start {
            return BytesLocation::File;
        }
        if end > buffers.end() {
            return BytesLocation::Nowhere;
        }
        let missing = buffers.start.saturating_sub(offset) as usize;
        let mut bytes = vec![0; missing];
        bytes.reserve_exact(len - missing);
        let from = (offset + missing as u64 - buffers.start) as usize;
        let to = (end - buffers.start) as usize;
        let split = buffers.writing.len();
        bytes.extend_from_slice(&buffers.writing[from.min(split)..to.min(split)]);
        bytes.extend_from_slice(&buffers.filling[from.max(split) - split..to.max(split) - split]);
        debug_assert_eq!(bytes.len(), len, "the buffers follow the file without a gap");
        BytesLocation::Memory { bytes, missing }
    }

    /// Requests that writeback is started before `end`, which was written.
    pub(super) fn request_writeback(&self, end: u64) {
        self.writeback_due.store(end, Ordering::Release);
    }

    /// Starts the writeback that was requested.
    pub(super) fn write_back(&self, file: &dyn File) {
        let end = self.writeback_due.load(Ordering::Acquire);
        let start = self.written_back.fetch_max(end, Ordering::AcqRel);
        if start < end {
            file.start_writeback(start, end - start);
        }
    }

    /// Has the next sync cut the file to `len` bytes. Nothing is written any more.
    pub(super) fn request_cut(&self, len: u64) {
        self.to_be_cut.store(len, Ordering::Release);
    }

    /// Makes durable the whole frames that were handed to the operating system.
    pub(super) fn sync(&self, file: &dyn File, path: &Path) -> Result<()> {
        let whole = self.whole.load(Ordering::Acquire);
        let mut failure = self.sync_failure.lock();
        // I8: a system reports a failed writeback once, and the next sync would falsely succeed. So
        // syncs run one at a time, and none runs after a failed one.
        if let Some(error) = &*failure {
            return Err(error.clone());
        }
        let len = self.to_be_cut.swap(0, Ordering::AcqRel);
        if len > 0 {
            // This drops space that was prepared and not needed. Nothing behind the final length
            // counts, so a failure does no harm, and neither does a crash that undoes it.
            let _ = file.set_len(len);
        }
        if self.durable() >= whole {
            return Ok(());
        }
        // Pages that are synced while they are mapped for appends cost more (`env/mapped.rs`).
        let undurable = whole - self.durable();
        if undurable >= WRITEBACK_FIRST_BYTES {
            file.start_writeback(self.durable(), undurable);
        }
        // A crash before this returns leaves any part of the bytes behind `durable`; recovery takes
        // the frames up to the first one that is not whole, and no later frame was acknowledged as
        // durable.
        match file.sync().doing("sync the segment", path) {
            Ok(()) => {
                debug_assert!(whole <= self.written(), "I2: a sync covers what was written");
                self.durable.fetch_max(whole, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => {
                *failure = Some(error.clone());
                self.sync_failed.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Returns the error of the sync that failed, if one did.
    pub(super) fn sync_failure(&self) -> Option<Error> {
        let failed = self.sync_failed.load(Ordering::Acquire);
        failed.then(|| self.sync_failure.lock().clone()).flatten()
    }
}
