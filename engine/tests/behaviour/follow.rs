//! Tests of following: what is read beside a process that writes. Here the writer is in the same
//! process, which makes no difference to the one who follows: it shares nothing with it but files.

use crate::common::child::{self, Running};
use crate::common::rng::Rng;
use crate::common::{self, TempDir};
use cleavedb::{
    Db, EncryptionKey, ErrorKind, GcOptions, KeyProvider, Keyspace, KeyspaceOptions, Options,
    ReadOptions, Result, Separation, WriteBatch, merge_operators,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    assert_eq!(reader.create_keyspace("new").err().unwrap().kind(), ErrorKind::ReadOnly);
    let target = dir.path().join("copy");
    assert_eq!(reader.checkpoint(&target).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(reader.backup(&target).unwrap_err().kind(), ErrorKind::Unsupported);
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
    for seed in 0..16 {
        use Separation::{AtFlush, AtWrite, Auto, Off};
        let separation = [AtWrite, AtFlush, Off, Auto][seed as usize % 4];
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
    // Who pins needs no descriptors to keep what it sees.
    let pinned = Options { follow_pinned: true, ..common::tiny() };
    let reader = if merges { common::open_with(dir.path(), pinned) } else { follow(dir.path()) };
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
        if number % 2 == 0 {
            assert_eq!(seen.get(&key).unwrap().unwrap(), *key);
        } else {
            assert_eq!(seen.iter().count(), number + 1, "a scan catches up, too");
        }
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

/// I5: what is pinned stays as it was seen for as long as it is read, whatever the writer removes,
/// and nothing is left behind.
#[test]
fn i05_pinned_files_stay_until_the_end() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    let put_all = |version: u64| {
        (0..200).for_each(|number| {
            let key = common::key(number);
            words.put(&key, common::value(&key, version, 150)).unwrap();
        });
    };
    put_all(0);
    let pinned = Options { follow_pinned: true, max_open_files: 8, ..common::tiny() };
    let reader = common::open_with(dir.path(), pinned.clone());
    let other = common::open_with(dir.path(), pinned);
    assert!(dir.path().join("pinned.1").is_dir() && dir.path().join("pinned.2").is_dir());
    let seen = reader.default_keyspace();
    let mut exported = seen.iter();
    for version in 1..20 {
        let at = exported.next().unwrap().unwrap();
        assert!(at.1 == common::value(std::str::from_utf8(&at.0).unwrap(), 0, 150));
        put_all(version);
        words.compact_range(..).unwrap();
        writer.gc().unwrap();
        if version % 4 == 0 {
            other.catch_up().unwrap();
            assert!(map_of(&other.default_keyspace()) == map_of(&words));
        }
    }
    assert_eq!(exported.count(), 200 - 19);
    assert!(seen.get(common::key(7)).unwrap().unwrap() == common::value(&common::key(7), 0, 150));
    let held = common::bytes_of(&dir.path().join("pinned.2"), ".seg");
    other.catch_up().unwrap();
    assert!(held < 4 * common::bytes_of(dir.path(), ".seg"), "what was let go is unpinned");
    other.close().unwrap();
    reader.close().unwrap();
    assert!(!dir.path().join("pinned.1").exists() && !dir.path().join("pinned.2").exists());
}

/// What a killed process has pinned goes with the next opening for writing, and not before it
/// ended.
#[test]
fn what_a_killed_process_pinned_goes_with_the_next_opening() {
    let (dir, writer) = created(common::tiny_keyspace());
    writer.default_keyspace().put("one", "eins").unwrap();
    let mut reader = Running::start("follow::child_that_pins", dir.path(), "");
    assert_eq!(reader.hear(), "eins");
    writer.close().unwrap();
    let pinned = dir.path().join("pinned.1");
    drop(common::open_with(dir.path(), common::tiny()));
    assert!(pinned.is_dir(), "it is in use");
    drop(reader.kill());
    assert!(pinned.is_dir());
    drop(common::open_with(dir.path(), common::tiny()));
    assert!(!pinned.exists());
    let mut reader = Running::start("follow::child_that_pins", dir.path(), "");
    assert_eq!(reader.hear(), "eins");
    drop(reader.kill());
    Db::destroy(dir.path()).unwrap();
    assert!(!pinned.exists());
}

#[test]
#[ignore = "a child of `what_a_killed_process_pinned_goes_with_the_next_opening`"]
fn child_that_pins() {
    let Some((dir, _)) = child::job() else { return };
    let pinned = Options { follow_pinned: true, ..common::tiny() };
    let reader = common::open_with(&dir, pinned);
    let value = reader.default_keyspace().get("one").unwrap().unwrap();
    child::tell(std::str::from_utf8(&value).unwrap());
    child::wait_to_be_killed();
}

/// Fails unless `reader` closes all removed files with a catch-up. The writer at rest may remove
/// more of its log right behind one, so another may be needed.
#[cfg(target_os = "linux")]
fn expect_closed(reader: &Db, writer: &Db, dir: &Path) {
    let mut held = Vec::new();
    for _ in 0..100 {
        writer.wait_idle().unwrap();
        reader.catch_up().unwrap();
        held = common::removed_and_open(dir);
        if held.is_empty() {
            return;
        }
    }
    panic!("still open: {held:?}");
}

fn overwrite(words: &Keyspace, version: u64) -> Map {
    (0..200)
        .map(|number| {
            let key = common::key(number);
            let value = common::value(&key, version, 150);
            words.put(&key, &value).unwrap();
            (key.into_bytes(), value)
        })
        .collect()
}

/// A snapshot that lives long keeps one state, not each that was seen meanwhile.
#[test]
#[cfg(target_os = "linux")]
fn i05_a_snapshot_keeps_one_state_open() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    let map = overwrite(&words, 0);
    writer.flush().unwrap();
    let reader = follow(dir.path());
    let snapshot = reader.snapshot();
    let mut held = Vec::new();
    for version in 1..12 {
        overwrite(&words, version);
        words.compact_range(..).unwrap();
        writer.gc().unwrap();
        // The writer may remove more right behind a look.
        let least = (0..10).map(|_| {
            writer.wait_idle().unwrap();
            reader.catch_up().unwrap();
            reader.catch_up().unwrap();
            common::removed_and_open(dir.path()).len()
        });
        held.push(least.min());
    }
    assert!(held[10] <= held[2], "{held:?}");
    let seen = reader.default_keyspace();
    assert!(map_at(&seen, &ReadOptions::new().snapshot(&snapshot)) == map);
}

/// I5: what nobody reads any more takes no space.
#[test]
#[cfg(target_os = "linux")]
fn i05_removed_files_are_closed_with_the_catch_up() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    overwrite(&words, 0);
    let reader = follow(dir.path());
    for version in 1..4 {
        overwrite(&words, version);
        words.compact_range(..).unwrap();
        writer.gc().unwrap();
        expect_closed(&reader, &writer, dir.path());
    }
    let snapshot = reader.snapshot();
    overwrite(&words, 4);
    words.compact_range(..).unwrap();
    writer.gc().unwrap();
    writer.wait_idle().unwrap();
    reader.catch_up().unwrap();
    assert!(!common::removed_and_open(dir.path()).is_empty());
    drop(snapshot);
    expect_closed(&reader, &writer, dir.path());
}

/// Guards against files that a follower opens for a version which is over before anybody sees it:
/// the writer goes on while the log is read.
#[test]
#[cfg(target_os = "linux")]
fn i05_files_that_went_while_a_follower_opened_are_closed() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    overwrite(&words, 0);
    let is_over = AtomicBool::new(false);
    let readers: Vec<Db> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let rounds = (1..).take_while(|_| !is_over.load(Ordering::Relaxed));
            rounds.for_each(|version| {
                overwrite(&words, version);
                words.compact_range(..).unwrap();
                writer.gc().unwrap();
            });
        });
        let readers = (0..100).map(|_| follow(dir.path())).collect();
        is_over.store(true, Ordering::Relaxed);
        readers
    });
    writer.wait_idle().unwrap();
    for reader in &readers[1..] {
        reader.catch_up().unwrap();
    }
    expect_closed(&readers[0], &writer, dir.path());
}

/// What a snapshot sees can be read although the writer began a new manifest.
#[test]
fn i06_a_snapshot_outlives_a_new_manifest() {
    let (dir, writer) = created(common::tiny_keyspace());
    let map = overwrite(&writer.default_keyspace(), 0);
    writer.flush().unwrap();
    let reader = follow(dir.path());
    let seen = reader.default_keyspace();
    let snapshot = reader.snapshot();
    writer.close().unwrap();
    let writer = common::open_with(dir.path(), common::tiny());
    let words = writer.default_keyspace();
    words.put("one", "eins").unwrap();
    reader.catch_up().unwrap();
    for version in 1..4 {
        overwrite(&words, version);
        words.compact_range(..).unwrap();
        writer.gc().unwrap();
        reader.catch_up().unwrap();
    }
    assert!(map_at(&seen, &ReadOptions::new().snapshot(&snapshot)) == map);
}

/// A file that was cut to nothing, or is gone, is damage where nobody writes.
#[test]
fn damage_is_reported_where_nobody_writes() {
    for suffix in [".seg", ".tbl"] {
        for is_gone in [false, true] {
            let (dir, writer) = created(common::tiny_keyspace());
            overwrite(&writer.default_keyspace(), 0);
            writer.flush().unwrap();
            (0..5).for_each(|it| writer.default_keyspace().put(common::key(it), "new").unwrap());
            writer.close().unwrap();
            let file = common::files(dir.path(), suffix).into_iter().max().unwrap();
            match is_gone {
                true => std::fs::remove_file(&file).unwrap(),
                false => std::fs::write(&file, "").unwrap(),
            }
            let read_only = Options { read_only: true, ..common::tiny() };
            for options in [read_only, following()] {
                let outcome = Db::builder(dir.path()).options(options.clone()).open();
                let outcome = outcome.and_then(|db| {
                    db.default_keyspace().iter().try_for_each(|item| item.map(drop))
                });
                let kind = outcome.err().map(|error| error.kind());
                let case = (suffix, is_gone, options.follow);
                assert_eq!(kind, Some(ErrorKind::Corruption), "{case:?}");
            }
        }
    }
}

#[test]
fn a_damaged_edit_is_reported_where_nobody_writes() {
    let (dir, writer) = created(common::tiny_keyspace());
    for name in ["a", "b", "c", "d"] {
        writer.create_keyspace(name).unwrap();
    }
    writer.close().unwrap();
    let file = common::files(dir.path(), ".man").into_iter().max().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let edits = bytes.len() / 2;
    bytes[edits] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let read_only = Options { read_only: true, ..common::tiny() };
    for options in [read_only, following()] {
        let outcome = Db::builder(dir.path()).options(options).open();
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// A read at a snapshot whose files are gone can't go on in another state.
#[test]
fn a_read_at_a_snapshot_says_what_is_gone() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    overwrite(&words, 0);
    writer.flush().unwrap();
    let few = Options { max_open_files: 8, cache_bytes: 0, ..following() };
    let reader = common::open_with(dir.path(), few);
    let seen = reader.default_keyspace();
    let snapshot = reader.snapshot();
    for version in 1..6 {
        overwrite(&words, version);
        words.compact_range(..).unwrap();
        writer.gc().unwrap();
        reader.catch_up().unwrap();
        let _ = map_of(&seen);
    }
    let at = ReadOptions::new().snapshot(&snapshot);
    let mut kinds = Vec::new();
    for number in 0..200 {
        kinds.extend(seen.get_with(common::key(number), &at).err().map(|it| it.kind()));
        kinds.extend(seen.contains_key_with(common::key(number), &at).err().map(|it| it.kind()));
        let many = seen.multi_get_with(&[common::key(number)], &at);
        kinds.extend(many.into_iter().filter_map(Result::err).map(|it| it.kind()));
    }
    assert!(!kinds.is_empty(), "no file was gone");
    assert!(kinds.iter().all(|kind| *kind == ErrorKind::WrongState), "{kinds:?}");
}

fn keys(bytes: &[u8]) -> Arc<dyn KeyProvider> {
    Arc::new(bytes.iter().map(|&byte| EncryptionKey::new([byte; 32])).collect::<Vec<_>>())
}

/// An opening for writing that changes the key of the database draws a data key for new files.
#[test]
fn a_changed_key_is_followed() {
    let dir = common::dir();
    let open = |options: Options, bytes: &[u8]| {
        Db::builder(dir.path()).options(options).encryption(keys(bytes)).open().unwrap()
    };
    let writer = open(common::tiny(), &[1]);
    writer.default_keyspace().put("one", "eins").unwrap();
    let reader = open(following(), &[1, 2]);
    writer.close().unwrap();
    let writer = open(common::tiny(), &[2, 1]);
    let words = writer.default_keyspace();
    let mut map = overwrite(&words, 1);
    map.insert("one".into(), "eins".into());
    writer.flush().unwrap();
    reader.catch_up().unwrap();
    check(&reader.default_keyspace(), &map, 200);
}

/// What only a snapshot of the follower sees is not missing from what the writer has.
#[test]
fn a_check_finds_no_damage_in_what_a_writer_has_freed() {
    let (dir, writer) = created(common::tiny_keyspace());
    let words = writer.default_keyspace();
    overwrite(&words, 0);
    writer.flush().unwrap();
    let few = Options { max_open_files: 8, cache_bytes: 0, ..following() };
    let (reader, other) = (follow(dir.path()), common::open_with(dir.path(), few));
    let _snapshot = reader.snapshot();
    for version in 1..6 {
        overwrite(&words, version);
        writer.flush().unwrap();
        writer.gc().unwrap();
        reader.catch_up().unwrap();
        let report = reader.check().unwrap();
        assert!(report.is_clean(), "{report:?}");
        match other.check() {
            Ok(report) => assert!(report.is_clean(), "{report:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WrongState),
        }
    }
}

/// Returns the keys and values of all batches that there are, in order.
fn all_changes(changes: &mut cleavedb::Changes) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    while let Some(batch) = changes.next_batch().unwrap() {
        for change in &batch {
            let value = match change.what {
                cleavedb::Changed::Put { value, .. } => Some(value.to_vec()),
                _ => None,
            };
            found.push((change.key.to_vec(), value));
        }
    }
    found
}

#[test]
fn who_follows_gets_every_change_once_and_in_order() {
    for pinned in [false, true] {
        let dir = common::dir();
        // Nothing else keeps the log for who follows.
        let gc = GcOptions { automatic: false, ..GcOptions::default() };
        let keyspace = common::separating(Some(64));
        let writer = common::open_with(dir.path(), Options { gc, keyspace, ..common::tiny() });
        let words = writer.default_keyspace();
        words.put("first", "1").unwrap();
        let options = Options { follow_pinned: pinned, ..following() };
        let reader = common::open_with(dir.path(), options);
        let visible = cleavedb::ChangesOptions::new().visible(true);
        let error = reader.changes_with(0, &visible.clone().pin(true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let mut changes = reader.changes_with(0, &visible).unwrap();
        assert_eq!(all_changes(&mut changes), [(b"first".to_vec(), Some(b"1".to_vec()))]);
        let (mut wanted, mut rng) = (Vec::new(), Rng::new(7));
        for round in 0..30u64 {
            // Several segments each, so that they are sealed and passed by the head meanwhile. Each
            // has live values, which keep it there.
            for number in 0..40 {
                let key = common::key(round as usize * 40 + number);
                if number % 5 == 4 {
                    words.delete(&key).unwrap();
                    wanted.push((key.into_bytes(), None));
                } else {
                    let value = common::value(&key, round, 100 + rng.below(300));
                    words.put(&key, &value).unwrap();
                    wanted.push((key.into_bytes(), Some(value)));
                }
            }
            assert!(all_changes(&mut changes).is_empty(), "nothing was caught up with");
            if round % 3 == 0 {
                writer.flush().unwrap();
            }
            reader.catch_up().unwrap();
            assert!(all_changes(&mut changes) == wanted, "round {round}");
            wanted.clear();
            assert_eq!(changes.position(), writer.visible_seqno());
        }
        // What was handed out is where a new consumer goes on.
        let mut later = reader.changes_with(changes.position(), &visible).unwrap();
        words.put("last", "2").unwrap();
        let batch = later.wait_batch(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(batch.iter().next().unwrap().key, b"last");
    }
}

/// A consumer stands amid a segment that the writer removes, and whose descriptor was closed.
#[test]
fn changes_that_the_writer_removed_are_gone_for_who_follows() {
    let (dir, writer) = created(common::separating(Some(64)));
    let words = writer.default_keyspace();
    overwrite(&words, 0);
    let few = Options { max_open_files: 8, cache_bytes: 0, ..following() };
    let reader = common::open_with(dir.path(), few);
    let visible = cleavedb::ChangesOptions::new().visible(true);
    let mut changes = reader.changes_with(0, &visible).unwrap();
    changes.next_batch().unwrap().expect("there are some");
    for version in 1..6 {
        overwrite(&words, version);
        words.compact_range(..).unwrap();
        writer.gc().unwrap();
        reader.catch_up().unwrap();
        let _ = map_of(&reader.default_keyspace());
    }
    let error = loop {
        match changes.next_batch() {
            Ok(batch) => assert!(batch.is_some(), "all changes were there"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
}

/// I2: of what is being written, a consumer that wants what is durable gets what lies in segments
/// that were synced.
#[test]
fn i02_who_follows_gets_what_is_durable_and_no_more() {
    let dir = common::dir();
    // Nothing else keeps the log for who follows.
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    let keyspace = common::separating(Some(64));
    let writer = common::open_with(dir.path(), Options { gc, keyspace, ..common::tiny() });
    let words = writer.default_keyspace();
    let reader = follow(dir.path());
    let mut changes = reader.changes(0).unwrap();
    let mut count = 0;
    while all_changes(&mut changes).is_empty() {
        words.put(common::key(count), vec![1; 300]).unwrap();
        reader.catch_up().unwrap();
        count += 1;
    }
    assert!(count > 1 && changes.position() < writer.visible_seqno(), "{count}");
    writer.close().unwrap();
    reader.catch_up().unwrap();
    all_changes(&mut changes);
    assert_eq!(changes.position(), reader.visible_seqno(), "a closed log is durable");
}
