//! Floor 0: the events of a database. Every event goes to the program's own [`EventListener`], if
//! it has one, and to `tracing`. Without either, an event costs a branch and an atomic load, or,
//! with a control socket, a place among the latest events.

mod text;
mod trace;

use crate::base::error::Error;
use crate::stats::StallReason;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The kind of an operation in [`Event::SlowOperation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// A point read.
    Get,
    /// A put, a deletion or a batch, delays by write stalls included.
    Write,
    /// One step of a cursor or an iterator.
    ScanStep,
}

impl OperationKind {
    /// Returns the name of the operation in events.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Get => "get",
            OperationKind::Write => "write",
            OperationKind::ScanStep => "scan_step",
        }
    }
}

/// Something that happened in a database. Sizes are in bytes. Keys and values never occur. Events
/// and their fields may be added in any release. [`EventListener`] has an example.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named for what they are, with their unit above")]
pub enum Event {
    /// The database was opened. `torn_bytes` is the length of the log's torn tail.
    #[non_exhaustive]
    Opened {
        path: PathBuf,
        replayed_records: u64,
        replayed_bytes: u64,
        torn_bytes: u64,
        took: Duration,
    },
    /// The database was closed. `error` is the reason if commits could not be made durable.
    #[non_exhaustive]
    Closed { path: PathBuf, error: Option<Error> },
    /// A flush of memtables to a table of L0 began.
    #[non_exhaustive]
    FlushBegun { keyspace: String },
    /// A flush ended with a table of `bytes_written` bytes.
    #[non_exhaustive]
    FlushEnded { keyspace: String, bytes_written: u64, took: Duration },
    /// A compaction began: tables of `level` are merged with those below that overlap them.
    #[non_exhaustive]
    CompactionBegun { keyspace: String, level: usize, bytes: u64 },
    /// A compaction ended. `moved` means a trivial move, for which nothing was written.
    #[non_exhaustive]
    CompactionEnded {
        keyspace: String,
        level: usize,
        bytes_read: u64,
        bytes_written: u64,
        moved: bool,
        took: Duration,
    },
    /// Values of a range of keys were put into key order, because scans had found them strewn
    /// ([`Options::scan_order`](crate::Options::scan_order)). The compaction that did it is told
    /// of, too, next.
    #[non_exhaustive]
    ValuesOrdered { keyspace: String, bytes_written: u64, took: Duration },
    /// The engine has chosen anew when values of a keyspace are separated
    /// ([`Separation::Auto`](crate::Separation::Auto)), at write or at flush, or has another reason
    /// for the same choice. The `reason` is `log_spared` (at flush, as the device is spared the
    /// log), `log_kept` (at write, as the device gets the log anyway), `scanned` (at flush, as
    /// scans would find values of the log strewn) or `delayed` (at write, as writers wait for value
    /// GC, and neither scans nor the device lose by it). Of `written` bytes of values (earlier ones
    /// count half), the device was spared the log of `spared`, or would have been if they had been
    /// separated at flush. Scans would have lost as much time as moving `scanned` bytes takes if
    /// all values had been strewn, and have lost that of `waste`. Of `put` bytes of values,
    /// `delayed` were put while writers were delayed for space, and memtables absorb `absorbed` if
    /// they have all values; where operands are merged, all count as absorbed.
    #[non_exhaustive]
    SeparationChosen {
        keyspace: String,
        separation: &'static str,
        reason: &'static str,
        written: u64,
        spared: u64,
        scanned: u64,
        waste: u64,
        put: u64,
        delayed: u64,
        absorbed: u64,
    },
    /// The opening loads the tree into memory ([`Options::pin_tree`](crate::Options::pin_tree)).
    /// It is through with `done_bytes` of the `all_bytes` of all tables, of which those that fit
    /// take `pinned_bytes` in memory. Emitted after about each sixteenth.
    #[non_exhaustive]
    TreeLoading { done_bytes: u64, all_bytes: u64, pinned_bytes: u64 },
    /// The opening has loaded `tables` into memory, where they take `bytes`. Those that it has
    /// `left_out` do not fit; about `missing_bytes` more would hold them. Those that could not be
    /// read are told of by [`Event::TableNotPinned`].
    #[non_exhaustive]
    TreeLoaded { tables: u64, bytes: u64, left_out: u64, missing_bytes: u64, took: Duration },
    /// A table could not be loaded into memory, and is not tried again before the next opening.
    /// If it is damaged, a read that needs the same part of it gets such an error; if its file
    /// could not be opened or read for another reason, reads go on trying.
    #[non_exhaustive]
    TableNotPinned { table: PathBuf, error: Error },
    /// An ingest took effect; its tables are in `level` or deeper. `took` is the time since all of
    /// its files were written.
    #[non_exhaustive]
    Ingested {
        keyspace: String,
        entries: u64,
        tables: u64,
        bytes_written: u64,
        level: usize,
        took: Duration,
    },
    /// A liveness scan of value GC ended.
    #[non_exhaustive]
    LivenessScanEnded { entries: u64, took: Duration },
    /// Value GC moved the live records of some segments and freed the segments.
    #[non_exhaustive]
    SegmentsRelocated { segments: u64, bytes_moved: u64, bytes_freed: u64, took: Duration },
    /// A write stall began, by the rule `reason`.
    #[non_exhaustive]
    StallBegun { reason: StallReason },
    /// A write stall has ended. This is noticed, and emitted, by the next write.
    #[non_exhaustive]
    StallEnded { reason: StallReason, took: Duration },
    /// Puts are refused from now on, because only the reserve of the disk is left: `free_bytes` are
    /// free, and `reserve_bytes` are kept for deletions and for what makes room.
    #[non_exhaustive]
    LowSpaceBegun { free_bytes: u64, reserve_bytes: u64 },
    /// Puts are accepted again. This is noticed without a write, within a second as a rule.
    #[non_exhaustive]
    LowSpaceEnded { free_bytes: u64, took: Duration },
    /// Compaction and value GC are held up from now on because reads have become slow, at first to
    /// `bytes_per_second`. The limit follows the reads afterwards, without further events.
    #[non_exhaustive]
    IoLimitBegun { bytes_per_second: u64 },
    /// Compaction and value GC are no longer held up for reads: these are fast again, or there are
    /// none, or writers would have to wait. This is noticed by the next background write.
    #[non_exhaustive]
    IoLimitEnded { took: Duration },
    /// A background job failed and will be tried again, or a step of an opening failed without
    /// which the database works, such as to remove a file that a crash left behind.
    #[non_exhaustive]
    BackgroundError { error: Error },
    /// The database turned read-only and stays so until it is reopened.
    #[non_exhaustive]
    TurnedReadOnly { error: Error },
    /// An operation took longer than [`Options::slow_operation`](crate::Options::slow_operation).
    #[non_exhaustive]
    SlowOperation { operation: OperationKind, keyspace: String, took: Duration },
    /// The control socket could not be made, so nobody can ask this process about the database;
    /// all else works. Set [`Options::control_socket`](crate::Options::control_socket) to false if
    /// nobody shall.
    #[non_exhaustive]
    ControlSocketFailed { error: Error },
}

/// Receives every [`Event`] of a database, on the thread on which it happens.
///
/// A listener should be quick, because the database waits for it, and must not call the database,
/// nor wait for a thread that does: [`Db::flush`](crate::Db::flush) returns once listeners were
/// told.
/// If it panics, it gets no more events and an error is emitted to `tracing`.
///
/// ```
/// # let dir = cleavedb::doc_dir("event-listener");
/// use cleavedb::{Db, Event, EventListener};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// #[derive(Default)]
/// struct Flushes(AtomicU64);
///
/// impl EventListener for Flushes {
///     fn on_event(&self, event: &Event) {
///         if let Event::FlushEnded { bytes_written, .. } = event {
///             self.0.fetch_add(*bytes_written, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let flushes = Arc::new(Flushes::default());
/// let db = Db::builder(&dir).event_listener(flushes.clone()).open()?;
/// db.default_keyspace().put("key", "value")?;
/// db.flush()?;
/// assert!(flushes.0.load(Ordering::Relaxed) > 0);
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub trait EventListener: Send + Sync {
    /// Receives an event.
    fn on_event(&self, event: &Event);
}

/// The destinations of the events of one database.
#[derive(Default)]
pub struct Events {
    /// The engine's own listener, which does not panic.
    recorder: Option<Arc<dyn EventListener>>,
    listener: Option<Arc<dyn EventListener>>,
    has_panicked: AtomicBool,
}

impl Events {
    /// Creates the destinations: `tracing` and `listener`, if there is one.
    pub fn new(listener: Option<Arc<dyn EventListener>>) -> Self {
        Events { recorder: None, listener, has_panicked: AtomicBool::new(false) }
    }

    /// Has `recorder` get every event, too, if there is one.
    pub fn recorded_by(self, recorder: Option<Arc<dyn EventListener>>) -> Self {
        Events { recorder, ..self }
    }

    /// Emits an event to `tracing` and to the listener.
    pub fn emit(&self, event: Event) {
        trace::emit(&event);
        if let Some(recorder) = &self.recorder {
            recorder.on_event(&event);
        }
        let Some(listener) = &self.listener else { return };
        if self.has_panicked.load(Ordering::Relaxed) {
            return;
        }
        // A defect in the listener must end neither a background thread nor writing. The listener
        // is not called again after a panic, so its half-changed state is never used.
        if catch_unwind(AssertUnwindSafe(|| listener.on_event(&event))).is_err() {
            self.has_panicked.store(true, Ordering::Relaxed);
            tracing::error!("the event listener panicked and gets no more events");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[derive(Default)]
    struct PanicsAtTheSecond(AtomicU64);

    impl EventListener for PanicsAtTheSecond {
        fn on_event(&self, _: &Event) {
            assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "the second event");
        }
    }

    /// Guards against a panic of the listener that reaches the database: in a background thread it
    /// would turn the database read-only.
    #[test]
    fn a_listener_that_panicked_is_not_called_again() {
        let listener = Arc::new(PanicsAtTheSecond::default());
        let events = Events::new(Some(listener.clone()));
        for _ in 0..4 {
            events.emit(Event::StallBegun { reason: StallReason::Replay });
        }
        assert_eq!(listener.0.load(Ordering::Relaxed), 2);
    }
}
