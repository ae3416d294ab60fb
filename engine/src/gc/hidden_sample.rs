//! Looks at some keys of the upper runs of the tree, and whether older runs have them, too. The
//! filters of the older tables answer that, so that only the blocks of the sample are read.
//!
//! A key that is there twice is overwritten or deleted above, so its older entry is dead, or only
//! snapshots see it. A filter errs for about one new key in a hundred, and a table without a filter
//! is searched.

use crate::base::error::Result;
use crate::base::iter::EntryIter;
use crate::env::random::Random;
use crate::gc::hidden_share::{HiddenSample, runs};
use crate::version::files::TableHandle;
use crate::version::job::JobResult;
use crate::version::levels::{Levels, table_bytes};
use std::sync::Arc;

/// The number of blocks in a sample. Each is read from the device, or the cache. With four entries
/// in each, what is hidden comes out within about three hundredths of the upper runs.
const BLOCKS: u32 = 64;
/// The most entries of a block that are looked at.
const BLOCK_ENTRIES: u32 = 8;

/// Takes a sample of the keyspaces with these tables. It calls `go_on` before each block; an error
/// of that ends it.
pub fn take(
    keyspaces: &[Arc<Levels>],
    random: &dyn Random,
    mut go_on: impl FnMut() -> JobResult,
) -> JobResult<HiddenSample> {
    let mut upper = Vec::new();
    for levels in keyspaces {
        let runs = runs(levels);
        for number in 0..runs.len().saturating_sub(1) {
            upper.push(UpperRun {
                levels,
                tables: runs[number],
                older: runs[number + 1..].to_vec(),
            });
        }
    }
    let all = upper.iter().map(|run| table_bytes(run.tables)).fold(0, u64::saturating_add);
    let mut sample = HiddenSample::default();
    if all == 0 {
        return Ok(sample);
    }
    for _ in 0..BLOCKS {
        go_on()?;
        let (run, table) = at(&upper, random.next_u64() % all);
        let (entries, hiding) = run.look(table, random)?;
        // I7: the numbers are from files.
        let per_byte = table.meta.summary.entries as f64 / table.meta.bytes.max(1) as f64;
        sample.add(entries, hiding, per_byte);
    }
    Ok(sample)
}

/// A sorted run that is not the oldest of its keyspace, and those that are older.
struct UpperRun<'a> {
    levels: &'a Levels,
    tables: &'a [Arc<TableHandle>],
    older: Vec<&'a [Arc<TableHandle>]>,
}

/// Returns the table in which byte `at` of all upper runs lies.
fn at<'a, 'b>(upper: &'a [UpperRun<'b>], mut at: u64) -> (&'a UpperRun<'b>, &'b Arc<TableHandle>) {
    for run in upper {
        for table in run.tables {
            match at.checked_sub(table.meta.bytes) {
                Some(behind) => at = behind,
                None => return (run, table),
            }
        }
    }
    unreachable!("the place is before the end of the last table")
}

impl UpperRun<'_> {
    /// Returns how many entries of a random block were looked at, and how many of them hide an
    /// older one.
    fn look(&self, table: &TableHandle, random: &dyn Random) -> Result<(u32, u32)> {
        let table = table.table()?;
        let mut iter = table.iter(false);
        iter.seek_to_block((random.next_u64() % table.blocks() as u64) as usize)?;
        let (mut entries, mut hiding) = (0, 0);
        while iter.valid() && entries < BLOCK_ENTRIES {
            entries += 1;
            hiding += u32::from(self.is_below(iter.user_key())?);
            iter.next_in_block()?;
        }
        Ok((entries, hiding))
    }

    /// Returns true if an older run has an entry of the key, too.
    fn is_below(&self, key: &[u8]) -> Result<bool> {
        for table in self.older.iter().filter_map(|run| self.levels.find_in(run, key)) {
            if table.table()?.has_key(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
