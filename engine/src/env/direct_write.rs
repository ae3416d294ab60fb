//! Writes of a new file around the page cache, from front to back. Value GC moves what nobody has
//! read lately; through the cache each block would take a page, of which some other is robbed where
//! memory is short, and processor time for copying it and writing it back
//! (`bench/record/2026-11-28-direct-writes.md`).
//!
//! A direct write transfers whole blocks of block-aligned memory. So bytes are gathered in two
//! buffers: a thread writes one while the other is filled. The last, partial block goes through the
//! page cache when all is written out.
//!
//! Lock: `state`, a leaf, held while a buffer waits for the device.

use super::aligned::{AlignedBuffer, BLOCK_BYTES, refuses_direct};
use super::fork::OfProcess;
use super::fs::{AccessPattern, File};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Length of a buffer in bytes, which is written in one call. The device takes 1.3 GB/s so, half of
/// that in pieces of 64 KiB, and little more in longer ones
/// (`bench/record/2026-11-28-direct-writes.md`).
const BUFFER_BYTES: usize = 512 << 10;

/// A new file that is written around the page cache.
pub(super) struct DirectWrite {
    /// The file opened through the page cache.
    file: Arc<dyn File>,
    /// The rest; a child, which has no such thread, leaves it alone.
    state: OfProcess<Mutex<WriteState>>,
}

struct WriteState {
    /// The offset of the first byte in `buffer`; a block begins there.
    start: u64,
    /// The number of bytes in `buffer`.
    filled: usize,
    buffer: AlignedBuffer,
    /// The other buffer; `None` while the thread has it.
    spare: Option<AlignedBuffer>,
    /// The way to the thread; `None` only while this is dropped.
    to_write: Option<SyncSender<FullBuffer>>,
    written: Receiver<(AlignedBuffer, io::Result<()>)>,
    /// The thread; `None` only while this is dropped.
    thread: Option<JoinHandle<()>>,
    /// True once a write has failed: what was written is then unknown.
    has_failed: bool,
    /// True if all of it was handed over to the system.
    is_out: bool,
}

/// A buffer of whole blocks on its way to the device.
struct FullBuffer {
    buffer: AlignedBuffer,
    len: usize,
    offset: u64,
}

impl DirectWrite {
    /// Wraps `file`, which is empty; `direct` is the same file, open for writing with `O_DIRECT`.
    /// Fails if the system has no thread left.
    pub(super) fn new(file: Arc<dyn File>, direct: fs::File) -> io::Result<DirectWrite> {
        let (to_write, full) = sync_channel::<FullBuffer>(1);
        let (done, written) = sync_channel(1);
        let through_cache = file.clone();
        let write = move || {
            for FullBuffer { mut buffer, len, offset } in full {
                let blocks = &buffer.at_least(len)[..len];
                let outcome = write_blocks(&direct, &*through_cache, blocks, offset);
                if done.send((buffer, outcome)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("cleavedb-write".to_owned()).spawn(write)?;
        let state = WriteState {
            start: 0,
            filled: 0,
            buffer: AlignedBuffer::new(BUFFER_BYTES),
            spare: Some(AlignedBuffer::new(BUFFER_BYTES)),
            to_write: Some(to_write),
            written,
            thread: Some(thread),
            has_failed: false,
            is_out: true,
        };
        Ok(DirectWrite { file, state: OfProcess::new(Mutex::new(state)) })
    }

    fn state(&self) -> io::Result<MutexGuard<'_, WriteState>> {
        let state = self.state.get().map_err(io::Error::other)?;
        Ok(state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl WriteState {
    fn check(&self) -> io::Result<()> {
        match self.has_failed {
            true => Err(io::Error::other("an earlier write of the file failed")),
            false => Ok(()),
        }
    }

    /// Adds bytes at the end.
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.is_out &= bytes.is_empty();
        while !bytes.is_empty() {
            let taken = bytes.len().min(BUFFER_BYTES - self.filled);
            let room = &mut self.buffer.at_least(BUFFER_BYTES)[self.filled..self.filled + taken];
            room.copy_from_slice(&bytes[..taken]);
            (self.filled, bytes) = (self.filled + taken, &bytes[taken..]);
            if self.filled == BUFFER_BYTES {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Sends the buffer, which has whole blocks, to the thread, and takes the other one.
    fn send(&mut self) -> io::Result<()> {
        self.take_back()?;
        let next = self.spare.take().expect("it was taken back");
        let buffer = std::mem::replace(&mut self.buffer, next);
        let full = FullBuffer { buffer, len: self.filled, offset: self.start };
        let to_write = self.to_write.as_ref().expect("it is there until the drop");
        if to_write.send(full).is_err() {
            self.has_failed = true;
            return Err(thread_is_gone());
        }
        (self.start, self.filled) = (self.start + self.filled as u64, 0);
        Ok(())
    }

    /// Waits for the buffer that is being written, if one is.
    fn take_back(&mut self) -> io::Result<()> {
        if self.spare.is_some() {
            return Ok(());
        }
        let Ok((buffer, outcome)) = self.written.recv() else {
            self.has_failed = true;
            return Err(thread_is_gone());
        };
        self.spare = Some(buffer);
        self.has_failed |= outcome.is_err();
        outcome
    }
}

fn thread_is_gone() -> io::Error {
    io::Error::other("the thread that writes the file has panicked")
}

/// Writes whole blocks around the cache; through it, where the file system can't.
fn write_blocks(direct: &fs::File, file: &dyn File, blocks: &[u8], offset: u64) -> io::Result<()> {
    match direct.write_all_at(blocks, offset) {
        Err(error) if refuses_direct(&error) => {
            file.write_at(blocks, offset)?;
            file.start_writeback(offset, blocks.len() as u64);
            Ok(())
        }
        outcome => outcome,
    }
}

impl File for DirectWrite {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.write_out()?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.check()?;
        if offset == state.start + state.filled as u64 {
            return state.append(buf);
        }
        drop(state);
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is written from front to back"))
    }

    fn write_out(&self) -> io::Result<()> {
        let mut state = self.state()?;
        state.check()?;
        if state.is_out {
            return Ok(());
        }
        let whole = state.filled - state.filled % BLOCK_BYTES;
        let (tail, at) = (state.filled - whole, state.start + whole as u64);
        let mut bytes = [0; BLOCK_BYTES];
        let gathered = &state.buffer.at_least(BUFFER_BYTES)[whole..whole + tail];
        bytes[..tail].copy_from_slice(gathered);
        if whole > 0 {
            state.filled = whole;
            state.send()?;
        }
        state.take_back()?;
        // The tail is a part of the next block that is gathered, too.
        state.buffer.at_least(BUFFER_BYTES)[..tail].copy_from_slice(&bytes[..tail]);
        (state.start, state.filled) = (at, tail);
        let written = match tail {
            0 => Ok(()),
            _ => self.file.write_at(&bytes[..tail], at),
        };
        (state.has_failed, state.is_out) = (written.is_err(), written.is_ok());
        written
    }

    fn sync(&self) -> io::Result<()> {
        self.write_out()?;
        self.file.sync()
    }

    fn start_writeback(&self, _: u64, _: u64) {}

    fn len(&self) -> io::Result<u64> {
        let state = self.state()?;
        Ok(state.start + state.filled as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write_out()?;
        self.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.write_out()?;
        self.file.punch(offset, len)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.file.allocated()
    }

    fn links(&self) -> io::Result<u64> {
        self.file.links()
    }

    fn advise(&self, advice: AccessPattern) {
        self.file.advise(advice);
    }

    #[cfg(any(feature = "sim", feature = "io-uring"))]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.file.descriptor()
    }
}

impl Drop for WriteState {
    /// Waits for the thread: nothing is written to the file any more once this returns, whoever
    /// removes it then.
    fn drop(&mut self) {
        self.to_write = None;
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, the writes have failed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fork::Process;
    use super::super::fs::Fs;
    use super::super::os::{OsFs, doc_dir};
    use super::*;
    use std::io::ErrorKind;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|number| (number * 7 / 3) as u8).collect()
    }

    fn create(name: &str) -> (OsFs, std::path::PathBuf, Arc<dyn File>) {
        let dir = doc_dir(name);
        let fs = OsFs(Process::this());
        fs.create_dir_all(&dir).unwrap();
        let path = dir.join("file");
        let file = fs.create_direct(&path).unwrap();
        (fs, path, file)
    }

    #[test]
    fn what_is_appended_in_pieces_is_there_after_a_sync() {
        let (fs, path, file) = create("direct-write");
        let expected = bytes(5 * BUFFER_BYTES + 1234);
        let (mut at, mut length) = (0, 64);
        while at < expected.len() {
            let end = (at + length).min(expected.len());
            file.write_at(&expected[at..end], at as u64).unwrap();
            assert_eq!(file.len().unwrap(), end as u64);
            // Some syncs leave a part of a block, which later pieces complete.
            if length % 5 == 0 {
                file.sync().unwrap();
                assert_eq!(fs.measure(&path).unwrap().len, end as u64);
            }
            (at, length) = (end, length * 3 % 300_007);
        }
        file.sync().unwrap();
        let mut read = vec![0; expected.len() + 1];
        let plain = fs.open(&path).unwrap();
        assert_eq!(plain.read_at(&mut read, 0).unwrap(), expected.len());
        assert!(read[..expected.len()] == expected[..]);
        let mut last = [0; 100];
        file.read_exact_at(&mut last, expected.len() as u64 - 100).unwrap();
        assert_eq!(last, expected[expected.len() - 100..]);
    }

    /// Returns a file whose whole blocks go to the file at `target`, and the rest to a plain one.
    fn leading_to(name: &str, target: &str) -> DirectWrite {
        let (fs, path, _) = create(name);
        let plain = fs.create(&path.with_extension("plain")).unwrap();
        let target = fs::OpenOptions::new().write(true).open(target).unwrap();
        DirectWrite::new(plain, target).unwrap()
    }

    #[test]
    fn only_the_end_is_written() {
        let file = leading_to("direct-write-order", "/dev/null");
        file.write_at(&[1; 100], 0).unwrap();
        assert_eq!(file.write_at(&[1; 100], 50).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.write_at(&[1; 100], 200).unwrap_err().kind(), ErrorKind::InvalidInput);
        file.write_at(&[1; 100], 100).unwrap();
    }

    /// A sync that fails makes the database read-only; a full disk must not.
    #[test]
    fn i09_a_full_disk_is_an_error_of_a_write_and_ends_the_file() {
        let few = leading_to("direct-write-few", "/dev/full");
        few.write_at(&bytes(5000), 0).unwrap();
        assert_eq!(few.write_out().unwrap_err().kind(), ErrorKind::StorageFull);
        let many = leading_to("direct-write-many", "/dev/full");
        let written = many.write_at(&bytes(4 * BUFFER_BYTES), 0);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull);
        for file in [few, many] {
            assert!(file.sync().is_err() && file.write_out().is_err());
            let end = file.len().unwrap();
            assert!(file.write_at(&[1], end).is_err(), "nothing follows what failed");
        }
    }
}
