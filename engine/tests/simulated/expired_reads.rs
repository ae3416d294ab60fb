//! Commits that rely on a value which expires between the read and the commit. Others may have seen
//! by then that it is gone, and acted on it: both a lease's old holder and its new one went on.

use crate::client::{DIR, simulate, tiny_options};
use crate::script::value;
use cleavedb::env::sim::Simulation;
use cleavedb::{
    Comparator, Db, ErrorKind, Expected, Keyspace, ReadOptions, Result, Transaction, Ttl,
    WriteBatch,
};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The life of the values that expire.
const LIFE: Duration = Duration::from_secs(60);

/// Puts twelve values; `d`, `e` and `f` expire, `e` first. All are separated, so a walk reads
/// ahead.
fn fill(keys: &Keyspace) {
    for (number, key) in "abcdefghijkl".chars().enumerate() {
        let (key, value) = (key.to_string(), value(number, 300));
        match number {
            3 | 5 => keys.put_expiring(key, value, LIFE * 2).unwrap(),
            4 => keys.put_expiring(key, value, LIFE).unwrap(),
            _ => keys.put(key, value).unwrap(),
        }
    }
}

/// Walks `steps` steps with values, forward or backward.
fn walk(keys: &Keyspace, options: &ReadOptions, forward: bool, steps: usize) {
    let mut range = keys.iter_with(options);
    for _ in 0..steps {
        let pair = if forward { range.next() } else { range.next_back() };
        pair.expect("there are as many pairs").unwrap();
    }
}

type Read = fn(&Transaction, &Keyspace);

/// Ways to read, each with whether it reads `e`.
const READS: [(&str, Read, bool); 15] = [
    ("get", |tx, keys| drop(tx.get(keys, "e").unwrap().unwrap()), true),
    ("get of another", |tx, keys| drop(tx.get(keys, "b").unwrap().unwrap()), false),
    ("get of none", |tx, keys| assert!(tx.get(keys, "bb").unwrap().is_none()), false),
    (
        "get_pinned",
        |tx, keys| {
            keys.get_pinned_with("e", &tx.read_options(), |it| assert_eq!(it.len(), 300)).unwrap();
        },
        true,
    ),
    ("contains_key", |tx, keys| assert!(tx.contains_key(keys, "e").unwrap()), true),
    (
        "multi_get",
        |tx, keys| {
            let found = keys.multi_get_with(&["a", "d", "e", "f"], &tx.read_options());
            assert!(found.into_iter().all(|it| it.unwrap().is_some()));
        },
        true,
    ),
    (
        "get_versioned",
        |tx, keys| drop(keys.get_versioned_with("e", &tx.read_options()).unwrap().unwrap()),
        true,
    ),
    (
        "ttl",
        |tx, keys| {
            let ttl = keys.ttl_with("e", &tx.read_options()).unwrap();
            assert!(matches!(ttl, Some(Ttl::Left(_))));
        },
        true,
    ),
    ("all forward", |tx, keys| walk(keys, &tx.read_options(), true, 12), true),
    ("all backward", |tx, keys| walk(keys, &tx.read_options(), false, 12), true),
    ("up to it", |tx, keys| walk(keys, &tx.read_options(), true, 5), true),
    ("down to it", |tx, keys| walk(keys, &tx.read_options(), false, 8), true),
    // What a walk has read ahead does not count.
    ("before it", |tx, keys| walk(keys, &tx.read_options(), true, 4), false),
    ("behind it", |tx, keys| walk(keys, &tx.read_options(), false, 7), false),
    (
        "its own write",
        |tx, keys| {
            tx.put(keys, "e", "1").unwrap();
            tx.get(keys, "e").unwrap().unwrap();
        },
        false,
    ),
];

#[test]
fn a_transaction_relies_on_no_value_that_has_expired() {
    for (what, read, conflicts) in READS {
        for (flushed, late) in [(false, false), (false, true), (true, false), (true, true)] {
            simulate(1, 1_000_000, |env, simulation| {
                let db = crate::client::open(env, tiny_options());
                let (keys, other) = (db.default_keyspace(), db.create_keyspace("other").unwrap());
                fill(&keys);
                if flushed {
                    db.flush().unwrap();
                }
                let (transaction, only_reads) = (db.begin(), db.begin());
                read(&transaction, &keys);
                transaction.put(&other, "seen", "1").unwrap();
                only_reads.get(&keys, "e").unwrap().unwrap();
                simulation.advance(if late { LIFE } else { LIFE / 2 });
                // The transaction still sees what was there when it began.
                let sees = keys.get_with("d", &only_reads.read_options());
                assert!(sees.unwrap().is_some());
                let committed = transaction.commit();
                only_reads.commit().unwrap();
                let how = format!("{what}, flushed {flushed}, late {late}");
                assert_eq!(committed.is_err(), conflicts && late, "{how}");
                assert_eq!(other.get("seen").unwrap().is_some(), committed.is_ok(), "{how}");
                let Err(error) = committed else { return };
                assert_eq!(error.kind(), ErrorKind::Conflict, "{how}");
                let wanted = "the key \"e\" in keyspace \"default\" has expired since";
                assert!(error.message().starts_with(wanted), "{how}: {error}");
                assert_eq!(db.stats().conflicts, 1, "{how}");
            });
        }
    }
}

/// A transaction that takes longer than what it has read has to live is run again, once, and then
/// reads that it is gone.
#[test]
fn a_transaction_that_outlived_what_it_read_is_run_again() {
    simulate(2, 1_000_000, |env, simulation| {
        let db = crate::client::open(env, tiny_options());
        let keys = db.default_keyspace();
        keys.put_expiring("lease", "1", LIFE).unwrap();
        let mut runs = 0;
        let held = db.transact(|transaction| {
            runs += 1;
            let held = transaction.get(&keys, "lease")?.is_some();
            simulation.advance(LIFE);
            transaction.put(&keys, "done", held.to_string())?;
            Ok(held)
        });
        assert_eq!((held.unwrap(), runs), (false, 2));
        assert_eq!(keys.get("done").unwrap().unwrap(), "false");
    });
}

/// `update` made a new value of one that had expired, so what was gone for others was back.
#[test]
fn an_update_revives_nothing() {
    simulate(3, 1_000_000, |env, simulation| {
        let db = crate::client::open(env, tiny_options());
        let keys = db.default_keyspace();
        for length in [1, 300] {
            keys.put_expiring("key", value(0, length), LIFE).unwrap();
            let mut calls = Vec::new();
            let made = keys.update("key", |old| {
                calls.push(old.map(<[u8]>::len));
                simulation.advance(LIFE);
                assert!(keys.get("key").unwrap().is_none(), "all others see that it is gone");
                old.map(<[u8]>::to_vec)
            });
            assert_eq!(made.unwrap(), None);
            assert_eq!(calls, [Some(length), None]);
            assert!(keys.get("key").unwrap().is_none());
        }
    });
}

/// An order of keys in which comparing takes a minute while it is slow.
struct Slow {
    simulation: Simulation,
    is_slow: Arc<AtomicBool>,
}

impl Comparator for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.is_slow.load(Relaxed) {
            self.simulation.advance(LIFE);
        }
        a.cmp(b)
    }
}

/// A value expires after it was compared with the first requirement, while the next one is read.
#[test]
fn a_batch_requires_no_value_that_has_expired() {
    simulate(4, 1_000_000, |env, simulation| {
        let is_slow = Arc::new(AtomicBool::new(false));
        let slow = Slow { simulation: simulation.clone(), is_slow: is_slow.clone() };
        let builder = Db::builder(DIR).options(tiny_options()).env(env.clone());
        let db = builder.comparator("slow", Arc::new(slow)).open().unwrap();
        let (keys, slow) = (db.default_keyspace(), db.create_keyspace("slow").unwrap());
        slow.put("a", "1").unwrap();
        let write = |late: bool| -> Result<()> {
            keys.put_expiring("lease", "7", LIFE)?;
            let mut batch = WriteBatch::new();
            batch.require(&keys, "lease", Expected::Value(b"7"));
            batch.require(&slow, "a", Expected::Value(b"1"));
            batch.put(&keys, "written", late.to_string());
            is_slow.store(late, Relaxed);
            let written = db.write(batch);
            is_slow.store(false, Relaxed);
            written
        };
        write(false).unwrap();
        let error = write(true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("the key \"lease\""), "{error}");
        assert_eq!(keys.get("written").unwrap().unwrap(), "false");
    });
}
