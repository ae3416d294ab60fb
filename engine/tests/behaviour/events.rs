//! What a database tells while it works: to a listener of the program's, and to `tracing`.

use crate::common::dir;
use cleavedb::{Db, Event, EventListener};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span;

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

/// Notes the messages of events on this thread.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<String>>>);

impl Visit for Messages {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Messages {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "cleavedb"
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        self.0.lock().unwrap().push(format!("span {}", attributes.metadata().name()));
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn tracing_is_told_too() {
    let dir = dir();
    let messages = Messages::default();
    tracing::subscriber::with_default(messages.clone(), || {
        cleavedb::open(dir.path()).unwrap().close().unwrap();
    });
    assert_eq!(*messages.0.lock().unwrap(), ["span open", "opened", "closed"]);
}
