//! Tests of following: what is read beside a process that writes. Here the writer is in the same
//! process, which makes no difference to the one who follows: it shares nothing with it but files.

use crate::common::child::{self, Running};
use crate::common::rng::Rng;
use crate::common::{self, TempDir};
use cleavedb::{
    Db, ErrorKind, Keyspace, KeyspaceOptions, Options, ReadOptions, Result, Separation, WriteBatch,
    merge_operators,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn following() -> Options {
    Options { follow: true, max_open_files: 4096, ..common::tiny() }
}

fn follow(dir: &Path) -> Db {
    common::open_with(dir, following())
}

fn map_of(keyspace: &Keyspace) -> Map {
    common::pairs(keyspace).into_iter().collect()
}

fn map_at(keyspace: &Keyspace, options: &ReadOptions) -> Map {
    let pair = |item: Result<(Vec<u8>, cleavedb::Value)>| {
        item.map(|(key, value)| (key, value.into_vec())).unwrap()
    };
    keyspace.range_with(.., options).map(pair).collect()
}

/// Asserts that reads of all kinds see exactly `wanted`.
fn check(keyspace: &Keyspace, wanted: &Map, keys: usize) {
    assert!(map_of(keyspace) == *wanted);
    let backward: Map = keyspace
        .iter()
        .rev()
        .map(|item| item.map(|(key, value)| (key, value.into_vec())).unwrap())
        .collect();
    assert!(backward == *wanted);
    let names: Vec<String> = (0..keys).map(common::key).collect();
    let many = keyspace.multi_get(&names);
    for (name, found) in names.iter().zip(many) {
        let wanted = wanted.get(name.as_bytes());
        assert_eq!(found.unwrap().map(|value| value.into_vec()).as_ref(), wanted);
        let one = keyspace.get(name).unwrap().map(|value| value.into_vec());
        assert_eq!(one.as_ref(), wanted);
        assert_eq!(keyspace.contains_key(name).unwrap(), wanted.is_some());
        let len = keyspace.get_pinned(name, <[u8]>::len).unwrap();
        assert_eq!(len, wanted.map(Vec::len));
    }
}

fn created(keyspace: KeyspaceOptions) -> (TempDir, Db) {
    let dir = common::dir();
    let db = common::open_with(dir.path(), Options { keyspace, ..common::tiny() });
    (dir, db)
}

#[test]
fn what_is_committed_is_seen_after_a_catch_up_and_not_before() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    words.put("one", "eins").unwrap();
    let reader = follow(dir.path());
    assert!(reader.follows() && !writer.follows());
    let seen = reader.default_keyspace();
    assert_eq!(seen.get("one").unwrap().unwrap(), "eins");
    let mut batch = WriteBatch::new();
    batch.put(&words, "two", vec![7; 300]).delete(&words, "one");
    writer.write(batch).unwrap();
    assert!(seen.get("two").unwrap().is_none() && seen.contains_key("one").unwrap());
    let caught_up = reader.catch_up().unwrap();
    assert_eq!((caught_up.records, caught_up.seqno), (2, writer.visible_seqno()));
    assert_eq!(seen.get("two").unwrap().unwrap(), vec![7; 300]);
    assert!(!seen.contains_key("one").unwrap());
    assert_eq!(reader.catch_up().unwrap().records, 0);
    assert_eq!(words.put("three", "drei").and_then(|()| writer.catch_up()).unwrap().records, 0);
}

#[test]
fn nobody_is_kept_from_writing_and_nothing_can_be_written() {
    let (dir, writer) = created(common::tiny_keyspace());
    let reader = follow(dir.path());
    writer.close().unwrap();
    let writer = common::open_with(dir.path(), common::tiny());
    let error = reader.default_keyspace().put("one", "eins").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert_eq!(reader.changes(0).err().unwrap().kind(), ErrorKind::Unsupported);
    assert_eq!(reader.create_keyspace("new").err().unwrap().kind(), ErrorKind::ReadOnly);
    let target = dir.path().join("copy");
    assert_eq!(reader.checkpoint(target).unwrap_err().kind(), ErrorKind::ReadOnly);
    reader.close().unwrap();
    writer.default_keyspace().put("one", "eins").unwrap();
    writer.close().unwrap();
    let error = Db::builder(common::dir().path().join("none")).options(following()).open();
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn keyspaces_come_and_go_and_change_their_settings() {
    let (dir, writer) = created(common::tiny_keyspace());
    let reader = follow(dir.path());
    let words = writer.create_keyspace("words").unwrap();
    words.put("one", "eins").unwrap();
    assert_eq!(reader.keyspaces(), ["default"]);
    reader.catch_up().unwrap();
    let seen = reader.keyspace("words").unwrap();
    assert_eq!(seen.get("one").unwrap().unwrap(), "eins");
    let inline = common::separating(None);
    words.set_options(inline.clone()).unwrap();
    words.put("two", vec![2; 500]).unwrap();
    reader.catch_up().unwrap();
    assert_eq!(seen.options(), inline);
    assert_eq!(seen.get("two").unwrap().unwrap(), vec![2; 500]);
    writer.drop_keyspace("words").unwrap();
    let words = writer.create_keyspace("words").unwrap();
    words.put("three", "drei").unwrap();
    reader.catch_up().unwrap();
    assert_eq!(seen.get("one").unwrap_err().kind(), ErrorKind::KeyspaceDropped);
    let seen = reader.keyspace("words").unwrap();
    assert!(seen.get("one").unwrap().is_none());
    assert_eq!(seen.get("three").unwrap().unwrap(), "drei");
}

/// I6: the writer does not know of snapshots here, and its compactions drop what they see.
#[test]
fn i06_a_snapshot_sees_the_same_after_any_catch_up() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    let reader = follow(dir.path());
    let seen = reader.default_keyspace();
    let mut snapshots = Vec::new();
    let mut map = Map::new();
    for version in 0..12u64 {
        for number in 0..60 {
            let key = common::key(number);
            let value = common::value(&key, version, 20 + 37 * (number % 9));
            words.put(&key, &value).unwrap();
            map.insert(key.into_bytes(), value);
        }
        reader.catch_up().unwrap();
        snapshots.push((reader.snapshot(), map.clone()));
        match version % 4 {
            1 => writer.flush().unwrap(),
            2 => words.compact_range(..).unwrap(),
            3 => drop(writer.gc().unwrap()),
            _ => {}
        }
        reader.catch_up().unwrap();
        for (snapshot, map) in &snapshots {
            assert!(map_at(&seen, &ReadOptions::new().snapshot(snapshot)) == *map);
        }
        if version % 3 == 2 {
            snapshots.remove(1);
        }
    }
}

/// I1, I6: whatever the writer does meanwhile, and however often it is opened anew, a catch-up
/// shows exactly what was committed.
#[test]
fn i01_i06_random_histories_are_followed_exactly() {
    for seed in 0..12 {
        let separation =
            [Separation::AtWrite, Separation::AtFlush, Separation::Off][seed as usize % 3];
        let operator = (seed % 2 == 0).then(|| merge_operators::APPEND.into());
        let options = KeyspaceOptions {
            separation,
            merge_operator: operator.clone(),
            ..common::tiny_keyspace()
        };
        run(seed, Options { keyspace: options, ..common::tiny() }, operator.is_some());
    }
}

fn run(seed: u64, options: Options, merges: bool) {
    const KEYS: usize = 120;
    let dir = common::dir();
    let mut rng = Rng::new(seed);
    let mut writer = common::open_with(dir.path(), options.clone());
    let mut words = writer.default_keyspace();
    let mut map = Map::new();
    let reader = follow(dir.path());
    let seen = reader.default_keyspace();
    for round in 0..120u64 {
        for _ in 0..rng.below(80) {
            let key = common::key(rng.below(KEYS));
            let value = common::value(&key, round, [8, 90, 150, 700][rng.below(4)]);
            match rng.below(12) {
                0 => {
                    words.delete(&key).unwrap();
                    map.remove(key.as_bytes());
                }
                1 => {
                    let end = common::key(rng.below(KEYS));
                    let (from, to) = (key.clone().min(end.clone()), key.max(end));
                    if rng.once_in(6) && from < to {
                        words.delete_range(from.as_str()..to.as_str()).unwrap();
                        map.retain(|key, _| {
                            key.as_slice() < from.as_bytes() || key.as_slice() >= to.as_bytes()
                        });
                    }
                }
                2 if merges => {
                    words.merge(&key, &value).unwrap();
                    map.entry(key.into_bytes()).or_default().extend(&value);
                }
                _ => {
                    words.put(&key, &value).unwrap();
                    map.insert(key.into_bytes(), value);
                }
            }
        }
        match rng.below(14) {
            0 => writer.flush().unwrap(),
            1 => words.compact_range(..).unwrap(),
            2 => drop(writer.gc().unwrap()),
            3 => words.reorganize(..).unwrap(),
            4 => {
                let some: Map = (0..KEYS)
                    .step_by(1 + rng.below(9))
                    .map(|number| {
                        let key = common::key(number);
                        (key.clone().into_bytes(), common::value(&key, round, 160))
                    })
                    .collect();
                words.ingest_sorted(&some).unwrap();
                map.extend(some);
            }
            5 => {
                drop(words);
                writer.close().unwrap();
                writer = common::open_with(dir.path(), options.clone());
                words = writer.default_keyspace();
            }
            _ => {}
        }
        if rng.once_in(3) {
            reader.catch_up().unwrap();
            assert_eq!(reader.visible_seqno(), writer.visible_seqno());
            check(&seen, &map, KEYS);
        }
        if rng.once_in(10) {
            check(&follow(dir.path()).default_keyspace(), &map, KEYS);
        }
    }
}

#[test]
fn reads_catch_up_by_themselves_if_asked_to() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    let every = Options { follow_every: Some(Duration::ZERO), ..following() };
    let reader = common::open_with(dir.path(), every);
    let seen = reader.default_keyspace();
    for number in 0..50 {
        let key = common::key(number);
        words.put(&key, &key).unwrap();
        assert_eq!(seen.get(&key).unwrap().unwrap(), *key);
        assert_eq!(seen.iter().count(), number + 1);
    }
}

const SHARED_KEYS: u64 = 40;

/// Returns what both keyspaces of [`i01_child_that_writes`] have, and asserts that they are alike.
fn alike(reader: &Db) -> u64 {
    let at = ReadOptions::new().snapshot(&reader.snapshot());
    let Ok(first) = reader.keyspace("first") else { return 0 };
    let second = reader.keyspace("second").unwrap();
    let (first, second) = (map_at(&first, &at), map_at(&second, &at));
    assert!(first == second, "I1: a batch is seen in part");
    let number = |value: &Vec<u8>| u64::from_le_bytes(value[..8].try_into().unwrap());
    first.values().map(number).max().unwrap_or(0)
}

/// I1, I2: a follower beside a process that writes and is killed again and again sees each batch
/// whole, what was acknowledged always, and nothing that it saw is ever gone.
#[test]
fn i01_i02_a_writer_that_is_killed_is_followed() {
    let dir = common::dir();
    drop(common::open_with(dir.path(), common::tiny()));
    let reader = follow(dir.path());
    let (mut last, mut rng) = (0, Rng::new(7));
    for _ in 0..6 {
        let mut writer = Running::start("follow::i01_child_that_writes", dir.path(), "");
        for _ in 0..5 + rng.below(12) {
            let acknowledged: u64 = writer.hear().parse().unwrap();
            reader.catch_up().unwrap();
            let seen = alike(&reader);
            assert!(seen >= acknowledged && seen >= last, "{seen} {acknowledged} {last}");
            last = seen;
            assert!(alike(&follow(dir.path())) >= acknowledged);
        }
        let rest = writer.kill();
        let acknowledged = rest.iter().filter_map(|word| word.parse::<u64>().ok());
        let acknowledged = acknowledged.max().unwrap_or(0);
        reader.catch_up().unwrap();
        let seen = alike(&reader);
        assert!(seen >= acknowledged && seen >= last, "{seen} {acknowledged} {last}");
        last = seen;
    }
}

#[test]
#[ignore = "a child of `i01_i02_a_writer_that_is_killed_is_followed`"]
fn i01_child_that_writes() {
    let Some((dir, _)) = child::job() else { return };
    let db = common::open_with(&dir, common::tiny());
    let first = db.open_or_create_keyspace("first").unwrap();
    let second = db.open_or_create_keyspace("second").unwrap();
    let mut number = alike(&db);
    loop {
        number += 1;
        let (key, bytes) = (common::key((number % SHARED_KEYS) as usize), [20, 200, 900]);
        let mut value = number.to_le_bytes().to_vec();
        value.resize(bytes[number as usize % 3], number as u8);
        let mut batch = WriteBatch::new();
        batch.put(&first, &key, &value).put(&second, &key, &value);
        db.write(batch).unwrap();
        if number.is_multiple_of(20) {
            child::tell(&number.to_string());
        }
    }
}

/// Who follows leaves nothing when killed, and holds nobody up.
#[test]
fn a_follower_that_is_killed_leaves_nothing() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    words.put("one", "eins").unwrap();
    let mut reader = Running::start("follow::child_that_follows", dir.path(), "");
    assert_eq!(reader.hear(), "eins");
    let names = |dir: &Path| {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names(dir.path());
    drop(reader.kill());
    assert_eq!(names(dir.path()), before);
    writer.close().unwrap();
    let mut reader = Running::start("follow::child_that_follows", dir.path(), "");
    assert_eq!(reader.hear(), "eins");
    drop(common::open_with(dir.path(), common::tiny()));
}

#[test]
#[ignore = "a child of `a_follower_that_is_killed_leaves_nothing`"]
fn child_that_follows() {
    let Some((dir, _)) = child::job() else { return };
    let value = follow(&dir).default_keyspace().get("one").unwrap().unwrap();
    child::tell(std::str::from_utf8(&value).unwrap());
    child::wait_to_be_killed();
}

/// Files that are not held open vanish, and each read goes on in a newer state.
#[test]
fn reads_go_on_when_files_vanish() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    let few = Options { max_open_files: 8, ..following() };
    let reader = common::open_with(dir.path(), few);
    let seen = reader.default_keyspace();
    for version in 0..30u64 {
        for number in 0..200 {
            let key = common::key(number);
            words.put(&key, common::value(&key, version, 150)).unwrap();
        }
        words.compact_range(..).unwrap();
        writer.gc().unwrap();
        for number in 0..200 {
            let key = common::key(number);
            let found = seen.get(&key).unwrap();
            let newest = common::value(&key, version, 150);
            let before = version.checked_sub(1).map(|it| common::value(&key, it, 150));
            let found = found.map(|value| value.into_vec());
            assert!(found == Some(newest) || found == before);
        }
        // A walk is of one state, so it can't go on in another.
        if let Err(error) = seen.iter().try_for_each(|item| item.map(drop)) {
            assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
        }
        reader.catch_up().unwrap();
    }
}
