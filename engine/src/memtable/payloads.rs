//! The payloads of the entries, apart from the nodes, which have room for a number only.
//!
//! Most bytes of a memtable of small values are payloads, and a memtable that holds more entries
//! makes larger tables, of which compactions write less. So a short payload costs no allocation: it
//! lies in an arena of numbers, as keys do in nodes, behind a byte with its length. Who reads it
//! copies it, because safe Rust can't lend bytes that are made of atomics. A long payload, or one
//! behind a long key, is an allocation of its own, which is lent.

use super::SHORT_KEY_BYTES;
use super::arena::Arena;
use super::node::Node;
use crate::base::entry::{Payload, Slot};
use crate::base::key::EntryKind;
use crate::base::pointer::{SegmentId, ValuePointer};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The length of the longest short payload, in bytes.
const SHORT_PAYLOAD_BYTES: usize = 255;

/// The approximate overhead of an allocation in bytes.
const ALLOCATION_BYTES: usize = 16;

/// A value pointer made of atomics, so that it can be written through a shared reference.
#[derive(Default)]
pub(super) struct PointerCell {
    segment: AtomicU64,
    offset: AtomicU64,
    length: AtomicU32,
}

/// Room for a copy of a short payload, with its length before it.
pub(super) struct ShortPayload([u8; SHORT_PAYLOAD_BYTES + 1]);

impl ShortPayload {
    pub(super) fn new() -> Self {
        ShortPayload([0; SHORT_PAYLOAD_BYTES + 1])
    }
}

/// The payloads of a memtable.
pub(super) struct Payloads {
    /// The value pointers of entries with short keys.
    pointers: Arena<PointerCell>,
    /// The other payloads of entries with short keys, if they are short.
    short: Arena<AtomicU64>,
    /// Those that are not, and long keys with their payloads.
    long: Arena<OnceLock<Box<[u8]>>>,
}

/// The ends of the arenas of [`Payloads`], which whoever inserts keeps.
#[derive(Default)]
pub(super) struct PayloadEnds {
    pointers: u32,
    short: u32,
    long: u32,
}

impl Payloads {
    pub(super) fn new() -> Self {
        Payloads { pointers: Arena::new(), short: Arena::new(), long: Arena::new() }
    }

    /// Stores the payload of `node` and, if the key is long, the key. Returns the number of bytes
    /// taken. Requires: the node has its key and trailer and is not published.
    pub(super) fn fill(
        &self,
        ends: &mut PayloadEnds,
        node: &Node,
        key: &[u8],
        payload: Payload<'_>,
    ) -> usize {
        if key.len() > SHORT_KEY_BYTES {
            return self.keep_long(ends, node, join(key, payload));
        }
        if payload.deadline.is_some() {
            let mut encoded = Vec::with_capacity(payload.encoded_len());
            payload.encode(&mut encoded);
            return self.keep(ends, node, &encoded);
        }
        match payload.slot {
            Slot::Delete => 0,
            Slot::Inline(value) => self.keep(ends, node, value),
            Slot::Pointer(pointer) => {
                let number = self.pointers.append(&mut ends.pointers, 1);
                let cell = self.pointers.get(number);
                cell.segment.store(pointer.segment.0, Relaxed);
                cell.offset.store(pointer.offset, Relaxed);
                cell.length.store(pointer.length, Relaxed);
                node.payload.store(number, Relaxed);
                size_of::<PointerCell>()
            }
        }
    }

    fn keep(&self, ends: &mut PayloadEnds, node: &Node, bytes: &[u8]) -> usize {
        if bytes.len() <= SHORT_PAYLOAD_BYTES && self.short.has_room(ends.short) {
            self.keep_short(ends, node, bytes)
        } else {
            self.keep_long(ends, node, bytes.into())
        }
    }

    fn keep_short(&self, ends: &mut PayloadEnds, node: &Node, bytes: &[u8]) -> usize {
        let mut copy = ShortPayload::new();
        copy.0[0] = bytes.len() as u8;
        copy.0[1..=bytes.len()].copy_from_slice(bytes);
        let count = words_of_short(bytes.len());
        let number = self.short.append(&mut ends.short, count as u32);
        for (cell, word) in self.short.get_all(number, count).iter().zip(copy.0.as_chunks().0) {
            cell.store(u64::from_le_bytes(*word), Relaxed);
        }
        node.payload.store(number, Relaxed);
        node.mark_short_payload();
        count * size_of::<AtomicU64>()
    }

    fn keep_long(&self, ends: &mut PayloadEnds, node: &Node, bytes: Box<[u8]>) -> usize {
        let number = self.long.append(&mut ends.long, 1);
        let taken = bytes.len() + ALLOCATION_BYTES + size_of::<OnceLock<Box<[u8]>>>();
        assert!(self.long.get(number).set(bytes).is_ok(), "numbers are given out once");
        node.payload.store(number, Relaxed);
        taken
    }

    /// Returns the words of a short payload.
    #[inline]
    fn short_words(&self, node: &Node) -> &[AtomicU64] {
        let number = node.payload.load(Relaxed);
        let len = self.short.get(number).load(Relaxed) as u8;
        self.short.get_all(number, words_of_short(len.into()))
    }

    /// Returns the bytes of a long payload, or a long key with its payload.
    fn lend(&self, node: &Node) -> &[u8] {
        let bytes = self.long.get(node.payload.load(Relaxed)).get();
        bytes.expect("bytes are kept before their node is published")
    }

    /// Returns the key of a node whose key is too long to live in the node.
    pub(super) fn long_key(&self, node: &Node) -> &[u8] {
        split(self.lend(node)).0
    }

    /// Returns the encoded payload of a node, if it can be lent.
    #[inline]
    pub(super) fn lent(&self, node: &Node) -> Option<&[u8]> {
        if node.has_long_key() {
            return Some(split(self.lend(node)).1);
        }
        match node.trailer().kind().expect("an insertion checks the kind") {
            EntryKind::Delete => Some(&[]),
            EntryKind::PutPointer | EntryKind::MergePointer => None,
            _ if node.has_short_payload() => None,
            _ => Some(self.lend(node)),
        }
    }

    /// Copies a short payload to `room`, and returns its bytes there.
    #[inline]
    fn copy_short<'a>(&self, node: &Node, room: &'a mut ShortPayload) -> &'a [u8] {
        for (bytes, word) in room.0.as_chunks_mut().0.iter_mut().zip(self.short_words(node)) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        &room.0[1..=usize::from(room.0[0])]
    }

    /// Replaces `out` by the encoded payload of a node from which it can't be lent.
    pub(super) fn copy(&self, node: &Node, out: &mut Vec<u8>) {
        out.clear();
        let mut room = ShortPayload::new();
        match node.has_short_payload() {
            true => out.extend_from_slice(self.copy_short(node, &mut room)),
            false => self.decode(node, &mut room).encode(out),
        }
    }

    /// Returns the payload of a node. `room` gets what can't be lent.
    pub(super) fn decode<'a>(&'a self, node: &Node, room: &'a mut ShortPayload) -> Payload<'a> {
        let kind = node.trailer().kind().expect("an insertion checks the kind");
        if !node.has_long_key() && matches!(kind, EntryKind::PutPointer | EntryKind::MergePointer) {
            let cell = self.pointers.get(node.payload.load(Relaxed));
            let slot = Slot::Pointer(ValuePointer {
                segment: SegmentId(cell.segment.load(Relaxed)),
                offset: cell.offset.load(Relaxed),
                length: cell.length.load(Relaxed),
            });
            return Payload { is_merge: kind.is_merge(), ..slot.into() };
        }
        let bytes = self.lent(node).unwrap_or_else(|| self.copy_short(node, room));
        Payload::decode(kind, bytes).expect("an insertion encoded it")
    }
}

/// Returns how many words a short payload of `len` bytes takes, with its length.
fn words_of_short(len: usize) -> usize {
    1 + len / size_of::<u64>()
}

/// Joins a long key and its payload in one allocation: the length of the key, the key, the payload.
fn join(key: &[u8], payload: Payload<'_>) -> Box<[u8]> {
    let mut out = Vec::with_capacity(4 + key.len() + payload.encoded_len());
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    payload.encode(&mut out);
    out.into_boxed_slice()
}

/// Splits the bytes that [`join`] made into key and payload.
fn split(joined: &[u8]) -> (&[u8], &[u8]) {
    let (len, rest) = joined.split_first_chunk().expect("a joined key begins with its length");
    rest.split_at(u32::from_le_bytes(*len) as usize)
}
