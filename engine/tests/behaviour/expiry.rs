//! Tests of values that expire: what the calls accept and what they say. Clocks are set in
//! `simulated/expiry.rs`.

use crate::common;
use cleavedb::{
    Durability, ErrorKind, Expected, Expiry, KeyspaceOptions, Ttl, WriteBatch, WriteOptions,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns true if about `time` is left, but for the few minutes that a slow test may take. The
/// database's clock may be some milliseconds behind the system's.
fn about(ttl: Option<Ttl>, time: Duration) -> bool {
    let (second, slow) = (Duration::from_secs(1), Duration::from_secs(1800));
    matches!(ttl, Some(Ttl::Left(left)) if left <= time + second && left + slow > time)
}

#[test]
fn each_way_to_say_when_counts_over_reopenings_and_flushes() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keys = db.default_keyspace();
    let sizes = [10, 3000];
    for size in sizes {
        let value = vec![7; size];
        keys.put_expiring(format!("after{size}"), &value, HOUR).unwrap();
        keys.put_expiring(format!("at{size}"), &value, SystemTime::now() + HOUR).unwrap();
        keys.put_expiring(format!("never{size}"), &value, Expiry::Never).unwrap();
        keys.put(format!("plain{size}"), &value).unwrap();
        keys.put_expiring(format!("gone{size}"), &value, UNIX_EPOCH).unwrap();
        keys.put_expiring(format!("always{size}"), &value, Duration::MAX).unwrap();
        let long = format!("after{}{size}", "x".repeat(100));
        keys.put_expiring(long, &value, HOUR).unwrap();
    }
    let look = |keys: &cleavedb::Keyspace| {
        for size in sizes {
            let value = vec![7; size];
            let long = format!("after{}{size}", "x".repeat(100));
            for key in [format!("after{size}"), format!("at{size}"), long] {
                assert_eq!(keys.get(&key).unwrap().unwrap(), value);
                assert!(about(keys.ttl(&key).unwrap(), HOUR), "{key} {:?}", keys.ttl(&key));
            }
            for key in [format!("never{size}"), format!("plain{size}")] {
                assert_eq!(keys.ttl(key).unwrap(), Some(Ttl::Never));
            }
            let gone = format!("gone{size}");
            assert_eq!(keys.ttl(&gone).unwrap(), None);
            assert!(keys.get(&gone).unwrap().is_none() && !keys.contains_key(&gone).unwrap());
            let always = keys.ttl(format!("always{size}")).unwrap();
            assert!(matches!(always, Some(Ttl::Left(left)) if left > HOUR * 24 * 365 * 1000));
        }
        assert_eq!(keys.keys().count(), 12);
        assert_eq!(keys.iter().rev().count(), 12);
    };
    look(&keys);
    drop(keys);
    db.close().unwrap();
    let db = common::open(dir.path());
    look(&db.default_keyspace());
    db.flush().unwrap();
    look(&db.default_keyspace());
    db.compact().unwrap();
    db.gc().unwrap();
    look(&db.default_keyspace());
    db.default_keyspace().reorganize(..).unwrap();
    look(&db.default_keyspace());
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn a_keyspace_has_a_default_that_a_put_overrides() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let options = KeyspaceOptions { default_ttl: Some(HOUR), ..KeyspaceOptions::default() };
    let keys = db.create_keyspace_with("sessions", options.clone()).unwrap();
    keys.put("a", "1").unwrap();
    keys.put_expiring("b", "1", 2 * HOUR).unwrap();
    keys.put_expiring("c", "1", Expiry::Never).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keys, "d", "1").put_expiring(&keys, "e", "1", Expiry::Never);
    batch.put_expiring(&db.default_keyspace(), "f", "1", HOUR);
    db.write(batch).unwrap();
    let check = |keys: &cleavedb::Keyspace| {
        for (key, expected) in [("a", HOUR), ("b", 2 * HOUR), ("d", HOUR)] {
            assert!(about(keys.ttl(key).unwrap(), expected), "{key}");
        }
        for key in ["c", "e"] {
            assert_eq!(keys.ttl(key).unwrap(), Some(Ttl::Never));
        }
    };
    check(&keys);
    keys.set_options(KeyspaceOptions { default_ttl: None, ..options }).unwrap();
    keys.put("g", "1").unwrap();
    drop(keys);
    db.close().unwrap();
    let db = common::open(dir.path());
    let keys = db.keyspace("sessions").unwrap();
    check(&keys);
    assert_eq!(keys.ttl("g").unwrap(), Some(Ttl::Never));
    assert!(about(db.default_keyspace().ttl("f").unwrap(), HOUR));
}

#[test]
fn an_expiry_is_refused_where_it_means_nothing() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keys = db.default_keyspace();
    let options = WriteOptions::new().durability(Durability::Os).expiry(HOUR);
    keys.put_with("a", "1", &options).unwrap();
    let refused = keys.delete_with("a", &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let mut batch = WriteBatch::new();
    batch.put(&keys, "b", "1");
    let refused = db.write_with(batch, &options).unwrap_err();
    assert!(refused.to_string().contains("put_expiring"), "{refused}");
    let refused = keys.compare_and_delete_with("a", Expected::Value(b"1"), &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let transaction = db.begin();
    transaction.put(&keys, "b", "1").unwrap();
    let refused = transaction.commit_with(&options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let refused = db.transact_with(&options, |transaction| transaction.put(&keys, "b", "1"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(keys.get("a").unwrap().is_some() && keys.get("b").unwrap().is_none());
}

#[test]
fn a_deadline_can_be_set_and_taken_away_without_the_value() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let options = KeyspaceOptions { default_ttl: Some(2 * HOUR), ..KeyspaceOptions::default() };
    let keys = db.create_keyspace_with("sessions", options).unwrap();
    let values = [("small", vec![7; 10]), ("separated", vec![7; 3000])];
    for (key, value) in &values {
        keys.put(key, value).unwrap();
    }
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        for (key, value) in &values {
            assert!(keys.persist(key).unwrap());
            assert_eq!(keys.ttl(key).unwrap(), Some(Ttl::Never), "a default counts for puts only");
            assert!(keys.expire(key, HOUR).unwrap());
            assert!(about(keys.ttl(key).unwrap(), HOUR));
            assert!(keys.expire(key, SystemTime::now() + 4 * HOUR).unwrap());
            assert!(about(keys.ttl(key).unwrap(), 4 * HOUR));
            assert_eq!(keys.get(key).unwrap().unwrap(), *value);
        }
    }
    keys.put_expiring("gone", "1", UNIX_EPOCH).unwrap();
    assert!(keys.expire("small", UNIX_EPOCH).unwrap());
    let synced = WriteOptions::new().durability(Durability::Sync);
    for key in ["never put", "gone", "small"] {
        assert!(!keys.expire_with(key, HOUR, &synced).unwrap());
        assert!(!keys.persist_with(key, &synced).unwrap());
        assert!(keys.get(key).unwrap().is_none());
    }
    let refused = keys.expire_with("separated", HOUR, &synced.expiry(HOUR)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(keys.persist_with("separated", &synced.expiry(HOUR)).is_err());
    drop(keys);
    db.close().unwrap();
    let db = common::open(dir.path());
    let keys = db.keyspace("sessions").unwrap();
    assert_eq!(keys.keys().count(), 1);
    assert!(about(keys.ttl("separated").unwrap(), 4 * HOUR));
}

#[test]
fn a_transaction_asks_for_its_own_deadlines_and_those_of_its_snapshot() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keys = db.default_keyspace();
    for key in ["a", "b", "c"] {
        keys.put_expiring(key, "1", HOUR).unwrap();
    }
    let transaction = db.begin();
    let options = transaction.read_options();
    transaction.put(&keys, "b", "2").unwrap();
    transaction.put_expiring(&keys, "d", "2", 2 * HOUR).unwrap();
    transaction.put_expiring(&keys, "e", "2", UNIX_EPOCH).unwrap();
    transaction.delete(&keys, "c").unwrap();
    keys.delete("a").unwrap();
    let mut without = options.clone();
    without.snapshot = None;
    for options in [&options, &without] {
        assert!(about(keys.ttl_with("a", options).unwrap(), HOUR), "it was there");
        assert_eq!(keys.ttl_with("b", options).unwrap(), Some(Ttl::Never));
        assert_eq!(keys.ttl_with("c", options).unwrap(), None);
        assert!(about(keys.ttl_with("d", options).unwrap(), 2 * HOUR));
        let passed = keys.ttl_with("e", options).unwrap();
        assert_eq!(passed, Some(Ttl::Left(Duration::ZERO)), "it sees what it put");
    }
}

#[test]
fn a_checkpoint_and_a_repair_keep_deadlines() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("db"));
    let keys = db.default_keyspace();
    for size in [10, 3000] {
        keys.put_expiring(format!("after{size}"), vec![7; size], HOUR).unwrap();
        keys.put_expiring(format!("gone{size}"), vec![7; size], UNIX_EPOCH).unwrap();
    }
    db.flush().unwrap();
    keys.put_expiring("late", "1", HOUR).unwrap();
    db.checkpoint(dir.path().join("copy")).unwrap();
    drop(keys);
    db.close().unwrap();
    cleavedb::Db::repair(dir.path().join("db")).unwrap();
    for name in ["copy", "db"] {
        let db = common::open(&dir.path().join(name));
        let keys = db.default_keyspace();
        assert_eq!(keys.keys().count(), 3, "{name}");
        for key in ["after10", "after3000", "late"] {
            assert!(about(keys.ttl(key).unwrap(), HOUR), "{name}: {key}");
        }
    }
}
