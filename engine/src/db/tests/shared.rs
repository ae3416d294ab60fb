//! Checks that concurrent checkpoints to the same directory do not mix.

use crate::db::{Db, Options};
use crate::env::Env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn open(env: &Env, dir: &str) -> Db {
    let options = Options { create_if_missing: dir == "db", ..Options::default() };
    Db::builder(dir).env(env.clone()).options(options).open().unwrap()
}

/// Two calls once both found the target missing, then both linked their files into it: the result
/// was nobody's checkpoint, or both calls failed.
#[test]
fn of_two_checkpoints_to_the_same_directory_one_is_made() {
    for seed in 0..40 {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            let db = Arc::new(open(&env, "db"));
            db.default_keyspace().put("key", "value").unwrap();
            let made = Arc::new(AtomicUsize::new(0));
            let threads = [1, 2].map(|_| {
                let (db, made) = (db.clone(), made.clone());
                let work = move || {
                    let outcome = db.checkpoint("copies/copy");
                    made.fetch_add(usize::from(outcome.is_ok()), Ordering::SeqCst);
                };
                env.threads.spawn("checkpoint", Box::new(work)).unwrap()
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(made.load(Ordering::SeqCst), 1, "seed {seed}");
            let copy = open(&env, "copies/copy");
            assert_eq!(copy.default_keyspace().get("key").unwrap().unwrap(), "value");
            assert!(copy.check().unwrap().is_clean());
            copy.close().unwrap();
            assert!(env.fs.exists(Path::new("copies/copy/CURRENT")).unwrap());
        });
    }
}
