//! Tests of put, get, delete and overwrite.

use crate::common;
use cleavedb::Value;

#[test]
fn a_value_comes_back() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for bytes in [0, 1, 99, 100, 101, 5000, 100_000] {
        let key = format!("of {bytes}");
        let value = vec![7; bytes];
        keyspace.put(&key, &value).unwrap();
        assert_eq!(keyspace.get(&key).unwrap().unwrap(), value);
        assert!(keyspace.contains_key(&key).unwrap());
    }
    db.compact().unwrap();
    for bytes in [0, 1, 99, 100, 101, 5000, 100_000] {
        assert_eq!(keyspace.get(format!("of {bytes}")).unwrap().unwrap(), vec![7; bytes]);
    }
}

#[test]
fn what_is_missing_is_no_error() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    assert!(keyspace.get("nothing").unwrap().is_none());
    keyspace.delete("nothing").unwrap();
    keyspace.put("key", "value").unwrap();
    db.flush().unwrap();
    for near in ["ke", "key\0", "kez", "", "\u{ff}"] {
        assert!(keyspace.get(near).unwrap().is_none());
        assert!(!keyspace.contains_key(near).unwrap());
    }
}

#[test]
fn the_newest_value_counts_wherever_it_is() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    // The sizes alternate, so the value is inline and separated in turn.
    for (round, bytes) in [10, 300, 20, 0, 400, 5].into_iter().enumerate() {
        let value = common::value("key", round as u64, bytes);
        keyspace.put("key", &value).unwrap();
        assert_eq!(keyspace.get("key").unwrap().unwrap(), value);
        match round % 3 {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            _ => {}
        }
        assert_eq!(keyspace.get("key").unwrap().unwrap(), value);
        assert_eq!(common::pairs(&keyspace), [(b"key".to_vec(), value)]);
    }
}

#[test]
fn deleted_is_gone_wherever_it_was() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for number in 0..30 {
        keyspace.put(common::key(number), "value").unwrap();
        if number % 10 == 9 {
            db.flush().unwrap();
        }
    }
    for number in (0..30).step_by(2) {
        keyspace.delete(common::key(number)).unwrap();
    }
    for step in 0..3 {
        for number in 0..30 {
            let found = keyspace.get(common::key(number)).unwrap();
            assert_eq!(found.is_some(), number % 2 == 1);
        }
        assert_eq!(keyspace.keys().count(), 15);
        if step == 0 { db.flush().unwrap() } else { db.compact().unwrap() }
    }
    keyspace.put(common::key(0), "again").unwrap();
    assert_eq!(keyspace.get(common::key(0)).unwrap().unwrap(), "again");
}

#[test]
fn any_bytes_are_a_key() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let mut keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    keys.extend([vec![], vec![0, 0], vec![0xff; 9], b"a\0b".to_vec(), vec![b'k'; 3000]]);
    for key in &keys {
        keyspace.put(key, key).unwrap();
    }
    db.compact().unwrap();
    keys.sort();
    let found: Vec<_> = keyspace.iter().map(|item| item.unwrap()).collect();
    assert!(found.iter().map(|(key, _)| key).eq(&keys));
    assert!(found.iter().all(|(key, value)| value == key));
}

#[test]
fn a_value_is_its_own() {
    let dir = common::dir();
    let db = common::open(dir.path());
    db.default_keyspace().put("small", "inline").unwrap();
    db.default_keyspace().put("large", [1; 1000]).unwrap();
    let [small, large]: [Value; 2] =
        ["small", "large"].map(|key| db.default_keyspace().get(key).unwrap().unwrap());
    let clone = large.clone();
    assert_eq!(clone.as_ptr(), large.as_ptr(), "a clone shares the bytes");
    for key in ["small", "large"] {
        db.default_keyspace().delete(key).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    drop(dir);
    assert_eq!(small, "inline");
    assert_eq!(large.into_vec(), [1; 1000]);
}

#[test]
fn statistics_count_what_was_done() {
    let dir = common::dir();
    let db = common::open(dir.path());
    for number in 0..50 {
        db.default_keyspace().put(common::key(number), [0; 200]).unwrap();
    }
    let stats = db.stats();
    assert_eq!(stats.entries_written, 50);
    assert_eq!(stats.user_bytes_written, 50 * 209);
    assert!(stats.log_bytes_written > stats.user_bytes_written);
    assert!(stats.replay_bytes > 0);
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!(stats.replay_bytes, 0);
    assert_eq!(stats.keyspaces[0].table_entries, 50);
    // Separated values are written once, so tables hold little more than keys and pointers.
    assert!(stats.flush_bytes_written + stats.compaction_bytes_written < 50 * 200);
    assert_eq!(stats.segments.iter().map(|segment| segment.referenced_records).sum::<u64>(), 50);
    assert!(stats.background_error.is_none() && stats.read_only_because.is_none());
}
