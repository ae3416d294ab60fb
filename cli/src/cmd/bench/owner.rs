//! Whose store it is: workloads overwrite and delete keys, so they run only where every key is
//! theirs, unless they are forced to.
//!
//! The store needs no mark for that. Keys of the benchmark are numbers of 16 digits, and its values
//! name their keys; the first and the last entry of each keyspace are looked at.

use super::values::{KEY_BYTES, ValueSource};
use super::workload::Workload;
use crate::text;
use clap::ValueEnum;
use cleavedb::{Db, Error, Keyspace, Result};

/// Refuses a store with a keyspace that no benchmark made.
pub(super) fn refuse_other_stores(db: &Db, values: &ValueSource) -> Result<()> {
    for name in db.keyspaces() {
        if let Some(key) = other_key(&db.keyspace(&name)?, &name, values)? {
            let key = text::escape(&key);
            let what = format!("`bench` did not make this store: keyspace {name:?} has {key:?}");
            return Err(Error::invalid_argument(what).in_file(db.path()).advise(
                "give a new directory; or --force, which overwrites and deletes keys that are \
                 numbers of 16 digits",
            ));
        }
    }
    Ok(())
}

/// Returns the first or the last key of the keyspace if no benchmark has put it there.
fn other_key(keyspace: &Keyspace, name: &str, values: &ValueSource) -> Result<Option<Vec<u8>>> {
    if is_of_counters(name) {
        // What is under them is a sum, which can be anything.
        let ends = [keyspace.keys().next(), keyspace.keys().next_back()];
        for key in ends.into_iter().flatten() {
            let key = key?;
            if !is_number(&key) {
                return Ok(Some(key.to_vec()));
            }
        }
        return Ok(None);
    }
    for pair in [keyspace.iter().next(), keyspace.iter().next_back()].into_iter().flatten() {
        let (key, value) = pair?;
        if !is_number(&key) || !values.is_of(&key, &value) {
            return Ok(Some(key.to_vec()));
        }
    }
    Ok(None)
}

fn is_of_counters(name: &str) -> bool {
    let suffixes = Workload::value_variants().iter().filter_map(|workload| workload.counters());
    let mut names = suffixes.filter_map(|suffix| name.strip_suffix(suffix));
    names.any(|rest| rest.ends_with('-'))
}

fn is_number(key: &[u8]) -> bool {
    key.len() == KEY_BYTES && key.iter().all(u8::is_ascii_digit)
}
