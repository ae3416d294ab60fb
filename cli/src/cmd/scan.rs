//! `cleave scan`: prints pairs in the order of their keys. `dump` and the shell use the same
//! [`ScanWalk`].

use crate::args::{Hex, Target};
use crate::format::{Format, write_pair};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use clap::Args;
use cleavedb::{Cursor, Keyspace, ReadOptions, Result};
use std::ffi::OsString;
use std::ops::Bound;

/// Print keys and values in key order, one pair per line: key TAB value, special bytes escaped
#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    part: Part,

    /// Print at most this many pairs
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Print in descending order
    #[arg(long)]
    reverse: bool,

    /// Print keys only; values are not read
    #[arg(long)]
    keys_only: bool,

    /// Print one JSON object per line: {"key":…,"value":…}; bytes that are not UTF-8 become
    /// {"hex":"…"}
    #[arg(long, conflicts_with = "hex")]
    json: bool,
}

/// The part of a keyspace that a command works on.
#[derive(Args)]
pub(crate) struct Part {
    /// Start at this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,

    /// Stop before this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,

    /// Only keys with this prefix
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<OsString>,

    #[command(flatten)]
    pub(crate) hex: Hex,
}

impl Part {
    /// Returns the walk over this part.
    pub(crate) fn walk(&self) -> Result<ScanWalk> {
        let bytes = |key: &Option<OsString>| key.as_ref().map(|k| self.hex.bytes(k)).transpose();
        Ok(ScanWalk {
            from: bytes(&self.from)?,
            to: bytes(&self.to)?,
            prefix: bytes(&self.prefix)?,
            ..ScanWalk::default()
        })
    }
}

/// A walk over some pairs of a keyspace, in either direction.
#[derive(Default)]
pub(crate) struct ScanWalk {
    pub(crate) from: Option<Vec<u8>>,
    pub(crate) to: Option<Vec<u8>>,
    pub(crate) prefix: Option<Vec<u8>>,
    pub(crate) limit: Option<u64>,
    pub(crate) reverse: bool,
    pub(crate) keys_only: bool,
}

impl ScanWalk {
    /// Calls `visit` for each pair, with the value unless only keys are wanted; returns the number
    /// of pairs.
    pub(crate) fn run<E: From<cleavedb::Error>>(
        &self,
        keyspace: &Keyspace,
        options: &ReadOptions,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut cursor = self.start(keyspace, options)?;
        let mut count = 0;
        while cursor.valid() && self.limit.is_none_or(|limit| count < limit) {
            let value = if self.keys_only { None } else { Some(cursor.value()?) };
            visit(cursor.key(), value.as_deref())?;
            count += 1;
            if self.reverse { cursor.prev()? } else { cursor.next()? }
        }
        Ok(count)
    }

    fn start(&self, keyspace: &Keyspace, options: &ReadOptions) -> Result<Cursor> {
        let lower = self.from.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let upper = self.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = match &self.prefix {
            Some(prefix) => keyspace.prefix_with(prefix, options).within((lower, upper)),
            None => keyspace.range_with((lower, upper), options),
        };
        let mut cursor = range.into_cursor()?;
        if self.reverse {
            cursor.seek_to_last()?
        } else {
            cursor.seek_to_first()?
        }
        Ok(cursor)
    }
}

pub(crate) fn run(args: &Scan) -> Outcome {
    let walk = ScanWalk {
        limit: args.limit,
        reverse: args.reverse,
        keys_only: args.keys_only,
        ..args.part.walk()?
    };
    let format = match (args.json, args.part.hex.hex) {
        (true, _) => Format::Jsonl,
        (false, true) => Format::Hex,
        (false, false) => Format::Tsv,
    };
    let db = open::to_walk(&args.target.dir)?;
    let keyspace = open::known_keyspace(&db, &args.target.keyspace)?;
    let mut out = Output::new();
    let mut line = String::new();
    walk.run(&keyspace, &ReadOptions::new(), |key, value| {
        write_pair(format, key, value, &mut line);
        out.bytes(line.as_bytes())
    })?;
    out.finish()?;
    Ok(Status::Done)
}
