//! Writes that are synced by time, beside a clock that moves between any two of its readings.

use crate::client::{DIR, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::Survivors;
use cleavedb::{Db, Durability, Options};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);
/// A sync may come this much later than promised: long readings of the clock, and other threads
/// whose turn comes first.
const LATE: Duration = Duration::from_millis(20);

fn open(env: &Env) -> Db {
    let options = Options { durability: Durability::SyncEvery(MILLISECOND), ..tiny_options() };
    Db::builder(DIR).options(options).env(env.clone()).open().expect("it opens")
}

/// The syncing thread once subtracted a second reading of the clock from a moment that the first
/// reading had found to be ahead. It panicked if the moment had passed in between, and writes went
/// on without ever being synced.
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
