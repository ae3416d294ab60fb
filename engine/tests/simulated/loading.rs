//! Relocations that load what they copy next on a thread of its own.

use crate::client::{open, simulate, tiny_options};
use crate::script::value;
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

fn short_value(number: usize) -> Vec<u8> {
    value(number, 10_000)
}

/// Returns options by which a 16th of `memory_bytes` is loaded at once, and holes are made only if
/// `punch` says so.
fn options(memory_bytes: u64, segment_bytes: u64, punch: bool) -> Options {
    let gc = GcOptions { automatic: false, memory_bytes, punch, ..GcOptions::default() };
    Options { gc, segment_bytes, max_replay_bytes: 4 * segment_bytes, ..tiny_options() }
}

/// Opens a store of which each segment holds more live bytes than are loaded at once, and as many
/// dead ones.
fn half_dead(env: &Env) -> Db {
    // A chunk has 2 MiB, more than a read.
    let db = open(env, options(32 << 20, 8 << 20, true));
    let keyspace = db.default_keyspace();
    // In no order, so that all parts of a segment have some of all keys.
    for number in (0..KEYS).map(|count| count * 677 % KEYS) {
        keyspace.put(format!("k{number:05}"), short_value(number)).unwrap();
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
                let db = open(env, options(memory, 32 << 20, false));
                let keyspace = db.default_keyspace();
                let value_of = |number: usize| match large.contains(&number) {
                    true => value(number, behind),
                    false => short_value(number),
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
        let expected = number.is_multiple_of(2).then(|| short_value(number));
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

/// Closing ends a relocation wherever it is, and loses nothing.
#[test]
fn a_database_can_be_closed_while_chunks_are_loaded() {
    let ended_early = AtomicUsize::new(0);
    for seed in SEED..SEED + 20 {
        simulate(seed, STEPS, |env, _| {
            let (env, begun) = counting(env, false);
            let db = half_dead(&env);
            let (beside, outcome) = (db.clone(), Arc::new(AtomicUsize::new(0)));
            let failed = outcome.clone();
            let work = move || {
                failed.store(usize::from(beside.gc().is_err()), Ordering::Relaxed);
            };
            let collecting = env.threads.spawn("collecting", Box::new(work)).unwrap();
            // It begins to load, and comes as far as the seed lets it.
            while begun.load(Ordering::Relaxed) == 0 {
                env.threads.yield_now();
            }
            db.close().unwrap();
            collecting.join().unwrap();
            ended_early.fetch_add(outcome.load(Ordering::Relaxed), Ordering::Relaxed);
            let db = open(&env, options(32 << 20, 8 << 20, true));
            check(&db);
            db.gc().unwrap();
            check(&db);
        });
    }
    assert!(ended_early.into_inner() > 0, "one is closed in the midst");
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
