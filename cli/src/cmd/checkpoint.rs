//! `cleave checkpoint`: makes a complete second database as of now, mostly by hard links.

use crate::live::{self, LiveStore};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use cleavedb::Error;
use std::path::PathBuf;

/// Create a checkpoint: a second database, in a new directory, that holds what this one holds now
///
/// Its files are hard links where the file system allows it. So it is quick and takes little space,
/// and it is no backup against the loss of the disk. If a process has the database open for
/// writing, that one makes it, between two commits.
#[derive(Args)]
pub(crate) struct Checkpoint {
    /// The database's directory
    dir: PathBuf,

    /// The new directory, which must not exist
    target: PathBuf,
}

pub(crate) fn run(args: &Checkpoint) -> Outcome {
    match LiveStore::announced(&args.dir) {
        Some(live) => {
            // The other process may be in another directory.
            let target = std::path::absolute(&args.target)
                .map_err(|error| Error::io("find", &args.target, error))?;
            let target = live::argument(target.as_os_str().as_encoded_bytes());
            live.have_done(&format!("checkpoint {target}"))?;
        }
        None => {
            let db = open::to_change(&args.dir)?;
            db.checkpoint(&args.target)?;
            db.close()?;
        }
    }
    let mut out = Output::new();
    out.line(format!("checkpoint written to {}", args.target.display()))?;
    out.finish()?;
    Ok(Status::Done)
}
