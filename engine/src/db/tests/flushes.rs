//! Checks what holds once a flush that somebody asked for has returned.

use crate::db::Db;
use crate::env::sync::Mutex;
use crate::events::{Event, EventListener};
use crate::{Options, doc_dir};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Tells a thread that a flush was published, and notes some time later that its end was told.
struct SlowToHear {
    published: Sender<()>,
    heard: Mutex<bool>,
}

impl EventListener for SlowToHear {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::FlushEnded { .. }) {
            // The receiver is gone only after the test.
            let _ = self.published.send(());
            std::thread::sleep(Duration::from_millis(100));
            *self.heard.lock() = true;
        }
    }
}

/// The memtables are gone as soon as the edit is published. Anything may wake the caller then.
#[test]
fn a_flush_returns_when_its_job_has_ended() {
    let (published, receiver) = channel();
    let listener = Arc::new(SlowToHear { published, heard: Mutex::new(false) });
    let options = Options { update_table_bytes: 1 << 20, ..Options::default() };
    let builder = Db::builder(doc_dir("flush-ends")).options(options);
    let db = builder.event_listener(listener.clone()).open().unwrap();
    db.default_keyspace().put("k", "v").unwrap();
    std::thread::scope(|scope| {
        let background = &db.core.background;
        scope.spawn(move || {
            receiver.recv().unwrap();
            background.wake();
        });
        db.flush().unwrap();
        assert!(*listener.heard.lock(), "the job still runs");
    });
    assert_eq!((db.stats().flushes, db.table_scores().len()), (1, 1));
}
