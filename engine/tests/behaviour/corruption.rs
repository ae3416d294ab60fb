//! Tests of damaged files: opening a database and reading all of it returns an error or the right
//! answer, and never a wrong value, a panic or an endless wait.

use crate::common::{self, TempDir};
use cleavedb::{Codec, Db, ErrorKind, KeyspaceOptions, Options, ParallelReads, Result};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

type Maps = BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>;

/// A closed database with tables on two levels, values in tables, in sealed segments and in the log
/// that is replayed, tombstones, and a second keyspace.
struct Closed {
    place: TempDir,
    expected: Maps,
}

fn options() -> Options {
    let keyspace = KeyspaceOptions {
        table_bytes: 4 << 10,
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        value_codec: Codec::Lz4,
        value_compression_min_bytes: 200,
        level_base_bytes: 4 << 10,
        ..common::tiny_keyspace()
    };
    Options {
        keyspace,
        segment_bytes: 4 << 10,
        parallel_reads: ParallelReads::Off,
        ..common::tiny()
    }
}

impl Closed {
    fn new(salt: u64) -> Self {
        let place = common::dir();
        let mut expected = Maps::new();
        let db = common::open_with(&place.path().join("db"), options());
        for (round, name) in ["default", "other", "default", "other"].into_iter().enumerate() {
            let keyspace = db.open_or_create_keyspace(name).unwrap();
            let map = expected.entry(name).or_default();
            for number in (round..16).step_by(1 + round) {
                let key = common::key(number);
                let bytes = if number % 3 == 0 { 310 } else { 10 };
                let mut value = common::value(&key, salt + round as u64, bytes);
                if number == 9 {
                    value.resize(500, b'-');
                }
                keyspace.put(&key, &value).unwrap();
                map.insert(key, value);
            }
            keyspace.delete(common::key(5 + round)).unwrap();
            map.remove(&common::key(5 + round));
            match round {
                0 => db.compact().unwrap(),
                1 | 2 => db.flush().unwrap(),
                _ => {}
            }
        }
        db.wait_idle().unwrap();
        db.close().unwrap();
        Closed { place, expected }
    }

    fn dir(&self) -> PathBuf {
        self.place.path().join("db")
    }

    /// Returns the path of a new copy, for opening it for writing.
    fn copy(&self, name: &str) -> PathBuf {
        let to = self.place.path().join(name);
        let _ = fs::remove_dir_all(&to);
        common::copy_dir(&self.dir(), &to);
        to
    }

    /// Returns the files that hold data.
    fn files(&self) -> Vec<PathBuf> {
        let files = common::files(&self.dir(), "");
        files.into_iter().filter(|path| !is_text(path)).collect()
    }
}

/// Returns true for LOCK and OPTIONS, whose text is never read back.
fn is_text(path: &Path) -> bool {
    path.ends_with("LOCK") || path.ends_with("OPTIONS")
}

/// A checker of reads, which counts errors and panics at a wrong answer.
struct Reads<'a> {
    expected: &'a BTreeMap<String, Vec<u8>>,
    errors: usize,
}

impl Reads<'_> {
    fn judge(&mut self, key: &[u8], found: Result<Option<&[u8]>>) {
        match found {
            Err(error) => {
                assert!(error.file().is_some(), "no file is named by: {error}");
                self.errors += 1;
            }
            Ok(value) => {
                let key = String::from_utf8_lossy(key);
                assert_eq!(value, self.expected.get(&*key).map(Vec::as_slice), "of {key}");
            }
        }
    }

    fn points(&mut self, db: &Db, name: &str) {
        let keyspace = db.keyspace(name).unwrap();
        let keys: Vec<_> = (0..20).map(common::key).collect();
        for key in &keys {
            let found = keyspace.get(key);
            self.judge(key.as_bytes(), found.as_ref().map(|v| v.as_deref()).map_err(Clone::clone));
        }
        for (key, found) in keys.iter().zip(keyspace.multi_get(&keys)) {
            self.judge(key.as_bytes(), found.as_ref().map(|v| v.as_deref()).map_err(Clone::clone));
        }
    }

    fn scan(&mut self, db: &Db, name: &str, forward: bool) -> Result<()> {
        let keyspace = db.keyspace(name)?;
        let mut cursor = keyspace.cursor()?;
        if forward {
            cursor.seek_to_first()?
        } else {
            cursor.seek_to_last()?
        }
        let mut keys = Vec::new();
        while cursor.valid() {
            let key = cursor.key().to_vec();
            let value = cursor.value();
            self.judge(&key, value.as_ref().map(|v| Some(&**v)).map_err(Clone::clone));
            keys.push(String::from_utf8(key).expect("a key that was written"));
            if forward { cursor.next()? } else { cursor.prev()? }
        }
        if !forward {
            keys.reverse();
        }
        // There was no error, so the scan must be complete.
        assert!(keys.iter().eq(self.expected.keys()), "keys are missing or made up");
        Ok(())
    }
}

/// Reads everything and returns how many reads failed.
fn read_everything(db: &Db, expected: &Maps) -> usize {
    let mut errors = 0;
    for (name, expected) in expected {
        let mut reads = Reads { expected, errors: 0 };
        reads.points(db, name);
        for forward in [true, false] {
            reads.errors += usize::from(reads.scan(db, name, forward).is_err());
        }
        errors += reads.errors;
    }
    errors
}

/// Opens and reads a database. Returns true if the damage was detected; a wrong answer or a panic
/// fails the test.
fn noticed(dir: &Path, expected: &Maps, options: Options, what: &str) -> bool {
    let outcome =
        catch_unwind(AssertUnwindSafe(|| match Db::builder(dir).options(options).open() {
            Err(error) => {
                assert!(error.file().is_some(), "no file is named by: {error}");
                true
            }
            Ok(db) => {
                let mut noticed = read_everything(&db, expected) > 0;
                if !noticed {
                    noticed = !db.check().unwrap().is_clean();
                }
                noticed
            }
        }));
    outcome.unwrap_or_else(|_| panic!("with {what}"))
}

fn read_only() -> Options {
    Options { read_only: true, ..options() }
}

/// Applies `damage` to each byte of each file whose name ends in `suffix`, one at a time. At most
/// `unnoticed` bytes of a file may be damaged without an error.
fn flip_every_byte(suffix: &str, unnoticed: usize, damage: impl Fn(u8, usize) -> u8) {
    let closed = Closed::new(1);
    assert!(!noticed(&closed.dir(), &closed.expected, read_only(), "nothing changed"));
    let files = common::files(&closed.dir(), suffix);
    assert!(!files.is_empty());
    for path in files {
        let good = fs::read(&path).unwrap();
        let mut harmless = Vec::new();
        for offset in 0..good.len() {
            let mut bytes = good.clone();
            bytes[offset] = damage(bytes[offset], offset);
            fs::write(&path, &bytes).unwrap();
            let what = format!("byte {offset} of {} changed", path.display());
            if !noticed(&closed.dir(), &closed.expected, read_only(), &what) {
                harmless.push(offset);
            }
        }
        fs::write(&path, &good).unwrap();
        assert!(harmless.len() <= unnoticed, "{} at {harmless:?}", path.display());
    }
}

/// The length of the last edit, which the close writes to record the length of the log. If it is
/// damaged, recovery treats the end as a crash and still reads the whole log, so nothing is lost.
fn last_edit_bytes() -> usize {
    24 + if common::is_encrypted() { SEAL_BYTES } else { 0 }
}

/// The bytes that end an encrypted edit.
const SEAL_BYTES: usize = 20;

fn one_bit(byte: u8, offset: usize) -> u8 {
    byte ^ 1 << (offset % 8)
}

#[test]
fn every_byte_of_tables_inverted() {
    flip_every_byte(".tbl", 0, |byte, _| !byte);
}

#[test]
fn one_bit_of_every_byte_of_tables() {
    flip_every_byte(".tbl", 0, one_bit);
}

#[test]
fn every_byte_of_segments_inverted() {
    flip_every_byte(".seg", 0, |byte, _| !byte);
}

#[test]
fn one_bit_of_every_byte_of_segments() {
    flip_every_byte(".seg", 0, one_bit);
}

#[test]
fn every_byte_of_the_manifest_inverted() {
    flip_every_byte(".man", last_edit_bytes(), |byte, _| !byte);
}

#[test]
fn one_bit_of_every_byte_of_the_manifest() {
    flip_every_byte(".man", last_edit_bytes(), one_bit);
}

#[test]
fn every_byte_of_current() {
    flip_every_byte("CURRENT", 0, |byte, _| !byte);
    flip_every_byte("CURRENT", 0, one_bit);
}

#[test]
fn files_cut_at_any_length() {
    let closed = Closed::new(1);
    for path in closed.files() {
        let good = fs::read(&path).unwrap();
        for length in 0..good.len() {
            fs::write(&path, &good[..length]).unwrap();
            let what = format!("{} cut to {length} bytes", path.display());
            noticed(&closed.dir(), &closed.expected, read_only(), &what);
        }
        fs::write(&path, &good).unwrap();
    }
}

/// Opens a damaged copy for writing, reads and closes it, twice. The first opening must not turn
/// the damage into something that looks valid to the second.
fn open_twice(closed: &Closed, damaged: &Path, what: &str) {
    for time in ["first", "second"] {
        let what = format!("{what}, {time} opening");
        noticed(damaged, &closed.expected, options(), &what);
    }
}

#[test]
fn damage_settled_by_an_opening_for_writing() {
    let closed = Closed::new(1);
    let all: usize = closed.files().iter().map(|path| fs::read(path).unwrap().len()).sum();
    let stride = (all / 150).max(1);
    for path in closed.files() {
        let name = path.file_name().unwrap().to_owned();
        let good = fs::read(&path).unwrap();
        for offset in (0..good.len()).step_by(stride) {
            let damaged = closed.copy("damaged");
            let mut bytes = good.clone();
            bytes[offset] ^= 0x10;
            fs::write(damaged.join(&name), &bytes).unwrap();
            open_twice(&closed, &damaged, &format!("byte {offset} of {name:?} changed"));
            let damaged = closed.copy("damaged");
            fs::write(damaged.join(&name), &good[..offset]).unwrap();
            open_twice(&closed, &damaged, &format!("{name:?} cut to {offset} bytes"));
        }
    }
}

#[test]
fn files_deleted() {
    let closed = Closed::new(1);
    for path in closed.files() {
        let name = path.file_name().unwrap();
        let damaged = closed.copy("damaged");
        fs::remove_file(damaged.join(name)).unwrap();
        let what = format!("{name:?} deleted");
        let needed = fs::metadata(&path).unwrap().len() > 0;
        let noticed = noticed(&damaged, &closed.expected, read_only(), &what);
        assert!(noticed || !needed, "{what}");
        open_twice(&closed, &damaged, &what);
    }
}

#[test]
fn files_of_one_kind_swapped() {
    let closed = Closed::new(1);
    for suffix in [".tbl", ".seg"] {
        let files = common::files(&closed.dir(), suffix);
        assert!(files.len() > 1);
        for (index, a) in files.iter().enumerate() {
            for b in &files[index + 1..] {
                let damaged = closed.copy("damaged");
                fs::copy(a, damaged.join(b.file_name().unwrap())).unwrap();
                fs::copy(b, damaged.join(a.file_name().unwrap())).unwrap();
                let what = format!("{} and {} swapped", a.display(), b.display());
                assert!(noticed(&damaged, &closed.expected, read_only(), &what), "{what}");
                open_twice(&closed, &damaged, &what);
            }
        }
    }
}

#[test]
fn files_of_another_database() {
    let (closed, other) = (Closed::new(1), Closed::new(2));
    for path in closed.files().iter().filter(|path| fs::metadata(path).unwrap().len() > 0) {
        let name = path.file_name().unwrap();
        let suffix = path.extension().map_or(name, |suffix| suffix).to_string_lossy();
        for foreign in common::files(&other.dir(), &suffix) {
            let damaged = closed.copy("damaged");
            fs::copy(&foreign, damaged.join(name)).unwrap();
            let what = format!("{name:?} replaced by another database's");
            assert!(noticed(&damaged, &closed.expected, read_only(), &what), "{what}");
            open_twice(&closed, &damaged, &what);
        }
    }
}

#[test]
fn files_that_are_something_else() {
    let closed = Closed::new(1);
    let contents = [Vec::new(), vec![0; 5000], b"hello\n".to_vec(), common::value("x", 1, 5000)];
    for path in closed.files().iter().filter(|path| fs::metadata(path).unwrap().len() > 0) {
        for content in &contents {
            let damaged = closed.copy("damaged");
            let name = path.file_name().unwrap();
            fs::write(damaged.join(name), content).unwrap();
            let what = format!("{name:?} replaced by {} other bytes", content.len());
            assert!(noticed(&damaged, &closed.expected, read_only(), &what), "{what}");
            open_twice(&closed, &damaged, &what);
        }
    }
}

#[test]
fn a_newer_format_is_named() {
    let closed = Closed::new(1);
    for (suffix, word) in
        [("CURRENT", "CURRENT"), (".man", "manifest"), (".seg", "segment"), (".tbl", "table")]
    {
        let damaged = closed.copy("damaged");
        let path = common::files(&damaged, suffix).remove(0);
        let mut bytes = fs::read(&path).unwrap();
        bytes[12] = 7;
        fs::write(&path, bytes).unwrap();
        let opened = Db::builder(&damaged).options(read_only()).open();
        let error = match opened {
            Err(error) => error,
            Ok(db) => db.check().unwrap().unverified.remove(0).error,
        };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(word) && text.contains("version 7") && text.contains("up to 1"),
            "{text}"
        );
    }
}

/// Guards against two findings for one damaged record: it was reported for the pointer to it and
/// for its segment, and neither finding named the key.
#[test]
fn one_damaged_record_is_one_finding_with_its_key() {
    if common::is_encrypted() {
        return; // The value is not found on the disk.
    }
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.open_or_create_keyspace("letters").unwrap();
    for letter in ["a", "b", "c"] {
        keyspace.put(letter, letter.repeat(5000)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let holds_b = |bytes: &[u8]| bytes.windows(5000).position(|part| part == [b'b'; 5000]);
    let segments = common::files(dir.path(), ".seg").into_iter();
    let mut found = segments.filter_map(|path| Some((holds_b(&fs::read(&path).unwrap())?, path)));
    let (place, path) = found.next_back().expect("the value is in a segment");
    let mut bytes = fs::read(&path).unwrap();
    bytes[place + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let db = Db::builder(dir.path()).options(read_only()).open().unwrap();
    let report = db.check().unwrap();
    assert_eq!(report.problem_count, 1, "{:?}", report.problems);
    assert!(report.is_damaged() && !report.is_clean() && report.unverified_count == 0);
    let finding = &report.problems[0];
    assert_eq!(finding.keyspace.as_deref(), Some("letters"));
    assert_eq!(finding.key.as_deref(), Some(&b"b"[..]));
    assert_eq!(finding.error.file(), Some(&*path));
    let text = finding.to_string();
    assert!(text.contains("; in keyspace \"letters\", key \"b\""), "{text}");
}
