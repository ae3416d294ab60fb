//! What is at a path that is no whole database.

use crate::common::{Dir, fails, notes, ok, run};
use std::fs;

/// A database whose creation a crash had cut short could neither be opened nor created: the
/// manifest that was left made it look like one, so it was opened as one that exists, and the
/// engine, which clears such leftovers away, was never asked to create it.
#[test]
fn a_database_whose_creation_was_cut_short_is_created() {
    for keyspace in ["default", "other"] {
        let dir = Dir::new(&format!("places-begun-{keyspace}"));
        ok(&dir, &["put", "DB", "lost", "1"], b"");
        for entry in fs::read_dir(dir.path().join("DB")).unwrap() {
            let path = entry.unwrap().path();
            // CURRENT comes after the manifest, and everything else after CURRENT.
            if path.extension().is_none_or(|end| end != "man") && !path.ends_with("LOCK") {
                fs::remove_file(path).unwrap();
            }
        }
        let read = run(&dir, &["get", "DB", "a"], b"");
        let told = String::from_utf8(read.stderr).unwrap();
        assert_eq!(read.status.code(), Some(2), "{told}");
        assert!(told.contains("there is no database: its creation was cut short"), "{told}");
        ok(&dir, &["put", "DB", "a", "1", "-k", keyspace], b"");
        assert_eq!(ok(&dir, &["dump", "DB", "-k", keyspace], b""), b"a\t1\n");
        ok(&dir, &["check", "DB"], b"");
    }
}

/// Such a database was said to be missing, with the advice to check its path.
#[test]
fn a_database_that_lost_a_file_of_its_own_is_told_to_be_damaged() {
    for lost in ["CURRENT", "00000003.man"] {
        let dir = Dir::new(&format!("places-lost-{lost}"));
        ok(&dir, &["put", "DB", "a", "1"], b"");
        let manifest =
            |entry: &fs::DirEntry| entry.path().extension().is_some_and(|it| it == "man");
        let is_lost = |entry: &fs::DirEntry| match lost {
            "CURRENT" => entry.file_name() == "CURRENT",
            _ => manifest(entry),
        };
        let files = fs::read_dir(dir.path().join("DB")).unwrap().map(Result::unwrap);
        files.filter(is_lost).for_each(|entry| fs::remove_file(entry.path()).unwrap());
        for command in [&["get", "DB", "a"][..], &["put", "DB", "a", "2"]] {
            let told = fails(&dir, command, b"");
            assert!(told.contains("missing") && told.contains("cleave repair"), "{told}");
        }
        ok(&dir, &["repair", "DB"], b"");
        assert_eq!(ok(&dir, &["get", "DB", "a"], b""), b"1\n");
    }
}

/// Before, the note of a load was a foreign file of the database: it outlived it, and nothing could
/// be created in its place.
#[test]
fn the_note_of_a_load_is_a_file_of_its_database() {
    let dir = Dir::new("places-note");
    fails(&dir, &["load", "DB", "-"], b"a\t1\nno tab\n");
    assert_eq!(notes(&dir), 1);
    let report = String::from_utf8(ok(&dir, &["space", "DB"], b"")).unwrap();
    assert!(!report.contains("not CleaveDB's"), "{report}");
    ok(&dir, &["check", "DB"], b"");
    // What is left of a database that somebody has removed by hand.
    for entry in fs::read_dir(dir.path().join("DB")).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_string_lossy().starts_with("loading-") {
            fs::remove_file(path).unwrap();
        }
    }
    let told = fails(&dir, &["load", "DB", "-"], b"a\t1\n");
    assert!(told.contains("a load into a database that is gone"), "{told}");
}

#[test]
fn a_dump_that_counts_other_pairs_than_it_has_is_refused() {
    let dir = Dir::new("places-dump");
    let import = |to| ["import", "--from", "ldb-dump", "-", to];
    let cut = fails(&dir, &import("CUT"), b"0x61 ==> 0x31\nKeys in range: 5\n");
    assert!(cut.contains("1 pairs came before it"), "{cut}");
    ok(&dir, &import("DB"), b"0x61 ==> 0x31\n0x62 ==> 0x32\nKeys in range: 2\n");
    assert_eq!(ok(&dir, &["dump", "DB"], b""), b"a\t1\nb\t2\n");
}
