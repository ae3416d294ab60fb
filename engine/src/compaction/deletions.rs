//! What the tombstones of a keyspace delete, estimated from the numbers of its tables, and the
//! compactions by which a session that closes frees it. Pure.
//!
//! A tombstone deletes at most one put: the next older version of its key. So tombstones that are
//! at least half as many as the puts that they meet delete half of them, unless they delete what
//! does not exist; then merging them takes time for nothing, which is why one closing reads at most
//! [`MAX_READ_BYTES`]. What compaction left of expired entries is no tombstone and counts with the
//! puts, because most of it hides nothing. What a closing leaves is merged by a later session that
//! is idle for a while.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::base::pointer::KeyspaceId;
use crate::compaction::picker::{Pick, RunningCompactions, span, widened};
use crate::compaction::stale::{self, StaleFacts};
use crate::version::files::TableHandle;
use crate::version::levels::{LEVELS, Levels};
use crate::version::settings::KeyspaceOptions;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::View;
use std::sync::Arc;

/// The most bytes of tables that one closing reads to free what was deleted. Measured once with
/// 300 MB of values of 500 bytes, all deleted, closing takes 1.3 s, a third of the time of their
/// puts (`bench/record/2026-11-22-inline-garbage.md`).
pub const MAX_READ_BYTES: u64 = 512 << 20;
/// Less than this many bytes are not worth a flush or a compaction when a session closes.
pub const LEAST_DEAD_BYTES: u64 = 1 << 20;

/// The content of some tables that tombstones may meet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deletions {
    /// The number of tombstones.
    pub tombstones: u64,
    /// The number of other entries.
    pub puts: u64,
    /// The bytes of the tables.
    pub table_bytes: u64,
    /// The bytes of the separated values that they reference.
    pub value_bytes: u64,
}

impl Deletions {
    /// Sums up these tables.
    pub fn of<'a>(tables: impl Iterator<Item = &'a Arc<TableHandle>>) -> Deletions {
        tables.fold(Deletions::default(), |sum, table| {
            let summary = &table.meta.summary;
            // I7: the numbers are from files.
            Deletions {
                tombstones: sum.tombstones.saturating_add(summary.tombstones),
                puts: sum.puts.saturating_add(summary.entries.saturating_sub(summary.tombstones)),
                table_bytes: sum.table_bytes.saturating_add(table.meta.bytes),
                value_bytes: sum.value_bytes.saturating_add(table.meta.summary.value_bytes()),
            }
        })
    }

    /// Returns true if the tombstones delete half of the puts.
    pub fn are_most(&self) -> bool {
        self.tombstones >= self.puts.div_ceil(2)
    }

    /// Returns the bytes that the tombstones delete if each deletes a put of mean size.
    pub fn deleted_bytes(&self) -> u64 {
        let bytes = u128::from(self.table_bytes) + u128::from(self.value_bytes);
        let (deleted, puts) = (self.tombstones.min(self.puts), self.puts.max(1));
        u64::try_from(bytes * u128::from(deleted) / u128::from(puts)).unwrap_or(u64::MAX)
    }

    /// Returns true if a session that closes should merge what it deleted with these tables.
    pub fn are_worth_merging(&self) -> bool {
        self.are_most()
            && self.table_bytes <= MAX_READ_BYTES
            && self.deleted_bytes() >= LEAST_DEAD_BYTES
    }
}

/// Returns the tombstones in memtables of `view` together with all tables that they may meet on
/// their way down; nothing if there are none.
pub fn of_memtables(view: &View) -> Result<Deletions> {
    let order = view.levels.order();
    let memtables = view.memtables().map(|memtable| &memtable.table);
    let deleting: Vec<_> = memtables.filter(|memtable| memtable.tombstones() > 0).collect();
    if deleting.is_empty() {
        return Ok(Deletions::default());
    }
    let mut keys = span(order, view.levels.level(0).iter());
    let mut tombstones = 0u64;
    for memtable in deleting {
        tombstones += memtable.tombstones();
        let (mut first, mut last) = (memtable.iter(), memtable.iter());
        first.seek_to_first()?;
        last.seek_to_last()?;
        keys = Some(widened(order, keys, (first.user_key(), last.user_key())));
    }
    let (low, high) = keys.unwrap_or_default();
    let deeper = (1..LEVELS).flat_map(|level| view.levels.overlapping(level, &low, &high));
    let met = Deletions::of(deeper.chain(view.levels.level(0)));
    Ok(Deletions { tombstones: met.tombstones.saturating_add(tombstones), ..met })
}

/// Picks the next compaction that frees most of what it reads, of at most `most_bytes`. The caller
/// runs no other job, and nobody sees a snapshot. Tombstones only move down, to where they vanish,
/// so picks cannot repeat for ever.
pub fn pick(
    keyspace: KeyspaceId,
    levels: &Levels,
    options: &KeyspaceOptions,
    most_bytes: u64,
) -> Option<Pick> {
    if Deletions::of(levels.tables().map(|(_, table)| table)).deleted_bytes() < LEAST_DEAD_BYTES {
        return None;
    }
    let frees_most = |pick: &Pick| {
        let fits = pick.bytes() <= most_bytes && Deletions::of(pick.tables()).are_most();
        // What is moved now is merged later, for which nothing is left once `most_bytes` is 0.
        fits || most_bytes > 0 && pick.is_move(levels.order(), options)
    };
    // What expires later is left to compactions in the background. What is left of entries that
    // expired before counts as tombstones.
    let seen = SeenSeqnos::default();
    let known = StaleFacts {
        seen: &seen,
        oldest_snapshot: None,
        is_relocated: &|_| false,
        idle: true,
        level0_bytes: u64::MAX,
        is_worth: &frees_most,
    };
    stale::pick(keyspace, levels, &RunningCompactions::default(), &known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn deletions_are_merged_at_closing_if_most_of_what_is_read_goes() {
        let rows = [
            ((0, 0, 0, 0), false, "there is nothing"),
            ((100, 200, 100 * MIB, 0), true, "half of it goes"),
            ((99, 200, 100 * MIB, 0), false, "less goes"),
            ((900, 200, 100 * MIB, 0), true, "more than all does not go"),
            ((200, 200, MAX_READ_BYTES, 0), true, "a closing may read this"),
            ((200, 200, MAX_READ_BYTES + 1, 0), false, "and no more"),
            ((200, 200, MIB - 1, 0), false, "it is not worth a table"),
            ((200, 200, 1000, 100 * MIB), true, "values count, and are not read"),
            ((0, 200, 100 * MIB, 0), false, "nothing was deleted"),
        ];
        for ((tombstones, puts, table_bytes, value_bytes), expected, why) in rows {
            let deletions = Deletions { tombstones, puts, table_bytes, value_bytes };
            assert_eq!(deletions.are_worth_merging(), expected, "{why}");
        }
    }

    #[test]
    fn i07_no_numbers_of_tables_make_the_estimate_overflow() {
        for most in [u64::MAX, u64::MAX / 2] {
            let (puts, tombstones) = (1, most);
            let deletions =
                Deletions { tombstones, puts, table_bytes: most, value_bytes: u64::MAX };
            assert_eq!(deletions.deleted_bytes(), u64::MAX);
            assert!(!deletions.are_worth_merging());
        }
    }
}
