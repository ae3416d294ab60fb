//! Properties and approximate sizes of a database, under LevelDB's names.

use crate::border::{Array, Bytes, Out, Text, copy_text};
use crate::db::Database;
use crate::guard::quiet;
use crate::handle::Handle;
use engine::{KeyspaceStats, Result, Stats};
use std::ffi::{c_char, c_int};
use std::fmt::Write;
use std::ptr;

fn of_default(stats: &Stats) -> Option<&KeyspaceStats> {
    stats.keyspaces.iter().find(|keyspace| keyspace.name == engine::DEFAULT_KEYSPACE)
}

/// Returns LevelDB's table of levels, followed by the engine's statistics.
fn levels_and_stats(stats: &Stats) -> String {
    let mut text = String::from("Level  Files Size(MB)\n---------------------\n");
    let levels = of_default(stats).map_or(&[][..], |keyspace| &keyspace.levels);
    for (number, level) in levels.iter().enumerate().filter(|(_, level)| level.tables > 0) {
        let megabytes = level.bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(text, "{number:>3} {:>8} {megabytes:>8.0}", level.tables);
    }
    let _ = write!(text, "\n{stats}");
    text
}

/// Lists every table in LevelDB's form: file, size and range of keys.
fn tables(db: &Database) -> Result<String> {
    let listed = db.keyspace()?.tables();
    let mut text = String::new();
    for level in 0..=listed.iter().map(|table| table.level).max().unwrap_or(0) {
        let _ = writeln!(text, "--- level {level} ---");
        for table in listed.iter().filter(|table| table.level == level) {
            let (low, high) = (table.smallest.escape_ascii(), table.largest.escape_ascii());
            let _ = writeln!(text, " {}:{}['{low}' .. '{high}']", table.id, table.bytes);
        }
    }
    Ok(text)
}

fn memory(stats: &Stats) -> u64 {
    let memtables: u64 = stats.keyspaces.iter().map(|keyspace| keyspace.memtable_bytes).sum();
    memtables + stats.cache_bytes + stats.index_and_filter_bytes + stats.pinned_tree_bytes
}

/// Returns the property of this name, or `None` if there is no such property.
fn property(db: &Database, name: &str) -> Result<Option<String>> {
    if name == "cleavedb.metrics" {
        return Ok(Some(db.engine()?.stats().to_openmetrics()));
    }
    let Some(name) = name.strip_prefix("leveldb.") else { return Ok(None) };
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let stats = db.engine()?.stats();
        let is_number = !level.is_empty() && level.bytes().all(|digit| digit.is_ascii_digit());
        let level = level.parse::<usize>().ok().filter(|_| is_number);
        let levels = of_default(&stats).map_or(&[][..], |keyspace| &keyspace.levels);
        let level = level.and_then(|level| levels.get(level));
        return Ok(level.map(|level| level.tables.to_string()));
    }
    Ok(match name {
        "stats" => Some(levels_and_stats(&db.engine()?.stats())),
        "sstables" => Some(tables(db)?),
        "approximate-memory-usage" => Some(memory(&db.engine()?.stats()).to_string()),
        _ => None,
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_property_value(db: Handle<Database>, propname: Text) -> *mut c_char {
    quiet(ptr::null_mut(), || {
        let text = property(&*db.pin()?, propname.utf8("the property")?)?;
        Ok(text.map_or(ptr::null_mut(), |text| copy_text(&text)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_approximate_sizes(
    db: Handle<Database>,
    num_ranges: c_int,
    range_start_key: Array<Bytes>,
    range_start_key_len: Array<usize>,
    range_limit_key: Array<Bytes>,
    range_limit_key_len: Array<usize>,
    sizes: Out<u64>,
) {
    let count = usize::try_from(num_ranges).unwrap_or(0);
    // Every range gets a size, even if the call fails, because C reads them all.
    (0..count).for_each(|index| sizes.set_at(index, 0));
    quiet((), || {
        let starts = range_start_key.items(count, "the starts")?;
        let start_lengths = range_start_key_len.items(count, "the lengths of the starts")?;
        let limits = range_limit_key.items(count, "the limits")?;
        let limit_lengths = range_limit_key_len.items(count, "the lengths of the limits")?;
        let db = db.pin()?;
        let keyspace = db.keyspace()?;
        let size = |index: usize| {
            let start = starts[index].key(start_lengths[index])?;
            keyspace.approximate_size(start..limits[index].key(limit_lengths[index])?)
        };
        // An invalid range has size zero; the others are computed.
        (0..count).for_each(|index| sizes.set_at(index, size(index).unwrap_or(0)));
        Ok(())
    });
}
