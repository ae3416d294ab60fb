//! Tests with many threads: no reader ever sees half a batch, and no write is lost.

use crate::common;
use crate::common::rng::Rng;
use cleavedb::{Db, Durability, ErrorKind, Keyspace, ReadOptions, WriteBatch, WriteOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LEVELS: [Durability; 4] = [
    Durability::Buffered,
    Durability::Os,
    Durability::Sync,
    Durability::SyncEvery(Duration::from_millis(1)),
];

/// Returns a value that repeats `round`. Values of an even `place` are inline, others separated.
fn value(round: u64, place: usize) -> Vec<u8> {
    let bytes = if place.is_multiple_of(2) { 16 } else { 200 };
    round.to_le_bytes().repeat(bytes / 8)
}

fn round_of(value: &[u8]) -> u64 {
    let (first, rest) = value.split_at(8);
    assert!(rest.chunks(8).all(|chunk| chunk == first), "a mixture of two values");
    u64::from_le_bytes(first.try_into().unwrap())
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let spaces: Vec<Keyspace> =
        ["a", "b", "default"].map(|name| db.open_or_create_keyspace(name).unwrap()).into();
    let keys: Vec<_> = (0..12).map(common::key).collect();
    let write = |round: u64| {
        let mut batch = WriteBatch::new();
        for space in &spaces {
            for (place, key) in keys.iter().enumerate() {
                batch.put(space, key, value(round, place));
            }
        }
        db.write(batch).unwrap();
    };
    write(0);
    let done = AtomicBool::new(false);
    let views = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (db, spaces, keys, done, views) = (&db, &spaces, &keys, &done, &views);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let space = &spaces[rng.below(spaces.len())];
                    let rounds: Vec<u64> = match rng.below(4) {
                        0 => space.iter().map(|item| round_of(&item.unwrap().1)).collect(),
                        1 => space.iter().rev().map(|item| round_of(&item.unwrap().1)).collect(),
                        2 => space
                            .multi_get(keys)
                            .into_iter()
                            .map(|found| round_of(&found.unwrap().unwrap()))
                            .collect(),
                        _ => {
                            let snapshot = db.snapshot();
                            let then = ReadOptions::new().snapshot(&snapshot);
                            let get = |(space, key): (&Keyspace, _)| {
                                round_of(&space.get_with(key, &then).unwrap().unwrap())
                            };
                            let of = |space| keys.iter().map(move |key| (space, key));
                            spaces.iter().flat_map(of).map(get).collect()
                        }
                    };
                    assert!(rounds.len().is_multiple_of(keys.len()));
                    assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
                    // A later view is never older than an earlier one.
                    assert!(rounds[0] >= last, "{} after {last}", rounds[0]);
                    last = rounds[0];
                    views.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let stop = common::OnDrop(|| done.store(true, Ordering::Relaxed));
        let mut round = 0;
        while round < 800 || views.load(Ordering::Relaxed) < 300 {
            round += 1;
            write(round);
            if round % 200 == 0 {
                db.compact().unwrap();
            }
        }
        drop(stop);
    });
    db.wait_idle().unwrap();
    assert!(db.stats().numbers().any(|(name, count)| name == "compactions" && count > 0));
}

#[test]
fn groups_of_mixed_durability_lose_nothing() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    std::thread::scope(|scope| {
        for writer in 0..8usize {
            let (db, keyspace) = (&db, &keyspace);
            scope.spawn(move || {
                let how = WriteOptions::new().durability(LEVELS[writer % LEVELS.len()]);
                for number in 0..100 {
                    let key = format!("{writer} {number}");
                    let value = common::value(&key, 1, 20 + number * 7);
                    if number % 10 == 0 {
                        let mut batch = WriteBatch::new();
                        batch.put(keyspace, &key, &value).put(keyspace, format!("{key}b"), "");
                        db.write_with(batch, &how).unwrap();
                    } else {
                        keyspace.put_with(&key, &value, &how).unwrap();
                    }
                    // A writer sees its own write at once.
                    assert_eq!(keyspace.get(&key).unwrap().unwrap(), value);
                }
            });
        }
    });
    let check = |keyspace: &Keyspace| {
        for writer in 0..8 {
            for number in 0..100 {
                let key = format!("{writer} {number}");
                let value = common::value(&key, 1, 20 + number * 7);
                assert_eq!(keyspace.get(&key).unwrap().unwrap(), value);
            }
        }
        assert_eq!(keyspace.keys().count(), 8 * 110);
    };
    check(&keyspace);
    assert_eq!(db.visible_seqno(), 8 * 110, "each entry has a number of its own");
    drop((db, keyspace));
    check(&common::open(dir.path()).default_keyspace());
}

#[test]
fn the_last_writer_of_a_key_is_the_same_before_and_after_reopening() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                for round in 0..500 {
                    let key = common::key(rng.below(20));
                    match rng.below(4) {
                        0 => keyspace.delete(&key).unwrap(),
                        place => keyspace.put(&key, value(round * 4 + writer, place)).unwrap(),
                    }
                }
            });
        }
    });
    let before = common::pairs(&keyspace);
    db.compact().unwrap();
    assert_eq!(common::pairs(&keyspace), before);
    drop((db, keyspace));
    assert_eq!(common::pairs(&common::open(dir.path()).default_keyspace()), before);
}

#[test]
fn flushes_compactions_drops_and_snapshots_at_once() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let fixed = db.open_or_create_keyspace("fixed").unwrap();
    for number in 0..200 {
        fixed.put(common::key(number), value(7, number)).unwrap();
    }
    std::thread::scope(|scope| {
        let (db, fixed) = (&db, &fixed);
        scope.spawn(move || (0..40).for_each(|_| db.flush().unwrap()));
        scope.spawn(move || (0..15).for_each(|_| db.compact().unwrap()));
        scope.spawn(move || (0..15).for_each(|_| fixed.compact_range("key0001"..).unwrap()));
        scope.spawn(move || {
            for round in 0..20 {
                let name = format!("passing {}", round % 3);
                let keyspace = db.open_or_create_keyspace(&name).unwrap();
                for number in 0..60 {
                    keyspace.put(common::key(number), value(round, number)).unwrap();
                }
                db.drop_keyspace(&name).unwrap();
            }
        });
        scope.spawn(move || {
            for round in 0..20 {
                let snapshot = db.snapshot();
                db.default_keyspace().put(common::key(round), value(1, round)).unwrap();
                let then = ReadOptions::new().snapshot(&snapshot);
                let seen = fixed.get_with(common::key(round), &then).unwrap().unwrap();
                assert_eq!(round_of(&seen), 7);
                let other = db.default_keyspace();
                assert!(!other.contains_key_with(common::key(round), &then).unwrap());
                assert_eq!(fixed.iter().filter(Result::is_ok).count(), 200);
            }
        });
    });
    db.wait_idle().unwrap();
    assert!(db.check().unwrap().is_clean());
    assert_eq!(db.keyspaces(), ["default", "fixed"]);
}

#[test]
fn a_close_sends_writers_away() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (keyspace, written) = (&keyspace, &written);
            scope.spawn(move || {
                for number in 0.. {
                    let key = format!("{writer} {number:09}");
                    match keyspace.put(&key, value(number, writer)) {
                        Ok(()) => written.fetch_add(1, Ordering::Relaxed),
                        Err(error) => return assert_eq!(error.kind(), ErrorKind::Closed),
                    };
                }
            });
        }
        // Calls under way end at the close as well. They must write nothing to the directory
        // after it, because another process may have opened it.
        for what in [Db::compact, Db::flush, |db: &Db| db.open_or_create_keyspace("new").map(drop)]
        {
            let db = db.clone();
            scope.spawn(move || while what(&db).is_ok() {});
        }
        while written.load(Ordering::Relaxed) < 2000 {
            std::thread::yield_now();
        }
        db.close().unwrap();
    });
    // Every acknowledged write is found. Each of the three writers may have had one more under way.
    let db = common::open(dir.path());
    let found = db.default_keyspace().keys().count() as u64;
    let written = written.into_inner();
    assert!((written..=written + 3).contains(&found), "{found} of {written}");
}
