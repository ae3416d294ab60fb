//! Separation that the engine chooses: at flush while the device is spared the log, or where scans
//! find values strewn; otherwise at write.

use crate::common::{self, rng::Rng};
use cleavedb::{
    Codec, Db, Durability, Event, EventListener, GcOptions, KeyspaceOptions, Options, Separation,
    WriteOptions,
};
use std::path::Path;
use std::sync::{Arc, Mutex};

const VALUE_BYTES: usize = 400;

/// Remembers the choices that it is told of, and their reasons.
#[derive(Default)]
struct Choices(Mutex<Vec<(&'static str, &'static str)>>);

impl Choices {
    /// Returns when values were separated by each choice; another reason for the same is none.
    fn separations(&self) -> Vec<&'static str> {
        let mut told: Vec<_> = self.0.lock().unwrap().iter().map(|(when, _)| *when).collect();
        told.dedup();
        told
    }
}

impl EventListener for Choices {
    fn on_event(&self, event: &Event) {
        if let Event::SeparationChosen { keyspace, separation, reason, written, .. } = event {
            assert!(keyspace == "default" && *written > 0);
            let mut told = self.0.lock().unwrap();
            assert_ne!(told.last(), Some(&(*separation, *reason)), "nothing has changed");
            told.push((separation, reason));
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
            if number % 100 == 0 {
                // The log of memtables that wait long for their flush is synced.
                db.wait_idle().unwrap();
            }
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
fn values_are_separated_at_flush_while_the_log_is_spared() {
    let dir = common::dir();
    let (db, choices) = open(dir.path());
    assert_eq!(choice(&db), Separation::AtFlush);
    put(&db, 2000, 0..1, Durability::Os);
    put(&db, 20, 1..51, Durability::Os);
    assert_eq!(choice(&db), Separation::AtFlush);
    let stats = db.stats();
    let values = (2000 * VALUE_BYTES) as u64;
    assert!(stats.log_bytes_spared > values, "{} bytes", stats.log_bytes_spared);
    // One version of each of 20 keys in each flush is left, of more than a thousand.
    let most = values * 3 / 2;
    assert!((values..most).contains(&stats.flush_bytes_written), "{}", stats.flush_bytes_written);
    (0..20).for_each(|number| {
        common::expect_value(&db.default_keyspace(), number, 50, VALUE_BYTES);
    });
    assert!(db.check().unwrap().is_clean());
    assert!(choices.0.lock().unwrap().is_empty());
}

#[test]
fn synced_values_are_separated_at_write() {
    let dir = common::dir();
    let (db, choices) = open(dir.path());
    put(&db, 1000, 0..2, Durability::Sync);
    assert_eq!(choice(&db), Separation::AtWrite);
    put(&db, 1000, 2..8, Durability::Os);
    assert_eq!(choice(&db), Separation::AtFlush);
    put(&db, 1000, 8..12, Durability::Sync);
    assert_eq!(choice(&db), Separation::AtWrite);
    check(&db, 1000, 11);
    // A device that is slow for a time may have it choose twice more on the way.
    let told = choices.separations();
    assert!(told.len() >= 3 && told.len() % 2 == 1, "{told:?}");
    assert!(told.chunks(2).all(|two| ["at_write", "at_flush"].starts_with(two)), "{told:?}");
}

/// Guards against records that a codec made small and that count for nothing: the choice of a time
/// with synced commits would stay.
#[test]
fn compressed_values_count_for_the_choice() {
    let dir = common::dir();
    let mut options = options();
    options.keyspace.value_codec = Codec::Lz4;
    options.keyspace.value_compression_min_bytes = 0;
    let db = Db::builder(dir.path()).options(options).open().unwrap();
    let keyspace = db.default_keyspace();
    let put = |durability, rounds: u64| {
        let with = WriteOptions::new().durability(durability);
        for number in 0..2000 * rounds {
            let key = common::key((number % 2000) as usize);
            keyspace.put_with(key, vec![number as u8; 4 * VALUE_BYTES], &with).unwrap();
            if number % 25 == 0 {
                db.wait_idle().unwrap();
            }
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
    };
    put(Durability::Sync, 1);
    assert_eq!(choice(&db), Separation::AtWrite);
    put(Durability::Os, 40);
    assert_eq!(choice(&db), Separation::AtFlush);
    assert!(db.check().unwrap().is_clean());
}

/// Only so much of the log is left unsynced, so the device gets most of that of a larger memtable.
#[test]
fn values_of_memtables_that_are_too_large_for_it_are_separated_at_write() {
    let dir = common::dir();
    let mut options = options();
    options.keyspace.memtable_bytes = 2 << 20;
    options.max_replay_bytes = 16 << 20;
    let choices = Arc::new(Choices::default());
    let builder = Db::builder(dir.path()).options(options).event_listener(choices.clone());
    let db = builder.open().unwrap();
    put(&db, 6000, 0..1, Durability::Os);
    assert_eq!(choice(&db), Separation::AtWrite);
    for version in 1..6 {
        put(&db, 6000, version..version + 1, Durability::Os);
    }
    check(&db, 6000, 5);
    assert_eq!(*choices.0.lock().unwrap(), [("at_write", "log_kept")]);
}

/// Large values stay in the log, which the device gets for them.
#[test]
fn values_beside_large_ones_are_separated_at_write() {
    let dir = common::dir();
    let (db, choices) = open(dir.path());
    let keyspace = db.default_keyspace();
    for round in 0..20 {
        keyspace.put(format!("large {}", round % 3), vec![round; 32 << 10]).unwrap();
        put(&db, 200, u64::from(round)..u64::from(round) + 1, Durability::Os);
    }
    assert_eq!(choice(&db), Separation::AtWrite);
    check(&db, 200, 19);
    assert_eq!(keyspace.get("large 1").unwrap().unwrap(), vec![19; 32 << 10]);
    assert_eq!(*choices.0.lock().unwrap(), [("at_write", "log_kept")]);
}

#[test]
fn synced_values_that_scans_find_strewn_are_separated_at_flush() {
    let dir = common::dir();
    let (db, choices) = open(dir.path());
    put(&db, 1000, 0..2, Durability::Sync);
    assert_eq!(choice(&db), Separation::AtWrite);
    // Their new versions are strewn.
    put(&db, 1000, 2..3, Durability::Sync);
    for _ in 0..2 {
        assert_eq!(db.default_keyspace().iter().count(), 1000);
    }
    put(&db, 1000, 3..4, Durability::Sync);
    assert_eq!(choice(&db), Separation::AtFlush, "values were strewn");
    let (reason, [written, _, scanned, _]) = why(&db);
    assert!(reason == "scanned" && scanned >= written / 2, "{:?}", why(&db));
    let text = db.stats().to_string();
    assert!(text.contains("by choice: scanned (the log of "), "{text}");
    assert!(text.contains("strewn values would cost scans "), "{text}");
    // Their new versions are in order in each flush.
    put(&db, 1000, 4..5, Durability::Sync);
    check(&db, 1000, 4);
    let told = choices.0.lock().unwrap();
    assert_eq!(told[..2], [("at_write", "log_kept"), ("at_flush", "scanned")]);
}

/// Returns what the statistics say of the choice: the reason, and the bytes written, spared,
/// scanned and wasted.
fn why(db: &Db) -> (&'static str, [u64; 4]) {
    let keyspace = &db.stats().keyspaces[0];
    let evidence = [
        keyspace.separation_written_bytes,
        keyspace.separation_spared_bytes,
        keyspace.separation_scanned_bytes,
        keyspace.separation_waste_bytes,
    ];
    (keyspace.separation_reason.unwrap(), evidence)
}

/// A flush merges operands, so memtables absorb them, although none hides another one.
#[test]
fn operands_count_as_absorbed() {
    for merge_operator in [None, Some(cleavedb::merge_operators::APPEND.to_owned())] {
        let dir = common::dir();
        let keyspace =
            KeyspaceOptions { merge_operator: merge_operator.clone(), ..options().keyspace };
        let db = Db::builder(dir.path()).options(Options { keyspace, ..options() }).open().unwrap();
        put(&db, 1000, 0..2, Durability::Os);
        let told = &db.stats().keyspaces[0];
        let (put, absorbed) = (told.separation_put_bytes, told.separation_absorbed_bytes);
        assert!(put > told.separation_written_bytes / 2, "{put}");
        match merge_operator {
            None => assert!(absorbed < put / 2, "{absorbed} of {put}"),
            Some(_) => assert_eq!(absorbed, put),
        }
    }
}

/// Statistics said what was chosen, and nobody could tell why.
#[test]
fn the_reason_and_its_evidence_are_told() {
    let dir = common::dir();
    let (db, _) = open(dir.path());
    assert_eq!(why(&db), ("log_spared", [0; 4]));
    let text = db.stats().to_string();
    let begun = "  values separated at_flush by choice: log_spared (as each opening begins); from \
                 32.0 KiB on at_write\n";
    assert!(text.contains(begun), "{text}");

    put(&db, 1000, 0..3, Durability::Sync);
    let (reason, [written, spared, _, waste]) = why(&db);
    assert_eq!(reason, "log_kept");
    assert!(written > 0 && spared * 10 < written * 3 && waste < written, "{:?}", why(&db));
    let (text, space) = (db.stats().to_string(), db.space().unwrap());
    let told = "  values separated at_write by choice: log_kept (the log of ";
    assert!(text.contains(told), "{text}");
    assert_eq!(space.keyspaces[0].separation_reason, Some("log_kept"));
    let row = "at_write, by choice: log_kept; from 32.0 KiB on at_write\n";
    assert!(space.to_string().contains(row), "{space}");

    // A policy that was set has no reason of the engine's.
    let keyspace = db.default_keyspace();
    let at_write = KeyspaceOptions { separation: Separation::AtWrite, ..keyspace.options() };
    keyspace.set_options(at_write).unwrap();
    let stats = db.stats();
    assert_eq!(stats.keyspaces[0].separation_reason, None);
    assert!(stats.to_json().contains("\"separation_reason\":null"));
    assert!(!stats.to_string().contains("by choice"), "{stats}");
    assert_eq!(db.space().unwrap().keyspaces[0].separation_reason, None);
    check(&db, 1000, 2);

    keyspace.set_options(options().keyspace).unwrap();
    db.close().unwrap();
    let read_only = Options { read_only: true, ..options() };
    let reader = Db::builder(dir.path()).options(read_only).open().unwrap();
    assert_eq!(reader.stats().keyspaces[0].separation_reason, None, "who reads chooses nothing");
}

/// Guards against a choice that outlives its session in one place and not in another: memtables
/// and files have values of both kinds.
#[test]
fn a_store_with_values_of_both_choices_opens_after_any_end() {
    let dir = common::dir();
    let mut version = 0;
    for round in 0..4 {
        let (db, _) = open(dir.path());
        assert_eq!(choice(&db), Separation::AtFlush, "an opening begins with it");
        if version > 0 {
            (0..20).for_each(|number| {
                common::expect_value(&db.default_keyspace(), number, version - 1, VALUE_BYTES);
            });
            assert!(db.check().unwrap().is_clean());
        }
        put(&db, 1000, version..version + 2, Durability::Sync);
        version += 2;
        assert_eq!(choice(&db), Separation::AtWrite);
        // These stay in the memtable.
        let keyspace = db.default_keyspace();
        (0..20).for_each(|number| common::put_value(&keyspace, number, version, VALUE_BYTES));
        version += 1;
        if round % 2 == 0 {
            let killed = common::dir();
            common::copy_dir(dir.path(), killed.path());
            let (db, _) = open(killed.path());
            (0..20).for_each(|number| {
                common::expect_value(&db.default_keyspace(), number, version - 1, VALUE_BYTES);
            });
            assert!(db.check().unwrap().is_clean());
            db.close().unwrap();
        }
        drop(keyspace);
        db.close().unwrap();
    }
}
