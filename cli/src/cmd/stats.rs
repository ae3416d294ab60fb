//! `cleave stats`: shows what a database holds and where its bytes are. A process that has it open
//! tells what it did since then.

use crate::args::PinTree;
use crate::live::LiveStore;
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use cleavedb::{Options, Result};
use std::path::PathBuf;

/// Print the statistics of a database: levels, segments, bytes
///
/// If a process has it open for writing, they are that process's, since its opening.
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
    let text = match LiveStore::announced(&args.dir) {
        Some(live) => live.ask(if args.json { "stats" } else { "stats-text" })?,
        None => own_stats(args)?,
    };
    let mut out = Output::new();
    out.line(text.trim_end())?;
    out.finish()?;
    Ok(Status::Done)
}

/// Returns the statistics of an opening of our own, which has done nothing yet.
fn own_stats(args: &StatsArgs) -> Result<String> {
    let options = args.pin_tree.apply(Options::default());
    let stats = open::to_read_with(&args.dir, options)?.stats();
    Ok(if args.json { stats.to_json() } else { stats.to_string() })
}
