//! `--pin-tree` says how large the tree is in memory, and what does not fit.

use crate::common::{Dir, ok, run};

#[test]
fn what_fits_is_told_and_what_does_not() {
    let dir = Dir::new("pin-tree");
    ok(&dir, &["load", "DB"], b"a\t1\nb\t2\n");
    ok(&dir, &["compact", "DB"], b"");
    let told = run(&dir, &["stats", "DB", "--pin-tree", "1M"], b"");
    let (text, errors) = (String::from_utf8_lossy(&told.stdout), &told.stderr);
    assert!(text.contains("tree in memory: 1 table,"), "{text}");
    assert!(errors.is_empty(), "{}", String::from_utf8_lossy(errors));
    let told = run(&dir, &["stats", "DB", "--pin-tree", "100"], b"");
    let (text, errors) = (told.stdout, told.stderr);
    let (text, errors) = (String::from_utf8_lossy(&text), String::from_utf8_lossy(&errors));
    assert!(text.contains("1 does not fit, about "), "{text}");
    assert!(errors.contains("1 table does not fit in memory; about "), "{errors}");
    let off = ok(&dir, &["stats", "DB"], b"");
    assert!(!String::from_utf8_lossy(&off).contains("tree in memory"));
    let answers = ok(&dir, &["shell", "DB", "--pin-tree", "1M"], b"get a\nput a 3\nget a\n");
    assert_eq!(String::from_utf8_lossy(&answers), "1\nOK\n3\n");
}
