//! Merges the small files that short sessions leave. Every session that writes leaves a log
//! segment, however little it wrote, and none of them comes near the sizes at which the head moves.
//! Once there are more than [`MAX_SMALL_SEGMENTS`] of them, a fold flushes the waiting memtables,
//! merges them with the small tables on top of L0, and copies the values in small segments to one
//! sorted segment: one table and at most one segment replace them all. Both grow with every fold
//! until they are no longer small, so an entry is rewritten at most some dozen times, and there are
//! no more files than the data needs.
//!
//! It runs on the thread that opens or closes the database, while no other job runs, because a
//! session may be too short for background work to finish anything.

use crate::base::error::{Error, Result};
use crate::base::iter::EntryIter;
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::compaction::flush::{FlushReport, next_head};
use crate::compaction::output::TableOutput;
use crate::compaction::redirect::{Redirect, Redirected};
use crate::compaction::reorganize::InOrder;
use crate::compaction::retain::Retain;
use crate::env::budget::IoPriority;
use crate::read::input::SortedRunIter;
use crate::read::level_iter::ReadMode;
use crate::read::merge::MergeIter;
use crate::segment::SegmentKind;
use crate::table::TableMeta;
use crate::version::edit::{Change, Edit};
use crate::version::files::TableHandle;
use crate::version::job::JobContext;
use crate::version::view::{KeyspaceState, View};
use crate::version::{LogPosition, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The greatest number of small log segments that may wait for a fold.
pub const MAX_SMALL_SEGMENTS: usize = 8;
/// A segment is small if it is shorter than this many bytes, half of the smallest full one, and
/// shorter than the part that `SMALL_SEGMENT_PART` gives.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// A segment is small if it is shorter than one part in this many of a full one.
const SMALL_SEGMENT_PART: u64 = 2;
/// A table is small if it is shorter than one part in this many of a full one.
const SMALL_TABLE_PART: u64 = 2;

/// Returns the sealed segments of `version` that are small if full ones have `segment_bytes`.
fn small_segments(version: &Version, segment_bytes: u64) -> BTreeSet<SegmentId> {
    let bound = SMALL_SEGMENT_BYTES.min(segment_bytes / SMALL_SEGMENT_PART);
    let is_small = |length: u64| length < bound;
    let segments = version.segments.iter();
    segments.filter(|(_, live)| live.sealed.is_some_and(is_small)).map(|(&id, _)| id).collect()
}

/// Returns the small tables on top of L0, newest first; every other table is older.
fn small_tables(view: &View, table_bytes: u64) -> &[Arc<TableHandle>] {
    let tables = view.levels.level(0);
    let bound = table_bytes / SMALL_TABLE_PART;
    let large = tables.iter().position(|table| table.meta.bytes >= bound);
    &tables[..large.unwrap_or(tables.len())]
}

/// Returns true if a fold is worthwhile: [`run`] could replace more than [`MAX_SMALL_SEGMENTS`]
/// small log segments. Pure.
pub fn is_due(version: &Version, keyspaces: &[Arc<KeyspaceState>], segment_bytes: u64) -> bool {
    let small = small_segments(version, segment_bytes);
    if small.len() <= MAX_SMALL_SEGMENTS {
        return false;
    }
    let mut named = BTreeSet::new();
    for keyspace in keyspaces {
        let view = keyspace.view();
        let tables = small_tables(&view, keyspace.options().table_bytes);
        named.extend(tables.iter().flat_map(|table| table.meta.summary.segments.keys().copied()));
    }
    let is_log = |id: &SegmentId| {
        version.segments.get(id).is_some_and(|live| live.handle.segment.kind() == SegmentKind::Log)
    };
    let waits =
        |id: &&SegmentId| is_log(id) && (**id >= version.head.segment || named.contains(id));
    small.iter().filter(waits).count() > MAX_SMALL_SEGMENTS
}

/// Makes one table and at most one segment from the waiting memtables of `keyspace`, its small
/// tables and the values in small segments. `log_end` is the end of the log, everything before
/// which is durable. The caller ensures that nobody writes and no other job runs.
pub fn run(
    context: &JobContext,
    keyspace: &Arc<KeyspaceState>,
    snapshots: Vec<SeqNo>,
    log_end: LogPosition,
    segment_bytes: u64,
) -> Result<FlushReport> {
    let (view, options) = (keyspace.view(), keyspace.options().clone());
    let small = small_segments(&view.version, segment_bytes);
    let tables = small_tables(&view, options.table_bytes).to_vec();
    let waiting = view.immutables.clone();
    if waiting.is_empty() && tables.len() < 2 {
        return Ok(FlushReport::default());
    }
    // I6: older entries are in L0 below the small tables, or deeper.
    let is_all = tables.len() == view.levels.level(0).len();
    let is_bottom = |key: &[u8]| is_all && !view.levels.may_hold_from(1, key);
    let mut retain = Retain::new(keyspace.order.clone(), snapshots, is_bottom);
    let mut redirect = Redirect::new(&view.version);
    let mut output = TableOutput::new(context, keyspace, &options, u64::MAX, IoPriority::Flush);
    let mut values = InOrder::new(context, view.clone(), Box::new(move |id| small.contains(&id)));
    let mut inputs: Vec<_> =
        waiting.iter().map(|memtable| SortedRunIter::Memtable(memtable.table.iter())).collect();
    for table in &tables {
        inputs.push(SortedRunIter::Table(ReadMode::FullScan.iter(table.table()?)));
    }
    let mut merged = MergeIter::new(keyspace.order.clone(), inputs);
    merged.seek_to_first()?;
    while merged.valid() {
        let (key, trailer) = (merged.user_key(), merged.trailer());
        if retain.keep(key, trailer)?
            && let Redirected::Stays(payload) = redirect.entry(trailer, merged.payload())?
        {
            values.add(key, trailer, payload, &mut output)?;
        }
        merged.next()?;
    }
    values.write_window(&mut output)?;
    values.finish()?;
    let metas = output.finish()?;
    let report = FlushReport {
        bytes: metas.iter().map(|meta| meta.bytes).sum(),
        dropped: retain.dropped() + redirect.dropped(),
    };
    let (segments, handles) = (values.changes(), values.handles());
    let plan = |version: &Version| {
        if version.keyspace(keyspace.id).is_none() {
            return Err(Error::keyspace_dropped(&keyspace.name));
        }
        let mut changes = segments;
        changes.extend(replaced(keyspace.id, &tables, &metas));
        changes.extend(waiting.first().map(|newest| {
            let (keyspace, seqno) = (keyspace.id, newest.last_seqno());
            Change::Flushed { keyspace, seqno }
        }));
        let head = next_head(&context.set, log_end, &waiting);
        if head > version.head {
            changes.push(Change::Head(head));
        }
        Ok(Edit::new(changes))
    };
    context.set.note_seqno(waiting.first().map_or(0, |newest| newest.last_seqno()));
    // I3, I5: the new table and segment are durable before the edit that names them and removes the
    // files they replace. A crash before the edit leaves orphans.
    context.set.apply(plan, &handles, Some((keyspace.id, waiting.clone())))?;
    values.keep();
    output.keep();
    Ok(report)
}

/// Returns the changes that replace `old` tables of L0 by `new` ones.
fn replaced(keyspace: KeyspaceId, old: &[Arc<TableHandle>], new: &[Arc<TableMeta>]) -> Vec<Change> {
    let level = 0;
    let remove =
        |table: &Arc<TableHandle>| Change::RemoveTable { keyspace, level, id: table.meta.id };
    let add = |meta: &Arc<TableMeta>| Change::AddTable { keyspace, level, meta: meta.clone() };
    old.iter().map(remove).chain(new.iter().map(add)).collect()
}
