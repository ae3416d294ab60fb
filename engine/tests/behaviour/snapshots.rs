//! Tests of snapshots.

use crate::common;
use cleavedb::{Db, ErrorKind, Keyspace, Range, ReadOptions};

fn set_all(db: &Db, version: u64) {
    for name in ["default", "other"] {
        let keyspace = db.open_or_create_keyspace(name).unwrap();
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

/// Returns the pairs of all keyspaces at `snapshot`.
fn contents(db: &Db, snapshot: &cleavedb::Snapshot) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    for name in ["default", "other"] {
        let keyspace = db.open_or_create_keyspace(name).unwrap();
        let mut cursor = keyspace.cursor_with(&ReadOptions::new().snapshot(snapshot)).unwrap();
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            let (key, value) = (cursor.key().to_vec(), cursor.value().unwrap());
            assert_eq!(
                keyspace.get_with(&key, &ReadOptions::new().snapshot(snapshot)).unwrap().unwrap(),
                value
            );
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
    // The snapshots are dropped in no particular order, from the middle and the ends.
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
    assert_eq!(keyspace.get_with("key", &common::reading(Some(clone))).unwrap().unwrap(), "old");
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
    // The iterator has not been advanced yet; it reads at the moment of its creation.
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
    let options = ReadOptions::new().snapshot(&one.snapshot());
    let error = two.default_keyspace().get_with("key", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("another database"), "{error}");
    let error = two.default_keyspace().iter_with(&options).next().unwrap().unwrap_err();
    assert!(error.to_string().contains("another database"), "{error}");
    assert!(two.default_keyspace().cursor_with(&options).is_err());
}

#[test]
fn before_a_keyspace_began_it_is_empty() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let snapshot = db.snapshot();
    let keyspace = db.open_or_create_keyspace("later").unwrap();
    keyspace.put("key", "value").unwrap();
    assert!(keyspace.get_with("key", &ReadOptions::new().snapshot(&snapshot)).unwrap().is_none());
}

#[test]
fn whatever_reads_reads_at_a_snapshot_too() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let empty = ReadOptions::new().snapshot(&db.snapshot());
    for key in ["a1", "a2", "b1"] {
        keyspace.put(key, common::value(key, 1, 300)).unwrap();
    }
    let full = ReadOptions::new().snapshot(&db.snapshot());
    for key in ["a1", "a2", "b1"] {
        keyspace.delete(key).unwrap();
    }
    keyspace.put("a3", "new").unwrap();
    for round in 0..2 {
        for (options, keys) in [(&empty, &[][..]), (&full, &["a1", "a2", "b1"][..])] {
            assert_reads(&keyspace, options, keys);
            assert_reads(&keyspace, &options.clone().fill_cache(false).read_ahead(false), keys);
        }
        assert_reads(&keyspace, &ReadOptions::new(), &["a3"]);
        if round == 0 {
            db.compact().unwrap();
        }
    }
}

fn assert_reads(keyspace: &Keyspace, options: &ReadOptions, keys: &[&str]) {
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    let listed = |range: Range| range.map(|pair| text(pair.unwrap().0)).collect::<Vec<_>>();
    assert_eq!(listed(keyspace.iter_with(options)), keys);
    assert_eq!(listed(keyspace.range_with("a".."z", options)), keys);
    let of_a: Vec<_> = keys.iter().copied().filter(|key| key.starts_with('a')).collect();
    assert_eq!(listed(keyspace.prefix_with("a", options)), of_a);
    assert!(keyspace.keys_with(options).map(|key| text(key.unwrap())).eq(keys.iter().copied()));
    let mut cursor = keyspace.cursor_with(options).unwrap();
    cursor.seek_to_first().unwrap();
    assert_eq!(
        cursor.valid().then(|| text(cursor.key().to_vec())).as_deref(),
        keys.first().copied()
    );
    let key_of = |pair: Option<(Vec<u8>, _)>| pair.map(|(key, _): (_, cleavedb::Value)| text(key));
    let first = keyspace.first_key_value_with(options).unwrap();
    assert_eq!(key_of(first).as_deref(), keys.first().copied());
    let last = keyspace.last_key_value_with(options).unwrap();
    assert_eq!(key_of(last).as_deref(), keys.last().copied());
    assert_eq!(keyspace.is_empty_with(options).unwrap(), keys.is_empty());
    let all = ["a1", "a2", "a3", "b1"];
    let many = keyspace.multi_get_with(&all, options);
    for (key, found) in all.into_iter().zip(many) {
        let is_there = keys.contains(&key);
        assert_eq!(found.unwrap().is_some(), is_there);
        assert_eq!(keyspace.get_with(key, options).unwrap().is_some(), is_there);
        assert_eq!(keyspace.contains_key_with(key, options).unwrap(), is_there);
        let pinned = keyspace.get_pinned_with(key, options, <[u8]>::to_vec).unwrap();
        assert_eq!(pinned.is_some(), is_there);
    }
}
