//! A mailbox whose compactions drop the letters of closed accounts, and bring what an older program
//! wrote to a new form, without a single write.
//!
//! ```text
//! cargo run -p cleavedb --example compaction_filter
//! ```

use cleavedb::{CompactionFilter, Db, FilterDecision, FilteredEntry, Keyspace, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rules of the mailbox. They depend on the entry alone while the database is open.
struct MailboxRules {
    closed: BTreeSet<String>,
}

impl CompactionFilter for MailboxRules {
    fn name(&self) -> &str {
        "example.MailboxRules"
    }

    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
        let key = String::from_utf8_lossy(entry.key());
        let account = key.split('/').next().unwrap_or_default();
        if self.closed.contains(account) {
            // Known by the key: a value in a segment is not even read.
            return Ok(FilterDecision::Drop);
        }
        // What is in the new form is kept, because the filter is asked again.
        Ok(match entry.value()?.strip_prefix(b"v1:") {
            Some(letter) => FilterDecision::Change([b"v2:", letter].concat()),
            None => FilterDecision::Keep,
        })
    }
}

fn open(dir: &std::path::Path, closed: &[&str]) -> Result<Db> {
    let closed = closed.iter().map(|&account| account.to_owned()).collect();
    Db::builder(dir).compaction_filter("mail", Arc::new(MailboxRules { closed })).open()
}

fn print(what: &str, mail: &Keyspace) -> Result<()> {
    let new = mail.iter().filter(|pair| pair.as_ref().is_ok_and(|(_, v)| v.starts_with(b"v2:")));
    println!("{what}: {} letters, {} in the new form", mail.keys().count(), new.count());
    Ok(())
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("cleavedb-mail-{}", std::process::id()));
    let db = open(&dir, &[])?;
    let mail = db.open_or_create_keyspace("mail")?;
    for letter in 0..1000 {
        let account = ["ada", "bob", "eve"][letter % 3];
        mail.put(format!("{account}/{letter:04}"), format!("v1:{}", "Dear … ".repeat(200)))?;
    }
    print("written", &mail)?;
    db.compact()?;
    print("compacted", &mail)?;
    drop(mail);
    db.close()?;

    // The filter is not recorded, so each session may have other rules.
    let db = open(&dir, &["eve"])?;
    let mail = db.keyspace("mail")?;
    let before = db.snapshot();
    db.compact()?;
    print("beside a snapshot", &mail)?;
    drop(before);
    db.compact()?;
    print("without eve", &mail)?;
    let stats = db.stats();
    println!("{} dropped", stats.filtered_entries_dropped);
    drop(mail);
    db.close()?;
    std::fs::remove_dir_all(dir).ok();
    Ok(())
}
