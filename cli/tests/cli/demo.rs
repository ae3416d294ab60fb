//! `cleave demo` from its beginning to its end, on all of its data.

use crate::common::{Dir, ok, run};

#[test]
fn the_demo_verifies_every_record() {
    let dir = Dir::new("demo");
    let output = run(&dir, &["demo", "--dir", "DB"], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    assert!(text.contains("147 306 of 147 306 records"), "{text}");
    assert_eq!(text.matches("all are there").count(), 5, "{text}");

    // What it leaves is a database like any other.
    let article = ok(&dir, &["get", "DB", "cleave"], b"");
    let article: serde_json::Value = serde_json::from_slice(&article).unwrap();
    assert_eq!(article["word"], "cleave");
    assert_eq!(ok(&dir, &["shell", "DB"], b"count\n"), b"147306\n");

    // It works in no directory that somebody uses, its own included.
    let again = run(&dir, &["demo", "--dir", "DB"], b"");
    assert_eq!(again.status.code(), Some(2));
}
