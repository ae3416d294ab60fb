//! `cleave check`: reads every byte of a database and says whether it is sound.

use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use crate::text::{human_bytes, human_count};
use clap::Args;
use cleavedb::{CheckReport, Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Verify every checksum, order and pointer; status 1 if something is wrong
#[derive(Args)]
pub(crate) struct Check {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &Check) -> Outcome {
    let mut out = Output::new();
    let report = match inspect_all(&args.dir) {
        Ok(report) => report,
        // Damage that keeps the database from opening is what this command is there to find.
        Err(error) if error.kind() == ErrorKind::Corruption => {
            out.line(error.to_string())?;
            out.line("damaged: the database does not open; restore the file from a checkpoint")?;
            out.finish()?;
            return Ok(Status::Negative);
        }
        Err(error) => return Err(Stop::Error(error)),
    };
    for problem in &report.problems {
        out.line(problem.to_string())?;
    }
    out.line(summary(&report))?;
    out.finish()?;
    Ok(if report.is_clean() { Status::Done } else { Status::Negative })
}

fn inspect_all(dir: &Path) -> Result<CheckReport, Error> {
    open::read_only(dir)?.check()
}

fn summary(report: &CheckReport) -> String {
    let verdict = match report.problem_count {
        0 => "sound".to_string(),
        1 => "damaged: 1 problem".to_string(),
        many => format!("damaged: {} problems", human_count(many)),
    };
    format!(
        "{verdict} ({} files, {}, {} table entries, {} records, {} pointers)",
        human_count(report.files),
        human_bytes(report.bytes),
        human_count(report.entries),
        human_count(report.records),
        human_count(report.pointers)
    )
}
