//! The flush: the immutable memtables of one keyspace become a table in L0, and the head of the log
//! moves on.

use crate::base::error::{Error, Result};
use crate::commit::group::Committer;
use crate::compaction::job;
use crate::compaction::output::{TableOutput, UpdateNotes};
use crate::compaction::redirect::Redirect;
use crate::compaction::retain::Retain;
use crate::read::input::SortedRunIter;
use crate::read::merge::MergeIter;
use crate::throttle::reads::IoPriority;
use crate::version::LogPosition;
use crate::version::edit::{Change, Edit};
use crate::version::job::{JobError, JobResult};
use crate::version::runtime::Runtime;
use crate::version::set::VersionSet;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::{KeyspaceState, LoggedMemtable};
use std::sync::Arc;

/// The result of a flush.
#[derive(Debug, Default, Clone, Copy)]
pub struct FlushReport {
    /// Bytes of the table written.
    pub bytes: u64,
    /// Entries dropped because no reader could see them.
    pub dropped: u64,
}

/// Returns where the head may move once `flushed` are in tables: to the oldest entry that is in no
/// table, and at most to `log_end`, up to which the log is durable. Later commits are in other
/// memtables.
pub fn next_head(
    set: &VersionSet,
    log_end: LogPosition,
    flushed: &[Arc<LoggedMemtable>],
) -> LogPosition {
    let is_flushed = |m: &Arc<LoggedMemtable>| flushed.iter().any(|f| Arc::ptr_eq(f, m));
    let mut head = log_end;
    for keyspace in set.keyspaces() {
        let view = keyspace.view();
        let waiting = view.memtables().filter(|memtable| !is_flushed(memtable));
        head = waiting.filter_map(|memtable| memtable.first()).fold(head, Ord::min);
    }
    head
}

/// Moves the head of the log past everything that no memtable holds any more; returns true if it
/// moved. A flush moves the head too, but none runs while all memtables are empty.
///
/// I3, as in a flush: everything before the new head is durable and in tables. A crash before the
/// edit replays a log that has nothing new; after it, one that begins later.
pub fn move_head(runtime: &Runtime, committer: &Committer) -> Result<bool> {
    move_head_to(runtime, committer.sync()?)
}

/// Does as [`move_head`] for a log that ends at `log_end` and is durable up to there.
pub fn move_head_to(runtime: &Runtime, log_end: LogPosition) -> Result<bool> {
    let mut moved = false;
    let plan = |version: &crate::version::Version| {
        let head = next_head(&runtime.set, log_end, &[]);
        moved = head > version.head;
        Ok(Edit::new(if moved { vec![Change::Head(head)] } else { Vec::new() }))
    };
    runtime.set.apply(plan, &[], None)?;
    Ok(moved)
}

/// Writes the immutable memtables of `keyspace` to L0. `seen` returns what readers can see.
pub fn run(
    runtime: &Runtime,
    committer: &Committer,
    keyspace: &Arc<KeyspaceState>,
    seen: impl FnOnce() -> SeenSeqnos,
) -> JobResult<FlushReport> {
    let waiting = keyspace.view().immutables.clone();
    let Some(newest) = waiting.first() else {
        return Ok(FlushReport::default());
    };
    // I6: the memtables are taken first. A memtable sealed after the list was made could hold an
    // entry that a snapshot in between sees, together with a newer version of the same key.
    let seen = seen();
    // I3: the table's pointers lead into the log. I1, I2: the table's entries must not survive a
    // crash that loses earlier commits, or other parts of their batches. The update table, which
    // the output tells of these entries, relies on it too: compactions drop older ones from now on.
    let log_end = committer.sync()?;
    let inputs = waiting.iter().map(|memtable| SortedRunIter::Memtable(memtable.table.iter()));
    let mut merged = MergeIter::new(keyspace.order.clone(), inputs.collect());
    // Older entries may be in any table, so tombstones stay.
    let mut retain = Retain::new(keyspace.order.clone(), seen, |_| false);
    let options = keyspace.options().clone();
    let mut output = TableOutput::new(runtime, keyspace, &options, u64::MAX, IoPriority::Flush)
        .noting(UpdateNotes::Newest);
    let mut redirect = Redirect::new(&runtime.set.current());
    job::copy(runtime, &mut merged, &mut retain, &mut redirect, |key, trailer, payload| {
        output.add(key, trailer, payload)
    })?;
    let tables = output.finish()?;
    assert!(tables.len() <= 1, "a flush writes one table");
    let report = FlushReport {
        bytes: tables.iter().map(|meta| meta.bytes).sum(),
        dropped: retain.dropped(),
    };
    let seqno = newest.last_seqno();
    debug_assert!(waiting.is_sorted_by(|newer, older| newer.last_seqno() > older.last_seqno()));
    let mut is_dropped = false;
    let plan = |version: &crate::version::Version| {
        is_dropped = version.keyspace(keyspace.id).is_none();
        if is_dropped {
            return Ok(Edit::new(Vec::new()));
        }
        let mut changes: Vec<Change> = tables
            .iter()
            .map(|meta| Change::AddTable { keyspace: keyspace.id, level: 0, meta: meta.clone() })
            .collect();
        changes.push(Change::Flushed { keyspace: keyspace.id, seqno });
        let head = next_head(&runtime.set, log_end, &waiting);
        if head > version.head {
            changes.push(Change::Head(head));
        }
        Ok(Edit::new(changes))
    };
    runtime.set.note_seqno(seqno);
    runtime.set.apply(plan, &[], Some((keyspace.id, waiting.clone())))?;
    if is_dropped {
        return Err(JobError::Obsolete(Error::keyspace_dropped(&keyspace.name)));
    }
    output.keep();
    Ok(report)
}
