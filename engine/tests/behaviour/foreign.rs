//! Tests of directories that are not databases or contain files of others.

use crate::common;
use cleavedb::{Db, Error, ErrorKind, Options};
use std::fs;
use std::path::Path;

fn refusal(dir: &Path) -> Error {
    let before = names(dir);
    let error = Db::builder(dir).options(common::tiny()).open().expect_err("a refusal");
    let after = names(dir);
    assert_eq!(before, after, "nothing is added or taken away");
    error
}

fn names(dir: &Path) -> Vec<std::path::PathBuf> {
    if !dir.is_dir() {
        return Vec::new();
    }
    common::files(dir, "")
}

#[test]
fn of_other_stores() {
    let stores: [(&str, &[&str], &str); 3] = [
        ("leveldb", &["CURRENT", "MANIFEST-000002", "000003.log", "LOCK", "LOG"], "LevelDB"),
        ("rocksdb", &["CURRENT", "MANIFEST-000005", "OPTIONS-000007", "IDENTITY"], "RocksDB"),
        ("badger", &["000001.vlog", "KEYREGISTRY", "MANIFEST"], "Badger"),
    ];
    for (name, files, store) in stores {
        let dir = common::dir();
        let dir = dir.path().join(name);
        fs::create_dir(&dir).unwrap();
        for file in files {
            fs::write(dir.join(file), "MANIFEST-000002\n").unwrap();
        }
        let error = refusal(&dir);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(store), "{error}");
        assert!(error.file().is_some());
        for file in files {
            assert_eq!(fs::read(dir.join(file)).unwrap(), b"MANIFEST-000002\n");
        }
    }
}

#[test]
fn with_other_files_in_it() {
    let dir = common::dir();
    fs::write(dir.path().join("thesis.tex"), "precious").unwrap();
    let error = refusal(dir.path());
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("thesis.tex"), "{error}");
    assert!(error.to_string().contains("choose an empty or a new directory"), "{error}");
}

#[test]
fn that_are_files() {
    let dir = common::dir();
    let file = dir.path().join("file");
    fs::write(&file, "precious").unwrap();
    let error = refusal(&file);
    assert!(error.to_string().contains("file"), "{error}");
    assert!(error.file().is_some_and(|path| path.starts_with(&file)));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    let below = refusal(&file.join("db"));
    assert!(below.file().is_some());
}

#[test]
fn a_database_without_its_current() {
    let dir = common::dir();
    common::open(dir.path()).default_keyspace().put("key", "value").unwrap();
    fs::remove_file(dir.path().join("CURRENT")).unwrap();
    let error = refusal(dir.path());
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("CURRENT is missing"), "{error}");
}

#[test]
fn a_creation_that_was_cut_short_begins_anew() {
    let dir = common::dir();
    for (name, bytes) in [("LOCK", ""), ("00000001.man", "CLEAVEDBMA"), ("CURRENT.new", "CLEA")] {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let db = common::open(dir.path());
    db.default_keyspace().put("key", "value").unwrap();
    drop(db);
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
}

#[test]
fn only_what_is_wanted() {
    let dir = common::dir();
    let missing = Options { create_if_missing: false, ..common::tiny() };
    let error = Db::builder(dir.path()).options(missing.clone()).open().err().unwrap();
    assert!(error.to_string().contains("no database here"), "{error}");
    assert!(names(dir.path()).is_empty());
    let new = Options { error_if_exists: true, ..common::tiny() };
    drop(common::open_with(dir.path(), new.clone()));
    let error = Db::builder(dir.path()).options(new).open().err().unwrap();
    assert!(error.to_string().contains("a database already"), "{error}");
    common::open_with(dir.path(), missing).close().unwrap();
}

#[test]
fn directories_on_the_way_are_made() {
    let dir = common::dir();
    let deep = dir.path().join("a/b/c");
    common::open(&deep).default_keyspace().put("key", "value").unwrap();
    assert_eq!(common::open(&deep).default_keyspace().get("key").unwrap().unwrap(), "value");
}

/// Guards against overflow of file ids: an empty file `18446744073709551615.tbl` made opening and
/// repair panic, and `18446744073709551614.tbl` led to a manifest with the highest possible id.
#[test]
fn a_stray_number_changes_nothing() {
    for number in ["18446744073709551615", "18446744073709551614", "72057594037927935"] {
        let dir = common::dir();
        common::open(dir.path()).default_keyspace().put("key", "value").unwrap();
        let stray = dir.path().join(format!("{number}.tbl"));
        fs::write(&stray, "").unwrap();
        for _ in 0..2 {
            let db = common::open(dir.path());
            assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
            assert_eq!(db.recovery().foreign_files, 1);
            db.flush().unwrap();
        }
        fs::remove_file(dir.path().join("CURRENT")).unwrap();
        Db::repair(dir.path()).unwrap();
        let db = common::open(dir.path());
        assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
        assert!(stray.exists(), "it is somebody else's");
        let manifests = common::files(dir.path(), ".man");
        let name = manifests[0].file_name().unwrap().to_string_lossy().into_owned();
        assert!(manifests.len() == 1 && name.starts_with("000000"), "{name}");
    }
}
