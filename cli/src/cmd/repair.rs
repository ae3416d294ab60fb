//! `cleave repair`: saves what a damaged database still holds.

use crate::open;
use crate::outcome::{Outcome, Status, Stop, reported};
use crate::output::Output;
use crate::place::{self, PathKind};
use crate::text::{counted, human_count};
use clap::Args;
use cleavedb::RepairReport;
use serde_json::json;
use std::path::PathBuf;

/// Save what a damaged database still holds, and make it open again; exit status 1 if data is lost
///
/// Restoring a checkpoint or a backup is better if there is one, for it has everything. A database
/// that opens and passes the check stays as it is. In any other, all readable tables, values and
/// the log are read, and a new tree is written from them. Files that cannot be used are moved to
/// the directory `lost` in it; nothing is removed.
#[derive(Args)]
pub(crate) struct Repair {
    /// The database's directory, which nobody has open
    dir: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Repair) -> Outcome {
    match place::look(&args.dir)? {
        // What is left of a damaged database may be unlike any.
        PathKind::Database | PathKind::Begun | PathKind::Other(_) => {}
        place => return Err(place.refuse(&args.dir).into()),
    }
    let report = open::builder(&args.dir).repair()?;
    let is_lossy = report.lost_keys > 0 || damaged_places(&report).is_some();
    let status = if is_lossy { Status::Negative } else { Status::Done };
    reported(print(&report, args.json), status)
}

fn print(report: &RepairReport, as_json: bool) -> Result<(), Stop> {
    let mut out = Output::new();
    if as_json {
        out.line(to_json(report).to_string())?;
    } else {
        for problem in &report.problems {
            out.line(problem.to_string())?;
        }
        out.line(summary(report))?;
    }
    out.finish()
}

/// Returns where parts could not be read of which nobody knows how many keys they had.
fn damaged_places(report: &RepairReport) -> Option<&'static str> {
    match (report.damaged_tables > 0, report.damaged_log_segments > 0) {
        (true, true) => Some("tables and of the log, and behind them,"),
        (true, false) => Some("tables"),
        (false, true) => Some("the log, and behind them,"),
        (false, false) => None,
    }
}

/// Says what became of keys that nobody knows: what is left of older versions shows again.
fn in_places(places: &str) -> String {
    format!("what was in damaged places of {places} is lost: its keys may have values from before")
}

fn summary(report: &RepairReport) -> String {
    if report.was_healthy {
        return "nothing is wrong with it; it stays as it is".to_owned();
    }
    let lost = match (damaged_places(report), report.lost_keys) {
        (Some(places), 0) => in_places(places),
        (Some(places), lost) => format!("{} lost, and {}", human_count(lost), in_places(places)),
        (None, 0) => "none known to be lost".to_owned(),
        (None, lost) => format!("{} lost", human_count(lost)),
    };
    let (keys, aside) = (counted(report.keys, "key"), counted(report.files_set_aside, "file"));
    let are = if report.files_set_aside == 1 { "is" } else { "are" };
    let mut text = format!("repaired: {keys}, {lost}; {aside} {are} in `lost`");
    if !report.recovered_keyspaces.is_empty() {
        let names = report.recovered_keyspaces.join(", ");
        text += &format!("; keyspaces that may have been dropped before: {names}");
    }
    text
}

/// Returns the JSON that `docs/json.md` describes.
fn to_json(report: &RepairReport) -> serde_json::Value {
    let problems = report.problems.iter().map(super::check::error).collect::<Vec<_>>();
    json!({
        "was_healthy": report.was_healthy,
        "keys": report.keys,
        "lost_keys": report.lost_keys,
        "tables": report.tables,
        "damaged_tables": report.damaged_tables,
        "segments": report.segments,
        "relocations": report.relocations,
        "log_records": report.log_records,
        "damaged_log_segments": report.damaged_log_segments,
        "recovered_keyspaces": report.recovered_keyspaces,
        "files_set_aside": report.files_set_aside,
        "problems": problems,
    })
}
