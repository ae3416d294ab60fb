//! A table all of whose blocks are in memory.
//!
//! Place in the data's way: `version/pinning.rs` has a table loaded and puts it in the place of the
//! one that reads its blocks through the cache. Readers find a block by its number, without a lock
//! and without a look-up; `reader.rs` and `iter.rs` ask here first.
//!
//! Invariants: I7 (each block is verified when it is loaded, as any other). A table is pinned as a
//! whole or not at all, and is never without its charge.

use super::block::Block;
use super::read_ahead::ReadAhead;
use super::reader::Table;
use crate::base::error::Result;
use crate::cache::{CachedTable, TreeCharge};

/// The bytes of memory that a block takes beside its content.
const BLOCK_OVERHEAD: u64 = 80;
/// The granularity in bytes in which reading is reported.
const REPORT_BYTES: u64 = 1 << 20;
/// The number of blocks between two looks at whether the whole table will fit.
const LOOK_EVERY: usize = 16;

/// The blocks of a pinned table by number; there are none if the table is not pinned.
#[derive(Default)]
pub(super) struct PinnedBlocks {
    blocks: Box<[Block]>,
    /// It is given back after the blocks were freed.
    _charge: Option<TreeCharge>,
}

impl PinnedBlocks {
    /// Returns a block; `None` if the table is not pinned.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<Block> {
        self.blocks.get(number).cloned()
    }
}

/// What became of an attempt to pin a table.
pub enum Pinning {
    /// The table, whose blocks are all in memory now, and the bytes that it takes.
    Pinned(Box<Table>, u64),
    /// The table needs about `expected` bytes; it could have had `most`.
    TooLarge {
        /// The bytes that the table would take, as far as it was read.
        expected: u64,
        /// The bytes that it could have taken.
        most: u64,
    },
    /// `go_on` ended it.
    Stopped,
}

impl Table {
    /// The bytes of memory that every open table takes, whatever is in it.
    pub const FIXED_BYTES: u64 = size_of::<Table>() as u64;

    /// Loads all blocks, and charges them. `go_on` is told how many bytes were read since its last
    /// call; the load ends if it returns false. A damaged block is an error, as it is to a reader.
    pub fn pin(
        mut self,
        mut charge: TreeCharge,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<Pinning> {
        let count = self.blocks();
        let fixed = self.memory_bytes() + BLOCK_OVERHEAD * count as u64;
        if !charge.grow(fixed) {
            let expected = fixed.saturating_add(self.data_end);
            return Ok(Pinning::TooLarge { expected, most: charge.most() });
        }
        let (mut ahead, mut unreported) = (ReadAhead::whole_pass(), 0);
        let mut blocks = Vec::with_capacity(count);
        for number in 0..count {
            let handle = self.handle(number)?;
            let block = ahead.load(&self, number, handle, false)?;
            let bytes = block.bytes() as u64;
            let loaded = charge.bytes() - fixed + bytes;
            let expected =
                fixed + scaled(loaded, self.data_end, handle.offset + u64::from(handle.len));
            // A table that will not fit is given up early, so that little is read for nothing.
            let is_hopeless = (number + 1) % LOOK_EVERY == 0 && expected / 8 * 7 > charge.most();
            if is_hopeless || !charge.grow(bytes) {
                return Ok(Pinning::TooLarge { expected, most: charge.most() });
            }
            blocks.push(block);
            unreported += u64::from(handle.len);
            if unreported >= REPORT_BYTES && !go_on(std::mem::take(&mut unreported)) {
                return Ok(Pinning::Stopped);
            }
        }
        if !go_on(unreported) {
            return Ok(Pinning::Stopped);
        }
        let bytes = charge.bytes();
        self.pinned = PinnedBlocks { blocks: blocks.into(), _charge: Some(charge) };
        Ok(Pinning::Pinned(Box::new(self), bytes))
    }
}

/// Returns the bytes that a whole table takes, of which the first `done` of `all` bytes of the file
/// take `part`. (Blocks are no measure: one with a large value may be a thousand times the others.)
fn scaled(part: u64, all: u64, done: u64) -> u64 {
    let whole = u128::from(part) * u128::from(all) / u128::from(done.max(1));
    u64::try_from(whole).unwrap_or(u64::MAX)
}
