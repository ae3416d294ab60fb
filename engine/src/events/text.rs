//! Events as text for people, in one line each.

use super::Event;
use crate::base::size::sized;
use std::fmt;
use std::time::Duration;

impl Event {
    /// Returns the name of the event, as reports use it.
    ///
    /// ```
    /// # struct Printer;
    /// use cleavedb::{Event, EventListener};
    /// impl EventListener for Printer {
    ///     fn on_event(&self, event: &Event) {
    ///         println!("{}: {event}", event.name());
    ///     }
    /// }
    /// ```
    pub fn name(&self) -> &'static str {
        match self {
            Event::Opened { .. } => "opened",
            Event::Closed { .. } => "closed",
            Event::FlushBegun { .. } => "flush_begun",
            Event::FlushEnded { .. } => "flush_ended",
            Event::CompactionBegun { .. } => "compaction_begun",
            Event::CompactionEnded { .. } => "compaction_ended",
            Event::ValuesOrdered { .. } => "values_ordered",
            Event::SeparationChosen { .. } => "separation_chosen",
            Event::TreeLoading { .. } => "tree_loading",
            Event::TreeLoaded { .. } => "tree_loaded",
            Event::TableNotPinned { .. } => "table_not_pinned",
            Event::Ingested { .. } => "ingested",
            Event::LivenessScanEnded { .. } => "liveness_scan_ended",
            Event::SegmentsRelocated { .. } => "segments_relocated",
            Event::StallBegun { .. } => "stall_begun",
            Event::StallEnded { .. } => "stall_ended",
            Event::LowSpaceBegun { .. } => "low_space_begun",
            Event::LowSpaceEnded { .. } => "low_space_ended",
            Event::IoLimitBegun { .. } => "io_limit_begun",
            Event::IoLimitEnded { .. } => "io_limit_ended",
            Event::BackgroundError { .. } => "background_error",
            Event::TurnedReadOnly { .. } => "turned_read_only",
            Event::SlowOperation { .. } => "slow_operation",
            Event::ControlSocketFailed { .. } => "control_socket_failed",
        }
    }
}

/// A time as events show it.
struct Took(Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 1.0 {
            write!(f, "{:.1} ms", seconds * 1000.0)
        } else {
            write!(f, "{seconds:.1} s")
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened { replayed_records, replayed_bytes, torn_bytes, took, .. } => write!(
                f,
                "opened in {}: {replayed_records} records replayed from {}, {torn_bytes} B torn",
                Took(*took),
                sized(*replayed_bytes)
            ),
            Event::Closed { error: None, .. } => f.write_str("closed"),
            Event::Closed { error: Some(error), .. } => write!(f, "closed with an error: {error}"),
            Event::BackgroundError { error } => write!(f, "background job failed: {error}"),
            Event::TurnedReadOnly { error } => write!(f, "turned read-only: {error}"),
            Event::SlowOperation { operation, keyspace, took } => {
                write!(f, "slow {} in {keyspace}: {}", operation.name(), Took(*took))
            }
            Event::ControlSocketFailed { error } => write!(f, "no control socket: {error}"),
            work => fmt_work(work, f),
        }
    }
}

fn fmt_separation(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Event::SeparationChosen {
        keyspace,
        separation,
        reason,
        written,
        spared,
        waste,
        put,
        delayed,
        absorbed,
        ..
    } = event
    else {
        return Ok(());
    };
    write!(
        f,
        "values of {keyspace} are separated {separation} now ({reason}): of {} written, the log \
         of {} can be spared; scans wasted as much as {}; of {} put, {} were delayed for space, \
         and memtables absorb {}",
        sized(*written),
        sized(*spared),
        sized(*waste),
        sized(*put),
        sized(*delayed),
        sized(*absorbed)
    )
}

fn fmt_work(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        Event::FlushBegun { keyspace } => write!(f, "flush of {keyspace} begun"),
        Event::FlushEnded { keyspace, bytes_written, took } => {
            write!(f, "flush of {keyspace}: {} in {}", sized(*bytes_written), Took(*took))
        }
        Event::CompactionBegun { keyspace, level, bytes } => {
            write!(f, "compaction of {keyspace} L{level} begun: {}", sized(*bytes))
        }
        Event::CompactionEnded { keyspace, level, moved: true, .. } => {
            write!(f, "compaction of {keyspace} L{level}: tables moved down as they are")
        }
        Event::CompactionEnded { keyspace, level, bytes_read, bytes_written, took, .. } => write!(
            f,
            "compaction of {keyspace} L{level}: {} read, {} written in {}",
            sized(*bytes_read),
            sized(*bytes_written),
            Took(*took)
        ),
        Event::ValuesOrdered { keyspace, bytes_written, took } => write!(
            f,
            "values of {keyspace} put in order: {} in {}",
            sized(*bytes_written),
            Took(*took)
        ),
        Event::SeparationChosen { .. } => fmt_separation(event, f),
        Event::Ingested { keyspace, entries, tables, bytes_written, level, .. } => write!(
            f,
            "ingest into {keyspace} L{level}: {entries} entries, {tables} tables, {}",
            sized(*bytes_written)
        ),
        Event::LivenessScanEnded { entries, took } => {
            write!(f, "liveness scan: {entries} entries in {}", Took(*took))
        }
        Event::SegmentsRelocated { segments, bytes_moved, bytes_freed, took } => write!(
            f,
            "{segments} {} freed ({}), {} moved in {}",
            if *segments == 1 { "segment" } else { "segments" },
            sized(*bytes_freed),
            sized(*bytes_moved),
            Took(*took)
        ),
        Event::TreeLoading { done_bytes, all_bytes, .. } => {
            write!(f, "loading the tree: {} of {}", sized(*done_bytes), sized(*all_bytes))
        }
        Event::TreeLoaded { tables, bytes, left_out, took, .. } => write!(
            f,
            "tree loaded in {}: {tables} tables, {}, {left_out} left out",
            Took(*took),
            sized(*bytes)
        ),
        Event::TableNotPinned { table, error } => {
            write!(f, "{} stays on disk: {error}", table.display())
        }
        held_up => fmt_throttling(held_up, f),
    }
}

fn fmt_throttling(event: &Event, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        Event::StallBegun { reason } => write!(f, "write stall begun: {}", reason.name()),
        Event::StallEnded { reason, took } => {
            write!(f, "write stall ended after {}: {}", Took(*took), reason.name())
        }
        Event::LowSpaceBegun { free_bytes, reserve_bytes } => write!(
            f,
            "puts are refused: {} free, {} kept in reserve",
            sized(*free_bytes),
            sized(*reserve_bytes)
        ),
        Event::LowSpaceEnded { free_bytes, took } => {
            write!(f, "puts are accepted after {}: {} free", Took(*took), sized(*free_bytes))
        }
        Event::IoLimitBegun { bytes_per_second } => {
            write!(f, "background I/O limited for reads: {}/s", sized(*bytes_per_second))
        }
        Event::IoLimitEnded { took } => {
            write!(f, "background I/O no longer limited, after {}", Took(*took))
        }
        other => f.write_str(other.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::StallReason;

    #[test]
    fn an_event_is_one_line_with_units() {
        let (reason, took) = (StallReason::Level0Full, Duration::from_millis(1500));
        let stall = Event::StallEnded { reason, took };
        assert_eq!(stall.to_string(), "write stall ended after 1.5 s: level0_full");
        assert_eq!(stall.name(), "stall_ended");
        let (keyspace, took) = ("k".to_owned(), Duration::from_micros(2500));
        let flush = Event::FlushEnded { keyspace, bytes_written: 3 << 20, took };
        assert_eq!(flush.to_string(), "flush of k: 3.0 MiB in 2.5 ms");
        let (keyspace, separation, reason) = ("k".to_owned(), "at_write", "log_kept");
        let (written, spared, scanned, waste) = (64 << 20, 2 << 20, 8 << 20, 1 << 20);
        let chosen = Event::SeparationChosen {
            keyspace,
            separation,
            reason,
            written,
            spared,
            scanned,
            waste,
            put: 70 << 20,
            delayed: 5 << 20,
            absorbed: 3 << 20,
        };
        assert_eq!(
            chosen.to_string(),
            "values of k are separated at_write now (log_kept): of 64.0 MiB written, the log of \
             2.0 MiB can be spared; scans wasted as much as 1.0 MiB; of 70.0 MiB put, 5.0 MiB \
             were delayed for space, and memtables absorb 3.0 MiB"
        );
    }
}
