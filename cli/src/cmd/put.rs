//! `cleave put`: stores one value, from the command line or, byte for byte, from standard input.

use crate::args::{CreateKeyspace, Durable, Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::time;
use clap::Args;
use cleavedb::{Error, Expiry, Options, Result, WriteOptions};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;

/// Put a value under a key; creates the database if it does not exist
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    create: CreateKeyspace,

    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,

    /// The value; `-` reads it from standard input, byte for byte (also with --hex)
    #[arg(allow_hyphen_values = true)]
    value: OsString,

    /// Let it expire after this time: 500ms, 10s, 5m, 2h, 7d; or `never` [default: that of the
    /// keyspace]
    #[arg(long, value_name = "TIME", value_parser = time::expiry)]
    ttl: Option<Expiry>,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    durable: Durable,
}

pub(crate) fn run(args: &Put) -> Outcome {
    let key = args.hex.bytes(&args.key)?;
    let value = if args.value == "-" { standard_input()? } else { args.hex.bytes(&args.value)? };
    let (dir, name, create) = (&args.target.dir, &args.target.keyspace, args.create.create);
    let (db, keyspace) = open::to_fill_keyspace(dir, name, create, Options::default())?;
    let mut options = WriteOptions::new().durability(args.durable.durability);
    options.expiry = args.ttl;
    keyspace.put_with(key, value, &options)?;
    drop(keyspace);
    db.close()?;
    Ok(Status::Done)
}

fn standard_input() -> Result<Vec<u8>> {
    let mut value = Vec::new();
    io::stdin()
        .read_to_end(&mut value)
        .map_err(|error| Error::io("read the value", Path::new("standard input"), error))?;
    Ok(value)
}
