//! `cleave backup`: adds a point to a backup.

use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::progress;
use crate::text::{counted, human_bytes, parse_size};
use clap::Args;
use cleavedb::{BackupOptions, BackupReport};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Add a point to a backup: a whole state of the database, which shares files with earlier points
///
/// Only files that the backup does not have are read and copied, so all but the first point cost
/// what was written since. Nothing in the database changes. `cleave backups` lists, verifies and
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
    let db = open::read_only(&args.dir)?;
    let mut options = BackupOptions::new().verify(args.verify).on_progress(progress::of_pass());
    if let Some(keep) = args.keep {
        options = options.keep(keep);
    }
    if let Some(rate) = args.rate {
        options = options.bytes_per_second(rate as u64);
    }
    let begun = Instant::now();
    let report = db.backup_with(&args.backup, &options)?;
    // This wipes the line of progress.
    drop(options);
    let mut out = Output::new();
    let seconds = begun.elapsed().as_secs_f64();
    match args.json {
        true => out.line(to_json(&report))?,
        false => to_lines(&report, seconds).iter().try_for_each(|line| out.line(line.clone()))?,
    }
    out.finish()?;
    Ok(Status::Done)
}

fn to_lines(report: &BackupReport, seconds: f64) -> Vec<String> {
    let mut lines = vec![format!(
        "point {}: {}, {}; copied {}, {}, in {seconds:.3} s",
        report.point,
        counted(report.files, "file"),
        human_bytes(report.bytes),
        counted(report.copied_files, "file"),
        human_bytes(report.copied_bytes)
    )];
    for point in &report.deleted_points {
        lines.push(format!("point {point} was deleted"));
    }
    if report.freed_bytes > 0 {
        lines.push(format!("{} came back", human_bytes(report.freed_bytes)));
    }
    for error in &report.unreadable {
        lines.push(format!("a point cannot be read, so no file was removed: {error}"));
    }
    lines
}

/// Returns the JSON that `docs/json.md` describes.
fn to_json(report: &BackupReport) -> String {
    json!({
        "point": report.point,
        "files": report.files,
        "bytes": report.bytes,
        "copied_files": report.copied_files,
        "copied_bytes": report.copied_bytes,
        "deleted_points": report.deleted_points,
        "freed_bytes": report.freed_bytes,
        "unreadable": report.unreadable.iter().map(super::check::error).collect::<Vec<_>>(),
    })
    .to_string()
}
