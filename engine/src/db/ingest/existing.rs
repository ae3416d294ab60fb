//! Leaves out of an ingest's tables what keys have already: the tables are walked beside the keys
//! of the keyspace, and written anew if a key is in both. Values in segments stay where they are;
//! what is left out there is garbage, which value GC frees.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::compaction::output::TableOutput;
use crate::db::Core;
use crate::db::keyspace::Keyspace;
use crate::db::read_options::ReadOptions;
use crate::read::level_iter::{LevelIter, ReadMode};
use crate::table::TableMeta;
use crate::throttle::reads::IoPriority;
use crate::version::files::TableHandle;
use crate::version::settings::KeyspaceOptions;
use std::ops::Bound;
use std::sync::Arc;

/// Tables without the keys that have a value: their files, their descriptions and the number of
/// their entries.
pub(super) type LeftTables<'a> = (TableOutput<'a>, Vec<Arc<TableMeta>>, u64);

/// Returns tables with those entries of `metas` whose keys have no value now, or `None` if that is
/// all of them. Costs a walk over the keys of the range.
pub(super) fn without_existing<'a>(
    core: &'a Core,
    keyspace: &'a Keyspace,
    settings: &KeyspaceOptions,
    metas: &[Arc<TableMeta>],
) -> Result<Option<LeftTables<'a>>> {
    let (Some(first), Some(last)) = (metas.first(), metas.last()) else { return Ok(None) };
    let range = (
        Bound::Included(first.summary.smallest_key()),
        Bound::Included(last.summary.largest_key()),
    );
    let options = ReadOptions::new().fill_cache(false);
    let mut existing = keyspace.range_with(range, &options).keys();
    let mut next = existing.next().transpose()?;
    if next.is_none() {
        return Ok(None);
    }
    let order = &keyspace.state.order;
    let context = core.set.tables();
    let handle = |meta: &Arc<TableMeta>| {
        Arc::new(TableHandle::new(meta.clone(), order.clone(), context.clone()))
    };
    let tables: Vec<_> = metas.iter().map(handle).collect();
    let mut entries = LevelIter::new(order.clone(), tables, ReadMode::FullScan);
    let (split, priority) = (settings.table_bytes, IoPriority::Flush);
    let mut output = TableOutput::new(&core.runtime, &keyspace.state, settings, split, priority);
    let (mut all, mut left) = (0u64, 0u64);
    entries.seek_to_first()?;
    while entries.valid() {
        let key = entries.user_key();
        while next.as_ref().is_some_and(|it| order.compare(it, key).is_lt()) {
            next = existing.next().transpose()?;
        }
        let exists = next.as_ref().is_some_and(|it| order.compare(it, key).is_eq());
        if !exists {
            output.add(key, entries.trailer(), entries.payload())?;
            left += 1;
        }
        all += 1;
        entries.next()?;
    }
    if left == all {
        return Ok(None);
    }
    let metas = output.finish()?;
    Ok(Some((output, metas, left)))
}
