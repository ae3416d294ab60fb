//! `cleave inspect`: prints one file of a database as readable text.

use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use clap::Args;
use cleavedb::ErrorKind;
use std::path::PathBuf;

/// Print the contents of one file of a database: a segment, a table, the manifest or another
#[derive(Args)]
pub(crate) struct Inspect {
    /// The file
    file: PathBuf,
}

pub(crate) fn run(args: &Inspect) -> Outcome {
    let mut out = Output::new();
    // KEYS itself can be read without a key.
    let keys = open::keys().filter(|_| !args.file.ends_with("KEYS"));
    let printed = match keys {
        Some(keys) => cleavedb::inspect_encrypted(&args.file, &keys, &mut out),
        None => cleavedb::inspect(&args.file, &mut out),
    };
    if out.is_closed() {
        return Err(Stop::OutputClosed);
    }
    // What was read before the damage is printed too.
    out.finish()?;
    printed.map_err(|error| match (error.kind(), error.advice()) {
        (ErrorKind::Corruption, None) => {
            error.advise("give a file of a database; if it is one, restore it from a checkpoint")
        }
        _ => error,
    })?;
    Ok(Status::Done)
}
