//! Test that each key is a linearizable register while value GC, compactions, holes and checkpoints
//! move its values: a read returns the newest value at its begin or one written since, and never an
//! older one or that of another key. A snapshot and a cursor keep returning the state at which they
//! were taken.

use crate::common;
use crate::common::rng::Rng;
use cleavedb::{Cursor, Db, GcOptions, Keyspace, Options, ReadOptions, Snapshot};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: usize = 96;
const WRITERS: usize = 2;
const READERS: u64 = 3;
/// The number of writes of each writer.
const WRITES: usize = 4_000;

/// The range of versions of a key that a read may return.
#[derive(Clone, Copy)]
struct Allowed {
    oldest: u64,
    newest: u64,
}

/// The newest version of each key whose write has begun, and whose write has ended. Each key is
/// written by one thread.
struct Ledger {
    begun: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
}

fn is_deletion(version: u64) -> bool {
    version.is_multiple_of(9)
}

/// Returns the value of a version. A few values are so long that holes are made around them.
fn value(number: usize, version: u64) -> Vec<u8> {
    let bytes = if number.is_multiple_of(8) { 20_000 } else { 40 + 100 * (number % 8) };
    common::value(&common::key(number), version, bytes)
}

impl Ledger {
    fn new() -> Self {
        let zeroes = || (0..KEYS).map(|_| AtomicU64::new(0)).collect();
        Ledger { begun: zeroes(), ended: zeroes() }
    }

    fn write(&self, keyspace: &Keyspace, number: usize) {
        let version = self.begun[number].fetch_add(1, Ordering::SeqCst) + 1;
        match is_deletion(version) {
            true => keyspace.delete(common::key(number)).unwrap(),
            false => keyspace.put(common::key(number), value(number, version)).unwrap(),
        }
        self.ended[number].store(version, Ordering::SeqCst);
    }

    /// Calls `take`, and returns its result and the versions that each key may have then.
    fn around<T>(&self, take: impl FnOnce() -> T) -> (T, Vec<Allowed>) {
        let read = |of: &[AtomicU64]| -> Vec<u64> {
            of.iter().map(|version| version.load(Ordering::SeqCst)).collect()
        };
        let oldest = read(&self.ended);
        let taken = take();
        let newest = read(&self.begun);
        let both = oldest.into_iter().zip(newest);
        (taken, both.map(|(oldest, newest)| Allowed { oldest, newest }).collect())
    }
}

/// Returns the version that was found, `None` if there was no value. Panics if it is not allowed.
fn version_of(number: usize, found: Option<&[u8]>, allowed: Allowed) -> Option<u64> {
    let Allowed { oldest, newest } = allowed;
    let Some(found) = found else {
        let deleted = (oldest..=newest).any(is_deletion);
        assert!(deleted, "key {number} is not there, but was from {oldest} to {newest}");
        return None;
    };
    let key = common::key(number);
    let text = String::from_utf8_lossy(&found[..found.len().min(40)]).into_owned();
    let digits = text.strip_prefix(&format!("{key}@")).and_then(|rest| rest.split('.').next());
    let version: u64 = digits.unwrap_or_else(|| panic!("{key} has {text:?}")).parse().unwrap();
    assert!(found == value(number, version), "{key} has a broken version {version}");
    assert!(
        (oldest..=newest).contains(&version) && !is_deletion(version),
        "{key} has version {version}, not one from {oldest} to {newest}"
    );
    Some(version)
}

/// The version of each key that a snapshot has shown, which it must show again.
#[derive(Default)]
struct Shown(BTreeMap<usize, Option<u64>>);

impl Shown {
    fn note(&mut self, number: usize, found: Option<&[u8]>, allowed: &[Allowed]) {
        let version = version_of(number, found, allowed[number]);
        let before = self.0.entry(number).or_insert(version);
        assert_eq!(*before, version, "key {number} changed within a snapshot");
    }

    fn walk(&mut self, cursor: &mut Cursor, forward: bool, allowed: &[Allowed]) {
        let mut seen = BTreeMap::new();
        if forward { cursor.seek_to_first() } else { cursor.seek_to_last() }.unwrap();
        while cursor.valid() {
            let key = String::from_utf8(cursor.key().to_vec()).unwrap();
            let number: usize = key.strip_prefix("key").unwrap().parse().unwrap();
            let value = cursor.value().unwrap().into_vec();
            assert!(seen.insert(number, value).is_none(), "{key} twice");
            if forward { cursor.next() } else { cursor.prev() }.unwrap();
        }
        for number in 0..KEYS {
            self.note(number, seen.get(&number).map(Vec::as_slice), allowed);
        }
    }
}

fn read_now(keyspace: &Keyspace, ledger: &Ledger, rng: &mut Rng) {
    let number = rng.below(KEYS);
    let key = common::key(number);
    match rng.below(4) {
        0 => {
            let (found, allowed) = ledger.around(|| keyspace.get(&key).unwrap());
            version_of(number, found.as_deref(), allowed[number]);
        }
        1 => {
            let show = || keyspace.get_pinned(&key, <[u8]>::to_vec).unwrap();
            let (found, allowed) = ledger.around(show);
            version_of(number, found.as_deref(), allowed[number]);
        }
        2 => {
            let keys: Vec<String> = (0..KEYS).map(common::key).collect();
            let (found, allowed) = ledger.around(|| keyspace.multi_get(&keys));
            for (number, found) in found.into_iter().enumerate() {
                version_of(number, found.unwrap().as_deref(), allowed[number]);
            }
        }
        _ => {
            // The cursor reads the view it was created with, long after values have moved.
            let (mut cursor, allowed) = ledger.around(|| keyspace.cursor().unwrap());
            let mut shown = Shown::default();
            for forward in [true, false] {
                shown.walk(&mut cursor, forward, &allowed);
            }
        }
    }
}

fn read_snapshot(db: &Db, ledger: &Ledger, rng: &mut Rng) {
    let keyspace = db.default_keyspace();
    let (snapshot, allowed): (Snapshot, _) = ledger.around(|| db.snapshot());
    let mut shown = Shown::default();
    for _ in 0..30 {
        let number = rng.below(KEYS);
        let found = keyspace
            .get_with(common::key(number), &ReadOptions::new().snapshot(&snapshot))
            .unwrap();
        shown.note(number, found.as_deref(), &allowed);
    }
    shown.walk(
        &mut keyspace.cursor_with(&ReadOptions::new().snapshot(&snapshot)).unwrap(),
        rng.once_in(2),
        &allowed,
    );
}

/// Runs one random operation that changes where values are.
fn churn(db: &Db, scratch: &Path, rng: &mut Rng) {
    match rng.below(6) {
        0 => db.flush().unwrap(),
        1 => db.compact().unwrap(),
        2 => db.default_keyspace().reorganize("key000020".."key000050").unwrap(),
        3 => {
            let copy = scratch.join("copy");
            db.checkpoint(&copy).unwrap();
            Db::destroy(&copy).unwrap();
        }
        _ => drop(db.gc().unwrap()),
    }
}

#[test]
fn reads_return_the_newest_value_while_values_move() {
    let (dir, scratch) = (common::dir(), common::dir());
    let gc = GcOptions { max_space_amplification: 1.1, ..common::tiny().gc };
    let keyspace = common::separating(Some(64));
    let (segment_bytes, max_replay_bytes) = (96 << 10, 256 << 10);
    let options = Options { gc, keyspace, segment_bytes, max_replay_bytes, ..common::tiny() };
    let db = common::open_with(dir.path(), options);
    let ledger = Ledger::new();
    (0..KEYS).for_each(|number| ledger.write(&db.default_keyspace(), number));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, ledger, done) = (&db, &ledger, &done);
        for reader in 0..READERS {
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                while !done.load(Ordering::Relaxed) {
                    if rng.once_in(4) {
                        read_snapshot(db, ledger, &mut rng);
                    } else {
                        read_now(&db.default_keyspace(), ledger, &mut rng);
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut rng = Rng::new(99);
            while !done.load(Ordering::Relaxed) {
                churn(db, scratch.path(), &mut rng);
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut rng = Rng::new(7 + writer as u64);
                    for _ in 0..WRITES {
                        let number = rng.below(KEYS / WRITERS) * WRITERS + writer;
                        ledger.write(&db.default_keyspace(), number);
                    }
                })
            })
            .collect();
        let stop = common::OnDrop(|| done.store(true, Ordering::Relaxed));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        drop(stop);
    });
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert!(stats.gc.segments_relocated > 0, "{:?}", stats.gc);
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    read_snapshot(&db, &ledger, &mut Rng::new(1));
}
