//! Tests of background jobs that keep failing because of what the user configured. The failures are
//! counted, retried at growing intervals, and returned to the calls that wait for the job, so that
//! no call waits for ever.

use crate::client::{self, DIR, tiny_options};
use cleavedb::env::Env;
use cleavedb::{Builder, Comparator, Db, Error, FilterPolicy, Keyspace};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 300_000;

/// A filter policy that excludes no key. Once the first flag is set, its filters are too large for
/// a table, unless all keys begin with `good`, or, once the second flag is set, with `mended`.
#[derive(Default)]
struct Oversized(AtomicBool, AtomicBool);

impl FilterPolicy for Oversized {
    fn name(&self) -> &str {
        "oversized"
    }

    fn create(&self, keys: &[&[u8]]) -> Vec<u8> {
        let all_are = |prefix: &[u8]| keys.iter().all(|key| key.starts_with(prefix));
        let is_good = all_are(b"good") || self.1.load(Relaxed) && all_are(b"mended");
        vec![0; if self.0.load(Relaxed) && !is_good { 2 << 30 } else { 1 }]
    }

    fn may_contain(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

/// A bytewise comparator whose name changes once the flag is set.
#[derive(Default)]
struct Renamed(AtomicBool);

impl Comparator for Renamed {
    fn name(&self) -> &str {
        if self.0.load(Relaxed) { "another" } else { "first" }
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

fn builder(env: &Env) -> Builder {
    Db::builder(DIR).options(tiny_options()).env(env.clone())
}

fn simulate(seed: u64, test: impl FnOnce(&Env)) {
    client::simulate(seed, STEPS, |env, _| test(env));
}

/// Opens a database whose flushes fail once the flag of the returned policy is set.
fn open_with_policy(env: &Env) -> (Db, Arc<Oversized>) {
    let policy = Arc::new(Oversized::default());
    (builder(env).filter_policy(policy.clone()).open().unwrap(), policy)
}

/// Opens a database with a second keyspace. The flag is set already, so its flushes fail.
fn open_failing(env: &Env, second: &str) -> (Db, [Keyspace; 2], Arc<Oversized>) {
    let (db, policy) = open_with_policy(env);
    let keyspaces = [db.default_keyspace(), db.create_keyspace(second).unwrap()];
    policy.0.store(true, Relaxed);
    (db, keyspaces, policy)
}

/// Removes the cause of the failures, waits until each job was tried again, and flushes.
#[track_caller]
fn mend(env: &Env, db: &Db, policy: &Oversized) {
    policy.0.store(false, Relaxed);
    env.threads.sleep(Duration::from_secs(10));
    db.flush().expect("it passes once the cause is gone");
}

/// Checks that nothing fails any more, and that this is what the statistics say.
#[track_caller]
fn check_mended(db: &Db) {
    db.wait_idle().unwrap();
    assert!(db.stats().background_error.is_none());
}

fn background_errors(db: &Db) -> u64 {
    let mut numbers = db.stats().numbers().collect::<Vec<_>>().into_iter();
    numbers.find(|(name, _)| *name == "background_errors").unwrap().1
}

fn assert_says(error: &Error, wanted: &str) {
    assert!(error.to_string().contains(wanted), "{error}");
}

/// Puts values of 100 bytes until one is refused; returns the number of those that were not.
fn put_until_refused(keyspace: &Keyspace, prefix: &str) -> (usize, Error) {
    let put = |number| keyspace.put(format!("{prefix}{number:05}"), [7; 100]).err();
    let refused = (0..2000).find_map(|number| put(number).map(|error| (number, error)));
    refused.expect("writers are stalled at last")
}

/// Guards against treating such a failure as the drop of a keyspace: the job was retried at once
/// and for ever, nothing was counted, writers waited for room, and `flush` never returned.
#[test]
fn i09_a_table_that_cannot_be_written_is_told_to_writers_and_to_flush() {
    for seed in 0..10 {
        simulate(seed, |env| {
            let (db, policy) = open_with_policy(env);
            let keyspace = db.default_keyspace();
            policy.0.store(true, Relaxed);
            keyspace.put("first", "1").unwrap();
            assert_says(&db.flush().unwrap_err(), "too large");
            let (count, error) = put_until_refused(&keyspace, "key");
            assert_says(&error, "too large");
            assert_says(&db.stats().background_error.unwrap(), "too large");
            let before = background_errors(&db);
            env.threads.sleep(Duration::from_secs(60));
            let tried = background_errors(&db) - before;
            assert!((8..=40).contains(&tried), "every five seconds at last: {tried}");
            mend(env, &db, &policy);
            check_mended(&db);
            assert_eq!(keyspace.keys().count(), count + 1);
            db.close().unwrap();
        });
    }
}

/// The flush thread tried the first keyspace whose flush was due again and again, so those behind
/// it were never flushed, and their writers got an error that was not theirs. Now a failed flush
/// waits for its next try while others go on, and only writers who wait for that flush get its
/// error: those of its keyspace and, once the log that it holds back is full, all.
#[test]
fn i09_a_flush_that_fails_for_good_holds_up_its_own_keyspace_only() {
    for seed in 0..10 {
        simulate(seed, |env| {
            let (db, [bad, good], policy) = open_failing(env, "good");
            let (in_bad, error) = put_until_refused(&bad, "bad");
            assert_says(&error, "too large");
            for number in 0..60 {
                good.put(format!("good-{number}"), [7; 100]).unwrap();
                if number % 10 == 0 {
                    good.flush().unwrap();
                    assert_says(&bad.put("more", [7; 100]).unwrap_err(), "too large");
                }
            }
            assert_says(&db.stats().background_error.unwrap(), "too large");
            assert_says(&bad.flush().unwrap_err(), "too large");
            let (in_good, error) = put_until_refused(&good, "good");
            assert_says(&error, "too large");
            mend(env, &db, &policy);
            check_mended(&db);
            assert_eq!((bad.keys().count(), good.keys().count()), (in_bad, 60 + in_good));
            db.close().unwrap();
        });
    }
}

/// A flush that had failed and then succeeded hid the failures of all others from a waiting call,
/// which went on waiting for as long as these lasted.
#[test]
fn i09_a_flush_that_succeeds_again_hides_no_other_failure() {
    for seed in 0..10 {
        simulate(seed, |env| {
            let (db, [mended, bad], policy) = open_failing(env, "later");
            mended.put("mended", "1").unwrap();
            bad.put("bad", "1").unwrap();
            assert_says(&db.flush().unwrap_err(), "too large");
            // Both fail until the pauses between their tries are long.
            env.threads.sleep(Duration::from_secs(10));
            policy.1.store(true, Relaxed);
            assert_says(&db.flush().unwrap_err(), "too large");
            mend(env, &db, &policy);
            db.close().unwrap();
        });
    }
}

/// A keyspace that is dropped takes its failed flush with it.
#[test]
fn a_dropped_keyspace_leaves_no_error_behind() {
    simulate(4, |env| {
        let (db, [default, bad], _) = open_failing(env, "bad");
        put_until_refused(&bad, "bad");
        db.drop_keyspace("bad").unwrap();
        assert!(db.stats().background_error.is_none());
        default.put("good", "1").unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.close().unwrap();
    });
}

#[test]
fn a_comparator_that_contradicts_a_table_is_told() {
    simulate(3, |env| {
        let comparator = Arc::new(Renamed::default());
        let db = builder(env).comparator("renamed", comparator.clone()).open().unwrap();
        let keyspace = db.open_or_create_keyspace("renamed").unwrap();
        keyspace.put("a", "1").unwrap();
        db.flush().unwrap();
        comparator.0.store(true, Relaxed);
        keyspace.put("a", "2").unwrap();
        db.flush().unwrap();
        assert_says(&db.wait_idle().unwrap_err(), "is ordered by \"first\"");
        assert!(background_errors(&db) > 0);
        comparator.0.store(false, Relaxed);
        db.close().unwrap();
    });
}
