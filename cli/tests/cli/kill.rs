//! The load is killed (SIGKILL) at random moments, again and again on the same database. Each
//! time every line that had been acknowledged must be there, what else is there must be a prefix
//! of the input, and `cleave check` must find nothing.
//!
//! By default a few rounds on a small input. The acceptance run:
//! `CLEAVE_KILLS=20 CLEAVE_LINES=800000 cargo test --release --test cli kills`.

use crate::common::{Dir, ok, start};
use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;

/// Coprime to the number of lines, so that `line * STRIDE % lines` visits every key once.
const STRIDE: u64 = 7_919;
const BATCH: u64 = 100;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn key(line: u64, lines: u64) -> u64 {
    line * STRIDE % lines
}

/// Every 16th value is large enough to be kept apart from its key.
fn value(key: u64, round: u64) -> String {
    let length = if key.is_multiple_of(16) { 1500 } else { 20 + key % 100 } as usize;
    let mut value = format!("{round}:{key}:");
    while value.len() < length {
        write!(value, "{:x}", (key + 1).wrapping_mul(value.len() as u64 * 0x9e37_79b9)).unwrap();
    }
    value.truncate(length);
    value
}

#[test]
fn acknowledged_lines_survive_kills() {
    let lines = setting("CLEAVE_LINES", 20_000);
    let kills = setting("CLEAVE_KILLS", 4);
    assert!(!lines.is_multiple_of(STRIDE), "every key occurs");
    let dir = Dir::new("kill");
    // The round whose value each line had when the database was last looked at; 0: none.
    let mut rounds = vec![0; lines as usize];
    for round in 1..=kills {
        let enough = RandomState::new().hash_one(round) % (lines - BATCH);
        let acknowledged = load_and_kill(&dir, &input(lines, round), enough);
        println!("round {round}: to be killed at {enough}, {acknowledged} acknowledged");
        verify(&dir, &mut rounds, round, acknowledged);
        ok(&dir, &["check", "DB"], b"");
    }
    // And a load that nobody disturbs.
    fs::write(dir.path().join("in.tsv"), input(lines, kills + 1)).unwrap();
    ok(&dir, &["load", "DB", "in.tsv"], b"");
    verify(&dir, &mut rounds, kills + 1, lines);
}

fn input(lines: u64, round: u64) -> String {
    let mut text = String::new();
    for line in 0..lines {
        let key = key(line, lines);
        writeln!(text, "key{key:07}\t{}", value(key, round)).unwrap();
    }
    text
}

/// Returns how many lines had been acknowledged when it was killed.
fn load_and_kill(dir: &Dir, input: &str, enough: u64) -> u64 {
    let batch = BATCH.to_string();
    let words = ["load", "DB", "--ack", "--batch", &batch];
    let (mut child, mut stdin, mut acks) = start(dir, &words, Stdio::null());
    let acknowledged = thread::scope(|scope| {
        // It gets the whole input but not its end, so it can't be done before it is killed; the
        // kill ends this write at the latest.
        let feeder = scope.spawn(move || {
            drop(stdin.write_all(input.as_bytes()));
            stdin
        });
        let mut acknowledged = 0;
        let mut line = String::new();
        let mut killed = false;
        // What was written into the pipe before the kill counts; a line cut by it does not.
        while acks.read_line(&mut line).unwrap() > 0 {
            if let Some(number) = line.strip_suffix('\n') {
                acknowledged = number.parse().unwrap();
            }
            line.clear();
            if acknowledged >= enough && !killed {
                child.kill().unwrap();
                killed = true;
            }
        }
        drop(feeder.join().unwrap());
        acknowledged
    });
    assert_eq!(child.wait().unwrap().signal(), Some(9), "it was killed");
    acknowledged
}

fn verify(dir: &Dir, rounds: &mut [u64], round: u64, acknowledged: u64) {
    let lines = rounds.len() as u64;
    let mut found = vec![0; rounds.len()];
    for pair in ok(dir, &["dump", "DB"], b"").split(|&byte| byte == b'\n') {
        let Ok(pair) = std::str::from_utf8(pair) else { panic!("the dump is text") };
        let Some((name, text)) = pair.split_once('\t') else { continue };
        let key: u64 = name.strip_prefix("key").unwrap().parse().unwrap();
        let of: u64 = text.split(':').next().unwrap().parse().unwrap();
        assert_eq!(text, value(key, of), "the value of {name}");
        found[key as usize] = of;
    }
    // Line by line in the order of the input: first those of this round, then the older ones.
    let mut survived = 0;
    for line in 0..lines {
        let key = key(line, lines) as usize;
        if found[key] == round && survived == line {
            survived += 1;
        } else {
            assert_eq!(found[key], rounds[key], "line {line} behind the {survived} survivors");
        }
    }
    assert!(survived >= acknowledged, "{acknowledged} acknowledged, {survived} survived");
    rounds.copy_from_slice(&found);
}
