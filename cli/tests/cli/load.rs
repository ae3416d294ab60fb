//! What a load says is stored is stored, whatever ended it, and a resumed one leaves nothing out.

use crate::common::{Dir, ok, run};
use std::fs;

fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| format!("key{number:04}\tvalue {number}\n")).collect()
}

/// A line whose key is over the limit of 64 KiB.
fn refused() -> String {
    format!("{}\tvalue\n", "k".repeat((64 << 10) + 1))
}

fn notes(dir: &Dir) -> usize {
    let left = fs::read_dir(dir.path().join("DB")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("loading-")).count()
}

/// A batch that the database refused counted as stored: the load had given it away, found nothing
/// left to write, and took all that it had read for stored. So the good records before the refused
/// one were lost, and `--resume` passed over their lines. Now nothing counts that was not written.
#[test]
fn a_refused_batch_is_not_stored_and_is_resumed() {
    let dir = Dir::new("load-refused");
    let text = lines(0..3) + &refused() + &lines(3..5);
    for words in [&["load", "DB"][..], &["load", "DB", "--resume"]] {
        let output = run(&dir, words, text.as_bytes());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("a key of 65537 bytes is over the limit"), "{told}");
        assert!(!told.contains("stored"), "nothing is: {told}");
        assert_eq!(ok(&dir, &["count", "DB"], b""), b"0\n");
        assert_eq!(notes(&dir), 0, "there is nothing to go on from");
    }

    // What batches before it have stored counts, and is where the resumed load begins.
    let output = run(&dir, &["load", "DB", "--batch", "2"], text.as_bytes());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    let stored = "the first 2 lines are stored, and --resume goes on behind them";
    assert!(told.contains(stored), "{told}");
    assert_eq!(ok(&dir, &["dump", "DB"], b""), lines(0..2).into_bytes());
    ok(&dir, &["load", "DB", "--batch", "2", "--resume"], lines(0..5).as_bytes());
    assert_eq!(ok(&dir, &["dump", "DB"], b""), lines(0..5).into_bytes());
}

/// A file with nothing but a refused record was told as loaded, with exit status 0: such a record
/// adds no operation to the batch, and an empty batch was not written, though it held the error.
#[test]
fn a_refused_record_alone_is_an_error() {
    let dir = Dir::new("load-refused-alone");
    let output = run(&dir, &["load", "DB"], refused().as_bytes());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("a key of 65537 bytes is over the limit"), "{told}");
    assert!(!told.contains("loaded"), "{told}");
}
