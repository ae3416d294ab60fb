//! Long answers on a terminal go through a pager, so that their beginning can be read.

use crate::outcome::Stop;
use crate::output::Output;
use cleavedb::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Commands whose answers can be longer than a screen.
const LONG: [&str; 6] = ["scan", "changes", "keyspaces", "stats", "space", "help"];

/// A pager that shows the answer of a command.
pub(super) struct AnswerPager(Child);

impl AnswerPager {
    /// Starts the pager for the command that `line` begins with, if its answer may be long: the one
    /// that PAGER names, or `less`. Returns `None` where there is no pager.
    pub(super) fn start(line: &str) -> Option<(AnswerPager, Output)> {
        let verb = line.split_whitespace().next()?.to_ascii_lowercase();
        if !LONG.contains(&verb.as_str()) {
            return None;
        }
        let named = std::env::var("PAGER").unwrap_or_else(|_| "less".into());
        let mut words = named.split_whitespace();
        let mut command = Command::new(words.next().filter(|program| *program != "cat")?);
        command.args(words).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            // Leave at once if all fits on the screen, and leave what was shown on it.
            command.env("LESS", "FRX");
        }
        let mut child = command.spawn().ok()?;
        let output = Output::to_pager(child.stdin.take()?);
        Some((AnswerPager(child), output))
    }

    /// Waits until the person has read it.
    pub(super) fn wait(mut self) -> Result<(), Stop> {
        let waited = self.0.wait();
        waited.map_err(|error| Error::io("wait for", Path::new("the pager"), error))?;
        Ok(())
    }
}
