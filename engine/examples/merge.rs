//! Counters, lists and sets that are written without being read, by the built-in merge operators,
//! and an operator of one's own.
//!
//! ```text
//! cargo run -p cleavedb --example merge
//! ```

use cleavedb::{Db, Error, KeyspaceOptions, MergeOperator, Result, WriteBatch, merge_operators};
use std::sync::Arc;

/// Keeps for each sensor how many values there were, and their sum: `count sum`, in text.
struct Mean;

fn parse(text: &[u8]) -> Result<(u64, i64)> {
    let text = String::from_utf8_lossy(text);
    let parts =
        text.split_once(' ').and_then(|(n, sum)| Some((n.parse().ok()?, sum.parse().ok()?)));
    parts.ok_or_else(|| Error::invalid_argument(format!("{text:?} is no count and sum")))
}

impl MergeOperator for Mean {
    fn name(&self) -> &str {
        "example.Mean"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let (mut count, mut sum) = (0, 0);
        for part in base.into_iter().chain(operands.iter().copied()) {
            let (n, of_them) = parse(part)?;
            (count, sum) = (count + n, sum + of_them);
        }
        Ok(format!("{count} {sum}").into_bytes())
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.full(key, Some(older), &[newer]).ok()
    }

    // What can never be merged is refused when it is written.
    fn check(&self, _: &[u8], operand: &[u8]) -> Result<()> {
        parse(operand).map(drop)
    }
}

fn with(operator: &str) -> KeyspaceOptions {
    KeyspaceOptions { merge_operator: Some(operator.to_owned()), ..KeyspaceOptions::default() }
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-merge-{}", std::process::id()));
    let db = Db::builder(&dir).merge_operator(Arc::new(Mean)).open()?;
    let visits = db.create_keyspace_with("visits", with(merge_operators::ADD))?;
    let logs = db.create_keyspace_with("logs", with("cleavedb.Append:24"))?;
    let tags = db.create_keyspace_with("tags", with(merge_operators::UNION))?;
    let sensors = db.create_keyspace_with("sensors", with("example.Mean"))?;

    // Writers of one counter do not wait for each other's reads, and none of them reads.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).try_for_each(|_| visits.merge("home", "1")));
        }
    });
    for page in ["home", "about", "home"] {
        let mut batch = WriteBatch::new();
        batch.merge(&visits, page, "1").merge(&logs, "last", format!("{page}\n"));
        batch.merge(&tags, "pages", page);
        db.write(batch)?;
    }
    for degrees in [20, 22, 27] {
        sensors.merge("attic", format!("1 {degrees}"))?;
    }
    assert!(sensors.merge("attic", "warm").is_err());

    for (keyspace, key) in
        [(&visits, "home"), (&logs, "last"), (&tags, "pages"), (&sensors, "attic")]
    {
        let value = keyspace.get(key)?.unwrap_or_default();
        println!("{}: {}", keyspace.name(), String::from_utf8_lossy(&value).trim().escape_debug());
    }
    assert_eq!(visits.get("home")?.unwrap_or_default(), "4002");
    assert_eq!(sensors.get("attic")?.unwrap_or_default(), "3 69");
    drop((visits, logs, tags, sensors));
    db.close()?;
    std::fs::remove_dir_all(&dir).map_err(|error| Error::wrong_state(error.to_string()))
}
