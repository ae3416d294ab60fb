//! Bugs of other stores that take two threads at an unlucky moment, see `behaviour/peers.rs`.

use crate::client::{DIR, open, simulate, tiny_options};
use crate::script::value;
use cleavedb::{Db, Expected, Keyspace};
use std::time::Duration;

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 400_000;
const KEYS: usize = 60;

fn key(number: usize) -> String {
    format!("k{number:03}")
}

/// Removes a key in one of the ways that there are.
fn remove(db: &Db, keyspace: &Keyspace, number: usize) {
    let key = key(number);
    match number % 5 {
        0 => keyspace.delete(&key).unwrap(),
        1 => keyspace.delete_prefix(&key).unwrap(),
        2 => {
            keyspace.put_expiring(&key, value(number, 300), Duration::ZERO).unwrap();
        }
        3 => {
            let old = value(number, 300);
            drop(keyspace.compare_and_delete(&key, Expected::Value(&old)).unwrap());
        }
        _ => {
            let body = |tx: &cleavedb::Transaction| {
                let found = tx.get(keyspace, &key)?;
                if found.is_some() {
                    tx.delete(keyspace, &key)?;
                }
                Ok(())
            };
            db.transact(body).unwrap();
        }
    }
}

fn check(db: &Db, seed: u64) {
    let keyspace = db.default_keyspace();
    for number in 0..KEYS {
        let found = keyspace.get(key(number)).unwrap().map(|found| found.to_vec());
        let expected = (number % 3 == 0).then(|| value(number, 300));
        assert!(found == expected, "key {number}, seed {seed}");
    }
}

/// badger#2286: value GC found a value live, its user deleted it, a compaction dropped value and
/// tombstone, and GC wrote the value back: it was there again. titan#186 and #283: GC and the drop
/// of a range both deleted a file. Here GC moves records and writes no entry, and files go by
/// edits; whatever the threads' order, what was removed stays removed and the rest stays.
#[test]
fn badger_2286_titan_186_what_is_removed_during_a_collection_stays_removed() {
    let mut moved = 0;
    for seed in 0..24 {
        simulate(seed, STEPS, |env, _| {
            let db = open(env, tiny_options());
            let keyspace = db.default_keyspace();
            for number in 0..KEYS {
                keyspace.put(key(number), value(number, 300)).unwrap();
                keyspace.put(format!("x{number}"), value(number, 300)).unwrap();
            }
            db.compact().unwrap();
            // Half of each segment is garbage, so that the rest moves.
            keyspace.delete_prefix("x").unwrap();
            db.flush().unwrap();
            let collected = db.clone();
            let collects = move || {
                collected.gc().unwrap();
                collected.gc().unwrap();
            };
            let compacted = db.clone();
            let compacts = move || (0..3).for_each(|_| compacted.compact().unwrap());
            let threads = [
                env.threads.spawn("collects", Box::new(collects)).unwrap(),
                env.threads.spawn("compacts", Box::new(compacts)).unwrap(),
            ];
            (0..KEYS).filter(|number| number % 3 != 0).for_each(|n| remove(&db, &keyspace, n));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            check(&db, seed);
            moved += db.stats().gc.segments_relocated;
            drop(keyspace);
            db.close().unwrap();
            let db = open(env, tiny_options());
            check(&db, seed);
            assert!(!db.check().unwrap().is_damaged(), "{DIR}, seed {seed}");
            db.close().unwrap();
        });
    }
    assert!(moved > 0, "value GC moved nothing: this test shows less");
}
