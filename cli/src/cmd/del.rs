//! `cleave del`: removes keys, all or none.

use crate::args::{Durable, Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use clap::Args;
use cleavedb::{WriteBatch, WriteOptions};
use std::ffi::OsString;

/// Delete keys, all of them or none; exit status 1 if one of them did not exist
#[derive(Args)]
pub(crate) struct Del {
    #[command(flatten)]
    target: Target,

    /// The keys; after `--` they may begin with a dash
    #[arg(required = true)]
    keys: Vec<OsString>,

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
    let mut status = Status::Done;
    let mut batch = WriteBatch::new();
    for (key, typed) in keys.iter().zip(&args.keys) {
        if keyspace.contains_key(key)? {
            batch.delete(&keyspace, key);
        } else {
            eprintln!("not found: {}", typed.to_string_lossy());
            status = Status::Negative;
        }
    }
    db.write_with(batch, &WriteOptions::new().durability(args.durable.durability))?;
    drop(keyspace);
    db.close()?;
    Ok(status)
}
