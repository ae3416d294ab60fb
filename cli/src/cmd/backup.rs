//! `cleave backup`: adds a point to a backup.

use crate::live::{self, LiveStore};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::progress;
use crate::text::{counted, human_bytes, parse_size};
use clap::Args;
use cleavedb::{BackupOptions, BackupReport, Error, ErrorKind, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Instant;

/// Add a point to a backup: a whole state of the database, which shares files with earlier points
///
/// Only files that the backup does not have are read and copied, so all but the first point cost
/// what was written since. Nothing in the database changes. If a process has the database open for
/// writing, that one makes the point, between two commits. `cleave backups` lists, verifies and
/// deletes points; `cleave restore` makes a database of one.
#[derive(Args)]
pub(crate) struct Backup {
    /// The database's directory
    dir: PathBuf,

    /// The backup's directory, which holds nothing else; created if need be
    backup: PathBuf,

    /// Keep this many points, the new one included, and delete older ones [default: all]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,

    /// Read the files that the backup has, too, and copy those that are damaged again
    #[arg(long)]
    verify: bool,

    /// Read at most this much per second, such as 50M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Backup) -> Outcome {
    let begun = Instant::now();
    let json = match LiveStore::announced(&args.dir) {
        Some(live) => live.have_done(&request(args)?)?,
        None => of_own_opening(args)?.to_json(),
    };
    let mut out = Output::new();
    if args.json {
        out.line(json)?;
    } else {
        let report = serde_json::from_str(&json).map_err(|error| odd(&error))?;
        let lines = to_lines(&report, begun.elapsed().as_secs_f64());
        lines.into_iter().try_for_each(|line| out.line(line))?;
    }
    out.finish()?;
    Ok(Status::Done)
}

fn odd(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the report of the backup is odd: {error}"))
}

fn of_own_opening(args: &Backup) -> Result<BackupReport> {
    let db = open::read_only(&args.dir)?;
    let mut options = BackupOptions::new().verify(args.verify).on_progress(progress::of_pass());
    if let Some(keep) = args.keep {
        options = options.keep(keep);
    }
    if let Some(rate) = args.rate {
        options = options.bytes_per_second(rate as u64);
    }
    // The line of progress is wiped as the options go.
    db.backup_with(&args.backup, &options)
}

/// Returns what the process that has the database open is asked for. It may be in another
/// directory.
fn request(args: &Backup) -> Result<String> {
    let dir = std::path::absolute(&args.backup)
        .map_err(|error| Error::io("find", &args.backup, error))?;
    let mut request = format!("backup {}", live::argument(dir.as_os_str().as_encoded_bytes()));
    if let Some(keep) = args.keep {
        request += &format!(" keep={keep}");
    }
    if let Some(rate) = args.rate {
        request += &format!(" rate={rate}");
    }
    if args.verify {
        request += " verify";
    }
    Ok(request)
}

/// Returns the lines for people, of the report as `docs/json.md` describes it.
fn to_lines(report: &Value, seconds: f64) -> Vec<String> {
    let number = |field: &str| report[field].as_u64().unwrap_or_default();
    let list = |field: &str| report[field].as_array().into_iter().flatten();
    let mut lines = vec![format!(
        "point {}: {}, {}; copied {}, {}, in {seconds:.3} s",
        number("point"),
        counted(number("files"), "file"),
        human_bytes(number("bytes")),
        counted(number("copied_files"), "file"),
        human_bytes(number("copied_bytes"))
    )];
    lines.extend(list("deleted_points").map(|point| format!("point {point} was deleted")));
    if number("freed_bytes") > 0 {
        lines.push(format!("{} came back", human_bytes(number("freed_bytes"))));
    }
    lines.extend(list("unreadable").map(|error| {
        let error = live::error_of(error);
        format!("a point cannot be read, so no file was removed: {error}")
    }));
    lines
}
