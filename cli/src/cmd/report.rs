//! `cleave report`: writes what is known of a database as one HTML page.

use crate::doctor::facts::Facts;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use crate::report;
use clap::Args;
use cleavedb::Error;
use std::path::{Path, PathBuf};

/// Write a page with charts, findings, settings and counters, to be sent with a question
///
/// The page is one HTML file that needs nothing else. It has names of keyspaces, but no key and no
/// value. It reads all keys and changes nothing; a process that has the database open for writing
/// is asked.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// The database's directory
    dir: PathBuf,

    /// The file to write; standard output if it is `-`
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    let facts = Facts::gather(&args.dir)?;
    let page = report::page(&facts, &args.dir.display().to_string());
    let mut out = Output::new();
    if args.output == Path::new("-") {
        out.bytes(page.as_bytes())?;
    } else {
        let written = std::fs::write(&args.output, page);
        written.map_err(|error| Stop::Error(Error::io("write the report", &args.output, error)))?;
        out.line(format!("report written to {}", args.output.display()))?;
    }
    out.finish()?;
    Ok(Status::Done)
}
