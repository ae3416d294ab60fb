//! `cleave checkpoint`: makes a complete second database as of now, mostly by hard links.

use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use std::path::PathBuf;

/// Make a complete copy of this moment in a new directory
///
/// Files that never change again are hard links to the same bytes: quick, and no second medium.
#[derive(Args)]
pub(crate) struct Checkpoint {
    /// The database's directory
    dir: PathBuf,

    /// The new directory; must not exist
    target: PathBuf,
}

pub(crate) fn run(args: &Checkpoint) -> Outcome {
    let db = open::to_change(&args.dir)?;
    db.checkpoint(&args.target)?;
    db.close()?;
    let mut out = Output::new();
    out.line(format!("checkpoint written to {}", args.target.display()))?;
    out.finish()?;
    Ok(Status::Done)
}
