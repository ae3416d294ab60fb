//! Tests of databases that several threads close at once.

use crate::client::{DIR, open, simulate, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Survivors};
use cleavedb::{Db, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 300_000;

/// Closes the database on another thread and then, after `head_start`, on this one. Returns what
/// comes of both; `look` is called once this thread's close has returned.
fn close_twice(
    env: &Env,
    db: Db,
    head_start: Duration,
    look: impl FnOnce(),
) -> [Result<(), cleavedb::Error>; 2] {
    let (other, outcome) = (db.clone(), Arc::new(Mutex::new(None)));
    let told = outcome.clone();
    let close = move || *told.lock().unwrap() = Some(other.close());
    let thread = env.threads.spawn("closes", Box::new(close)).unwrap();
    env.threads.sleep(head_start);
    let own = db.close();
    look();
    thread.join().unwrap_or_else(|text| panic!("{text}"));
    let other = outcome.lock().unwrap().take();
    [own, other.expect("it has ended")]
}

/// Symptom: a close returned at once while another thread was still closing, so that the directory
/// was locked and what was committed could be lost. Cause: only the first one did anything, and
/// nobody waited for it. Now all return when it is done.
#[test]
fn i02_each_close_returns_when_all_is_durable_and_the_directory_is_free() {
    for seed in 0..60 {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(STEPS);
        simulation.run(|| {
            let db = open(&env, tiny_options());
            db.default_keyspace().put("k", "v").unwrap();
            let look = || {
                let opened = Db::builder(DIR).options(tiny_options()).env(env.clone()).open();
                let again = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert!(again.default_keyspace().get("k").unwrap().is_some());
                simulation.crash();
            };
            let closed = close_twice(&env, db, Duration::from_micros(20 * seed), look);
            assert!(closed.iter().all(Result::is_ok), "seed {seed}: {closed:?}");
        });
        let env = simulation.restart(Survivors::LoseAll);
        simulation.run(|| {
            let db = open(&env, tiny_options());
            assert!(db.default_keyspace().get("k").unwrap().is_some(), "seed {seed}");
        });
    }
}

#[test]
fn i08_each_close_fails_if_the_sync_does() {
    for seed in 0..20 {
        simulate(seed, STEPS, |env, simulation| {
            let db = open(env, tiny_options());
            db.default_keyspace().put("k", "v").unwrap();
            simulation.fail(FaultPlan::new(Call::Sync).on(".seg").for_good());
            let third = db.clone();
            let head_start = Duration::from_micros(20 * seed);
            for closed in close_twice(env, db, head_start, || ()) {
                assert_eq!(closed.unwrap_err().kind(), ErrorKind::ReadOnly, "seed {seed}");
            }
            third.close().expect_err("it was closed with an error");
        });
    }
}
