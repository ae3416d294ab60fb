//! Picks tables that are compacted early because much of them is stale, and decides which
//! compactions ask the update table (Lin, Chen 2022, sections 2.2 and 2.3). Pure.
//!
//! The table is rewritten where it is, without the entries that newer tables supersede. A later
//! compaction would drop those too, so this saves no writes to the tree; it makes dead values known
//! to value GC long before the level is full.

use crate::base::key::SeqNo;
use crate::base::pointer::KeyspaceId;
use crate::compaction::output::UpdateNotes;
use crate::compaction::picker::{Pick, RunningCompactions};
use crate::compaction::stale::MIN_ENTRIES;
use crate::hot::{StaleTrigger, TableScore, TableScores};
use crate::version::files::TableHandle;
use crate::version::levels::Levels;
use crate::version::snapshots::is_seen;

/// A compaction asks the update table if it knows this part (one in this many) of the inputs. To
/// ask costs a miss of the processor's caches for each entry; where less is known, such as after a
/// load, that wins too little.
const FOLLOW_PART: u64 = 16;

/// Decides whether a compaction asks the update table about its entries, and tells it where they
/// go. One that rewrites a table in place always does if something there is stale.
pub fn notes(scores: &TableScores, pick: &Pick) -> UpdateNotes {
    let (mut entries, mut known, mut stale) = (0u64, 0u64, 0u64);
    for table in pick.tables() {
        // I7: the number is from a file.
        entries = entries.saturating_add(table.meta.summary.entries);
        let score = scores.get(&table.meta.id).copied().unwrap_or_default();
        known = known.saturating_add(score.newest_entries + score.stale_entries);
        stale += score.stale_entries;
    }
    let in_place = pick.output_level == pick.level && stale > 0;
    match known > 0 && known >= entries / FOLLOW_PART || in_place {
        true => UpdateNotes::Moves,
        false => UpdateNotes::Nothing,
    }
}

/// The facts that the levels do not contain.
pub struct EarlyFacts<'a> {
    /// What is known of the entries of tables.
    pub scores: &'a TableScores,
    /// From when on a table is compacted early.
    pub trigger: StaleTrigger,
    /// The live snapshots, ascending.
    pub snapshots: &'a [SeqNo],
    /// The newest entry in tables of the keyspace.
    pub flushed: SeqNo,
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
        let score = facts.scores.get(&table.meta.id);
        let Some(score) = score.filter(|score| is_due(table, score, facts)) else {
            continue;
        };
        let won = score.stale_bytes as f64 / table.meta.bytes.max(1) as f64;
        if best.as_ref().is_some_and(|(most, _)| *most >= won) {
            continue;
        }
        let pick = Pick::in_place(level, vec![table.clone()]);
        if busy.is_free(keyspace, levels.order(), &pick) {
            best = Some((won, pick));
        }
    }
    best.map(|(_, pick)| pick)
}

fn is_due(table: &TableHandle, score: &TableScore, facts: &EarlyFacts<'_>) -> bool {
    let summary = &table.meta.summary;
    // I6: a snapshot from before all entries of the table, or from after all that are in tables,
    // sees none that is stale.
    let seen = is_seen(facts.snapshots, summary.min_seqno, facts.flushed);
    let is_passed = facts.trigger.is_passed(score.stale_entries, summary.entries);
    !seen && summary.entries >= MIN_ENTRIES && is_passed
}
