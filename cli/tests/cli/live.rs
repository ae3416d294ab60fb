//! Commands on a database that another process has open: they ask it at its control socket.

use crate::common::{Dir, cleave, ok, run};
use cleavedb::{Db, Options};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A process that has the database `DB` open and does what it is told: `cleave shell`.
pub(crate) struct Holder {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Holder {
    pub(crate) fn start(dir: &Dir) -> Holder {
        let mut command = cleave(dir, &["shell", "DB"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = process.stdin.take().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut holder = Holder { process, stdin, stdout };
        holder.tell("put a 1");
        holder
    }

    /// Has it run a command, and returns its answer.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        answer
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn end(mut self) {
        drop(self.stdin);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Runs a command, which must say that it asked the holder, and returns what it printed.
fn live(dir: &Dir, holder: &Holder, args: &[&str]) -> String {
    let output = run(dir, args, b"");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(
        stderr,
        format!("DB is in use by process {} (cleave), which answers\n", holder.process.id()),
        "{args:?}"
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_store_in_use_is_looked_into_through_its_process() {
    let dir = Dir::new("live-look");
    let mut holder = Holder::start(&dir);
    assert_eq!(holder.tell("put b 2"), "OK\n");
    assert_eq!(holder.tell("del a"), "OK\n");
    let stats: Value =
        serde_json::from_str(&live(&dir, &holder, &["stats", "DB", "--json"])).unwrap();
    assert_eq!(stats["entries_written"], 3);
    assert!(live(&dir, &holder, &["stats", "DB"]).contains("keyspace default: "));
    assert!(live(&dir, &holder, &["metrics", "DB"]).contains("cleavedb_entries_written_total 3\n"));
    let space: Value =
        serde_json::from_str(&live(&dir, &holder, &["space", "DB", "--json"])).unwrap();
    assert_eq!(space["keyspaces"][0]["entries"], 1);
    assert!(live(&dir, &holder, &["space", "DB"]).contains(" on disk, "));
    assert!(live(&dir, &holder, &["space", "DB", "--map"]).contains("log*"));
    assert!(live(&dir, &holder, &["space", "DB", "--svg", "-"]).ends_with("</svg>\n"));
    assert!(live(&dir, &holder, &["compact", "DB"]).starts_with("compacted in "));
    assert!(live(&dir, &holder, &["hot", "DB"]).contains("stale entries: 0 of 1"));
    holder.end();
    let output = run(&dir, &["stats", "DB"], b"");
    assert!(output.status.success() && output.stderr.is_empty());
}

/// What an update table was good for was told by nobody who looks at stale entries.
#[test]
fn hot_tells_of_what_use_the_update_table_is() {
    let dir = Dir::new("live-hot");
    let mut options = Options { update_table_bytes: 1 << 20, ..Options::default() };
    options.keyspace.level0_trigger = 8;
    // No read asks the update table where tables have filters, or no key in its range.
    options.keyspace.filter_bits_per_key = 0;
    let db = Db::builder(dir.path().join("DB")).options(options).open().unwrap();
    let words = db.default_keyspace();
    // Of four keys in the deepest table, two have newer entries in one above.
    for key in ["a", "b", "c", "d"] {
        words.put(key, "one").unwrap();
    }
    db.compact().unwrap();
    words.put("a", "two").unwrap();
    words.put("b", "two").unwrap();
    words.flush().unwrap();
    for key in ["a", "b", "c", "cc"] {
        words.get(key).unwrap();
    }
    let told = String::from_utf8(ok(&dir, &["hot", "DB"], b"")).unwrap();
    let lines: Vec<&str> = told.lines().rev().take(3).collect();
    assert!(lines[2].starts_with("update table: knows 4 of 4 keys noted (100.0%), in "), "{told}");
    assert_eq!(lines[1], "point reads of tables: 4, hits 3 (75.0%), misses 1");
    assert_eq!(lines[0], "superseded and dropped by compactions: 0 entries, with 0 B");
    let told: Value = serde_json::from_slice(&ok(&dir, &["hot", "DB", "--json"], b"")).unwrap();
    let table = &told["update_table"];
    let number = |field: &str| table[field].as_u64().unwrap();
    assert_eq!((number("keys"), number("evicted_keys")), (4, 0));
    assert_eq!((number("lookups"), number("hits"), number("misses")), (4, 3, 1));
    assert_eq!(number("superseded_bytes_dropped"), 0);
    assert_eq!(number("capacity_bytes"), 1 << 20);
}

#[test]
fn work_on_a_store_in_use_is_done_by_its_process() {
    let dir = Dir::new("live-work");
    let mut holder = Holder::start(&dir);
    assert!(live(&dir, &holder, &["gc", "DB"]).starts_with("collected in "));
    assert_eq!(live(&dir, &holder, &["pause", "DB"]), "value GC is paused\n");
    assert_eq!(live(&dir, &holder, &["resume", "DB"]), "value GC goes on\n");
    assert_eq!(
        live(&dir, &holder, &["checkpoint", "DB", "copy 1%"]),
        "checkpoint written to copy 1%\n"
    );
    assert_eq!(ok(&dir, &["get", "copy 1%", "a"], b""), b"1\n");
    assert_eq!(holder.tell("get a"), "1\n");
    let point = live(&dir, &holder, &["backup", "DB", "points 1%"]);
    assert!(point.starts_with("point 1: "), "{point}");
    assert_eq!(holder.tell("put b 2"), "OK\n");
    let options = ["--keep", "1", "--rate", "9M", "--verify"];
    let arguments = [&["backup", "DB", "points 1%"][..], &options].concat();
    let point = live(&dir, &holder, &arguments);
    assert!(point.starts_with("point 2: ") && point.contains("point 1 was deleted"), "{point}");
    ok(&dir, &["restore", "points 1%", "restored"], b"");
    assert_eq!(ok(&dir, &["get", "restored", "b"], b""), b"2\n");
    // An error of the process is told as one of our own.
    let output = run(&dir, &["checkpoint", "DB", "copy 1%"], b"");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("error: ") && stderr.contains("copy 1%"), "{stderr}");
}

#[test]
fn a_process_that_was_killed_answers_no_more() {
    let dir = Dir::new("live-killed");
    Holder::start(&dir).kill();
    assert!(dir.path().join("DB/CONTROL").exists(), "it is left behind");
    let output = run(&dir, &["pause", "DB"], b"");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no process answers for this database"), "{stderr}");
    let stats = run(&dir, &["stats", "DB"], b"");
    assert!(stats.status.success() && stats.stderr.is_empty());
    assert_eq!(ok(&dir, &["get", "DB", "a"], b""), b"1\n");
    let inspected = ok(&dir, &["check", "DB"], b"");
    assert!(inspected.starts_with(b"sound"));
}

/// Sends a request to the server of metrics and returns the whole answer.
fn fetch(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_served_over_http() {
    let dir = Dir::new("live-http");
    let holder = Holder::start(&dir);
    let mut command = cleave(&dir, &["metrics", "DB", "--listen", "0"]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    let address = said.strip_prefix("serving http://").unwrap().strip_suffix("/metrics\n").unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let answer = fetch(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; "));
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    assert!(body.contains("cleavedb_commits_total 1\n") && body.ends_with("# EOF\n"));
    let head_only = fetch(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head_only.starts_with("HTTP/1.1 200 OK\r\n") && head_only.ends_with("\r\n\r\n"));
    assert!(fetch(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(fetch(address, b"\xff\xfe\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(fetch(address, &[b'x'; 20_000][..8192]).starts_with("HTTP/1.1 431 "));
    holder.end();
    assert!(fetch(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn top_shows_one_screen_of_a_store_in_use() {
    let dir = Dir::new("live-top");
    let mut holder = Holder::start(&dir);
    assert_eq!(holder.tell("put b 2"), "OK\n");
    let screen = String::from_utf8(ok(&dir, &["top", "DB", "--once"], b"")).unwrap();
    assert!(screen.starts_with(" DB  ·  process "), "{screen}");
    for part in ["healthy", "PER SECOND", "LATENCY", "STALLS  none", "MEMORY", "KEYSPACE"] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    for part in ["default  ", "SEGMENTS", "RUNNING", "HELD BY  2 handles", "LATELY", "opened in"] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    assert!(!screen.contains('\x1b') && screen.lines().all(|line| line.chars().count() <= 80));
    // Without a terminal it is as if --once were given.
    assert!(ok(&dir, &["top", "DB"], b"").starts_with(b" DB  "));
    holder.end();
    let output = run(&dir, &["top", "DB", "--once"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no process answers"));
}

#[test]
fn a_report_is_one_page_of_a_store_in_use_or_not() {
    let dir = Dir::new("live-report");
    let holder = Holder::start(&dir);
    let said = live(&dir, &holder, &["report", "DB", "-o", "page.html"]);
    assert_eq!(said, "report written to page.html\n");
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains(&format!("told by process {} (cleave)", holder.process.id())));
    for part in ["Nothing unusual", "Keyspaces and levels", "Settings", "max_replay_bytes"] {
        assert!(page.contains(part), "{part}");
    }
    holder.end();
    let page = String::from_utf8(ok(&dir, &["report", "DB", "-o", "-"], b"")).unwrap();
    assert!(page.contains("no process had it open") && page.contains("separation_threshold"));
}
