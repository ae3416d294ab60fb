//! `cleave space`: shows where every block of a database is, what it holds, and why it stays.

use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use crate::picture::{Caption, svg, terminal};
use clap::Args;
use cleavedb::Error;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Report what takes space: live data, garbage, pinned versions, holes; by keyspace and segment
///
/// It reads all keys and changes nothing. docs/space.md explains the numbers, and what to do about
/// each.
#[derive(Args)]
pub(crate) struct Space {
    /// The database's directory
    dir: PathBuf,

    /// Print one JSON object
    #[arg(long, conflicts_with = "map")]
    json: bool,

    /// Draw the segments, in colour on a terminal unless NO_COLOR is set
    #[arg(long)]
    map: bool,

    /// Draw the segments into an SVG file, or to standard output if it is `-`
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Space) -> Outcome {
    let report = open::to_walk(&args.dir)?.space()?;
    // The whole path, so that the picture still says whose it is when it lies elsewhere.
    let path = args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone());
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let caption = Caption { path: path.display().to_string(), at: since_1970 };
    let mut out = Output::new();
    if let Some(file) = &args.svg {
        let picture = svg::draw(&report, &caption);
        if file == Path::new("-") {
            out.bytes(picture.as_bytes())?;
            out.finish()?;
            return Ok(Status::Done);
        }
        let written = std::fs::write(file, picture);
        written.map_err(|error| Stop::Error(Error::io("write the picture", file, error)))?;
    }
    match args {
        Space { json: true, .. } => out.line(report.to_json())?,
        Space { map: true, .. } => {
            let colours = Output::is_terminal() && terminal::may_colour();
            let picture = terminal::draw(&report, &caption, terminal::width(), colours);
            out.bytes(picture.as_bytes())?;
        }
        Space { svg: Some(file), .. } => out.line(format!("map drawn to {}", file.display()))?,
        _ => out.line(report.to_string().trim_end())?,
    }
    out.finish()?;
    Ok(Status::Done)
}
