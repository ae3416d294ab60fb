//! `cleave restore`: makes a database of a point of a backup.

use crate::cmd::backups::backups;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::text::{counted, human_bytes, parse_size};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Make a database of a point of a backup
///
/// All files of the point are verified before anything is written, and again while they are
/// copied. No key is needed; an encrypted database is opened with the key that it had then.
#[derive(Args)]
pub(crate) struct Restore {
    /// The backup's directory
    backup: PathBuf,

    /// The directory of the database, which must not exist, or be empty
    target: PathBuf,

    /// The point to restore [default: the newest]
    #[arg(long, value_name = "NUMBER")]
    point: Option<u64>,

    /// Read at most this much per second, such as 50M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Restore) -> Outcome {
    let begun = Instant::now();
    let report = backups(&args.backup, args.rate).restore(args.point, &args.target)?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut out = Output::new();
    if args.json {
        let json = json!({
            "point": report.point,
            "files": report.files,
            "bytes": report.bytes,
        });
        out.line(json.to_string())?;
    } else {
        out.line(format!(
            "point {} restored to {}: {}, {}, in {seconds:.3} s",
            report.point,
            args.target.display(),
            counted(report.files, "file"),
            human_bytes(report.bytes)
        ))?;
    }
    out.finish()?;
    Ok(Status::Done)
}
