//! Counts, for each table of a keyspace, the entries that newer ones supersede. The update table
//! (`hot/`) knows some of them while the database is open; this walk over all keys finds them all.

use crate::base::entry::entry_bytes;
use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::hot::TableScores;
use crate::read::cursor::merged;
use crate::read::level_iter::ReadMode;
use crate::version::view::View;

/// Returns the exact score of each table of `view`. An entry of a memtable supersedes those of
/// tables, but has no score.
///
/// Costs a read of every table, past the cache.
pub fn scores(view: &View) -> Result<TableScores> {
    let order = view.levels.order().clone();
    let mut scores: TableScores =
        view.levels.tables().map(|(_, table)| (table.meta.id, Default::default())).collect();
    let mut iter = merged(view, ReadMode::FullScan)?;
    let mut key: Option<Vec<u8>> = None;
    iter.seek_to_first()?;
    while iter.valid() {
        // Entries of a key come one after the other, newest first.
        let is_stale = match &mut key {
            Some(key) if order.compare(iter.user_key(), key).is_eq() => true,
            key => {
                let key = key.get_or_insert_default();
                key.clear();
                key.extend_from_slice(iter.user_key());
                false
            }
        };
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
