//! Separation that the engine chooses while writers wait for value GC.

use crate::ceiling::{KEYS, LIVE, ONE_SEGMENT, SEED, STEPS, TIGHT, put, tight};
use crate::client::{open, simulate};
use cleavedb::env::sim::Simulation;
use cleavedb::{Db, Separation};
use std::ops::Range;

/// Returns when values are separated, and why.
fn choice(db: &Db) -> (Separation, &'static str) {
    let keyspace = &db.stats().keyspaces[0];
    (keyspace.separation, keyspace.separation_reason.unwrap())
}

/// Writes these versions, each of one of `keys` keys at random. Returns the most space on the way,
/// per live byte.
fn overwrite(db: &Db, simulation: &Simulation, keys: usize, versions: Range<usize>) -> f64 {
    let mut most = 0;
    for version in versions {
        put(db, (version.wrapping_mul(2_654_435_761) >> 7) % keys, version, None);
        most = most.max(simulation.used());
    }
    most as f64 / LIVE as f64
}

/// Near a tight ceiling, uniform updates are separated at write. Updates of few keys die in
/// memtables, so they are separated at flush, although writers were delayed before.
#[test]
fn uniform_updates_are_separated_at_write_while_writers_are_delayed() {
    for seed in SEED..SEED + 4 {
        simulate(seed, STEPS, |env, simulation| {
            let db = open(env, tight(Separation::Auto));
            (0..KEYS).for_each(|number| put(&db, number, 0, None));
            db.wait_idle().unwrap();
            assert_eq!(choice(&db), (Separation::AtFlush, "log_spared"));

            let most = overwrite(&db, simulation, KEYS, 1..2 * KEYS);
            assert_eq!(choice(&db), (Separation::AtWrite, "delayed"), "seed {seed}");
            assert!(most < TIGHT + ONE_SEGMENT, "seed {seed}: {most}");
            let keyspace = &db.stats().keyspaces[0];
            assert!(keyspace.separation_delayed_bytes > 0);
            assert!(keyspace.separation_absorbed_bytes * 10 < keyspace.separation_written_bytes);

            let most = overwrite(&db, simulation, 50, 2 * KEYS..5 * KEYS);
            assert_eq!(choice(&db), (Separation::AtFlush, "log_spared"), "seed {seed}");
            assert!(most < TIGHT + ONE_SEGMENT, "seed {seed}: {most}");
        });
    }
}

/// Memtables that may be larger than the log that is left unsynced are full before near a tight
/// ceiling. The choice took all of their log for kept once values were separated at write, and
/// stayed there whatever was overwritten.
#[test]
fn memtables_that_space_keeps_small_spare_the_log_whatever_is_allowed() {
    let mut options = tight(Separation::Auto);
    options.segment_bytes = 3 << 20;
    options.keyspace.memtable_bytes = 8 << 20;
    for seed in SEED..SEED + 4 {
        simulate(seed, STEPS, |env, simulation| {
            let db = open(env, options.clone());
            (0..KEYS).for_each(|number| put(&db, number, 0, None));
            db.wait_idle().unwrap();
            overwrite(&db, simulation, KEYS, 1..4 * KEYS);
            assert_eq!(choice(&db), (Separation::AtWrite, "delayed"), "seed {seed}");
            overwrite(&db, simulation, 50, 4 * KEYS..8 * KEYS);
            assert_eq!(choice(&db), (Separation::AtFlush, "log_spared"), "seed {seed}");
        });
    }
}
