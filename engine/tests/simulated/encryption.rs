//! Tests of the file of keys in the simulation: a crash or an error at every call of creating an
//! encrypted database and of changing its key leaves one that opens.

use crate::client::{DIR, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::{FaultPlan, Survivors};
use cleavedb::{Db, EncryptionKey, KeyProvider, Result};
use std::sync::Arc;

const SEED: u64 = 77;

struct Keys(&'static [u8]);

impl KeyProvider for Keys {
    fn keys(&self) -> Result<Vec<EncryptionKey>> {
        Ok(self.0.iter().map(|&byte| EncryptionKey::new([byte; 32])).collect())
    }
}

fn open(env: &Env, keys: &'static [u8]) -> Result<Db> {
    let builder = Db::builder(DIR).options(tiny_options()).env(env.clone());
    builder.encryption(Arc::new(Keys(keys))).open()
}

/// Puts a key under each of two encryption keys; returns how many were acknowledged.
fn two_sessions(env: &Env) -> usize {
    let mut acknowledged = 0;
    for (keys, key) in [([1].as_slice(), "a"), ([2, 1].as_slice(), "b")] {
        let Ok(db) = open(env, keys) else { return acknowledged };
        let durable = cleavedb::WriteOptions::new().durability(cleavedb::Durability::Sync);
        if db.default_keyspace().put_with(key, "value", &durable).is_err() {
            return acknowledged;
        }
        acknowledged += 1;
        if db.close().is_err() {
            return acknowledged;
        }
    }
    acknowledged
}

#[track_caller]
fn expect(env: &Env, acknowledged: usize, what: &str) {
    let db = open(env, &[2, 1]).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = db.default_keyspace().keys().count();
    assert!(found >= acknowledged, "{what}: {found} of {acknowledged}");
    db.default_keyspace().put("c", "value").unwrap();
    db.close().unwrap();
    let db = open(env, &[2]).unwrap_or_else(|error| panic!("{what}, then: {error}"));
    assert!(db.default_keyspace().get("c").unwrap().is_some());
    assert!(!db.check().unwrap().is_damaged(), "{what}");
}

#[test]
fn a_crash_at_every_call_of_creating_and_of_changing_the_key() {
    for survivors in [Survivors::LoseAll, Survivors::KeepAll, Survivors::Random] {
        for call in 1.. {
            let (env, simulation) = Env::simulated(SEED);
            simulation.crash_at(call);
            let acknowledged = simulation.run(|| two_sessions(&env));
            let crashed = simulation.crashed();
            let env = simulation.restart(survivors);
            simulation.run(|| expect(&env, acknowledged, &format!("a crash at call {call}")));
            if !crashed {
                assert!(call > 20, "{call} calls");
                break;
            }
        }
    }
}

#[test]
fn an_error_at_every_call_of_creating_and_of_changing_the_key() {
    for nth in 1.. {
        let (env, simulation) = Env::simulated(SEED);
        simulation.fail(FaultPlan::any_call().nth(nth));
        let clean = simulation.run(|| {
            let acknowledged = two_sessions(&env);
            let clean = simulation.all_calls() < nth;
            simulation.clear_faults();
            expect(&env, acknowledged, &format!("an error at call {nth}"));
            clean
        });
        if clean {
            assert!(nth > 40, "{nth} calls");
            return;
        }
    }
}
