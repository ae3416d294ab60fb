//! `cleave keyspaces`: lists, creates, changes and drops keyspaces.

use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::text::{counted, human_bytes, parse_size};
use clap::{Args, Subcommand};
use cleavedb::{Db, Error, ErrorKind, KeyspaceOptions, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// List the keyspaces, or create, change or drop one
#[derive(Args)]
pub(crate) struct Keyspaces {
    /// The database's directory
    dir: PathBuf,

    /// Print one JSON object per keyspace
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Create a keyspace
    Create {
        /// The name of the new keyspace
        name: String,

        /// A setting; `options` prints their names. Those of bytes may be like 64k or 4M
        #[arg(long = "set", value_name = "SETTING=VALUE")]
        settings: Vec<String>,
    },
    /// Print the settings of a keyspace, or change some of them
    Options {
        /// The name of the keyspace
        name: String,

        /// A setting to change, for what is written from now on
        #[arg(long = "set", value_name = "SETTING=VALUE")]
        settings: Vec<String>,
    },
    /// Drop a keyspace and all of its keys
    Drop {
        /// The name of the keyspace
        name: String,
    },
}

pub(crate) fn run(args: &Keyspaces) -> Outcome {
    match &args.action {
        None => list(args),
        Some(Action::Create { name, settings }) => create(&args.dir, name, settings),
        Some(Action::Options { name, settings }) => options(&args.dir, name, settings),
        Some(Action::Drop { name }) => {
            let db = open::to_change(&args.dir)?;
            open::known_keyspace(&db, name)?;
            db.drop_keyspace(name)?;
            db.close()?;
            Ok(Status::Done)
        }
    }
}

/// What is shown of a keyspace.
struct Listed {
    name: String,
    keys: u64,
    table_bytes: u64,
    memtable_bytes: u64,
    options: KeyspaceOptions,
}

fn listed(db: &Db) -> Result<Vec<Listed>> {
    let of = |stats: cleavedb::KeyspaceStats| {
        let keyspace = db.keyspace(&stats.name)?;
        Ok(Listed {
            keys: keyspace.approximate_len(..)?,
            table_bytes: stats.levels.iter().map(|level| level.bytes).sum(),
            memtable_bytes: stats.memtable_bytes,
            options: keyspace.options(),
            name: stats.name,
        })
    };
    db.stats().keyspaces.into_iter().map(of).collect()
}

fn list(args: &Keyspaces) -> Outcome {
    let db = open::to_read(&args.dir)?;
    let all = listed(&db)?;
    let width = all.iter().map(|it| it.name.chars().count()).max().unwrap_or_default();
    let mut out = Output::new();
    for keyspace in &all {
        match args.json {
            true => out.line(keyspace.to_json().to_string())?,
            false => out.line(keyspace.to_line(width))?,
        }
    }
    out.finish()?;
    Ok(Status::Done)
}

impl Listed {
    fn to_line(&self, width: usize) -> String {
        let Listed { name, keys, table_bytes, options, .. } = self;
        let (keys, bytes) = (counted(*keys, "key"), human_bytes(*table_bytes));
        let mut line = format!("{name:width$}  about {keys}, {bytes} in tables");
        let defaults = KeyspaceOptions::default().to_text();
        let is_default = |line: &&str| defaults.lines().any(|default| default == *line);
        for setting in options.to_text().lines().filter(|line| !is_default(line)) {
            line += &format!("; {setting}");
        }
        line
    }

    /// Returns the JSON that `docs/json.md` describes.
    fn to_json(&self) -> Value {
        let text = self.options.to_text();
        let settings = text.lines().filter_map(|line| line.split_once(" = "));
        let settings = settings.map(|(name, value)| {
            let number = value.parse::<u64>().map(Value::from);
            let known = number.or_else(|_| value.parse::<bool>().map(Value::from));
            (name.to_owned(), known.unwrap_or_else(|_| value.into()))
        });
        json!({
            "name": self.name,
            "approximate_keys": self.keys,
            "table_bytes": self.table_bytes,
            "memtable_bytes": self.memtable_bytes,
            "options": settings.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Returns `options` with some settings changed.
fn changed(options: &KeyspaceOptions, settings: &[String]) -> Result<KeyspaceOptions> {
    let mut text = options.to_text();
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            let what = format!("{setting:?} is no setting and its value");
            return Err(Error::invalid_argument(what).advise("write it like table_bytes=4M"));
        };
        let (name, value) = (name.trim(), value.trim());
        let size = Some(value).filter(|_| name.ends_with("_bytes") || name.ends_with("threshold"));
        match size.and_then(|value| parse_size(value).ok()) {
            Some(bytes) => text += &format!("{name} = {bytes}\n"),
            None => text += &format!("{name} = {value}\n"),
        }
    }
    let known = || {
        let all = KeyspaceOptions::default().to_text();
        let names = all.lines().filter_map(|line| Some(line.split_once(" = ")?.0));
        names.chain(["merge_operator"]).collect::<Vec<_>>().join(", ")
    };
    let changed = KeyspaceOptions::from_text(&text).map_err(|error| match error.kind() {
        ErrorKind::Unsupported => error.advise(format!("the settings are {}", known())),
        _ => error,
    })?;
    changed.validate()?;
    Ok(changed)
}

fn create(dir: &Path, name: &str, settings: &[String]) -> Outcome {
    let options = changed(&KeyspaceOptions::default(), settings)?;
    let db = open::to_change(dir)?;
    db.create_keyspace_with(name, options)?;
    db.close()?;
    Ok(Status::Done)
}

fn options(dir: &Path, name: &str, settings: &[String]) -> Outcome {
    let db = if settings.is_empty() { open::to_read(dir)? } else { open::to_change(dir)? };
    let keyspace = open::known_keyspace(&db, name)?;
    if !settings.is_empty() {
        keyspace.set_options(changed(&keyspace.options(), settings)?)?;
    }
    let mut out = Output::new();
    for line in keyspace.options().to_text().lines() {
        out.line(line)?;
    }
    out.finish()?;
    drop(keyspace);
    db.close()?;
    Ok(Status::Done)
}
