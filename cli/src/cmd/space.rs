//! `cleave space`: shows where every block of a database is, what it holds, and why it stays.

use crate::live::{LiveStore, pictured};
use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use crate::picture::{Caption, svg, terminal};
use clap::Args;
use cleavedb::{Error, Result, SpaceReport};
use std::path::{Path, PathBuf};

/// Report what takes space: live data, garbage, pinned versions, holes; by keyspace and segment
///
/// It reads all keys and changes nothing; if a process has the database open for writing, that one
/// does it. docs/space.md explains the numbers, and what to do about
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
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Space) -> Outcome {
    let live = LiveStore::announced(&args.dir);
    let is_drawn = args.map || args.svg.is_some();
    if let (Some(live), false) = (&live, is_drawn) {
        let mut out = Output::new();
        let report = live.have_done(if args.json { "space" } else { "space-text" })?;
        out.line(report.trim_end())?;
        out.finish()?;
        return Ok(Status::Done);
    }
    let (report, json) = reported(&args.dir, live)?;
    // The whole path, so that the picture still says whose it is when it lies elsewhere.
    let path = args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone());
    let caption = Caption::now(path.display().to_string());
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
        Space { json: true, .. } => out.line(json)?,
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

/// Returns the report of the process that has the database open, as far as pictures show it, or of
/// an opening of our own; and the whole of it as JSON.
fn reported(dir: &Path, live: Option<LiveStore>) -> Result<(SpaceReport, String)> {
    let Some(live) = live else {
        let report = open::to_walk(dir)?.space()?;
        let json = report.to_json();
        return Ok((report, json));
    };
    let told = live.have_told("space")?;
    Ok((pictured::report(&told), told.to_string()))
}
