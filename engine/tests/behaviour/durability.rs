//! Tests of what each durability level guarantees when the process is killed. The simulation tests
//! what it guarantees at a power cut.

use crate::common;
use crate::common::child::{self, Running};
use crate::common::rng::Rng;
use cleavedb::{Db, Durability, WriteBatch, WriteOptions};
use std::path::Path;
use std::time::Duration;

fn with(durability: Durability) -> WriteOptions {
    WriteOptions::new().durability(durability)
}

fn syncs(db: &Db) -> u64 {
    db.stats().numbers().find(|(name, _)| *name == "log_syncs").unwrap().1
}

/// Returns true if the key would survive a kill at this moment.
fn survives_a_kill(db: &Db, key: &str) -> bool {
    let place = common::dir();
    let copy = place.path().join("copy");
    common::copy_dir(db.path(), &copy);
    common::open(&copy).default_keyspace().get(key).unwrap().is_some()
}

/// Opens a database in which no background work is left, so that its directory can be copied.
fn quiet(dir: &Path) -> Db {
    let db = Db::builder(dir).open().unwrap();
    db.wait_idle().unwrap();
    db
}

#[test]
fn os_and_sync_survive_a_kill_at_once() {
    let dir = common::dir();
    let db = quiet(dir.path());
    let levels =
        [Durability::Os, Durability::Sync, Durability::SyncEvery(Duration::from_secs(3600))];
    for (number, durability) in levels.into_iter().enumerate() {
        let key = common::key(number);
        db.default_keyspace().put_with(&key, "value", &with(durability)).unwrap();
        assert!(survives_a_kill(&db, &key), "{durability}");
    }
}

#[test]
fn buffered_survives_from_the_next_sync_or_stronger_write_on() {
    let dir = common::dir();
    let db = quiet(dir.path());
    let keyspace = db.default_keyspace();
    let buffered = with(Durability::Buffered);
    keyspace.put_with("1", "value", &buffered).unwrap();
    assert!(!survives_a_kill(&db, "1"), "it is in a buffer of this process");
    assert_eq!(keyspace.get("1").unwrap().unwrap(), "value");
    db.sync().unwrap();
    assert!(survives_a_kill(&db, "1"));
    keyspace.put_with("2", "value", &buffered).unwrap();
    keyspace.put_with("3", "value", &with(Durability::Os)).unwrap();
    assert!(survives_a_kill(&db, "2") && survives_a_kill(&db, "3"));
    keyspace.put_with("4", "value", &buffered).unwrap();
    drop((db, keyspace));
    // A close loses nothing, whatever the durability.
    assert!(quiet(dir.path()).default_keyspace().get("4").unwrap().is_some());
}

#[test]
fn a_buffered_separated_value_is_read_from_the_buffer() {
    let dir = common::dir();
    let db = quiet(dir.path());
    let keyspace = db.default_keyspace();
    let keys: Vec<_> = (0..20).map(common::key).collect();
    for key in &keys {
        let value = common::value(key, 1, 2000);
        keyspace.put_with(key, value, &with(Durability::Buffered)).unwrap();
    }
    assert!(!survives_a_kill(&db, &keys[0]));
    let found = keyspace.multi_get(&keys);
    for ((key, item), found) in keys.iter().zip(keyspace.iter()).zip(found) {
        let value = common::value(key, 1, 2000);
        assert_eq!(keyspace.get(key).unwrap().unwrap(), value);
        assert_eq!(item.unwrap().1, value);
        assert_eq!(found.unwrap().unwrap(), value);
    }
}

#[test]
fn only_sync_syncs() {
    let dir = common::dir();
    let db = quiet(dir.path());
    let keyspace = db.default_keyspace();
    for (durability, expected) in
        [(Durability::Buffered, 0), (Durability::Os, 0), (Durability::Sync, 5)]
    {
        let before = syncs(&db);
        for number in 0..5 {
            keyspace.put_with(common::key(number), "value", &with(durability)).unwrap();
        }
        assert_eq!(syncs(&db) - before, expected, "{durability}");
    }
}

/// Returns a count of the statistics.
fn count(db: &Db, name: &str) -> u64 {
    db.stats().numbers().find(|(known, _)| *known == name).unwrap().1
}

/// Guards against a device that is given the whole log of a load, though tables replace it before
/// anything has asked for it.
#[test]
fn log_that_tables_replace_is_not_synced_unless_it_has_values_or_was_synced() {
    for (value_bytes, synced, update_table_bytes, is_spared) in [
        (100, false, 0, true),
        (100, false, 1 << 20, true),
        (2000, false, 0, false),
        (100, true, 0, false),
    ] {
        let dir = common::dir();
        let mut options = cleavedb::Options { update_table_bytes, ..Default::default() };
        options.keyspace.memtable_bytes = 64 << 10;
        options.keyspace.separation = cleavedb::Separation::AtWrite;
        options.keyspace.separation_threshold = 1000;
        let db = Db::builder(dir.path()).options(options).open().unwrap();
        let keyspace = db.default_keyspace();
        let value = vec![b'v'; value_bytes];
        for number in 0..4000 {
            let is_synced = synced && number % 50 == 0;
            let level = if is_synced { Durability::Sync } else { Durability::Os };
            keyspace.put_with(common::key(number), &value, &with(level)).unwrap();
            if number % 100 == 0 {
                // Memtables that wait long for their flush are synced.
                db.wait_idle().unwrap();
            }
        }
        db.flush().unwrap();
        let (spared, written) = (count(&db, "log_bytes_spared"), count(&db, "log_bytes_written"));
        match is_spared {
            true => assert!(spared > written / 2, "{spared} of {written}"),
            false => assert_eq!(spared, 0, "{value_bytes}, {synced}"),
        }
        assert!(survives_a_kill(&db, &common::key(3999)));
        drop((keyspace, db));
        let db = common::open(dir.path());
        for number in 0..4000 {
            let found = db.default_keyspace().get(common::key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]), "{number}");
        }
    }
}

#[test]
fn sync_every_syncs_later_and_unasked() {
    let dir = common::dir();
    let db = quiet(dir.path());
    let before = syncs(&db);
    let soon = with(Durability::SyncEvery(Duration::from_millis(1)));
    db.default_keyspace().put_with("key", "value", &soon).unwrap();
    while syncs(&db) == before {
        std::thread::yield_now();
    }
}

#[test]
fn the_level_of_the_database_counts_unless_the_write_has_one() {
    let dir = common::dir();
    let options = cleavedb::Options { durability: Durability::Sync, ..Default::default() };
    let db = Db::builder(dir.path()).options(options).open().unwrap();
    db.wait_idle().unwrap();
    let before = syncs(&db);
    db.default_keyspace().put("key", "value").unwrap();
    assert_eq!(syncs(&db), before + 1);
    db.default_keyspace().delete_with("key", &with(Durability::Os)).unwrap();
    assert_eq!(syncs(&db), before + 1);
}

/// Makes the child's write number `number`: a batch over two keyspaces.
fn write(db: &Db, number: usize, how: &WriteOptions) {
    let (left, right) =
        (db.open_or_create_keyspace("left").unwrap(), db.open_or_create_keyspace("right").unwrap());
    let key = common::key(number);
    let mut batch = WriteBatch::new();
    batch.put(&left, &key, common::value(&key, 1, number % 300)).put(&right, &key, "seen");
    db.write_with(batch, how).unwrap();
}

#[test]
fn what_was_acknowledged_survives_sigkill() {
    let mut rng = Rng::new(20);
    for durability in ["os", "sync", "every:5ms", "buffered"] {
        let dir = common::dir();
        let mut acknowledged = 0;
        for _ in 0..4 {
            let mut writer =
                Running::start("durability::child_that_writes", dir.path(), durability);
            let target = acknowledged + 1 + rng.below(400);
            let mut last = 0;
            while last < target {
                last = writer.hear().parse().unwrap();
            }
            last = writer.kill().last().map_or(last, |word| word.parse().unwrap_or(last));
            let db = common::open(dir.path());
            let (left, right) = (
                db.open_or_create_keyspace("left").unwrap(),
                db.open_or_create_keyspace("right").unwrap(),
            );
            let found = left.keys().count();
            if durability != "buffered" {
                assert!(found >= last, "{durability}: {found} of {last}");
            }
            // At every level a prefix of the commits survives, each of them whole.
            for number in 0..found {
                let key = common::key(number);
                let value = left.get(&key).unwrap().expect(&key);
                assert_eq!(value, common::value(&key, 1, number % 300));
                assert_eq!(right.get(&key).unwrap().unwrap(), "seen");
            }
            assert_eq!(right.keys().count(), found);
            assert!(db.check().unwrap().is_clean());
            acknowledged = found;
        }
    }
}

#[test]
#[ignore = "runs in a process of its own, started by what_was_acknowledged_survives_sigkill"]
fn child_that_writes() {
    let Some((dir, how)) = child::job() else {
        return;
    };
    let db = common::open(&dir);
    let how = with(how.parse().unwrap());
    let first = db.open_or_create_keyspace("left").unwrap().keys().count();
    for number in first.. {
        write(&db, number, &how);
        child::tell(&(number + 1).to_string());
    }
}
