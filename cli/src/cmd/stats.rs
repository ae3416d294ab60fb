//! `cleave stats`: shows what a database holds and where its bytes are.

use crate::args::PinTree;
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use cleavedb::Options;
use std::path::PathBuf;

/// Print the statistics of a database: levels, segments, bytes
#[derive(Args)]
#[command(name = "stats")]
pub(crate) struct StatsArgs {
    /// The database's directory
    dir: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pin_tree: PinTree,
}

pub(crate) fn run(args: &StatsArgs) -> Outcome {
    let stats = open::to_read_with(&args.dir, args.pin_tree.apply(Options::default()))?.stats();
    let mut out = Output::new();
    if args.json {
        out.line(stats.to_json())?;
    } else {
        out.line(stats.to_string().trim_end())?;
    }
    out.finish()?;
    Ok(Status::Done)
}
