//! What is at a path that is no whole database.

use crate::common::{Dir, ok, run};
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
