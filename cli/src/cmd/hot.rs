//! `cleave hot`: shows which tables hold entries that newer ones supersede.

use crate::live::{self, LiveStore};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::text::{human_bytes, human_count};
use clap::Args;
use cleavedb::{Result, ScoredTable};
use serde_json::{Value, json};
use std::path::PathBuf;

/// List the tables with the greatest share of stale entries: those that newer entries supersede
///
/// It reads all keys and changes nothing; if a process has the database open for writing, that one
/// does it. Compaction drops stale entries in time, and with them
/// what keeps their values; `cleave compact` drops all of them now. docs/tuning.md says when an
/// update table and early compaction do that sooner.
#[derive(Args)]
pub(crate) struct Hot {
    /// The database's directory
    dir: PathBuf,

    /// Only tables of this keyspace
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,

    /// The most tables to list; the sum is over all
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    top: usize,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Hot) -> Outcome {
    let mut tables = match LiveStore::announced(&args.dir) {
        Some(live) => of_process(&live, args.keyspace.as_deref())?,
        None => of_own_opening(args)?,
    };
    let sum = Sum::of(&tables);
    tables.truncate(args.top);
    let mut out = Output::new();
    if args.json {
        out.line(to_json(&tables, &sum).to_string())?;
    } else {
        out.bytes(to_text(&tables, &sum).as_bytes())?;
    }
    out.finish()?;
    Ok(Status::Done)
}

/// A table with what is known of its entries.
struct StaleTable {
    id: u64,
    keyspace: String,
    level: u64,
    entries: u64,
    bytes: u64,
    newest_entries: u64,
    stale_entries: u64,
    stale_bytes: u64,
}

impl From<ScoredTable> for StaleTable {
    fn from(table: ScoredTable) -> Self {
        StaleTable {
            id: table.id,
            keyspace: table.keyspace,
            level: table.level as u64,
            entries: table.entries,
            bytes: table.bytes,
            newest_entries: table.score.newest_entries,
            stale_entries: table.score.stale_entries,
            stale_bytes: table.score.stale_bytes,
        }
    }
}

fn of_own_opening(args: &Hot) -> Result<Vec<StaleTable>> {
    let db = open::to_walk(&args.dir)?;
    let tables = match &args.keyspace {
        Some(name) => open::known_keyspace(&db, name)?.count_stale_entries()?,
        None => db.count_stale_entries()?,
    };
    Ok(tables.into_iter().map(StaleTable::from).collect())
}

/// Returns the tables of the database that another process has open, of one keyspace or of all.
fn of_process(store: &LiveStore, keyspace: Option<&str>) -> Result<Vec<StaleTable>> {
    let name = keyspace.map(|name| live::argument(name.as_bytes())).unwrap_or_default();
    let told = store.have_told(&format!("hot {name}"))?;
    let table = |told: &Value| {
        let number = |field: &str| told[field].as_u64().unwrap_or_default();
        StaleTable {
            id: number("id"),
            keyspace: told["keyspace"].as_str().unwrap_or_default().to_owned(),
            level: number("level"),
            entries: number("entries"),
            bytes: number("bytes"),
            newest_entries: number("newest_entries"),
            stale_entries: number("stale_entries"),
            stale_bytes: number("stale_bytes"),
        }
    };
    Ok(told.as_array().into_iter().flatten().map(table).collect())
}

/// The sum of what is known of several tables.
#[derive(Default)]
struct Sum {
    tables: u64,
    entries: u64,
    stale_entries: u64,
    stale_bytes: u64,
}

impl Sum {
    fn of(tables: &[StaleTable]) -> Sum {
        let mut sum = Sum::default();
        for table in tables {
            sum.tables += 1;
            sum.entries += table.entries;
            sum.stale_entries += table.stale_entries;
            sum.stale_bytes += table.stale_bytes;
        }
        sum
    }
}

/// Returns the share of `part` in `whole`, in percent.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn to_text(tables: &[StaleTable], sum: &Sum) -> String {
    let name_width = tables.iter().map(|table| table.keyspace.chars().count()).max();
    let width = name_width.unwrap_or_default().max("keyspace".len());
    let mut text = String::new();
    if !tables.is_empty() {
        text += &format!(
            "{:width$}  level  {:>8}  {:>13}  {:>13}  share  {:>11}\n",
            "keyspace", "table", "entries", "stale", "stale bytes"
        );
    }
    for table in tables {
        text += &format!(
            "{:width$}  {:>5}  {:>8}  {:>13}  {:>13}  {:>4.0}%  {:>11}\n",
            table.keyspace,
            format!("L{}", table.level),
            table.id,
            human_count(table.entries),
            human_count(table.stale_entries),
            percent(table.stale_entries, table.entries),
            human_bytes(table.stale_bytes)
        );
    }
    text += &format!(
        "stale entries: {} of {} ({:.1}%), with {}; tables: {}\n",
        human_count(sum.stale_entries),
        human_count(sum.entries),
        percent(sum.stale_entries, sum.entries),
        human_bytes(sum.stale_bytes),
        human_count(sum.tables)
    );
    text
}

/// Returns the JSON that `docs/json.md` describes.
fn to_json(tables: &[StaleTable], sum: &Sum) -> Value {
    let table = |table: &StaleTable| {
        json!({
            "id": table.id,
            "keyspace": table.keyspace,
            "level": table.level,
            "entries": table.entries,
            "bytes": table.bytes,
            "newest_entries": table.newest_entries,
            "stale_entries": table.stale_entries,
            "stale_bytes": table.stale_bytes,
        })
    };
    json!({
        "tables": sum.tables,
        "entries": sum.entries,
        "stale_entries": sum.stale_entries,
        "stale_bytes": sum.stale_bytes,
        "top": tables.iter().map(table).collect::<Vec<_>>(),
    })
}
