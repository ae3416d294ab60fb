//! Decides how much of L0 goes down in one job. Pure.
//!
//! Usually that is all of it. But an ingest over older data lands in L0, however large it is. As
//! one job, it would hold up writers, whose flushes fill L0 until all of it is rewritten, and need
//! its size in free space. Its tables are disjoint, so it goes down in pieces of about the size of
//! L1, as soon as it is there.
//!
//! I6: an older entry must not stay above a newer one. What is older than the ingest goes down
//! first; then the ingest is the oldest run of L0, and each of its tables may leave the others
//! behind.

use crate::base::pointer::KeyspaceId;
use crate::compaction::picker::{Pick, RunningCompactions, level1_bytes, pick_level0, with_below};
use crate::version::files::TableHandle;
use crate::version::levels::{Levels, table_bytes};
use crate::version::settings::KeyspaceOptions;
use std::sync::Arc;

/// Returns the oldest part of L0 that is to go down on its own; `None` if there is no large ingest.
pub fn oldest_part<'a>(
    levels: &'a Levels,
    options: &KeyspaceOptions,
) -> Option<&'a [Arc<TableHandle>]> {
    let piece = level1_bytes(levels, options);
    let mut end = 0;
    let mut large = None;
    for run in levels.level0_runs() {
        end += run.len();
        if run.len() > 1 && table_bytes(run) > piece {
            large = Some((run, end));
        }
    }
    let (ingest, end) = large?;
    let older = &levels.level(0)[end..];
    if !older.is_empty() {
        return Some(older);
    }
    let mut sum = 0u64;
    let is_within = |table: &&Arc<TableHandle>| {
        sum = sum.saturating_add(table.meta.bytes);
        sum <= piece
    };
    let count = ingest.iter().take_while(is_within).count();
    Some(&ingest[..count.max(1)])
}

/// Returns how urgent a compaction of L0 is: by the number of its sorted runs, each of which costs
/// every read something. A large ingest is due at once, and no more than that, so that its pieces
/// do not crowd L1.
pub fn score(levels: &Levels, options: &KeyspaceOptions) -> f64 {
    let runs = levels.level0_runs().len() as f64 / options.level0_trigger as f64;
    if runs < 1.0 && oldest_part(levels, options).is_some() { 1.0 } else { runs }
}

/// Picks the oldest part of L0; `None` if there is no large ingest.
pub fn pick_oldest_part(levels: &Levels, options: &KeyspaceOptions) -> Option<Pick> {
    with_below(levels, 0, oldest_part(levels, options)?.to_vec())
}

/// Picks the oldest part of L0, or all of it if there is no large ingest.
pub fn pick_part(
    keyspace: KeyspaceId,
    levels: &Levels,
    options: &KeyspaceOptions,
    busy: &RunningCompactions,
) -> Option<Pick> {
    let Some(pick) = pick_oldest_part(levels, options) else {
        return pick_level0(keyspace, levels, busy);
    };
    if busy.owns_level0(keyspace) {
        return None;
    }
    busy.is_free(keyspace, levels.order(), &pick).then_some(pick)
}
