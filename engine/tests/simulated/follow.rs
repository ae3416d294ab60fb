//! Tests of following beside a writer, where the threads of both take turns at every call: what the
//! follower reads is changed, removed and begun anew between any two of its calls.

use crate::client::{DIR, open, simulate, tiny_options};
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::env::random::Random;
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::{
    Db, Durability, ErrorKind, Keyspace, KeyspaceOptions, Options, ReadOptions, WriteBatch,
    WriteOptions,
};
use std::collections::BTreeMap;
use std::io;
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
        let pins = inner.random.next_u64().is_multiple_of(2);
        let options = move || Options { follow_pinned: pins, ..following() };
        let mut reader = open(&inner, options());
        let mut newest = 0;
        while !over.load(Ordering::Relaxed) {
            let least = seen.load(Ordering::Relaxed);
            if inner.random.next_u64() % 9 == 0 {
                reader = open(&inner, options());
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

/// I6, I9: of two commits in one group the second may fail for want of space, and the first is
/// taken back with it. A follower that has seen the first by then merges nothing of it into what it
/// reads later, when another commit has its number.
#[test]
fn i06_i09_operands_that_a_full_disk_takes_back_are_not_merged() {
    let memtable_bytes = 1 << 20;
    let keyspace = KeyspaceOptions { memtable_bytes, ..tiny_options().keyspace };
    let merge_operator = Some(cleavedb::merge_operators::ADD.to_owned());
    let sums = KeyspaceOptions { merge_operator, ..keyspace.clone() };
    let mut seen_back = 0;
    for seed in 0..24 {
        simulate(seed, STEPS, |env, simulation| {
            let (keyspace, segment_bytes) = (keyspace.clone(), 256 << 10);
            let options = Options { keyspace, segment_bytes, gc: quiet(), ..tiny_options() };
            let db = open(env, Options { mapped_appends: false, ..options.clone() });
            let sums = db.create_keyspace_with("sums", sums.clone()).unwrap();
            let reader = open(env, Options { follow: true, ..options });
            let read = |db: &Db| db.keyspace("sums").unwrap().get("sum").unwrap().unwrap();
            for _ in 0..20 {
                // So many that what they make is worth remembering.
                (0..40).for_each(|_| sums.merge("sum", "1").unwrap());
                let nth = 1 + env.random.next_u64() % 4;
                let plan = FaultPlan::new(Call::Write).error(io::ErrorKind::StorageFull);
                simulation.fail(plan.on(".seg").nth(nth));
                let before = read(&db);
                let (merging, putting) = (sums.clone(), db.default_keyspace());
                let merge = move || drop(merging.merge("sum", "1000"));
                let put = move || drop(putting.put("large", [7; 16 << 10]));
                let mut threads = vec![env.threads.spawn("merge", Box::new(merge)).unwrap()];
                threads.push(env.threads.spawn("put", Box::new(put)).unwrap());
                threads.into_iter().for_each(|it| it.join().unwrap());
                reader.catch_up().unwrap();
                seen_back += usize::from(read(&reader) != read(&db) && read(&db) == before);
                simulation.clear_faults();
                sums.merge("sum", "1").unwrap();
                reader.catch_up().unwrap();
                assert_eq!(read(&reader), read(&db), "seed {seed}");
            }
        });
    }
    assert!(seen_back > 0, "no follower has seen what was taken back");
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

/// I1, I6: threads that read a follower while another one has it catch up see whole batches and
/// whole ingests, and no state that is older than one that they saw.
#[test]
fn i01_i06_readers_of_a_follower_that_catches_up_see_whole_states() {
    let seeds: u64 = std::env::var("CLEAVEDB_SEEDS").map_or(12, |text| text.parse().unwrap());
    let first: u64 = std::env::var("CLEAVEDB_SEED").map_or(0, |text| text.parse().unwrap());
    for seed in first..first + seeds {
        simulate(seed, STEPS, |env, _| beside_readers(env));
    }
}

/// Returns the number of the ingest that is seen, of which all keys have it.
fn ingested(db: &Db) -> usize {
    let third = contents(&db.keyspace("third").unwrap(), &ReadOptions::new());
    let numbers: std::collections::BTreeSet<_> = third.values().collect();
    assert!(numbers.len() <= 1 && matches!(third.len(), 0 | KEYS), "I1: an ingest in part");
    numbers.first().map_or(0, |bytes| usize::from_le_bytes(bytes[..8].try_into().unwrap()))
}

fn beside_readers(env: &Env) {
    let db = open(env, tiny_options());
    for name in ["first", "second", "third"] {
        db.create_keyspace(name).unwrap();
    }
    let (acknowledged, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let follower = Arc::new(open(env, following()));
    let mut threads = Vec::new();
    for thread in 0..3 {
        let (seen, over, inner) = (acknowledged.clone(), is_over.clone(), env.clone());
        let reader = follower.clone();
        let work = move || {
            let mut newest = (0, 0);
            while !over.load(Ordering::Relaxed) {
                let least = if thread == 0 { seen.load(Ordering::Relaxed) } else { 0 };
                if thread == 0 {
                    reader.catch_up().unwrap();
                }
                let (_, found) = both(&reader).unwrap();
                let found = (found, ingested(&reader));
                assert!(found.0 >= newest.0 && found.1 >= newest.1, "I2: {found:?} {newest:?}");
                assert!(found.0.max(found.1) >= least, "I2: {found:?} after {least}");
                newest = found;
                inner.threads.yield_now();
            }
        };
        threads.push(env.threads.spawn("reader", Box::new(work)).unwrap());
    }
    let mut db = db;
    for number in 1..=90_usize {
        let random = env.random.next_u64() % 20;
        if random == 0 {
            let bytes = number.to_le_bytes();
            let some = (0..KEYS).map(|key| (format!("key{key:02}"), bytes.repeat(30)));
            db.keyspace("third").unwrap().ingest_sorted(some).unwrap();
        } else {
            write(&db, number, &*env.random).unwrap();
        }
        acknowledged.store(number, Ordering::Relaxed);
        maintain(&db, &*env.random).unwrap();
        match random {
            1 => db.checkpoint(format!("{DIR}-copy-{number}")).unwrap(),
            2 => {
                let other = db.create_keyspace("other").unwrap();
                other.put("one", value(number, 300)).unwrap();
                db.drop_keyspace("other").unwrap();
            }
            3 => {
                db.close().unwrap();
                db = open(env, tiny_options());
            }
            _ => {}
        }
    }
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|it| it.join().unwrap_or_else(|text| panic!("{text}")));
}

/// I2: an ingest is in the log before its tables are in the manifest, and a follower that has read
/// the manifest may find it, and what was committed behind it. It sees neither without the tables.
#[test]
fn i02_a_commit_behind_an_ingest_is_not_seen_without_it() {
    let seeds: u64 = std::env::var("CLEAVEDB_SEEDS").map_or(24, |text| text.parse().unwrap());
    for seed in 0..seeds {
        simulate(seed, STEPS, |env, _| ingests_beside(env));
    }
}

fn ingests_beside(env: &Env) {
    let db = open(env, tiny_options());
    let is_over = Arc::<AtomicBool>::default();
    let (over, inner) = (is_over.clone(), env.clone());
    let reader = move || {
        let reader = open(&inner, following());
        while !over.load(Ordering::Relaxed) {
            reader.catch_up().unwrap();
            let at = ReadOptions::new().snapshot(&reader.snapshot());
            let seen = contents(&reader.default_keyspace(), &at);
            let marker = seen.get(&b"marker"[..]);
            let ingested: Vec<_> = seen.iter().filter(|(key, _)| key[0] == b'i').collect();
            assert!(ingested.iter().all(|(_, value)| Some(*value) >= marker), "I2: {seen:?}");
            assert!(ingested.windows(2).all(|two| two[0].1 == two[1].1), "I1: {seen:?}");
            inner.threads.yield_now();
        }
    };
    let reader = env.threads.spawn("reader", Box::new(reader)).unwrap();
    let words = db.default_keyspace();
    for number in 0..25 {
        let content = value(number, 8);
        let pairs: Contents =
            (0..4).map(|key| (format!("i{key}").into_bytes(), content.clone())).collect();
        words.ingest_sorted(&pairs).unwrap();
        words.put("marker", &content).unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    reader.join().unwrap_or_else(|text| panic!("{text}"));
}
