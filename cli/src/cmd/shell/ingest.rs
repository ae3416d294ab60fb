//! The shell's command that ingests sorted files.

use super::run::Session;
use crate::cmd::ingest::{in_clear, rest};
use crate::output::note;
use crate::text::human_count;
use cleavedb::{Error, IngestOptions, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Session<'_> {
    /// Ingests the files that `arguments` name, with `--below` in front of them below what is
    /// there; returns what was done in words.
    pub(super) fn ingest(&self, arguments: &[Vec<u8>]) -> Result<String> {
        let (below, files) = match arguments {
            [option, files @ ..] if option == b"--below" => (true, files),
            files => (false, files),
        };
        if files.is_empty() {
            return Err(Error::invalid_argument("the arguments of ingest are wrong")
                .advise("write ingest FILE…, or ingest --below FILE…"));
        }
        if self.transaction.is_some() {
            return Err(Error::invalid_argument("files cannot be ingested in a transaction")
                .advise("commit or roll back first"));
        }
        let files: Vec<&Path> =
            files.iter().map(|file| Path::new(OsStr::from_bytes(file))).collect();
        let report = self.keyspace.ingest(&files, &IngestOptions::new().below(below))?;
        if let Some(warning) = in_clear(&report) {
            note!("{warning}");
        }
        // Programs read this: the noun stays the same for one key.
        Ok(format!("(ingested {} keys, {})", human_count(report.entries), rest(&report)))
    }
}
