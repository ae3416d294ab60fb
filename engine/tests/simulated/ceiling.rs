//! The bounds of space while a store is overwritten, with separation at write and at flush: what
//! value GC, flushes and compactions are about to write counts, too.

use crate::client::{open, simulate, tiny_options};
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation};
use cleavedb::{
    Db, Durability, GcOptions, KeyspaceOptions, Options, Separation, StallReason, WriteOptions,
};
use std::sync::Mutex;
use std::time::Duration;

pub(crate) const SEED: u64 = 5;
/// The limit of steps of a run; one that takes more hangs.
pub(crate) const STEPS: u64 = 30_000_000;
pub(crate) const KEYS: usize = 6000;
pub(crate) const VALUE_BYTES: usize = 4000;
/// Bytes of a key, as `put` makes it.
const KEY_BYTES: usize = 6;
/// Bytes that are live. The bounds mean something only for stores that are not tiny.
pub(crate) const LIVE: u64 = (KEYS * (KEY_BYTES + VALUE_BYTES)) as u64;

fn options(separation: Separation, memtable_bytes: u64) -> Options {
    let keyspace = KeyspaceOptions {
        separation,
        separation_threshold: 1000,
        memtable_bytes,
        table_bytes: 256 << 10,
        level_base_bytes: 4 << 20,
        level0_trigger: 4,
        ..KeyspaceOptions::default()
    };
    let gc = GcOptions { space_allowance_bytes: 0, ..GcOptions::default() };
    let segment_bytes = 1 << 20;
    let max_replay_bytes = 16 << 20;
    Options { keyspace, gc, segment_bytes, max_replay_bytes, level0_stop: 12, ..tiny_options() }
}

/// The ceiling of a store that has little room, and its settled bound.
pub(crate) const TIGHT: f64 = 1.3;
/// What such a store may take above its ceiling on average, per live byte: a quarter of a segment.
/// Writers are delayed near the ceiling and stopped nowhere.
const ALLOWANCE: f64 = (256 << 10) as f64 / LIVE as f64;
/// The same for one segment: with one of eight seeds a writer goes on for so long while the segment
/// that was moved last is not unlinked yet.
pub(crate) const ONE_SEGMENT: f64 = 4.0 * ALLOWANCE;
/// The number of seeds over which a mean is taken.
const SEEDS: u64 = 8;

/// Returns the options of such a store.
pub(crate) fn tight(separation: Separation) -> Options {
    let gc = GcOptions {
        max_space_amplification: TIGHT,
        settled_space_amplification: TIGHT,
        space_allowance_bytes: 0,
        ..GcOptions::default()
    };
    Options { gc, ..options(separation, 1 << 20) }
}

/// One put in so many is synced, and the log with it; `None` if flushes replace the log before.
pub(crate) type SyncedPart = Option<usize>;

const SYNCED_PARTS: [SyncedPart; 2] = [None, Some(16)];

pub(crate) fn put(db: &Db, number: usize, version: usize, synced: SyncedPart) {
    let value = value(number * 31 + version, VALUE_BYTES);
    let is_synced = synced.is_some_and(|part| (number + version).is_multiple_of(part));
    let durability = if is_synced { Durability::Sync } else { Durability::Os };
    let options = WriteOptions::new().durability(durability);
    db.default_keyspace().put_with(format!("k{number:05}"), value, &options).unwrap();
}

/// Overwrites the store at random twice. Returns the most space on the way.
fn overwrite_all(db: &Db, simulation: &Simulation, synced: SyncedPart) -> u64 {
    let mut most = 0;
    for count in 0..2 * KEYS {
        let number = (count.wrapping_mul(2_654_435_761) >> 7) % KEYS;
        put(db, number, 1 + count, synced);
        most = most.max(simulation.used());
    }
    most
}

/// Loads the store and overwrites it. Returns the most space per live byte on the way, and
/// that after a while without writes.
fn overwrite(
    env: &Env,
    simulation: &Simulation,
    options: Options,
    synced: SyncedPart,
) -> (f64, f64) {
    let db = open(env, options);
    (0..KEYS).for_each(|number| put(&db, number, 0, synced));
    db.wait_idle().unwrap();
    let most = overwrite_all(&db, simulation, synced);
    env.threads.sleep(Duration::from_secs(120));
    db.wait_idle().unwrap();
    let settled = simulation.used();
    assert!(db.check().unwrap().is_clean());
    (most as f64 / LIVE as f64, settled as f64 / LIVE as f64)
}

#[test]
fn space_stays_below_the_ceiling_and_settles_wherever_values_are_separated() {
    for (separation, synced) in cases() {
        simulate(SEED, STEPS, |env, simulation| {
            let options = options(separation, 1 << 20);
            let (most, settled) = overwrite(env, simulation, options, synced);
            let place = format!("{separation:?}, {synced:?} synced");
            println!("{place}: {most:.3}, settled {settled:.2}");
            assert!((1.5..2.0).contains(&most), "{place}: {most}");
            assert!((1.0..1.2).contains(&settled), "{place}: {settled}");
        });
    }
}

/// Returns when values are separated, and how much of the log is synced.
fn cases() -> impl Iterator<Item = (Separation, SyncedPart)> {
    let separations = [Separation::AtWrite, Separation::AtFlush];
    separations.into_iter().flat_map(|it| SYNCED_PARTS.map(|synced| (it, synced)))
}

/// Until a flush is installed, what it writes is in the log and in its files. With memtables of a
/// quarter of the garbage that is allowed, space passed the ceiling by that much.
#[test]
fn space_stays_below_the_ceiling_while_large_memtables_are_flushed() {
    for (seed, synced) in (SEED..SEED + 4).zip(SYNCED_PARTS.into_iter().cycle()) {
        simulate(seed, STEPS, |env, simulation| {
            let options = options(Separation::AtFlush, 6 << 20);
            let (most, settled) = overwrite(env, simulation, options, synced);
            println!("seed {seed}: {most:.2}, settled {settled:.2}");
            assert!((1.5..2.0).contains(&most), "seed {seed}: {most}");
            assert!((1.0..1.2).contains(&settled), "seed {seed}: {settled}");
        });
    }
}

/// A ceiling that is the settled bound, too, leaves little garbage to choose victims from: a fifth
/// of it is kept for what is under way. What a job delays, as holes that are recorded and segments
/// that were freed while it ran, counts; else space passes the ceiling by 0.03 to 0.05. Of 80 runs
/// the mean was 1.300, and three passed 1.31, one of them by 0.022: jobs met so.
#[test]
fn space_stays_near_a_tight_ceiling_wherever_values_are_separated() {
    for (separation, synced) in cases() {
        let sum = Mutex::new(0.0);
        for seed in SEED..SEED + SEEDS {
            simulate(seed, STEPS, |env, simulation| {
                let (most, settled) = overwrite(env, simulation, tight(separation), synced);
                let place = format!("seed {seed}, {separation:?}, {synced:?} synced");
                println!("{place}: {most:.3}, settled {settled:.3}");
                assert!((1.2..TIGHT + ONE_SEGMENT).contains(&most), "{place}: {most}");
                assert!((1.0..TIGHT).contains(&settled), "{place}: {settled}");
                *sum.lock().unwrap() += most;
            });
        }
        let mean = sum.into_inner().unwrap() / SEEDS as f64;
        assert!(mean < TIGHT + ALLOWANCE, "{separation:?}, {synced:?} synced: {mean}");
    }
}

/// What is live was not counted yet when a process begins to write. Until the end of the first
/// liveness scan all that is put counted as live, and a store of 1 GB passed a ceiling of 1.3 by up
/// to 0.15.
#[test]
fn space_stays_near_a_tight_ceiling_from_the_opening_on() {
    for (separation, synced) in cases() {
        let sum = Mutex::new(0.0);
        for seed in SEED..SEED + SEEDS {
            simulate(seed, STEPS, |env, simulation| {
                let db = open(env, tight(separation));
                (0..KEYS).for_each(|number| put(&db, number, 0, None));
                db.wait_idle().unwrap();
                drop(db);
                let db = open(env, tight(separation));
                let most = overwrite_all(&db, simulation, synced) as f64 / LIVE as f64;
                let place = format!("seed {seed}, {separation:?}, {synced:?} synced");
                println!("{place}: {most:.3}");
                assert!((1.2..TIGHT + ONE_SEGMENT).contains(&most), "{place}: {most}");
                *sum.lock().unwrap() += most;
            });
        }
        let mean = sum.into_inner().unwrap() / SEEDS as f64;
        assert!(mean < TIGHT + ONE_SEGMENT / 2.0, "{separation:?}, {synced:?} synced: {mean}");
    }
}

/// The flush of a memtable that holds all of a store takes as much space again. Such a store stood
/// at 2.24.
#[test]
fn space_stays_near_a_tight_ceiling_where_memtables_are_larger_than_the_store() {
    for separation in [Separation::AtWrite, Separation::AtFlush] {
        simulate(SEED, STEPS, |env, simulation| {
            let mut options = Options { max_replay_bytes: 512 << 20, ..tight(separation) };
            options.keyspace.memtable_bytes = 64 << 20;
            let db = open(env, options);
            (0..KEYS).for_each(|number| put(&db, number, 0, None));
            let most = overwrite_all(&db, simulation, None) as f64 / LIVE as f64;
            println!("{separation:?}: {most:.3}");
            assert!((1.2..TIGHT + 0.1).contains(&most), "{separation:?}: {most}");
        });
    }
}

/// A liveness scan that can't read a table is tried again and again, and finds nothing. Writers
/// were delayed for as long as that lasted.
#[test]
fn writers_do_not_wait_for_liveness_scans_that_fail() {
    for counted_before in [false, true] {
        simulate(SEED, STEPS, |env, simulation| {
            let db = open(env, tight(Separation::AtWrite));
            (0..KEYS).for_each(|number| put(&db, number, 0, None));
            db.wait_idle().unwrap();
            drop(db);
            let db = open(env, tight(Separation::AtWrite));
            if counted_before {
                overwrite_all(&db, simulation, None);
            }
            let before = told(&db);
            // Scans fail, and looks at the tables that lead to some segments.
            simulation.fail(FaultPlan::new(Call::Read).on(".tbl").for_good());
            let most = overwrite_all(&db, simulation, None) as f64 / LIVE as f64;
            let after = told(&db);
            println!("counted before {counted_before}: {before:?}, {after:?}, {most:.3}");
            assert!(after.failed > before.failed, "one was tried");
            assert_eq!(after.scans, before.scans, "none can be taken");
            assert!(after.delays < before.delays + 100, "{before:?} {after:?}");
        });
    }
}

/// What a database tells of its scans, and of writers that waited for space.
#[derive(Debug)]
struct Told {
    scans: u64,
    failed: u64,
    delays: u64,
}

fn told(db: &Db) -> Told {
    let stats = db.stats();
    let stall = stats.stalls.iter().find(|stall| stall.reason == StallReason::Space).unwrap();
    Told { scans: stats.gc.liveness_scans, failed: stats.background_errors, delays: stall.count }
}

/// What a reader holds for long is beyond the bounds of space, so no writer waits for it.
#[test]
fn writers_do_not_wait_for_what_an_iterator_holds() {
    let time = |holds: bool| {
        let taken = Mutex::new(Duration::ZERO);
        simulate(SEED, STEPS, |env, simulation| {
            let db = open(env, tight(Separation::AtWrite));
            (0..KEYS).for_each(|number| put(&db, number, 0, None));
            db.pause_gc();
            (0..KEYS / 2).for_each(|number| put(&db, number, 1, None));
            db.flush().unwrap();
            let iter = db.default_keyspace().iter();
            let iter = holds.then_some(iter);
            db.resume_gc();
            db.wait_idle().unwrap();
            env.threads.sleep(Duration::from_secs(10));
            let begun = env.clock.now();
            let most = overwrite_all(&db, simulation, None);
            *taken.lock().unwrap() = env.clock.now() - begun;
            println!("held {holds}: {most} bytes at most");
            drop(iter);
        });
        taken.into_inner().unwrap()
    };
    let (with, without) = (time(true), time(false));
    assert!(with < without * 5 / 4, "{with:?} instead of {without:?}");
}
