//! Merges several sorted iterators into one. The inputs are kept in the order of their entries. So
//! a step within one input needs one comparison, and one to another input two or three more, for
//! the new place of the first among the others. The start of each input's key is kept as a number,
//! so that most comparisons neither ask the inputs nor read their memory.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, Trailer};
use crate::base::pointer::TableId;
use crate::base::range_tombstone::RangeTombstone;
use crate::read::input::SortedRunIter;
use std::cmp::Ordering;

/// The direction in which the inputs are positioned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeDirection {
    Forward,
    Backward,
}

/// How far a step leads.
#[derive(Clone, Copy)]
enum Stride<'a> {
    /// To the next entry.
    Entry,
    /// Over what this range tombstone hides in the input.
    Hidden(&'a RangeTombstone),
    /// Towards this place.
    Towards(&'a [u8], Trailer),
}

/// A merging iterator. Every (user key, trailer) is in one input only, because sequence numbers are
/// never used twice (I6).
pub struct MergeIter {
    order: KeyOrder,
    inputs: Vec<SortedRunIter>,
    /// The start of each input's present key, as [`key_start`] returns it.
    starts: Vec<u128>,
    direction: MergeDirection,
    /// The inputs that have an entry, in the order in which their entries come. The first has the
    /// current one.
    queue: Vec<usize>,
    /// The bytes of each input's tables and the entries of all, once they were asked for.
    sizes: Option<(Vec<u64>, u64)>,
}

/// Returns how many of an input's `bytes` a walk over so many of `all` entries reads, and a quarter
/// more, since no input has exactly its share.
fn share(entries: u64, bytes: u64, all: u64) -> u64 {
    let wanted = u128::from(entries) * u128::from(bytes) / u128::from(all.max(1));
    u64::try_from(wanted).map_or(u64::MAX, |wanted| wanted.saturating_add(wanted / 4))
}

impl MergeIter {
    /// Creates a merge of these inputs.
    pub fn new(order: KeyOrder, inputs: Vec<SortedRunIter>) -> Self {
        let (starts, queue) = (vec![0; inputs.len()], Vec::with_capacity(inputs.len()));
        let direction = MergeDirection::Forward;
        MergeIter { order, inputs, starts, direction, queue, sizes: None }
    }

    /// Sets the number of entries that walks will probably pass, each from the place of a seek on.
    /// Each input is expected to have its share. The first call looks at each table.
    pub fn expect(&mut self, entries: u64) {
        let inputs = &mut self.inputs;
        let (sizes, all) = self.sizes.get_or_insert_with(|| {
            let sizes = inputs.iter().map(SortedRunIter::size);
            let all = sizes.clone().map(|(_, entries)| entries).fold(0, u64::saturating_add);
            (sizes.map(|(bytes, _)| bytes).collect(), all)
        });
        for (input, bytes) in inputs.iter_mut().zip(sizes) {
            input.expect(share(entries, *bytes, *all));
        }
    }

    /// Returns the id of the table that holds the current entry; `None` for a memtable.
    pub fn table_id(&self) -> Option<TableId> {
        self.current().table_id()
    }

    /// Returns the input with the current entry.
    #[inline]
    fn current(&self) -> &SortedRunIter {
        &self.inputs[*self.queue.first().expect("valid")]
    }

    fn at(&self, index: usize) -> (&[u8], Trailer) {
        debug_assert!(self.inputs[index].valid(), "an input is compared beyond its end");
        (self.inputs[index].user_key(), self.inputs[index].trailer())
    }

    /// Keeps the start of an input's key, after the input has moved.
    #[inline]
    fn note_start(&mut self, index: usize) {
        let input = &self.inputs[index];
        if input.valid() && matches!(self.order, KeyOrder::Bytewise) {
            self.starts[index] = key_start(input.user_key());
        }
    }

    /// Returns true if input `a` comes before input `b` in the current direction.
    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        let ordering = match self.starts[a].cmp(&self.starts[b]) {
            // Keys that begin alike are compared as a whole, as all are in another order.
            Ordering::Equal => self.order.compare_entries(self.at(a), self.at(b)),
            starts => starts,
        };
        debug_assert_eq!(
            ordering,
            self.order.compare_entries(self.at(a), self.at(b)),
            "the start of a key is that of an earlier one"
        );
        match self.direction {
            MergeDirection::Forward => ordering == Ordering::Less,
            MergeDirection::Backward => ordering == Ordering::Greater,
        }
    }

    /// Queues all inputs anew. (A sort may refuse a comparator of a user that is no order.)
    fn queue_all(&mut self) {
        self.queue.clear();
        for index in (0..self.inputs.len()).filter(|&index| self.inputs[index].valid()) {
            let place = self.queue.partition_point(|&other| self.before(other, index));
            self.queue.insert(place, index);
        }
    }

    /// Puts the first input in its place again after it has moved; it often stays the first.
    #[inline]
    fn requeue_first(&mut self) {
        let [first, others @ ..] = &self.queue[..] else { return };
        if !self.inputs[*first].valid() {
            self.queue.remove(0);
            return;
        }
        if others.first().is_none_or(|second| self.before(*first, *second)) {
            return;
        }
        let ahead = 1 + others[1..].partition_point(|other| self.before(*other, *first));
        self.queue[..=ahead].rotate_left(1);
    }

    /// Moves every other input to the other side of the current entry.
    fn turn(&mut self, direction: MergeDirection) -> Result<()> {
        debug_assert!(self.direction != direction, "only a change of direction is a turn");
        let Some(&current) = self.queue.first() else {
            return Ok(());
        };
        let (key, trailer) = self.at(current);
        let key = key.to_vec();
        for index in (0..self.inputs.len()).filter(|&index| index != current) {
            let input = &mut self.inputs[index];
            match direction {
                MergeDirection::Forward => input.seek(&key, trailer)?,
                MergeDirection::Backward => input.seek_before(&key, trailer)?,
            }
            self.note_start(index);
        }
        self.direction = direction;
        Ok(())
    }

    fn position(
        &mut self,
        direction: MergeDirection,
        mut each: impl FnMut(&mut SortedRunIter) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        self.queue.clear();
        for index in 0..self.inputs.len() {
            each(&mut self.inputs[index])?;
            self.note_start(index);
        }
        self.queue_all();
        Ok(())
    }

    /// Moves the input with the current entry in this direction by a stride.
    fn step(&mut self, direction: MergeDirection, stride: Stride<'_>) -> Result<()> {
        let turns = self.direction != direction;
        if turns {
            // Some inputs are on the other side of the current entry already.
            self.turn(direction).inspect_err(|_| self.queue.clear())?;
        }
        let Some(&current) = self.queue.first() else {
            return Ok(());
        };
        let input = &mut self.inputs[current];
        let moved = match (direction, stride) {
            (MergeDirection::Forward, Stride::Entry) => input.next(),
            (MergeDirection::Backward, Stride::Entry) => input.prev(),
            (MergeDirection::Forward, Stride::Hidden(hidden)) => input.next_behind(hidden),
            (MergeDirection::Backward, Stride::Hidden(hidden)) => input.prev_before(hidden),
            (MergeDirection::Forward, Stride::Towards(key, trailer)) => {
                input.next_towards(key, trailer)
            }
            (MergeDirection::Backward, Stride::Towards(key, trailer)) => {
                input.prev_towards(key, trailer)
            }
        };
        if moved.is_err() {
            self.queue.clear();
            return moved;
        }
        self.note_start(current);
        // After a turn the other inputs have moved, too.
        if turns {
            self.queue_all();
        } else {
            self.requeue_first();
        }
        Ok(())
    }
}

/// Returns the first 16 bytes of `key`, padded with zeroes, as a number. If the numbers of two keys
/// differ, they are ordered as the keys are.
#[inline]
fn key_start(key: &[u8]) -> u128 {
    match key.first_chunk() {
        Some(start) => u128::from_be_bytes(*start),
        None => {
            let mut start = [0; 16];
            start[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(start)
        }
    }
}

impl EntryIter for MergeIter {
    #[inline]
    fn valid(&self) -> bool {
        !self.queue.is_empty()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position(MergeDirection::Forward, |input| input.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position(MergeDirection::Backward, |input| input.seek_to_last())
    }

    fn seek(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.position(MergeDirection::Forward, |input| input.seek(user_key, trailer))
    }

    fn seek_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.position(MergeDirection::Backward, |input| input.seek_before(user_key, trailer))
    }

    fn next(&mut self) -> Result<()> {
        self.step(MergeDirection::Forward, Stride::Entry)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(MergeDirection::Backward, Stride::Entry)
    }

    /// Only the input with the current entry moves; the others do when their turn comes.
    fn next_behind(&mut self, hidden: &RangeTombstone) -> Result<()> {
        self.step(MergeDirection::Forward, Stride::Hidden(hidden))
    }

    fn prev_before(&mut self, hidden: &RangeTombstone) -> Result<()> {
        self.step(MergeDirection::Backward, Stride::Hidden(hidden))
    }

    fn next_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.step(MergeDirection::Forward, Stride::Towards(user_key, trailer))
    }

    fn prev_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
        self.step(MergeDirection::Backward, Stride::Towards(user_key, trailer))
    }

    fn leave(&mut self) {
        self.queue.clear();
    }

    #[inline]
    fn user_key(&self) -> &[u8] {
        self.current().user_key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.current().trailer()
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        self.current().payload()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry::Slot;
    use crate::base::key::{EntryKind, MAX_SEQNO};
    use crate::memtable::Memtable;
    use std::sync::Arc;

    fn input(entries: &[(&str, u64)]) -> SortedRunIter {
        let table = Arc::new(Memtable::new(KeyOrder::Bytewise));
        for (key, seqno) in entries {
            let trailer = Trailer::new(*seqno, EntryKind::Put);
            table.insert(key.as_bytes(), trailer, Slot::Inline(b""));
        }
        SortedRunIter::Memtable(table.iter())
    }

    #[test]
    fn an_input_is_expected_to_have_its_share_and_a_quarter_more() {
        assert_eq!(share(100, 1_000_000, 1000), 125_000);
        assert_eq!(share(100, 0, 1000), 0);
        assert_eq!(share(0, 1_000_000, 1000), 0);
        assert_eq!(share(7, 1000, 0), 8750, "no table tells how many entries it has");
        assert_eq!(share(u64::MAX, u64::MAX, 1), u64::MAX);
    }

    /// The numbers of keys that are shorter, longer, or alike up to their 16th byte.
    #[test]
    fn keys_that_begin_alike_are_in_order_both_ways() {
        let long = "sixteen bytes...";
        let keys = ["", "\0", "\0\0", "a", "a\0", "a\0b", "b", "sixteen bytes.."];
        let longer = ["", "\0", "!", "!\0", "~"].map(|end| format!("{long}{end}"));
        let keys: Vec<&str> = keys.into_iter().chain(longer.iter().map(String::as_str)).collect();
        assert!(keys.is_sorted());
        for inputs in 1..5 {
            let of = |input: usize| {
                let own = (0..keys.len()).filter(move |number| number % inputs == input);
                own.map(|number| (keys[number], number as u64 + 1)).collect::<Vec<_>>()
            };
            let runs = (0..inputs).map(|number| input(&of(number))).collect();
            let mut iter = MergeIter::new(KeyOrder::Bytewise, runs);
            iter.seek_to_first().unwrap();
            for key in &keys {
                assert_eq!(iter.user_key(), key.as_bytes(), "{inputs} inputs");
                iter.next().unwrap();
            }
            iter.seek_to_last().unwrap();
            for key in keys.iter().rev() {
                assert_eq!(iter.user_key(), key.as_bytes(), "{inputs} inputs, backwards");
                iter.prev().unwrap();
            }
            assert!(!iter.valid());
        }
    }

    fn here(iter: &MergeIter) -> String {
        if !iter.valid() {
            return "end".into();
        }
        format!("{}{}", String::from_utf8_lossy(iter.user_key()), iter.trailer().seqno())
    }

    #[test]
    fn walks_both_ways_and_turns_anywhere() {
        let inputs = vec![
            input(&[("a", 1), ("c", 3), ("c", 9)]),
            input(&[("a", 5), ("b", 2), ("d", 4)]),
            input(&[]),
        ];
        let mut iter = MergeIter::new(KeyOrder::Bytewise, inputs);
        let all = ["a5", "a1", "b2", "c9", "c3", "d4"];
        iter.seek_to_first().unwrap();
        for expected in all {
            assert_eq!(here(&iter), expected);
            iter.next().unwrap();
        }
        assert_eq!(here(&iter), "end");
        iter.seek_to_last().unwrap();
        for expected in all.iter().rev() {
            assert_eq!(here(&iter), *expected);
            iter.prev().unwrap();
        }
        // The direction is reversed at every entry, from both directions.
        for turn in 0..all.len() {
            iter.seek_to_first().unwrap();
            (0..turn).for_each(|_| iter.next().unwrap());
            iter.prev().unwrap();
            assert_eq!(here(&iter), if turn == 0 { "end" } else { all[turn - 1] });
            iter.seek_to_last().unwrap();
            (turn + 1..all.len()).for_each(|_| iter.prev().unwrap());
            assert_eq!(here(&iter), all[turn]);
            iter.next().unwrap();
            assert_eq!(here(&iter), all.get(turn + 1).copied().unwrap_or("end"));
            if iter.valid() {
                iter.next().unwrap();
                assert_eq!(here(&iter), all.get(turn + 2).copied().unwrap_or("end"));
            }
        }
        iter.seek(b"c", Trailer::seek(8)).unwrap();
        assert_eq!(here(&iter), "c3");
        iter.seek_before(b"c", Trailer::seek(MAX_SEQNO)).unwrap();
        assert_eq!(here(&iter), "b2");
    }
}
