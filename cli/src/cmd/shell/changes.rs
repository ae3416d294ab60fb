//! The shell's command that prints what was committed.

use super::run::{Session, number};
use crate::format::changes;
use crate::outcome::Stop;
use crate::output::Output;
use cleavedb::Result;

impl Session<'_> {
    /// Prints the changes behind a number; returns false for all other commands.
    pub(super) fn answer_about_changes(
        &self,
        verb: &str,
        arguments: &[Vec<u8>],
        out: &mut Output,
    ) -> Result<bool, Stop> {
        let since = match (verb, arguments) {
            ("changes", []) => 0,
            ("changes", [since]) => number(since, "the number")?,
            _ => return Ok(false),
        };
        let mut changes = self.db.changes(since)?;
        let mut count = 0;
        while let Some(batch) = changes.next_batch()? {
            out.bytes(changes::lines(&batch)?.as_bytes())?;
            count += 1;
        }
        out.line(format!("({count} commits)"))?;
        Ok(true)
    }
}
