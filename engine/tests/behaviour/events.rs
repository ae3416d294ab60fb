//! Tests of the events that a program's listener receives.

use crate::common::dir;
use cleavedb::{Db, Event, EventListener, LatencyStats, OperationKind, Options};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Recorder {
    fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| is(event)).count()
    }
}

#[test]
fn a_listener_is_told_of_opening_flushes_compactions_and_closing() {
    let dir = dir();
    let recorder = Arc::new(Recorder::default());
    let db = Db::builder(dir.path()).event_listener(recorder.clone()).open().unwrap();
    let keyspace = db.default_keyspace();
    for round in 0..2 {
        (0..200).for_each(|n| keyspace.put(format!("{n:03}"), format!("{round}")).unwrap());
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    let of_default = |name: &str| name == "default";
    assert_eq!(recorder.count(|it| matches!(it, Event::Opened { replayed_bytes: 0, .. })), 1);
    assert_eq!(recorder.count(|it| matches!(it, Event::FlushBegun { .. })), 2);
    let flushed = |it: &Event| {
        matches!(it, Event::FlushEnded { keyspace, bytes_written, .. }
        if of_default(keyspace) && *bytes_written > 500)
    };
    assert_eq!(recorder.count(flushed), 2);
    let compacted = |it: &Event| {
        matches!(it, Event::CompactionEnded { level: 0, moved, .. }
        if !moved)
    };
    assert_eq!(recorder.count(compacted), 1);
    let events = recorder.0.lock().unwrap();
    assert!(matches!(events.last(), Some(Event::Closed { error: None, .. })), "{events:?}");
}

#[test]
fn an_operation_above_the_limit_is_told_of_and_none_without_a_limit() {
    for (slow_operation, told) in [(None, 0), (Some(Duration::ZERO), 1)] {
        let dir = dir();
        let recorder = Arc::new(Recorder::default());
        let options = Options { slow_operation, ..Options::default() };
        let builder = Db::builder(dir.path()).options(options).event_listener(recorder.clone());
        let db = builder.open().unwrap();
        let keyspace = db.default_keyspace();
        keyspace.put("key", "value").unwrap();
        keyspace.get("key").unwrap();
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek_to_first().unwrap();
        cursor.next().unwrap();
        for kind in [OperationKind::Write, OperationKind::Get, OperationKind::ScanStep] {
            let is = |it: &Event| {
                matches!(it, Event::SlowOperation { operation, keyspace, .. }
                if *operation == kind && keyspace == "default")
            };
            assert_eq!(recorder.count(is), told, "{kind:?}");
        }
    }
}

#[test]
fn latencies_are_sampled_and_those_of_jobs_are_complete() {
    let dir = dir();
    let db = cleavedb::open(dir.path()).unwrap();
    let keyspace = db.default_keyspace();
    let count = 20 * LatencyStats::SAMPLED;
    (0..count).for_each(|n| keyspace.put(n.to_be_bytes(), "value").unwrap());
    (0..count).for_each(|n| drop(keyspace.get(n.to_be_bytes()).unwrap()));
    assert_eq!(keyspace.iter().count() as u64, count);
    db.flush().unwrap();
    db.compact().unwrap();
    let latencies = db.stats().latencies;
    for (name, sampled) in [("get", &latencies.get), ("write", &latencies.write)] {
        assert_eq!(sampled.count(), 20, "{name}");
        assert!(sampled.quantile(0.5) <= sampled.max() && !sampled.max().is_zero(), "{name}");
    }
    assert!(latencies.scan_step.count() >= 19, "{:?}", latencies.scan_step);
    assert_eq!(latencies.flush.count(), 1);
    assert!(latencies.compaction.count() >= 1);
}
