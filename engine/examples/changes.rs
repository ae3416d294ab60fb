//! A search index beside a database, kept up to date by the change feed: a first copy, then what is
//! committed, as it is committed, and again in the next session.
//! `cargo run -p cleavedb --example changes`.

use cleavedb::{ChangeBatch, Changed, ChangesOptions, Db, ErrorKind, ReadOptions, Result, SeqNo};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::thread;
use std::time::Duration;

/// Which keys have a word in their value. It knows up to which number it has seen the changes; one
/// on disk would keep that number with the rest, in one transaction.
#[derive(Default)]
struct Index {
    keys: BTreeMap<String, BTreeSet<Vec<u8>>>,
    seen: SeqNo,
}

impl Index {
    fn remove(&mut self, key: &[u8]) {
        for keys in self.keys.values_mut() {
            keys.remove(key);
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.remove(key);
        for word in String::from_utf8_lossy(value).split_whitespace() {
            self.keys.entry(word.to_lowercase()).or_default().insert(key.to_vec());
        }
    }

    /// Takes over a batch: all of it or, if the program ends before, nothing.
    fn apply(&mut self, batch: &ChangeBatch) {
        for change in batch {
            match change.what {
                Changed::Put { value, .. } => self.put(change.key, value),
                Changed::Delete => self.remove(change.key),
                Changed::DeleteRange { lower, upper } => {
                    let is_deleted =
                        |key: &[u8]| RangeBounds::<[u8]>::contains(&(lower, upper), key);
                    self.keys.values_mut().for_each(|keys| keys.retain(|key| !is_deleted(key)));
                }
                other => panic!("{other:?} came with a newer version of the engine"),
            }
        }
        self.seen = batch.last_seqno();
    }

    /// Builds the index anew, from all that is there.
    fn rebuild(&mut self, db: &Db) -> Result<()> {
        *self = Index::default();
        let snapshot = db.snapshot();
        for pair in db.default_keyspace().iter_with(&ReadOptions::new().snapshot(&snapshot)) {
            let (key, value) = pair?;
            self.put(&key, &value);
        }
        self.seen = snapshot.seqno();
        println!("built anew, up to number {}", self.seen);
        Ok(())
    }

    /// Follows the database until nothing new has come for a while.
    fn follow(&mut self, db: &Db) -> Result<()> {
        let options = ChangesOptions::new().pin(true);
        let mut changes = match db.changes_with(self.seen, &options) {
            // An index that has seen nothing begins with what the log has, which may not be all.
            Ok(changes) if changes.position() == self.seen => changes,
            Err(error) if error.kind() != ErrorKind::ChangesGone => return Err(error),
            _ => {
                // The log is kept from here on, so that nothing is missed while the index is built.
                let mut changes = db.changes_with(db.visible_seqno(), &options)?;
                self.rebuild(db)?;
                changes.skip_to(self.seen)?;
                changes
            }
        };
        while let Some(batch) = changes.wait_batch(Duration::from_millis(200))? {
            self.apply(&batch);
        }
        Ok(())
    }

    fn count(&self, word: &str) -> usize {
        self.keys.get(word).map_or(0, BTreeSet::len)
    }
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut index = Index::default();

    // Two writers and the index, at once.
    let db = cleavedb::open(dir.path())?;
    let poems = db.default_keyspace();
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&db));
        for writer in 0..2 {
            let poems = &poems;
            scope.spawn(move || {
                (0..500).try_for_each(|n| {
                    let text = if n % 5 == 0 { "A rose is a rose" } else { "Nothing rhymes" };
                    poems.put(format!("{writer}-{n}"), text)
                })
            });
        }
        follower.join().expect("it does not panic")
    })?;
    println!("{} poems with a rose, up to number {}", index.count("rose"), index.seen);
    assert_eq!((index.count("rose"), index.seen), (200, db.visible_seqno()));

    // What the index misses while it is away, it finds in the next session.
    poems.delete("0-0")?;
    poems.put("1-0", "No flowers today")?;
    drop(poems);
    db.close()?;
    let db = cleavedb::open(dir.path())?;
    index.follow(&db)?;
    println!("{} poems with a rose, up to number {}", index.count("rose"), index.seen);
    assert_eq!((index.count("rose"), index.count("flowers")), (198, 1));
    db.close()
}
