//! Tests of `SyncEvery` with a clock that advances between any two readings.

use crate::client::{DIR, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::Survivors;
use cleavedb::{Db, Durability, Options};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);
/// The time by which a sync may be late, because readings of the clock take long and other threads
/// may run first.
const LATE: Duration = Duration::from_millis(20);

fn open(env: &Env) -> Db {
    let options = Options { durability: Durability::SyncEvery(MILLISECOND), ..tiny_options() };
    Db::builder(DIR).options(options).env(env.clone()).open().expect("it opens")
}

/// Guards against a panic of the syncing thread: it subtracted a second reading of the clock from a
/// moment that the first reading had found to be ahead. If the moment had passed in between it
/// panicked, and writes went on without ever being synced.
#[test]
fn i2_what_was_written_long_enough_ago_survives_a_power_cut() {
    for seed in 0..40 {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            let db = open(&env);
            let keyspace = db.default_keyspace();
            for round in 0..200_u32 {
                keyspace.put(round.to_be_bytes(), [7; 40]).unwrap();
                env.threads.sleep(MILLISECOND / 5);
            }
            env.threads.sleep(MILLISECOND + LATE);
            let stats = db.stats();
            assert!(stats.background_error.is_none(), "seed {seed}");
            let errors = stats.numbers().find(|(name, _)| *name == "background_errors");
            assert_eq!(errors, Some(("background_errors", 0)), "seed {seed}");
            simulation.crash();
        });
        let env = simulation.restart(Survivors::LoseAll);
        simulation.run(|| {
            let db = open(&env);
            assert_eq!(db.default_keyspace().keys().count(), 200, "seed {seed}");
            db.close().unwrap();
        });
    }
}
