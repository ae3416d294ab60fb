//! The shell's command that deletes a range of keys.

use super::run::Session;
use cleavedb::{Error, Result, WriteBatch};
use std::ops::Bound;

/// The keys to delete: all with a prefix, or those within bounds.
enum DeletedKeys<'a> {
    Prefix(&'a [u8]),
    Within(Bound<&'a [u8]>, Bound<&'a [u8]>),
}

impl Session<'_> {
    /// Deletes the keys that `arguments` describe; returns false if they describe none.
    pub(super) fn delete_range(&self, arguments: &[Vec<u8>]) -> Result<bool> {
        let Some(keys) = parse(arguments) else { return Ok(false) };
        let keyspace = &self.keyspace;
        match (&self.transaction, keys) {
            (Some(open), DeletedKeys::Prefix(prefix)) => {
                open.transaction.delete_prefix(keyspace, prefix)?;
            }
            (Some(open), DeletedKeys::Within(from, to)) => {
                open.transaction.delete_range(keyspace, (from, to))?;
            }
            (None, keys) => {
                let mut batch = WriteBatch::new();
                match keys {
                    DeletedKeys::Prefix(prefix) => batch.delete_prefix(keyspace, prefix),
                    DeletedKeys::Within(from, to) => batch.delete_range(keyspace, (from, to)),
                };
                self.db.write_with(batch, &self.options)?;
            }
        }
        Ok(true)
    }
}

fn parse(arguments: &[Vec<u8>]) -> Option<DeletedKeys<'_>> {
    let words: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let within = DeletedKeys::Within;
    Some(match *words.as_slice() {
        [b"--prefix", prefix] => DeletedKeys::Prefix(prefix),
        [b"--all"] => within(Bound::Unbounded, Bound::Unbounded),
        [b"--from", from] => within(Bound::Included(from), Bound::Unbounded),
        [b"--to", to] => within(Bound::Unbounded, Bound::Excluded(to)),
        [b"--from", from, b"--to", to] => within(Bound::Included(from), Bound::Excluded(to)),
        _ => return None,
    })
}

/// Returns the error for arguments that describe no keys.
pub(super) fn misunderstood() -> Error {
    Error::invalid_argument("the arguments of delrange are wrong")
        .advise("write delrange --from KEY --to KEY, one of the two, --prefix KEY, or --all")
}
