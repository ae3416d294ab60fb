//! A process with a subscriber of `tracing`, which all of its threads share: a test of its own.

use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span;

/// Notes the messages of events and the names of spans, of all threads.
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
fn tracing_is_told_of_all_that_happens() {
    let dir = tempfile::tempdir().unwrap();
    let messages = Messages::default();
    tracing::subscriber::set_global_default(messages.clone()).unwrap();
    let db = cleavedb::open(dir.path()).unwrap();
    db.default_keyspace().put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let flush = ["span flush", "flush begun", "flush ended"];
    let expected = [&["span open", "opened"][..], &flush, &["closed"]].concat();
    assert_eq!(*messages.0.lock().unwrap(), expected);
}
