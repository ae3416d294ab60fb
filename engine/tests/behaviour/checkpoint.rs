//! Tests of checkpoints: a second, complete database that shares files with the first.

use crate::common::{self, OnDrop};
use cleavedb::{Db, ErrorKind, WriteBatch, WriteOptions};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn fill(db: &Db, numbers: std::ops::Range<usize>, version: u64) {
    for number in numbers {
        let key = common::key(number);
        let bytes = if number % 2 == 0 { 20 } else { 300 };
        db.default_keyspace().put(&key, common::value(&key, version, bytes)).unwrap();
    }
}

#[track_caller]
fn expect(db: &Db, numbers: std::ops::Range<usize>, version: u64) {
    let pairs = common::pairs(&db.default_keyspace());
    assert_eq!(pairs.len(), numbers.len());
    for (number, (key, value)) in numbers.zip(pairs) {
        let bytes = if number % 2 == 0 { 20 } else { 300 };
        assert_eq!(key, common::key(number).as_bytes());
        assert_eq!(value, common::value(&common::key(number), version, bytes));
    }
}

#[test]
fn complete_and_independent() {
    let dir = common::dir();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    let db = common::open(&source);
    fill(&db, 0..300, 1);
    db.compact().unwrap();
    fill(&db, 100..200, 1);
    db.open_or_create_keyspace("other").unwrap().put("key", "value").unwrap();
    db.checkpoint(&target).unwrap();
    // Later changes of the source do not affect the checkpoint.
    fill(&db, 0..300, 2);
    db.drop_keyspace("other").unwrap();
    db.compact().unwrap();
    {
        let copy = common::open(&target);
        expect(&copy, 0..300, 1);
        assert_eq!(
            copy.open_or_create_keyspace("other").unwrap().get("key").unwrap().unwrap(),
            "value"
        );
        assert!(copy.check().unwrap().is_clean());
        // Changes of the checkpoint do not affect the source either.
        fill(&copy, 0..300, 3);
        copy.compact().unwrap();
        expect(&copy, 0..300, 3);
    }
    expect(&db, 0..300, 2);
    assert!(db.check().unwrap().is_clean());
    db.close().unwrap();
    std::fs::remove_dir_all(&source).unwrap();
    expect(&common::open(&target), 0..300, 3);
}

#[test]
fn of_an_empty_database() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("source"));
    db.checkpoint(dir.path().join("target")).unwrap();
    let copy = common::open(&dir.path().join("target"));
    assert!(copy.default_keyspace().iter().next().is_none());
    copy.default_keyspace().put("key", "value").unwrap();
}

#[test]
fn of_a_checkpoint() {
    let dir = common::dir();
    let places: Vec<_> = (0..4).map(|number| dir.path().join(number.to_string())).collect();
    fill(&common::open(&places[0]), 0..100, 1);
    for pair in places.windows(2) {
        let db = common::open(&pair[0]);
        db.checkpoint(&pair[1]).unwrap();
        fill(&db, 0..100, 9);
    }
    expect(&common::open(&places[3]), 0..100, 1);
}

#[test]
fn what_was_buffered_is_in_it() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("source"));
    let how = WriteOptions::new().durability(cleavedb::Durability::Buffered);
    db.default_keyspace().put_with("key", "value", &how).unwrap();
    db.checkpoint(dir.path().join("target")).unwrap();
    let copy = common::open(&dir.path().join("target"));
    assert_eq!(copy.default_keyspace().get("key").unwrap().unwrap(), "value");
}

#[test]
fn only_into_a_new_directory() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("source"));
    for target in [dir.path().to_owned(), dir.path().join("source")] {
        let error = db.checkpoint(&target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("exists already"), "{error}");
        assert_eq!(error.file(), Some(&*target));
    }
}

/// A target under the database's own directory was created there, so that a copy or a removal of
/// the one took the other along. Now it is refused, by whatever name, and nothing changes.
#[test]
fn not_into_the_directory_of_the_database() {
    let dir = common::dir();
    let source = dir.path().join("source");
    let db = common::open(&source);
    fill(&db, 0..10, 1);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&source, &link).unwrap();
    let names = || std::fs::read_dir(&source).unwrap().count();
    let before = names();
    for target in [
        source.join("copy"),
        source.join("new/deep"),
        link.join("copy"),
        dir.path().join("./source/../source/copy"),
    ] {
        let error = db.checkpoint(&target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("within the database's own directory"), "{error}");
        assert_eq!(error.file(), Some(&*target));
        assert_eq!(names(), before);
    }
    // A name that only begins alike is another directory.
    db.checkpoint(dir.path().join("source-copy")).unwrap();
    expect(&common::open(&dir.path().join("source-copy")), 0..10, 1);
}

#[test]
fn one_that_was_cut_short_is_refused() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("source"));
    fill(&db, 0..300, 1);
    let target = dir.path().join("target");
    db.checkpoint(&target).unwrap();
    std::fs::remove_file(target.join("CURRENT")).unwrap();
    let error = Db::builder(&target).open().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(&*target));
}

#[test]
fn under_writes_and_compactions() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("source"));
    let (left, right) =
        (db.open_or_create_keyspace("left").unwrap(), db.open_or_create_keyspace("right").unwrap());
    let (done, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let written_before: Vec<usize> = std::thread::scope(|scope| {
        let (db, done, written) = (&db, &done, &written);
        scope.spawn(move || {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let key = common::key(number);
                let mut batch = WriteBatch::new();
                batch.put(&left, &key, common::value(&key, 1, number % 300));
                batch.put(&right, &key, "seen").put(&left, "newest", &key);
                db.write(batch).unwrap();
                written.store(number + 1, Ordering::Release);
            }
        });
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                db.compact().unwrap();
            }
        });
        let _stop = OnDrop(|| done.store(true, Ordering::Relaxed));
        let take = |number: usize| {
            while written.load(Ordering::Acquire) < number * 200 {
                std::thread::yield_now();
            }
            let before = written.load(Ordering::Acquire);
            db.checkpoint(dir.path().join(number.to_string())).unwrap();
            before
        };
        (0..8).map(take).collect()
    });
    for (number, before) in written_before.into_iter().enumerate() {
        let copy = common::open(&dir.path().join(number.to_string()));
        let (left, right) = (
            copy.open_or_create_keyspace("left").unwrap(),
            copy.open_or_create_keyspace("right").unwrap(),
        );
        let found = right.keys().count();
        assert!(found >= before, "{found} of {before}");
        for number in 0..found {
            let key = common::key(number);
            let value = left.get(&key).unwrap().expect(&key);
            assert_eq!(value, common::value(&key, 1, number % 300));
        }
        if found > 0 {
            assert_eq!(left.get("newest").unwrap().unwrap(), common::key(found - 1));
            assert_eq!(left.keys().count(), found + 1);
        }
        assert!(copy.check().unwrap().is_clean());
    }
}
