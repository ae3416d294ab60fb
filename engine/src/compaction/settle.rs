//! Picks compactions that bring tables to a bound of space, for what newer entries hide in them:
//! overwritten inline values above all. The bound is the settled one for an idle database. Where
//! all values are in tables, nothing else frees space, so near the ceiling these compactions run
//! beside writers, with the ceiling as the bound. Pure.
//!
//! An entry hides at most one other: the next older version of its key. So a table hides at most as
//! many entries as it has, of those in older tables that overlap it. The sum over all tables, with
//! each hidden entry of mean size, is near or above what is hidden: far above it if keys are new,
//! and below it only if the entries that are hidden are larger than others of their tables. It is 0
//! once the deepest level holds everything, and between tables whose keys are apart, such as those
//! of a time series. What a snapshot may see counts as not hidden.
//!
//! L0 is merged first, so that its entries pass each level once; then the tables that hide most for
//! what their compaction reads. A compaction that succeeds moves its tables down by a level, and
//! nothing moves up, so while nobody writes jobs cannot repeat for ever, even if they find nothing
//! to drop; the caller picks for no keyspace whose last compaction failed on these levels. Users
//! who write again and again with pauses pay a bounded price: the bound is exceeded anew only after
//! its slack was written.

use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::KeyspaceId;
use crate::compaction::picker::{Pick, RunningCompactions, pick_level0, pick_table};
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels, bounds};
use crate::version::settings::KeyspaceOptions;
use crate::version::snapshots::is_seen;
use std::cmp::Ordering;
use std::sync::Arc;

/// What is hidden in tables may take this part (one in this many) of the slack that the bound
/// leaves. The rest is for garbage in the log and in segments.
const SLACK_PART: f64 = 2.0;
/// Hidden bytes are not worth a compaction if they are fewer than the lesser of the two: this, and
/// the part of a full table that `LEAST_TABLE_PART` gives.
const LEAST_BYTES: u64 = 1 << 20;
/// One part in this many of a full table, the other of the two; see `LEAST_BYTES`.
const LEAST_TABLE_PART: u64 = 4;
/// Nor is less than one part in this many of a keyspace, separated values included, worth a
/// compaction: where nearly all values are separated, tables are small and rewriting them frees
/// next to nothing.
const LEAST_KEYSPACE_PART: u64 = 32;

/// Facts that the levels do not contain.
pub struct SettleFacts<'a> {
    /// The bound of space, as a ratio.
    pub ratio: f64,
    /// The options of the keyspace.
    pub options: &'a KeyspaceOptions,
    /// Returns the most bytes that a compaction may write: there is no room for more. It is asked
    /// only if the bound is exceeded.
    pub most_bytes: &'a dyn Fn() -> u64,
    /// The live snapshots, ascending.
    pub snapshots: &'a [SeqNo],
}

impl SettleFacts<'_> {
    /// Returns true if `hidden` bytes in the tables exceed the bound, and are worth a job.
    fn is_over(&self, hidden: u64, levels: &Levels) -> bool {
        let tables = sum(levels.tables().map(|(_, table)| table.meta.bytes));
        let values = levels.value_bytes();
        let live = tables.saturating_sub(hidden);
        let least = LEAST_BYTES.min(self.options.table_bytes / LEAST_TABLE_PART);
        hidden as f64 > (self.ratio - 1.0) / SLACK_PART * live as f64
            && hidden >= least.max(tables.saturating_add(values) / LEAST_KEYSPACE_PART)
    }

    /// I6: returns true if a snapshot may see an entry of `older` that `newer` hides from others.
    fn may_see(&self, older: &TableHandle, newer: &TableHandle) -> bool {
        let (least, most) = (older.meta.summary.min_seqno, newer.meta.summary.max_seqno);
        is_seen(self.snapshots, least, most)
    }

    /// Returns the bytes that `table`, number `index` of `level`, may hide in older tables.
    fn hidden_by(&self, levels: &Levels, level: usize, index: usize) -> u64 {
        let table = &levels.level(level)[index];
        let same_level = if level == 0 { &levels.level(0)[index + 1..] } else { &[] };
        let overlaps = |older: &&Arc<TableHandle>| overlap(levels.order(), older, table);
        let (low, high) = bounds(table);
        let deeper = (level + 1..LEVELS).flat_map(|deeper| levels.overlapping(deeper, low, high));
        let (mut entries, mut bytes) = (0u64, 0u64);
        for older in same_level.iter().filter(overlaps).chain(deeper) {
            if !self.may_see(older, table) {
                // I7: the numbers are from files.
                entries = entries.saturating_add(older.meta.summary.entries);
                bytes = bytes.saturating_add(older.meta.bytes);
            }
        }
        let hidden = u128::from(table.meta.summary.entries.min(entries));
        let bytes = u128::from(bytes) * hidden / u128::from(entries.max(1));
        u64::try_from(bytes).expect("it is at most the bytes of the older tables")
    }
}

fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    // I7: the numbers are from files.
    bytes.fold(0, u64::saturating_add)
}

fn overlap(order: &KeyOrder, a: &TableHandle, b: &TableHandle) -> bool {
    let ((a_low, a_high), (b_low, b_high)) = (bounds(a), bounds(b));
    order.compare(a_low, b_high).is_le() && order.compare(b_low, a_high).is_le()
}

/// Picks the next compaction for a keyspace whose tables may exceed the bound. Costs a look at each
/// table and, by bisection, at those that it overlaps.
pub fn pick(
    keyspace: KeyspaceId,
    levels: &Levels,
    busy: &RunningCompactions,
    facts: &SettleFacts<'_>,
) -> Option<Pick> {
    let deepest = levels.deepest()?;
    let hidden_in = |level: usize| {
        let hidden = (0..levels.level(level).len()).map(|i| facts.hidden_by(levels, level, i));
        hidden.collect::<Vec<u64>>()
    };
    let hidden: Vec<Vec<u64>> = (0..deepest.max(1)).map(hidden_in).collect();
    if !facts.is_over(sum(hidden.iter().flatten().copied()), levels) {
        return None;
    }
    let most_bytes = (facts.most_bytes)();
    if hidden[0].iter().any(|&hidden| hidden > 0) {
        let level0 = pick_level0(keyspace, levels, busy)?;
        if level0.bytes() <= most_bytes || level0.is_move(levels.order(), facts.options) {
            return Some(level0);
        }
    }
    let mut candidates: Vec<SettleCandidate> = Vec::new();
    for (level, hidden) in hidden.iter().enumerate().skip(1) {
        let tables = levels.level(level).iter().zip(hidden).filter(|(_, hidden)| **hidden > 0);
        candidates.extend(tables.filter_map(|(table, &hidden)| {
            let pick = pick_table(levels, level, table)?;
            let read_bytes =
                if pick.is_move(levels.order(), facts.options) { 0 } else { pick.bytes() };
            Some(SettleCandidate { pick, hidden, read_bytes })
        }));
    }
    candidates.retain(|candidate| candidate.read_bytes <= most_bytes);
    candidates.sort_by(SettleCandidate::by_gain);
    let mut picks = candidates.into_iter().rev().map(|candidate| candidate.pick);
    picks.find(|pick| busy.is_free(keyspace, levels.order(), pick))
}

/// A table below L0 that may go into the next level.
struct SettleCandidate {
    pick: Pick,
    /// The bytes that it may hide; not 0.
    hidden: u64,
    /// The bytes that its compaction reads; a move reads none.
    read_bytes: u64,
}

impl SettleCandidate {
    /// Compares what two compactions win for each byte that they read.
    fn by_gain(&self, other: &Self) -> Ordering {
        let product = |hidden: u64, read: u64| u128::from(hidden) * u128::from(read);
        let (won, others) = (self.hidden, other.hidden);
        product(won, other.read_bytes).cmp(&product(others, self.read_bytes))
    }
}
