//! Reads of a file around the page cache, for one pass. Value GC does not read the same bytes
//! again; through the cache they would evict what readers want, and be copied once more.
//!
//! A direct read transfers whole blocks to block-aligned memory. If that of the caller is not like
//! that, it goes to an aligned buffer first. Writes through the cache are visible to it: the system
//! writes dirty pages back before the read.
//!
//! Lock: `buffer`, a leaf, held during a read, as only one thread makes a pass.

use super::aligned::{AlignedBuffer, BLOCK_BYTES, are_blocks, refuses_direct};
use super::fs::{AccessPattern, File};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Least length of a direct read in bytes; shorter reads are faster through the cache.
const LEAST_BYTES: usize = 32 << 10;

/// A file that is read once, around the page cache.
pub(super) struct DirectRead {
    /// The file opened through the page cache.
    file: Arc<dyn File>,
    /// The file opened with `O_DIRECT`, around the page cache.
    direct: fs::File,
    buffer: Mutex<AlignedBuffer>,
}

impl DirectRead {
    /// Wraps `file`; `direct` is the same file, open for reading with `O_DIRECT`.
    pub(super) fn new(file: Arc<dyn File>, direct: fs::File) -> Self {
        DirectRead { file, direct, buffer: Mutex::default() }
    }

    fn read_blocks(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let skipped = (offset % BLOCK_BYTES as u64) as usize;
        if skipped == 0 && are_blocks(buf) {
            return self.read_aligned(buf, offset);
        }
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = buffer.at_least(skipped + buf.len());
        let read = self.read_aligned(blocks, offset - skipped as u64)?;
        let found = read.saturating_sub(skipped).min(buf.len());
        buf[..found].copy_from_slice(&blocks[skipped..skipped + found]);
        Ok(found)
    }

    /// Reads whole blocks from the beginning of one, or up to the end of the file.
    fn read_aligned(&self, blocks: &mut [u8], mut start: u64) -> io::Result<usize> {
        let mut read = 0;
        // A read that ends within a block was the last: the next could not begin at a whole block.
        while read < blocks.len() && read % BLOCK_BYTES == 0 {
            match self.direct.read_at(&mut blocks[read..], start) {
                Ok(0) => break,
                Ok(more) => (start, read) = (start + more as u64, read + more),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }
}

impl File for DirectRead {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.len() < LEAST_BYTES {
            return self.file.read_at(buf, offset);
        }
        match self.read_blocks(buf, offset) {
            // At the end of the file this read returns nothing more; elsewhere it reads the rest.
            Ok(read) if read < buf.len() => {
                Ok(read + self.file.read_at(&mut buf[read..], offset + read as u64)?)
            }
            Err(error) if refuses_direct(&error) => self.file.read_at(buf, offset),
            read => read,
        }
    }

    fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        self.file.read_cached(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        self.file.start_writeback(offset, len);
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::super::fork::Process;
    use super::super::fs::Fs;
    use super::super::os::{OsFs, doc_dir};
    use super::*;

    #[test]
    fn a_pass_reads_what_everybody_else_does() {
        let dir = doc_dir("pass");
        let path = dir.join("file");
        let fs = OsFs(Process::this());
        fs.create_dir_all(&dir).unwrap();
        let plain = fs.create(&path).unwrap();
        let bytes: Vec<u8> = (0..300_001_u32).map(|number| (number * 7 / 3) as u8).collect();
        plain.write_at(&bytes, 0).unwrap();
        let pass = fs.open_direct(&path).unwrap();
        let mut aligned = AlignedBuffer::new(BLOCK_BYTES);
        let blocks = aligned.at_least(128 << 10);
        for (offset, expected) in [(0, 128 << 10), (262_144, 37_857), (303_104, 0)] {
            assert_eq!(pass.read_at(blocks, offset as u64).unwrap(), expected, "{offset}");
            assert_eq!(blocks[..expected], bytes[offset.min(300_001)..][..expected], "{offset}");
        }
        let (mut ours, mut theirs) = (vec![1; 4096], vec![2; 4096]);
        let [there, cached] = [plain.read_cached(&mut theirs, 0), pass.read_cached(&mut ours, 0)];
        assert_eq!(cached, there, "the page cache is asked through either");
        assert!(!cached || ours == theirs);
        let same = |offset: usize, len: usize| {
            let (mut ours, mut theirs) = (vec![1; len], vec![2; len]);
            let read = pass.read_at(&mut ours, offset as u64).unwrap();
            assert_eq!(read, plain.read_at(&mut theirs, offset as u64).unwrap(), "{offset}, {len}");
            assert_eq!(ours[..read], theirs[..read], "{offset}, {len}");
        };
        for offset in [0, 1, 4095, 4096, 100_000, 299_999, 300_000, 300_001, 400_000] {
            for len in [0, 5, LEAST_BYTES - 1, LEAST_BYTES, 65_537, 250_000] {
                same(offset, len);
            }
        }
        // These bytes may not be on the device yet, and some lie behind the former end of the file.
        plain.write_at(&[9; 100_000], 250_000).unwrap();
        same(200_000, 150_000);
        assert_eq!((pass.len().unwrap(), pass.links().unwrap()), (350_000, 1));
    }
}
