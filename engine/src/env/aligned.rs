//! Memory that begins at a block boundary, as direct reads want it.

use crate::base::size::FILE_BLOCK_BYTES;
use memmap2::MmapMut;
use std::alloc::{Layout, handle_alloc_error};

/// Block size in bytes; blocks of all usual devices have this length or a divisor of it.
pub(super) const BLOCK_BYTES: usize = FILE_BLOCK_BYTES as usize;

/// Returns true if `memory` consists of whole blocks.
pub(super) fn are_blocks(memory: &[u8]) -> bool {
    memory.len().is_multiple_of(BLOCK_BYTES) && memory.as_ptr().align_offset(BLOCK_BYTES) == 0
}

/// A buffer that begins at a block boundary in memory. It keeps its memory from one use to the
/// next: the pages of a large new allocation are made, zeroed and charged one by one when they are
/// touched, which takes as long as reading them does.
///
/// The memory comes from the system and goes back there at once. An allocator would keep it: once a
/// large block is freed, glibc takes blocks up to that size (32 MiB at most) from its heaps, where
/// other blocks soon lie between what is free. Measured with 8 MiB memtables and overwrites of
/// 1 KiB, the process held 81 MiB where it used 45.
#[derive(Default)]
pub struct AlignedBuffer(Option<MmapMut>);

impl AlignedBuffer {
    /// Makes room for `len` bytes, rounded up to whole blocks. Like any allocation, it ends the
    /// process if there is no memory.
    pub fn new(len: usize) -> Self {
        let len = len.next_multiple_of(BLOCK_BYTES).max(BLOCK_BYTES);
        let out_of_memory = |_| {
            let layout = Layout::from_size_align(len, BLOCK_BYTES);
            handle_alloc_error(layout.expect("no buffer is half as large as the address space"))
        };
        AlignedBuffer(Some(MmapMut::map_anon(len).unwrap_or_else(out_of_memory)))
    }

    /// Returns `len` bytes rounded up to whole blocks, growing the buffer if need be. They may have
    /// any content.
    pub fn at_least(&mut self, len: usize) -> &mut [u8] {
        let len = len.next_multiple_of(BLOCK_BYTES);
        if self.0.as_ref().map_or(0, |bytes| bytes.len()) < len {
            // What there is goes back first, so that both are never held at once.
            self.0 = None;
            *self = AlignedBuffer::new(len);
        }
        let blocks = self.0.as_mut().map_or(&mut [][..], |bytes| &mut bytes[..len]);
        debug_assert!(blocks.is_empty() || are_blocks(blocks), "blocks are aligned");
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept() {
        let mut buffer = AlignedBuffer::default();
        assert!(buffer.at_least(0).is_empty());
        let blocks = buffer.at_least(5000);
        assert!(are_blocks(blocks) && blocks.len() == 8192);
        blocks[8191] = 7;
        assert_eq!(buffer.at_least(8192)[8191], 7, "it is the same memory");
        assert!(!are_blocks(&buffer.at_least(8192)[1..]));
    }
}
