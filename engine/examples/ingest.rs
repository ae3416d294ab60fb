//! A catalogue that is computed at night replaces the one of the day: it is written to a sorted
//! file, which any program can do, and takes effect at one moment.
//!
//! ```text
//! cargo run -p cleavedb --example ingest
//! ```

use cleavedb::{IngestOptions, SortedFileOptions, SortedFileWriter};

fn main() -> cleavedb::Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-shop-{}", std::process::id()));
    let db = cleavedb::open(dir.join("db"))?;
    let prices = db.open_or_create_keyspace("prices")?;
    prices.put("article/00007", "12.50")?;

    // No database is needed for this. Keys come in ascending order.
    let path = dir.join("catalogue");
    let mut file = SortedFileWriter::create(&path, &SortedFileOptions::default())?;
    for article in 0..100_000 {
        file.put(format!("article/{article:05}"), format!("{}.00", article % 90))?;
    }
    file.finish()?;

    let before = db.snapshot();
    let report = prices.ingest(&[&path], &IngestOptions::default())?;
    println!("{} prices in {} tables", report.entries, report.tables);
    let then = cleavedb::ReadOptions::new().snapshot(&before);
    let old = prices.get_with("article/00007", &then)?;
    println!("before {:?}, now {:?}", old.is_some(), prices.get("article/00007")?.is_some());

    // Pairs in order need no file, and may leave alone what is there.
    let defaults = (0..200_000).map(|article| (format!("article/{article:06}"), "0.00"));
    let report = prices.ingest_sorted_with(defaults, &IngestOptions::new().below(true))?;
    println!("{} defaults, {} left out", report.entries, report.skipped);
    drop((before, prices));
    db.close()?;
    std::fs::remove_dir_all(dir).ok();
    Ok(())
}
