//! A dictionary whose keys are looked at all the time and whose long articles seldom are: the tree
//! is kept in memory, so that walks over keys read nothing from disk.
//!
//! ```text
//! cargo run -p cleavedb --example pinned_tree
//! ```

use cleavedb::{Db, Options, Result};

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-dictionary-{}", std::process::id()));
    let db = cleavedb::open(&dir)?;
    let words = db.default_keyspace();
    for number in 0..20_000 {
        words.put(format!("word {number:05}"), "An article. ".repeat(100))?;
    }
    db.compact()?;
    drop(words);
    db.close()?;

    // The opening loads all tables, if they fit into this much memory.
    let options = Options { pin_tree: 64 << 20, ..Options::default() };
    let db = Db::builder(&dir).options(options).open()?;
    let stats = db.stats();
    println!("{} tables are in memory", stats.pinned_tables);
    println!("{} are not", stats.unpinned_tables);

    let words = db.default_keyspace();
    let count = words.keys().count();
    let read = db.stats().block_reads - stats.block_reads;
    println!("{count} keys were walked over, and {read} blocks read");
    assert_eq!((count, read), (20_000, 0));
    drop(words);
    db.close()?;
    std::fs::remove_dir_all(dir).ok();
    Ok(())
}
