//! The flush: the immutable memtables of one keyspace become a table in L0, and the head of the log
//! moves on. Where the keyspace separates at flush, the large values of these memtables go to
//! sorted segments beside the table.
//!
//! Crash cases, in the order of what is done:
//!
//! 1. The segments and the table are written and synced, then their names. A crash up to here
//!    leaves orphans, which the next opening removes before anybody reads, and of the log what it
//!    would have left without the flush.
//! 2. One edit adds the segments and the table, and moves the flushed sequence number and the head
//!    of the log. A crash before it is durable leaves the first case; after it, everything that the
//!    table's pointers lead to is durable (I3).
//! 3. Log segments before the head that hold no live separated value are removed. A crash before
//!    that leaves them to the next opening's first look for dead segments.
//!
//! A flush that fails removes its files, and the memtables stay for the next one. After a failed
//! sync the database is read-only, and they are left to the next opening (I8).

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::{SeqNo, Trailer};
use crate::base::pointer::KeyspaceId;
use crate::base::range_tombstone::RangeTombstone;
use crate::commit::group::{Committer, LogReach};
use crate::compaction::job;
use crate::compaction::operands::OperandMerger;
use crate::compaction::output::TableOutput;
use crate::compaction::redirect::Redirect;
use crate::compaction::retain::Retain;
use crate::compaction::separate::Separator;
use crate::memtable::AbsorbedBytes;
use crate::read::input::SortedRunIter;
use crate::read::merge::MergeIter;
use crate::table::TableMeta;
use crate::throttle::reads::IoPriority;
use crate::version::LogPosition;
use crate::version::edit::{Change, Edit};
use crate::version::job::{JobError, JobResult};
use crate::version::runtime::Runtime;
use crate::version::segment_output::{NewSegments, SegmentOutput};
use crate::version::separation::part_of;
use crate::version::set::VersionSet;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::{KeyspaceState, LoggedMemtable, View};
use std::sync::Arc;

/// The result of a flush.
#[derive(Debug, Default, Clone, Copy)]
pub struct FlushReport {
    /// Bytes of the table written.
    pub bytes: u64,
    /// Bytes of values written to sorted segments.
    pub values_written: u64,
    /// Entries dropped because no reader could see them.
    pub dropped: u64,
    /// Bytes of the values, among those kept, for which the engine chooses when they are separated.
    pub chosen_bytes: u64,
    /// Those of them whose log the device was spared, about.
    pub spared_bytes: u64,
    /// The values that were put, and how much of them memtables with all values would have
    /// absorbed.
    pub puts: AbsorbedBytes,
}

/// Returns where the head may move once `flushed` are in tables: to the oldest entry that is in no
/// table, and at most to `log_end`, up to which the log is durable. Later commits are in other
/// memtables.
pub fn next_head(
    set: &VersionSet,
    log_end: LogPosition,
    flushed: &[Arc<LoggedMemtable>],
) -> LogPosition {
    set.first_unflushed(flushed).map_or(log_end, |first| first.min(log_end))
}

/// Moves the head of the log past everything that no memtable holds any more; returns true if it
/// moved. A flush moves the head too, but none runs while all memtables are empty.
///
/// I3, as in a flush: everything before the new head is durable and in tables. A crash before the
/// edit replays a log that has nothing new; after it, one that begins later.
pub fn move_head(runtime: &Runtime, committer: &Committer) -> Result<bool> {
    move_head_to(runtime, committer.sync()?)
}

/// Returns the change that moves the head of the log from `before` to `head`, if it moves. I6: at
/// the end of the log it passes the only record of numbers that a dropped keyspace has used, so
/// these go with it. Further numbers must not get to the manifest: those of commits that a crash
/// takes would be a gap in the log.
fn head_changes(before: LogPosition, head: LogPosition, log_end: LogReach) -> Vec<Change> {
    if head <= before {
        return Vec::new();
    }
    let used = (head == log_end.position).then_some(Change::LastSeqno(log_end.seqno));
    used.into_iter().chain([Change::Head(head)]).collect()
}

/// Does as [`move_head`] for a log that ends at `log_end` and is durable up to there.
pub fn move_head_to(runtime: &Runtime, log_end: LogReach) -> Result<bool> {
    let mut moved = false;
    let plan = |version: &crate::version::Version| {
        let head = next_head(&runtime.set, log_end.position, &[]);
        moved = head > version.head;
        Ok(Edit::new(head_changes(version.head, head, log_end)))
    };
    runtime.set.apply(plan, &[], None)?;
    Ok(moved)
}

/// What a flush has written: the table, if anything was kept, and the segments with its values.
struct FlushOutput<'a> {
    output: TableOutput<'a>,
    tables: Vec<Arc<TableMeta>>,
    values: SegmentOutput<'a>,
    /// The segments with values that were merged.
    merged_values: Option<SegmentOutput<'a>>,
    /// What is in both.
    segments: NewSegments,
    /// I3: the places to which the table's pointers were redirected stay until it is installed.
    redirect: Redirect,
    dropped: u64,
    chosen_bytes: u64,
    /// Says up to which deadline entries have expired for good, if any did.
    expiry: Option<Change>,
}

/// Writes the immutable memtables of `keyspace` to L0. `seen` returns what readers can see.
pub fn run(
    runtime: &Runtime,
    committer: &Committer,
    keyspace: &Arc<KeyspaceState>,
    seen: impl FnOnce() -> SeenSeqnos,
) -> JobResult<FlushReport> {
    let waiting = keyspace.view().immutables.clone();
    if waiting.is_empty() {
        return Ok(FlushReport::default());
    }
    // I6: the memtables are taken first. A memtable sealed after the list was made could hold an
    // entry that a snapshot in between sees, together with a newer version of the same key.
    let seen = seen();
    // I3: the table's pointers lead into the log, except for values that this flush separates. I1,
    // I2: the table's entries must not survive a crash that loses earlier commits, or other parts
    // of their batches.
    //
    // None of that needs a sync of segments that this flush replaces as a whole.
    let wal_only_end = committer.end_of_wal_only(&waiting)?;
    let log_end = match wal_only_end {
        Some(end) => end,
        None => committer.sync()?,
    };
    let split_bytes = committer.log().segment_bytes();
    let merges = keyspace.merging().is_some();
    let puts = absorbed(committer, keyspace, &waiting);
    let written = match write(runtime, keyspace, &waiting, (seen.clone(), merges), split_bytes) {
        // I9: a memtable has only pointers to large operands, so what comes of them may need more
        // room than the reserve has for a flush. Then they stay as they are.
        Err(JobError::Failed(error)) if merges && error.kind() == ErrorKind::DiskFull => {
            write(runtime, keyspace, &waiting, (seen, false), split_bytes)?
        }
        written => written?,
    };
    if wal_only_end.is_none() {
        let report = install(runtime, keyspace, waiting, (log_end, Vec::new()), written)?;
        return Ok(FlushReport { puts, ..report });
    }
    let newest = newest_seqno(&waiting);
    let memtable_bytes: usize = waiting.iter().map(|memtable| memtable.table.bytes()).sum();
    let replaced = committer.log().replace_wal_only(log_end.position.segment, newest, |of_log| {
        install(runtime, keyspace, waiting, (log_end, of_log), written)
    });
    let (report, spared) = replaced?;
    let spared_bytes = part_of(report.chosen_bytes, spared, memtable_bytes as u64);
    Ok(FlushReport { spared_bytes, puts, ..report })
}

/// Returns the newest sequence number in memtables, of which the newest comes first.
pub(super) fn newest_seqno(waiting: &[Arc<LoggedMemtable>]) -> SeqNo {
    waiting.first().map_or(0, |newest| newest.last_seqno())
}

/// Returns what was put into memtables, and how much of it those with all values would have
/// absorbed.
fn absorbed(
    committer: &Committer,
    keyspace: &KeyspaceState,
    waiting: &[Arc<LoggedMemtable>],
) -> AbsorbedBytes {
    let most = committer.stall_controller().space.inline_memtable_bytes();
    let room = keyspace.options().memtable_bytes.min(most);
    let mut all = AbsorbedBytes::default();
    for memtable in waiting {
        let AbsorbedBytes { put, absorbed } = memtable.table.absorbed(room);
        all.put += put;
        // Operands hide nothing here, and the flush merges them.
        all.absorbed += if keyspace.merging().is_some() { put } else { absorbed };
    }
    all
}

/// Returns what decides which entries of memtables are kept.
fn retain(
    keyspace: &KeyspaceState,
    waiting: &[Arc<LoggedMemtable>],
    seen: SeenSeqnos,
) -> Retain<'static, impl FnMut(&[u8]) -> bool + use<>> {
    // Older entries may be in any table, so tombstones stay. What the memtables hold is newer than
    // the range tombstones that were flushed before.
    let ranges = waiting.iter().flat_map(|memtable| memtable.table.ranges());
    Retain::new(keyspace.order.clone(), seen, |_| false).with_ranges(ranges)
}

/// Writes the table and the segments, and makes them and their names durable. Operands are merged
/// if `merges` is true.
fn write<'a>(
    runtime: &'a Runtime,
    keyspace: &KeyspaceState,
    waiting: &[Arc<LoggedMemtable>],
    (seen, merges): (SeenSeqnos, bool),
    split_bytes: u64,
) -> JobResult<FlushOutput<'a>> {
    let inputs = waiting.iter().map(|memtable| SortedRunIter::Memtable(memtable.table.iter()));
    let mut merged = MergeIter::new(keyspace.order.clone(), inputs.collect());
    let options = keyspace.options().clone();
    let mut retain = retain(keyspace, waiting, seen);
    let newest = newest_seqno(waiting);
    let output = TableOutput::of_memtables(runtime, keyspace, &options, newest);
    let mut output = output.held_by_memtables();
    output.applying(retain.applied_ranges());
    // The settings decide now, whatever they were at the write: a pointer stays a pointer, and an
    // inline value is separated or stays inline.
    let separator = Separator::new(keyspace.id, &options);
    let values = SegmentOutput::new(runtime, split_bytes, IoPriority::Flush);
    let mut values = values.held_by_memtables();
    let view = merging_view(keyspace);
    let mut redirect = match &view {
        Some(view) => Redirect::new(&view.version),
        None => Redirect::new(&runtime.set.current()),
    };
    if let Err(dropped) = keyspace.check() {
        return Err(JobError::Obsolete(dropped));
    }
    let merging_view = view.as_ref().filter(|_| merges);
    let mut merger =
        merging_view.and_then(|view| OperandMerger::of(runtime, keyspace, view, IoPriority::Flush));
    let (mut pointer, mut chosen_bytes) = (Vec::new(), 0);
    job::copy(
        runtime,
        &mut merged,
        &mut retain,
        &mut redirect,
        merger.as_mut(),
        |key, trailer, payload| {
            chosen_bytes += separator.chosen_bytes(trailer, payload)?;
            if !separator.takes(trailer, payload)? {
                return output.add(key, trailer, payload);
            }
            let slot = Slot::Pointer(separator.write(key, trailer, payload, &mut values)?);
            let entry = Payload::decode(trailer.kind()?, payload)?.with_slot(slot);
            pointer.clear();
            entry.encode(&mut pointer);
            output.add(key, Trailer::new(trailer.seqno(), entry.kind()), &pointer)
        },
    )?;
    values.finish()?;
    let mut segments = values.segments();
    let merged_values = OperandMerger::finish(merger, &mut segments)?;
    // This makes the names of the segments durable, too.
    let tables = output.finish()?;
    assert!(tables.len() <= 1, "a flush writes one table");
    let (dropped, expiry) = (retain.dropped(), retain.expiry_change());
    Ok(FlushOutput {
        output,
        tables,
        values,
        merged_values,
        segments,
        redirect,
        dropped,
        chosen_bytes,
        expiry,
    })
}

/// Returns the view in which operands are merged, with the relocations of its version. It keeps all
/// segments from being removed, so a flush that merges nothing takes none: value GC would free no
/// space until its end.
fn merging_view(keyspace: &KeyspaceState) -> Option<Arc<View>> {
    keyspace.merging().map(|_| keyspace.view())
}

/// Returns the changes that add the range tombstones of memtables, of which those that hide nothing
/// in any table go with the same edit.
pub(super) fn range_changes(
    keyspace: KeyspaceId,
    waiting: &[Arc<LoggedMemtable>],
) -> impl Iterator<Item = Change> {
    let sets = waiting.iter().flat_map(|memtable| memtable.table.ranges());
    sets.flat_map(move |set| {
        let add = |tombstone: &RangeTombstone| Change::AddRange {
            keyspace,
            tombstone: tombstone.clone(),
        };
        set.iter().map(add).collect::<Vec<_>>()
    })
}

/// Replaces the memtables by what was written, and with them the segments of the log that only they
/// need, with one edit.
fn install(
    runtime: &Runtime,
    keyspace: &Arc<KeyspaceState>,
    waiting: Vec<Arc<LoggedMemtable>>,
    (log_end, of_log): (LogReach, Vec<Change>),
    written: FlushOutput<'_>,
) -> JobResult<FlushReport> {
    let FlushOutput { output, tables, values, merged_values, segments, redirect, .. } = written;
    let report = FlushReport {
        bytes: tables.iter().map(|meta| meta.bytes).sum(),
        values_written: segments.bytes,
        dropped: written.dropped,
        chosen_bytes: written.chosen_bytes,
        spared_bytes: 0,
        puts: AbsorbedBytes::default(),
    };
    debug_assert!(waiting.is_sorted_by(|newer, older| newer.last_seqno() > older.last_seqno()));
    let seqno = newest_seqno(&waiting);
    let mut is_dropped = false;
    let plan = |version: &crate::version::Version| {
        is_dropped = version.keyspace(keyspace.id).is_none();
        if is_dropped {
            return Ok(Edit::new(Vec::new()));
        }
        let mut changes = segments.changes;
        changes.extend(tables.iter().map(|meta| Change::AddTable {
            keyspace: keyspace.id,
            level: 0,
            meta: meta.clone(),
        }));
        changes.extend(range_changes(keyspace.id, &waiting));
        changes.push(Change::Flushed { keyspace: keyspace.id, seqno });
        changes.extend(written.expiry);
        let head = next_head(&runtime.set, log_end.position, &waiting);
        changes.extend(head_changes(version.head, head, log_end));
        let is_behind = |change: &Change| match change {
            Change::RemoveSegment { id } => *id < head.segment,
            _ => true,
        };
        assert!(of_log.iter().all(is_behind), "I5: what replay may need is not removed");
        changes.extend(of_log);
        Ok(Edit::new(changes))
    };
    let flushed = Some((keyspace.id, waiting.clone()));
    runtime.set.apply(plan, &segments.handles, flushed)?;
    drop(redirect);
    if is_dropped {
        return Err(JobError::Obsolete(Error::keyspace_dropped(&keyspace.name)));
    }
    values.keep();
    merged_values.into_iter().for_each(|merged_values| merged_values.keep());
    output.keep();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry::Slot;
    use crate::base::key::EntryKind;
    use crate::compaction::tests::world::JobWorld;

    /// Guards against space that stays above its ceiling while memtables are flushed.
    #[test]
    fn a_flush_keeps_segments_only_if_it_may_read_some() {
        assert!(merging_view(&JobWorld::new(1 << 20).keyspace).is_none());
        let counting = JobWorld::merging(1 << 20, Some(crate::merge_operators::ADD));
        assert!(merging_view(&counting.keyspace).is_some());
    }

    /// Guards against a relocation that goes while a table which is not installed yet points to
    /// its target.
    #[test]
    fn i03_the_places_of_pointers_stay_until_the_table_is_installed() {
        let world = JobWorld::new(1 << 20);
        let (runtime, set) = (&world.runtime, &world.runtime.set);
        let trailer = Trailer::new(1, EntryKind::Put);
        world.keyspace.view().active.table.insert(b"key", trailer, Slot::Inline(b"value"));
        world.keyspace.rotate_memtable();
        let waiting = world.keyspace.view().immutables.clone();
        let begun = set.current().number;
        let seen = SeenSeqnos { visible: 1, ..SeenSeqnos::default() };
        let written = write(runtime, &world.keyspace, &waiting, (seen, true), 1 << 20).unwrap();
        world.apply(vec![Change::Flushed { keyspace: world.keyspace.id, seqno: 0 }]);
        assert!(set.current().number > begun);
        assert_eq!(set.oldest_alive(), begun, "the flush may rely on its relocations");
        drop(written);
        assert_eq!(set.oldest_alive(), set.current().number);
    }
}
