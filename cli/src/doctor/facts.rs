//! What is known of a database: its statistics, its space, its settings, what runs, what happened.

use crate::live::LiveStore;
use crate::open;
use cleavedb::{Db, Result};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The facts, as the control socket tells them (docs/control.md).
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) stats: Value,
    pub(crate) space: Value,
    pub(crate) settings: Value,
    /// `null` if no process has the database open.
    pub(crate) jobs: Value,
    pub(crate) events: Value,
}

impl Facts {
    /// Asks the process that has the database in `dir` open, or opens it to look into it.
    pub(crate) fn gather(dir: &Path) -> Result<Facts> {
        if let Some(live) = LiveStore::announced(dir) {
            return Ok(Facts {
                stats: live.tell("stats")?,
                space: live.have_told("space")?,
                settings: live.tell("settings")?,
                jobs: live.tell("jobs")?,
                events: live.tell("events")?,
            });
        }
        let db = open::to_walk(dir)?;
        let parsed = |text: &str| serde_json::from_str(text).unwrap_or_default();
        Ok(Facts {
            stats: parsed(&db.stats().to_json()),
            space: parsed(&db.space()?.to_json()),
            settings: settings(&db),
            jobs: Value::Null,
            events: json!([]),
        })
    }

    /// Returns a number of the statistics; 0 if there is none of that name.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.stats[name].as_f64().unwrap_or_default()
    }

    /// Returns a setting of the database as a number.
    pub(crate) fn setting(&self, name: &str) -> Option<f64> {
        self.settings["database"][name].as_str()?.parse().ok()
    }

    /// Returns a setting of a keyspace as a number.
    pub(crate) fn keyspace_setting(&self, keyspace: &str, name: &str) -> Option<f64> {
        self.settings["keyspaces"][keyspace][name].as_str()?.parse().ok()
    }

    /// Returns the seconds that the counters are over; 0 if no process has the database open.
    pub(crate) fn uptime(&self) -> f64 {
        self.jobs["uptime_seconds"].as_f64().unwrap_or_default()
    }

    /// Returns the keyspaces of the statistics, with their names.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = (&str, &Value)> {
        let keyspaces = self.stats["keyspaces"].as_array().into_iter().flatten();
        keyspaces.map(|keyspace| (keyspace["name"].as_str().unwrap_or("?"), keyspace))
    }

    /// Returns the holders of old versions, the oldest first.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Value> {
        self.space["holders"].as_array().into_iter().flatten()
    }
}

/// Returns the settings of the last opening for writing, and those of keyspaces.
fn settings(db: &Db) -> Value {
    let text = std::fs::read_to_string(db.path().join("OPTIONS")).unwrap_or_default();
    let own = text.split("\n# of new keyspaces").next().unwrap_or_default();
    let mut keyspaces = Map::new();
    for name in db.keyspaces() {
        if let Ok(keyspace) = db.keyspace(&name) {
            keyspaces.insert(name, lines(&keyspace.options().to_text()));
        }
    }
    json!({ "database": lines(own), "keyspaces": keyspaces })
}

/// Returns the lines `name = value` of a text; comments are left out.
fn lines(text: &str) -> Value {
    let pairs = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = pairs.filter_map(|line| line.split_once(" = "));
    pairs.map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<Map<_, _>>().into()
}

/// Returns a number of an object; 0 if there is none of that name.
pub(crate) fn number(told: &Value, field: &str) -> f64 {
    told[field].as_f64().unwrap_or_default()
}
