//! Ingest in the simulation: what a power cut leaves of it, the check of transactions, and a full
//! disk. Faults that are planted in the engine are noticed.

use crate::client::{DIR, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::planted::{Planted, PlantedFault};
use cleavedb::env::sim::Survivors;
use cleavedb::{Db, ErrorKind, IngestOptions, Options};

fn open(env: &Env) -> Db {
    Db::builder(DIR).options(tiny_options()).env(env.clone()).open().expect("it opens")
}

fn world(seed: u64, fault: Option<PlantedFault>) -> (Env, cleavedb::env::sim::Simulation) {
    let (mut env, simulation) = Env::simulated(seed);
    env.planted = fault.map_or_else(Planted::default, Planted::fault);
    (env, simulation)
}

/// Returns what a power cut right after an ingest leaves of a write before it, and of the ingest.
fn after_a_power_cut(fault: Option<PlantedFault>) -> (bool, bool) {
    let (env, simulation) = world(3, fault);
    simulation.run(|| {
        let keyspace = open(&env).default_keyspace();
        keyspace.put("before", "1").unwrap();
        keyspace.ingest_sorted([("x", "2"), ("y", "3")]).unwrap();
        simulation.crash();
    });
    let env = simulation.restart(Survivors::LoseAll);
    simulation.run(|| {
        let keyspace = open(&env).default_keyspace();
        let there = |key| keyspace.get(key).unwrap().is_some();
        assert_eq!(there("x"), there("y"), "an ingest is there as a whole or not at all");
        (there("before"), there("x"))
    })
}

#[test]
fn i02_what_came_before_an_ingest_is_as_durable() {
    assert_eq!(after_a_power_cut(None), (true, true));
    let planted = after_a_power_cut(Some(PlantedFault::IngestUnsynced));
    assert_ne!(planted, (true, true), "the test notices a log that is not synced");
}

/// Returns true if a transaction that has read a key fails after the ingest of it.
fn conflicts(fault: Option<PlantedFault>) -> bool {
    let (env, simulation) = world(5, fault);
    simulation.run(|| {
        let db = open(&env);
        let keyspace = db.default_keyspace();
        keyspace.put("x", "1").unwrap();
        db.flush().unwrap();
        let transaction = db.begin();
        assert!(transaction.get(&keyspace, "x").unwrap().is_some());
        transaction.put(&keyspace, "y", "2").unwrap();
        keyspace.ingest_sorted([("x", "2")]).unwrap();
        transaction.commit().is_err_and(|error| error.kind() == ErrorKind::Conflict)
    })
}

#[test]
fn i06_the_check_of_transactions_knows_of_ingests() {
    assert!(conflicts(None));
    assert!(!conflicts(Some(PlantedFault::IngestForgotten)), "the test notices what is forgotten");
}

/// On a full disk an ingest fails with that error, leaves nothing, and works once there is room.
#[test]
fn i09_an_ingest_that_finds_no_room_leaves_nothing() {
    let (env, simulation) = world(7, None);
    simulation.run(|| {
        let db = Db::builder(DIR).options(Options { ..tiny_options() }).env(env.clone());
        let db = db.open().unwrap();
        let keyspace = db.default_keyspace();
        keyspace.put("k0500", "before").unwrap();
        let pairs = || (0..1000).map(|number| (format!("k{number:04}"), vec![7u8; 300]));
        simulation.set_capacity(Some(simulation.used() + 60_000));
        let error = keyspace.ingest_sorted(pairs()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        assert_eq!(keyspace.iter().count(), 1);
        simulation.set_capacity(None);
        let report = keyspace.ingest_sorted_with(pairs(), &IngestOptions::new().below(true));
        let report = report.unwrap();
        assert_eq!((report.entries, report.skipped), (999, 1));
        assert_eq!(keyspace.get("k0500").unwrap().unwrap(), "before");
        db.wait_idle().unwrap();
        assert!(db.check().unwrap().is_clean());
        assert_eq!(db.space().unwrap().warnings.len(), 0);
    });
}
