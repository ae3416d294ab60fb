//! Deadlines: the time at which an entry expires. An expired entry is a tombstone to its readers.
//!
//! [`Deadline::has_passed`] is the only place that compares a deadline with a time. The time comes
//! from the expiry clock (`version/expiry.rs`), which never goes back.

use super::coding::{Reader, put_varint, varint_len};
use super::error::{Error, Result};

/// The time at which an entry expires, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Deadline(pub u64);

/// A reading of the expiry clock, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ExpiryTime(pub u64);

impl Deadline {
    /// Returns true if an entry with this deadline is expired at `now`.
    #[inline]
    pub fn has_passed(self, now: ExpiryTime) -> bool {
        self.0 <= now.0
    }

    /// Returns the length of [`Deadline::encode`]'s output in bytes.
    #[inline]
    pub fn encoded_len(self) -> usize {
        varint_len(self.0)
    }

    /// Appends the deadline as a varint.
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
    }

    /// Reads a deadline that [`Deadline::encode`] wrote.
    #[inline]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Deadline> {
        Ok(Deadline(reader.varint()?))
    }
}

/// The greatest number of groups of deadlines that are counted apart.
const MAX_GROUPS: usize = 16;

/// How many of some entries expire by when, in a few groups. The counts never say that more has
/// expired than has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadlineCounts {
    /// The last deadline of each group, ascending, and the number of its entries.
    groups: Vec<(Deadline, u64)>,
}

impl DeadlineCounts {
    /// Counts an entry with this deadline.
    pub fn add(&mut self, deadline: Deadline) {
        let at = self.groups.partition_point(|(last, _)| *last < deadline);
        match self.groups.get_mut(at) {
            Some((last, count)) if *last == deadline => *count += 1,
            _ => self.groups.insert(at, (deadline, 1)),
        }
        if self.groups.len() <= MAX_GROUPS {
            return;
        }
        // The two neighbours with the fewest entries become one group.
        let sum = |at: &usize| self.groups[*at].1 + self.groups[*at + 1].1;
        let fewest = (0..MAX_GROUPS).min_by_key(sum).expect("there are neighbours");
        let (_, count) = self.groups.remove(fewest);
        self.groups[fewest].1 += count;
    }

    /// Returns how many entries were counted.
    #[cfg(test)]
    pub fn total(&self) -> u64 {
        self.groups.iter().map(|(_, count)| count).sum()
    }

    /// Returns how many entries are expired at `now`, or fewer.
    pub fn passed(&self, now: ExpiryTime) -> u64 {
        let passed = self.groups.iter().take_while(|(last, _)| last.has_passed(now));
        passed.map(|(_, count)| count).sum()
    }

    /// Returns the greatest deadline, if there is one.
    pub fn last(&self) -> Option<Deadline> {
        self.groups.last().map(|(last, _)| *last)
    }

    /// Appends the counts: the number of groups, and for each the distance from the last deadline
    /// of the one before, and its entries, all as varints.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.groups.len() as u64);
        let mut before = 0;
        for (last, count) in &self.groups {
            put_varint(out, last.0 - before);
            put_varint(out, *count);
            before = last.0;
        }
    }

    /// Reads what [`DeadlineCounts::encode`] wrote, for at most `most` entries.
    pub fn decode(reader: &mut Reader<'_>, most: u64) -> Result<Self> {
        let (mut groups, mut before, mut total): (Vec<(Deadline, u64)>, u64, u64) =
            Default::default();
        for index in 0..reader.length(MAX_GROUPS)? {
            let (distance, count) = (reader.varint()?, reader.varint()?);
            let last = before.checked_add(distance).filter(|_| index == 0 || distance > 0);
            total = total.saturating_add(count);
            let Some(last) = last.filter(|_| count > 0 && total <= most) else {
                return Err(Error::corruption("the counts of deadlines contradict each other"));
            };
            groups.push((Deadline(last), count));
            before = last;
        }
        Ok(DeadlineCounts { groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_deadlines_never_say_too_much_and_round_trip() {
        for step in [0u64, 1, 7, 31] {
            let mut counts = DeadlineCounts::default();
            let deadlines: Vec<u64> = (0..500).map(|n| 1000 + n * step * 7919 % 1009).collect();
            for &deadline in &deadlines {
                counts.add(Deadline(deadline));
            }
            assert_eq!((counts.total(), counts.passed(ExpiryTime(999))), (500, 0));
            for now in (990..2020).step_by(10) {
                let passed = deadlines.iter().filter(|it| **it <= now).count() as u64;
                let counted = counts.passed(ExpiryTime(now));
                assert!(counted <= passed, "{counted} of {passed}");
            }
            let last = *deadlines.iter().max().unwrap();
            assert_eq!(counts.last(), Some(Deadline(last)));
            assert_eq!(counts.passed(ExpiryTime(last)), 500);
            let mut out = Vec::new();
            counts.encode(&mut out);
            let decoded = |most| DeadlineCounts::decode(&mut Reader::new(&out), most);
            assert_eq!(decoded(500).unwrap(), counts);
            assert!(decoded(499).is_err(), "more than there are entries");
        }
        for bad in [&[1, 5, 0][..], &[2, 5, 1, 0, 1], &[17], &[1, 5]] {
            assert!(DeadlineCounts::decode(&mut Reader::new(bad), 100).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_entry_is_expired_from_its_deadline_on() {
        let deadline = Deadline(1000);
        assert!(!deadline.has_passed(ExpiryTime(999)));
        assert!(deadline.has_passed(ExpiryTime(1000)));
        assert!(!Deadline(u64::MAX).has_passed(ExpiryTime(u64::MAX - 1)));
    }

    #[test]
    fn deadlines_round_trip() {
        for deadline in [0, 1, 127, 128, 1_767_225_600_000, u64::MAX].map(Deadline) {
            let mut out = Vec::new();
            deadline.encode(&mut out);
            assert_eq!(out.len(), deadline.encoded_len());
            let mut reader = Reader::new(&out);
            assert_eq!(Deadline::decode(&mut reader).unwrap(), deadline);
            assert!(reader.is_empty());
        }
    }
}
