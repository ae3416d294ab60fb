//! Tests of keyspaces that are dropped and created again under the same name while threads write to
//! them and read from them, also with a power failure at every call.

use crate::client::{DIR, tiny_options};
use crate::crash::check_all;
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::env::threads::{Join, Threads};
use cleavedb::{
    Db, Durability, Error, ErrorKind, Keyspace, KeyspaceOptions, Options, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAME: &str = "passing";
/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 300_000;

/// Returns options with which nothing has to wait for a flush.
fn roomy() -> Options {
    let tables = tiny_options().keyspace;
    let keyspace = KeyspaceOptions { memtable_bytes: 1 << 20, ..tables };
    Options { segment_bytes: 1 << 20, max_replay_bytes: 1 << 20, keyspace, ..tiny_options() }
}

fn open(env: &Env, options: Options) -> Db {
    let db = Db::builder(DIR).options(options).env(env.clone()).open();
    db.unwrap_or_else(|error| panic!("it does not open: {error}"))
}

fn spawn(env: &Env, work: impl FnOnce() + Send + 'static) -> Box<dyn Join> {
    env.threads.spawn("beside", Box::new(work)).unwrap()
}

fn join_all(threads: Vec<Box<dyn Join>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap_or_else(|text| panic!("{text}")));
}

fn assert_dropped(error: &Error) {
    assert!(error.to_string().contains("\"passing\" was dropped"), "{error}");
}

/// Puts until one is refused. Returns how many were acknowledged.
fn put_until_refused(keyspace: &Keyspace, letter: char) -> usize {
    for number in 0.. {
        let key = format!("{letter}{number}");
        if let Err(error) = keyspace.put(key, value(number, 20)) {
            assert_dropped(&error);
            return number;
        }
    }
    unreachable!("it is dropped at last")
}

/// Writes batches over two keyspaces until one is refused, which must leave nothing in the other.
fn batches_until_refused(db: &Db, keyspace: &Keyspace) {
    for number in 0.. {
        let key = format!("batch{number}");
        let mut batch = WriteBatch::new();
        batch.put(&db.default_keyspace(), &key, "1").put(keyspace, &key, "1");
        let outcome = db.write(batch);
        let found = db.default_keyspace().get(&key).unwrap();
        assert_eq!(found.is_some(), outcome.is_ok(), "{key}");
        if let Err(error) = outcome {
            return assert_dropped(&error);
        }
    }
}

/// Reads a key until a read is refused. Every read before that must find it.
fn get_until_refused(threads: &dyn Threads, keyspace: &Keyspace) {
    loop {
        // A read takes no lock, so no other thread of the simulation would ever run.
        threads.yield_now();
        match keyspace.get("first") {
            Ok(found) => assert!(found.is_some(), "an empty view of what was dropped is shown"),
            Err(error) => return assert_dropped(&error),
        }
    }
}

/// Operations after a drop are refused, and a commit that is acknowledged comes before it, so that
/// no commit is lost. Writers of other keyspaces are not affected.
#[test]
fn a_keyspace_is_dropped_between_two_commits() {
    for seed in 0..60 {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(STEPS);
        simulation.run(|| {
            let db = open(&env, roomy());
            let passing = db.open_or_create_keyspace(NAME).unwrap();
            passing.put("first", "1").unwrap();
            db.flush().unwrap();
            let mut threads = Vec::new();
            for letter in ['a', 'b', 'c'] {
                let passing = passing.clone();
                threads.push(spawn(&env, move || {
                    put_until_refused(&passing, letter);
                }));
            }
            let (beside, other) = (db.clone(), passing.clone());
            threads.push(spawn(&env, move || batches_until_refused(&beside, &other)));
            let (reader, turns) = (passing.clone(), env.threads.clone());
            threads.push(spawn(&env, move || get_until_refused(&*turns, &reader)));
            let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::default());
            let goes_on = seed % 2 == 0;
            if goes_on {
                let (db, is_over) = (db.clone(), is_over.clone());
                let count: Arc<AtomicUsize> = Arc::clone(&count);
                threads.push(spawn(&env, move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let number = count.fetch_add(1, Ordering::Relaxed);
                        db.default_keyspace().put(format!("d{number}"), "1").unwrap();
                    }
                }));
            }
            env.threads.sleep(Duration::from_micros(50 + 40 * seed));
            db.drop_keyspace(NAME).unwrap();
            let seen = db.visible_seqno();
            assert_eq!(db.keyspaces(), ["default"]);
            // The keyspace that is created anew at once has nothing of the refused writes.
            let again = db.open_or_create_keyspace(NAME).unwrap();
            is_over.store(true, Ordering::Relaxed);
            join_all(threads);
            assert!(goes_on || db.visible_seqno() == seen, "seed {seed}: a commit after the drop");
            assert_eq!(again.iter().count(), 0);
            let found = db.default_keyspace().prefix("d").count();
            assert_eq!(found, count.load(Ordering::Relaxed), "seed {seed}");
        });
    }
}

/// A drop that can't be made durable has no effect: concurrent writers and readers are not
/// affected, and what they flush is durable (I9).
#[test]
fn i09_a_drop_that_fails_is_noticed_by_nobody() {
    for seed in 0..40 {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(STEPS);
        let count = simulation.run(|| {
            let db = open(&env, roomy());
            let passing = db.open_or_create_keyspace(NAME).unwrap();
            passing.put("first", "1").unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
            let is_over = Arc::new(AtomicBool::new(false));
            let count = Arc::new(AtomicUsize::new(0));
            let (writer, until, counted) = (passing.clone(), is_over.clone(), count.clone());
            let writes = spawn(&env, move || {
                while !until.load(Ordering::Relaxed) {
                    let number = counted.fetch_add(1, Ordering::Relaxed);
                    writer.put(format!("n{number}"), value(number, 20)).unwrap();
                    assert!(writer.get("first").unwrap().is_some());
                }
            });
            let full =
                FaultPlan::new(Call::Write).on(".man").error(std::io::ErrorKind::StorageFull);
            simulation.fail(full.for_good());
            env.threads.sleep(Duration::from_micros(40 * seed));
            for _ in 0..3 {
                let error = db.drop_keyspace(NAME).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
            }
            is_over.store(true, Ordering::Relaxed);
            join_all(vec![writes]);
            simulation.clear_faults();
            passing.flush().unwrap();
            count.load(Ordering::Relaxed)
        });
        let env = simulation.restart(Survivors::LoseAll);
        simulation.run(|| {
            let db = open(&env, roomy());
            let passing = db.keyspace(NAME).expect("it was not dropped");
            assert_eq!(passing.prefix("n").count(), count);
        });
    }
}

/// The known state of one life of the name: a keyspace from its creation to its drop.
#[derive(Clone, Default)]
struct Life {
    is_created: bool,
    is_dropping: bool,
    is_dropped: bool,
    /// The commits that were acknowledged as durable.
    synced: Vec<usize>,
}

/// The known states, by life.
type Known = Arc<Mutex<Vec<Life>>>;

fn note(known: &Known, life: usize, change: impl FnOnce(&mut Life)) {
    let mut known = known.lock().unwrap();
    let lives = known.len().max(life + 1);
    known.resize_with(lives, Life::default);
    change(&mut known[life]);
}

fn key_of(life: usize, number: usize) -> String {
    format!("life{life} {number:04}")
}

/// Writes to both keyspaces at once until a write is refused or the power fails.
fn write_in(db: &Db, passing: &Keyspace, known: &Known, life: usize, first: usize) {
    for number in (first..).step_by(2) {
        let len = [10, 300, 700][number % 3];
        let mut batch = WriteBatch::new();
        batch.put(&db.default_keyspace(), key_of(life, number), value(life, len));
        batch.put(passing, key_of(life, number), value(life, len));
        let is_synced = number % 3 == 0;
        let durability = if is_synced { Durability::Sync } else { Durability::Os };
        if db.write_with(batch, &WriteOptions::new().durability(durability)).is_err() {
            return;
        }
        if is_synced {
            note(known, life, |it| it.synced.push(number));
        }
    }
}

/// Creates and drops one keyspace after the other under the same name.
fn lives(env: &Env, db: &Db, known: &Known) -> Result<(), Error> {
    for life in 0..4 {
        note(known, life, |_| {});
        let passing = db.open_or_create_keyspace(NAME)?;
        note(known, life, |it| it.is_created = true);
        let mut threads = Vec::new();
        for first in 0..2 {
            let (db, passing, known) = (db.clone(), passing.clone(), known.clone());
            let work = move || write_in(&db, &passing, &known, life, first);
            threads.push(spawn(env, work));
        }
        env.threads.sleep(Duration::from_micros(300 * (life as u64 + 1)));
        note(known, life, |it| it.is_dropping = true);
        let dropped = db.drop_keyspace(NAME);
        if dropped.is_ok() {
            note(known, life, |it| it.is_dropped = true);
            // In odd lives the writers are not joined, so they may run into the next life.
            if life % 2 == 0 {
                join_all(threads);
            }
        } else {
            join_all(threads);
        }
        dropped?;
    }
    Ok(())
}

fn live(env: &Env, simulation: &Simulation, known: &Known) {
    let Ok(db) = Db::builder(DIR).options(tiny_options()).env(env.clone()).open() else {
        return assert!(simulation.crashed(), "it opens unless the power is off");
    };
    let outcome = lives(env, &db, known);
    if let Err(error) = outcome {
        assert!(simulation.crashed(), "nothing fails unless the power is off: {error}");
    }
}

/// Returns the pairs of a keyspace.
fn contents(keyspace: &Keyspace) -> BTreeMap<String, Vec<u8>> {
    let pairs = keyspace.iter().map(|pair| pair.unwrap_or_else(|error| panic!("{error}")));
    pairs.map(|(key, value)| (String::from_utf8_lossy(&key).into_owned(), value.to_vec())).collect()
}

/// Opens what a crash left. No life may contain data of another, and none may be half there.
fn recover(env: &Env, known: &[Life]) {
    let db = open(env, tiny_options());
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let default = contents(&db.default_keyspace());
    for (life, it) in known.iter().enumerate() {
        let is_there = |number: &usize| default.contains_key(&key_of(life, *number));
        assert!(it.synced.iter().all(is_there), "the other half of life {life} is lost");
    }
    let last = known.iter().rposition(|it| it.is_created);
    match db.keyspace(NAME) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            let may_be_gone = last.is_none_or(|last| known[last].is_dropping);
            assert!(may_be_gone, "life {last:?} is gone");
        }
        Ok(passing) => {
            let found = contents(&passing);
            // It is the life whose creation was cut short, or the last that was not dropped.
            let first = known.iter().rposition(|it| it.is_dropped).map_or(0, |life| life + 1);
            let life_of = |key: &String| {
                (first..known.len()).find(|life| key.starts_with(&format!("life{life} ")))
            };
            let found_lives: Vec<_> = found.keys().map(life_of).collect();
            let life = found_lives.first().copied().flatten();
            assert!(found_lives.iter().all(|it| it.is_some() && *it == life), "{found_lives:?}");
            let life = life.or(last.filter(|&life| life + 1 == known.len() && life >= first));
            let synced = life.map_or(&[][..], |life| &known[life].synced);
            for number in synced {
                let key = key_of(life.unwrap(), *number);
                assert!(found.contains_key(&key), "{key} is lost");
            }
            let prefix = life.map_or("none".to_owned(), |life| format!("life{life} "));
            let other = default.iter().filter(|(key, _)| key.starts_with(&prefix));
            assert!(other.eq(found.iter()), "a batch is there by half");
            db.drop_keyspace(NAME).unwrap();
        }
    }
    let again = db.open_or_create_keyspace(NAME).unwrap();
    assert_eq!(contents(&again).len(), 0, "what was dropped came back");
    again.put("new", value(1, 300)).unwrap();
    db.close().unwrap();
    let db = open(env, tiny_options());
    assert_eq!(contents(&db.open_or_create_keyspace(NAME).unwrap()).len(), 1);
    assert_eq!(contents(&db.default_keyspace()), default);
}

#[test]
fn i06_a_crash_at_every_call_beside_keyspaces_that_come_and_go() {
    let mut failures = Vec::new();
    for seed in [3, 4] {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| live(&env, &simulation, &Known::default()));
        let last = simulation.mutations();
        println!("{last} calls");
        for call in 1..=last {
            let (env, simulation) = Env::simulated(seed);
            simulation.limit_steps(STEPS);
            simulation.crash_at(call);
            let known = Known::default();
            simulation.run(|| live(&env, &simulation, &known));
            let known = known.lock().unwrap().clone();
            let survivors =
                [Survivors::LoseAll, Survivors::Prefix, Survivors::TornLast, Survivors::Random];
            for (draw, policy) in (1..).zip(survivors) {
                let place = format!("seed {seed}, crash at {call} of {last}, {policy:?}");
                let (env, world) = simulation.surviving(policy, call * 10 + draw);
                check_all(&place, &mut failures, || world.run(|| recover(&env, &known)));
            }
        }
    }
    let shown = &failures[..failures.len().min(10)];
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), shown.join("\n"));
}

/// Nobody has put or deleted anything, so only what tables have let go of says that there is less
/// that is live.
#[test]
fn the_space_of_a_dropped_keyspace_comes_back_from_segments_that_others_use() {
    crate::client::simulate(7, STEPS, |env, _| {
        let db = open(env, tiny_options());
        let (stays, goes) = (db.default_keyspace(), db.create_keyspace(NAME).unwrap());
        for number in 0..600 {
            // Of each segment a little less is garbage than makes it worth it by itself.
            let keyspace = if number % 9 < 5 { &stays } else { &goes };
            keyspace.put(format!("k{number:04}"), value(number, 900)).unwrap();
        }
        db.flush().unwrap();
        let rest = || env.threads.sleep(Duration::from_secs(60));
        rest();
        db.gc().unwrap();
        db.drop_keyspace(NAME).unwrap();
        rest();
        let (taken, live) = (crate::client::file_bytes(env, "seg"), 600 * 5 / 9 * 900);
        assert!(taken < live / 10 * 13, "{taken} bytes for {live} live ones");
        drop(goes);
    });
}
