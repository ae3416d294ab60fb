//! Memory that begins at a block boundary, as direct reads want it.

use crate::base::size::FILE_BLOCK_BYTES;

/// Block size in bytes; blocks of all usual devices have this length or a divisor of it.
pub(super) const BLOCK_BYTES: usize = FILE_BLOCK_BYTES as usize;

/// Returns true if `memory` consists of whole blocks.
pub(super) fn are_blocks(memory: &[u8]) -> bool {
    memory.len().is_multiple_of(BLOCK_BYTES) && memory.as_ptr().align_offset(BLOCK_BYTES) == 0
}

/// A buffer that begins at a block boundary in memory. It keeps its memory from one use to the
/// next: the pages of a large new allocation are made, zeroed and charged one by one when they are
/// touched, which takes as long as reading them does.
#[derive(Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// Allocates room for `len` bytes, rounded up to whole blocks.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
        assert!(start < BLOCK_BYTES, "an aligned place is in the first block");
        AlignedBuffer { bytes, start }
    }

    /// Returns `len` bytes rounded up to whole blocks, growing the buffer if need be. They may have
    /// any content.
    pub fn at_least(&mut self, len: usize) -> &mut [u8] {
        let len = len.next_multiple_of(BLOCK_BYTES);
        if self.bytes.len() < self.start + len {
            // What there is goes first, so that both are never held at once.
            *self = AlignedBuffer::default();
            *self = AlignedBuffer::new(len);
        }
        let blocks = &mut self.bytes[self.start..self.start + len];
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
