//! A load that a signal ends says how far it came, and is resumed from there.

use crate::common::{Dir, lines, notes, ok, start};
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};

const WORDS: [&str; 7] = ["load", "DB", "-", "--batch", "100", "--ack", "--resume"];

/// Such a load was as lost as a killed one: nobody knew how many lines were stored.
#[test]
fn an_interrupted_load_is_resumed() {
    for signal in ["INT", "TERM", "HUP"] {
        let dir = Dir::new(&format!("interrupted-{signal}"));
        let (load, mut input, output) = start(&dir, &WORDS[..6], Stdio::piped());
        input.write_all(lines(0..250).as_bytes()).unwrap();
        let mut acks = output.lines();
        for expected in ["100", "200"] {
            assert_eq!(acks.next().unwrap().unwrap(), expected);
        }
        let id = load.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        // If it waits for input, what comes next wakes it; else it may have ended already.
        drop(input.write_all(lines(250..251).as_bytes()));
        let output = load.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("the load was interrupted"), "{message}");
        assert!(message.contains("--resume goes on there"), "{message}");
        let told = message.split("the ").find_map(|rest| rest.split_once(" lines before"));
        let stored: u32 = told.unwrap().0.parse().unwrap();
        assert!((200..=251).contains(&stored), "what was acknowledged is stored: {message}");
        assert_eq!(ok(&dir, &["dump", "DB"], b""), lines(0..stored).into_bytes());
        // The first lines are passed over whatever they say now.
        let all = lines(1000..1000 + stored) + &lines(stored..400);
        ok(&dir, &WORDS, all.as_bytes());
        assert_eq!(ok(&dir, &["dump", "DB"], b""), lines(0..400).into_bytes());
        assert_eq!(notes(&dir), 0, "a complete load leaves no note");
    }
}

/// What `load` has stored needs no replay at the next opening.
#[test]
fn a_complete_load_leaves_nothing_to_replay() {
    let dir = Dir::new("load-flushes");
    ok(&dir, &["load", "DB"], lines(0..5000).as_bytes());
    let text = String::from_utf8(ok(&dir, &["metrics", "DB"], b"")).unwrap();
    assert!(text.contains("\ncleavedb_recovery_replayed_records 0\n"), "{text}");
    assert_eq!(ok(&dir, &["count", "DB"], b""), b"5000\n");
}
