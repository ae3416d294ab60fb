//! Tests of planted files: symbolic links in place of the database's files, and foreign files with
//! their names. None of them is followed, replaced or removed.

use crate::common;
use cleavedb::{Db, Error, ErrorKind};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PRECIOUS: &str = "a thesis, with no copy";

/// Creates a database with one key. Returns the directory that contains it, and its path.
fn database() -> (TempDir, PathBuf) {
    let dir = common::dir();
    let path = dir.path().join("db");
    common::open(&path).default_keyspace().put("key", "value").unwrap();
    (dir, path)
}

fn is_intact(dir: &Path) {
    let db = common::open(dir);
    assert_eq!(db.default_keyspace().get("key").unwrap().unwrap(), "value");
}

fn refusal(dir: &Path) -> Error {
    let error = Db::builder(dir).options(common::tiny()).open().expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error
}

#[test]
fn a_lock_that_is_a_link_or_somebody_elses_text() {
    let (outer, existing) = database();
    let new = outer.path().join("new");
    fs::create_dir(&new).unwrap();
    let victim = outer.path().join("victim");
    for dir in [&existing, &new] {
        let lock = dir.join("LOCK");
        let _ = fs::remove_file(&lock);
        fs::write(&victim, PRECIOUS).unwrap();
        symlink(&victim, &lock).unwrap();
        let error = refusal(dir);
        assert!(error.file().is_some_and(|file| file == lock), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), PRECIOUS);
        fs::remove_file(&lock).unwrap();
        // A hard link to the victim is a regular file, but not a file of the database.
        fs::hard_link(&victim, &lock).unwrap();
        let error = refusal(dir);
        assert!(error.to_string().contains("not a lock file of CleaveDB"), "{error}");
        assert!(error.file().is_some_and(|file| file == lock));
        assert_eq!(fs::read_to_string(&victim).unwrap(), PRECIOUS);
        fs::remove_file(&lock).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&lock).status().unwrap();
        assert!(made.success());
        refusal(dir);
        fs::remove_file(&lock).unwrap();
        common::open(dir).default_keyspace().put("key", "value").unwrap();
        is_intact(dir);
    }
}

#[test]
fn a_lock_says_process_and_program_only() {
    let (_outer, dir) = database();
    let db = common::open(&dir);
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    let held = format!("CleaveDB lock, held by process {} ({program})", std::process::id());
    assert_eq!(fs::read_to_string(dir.join("LOCK")).unwrap(), held);
    db.close().unwrap();
}

#[test]
fn names_that_creation_needs() {
    for name in ["OPTIONS", "PROBE", "CURRENT.new", "00000001.man"] {
        let outer = common::dir();
        let victim = outer.path().join("victim");
        fs::write(&victim, PRECIOUS).unwrap();
        for is_link in [false, true] {
            let dir = outer.path().join("db");
            fs::create_dir(&dir).unwrap();
            let planted = dir.join(name);
            if is_link {
                symlink(&victim, &planted).unwrap();
            } else {
                fs::write(&planted, PRECIOUS).unwrap();
            }
            let error = refusal(&dir);
            assert!(error.file().is_some_and(|file| file == planted), "{error}");
            assert!(error.to_string().contains("move it away"), "{error}");
            assert_eq!(fs::read_to_string(&planted).unwrap(), PRECIOUS);
            assert_eq!(common::files(&dir, "").len(), 1, "nothing was made beside it");
            fs::remove_file(&planted).unwrap();
            common::open(&dir).close().unwrap();
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}

#[test]
fn names_that_an_opening_would_replace_or_remove() {
    for name in ["OPTIONS", "PROBE", "00000077.tbl", "00000078.seg", "00000079.man"] {
        let (_outer, dir) = database();
        let planted = dir.join(name);
        let _ = fs::remove_file(&planted);
        fs::write(&planted, PRECIOUS).unwrap();
        is_intact(&dir);
        is_intact(&dir);
        assert_eq!(fs::read_to_string(&planted).unwrap(), PRECIOUS, "{name}");
    }
    let (_outer, dir) = database();
    let planted = dir.join("CURRENT.new");
    fs::write(&planted, PRECIOUS).unwrap();
    let error = refusal(&dir);
    assert!(error.file().is_some_and(|file| file == planted), "{error}");
    assert_eq!(fs::read_to_string(&planted).unwrap(), PRECIOUS);
    fs::remove_file(&planted).unwrap();
    is_intact(&dir);
}

#[test]
fn lost_as_a_link_to_another_directory() {
    let (outer, dir) = database();
    let (other, lost) = (outer.path().join("other"), dir.join("lost"));
    fs::create_dir(&other).unwrap();
    for name in ["00000001.man", "00000007.tbl", "CURRENT"] {
        fs::write(other.join(name), PRECIOUS).unwrap();
    }
    symlink(&other, &lost).unwrap();
    fs::remove_file(dir.join("CURRENT")).unwrap();
    let error = Db::repair(&dir).unwrap_err();
    assert!(error.to_string().contains("no directory"), "{error}");
    assert_eq!(common::files(&other, "").len(), 3, "nothing was moved there");
    Db::destroy(&dir).unwrap();
    assert_eq!(common::files(&other, "").len(), 3, "nothing was removed there");
    assert_eq!(common::files(&dir, ""), [lost]);
}

#[test]
fn what_repairs_set_aside_goes_with_the_database() {
    let (_outer, dir) = database();
    let lost = dir.join("lost");
    fs::create_dir(&lost).unwrap();
    for name in ["00000005.tbl", "00000005.tbl.1", "00000005.tbl.12", "00000006.seg.1"] {
        fs::write(lost.join(name), "").unwrap();
    }
    fs::write(lost.join("notes.1"), PRECIOUS).unwrap();
    Db::destroy(&dir).unwrap();
    assert_eq!(common::files(&lost, ""), [lost.join("notes.1")]);
}

#[test]
fn a_checkpoint_into_a_link() {
    let (outer, dir) = database();
    let (other, target) = (outer.path().join("other"), outer.path().join("copy"));
    let db = common::open(&dir);
    // The link points to nothing yet, so a check that follows it finds the place free.
    symlink(&other, &target).unwrap();
    let error = db.checkpoint(&target).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    assert!(!other.exists());
    fs::create_dir(&other).unwrap();
    let error = db.checkpoint(&target).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    assert_eq!(common::files(&other, "").len(), 0);
}
