//! `cleave compact`: rewrites the tree so that no superseded entry is left in it.

use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::place;
use crate::text::human_bytes;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// Compact all keyspaces, and wait for it
#[derive(Args)]
pub(crate) struct Compact {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &Compact) -> Outcome {
    let db = open::to_change(&args.dir)?;
    let before = place::allocated_bytes(&args.dir)?;
    let started = Instant::now();
    db.compact()?;
    db.close()?;
    let after = place::allocated_bytes(&args.dir)?;
    let mut out = Output::new();
    out.line(format!(
        "compacted in {:.1} s: {} before, {} now",
        started.elapsed().as_secs_f64(),
        human_bytes(before),
        human_bytes(after)
    ))?;
    out.finish()?;
    Ok(Status::Done)
}
