//! Value GC beside writers whose log is never synced, as flushes replace it: a liveness scan goes
//! by what tables have, and no power cut finds a value gone that only a lost entry hid.

use crate::client::{DIR, tiny_options};
use crate::crash::check_all;
use crate::overwrites::{numbers, of_a_prefix, overwrite};
use crate::random::Dice;
use crate::rotation::holding;
use cleavedb::env::Env;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::{Db, GcOptions, KeyspaceOptions, Options, Separation, Stats};
use std::sync::atomic::Ordering;

/// More calls than the creation of a database makes.
const CREATION: u64 = 40;
const VALUE_BYTES: usize = 300;

/// How much a run does.
#[derive(Clone, Copy)]
struct Size {
    keys: u64,
    commits: u64,
    memtable_bytes: u64,
}

/// Scans are so many that some come between two flushes, and sync the log.
const SMALL: Size = Size { keys: 60, commits: 900, memtable_bytes: 8 << 10 };
/// Flushes come more often than scans.
const LARGE: Size = Size { keys: 2000, commits: 12_000, memtable_bytes: 16 << 10 };

fn open(env: &Env, size: Size) -> cleavedb::Result<Db> {
    let keyspace = KeyspaceOptions {
        separation: Separation::AtFlush,
        memtable_bytes: size.memtable_bytes,
        ..tiny_options().keyspace
    };
    let gc = GcOptions {
        max_space_amplification: 2.0,
        settled_space_amplification: 1.2,
        space_allowance_bytes: 0,
        ..GcOptions::default()
    };
    let options = Options {
        keyspace,
        gc,
        segment_bytes: size.memtable_bytes * 3 / 2,
        max_replay_bytes: 1 << 20,
        update_table_bytes: 0,
        ..tiny_options()
    };
    Db::builder(DIR).options(options).env(env.clone()).open()
}

/// Overwrites a few keys until the crash, or to the end. Nothing of the log is synced unless the
/// engine asks for it.
fn run(seed: u64, size: Size, crash_at: Option<u64>) -> (Simulation, Option<Stats>) {
    let (env, simulation) = Env::simulated(seed);
    let (env, lets_go) = holding(&env);
    lets_go.store(false, Ordering::Relaxed);
    if let Some(call) = crash_at {
        simulation.crash_at(call);
    }
    let stats = simulation.run(|| {
        let opened = open(&env, size);
        let stats = opened.ok().map(|db| {
            overwrite(&db.default_keyspace(), size.keys, size.commits, VALUE_BYTES);
            let stats = db.stats();
            let errors = stats.background_errors;
            assert!(simulation.crashed() || errors == 0, "{:?}", stats.background_error);
            simulation.crash();
            lets_go.store(true, Ordering::Relaxed);
            stats
        });
        lets_go.store(true, Ordering::Relaxed);
        stats
    });
    (simulation, stats)
}

/// Checks that each key has its last value among the first commits, however many those are.
fn check((env, world): (Env, Simulation)) {
    world.run(|| {
        let db = open(&env, SMALL).unwrap_or_else(|error| panic!("it does not open: {error}"));
        let report = db.check().expect("a check can be made");
        assert!(report.is_clean(), "after recovery: {:?}", report.problems);
        let found = numbers(&db);
        assert_eq!(found, of_a_prefix(&found, SMALL.keys), "I2: a value of the first commits");
    });
}

/// I3, I6: guards against a scan that takes an older value for dead because of a newer one that is
/// in memory only.
#[test]
fn i02_i03_i06_a_value_that_only_a_lost_entry_hid_is_there() {
    let (mut failures, mut states) = (Vec::new(), 0);
    for seed in 0..10 {
        let (whole, stats) = run(seed, SMALL, None);
        let stats = stats.expect("it opens");
        assert!(stats.gc.liveness_scans > 1, "{} scans", stats.gc.liveness_scans);
        assert!(stats.gc.segments_relocated > 5, "{}", stats.gc.segments_relocated);
        let mut dice = Dice(seed + 5);
        for crash in 0..15 {
            let most = whole.mutations() - CREATION;
            let crash_at = (crash > 0).then(|| CREATION + dice.number_below(most));
            let (simulation, _) = run(seed, SMALL, crash_at);
            let random = (0..3).map(|seed| (Survivors::Random, seed));
            let others = [(Survivors::Prefix, 0), (Survivors::LoseAll, 0)];
            for (survivors, random_seed) in random.chain(others) {
                let place = format!("seed {seed}, crash at {crash_at:?}, {survivors:?}");
                let world = simulation.surviving(survivors, random_seed + 100 * seed);
                check_all(&place, &mut failures, || check(world));
                states += 1;
            }
        }
    }
    println!("{states} states");
    let first = &failures[..failures.len().min(5)];
    assert!(first.is_empty(), "{} failures:\n{}", failures.len(), first.join("\n"));
}

/// The device is spared the log of most of what was written though scans were taken meanwhile.
#[test]
fn scans_do_not_have_the_log_written() {
    let (mut spared, mut written, mut scans) = (0, 0, 0);
    for seed in 0..8 {
        let stats = run(seed, LARGE, None).1.expect("it opens");
        spared += stats.log_bytes_spared;
        written += stats.log_bytes_written;
        scans += stats.gc.liveness_scans;
    }
    assert!(scans > 6, "{scans} scans");
    assert!(spared > written / 2, "{spared} of {written} bytes, {scans} scans");
}
