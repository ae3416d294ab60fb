//! `cleave merge`: merges one operand with the value of a key.

use crate::args::{Durable, Hex, Target};
use crate::open;
use crate::outcome::{Outcome, Status};
use clap::Args;
use cleavedb::{Db, Keyspace, KeyspaceOptions, Options, Result, WriteOptions, merge_operators};
use std::ffi::OsString;

/// Merge an operand with the value of a key: add to a counter, append to a list
///
/// The keyspace's operator says how. With --operator the keyspace is created if it does not exist;
/// one that exists keeps its own.
#[derive(Args)]
pub(crate) struct Merge {
    #[command(flatten)]
    target: Target,

    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,

    /// The operand, such as the number to add
    #[arg(allow_hyphen_values = true)]
    operand: OsString,

    /// The operator of a keyspace that does not exist yet: add, append, append:BYTES, max, min or
    /// union
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    durable: Durable,
}

pub(crate) fn run(args: &Merge) -> Outcome {
    let (key, operand) = (args.hex.bytes(&args.key)?, args.hex.bytes(&args.operand)?);
    let name = &args.target.keyspace;
    let keyspace = args.operator.as_deref().map_or_else(Default::default, with_operator);
    let mut options = Options::default();
    if name == cleavedb::DEFAULT_KEYSPACE {
        // It comes with the database.
        options.keyspace = keyspace;
    }
    let db = open::to_fill(&args.target.dir, options)?;
    let keyspace = match &args.operator {
        Some(operator) => open_or_create(&db, name, operator)?,
        None => open::known_keyspace_or(&db, name, "; or create it with --operator")?,
    };
    let options = WriteOptions::new().durability(args.durable.durability);
    keyspace.merge_with(key, operand, &options)?;
    drop(keyspace);
    db.close()?;
    Ok(Status::Done)
}

/// Opens a keyspace, or creates it with this operator.
pub(crate) fn open_or_create(db: &Db, name: &str, operator: &str) -> Result<Keyspace> {
    db.open_or_create_keyspace_with(name, with_operator(operator))
}

fn with_operator(name: &str) -> KeyspaceOptions {
    KeyspaceOptions { merge_operator: Some(full_name(name)), ..KeyspaceOptions::default() }
}

/// Returns the name of a built-in operator that is given by its short name, and any other as it is.
fn full_name(name: &str) -> String {
    let (short, bytes) = name.split_once(':').map_or((name, None), |(short, n)| (short, Some(n)));
    let full = match short {
        "add" => merge_operators::ADD,
        "append" => merge_operators::APPEND,
        "max" => merge_operators::MAX,
        "min" => merge_operators::MIN,
        "union" => merge_operators::UNION,
        _ => return name.to_owned(),
    };
    bytes.map_or(full.to_owned(), |bytes| format!("{full}:{bytes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_of_built_in_operators() {
        for (given, expected) in [
            ("add", "cleavedb.Add"),
            ("append:77", "cleavedb.Append:77"),
            ("cleavedb.Max", "cleavedb.Max"),
            ("own", "own"),
        ] {
            assert_eq!(full_name(given), expected);
        }
    }
}
