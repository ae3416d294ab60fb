//! Tests of opening after a close, after a kill, and after a crash that tore the end of the log.

use crate::common;
use cleavedb::{Db, ErrorKind, KeyspaceOptions, Options, ReadOptions};
use std::fs;
use std::path::Path;

/// Puts version `version` of the keys of `range`, each value `bytes` long.
fn fill(db: &Db, range: std::ops::Range<usize>, version: u64, bytes: usize) {
    for number in range {
        let key = common::key(number);
        let value = common::value(&key, version, bytes);
        db.default_keyspace().put(&key, value).unwrap();
    }
}

#[track_caller]
fn expect(db: &Db, range: std::ops::Range<usize>, version: u64, bytes: usize) {
    for number in range {
        let key = common::key(number);
        let found = db.default_keyspace().get(&key).unwrap().expect(&key);
        assert_eq!(found, common::value(&key, version, bytes), "{key}");
    }
}

#[test]
fn closed() {
    for bytes in [20, 300] {
        let dir = common::dir();
        for session in 0..4 {
            let db = common::open(dir.path());
            assert_eq!(db.recovery().torn_bytes, 0);
            expect(&db, 0..session * 50, 1, bytes);
            fill(&db, session * 50..(session + 1) * 50, 1, bytes);
            db.close().unwrap();
        }
    }
}

#[test]
fn handles_outlive_a_close() {
    let dir = common::dir();
    let db = common::open(dir.path());
    fill(&db, 0..10, 1, 200);
    let (keyspace, other) = (db.default_keyspace(), db.clone());
    let snapshot = db.snapshot();
    let mut cursor = keyspace.cursor().unwrap();
    db.close().unwrap();
    for error in [
        keyspace.get("a").unwrap_err(),
        keyspace.put("a", "b").unwrap_err(),
        keyspace.iter().next().unwrap().unwrap_err(),
        cursor.seek_to_first().unwrap_err(),
        keyspace.get_with("a", &ReadOptions::new().snapshot(&snapshot)).unwrap_err(),
        other.flush().unwrap_err(),
        other.sync().unwrap_err(),
        other.wait_idle().unwrap_err(),
        other.open_or_create_keyspace("new").err().unwrap(),
        keyspace.multi_get(&["a"]).remove(0).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    // None of the handles keeps the directory from being opened again.
    expect(&common::open(dir.path()), 0..10, 1, 200);
    other.close().unwrap();
}

#[test]
fn the_last_handle_closes() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    drop(db);
    keyspace.put("a", "1").unwrap();
    assert_eq!(Db::builder(dir.path()).open().err().unwrap().kind(), ErrorKind::Locked);
    drop(keyspace);
    let db = common::open(dir.path());
    assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), "1");
}

#[test]
fn killed_at_any_moment_between_writes() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("db"));
    for round in 0..30 {
        fill(&db, round * 20..(round + 1) * 20, 1, 10 + 30 * (round % 5));
        db.wait_idle().unwrap();
        let copy = dir.path().join(format!("copy {round}"));
        common::copy_dir(db.path(), &copy);
        let copied = common::open(&copy);
        for round in 0..=round {
            expect(&copied, round * 20..(round + 1) * 20, 1, 10 + 30 * (round % 5));
        }
        assert!(copied.check().unwrap().is_clean());
    }
}

#[test]
fn more_to_replay_than_is_allowed_now() {
    let dir = common::dir();
    // With these limits neither the log nor the memtable triggers a flush.
    let keyspace = KeyspaceOptions { memtable_bytes: 1 << 20, ..common::tiny_keyspace() };
    let roomy = Options { max_replay_bytes: 64 << 20, keyspace, ..common::tiny() };
    let db = common::open_with(dir.path(), roomy);
    fill(&db, 0..400, 1, 500);
    assert!(db.stats().replay_bytes > common::tiny().max_replay_bytes);
    db.close().unwrap();
    // The first write after this opening must not wait for a flush that never begins.
    let db = common::open(dir.path());
    fill(&db, 400..401, 1, 500);
    expect(&db, 0..401, 1, 500);
    db.wait_idle().unwrap();
    assert!(db.stats().replay_bytes <= common::tiny().max_replay_bytes);
}

/// Creates the files of a killed database whose last segment has ten frames. Returns that segment,
/// and the offsets at which its last frames begin and end.
fn torn(dir: &Path) -> (std::path::PathBuf, Vec<u64>) {
    let db = common::open(&dir.join("live"));
    fill(&db, 0..7, 1, 150);
    let mut ends = Vec::new();
    let segment = || common::files(&dir.join("live"), ".seg");
    let length = || segment().iter().map(|path| fs::metadata(path).unwrap().len()).max().unwrap();
    for number in 7..10 {
        ends.push(length());
        fill(&db, number..number + 1, 1, 150);
    }
    ends.push(length());
    db.wait_idle().unwrap();
    let killed = dir.join("killed");
    common::copy_dir(db.path(), &killed);
    (killed, ends)
}

#[test]
fn the_log_cut_at_every_byte_of_its_last_frames() {
    let dir = common::dir();
    let (killed, ends) = torn(dir.path());
    let is_last = |path: &Path| fs::metadata(path).unwrap().len() == *ends.last().unwrap();
    let last = common::files(&killed, ".seg").into_iter().find(|path| is_last(path)).unwrap();
    let name = last.file_name().unwrap();
    let good = fs::read(&last).unwrap();
    for length in ends[0]..=*ends.last().unwrap() {
        let cut = dir.path().join("cut");
        common::copy_dir(&killed, &cut);
        fs::write(cut.join(name), &good[..length as usize]).unwrap();
        let whole = ends.iter().filter(|&&end| end <= length).count();
        let db = common::open(&cut);
        expect(&db, 0..6 + whole, 1, 150);
        assert!(db.default_keyspace().get(common::key(6 + whole)).unwrap().is_none());
        // The torn tail is counted and kept aside.
        let torn = length - ends[whole - 1];
        assert_eq!(db.recovery().torn_bytes, torn);
        let aside = common::files(&cut, ".cut");
        assert_eq!(aside.len(), usize::from(torn > 0));
        for path in aside {
            let kept = fs::read(path).unwrap();
            assert!(kept.ends_with(&good[ends[whole - 1] as usize..length as usize]));
        }
        // Writing continues in the log, and the torn tail is never read again.
        fill(&db, 20..21, 1, 150);
        db.close().unwrap();
        let db = common::open(&cut);
        assert_eq!(db.recovery().torn_bytes, 0);
        assert_eq!(common::pairs(&db.default_keyspace()).len(), 6 + whole + 1);
        drop(db);
        fs::remove_dir_all(&cut).unwrap();
    }
}

#[test]
fn the_same_bytes_flipped_in_the_last_frame_of_a_crash() {
    let dir = common::dir();
    let (killed, ends) = torn(dir.path());
    let is_last = |path: &Path| fs::metadata(path).unwrap().len() == *ends.last().unwrap();
    let last = common::files(&killed, ".seg").into_iter().find(|path| is_last(path)).unwrap();
    let good = fs::read(&last).unwrap();
    for offset in ends[2]..ends[3] {
        let mut bytes = good.clone();
        bytes[offset as usize] ^= 0xff;
        fs::write(&last, &bytes).unwrap();
        // The damage can't be distinguished from a write that a power cut tore, so the whole frame
        // is dropped.
        let db = Db::builder(&killed)
            .options(Options { read_only: true, ..common::tiny() })
            .open()
            .unwrap();
        expect(&db, 0..9, 1, 150);
        assert!(db.default_keyspace().get(common::key(9)).unwrap().is_none());
        assert_eq!(db.recovery().torn_bytes, ends[3] - ends[2]);
    }
}

#[test]
fn orphans_go_and_foreign_files_stay() {
    let dir = common::dir();
    let db = common::open(dir.path());
    fill(&db, 0..100, 1, 150);
    db.close().unwrap();
    for name in ["00009000.tbl", "00009001.seg", "00009002.man", "notes.txt", "CURRENT.new"] {
        fs::write(dir.path().join(name), "CLEAVEDB, cut short").unwrap();
    }
    let db = common::open(dir.path());
    assert_eq!(db.recovery().foreign_files, 1);
    // CURRENT.new is overwritten by each opening; the other three files are removed.
    assert_eq!(db.recovery().orphans_removed, 3);
    expect(&db, 0..100, 1, 150);
    fill(&db, 0..100, 2, 150);
    db.close().unwrap();
    assert!(dir.path().join("notes.txt").exists());
    // The ids of the removed files are not used again.
    let newest = common::files(dir.path(), ".seg").pop().unwrap();
    assert!(newest.file_name().unwrap() > std::ffi::OsStr::new("00009002"));
    expect(&common::open(dir.path()), 0..100, 2, 150);
}
