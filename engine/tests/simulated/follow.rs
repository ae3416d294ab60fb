//! Tests of following beside a writer, where the threads of both take turns at every call: what the
//! follower reads is changed, removed and begun anew between any two of its calls.

use crate::client::{DIR, open, simulate, tiny_options};
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::env::random::Random;
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::{
    Db, Durability, ErrorKind, Keyspace, Options, ReadOptions, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 4_000_000;
const KEYS: usize = 12;

fn following() -> Options {
    Options { follow: true, max_open_files: 4096, ..tiny_options() }
}

fn contents(keyspace: &Keyspace, options: &ReadOptions) -> Contents {
    let pairs = keyspace.range_with(.., options);
    pairs.map(|pair| pair.map(|(key, value)| (key, value.into_vec())).unwrap()).collect()
}

/// The state of a database whose two keyspaces get the same batches, of which each has a number.
fn both(db: &Db) -> Option<(Contents, usize)> {
    let at = ReadOptions::new().snapshot(&db.snapshot());
    let first = contents(&db.keyspace("first").ok()?, &at);
    let second = contents(&db.keyspace("second").ok()?, &at);
    assert!(first == second, "I1: a batch is seen in part");
    let number = |value: &Vec<u8>| usize::from_le_bytes(value[..8].try_into().unwrap());
    let newest = first.values().map(number).max().unwrap_or(0);
    Some((first, newest))
}

fn write(db: &Db, number: usize, random: &dyn Random) -> cleavedb::Result<()> {
    let (first, second) = (db.keyspace("first").unwrap(), db.keyspace("second").unwrap());
    let key = format!("key{}", random.next_u64() as usize % KEYS);
    let bytes = [10, 120, 250, 900][random.next_u64() as usize % 4];
    let content = [&number.to_le_bytes()[..], &value(number, bytes)].concat();
    let mut batch = WriteBatch::new();
    batch.put(&first, &key, &content).put(&second, &key, &content);
    if number.is_multiple_of(7) {
        let other = format!("key{}", number % KEYS);
        if other != key {
            batch.delete(&first, &other).delete(&second, &other);
        }
    }
    let durability = [Durability::Os, Durability::Sync][number % 2];
    db.write_with(batch, &WriteOptions::new().durability(durability))
}

fn maintain(db: &Db, random: &dyn Random) -> cleavedb::Result<()> {
    match random.next_u64() % 12 {
        0 => db.flush(),
        1 => db.compact(),
        2 => db.gc().map(|_| ()),
        _ => Ok(()),
    }
}

/// I1, I2, I6: at every catch-up what was acknowledged is there, each batch whole, and the newest
/// number never goes back.
#[test]
fn i01_i02_a_follower_beside_a_writer_sees_whole_batches() {
    let seeds: u64 = std::env::var("CLEAVEDB_SEEDS").map_or(16, |text| text.parse().unwrap());
    let first: u64 = std::env::var("CLEAVEDB_SEED").map_or(0, |text| text.parse().unwrap());
    for seed in first..first + seeds {
        simulate(seed, STEPS, |env, _| beside(env));
    }
}

fn beside(env: &Env) {
    let db = open(env, tiny_options());
    db.create_keyspace("first").unwrap();
    db.create_keyspace("second").unwrap();
    let (acknowledged, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (seen, over, inner) = (acknowledged.clone(), is_over.clone(), env.clone());
    let reader = move || {
        let mut reader = open(&inner, following());
        let mut newest = 0;
        while !over.load(Ordering::Relaxed) {
            let least = seen.load(Ordering::Relaxed);
            if inner.random.next_u64() % 9 == 0 {
                reader = open(&inner, following());
            } else {
                reader.catch_up().unwrap();
            }
            let (_, found) = both(&reader).unwrap();
            assert!(found >= least && found >= newest, "I2: {found} after {least} and {newest}");
            newest = found;
            inner.threads.yield_now();
        }
    };
    let reader = env.threads.spawn("reader", Box::new(reader)).unwrap();
    let mut db = db;
    for number in 1..=120 {
        write(&db, number, &*env.random).unwrap();
        acknowledged.store(number, Ordering::Relaxed);
        maintain(&db, &*env.random).unwrap();
        if env.random.next_u64().is_multiple_of(40) {
            db.close().unwrap();
            db = open(env, tiny_options());
        }
    }
    is_over.store(true, Ordering::Relaxed);
    reader.join().unwrap_or_else(|text| panic!("{text}"));
}

/// An error at any call of a catch-up leaves what was seen as it was, and the next one is complete.
#[test]
fn a_catch_up_that_fails_is_made_good_by_the_next() {
    for seed in 0..3 {
        simulate(seed, STEPS, |env, simulation| {
            let db = open(env, Options { gc: quiet(), ..tiny_options() });
            db.create_keyspace("first").unwrap();
            db.create_keyspace("second").unwrap();
            let reader = open(env, following());
            reader.catch_up().unwrap();
            let mut failures = 0;
            for number in 1..=90 {
                let before = both(&reader).unwrap();
                write(&db, number, &*env.random).unwrap();
                // The fault before may have met a job, which is tried again.
                let _ = maintain(&db, &*env.random).and_then(|()| db.wait_idle());
                let call = [Call::Read, Call::Open, Call::Inspect][number % 3];
                let plan = FaultPlan::new(call).nth(1 + number as u64 % 10);
                // One that fails once is made good by the catch-up itself.
                simulation.fail(if number % 2 == 0 { plan.for_good() } else { plan });
                let outcome = reader.catch_up();
                simulation.clear_faults();
                if outcome.is_err() {
                    failures += 1;
                    assert!(both(&reader).unwrap() == before);
                    reader.catch_up().unwrap();
                }
                assert!(both(&reader) == both(&db));
            }
            assert!(failures > 0, "no catch-up failed");
        });
    }
}

fn quiet() -> cleavedb::GcOptions {
    cleavedb::GcOptions { automatic: false, ..tiny_options().gc }
}

/// I9: a commit that failed for want of space may have been written in part, and its numbers are
/// given to others.
#[test]
fn i09_what_a_full_disk_takes_back_is_not_seen() {
    for seed in 0..12 {
        simulate(seed, STEPS, |env, simulation| {
            let options = Options { mapped_appends: seed % 2 == 0, ..tiny_options() };
            let db = open(env, options);
            db.create_keyspace("first").unwrap();
            db.create_keyspace("second").unwrap();
            let reader = open(env, following());
            let mut failed = 0;
            for number in 1..=150 {
                if number % 10 == 5 {
                    let left = env.random.next_u64() % 1500;
                    simulation.set_capacity(Some(simulation.used() + left));
                } else if number % 10 == 9 {
                    simulation.set_capacity(None);
                }
                match write(&db, number, &*env.random) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::DiskFull => failed += 1,
                    Err(error) => panic!("{error}"),
                }
                if number % 3 == 0 {
                    reader.catch_up().unwrap();
                    both(&reader);
                }
            }
            simulation.set_capacity(None);
            assert!(failed > 0, "the disk was never full");
            reader.catch_up().unwrap();
            assert!(both(&reader) == both(&db));
        });
    }
}

/// After a power failure, who follows the database anew sees what its opening for writing will see.
#[test]
fn i02_after_a_power_failure_a_follower_sees_what_recovery_does() {
    for seed in 0..20 {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(STEPS);
        let (env, again) = crashed(&env, &simulation, seed);
        again.run(|| {
            let reader = open(&env, following());
            let seen = both(&reader);
            let db = open(&env, tiny_options());
            assert!(seen == both(&db));
            if seen.is_some() {
                write(&db, 1000, &*env.random).unwrap();
                reader.catch_up().unwrap();
                assert!(both(&reader) == both(&db));
            }
        });
    }
}

/// Lets the power fail at some call of a writer.
fn crashed(env: &Env, simulation: &Simulation, seed: u64) -> (Env, Simulation) {
    simulation.crash_at(60 + 37 * seed);
    simulation.run(|| {
        let work = || -> cleavedb::Result<()> {
            let db = Db::builder(DIR).options(tiny_options()).env(env.clone()).open()?;
            db.create_keyspace("first")?;
            db.create_keyspace("second")?;
            for number in 1.. {
                write(&db, number, &*env.random)?;
                if number % 20 == 0 {
                    db.flush()?;
                }
            }
            Ok(())
        };
        assert!(work().is_err());
    });
    simulation.surviving(Survivors::Prefix, seed)
}
