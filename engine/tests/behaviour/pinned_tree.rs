//! The tree in memory (`Options::pin_tree`) under threads that write, read and compact.

use crate::common::{dir, key, open_with, tiny, value};
use cleavedb::{Db, Options};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const KEYS: usize = 2000;
const ROUNDS: usize = 12;

fn options(pin_tree: u64) -> Options {
    Options { pin_tree, ..tiny() }
}

/// Overwrites all keys again and again, while other threads read them; returns when all are done.
fn churn(db: &Db, bound: u64) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let write = |part: usize| {
            let keyspace = db.default_keyspace();
            for round in 0..ROUNDS {
                for number in (part..KEYS).step_by(2) {
                    let key = key(number);
                    // Some values are separated, others are inline.
                    keyspace.put(&key, value(&key, round as u64, 60 + number % 80)).unwrap();
                }
            }
        };
        let writing: Vec<_> = (0..2).map(|part| scope.spawn(move || write(part))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let stats = db.stats();
                assert!(stats.pinned_tree_bytes <= bound, "{} of {bound}", stats.pinned_tree_bytes);
                let keys = db.default_keyspace().keys();
                assert!(keys.map(Result::unwrap).is_sorted());
                let found = db.default_keyspace().get(key(KEYS / 3)).unwrap();
                assert!(found.is_none_or(|found| !found.is_empty()));
            }
        });
        let ended: Vec<_> = writing.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Release);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}

#[test]
fn the_bound_holds_under_churn_and_everything_is_given_back() {
    for bound in [32 << 10, 80 << 10, 8 << 20] {
        let dir = dir();
        let db = open_with(dir.path(), options(bound));
        churn(&db, bound);
        db.compact().unwrap();
        db.wait_idle().unwrap();
        let stats = db.stats();
        assert!(stats.pinned_tables > 0, "{bound}: {stats}");
        assert_eq!(stats.unpinned_tables == 0, bound > 1 << 20, "{bound}: {stats}");
        for number in 0..KEYS {
            let (key, round) = (key(number), ROUNDS as u64 - 1);
            let found = db.default_keyspace().get(&key).unwrap().unwrap();
            assert_eq!(found, value(&key, round, 60 + number % 80), "{number}");
        }
        db.default_keyspace().delete_range(..).unwrap();
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.stats().pinned_tree_bytes, 0, "{bound}: {}", db.stats());
        db.close().unwrap();
    }
}

#[test]
fn a_dropped_keyspace_gives_its_memory_back() {
    let dir = dir();
    let db = open_with(dir.path(), options(8 << 20));
    let doomed = db.create_keyspace("doomed").unwrap();
    (0..KEYS).for_each(|number| doomed.put(key(number), key(number)).unwrap());
    doomed.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(db.stats().pinned_tree_bytes > KEYS as u64);
    drop(doomed);
    db.drop_keyspace("doomed").unwrap();
    db.wait_idle().unwrap();
    let stats = db.stats();
    assert_eq!((stats.pinned_tables, stats.pinned_tree_bytes), (0, 0));
    db.close().unwrap();
}
