//! The iterator over the entries of one block, in both directions, without an allocation per entry.
//!
//! Place in the data's way: `reader.rs` seeks once with it; `iter.rs` walks block after block. Each
//! key is assembled in a buffer that lives as long as the iterator; payloads are not copied.
//! Upholds I7 together with `block.rs`: no bytes make it panic or loop for ever.

use super::block::{Block, broken, decode_entry};
use crate::base::error::Result;
use crate::base::key::{KeyOrder, MAX_KEY_BYTES, Trailer, split_internal};
use std::ops::Range;

/// An iterator that stands on an entry of a block or on none.
#[derive(Default)]
pub(super) struct BlockIter {
    block: Block,
    valid: bool,
    /// `at` is the offset of the current entry, `next` that of the entry after it.
    at: usize,
    next: usize,
    /// The internal key of the current entry.
    key: Vec<u8>,
    trailer: u64,
    payload: Range<usize>,
}

impl BlockIter {
    /// Makes an iterator over `block`, which stands on no entry yet.
    pub(super) fn new(block: Block) -> Self {
        BlockIter { block, ..BlockIter::default() }
    }

    /// Switches to another block, on no entry yet. The key buffer is reused.
    pub(super) fn reset(&mut self, block: Block) {
        self.block = block;
        self.valid = false;
    }

    /// Makes the iterator invalid.
    pub(super) fn leave(&mut self) {
        self.valid = false;
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the offset of the current entry within the block.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn user_key(&self) -> &[u8] {
        split_internal(&self.key).0
    }

    #[inline]
    pub(super) fn trailer(&self) -> Trailer {
        Trailer(self.trailer)
    }

    #[inline]
    pub(super) fn internal_key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(super) fn payload(&self) -> &[u8] {
        self.block.entries().get(self.payload.clone()).unwrap_or_default()
    }

    /// Moves to the entry at `self.next`, whose predecessor's key is in the buffer, or to no entry
    /// if the entries end there.
    #[inline]
    fn step(&mut self) -> Result<()> {
        self.valid = false;
        let entries = self.block.entries();
        if self.next >= entries.len() {
            return Ok(());
        }
        let entry = decode_entry(entries, self.next)
            .filter(|entry| entry.shared <= self.key.len())
            .ok_or_else(|| broken("an entry does not fit"))?;
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entries.get(entry.key).unwrap_or_default());
        let Some(trailer) = self.key.last_chunk::<{ Trailer::BYTES }>() else {
            return Err(broken("a key is too short"));
        };
        if self.key.len() > MAX_KEY_BYTES + Trailer::BYTES {
            return Err(broken("a key is too long"));
        }
        self.trailer = u64::from_le_bytes(*trailer);
        self.trailer().kind()?;
        self.at = self.next;
        self.next = entry.payload.end;
        self.payload = entry.payload;
        self.valid = true;
        Ok(())
    }

    /// Moves to the entry of restart `restart`.
    fn jump(&mut self, restart: usize) -> Result<()> {
        self.valid = false;
        self.key.clear();
        self.next = self.block.restart(restart)?;
        self.step()?;
        if !self.valid {
            return Err(broken("a restart points behind the entries"));
        }
        Ok(())
    }

    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        self.jump(0)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        self.jump(self.block.restarts().saturating_sub(1))?;
        while self.next < self.block.entries().len() {
            self.step()?;
        }
        Ok(())
    }

    /// Moves to the first entry at or after the target, or to no entry if all are before it.
    pub(super) fn seek(
        &mut self,
        order: &KeyOrder,
        user_key: &[u8],
        trailer: Trailer,
    ) -> Result<()> {
        self.valid = false;
        let all = 0..self.block.restarts();
        let before = self.block.restarts_before(all, order, user_key, trailer)?;
        self.jump(before.saturating_sub(1))?;
        let target = (user_key, trailer);
        while self.valid && order.compare_entries((self.user_key(), self.trailer()), target).is_lt()
        {
            self.step()?;
        }
        Ok(())
    }

    /// Moves to the last entry strictly before the target, or to no entry if there is none.
    pub(super) fn seek_before(
        &mut self,
        order: &KeyOrder,
        user_key: &[u8],
        trailer: Trailer,
    ) -> Result<()> {
        self.seek(order, user_key, trailer)?;
        if self.valid { self.prev() } else { self.seek_to_last() }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.step()
    }

    /// Moves to the previous entry: goes back to the last restart before the current entry, and
    /// forward from there.
    pub(super) fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.valid = false;
        let here = self.at;
        let (mut low, mut high) = (0, self.block.restarts());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block.restart(middle)? < here {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(restart) = low.checked_sub(1) else {
            return Ok(());
        };
        self.jump(restart)?;
        while self.valid && self.next < here {
            self.step()?;
        }
        if !self.valid || self.next != here {
            self.valid = false;
            return Err(broken("a restart does not lead to the entries behind it"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{BlockBuilder, RESTART_INTERVAL};
    use super::super::tests::Rng;
    use super::*;
    use crate::base::key::{EntryKind, SeqNo};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    type Model = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), Vec<u8>>;

    fn model(rng: &mut Rng, entries: usize) -> Model {
        let mut model = Model::new();
        while model.len() < entries {
            let key = rng.bytes_of(b"ab", 6);
            let trailer = Trailer::new(rng.below(5), EntryKind::Put);
            model.insert((key, std::cmp::Reverse(trailer.0)), rng.bytes_of(b"xyz", 200));
        }
        model
    }

    fn build(model: &Model, interval: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new(interval);
        for ((key, trailer), payload) in model {
            builder.add(key, Trailer(trailer.0), payload);
        }
        builder.finish(<[u8]>::to_vec)
    }

    fn seek_key(rng: &mut Rng) -> (Vec<u8>, Trailer) {
        let seqno: SeqNo = rng.below(6);
        (rng.bytes_of(b"ab", 6), Trailer::seek(seqno))
    }

    #[test]
    fn walks_like_a_sorted_map() {
        let mut rng = Rng::new(1);
        for round in 0..200 {
            let model = model(&mut rng, 1 + round % 70);
            let interval = [1, 2, RESTART_INTERVAL][round % 3];
            let block = Block::new(Arc::new(build(&model, interval))).unwrap();
            let mut iter = BlockIter::new(block);
            let order = KeyOrder::Bytewise;
            let entries: Vec<_> = model.iter().collect();
            let mut at = None;
            for _ in 0..100 {
                match rng.below(6) {
                    0 => (at, _) = (Some(0), iter.seek_to_first().unwrap()),
                    1 => (at, _) = (Some(entries.len() - 1), iter.seek_to_last().unwrap()),
                    kind @ (2 | 3) => {
                        let (key, trailer) = seek_key(&mut rng);
                        let target = (key.clone(), std::cmp::Reverse(trailer.0));
                        let behind = entries.partition_point(|entry| *entry.0 < target);
                        if kind == 2 {
                            iter.seek(&order, &key, trailer).unwrap();
                            at = (behind < entries.len()).then_some(behind);
                        } else {
                            iter.seek_before(&order, &key, trailer).unwrap();
                            at = behind.checked_sub(1);
                        }
                    }
                    4 if iter.valid() => {
                        iter.next().unwrap();
                        at = at.map(|at| at + 1).filter(|&at| at < entries.len());
                    }
                    5 if iter.valid() => {
                        iter.prev().unwrap();
                        at = at.and_then(|at| at.checked_sub(1));
                    }
                    _ => {}
                }
                assert_eq!(iter.valid(), at.is_some());
                if let Some(((key, trailer), payload)) = at.map(|at| entries[at]) {
                    assert_eq!((iter.user_key(), iter.trailer().0), (&key[..], trailer.0));
                    assert_eq!(iter.payload(), payload);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let trailer = Trailer::new(1, EntryKind::Put).0.to_le_bytes();
        let block = |entries: &[&[u8]], restarts: &[u32]| {
            let mut bytes = entries.concat();
            restarts.iter().for_each(|at| bytes.extend_from_slice(&at.to_le_bytes()));
            bytes.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
            BlockIter::new(Block::new(Arc::new(bytes)).unwrap())
        };
        let good: [&[u8]; 2] = [b"\0\x08\0", &trailer];
        block(&good, &[0]).seek_to_first().unwrap();
        assert!(block(&good, &[11]).seek_to_first().is_err(), "behind the entries");
        assert!(block(&[b"\x01\x08\0", &trailer], &[0]).seek_to_first().is_err(), "shares");
        assert!(block(&[b"\0\x07\0", &trailer], &[0]).seek_to_first().is_err(), "short key");
        assert!(block(&[b"\0\x08\x01", &trailer], &[0]).seek_to_first().is_err(), "no payload");
        assert!(block(&[b"\0\x08\0", &[9; 8]], &[0]).seek_to_first().is_err(), "kind 9");
        // An entry hidden in the payload of another, which ends within the third.
        let hidden: [&[u8]; 4] = [b"\0\x08\x0b", &trailer, b"\0\x08\x05", &trailer];
        let mut iter = block(&[&hidden.concat(), &good.concat()], &[0, 11]);
        iter.seek_to_first().unwrap();
        iter.next().unwrap();
        assert!(iter.valid() && iter.prev().is_err() && !iter.valid());
    }

    /// Does everything with hostile bytes; errors are fine, panics and endless loops are not.
    fn abuse(rng: &mut Rng, bytes: Vec<u8>) {
        let Ok(block) = Block::new(Arc::new(bytes)) else { return };
        let mut iter = BlockIter::new(block);
        for _ in 0..20 {
            let (key, trailer) = seek_key(rng);
            let result = match rng.below(5) {
                0 => iter.seek_to_first(),
                1 => iter.seek_to_last(),
                2 => iter.seek(&KeyOrder::Bytewise, &key, trailer),
                3 => iter.seek_before(&KeyOrder::Bytewise, &key, trailer),
                _ => Ok(()),
            };
            assert!(result.is_ok() || !iter.valid());
            for _ in 0..rng.below(40) {
                if !iter.valid() {
                    break;
                }
                assert!(iter.trailer().kind().is_ok());
                let _ = (iter.user_key().len(), iter.payload().len());
                let result = if rng.below(2) == 0 { iter.next() } else { iter.prev() };
                assert!(result.is_ok() || !iter.valid());
            }
        }
    }

    #[test]
    fn i07_no_bytes_make_it_panic() {
        let mut rng = Rng::new(2);
        for round in 0..3000 {
            let mut bytes = if round % 4 == 0 {
                let len = rng.below(100) as usize;
                (0..len).map(|_| rng.below(256) as u8).collect()
            } else {
                let model = model(&mut rng, 1 + round % 50);
                build(&model, RESTART_INTERVAL)
            };
            for _ in 0..1 + rng.below(4) {
                if !bytes.is_empty() {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] =
                        [0, 1, 0x7f, 0x80, 0xff, rng.below(256) as u8][rng.below(6) as usize];
                }
            }
            if rng.below(4) == 0 {
                bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
                bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
            }
            abuse(&mut rng, bytes);
        }
    }
}
