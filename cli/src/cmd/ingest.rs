//! `cleave ingest`: takes sorted files into a database.

use crate::args::{CreateKeyspace, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::text::{counted, human_bytes, human_count};
use clap::Args;
use cleavedb::{IngestOptions, IngestReport, Options};
use std::path::PathBuf;
use std::time::Instant;

/// Take files that `cleave sort` or a program has written into a database, all at once
///
/// All of their keys take effect at one moment, or none. The files stay as they are. If several
/// have the same key, the one that is named last counts.
#[derive(Args)]
pub(crate) struct Ingest {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    create: CreateKeyspace,

    /// The sorted files
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Leave keys as they are that have a value already
    #[arg(long)]
    below: bool,
}

pub(crate) fn run(args: &Ingest) -> Outcome {
    let (dir, name, create) = (&args.target.dir, &args.target.keyspace, args.create.create);
    let (db, keyspace) = open::to_fill_keyspace(dir, name, create, Options::default())?;
    let begun = Instant::now();
    let report = keyspace.ingest(&args.files, &IngestOptions::new().below(args.below))?;
    let seconds = begun.elapsed().as_secs_f64();
    drop(keyspace);
    db.close()?;
    eprintln!("ingested {}, {} in {seconds:.1} s", counted(report.entries, "key"), rest(&report));
    Ok(Status::Done)
}

/// Returns what a report says besides the number of keys.
pub(crate) fn rest(report: &IngestReport) -> String {
    format!("{}, left out {}", human_bytes(report.bytes_written), human_count(report.skipped))
}
