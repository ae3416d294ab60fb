//! The control socket of a real database, asked by honest and by hostile clients.

use super::request::MAX_REQUEST_BYTES;
use super::server::MAX_CLIENTS;
use crate::{Db, ErrorKind, Event, EventListener, KeyspaceOptions, Options, Separation, doc_dir};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn connect(dir: &Path) -> UnixStream {
    UnixStream::connect(dir.join("CONTROL")).unwrap()
}

/// Sends bytes and returns the whole answer.
fn exchange(dir: &Path, request: &[u8]) -> String {
    let mut stream = connect(dir);
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks for `request` and returns the head of the answer without the length, and the body.
fn ask(dir: &Path, request: &str) -> (String, String) {
    let answer = exchange(dir, format!("cleave/1 {request}\n").as_bytes());
    let (head, body) = answer.split_once('\n').unwrap();
    let (head, length) = head.rsplit_once(' ').unwrap();
    assert_eq!(length.parse::<usize>().unwrap(), body.len());
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_live_database_answers_every_command() {
    let dir = doc_dir("control-commands");
    let db = crate::open(&dir).unwrap();
    let separation = Separation::AtWrite;
    let options = KeyspaceOptions { separation, ..Default::default() };
    let words = db.create_keyspace_with("some words", options).unwrap();
    words.put("one", vec![1; 5000]).unwrap();
    words.flush().unwrap();
    words.put("one", vec![2; 5000]).unwrap();
    let done = |request: &str, wanted: &str| {
        let (head, body) = ask(&dir, request);
        let is_text = request == "metrics" || request.ends_with("-text");
        let kind = if is_text { "text" } else { "json" };
        assert_eq!(head, format!("cleave/1 ok {kind}"), "{request}: {body}");
        assert!(body.contains(wanted), "{request}: {body}");
    };
    done("stats", "\"commits\":2,");
    done("stats-text", "keyspace some words: about 1 key in tables (1 entry)");
    done("metrics", "cleavedb_commits_total 2\n");
    done("space-text", "amplification");
    done("space", "\"name\":\"some words\"");
    done("hot", "\"keyspace\":\"some words\",\"level\":0,\"entries\":1,");
    done("hot some%20words", "\"stale_entries\":1");
    done("settings", "\"control_socket\":\"true\"");
    done("settings", "\"some words\":{\"separation\":\"at_write\"");
    done("jobs", &format!("\"holder\":\"process {} (", std::process::id()));
    done("jobs", "\"holders\":{\"handles\":2,");
    done("events", "\"event\":\"flush_ended\",\"text\":\"flush of some words: ");
    done("pause", "{}");
    done("jobs", "\"gc_paused\":true");
    done("resume", "{}");
    done("jobs", "\"gc_paused\":false");
    done("gc", "\"segments_freed\":1,");
    done("compact some%20words", "{}");
    done("compact", "{}");
    let target = doc_dir("control-checkpoint");
    done(&format!("checkpoint {}", target.display()), "{}");
    let copy = crate::open(&target).unwrap();
    assert_eq!(copy.keyspace("some words").unwrap().get("one").unwrap().unwrap(), vec![2; 5000]);
}

#[test]
fn errors_are_told_with_kind_and_advice() {
    let dir = doc_dir("control-errors");
    let _db = crate::open(&dir).unwrap();
    let (head, body) = ask(&dir, "compact nothing");
    assert_eq!(head, "cleave/1 failed json");
    assert!(body.starts_with("{\"kind\":\"NotFound\",\"message\":"), "{body}");
    let (head, body) = ask(&dir, &format!("checkpoint {}", dir.display()));
    assert!(head.contains("failed") && body.contains("\"kind\":\"AlreadyExists\""), "{body}");
    let (head, body) = ask(&dir, "dance");
    assert_eq!(head, "cleave/1 refused json");
    assert!(body.contains("the command \\\"dance\\\" is unknown"), "{body}");
}

#[test]
fn the_socket_is_for_its_user_and_goes_when_the_database_closes() {
    let dir = doc_dir("control-file");
    let db = crate::open(&dir).unwrap();
    let found = std::fs::metadata(dir.join("CONTROL")).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    db.close().unwrap();
    assert!(!dir.join("CONTROL").exists());
    let options = Options { control_socket: false, ..Options::default() };
    let quiet = Db::builder(&dir).options(options).open().unwrap();
    assert!(!dir.join("CONTROL").exists());
    drop(quiet);
    let options = Options { read_only: true, ..Options::default() };
    let _reader = Db::builder(&dir).options(options).open().unwrap();
    assert!(!dir.join("CONTROL").exists());
}

/// Guards against a database that cannot be opened at a long path, or is left without a socket
/// there: an address has 108 bytes.
#[test]
fn a_long_path_has_a_socket_too() {
    let dir = doc_dir("control-long").join("d".repeat(120));
    let _db = crate::open(&dir).unwrap();
    let found = std::fs::metadata(dir.join("CONTROL")).unwrap();
    assert!(found.file_type().is_socket());
}

#[derive(Default)]
struct Failures(Mutex<Vec<String>>);

impl EventListener for Failures {
    fn on_event(&self, event: &Event) {
        if let Event::ControlSocketFailed { error } = event {
            self.0.lock().unwrap().push(error.to_string());
        }
    }
}

#[test]
fn a_killed_process_leaves_a_socket_that_is_replaced_and_other_things_stay() {
    let dir = doc_dir("control-stale");
    crate::open(&dir).unwrap().close().unwrap();
    let failures = Arc::new(Failures::default());
    let open = || Db::builder(&dir).event_listener(failures.clone()).open().unwrap();
    let stale = std::os::unix::net::UnixListener::bind(dir.join("CONTROL")).unwrap();
    drop(stale);
    let db = open();
    assert_eq!(ask(&dir, "stats").0, "cleave/1 ok json");
    db.close().unwrap();
    assert!(failures.0.lock().unwrap().is_empty());
    std::fs::write(dir.join("CONTROL"), "mine").unwrap();
    let db = open();
    db.default_keyspace().put("a", "b").unwrap();
    db.close().unwrap();
    assert_eq!(std::fs::read_to_string(dir.join("CONTROL")).unwrap(), "mine");
    let failures = failures.0.lock().unwrap().clone();
    assert!(failures.len() == 1 && failures[0].contains("something else has its name"));
}

#[test]
fn hostile_clients_are_bounded_and_harm_nobody() {
    let dir = doc_dir("control-hostile");
    let db = crate::open(&dir).unwrap();
    // Requests without an end, too long, of any bytes, and cut off.
    let answer = exchange(&dir, &vec![b'x'; MAX_REQUEST_BYTES]);
    assert!(answer.starts_with("cleave/1 refused json ") && answer.contains("too long"));
    for byte in 0..=255 {
        let answer = exchange(&dir, &[byte, b'c', b'\n']);
        assert!(answer.starts_with("cleave/1 refused json "), "{byte}: {answer}");
    }
    let mut cut = connect(&dir);
    cut.write_all(b"cleave/1 sta").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    cut.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("no line end"), "{answer}");
    // A client that goes away before its answer.
    connect(&dir).write_all(b"cleave/1 stats\n").unwrap();
    // So many that send nothing that the next one is told to come again.
    let mut silent: Vec<_> = (0..MAX_CLIENTS).map(|_| connect(&dir)).collect();
    loop {
        let (mut one_more, mut busy) = (connect(&dir), String::new());
        let _ = one_more.write_all(b"cleave/1 stats\n");
        let _ = one_more.read_to_string(&mut busy);
        if busy.starts_with("cleave/1 busy json ") {
            break;
        }
        // A former client was about to leave. A silent one may have been turned away because of
        // that, so another takes its place.
        silent.push(connect(&dir));
    }
    db.default_keyspace().put("a", "b").unwrap();
    // Closing waits for none of them.
    db.close().unwrap();
    drop(silent);
}

/// Guards against a database that stays locked after its last handle was dropped, because a thread
/// that answers has it in hand at that moment.
#[test]
fn dropping_the_last_handle_closes_it_though_others_ask() {
    let dir = doc_dir("control-drop");
    let path = dir.clone();
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = done.clone();
    let asker = std::thread::spawn(move || {
        let mut answers = 0;
        while !seen.load(std::sync::atomic::Ordering::Relaxed) {
            let Ok(mut stream) = UnixStream::connect(path.join("CONTROL")) else { continue };
            let mut answer = String::new();
            let _ = stream.write_all(b"cleave/1 space\n");
            let _ = stream.read_to_string(&mut answer);
            answers += usize::from(answer.starts_with("cleave/1 ok"));
        }
        answers
    });
    for round in 0..50u32 {
        let db = crate::open(&dir).unwrap();
        db.default_keyspace().put(round.to_be_bytes(), "x").unwrap();
        let iter = db.default_keyspace().iter();
        drop(db);
        drop(iter);
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    asker.join().unwrap();
    let db = crate::open(&dir).unwrap();
    assert_eq!(db.default_keyspace().iter().count(), 50);
    assert_eq!(crate::open(&dir).unwrap_err().kind(), ErrorKind::Locked);
}

/// A backup that was asked for at one byte per second slept for the time of a whole piece, which
/// was days, and closing waited for it. Now the wait is in steps, and the last one ends with the
/// database.
#[test]
fn closing_does_not_wait_for_a_slow_backup() {
    let (dir, target) = (doc_dir("control-slow"), doc_dir("control-slow-backup"));
    let db = crate::open(&dir).unwrap();
    db.default_keyspace().put("a", vec![1; 5 << 20]).unwrap();
    let mut client = connect(&dir);
    let request = format!("cleave/1 backup {} rate=1\n", target.display());
    client.write_all(request.as_bytes()).unwrap();
    // The first piece is there, so it is waited for the next one.
    let has_begun = || {
        let files = std::fs::read_dir(&target).into_iter().flatten().flatten();
        files.filter(|file| file.metadata().is_ok_and(|data| data.len() > 1000)).count() > 0
    };
    while !has_begun() {
        std::thread::yield_now();
    }
    db.close().unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("cleave/1 failed json "), "{answer}");
    assert!(answer.contains("\"kind\":\"Closed\""), "{answer}");
}

/// A client that had connected but was not accepted when the database closed waited for as long as
/// any handle of the closed database lived, as the socket lived with it. Now it is closed.
#[test]
fn nobody_waits_at_a_closed_database() {
    let dir = doc_dir("control-queue");
    let path = dir.join("CONTROL");
    for _ in 0..20 {
        let db = crate::open(&dir).unwrap();
        let words = db.default_keyspace();
        let clients: Vec<_> = (0..MAX_CLIENTS * 2).map(|_| connect(&dir)).collect();
        db.close().unwrap();
        for mut client in clients {
            let _ = client.read_to_end(&mut Vec::new());
        }
        assert!(!path.exists());
        assert_eq!(words.get("a").unwrap_err().kind(), ErrorKind::Closed);
    }
}

/// Guards against a directory that can't be destroyed, as a killed process has left its socket in
/// it; and against the loss of a file of a user with its name.
#[test]
fn a_socket_that_was_left_goes_with_its_database() {
    for is_socket in [true, false] {
        let dir = doc_dir("control-destroy");
        crate::open(&dir).unwrap().close().unwrap();
        let path = dir.join("CONTROL");
        match is_socket {
            true => drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
            false => std::fs::write(&path, "mine").unwrap(),
        }
        let destroyed = Db::destroy(&dir);
        assert_eq!(path.exists(), !is_socket, "{destroyed:?}");
        assert_eq!(dir.exists(), !is_socket);
    }
}
