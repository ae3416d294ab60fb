//! Tests of lifetimes: cursors and scans after a close and after the drop of their keyspace, and
//! databases to which a handle is left.

use crate::common;
use cleavedb::{CheckOptions, Db, ErrorKind, Keyspace, Result};

const KEYS: usize = 100;

fn fill(keyspace: &Keyspace, version: u64) {
    for number in 0..KEYS {
        let key = common::key(number);
        keyspace.put(&key, common::value(&key, version, 300)).unwrap();
    }
    keyspace.flush().unwrap();
}

fn kind<T>(outcome: Result<T>) -> ErrorKind {
    outcome.err().expect("an error").kind()
}

#[test]
fn a_cursor_of_a_closed_database_says_so() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    fill(&keyspace, 1);
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek(common::key(KEYS / 2)).unwrap();
    let mut scan = keyspace.iter();
    scan.next().unwrap().unwrap();
    let (mut unbegun, range) = (keyspace.keys(), keyspace.range(..));
    db.close().unwrap();
    // The directory is opened again, and the files that the cursor read are replaced.
    let db = common::open(dir.path());
    fill(&db.default_keyspace(), 2);
    db.compact().unwrap();
    db.gc().unwrap();
    let outcomes = [
        kind(cursor.value()),
        kind(cursor.next()),
        kind(cursor.prev()),
        kind(cursor.seek("k")),
        kind(cursor.seek_for_prev("k")),
        kind(cursor.seek_to_first()),
        kind(cursor.seek_to_last()),
        kind(scan.next().unwrap()),
        kind(unbegun.next().unwrap()),
        kind(range.into_cursor().and_then(|mut cursor| cursor.seek_to_first())),
    ];
    assert_eq!(outcomes, [ErrorKind::Closed; 10]);
}

#[test]
fn what_was_made_before_a_drop_goes_on_reading() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.open_or_create_keyspace("doomed").unwrap();
    fill(&keyspace, 1);
    let mut cursor = keyspace.cursor().unwrap();
    let (all, keys, backwards) = (keyspace.iter(), keyspace.keys(), keyspace.iter());
    let (prefix, range) = (keyspace.prefix("key"), keyspace.range(common::key(90)..));
    let mut begun = keyspace.iter();
    begun.next().unwrap().unwrap();
    db.drop_keyspace("doomed").unwrap();
    db.compact().unwrap();
    db.wait_idle().unwrap();
    cursor.seek_to_last().unwrap();
    let last = common::key(KEYS - 1);
    assert_eq!(cursor.key(), last.as_bytes());
    assert_eq!(cursor.value().unwrap(), common::value(&last, 1, 300));
    assert_eq!(all.map(Result::unwrap).count(), KEYS);
    assert_eq!(keys.map(Result::unwrap).count(), KEYS);
    assert_eq!(backwards.rev().map(Result::unwrap).count(), KEYS);
    assert_eq!(prefix.map(Result::unwrap).count(), KEYS);
    assert_eq!(begun.map(Result::unwrap).count(), KEYS - 1);
    let mut within = range.into_cursor().unwrap();
    within.seek_to_first().unwrap();
    assert_eq!(within.value().unwrap(), common::value(&common::key(90), 1, 300));
    let refused = [
        kind(keyspace.iter().next().unwrap()),
        kind(keyspace.keys().next().unwrap()),
        kind(keyspace.cursor()),
        kind(keyspace.range(..).into_cursor()),
        kind(keyspace.put("key", "value")),
        kind(keyspace.flush()),
        kind(keyspace.compact_range(..)),
        kind(keyspace.reorganize(..)),
        kind(keyspace.convert()),
    ];
    assert_eq!(refused, [ErrorKind::KeyspaceDropped; 9]);
}

#[test]
fn whoever_holds_a_database_open_is_counted() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let counts = |db: &Db| {
        let holders = db.holders();
        (holders.handles, holders.cursors, holders.scans, holders.snapshots)
    };
    assert_eq!(counts(&db), (2, 0, 0, 0));
    let (cursor, scan, snapshot) = (keyspace.cursor().unwrap(), keyspace.iter(), db.snapshot());
    let (other, again) = (db.clone(), snapshot.clone());
    assert_eq!(counts(&db), (3, 1, 1, 1));
    drop((cursor, scan, keyspace));
    assert_eq!(counts(&db), (2, 0, 0, 1));
    drop((db, snapshot, again));
    assert_eq!(counts(&other), (1, 0, 0, 0));
    // A keyspace handle that is left keeps the lock as well.
    let keyspace = other.default_keyspace();
    drop(other);
    assert_eq!(kind(Db::builder(dir.path()).open()), ErrorKind::Locked);
    drop(keyspace);
    Db::builder(dir.path()).open().unwrap();
}

/// Files may go once the database is closed, and what a check misses then is no damage.
#[test]
fn a_check_ends_with_its_database() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    (0..2000).for_each(|number| common::put_value(&keyspace, number, 1, 1000));
    db.flush().unwrap();
    let closing = db.clone();
    let close = move |_| closing.clone().close().unwrap();
    let error = db.check_with(&CheckOptions::new().on_progress(close)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}
