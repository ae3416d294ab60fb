//! Checks what holds once a flush that somebody asked for has returned.

use crate::db::Db;
use crate::env::sync::Mutex;
use crate::events::{Event, EventListener};
use crate::{Options, doc_dir};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Tells another thread that a flush was published, and has heard of it once that one says so.
struct SlowToHear {
    published: Sender<()>,
    go_on: Mutex<Receiver<()>>,
    has_heard: Mutex<bool>,
}

impl EventListener for SlowToHear {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::FlushEnded { .. }) {
            self.published.send(()).unwrap();
            self.go_on.lock().recv().unwrap();
            *self.has_heard.lock() = true;
        }
    }
}

/// The memtables are gone as soon as the edit is published. Anything may wake the caller then.
#[test]
fn a_flush_returns_when_its_job_has_ended() {
    let (published, is_published) = channel();
    let (lets_go_on, go_on) = channel();
    let (go_on, has_heard) = (Mutex::new(go_on), Mutex::new(false));
    let listener = Arc::new(SlowToHear { published, go_on, has_heard });
    let options = Options { update_table_bytes: 1 << 20, ..Options::default() };
    let builder = Db::builder(doc_dir("flush-ends")).options(options);
    let db = builder.event_listener(listener.clone()).open().unwrap();
    db.default_keyspace().put("k", "v").unwrap();
    std::thread::scope(|scope| {
        let background = &db.core.background;
        scope.spawn(move || {
            is_published.recv().unwrap();
            for _ in 0..10_000 {
                background.wake();
                std::thread::yield_now();
            }
            lets_go_on.send(()).unwrap();
        });
        db.flush().unwrap();
        assert!(*listener.has_heard.lock(), "the job still runs");
    });
    assert_eq!((db.stats().flushes, db.table_scores().len()), (1, 1));
}
