//! The hot paths. Each prepares a store, runs its measured part, and returns the number of
//! operations of that part, whose results it has checked.

use crate::data::{INLINE_BYTES, SEPARATED_BYTES, SampleValues, fill, key, open, strewn};
use crate::measured_part;
use cleavedb::{Db, Keyspace, Result};
use std::path::Path;

/// Runs a path on a store in a directory; returns the number of operations.
type HotPath = fn(&Path) -> Result<u64>;

/// All paths: the name and the run of each.
pub(crate) const PATHS: [(&str, HotPath); 11] = [
    ("get-memtable", get_memtable),
    ("get-cached", get_cached),
    ("get-separated", get_separated),
    ("put-inline", put_inline),
    ("put-separated", put_separated),
    ("cursor-keys", cursor_keys),
    ("cursor-inline", cursor_inline),
    ("flush", flush),
    ("merge", merge),
    ("relocation", relocation),
    ("liveness-scan", liveness_scan),
];

/// Pairs of a store, and operations of most paths.
const PAIRS: u64 = 10_000;
/// Pairs of a store whose background work is counted: so many that the looks for more work, whose
/// number depends on the time, are a small part.
const MANY_PAIRS: u64 = 40_000;

/// Opens a store that is filled with pairs, all of them in its memtable.
fn in_memory(dir: &Path, values: &SampleValues, pairs: u64) -> Result<(Db, Keyspace)> {
    let db = open(dir)?;
    let keyspace = db.default_keyspace();
    fill(&db, &keyspace, values, strewn(pairs))?;
    db.wait_idle()?;
    Ok((db, keyspace))
}

/// Opens a store that is filled with pairs, all of them in one sorted run of tables.
fn in_tables(dir: &Path, values: &SampleValues) -> Result<(Db, Keyspace)> {
    let (db, keyspace) = in_memory(dir, values, PAIRS)?;
    db.compact()?;
    db.wait_idle()?;
    Ok((db, keyspace))
}

/// Reads all pairs in the measured part, after the first reads have warmed the caches.
fn get_all(keyspace: &Keyspace, values: &SampleValues) -> Result<u64> {
    let read = || -> Result<()> {
        for number in strewn(PAIRS) {
            let found = keyspace.get(key(number))?;
            assert!(found.is_some_and(|found| found == values.at(number)), "pair {number} is lost");
        }
        Ok(())
    };
    read()?;
    measured_part(&mut || read())?;
    Ok(PAIRS)
}

/// Gets of values in the memtable.
fn get_memtable(dir: &Path) -> Result<u64> {
    let values = SampleValues::of(INLINE_BYTES);
    let (_db, keyspace) = in_memory(dir, &values, PAIRS)?;
    get_all(&keyspace, &values)
}

/// Gets of values in table blocks that are in the block cache.
fn get_cached(dir: &Path) -> Result<u64> {
    let values = SampleValues::of(INLINE_BYTES);
    let (_db, keyspace) = in_tables(dir, &values)?;
    get_all(&keyspace, &values)
}

/// Gets of separated values: a pointer in a cached block, and one read.
fn get_separated(dir: &Path) -> Result<u64> {
    let values = SampleValues::of(SEPARATED_BYTES);
    let (_db, keyspace) = in_tables(dir, &values)?;
    get_all(&keyspace, &values)
}

/// Single puts of new keys to a store that has as many already.
fn put_new(dir: &Path, values: &SampleValues) -> Result<u64> {
    let db = open(dir)?;
    let keyspace = db.default_keyspace();
    let (before, after) = (strewn(2 * PAIRS), strewn(2 * PAIRS));
    fill(&db, &keyspace, values, before.take(PAIRS as usize))?;
    db.wait_idle()?;
    measured_part(&mut || {
        for number in after.clone().skip(PAIRS as usize) {
            keyspace.put(key(number), values.at(number))?;
        }
        Ok(())
    })?;
    assert_eq!(keyspace.iter().keys().count() as u64, 2 * PAIRS);
    Ok(PAIRS)
}

/// Puts of values that stay in the tree.
fn put_inline(dir: &Path) -> Result<u64> {
    put_new(dir, &SampleValues::of(INLINE_BYTES))
}

/// Puts of values that are separated.
fn put_separated(dir: &Path) -> Result<u64> {
    put_new(dir, &SampleValues::of(SEPARATED_BYTES))
}

/// Steps a cursor over all pairs, once to warm the caches and once in the measured part, and looks
/// at each with `look`.
fn walk(
    keyspace: &Keyspace,
    mut look: impl FnMut(u64, &mut cleavedb::Cursor) -> Result<()>,
) -> Result<u64> {
    let mut steps = || -> Result<()> {
        let mut cursor = keyspace.cursor()?;
        cursor.seek_to_first()?;
        for number in 0..PAIRS {
            look(number, &mut cursor)?;
            cursor.next()?;
        }
        assert!(!cursor.valid(), "there are more pairs than were put");
        Ok(())
    };
    steps()?;
    measured_part(&mut steps)?;
    Ok(PAIRS)
}

/// Steps of a cursor over keys whose values are separated and not read.
fn cursor_keys(dir: &Path) -> Result<u64> {
    let (_db, keyspace) = in_tables(dir, &SampleValues::of(SEPARATED_BYTES))?;
    walk(&keyspace, |number, cursor| {
        assert!(cursor.key() == key(number), "pair {number} is lost");
        Ok(())
    })
}

/// Steps of a cursor over values that are in the tree.
fn cursor_inline(dir: &Path) -> Result<u64> {
    let values = SampleValues::of(INLINE_BYTES);
    let (_db, keyspace) = in_tables(dir, &values)?;
    walk(&keyspace, |number, cursor| {
        assert!(cursor.value()? == values.at(number), "pair {number} is lost");
        Ok(())
    })
}

/// The flush of a memtable, for each entry.
fn flush(dir: &Path) -> Result<u64> {
    let (db, keyspace) = in_memory(dir, &SampleValues::of(INLINE_BYTES), MANY_PAIRS)?;
    measured_part(&mut || db.flush())?;
    assert_eq!(keyspace.approximate_len(..)?, MANY_PAIRS);
    Ok(MANY_PAIRS)
}

/// A compaction of two tables whose keys alternate, for each entry.
fn merge(dir: &Path) -> Result<u64> {
    let values = SampleValues::of(INLINE_BYTES);
    let db = open(dir)?;
    let keyspace = db.default_keyspace();
    for half in 0..2 {
        fill(&db, &keyspace, &values, strewn(MANY_PAIRS).filter(|number| number % 2 == half))?;
        db.flush()?;
    }
    db.wait_idle()?;
    measured_part(&mut || db.compact())?;
    assert_eq!(keyspace.approximate_len(..)?, MANY_PAIRS);
    Ok(MANY_PAIRS)
}

/// A collection in which every other record is dead, for each record that is moved.
fn relocation(dir: &Path) -> Result<u64> {
    let (db, keyspace) = in_memory(dir, &SampleValues::of(SEPARATED_BYTES), PAIRS)?;
    for number in (0..PAIRS).step_by(2) {
        keyspace.delete(key(number))?;
    }
    db.compact()?;
    let moved = collected(&db)?;
    assert!(moved > PAIRS / 3, "only {moved} records were moved");
    Ok(moved)
}

/// Collects in the measured part, once the store has come to rest; returns the number of records
/// that were moved.
fn collected(db: &Db) -> Result<u64> {
    db.wait_idle()?;
    let mut moved = 0;
    measured_part(&mut || {
        moved = db.gc()?.values_moved;
        Ok(())
    })?;
    Ok(moved)
}

/// A collection that finds next to nothing dead, for each entry that it walks over. Half of the
/// pointers lead to where their records were before they were moved.
fn liveness_scan(dir: &Path) -> Result<u64> {
    let values = SampleValues::of(SEPARATED_BYTES);
    let (db, keyspace) = in_memory(dir, &values, PAIRS)?;
    fill(&db, &keyspace, &values, strewn(PAIRS).filter(|number| number % 2 == 0))?;
    db.compact()?;
    assert!(db.gc()?.values_moved > PAIRS / 3, "too few records were moved");
    fill(&db, &keyspace, &values, strewn(PAIRS).filter(|number| number % 64 == 0))?;
    let moved = collected(&db)?;
    assert_eq!(moved, 0, "there is too little garbage for a record to be moved");
    Ok(PAIRS)
}
