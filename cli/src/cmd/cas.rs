//! `cleave cas`: stores one value if what is there is as expected.

use crate::args::{CreateKeyspace, Durable, Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::{Output, note};
use crate::text;
use clap::Args;
use cleavedb::{Exchange, Expected, Options, Versioned, WriteOptions};
use std::ffi::OsString;

/// Put a value if what is there is as expected (compare and set); exit status 1 if it is not
///
/// Prints the version of the new value. `cleave get --with-version` prints that of a value.
#[derive(Args)]
pub(crate) struct Cas {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    create: CreateKeyspace,

    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,

    /// The new value
    #[arg(allow_hyphen_values = true)]
    value: OsString,

    #[command(flatten)]
    expected: ExpectedArgs,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    durable: Durable,
}

/// What must be there.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct ExpectedArgs {
    /// Only if this is the value
    #[arg(long = "if", value_name = "VALUE", allow_hyphen_values = true)]
    if_value: Option<OsString>,

    /// Only if the value has this version
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,

    /// Only if the key has no value
    #[arg(long)]
    if_absent: bool,
}

pub(crate) fn run(args: &Cas) -> Outcome {
    let key = args.hex.bytes(&args.key)?;
    let value = args.hex.bytes(&args.value)?;
    let old = args.expected.if_value.as_ref().map(|old| args.hex.bytes(old)).transpose()?;
    let expected = match (&old, args.expected.if_version, args.expected.if_absent) {
        (Some(old), ..) => Expected::Value(old),
        (None, Some(version), _) => Expected::Version(version),
        (None, None, _) => Expected::Absent,
    };
    let (dir, name, create) = (&args.target.dir, &args.target.keyspace, args.create.create);
    let (db, keyspace) = open::to_fill_keyspace(dir, name, create, Options::default())?;
    let options = WriteOptions::new().durability(args.durable.durability);
    let outcome = keyspace.compare_and_set_with(key, expected, value, &options)?;
    drop(keyspace);
    db.close()?;
    Ok(match outcome {
        Exchange::Done(version) => {
            let mut out = Output::new();
            out.line(version.to_string())?;
            out.finish()?;
            Status::Done
        }
        Exchange::Mismatch(found) => {
            note!("not written: {}", args.describe(found.as_ref()));
            Status::Negative
        }
    })
}

impl Cas {
    fn describe(&self, found: Option<&Versioned>) -> String {
        let key = self.key.to_string_lossy();
        let Some(found) = found else { return format!("{key} has no value") };
        let value = if self.hex.hex { text::hex(&found.value) } else { text::escape(&found.value) };
        format!("{key} has version {}: {value}", found.version)
    }
}
