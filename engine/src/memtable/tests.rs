//! Tests of the memtable against an ordered map, alone and with readers beside the writer (I6).

use super::iter::MemtableIter;
use super::*;
use crate::base::counted_order::CountedOrder;
use crate::base::entry::Slot;
use crate::base::expiry::Deadline;
use crate::base::iter::EntryIter;
use crate::base::key::{Comparator, MAX_SEQNO};
use crate::base::pointer::ValuePointer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Orders keys by length, then backwards.
struct Odd;

impl Comparator for Odd {
    fn name(&self) -> &str {
        "odd"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| b.cmp(a))
    }
}

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    /// Draws a key of a length near a boundary; many keys have long common prefixes.
    fn key(&mut self) -> Vec<u8> {
        let len = [0, 1, 8, 16, 30, 31, 32, 33, 40, 100][self.below(10) as usize];
        let mut key = vec![b'k'; len];
        for _ in 0..self.below(3).min(len as u64) {
            let at = self.below(len as u64) as usize;
            key[at] = [0, b'a', b'z', 0xff][self.below(4) as usize];
        }
        key
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Owned {
    Delete,
    Inline(Vec<u8>),
    Pointer(ValuePointer),
    Expiring(Deadline, Box<Owned>),
    Merge(Box<Owned>),
}

impl Owned {
    fn of(payload: Payload<'_>) -> Owned {
        let owned = match payload.slot {
            Slot::Delete => Owned::Delete,
            Slot::Inline(value) => Owned::Inline(value.to_vec()),
            Slot::Pointer(pointer) => Owned::Pointer(pointer),
        };
        if payload.is_merge {
            return Owned::Merge(Box::new(owned));
        }
        match payload.deadline {
            Some(deadline) => Owned::Expiring(deadline, Box::new(owned)),
            None => owned,
        }
    }

    fn payload(&self) -> Payload<'_> {
        match self {
            Owned::Delete => Slot::Delete.into(),
            Owned::Inline(value) => Slot::Inline(value).into(),
            Owned::Pointer(pointer) => Slot::Pointer(*pointer).into(),
            Owned::Merge(value) => Payload::operand(value.payload().slot),
            Owned::Expiring(deadline, value) => {
                Payload { deadline: Some(*deadline), ..value.payload() }
            }
        }
    }

    fn draw(random: &mut Lcg) -> Owned {
        let owned = Owned::draw_value(random);
        if owned == Owned::Delete || random.below(3) > 0 {
            return owned;
        }
        Owned::Expiring(Deadline(random.below(1 << 31) << 12), Box::new(owned))
    }

    fn draw_value(random: &mut Lcg) -> Owned {
        match random.below(4) {
            0 => Owned::Delete,
            1 => Owned::Inline(vec![]),
            2 => Owned::Inline(vec![random.below(256) as u8; random.below(300) as usize]),
            _ => Owned::Pointer(ValuePointer {
                segment: SegmentId(random.below(1 << 31)),
                offset: random.below(1 << 31) << 20,
                length: random.below(1 << 31) as u32,
            }),
        }
    }
}

/// A memtable and the entries that it should hold, in order.
struct Pair {
    table: Arc<Memtable>,
    entries: Vec<(Vec<u8>, Trailer, Owned)>,
}

fn filled(order: KeyOrder, count: u64, seed: u64) -> Pair {
    let mut random = Lcg(seed);
    // From some hundred entries on it has a filter, if the order allows one.
    let table = Arc::new(Memtable::with_room(order.clone(), 1 << 20));
    let mut entries = Vec::new();
    for i in 0..count {
        // The sequence numbers are neither ascending nor descending, but all distinct.
        let seqno = i * 7919 % 1_000_003 + 1;
        let (key, payload) = (random.key(), Owned::draw(&mut random));
        let trailer = Trailer::new(seqno, payload.payload().kind());
        table.insert(&key, trailer, payload.payload());
        entries.push((key, trailer, payload));
    }
    entries.sort_by(|a, b| order.compare_entries((&a.0, a.1), (&b.0, b.1)));
    Pair { table, entries }
}

fn orders() -> [KeyOrder; 2] {
    [KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(Odd))]
}

#[track_caller]
fn assert_stands_on(iter: &MemtableIter, entry: Option<&(Vec<u8>, Trailer, Owned)>) {
    assert_eq!(iter.valid(), entry.is_some());
    if let Some((key, trailer, payload)) = entry {
        assert_eq!((iter.user_key(), iter.trailer()), (&key[..], *trailer));
        let found = Payload::decode(iter.trailer().kind().unwrap(), iter.payload()).unwrap();
        assert_eq!(Owned::of(found), *payload);
    }
}

#[test]
fn iterates_in_order_both_ways() {
    for order in orders() {
        let Pair { table, entries } = filled(order, 5000, 1);
        assert_eq!(table.entries(), 5000);
        let mut iter = table.iter();
        assert!(!iter.valid());
        iter.seek_to_first().unwrap();
        for entry in &entries {
            assert_stands_on(&iter, Some(entry));
            iter.next().unwrap();
        }
        assert_stands_on(&iter, None);
        iter.seek_to_last().unwrap();
        for entry in entries.iter().rev() {
            assert_stands_on(&iter, Some(entry));
            iter.prev().unwrap();
        }
        assert_stands_on(&iter, None);
    }
}

#[test]
fn seeks_like_the_model() {
    for order in orders() {
        let Pair { table, entries } = filled(order.clone(), 3000, 2);
        let mut random = Lcg(3);
        let mut iter = table.iter();
        for round in 0..6000 {
            let (mut key, mut trailer) = (random.key(), Trailer::seek(random.below(1_100_000)));
            match round % 4 {
                0 => trailer = [Trailer::LAST, Trailer(u64::MAX)][random.below(2) as usize],
                1 => (key, trailer, _) = entries[random.below(3000) as usize].clone(),
                _ => {}
            }
            let at = entries.partition_point(|entry| {
                order.compare_entries((&entry.0, entry.1), (&key, trailer)).is_lt()
            });
            iter.seek(&key, trailer).unwrap();
            assert_stands_on(&iter, entries.get(at));
            iter.seek_before(&key, trailer).unwrap();
            assert_stands_on(&iter, at.checked_sub(1).map(|at| &entries[at]));
        }
    }
}

#[test]
fn moves_towards_places_like_the_model() {
    let Pair { table, entries } = filled(KeyOrder::Bytewise, 3000, 4);
    let mut random = Lcg(5);
    let mut iter = table.iter();
    for _ in 0..6000 {
        let [from, to] = [(); 2].map(|()| random.below(3000) as usize);
        let (start, (key, trailer, _)) = (&entries[from], &entries[to]);
        iter.seek(&start.0, start.1).unwrap();
        if to > from {
            iter.next_towards(key, *trailer).unwrap();
            assert_stands_on(&iter, entries.get(to));
        } else {
            iter.prev_towards(key, *trailer).unwrap();
            let there = if to < from { Some(to) } else { from.checked_sub(1) };
            assert_stands_on(&iter, there.map(|at| &entries[at]));
        }
    }
}

#[test]
fn gets_the_newest_entry_at_or_below_a_sequence_number() {
    for order in orders() {
        let Pair { table, entries } = filled(order, 4000, 4);
        let mut model: BTreeMap<&[u8], BTreeMap<u64, &Owned>> = BTreeMap::new();
        for (key, trailer, payload) in &entries {
            model.entry(key).or_default().insert(trailer.seqno(), payload);
        }
        assert!(model.values().any(|versions| versions.len() > 20));
        let mut random = Lcg(5);
        for _ in 0..20_000 {
            let key = random.key();
            let seqno = [random.below(1_100_000), MAX_SEQNO][random.below(2) as usize];
            let got =
                table.get(&key, seqno, |trailer, payload| (trailer.seqno(), Owned::of(payload)));
            let versions = model.get(&key[..]);
            let wanted = versions.and_then(|versions| versions.range(..=seqno).next_back());
            assert_eq!(got, wanted.map(|(seqno, payload)| (*seqno, (*payload).clone())));
        }
    }
}

#[test]
fn keys_in_order_go_where_they_belong() {
    let table = Arc::new(Memtable::new(KeyOrder::Bytewise));
    let key = |i: u64| format!("{i:08}").into_bytes();
    // Keys arrive upwards from an end and from the middle, then backwards.
    let numbers = (0..3000).chain(6000..9000).chain(3000..6000).chain((9000..9999).rev());
    for (seqno, i) in numbers.enumerate() {
        table.insert(&key(i), Trailer::new(seqno as u64 + 1, EntryKind::Delete), Slot::Delete);
    }
    let mut iter = table.iter();
    iter.seek_to_first().unwrap();
    for i in 0..9999 {
        assert_eq!(iter.user_key(), key(i));
        assert!(table.get(&key(i), MAX_SEQNO, |_, _| ()).is_some());
        iter.next().unwrap();
    }
    assert!(!iter.valid());
}

#[test]
fn few_comparisons_are_needed() {
    const COUNT: u64 = 20_000;
    let counting = Arc::new(CountedOrder::default());
    let fill = |key_of: &dyn Fn(u64) -> u64| {
        counting.take();
        let table = Memtable::new(KeyOrder::Custom(counting.clone()));
        for i in 0..COUNT {
            let trailer = Trailer::new(i + 1, EntryKind::Delete);
            table.insert(&key_of(i).to_be_bytes(), trailer, Slot::Delete);
        }
        (table, counting.take() / COUNT)
    };
    let scatter = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (table, per_insertion) = fill(&scatter);
    assert!((10..45).contains(&per_insertion), "{per_insertion}");
    for i in 0..COUNT {
        assert!(table.get(&scatter(i).to_be_bytes(), MAX_SEQNO, |_, _| ()).is_some());
    }
    let per_get = counting.take() / COUNT;
    assert!((10..40).contains(&per_get), "{per_get}");
    let (_, per_insertion) = fill(&|i| i);
    assert!(per_insertion <= 2, "keys in order need no search, but {per_insertion}");
}

#[test]
fn memory_is_accounted_for() {
    let table = Memtable::new(KeyOrder::Bytewise);
    assert_eq!((table.bytes(), table.entries(), table.is_empty()), (0, 0, true));
    let added = |key: &[u8], seqno, slot: Slot<'_>| {
        let before = table.bytes();
        table.insert(key, Trailer::new(seqno, Payload::from(slot).kind()), slot);
        table.bytes() - before
    };
    let pointer = ValuePointer { segment: SegmentId(1), offset: 2, length: 30 };
    assert!((64..100).contains(&added(b"key", 1, Slot::Delete)));
    assert!((80..110).contains(&added(b"key", 2, Slot::Pointer(pointer))));
    assert!((1064..1150).contains(&added(b"key", 3, Slot::Inline(&[0; 1000]))));
    assert!((1064..1150).contains(&added(&[7; 1000], 4, Slot::Delete)));
    assert_eq!((table.entries(), table.is_empty()), (4, false));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "I6 broken")]
fn i6_a_sequence_number_is_not_used_twice() {
    let table = Memtable::new(KeyOrder::Bytewise);
    table.insert(b"key", Trailer::new(1, EntryKind::Delete), Slot::Delete);
    table.insert(b"key", Trailer::new(1, EntryKind::Put), Slot::Inline(b""));
}

/// Returns the key of the `i`-th insertion. The keys are scattered, and some are long.
fn scattered(i: u64) -> Vec<u8> {
    let scattered = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let mut key = scattered.to_be_bytes().to_vec();
    key.resize(8 + (i % 40) as usize, b'.');
    key
}

fn check_prefix(table: &Arc<Memtable>, known: u64) {
    // Every entry that was inserted before the check began is found with its value.
    for i in (0..known).rev().step_by(1 + known as usize / 50) {
        let right = table.get(&scattered(i), MAX_SEQNO, |trailer, slot| {
            trailer.seqno() == i + 1 && slot.slot == Slot::Inline(&i.to_le_bytes())
        });
        assert_eq!(right, Some(true), "entry {i} of {known}");
    }
    // A walk finds entries in order and whole, and all that were inserted before it began.
    let (mut iter, mut last, mut seen) = (table.iter(), None, 0);
    iter.seek_to_first().unwrap();
    while iter.valid() {
        let i = iter.trailer().seqno() - 1;
        assert_eq!(iter.user_key(), scattered(i));
        assert_eq!(iter.payload(), i.to_le_bytes());
        let key = Some(iter.user_key().to_vec());
        assert!(last < key, "out of order");
        last = key;
        seen += u64::from(i < known);
        iter.next().unwrap();
    }
    assert_eq!(seen, known, "a published entry was missed");
}

#[test]
fn readers_see_every_published_entry_while_others_are_inserted() {
    const COUNT: u64 = 30_000;
    // The filter is made while the readers run.
    let table = Arc::new(Memtable::with_room(KeyOrder::Bytewise, 1 << 20));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut before = 0;
                loop {
                    let finished = done.load(Acquire);
                    let known = table.entries();
                    assert!(known >= before, "the count went back");
                    check_prefix(&table, known);
                    before = known;
                    if finished {
                        return assert_eq!(known, COUNT);
                    }
                }
            });
        }
        for i in 0..COUNT {
            let value = i.to_le_bytes();
            let slot = Slot::Inline(&value);
            table.insert(&scattered(i), Trailer::new(i + 1, Payload::from(slot).kind()), slot);
        }
        done.store(true, Release);
    });
}

/// Insertions at places that searches have noted make the same list as those that search, whether
/// the place is that of the key, of another one, of another memtable, or older than the last entry.
#[test]
fn i06_an_insertion_at_a_noted_place_is_one_that_searched() {
    for (order, seed) in orders().into_iter().zip(1..) {
        let (mut random, mut at_once) = (Lcg(seed), 0);
        let searched = Arc::new(Memtable::new(order.clone()));
        let placed = Arc::new(Memtable::new(order));
        let mut stale = KeyPlace::default();
        for seqno in 1..3_000 {
            let key = random.key();
            let mut place = KeyPlace::default();
            let turn = random.below(8);
            let (table, searched_for) = match turn {
                0 => (&searched, key.clone()),
                1 => (&placed, random.key()),
                _ => (&placed, key.clone()),
            };
            table.get_noting(&searched_for, seqno - 1, &mut place, |_, _| ());
            at_once += u32::from(place.before_in(&placed).is_some());
            assert!(stale.before_in(&placed).is_none(), "something was inserted since");
            // What a commit of several keys inserts has only the first place right.
            let also = (turn == 2).then_some(&stale);
            let (payload, trailer) = (Slot::Inline(&key), Trailer::new(seqno, EntryKind::Put));
            searched.insert(&key, trailer, payload);
            placed.insert_at(Some(also.unwrap_or(&place)), &key, trailer, payload);
            stale = place;
        }
        assert!(at_once > 2_000, "only {at_once} places were those of the memtable");
        let (mut left, mut right) = (searched.iter(), placed.iter());
        left.seek_to_first().unwrap();
        right.seek_to_first().unwrap();
        while left.valid() {
            assert_eq!((left.user_key(), left.trailer()), (right.user_key(), right.trailer()));
            left.next().unwrap();
            right.next().unwrap();
        }
        assert!(!right.valid());
        // Every level, not only the lowest, has the same entries.
        for level in 0..MAX_LEVELS {
            let numbers = |table: &Memtable| {
                let next = |at: &u32| table.next(table.nodes.get(*at), level).load(Acquire);
                let all = std::iter::successors(Some(HEAD), |at| Some(next(at)));
                all.skip(1).take_while(|at| *at != HEAD).collect::<Vec<u32>>()
            };
            assert!(numbers(&searched) == numbers(&placed), "level {level} differs");
        }
    }
}

#[test]
fn a_memtable_gets_its_filter_when_it_is_worth_the_memory() {
    for (order, may_have) in orders().into_iter().zip([true, false]) {
        let Pair { table, .. } = filled(order.clone(), 300, 5);
        assert!(table.filter.get().is_none());
        let without = table.bytes();
        let Pair { table, .. } = filled(order, 400, 5);
        assert_eq!(table.filter.get().is_some(), may_have);
        let filter_bytes = table.filter.get().map_or(0, KeyFilter::bytes);
        assert!(table.bytes() > without + filter_bytes, "the filter counts");
    }
}

#[test]
fn what_newer_entries_hide_is_counted_by_segment() {
    for order in orders() {
        let table = Memtable::new(order);
        let pointer = |segment, length| {
            Slot::Pointer(ValuePointer { segment: SegmentId(segment), offset: 0, length })
        };
        let long_key = [b'l'; 100];
        let slots = [
            (&b"a"[..], pointer(1, 10)),
            (&b"b"[..], pointer(1, 20)),
            (&long_key[..], pointer(2, 40)),
            (&b"c"[..], Slot::Inline(b"kept in the table")),
            (&b"a"[..], pointer(2, 80)),
            (&long_key[..], Slot::Delete),
            (&b"c"[..], pointer(2, 160)),
        ];
        for (at, (key, slot)) in slots.into_iter().enumerate() {
            table.insert(key, Trailer::new(at as SeqNo + 1, Payload::from(slot).kind()), slot);
        }
        let records = |count, all, hidden| RecordBytes { count, all, hidden };
        let expected = [(SegmentId(1), records(2, 30, 10)), (SegmentId(2), records(3, 280, 40))];
        assert_eq!(table.records(), BTreeMap::from(expected));
        table.insert(b"a", Trailer::new(8, EntryKind::Delete), Slot::Delete);
        assert_eq!(table.records()[&SegmentId(2)], records(3, 280, 120));
    }
}

#[test]
fn inline_values_that_newer_entries_hide_are_counted() {
    for key in [&b"key"[..], &[b'k'; 100]] {
        let table = Arc::new(Memtable::new(KeyOrder::Bytewise));
        let len = key.len() as u64;
        let slots = [Slot::Inline(&[1; 500]), Slot::Inline(&[2; 30]), Slot::Delete, Slot::Delete];
        let expected = [0, len + 500, 2 * len + 530, 2 * len + 530];
        for ((slot, expected), seqno) in slots.into_iter().zip(expected).zip(1..) {
            table.insert(key, Trailer::new(seqno, Payload::from(slot).kind()), slot);
            assert_eq!(table.inline().hidden, expected);
        }
        table.insert(b"other", Trailer::new(9, EntryKind::Put), Slot::Inline(b"value"));
        assert_eq!(table.inline().hidden, expected[3]);
    }
}

#[test]
fn i06_payloads_of_every_length_come_back_as_they_were() {
    let table = Arc::new(Memtable::new(KeyOrder::Bytewise));
    let value = |len: usize| (0..len).map(|at| (at * 31 + len) as u8).collect::<Vec<u8>>();
    // A deadline takes eight bytes of a payload, so these end around the longest short one, too.
    let deadlines = [None, Some(Deadline(1 << 40))];
    for len in 0..300usize {
        for (at, deadline) in deadlines.into_iter().enumerate() {
            let (bytes, key) = (value(len), [len as u8, (len >> 8) as u8, at as u8]);
            let payload = Payload { deadline, ..Slot::Inline(&bytes).into() };
            let trailer = Trailer::new((2 * len + at + 1) as u64, payload.kind());
            table.insert(&key, trailer, payload);
        }
    }
    let mut iter = table.iter();
    for len in 0..300usize {
        for (at, deadline) in deadlines.into_iter().enumerate() {
            let (bytes, key) = (value(len), [len as u8, (len >> 8) as u8, at as u8]);
            let expected = Payload { deadline, ..Slot::Inline(&bytes).into() };
            let is_same = table.get(&key, 1000, |trailer, payload| {
                trailer.kind().unwrap() == expected.kind() && payload == expected
            });
            assert_eq!(is_same, Some(true), "{len} bytes");
            iter.seek(&key, Trailer::seek(1000)).unwrap();
            let found = Payload::decode(iter.trailer().kind().unwrap(), iter.payload()).unwrap();
            assert_eq!((iter.user_key(), found), (&key[..], expected), "{len} bytes");
        }
    }
}

#[test]
fn a_small_entry_takes_little_more_than_its_node() {
    let table = Memtable::new(KeyOrder::Bytewise);
    for i in 0..1000u64 {
        let key = format!("key {i:012}");
        table.insert(key.as_bytes(), Trailer::new(i + 1, EntryKind::Put), Slot::Inline(&[7; 100]));
    }
    // A node has 64 bytes, and one in 16 has a link or more elsewhere.
    let each = table.bytes() / 1000;
    assert!((168..=170).contains(&each), "{each} bytes an entry");
}
