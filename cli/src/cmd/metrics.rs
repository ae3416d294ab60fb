//! `cleave metrics`: shows what a monitoring system would be told.

use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use std::path::PathBuf;

/// Print the statistics as OpenMetrics text, which Prometheus and others read
///
/// Counters begin at 0 with each opening, so here they tell only what this opening did. A program
/// serves those of its own with `Stats::to_openmetrics`.
#[derive(Args)]
pub(crate) struct Metrics {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &Metrics) -> Outcome {
    let mut out = Output::new();
    out.line(open::to_read(&args.dir)?.stats().to_openmetrics().trim_end())?;
    out.finish()?;
    Ok(Status::Done)
}
