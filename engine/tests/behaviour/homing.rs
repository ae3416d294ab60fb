//! Compactions bring values to where the settings of their keyspace say now, on their way.

use crate::common::{self, separating};
use cleavedb::{
    Codec, CompactionFilter, Db, FilterDecision, FilteredEntry, GcOptions, Keyspace,
    KeyspaceOptions, Options, ReadOptions, Result, Separation, merge_operators,
};
use std::path::Path;
use std::sync::Arc;

const KEYS: usize = 200;
const BYTES: usize = 300;

/// Returns options with so much room that value GC neither moves anything nor keeps values out of
/// the tree.
fn options(keyspace: KeyspaceOptions) -> Options {
    let gc = GcOptions {
        max_space_amplification: 100.0,
        settled_space_amplification: 100.0,
        ..GcOptions::default()
    };
    Options { gc, keyspace, segment_bytes: 1 << 20, ..common::tiny() }
}

fn open(dir: &Path, keyspace: &KeyspaceOptions) -> (Db, Keyspace) {
    let db = common::open_with(dir, options(keyspace.clone()));
    let default = db.default_keyspace();
    (db, default)
}

fn at_flush(threshold: usize) -> KeyspaceOptions {
    KeyspaceOptions { separation: Separation::AtFlush, ..separating(Some(threshold)) }
}

/// Returns the number of records that tables reference.
fn separated(db: &Db) -> usize {
    let segments = db.stats().segments;
    segments.iter().map(|segment| segment.referenced_records as usize).sum()
}

/// Puts all keys and compacts them to the deepest level.
fn fill(db: &Db, keyspace: &Keyspace) {
    (0..KEYS).for_each(|number| common::put_value(keyspace, number * 77 % KEYS, 1, BYTES));
    db.compact().unwrap();
    learn_room(db);
}

/// Has value GC look around, so that it knows how much room there is.
fn learn_room(db: &Db) {
    db.wait_idle().unwrap();
    db.gc().unwrap();
}

/// Puts small values between the keys, so that a compaction has something to merge.
fn put_between(keyspace: &Keyspace) {
    (0..KEYS).for_each(|number| keyspace.put(common::key(number) + "-", "small").unwrap());
}

fn expect_all(keyspace: &Keyspace) {
    (0..KEYS).for_each(|number| common::expect_value(keyspace, number, 1, BYTES));
}

/// Changes the settings of a full store and compacts it. Returns how many values are separated
/// before and after.
fn compacted(before: &KeyspaceOptions, after: &KeyspaceOptions) -> (usize, usize) {
    let dir = common::dir();
    let (db, default) = open(dir.path(), before);
    fill(&db, &default);
    let first = separated(&db);
    default.set_options(after.clone()).unwrap();
    put_between(&default);
    db.compact().unwrap();
    expect_all(&default);
    assert!(db.check().unwrap().is_clean());
    (first, separated(&db))
}

#[test]
fn values_follow_the_settings_as_they_are_compacted() {
    let off = separating(None);
    let (small, large) = (at_flush(100), at_flush(1000));
    assert_eq!(compacted(&off, &small), (0, KEYS), "large values move out");
    assert_eq!(compacted(&off, &separating(Some(100))), (0, KEYS), "at write as at flush");
    assert_eq!(compacted(&small, &off), (KEYS, 0), "nothing is separated any more");
    assert_eq!(compacted(&small, &large), (KEYS, 0), "they are small now");
    assert_eq!(compacted(&large, &small), (0, KEYS), "they are large now");
    assert_eq!(compacted(&small, &small), (KEYS, KEYS));
    let auto = KeyspaceOptions { separation: Separation::Auto, ..small.clone() };
    assert_eq!(compacted(&small, &auto), (KEYS, KEYS), "they are at home");
}

#[test]
fn values_stay_where_the_keyspace_says_so_or_where_they_lie_strewn() {
    let stay =
        |settings: KeyspaceOptions| KeyspaceOptions { convert_in_compactions: false, ..settings };
    let (off, small) = (separating(None), at_flush(100));
    assert_eq!(compacted(&off, &stay(small.clone())), (0, 0));
    assert_eq!(compacted(&small, &stay(off.clone())), (KEYS, KEYS));
    // A value in the log is a read of its own, wherever it is.
    assert_eq!(compacted(&separating(Some(100)), &off), (KEYS, KEYS));
}

/// Guards against reading all of them again and again: their pointers do not tell their size.
#[test]
fn compressed_values_that_are_large_stay_in_their_segments() {
    let before = KeyspaceOptions { value_codec: Codec::Lz4, ..at_flush(1000) };
    let dir = common::dir();
    let (db, default) = open(dir.path(), &before);
    let text = |number: usize| vec![b'a' + (number % 20) as u8; 4000];
    (0..KEYS).for_each(|number| default.put(common::key(number), text(number)).unwrap());
    db.compact().unwrap();
    db.wait_idle().unwrap();
    put_between(&default);
    db.compact().unwrap();
    assert_eq!(separated(&db), KEYS);
    default.set_options(KeyspaceOptions { separation_threshold: 5000, ..before }).unwrap();
    (0..KEYS).for_each(|number| default.put(common::key(number) + "+", "small").unwrap());
    db.compact().unwrap();
    assert_eq!(separated(&db), 0, "now they are small");
    (0..KEYS).for_each(|number| {
        assert_eq!(default.get(common::key(number)).unwrap().unwrap(), text(number));
    });
}

#[test]
fn i06_snapshots_see_what_they_saw_while_values_move() {
    for (before, after) in [(separating(None), at_flush(100)), (at_flush(100), separating(None))] {
        let dir = common::dir();
        let (db, default) = open(dir.path(), &before);
        fill(&db, &default);
        let (snapshot, wanted) = (db.snapshot(), common::pairs(&default));
        default.set_options(after).unwrap();
        (0..KEYS).step_by(3).for_each(|number| common::put_value(&default, number, 2, BYTES));
        (1..KEYS).step_by(3).for_each(|number| default.delete(common::key(number)).unwrap());
        put_between(&default);
        db.compact().unwrap();
        let then = ReadOptions::new().snapshot(&snapshot);
        let found = default.iter_with(&then).map(|pair| pair.unwrap());
        assert!(found.map(|(key, value)| (key, value.into_vec())).eq(wanted));
        drop(snapshot);
        db.compact().unwrap();
        db.gc().unwrap();
        (0..KEYS).for_each(|number| match number % 3 {
            0 => common::expect_value(&default, number, 2, BYTES),
            1 => assert_eq!(default.get(common::key(number)).unwrap(), None),
            _ => common::expect_value(&default, number, 1, BYTES),
        });
        assert!(db.check().unwrap().is_clean());
    }
}

#[test]
fn operands_move_with_their_keys() {
    let merging = |settings| KeyspaceOptions {
        merge_operator: Some(merge_operators::APPEND.to_owned()),
        ..settings
    };
    for (before, after) in [(separating(None), at_flush(100)), (at_flush(100), separating(None))] {
        let dir = common::dir();
        let (db, _) = open(dir.path(), &separating(None));
        let words = db.create_keyspace_with("words", merging(before)).unwrap();
        let wanted = |number: usize| [vec![b'a'; 200], vec![b'b'; number]].concat();
        (0..KEYS).for_each(|number| words.put(common::key(number), vec![b'a'; 200]).unwrap());
        words.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        words.set_options(merging(after.clone())).unwrap();
        (0..KEYS).for_each(|number| {
            words.merge(common::key(number), vec![b'b'; number]).unwrap();
        });
        words.compact_range(..).unwrap();
        let all = if after.separation == Separation::Off { 0 } else { KEYS };
        assert_eq!(separated(&db), all);
        (0..KEYS).for_each(|number| {
            assert_eq!(words.get(common::key(number)).unwrap().unwrap(), wanted(number));
        });
        assert!(db.check().unwrap().is_clean());
    }
}

/// A filter that changes every other value to another of the same size.
struct Overwriting;

impl CompactionFilter for Overwriting {
    fn name(&self) -> &str {
        "overwriting"
    }

    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
        let number: Option<usize> = std::str::from_utf8(&entry.key()[3..]).unwrap().parse().ok();
        Ok(match number {
            Some(number) if number % 2 == 0 => FilterDecision::Change(vec![9; BYTES]),
            _ => FilterDecision::Keep,
        })
    }
}

#[test]
fn values_move_after_a_filter_has_kept_or_changed_them() {
    for (before, after) in [(separating(None), at_flush(100)), (at_flush(100), separating(None))] {
        let dir = common::dir();
        {
            let (db, default) = open(dir.path(), &before);
            fill(&db, &default);
            default.set_options(after.clone()).unwrap();
        }
        let builder = Db::builder(dir.path()).options(options(after.clone()));
        let db = builder.compaction_filter("default", Arc::new(Overwriting)).open().unwrap();
        let default = db.default_keyspace();
        learn_room(&db);
        put_between(&default);
        db.compact().unwrap();
        let all = if after.separation == Separation::Off { 0 } else { KEYS };
        assert_eq!(separated(&db), all);
        (0..KEYS).for_each(|number| match number % 2 {
            0 => assert_eq!(default.get(common::key(number)).unwrap().unwrap(), [9; BYTES]),
            _ => common::expect_value(&default, number, 1, BYTES),
        });
        assert!(db.check().unwrap().is_clean());
    }
}

/// A compaction copies pointers without looking at their values, so one that is damaged must not
/// hold it up where it moves values either.
#[test]
fn i03_a_damaged_value_stays_and_holds_no_compaction_up() {
    let dir = common::dir();
    let used = {
        let (db, default) = open(dir.path(), &at_flush(100));
        fill(&db, &default);
        default.set_options(separating(None)).unwrap();
        drop(default);
        // A segment of the log may still be there, and nothing leads to it.
        let used = db.stats().segments.into_iter().max_by_key(|it| it.referenced_records).unwrap();
        db.close().unwrap();
        used
    };
    let segment = dir.path().join(format!("{:08}.seg", used.id));
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[3000] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let (db, default) = open(dir.path(), &separating(None));
    learn_room(&db);
    put_between(&default);
    db.compact().unwrap();
    assert_eq!(separated(&db), 1);
    let failed = (0..KEYS).filter(|number| default.get(common::key(*number)).is_err());
    assert_eq!(failed.count(), 1);
}
