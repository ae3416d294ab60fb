//! Metrics by day: old days go with one write each, in a batch with what replaces them.
//!
//! ```text
//! cargo run -p cleavedb --example delete_range
//! ```

use cleavedb::{Keyspace, WriteBatch};

/// Returns the key of a measurement: the days sort by time, and within a day its minutes.
fn key(day: u32, minute: u32) -> String {
    format!("{day:05}/{minute:04}")
}

fn days(metrics: &Keyspace) -> cleavedb::Result<usize> {
    let keys = metrics.keys().collect::<cleavedb::Result<Vec<_>>>()?;
    let mut days: Vec<&[u8]> = keys.iter().map(|key| &key[..5]).collect();
    days.dedup();
    Ok(days.len())
}

fn main() -> cleavedb::Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-metrics-{}", std::process::id()));
    let db = cleavedb::open(&dir)?;
    let metrics = db.open_or_create_keyspace("metrics")?;
    let summaries = db.open_or_create_keyspace("summaries")?;
    for day in 0..10 {
        for minute in 0..1440 {
            metrics.put(key(day, minute), minute.to_string())?;
        }
    }
    println!("{} days are there", days(&metrics)?);

    // Everything before day 7 goes, however much that is.
    metrics.delete_range(..key(7, 0))?;
    println!("{} days are left", days(&metrics)?);

    // A day is replaced by its summary: both happen, or neither.
    let mut batch = WriteBatch::new();
    batch.put(&summaries, "00007", "1440 measurements").delete_prefix(&metrics, "00007/");
    db.write(batch)?;
    println!("{} days are left, and a summary", days(&metrics)?);

    // What a snapshot sees stays, for the snapshot.
    let before = db.snapshot();
    metrics.delete_range(..)?;
    let options = cleavedb::ReadOptions::new().snapshot(&before);
    println!("now {}, then {}", metrics.iter().count(), metrics.iter_with(&options).count());
    drop((before, metrics, summaries));
    db.close()?;
    std::fs::remove_dir_all(dir).ok();
    Ok(())
}
