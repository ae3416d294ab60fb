//! Checks what other threads meet while an ingest takes effect.

use super::relocated::open;
use crate::IngestOptions;
use crate::db::{Db, Options};
use crate::doc_dir;
use std::time::Duration;

/// Between the edit that adds the tables of an ingest and its number, a collection begins. A scan
/// that read a number from before the ingest would find nothing live in its segments.
#[test]
fn i06_what_is_being_ingested_is_no_garbage() {
    let dir = doc_dir("ingested-while-collecting");
    let db = open(&dir);
    let keyspace = db.default_keyspace();
    let value = |number: usize| vec![number as u8; 500];
    let mut ingestion = keyspace.begin_ingest(&IngestOptions::new()).unwrap();
    for number in 0..100 {
        ingestion.put(format!("{number:03}"), value(number)).unwrap();
    }
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel();
    let collector = db.clone();
    let collecting = std::thread::spawn(move || {
        begins.recv().unwrap();
        collector.core.background.collect_now().unwrap();
        end.send(()).unwrap();
    });
    let after_edit = || {
        begun.send(()).unwrap();
        let patience = Duration::from_millis(300);
        assert!(ended.recv_timeout(patience).is_err(), "it waits for the end of this commit");
    };
    ingestion.finish_with(&after_edit).unwrap();
    collecting.join().unwrap();
    for number in 0..100 {
        let found = keyspace.get(format!("{number:03}")).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number)[..]));
    }
    assert!(db.check().unwrap().is_clean());
}

/// Ingests alone made every writer wait for ever in the end: the log grew by their records, and it
/// counted as not flushed until a flush, which nothing was there for. Now an ingest moves the head
/// of a long log where nothing waits for a flush.
#[test]
fn i10_writers_wait_for_no_flush_of_what_was_ingested() {
    let dir = doc_dir("ingested-backlog");
    let max_replay_bytes = 64 << 10;
    let open = || {
        let options = Options { max_replay_bytes, ..Options::default() };
        Db::builder(&dir).options(options).open().unwrap()
    };
    let db = open();
    let keyspace = db.default_keyspace();
    let backlog = || db.core.committer.stall_controller().backlog();
    let mut expected = Vec::new();
    let mut ingest = |number: usize| {
        // The record of an ingest has its least key and its greatest.
        let key = format!("{number:05000}");
        keyspace.ingest_sorted([(&key, "value")]).unwrap();
        expected.push(key.into_bytes());
    };
    let mut longest = 0;
    for number in 0..30 {
        ingest(number);
        longest = longest.max(backlog());
        assert!(longest < 48 << 10, "at 64 KiB the next one would wait for ever: {longest}");
    }
    assert!(longest >= 32 << 10, "the head moves only once the log is long: {longest}");
    keyspace.put("put", "value").unwrap();
    let head = db.core.set.current().head;
    (30..33).for_each(&mut ingest);
    assert_eq!(db.core.set.current().head, head, "an opening replays the put");
    expected.push(b"put".to_vec());
    db.close().unwrap();
    let db = open();
    let keys: Vec<_> = db.default_keyspace().keys().map(Result::unwrap).collect();
    assert!(keys == expected, "{} keys", keys.len());
    assert!(db.check().unwrap().is_clean());
}
