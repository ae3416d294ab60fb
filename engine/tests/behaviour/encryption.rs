//! Tests of encryption at rest: what is on the disk, whose key opens it, and how keys are changed.

use crate::common;
use cleavedb::{
    Codec, Db, EncryptionKey, ErrorKind, KeyProvider, Keyspace, KeyspaceOptions, Options, Result,
    Separation, SortedFileOptions, SortedFileWriter, WriteBatch, merge_operators,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::new([byte; 32])
}

fn keys(bytes: &[u8]) -> Arc<dyn KeyProvider> {
    Arc::new(bytes.iter().map(|&byte| key(byte)).collect::<Vec<_>>())
}

fn try_open(dir: &Path, bytes: &[u8]) -> Result<Db> {
    Db::builder(dir).options(common::tiny()).encryption(keys(bytes)).open()
}

#[track_caller]
fn open(dir: &Path, bytes: &[u8]) -> Db {
    try_open(dir, bytes).unwrap()
}

/// Returns all files below `dir` with their contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in common::files(dir, "") {
        if path.is_dir() {
            found.extend(contents(&path));
            continue;
        }
        match fs::read(&path) {
            // The database may unlink one meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            bytes => drop(found.insert(path.clone(), bytes.unwrap())),
        }
    }
    found
}

/// Returns the files below `dir` in which the text that [`write_secrets`] writes can be read.
fn readable(dir: &Path) -> Vec<PathBuf> {
    let shows = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"SECRET");
    contents(dir).into_iter().filter(|(_, bytes)| shows(bytes)).map(|(path, _)| path).collect()
}

fn name(number: usize) -> String {
    format!("{number:04} SECRET key")
}

/// Makes every kind of file, with secrets in each place where a user's bytes may be.
fn write_secrets(db: &Db, dir: &Path, separation: Separation) {
    let options = KeyspaceOptions {
        separation,
        block_codec: Codec::None,
        value_codec: Codec::None,
        merge_operator: Some(merge_operators::APPEND.into()),
        ..common::tiny_keyspace()
    };
    let keyspace = db.create_keyspace_with("a SECRET name", options).unwrap();
    for round in 0..3 {
        for number in 0..300 {
            let text = format!("SECRET value {round} ").repeat([1, 30, 90][number % 3]);
            keyspace.put(name(number), text).unwrap();
        }
        keyspace.put("large", format!("SECRET {round}").repeat(60_000)).unwrap();
        db.flush().unwrap();
    }
    keyspace.delete_range(name(100)..name(150)).unwrap();
    keyspace.merge(name(3), "a SECRET operand").unwrap();
    let source = dir.join("outside");
    let mut file = SortedFileWriter::create(&source, &SortedFileOptions::default()).unwrap();
    for number in 500..600 {
        file.put(name(number), "SECRET, ingested ".repeat(1 + number % 20)).unwrap();
    }
    file.finish().unwrap();
    keyspace.ingest(&[&source], &cleavedb::IngestOptions::default()).unwrap();
    fs::remove_file(&source).unwrap();
    let _ = fs::remove_file(dir.join("outside.values"));
    let sorted = (700..800).map(|number| (name(number), "SECRET, sorted ".repeat(number % 30)));
    keyspace.ingest_sorted(sorted).unwrap();
    db.compact().unwrap();
    db.gc().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, name(1), "SECRET in a batch");
    batch.delete_range(&keyspace, name(20)..name(30));
    db.write(batch).unwrap();
    keyspace.put(name(2), "SECRET tail ".repeat(40)).unwrap();
}

fn all(keyspace: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    common::pairs(keyspace)
}

#[test]
fn nothing_can_be_read_on_the_disk() {
    for separation in [Separation::AtWrite, Separation::AtFlush, Separation::Off] {
        let mut found = Vec::new();
        for is_encrypted in [false, true] {
            if common::is_encrypted() && !is_encrypted {
                continue; // Every database of this run is encrypted.
            }
            let dir = common::dir();
            let builder = || {
                let options = common::tiny();
                let builder = Db::builder(dir.path().join("store")).options(options);
                if is_encrypted { builder.encryption(keys(&[1])) } else { builder }
            };
            let db = builder().open().unwrap();
            write_secrets(&db, dir.path(), separation);
            db.checkpoint(dir.path().join("checkpoint")).unwrap();
            let keyspace = db.keyspace("a SECRET name").unwrap();
            keyspace.put("behind the checkpoint", "SECRET tail").unwrap();
            let written = all(&keyspace);
            // A kill leaves the log's end, which the next opening cuts off and keeps.
            common::copy_dir(&dir.path().join("store"), &dir.path().join("killed"));
            db.close().unwrap();
            let (log, mut torn) = common::files(&dir.path().join("killed"), ".seg")
                .into_iter()
                .map(|path| (path.clone(), fs::read(path).unwrap()))
                .rfind(|(_, bytes)| bytes.get(40) == Some(&1))
                .expect("a segment of the log");
            let end = torn.iter().rposition(|&byte| byte != 0).unwrap();
            torn[end] ^= 1;
            fs::write(&log, torn).unwrap();
            let killed = Db::builder(dir.path().join("killed")).options(common::tiny());
            let killed = if is_encrypted { killed.encryption(keys(&[1])) } else { killed };
            killed.open().unwrap().close().unwrap();
            assert!(!common::files(&dir.path().join("killed"), ".cut").is_empty(), "a torn end");
            let db = builder().open().unwrap();
            assert!(!db.check().unwrap().is_damaged());
            found.push((written, all(&db.keyspace("a SECRET name").unwrap())));
            let shown = readable(dir.path());
            match is_encrypted {
                true => assert!(shown.is_empty(), "{shown:?}"),
                false => assert!(shown.len() > 10, "the test looks in the right places: {shown:?}"),
            }
        }
        assert!(found.iter().all(|(before, after)| before == after && *before == found[0].0));
    }
}

/// The wrong key is refused before anything is touched, whatever is done with the database.
#[test]
fn a_wrong_key_is_refused_before_anything_is_touched() {
    if common::is_encrypted() {
        return; // Every database of this run has a key.
    }
    let dir = common::dir();
    let (closed, killed, plain) =
        (dir.path().join("closed"), dir.path().join("killed"), dir.path().join("plain"));
    let db = open(&closed, &[1]);
    db.default_keyspace().put("key", "value").unwrap();
    common::copy_dir(&closed, &killed);
    db.close().unwrap();
    common::open(&plain).close().unwrap();
    let before = contents(dir.path());
    let refused = |what: &str, error: cleavedb::Error, message: &str| {
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{what}: {error}");
        assert!(error.to_string().contains(message), "{what}: {error}");
        assert!(error.advice().is_some(), "{what}: {error}");
        let mut after = contents(dir.path());
        after.retain(|path, _| before.contains_key(path) || !path.ends_with("LOCK"));
        for (path, bytes) in &before {
            assert!(path.ends_with("LOCK") || after[path] == *bytes, "{what}: {}", path.display());
        }
        assert_eq!(after.len(), before.len(), "{what}");
    };
    for store in [&closed, &killed] {
        let builder = || Db::builder(store).options(common::tiny());
        let read_only = Options { read_only: true, ..common::tiny() };
        refused("no key", builder().open().err().unwrap(), "no key was given");
        refused("another key", try_open(store, &[2]).err().unwrap(), key(2).id());
        refused("another key", try_open(store, &[2]).err().unwrap(), key(1).id());
        refused("no keys", try_open(store, &[]).err().unwrap(), "none");
        refused("reading", builder().options(read_only).open().err().unwrap(), "no key");
        refused("repair", builder().repair().unwrap_err(), "no key");
        refused("repair", builder().encryption(keys(&[2])).repair().unwrap_err(), key(1).id());
    }
    refused("not encrypted", try_open(&plain, &[1]).err().unwrap(), "not encrypted");
    for store in [&closed, &killed] {
        let db = open(store, &[1]);
        assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
    }
}

#[test]
fn keys_are_changed_without_rewriting_files() {
    let dir = common::dir();
    let store = dir.path();
    let db = open(store, &[1]);
    let put = |db: &Db, numbers: std::ops::Range<usize>| {
        for number in numbers {
            db.default_keyspace().put(name(number), "x".repeat(200)).unwrap();
        }
        db.flush().unwrap();
    };
    put(&db, 0..100);
    // One table at the bottom gives background work no reason to replace it after an opening.
    db.compact().unwrap();
    db.close().unwrap();
    let data = |suffixes: &[&str]| -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = contents(store);
        files.retain(|path, _| {
            suffixes.iter().any(|suffix| path.to_string_lossy().ends_with(suffix))
        });
        files
    };
    let before = data(&[".tbl", ".seg"]);
    let read_only = Options { read_only: true, ..common::tiny() };
    let reader = Db::builder(store).options(read_only).encryption(keys(&[2, 1])).open().unwrap();
    assert_eq!(all(&reader.default_keyspace()).len(), 100);
    reader.close().unwrap();
    assert!(try_open(store, &[2]).is_err(), "who only reads changes no key");
    let db = open(store, &[2, 1]);
    // Segments behind the head may be gone by now; what is there is what was there.
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "seg");
    let tables = before.keys().filter(|path| !is_segment(path)).count();
    assert_ne!(tables, 0);
    for (path, bytes) in &before {
        match fs::read(path) {
            Ok(now) => assert!(now == *bytes, "rewritten: {}", path.display()),
            Err(error) => assert!(is_segment(path), "{}: {error}", path.display()),
        }
    }
    put(&db, 100..200);
    db.close().unwrap();
    let error = try_open(store, &[1]).err().unwrap();
    assert!(error.to_string().contains(key(2).id()), "{error}");
    for round in 0..3 {
        let db = open(store, &[2]);
        put(&db, 200 + 10 * round..210 + 10 * round);
        assert_eq!(all(&db.default_keyspace()).len(), 210 + 10 * round);
        db.close().unwrap();
    }
    let db = open(store, &[3, 2]);
    db.compact().unwrap();
    db.gc().unwrap();
    assert!(!db.check().unwrap().is_damaged());
    db.close().unwrap();
    let db = open(store, &[3]);
    assert_eq!(all(&db.default_keyspace()).len(), 230);
    drop(db);
    let mut text = Vec::new();
    cleavedb::inspect(&store.join("KEYS"), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(key(3).id()), "{text}");
    assert_eq!(text.matches("one for files from").count(), 3, "{text}");
}

/// Two copies of one database that are both written to give out the same ids. The same contents at
/// the same place of files of the same id must not be the same bytes, or one would tell something
/// of the other.
#[test]
fn i12_copies_share_no_key_of_a_file() {
    // Which ids files get depends on the threads, so not every try has files to compare.
    let mut tries = 0;
    let mut compared = 0;
    while compared < 3 {
        compared += compare_copies();
        tries += 1;
        assert!(tries < 100, "{compared} files have a twin");
    }
}

/// Writes the same to two copies of a database; returns how many files of the same id were
/// compared.
fn compare_copies() -> usize {
    let dir = common::dir();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    open(&first, &[1]).close().unwrap();
    common::copy_dir(&first, &second);
    for store in [&first, &second] {
        let db = open(store, &[1]);
        for number in 0..50 {
            db.default_keyspace().put(name(number), "the same ".repeat(20)).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
    }
    let mut compared = 0;
    for suffix in [".tbl", ".seg", ".man"] {
        for path in common::files(&first, suffix) {
            let twin = second.join(path.file_name().unwrap());
            let Ok(twin) = fs::read(&twin) else { continue };
            let bytes = fs::read(&path).unwrap();
            if bytes.len().min(twin.len()) <= 200 {
                continue; // A segment that was never begun.
            }
            let windows: std::collections::BTreeSet<&[u8]> = bytes[100..].windows(16).collect();
            // What is not encrypted, such as lengths, is short.
            let same = twin[100..].windows(16).any(|window| {
                windows.contains(window) && window.iter().filter(|&&byte| byte == 0).count() < 4
            });
            assert!(!same, "{}", path.display());
            compared += 1;
        }
    }
    compared
}

#[test]
fn a_checkpoint_opens_with_the_key_and_goes_its_own_way() {
    let dir = common::dir();
    let (store, target) = (dir.path().join("store"), dir.path().join("checkpoint"));
    let db = open(&store, &[1]);
    for number in 0..100 {
        db.default_keyspace().put(name(number), "x".repeat(200)).unwrap();
    }
    db.checkpoint(&target).unwrap();
    db.close().unwrap();
    open(&store, &[2, 1]).close().unwrap();
    let copy = open(&target, &[1]);
    assert_eq!(all(&copy.default_keyspace()).len(), 100, "it is still wrapped with the former key");
    copy.default_keyspace().put("one", "more").unwrap();
    copy.close().unwrap();
    assert_eq!(all(&open(&target, &[1]).default_keyspace()).len(), 101);
    assert_eq!(all(&open(&store, &[2]).default_keyspace()).len(), 100);
}

#[test]
fn a_repair_works_with_the_key_and_what_it_writes_is_encrypted() {
    for lost in ["CURRENT", ".man", "CURRENT .man"] {
        let dir = common::dir();
        let store = dir.path().join("store");
        let db = open(&store, &[1]);
        for number in 0..100 {
            db.default_keyspace().put(name(number), "SECRET".repeat(40)).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        for suffix in lost.split(' ') {
            let path = common::files(&store, suffix).pop().unwrap();
            fs::remove_file(path).unwrap();
        }
        let unkeyed = Db::builder(&store).options(common::tiny()).repair();
        if !common::is_encrypted() {
            assert_eq!(unkeyed.unwrap_err().kind(), ErrorKind::InvalidOption, "{lost}");
        }
        let builder = Db::builder(&store).options(common::tiny()).encryption(keys(&[1]));
        builder.repair().unwrap();
        let db = open(&store, &[1]);
        let pairs = common::pairs(&db.default_keyspace());
        assert_eq!(pairs.len(), 100, "{lost}");
        assert!(pairs.iter().all(|(_, value)| *value == "SECRET".repeat(40).as_bytes()));
        drop(db);
        assert!(readable(dir.path()).is_empty(), "{lost}: {:?}", readable(dir.path()));
    }
}

#[test]
fn a_lost_or_damaged_file_of_keys_is_named() {
    let dir = common::dir();
    let store = dir.path().join("store");
    let db = open(&store, &[1]);
    db.default_keyspace().put("key", "value").unwrap();
    db.close().unwrap();
    let path = store.join("KEYS");
    let good = fs::read(&path).unwrap();
    let refused = |what: &str| {
        let error = try_open(&store, &[1]).err().unwrap_or_else(|| panic!("{what}"));
        assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
        assert!(error.file().unwrap().ends_with("KEYS"), "{what}: {error}");
        assert!(error.advice().unwrap().contains("restore"), "{what}: {error}");
        let builder = Db::builder(&store).options(common::tiny()).encryption(keys(&[1]));
        let error = builder.repair().unwrap_err();
        assert!(error.file().unwrap().ends_with("KEYS"), "{what}: {error}");
        assert!(!store.join("lost").exists(), "{what}: nothing is set aside");
    };
    for bit in 0..good.len() * 8 {
        // The reserved byte of the header and the key's name say what they say only together.
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bad).unwrap();
        if bit % 64 == 0 {
            let error = try_open(&store, &[1]).err().unwrap();
            assert!(error.file().unwrap().ends_with("KEYS"), "bit {bit}: {error}");
        }
    }
    for length in [0, 20, 40, 60, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        refused(&format!("{length} bytes"));
    }
    fs::remove_file(&path).unwrap();
    refused("no file");
    fs::write(&path, &good).unwrap();
    assert_eq!(open(&store, &[1]).default_keyspace().get("key").unwrap().unwrap(), "value");
}

#[test]
fn a_provider_that_fails_is_heard() {
    struct Unreachable;
    impl KeyProvider for Unreachable {
        fn keys(&self) -> Result<Vec<EncryptionKey>> {
            Err(cleavedb::Error::not_found("the key service does not answer"))
        }
    }
    let dir = common::dir();
    let store = dir.path().join("store");
    let build = || Db::builder(&store).options(common::tiny()).encryption(Arc::new(Unreachable));
    let error = build().open().err().unwrap();
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(!store.join("CURRENT").exists(), "nothing was created");
    open(&store, &[1]).close().unwrap();
    assert!(build().open().err().unwrap().to_string().contains("does not answer"));
}
