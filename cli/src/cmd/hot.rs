//! `cleave hot`: shows which tables hold entries that newer ones supersede, and of what use the
//! update table is.

use crate::live::{self, LiveStore};
use crate::open;
use crate::outcome::{Outcome, Status};
use crate::output::Output;
use crate::text::{counted, human_bytes, human_count};
use clap::Args;
use cleavedb::{Result, ScoredTable};
use serde_json::{Value, json};
use std::path::PathBuf;

/// List the tables with the greatest share of stale entries: those that newer entries supersede
///
/// It reads all keys and changes nothing; if a process has the database open for writing, that one
/// does it, and tells of what use its update table is to all keyspaces, if it has one. Compaction
/// drops stale entries in time, and with them what keeps their values; `cleave compact` drops all
/// of them now. docs/tuning.md says when an update table and early compaction do that sooner.
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
    let (mut tables, use_of_table) = match LiveStore::announced(&args.dir) {
        Some(live) => {
            let tables = of_process(&live, args.keyspace.as_deref())?;
            (tables, UpdateTableUse::of(&live.tell("stats")?))
        }
        // An opening of our own has no update table.
        None => (of_own_opening(args)?, None),
    };
    let sum = Sum::of(&tables);
    tables.truncate(args.top);
    let mut out = Output::new();
    if args.json {
        let mut told = to_json(&tables, &sum);
        told["update_table"] = use_of_table.map_or(Value::Null, |table| table.to_json());
        out.line(told.to_string())?;
    } else {
        out.bytes(to_text(&tables, &sum).as_bytes())?;
        out.bytes(use_of_table.map_or_else(String::new, |table| table.to_text()).as_bytes())?;
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

/// Of what use the update table was to the process that has the database open.
struct UpdateTableUse {
    keys: u64,
    bytes: u64,
    capacity_bytes: u64,
    evicted_keys: u64,
    lookups: u64,
    hits: u64,
    dropped_entries: u64,
    dropped_bytes: u64,
}

impl UpdateTableUse {
    /// Takes it from the statistics of a process; returns `None` if that has no update table.
    fn of(stats: &Value) -> Option<UpdateTableUse> {
        let number = |field: &str| stats[field].as_u64().unwrap_or_default();
        let table = UpdateTableUse {
            keys: number("update_table_keys"),
            bytes: number("update_table_bytes"),
            capacity_bytes: number("update_table_capacity_bytes"),
            evicted_keys: number("update_table_evictions"),
            lookups: number("update_table_lookups"),
            hits: number("short_cut_reads"),
            dropped_entries: number("superseded_entries_dropped"),
            dropped_bytes: number("superseded_bytes_dropped"),
        };
        (table.capacity_bytes > 0).then_some(table)
    }

    /// Returns the number of point reads that it could not answer.
    fn misses(&self) -> u64 {
        // A read that is under way may count as a hit in numbers that are a moment younger.
        self.lookups.saturating_sub(self.hits)
    }

    /// Returns the number of keys that were noted. One that was forgotten and noted again counts
    /// twice.
    fn noted_keys(&self) -> u64 {
        self.keys.saturating_add(self.evicted_keys)
    }

    fn to_text(&self) -> String {
        format!(
            "update table: knows {} of {} noted ({:.1}%), in {} of {}\n\
             point reads of tables: {}, hits {} ({:.1}%), misses {}\n\
             superseded and dropped by compactions: {}, with {}\n",
            human_count(self.keys),
            counted(self.noted_keys(), "key"),
            percent(self.keys, self.noted_keys()),
            human_bytes(self.bytes),
            human_bytes(self.capacity_bytes),
            human_count(self.lookups),
            human_count(self.hits),
            percent(self.hits, self.lookups),
            human_count(self.misses()),
            counted(self.dropped_entries, "entry"),
            human_bytes(self.dropped_bytes)
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "keys": self.keys,
            "bytes": self.bytes,
            "capacity_bytes": self.capacity_bytes,
            "evicted_keys": self.evicted_keys,
            "lookups": self.lookups,
            "hits": self.hits,
            "misses": self.misses(),
            "superseded_entries_dropped": self.dropped_entries,
            "superseded_bytes_dropped": self.dropped_bytes,
        })
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
