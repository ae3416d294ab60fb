//! `cleave completions`: prints what a shell needs to complete commands and options by the Tab key.

use crate::args::Cli;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

/// Print a completion script for a shell
///
/// For bash: cleave completions bash > ~/.local/share/bash-completion/completions/cleave
///
/// For zsh, in a folder of $fpath: cleave completions zsh > _cleave
///
/// For fish: cleave completions fish > ~/.config/fish/completions/cleave.fish
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "cleave", &mut script);
    let mut out = Output::new();
    out.bytes(&script)?;
    out.finish()?;
    Ok(Status::Done)
}
