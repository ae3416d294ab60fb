//! Test that each key is a linearizable register under compare-and-set, update, plain puts, deletes
//! and reads at once: there is one order of all calls in which each gets the answer it got, and in
//! which no call comes before one that had returned before it began (Wing, Gong 1993).

use crate::common;
use crate::common::rng::Rng;
use cleavedb::{Exchange, Expected, Keyspace, Versioned};
use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: usize = 5;
const THREADS: u64 = 5;
/// The number of calls of each thread.
const CALLS: u64 = 3_000;

/// What a key has: the number of a value, each of which is written once, or none.
type Held = Option<u64>;

#[derive(Debug, Clone, Copy)]
enum Call {
    /// A plain put or delete.
    Write(Held),
    /// A read found this.
    Read(Held),
    /// The key had the first, and has got the second.
    Exchange(Held, Held),
}

impl Call {
    /// Returns what a key has after the call, or `None` if the call can't come now.
    fn apply(self, held: Held) -> Option<Held> {
        match self {
            Call::Write(new) => Some(new),
            Call::Read(found) => (found == held).then_some(held),
            Call::Exchange(old, new) => (old == held).then_some(new),
        }
    }
}

/// One call on one key, and the times when it began and returned.
#[derive(Debug, Clone, Copy)]
struct Timed {
    call: Call,
    begun: u64,
    ended: u64,
}

/// A state of the search for an order: which calls were put in order, and what the key has then.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Prefix {
    /// All calls before this one are in, by the order in which they began.
    first: usize,
    /// These behind it are in, too.
    behind: BTreeSet<usize>,
    held: Held,
}

impl Prefix {
    /// Adds a call.
    fn with(&self, call: usize, held: Held) -> Prefix {
        let Prefix { mut first, mut behind, .. } = self.clone();
        behind.insert(call);
        while behind.remove(&first) {
            first += 1;
        }
        Prefix { first, behind, held }
    }
}

/// Returns how many of the calls can be put in order, which is all of them if they are
/// linearizable.
fn ordered(mut calls: Vec<Timed>) -> usize {
    calls.sort_by_key(|call| call.begun);
    let (mut seen, mut most) = (HashSet::new(), 0);
    let mut open = vec![Prefix { first: 0, behind: BTreeSet::new(), held: None }];
    while let Some(prefix) = open.pop() {
        most = most.max(prefix.first + prefix.behind.len());
        if prefix.first == calls.len() {
            break;
        }
        // Whatever began after the first return of those that are left comes later.
        let (mut next, mut returned) = (Vec::new(), u64::MAX);
        for (index, call) in calls.iter().enumerate().skip(prefix.first) {
            if call.begun > returned {
                break;
            }
            if !prefix.behind.contains(&index) {
                returned = returned.min(call.ended);
                next.push(index);
            }
        }
        next.retain(|&index| calls[index].begun <= returned);
        // Of those that may come next, the one that returned first is tried first.
        next.sort_by_key(|&index| std::cmp::Reverse(calls[index].ended));
        for index in next {
            if let Some(held) = calls[index].call.apply(prefix.held) {
                let longer = prefix.with(index, held);
                if seen.insert(longer.clone()) {
                    open.push(longer);
                }
            }
        }
    }
    most
}

#[test]
fn the_check_knows_good_histories_from_bad_ones() {
    let at = |begun, ended, call| Timed { call, begun, ended };
    let (write, read) = (|it| Call::Write(Some(it)), |it| Call::Read(Some(it)));
    let swap = |old, new| Call::Exchange(Some(old), Some(new));
    for (good, calls) in [
        (true, vec![]),
        (true, vec![at(1, 2, write(1)), at(3, 4, read(1)), at(5, 6, swap(1, 2))]),
        // The put came before the exchange, or after it.
        (true, vec![at(1, 2, write(1)), at(3, 9, write(2)), at(4, 5, swap(1, 3))]),
        (true, vec![at(1, 2, write(1)), at(3, 9, write(2)), at(4, 5, swap(2, 3))]),
        (true, vec![at(1, 9, write(1)), at(2, 3, Call::Read(None)), at(4, 5, read(1))]),
        // A lost update, two exchanges of one value, and a stale read.
        (false, vec![at(1, 2, write(1)), at(3, 4, write(2)), at(5, 6, swap(1, 3))]),
        (false, vec![at(1, 2, write(1)), at(3, 9, swap(1, 2)), at(4, 8, swap(1, 3))]),
        (false, vec![at(1, 2, write(1)), at(3, 4, write(2)), at(5, 6, read(1))]),
        (
            false,
            vec![at(1, 2, write(1)), at(3, 9, write(2)), at(4, 5, swap(1, 3)), at(10, 11, read(1))],
        ),
        (false, vec![at(1, 9, write(1)), at(2, 3, read(1)), at(4, 5, Call::Read(None))]),
    ] {
        let count = calls.len();
        assert_eq!(ordered(calls.clone()) == count, good, "{calls:?}");
    }
}

/// Returns the value of this number: some are inline, others separated.
fn value(number: u64) -> Vec<u8> {
    let bytes = if number.is_multiple_of(3) { 900 } else { 20 };
    let mut value = number.to_be_bytes().to_vec();
    value.resize(bytes, number as u8);
    value
}

fn number(value: &[u8]) -> u64 {
    let number = u64::from_be_bytes(value[..8].try_into().unwrap());
    assert!(value == self::value(number), "a value is broken");
    number
}

fn held(found: Option<&Versioned>) -> Held {
    found.map(|found| number(&found.value))
}

/// What the threads share.
struct World {
    keyspace: Keyspace,
    time: AtomicU64,
    made: AtomicU64,
    calls: Vec<Mutex<Vec<Timed>>>,
    exchanged: AtomicU64,
    refused: AtomicU64,
}

impl World {
    fn tick(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    /// Makes a call on a key and records it.
    fn record(&self, key: usize, call: impl FnOnce() -> Call) {
        let begun = self.tick();
        let call = call();
        let ended = self.tick();
        self.calls[key].lock().unwrap().push(Timed { call, begun, ended });
    }

    fn step(&self, rng: &mut Rng) {
        let (index, keyspace) = (rng.below(KEYS), &self.keyspace);
        let key = common::key(index);
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let new = (!rng.once_in(5)).then_some(made);
        match rng.below(10) {
            0..3 => self.record(index, || {
                match new {
                    Some(new) => keyspace.put(&key, value(new)).unwrap(),
                    None => keyspace.delete(&key).unwrap(),
                }
                Call::Write(new)
            }),
            3..5 => self.record(index, || {
                Call::Read(keyspace.get(&key).unwrap().map(|value| number(&value)))
            }),
            5 => self.record(index, || {
                let mut old = None;
                let change = |found: Option<&[u8]>| {
                    old = found.map(number);
                    new.map(value)
                };
                keyspace.update(&key, change).unwrap();
                Call::Exchange(old, new)
            }),
            _ => {
                let mut found = None;
                self.record(index, || {
                    found = keyspace.get_versioned(&key).unwrap();
                    Call::Read(held(found.as_ref()))
                });
                let expected = match &found {
                    None => Expected::Absent,
                    Some(found) if rng.once_in(2) => Expected::Value(&found.value),
                    Some(found) => Expected::Version(found.version),
                };
                self.record(index, || {
                    let exchanged = match new {
                        Some(new) => keyspace.compare_and_set(&key, expected, value(new)),
                        None => keyspace.compare_and_delete(&key, expected),
                    };
                    match exchanged.unwrap() {
                        Exchange::Done(_) => {
                            self.exchanged.fetch_add(1, Ordering::Relaxed);
                            Call::Exchange(held(found.as_ref()), new)
                        }
                        Exchange::Mismatch(found) => {
                            self.refused.fetch_add(1, Ordering::Relaxed);
                            Call::Read(held(found.as_ref()))
                        }
                    }
                });
            }
        }
    }
}

#[test]
fn compare_and_set_beside_plain_puts_is_linearizable() {
    let dir = common::dir();
    let db = common::open_with(dir.path(), common::tiny());
    let world = World {
        keyspace: db.default_keyspace(),
        time: AtomicU64::new(0),
        made: AtomicU64::new(1),
        calls: (0..KEYS).map(|_| Mutex::default()).collect(),
        exchanged: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, world, done) = (&db, &world, &done);
        scope.spawn(move || {
            let mut rng = Rng::new(99);
            while !done.load(Ordering::Relaxed) {
                match rng.below(3) {
                    0 => db.flush().unwrap(),
                    1 => db.compact().unwrap(),
                    _ => drop(db.gc().unwrap()),
                }
            }
        });
        let stop = common::OnDrop(|| done.store(true, Ordering::Relaxed));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut rng = Rng::new(thread);
                    (0..CALLS).for_each(|_| world.step(&mut rng));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(stop);
    });
    let World { exchanged, refused, .. } = &world;
    let (exchanged, refused) = (exchanged.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    let mut total = 0;
    for (key, calls) in world.calls.into_iter().enumerate() {
        let calls = calls.into_inner().unwrap();
        let (count, ordered) = (calls.len(), ordered(calls.clone()));
        total += count;
        if ordered < count {
            let mut calls = calls;
            calls.sort_by_key(|call| call.begun);
            let near = &calls[ordered.saturating_sub(6)..count.min(ordered + 6)];
            panic!("key {key}: only {ordered} of {count} calls have an order, near {near:#?}");
        }
    }
    println!("{total} calls on {KEYS} keys, {exchanged} exchanged, {refused} refused");
    assert!(exchanged > 0, "this test shows less than it should");
}
