//! Memory that begins at a block boundary, as direct reads want it.

use crate::base::size::FILE_BLOCK_BYTES;
use memmap2::MmapMut;
use std::io::{self, ErrorKind};

/// Block size in bytes; blocks of all usual devices have this length or a divisor of it.
pub(super) const BLOCK_BYTES: usize = FILE_BLOCK_BYTES as usize;

/// Returns true if `memory` consists of whole blocks.
pub(super) fn are_blocks(memory: &[u8]) -> bool {
    memory.len().is_multiple_of(BLOCK_BYTES) && memory.as_ptr().align_offset(BLOCK_BYTES) == 0
}

/// Returns true if a direct read or write failed because there are none of such blocks: the device
/// has larger ones, or the file system reports only now that it has no direct I/O.
pub(super) fn refuses_direct(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// From so many bytes on, a buffer is not on the heap. There, the allocator of the GNU C library
/// would from then on keep twice as many bytes in each of its arenas, of all threads of the
/// process: once buffers of 10 MiB had come and gone, 16 arenas held 58 MB that nobody used
/// (`bench/record/2026-11-27-memory.md`).
const LEAST_MAPPED_BYTES: usize = 128 << 10;

/// A buffer that begins at a block boundary in memory. It keeps its memory from one use to the
/// next: the pages of a large new allocation are made, zeroed and charged one by one when they are
/// touched, which takes as long as reading them does.
#[derive(Default)]
pub struct AlignedBuffer {
    memory: AlignedMemory,
}

/// Memory of whole blocks.
enum AlignedMemory {
    /// Some of the heap, with the place of the first block.
    Heap(Vec<u8>, usize),
    /// Pages of its own.
    Mapped(MmapMut),
}

impl Default for AlignedMemory {
    fn default() -> Self {
        AlignedMemory::Heap(Vec::new(), 0)
    }
}

impl AlignedBuffer {
    /// Allocates room for `len` bytes, rounded up to whole blocks.
    pub fn new(len: usize) -> Self {
        let len = len.next_multiple_of(BLOCK_BYTES);
        // A system that has no mapping left may still have memory on the heap.
        let mapped = (len >= LEAST_MAPPED_BYTES).then(|| MmapMut::map_anon(len).ok()).flatten();
        let memory = mapped.map_or_else(|| on_heap(len), AlignedMemory::Mapped);
        AlignedBuffer { memory }
    }

    /// Returns `len` bytes rounded up to whole blocks, growing the buffer if need be. They may have
    /// any content.
    pub fn at_least(&mut self, len: usize) -> &mut [u8] {
        let len = len.next_multiple_of(BLOCK_BYTES);
        if self.blocks().len() < len {
            // What there is goes first, so that both are never held at once.
            *self = AlignedBuffer::default();
            *self = AlignedBuffer::new(len);
        }
        let blocks = &mut self.blocks()[..len];
        debug_assert!(blocks.is_empty() || are_blocks(blocks), "blocks are aligned");
        blocks
    }

    fn blocks(&mut self) -> &mut [u8] {
        match &mut self.memory {
            AlignedMemory::Heap(bytes, start) => &mut bytes[*start..],
            AlignedMemory::Mapped(pages) => pages,
        }
    }
}

fn on_heap(len: usize) -> AlignedMemory {
    let bytes = vec![0; len + BLOCK_BYTES];
    let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
    assert!(start < BLOCK_BYTES, "an aligned place is in the first block");
    AlignedMemory::Heap(bytes, start)
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

    #[test]
    fn large_memory_is_aligned_too_and_starts_with_zeroes() {
        for len in [LEAST_MAPPED_BYTES - BLOCK_BYTES, LEAST_MAPPED_BYTES - 1, 10 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            let is_mapped = matches!(buffer.memory, AlignedMemory::Mapped(_));
            assert_eq!(is_mapped, len.next_multiple_of(BLOCK_BYTES) >= LEAST_MAPPED_BYTES);
            let blocks = buffer.at_least(len);
            assert!(are_blocks(blocks) && blocks.len() >= len);
            assert!(blocks.iter().all(|byte| *byte == 0));
            blocks.fill(7);
        }
    }
}
