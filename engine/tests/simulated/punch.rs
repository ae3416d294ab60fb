//! Tests of punching holes: a power failure at every call while holes are recorded and punched, and
//! at the next opening, and disks that can't punch holes or fail to.

use crate::client::{DIR, read_all, tiny_options};
use crate::crash::check_all;
use crate::model::{Contents, difference};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::{Db, Durability, GcOptions, KeyspaceOptions, Options, Separation, WriteOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

const KEYS: usize = 16;
const VALUE: usize = 24 << 10;
const SEED: u64 = 31;

/// Returns options for segments with a few values of six blocks each, without automatic GC.
fn options() -> Options {
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    let mut options = Options { segment_bytes: 128 << 10, gc, ..tiny_options() };
    options.max_replay_bytes = 1 << 20;
    options
}

fn open(env: &Env) -> Db {
    Db::builder(DIR).options(options()).env(env.clone()).open().expect("it opens")
}

fn value(number: usize, version: u8) -> Vec<u8> {
    let mut value = vec![version; VALUE];
    value[..8].copy_from_slice(&(number as u64).to_le_bytes());
    value
}

/// Puts keys and overwrites two of three, durably. Returns the contents.
fn fill(db: &Db) -> Contents {
    let mut contents = Contents::new();
    let write = WriteOptions::new().durability(Durability::Sync);
    for version in [1, 2] {
        for number in (0..KEYS).filter(|number| version == 1 || number % 3 > 0) {
            let (key, value) = (format!("k{number:02}"), value(number, version));
            db.default_keyspace().put_with(&key, &value, &write).unwrap();
            contents.insert(key.into_bytes(), value);
        }
    }
    contents
}

fn small_at_flush(memtable_bytes: u64) -> KeyspaceOptions {
    KeyspaceOptions { separation: Separation::AtFlush, memtable_bytes, ..options().keyspace }
}

/// Puts small values in a keyspace that separates them at a flush, so that they lie in the order of
/// their keys, and deletes neighbours, durably. Returns the contents.
fn fill_with_neighbours(db: &Db) -> Contents {
    db.default_keyspace().set_options(small_at_flush(1 << 20)).unwrap();
    let write = WriteOptions::new().durability(Durability::Sync);
    let (mut contents, keyspace) = (Contents::new(), db.default_keyspace());
    for number in 0..400 {
        let (key, value) = (format!("k{number:03}"), vec![number as u8; 900]);
        keyspace.put_with(&key, &value, &write).unwrap();
        contents.insert(key.into_bytes(), value);
    }
    db.flush().unwrap();
    for number in (20..150).chain(200..380) {
        let key = format!("k{number:03}");
        keyspace.delete_with(&key, &write).unwrap();
        contents.remove(key.as_bytes());
    }
    db.flush().unwrap();
    contents
}

fn assert_contents(db: &Db, wanted: &Contents) {
    let found = read_all(db).unwrap_or_else(|error| panic!("a value does not read: {error}"));
    let text = difference(wanted, &found["default"]);
    assert!(text.is_empty(), "{text}");
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Fills the database and makes holes. Returns the number of the first call after filling, and the
/// contents.
fn run(simulation: &Simulation, env: &Env, fill: fn(&Db) -> Contents) -> (u64, Contents) {
    let db = open(env);
    let contents = fill(&db);
    db.wait_idle().unwrap();
    // The last one so far may be the sync of the last put, and a crash there may lose that.
    let first = simulation.mutations() + 1;
    (first, punch(&db).map(|_| contents).unwrap_or_default())
}

/// Runs GC until everything is punched. Returns the number of segments that have new holes.
fn punch(db: &Db) -> Result<u64, cleavedb::Error> {
    let report = db.gc()?;
    db.wait_idle()?;
    Ok(report.segments_punched)
}

/// Returns the allocated bytes of all segments, and the sum of their lengths.
fn sizes(env: &Env) -> (u64, u64) {
    let names = env.fs.list(Path::new(DIR)).unwrap();
    let paths = names.iter().filter(|name| name.extension().is_some_and(|it| it == "seg"));
    let measures = paths.map(|name| env.fs.measure(&Path::new(DIR).join(name)).unwrap());
    measures.fold((0, 0), |sum, it| (sum.0 + it.allocated, sum.1 + it.len))
}

#[test]
fn i05_a_crash_at_every_call_of_punching() {
    crash_at_every_call(fill);
}

/// Only large values were punched. Small ones that had died with their neighbours, as those that
/// were put in order or deleted by their keys, had the rest of their segments moved.
#[test]
fn i05_a_crash_at_every_call_of_punching_what_neighbours_leave() {
    crash_at_every_call(fill_with_neighbours);
}

#[test]
fn neighbours_that_are_deleted_leave_a_hole_and_nothing_moves() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open(&env);
        let wanted = fill_with_neighbours(&db);
        let report = db.gc().unwrap();
        assert_eq!((report.bytes_written, report.values_moved), (0, 0), "{report:?}");
        assert!(report.segments_punched > 0, "{report:?}");
        assert_contents(&db, &wanted);
    });
}

/// A short hole of neighbours wins more for what it costs than a move does. It used up the list of
/// what is live in its segment, in which every second value was dead, and these stayed: space
/// settled at 2.0. What is left beside the holes is moved now, where it is much.
#[test]
fn holes_do_not_keep_the_rest_from_being_moved() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open(&env);
        let options = small_at_flush(8 << 20);
        db.default_keyspace().set_options(options).unwrap();
        let key = |number: usize| format!("k{number:04}");
        let is_dead = |number: usize| number.is_multiple_of(2) || number % 200 < 90;
        for number in 0..2000 {
            db.default_keyspace().put(key(number), [number as u8; 900]).unwrap();
        }
        db.flush().unwrap();
        for number in (0..2000).filter(|number| is_dead(*number)) {
            db.default_keyspace().delete(key(number)).unwrap();
        }
        let report = db.gc().unwrap();
        assert!(report.segments_punched > 0 && report.values_moved > 0, "{report:?}");
        let live = (0..2000).filter(|number| !is_dead(*number)).count() * 905;
        let (taken, _) = sizes(&env);
        assert!(taken < live as u64 / 4 * 5, "{taken} for {live}");
        assert!(db.check().unwrap().is_clean());
    });
}

fn crash_at_every_call(fill: fn(&Db) -> Contents) {
    let (env, simulation) = Env::simulated(SEED);
    let (first, wanted, last, punches) = simulation.run(|| {
        let (first, wanted) = run(&simulation, &env, fill);
        let (taken, lengths) = sizes(&env);
        assert!(taken + 4 * (VALUE as u64) < lengths, "{taken} of {lengths}: there are holes");
        (first, wanted, simulation.mutations(), simulation.calls(Call::Punch))
    });
    assert!(punches > 5, "{punches} calls, five of them those of the probe");
    let mut failures = Vec::new();
    for call in first..=last {
        let (env, simulation) = Env::simulated(SEED);
        simulation.crash_at(call);
        simulation.run(|| {
            let run = std::panic::AssertUnwindSafe(|| run(&simulation, &env, fill));
            drop(std::panic::catch_unwind(run))
        });
        assert!(simulation.crashed() || call == last, "it ended at the crash");
        let survivors = [
            (Survivors::LoseAll, 1),
            (Survivors::KeepAll, 2),
            (Survivors::Prefix, 3),
            (Survivors::TornLast, 4),
            (Survivors::Random, 5),
            (Survivors::Random, 6),
        ];
        for (policy, draw) in survivors {
            let place = format!("crash at {call} of {first} to {last}, {policy:?}");
            let (env, world) = simulation.surviving(policy, call * 10 + draw);
            check_all(&place, &mut failures, || world.run(|| recover(&env, &wanted)));
        }
    }
    let shown = &failures[..failures.len().min(10)];
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), shown.join("\n"));
}

/// Opens after a crash. Nothing may be lost, and the space of the holes is free in the end.
fn recover(env: &Env, wanted: &Contents) {
    let db = open(env);
    assert_contents(&db, wanted);
    db.wait_idle().unwrap();
    punch(&db).unwrap();
    assert_contents(&db, wanted);
    db.close().unwrap();
    let (taken, _) = sizes(env);
    let live = (KEYS * VALUE) as u64;
    assert!(taken < live + live / 2, "{taken} for {live}");
    let db = open(env);
    assert_contents(&db, wanted);
    db.wait_idle().unwrap();
    assert_eq!(db.stats().gc.punches, 0, "all was done");
}

/// Fills a database, makes punching fail by `plan`, and calls `check`.
fn with_fault(plan: FaultPlan, check: impl FnOnce(Db, &Contents, &Env, &Simulation)) {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open(&env);
        let contents = fill(&db);
        db.wait_idle().unwrap();
        simulation.fail(plan);
        check(db, &contents, &env, &simulation);
    });
}

#[test]
fn a_disk_that_punches_no_holes_has_its_values_moved() {
    let plan = FaultPlan::new(Call::Punch).for_good().error(ErrorKind::Unsupported);
    with_fault(plan, |db, contents, env, simulation| {
        assert_eq!(punch(&db).unwrap(), 0);
        assert_eq!(simulation.calls(Call::Punch), 1, "once is enough to know");
        let (taken, live) = (sizes(env).0, (KEYS * VALUE) as u64);
        assert!(taken < live + live / 2, "{taken} for {live}");
        assert_contents(&db, contents);
    });
}

/// Punching can fail on a full disk, where a hole in the middle of an extent needs room for another
/// extent.
#[test]
fn a_hole_that_fails_is_tried_again() {
    let plan = FaultPlan::new(Call::Punch).nth(6).for_good().error(ErrorKind::StorageFull);
    with_fault(plan, |db, contents, env, simulation| {
        // A job that ends meanwhile may hold a version, for which holes wait until the next call.
        assert!((0..3).any(|_| db.gc().is_err()), "it is told");
        // Background GC tries other segments, and fails there as well.
        env.threads.sleep(Duration::from_secs(30));
        assert_contents(&db, contents);
        for _ in 0..3 {
            env.threads.sleep(Duration::from_secs(30));
            let told = db.stats().background_error.expect("for as long as it lasts").to_string();
            assert!(told.contains(".seg"), "{told}");
            let warnings = db.space().unwrap().warnings;
            assert!(warnings.iter().any(|it| it.contains("holes wait")), "{warnings:?}");
        }
        let (before, punches) = (sizes(env).0, db.stats().gc.punches);
        simulation.clear_faults();
        env.threads.sleep(Duration::from_secs(30));
        let stats = db.stats();
        assert!(stats.gc.punches > punches, "and then done");
        assert!(stats.background_error.is_none());
        assert!(sizes(env).0 < before);
        assert_contents(&db, contents);
        db.close().unwrap();
        let db = open(env);
        db.wait_idle().unwrap();
        assert_eq!(db.stats().gc.punches, 0, "nothing is left to the next opening");
        assert_contents(&db, contents);
    });
}
