//! Merges the small files that short sessions leave. Every session that writes leaves a log
//! segment, however little it wrote, and none of them comes near the sizes at which the head moves.
//! Once there are more than [`MAX_SMALL_SEGMENTS`] of them, a fold flushes the waiting memtables,
//! merges them with the small tables on top of L0, and copies the values in small segments to a
//! sorted segment, together with those that the memtables hold if the keyspace separates at flush:
//! one table and at most one segment, or a few full ones, replace them all. Both grow with every
//! fold until they are no longer small, so an entry is rewritten at most some dozen times, and
//! there are no more files than the data needs.
//!
//! A fold is also made when most of what a session leaves is dead: tombstones are merged with the
//! entries that they delete, so that whole segments are removed when the session that deleted their
//! records closes. Otherwise they would stay until a session is idle for a while. If most of what
//! the tombstones meet in deeper tables is dead too, compactions follow the fold (`deletions.rs`).
//!
//! It runs on the thread that opens or closes the database, while no other job runs, because a
//! session may be too short for background work to finish anything.

use crate::base::error::{Error, Result};
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::compaction::deletions::{self, LEAST_DEAD_BYTES};
use crate::compaction::flush::{FlushReport, newest_seqno, next_head, range_changes};
use crate::compaction::operands::OperandMerger;
use crate::compaction::output::TableOutput;
use crate::compaction::redirect::Redirect;
use crate::compaction::reorganize::InOrder;
use crate::compaction::retain::Retain;
use crate::compaction::separate::Separator;
use crate::read::input::SortedRunIter;
use crate::read::level_iter::ReadMode;
use crate::read::merge::MergeIter;
use crate::segment::SegmentKind;
use crate::table::TableMeta;
use crate::throttle::reads::IoPriority;
use crate::version::edit::{Change, Edit};
use crate::version::files::TableHandle;
use crate::version::runtime::Runtime;
use crate::version::settings::KeyspaceOptions;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::{KeyspaceState, View};
use crate::version::{LogPosition, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The greatest number of small segments that may wait for a fold.
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
    top_of(tables, large.unwrap_or(tables.len()))
}

/// Returns the first `most` tables of L0, or fewer, so that none is left behind of an ingest that
/// brought one of them.
///
/// I6: what comes of these tables and older memtables has no place among the rest of such an
/// ingest: it is as new as that, and has entries that are older.
fn top_of(tables: &[Arc<TableHandle>], most: usize) -> &[Arc<TableHandle>] {
    let (mut top, mut rest) = tables.split_at(most);
    while let (Some(last), Some(next)) = (top.last(), rest.first())
        && last.meta.is_of_one_ingest_with(&next.meta)
    {
        (top, rest) = tables.split_at(top.len() - 1);
    }
    top
}

/// Returns the newest tables of L0 that together are no longer than what a full memtable makes:
/// merging them takes about as long as a flush.
fn top_tables(view: &View, memtable_bytes: u64) -> &[Arc<TableHandle>] {
    let tables = view.levels.level(0);
    let mut sum = 0u64;
    let too_long = tables.iter().position(|table| {
        sum = sum.saturating_add(table.meta.bytes);
        sum > memtable_bytes
    });
    top_of(tables, too_long.unwrap_or(tables.len()))
}

/// Returns the tables on top of L0 that a fold for `reason` merges with the waiting memtables.
fn tables_to_fold(
    view: &View,
    options: &KeyspaceOptions,
    reason: FoldReason,
) -> Vec<Arc<TableHandle>> {
    let deletes = view.immutables.iter().any(|memtable| memtable.table.tombstones() > 0);
    let tables = match reason {
        FoldReason::ManySmall => small_tables(view, options.table_bytes),
        FoldReason::MostlyDead if deletes => top_tables(view, options.memtable_bytes),
        FoldReason::MostlyDead => &[],
    };
    tables.to_vec()
}

/// The reason why a fold is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoldReason {
    /// Many short sessions left small segments.
    ManySmall,
    /// Most of what a session leaves is dead.
    MostlyDead,
}

/// A fold that is worthwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fold {
    /// The reason for it.
    reason: FoldReason,
    /// The size of a full segment, by which others are small.
    segment_bytes: u64,
}

/// Returns the fold that is worthwhile now, if there is one. `no_snapshots` is true if nobody may
/// see what newer entries hide. Pure.
pub fn due(
    version: &Version,
    keyspaces: &[Arc<KeyspaceState>],
    segment_bytes: u64,
    no_snapshots: bool,
) -> Result<Option<Fold>> {
    let mostly_dead = Fold { reason: FoldReason::MostlyDead, segment_bytes };
    if no_snapshots {
        if Leftover::of(version, keyspaces).is_mostly_dead() {
            return Ok(Some(mostly_dead));
        }
        for keyspace in keyspaces {
            if deletions::of_memtables(&keyspace.view())?.are_worth_merging() {
                return Ok(Some(mostly_dead));
            }
        }
    }
    let fold = Fold { reason: FoldReason::ManySmall, segment_bytes };
    Ok(has_many_small(version, keyspaces, segment_bytes).then_some(fold))
}

/// The extent of a fold, as far as it is known without reading entries.
#[derive(Debug, Clone, Copy, Default)]
struct Leftover {
    /// Bytes of the log segments from the head on, counted whole, which replay needs.
    tail_bytes: u64,
    /// Bytes of their records that newer entries of the same memtable hide.
    hidden_bytes: u64,
    /// Bytes of the records that the tables reference which tombstones in memtables would meet.
    reached_bytes: u64,
    /// Bytes of those that the tombstones delete, if each of them deletes a mean one.
    deleted_bytes: u64,
}

impl Leftover {
    fn of(version: &Version, keyspaces: &[Arc<KeyspaceState>]) -> Leftover {
        let mut leftover = Leftover::default();
        let tail = version.segments.range(version.head.segment..);
        let log = tail.filter(|(_, live)| live.handle.segment.kind() == SegmentKind::Log);
        leftover.tail_bytes = log.filter_map(|(_, live)| live.sealed).sum();
        for keyspace in keyspaces {
            leftover.add(&keyspace.view(), keyspace.options().memtable_bytes);
        }
        leftover
    }

    fn add(&mut self, view: &View, memtable_bytes: u64) {
        let mut tombstones = 0u64;
        for memtable in view.memtables().map(|memtable| &memtable.table) {
            let separated: u64 = memtable.records().values().map(|it| it.hidden).sum();
            self.hidden_bytes += separated + memtable.inline().hidden;
            tombstones += memtable.tombstones();
        }
        if tombstones == 0 {
            return;
        }
        let (mut count, mut bytes) = (0u64, 0u64);
        for table in top_tables(view, memtable_bytes) {
            for used in table.meta.summary.segments.values() {
                // I7: the numbers are from files.
                count = count.saturating_add(used.count);
                bytes = bytes.saturating_add(used.bytes);
            }
        }
        let deleted = tombstones.saturating_mul(bytes / count.max(1)).min(bytes);
        self.reached_bytes = self.reached_bytes.saturating_add(bytes);
        self.deleted_bytes = self.deleted_bytes.saturating_add(deleted);
    }

    fn is_mostly_dead(&self) -> bool {
        let dead = self.hidden_bytes.saturating_add(self.deleted_bytes);
        let all = self.tail_bytes.saturating_add(self.reached_bytes);
        dead >= LEAST_DEAD_BYTES && dead >= all / 2
    }
}

/// Returns true if [`run`] would remove more than [`MAX_SMALL_SEGMENTS`] small segments: those of
/// the log that replay needs or that small tables on top of L0 reference, and of each keyspace's
/// sorted ones that these tables reference all but one, which the fold writes anew.
fn has_many_small(version: &Version, keyspaces: &[Arc<KeyspaceState>], segment_bytes: u64) -> bool {
    let small = small_segments(version, segment_bytes);
    if small.len() <= MAX_SMALL_SEGMENTS {
        return false;
    }
    let (sorted, log): (BTreeSet<_>, BTreeSet<_>) = small.into_iter().partition(|id| {
        let live = version.segments.get(id);
        live.is_some_and(|live| live.handle.segment.kind() == SegmentKind::Sorted)
    });
    let (mut removed, mut named) = (0, BTreeSet::new());
    for keyspace in keyspaces {
        let view = keyspace.view();
        let tables = small_tables(&view, keyspace.options().table_bytes);
        let of_tables = |table: &Arc<TableHandle>| table.meta.summary.segments.clone().into_keys();
        let segments: BTreeSet<_> = tables.iter().flat_map(of_tables).collect();
        removed += segments.intersection(&sorted).count().saturating_sub(1);
        named.extend(segments);
    }
    let waits = |id: &&SegmentId| **id >= version.head.segment || named.contains(id);
    removed + log.iter().filter(waits).count() > MAX_SMALL_SEGMENTS
}

/// Makes one table and at most one segment, or a few full ones, from the waiting memtables of
/// `keyspace`, the tables on top of L0 that the reason of `fold` is about, and the values in small
/// segments. Where the keyspace separates at flush, this is the flush. `log_end` is the
/// end of the log, everything before which is durable. The caller ensures that nobody writes and no
/// other job runs.
pub fn run(
    runtime: &Runtime,
    fold: Fold,
    keyspace: &Arc<KeyspaceState>,
    seen: SeenSeqnos,
    log_end: LogPosition,
) -> Result<FlushReport> {
    let (view, options) = (keyspace.view(), keyspace.options().clone());
    let small = small_segments(&view.version, fold.segment_bytes);
    let waiting = view.immutables.clone();
    let tables = tables_to_fold(&view, &options, fold.reason);
    if waiting.is_empty() && tables.len() < 2 {
        return Ok(FlushReport::default());
    }
    // I6: older entries are in L0 below those tables, or deeper.
    let is_all = tables.len() == view.levels.level(0).len();
    let is_bottom = |key: &[u8]| is_all && !view.levels.may_hold_from(1, key);
    let ranges = waiting.iter().flat_map(|memtable| memtable.table.ranges());
    let mut retain = Retain::new(keyspace.order.clone(), seen, is_bottom)
        .with_ranges(ranges.chain([view.levels.ranges().clone()]));
    let mut redirect = Redirect::new(&view.version);
    let mut output = TableOutput::of_memtables(runtime, keyspace, &options, newest_seqno(&waiting));
    output.applying(retain.applied_ranges());
    let moves = Box::new(move |id| small.contains(&id));
    let mut values =
        InOrder::new(runtime, view.clone(), moves, fold.segment_bytes, IoPriority::Flush)
            .leaving_damaged()
            .merger(OperandMerger::of(runtime, keyspace, &view, IoPriority::Flush))
            .separating(Separator::new(keyspace.id, &options));
    let mut inputs: Vec<_> =
        waiting.iter().map(|memtable| SortedRunIter::Memtable(memtable.table.iter())).collect();
    for table in &tables {
        inputs.push(SortedRunIter::Table(ReadMode::FullScan.iter(&*table.table()?)));
    }
    let mut merged = MergeIter::new(keyspace.order.clone(), inputs);
    values.copy(&mut merged, &mut retain, &mut redirect, &mut output)?;
    let metas = output.finish()?;
    let segments = values.segments();
    let report = FlushReport {
        bytes: metas.iter().map(|meta| meta.bytes).sum(),
        values_written: segments.bytes,
        dropped: retain.dropped() + redirect.dropped(),
        ..FlushReport::default()
    };
    let plan = |version: &Version| {
        if version.keyspace(keyspace.id).is_none() {
            return Err(Error::keyspace_dropped(&keyspace.name));
        }
        let mut changes = segments.changes;
        changes.extend(replaced(keyspace.id, &tables, &metas));
        changes.extend(range_changes(keyspace.id, &waiting));
        changes.extend(waiting.first().map(|newest| {
            let (keyspace, seqno) = (keyspace.id, newest.last_seqno());
            Change::Flushed { keyspace, seqno }
        }));
        changes.extend(retain.expiry_change());
        let head = next_head(&runtime.set, log_end, &waiting);
        if head > version.head {
            changes.push(Change::Head(head));
        }
        Ok(Edit::new(changes))
    };
    runtime.set.note_seqno(waiting.first().map_or(0, |newest| newest.last_seqno()));
    // I3, I5: the new table and segment are durable before the edit that names them and removes the
    // files they replace. A crash before the edit leaves orphans.
    runtime.set.apply(plan, &segments.handles, Some((keyspace.id, waiting.clone())))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry::Slot;
    use crate::base::key::{EntryKind, KeyOrder, Trailer, internal_key};
    use crate::base::pointer::TableId;
    use crate::cache::memory_fs::MemoryFs;
    use crate::compaction::tests::world::JobWorld;
    use crate::env::budget::Budget;
    use crate::table::Summary;
    use crate::version::files::{TableContext, TableLimits};
    use crate::version::settings::Separation;
    use std::time::Duration;

    /// Guards against openings that wait at the user's cap on background writes: a fold that
    /// separates what was replayed may write the values of whole memtables.
    #[test]
    fn a_fold_is_not_held_up_by_the_cap_on_background_writes() {
        let mut world = JobWorld::new(1 << 20);
        let (clock, events) =
            (world.runtime.env.clock.clone(), world.runtime.health.events.clone());
        world.runtime.budget = Arc::new(Budget::new(clock.clone(), events, Some(1 << 20)));
        let keyspace = &world.keyspace;
        let options = keyspace.options().as_ref().clone();
        keyspace.set_options(KeyspaceOptions { separation: Separation::AtFlush, ..options });
        let table = keyspace.view().active.table.clone();
        for number in 1..=80 {
            let (key, trailer) = (number.to_string(), Trailer::new(number, EntryKind::Put));
            table.insert(key.as_bytes(), trailer, Slot::Inline(&[7; 100 << 10]));
        }
        keyspace.rotate_memtable();
        let fold = Fold { reason: FoldReason::ManySmall, segment_bytes: 1 << 20 };
        let seen = SeenSeqnos { visible: 80, ..SeenSeqnos::default() };
        let begun = clock.now();
        let report = run(&world.runtime, fold, keyspace, seen, LogPosition::default()).unwrap();
        assert!(report.values_written >= 8_000_000);
        assert!(clock.since(begun) < Duration::from_secs(1), "{:?}", clock.since(begun));
    }

    #[test]
    fn a_fold_is_worth_it_for_what_is_mostly_dead() {
        const MIB: u64 = 1 << 20;
        let rows = [
            ([0, 0, 0, 0], false, "there is nothing"),
            ([300, 150, 0, 0], true, "half of the log is hidden"),
            ([300, 149, 0, 0], false, "less is"),
            ([0, 0, 300, 150], true, "tombstones delete half of what they meet"),
            ([10, 0, 300, 150], false, "and less of all that a fold touches"),
            ([300, 200, 300, 100], true, "both together are half of it"),
            ([1, 1, 0, 0], true, "a little of little"),
        ];
        for (mib, expected, why) in rows {
            let [tail_bytes, hidden_bytes, reached_bytes, deleted_bytes] = mib.map(|it| it * MIB);
            let leftover = Leftover { tail_bytes, hidden_bytes, reached_bytes, deleted_bytes };
            assert_eq!(leftover.is_mostly_dead(), expected, "{why}");
        }
        let little = Leftover { tail_bytes: MIB, hidden_bytes: MIB - 1, ..Leftover::default() };
        assert!(!little.is_mostly_dead(), "it is not worth a table");
    }

    /// A fold takes all tables on top of L0 that came with one ingest, or none of them.
    #[test]
    fn i06_a_fold_leaves_no_part_of_an_ingest_behind() {
        let context = Arc::new(TableContext::new(
            Arc::new(MemoryFs::default()),
            "db".into(),
            7,
            TableLimits::TESTS,
        ));
        // The numbers of the tables on top, newest first, whether an ingest brought them, and how
        // many of the first ones are taken of so many.
        type Cases<'a> = [(&'a [(u64, bool)], &'a [usize]); 4];
        let cases: Cases<'_> = [
            (&[(20, true), (20, true), (5, false)], &[0, 0, 2, 3]),
            (&[(30, false), (20, true), (20, true), (20, true)], &[0, 1, 1, 1, 4]),
            (&[(21, true), (20, true)], &[0, 1, 2]),
            (&[(21, false), (20, false)], &[0, 1, 2]),
        ];
        for (tables, expected) in cases {
            let handle = |(id, (seqno, is_ingested)): (u64, &(u64, bool))| {
                let key = internal_key(&id.to_be_bytes(), Trailer::new(*seqno, EntryKind::Put));
                let summary = Summary {
                    smallest: key.clone(),
                    largest: key,
                    min_seqno: *seqno,
                    max_seqno: *seqno,
                    ..Summary::default()
                };
                let (summary, ingested_at) = (Arc::new(summary), seqno * u64::from(*is_ingested));
                let (id, bytes, applied_ranges) = (TableId(id), 1000, 0);
                let meta = TableMeta { id, bytes, summary, applied_ranges, ingested_at };
                Arc::new(TableHandle::new(Arc::new(meta), KeyOrder::Bytewise, context.clone()))
            };
            let handles: Vec<_> = (1..).zip(tables).map(handle).collect();
            let found: Vec<_> =
                (0..=handles.len()).map(|most| top_of(&handles, most).len()).collect();
            assert_eq!(found, expected, "{tables:?}");
        }
    }
}
