//! Relocations that load what they copy next on a thread of its own.

use crate::client::{open, simulate, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan};
use cleavedb::env::threads::{Join, ThreadBody, Threads};
use cleavedb::{Db, ErrorKind, GcOptions, Options};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SEED: u64 = 51;
/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 2_000_000;
const KEYS: usize = 1200;

/// A `Threads` that counts the threads that load, or has none left for them.
struct Loads {
    threads: Arc<dyn Threads>,
    begun: Arc<AtomicUsize>,
    has_none: bool,
}

impl Threads for Loads {
    fn spawn(&self, name: &str, work: ThreadBody) -> io::Result<Box<dyn Join>> {
        if name == "cleave-load" {
            self.begun.fetch_add(1, Ordering::Relaxed);
            if self.has_none {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        self.threads.spawn(name, work)
    }

    fn yield_now(&self) {
        self.threads.yield_now();
    }

    fn sleep(&self, time: Duration) {
        self.threads.sleep(time);
    }
}

/// Returns the environment with such threads, and the number of those that load.
fn counting(env: &Env, has_none: bool) -> (Env, Arc<AtomicUsize>) {
    let (threads, begun) = (env.threads.clone(), Arc::<AtomicUsize>::default());
    let loads = Loads { threads, begun: begun.clone(), has_none };
    (Env { threads: Arc::new(loads), ..env.clone() }, begun)
}

fn value(number: usize) -> Vec<u8> {
    let mut value = vec![number as u8; 10_000];
    value[..8].copy_from_slice(&(number as u64).to_le_bytes());
    value
}

/// Opens a store of which each segment holds more live bytes than are loaded at once, and as many
/// dead ones.
fn half_dead(env: &Env) -> Db {
    // A chunk has 2 MiB, more than a read.
    let gc = GcOptions { automatic: false, memory_bytes: 32 << 20, ..GcOptions::default() };
    let (segment_bytes, max_replay_bytes) = (8 << 20, 32 << 20);
    let db = open(env, Options { gc, segment_bytes, max_replay_bytes, ..tiny_options() });
    let keyspace = db.default_keyspace();
    // In no order, so that all parts of a segment have some of all keys.
    for number in (0..KEYS).map(|count| count * 677 % KEYS) {
        keyspace.put(format!("k{number:05}"), value(number)).unwrap();
    }
    (0..KEYS).filter(|it| it % 2 == 1).for_each(|it| keyspace.delete(format!("k{it:05}")).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db
}

/// What is larger than a chunk is loaded alone, and by no thread. What comes behind it was lost, or
/// waited for without end, where a second thread began for it.
#[test]
fn values_that_are_larger_than_a_chunk_lie_among_others() {
    for (seed, large) in
        (SEED..).zip([vec![150], vec![240, 241], vec![100, 300], vec![2, 200, 498]])
    {
        for (memory, behind) in [(16 << 20, 2 << 20), (8 << 20, 700 << 10)] {
            simulate(seed, STEPS, |env, _| {
                let gc = GcOptions {
                    automatic: false,
                    punch: false,
                    memory_bytes: memory,
                    ..GcOptions::default()
                };
                let (segment_bytes, max_replay_bytes) = (32 << 20, 128 << 20);
                let options = Options { gc, segment_bytes, max_replay_bytes, ..tiny_options() };
                let db = open(env, options);
                let keyspace = db.default_keyspace();
                let value_of = |number: usize| match large.contains(&number) {
                    true => [&value(number)[..], &vec![7; behind]].concat(),
                    false => value(number),
                };
                for number in 0..500 {
                    keyspace.put(format!("k{number:05}"), value_of(number)).unwrap();
                    // What dies lies in pieces, so that reads are short.
                    keyspace.put(format!("dead{number:05}"), vec![1; 70_000]).unwrap();
                }
                (0..500).for_each(|it| keyspace.delete(format!("dead{it:05}")).unwrap());
                db.flush().unwrap();
                db.wait_idle().unwrap();
                let report = db.gc().unwrap();
                assert!(report.bytes_written > 4 << 20, "{report:?}");
                for number in 0..500 {
                    let found = keyspace.get(format!("k{number:05}")).unwrap();
                    assert!(found.is_some_and(|it| *it == value_of(number)), "{number}");
                }
                assert!(db.check().unwrap().is_clean());
            });
        }
    }
}

fn check(db: &Db) {
    for number in 0..KEYS {
        let found = db.default_keyspace().get(format!("k{number:05}")).unwrap();
        let expected = number.is_multiple_of(2).then(|| value(number));
        assert_eq!(found.map(|it| it.to_vec()), expected, "{number}");
    }
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn what_is_loaded_ahead_is_moved_with_threads_and_without() {
    for has_none in [false, true] {
        simulate(SEED, STEPS, |env, _| {
            let (env, begun) = counting(env, has_none);
            let db = half_dead(&env);
            let report = db.gc().unwrap();
            assert!(report.bytes_written > 4 << 20, "{report:?}");
            assert!(begun.load(Ordering::Relaxed) > 0, "a segment is loaded in several chunks");
            check(&db);
        });
    }
}

/// A read that fails on either thread is the relocation's error, and nothing is freed by it; the
/// next collection does what was left.
#[test]
fn a_read_that_fails_ahead_fails_its_relocation_alone() {
    let failed = AtomicUsize::new(0);
    for nth in 1..=12 {
        simulate(SEED + nth, STEPS, |env, simulation| {
            let (env, begun) = counting(env, false);
            let db = half_dead(&env);
            simulation.fail(FaultPlan::new(Call::Read).on(".seg").nth(nth));
            let outcome = db.gc();
            assert!(begun.load(Ordering::Relaxed) > 0);
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.file().is_some(), "{error}");
                failed.fetch_add(1, Ordering::Relaxed);
            }
            check(&db);
            db.gc().unwrap();
            check(&db);
        });
    }
    assert!(failed.into_inner() > 0, "relocations read segments");
}
