//! Tests of `multi_get`: reads of many keys at one moment.

use crate::common;
use cleavedb::{Options, ParallelReads, ReadOptions};

#[test]
fn in_the_order_asked_for() {
    for parallel_reads in [ParallelReads::Auto, ParallelReads::Off] {
        let dir = common::dir();
        let options = cleavedb::Options { parallel_reads, ..common::tiny() };
        let db = common::open_with(dir.path(), options);
        let keyspace = db.default_keyspace();
        for number in 0..300 {
            let bytes = if number % 3 == 0 { 30 } else { 300 };
            keyspace.put(common::key(number), common::value("", number as u64, bytes)).unwrap();
            if number == 200 {
                db.compact().unwrap();
            }
        }
        keyspace.delete(common::key(10)).unwrap();
        // The keys are in descending order, with repetitions and with keys that do not exist.
        let numbers: Vec<usize> =
            (0..320).rev().flat_map(|number| [number, number / 2, number]).collect();
        let keys: Vec<_> = numbers.iter().map(|number| common::key(*number)).collect();
        let found = keyspace.multi_get(&keys);
        assert_eq!(found.len(), keys.len());
        for (number, found) in numbers.into_iter().zip(found) {
            let bytes = if number % 3 == 0 { 30 } else { 300 };
            let expected =
                (number < 300 && number != 10).then(|| common::value("", number as u64, bytes));
            assert_eq!(found.unwrap().as_deref(), expected.as_deref(), "{number}");
        }
    }
}

/// Nothing is read for keys that a range was deleted of: the tables hold only older entries.
#[test]
fn of_a_range_that_was_deleted() {
    let dir = common::dir();
    // No table stays open, so that each look into one counts.
    let options = Options { max_index_and_filter_bytes: Some(0), ..common::tiny() };
    let db = common::open_with(dir.path(), options);
    let keyspace = db.default_keyspace();
    (0..300).for_each(|number| common::put_value(&keyspace, number, 1, 30));
    db.compact().unwrap();
    let snapshot = db.snapshot();
    keyspace.delete_range(..).unwrap();
    db.wait_idle().unwrap();
    let before = db.stats().table_opens;
    let keys: Vec<_> = (0..300).map(common::key).collect();
    let found = keyspace.multi_get(&keys);
    assert!(found.into_iter().all(|found| found.unwrap().is_none()));
    assert_eq!(db.stats().table_opens, before);
    let then = keyspace.multi_get_with(&keys, &ReadOptions::new().snapshot(&snapshot));
    assert!(then.into_iter().all(|found| found.unwrap().is_some()));
    assert!(db.stats().table_opens > before);
}

#[test]
fn of_nothing() {
    let dir = common::dir();
    let db = common::open(dir.path());
    assert!(db.default_keyspace().multi_get::<&str>(&[]).is_empty());
    assert!(db.default_keyspace().multi_get(&["a"])[0].as_ref().unwrap().is_none());
}

#[test]
fn at_a_snapshot() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("a", [1; 500]).unwrap();
    keyspace.put("b", [1; 5]).unwrap();
    let options = ReadOptions::new().snapshot(&db.snapshot());
    keyspace.put("a", [2; 500]).unwrap();
    keyspace.delete("b").unwrap();
    keyspace.put("c", [2; 500]).unwrap();
    db.compact().unwrap();
    let found = keyspace.multi_get_with(&["c", "b", "a"], &options);
    let found: Vec<_> = found.into_iter().map(|found| found.unwrap()).collect();
    assert!(found[0].is_none());
    assert_eq!(found[1].as_deref(), Some(&[1; 5][..]));
    assert_eq!(found[2].as_deref(), Some(&[1; 500][..]));
}

#[test]
fn neighbours_are_read_together() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for number in 0..40 {
        keyspace.put(common::key(number), common::value("", number as u64, 300)).unwrap();
    }
    db.flush().unwrap();
    let reads = |keys: &[String]| {
        let before = db.stats().value_bytes_read;
        assert!(keyspace.multi_get(keys).iter().all(Result::is_ok));
        db.stats().value_bytes_read - before
    };
    let all: Vec<_> = (0..40).map(common::key).collect();
    let (together, alone) =
        (reads(&all), all.iter().map(|key| reads(std::slice::from_ref(key))).sum());
    // Only frame headers lie between the records.
    let between: u64 = 24 * 40;
    assert!((alone..=alone + between).contains(&together), "{together} and {alone}");
}
