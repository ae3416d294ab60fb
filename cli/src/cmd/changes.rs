//! `cleave changes`: prints what was committed, in the order of commits.

use crate::format::changes;
use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use clap::Args;
use cleavedb::{ChangesOptions, Error, ErrorKind, SeqNo};
use std::path::PathBuf;
use std::time::Duration;

/// The time between two looks at a database that is followed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Print what was committed, in the order of commits, as far as the log still has it
///
/// Each change is a line: its number, `put`, `merge` or `del`, the keyspace, the key, for a merge
/// the operand, and for a put the value and, if it expires, its deadline in ms since 1970. A
/// deleted range is `delrange` with its lower and upper end, `[` or `]` before a key that belongs
/// to it, `(` or `)` before one that does not, and `-` where it has no end. Behind the changes of
/// each commit comes a line with the number to go on from and `commit`. A keyspace that was dropped
/// is shown as #ID.
#[derive(Args)]
pub(crate) struct ChangesArgs {
    /// The database's directory
    dir: PathBuf,

    /// Print what follows this number, the last one that was seen; 0 begins with the oldest commit
    /// that the log has
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    since: SeqNo,

    /// Go on with what is committed later, also by a process that has the database open: look again
    /// twice a second
    #[arg(long)]
    follow: bool,

    /// Print an object of JSON for each commit
    #[arg(long)]
    json: bool,

    /// Also print what is not known to be durable: the segment of the log that is being written, or
    /// was not closed
    #[arg(long)]
    visible: bool,
}

pub(crate) fn run(args: &ChangesArgs) -> Outcome {
    let mut out = Output::new();
    let mut since = args.since;
    let mut is_first = true;
    loop {
        match print(args, &mut since, is_first, &mut out) {
            // Somebody writes, whose session ends some time.
            Err(Stop::Error(error)) if args.follow && error.kind() == ErrorKind::Locked => {}
            printed => {
                printed?;
                is_first = false;
            }
        }
        if !args.follow {
            out.finish()?;
            return Ok(Status::Done);
        }
        out.flush()?;
        Output::wait(LOOK_AGAIN)?;
    }
}

/// Prints what follows `since`, which moves on.
fn print(
    args: &ChangesArgs,
    since: &mut SeqNo,
    is_first: bool,
    out: &mut Output,
) -> Result<(), Stop> {
    let db = if is_first { open::to_walk } else { open::to_walk_again }(&args.dir)?;
    if !is_first && *since == 0 && db.changes(0)?.position() > 0 {
        // Only the first look may begin in the middle.
        let what = "the first changes are gone from the log, before they were printed";
        return Err(Stop::Error(Error::new(ErrorKind::ChangesGone, what)));
    }
    let mut changes = db.changes_with(*since, &ChangesOptions::new().visible(args.visible))?;
    while let Some(batch) = changes.next_batch()? {
        let text = if args.json { changes::json(&batch) } else { changes::lines(&batch) };
        out.bytes(text?.as_bytes())?;
    }
    *since = changes.position();
    Ok(())
}
