//! Tests of several keyspaces in one database, which share one log.

use crate::common;
use cleavedb::{Codec, ErrorKind, KeyspaceOptions, ReadOptions, Separation, WriteBatch};

#[test]
fn keys_of_one_are_not_in_another() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let (a, b) =
        (db.open_or_create_keyspace("a").unwrap(), db.open_or_create_keyspace("b").unwrap());
    a.put("key", "of a").unwrap();
    b.put("key", "of b").unwrap();
    a.delete("other").unwrap();
    assert_eq!(a.get("key").unwrap().unwrap(), "of a");
    assert_eq!(b.get("key").unwrap().unwrap(), "of b");
    assert!(db.default_keyspace().get("key").unwrap().is_none());
    assert_eq!(db.keyspaces(), ["a", "b", "default"]);
}

#[test]
fn names_that_cannot_be() {
    let dir = common::dir();
    let db = common::open(dir.path());
    for name in ["", "a\nb", "\0", &"x".repeat(256)] {
        let error = db.open_or_create_keyspace(name).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("can't be the name"), "{error}");
    }
    db.open_or_create_keyspace(&"ä".repeat(127)).unwrap();
    assert_eq!(db.keyspace("nobody").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn many_share_one_log() {
    let dir = common::dir();
    let names: Vec<_> = (0..60).map(|number| format!("space {number}")).collect();
    let db = common::open(dir.path());
    for round in 0..20 {
        for name in &names {
            let value = common::value(name, round, 20 + 10 * round as usize);
            db.open_or_create_keyspace(name)
                .unwrap()
                .put(common::key(round as usize), value)
                .unwrap();
        }
    }
    drop(db);
    let db = common::open(dir.path());
    for name in &names {
        let keyspace = db.open_or_create_keyspace(name).unwrap();
        for round in 0..20 {
            let value = common::value(name, round, 20 + 10 * round as usize);
            assert_eq!(keyspace.get(common::key(round as usize)).unwrap().unwrap(), value);
        }
    }
    db.wait_idle().unwrap();
    // Each keyspace keeps the head of the log back until it is flushed, which must be automatic.
    assert!(db.stats().replay_bytes <= common::tiny().max_replay_bytes);
}

#[test]
fn settings_stay_with_the_keyspace() {
    let dir = common::dir();
    let settings = KeyspaceOptions {
        separation: Separation::Off,
        value_codec: Codec::Lz4,
        filter_bits_per_key: 3,
        ..common::tiny_keyspace()
    };
    {
        let db = common::open(dir.path());
        assert_eq!(db.create_keyspace_with("own", settings.clone()).unwrap().options(), settings);
        assert_eq!(
            db.open_or_create_keyspace("of all").unwrap().options(),
            common::tiny_keyspace()
        );
    }
    let changed = KeyspaceOptions { separation: Separation::AtWrite, ..settings.clone() };
    {
        let db = common::open(dir.path());
        assert_eq!(db.open_or_create_keyspace("own").unwrap().options(), settings);
        // Neither opening the keyspace nor a call with other settings changes its settings.
        let other = KeyspaceOptions { filter_bits_per_key: 9, ..settings.clone() };
        let own = db.open_or_create_keyspace_with("own", other.clone()).unwrap();
        assert_eq!(own.options(), settings);
        let error = db.create_keyspace_with("own", other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let wrong = KeyspaceOptions { block_bytes: 1, ..settings.clone() };
        assert_eq!(own.set_options(wrong).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(own.options(), settings);
        own.set_options(changed.clone()).unwrap();
        assert_eq!(own.options(), changed);
    }
    let db = common::open(dir.path());
    assert_eq!(db.open_or_create_keyspace("own").unwrap().options(), changed);
}

#[test]
fn the_default_cannot_be_dropped_nor_an_unknown_one() {
    let dir = common::dir();
    let db = common::open(dir.path());
    assert_eq!(db.drop_keyspace("default").unwrap_err().kind(), ErrorKind::WrongState);
    assert!(db.drop_keyspace("nobody").unwrap_err().to_string().contains("nobody"));
}

#[test]
fn dropped_under_a_cursor_and_a_snapshot() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.open_or_create_keyspace("doomed").unwrap();
    for number in 0..300 {
        let key = common::key(number);
        keyspace.put(&key, common::value(&key, 1, 200)).unwrap();
    }
    db.flush().unwrap();
    let snapshot = db.snapshot();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    db.drop_keyspace("doomed").unwrap();
    db.wait_idle().unwrap();
    for number in 0..300 {
        let key = common::key(number);
        assert_eq!(cursor.key(), key.as_bytes());
        assert_eq!(cursor.value().unwrap(), common::value(&key, 1, 200));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    assert!(keyspace.get_with(common::key(0), &ReadOptions::new().snapshot(&snapshot)).is_err());
    let mut batch = WriteBatch::new();
    batch.put(&db.default_keyspace(), "other", "1").put(&keyspace, "key", "1");
    for error in [
        keyspace.get("key").unwrap_err(),
        keyspace.put("key", "value").unwrap_err(),
        keyspace.cursor().err().unwrap(),
        db.write(batch).unwrap_err(),
    ] {
        assert!(error.to_string().contains("\"doomed\" was dropped"), "{error}");
    }
    // Nothing of the refused batch was written.
    assert!(db.default_keyspace().get("other").unwrap().is_none());
    drop((cursor, keyspace, snapshot));
    db.wait_idle().unwrap();
    assert_eq!(common::files(dir.path(), ".tbl").len(), 0);
}

#[test]
fn a_name_used_again_begins_empty() {
    let dir = common::dir();
    let db = common::open(dir.path());
    db.open_or_create_keyspace("again").unwrap().put("old", "1").unwrap();
    db.drop_keyspace("again").unwrap();
    let again = db.open_or_create_keyspace("again").unwrap();
    assert_eq!(common::pairs(&again), []);
    again.put("new", "2").unwrap();
    drop((db, again));
    let db = common::open(dir.path());
    let again = db.open_or_create_keyspace("again").unwrap();
    assert_eq!(common::pairs(&again), [(b"new".to_vec(), b"2".to_vec())]);
}

#[test]
fn log_records_of_a_dropped_one_never_come_back() {
    let dir = common::dir();
    {
        let db = common::open(dir.path());
        // This is not flushed, so it stays in the log and is replayed at every later opening.
        db.default_keyspace().put("holds the log", "1").unwrap();
        db.open_or_create_keyspace("gone").unwrap().put("ghost", "boo").unwrap();
        db.drop_keyspace("gone").unwrap();
    }
    // The manifest no longer contains the dropped keyspace,
    assert_eq!(common::open(dir.path()).keyspaces(), ["default"]);
    // but its records are still in the log, at this opening and the next.
    assert_eq!(
        common::pairs(&common::open(dir.path()).open_or_create_keyspace("new").unwrap()),
        []
    );
    let db = common::open(dir.path());
    assert_eq!(common::pairs(&db.open_or_create_keyspace("new").unwrap()), []);
    assert_eq!(db.default_keyspace().get("holds the log").unwrap().unwrap(), "1");
}
