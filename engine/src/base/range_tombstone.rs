//! Range tombstones: one entry that deletes all keys of a range.
//!
//! A range tombstone hides each older entry whose key is in its range, as if that key had a
//! tombstone with its sequence number. [`RangeTombstones`] is an immutable set of them that is
//! asked for the newest one over a key. It is kept beside the sorted runs and for all of them, not
//! within them, so that a reader asks once for each key (Wang et al. 2025 call that a global range
//! delete index).

use super::bounds::{Bounds, Cut};
use super::key::{KeyOrder, SeqNo};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The deletion of all keys of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The keys that are deleted; at least one could be there.
    pub range: Arc<Bounds>,
    /// The sequence number of the deletion. It hides what is older.
    pub seqno: SeqNo,
}

/// The greatest end, and the sequence numbers, of a part of the set.
#[derive(Debug, Clone, Copy)]
struct PartSummary {
    /// The number of the range tombstone that ends last.
    last_end: usize,
    oldest: SeqNo,
    newest: SeqNo,
}

impl PartSummary {
    /// Returns true if no range tombstone of the part has one of these numbers, for certain.
    fn has_none_of(&self, seqnos: &RangeInclusive<SeqNo>) -> bool {
        seqnos.is_empty() || self.newest < *seqnos.start() || self.oldest > *seqnos.end()
    }
}

/// An immutable set of range tombstones of one keyspace.
///
/// It is a search tree within an array: the middle of each part is its root. A root knows where the
/// part ends and how new it is, so that a search passes over most parts. The memory is linear in
/// the number of range tombstones, however they overlap.
#[derive(Clone)]
pub struct RangeTombstones {
    order: KeyOrder,
    /// Sorted by where they begin, then by sequence number.
    list: Vec<RangeTombstone>,
    /// For each root, the summary of its part.
    parts: Vec<PartSummary>,
    /// All places where one begins (`false`) or ends (`true`), in order.
    cuts: Vec<(usize, bool)>,
}

impl RangeTombstones {
    /// Creates an empty set.
    pub fn new(order: KeyOrder) -> Self {
        RangeTombstones { order, list: Vec::new(), parts: Vec::new(), cuts: Vec::new() }
    }

    /// Creates a set. Costs a sort.
    pub fn of(order: KeyOrder, mut list: Vec<RangeTombstone>) -> Self {
        order.sort(&mut list, |a, b| {
            a.range.begin().compare(b.range.begin(), &order).then(a.seqno.cmp(&b.seqno))
        });
        let parts = vec![PartSummary { last_end: 0, oldest: 0, newest: 0 }; list.len()];
        let mut cuts: Vec<_> = (0..list.len()).flat_map(|n| [(n, false), (n, true)]).collect();
        let mut set = RangeTombstones { order, list, parts, cuts: Vec::new() };
        set.summarize(0, set.list.len());
        set.order.sort(&mut cuts, |a, b| set.cut(*a).compare(set.cut(*b), &set.order));
        RangeTombstones { cuts, ..set }
    }

    /// Returns a set of these and more.
    pub fn with(&self, more: impl IntoIterator<Item = RangeTombstone>) -> Self {
        let mut list = self.list.clone();
        list.extend(more);
        RangeTombstones::of(self.order.clone(), list)
    }

    /// Fills in the summaries of the part from `low` to `high`.
    fn summarize(&mut self, low: usize, high: usize) -> Option<PartSummary> {
        if low >= high {
            return None;
        }
        let root = low.midpoint(high);
        let seqno = self.list[root].seqno;
        let mut summary = PartSummary { last_end: root, oldest: seqno, newest: seqno };
        for part in [self.summarize(low, root), self.summarize(root + 1, high)] {
            let Some(part) = part else { continue };
            let end = |number: usize| self.list[number].range.end();
            if end(part.last_end).compare(end(summary.last_end), &self.order).is_gt() {
                summary.last_end = part.last_end;
            }
            summary.oldest = summary.oldest.min(part.oldest);
            summary.newest = summary.newest.max(part.newest);
        }
        self.parts[root] = summary;
        Some(summary)
    }

    fn cut(&self, (number, is_end): (usize, bool)) -> Cut<'_> {
        let range = &self.list[number].range;
        if is_end { range.end() } else { range.begin() }
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Iterates over all of them by where they begin.
    pub fn iter(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.list.iter()
    }

    /// Returns the sequence number of the newest; zero if there is none.
    pub fn last_seqno(&self) -> SeqNo {
        let root = 0usize.midpoint(self.list.len());
        self.parts.get(root).map_or(0, |all| all.newest)
    }

    /// Returns the newest of those over `key` whose sequence numbers the reader sees. Requires: of
    /// a set, a reader sees all up to some number.
    ///
    /// Costs a logarithmic number of comparisons, and more only where many that are over the key
    /// come in an unfavourable order.
    pub fn newest(&self, key: &[u8], sees: impl Fn(SeqNo) -> bool) -> Option<&RangeTombstone> {
        let mut best: Option<&RangeTombstone> = None;
        let is_useless = |part: &PartSummary, best: &Option<&RangeTombstone>| {
            !sees(part.oldest) || best.is_some_and(|best| best.seqno >= part.newest)
        };
        self.search((0, self.list.len()), (key, key), &mut best, &is_useless, &mut |it, best| {
            if sees(it.seqno) && best.is_none_or(|best| best.seqno < it.seqno) {
                *best = Some(it);
            }
        });
        best
    }

    /// Returns one of those that may be over a key from `smallest` to `largest`, both inclusive,
    /// and have one of the numbers `seqnos`, if it is wanted.
    ///
    /// Costs a logarithmic number of comparisons, and some for each that `wants` is asked about;
    /// more only where those with other numbers come in an unfavourable order.
    pub fn any_over(
        &self,
        (smallest, largest): (&[u8], &[u8]),
        seqnos: &RangeInclusive<SeqNo>,
        mut wants: impl FnMut(&RangeTombstone) -> bool,
    ) -> Option<&RangeTombstone> {
        let mut found: Option<&RangeTombstone> = None;
        let is_useless = |part: &PartSummary, found: &Option<&RangeTombstone>| {
            found.is_some() || part.has_none_of(seqnos)
        };
        let keys = (smallest, largest);
        self.search((0, self.list.len()), keys, &mut found, &is_useless, &mut |it, found| {
            if found.is_none() && seqnos.contains(&it.seqno) && wants(it) {
                *found = Some(it);
            }
        });
        found
    }

    /// Returns one of those over all keys from `smallest` to `largest` that have one of the numbers
    /// `seqnos`. Costs a logarithmic number of comparisons, and more only where numbers and ends
    /// come in an unfavourable order.
    pub fn any_covering(
        &self,
        (smallest, largest): (&[u8], &[u8]),
        seqnos: &RangeInclusive<SeqNo>,
    ) -> Option<&RangeTombstone> {
        // I7: the keys may be reversed, and then what lies between both is not over the least.
        let is_over = |it: &RangeTombstone| !it.range.is_behind(&self.order, smallest);
        self.any_over((largest, smallest), seqnos, is_over)
    }

    /// Calls `visit` with those that do not end before the key `end` nor begin behind the key
    /// `begin`, but for the parts that are useless for the result.
    fn search<'a, R>(
        &'a self,
        (low, high): (usize, usize),
        (end, begin): (&[u8], &[u8]),
        result: &mut R,
        is_useless: &impl Fn(&PartSummary, &R) -> bool,
        visit: &mut impl FnMut(&'a RangeTombstone, &mut R),
    ) {
        if low >= high {
            return;
        }
        let root = low.midpoint(high);
        let part = &self.parts[root];
        let ends_before = || self.list[part.last_end].range.is_behind(&self.order, end);
        if is_useless(part, result) || ends_before() {
            return;
        }
        let (here, keys) = (&self.list[root], (end, begin));
        if !here.range.is_before(&self.order, begin) {
            if !here.range.is_behind(&self.order, end) {
                visit(here, result);
            }
            self.search((root + 1, high), keys, result, is_useless, visit);
        }
        self.search((low, root), keys, result, is_useless, visit);
    }

    /// Returns the places around `key` between which no range tombstone begins or ends.
    fn around(&self, key: &[u8]) -> (Cut<'_>, Cut<'_>) {
        let next = self.cuts.partition_point(|&cut| self.cut(cut).is_before(&self.order, key));
        let low = next.checked_sub(1).map_or(Cut::First, |before| self.cut(self.cuts[before]));
        (low, self.cuts.get(next).map_or(Cut::Last, |&cut| self.cut(cut)))
    }
}

/// The range tombstones of several sets, for a walk over keys. It remembers the answer for the keys
/// around the last one.
pub struct RangeCover {
    order: KeyOrder,
    /// Those of memtables, and of tables; none of them is empty.
    sets: Vec<Arc<RangeTombstones>>,
    /// The keys to which the last answer applies, and the answer.
    last: Option<(Bounds, Option<RangeTombstone>)>,
}

impl RangeCover {
    /// Creates a cover of these sets, of which empty ones are left out.
    pub fn new(order: KeyOrder, sets: impl IntoIterator<Item = Arc<RangeTombstones>>) -> Self {
        let sets = sets.into_iter().filter(|set| !set.is_empty()).collect();
        RangeCover { order, sets, last: None }
    }

    /// Returns a cover that has these sets, too.
    pub fn with(mut self, sets: impl IntoIterator<Item = Arc<RangeTombstones>>) -> Self {
        self.sets.extend(sets.into_iter().filter(|set| !set.is_empty()));
        self
    }

    /// Iterates over all range tombstones.
    pub fn iter(&self) -> impl Iterator<Item = &RangeTombstone> {
        self.sets.iter().flat_map(|set| set.iter())
    }

    /// Returns true if there is no range tombstone.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns the sequence number of the newest; zero if there is none.
    pub fn last_seqno(&self) -> SeqNo {
        self.sets.iter().map(|set| set.last_seqno()).max().unwrap_or_default()
    }

    /// Returns the newest range tombstone over `key` that the reader sees, or `None`. All calls are
    /// for the same reader.
    ///
    /// Costs two comparisons while keys stay between the same ends of ranges.
    #[inline]
    pub fn at(&mut self, key: &[u8], sees: impl Fn(SeqNo) -> bool) -> Option<&RangeTombstone> {
        if self.sets.is_empty() {
            return None;
        }
        let is_known = |(around, _): &(Bounds, _)| around.contains(&self.order, key);
        if !self.last.as_ref().is_some_and(is_known) {
            self.last = Some(self.look_up(key, sees));
        }
        self.last.as_ref().and_then(|(_, found)| found.as_ref())
    }

    #[cold]
    fn look_up(
        &self,
        key: &[u8],
        sees: impl Fn(SeqNo) -> bool,
    ) -> (Bounds, Option<RangeTombstone>) {
        let (mut low, mut high) = (Cut::First, Cut::Last);
        for set in &self.sets {
            let (begin, end) = set.around(key);
            (low, high) = (low.later(begin, &self.order), high.earlier(end, &self.order));
        }
        (Bounds::between(low, high), self.newest(key, sees).cloned())
    }

    /// Returns the newest range tombstone over `key` that the reader sees.
    pub fn newest(&self, key: &[u8], sees: impl Fn(SeqNo) -> bool) -> Option<&RangeTombstone> {
        let found = self.sets.iter().filter_map(|set| set.newest(key, &sees));
        found.max_by_key(|tombstone| tombstone.seqno)
    }

    /// I6: returns true if a range tombstone with a number up to `limit` hides the entry of `key`
    /// with the number `seqno`, for readers from `limit` on. Calls are for keys in any order.
    #[inline]
    pub fn hides(&mut self, key: &[u8], seqno: SeqNo, limit: SeqNo) -> bool {
        let newest = match self.at(key, |_| true) {
            None => return false,
            Some(newest) => newest.seqno,
        };
        if newest > limit {
            return self.newest(key, |it| it <= limit).is_some_and(|it| it.seqno > seqno);
        }
        newest > seqno
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns up to `count` range tombstones with the numbers 10, 20 and so on, whose ends are
    /// keys from `a` to `h`, or none.
    fn random_list(random: &mut impl FnMut(u64) -> u64, count: u64) -> Vec<RangeTombstone> {
        let mut list = Vec::new();
        for seqno in 1..=count {
            let mut end = |none: u64| {
                let key = random(8 + none);
                (key < 8).then(|| vec![b'a' + key as u8])
            };
            let (lower, upper) = (end(2), end(2));
            let (open_lower, closed_upper) = (random(2) == 0, random(2) == 0);
            let range = Bounds { lower, upper, open_lower, closed_upper };
            if !range.is_empty(&KeyOrder::Bytewise) {
                list.push(RangeTombstone { range: range.into(), seqno: seqno * 10 });
            }
        }
        list
    }

    /// Returns a source of numbers, each below the one that it is given.
    fn randoms() -> impl FnMut(u64) -> u64 {
        let mut state = 7u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        }
    }

    /// Random sets against a look at each range tombstone, for all spans of keys and of numbers.
    #[test]
    fn those_over_a_span_with_some_numbers_are_found() {
        let (order, mut random) = (KeyOrder::Bytewise, randoms());
        for round in 0..300 {
            let mut list = random_list(&mut random, round % 12);
            if round % 3 == 0 {
                // Numbers need not go with the places of the ranges.
                list.iter_mut().for_each(|it| it.seqno = 10 + it.seqno * 7 % 130);
            }
            let set = RangeTombstones::of(order.clone(), list.clone());
            let all = SeqNo::MAX;
            for (low, high) in [(0, all), (20, 60), (31, 39), (50, 50), (61, 60), (90, all)] {
                let seqnos = low..=high;
                for (smallest, largest) in
                    (b'`'..=b'j').flat_map(|key| (key..=b'j').map(move |last| ([key], [last])))
                {
                    let keys = (&smallest[..], &largest[..]);
                    let is_over = |it: &&RangeTombstone| {
                        it.range.meets(&order, keys.0, keys.1) && seqnos.contains(&it.seqno)
                    };
                    let mut expected: Vec<_> = list.iter().filter(is_over).cloned().collect();
                    let mut asked = Vec::new();
                    let none = set.any_over(keys, &seqnos, |it| {
                        asked.push(it.clone());
                        false
                    });
                    assert_eq!(none, None);
                    asked.sort_by_key(|it| it.seqno);
                    expected.sort_by_key(|it| it.seqno);
                    assert_eq!(asked, expected, "{keys:?} {seqnos:?} {list:?}");
                    let first = set.any_over(keys, &seqnos, |_| true);
                    assert_eq!(first.is_some(), !expected.is_empty());
                    assert!(first.is_none_or(|it| expected.contains(it)));
                    let covers = |it: &&RangeTombstone| it.range.covers(&order, keys.0, keys.1);
                    let covering = set.any_covering(keys, &seqnos);
                    let can_cover = expected.iter().any(|it| covers(&it));
                    assert_eq!(covering.is_some(), can_cover, "{keys:?} {seqnos:?} {list:?}");
                    assert!(covering.is_none_or(|it| covers(&it) && expected.contains(it)));
                }
            }
        }
    }

    /// Random sets against a look at each range tombstone, for all keys and readers.
    #[test]
    fn the_newest_over_a_key_is_found() {
        let (order, mut random) = (KeyOrder::Bytewise, randoms());
        for round in 0..300 {
            let list = random_list(&mut random, round % 12);
            let set = RangeTombstones::of(order.clone(), list.clone());
            let (first, second) = list.split_at(list.len() / 2);
            let halves = [first, second]
                .map(|half| Arc::new(RangeTombstones::of(order.clone(), half.to_vec())));
            for reader in [0, 25, 60, 1000] {
                let mut cover = RangeCover::new(order.clone(), halves.clone());
                for key in (b'`'..=b'j').chain((b'`'..=b'j').rev()).map(|key| [key]) {
                    let over = list.iter().filter(|it| it.range.contains(&order, &key));
                    let seen = over.clone().filter(|it| it.seqno <= reader);
                    let newest = seen.map(|it| it.seqno).max();
                    let sees = |seqno| seqno <= reader;
                    assert_eq!(set.newest(&key, sees).map(|it| it.seqno), newest, "{list:?}");
                    assert_eq!(cover.at(&key, sees).map(|it| it.seqno), newest, "{list:?}");
                }
                let mut cover = RangeCover::new(order.clone(), halves.clone());
                for key in (b'`'..=b'j').map(|key| [key]) {
                    let over = list.iter().filter(|it| it.range.contains(&order, &key));
                    let hides =
                        |seqno| over.clone().any(|it| it.seqno <= reader && it.seqno > seqno);
                    for seqno in [5, 30, 55, 105] {
                        assert_eq!(cover.hides(&key, seqno, reader), hides(seqno), "{list:?}");
                    }
                }
            }
        }
    }
}
