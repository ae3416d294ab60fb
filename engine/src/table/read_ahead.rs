//! Read-ahead: blocks that are read in sequence come from the file in larger and larger pieces.
//!
//! Place in the data's way: each iterator has one, which is used if a block is not in the cache. A
//! pass over everything reads [`PASS_WINDOW_BYTES`] at once from the first block on. A cursor reads
//! single blocks until it has read two neighbours from the file, in either direction; then the
//! window starts at [`MIN_WINDOW_BYTES`] and doubles. The kernel does not read ahead, because the
//! files are advised to expect random reads.

use super::block::Block;
use super::format::{BlockHandle, DATA_START};
use super::reader::Table;
use crate::base::error::Result;
use std::borrow::Cow;

const MIN_WINDOW_BYTES: usize = 16 << 10;
const MAX_WINDOW_BYTES: usize = 256 << 10;
/// A compaction reads several tables at the same time, and each read between those of another file
/// may cost a random access. The more it reads at once, the less these are.
const PASS_WINDOW_BYTES: usize = 1 << 20;

/// Reads blocks of one table from its file, several in one read if they are read in sequence.
#[derive(Default)]
pub(super) struct ReadAhead {
    whole_pass: bool,
    /// The number of bytes read at once; zero means one block.
    window: usize,
    /// The number of the block read last.
    last: Option<usize>,
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl ReadAhead {
    /// Makes a read-ahead for a pass over everything.
    pub(super) fn whole_pass() -> Self {
        ReadAhead { whole_pass: true, window: PASS_WINDOW_BYTES, ..Self::default() }
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
        let backward = self.last == Some(number + 1);
        let forward = number.checked_sub(1).is_some_and(|before| self.last == Some(before));
        self.last = Some(number);
        if self.buffered(handle).is_none() {
            if backward || forward {
                self.window = (2 * self.window).clamp(MIN_WINDOW_BYTES, self.most());
            } else if !self.whole_pass {
                self.window = 0;
            }
            if handle.len as usize >= self.window {
                return Ok(Cow::Owned(table.sealed(handle)?));
            }
            self.fill(table, handle, backward)?;
        }
        Ok(Cow::Borrowed(self.buffered(handle).unwrap_or_default()))
    }

    /// Returns the sealed block from the buffer, or `None` if the buffer does not hold all of it.
    fn buffered(&self, handle: BlockHandle) -> Option<&[u8]> {
        let from = handle.offset.checked_sub(self.buffer_start)?;
        self.buffer.get(usize::try_from(from).ok()?..)?.get(..handle.len as usize)
    }

    /// Reads a window that begins with the block or, if `backward`, ends with it. Requires: the
    /// block fits the window.
    fn fill(&mut self, table: &Table, handle: BlockHandle, backward: bool) -> Result<()> {
        let window = self.window as u64;
        let (start, end) = if backward {
            (handle.end().saturating_sub(window).max(DATA_START), handle.end())
        } else {
            (handle.offset, table.data_end.min(handle.offset + window))
        };
        debug_assert!(
            start <= handle.offset && handle.end() <= end,
            "the window has no such block"
        );
        self.buffer.resize((end - start) as usize, 0);
        self.buffer_start = start;
        table.read(&mut self.buffer, start).inspect_err(|_| self.buffer.clear())
    }
}
