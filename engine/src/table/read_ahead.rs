//! Read-ahead: blocks that are read in sequence come from the file in larger and larger pieces.
//!
//! Place in the data's way: each iterator has one, which is used if a block is not in the cache. A
//! pass over everything has the largest window from the first block on. A cursor reads single
//! blocks until it has read two neighbours from the file, in either direction; then the window
//! starts at [`MIN_WINDOW_BYTES`] and doubles. If it is known how much the walk will probably read,
//! the first read after a jump is that long. A walk goes on with its window in the next table of a
//! level.
//!
//! The kernel is advised to expect random reads of the files that all share. A walk forward whose
//! window is at its largest opens the file once more, without that advice: the kernel then reads
//! ahead while the walk works, in large folios, which takes half the processor time of reading page
//! by page. A long walk backward, or one that can't have the file for itself, asks for the next
//! window.
//!
//! Measured with 258,000 inline values of 1 KiB and a cold page cache: 530,000 pairs per second
//! with windows that were read one after the other, 840,000 with the next one asked for, and
//! 1,130,000 with files opened once more and read by 128 KiB (1,100,000 by 64 KiB; 890,000 by
//! 256 KiB without the advice of a sequential pass).

use super::block::Block;
use super::format::{BlockHandle, DATA_START};
use super::properties::TableMeta;
use super::reader::Table;
use super::tail::{likely_bytes, start_reads};
use crate::base::error::Result;
use crate::cache::WalkFile;
use crate::env::fs::File;
use std::borrow::Cow;

const MIN_WINDOW_BYTES: usize = 16 << 10;
const MAX_WINDOW_BYTES: usize = 256 << 10;
/// A long walk forward reads so much at once from a file that the system reads ahead.
const STREAMED_BYTES: u64 = 128 << 10;
/// What is shorter, less than two blocks of the default size, is read block by block.
const LEAST_EXPECTED_BYTES: usize = 8 << 10;
/// A pass reads so much at once where it can't have the file for itself: each read between those of
/// another file may cost a random access.
const PASS_WINDOW_BYTES: usize = 1 << 20;

/// Has the system begin to read what a long walk will read first in the next table: its head and
/// tail, to open it, and the first blocks or, if `backward`, the last.
pub fn start_walk(file: &dyn File, meta: &TableMeta, backward: bool) {
    start_reads(file, meta);
    let window = MAX_WINDOW_BYTES as u64;
    // I7: the numbers are from the manifest, and were not compared with the file yet.
    let behind = likely_bytes(meta).saturating_add(window);
    let start = if backward { meta.bytes.saturating_sub(behind) } else { 0 };
    file.start_read(start, window.min(meta.bytes - start));
}

/// Reads blocks of one table from its file, several in one read if they are read in sequence.
#[derive(Default)]
pub(super) struct ReadAhead {
    whole_pass: bool,
    /// The number of bytes read at once; zero means one block.
    window: usize,
    /// The number of bytes that a walk will probably read from its first block on; zero if it is
    /// unknown.
    expected: usize,
    /// True if the next walk will probably go backward.
    goes_backward: bool,
    /// One more than the number of the block read last, so that there is a number for the place
    /// before the first block, too, where a walk comes from the table before.
    last: Option<usize>,
    buffer: Vec<u8>,
    buffer_start: u64,
    /// The file once more, for a walk forward whose windows are at their largest.
    own_file: Option<WalkFile>,
}

impl ReadAhead {
    /// Makes a read-ahead for a pass over everything.
    pub(super) fn whole_pass() -> Self {
        ReadAhead { whole_pass: true, window: PASS_WINDOW_BYTES, ..Self::default() }
    }

    /// Goes on with a walk that leaves another table of the level for this one, at its first block
    /// or, if `backward`, at the last of its `blocks`.
    pub(super) fn continue_from(&mut self, other: &ReadAhead, blocks: usize, backward: bool) {
        if !self.whole_pass && other.window > 0 {
            self.window = other.window;
            self.last = Some(if backward { blocks + 1 } else { 0 });
        }
    }

    /// Sets the number of bytes that walks will probably read, each from its first block on.
    pub(super) fn expect(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(MAX_WINDOW_BYTES);
        self.expected = if bytes < LEAST_EXPECTED_BYTES { 0 } else { bytes };
    }

    /// Sets the direction in which the walk after the next jump will probably go.
    pub(super) fn aim(&mut self, backward: bool) {
        self.goes_backward = backward;
    }

    /// Closes the file that the walk had for itself: it is at its end, or jumps.
    pub(super) fn end_walk(&mut self) {
        self.own_file = None;
    }

    /// Returns true if the walk reads the largest windows, so that it will probably come to the end
    /// of its table and go on in the next.
    pub(super) fn is_long(&self) -> bool {
        self.window == self.most()
    }

    fn most(&self) -> usize {
        if self.whole_pass { PASS_WINDOW_BYTES } else { MAX_WINDOW_BYTES }
    }

    /// Reads, verifies and returns block `number`, which lies at `handle`.
    pub(super) fn load(
        &mut self,
        table: &Table,
        number: usize,
        handle: BlockHandle,
        fill_cache: bool,
    ) -> Result<Block> {
        table.adopt(handle, self.sealed(table, number, handle)?, fill_cache)
    }

    /// Returns block `number` as it lies in the file, not verified yet.
    pub(super) fn sealed(
        &mut self,
        table: &Table,
        number: usize,
        handle: BlockHandle,
    ) -> Result<Cow<'_, [u8]>> {
        let (forward, backward) = (self.last == Some(number), self.last == Some(number + 2));
        self.last = Some(number + 1);
        if self.buffered(handle).is_none() {
            let (mut length, mut backward) = (self.window, backward);
            if backward || forward {
                self.window = (2 * self.window).clamp(MIN_WINDOW_BYTES, self.most());
                length = self.window;
            } else if !self.whole_pass {
                (length, backward) = (self.expected, self.goes_backward);
                self.window = 0;
            }
            if handle.len as usize >= length {
                return Ok(Cow::Owned(table.sealed(handle)?));
            }
            self.fill(table, handle, length as u64, backward)?;
        }
        Ok(Cow::Borrowed(self.buffered(handle).unwrap_or_default()))
    }

    /// Returns the sealed block from the buffer, or `None` if the buffer does not hold all of it.
    fn buffered(&self, handle: BlockHandle) -> Option<&[u8]> {
        let from = handle.offset.checked_sub(self.buffer_start)?;
        self.buffer.get(usize::try_from(from).ok()?..)?.get(..handle.len as usize)
    }

    /// Reads `window` bytes that begin with the block or, if `backward`, end with it; fewer where
    /// the system reads ahead. Requires: the block fits.
    fn fill(
        &mut self,
        table: &Table,
        handle: BlockHandle,
        window: u64,
        backward: bool,
    ) -> Result<()> {
        let long = self.is_long();
        if long && !backward && self.own_file.is_none() {
            self.own_file = table.open_for_walk();
        }
        let own = self.own_file.as_ref().filter(|_| long && !backward).map(|own| &*own.file);
        let (start, end) = if backward {
            (handle.end().saturating_sub(window).max(DATA_START), handle.end())
        } else {
            let window = if own.is_some() { window.min(STREAMED_BYTES) } else { window };
            (handle.offset, table.data_end.min(handle.offset + window).max(handle.end()))
        };
        debug_assert!(
            start <= handle.offset && handle.end() <= end,
            "the window has no such block"
        );
        self.buffer.resize((end - start) as usize, 0);
        self.buffer_start = start;
        if long && own.is_none() {
            // The system does not read ahead, so it is asked for the next window. Shorter walks
            // would often end before it.
            let next = if backward {
                start.saturating_sub(window).max(DATA_START)..start
            } else {
                end..table.data_end.min(end + window)
            };
            if next.start < next.end {
                table.start_read(next.start, next.end - next.start);
            }
        }
        table.read(own, &mut self.buffer, start).inspect_err(|_| self.buffer.clear())
    }
}
