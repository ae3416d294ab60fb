//! An append-only arena whose items never move. One thread appends; any thread reads an item by its
//! 32-bit number.
//!
//! Items lie in chunks. The high bits of a number name the chunk, the low bits the place in it.
//! Chunks double in size up to 2^13 items and keep that size for about a million items, so that
//! making one takes microseconds. Then they grow again slowly, so that there are never many chunks.
//! All items of a chunk are created at once, empty. The thread that appends an item fills it in
//! through atomics and publishes its number afterwards.

use std::sync::OnceLock;

/// The low bits of a number, which are the place in the chunk. The other bits are the chunk.
const PLACE_BITS: u32 = 24;
const CHUNKS: u32 = 1 << (u32::BITS - PLACE_BITS);
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;

const FIRST_BITS: u32 = 6;
const MIDDLE_BITS: u32 = 13;
/// The first chunk that is larger than the middle size.
const MIDDLE_CHUNKS: u32 = 128;
/// The number of consecutive chunks of one size beyond [`MIDDLE_CHUNKS`].
const LARGE_CHUNKS: u32 = 8;

/// Returns the number of items in a chunk.
fn chunk_items(chunk: u32) -> u32 {
    let larger = (chunk + LARGE_CHUNKS).saturating_sub(MIDDLE_CHUNKS) / LARGE_CHUNKS;
    1 << ((FIRST_BITS + chunk).min(MIDDLE_BITS) + larger).min(PLACE_BITS)
}

/// An append-only arena of items.
pub(super) struct Arena<T> {
    chunks: Box<[OnceLock<Box<[T]>>; CHUNKS as usize]>,
}

impl<T: Default> Arena<T> {
    pub(super) fn new() -> Self {
        Arena { chunks: Box::new([const { OnceLock::new() }; CHUNKS as usize]) }
    }

    /// Returns the item whose number [`Arena::append`] has returned.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &T {
        let chunk = self.chunks[(number >> PLACE_BITS) as usize].get();
        &chunk.expect("an item is published after its chunk")[(number & PLACE_MASK) as usize]
    }

    /// Returns the `count` items from `number` on, which one call of [`Arena::append`] has added.
    #[inline]
    pub(super) fn get_all(&self, number: u32, count: usize) -> &[T] {
        let chunk = self.chunks[(number >> PLACE_BITS) as usize].get();
        let place = (number & PLACE_MASK) as usize;
        &chunk.expect("an item is published after its chunk")[place..place + count]
    }

    /// Returns true if items certainly fit after those that end at `end`.
    pub(super) fn has_room(&self, end: u32) -> bool {
        end >> PLACE_BITS < CHUNKS - 1
    }

    /// Appends `count` items after the last ones, which end at `end`, and advances `end`. `count`
    /// is at most the size of the first chunk. Returns the number of the first item; the others
    /// follow it.
    pub(super) fn append(&self, end: &mut u32, count: u32) -> u32 {
        assert!(count <= 1 << FIRST_BITS, "{count} items in a row");
        let (mut chunk, mut place) = (*end >> PLACE_BITS, *end & PLACE_MASK);
        if place + count > chunk_items(chunk) {
            (chunk, place) = (chunk + 1, 0);
            assert!(chunk < CHUNKS, "a memtable of a billion items");
        }
        let items = || (0..chunk_items(chunk)).map(|_| T::default()).collect();
        self.chunks[chunk as usize].get_or_init(items);
        let first = chunk << PLACE_BITS | place;
        *end = first + count;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn items_stay_where_they_are() {
        let arena = Arena::<AtomicU32>::new();
        let (mut end, mut firsts) = (0, Vec::new());
        for count in (0..300_000).map(|i| 1 + i % 9) {
            let first = arena.append(&mut end, count);
            (0..count).for_each(|i| arena.get(first + i).store(first + i, Relaxed));
            firsts.push((first, count));
        }
        for (first, count) in firsts {
            (0..count).for_each(|i| assert_eq!(arena.get(first + i).load(Relaxed), first + i));
        }
    }

    #[test]
    fn the_last_chunk_is_kept_free() {
        let arena = Arena::<AtomicU32>::new();
        for (chunk, expected) in [(0, true), (CHUNKS - 2, true), (CHUNKS - 1, false)] {
            assert_eq!(arena.has_room(chunk << PLACE_BITS | 7), expected, "{chunk}");
        }
    }

    #[test]
    fn chunks_grow_in_measure() {
        let sizes: Vec<u64> = (0..CHUNKS).map(|chunk| chunk_items(chunk).into()).collect();
        assert_eq!(&sizes[..9], &[64, 128, 256, 512, 1024, 2048, 4096, 8192, 8192]);
        let mut total = 0;
        for size in sizes {
            assert!(size <= 1 << PLACE_BITS && size <= (total / 8).max(8192));
            total += size;
        }
        assert!(total > 800_000_000, "{total}");
    }
}
