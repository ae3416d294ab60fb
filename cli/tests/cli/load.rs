//! What a load says is stored is stored, whatever ended it, and a resumed one leaves nothing out.

use crate::common::{Dir, lines, notes, ok, run, start};
use std::fs;
use std::io::{BufRead, Write};
#[cfg(unix)]
use std::process::Command;
use std::process::Stdio;

/// A line whose key is over the limit of 64 KiB.
fn refused() -> String {
    format!("{}\tvalue\n", "k".repeat((64 << 10) + 1))
}

/// Runs the program where no file may be larger than a few hundred KiB, so that a write fails.
#[cfg(unix)]
fn run_limited(dir: &Dir, words: &[&str]) -> (Option<i32>, String) {
    let limited = "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_cleave")]).args(words);
    let output = command.current_dir(dir.path()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A batch that the database refused counted as stored: the load had given it away, found nothing
/// left to write, and took all that it had read for stored. So the good records before the refused
/// one were lost, and `--resume` passed over their lines. Now nothing counts that was not written.
#[cfg(unix)]
#[test]
fn a_refused_batch_is_not_stored_and_is_resumed() {
    let dir = Dir::new("load-refused");
    let text = lines(10_000..60_000);
    fs::write(dir.path().join("in.tsv"), &text).unwrap();
    for more in [&[][..], &["--resume"]] {
        let words = ["load", "DB", "in.tsv", "--batch", "1000000"];
        let (code, told) = run_limited(&dir, &[&words, more].concat());
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("File too large") && !told.contains("stored"), "{told}");
        assert_eq!(ok(&dir, &["count", "DB"], b""), b"0\n");
        assert_eq!(notes(&dir), 0, "there is nothing to go on from");
    }

    // What batches before it have stored counts, and is where the resumed load begins.
    let (code, told) = run_limited(&dir, &["load", "DB", "in.tsv", "--batch", "100"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("lines are stored, and --resume goes on behind them"), "{told}");
    let stored = String::from_utf8(ok(&dir, &["dump", "DB"], b"")).unwrap();
    assert!(!stored.is_empty() && text.starts_with(&stored));
    let number = told.split_once("the first ").unwrap().1.split_once(" lines").unwrap().0;
    assert_eq!(number.replace(' ', ""), stored.lines().count().to_string());
    ok(&dir, &["load", "DB", "in.tsv", "--batch", "100", "--resume"], b"");
    assert!(ok(&dir, &["dump", "DB"], b"") == text.as_bytes());
}

/// A key that is too long failed the batch around it, so good lines before it were not stored. It
/// is a bad line now, before which all is.
#[test]
fn a_key_that_is_too_long_ends_a_load_at_its_line() {
    let dir = Dir::new("load-too-long");
    let text = lines(0..3) + &refused() + &lines(3..5);
    let output = run(&dir, &["load", "DB"], text.as_bytes());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("line 4: a key of 65537 bytes is over the limit"), "{told}");
    assert!(told.contains("the 3 lines before it are stored, and --resume goes on"), "{told}");
    assert_eq!(ok(&dir, &["dump", "DB"], b""), lines(0..3).into_bytes());
    let output = run(&dir, &["load", "DB", "--resume", "--keep-going"], text.as_bytes());
    assert_eq!(output.status.code(), Some(1));
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

/// Begins a load of `text` with these words, and kills it once it has acknowledged something.
fn load_and_kill(dir: &Dir, words: &[&str], text: &str) {
    let words = [words, &["--ack"]].concat();
    // The input has no end before the kill, so the load can't be complete.
    let (mut load, mut input, output) = start(dir, &words, Stdio::null());
    input.write_all(text.as_bytes()).unwrap();
    output.lines().next().expect("it is acknowledged").unwrap();
    load.kill().unwrap();
    load.wait().unwrap();
}

/// The note of an interrupted load was used by the next one of the same name, such as standard
/// input: only `--resume` looked at it, and a load without left it there. So if that one was
/// killed before it noted how far it came, it was resumed where the other had been interrupted,
/// and the lines in between were missing. Now a load without `--resume` first removes the note.
#[test]
fn a_note_of_an_earlier_load_is_not_used() {
    for more in [&[][..], &["--sorted"]] {
        let dir = Dir::new(&format!("load-noted{}", more.concat()));
        let output = run(&dir, &["load", "DB"], (lines(100..150) + "bad\n").as_bytes());
        assert_eq!((output.status.code(), notes(&dir)), (Some(2), 1), "{output:?}");
        match more {
            [] => load_and_kill(&dir, &["load", "DB", "--batch", "10"], &lines(0..10)),
            _ => drop(ok(&dir, &["load", "DB", "--sorted"], lines(0..10).as_bytes())),
        }
        assert_eq!(notes(&dir), 0, "{more:?}");
        ok(&dir, &["load", "DB", "--batch", "10", "--resume"], lines(0..60).as_bytes());
        let all = lines(0..60) + &lines(100..150);
        assert_eq!(ok(&dir, &["dump", "DB"], b""), all.into_bytes(), "{more:?}");
    }
}

/// Rejected lines before the noted place were in no file once the load was killed: they waited in
/// memory for its end, while the note said that their lines were passed, so `--resume` did not see
/// them again. Now they are synced before a note is written.
#[test]
fn rejected_lines_before_a_note_survive_a_kill() {
    let dir = Dir::new("load-rejects");
    let words = ["load", "DB", "--batch", "1", "--rejects", "bad.tsv"];
    // The progress is noted every 64 MiB.
    let large = "v".repeat(1 << 20);
    let filler: String = (0..64).map(|number| format!("large{number}\t{large}\n")).collect();
    let (mut load, mut input, output) =
        start(&dir, &[&words[..], &["--ack"]].concat(), Stdio::null());
    let text = lines(0..1) + "bad\n" + &filler + &lines(1..3);
    input.write_all(text.as_bytes()).unwrap();
    let mut acks = output.lines();
    // What is acknowledged behind the noted line comes after the note.
    while acks.next().unwrap().unwrap() != "68" {}
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(notes(&dir), 1);
    let resumed = run(&dir, &[&words[..], &["--resume"]].concat(), text.as_bytes());
    assert_eq!(resumed.status.code(), Some(0), "nothing is rejected again: {resumed:?}");
    assert_eq!(fs::read(dir.path().join("bad.tsv")).unwrap(), b"bad\n");
}

/// The note of a load went before its rejected lines were in their file: where that failed, they
/// were lost, and `--resume` knew of no load.
#[test]
#[cfg(target_os = "linux")]
fn rejected_lines_that_cannot_be_kept_leave_the_note() {
    let dir = Dir::new("load-rejects-full");
    // A file of that name is there, which only a load that goes on may use.
    let words = ["load", "DB", "--batch", "1", "--rejects", "/dev/full", "--resume"];
    // The progress is noted every 64 MiB.
    let large = "v".repeat(1 << 20);
    let filler: String = (0..65).map(|number| format!("large{number}\t{large}\n")).collect();
    let failed = run(&dir, &words, (filler + &lines(0..1) + "bad\n").as_bytes());
    assert_eq!(failed.status.code(), Some(2), "{failed:?}");
    assert_eq!(notes(&dir), 1, "{failed:?}");
}
