//! `cleave ttl`: prints how long a value stays.

use crate::args::{Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::{Output, note};
use crate::time;
use clap::Args;
use std::ffi::OsString;

/// Print how long the value of a key stays, in ms, or `never`; exit status 1 if it has none
#[derive(Args)]
pub(crate) struct TtlArgs {
    #[command(flatten)]
    target: Target,

    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,

    #[command(flatten)]
    hex: Hex,
}

pub(crate) fn run(args: &TtlArgs) -> Outcome {
    let key = args.hex.bytes(&args.key)?;
    let db = open::to_read(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let Some(ttl) = keyspace.ttl(key)? else {
        note!("not found: {}", args.key.to_string_lossy());
        return Ok(Status::Negative);
    };
    let mut out = Output::new();
    out.line(time::ttl(ttl))?;
    out.finish()?;
    Ok(Status::Done)
}
