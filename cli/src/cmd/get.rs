//! `cleave get`: prints one value.

use crate::args::{Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::text;
use clap::Args;
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
}

pub(crate) fn run(args: &Get) -> Outcome {
    let key = args.hex.bytes(&args.key)?;
    let db = open::read_only(&args.target.dir)?;
    let Some(value) = open::known_keyspace(&db, &args.target.keyspace)?.get(key)? else {
        eprintln!("not found: {}", args.key.to_string_lossy());
        return Ok(Status::Negative);
    };
    let mut out = Output::new();
    match (args.hex.hex, args.raw) {
        (true, _) => out.line(text::hex(&value))?,
        (false, true) => out.bytes(&value)?,
        (false, false) => out.line(&value)?,
    }
    out.finish()?;
    Ok(Status::Done)
}
