//! `cleave backups`: lists, verifies and deletes the points of a backup.

use crate::outcome::{Outcome, Status, Stop, reported};
use crate::output::Output;
use crate::progress;
use crate::text::{counted, human_bytes, human_count, parse_size};
use crate::time::date;
use clap::{Args, Subcommand};
use cleavedb::{BackupCheck, BackupPoint, BackupProblem, Backups, DeletedPoints};
use serde_json::json;
use std::path::{Path, PathBuf};

/// List the points of a backup, or verify or delete some
#[derive(Args)]
pub(crate) struct BackupsArgs {
    /// The backup's directory
    backup: PathBuf,

    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    action: Option<PointAction>,
}

#[derive(Subcommand)]
enum PointAction {
    /// Read every file and compare it with its checksum; needs no key. Exit status 1 if something
    /// is damaged
    Verify {
        /// Verify this point alone
        #[arg(long, value_name = "NUMBER")]
        point: Option<u64>,

        /// Read at most this much per second, such as 50M
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        rate: Option<usize>,
    },
    /// Delete points, and the files that only they need
    Delete {
        /// The numbers of the points
        #[arg(required = true)]
        points: Vec<u64>,
    },
    /// Delete all points but the newest
    Keep {
        /// The number of points to keep
        count: usize,
    },
}

/// Returns the backup in a directory, with a line of progress and a bound on the rate of reads.
pub(super) fn backups(dir: &Path, rate: Option<usize>) -> Backups {
    let backups = Backups::new(dir).on_progress(progress::of_pass());
    match rate {
        Some(rate) => backups.bytes_per_second(rate as u64),
        None => backups,
    }
}

pub(crate) fn run(args: &BackupsArgs) -> Outcome {
    match &args.action {
        None => list(args),
        Some(PointAction::Verify { point, rate }) => {
            let check = backups(&args.backup, *rate).verify(*point)?;
            let status = if check.is_sound() { Status::Done } else { Status::Negative };
            reported(show_check(args, &check), status)
        }
        Some(PointAction::Delete { points }) => {
            show_deleted(args, &Backups::new(&args.backup).delete(points)?)
        }
        Some(PointAction::Keep { count }) => {
            show_deleted(args, &Backups::new(&args.backup).keep_newest(*count)?)
        }
    }
}

fn list(args: &BackupsArgs) -> Outcome {
    let list = Backups::new(&args.backup).list()?;
    let mut out = Output::new();
    if args.json {
        out.line(list.to_json())?;
    } else {
        for point in &list.points {
            out.line(to_line(point))?;
        }
        for (number, error) in &list.unreadable {
            out.line(format!("point {number} cannot be read: {error}"))?;
        }
        if list.points.is_empty() && list.unreadable.is_empty() {
            out.line("no point")?;
        }
    }
    out.finish()?;
    Ok(Status::Done)
}

fn to_line(point: &BackupPoint) -> String {
    format!(
        "point {}: {}, commit {}, {}, {}, of which it added {}{}",
        point.number,
        date(point.made),
        human_count(point.seqno),
        counted(point.files, "file"),
        human_bytes(point.bytes),
        human_bytes(point.added_bytes),
        if point.is_encrypted { ", encrypted" } else { "" }
    )
}

fn show_check(args: &BackupsArgs, check: &BackupCheck) -> Result<(), Stop> {
    let mut out = Output::new();
    if args.json {
        out.line(check_json(check))?;
    } else {
        for problem in &check.problems {
            out.line(format!("{}; needed by {}", problem.error, points(&problem.points)))?;
        }
        let verdict = match check.problems.len() {
            0 => "sound".to_owned(),
            many => format!("damaged: {}", counted(many as u64, "problem")),
        };
        let (files, bytes) = (counted(check.files, "file"), human_bytes(check.bytes));
        out.line(format!("{verdict} ({files}, {bytes}, of {})", points(&check.points)))?;
    }
    out.finish()
}

/// Formats the numbers of points for people.
fn points(numbers: &[u64]) -> String {
    match numbers {
        [] => "no point".to_owned(),
        [one] => format!("point {one}"),
        many => {
            let numbers = many.iter().map(u64::to_string).collect::<Vec<_>>();
            format!("points {}", numbers.join(", "))
        }
    }
}

/// Returns the JSON that `docs/json.md` describes.
fn check_json(check: &BackupCheck) -> String {
    let problem = |problem: &BackupProblem| {
        let mut json = super::check::error(&problem.error);
        json["points"] = json!(problem.points);
        json
    };
    json!({
        "status": if check.is_sound() { "sound" } else { "damaged" },
        "points": check.points,
        "files": check.files,
        "bytes": check.bytes,
        "problems": check.problems.iter().map(problem).collect::<Vec<_>>(),
    })
    .to_string()
}

fn show_deleted(args: &BackupsArgs, deleted: &DeletedPoints) -> Outcome {
    let mut out = Output::new();
    if args.json {
        let json = json!({ "points": deleted.points, "freed_bytes": deleted.freed_bytes });
        out.line(json.to_string())?;
    } else {
        let (deleted, freed) = (points(&deleted.points), human_bytes(deleted.freed_bytes));
        out.line(format!("deleted {deleted}; {freed} came back"))?;
    }
    out.finish()?;
    Ok(Status::Done)
}
