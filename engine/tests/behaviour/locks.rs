//! Tests of the lock: a database is opened once at a time, unless all openers are read-only.

use crate::common;
use crate::common::child::{self, Running};
use cleavedb::{Db, ErrorKind, Options};
use std::path::Path;

fn refused(dir: &Path, options: Options, holder: u32) {
    let error = Db::builder(dir).options(options).open().expect_err("it is held open");
    assert_eq!(error.kind(), ErrorKind::Locked);
    let text = error.to_string();
    assert!(text.contains(&format!("process {holder} ")), "{text}");
    assert!(text.contains(&dir.display().to_string()) && text.contains("close it"), "{text}");
}

#[test]
fn twice_in_one_process() {
    let dir = common::dir();
    let db = common::open(dir.path());
    db.default_keyspace().put("key", "value").unwrap();
    for read_only in [false, true] {
        let options = Options { read_only, ..common::tiny() };
        refused(dir.path(), options, std::process::id());
    }
    // Another path to the same directory is refused as well.
    let link = dir.path().with_extension("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    refused(&link, common::tiny(), std::process::id());
    std::fs::remove_file(link).unwrap();
    db.close().unwrap();
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
}

#[test]
fn what_is_held_open_is_neither_repaired_nor_destroyed() {
    let dir = common::dir();
    let db = common::open(dir.path());
    db.default_keyspace().put("key", "value").unwrap();
    let current = dir.path().join("CURRENT");
    let bytes = std::fs::read(&current).unwrap();
    let refused = || {
        let errors = [Db::repair(dir.path()).err(), Db::destroy(dir.path()).err()];
        for error in errors.map(|error| error.expect("it is held open")) {
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
            assert!(error.to_string().contains("held open by process"), "{error}");
        }
    };
    refused();
    // Repair and destroy are also refused while CURRENT is missing, because the holder may not
    // need it.
    std::fs::remove_file(&current).unwrap();
    refused();
    std::fs::write(&current, bytes).unwrap();
    db.close().unwrap();
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
}

#[test]
fn an_opening_that_failed_holds_nothing() {
    let dir = common::dir();
    common::open(dir.path()).close().unwrap();
    let current = dir.path().join("CURRENT");
    let good = std::fs::read(&current).unwrap();
    std::fs::write(&current, "damaged").unwrap();
    for _ in 0..2 {
        let error = Db::builder(dir.path()).open().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    std::fs::write(&current, good).unwrap();
    common::open(dir.path()).close().unwrap();
}

#[test]
fn from_another_process_until_it_is_killed() {
    let dir = common::dir();
    let mut holder = Running::start("locks::child_that_holds", dir.path(), "");
    assert_eq!(holder.hear(), "open");
    for read_only in [false, true] {
        refused(dir.path(), Options { read_only, ..common::tiny() }, holder.id());
    }
    holder.kill();
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "of the child");
}

#[test]
fn readers_share_it_and_keep_writers_out() {
    let dir = common::dir();
    common::open(dir.path()).default_keyspace().put("key", "value").unwrap();
    let read_only = || Options { read_only: true, ..common::tiny() };
    let mut other = Running::start("locks::child_that_reads", dir.path(), "");
    assert_eq!(other.hear(), "value");
    let mine = [(); 2].map(|()| common::open_with(dir.path(), read_only()));
    for reader in mine {
        assert_eq!(reader.default_keyspace().get("key").unwrap().unwrap(), "value");
        refused(dir.path(), common::tiny(), std::process::id());
        reader.close().unwrap();
    }
    // The reader that is left is not the last that opened, but only the last one's name is known.
    let error = Db::builder(dir.path()).options(common::tiny()).open().err().unwrap();
    assert!(error.to_string().contains("held open by readers, the last of them"), "{error}");
    // On a full disk a reader can't replace the name of an earlier holder in LOCK.
    std::fs::write(dir.path().join("LOCK"), "CleaveDB lock, held by process 1 (gone)").unwrap();
    let error = Db::builder(dir.path()).options(common::tiny()).open().err().unwrap();
    assert!(error.to_string().contains("by readers who could not write who they are"), "{error}");
    other.kill();
    common::open(dir.path()).default_keyspace().put("key", "newer").unwrap();
}

#[test]
#[ignore = "runs in a process of its own, started by readers_share_it_and_keep_writers_out"]
fn child_that_reads() {
    let Some((dir, _)) = child::job() else {
        return;
    };
    let db = common::open_with(&dir, Options { read_only: true, ..common::tiny() });
    let value = db.default_keyspace().get("key").unwrap().unwrap();
    child::tell(std::str::from_utf8(&value).unwrap());
    child::wait_to_be_killed();
}

#[test]
#[ignore = "runs in a process of its own, started by from_another_process_until_it_is_killed"]
fn child_that_holds() {
    let Some((dir, _)) = child::job() else {
        return;
    };
    let db = common::open(&dir);
    db.default_keyspace().put("key", "of the child").unwrap();
    child::tell("open");
    child::wait_to_be_killed();
}
