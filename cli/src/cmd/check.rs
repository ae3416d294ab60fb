//! `cleave check`: reads every byte of a database and says whether it is sound.

use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use crate::text::{human_bytes, human_count};
use clap::Args;
use cleavedb::{CheckReport, Error, ErrorKind, RecoveryReport};
use std::path::{Path, PathBuf};

/// Verify every checksum, order and pointer; status 1 if something is wrong
#[derive(Args)]
pub(crate) struct Check {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &Check) -> Outcome {
    let mut out = Output::new();
    let (report, replayed) = match inspect_all(&args.dir) {
        Ok(found) => found,
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
    out.line(summary(&report, &replayed))?;
    out.finish()?;
    Ok(if report.is_clean() { Status::Done } else { Status::Negative })
}

/// What was found, and what replay had verified before, as part of the opening.
fn inspect_all(dir: &Path) -> Result<(CheckReport, RecoveryReport), Error> {
    let db = open::read_only(dir)?;
    Ok((db.check()?, db.recovery().clone()))
}

fn summary(report: &CheckReport, replayed: &RecoveryReport) -> String {
    let verdict = match report.problem_count {
        0 => "sound".to_string(),
        1 => "damaged: 1 problem".to_string(),
        many => format!("damaged: {} problems", human_count(many)),
    };
    let log = match replayed.replayed_records {
        0 => String::new(),
        // All there is after a kill before the first flush.
        records => format!("; {} records replayed", human_count(records)),
    };
    format!(
        "{verdict} ({} files, {}, {} table entries, {} records, {} pointers{log})",
        human_count(report.files),
        human_bytes(report.bytes),
        human_count(report.entries),
        human_count(report.records),
        human_count(report.pointers)
    )
}
