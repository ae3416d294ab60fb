//! Translation of events to those of `tracing`, with their fields; the target is `cleavedb`.

use super::Event;
use tracing::{debug, error, info, warn};

/// Emits an event to the subscriber of `tracing`, if the program has one.
pub(super) fn emit(event: &Event) {
    match event {
        Event::Opened { path, replayed_records, replayed_bytes, torn_bytes, took } => info!(
            target: "cleavedb", path = %path.display(), replayed_records, replayed_bytes,
            torn_bytes, ?took, "opened"
        ),
        Event::Closed { path, error: None } => {
            info!(target: "cleavedb", path = %path.display(), "closed");
        }
        Event::Closed { path, error: Some(error) } => {
            error!(target: "cleavedb", path = %path.display(), %error, "closed with an error");
        }
        Event::BackgroundError { error } => {
            warn!(target: "cleavedb", %error, "background job failed");
        }
        Event::TurnedReadOnly { error } => {
            error!(target: "cleavedb", %error, "turned read-only");
        }
        Event::SlowOperation { operation, keyspace, took } => warn!(
            target: "cleavedb", operation = operation.name(), keyspace, ?took, "slow operation"
        ),
        Event::ControlSocketFailed { error } => {
            warn!(target: "cleavedb", %error, "no control socket");
        }
        Event::TreeLoading { .. } | Event::TreeLoaded { .. } | Event::TableNotPinned { .. } => {
            emit_pinning(event);
        }
        work => emit_work(work),
    }
}

/// Emits the events of loading the tree into memory.
fn emit_pinning(event: &Event) {
    match event {
        Event::TreeLoading { done_bytes, all_bytes, pinned_bytes } => {
            debug!(target: "cleavedb", done_bytes, all_bytes, pinned_bytes, "loading the tree");
        }
        Event::TreeLoaded { tables, bytes, left_out: 0, took, .. } => {
            info!(target: "cleavedb", tables, bytes, ?took, "tree loaded");
        }
        Event::TreeLoaded { tables, bytes, left_out, missing_bytes, took } => warn!(
            target: "cleavedb", tables, bytes, left_out, missing_bytes, ?took,
            "tree loaded in part"
        ),
        Event::TableNotPinned { table, error } => {
            warn!(target: "cleavedb", table = %table.display(), %error, "table not loaded");
        }
        _ => {}
    }
}

/// Emits the events of flushes, compactions and value GC.
fn emit_work(event: &Event) {
    match event {
        Event::FlushBegun { keyspace } => debug!(target: "cleavedb", keyspace, "flush begun"),
        Event::FlushEnded { keyspace, bytes_written, took } => {
            info!(target: "cleavedb", keyspace, bytes_written, ?took, "flush ended");
        }
        Event::CompactionBegun { keyspace, level, bytes } => {
            debug!(target: "cleavedb", keyspace, level, bytes, "compaction begun");
        }
        Event::CompactionEnded { keyspace, level, bytes_read, bytes_written, moved, took } => {
            info!(
                target: "cleavedb", keyspace, level, bytes_read, bytes_written, moved, ?took,
                "compaction ended"
            );
        }
        Event::ValuesOrdered { keyspace, bytes_written, took } => {
            info!(target: "cleavedb", keyspace, bytes_written, ?took, "values put in order");
        }
        Event::SeparationChosen {
            keyspace,
            separation,
            reason,
            written,
            spared,
            scanned,
            waste,
            put,
            delayed,
            absorbed,
        } => info!(
            target: "cleavedb", keyspace, separation, reason, written, spared, scanned, waste,
            put, delayed, absorbed, "separation chosen"
        ),
        Event::Ingested { keyspace, entries, tables, bytes_written, level, took } => info!(
            target: "cleavedb", keyspace, entries, tables, bytes_written, level, ?took, "ingested"
        ),
        Event::LivenessScanEnded { entries, took } => {
            info!(target: "cleavedb", entries, ?took, "liveness scan ended");
        }
        Event::SegmentsRelocated { segments, bytes_moved, bytes_freed, took } => info!(
            target: "cleavedb", segments, bytes_moved, bytes_freed, ?took, "segments relocated"
        ),
        held_up => emit_throttling(held_up),
    }
}

/// Emits the events of who is held up or refused.
fn emit_throttling(event: &Event) {
    match event {
        Event::StallBegun { reason } => {
            warn!(target: "cleavedb", reason = reason.name(), "write stall begun");
        }
        Event::StallEnded { reason, took } => {
            warn!(target: "cleavedb", reason = reason.name(), ?took, "write stall ended");
        }
        Event::LowSpaceBegun { free_bytes, reserve_bytes } => warn!(
            target: "cleavedb", free_bytes, reserve_bytes, "low space begun: puts are refused"
        ),
        Event::LowSpaceEnded { free_bytes, took } => {
            warn!(target: "cleavedb", free_bytes, ?took, "low space ended");
        }
        Event::IoLimitBegun { bytes_per_second } => {
            debug!(target: "cleavedb", bytes_per_second, "limit of background I/O begun");
        }
        Event::IoLimitEnded { took } => {
            info!(target: "cleavedb", ?took, "limit of background I/O ended");
        }
        _ => {}
    }
}
