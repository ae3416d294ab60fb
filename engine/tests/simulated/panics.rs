//! Tests of a user's comparator that panics, on each thread of the engine that calls it. No thread
//! may wait for ever, writing ends with an error that names the panic, and nothing that was
//! acknowledged is lost.

use crate::client::{DIR, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::Survivors;
use cleavedb::{Comparator, Db, ErrorKind, Keyspace, Options, Result, WriteBatch};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const TEXT: &str = "the comparator gives up";
const SEEDS: u64 = 30;
/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 300_000;

/// A bytewise comparator that panics on threads named `thread` after `left` calls there.
struct Fragile {
    thread: &'static str,
    left: AtomicU64,
}

impl Fragile {
    fn new(thread: &'static str) -> Arc<Fragile> {
        Arc::new(Fragile { thread, left: AtomicU64::new(u64::MAX) })
    }
}

impl Comparator for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if std::thread::current().name() == Some(self.thread) {
            let before = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            assert!(before.is_ok(), "{TEXT}");
        }
        a.cmp(b)
    }
}

fn open(env: &Env, comparator: Arc<Fragile>, options: Options) -> Db {
    let builder = Db::builder(DIR).options(options).env(env.clone());
    builder.comparator("fragile", comparator).open().expect("it opens")
}

fn key(writer: usize, round: u32) -> Vec<u8> {
    format!("{writer}-{round:03}").into_bytes()
}

fn assert_names_the_panic<T>(outcome: Result<T>) {
    let error = outcome.err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert!(error.to_string().contains(TEXT), "{error}");
}

/// Returns a batch of two keys with one value, so that a half-applied batch can be detected.
fn batch(keyspace: &Keyspace, writer: usize, round: u32) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in [key(writer, round), key(9, writer as u32 * 1000 + round)] {
        batch.put(keyspace, key, round.to_be_bytes());
    }
    batch
}

/// Writes until a write fails. Returns how many rounds were acknowledged.
fn write(db: &Db, writer: usize) -> u32 {
    let keyspace = db.open_or_create_keyspace("fragile").unwrap();
    for round in 0..60 {
        if let Err(error) = db.write(batch(&keyspace, writer, round)) {
            assert_names_the_panic::<()>(Err(error));
            return round;
        }
    }
    60
}

/// Asserts that all acknowledged batches of a writer are there, and at most `unknown` more, each of
/// them whole.
fn check(db: &Db, writer: usize, acknowledged: u32, unknown: u32) {
    let keyspace = db.open_or_create_keyspace("fragile").unwrap();
    let there = (0..60).take_while(|&round| {
        let [one, other] = [key(writer, round), key(9, writer as u32 * 1000 + round)]
            .map(|key| keyspace.get(key).unwrap());
        assert_eq!(one.is_some(), other.is_some(), "a batch is whole");
        one.is_some_and(|value| value == round.to_be_bytes())
    });
    let there = there.count() as u32;
    assert!((acknowledged..=acknowledged + unknown).contains(&there), "{there} {acknowledged}");
}

/// Guards against a lead that is never passed on: a panic of the leading writer once unwound past
/// that place, and all other writers and the close waited for ever.
#[test]
fn i1_a_panic_in_the_leading_writer_ends_writing_and_nobody_waits() {
    for seed in 0..SEEDS {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(STEPS);
        let acknowledged = simulation.run(|| {
            let comparator = Fragile::new("writer");
            let db = open(&env, comparator.clone(), tiny_options());
            db.open_or_create_keyspace("fragile").unwrap();
            comparator.left.store(50 + seed * 7, Relaxed);
            let writers = (0..3).map(|writer| {
                let (db, done) = (db.clone(), Arc::new(AtomicU64::new(0)));
                let count = done.clone();
                let work = move || count.store(write(&db, writer).into(), Relaxed);
                (env.threads.spawn("writer", Box::new(work)).unwrap(), done)
            });
            let writers: Vec<_> = writers.collect();
            let done = writers.into_iter().map(|(thread, done)| {
                thread.join().expect("the panic does not leave the call");
                done.load(Relaxed) as u32
            });
            let done: Vec<u32> = done.collect();
            let keyspace = db.open_or_create_keyspace("fragile").unwrap();
            assert!(done.iter().any(|&rounds| rounds < 60), "it panicked");
            assert_names_the_panic(keyspace.put("more", "1"));
            assert_names_the_panic(db.flush());
            assert_names_the_panic(db.checkpoint("copy"));
            assert!(db.stats().read_only_because.unwrap().to_string().contains(TEXT));
            (0..3).for_each(|writer| check(&db, writer, done[writer], 0));
            assert_names_the_panic(db.close());
            done
        });
        let env = simulation.restart(Survivors::KeepAll);
        simulation.run(|| {
            let db = open(&env, Fragile::new("nobody"), tiny_options());
            // The batch of a write that failed may have been committed.
            (0..3).for_each(|writer| check(&db, writer, acknowledged[writer], 1));
            assert!(db.check().unwrap().is_clean());
            db.open_or_create_keyspace("fragile").unwrap().put("more", "1").unwrap();
            db.close().unwrap();
        });
    }
}

/// Guards against unnoticed panics: a thread that was choosing its next job, or running a liveness
/// scan for value GC, died silently; only a panic in a job was noticed.
#[test]
fn a_panic_on_any_thread_of_ours_ends_writing_and_is_told() {
    for thread in ["cleave-flush", "cleave-compact", "cleave-gc", "cleave-liveness"] {
        let told = (0..SEEDS).filter(|&seed| panics_on(thread, seed)).count();
        assert!(told > 0, "{thread} never compares");
    }
}

/// Runs a workload with a panic on that thread. Returns false if it never called the comparator.
fn panics_on(thread: &'static str, seed: u64) -> bool {
    let (env, simulation) = Env::simulated(seed);
    simulation.limit_steps(STEPS);
    let panicked = simulation.run(|| {
        let comparator = Fragile::new(thread);
        let db = open(&env, comparator.clone(), tiny_options());
        let keyspace = db.open_or_create_keyspace("fragile").unwrap();
        comparator.left.store(seed, Relaxed);
        let outcome = (0..400_u32).try_for_each(|round| {
            let key = format!("{:02}", round * 7 % 50);
            keyspace.put(key, [round as u8; 300])
        });
        // Background work that is under way may still panic.
        let outcome = outcome.and_then(|()| db.wait_idle());
        if outcome.is_ok() {
            db.close().unwrap();
            return false;
        }
        assert_names_the_panic(outcome);
        assert!(db.stats().read_only_because.unwrap().to_string().contains(TEXT), "{thread}");
        assert_names_the_panic(db.flush());
        assert!(keyspace.get("00").unwrap().is_some());
        assert_names_the_panic(db.close());
        true
    });
    let env = simulation.restart(Survivors::KeepAll);
    simulation.run(|| {
        let db = open(&env, Fragile::new("nobody"), tiny_options());
        assert!(db.check().unwrap().is_clean());
        db.close().unwrap();
    });
    panicked
}
