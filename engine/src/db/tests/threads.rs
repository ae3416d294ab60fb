//! Checks which background threads run at a lower priority than users' threads.

use crate::db::Db;
use crate::db::options::Options;
use crate::doc_dir;
use crate::env::sync::Mutex;
use crate::env::threads::{Join, ThreadBody, Threads};
use crate::env::{Env, OsSettings};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A wrapper of the operating system's threads that records who lowered their priority.
struct Noting {
    threads: Arc<dyn Threads>,
    gave_way: Mutex<BTreeSet<String>>,
}

impl Threads for Noting {
    fn spawn(&self, name: &str, work: ThreadBody) -> std::io::Result<Box<dyn Join>> {
        self.threads.spawn(name, work)
    }

    fn yield_now(&self) {
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
    let mut env = Env::os(&OsSettings::default());
    let threads = env.threads.clone();
    let noting = Arc::new(Noting { threads, gave_way: Mutex::new(BTreeSet::new()) });
    env.threads = noting.clone();
    Db::builder(&dir).options(Options::default()).env(env).open().unwrap().close().unwrap();
    // Closing waits for all threads.
    let gave_way: Vec<String> = noting.gave_way.lock().iter().cloned().collect();
    assert_eq!(gave_way, ["cleave-compact", "cleave-gc"]);
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
