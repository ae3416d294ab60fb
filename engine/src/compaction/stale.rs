//! Picks tables that are worth a compaction for their content, not their size: mostly tombstones,
//! or mostly pointers that lead through relocations. On a nearly full disk it also picks L0 before
//! that is due. Pure.
//!
//! What has expired counts as a tombstone. A tombstone moves down level by level until no older
//! entry can be below it, and is dropped there, so the space of deleted keys is freed even if
//! nothing new is written. A table full of indirect pointers is rewritten in place, which makes
//! them direct and drops entries that value GC has proven garbage. Each such job brings its table
//! nearer to a final state, so jobs cannot repeat forever.

use crate::base::expiry::Deadline;
use crate::base::key::SeqNo;
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::compaction::picker::{Pick, RunningCompactions, pick_level0, pick_table};
use crate::table::Summary;
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::snapshots::{SeenSeqnos, stratum};
use std::sync::Arc;

/// Tables with fewer entries than this are left until their level is due.
pub const MIN_ENTRIES: u64 = 64;
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
        let is_due = known.idle && deletes || in_the_way;
        is_due.then(|| pick_level0(keyspace, levels, busy)).flatten().filter(known.is_worth)
    })
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
    if is_mostly_dead(summary, known.seen) {
        let (low, high) = bounds(table);
        let older_below =
            (level + 1..LEVELS).any(|below| !levels.overlapping(below, low, high).is_empty());
        if older_below {
            return pick_table(levels, level, table);
        }
        let seen = known.oldest_snapshot.is_some_and(|oldest| oldest < summary.max_seqno);
        return (!seen).then(in_place);
    }
    // Under load it is left to the next compaction of the level, which saves the extra writes.
    let is_due = known.idle && summary.entries >= MIN_ENTRIES;
    (is_due && is_mostly_indirect(summary, known)).then(in_place)
}

/// Returns true if at least half of the entries are tombstones, or have expired for all who see
/// them. Of a table with few entries all must have expired, because then it goes without being
/// read.
fn is_mostly_dead(summary: &Summary, seen: &SeenSeqnos) -> bool {
    let time = seen.time_of(stratum(&seen.snapshots, summary.min_seqno));
    let expired = summary.deadlines.passed(time);
    let dead = summary.tombstones.saturating_add(expired);
    expired == summary.entries
        || summary.entries >= MIN_ENTRIES && dead >= summary.entries.div_ceil(2)
}

/// Returns the greatest deadline of the inputs of `pick`, if all of their entries have expired for
/// all who see them, and nothing older is below that they hide. Then they can go without being
/// read.
pub fn all_expired(levels: &Levels, pick: &Pick, seen: &SeenSeqnos) -> Option<Deadline> {
    // L0 may hide itself, so it goes as a whole.
    let is_whole = pick.level > 0 || pick.inputs.len() == levels.level(0).len();
    let has_expired = |table: &Arc<TableHandle>| {
        let summary = &table.meta.summary;
        let time = seen.time_of(stratum(&seen.snapshots, summary.min_seqno));
        summary.deadlines.passed(time) == summary.entries
    };
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
    use super::{wants_flush, wants_flush_of_expired};

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
