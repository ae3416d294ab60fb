//! How much of what was put since a number was inserted, as far as the tree still tells: an older
//! value of the same key that a merge has dropped is not seen, and then an overwrite counts as an
//! insert.

use crate::base::key::SeqNo;

/// Sums up, over a walk that has the newest entry of each key first, the bytes of keys that had no
/// value before.
#[derive(Debug, Default)]
pub struct Inserted {
    since: SeqNo,
    bytes: u64,
    /// The bytes of the present key's newest entry, unless an older one had a value.
    of_key: Option<u64>,
    /// True if the newest of the present key's older entries was met.
    is_decided: bool,
}

impl Inserted {
    /// Begins a walk that tells what was inserted after `since`.
    pub fn since(since: SeqNo) -> Self {
        Inserted { since, ..Inserted::default() }
    }

    /// Goes on with another key.
    pub fn enter_key(&mut self) {
        self.bytes = self.bytes.saturating_add(self.of_key.take().unwrap_or(0));
        self.is_decided = false;
    }

    /// Takes the next entry of the key. `bytes` are those of its key and value; `None` stands for a
    /// tombstone.
    pub fn take(&mut self, seqno: SeqNo, bytes: Option<u64>) {
        if seqno > self.since {
            self.of_key.get_or_insert(bytes.unwrap_or(0));
        } else if !self.is_decided {
            self.is_decided = true;
            if bytes.is_some() {
                self.of_key = None;
            }
        }
    }

    /// Returns the bytes of all keys that were inserted.
    pub fn bytes(mut self) -> u64 {
        self.enter_key();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(keys: &[&[(SeqNo, Option<u64>)]]) -> u64 {
        let mut inserted = Inserted::since(10);
        for key in keys {
            inserted.enter_key();
            key.iter().for_each(|&(seqno, bytes)| inserted.take(seqno, bytes));
        }
        inserted.bytes()
    }

    #[test]
    fn a_key_is_inserted_if_it_had_no_value_before() {
        assert_eq!(sum(&[&[(11, Some(5))]]), 5);
        assert_eq!(sum(&[&[(10, Some(5))]]), 0, "nothing was put");
        assert_eq!(sum(&[&[(11, Some(5)), (10, Some(7))]]), 0, "overwritten");
        assert_eq!(sum(&[&[(12, Some(5)), (11, Some(7))]]), 5, "inserted and overwritten");
        assert_eq!(sum(&[&[(12, Some(5)), (11, Some(7)), (3, Some(1))]]), 0, "overwritten twice");
        assert_eq!(sum(&[&[(12, Some(5)), (9, None), (3, Some(1))]]), 5, "put after a deletion");
        assert_eq!(sum(&[&[(12, None), (3, Some(1))]]), 0, "deleted");
        assert_eq!(sum(&[&[(12, None), (11, Some(9))]]), 0, "inserted and deleted");
        assert_eq!(sum(&[&[(11, Some(5))], &[(4, Some(1))], &[(19, Some(u64::MAX))]]), u64::MAX);
    }
}
