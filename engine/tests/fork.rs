//! Forks with a database open. They are a program of their own, because a child has only the thread
//! that forked and must end without running anything of the test harness.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "no safe crate forks")]

use cleavedb::env::batch_read::ReadRequest;
use cleavedb::env::{Env, OsSettings};
use cleavedb::{
    ChangesOptions, Comparator, Db, Error, ErrorKind, Keyspace, Options, ParallelReads,
    ReadOptions, WriteBatch,
};
use std::cmp::Ordering;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs `body` on `given` in a forked child and waits for it; in this process, `given` is returned
/// as it was. Panics if the child did, or if it hung: a signal ends it after a minute.
fn in_child<T>(given: T, body: impl FnOnce(T)) -> T {
    // SAFETY: the child runs `body`, which takes no lock that another thread of this process may
    // hold (that is what is tested), and ends without returning.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child could be made");
    if child == 0 {
        // SAFETY: the call takes no pointer.
        unsafe { libc::alarm(60) };
        // What the harness captures would be lost with the child.
        std::panic::set_hook(Box::new(|panic| {
            let text = format!("in the child: {panic}\n");
            // SAFETY: the pointer leads to as many bytes as are written.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        }));
        let status = i32::from(catch_unwind(AssertUnwindSafe(|| body(given))).is_err());
        // SAFETY: the call takes no pointer. Unlike `exit` it runs no handlers, which are for the
        // parent.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the pointer leads to a number that lives during the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(!libc::WIFSIGNALED(status), "the child hung and was ended by a signal");
    assert_eq!(libc::WEXITSTATUS(status), 0, "the child panicked; see above");
    given
}

fn open(dir: &Path) -> Db {
    Db::builder(dir).open().unwrap()
}

/// Returns what the database answers at its control socket.
fn asked(dir: &Path) -> String {
    let mut stream = UnixStream::connect(dir.join("CONTROL")).unwrap();
    stream.write_all(b"cleave/1 jobs\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Checks that a call was refused because of the fork.
#[track_caller]
fn refused<T>(outcome: Result<T, Error>) {
    let error = outcome.err().expect("the call is refused");
    assert_eq!(error.kind(), ErrorKind::Closed);
    let text = error.to_string();
    assert!(
        text.contains("opened before a fork") && text.contains("open it in the child"),
        "{text}"
    );
}

fn every_call_of_a_keyspace_is_refused(keyspace: &Keyspace) {
    refused(keyspace.put("child", "value"));
    refused(keyspace.delete("a"));
    refused(keyspace.get("a"));
    refused(keyspace.get_pinned("a", <[u8]>::len));
    refused(keyspace.contains_key("a"));
    keyspace.multi_get(&["a", "b"]).into_iter().for_each(refused);
    refused(keyspace.iter().next().unwrap());
    refused(keyspace.range("a"..).next_back().unwrap());
    refused(keyspace.iter().into_cursor());
    refused(keyspace.cursor());
    refused(keyspace.first_key_value());
    refused(keyspace.is_empty());
    refused(keyspace.approximate_size(..));
    refused(keyspace.approximate_len(..));
    refused(keyspace.flush());
    refused(keyspace.compact_range(..));
    refused(keyspace.reorganize(..));
    refused(keyspace.convert());
    refused(keyspace.set_options(keyspace.options()));
}

fn every_call_is_refused(db: &Db) {
    let keyspace = db.default_keyspace();
    every_call_of_a_keyspace_is_refused(&keyspace);
    refused(db.keyspace("default"));
    refused(db.create_keyspace("child"));
    refused(db.open_or_create_keyspace("default"));
    refused(db.drop_keyspace("other"));
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "child", "value");
    refused(db.write(batch));
    refused(db.sync());
    refused(db.flush());
    refused(db.compact());
    refused(db.gc());
    refused(db.wait_idle());
    refused(db.check());
    refused(db.space());
    refused(db.changes(0));
    refused(db.checkpoint(db.path().with_extension("of-child")));
    // Calls that can't fail wait for nobody and say nothing of the parent's database.
    let read = ReadOptions::new().snapshot(&db.snapshot());
    refused(keyspace.get_with("a", &read));
    assert_eq!(db.stats().commits, 0);
    assert_eq!(db.holders(), cleavedb::Holders::default());
    assert!(db.keyspaces().contains(&"default".to_owned()));
    db.pause_gc();
    db.resume_gc();
    refused(db.clone().close());
}

/// A child had its parent's handles but none of its threads. Its calls waited for these or for
/// their locks, a put was written into the parent's log, and dropping the last handle joined
/// threads and sealed the log. Now every call is refused, and dropping does nothing.
#[test]
fn a_child_is_refused_and_leaves_its_parent_alone() {
    for parallel_reads in [ParallelReads::Threads, ParallelReads::IoUring, ParallelReads::Off] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { parallel_reads, ..Options::default() };
        let db = Db::builder(dir.path()).options(options).open().unwrap();
        let keyspace = db.default_keyspace();
        db.create_keyspace("other").unwrap();
        for key in ["a", "b", "c", "d"] {
            keyspace.put(key, vec![7; 5000]).unwrap();
        }
        db.flush().unwrap();
        keyspace.put("e", "small").unwrap();
        let snapshot = db.snapshot();
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek_to_first().unwrap();
        let mut range = keyspace.iter();
        range.next().unwrap().unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&keyspace, "batch", "of the parent");
        let mut changes = db.changes_with(0, &ChangesOptions::new().pin(true)).unwrap();
        changes.next_batch().unwrap().unwrap();
        let given = (db, keyspace, snapshot, cursor, range, batch, changes);
        let given = in_child(given, |given| {
            let (db, keyspace, snapshot, mut cursor, mut range, batch, mut changes) = given;
            every_call_is_refused(&db);
            refused(keyspace.prefix("a").keys().next().unwrap());
            refused(cursor.next());
            refused(cursor.prev());
            refused(cursor.value());
            refused(cursor.seek("b"));
            refused(cursor.seek_to_first());
            refused(cursor.seek_to_last());
            refused(cursor.seek_for_prev("b"));
            refused(range.next().unwrap());
            assert!(range.next().is_none());
            refused(changes.next_batch());
            refused(changes.wait_batch(Duration::from_secs(600)));
            refused(changes.skip_to(2));
            let (clone, again) = (db.clone(), snapshot.clone());
            drop((db, keyspace, snapshot, cursor, range, batch, changes, clone, again));
        });
        let (db, keyspace, snapshot, mut cursor, mut range, batch, mut changes) = given;
        // The parent's is as it was: the lock is held, its socket answers, every handle goes on.
        assert!(asked(dir.path()).starts_with("cleave/1 ok json "));
        let error = Db::builder(dir.path()).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        cursor.next().unwrap();
        assert_eq!(cursor.key(), b"b");
        assert_eq!(cursor.value().unwrap().len(), 5000);
        assert_eq!(range.next().unwrap().unwrap().0, b"b");
        db.write(batch).unwrap();
        keyspace.put("f", vec![8; 5000]).unwrap();
        let before = ReadOptions::new().snapshot(&snapshot);
        assert!(keyspace.get_with("batch", &before).unwrap().is_none());
        assert_eq!(std::iter::from_fn(|| changes.next_batch().unwrap()).count(), 6);
        drop((keyspace, snapshot, cursor, range, changes));
        db.close().unwrap();
        let db = open(dir.path());
        assert_eq!(db.recovery().torn_bytes, 0);
        assert!(db.check().unwrap().is_clean());
        let keys: Vec<_> = db.default_keyspace().keys().map(Result::unwrap).collect();
        let expected: [&[u8]; 7] = [b"a", b"b", b"batch", b"c", b"d", b"e", b"f"];
        assert_eq!(keys, expected);
        assert_eq!(db.keyspaces(), ["default", "other"]);
    }
}

/// Byte order, told by a comparator that waits once it is armed.
#[derive(Default)]
struct Waiting {
    armed: AtomicBool,
    doors: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Comparator for Waiting {
    fn name(&self) -> &str {
        "waiting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.armed.swap(false, Relaxed) {
            let (arrived, go_on) = self.doors.lock().unwrap().take().unwrap();
            arrived.send(()).unwrap();
            let _ = go_on.recv();
        }
        a.cmp(b)
    }
}

/// A thread of the parent holds the log's lock when the child is made, in which it stays held for
/// ever. Calls of the child and what it drops waited for it.
#[test]
fn a_child_waits_for_no_lock_of_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let comparator = Arc::new(Waiting::default());
    let db = Db::builder(dir.path()).comparator("default", comparator.clone()).open().unwrap();
    let keyspace = db.default_keyspace();
    keyspace.put("a", "1").unwrap();
    let ((arrived, held), (go_on, wait)) = (channel(), channel());
    *comparator.doors.lock().unwrap() = Some((arrived, wait));
    comparator.armed.store(true, Relaxed);
    let writer = keyspace.clone();
    std::thread::scope(|scope| {
        // If the child fails, dropping this lets the writer end.
        let go_on = go_on;
        let writer = scope.spawn(move || writer.put("b", "2"));
        held.recv().unwrap();
        in_child((db.clone(), db.snapshot()), |(db, snapshot)| {
            every_call_is_refused(&db);
            drop((db, snapshot));
        });
        go_on.send(()).unwrap();
        writer.join().unwrap().unwrap();
    });
    drop(keyspace);
    db.close().unwrap();
    let db = Db::builder(dir.path()).comparator("default", comparator).open().unwrap();
    assert_eq!(db.default_keyspace().get("b").unwrap().unwrap(), "2");
}

/// A child opens databases of its own, and so does its child; that of the parent is locked.
#[test]
fn a_child_opens_databases_of_its_own() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(dir.path());
    in_child((), |()| {
        let error = Db::builder(dir.path()).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        let own = open(other.path());
        own.default_keyspace().put("child", "1").unwrap();
        in_child((), |()| refused(own.default_keyspace().put("grandchild", "2")));
        own.default_keyspace().put("child", "2").unwrap();
        own.close().unwrap();
    });
    db.default_keyspace().put("parent", "1").unwrap();
    assert_eq!(open(other.path()).default_keyspace().get("child").unwrap().unwrap(), "2");
}

/// A user's comparator or listener that forks returns into the engine in its child, too, where a
/// call is under way. What it then does to files fails, so that the parent's stay as they are.
#[test]
fn a_call_that_is_under_way_writes_nothing_in_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::os(&OsSettings::default());
    let path = dir.path().join("file");
    let file = env.fs.create(&path).unwrap();
    file.write_at(b"parent", 0).unwrap();
    file.prepare_appends(6, 100);
    let request = ReadRequest { file: file.clone(), offset: 0, len: 6 };
    let reads = env.reader.submit(vec![request]);
    let (file, _, _) = in_child((file, reads, env), |(file, reads, env)| {
        assert!(file.write_at(b"child", 6).is_err());
        assert!(file.set_len(0).is_err());
        assert!(file.punch(0, 4096).is_err());
        file.prepare_appends(0, 100);
        file.start_writeback(0, 6);
        assert!(env.fs.create(&dir.path().join("new")).is_err());
        assert!(env.fs.open_write(&path).is_err());
        assert!(env.fs.rename(&path, &dir.path().join("renamed")).is_err());
        assert!(env.fs.hard_link(&path, &dir.path().join("linked")).is_err());
        assert!(env.fs.remove(&path).is_err());
        assert!(env.fs.create_dir(&dir.path().join("new")).is_err());
        drop((file, reads, env));
    });
    file.set_len(6).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(names, std::slice::from_ref(&path));
    assert_eq!(std::fs::read(&path).unwrap(), b"parent");
}
