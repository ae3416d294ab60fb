//! `cleave pause` and `cleave resume`: stop and start value GC of a process that has a database
//! open.

use crate::live;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use std::path::PathBuf;

/// Pause automatic value GC of the process that has a database open, until `resume`
///
/// This is for a time that needs all of the device. Dead values keep their space meanwhile, and
/// nobody is held up for that: space may grow beyond any bound.
#[derive(Args)]
#[command(name = "pause")]
pub(crate) struct PauseArgs {
    /// The database's directory
    dir: PathBuf,
}

/// End the pause of automatic value GC
#[derive(Args)]
#[command(name = "resume")]
pub(crate) struct ResumeArgs {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn pause(args: &PauseArgs) -> Outcome {
    live::required(&args.dir)?.ask("pause")?;
    say("value GC is paused")
}

pub(crate) fn resume(args: &ResumeArgs) -> Outcome {
    live::required(&args.dir)?.ask("resume")?;
    say("value GC goes on")
}

fn say(text: &str) -> Outcome {
    let mut out = Output::new();
    out.line(text)?;
    out.finish()?;
    Ok(Status::Done)
}
