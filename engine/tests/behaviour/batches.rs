//! Tests of write batches: several operations that become visible together.

use crate::common;
use cleavedb::{ErrorKind, WriteBatch};

#[test]
fn later_operations_count() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("c", "before").unwrap();
    let mut batch = WriteBatch::new();
    batch
        .put(&keyspace, "a", "1")
        .put(&keyspace, "a", "2")
        .put(&keyspace, "b", "1")
        .delete(&keyspace, "b")
        .delete(&keyspace, "c")
        .put(&keyspace, "c", [3; 300]);
    assert_eq!((batch.len(), batch.is_empty()), (6, false));
    assert_eq!(batch.bytes(), 6 + 3 + 300);
    db.write(batch).unwrap();
    let expected = [(b"a".to_vec(), b"2".to_vec()), (b"c".to_vec(), vec![3; 300])];
    assert_eq!(common::pairs(&keyspace), expected);
    db.compact().unwrap();
    assert_eq!(common::pairs(&keyspace), expected);
    drop((db, keyspace));
    assert_eq!(common::pairs(&common::open(dir.path()).default_keyspace()), expected);
}

#[test]
fn an_empty_one_is_nothing() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let before = db.visible_seqno();
    db.write(WriteBatch::new()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db.default_keyspace(), "key", "value");
    batch.clear();
    assert!(batch.is_empty() && batch.bytes() == 0);
    db.write(batch).unwrap();
    assert_eq!(db.visible_seqno(), before);
    assert!(db.default_keyspace().iter().next().is_none());
}

#[test]
fn one_bad_operation_refuses_all() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let mut batch = WriteBatch::new();
    batch
        .put(&keyspace, "good", "1")
        .put(&keyspace, vec![0; (64 << 10) + 1], "too long a key")
        .put(&keyspace, "good too", "1");
    let error = db.write(batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("65537 bytes"), "{error}");
    assert!(keyspace.iter().next().is_none());
    // A batch can be used again after `clear`.
    let mut batch = WriteBatch::new();
    batch.delete(&keyspace, vec![0; (64 << 10) + 1]);
    batch.clear();
    batch.put(&keyspace, "good", "1");
    db.write(batch).unwrap();
    assert_eq!(keyspace.get("good").unwrap().unwrap(), "1");
}

#[test]
fn far_larger_than_every_buffer() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let (a, b) =
        (db.open_or_create_keyspace("a").unwrap(), db.open_or_create_keyspace("b").unwrap());
    let mut batch = WriteBatch::new();
    for number in 0..5000 {
        let key = common::key(number);
        batch.put(&a, &key, common::value(&key, 1, 10 + number % 250)).put(&b, &key, &key);
    }
    db.write(batch).unwrap();
    let check = |db: &cleavedb::Db| {
        let (a, b) =
            (db.open_or_create_keyspace("a").unwrap(), db.open_or_create_keyspace("b").unwrap());
        for (number, item) in a.iter().enumerate() {
            let (key, value) = item.unwrap();
            assert_eq!(key, common::key(number).as_bytes());
            assert_eq!(value, common::value(&common::key(number), 1, 10 + number % 250));
        }
        assert_eq!((a.keys().count(), b.keys().count()), (5000, 5000));
    };
    check(&db);
    drop((a, b, db));
    check(&common::open(dir.path()));
}

#[test]
fn of_a_database_that_is_not_this_one() {
    let (one, two) = (common::dir(), common::dir());
    let (one, two) = (common::open(one.path()), common::open(two.path()));
    let mut batch = WriteBatch::new();
    batch.put(&one.default_keyspace(), "key", "value");
    let mut mixed = WriteBatch::new();
    mixed.put(&two.default_keyspace(), "key", "value").delete(&one.default_keyspace(), "key");
    for batch in [batch, mixed] {
        let error = two.write(batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("of one database"), "{error}");
    }
    assert!(two.default_keyspace().iter().next().is_none());
    assert!(one.default_keyspace().iter().next().is_none());
}

#[test]
fn what_was_put_and_deleted_is_counted_as_stored() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("key", "value").unwrap();
    keyspace.delete("key").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "k2", vec![1; 1000]).delete(&keyspace, "k3").delete(&keyspace, "k4");
    db.write(batch).unwrap();
    let stats = db.stats();
    let number = |name| stats.numbers().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!(number("deletes_written"), 3);
    assert_eq!(number("put_bytes_stored"), 3 + 5 + 2 + 1000);
}
