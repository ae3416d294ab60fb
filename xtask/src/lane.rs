//! Steps that run one after another beside others, each with its output in a file.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::side_command::SideCommand;

/// A step: its name, its command, and the environment variables set for it.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) command: &'static str,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// The folder below the target folder in which its cargo builds, if that is not the target
    /// folder itself. Commands of xtask choose their own.
    pub(crate) folder: Option<&'static str>,
}

pub(crate) const fn step(name: &'static str, command: &'static str) -> Step {
    Step { name, command, environment: &[], folder: None }
}

/// Where steps run.
pub(crate) struct StepPlace {
    root: PathBuf,
    target: PathBuf,
    /// This program, which steps call as `cargo xtask`: cargo itself would wait for who builds.
    xtask: PathBuf,
}

impl StepPlace {
    pub(crate) fn new(root: &Path) -> io::Result<StepPlace> {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        StepPlace::with_target(root.to_owned(), root.join(target))
    }

    pub(crate) fn with_target(root: PathBuf, target: PathBuf) -> io::Result<StepPlace> {
        Ok(StepPlace { root, target, xtask: std::env::current_exe()? })
    }

    /// Returns the folder of what is built.
    #[cfg(test)]
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the command of a step, with its environment, for either way to wait for it.
    pub(crate) fn command(&self, step: &Step) -> io::Result<Command> {
        let own = step.command.strip_prefix("cargo xtask ");
        let mut words = own.unwrap_or(step.command).split_whitespace();
        let mut command = if own.is_some() {
            Command::new(&self.xtask)
        } else {
            let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
            // The cargo that runs us, not another one that is found first.
            let cargo = std::env::var_os("CARGO").filter(|_| program == "cargo");
            Command::new(cargo.unwrap_or_else(|| program.into()))
        };
        command.args(words).current_dir(&self.root).envs(step.environment.iter().copied());
        if let Some(folder) = step.folder {
            command.env("CARGO_TARGET_DIR", self.target.join(folder));
        }
        Ok(command)
    }

    /// Returns the file with what a step beside others prints.
    pub(crate) fn output(&self, step: &Step) -> PathBuf {
        self.target.join("ci").join(step.name.replace([' ', ','], "-") + ".log")
    }
}

/// A step that has ended beside others.
pub(crate) struct Ended<'a> {
    pub(crate) step: &'a Step,
    /// Whether it passed, and how long it took.
    pub(crate) outcome: (bool, Duration),
    pub(crate) printed: String,
}

/// Steps that run one at a time, on a thread of their own.
pub(crate) struct Lane<'a> {
    place: &'a StepPlace,
    steps: &'a [Step],
    state: Mutex<LaneState<'a>>,
}

#[derive(Default)]
struct LaneState<'a> {
    is_ended: bool,
    /// The step under way, which ends when this end of its standard input is dropped.
    running: Option<(&'a Step, Option<ChildStdin>)>,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(place: &'a StepPlace, steps: &'a [Step]) -> Lane<'a> {
        Lane { place, steps, state: Mutex::default() }
    }

    /// Runs the steps up to the first that fails, and sends how each has ended.
    pub(crate) fn run(&self, ended: &Sender<Ended<'a>>) {
        for step in self.steps {
            let Some((outcome, printed)) = self.run_step(step) else {
                return;
            };
            if ended.send(Ended { step, outcome, printed }).is_err() || !outcome.0 {
                return;
            }
        }
    }

    /// Returns how a step ended and what it printed, or nothing if the lane was ended.
    fn run_step(&self, step: &'a Step) -> Option<((bool, Duration), String)> {
        let mut state = self.state();
        if state.is_ended {
            return None;
        }
        let command = self.place.command(step);
        let command =
            command.and_then(|command| SideCommand::begin(&command, &self.place.output(step)));
        let mut command = match command {
            Ok(command) => command,
            Err(error) => {
                let printed = format!("{} cannot be run: {error}\n", step.command);
                return Some(((false, Duration::ZERO), printed));
            }
        };
        state.running = Some((step, command.hold()));
        drop(state);
        let outcome = command.wait();
        let mut state = self.state();
        state.running = None;
        (!state.is_ended).then(|| (outcome, command.printed()))
    }

    /// Ends the step under way, because one of another lane has failed, and begins no other.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_ended = true;
        if let Some((step, held)) = state.running.take() {
            let output = self.place.output(step);
            println!("== {} is ended; what it printed is in {}", step.name, output.display());
            drop(held);
        }
    }

    fn state(&self) -> MutexGuard<'_, LaneState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
