//! Separation that the engine chooses: at flush while values die young, and where scans find them
//! strewn; otherwise at write.

use crate::common::{self, rng::Rng};
use cleavedb::{
    Db, Durability, Event, EventListener, GcOptions, KeyspaceOptions, Options, Separation,
    WriteOptions,
};
use std::path::Path;
use std::sync::{Arc, Mutex};

const VALUE_BYTES: usize = 400;

/// Remembers the choices that it is told of.
#[derive(Default)]
struct Choices(Mutex<Vec<&'static str>>);

impl EventListener for Choices {
    fn on_event(&self, event: &Event) {
        if let Event::SeparationChosen { keyspace, separation, written, .. } = event {
            assert!(keyspace == "default" && *written > 0);
            self.0.lock().unwrap().push(separation);
        }
    }
}

fn options() -> Options {
    let keyspace = KeyspaceOptions {
        separation: Separation::Auto,
        memtable_bytes: 128 << 10,
        ..common::tiny_keyspace()
    };
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    // A memtable fits into a segment.
    let (segment_bytes, max_replay_bytes) = (256 << 10, 1 << 20);
    Options { gc, keyspace, segment_bytes, max_replay_bytes, ..common::tiny() }
}

fn open(dir: &Path) -> (Db, Arc<Choices>) {
    let choices = Arc::new(Choices::default());
    let builder = Db::builder(dir).options(options()).event_listener(choices.clone());
    (builder.open().unwrap(), choices)
}

/// Returns the choice in force.
fn choice(db: &Db) -> Separation {
    let stats = db.stats();
    assert!(stats.keyspaces[0].is_separation_chosen);
    stats.keyspaces[0].separation
}

/// Writes so many rounds of versions of `keys` keys, from number `first` on.
fn put(db: &Db, keys: usize, rounds: std::ops::Range<u64>, durability: Durability) {
    let keyspace = db.default_keyspace();
    let with = WriteOptions::new().durability(durability);
    let mut rng = Rng::new(rounds.start);
    for version in rounds {
        let mut numbers: Vec<usize> = (0..keys).collect();
        (1..keys).for_each(|place| numbers.swap(place, rng.below(place + 1)));
        for number in numbers {
            let key = common::key(number);
            let value = common::value(&key, version, VALUE_BYTES);
            keyspace.put_with(&key, value, &with).unwrap();
        }
    }
    db.flush().unwrap();
    // The choice comes after what the flush has written is there.
    db.wait_idle().unwrap();
}

fn check(db: &Db, keys: usize, version: u64) {
    (0..keys).for_each(|number| {
        common::expect_value(&db.default_keyspace(), number, version, VALUE_BYTES);
    });
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn values_that_die_young_are_separated_at_flush() {
    let dir = common::dir();
    let (db, choices) = open(dir.path());
    assert_eq!(choice(&db), Separation::AtWrite);
    put(&db, 20, 0..50, Durability::Os);
    assert_eq!(choice(&db), Separation::AtFlush);
    let before = db.stats();
    put(&db, 20, 50..100, Durability::Os);
    let after = db.stats();
    let put_in_log = after.log_bytes_written - before.log_bytes_written;
    assert!(put_in_log > (1000 * VALUE_BYTES) as u64);
    // One version of each key in each flush is left, of more than a thousand.
    let flushed = after.flush_bytes_written - before.flush_bytes_written;
    assert!(flushed < put_in_log / 4, "{flushed} of {put_in_log} bytes");
    check(&db, 20, 99);
    // The values of a load have no successors.
    put(&db, 2000, 100..101, Durability::Os);
    assert_eq!(choice(&db), Separation::AtWrite);
    check(&db, 2000, 100);
    assert_eq!(*choices.0.lock().unwrap(), ["at_flush", "at_write"]);
}

#[test]
fn synced_values_are_separated_at_write_though_they_die_young() {
    let dir = common::dir();
    let (db, choices) = open(dir.path());
    put(&db, 20, 0..50, Durability::Sync);
    assert_eq!(choice(&db), Separation::AtWrite);
    put(&db, 20, 50..250, Durability::Os);
    assert_eq!(choice(&db), Separation::AtFlush);
    put(&db, 20, 250..300, Durability::Sync);
    assert_eq!(choice(&db), Separation::AtWrite);
    check(&db, 20, 299);
    assert_eq!(*choices.0.lock().unwrap(), ["at_flush", "at_write"]);
}

#[test]
fn values_that_scans_find_strewn_are_separated_at_flush() {
    let dir = common::dir();
    let (db, choices) = open(dir.path());
    put(&db, 1000, 0..1, Durability::Os);
    assert_eq!(choice(&db), Separation::AtWrite);
    for _ in 0..2 {
        assert_eq!(db.default_keyspace().iter().count(), 1000);
    }
    put(&db, 1000, 1..2, Durability::Os);
    assert_eq!(choice(&db), Separation::AtFlush, "values were strewn");
    // Their new versions are in order in each flush.
    put(&db, 1000, 2..3, Durability::Os);
    check(&db, 1000, 2);
    assert_eq!(choices.0.lock().unwrap().first(), Some(&"at_flush"));
}

/// Guards against a choice that outlives its session in one place and not in another: memtables
/// and files have values of both kinds.
#[test]
fn a_store_with_values_of_both_choices_opens_after_any_end() {
    let dir = common::dir();
    let mut version = 0;
    for round in 0..4 {
        let (db, _) = open(dir.path());
        assert_eq!(choice(&db), Separation::AtWrite, "an opening begins with it");
        if version > 0 {
            check(&db, 20, version - 1);
        }
        put(&db, 20, version..version + 50, Durability::Os);
        version += 50;
        assert_eq!(choice(&db), Separation::AtFlush);
        // These stay in the memtable.
        let keyspace = db.default_keyspace();
        (0..20).for_each(|number| common::put_value(&keyspace, number, version, VALUE_BYTES));
        version += 1;
        if round % 2 == 0 {
            let killed = common::dir();
            common::copy_dir(dir.path(), killed.path());
            let (db, _) = open(killed.path());
            check(&db, 20, version - 1);
            db.close().unwrap();
        }
        drop(keyspace);
        db.close().unwrap();
    }
}
