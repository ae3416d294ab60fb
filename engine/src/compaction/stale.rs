//! Picks tables that are worth a compaction for their content, not their size: those in which a
//! range tombstone hides something, mostly tombstones, or mostly pointers that lead through
//! relocations. On a nearly full disk it also picks L0 before that is due. Pure.
//!
//! What has expired counts as a tombstone. A tombstone moves down level by level until no older
//! entry can be below it, and is dropped there, so the space of deleted keys is freed even if
//! nothing new is written. A table full of indirect pointers is rewritten in place, which makes
//! them direct and drops entries that value GC has proven garbage, unless their relocation is known
//! to be damaged. Each such job brings its table
//! nearer to a final state, so jobs cannot repeat forever.

use crate::base::expiry::Deadline;
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::base::range_tombstone::RangeTombstone;
use crate::compaction::picker::{Pick, RunningCompactions, pick_level0, pick_table};
use crate::table::{Summary, TableMeta};
use crate::version::edit::Change;
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::snapshots::{SeenSeqnos, oldest_reader, stratum};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Tables with fewer entries than this are left until their level is due.
pub const MIN_ENTRIES: u64 = 64;
/// With more range tombstones than this in a keyspace, tables are rewritten for them under load,
/// too. Each costs every reader some nanoseconds and each edit of the keyspace some microseconds.
const MANY_RANGE_TOMBSTONES: usize = 4096;
/// As many range tombstones within a table are worth rewriting it while there is no other work.
const MANY_IN_TABLE: usize = 32;
/// Tombstones in a memtable are worth a flush if they may delete this part of what is in tables.
const LEAST_DELETED_PART: u64 = 8;

/// Returns true if the tombstones of a memtable with `entries` entries are worth a flush while the
/// database is idle: compaction then moves the new table down, where the tombstones delete their
/// share of the `below` entries in tables and vanish. Otherwise they would wait for the next write.
/// Pure.
pub fn wants_flush(entries: u64, tombstones: u64, below: u64) -> bool {
    entries >= MIN_ENTRIES
        && below > 0
        && tombstones >= entries.div_ceil(2)
        && tombstones >= below / LEAST_DELETED_PART
}

/// Returns true if a memtable with `entries` entries, of which `expired` have expired, is worth a
/// flush while the database is idle: the log can then go, and the expired values with it. Pure.
pub fn wants_flush_of_expired(entries: u64, expired: u64) -> bool {
    entries >= MIN_ENTRIES && expired >= entries.div_ceil(2)
}

/// Facts that the levels do not contain.
pub struct StaleFacts<'a> {
    /// The oldest live snapshot, if any; tombstones that it may see cannot be dropped.
    pub oldest_snapshot: Option<SeqNo>,
    /// What readers see, and the times at which they judge deadlines.
    pub seen: &'a SeenSeqnos,
    /// Returns true for segments that were relocated.
    pub is_relocated: &'a dyn Fn(SegmentId) -> bool,
    /// True if there is no other work.
    pub idle: bool,
    /// L0 is merged from this many bytes on for the space that the merge frees.
    pub level0_bytes: u64,
    /// Returns false for compactions that cost too much.
    pub is_worth: &'a dyn Fn(&Pick) -> bool,
}

/// Picks the first worthwhile table, deepest level first, because what is freed there is not
/// rewritten again.
pub fn pick(
    keyspace: KeyspaceId,
    levels: &Levels,
    busy: &RunningCompactions,
    known: &StaleFacts<'_>,
) -> Option<Pick> {
    if let Some(pick) = pick_deleted(keyspace, levels, busy, known) {
        return Some(pick);
    }
    let below = (1..LEVELS).rev().find_map(|level| {
        levels.level(level).iter().find_map(|table| {
            let pick = pick_stale(levels, level, table, known).filter(known.is_worth)?;
            busy.is_free(keyspace, levels.order(), &pick).then_some(pick)
        })
    });
    below.or_else(|| {
        let summaries = || levels.level(0).iter().map(|table| &table.meta.summary);
        let deletes = summaries().any(|summary| is_mostly_dead(summary, known.seen));
        let bytes = levels.bytes(0);
        let in_the_way = bytes > 0 && bytes >= known.level0_bytes;
        let pick = pick_level0(keyspace, levels, busy)?;
        let deletes = deletes || all_expired(levels, &pick, known.seen).is_some();
        let is_due = known.idle && deletes || in_the_way;
        Some(pick).filter(|pick| is_due && (known.is_worth)(pick))
    })
}

/// Picks tables in which range tombstones hide something: those of one level that they hide as a
/// whole, at once; another to be rewritten in place, if there is no other work or range tombstones
/// are many. A table of L0 is rewritten with all of L0. Afterwards, no range tombstone known now
/// hides anything in the table, so each is picked once; or twice, if all of L0 is moved first.
fn pick_deleted(
    keyspace: KeyspaceId,
    levels: &Levels,
    busy: &RunningCompactions,
    known: &StaleFacts<'_>,
) -> Option<Pick> {
    let is_free = |pick: &Pick| busy.is_free(keyspace, levels.order(), pick);
    let is_many = levels.ranges().len() > MANY_RANGE_TOMBSTONES;
    let last = levels.ranges().last_seqno();
    let may_hide = |table: &&Arc<TableHandle>| table.meta.applied_ranges < last;
    let whole = (0..LEVELS).find_map(|level| {
        let deleted = |table: &&Arc<TableHandle>| is_deleted(levels, table, known.seen);
        let mut tables = levels.level(level).iter().filter(may_hide);
        let first = tables.find(deleted)?;
        // Neighbours go with one edit. What is between them stays, so they must be neighbours.
        let more = levels.level(level).iter().skip_while(|table| table.meta.id != first.meta.id);
        let run: Vec<_> = more.take_while(deleted).cloned().collect();
        let alone = || Pick::in_place(level, vec![first.clone()]);
        let run = Some(Pick::in_place(level, run)).filter(|_| level > 0).filter(is_free);
        run.or_else(|| Some(alone()).filter(is_free))
    });
    if whole.is_some() || !known.idle && !is_many {
        return whole;
    }
    levels.tables().filter(|(_, table)| may_hide(table)).find_map(|(level, table)| {
        if !loses_some(levels, table, known, is_many) {
            return None;
        }
        let pick = match level {
            0 => pick_level0(keyspace, levels, busy)?,
            _ => Pick::in_place(level, vec![table.clone()]),
        };
        Some(pick).filter(|pick| (known.is_worth)(pick) && is_free(pick))
    })
}

/// Returns true if one range tombstone hides all entries of `table` from all readers.
fn is_deleted(levels: &Levels, table: &TableHandle, seen: &SeenSeqnos) -> bool {
    let seqnos = hiding_all(&table.meta.summary, seen);
    levels.ranges().any_covering(bounds(table), &seqnos).is_some()
}

/// Returns the numbers of the range tombstones that hide from all readers what a table has in their
/// ranges: they are newer than its entries, and the oldest reader of its oldest entry sees them.
///
/// While a snapshot lives from before many range tombstones, a search by these numbers passes over
/// all of them at once, however many are over the table.
fn hiding_all(summary: &Summary, seen: &SeenSeqnos) -> RangeInclusive<SeqNo> {
    let oldest = stratum(&seen.snapshots, summary.min_seqno);
    let limit = oldest_reader(&seen.snapshots, oldest, seen.visible);
    summary.max_seqno.saturating_add(1)..=limit
}

/// Returns true if range tombstones are over parts of `table` that have older entries, a job could
/// apply them, and it is worth it: one of them goes on beyond the table, so that it is over a
/// notable part, or they are many. Unless they are many in all, small ones wait for the next
/// compaction of the table.
fn loses_some(levels: &Levels, table: &TableHandle, known: &StaleFacts<'_>, is_many: bool) -> bool {
    let (order, (smallest, largest)) = (levels.order(), bounds(table));
    let least = if is_many { 1 } else { MANY_IN_TABLE };
    let mut small = 0;
    let are_enough = |it: &RangeTombstone| {
        small += 1;
        small >= least || it.range.contains(order, smallest) || it.range.contains(order, largest)
    };
    let seqnos = applicable(&table.meta, known);
    levels.ranges().any_over((smallest, largest), &seqnos, are_enough).is_some()
}

/// Returns the numbers of the range tombstones that a job could apply to a table, and that may hide
/// something there. While a snapshot lives from before one, what it hides has to stay.
fn applicable(meta: &TableMeta, known: &StaleFacts<'_>) -> RangeInclusive<SeqNo> {
    let after = meta.summary.min_seqno.max(meta.applied_ranges);
    let visible = known.seen.visible;
    let limit = known.oldest_snapshot.map_or(visible, |oldest| oldest.min(visible));
    after.saturating_add(1)..=limit
}

/// Returns true if range tombstones hide all entries of the inputs of `pick` from all readers, so
/// that they can go without being read. What these entries hide is hidden as well.
fn all_deleted(levels: &Levels, pick: &Pick, seen: &SeenSeqnos) -> bool {
    !levels.ranges().is_empty()
        && pick.below.is_empty()
        && pick.inputs.iter().all(|table| is_deleted(levels, table, seen))
}

fn pick_stale(
    levels: &Levels,
    level: usize,
    table: &Arc<TableHandle>,
    known: &StaleFacts<'_>,
) -> Option<Pick> {
    let summary = &table.meta.summary;
    assert!(level > 0, "a table of L0 is only compacted with all others of L0");
    let in_place = || Pick::in_place(level, vec![table.clone()]);
    let is_mostly_dead = is_mostly_dead(summary, known.seen);
    if is_mostly_dead || has_all_expired(summary, known.seen) {
        let (low, high) = bounds(table);
        let older_below =
            (level + 1..LEVELS).any(|below| !levels.overlapping(below, low, high).is_empty());
        if older_below {
            // A table with few entries goes down with its level: it may be over very many keys.
            return is_mostly_dead.then(|| pick_table(levels, level, table)).flatten();
        }
        let seen = known.oldest_snapshot.is_some_and(|oldest| oldest < summary.max_seqno);
        return (!seen).then(in_place);
    }
    // Under load it is left to the next compaction of the level, which saves the extra writes.
    let is_due = known.idle && summary.entries >= MIN_ENTRIES;
    (is_due && is_mostly_indirect(summary, known)).then(in_place)
}

/// Returns true if at least half of the entries are tombstones, or have expired for all who see
/// them, and there are not few of them.
fn is_mostly_dead(summary: &Summary, seen: &SeenSeqnos) -> bool {
    let time = seen.time_of(stratum(&seen.snapshots, summary.min_seqno));
    let dead = summary.tombstones.saturating_add(summary.deadlines.passed(time));
    summary.entries >= MIN_ENTRIES && dead >= summary.entries.div_ceil(2)
}

/// Returns true if all entries have expired for all who see them. If they hide nothing, the table
/// goes without being read.
fn has_all_expired(summary: &Summary, seen: &SeenSeqnos) -> bool {
    let time = seen.time_of(stratum(&seen.snapshots, summary.min_seqno));
    summary.deadlines.passed(time) == summary.entries
}

/// Returns what the edit that drops the inputs of `pick` has to record, if they can go without
/// being read: nobody sees their entries any more, and what these hide is hidden as well, or not
/// there.
pub fn unread(levels: &Levels, pick: &Pick, seen: &SeenSeqnos) -> Option<Vec<Change>> {
    match all_expired(levels, pick, seen) {
        Some(last) => Some(vec![Change::DroppedUntil(last)]),
        None => all_deleted(levels, pick, seen).then(Vec::new),
    }
}

/// Returns the greatest deadline of the inputs of `pick`, if all of their entries have expired for
/// all who see them, and nothing older is below that they hide. Then they can go without being
/// read.
fn all_expired(levels: &Levels, pick: &Pick, seen: &SeenSeqnos) -> Option<Deadline> {
    // L0 may hide itself, so it goes as a whole.
    let is_whole = pick.level > 0 || pick.inputs.len() == levels.level(0).len();
    let has_expired = |table: &Arc<TableHandle>| has_all_expired(&table.meta.summary, seen);
    let hides = |table: &Arc<TableHandle>| {
        let (low, high) = bounds(table);
        (pick.level + 1..LEVELS).any(|level| !levels.overlapping(level, low, high).is_empty())
    };
    let goes = is_whole
        && pick.below.is_empty()
        && pick.inputs.iter().all(|table| has_expired(table) && !hides(table));
    let last = pick.inputs.iter().filter_map(|table| table.meta.summary.deadlines.last()).max();
    last.filter(|_| goes)
}

fn is_mostly_indirect(summary: &Summary, known: &StaleFacts<'_>) -> bool {
    let indirect: u64 = summary
        .segments
        .iter()
        .filter(|(segment, _)| (known.is_relocated)(**segment))
        .map(|(_, used)| used.count)
        .fold(0, u64::saturating_add);
    indirect >= summary.entries.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::{StaleFacts, applicable, hiding_all, wants_flush, wants_flush_of_expired};
    use crate::base::key::SeqNo;
    use crate::base::pointer::TableId;
    use crate::table::{Summary, TableMeta};
    use crate::version::snapshots::{SeenSeqnos, is_seen};
    use std::sync::Arc;

    /// I6: the spans of numbers by which range tombstones are searched against what they stand for,
    /// for all tables, snapshots and range tombstones with small numbers.
    #[test]
    fn i06_range_tombstones_are_searched_by_the_numbers_that_count() {
        const LAST: SeqNo = 6;
        let tables = (0..=LAST).flat_map(|min| (min..=LAST).map(move |max| (min, max)));
        for ((min_seqno, max_seqno), snapshots, visible) in tables.flat_map(|table| {
            let snapshots = |bits: u32| (0..=LAST).filter(|at| (bits >> at) & 1 == 1).collect();
            let all = (0..1 << (LAST + 1)).map(snapshots);
            all.flat_map(move |list: Vec<SeqNo>| {
                (0..=LAST).map(move |at| (table, list.clone(), at))
            })
        }) {
            let seen = SeenSeqnos { snapshots, visible, ..SeenSeqnos::default() };
            let summary = Summary { min_seqno, max_seqno, ..Summary::default() };
            let known = StaleFacts {
                oldest_snapshot: seen.snapshots.first().copied(),
                seen: &seen,
                is_relocated: &|_| false,
                idle: true,
                level0_bytes: u64::MAX,
                is_worth: &|_| true,
            };
            for seqno in 0..=LAST + 1 {
                let hides_all = seqno > max_seqno
                    && seqno <= visible
                    && !is_seen(&seen.snapshots, min_seqno, seqno);
                let found = hiding_all(&summary, &seen).contains(&seqno);
                assert_eq!(found, hides_all, "{seqno}: {min_seqno} to {max_seqno}, {seen:?}");
                let applied_ranges = max_seqno / 2;
                let (id, bytes, ingested_at) = (TableId(1), 1000, 0);
                let summary = Arc::new(summary.clone());
                let meta = TableMeta { id, bytes, summary, applied_ranges, ingested_at };
                let applies = seqno > min_seqno
                    && seqno > applied_ranges
                    && seqno <= visible
                    && known.oldest_snapshot.is_none_or(|oldest| oldest >= seqno);
                let found = applicable(&meta, &known).contains(&seqno);
                assert_eq!(found, applies, "{seqno}: {meta:?}, {seen:?}");
            }
        }
    }

    #[test]
    fn a_memtable_is_flushed_if_half_of_it_has_expired() {
        for (entries, expired, expected) in
            [(100, 49, false), (100, 50, true), (100, 100, true), (63, 63, false), (0, 0, false)]
        {
            assert_eq!(wants_flush_of_expired(entries, expired), expected, "{expired}");
        }
    }

    #[test]
    fn tombstones_are_flushed_if_much_goes_with_them() {
        let rows = [
            ((0, 0, 0), false, "nothing is there"),
            ((1000, 1000, 0), false, "there is nothing to delete"),
            ((63, 63, 63), false, "few are not worth a table"),
            ((64, 64, 512), true, "an eighth goes"),
            ((64, 64, 520), false, "less than that does"),
            ((1000, 499, 1000), false, "the table would not go down for them"),
            ((1000, 500, 1000), true, "it would"),
        ];
        for ((entries, tombstones, below), expected, why) in rows {
            assert_eq!(wants_flush(entries, tombstones, below), expected, "{why}");
        }
    }
}
