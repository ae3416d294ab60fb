//! `cleave get`: prints one value.

use crate::args::{Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::{Output, note};
use crate::text;
use clap::Args;
use cleavedb::Versioned;
use std::ffi::OsString;

/// Print the value of a key; exit status 1 if it has none
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    target: Target,

    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,

    #[command(flatten)]
    hex: Hex,

    /// Print the bytes of the value only, without a newline at the end
    #[arg(long, conflicts_with = "hex")]
    raw: bool,

    /// Print the version of the value and a tab before it, for `cleave cas --if-version`
    #[arg(long, conflicts_with = "raw")]
    with_version: bool,
}

pub(crate) fn run(args: &Get) -> Outcome {
    let key = args.hex.bytes(&args.key)?;
    let db = open::to_read(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let Some(Versioned { value, version, .. }) = keyspace.get_versioned(key)? else {
        note!("not found: {}", args.key.to_string_lossy());
        return Ok(Status::Negative);
    };
    let mut out = Output::new();
    if args.with_version {
        out.bytes(format!("{version}\t").as_bytes())?;
    }
    match (args.hex.hex, args.raw) {
        (true, _) => out.line(text::hex(&value))?,
        (false, true) => out.bytes(&value)?,
        (false, false) => out.line(&value)?,
    }
    out.finish()?;
    Ok(Status::Done)
}
