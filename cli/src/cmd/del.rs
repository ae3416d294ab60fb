//! `cleave del`: removes the keys that exist, or all keys of a range, with one write.

use crate::args::{Durable, Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::note;
use clap::Args;
use cleavedb::{Db, Keyspace, WriteBatch, WriteOptions};
use std::ffi::OsString;
use std::ops::Bound;

/// Delete the keys that exist, with one write; exit status 1 if one of them did not
///
/// Keys that do not exist are named; the others are deleted nevertheless. With --from, --to or
/// --prefix, all keys of a range go instead, with one write however many there are. None of them
/// needs to exist.
#[derive(Args)]
pub(crate) struct Del {
    #[command(flatten)]
    target: Target,

    /// The keys; after `--` they may begin with a dash
    #[arg(required_unless_present_any = ["from", "to", "prefix"])]
    keys: Vec<OsString>,

    /// Delete all keys from this one on
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with = "keys")]
    from: Option<OsString>,

    /// Delete all keys before this one
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with = "keys")]
    to: Option<OsString>,

    /// Delete all keys with this prefix
    #[arg(
        long,
        value_name = "KEY",
        allow_hyphen_values = true,
        conflicts_with_all = ["keys", "from", "to"]
    )]
    prefix: Option<OsString>,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    durable: Durable,
}

pub(crate) fn run(args: &Del) -> Outcome {
    let keys = args.keys.iter().map(|key| args.hex.bytes(key));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let db = open::to_change(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let status = if keys.is_empty() {
        delete_range(args, &db, &keyspace)?
    } else {
        delete_keys(args, &keys, &db, &keyspace)?
    };
    drop(keyspace);
    db.close()?;
    Ok(status)
}

fn delete_range(args: &Del, db: &Db, keyspace: &Keyspace) -> Outcome {
    let bytes = |key: &Option<OsString>| key.as_ref().map(|k| args.hex.bytes(k)).transpose();
    let mut batch = WriteBatch::new();
    match bytes(&args.prefix)? {
        Some(prefix) => batch.delete_prefix(keyspace, prefix),
        None => {
            let from = bytes(&args.from)?.map_or(Bound::Unbounded, Bound::Included);
            let to = bytes(&args.to)?.map_or(Bound::Unbounded, Bound::Excluded);
            batch.delete_range(keyspace, (from, to))
        }
    };
    db.write_with(batch, &WriteOptions::new().durability(args.durable.durability))?;
    Ok(Status::Done)
}

fn delete_keys(args: &Del, keys: &[Vec<u8>], db: &Db, keyspace: &Keyspace) -> Outcome {
    let mut status = Status::Done;
    let mut batch = WriteBatch::new();
    for (key, typed) in keys.iter().zip(&args.keys) {
        if keyspace.contains_key(key)? {
            batch.delete(keyspace, key);
        } else {
            note!("not found: {}", typed.to_string_lossy());
            status = Status::Negative;
        }
    }
    db.write_with(batch, &WriteOptions::new().durability(args.durable.durability))?;
    Ok(status)
}
