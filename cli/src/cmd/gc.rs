//! `cleave gc`: frees the space of dead values now.

use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::place;
use crate::text::{counted, human_bytes};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// Free the space of dead values now; automatic value GC also frees it, in time
///
/// `cleave space` shows how much there is to free.
#[derive(Args)]
pub(crate) struct Gc {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &Gc) -> Outcome {
    let db = open::to_change(&args.dir)?;
    let before = place::allocated_bytes(&args.dir)?;
    let started = Instant::now();
    let report = db.gc()?;
    db.close()?;
    let after = place::allocated_bytes(&args.dir)?;
    let mut out = Output::new();
    out.line(format!(
        "collected in {:.1} s: {} freed, {} moved ({} written); \
         {} before, {} now",
        started.elapsed().as_secs_f64(),
        counted(report.segments_freed, "segment"),
        counted(report.values_moved, "value"),
        human_bytes(report.bytes_written),
        human_bytes(before),
        human_bytes(after)
    ))?;
    out.finish()?;
    Ok(Status::Done)
}
