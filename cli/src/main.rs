//! The command `cleave`. Everything it does to a database goes through the engine's public API;
//! opening is in [`open`], one file per command in [`cmd`].
//!
//! The exit status is 0 for done, 1 for not found, not as expected or a failed check, 2 for an
//! error. An error is reported on standard error: what happened, where, and what to do.

#![deny(clippy::print_stderr, reason = "it panics if standard error is closed: `output::note`")]

mod args;
mod cmd;
mod doctor;
mod export;
mod format;
mod http;
mod import;
mod live;
mod open;
mod outcome;
mod output;
mod picture;
mod place;
mod progress;
mod random;
mod report;
mod sync;
mod text;
mod time;
mod top;

use args::Cli;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    open::set_key_file(cli.key_file);
    outcome::exit_code(cmd::run(cli.command))
}
