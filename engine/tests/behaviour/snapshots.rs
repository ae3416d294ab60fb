//! Pinned moments of the whole database.

use crate::common;
use cleavedb::{Db, ErrorKind, ReadOptions};

fn set_all(db: &Db, version: u64) {
    for name in ["default", "other"] {
        let keyspace = db.keyspace(name).unwrap();
        for number in 0..40 {
            let bytes = if number % 2 == 0 { 20 } else { 200 };
            let key = common::key(number);
            match (version + number as u64) % 5 {
                0 => keyspace.delete(&key).unwrap(),
                _ => keyspace.put(&key, common::value(&key, version, bytes)).unwrap(),
            }
        }
    }
}

/// What all keyspaces hold, as `snapshot` sees it.
fn contents(db: &Db, snapshot: &cleavedb::Snapshot) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    for name in ["default", "other"] {
        let keyspace = db.keyspace(name).unwrap();
        let mut cursor = snapshot.cursor(&keyspace).unwrap();
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            let (key, value) = (cursor.key().to_vec(), cursor.value().unwrap());
            assert_eq!(snapshot.get(&keyspace, &key).unwrap().unwrap(), value);
            pairs.push((key, value.into_vec()));
            cursor.next().unwrap();
        }
    }
    pairs
}

#[test]
fn each_sees_its_own_moment_through_everything() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let mut taken = Vec::new();
    for version in 0..12 {
        set_all(&db, version);
        let snapshot = db.snapshot();
        let seen = contents(&db, &snapshot);
        assert_eq!(seen.len(), 2 * 32);
        taken.push((snapshot, seen));
        match version % 4 {
            0 => db.flush().unwrap(),
            2 => db.compact().unwrap(),
            _ => {}
        }
    }
    // Dropped from the middle, the ends, in no order.
    for index in [5, 0, 9, 4, 2, 6, 0, 0, 3, 0, 1] {
        drop(taken.remove(index));
        db.compact().unwrap();
        for (snapshot, seen) in &taken {
            assert_eq!(&contents(&db, snapshot), seen);
        }
    }
    assert_eq!(db.stats().snapshots, 1);
    taken.clear();
    db.compact().unwrap();
    assert_eq!(db.stats().snapshots, 0);
    assert_eq!(db.stats().keyspaces.iter().map(|k| k.table_entries).sum::<u64>(), 64);
}

#[test]
fn a_clone_keeps_the_moment() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("key", "old").unwrap();
    let snapshot = db.snapshot();
    let clone = snapshot.clone();
    assert_eq!(clone.seqno(), snapshot.seqno());
    drop(snapshot);
    keyspace.put("key", "new").unwrap();
    db.compact().unwrap();
    assert_eq!(clone.get(&keyspace, "key").unwrap().unwrap(), "old");
}

#[test]
fn an_iterator_is_a_moment_too() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for number in 0..100 {
        keyspace.put(common::key(number), "old").unwrap();
    }
    let mut pairs = keyspace.iter();
    // Not begun yet: its moment is that of its making.
    for number in 0..100 {
        keyspace.put(common::key(number), "new").unwrap();
    }
    db.compact().unwrap();
    assert!(pairs.by_ref().take(50).all(|item| item.unwrap().1 == "old"));
    assert!(pairs.rev().all(|item| item.unwrap().1 == "old"));
}

#[test]
fn of_another_database_is_refused() {
    let (one, two) = (common::dir(), common::dir());
    let (one, two) = (common::open(one.path()), common::open(two.path()));
    let options = ReadOptions { snapshot: Some(one.snapshot()), ..Default::default() };
    let error = two.default_keyspace().get_with("key", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("another database"), "{error}");
}

#[test]
fn before_a_keyspace_began_it_is_empty() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let snapshot = db.snapshot();
    let keyspace = db.keyspace("later").unwrap();
    keyspace.put("key", "value").unwrap();
    assert!(snapshot.get(&keyspace, "key").unwrap().is_none());
}
