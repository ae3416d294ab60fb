//! The settings in force, as text beside the manifest: whatever call of an opening a crash comes
//! at, the text is whole, that of this opening or of the one before.

use crate::client::{DIR, files, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Survivors};
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

/// Symptom: a database could not be opened because its `OPTIONS`, which the engine never reads,
/// could not be read or written. Now the opening goes on, and says so.
#[test]
fn an_opening_goes_on_without_it() {
    use std::io::ErrorKind::{PermissionDenied, StorageFull};
    let calls = [
        Call::Open,
        Call::Read,
        Call::Create,
        Call::Write,
        Call::Sync,
        Call::Rename,
        Call::Inspect,
    ];
    for (call, kind) in calls.into_iter().flat_map(|it| [(it, PermissionDenied), (it, StorageFull)])
    {
        let (env, simulation) = Env::simulated(SEED);
        simulation.run(|| {
            session(&env, 1 << 20);
            let before = text(&env);
            simulation.fail(FaultPlan::new(call).on("OPTIONS").error(kind).for_good());
            let options = Options { cache_bytes: 2 << 20, ..tiny_options() };
            let db = Db::builder(DIR).options(options).env(env.clone()).open().unwrap();
            assert_eq!(db.stats().background_errors, 1, "{call:?} is told of");
            db.default_keyspace().put("k", "v").unwrap();
            db.close().unwrap();
            simulation.clear_faults();
            assert_eq!(text(&env), before, "{call:?} leaves the text of before");
            assert!(files(&env, "new").is_empty(), "{call:?} leaves no other file");
            session(&env, 2 << 20);
            assert_ne!(text(&env), before, "{call:?}");
        });
    }
}

/// One that can't be looked at is left alone, as one is that is not ours.
#[test]
fn an_opening_leaves_a_new_text_alone_that_it_may_not_read() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        session(&env, 1 << 20);
        env.fs.create(&Path::new(DIR).join("OPTIONS.new")).unwrap();
        simulation.fail(FaultPlan::new(Call::Open).on("OPTIONS.new").for_good());
        let db = Db::builder(DIR).options(tiny_options()).env(env.clone()).open().unwrap();
        assert_eq!((db.recovery().foreign_files, db.stats().background_errors), (1, 1));
    });
}
