//! Numbered commits that overwrite a few keys by turns, and what is left of them after a crash.

use cleavedb::{Db, Keyspace};

/// Makes up to `commits` commits of one put each, until one fails. Values have `value_bytes` bytes.
pub fn overwrite(keyspace: &Keyspace, keys: u64, commits: u64, value_bytes: usize) {
    for number in 0..commits {
        let mut value = number.to_be_bytes().to_vec();
        value.resize(value_bytes, number as u8);
        if keyspace.put((number * 7919 % keys).to_be_bytes(), value).is_err() {
            break;
        }
    }
}

/// Returns the numbers of the commits whose values are there, in order.
pub fn numbers(db: &Db) -> Vec<u64> {
    let number = |value: &[u8]| {
        let number = u64::from_be_bytes(value[..8].try_into().unwrap());
        assert!(value[8..].iter().all(|&byte| byte == number as u8), "the value of {number}");
        number
    };
    let pairs = db.default_keyspace().iter();
    let mut found: Vec<u64> = pairs.map(|pair| number(&pair.expect("a value reads").1)).collect();
    found.sort_unstable();
    found
}

/// Returns the numbers that are there if just the commits up to the newest of `found` are.
pub fn of_a_prefix(found: &[u64], keys: u64) -> Vec<u64> {
    let end = found.last().map_or(0, |last| last + 1);
    (end.saturating_sub(keys)..end).collect()
}
