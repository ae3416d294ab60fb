//! Picks tables that are compacted early because much of them is stale, and decides which
//! compactions ask the update table (Lin, Chen 2022, sections 2.2 and 2.3). Pure.
//!
//! The table is rewritten where it is, without the entries that newer tables supersede. Any
//! compaction drops those, so this saves no writes to the tree; it makes dead values known to value
//! GC, and keys rarer to readers, long before the level is full.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::compaction::picker::{Pick, RunningCompactions};
use crate::hot::{StaleTrigger, TableScores};
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels};
use std::sync::Arc;

/// Tables with fewer entries than this are not worth a compaction.
const MIN_ENTRIES: u64 = 64;
/// A compaction asks the update table if it knows this part (one in this many) of the inputs. To
/// ask costs a miss of the processor's caches for each entry; where less is known, such as after a
/// load, that wins too little.
const FOLLOW_PART: u64 = 16;

/// Returns true if a compaction should ask the update table about its entries, and tell it where
/// they go.
pub fn follows(scores: &TableScores, pick: &Pick) -> bool {
    let (mut entries, mut known) = (0u64, 0u64);
    for table in pick.tables() {
        // I7: the number is from a file.
        entries = entries.saturating_add(table.meta.summary.entries);
        let score = scores.get(&table.meta.id).copied().unwrap_or_default();
        known = known.saturating_add(score.newest_entries + score.stale_entries);
    }
    known > 0 && known >= entries / FOLLOW_PART
}

/// The facts that the levels do not contain.
pub struct EarlyFacts<'a> {
    /// What is known of the entries of tables.
    pub scores: &'a TableScores,
    /// From when on a table is compacted early.
    pub trigger: StaleTrigger,
    /// The newest live snapshot, if any: stale entries that it may see cannot be dropped.
    pub newest_snapshot: Option<SeqNo>,
}

/// Picks the table that wins the most bytes per byte read, of those whose score has passed the
/// trigger. The new table begins with a score of nothing, so jobs cannot repeat forever.
pub fn pick(
    keyspace: KeyspaceId,
    levels: &Levels,
    busy: &RunningCompactions,
    facts: &EarlyFacts<'_>,
) -> Option<Pick> {
    let mut best: Option<(f64, Pick)> = None;
    // L0 is compacted as a whole, and soon.
    for (level, table) in levels.tables().filter(|(level, _)| *level > 0) {
        let Some(score) = facts.scores.get(&table.meta.id).filter(|_| is_due(table, facts)) else {
            continue;
        };
        debug_assert!(level < LEVELS);
        let won = score.stale_bytes as f64 / table.meta.bytes.max(1) as f64;
        if best.as_ref().is_some_and(|(most, _)| *most >= won) {
            continue;
        }
        let pick =
            Pick { level, output_level: level, inputs: vec![table.clone()], below: Vec::new() };
        if busy.is_free(keyspace, levels.order(), &pick) {
            best = Some((won, pick));
        }
    }
    best.map(|(_, pick)| pick)
}

fn is_due(table: &Arc<TableHandle>, facts: &EarlyFacts<'_>) -> bool {
    let summary = &table.meta.summary;
    let seen = facts.newest_snapshot.is_some_and(|newest| newest >= summary.min_seqno);
    let stale = facts.scores.get(&table.meta.id).map_or(0, |score| score.stale_entries);
    !seen && summary.entries >= MIN_ENTRIES && facts.trigger.is_passed(stale, summary.entries)
}
