//! The bytes of a simulated file, in pages that may be missing (holes). Clones share pages.

use crate::base::size::FILE_BLOCK_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The page size in bytes: the unit of allocation and of punching.
pub(super) const PAGE_BYTES: usize = FILE_BLOCK_BYTES as usize;

const PAGE: u64 = PAGE_BYTES as u64;

#[derive(Clone, Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES]>>,
    len: u64,
}

/// The part of a range that lies in one page.
struct Piece {
    page: u64,
    /// Offset in the page.
    start: usize,
    len: usize,
    /// Offset in the range.
    at: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let start = (place % PAGE) as usize;
        let piece =
            Piece { page: place / PAGE, start, len: (PAGE_BYTES - start).min(len - at), at };
        at += piece.len;
        (piece.len > 0).then_some(piece)
    })
}

impl Content {
    pub(super) fn from_bytes(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.write(0, bytes);
        content
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn allocated(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Returns the bytes that a write would newly allocate.
    pub(super) fn growth(&self, offset: u64, len: usize) -> u64 {
        let new = pieces(offset, len).filter(|piece| !self.pages.contains_key(&piece.page));
        new.count() as u64 * PAGE
    }

    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        for piece in pieces(offset, len) {
            let into = &mut buf[piece.at..piece.at + piece.len];
            match self.pages.get(&piece.page) {
                Some(page) => into.copy_from_slice(&page[piece.start..piece.start + piece.len]),
                None => into.fill(0),
            }
        }
        len
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for piece in pieces(offset, bytes.len()) {
            let page = self.pages.entry(piece.page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[piece.start..piece.start + piece.len]
                .copy_from_slice(&bytes[piece.at..piece.at + piece.len]);
        }
        if !bytes.is_empty() {
            self.extend(offset + bytes.len() as u64);
        }
        self.check_end();
    }

    fn check_end(&self) {
        let last = self.pages.keys().next_back();
        assert!(last.is_none_or(|page| page * PAGE < self.len), "no page lies behind the end");
    }

    /// Makes the file at least `len` bytes long.
    pub(super) fn extend(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.pages.split_off(&len.div_ceil(PAGE));
            // Bytes behind the end must read as zeroes if the file grows again.
            self.zero(len, (PAGE - len % PAGE) as usize);
        }
        self.len = len;
        self.check_end();
    }

    /// Frees whole pages and zeroes the rest of the range, as Linux does.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len);
        self.zero(offset, end.saturating_sub(offset) as usize);
    }

    fn zero(&mut self, offset: u64, len: usize) {
        for piece in pieces(offset, len) {
            if piece.len == PAGE_BYTES {
                self.pages.remove(&piece.page);
            } else if let Some(page) = self.pages.get_mut(&piece.page) {
                Arc::make_mut(page)[piece.start..piece.start + piece.len].fill(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_as_a_vector_of_bytes() {
        let mut dice = crate::env::sim::dice::Dice::new(3, 3);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for step in 0..5000 {
            let (offset, len) = (dice.below(20_000), dice.below(9000));
            let end = offset + len;
            match dice.below(4) {
                0 | 1 => {
                    content.write(offset as u64, &vec![step as u8; len]);
                    if len > 0 {
                        model.resize(model.len().max(end), 0);
                        model[offset..end].fill(step as u8);
                    }
                }
                2 => {
                    content.punch(offset as u64, len as u64);
                    let end = end.min(model.len());
                    model[offset.min(end)..end].fill(0);
                }
                _ => {
                    content.set_len(offset as u64);
                    model.resize(offset, 0);
                }
            }
            assert_eq!(content.len(), model.len() as u64);
            assert!(content.to_bytes() == model, "differs after step {step}");
        }
    }

    #[test]
    fn space_is_counted_in_pages() {
        let mut content = Content::default();
        assert_eq!(content.growth(4095, 2), 2 * PAGE);
        content.write(4095, b"ab");
        assert_eq!((content.allocated(), content.growth(0, 8192)), (2 * PAGE, 0));
        content.extend(1 << 20);
        assert_eq!(content.allocated(), 2 * PAGE);
        content.punch(1, 4095);
        assert_eq!(content.allocated(), 2 * PAGE, "no whole page");
        content.punch(0, 4096);
        assert_eq!(content.allocated(), PAGE);
        content.set_len(0);
        assert_eq!(content.allocated(), 0);
    }
}
