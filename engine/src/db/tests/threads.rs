//! Checks which background threads run at a lower priority than users' threads.

use crate::commit::group::Durability;
use crate::db::Db;
use crate::db::options::{Options, WriteOptions};
use crate::doc_dir;
use crate::env::sync::Mutex;
use crate::env::threads::{Join, ThreadBody, Threads};
use crate::env::{Env, OsSettings};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A wrapper of the operating system's threads that records who lowered their priority, and counts
/// yields.
struct Noting {
    threads: Arc<dyn Threads>,
    gave_way: Mutex<BTreeSet<String>>,
    yields: AtomicUsize,
}

impl Noting {
    /// Returns an environment with such threads.
    fn env() -> (Env, Arc<Noting>) {
        let mut env = Env::os(&OsSettings::default());
        let (threads, gave_way) = (env.threads.clone(), Mutex::default());
        let noting = Arc::new(Noting { threads, gave_way, yields: AtomicUsize::new(0) });
        env.threads = noting.clone();
        (env, noting)
    }
}

impl Threads for Noting {
    fn spawn(&self, name: &str, work: ThreadBody) -> std::io::Result<Box<dyn Join>> {
        self.threads.spawn(name, work)
    }

    fn yield_now(&self) {
        self.yields.fetch_add(1, Ordering::Relaxed);
        self.threads.yield_now();
    }

    fn lower_priority(&self) {
        let thread = std::thread::current();
        self.gave_way.lock().insert(thread.name().unwrap_or_default().to_owned());
    }

    fn sleep(&self, time: Duration) {
        self.threads.sleep(time);
    }
}

#[test]
fn compaction_and_value_gc_give_way_and_what_writers_wait_for_first_does_not() {
    let dir = doc_dir("giving-way");
    let (env, noting) = Noting::env();
    Db::builder(&dir).options(Options::default()).env(env).open().unwrap().close().unwrap();
    // Closing waits for all threads.
    let gave_way: Vec<String> = noting.gave_way.lock().iter().cloned().collect();
    assert_eq!(gave_way, ["cleave-compact", "cleave-gc"]);
}

/// Of two writers one leads, and waits for the log here. The other one yields before it sleeps,
/// unless it asks for a sync, which both then share.
#[test]
fn a_writer_yields_before_it_sleeps_unless_it_waits_for_a_sync() {
    for (durability, yields) in [(Durability::Os, 16), (Durability::Sync, 0)] {
        let dir = doc_dir("yields");
        let (env, noting) = Noting::env();
        let db = Db::builder(&dir).env(env).open().unwrap();
        let (keyspace, options) =
            (db.default_keyspace(), WriteOptions::new().durability(durability));
        std::thread::scope(|scope| {
            let held = db.core.committer.hold();
            for key in ["a", "b"] {
                let (keyspace, options) = (&keyspace, &options);
                scope.spawn(move || keyspace.put_with(key, "1", options).unwrap());
            }
            while db.core.committer.queued() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(noting.yields.load(Ordering::Relaxed), yields, "{durability}");
            drop(held);
        });
        assert_eq!(keyspace.get("a").unwrap(), keyspace.get("b").unwrap());
    }
}

/// Nobody does a dead thread's work any more, so its death ends writing and is reported everywhere.
#[test]
fn the_death_of_a_thread_is_told() {
    let dir = doc_dir("death-of-a-thread");
    let db = crate::open(&dir).unwrap();
    let keyspace = db.default_keyspace();
    keyspace.put("before", "1").unwrap();
    db.core.background.live("cleave-test", || panic!("what went wrong"));
    let wanted = "thread cleave-test panicked: what went wrong";
    let stats = db.stats();
    assert!(stats.background_error.unwrap().to_string().contains(wanted));
    assert!(stats.read_only_because.unwrap().to_string().contains(wanted));
    assert_eq!(db.core.counters.background_errors.get(), 1);
    let refused = [keyspace.put("after", "2"), db.flush(), db.wait_idle()];
    for outcome in refused {
        assert!(outcome.unwrap_err().to_string().contains(wanted));
    }
    assert_eq!(keyspace.get("before").unwrap().unwrap(), "1");
    assert!(db.close().unwrap_err().to_string().contains(wanted));
    let db = crate::open(&dir).unwrap();
    assert_eq!(db.default_keyspace().get("before").unwrap().unwrap(), "1");
}
