//! `cleave compact`: rewrites the tree so that no superseded entry is left in it.

use crate::live::LiveStore;
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::place;
use crate::text::human_bytes;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// Compact all keyspaces, and wait for it
///
/// If a process has the database open for writing, that one compacts.
#[derive(Args)]
pub(crate) struct Compact {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &Compact) -> Outcome {
    let live = LiveStore::announced(&args.dir);
    let db = if live.is_none() { Some(open::to_change(&args.dir)?) } else { None };
    let before = place::allocated_bytes(&args.dir)?;
    let started = Instant::now();
    if let Some(live) = live {
        live.have_done("compact")?;
    }
    if let Some(db) = db {
        db.compact()?;
        db.close()?;
    }
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
