//! How soon the values of memtables were overwritten: for the choice when values are separated
//! (`version/separation.rs`). Pure.
//!
//! A flush meets all versions of a key, one after the other. The difference of their sequence
//! numbers says how much was written between them, whether the memtable holds the values or
//! pointers to them. A value that was overwritten after a part *p* of a memtable's writes dies in
//! it with probability 1 - *p*, since the memtable may end at any time. Of the pairs of versions,
//! those that the end of these memtables parts are not seen at all, and the others stand for them.

use crate::base::compression::Codec;
use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::KeyspaceId;
use crate::compaction::separate::least_value_bytes;
use crate::version::separation::SeparationEvidence;
use crate::version::settings::{KeyspaceOptions, Separation};

/// Bytes that an entry takes in a memtable beside its key and value, about.
const ENTRY_BYTES: u64 = 100;
/// Lifetimes are told apart by their logarithm, with so many parts for each doubling.
const PARTS: usize = 4;

/// The values of some memtables that are chosen for, by how soon they were overwritten.
#[derive(Debug)]
pub struct Lifetimes {
    keyspace: KeyspaceId,
    options: KeyspaceOptions,
    is_encrypted: bool,
    entries: u64,
    /// The bytes of all keys, and of all values that a memtable holds if flushes separate them.
    bytes: u64,
    /// The bytes of the values that are chosen for.
    written: u64,
    /// Those of them that were overwritten, by the logarithm of the number of entries between.
    overwritten: [u64; 64 * PARTS],
    /// The least and the greatest sequence number.
    seqnos: (SeqNo, SeqNo),
    last: SeqNo,
}

impl Lifetimes {
    /// Creates the lifetimes of no values, in a keyspace with these settings.
    pub fn new(keyspace: KeyspaceId, options: KeyspaceOptions, is_encrypted: bool) -> Self {
        Lifetimes {
            keyspace,
            options,
            is_encrypted,
            entries: 0,
            bytes: 0,
            written: 0,
            overwritten: [0; 64 * PARTS],
            seqnos: (SeqNo::MAX, 0),
            last: 0,
        }
    }

    /// Adds an entry, in table order. `is_overwritten` says that the entry before it is a newer one
    /// of the same key.
    pub fn add(
        &mut self,
        user_key: &[u8],
        trailer: Trailer,
        payload: &[u8],
        is_overwritten: bool,
    ) -> Result<()> {
        let seqno = trailer.seqno();
        let Payload { deadline, slot, .. } = Payload::decode(trailer.kind()?, payload)?;
        let bytes = match slot {
            Slot::Inline(value) => value.len(),
            Slot::Pointer(pointer) => {
                let value = (deadline, pointer);
                least_value_bytes(self.keyspace, user_key, seqno, value, self.is_encrypted)
            }
            Slot::Delete => 0,
        };
        self.entries += 1;
        let is_held = !self.options.separates_at_write(bytes, Separation::AtFlush);
        self.bytes += (user_key.len() + if is_held { bytes } else { 0 }) as u64;
        self.seqnos = (self.seqnos.0.min(seqno), self.seqnos.1.max(seqno));
        if self.options.chooses_for(bytes) {
            self.written += bytes as u64;
            let between = self.last.saturating_sub(seqno);
            if is_overwritten && between > 0 {
                self.overwritten[place(between)] += bytes as u64;
            }
        }
        self.last = seqno;
        Ok(())
    }

    /// Returns how much was written of the values that are chosen for, and what of it would have
    /// died in a memtable that held all values. What a codec leaves of them says nothing of how
    /// many a memtable holds: with one, none count as dead.
    pub fn evidence(&self) -> SeparationEvidence {
        SeparationEvidence { written: self.written, young: self.young(), ..Default::default() }
    }

    fn young(&self) -> u64 {
        if self.entries == 0 || self.options.value_codec != Codec::None {
            return 0;
        }
        // Other keyspaces take sequence numbers, too, so there are more of them than entries.
        let entry = self.bytes as f64 / self.entries as f64 + ENTRY_BYTES as f64;
        let span = (self.seqnos.1 - self.seqnos.0 + 1) as f64;
        let memtable = self.options.memtable_bytes as f64 / entry * span / self.entries as f64;
        let dies = |(place, bytes): (usize, &u64)| {
            let between = middle(place);
            let dies = (1.0 - between / memtable).max(0.0);
            let is_seen = (1.0 - between / span).max(f64::EPSILON);
            *bytes as f64 * (dies / is_seen).min(1.0)
        };
        self.overwritten.iter().enumerate().map(dies).sum::<f64>() as u64
    }
}

/// Returns the place of a number of entries, which is not zero, among all lifetimes.
fn place(between: u64) -> usize {
    let log = between.ilog2() as usize;
    let part = ((u128::from(between) * PARTS as u128) >> log) as usize - PARTS;
    log * PARTS + part
}

/// Returns the middle of the numbers of entries that have this place.
fn middle(place: usize) -> f64 {
    let (log, part) = (place / PARTS, place % PARTS);
    2_f64.powi(log as i32) * (1.0 + (part as f64 + 0.5) / PARTS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::EntryKind;
    use crate::base::pointer::{SegmentId, ValuePointer};
    use crate::segment::RecordInput;

    const KIB: usize = 1 << 10;
    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    /// Adds so many entries, to `keys` keys in turns, of values of `bytes` bytes, where others
    /// write `others` entries for each. Returns the percentage of values that would die in a
    /// memtable of 1 MiB.
    fn young(keys: u64, entries: u64, bytes: usize, others: u64, is_pointer: bool) -> u64 {
        let separation = Separation::Auto;
        let options = KeyspaceOptions { memtable_bytes: 1 << 20, separation, ..Default::default() };
        let mut lifetimes = Lifetimes::new(KEYSPACE, options, false);
        let (mut payload, value) = (Vec::new(), vec![7; bytes]);
        let kind = if is_pointer { EntryKind::PutPointer } else { EntryKind::Put };
        for key in 0..keys {
            let versions: Vec<u64> = (key..entries).step_by(keys as usize).collect();
            for (index, number) in versions.into_iter().rev().enumerate() {
                let (user_key, seqno) = (key.to_be_bytes(), (number + 1) * (others + 1));
                let record = RecordInput::put(KEYSPACE, &user_key, &value);
                let length = record.record_bytes(seqno) as u32;
                let pointer = ValuePointer { segment: SegmentId(1), offset: 64, length };
                let slot = if is_pointer { Slot::Pointer(pointer) } else { Slot::Inline(&value) };
                payload.clear();
                Payload::from(slot).encode(&mut payload);
                lifetimes.add(&user_key, Trailer::new(seqno, kind), &payload, index > 0).unwrap();
            }
        }
        let SeparationEvidence { written, young, .. } = lifetimes.evidence();
        assert!(written <= entries * bytes as u64 && young <= written);
        young * 100 / written.max(1)
    }

    /// A memtable of 1 MiB holds 926 such values. The last ones are not overwritten.
    #[test]
    fn values_die_young_that_are_overwritten_within_a_memtable() {
        for is_pointer in [false, true] {
            let of = |keys, entries| young(keys, entries, KIB, 0, is_pointer);
            assert!((96..=99).contains(&of(10, 1000)), "{}", of(10, 1000));
            assert!((63..=71).contains(&of(300, 30_000)), "{}", of(300, 30_000));
            assert_eq!(of(1500, 15_000), 0);
            assert_eq!(of(1, 1), 0);
        }
    }

    /// Guards against a choice that is not the same once it is made: at flush a memtable holds
    /// fewer entries, and what is overwritten behind its end is not seen.
    #[test]
    fn as_many_die_young_whether_or_not_the_memtable_holds_the_values() {
        for keys in (100..900).step_by(50) {
            let (many, few) = (young(keys, 20_000, KIB, 0, true), young(keys, 926, KIB, 0, false));
            assert!(many.abs_diff(few) <= 6, "{keys} keys: {many} or {few} percent");
        }
    }

    #[test]
    fn what_other_keyspaces_write_takes_no_room_in_the_memtable() {
        for others in [1, 2, 7] {
            let of = |others| young(200, 10_000, KIB, others, true);
            assert!(of(0).abs_diff(of(others)) <= 4, "{others}: {} or {}", of(0), of(others));
        }
    }

    #[test]
    fn only_medium_values_count() {
        assert_eq!(young(10, 100, 100, 0, false), 0);
        assert_eq!(young(10, 100, 16 << 10, 0, true), 0);
        assert!(young(10, 100, 15 << 10, 0, true) > 50);
        let none = Lifetimes::new(KEYSPACE, KeyspaceOptions::default(), false);
        assert_eq!(none.evidence(), SeparationEvidence::default());
    }

    #[test]
    fn lifetimes_are_told_apart() {
        let mut last = 0;
        for between in (1..5000).chain([u64::MAX / 2, u64::MAX]) {
            let ratio = middle(place(between)) / between as f64;
            assert!((0.85..1.2).contains(&ratio), "{between}: {ratio}");
            assert!(place(between) >= last && place(between) < 64 * PARTS);
            last = place(between);
        }
    }
}
