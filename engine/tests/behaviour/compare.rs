//! Tests of compare-and-set, and of batches with requirements.

use crate::common;
use cleavedb::{Db, ErrorKind, Exchange, Expected, Keyspace, ReadOptions, WriteBatch};

/// Values of three sizes: inline, and separated with and without compression.
const LENGTHS: [usize; 3] = [5, 300, 3000];

#[test]
fn what_is_expected_is_compared_wherever_it_is() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for length in LENGTHS {
        for flushed in [false, true] {
            let key = format!("key {length} {flushed}");
            let value = |version| vec![version; length];
            let settle = || {
                if flushed {
                    db.compact().unwrap()
                }
            };
            assert!(keyspace.compare_and_delete(&key, Expected::Absent).unwrap().is_done());
            settle();
            assert!(keyspace.put_if_absent(&key, value(1)).unwrap().is_done());
            settle();
            let found = keyspace.get_versioned(&key).unwrap().unwrap();
            assert_eq!(found.value, &value(1)[..]);
            assert!(found.version > 0);
            for wrong in [
                Expected::Absent,
                Expected::Version(found.version - 1),
                Expected::Version(found.version + 1),
                Expected::Value(b""),
                Expected::Value(&value(2)),
            ] {
                let mismatch = Exchange::Mismatch(Some(found.clone()));
                assert_eq!(keyspace.compare_and_set(&key, wrong, "x").unwrap(), mismatch);
                assert_eq!(keyspace.compare_and_delete(&key, wrong).unwrap(), mismatch);
            }
            let expected = Expected::Version(found.version);
            let done = keyspace.compare_and_set(&key, expected, value(2)).unwrap();
            settle();
            let found = keyspace.get_versioned(&key).unwrap().unwrap();
            assert_eq!(done, Exchange::Done(found.version));
            assert_eq!(found.value, &value(2)[..]);
            let old = value(2);
            let expected = Expected::Value(&old);
            assert!(keyspace.compare_and_delete(&key, expected).unwrap().is_done());
            settle();
            assert!(keyspace.get_versioned(&key).unwrap().is_none());
            let nothing = keyspace.compare_and_set(&key, expected, "x").unwrap();
            assert_eq!(nothing, Exchange::Mismatch(None));
        }
    }
}

#[test]
fn updates_see_what_they_replace() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let before = db.visible_seqno();
    let nothing = keyspace.update("a", |old| old.map(|_| "x")).unwrap();
    assert!(nothing.is_none() && db.visible_seqno() == before, "nothing was written");
    assert_eq!(keyspace.update("a", |old| old.is_none().then_some("1")).unwrap(), Some("1"));
    let mut calls = 0;
    let longer = keyspace.update("a", |old| {
        calls += 1;
        if calls == 1 {
            keyspace.put("a", "2").unwrap();
        }
        Some([old.unwrap(), b"!"].concat())
    });
    assert_eq!((longer.unwrap().unwrap(), calls), (b"2!".to_vec(), 2), "it was called again");
    assert!(keyspace.update("a", |_| None::<&[u8]>).unwrap().is_none());
    assert!(keyspace.get("a").unwrap().is_none());
}

/// An increment that is lost, or done twice, changes the sum. Plain writers of other keys join the
/// same groups.
#[test]
fn increments_of_many_threads_are_all_counted() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let number = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                for round in 0..400 {
                    let key = common::key(round % 3);
                    keyspace
                        .update(&key, |old| {
                            let count = old.map_or(0, number) + 1;
                            let length = LENGTHS[count as usize % LENGTHS.len()];
                            Some([&count.to_le_bytes()[..], &vec![7; length]].concat())
                        })
                        .unwrap();
                    keyspace.put(common::key(10 + thread), "besides").unwrap();
                }
            });
        }
    });
    let counts: u64 =
        (0..3).map(|key| number(&keyspace.get(common::key(key)).unwrap().unwrap())).sum();
    assert_eq!(counts, 4 * 400);
}

/// Every thread tries to take each lock; exactly one does.
#[test]
fn one_of_many_puts_what_is_absent() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let locks = db.default_keyspace();
    let taken: usize = std::thread::scope(|scope| {
        let take = |name: u64| {
            let locks = &locks;
            move || {
                let take = |lock: &usize| {
                    locks.put_if_absent(common::key(*lock), name.to_le_bytes()).unwrap().is_done()
                };
                (0..200).filter(take).count()
            }
        };
        let threads: Vec<_> = (0..4).map(|name| scope.spawn(take(name))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 200);
}

fn two(db: &Db) -> (Keyspace, Keyspace) {
    (db.create_keyspace("one").unwrap(), db.create_keyspace("two").unwrap())
}

#[test]
fn a_batch_is_written_if_all_that_it_requires_is_so() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let (one, two) = two(&db);
    one.put("a", "1").unwrap();
    let version = one.get_versioned("a").unwrap().unwrap().version;
    let met = [(&one, "a", Expected::Value(b"1")), (&two, "a", Expected::Absent)];
    let not_met = [
        (&one, "a", Expected::Absent),
        (&one, "a", Expected::Version(version + 1)),
        (&two, "a", Expected::Value(b"1")),
        (&one, "c", Expected::Version(version)),
    ];
    for (index, wrong) in not_met.iter().enumerate() {
        let mut batch = WriteBatch::new();
        for (keyspace, key, expected) in met.iter().chain([wrong]) {
            batch.require(keyspace, key, *expected);
        }
        batch.put(&two, "b", "2").put(&one, "a", "3");
        let error = db.write(batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{index}");
        let says = format!("the key {:?} in keyspace {:?} is not as", wrong.1, wrong.0.name());
        assert!(error.to_string().starts_with(&says), "{error}");
        assert!(two.get("b").unwrap().is_none());
    }
    let mut batch = WriteBatch::new();
    for (keyspace, key, expected) in met {
        batch.require(keyspace, key, expected);
    }
    batch.require(&one, "a", Expected::Version(version)).put(&two, "a", "2").put(&one, "a", "3");
    db.write(batch).unwrap();
    assert_eq!(two.get("a").unwrap().unwrap(), "2");
    let now = one.get_versioned_with("a", &ReadOptions::new()).unwrap().unwrap();
    assert_eq!((&now.value[..], now.version), (&b"3"[..], version + 2));

    // Requirements alone are a check, and they are gone with the rest.
    let mut batch = WriteBatch::new();
    batch.require(&one, "a", Expected::Absent);
    assert_eq!(db.write(batch).unwrap_err().kind(), ErrorKind::Conflict);
    let mut batch = WriteBatch::new();
    batch.require(&one, "a", Expected::Absent);
    batch.clear();
    batch.put(&one, "a", "4");
    db.write(batch).unwrap();
    assert_eq!(db.stats().conflicts, 5);
}

/// Threads move a token from cell to cell by batches that require both cells. It stays one token.
#[test]
fn batches_of_many_threads_require_what_the_others_leave() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let (cells, _) = two(&db);
    cells.put(common::key(0), "token").unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (db, cells) = (&db, &cells);
            scope.spawn(move || {
                let mut rng = common::rng::Rng::new(seed);
                for _ in 0..400 {
                    let [from, to] = [0, 1].map(|_| common::key(rng.below(3)));
                    if from == to {
                        continue;
                    }
                    let mut batch = WriteBatch::new();
                    batch.require(cells, &from, Expected::Value(b"token"));
                    batch.require(cells, &to, Expected::Absent);
                    batch.delete(cells, &from).put(cells, &to, "token");
                    if let Err(error) = db.write(batch) {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    }
                    assert_eq!(cells.keys().count(), 1);
                }
            });
        }
    });
    assert_eq!(cells.keys().count(), 1);
}

/// Batches of more operations than are kept in memory are written all the time beside conditional
/// writes of other keys, which are then checked in the memtables.
#[test]
fn large_batches_beside_them_hold_nothing_up() {
    let dir = common::dir();
    let db = Db::builder(dir.path()).open().unwrap();
    let (locks, data) = two(&db);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for loader in 0..2 {
            let (db, data, done) = (&db, &data, &done);
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut batch = WriteBatch::new();
                    for number in 0..10_000 {
                        batch.put(data, common::key(loader * 10_000 + number), "");
                    }
                    db.write(batch).unwrap();
                }
            });
        }
        for number in 0..100 {
            assert!(locks.put_if_absent(common::key(number), "held").unwrap().is_done());
            let mut batch = WriteBatch::new();
            batch.require(&locks, common::key(number), Expected::Value(b"held"));
            batch.delete(&locks, common::key(number));
            db.write(batch).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(locks.is_empty().unwrap());
}
