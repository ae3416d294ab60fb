//! Stores that have an illness, which `cleave doctor` must name, and a healthy one.

use crate::common::{Dir, run, unread};
use cleavedb::{
    CompactionFilter, Db, FilterDecision, FilteredEntry, GcOptions, Keyspace, KeyspaceOptions,
    Options, Result, WriteBatch,
};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Returns the names of the rules that find something in the store `DB`.
fn found(dir: &Dir) -> Vec<String> {
    let output = run(dir, &["doctor", "DB", "--json"], b"");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = told["findings"].as_array().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!findings.is_empty())));
    for finding in findings {
        let long = |field: &str| finding[field].as_str().unwrap().len() > 15;
        assert!(long("what") && long("why") && long("advice"), "{finding}");
    }
    let mut names: Vec<String> =
        findings.iter().map(|finding| finding["rule"].as_str().unwrap().to_owned()).collect();
    names.dedup();
    names
}

fn path(dir: &Dir) -> PathBuf {
    dir.path().join("DB")
}

fn open(dir: &Dir, options: Options) -> Db {
    Db::builder(path(dir)).options(options).open().unwrap()
}

#[test]
fn a_healthy_store_has_nothing_unusual() {
    let dir = Dir::new("doctor-healthy");
    let db = open(&dir, Options::default());
    db.default_keyspace().put("a", vec![1; 5000]).unwrap();
    assert!(found(&dir).is_empty());
    db.close().unwrap();
    let output = run(&dir, &["doctor", "DB"], b"");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "DB: nothing unusual, by 15 rules\n");
    assert!(output.status.success());
}

#[test]
fn a_paused_gc_and_a_long_replay_are_named() {
    let dir = Dir::new("doctor-settings");
    let db = open(&dir, Options { max_replay_bytes: 8 << 30, ..Options::default() });
    db.pause_gc();
    assert_eq!(found(&dir), ["paused_gc", "long_replay"]);
    let output = run(&dir, &["doctor", "DB"], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("DB: 2 things are unusual\n\n1. Value GC is paused.\n"), "{text}");
    assert!(text.contains("   try: end the pause: `cleave resume`"), "{text}");
    assert_eq!(unread(&dir, &["doctor", "DB"], b"").0, Some(1));
}

#[test]
fn tiny_values_that_are_separated_are_named() {
    let dir = Dir::new("doctor-tiny");
    let keyspace = KeyspaceOptions { separation_threshold: 16, ..KeyspaceOptions::default() };
    let db = open(&dir, Options { keyspace, ..Options::default() });
    let mut batch = WriteBatch::new();
    for number in 0..2000u32 {
        batch.put(&db.default_keyspace(), number.to_be_bytes(), [7; 40]);
    }
    db.write(batch).unwrap();
    db.close().unwrap();
    assert_eq!(found(&dir), ["tiny_separated_values"]);
}

#[test]
fn a_cache_that_is_much_too_small_is_named() {
    let dir = Dir::new("doctor-cache");
    let db = open(&dir, Options { cache_bytes: 64 << 10, ..Options::default() });
    let words = db.default_keyspace();
    let mut batch = WriteBatch::new();
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for number in 0..20_000 {
        batch.put(&words, key(number), key(number).repeat(20));
    }
    db.write(batch).unwrap();
    db.flush().unwrap();
    for number in 0..12_000 {
        assert!(words.get(key(number)).unwrap().is_some());
    }
    assert_eq!(found(&dir), ["small_cache"]);
}

#[test]
fn an_update_table_that_is_never_hit_is_named() {
    let dir = Dir::new("doctor-update-table");
    // No read asks the update table where tables have filters, or no key in its range.
    let keyspace = KeyspaceOptions { filter_bits_per_key: 0, ..KeyspaceOptions::default() };
    let options = Options { update_table_bytes: 1 << 20, keyspace, ..Options::default() };
    let db = open(&dir, options);
    let words = db.default_keyspace();
    words.put([0], "b").unwrap();
    words.put([1], "b").unwrap();
    words.flush().unwrap();
    for number in 0..12_000u32 {
        words.get(number.to_be_bytes()).unwrap();
    }
    assert_eq!(found(&dir), ["idle_update_table"]);
}

#[test]
fn a_snapshot_that_keeps_space_is_named() {
    let dir = Dir::new("doctor-snapshot");
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    let db = open(&dir, Options { gc, ..Options::default() });
    let words = db.default_keyspace();
    let fill = |byte: u8| {
        for number in 0..24u8 {
            words.put([number], vec![byte; 1 << 20]).unwrap();
            // Without it, a slow disk has the writer wait until full segments are synced.
            if number % 3 == 2 {
                db.wait_idle().unwrap();
            }
        }
    };
    fill(1);
    let snapshot = db.snapshot();
    fill(2);
    assert_eq!(found(&dir), ["paused_gc", "pinned_space"]);
    drop(snapshot);
    assert_eq!(found(&dir), ["paused_gc"]);
}

/// A filter on whose door the only thread that compacts waits.
struct Door(Mutex<(Sender<()>, Receiver<()>)>);

impl CompactionFilter for Door {
    fn name(&self) -> &str {
        "test.Door"
    }

    fn filter(&self, _: &FilteredEntry<'_>) -> Result<FilterDecision> {
        let (arrived, open) = &*self.0.lock().unwrap();
        // Once the test has gone, the door is open.
        let _ = arrived.send(());
        let _ = open.recv();
        Ok(FilterDecision::Keep)
    }
}

/// Flushes `count` tables whose keys overlap, so that none moves down as it is.
fn flush_tables(keyspace: &Keyspace, count: u32) {
    for number in 0..count {
        keyspace.put("a", number.to_be_bytes()).unwrap();
        keyspace.put(format!("b{number}"), "").unwrap();
        keyspace.flush().unwrap();
    }
}

#[test]
fn tables_that_pile_up_in_level_0_and_stalls_for_them_are_named() {
    let dir = Dir::new("doctor-level0");
    let ((arrived, at_door), (release, open)) = (channel(), channel());
    let options = Options { compaction_threads: 1, level0_slowdown: 5, ..Options::default() };
    let begun = Instant::now();
    let db = Db::builder(path(&dir))
        .options(options)
        .compaction_filter("slow", Arc::new(Door(Mutex::new((arrived, open)))))
        .open()
        .unwrap();
    flush_tables(&db.create_keyspace("slow").unwrap(), 4);
    at_door.recv().unwrap();
    let words = db.create_keyspace("words").unwrap();
    flush_tables(&words, 9);
    let stalled = || {
        let stats = db.stats();
        stats.stalls.iter().map(|stall| stall.time).sum::<Duration>()
    };
    // Each of these writes is delayed, so most of the time goes by in stalls. The time until the
    // command has looked counts against it.
    while stalled() * 2 < begun.elapsed() {
        words.put("c", "d").unwrap();
    }
    let names = found(&dir);
    drop(release);
    assert_eq!(names, ["crowded_level0", "write_stalls"]);
}
