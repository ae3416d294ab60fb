//! The settings in force, as text beside the manifest: whatever call of an opening a crash comes
//! at, the text is whole, that of this opening or of the one before.

use crate::client::{DIR, files, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::Survivors;
use cleavedb::{Db, Options};
use std::path::Path;

const SEED: u64 = 5;

/// Opens with a cache of so many bytes, and closes, as far as a crash lets it.
fn session(env: &Env, cache_bytes: u64) {
    let options = Options { cache_bytes, ..tiny_options() };
    if let Ok(db) = Db::builder(DIR).options(options).env(env.clone()).open() {
        let _ = db.close();
    }
}

/// Returns the text, or `None` if there is none.
fn text(env: &Env) -> Option<String> {
    let path = Path::new(DIR).join("OPTIONS");
    let file = env.fs.exists(&path).unwrap().then(|| env.fs.open(&path).unwrap())?;
    let mut bytes = vec![0; 1 << 16];
    let length = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(length);
    Some(String::from_utf8(bytes).unwrap())
}

#[test]
fn a_crash_at_every_call_of_an_opening_leaves_a_whole_text() {
    let whole = [1 << 20, 2 << 20].map(|cache_bytes| {
        let (env, simulation) = Env::simulated(SEED);
        simulation.run(|| session(&env, cache_bytes));
        simulation.run(|| text(&env).unwrap())
    });
    for survivors in [Survivors::LoseAll, Survivors::KeepAll, Survivors::Random] {
        for call in 1.. {
            let (env, simulation) = Env::simulated(SEED);
            simulation.crash_at(call);
            simulation.run(|| {
                session(&env, 1 << 20);
                session(&env, 2 << 20);
            });
            let crashed = simulation.crashed();
            let env = simulation.restart(survivors);
            simulation.run(|| {
                let found = text(&env);
                let is_whole = found.as_ref().is_none_or(|it| whole.contains(it));
                assert!(is_whole, "a crash at call {call}, {survivors:?}: {found:?}");
                session(&env, 2 << 20);
                assert_eq!(text(&env).as_ref(), Some(&whole[1]), "a crash at call {call}");
                assert!(files(&env, "new").is_empty(), "a crash at call {call}");
            });
            if !crashed {
                assert!(call > 20, "{call} calls");
                break;
            }
        }
    }
}
