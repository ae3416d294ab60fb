//! `cleave ingest`: takes sorted files into a database.

use crate::args::{CreateKeyspace, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::note;
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
    note!("ingested {}, {} in {seconds:.1} s", counted(report.entries, "key"), rest(&report));
    if let Some(warning) = in_clear(&report) {
        note!("{warning}");
    }
    Ok(Status::Done)
}

/// Says that files can be read although the database is encrypted.
pub(crate) fn in_clear(report: &IngestReport) -> Option<String> {
    let (files, are) = match report.files_in_clear {
        0 => return None,
        1 => ("1 file".to_owned(), "is"),
        count => (counted(count, "file"), "are"),
    };
    Some(format!(
        "{files} {are} not encrypted, as the database is: remove what is no longer needed; \
         `cleave sort --key-file` encrypts"
    ))
}

/// Returns what a report says besides the number of keys.
pub(crate) fn rest(report: &IngestReport) -> String {
    format!("{}, left out {}", human_bytes(report.bytes_written), human_count(report.skipped))
}
