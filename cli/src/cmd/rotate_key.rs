//! `cleave rotate-key`: has a database wrapped with another key.

use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use cleavedb::{Error, KeyProvider};
use std::path::{Path, PathBuf};

/// Change the key of an encrypted database: put the new one first into the file of keys
///
/// The former key must be in that file too, behind the new one. Only the small file KEYS is
/// rewritten, and files from then on get a new data key. Any other command that opens the database
/// for writing does the same. Checkpoints and backups still need the former key.
#[derive(Args)]
pub(crate) struct RotateKey {
    /// The database's directory
    dir: PathBuf,
}

pub(crate) fn run(args: &RotateKey) -> Outcome {
    let keys = open::keys().ok_or_else(|| {
        Error::invalid_option("no keys were given")
            .advise("name the file of keys with --key-file, the new one first")
    })?;
    let before = std::fs::read(args.dir.join("KEYS")).unwrap_or_default();
    open::to_change(&args.dir)?.close()?;
    let is_changed = before != read(&args.dir)?;
    let mut out = Output::new();
    let current = keys.keys()?.first().map(|key| key.id().to_owned()).unwrap_or_default();
    match is_changed {
        true => out.line(format!("the database has the key {current} now"))?,
        false => out.line(format!("the database had the key {current} already"))?,
    }
    out.finish()?;
    Ok(Status::Done)
}

fn read(dir: &Path) -> cleavedb::Result<Vec<u8>> {
    let path = dir.join("KEYS");
    std::fs::read(&path).map_err(|error| Error::io("read", &path, error))
}
