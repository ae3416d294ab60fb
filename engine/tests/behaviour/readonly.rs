//! Tests of read-only opening: nothing changes on disk.

use crate::common;
use cleavedb::{Db, ErrorKind, Options, ReadOptions, WriteBatch};
use std::collections::BTreeMap;
use std::path::Path;

fn open(dir: &Path) -> Db {
    common::open_with(dir, Options { read_only: true, ..common::tiny() })
}

/// Returns every file with its bytes, except LOCK, whose text names the holder.
fn bytes(dir: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let files = common::files(dir, "").into_iter().filter(|path| !path.ends_with("LOCK"));
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Creates a database as a kill leaves it: some data in tables, some only in the log, with a torn
/// tail and an orphan.
fn killed(dir: &Path) {
    let db = common::open(&dir.join("live"));
    for number in 0..300 {
        db.default_keyspace().put(common::key(number), vec![1; number]).unwrap();
    }
    db.compact().unwrap();
    for number in 300..330 {
        db.default_keyspace().put(common::key(number), vec![1; number]).unwrap();
    }
    db.wait_idle().unwrap();
    common::copy_dir(db.path(), &dir.join("killed"));
    std::fs::write(dir.join("killed/00099999.tbl"), "CLEAVEDBTABL").unwrap();
    let last = common::files(&dir.join("killed"), ".seg").into_iter().rev();
    let last = last.max_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(last.unwrap()).unwrap();
    file.write_all(b"torn").unwrap();
}

#[test]
fn everything_is_read_and_nothing_changes() {
    let dir = common::dir();
    killed(dir.path());
    let dir = dir.path().join("killed");
    let before = bytes(&dir);
    let db = open(&dir);
    for number in 0..330 {
        let found = db.default_keyspace().get(common::key(number)).unwrap().unwrap();
        assert_eq!(found, vec![1; number]);
    }
    assert_eq!(db.default_keyspace().iter().count(), 330);
    assert_eq!(db.default_keyspace().iter().rev().map(Result::unwrap).count(), 330);
    let snapshot = db.snapshot();
    assert!(
        db.default_keyspace()
            .get_with(common::key(0), &ReadOptions::new().snapshot(&snapshot))
            .unwrap()
            .is_some()
    );
    assert!(db.check().unwrap().is_clean());
    assert!(db.stats().to_string().contains("default"));
    db.close().unwrap();
    assert_eq!(bytes(&dir), before);
    // An opening for writing removes the orphan.
    let db = common::open(&dir);
    assert_eq!(db.recovery().orphans_removed, 1);
    assert_eq!(db.default_keyspace().iter().count(), 330);
}

#[test]
fn every_write_is_refused() {
    let dir = common::dir();
    common::open(dir.path()).open_or_create_keyspace("known").unwrap().put("key", "value").unwrap();
    let before = bytes(dir.path());
    let db = open(dir.path());
    let known = db.open_or_create_keyspace("known").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&known, "key", "new");
    for error in [
        known.put("key", "new").unwrap_err(),
        known.delete("key").unwrap_err(),
        db.write(batch).unwrap_err(),
        db.open_or_create_keyspace("new").err().unwrap(),
        db.drop_keyspace("known").unwrap_err(),
        db.flush().unwrap_err(),
        db.compact().unwrap_err(),
        known.compact_range(..).unwrap_err(),
        db.sync().unwrap_err(),
        db.checkpoint(dir.path().join("checkpoint")).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains("read-only"), "{error}");
    }
    assert_eq!(known.get("key").unwrap().unwrap(), "value");
    drop((db, known));
    assert_eq!(bytes(dir.path()), before);
}

#[test]
fn where_there_is_no_database() {
    let dir = common::dir();
    for path in [dir.path().to_owned(), dir.path().join("nowhere")] {
        let options = Options { read_only: true, ..common::tiny() };
        let error = Db::builder(&path).options(options).open().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("no database here"), "{error}");
        assert_eq!(error.file(), Some(&*path));
    }
    assert!(common::files(dir.path(), "").is_empty());
    assert!(!dir.path().join("nowhere").exists());
}
