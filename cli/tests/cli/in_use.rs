//! Every command that reads, on a database that another process writes: a shell that is open, and
//! that is killed in the end.

use crate::common::{Dir, cleave, ok, run};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

/// A shell that has the database open for writing.
struct Writer {
    shell: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    fn start(dir: &Dir) -> Writer {
        let mut shell = cleave(dir, &["shell", "DB"]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        Writer { shell, input, answers: BufReader::new(output) }
    }

    /// Gives a command, and waits until its value can be read there.
    fn put(&mut self, key: &str, value: &str) {
        writeln!(self.input, "put {key} {value}\nget {key}").unwrap();
        let mut line = String::new();
        while line.trim_end() != value {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).unwrap(), 0, "the shell ended");
        }
    }

    fn kill(mut self) {
        self.shell.kill().unwrap();
        self.shell.wait().unwrap();
    }
}

/// The commands, with a part of what they print.
const READING: [(&[&str], &str); 14] = [
    (&["get", "DB", "ada"], "Lovelace"),
    (&["scan", "DB"], "ada\tLovelace"),
    (&["scan", "DB", "--keys-only"], "ada"),
    (&["count", "DB"], "2"),
    (&["ttl", "DB", "ada"], "never"),
    (&["dump", "DB"], "Lovelace"),
    (&["changes", "DB", "--visible"], "grace\tHopper"),
    (&["stats", "DB"], "default"),
    (&["stats", "DB", "--json"], "\"default\""),
    (&["metrics", "DB"], "cleavedb_"),
    (&["space", "DB"], "on disk"),
    (&["hot", "DB"], ""),
    (&["keyspaces", "DB"], "default"),
    (&["check", "DB"], "sound"),
];

/// Those of them that the writer answers, where there are control sockets.
const ANSWERED: &[&str] =
    if cfg!(target_os = "linux") { &["stats", "metrics", "space", "hot"] } else { &[] };

#[test]
fn every_reading_command_works_beside_a_writer_and_says_so() {
    let dir = Dir::new("in-use");
    ok(&dir, &["put", "DB", "ada", "Lovelace"], b"");
    let mut writer = Writer::start(&dir);
    writer.put("grace", "Hopper");
    for (arguments, wanted) in READING {
        let begun = Instant::now();
        let output = run(&dir, arguments, b"");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {err}");
        assert!(out.contains(wanted), "{arguments:?} printed {out}");
        assert!(err.contains("DB is in use by process "), "{err}");
        let is_answered = ANSWERED.contains(&arguments[0]);
        if is_answered {
            assert!(err.contains(", which answers"), "{arguments:?}: {err}");
            continue;
        }
        // It looked after it was started. The age is rounded to a tenth.
        let age = err.split(": as of ").nth(1).and_then(|it| it.split(" s ago").next());
        let age: f64 = age.and_then(|it| it.parse().ok()).expect("the age of what is shown");
        assert!(age <= begun.elapsed().as_secs_f64() + 0.1, "{arguments:?}: {err}");
    }
    // What was put a moment ago is seen, and the writer goes on.
    writer.put("grace", "Murray");
    assert_eq!(ok(&dir, &["get", "DB", "grace"], b""), b"Murray\n");
    // Who would write is refused, by the name of who holds it.
    let output = run(&dir, &["put", "DB", "ada", "Byron"], b"");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("held open by process "), "{error}");
    writer.kill();
    let output = run(&dir, &["get", "DB", "grace"], b"");
    assert_eq!((&*output.stdout, &*output.stderr), (&b"Murray\n"[..], &b""[..]));
    let left = std::fs::read_dir(dir.path().join("DB")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(left.filter(|name| name.starts_with("pinned")).count() == 0);
    ok(&dir, &["put", "DB", "ada", "Byron"], b"");
}
