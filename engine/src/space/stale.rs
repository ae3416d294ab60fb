//! Counts, for each table of a keyspace, the entries that newer ones supersede. The update table
//! (`hot/`) knows some of them while the database is open; this walk over all keys finds them all.

use crate::base::entry::entry_bytes;
use crate::base::error::Result;
use crate::base::iter::{CurrentKey, EntryIter};
use crate::base::key::SeqNo;
use crate::hot::TableScores;
use crate::read::cursor::merged;
use crate::read::level_iter::ReadMode;
use crate::version::runtime::Runtime;
use crate::version::view::View;

/// Returns the exact score of each table of `view`. An entry of a memtable supersedes those of
/// tables, but has no score.
///
/// Costs a read of every table, past the cache. Fails if the database closes meanwhile.
pub fn scores(runtime: &Runtime, view: &View) -> Result<TableScores> {
    let order = view.levels.order().clone();
    let mut scores: TableScores =
        view.levels.tables().map(|(_, table)| (table.meta.id, Default::default())).collect();
    let mut iter = merged(view, ReadMode::FullScan)?;
    let mut cover = view.ranges();
    let mut key = CurrentKey::default();
    iter.seek_to_first()?;
    while iter.valid() {
        runtime.check_closing()?;
        let is_stale = !key.enter(&order, iter.user_key())
            || cover.hides(iter.user_key(), iter.trailer().seqno(), SeqNo::MAX);
        if let Some(score) = iter.table_id().and_then(|table| scores.get_mut(&table)) {
            if is_stale {
                score.stale_entries += 1;
                score.stale_bytes += entry_bytes(iter.user_key(), iter.trailer(), iter.payload())?;
            } else {
                score.newest_entries += 1;
            }
        }
        iter.next()?;
    }
    Ok(scores)
}
