//! How soon the values of memtables were overwritten: for the choice when values are separated
//! (`version/separation.rs`). Pure.
//!
//! A flush meets all versions of a key, one after the other. The difference of their sequence
//! numbers says how much was written between them, whether the memtable holds the values or
//! pointers to them. A value that was overwritten after a part of a memtable's worth of writes
//! would have died in a memtable with that probability less than one: flushes come at any time.

use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::key::{SeqNo, Trailer};
use crate::version::settings::KeyspaceOptions;

/// Bytes that an entry takes in a memtable beside its key and value, about.
const ENTRY_BYTES: u64 = 100;

/// The values of some memtables that are chosen for, by how soon they were overwritten.
#[derive(Debug)]
pub struct Lifetimes {
    options: KeyspaceOptions,
    entries: u64,
    /// The bytes of all keys and values.
    bytes: u64,
    /// The bytes of the values that are chosen for.
    written: u64,
    /// Those of them that were overwritten, by the binary logarithm of the number of commits
    /// between.
    overwritten: [u64; 64],
    /// The least and the greatest sequence number.
    seqnos: (SeqNo, SeqNo),
    last: SeqNo,
}

impl Lifetimes {
    /// Creates the lifetimes of no values, in a keyspace with these settings.
    pub fn new(options: KeyspaceOptions) -> Self {
        Lifetimes {
            options,
            entries: 0,
            bytes: 0,
            written: 0,
            overwritten: [0; 64],
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
        let bytes = match Payload::decode(trailer.kind()?, payload)?.slot {
            Slot::Inline(value) => value.len(),
            Slot::Pointer(pointer) => pointer.length as usize,
            Slot::Delete => 0,
        };
        self.entries += 1;
        self.bytes += (user_key.len() + bytes) as u64;
        self.seqnos = (self.seqnos.0.min(seqno), self.seqnos.1.max(seqno));
        if self.options.chooses_for(bytes) {
            self.written += bytes as u64;
            let commits = self.last.saturating_sub(seqno);
            if is_overwritten && commits > 0 {
                self.overwritten[commits.ilog2() as usize] += bytes as u64;
            }
        }
        self.last = seqno;
        Ok(())
    }

    /// Returns the bytes of the values that are chosen for, and of those that would have died in a
    /// memtable that held all values.
    pub fn bytes(&self) -> (u64, u64) {
        if self.entries == 0 {
            return (0, 0);
        }
        // Other keyspaces take sequence numbers, too, so there are more of them than entries.
        let entry = self.bytes as f64 / self.entries as f64 + ENTRY_BYTES as f64;
        let span = (self.seqnos.1 - self.seqnos.0 + 1) as f64;
        let memtable = self.options.memtable_bytes as f64 / entry * span / self.entries as f64;
        let dies = |(log, bytes): (usize, &u64)| {
            // The middle of all numbers with this logarithm.
            let commits = 1.5 * 2_f64.powi(log as i32);
            *bytes as f64 * (1.0 - commits / memtable).max(0.0)
        };
        let young: f64 = self.overwritten.iter().enumerate().map(dies).sum();
        (self.written, young as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::EntryKind;
    use crate::base::pointer::{SegmentId, ValuePointer};
    use crate::version::settings::Separation;

    const KIB: usize = 1 << 10;

    /// Adds so many rounds of writes to `keys` keys, one after the other, of values of `bytes`
    /// bytes, and returns the percentage of values that would die in a memtable of 1 MiB.
    fn young(keys: u64, rounds: u64, bytes: usize, others: u64, is_pointer: bool) -> u64 {
        let separation = Separation::Auto;
        let options = KeyspaceOptions { memtable_bytes: 1 << 20, separation, ..Default::default() };
        let mut lifetimes = Lifetimes::new(options);
        let mut payload = Vec::new();
        let value = vec![7; bytes];
        let pointer = ValuePointer { segment: SegmentId(1), offset: 64, length: bytes as u32 };
        let slot = if is_pointer { Slot::Pointer(pointer) } else { Slot::Inline(&value) };
        Payload::from(slot).encode(&mut payload);
        let kind = if is_pointer { EntryKind::PutPointer } else { EntryKind::Put };
        for key in 0..keys {
            for round in (0..rounds).rev() {
                // In between, other keyspaces are written.
                let seqno = (round * keys + key + 1) * (others + 1);
                let is_overwritten = round + 1 < rounds;
                let trailer = Trailer::new(seqno, kind);
                lifetimes.add(&key.to_be_bytes(), trailer, &payload, is_overwritten).unwrap();
            }
        }
        let (written, young) = lifetimes.bytes();
        assert!(written == keys * rounds * bytes as u64 || written == 0 && young == 0);
        young * 100 / written.max(1)
    }

    /// A memtable of 1 MiB holds about 930 such values.
    #[test]
    fn values_die_young_that_are_overwritten_within_a_memtable() {
        for is_pointer in [false, true] {
            let of = |keys, rounds| young(keys, rounds, KIB, 0, is_pointer);
            // In the last of ten rounds nothing is overwritten.
            assert!((80..=90).contains(&of(10, 10)), "{}", of(10, 10));
            assert!((40..=65).contains(&of(300, 10)), "{}", of(300, 10));
            assert_eq!(of(1500, 10), 0);
            assert_eq!(of(1, 1), 0);
        }
    }

    #[test]
    fn what_other_keyspaces_write_takes_no_room_in_the_memtable() {
        assert_eq!(young(100, 8, KIB, 0, true), young(100, 8, KIB, 7, true));
    }

    #[test]
    fn only_medium_values_count() {
        assert_eq!(young(10, 10, 100, 0, false), 0);
        assert_eq!(young(10, 10, 16 << 10, 0, true), 0);
        assert!(young(10, 10, 15 << 10, 0, true) > 50);
        assert_eq!(Lifetimes::new(KeyspaceOptions::default()).bytes(), (0, 0));
    }
}
