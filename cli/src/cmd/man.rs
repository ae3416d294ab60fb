//! `cleave man`: writes manual pages, one for `cleave` itself and one for each of its commands.

use crate::args::Cli;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::{Args, CommandFactory};
use cleavedb::Error;
use std::path::{Path, PathBuf};

/// Write manual pages into a directory
///
/// Packages install them in share/man/man1. To read one, run `man -l DIR/cleave-space.1`.
#[derive(Args)]
pub(crate) struct Man {
    /// The directory, which is created if it does not exist
    dir: PathBuf,
}

pub(crate) fn run(args: &Man) -> Outcome {
    let failed = |what: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |error| Error::io(what, &path, error)
    };
    std::fs::create_dir_all(&args.dir).map_err(failed("create", &args.dir))?;
    // The pages are named after the list of commands, `help` included.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::generate_to(command, &args.dir).map_err(failed("write", &args.dir))?;
    let mut out = Output::new();
    out.line(format!("manual pages written to {}", args.dir.display()))?;
    out.finish()?;
    Ok(Status::Done)
}
