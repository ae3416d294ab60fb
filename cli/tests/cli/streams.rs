//! Bytes that come in and go out: binary exact, closed early, answered at once.

use crate::common::{Dir, cleave, ok, run, unread};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

/// Bytes of every kind in no simple order.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn a_value_is_the_same_to_the_byte() {
    let dir = Dir::new("exact");
    for length in [0, 1, 1023, 1024, 3_000_000] {
        let value = noise(length, length as u64);
        ok(&dir, &["put", "DB", "key", "-"], &value);
        assert!(ok(&dir, &["get", "DB", "key", "--raw"], b"") == value, "{length} bytes");
    }
}

/// What a monitoring system reads ends as its format asks for.
#[test]
fn metrics_are_printed() {
    let dir = Dir::new("metrics");
    ok(&dir, &["put", "DB", "key", "value"], b"");
    let text = String::from_utf8(ok(&dir, &["metrics", "DB"], b"")).unwrap();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    assert!(text.contains("\ncleavedb_recovery_replayed_records 1\n"), "{text}");
}

#[test]
fn what_was_dumped_loads_to_the_same() {
    let dir = Dir::new("round-trip");
    let mut input = String::new();
    for number in 0..300 {
        let key = noise(1 + number % 40, number as u64);
        let value = noise(number * number % 3001, 1000 + number as u64);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        input += &format!("{}\t{}\n", hex(&key), hex(&value));
    }
    ok(&dir, &["load", "DB", "--format", "hex"], input.as_bytes());
    let whole = ok(&dir, &["dump", "DB", "--hex"], b"");
    assert!(whole.len() > 500_000);
    for format in ["tsv", "jsonl", "hex"] {
        let text = ok(&dir, &["dump", "DB", "--format", format], b"");
        ok(&dir, &["load", format, "--format", format], &text);
        assert!(ok(&dir, &["dump", format, "--hex"], b"") == whole, "{format}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let dir = Dir::new("early");
    let input: String = (0..20_000).map(|n| format!("key{n:06}\tvalue {n}\n")).collect();
    ok(&dir, &["load", "DB"], input.as_bytes());
    let segment = std::fs::read_dir(dir.path().join("DB"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "seg"))
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let inspected = segment.to_str().unwrap();
    for args in [
        &["scan", "DB"][..],
        &["scan", "DB", "--json", "--reverse"],
        &["dump", "DB"],
        &["inspect", inspected],
    ] {
        let mut command = cleave(&dir, args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}: {errors}");
        assert_eq!(errors, "", "{args:?}");
    }
}

/// Flips a bit of the first file of `dir` with this end.
fn damage(dir: &Dir, name: &str, end: &str, offset: usize) {
    let files = std::fs::read_dir(dir.path().join(name)).unwrap();
    let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(end));
    let path = paths.iter().min().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 1;
    // A new file: other links to the old one keep the right bytes.
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// `cleave check DB | head -0` ended with exit status 0, whatever was damaged: an output that is
/// closed was the end of the command, and success. What a command is there to find is its exit
/// status also if nobody reads more of it.
#[test]
fn a_finding_is_the_exit_status_though_nobody_reads_the_report() {
    let dir = Dir::new("unread-report");
    ok(&dir, &["put", "DB", "key", "value"], b"");
    ok(&dir, &["backup", "DB", "backup"], b"");
    ok(&dir, &["compact", "DB"], b"");
    assert_eq!(unread(&dir, &["check", "DB"], b""), (Some(0), String::new()));
    damage(&dir, "DB", ".tbl", 60);
    damage(&dir, "backup", ".seg", 100);
    for args in [
        &["check", "DB"][..],
        &["check", "DB", "--json"],
        &["backups", "backup", "verify"],
        &["repair", "DB"],
    ] {
        assert_eq!(unread(&dir, args, b"").0, Some(1), "{args:?}");
    }
    let text = ok(&dir, &["scan", "DB"], b"");
    assert!(text.is_empty(), "it was repaired, and what was damaged is lost");
    ok(&dir, &["put", "NEW", "key", "value"], b"");
    ok(&dir, &["compact", "NEW"], b"");
    damage(&dir, "NEW", ".tbl", 12);
    assert_eq!(unread(&dir, &["check", "NEW"], b"").0, Some(2), "it could not be verified");
}

/// A shell whose answers nobody read any more left out all commands that followed, with exit status
/// 0. Now that is an error which names the first of them; where none follows, all is well.
#[test]
fn commands_that_nobody_hears_the_answers_of_are_not_done_and_that_is_told() {
    let dir = Dir::new("unheard-shell");
    let (code, told) = unread(&dir, &["shell", "DB"], b"put a 1\n\n# and\nput b 2\nput c 3\n");
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("line 4 and what follows was not done"), "{told}");
    assert_eq!(ok(&dir, &["scan", "DB"], b""), b"a\t1\n");
    let all_done = b"scan\n# the end\nquit\nput b 2\n";
    assert_eq!(unread(&dir, &["shell", "DB"], all_done), (Some(0), String::new()));
    let (code, told) = unread(&dir, &["shell", "DB"], b"nonsense\n");
    assert_eq!(code, Some(2));
    assert!(told.contains("a command failed"), "{told}");
}

#[test]
fn a_load_goes_on_when_nobody_reads_its_acknowledgements() {
    let dir = Dir::new("unheard");
    let mut command = cleave(&dir, &["load", "DB", "--ack", "--batch", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let input: String = (0..1000).map(|n| format!("{n}\t{n}\n")).collect();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(ok(&dir, &["shell", "DB"], b"count\n"), b"1000\n");
}

/// With standard error closed, as by a pager that has ended, a command that had something to say
/// there panicked, with exit status 101, after it had done its work: `eprintln!` does so. What
/// nobody reads is lost now, and the exit status tells what it always does.
#[test]
fn what_nobody_reads_on_standard_error_changes_nothing() {
    let dir = Dir::new("unread");
    ok(&dir, &["put", "DB", "key", "value"], b"");
    std::fs::write(dir.path().join("in.tsv"), "a\t1\n").unwrap();
    let commands = [
        (&["load", "DB", "in.tsv"][..], 0),
        (&["get", "DB", "nope"], 1),
        (&["get", "nowhere", "key"], 2),
    ];
    for (args, expected) in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = cleave(&dir, args).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{args:?}");
    }
}

#[test]
fn the_shell_answers_before_it_reads_on() {
    let dir = Dir::new("driven");
    let mut command = cleave(&dir, &["shell", "DB"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |command: &str| {
        writeln!(to, "{command}").unwrap();
        let mut answer = String::new();
        from.read_line(&mut answer).unwrap();
        answer.trim_end().to_string()
    };
    for number in 0..200 {
        assert_eq!(ask(&format!("put k{number} v{number}")), "OK");
        assert_eq!(ask(&format!("get k{number}")), format!("v{number}"));
    }
    assert_eq!(ask("get nope"), "(nil)");
    assert!(ask("get").starts_with("ERR "));
    assert!(ask("stats").starts_with('{'), "one line");
    assert_eq!(ask("count"), "200");

    // The error names the process that holds the database.
    let refused = run(&dir, &["put", "DB", "a", "1"], b"");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains(&child.id().to_string()), "{message}");

    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(2), "a command failed");
    ok(&dir, &["put", "DB", "a", "1"], b"");
}

#[test]
fn changes_are_followed_over_sessions() {
    let dir = Dir::new("follow");
    ok(&dir, &["put", "DB", "a", "1"], b"");
    let mut command = cleave(&dir, &["changes", "DB", "--follow"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().expect("it follows").unwrap();
    assert_eq!((next(), next()), ("1\tput\tdefault\ta\t1".into(), "1\tcommit\t1".into()));
    // A session may meet the look of the follower, which holds the database open for a moment.
    let put = || run(&dir, &["put", "DB", "b", "2"], b"").status.success();
    while !put() {
        std::thread::yield_now();
    }
    assert_eq!((next(), next()), ("2\tput\tdefault\tb\t2".into(), "2\tcommit\t1".into()));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// `cleave changes DB --follow | head -1` stayed until somebody committed something: only a write
/// told it that its reader had left, and it slept between its looks. It ends without one now.
#[test]
fn a_follower_ends_when_its_reader_has_left() {
    let dir = Dir::new("follow-left");
    ok(&dir, &["put", "DB", "a", "1"], b"");
    let mut command = cleave(&dir, &["changes", "DB", "--follow"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for expected in ["1\tput\tdefault\ta\t1\n", "1\tcommit\t1\n"] {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, expected);
    }
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
