//! Tests of the golden stores: databases of format version 1 that were written once. Every later
//! build must read them, write to them and repair them (I11). Each folder of `v1` is a database;
//! the text file beside it lists its contents. `cargo xtask golden` writes those that are missing.
//! To remove one is for a change only that breaks the format on purpose.

mod listing;
mod stores;

use cleavedb::{Db, Options};
use listing::{Contents, contents_of, listing};
use std::path::{Path, PathBuf};
use stores::{builder, value};

/// Returns the folder of the stores of version 1.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// Returns the names of the stores that this build can read.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(golden()).expect("the folder of golden stores");
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.ends_with(".txt")).collect();
    names.retain(|name| name != "zstd" || cfg!(feature = "zstd"));
    names.sort();
    assert!(names.len() >= stores::ALL.len() - 1, "only {names:?} are there");
    names
}

fn expected(name: &str) -> String {
    std::fs::read_to_string(golden().join(name).with_extension("txt")).expect("a listing")
}

/// Copies a store to a temporary directory, where a test may change it.
fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (path, bytes) in files(&golden().join(name)) {
        std::fs::write(dir.path().join(path), bytes).expect("a copy");
    }
    dir
}

/// Returns the names and bytes of all files except LOCK.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).expect("a folder").map(|entry| entry.unwrap());
    let entries = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .filter(|(name, _)| name != "LOCK")
        .collect();
    files.sort();
    files
}

fn assert_clean(name: &str, db: &Db) {
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{name}: {:?}", report.problems);
}

#[test]
fn i11_each_is_read_as_it_was_written() {
    for name in names() {
        let dir = copy(&name);
        let before = files(dir.path());
        let options = Options { read_only: true, ..stores::options() };
        let db = builder(dir.path()).options(options).open().unwrap();
        assert_eq!(listing(&contents_of(&db)), expected(&name), "{name}");
        assert_clean(&name, &db);
        db.close().unwrap();
        assert!(files(dir.path()) == before, "{name}: reading changed a file");
    }
}

#[test]
fn i11_each_can_be_written_to() {
    for name in names() {
        let dir = copy(&name);
        let db = builder(dir.path()).open().unwrap();
        assert_eq!(db.recovery().torn_bytes > 0, name == "torn", "{name}: {:?}", db.recovery());
        let mut wanted = contents_of(&db);
        assert_eq!(listing(&wanted), expected(&name), "{name}");
        change(&db, &mut wanted);
        assert_eq!(contents_of(&db), wanted, "{name}");
        db.close().unwrap();
        let db = builder(dir.path()).open().unwrap();
        assert_eq!(contents_of(&db), wanted, "{name}, opened again");
        db.compact().unwrap();
        db.gc().unwrap();
        assert_eq!(contents_of(&db), wanted, "{name}, compacted and collected");
        assert_clean(&name, &db);
        db.close().unwrap();
    }
}

/// Overwrites, deletes and adds keys in every keyspace.
fn change(db: &Db, contents: &mut Contents) {
    for (name, pairs) in contents {
        let keyspace = db.open_or_create_keyspace(name).unwrap();
        let keys: Vec<_> = pairs.keys().cloned().collect();
        for key in keys.iter().step_by(3) {
            keyspace.delete(key).unwrap();
            pairs.remove(key);
        }
        for (number, key) in keys.iter().skip(1).step_by(3).chain([&b"new".to_vec()]).enumerate() {
            let value = value(9000 + number, 40 + 300 * (number % 2));
            keyspace.put(key, &value).unwrap();
            pairs.insert(key.clone(), value);
        }
    }
}

#[test]
fn each_can_be_repaired() {
    for name in names() {
        let dir = copy(&name);
        std::fs::remove_file(dir.path().join("CURRENT")).unwrap();
        let report = builder(dir.path()).repair().unwrap();
        assert!(!report.was_healthy, "{name}");
        assert_eq!(report.lost_keys, 0, "{name}: {report:?}");
        let db = builder(dir.path()).open().unwrap();
        assert_eq!(listing(&contents_of(&db)), expected(&name), "{name}");
        assert_clean(&name, &db);
        db.close().unwrap();
    }
}

#[test]
fn each_file_can_be_inspected() {
    for name in names() {
        for (file, _) in files(&golden().join(&name)) {
            let path = golden().join(&name).join(&file);
            let (mut text, key) = (Vec::new(), stores::encryption_key());
            let inspected = match name == "encrypted" {
                true => cleavedb::inspect_encrypted(&path, &key, &mut text),
                false => cleavedb::inspect(&path, &mut text),
            };
            match inspected {
                Ok(()) => assert!(!text.is_empty(), "{name}/{file}"),
                // Only the keys of tables with a user comparator need more than the file.
                Err(error) => {
                    assert_eq!(error.kind(), cleavedb::ErrorKind::Unsupported, "{error}");
                    let text = String::from_utf8_lossy(&text);
                    assert!(text.contains("golden.reversed"), "{name}/{file}: {text}");
                }
            }
        }
    }
}

#[test]
fn making_one_twice_gives_the_same_bytes() {
    for (name, make) in stores::ALL.into_iter().take(3) {
        assert!(make() == make(), "{name} depends on more than its seed");
    }
}

/// Writes the golden stores that are not there, and their listings.
#[test]
#[ignore = "writes golden stores: `cargo xtask golden`"]
fn make() {
    let golden = golden();
    let missing = stores::ALL.into_iter().filter(|(name, _)| !golden.join(name).exists());
    for (name, make) in missing {
        let (files, contents) = make();
        std::fs::create_dir_all(golden.join(name)).unwrap();
        for (file, bytes) in files {
            std::fs::write(golden.join(name).join(file), bytes).unwrap();
        }
        std::fs::write(golden.join(name).with_extension("txt"), listing(&contents)).unwrap();
    }
}
