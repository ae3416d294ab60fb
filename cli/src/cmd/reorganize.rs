//! `cleave reorganize`: rewrites values in the order of their keys.

use crate::args::{Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::place;
use crate::text::human_bytes;
use clap::Args;
use std::ffi::OsString;
use std::ops::Bound;
use std::time::Instant;

/// Rewrite values in key order, so that scans read the device from front to back
///
/// The old copies become garbage. `cleave gc` frees them at once, automatic value GC in time.
#[derive(Args)]
pub(crate) struct Reorganize {
    #[command(flatten)]
    target: Target,

    /// Start at this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,

    /// Stop before this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,

    #[command(flatten)]
    hex: Hex,
}

pub(crate) fn run(args: &Reorganize) -> Outcome {
    let bytes = |key: &Option<OsString>| key.as_ref().map(|k| args.hex.bytes(k)).transpose();
    let from = bytes(&args.from)?.map_or(Bound::Unbounded, Bound::Included);
    let to = bytes(&args.to)?.map_or(Bound::Unbounded, Bound::Excluded);
    let db = open::to_change(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let before = place::allocated_bytes(&args.target.dir)?;
    let started = Instant::now();
    keyspace.reorganize((from, to))?;
    db.close()?;
    let after = place::allocated_bytes(&args.target.dir)?;
    let mut out = Output::new();
    out.line(format!(
        "reorganized in {:.1} s: {} before, {} now",
        started.elapsed().as_secs_f64(),
        human_bytes(before),
        human_bytes(after)
    ))?;
    out.finish()?;
    Ok(Status::Done)
}
