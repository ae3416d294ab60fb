//! Compaction filters in the simulation: a random workload beside a model, with crashes. Until an
//! entry is compacted, readers see it as it was written or as the filter makes it; after a
//! compaction of everything, exactly the latter. What a snapshot saw, it always sees.

use crate::client::{DIR, at_flush_options, inline_options, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::Survivors;
use cleavedb::{
    CompactionFilter, Db, Durability, FilterDecision, FilteredEntry, KeyspaceOptions, Options,
    ReadOptions, Result, Snapshot, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of the keys that have one.
type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Does as the first letter of the value says: `d` goes, `c` becomes `k`, and `k` stays.
struct ByLetter;

impl CompactionFilter for ByLetter {
    fn name(&self) -> &str {
        "test.ByLetter"
    }

    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
        // A part of what goes is known by its key, and not read.
        if entry.key().starts_with(b"gone") {
            return Ok(FilterDecision::Drop);
        }
        let value = entry.value()?;
        Ok(match filtered(entry.key(), value) {
            None => FilterDecision::Drop,
            Some(new) if new == value => FilterDecision::Keep,
            Some(new) => FilterDecision::Change(new),
        })
    }
}

/// Returns what the filter makes of a value.
fn filtered(key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    if key.starts_with(b"gone") || value[0] == b'd' {
        return None;
    }
    let mut value = value.to_vec();
    if value[0] == b'c' {
        value[0] = b'k';
        // The new value may be on the other side of the threshold.
        let length = if value.len().is_multiple_of(2) { 350 } else { 40 };
        value.resize(length, b'#');
    }
    Some(value)
}

/// A random number generator (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % below
    }
}

fn open(env: &Env, seed: u64) -> Result<Db> {
    let modes: [KeyspaceOptions; 3] =
        [tiny_options().keyspace, at_flush_options(), inline_options()];
    let keyspace = modes[seed as usize % 3].clone();
    let builder = Db::builder(DIR).options(Options { keyspace, ..tiny_options() });
    builder.env(env.clone()).compaction_filter("default", Arc::new(ByLetter)).open()
}

/// What was written: the contents before the write under way, and that write.
#[derive(Default, Clone)]
struct Written {
    contents: Contents,
    under_way: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Written {
    /// Records that the write under way has taken effect.
    fn apply(&mut self) {
        if let Some((key, value)) = self.under_way.take() {
            match value {
                Some(value) => self.contents.insert(key, value),
                None => self.contents.remove(&key),
            };
        }
    }

    /// Returns the values that a reader may see under a key.
    fn possible(&self, key: &[u8], is_compacted: bool) -> Vec<Option<Vec<u8>>> {
        let mut written = vec![self.contents.get(key).cloned()];
        if let Some((_, value)) = self.under_way.as_ref().filter(|(of, _)| of == key) {
            written.push(value.clone());
        }
        let mut all = Vec::new();
        for value in written {
            let becomes = value.as_ref().and_then(|value| filtered(key, value));
            all.extend((!is_compacted).then_some(value));
            all.push(becomes);
        }
        all
    }

    fn check(&self, found: &Contents, is_compacted: bool) {
        let under_way = self.under_way.iter().map(|(key, _)| key);
        for key in self.contents.keys().chain(found.keys()).chain(under_way) {
            let value = found.get(key).cloned();
            assert!(
                self.possible(key, is_compacted).contains(&value),
                "{} is {:?}",
                key.escape_ascii(),
                value.map(|value| value.escape_ascii().to_string())
            );
        }
    }
}

/// Reads everything at a snapshot, by a scan and key by key.
fn read(db: &Db, snapshot: &Snapshot) -> Result<Contents> {
    let (keyspace, options) = (db.default_keyspace(), ReadOptions::new().snapshot(snapshot));
    let mut found = Contents::new();
    for pair in keyspace.iter_with(&options) {
        let (key, value) = pair?;
        assert_eq!(keyspace.get_with(&key, &options)?.as_ref(), Some(&value));
        found.insert(key, value.into_vec());
    }
    Ok(found)
}

/// Checks that a snapshot sees what it saw.
fn check_snapshot(db: &Db, (snapshot, saw): &(Snapshot, Contents)) -> Result<()> {
    let options = ReadOptions::new().snapshot(snapshot);
    let keyspace = db.default_keyspace();
    for (key, value) in saw {
        let found = keyspace.get_with(key, &options)?;
        assert_eq!(found.as_deref(), Some(&value[..]), "a snapshot sees another value");
    }
    assert_eq!(read(db, snapshot)?.len(), saw.len(), "a snapshot sees another key");
    Ok(())
}

/// Writes, reads and compacts until the power fails, or to the end.
fn work(db: &Db, random: &mut Random, written: &mut Written, steps: u64) -> Result<()> {
    let keyspace = db.default_keyspace();
    let mut snapshots: Vec<(Snapshot, Contents)> = Vec::new();
    for step in 0..steps {
        match random.next(40) {
            0 => {
                let snapshot = db.snapshot();
                let saw = read(db, &snapshot)?;
                written.check(&saw, false);
                snapshots.push((snapshot, saw));
            }
            1 if !snapshots.is_empty() => {
                let at = random.next(snapshots.len() as u64) as usize;
                check_snapshot(db, &snapshots.swap_remove(at))?;
            }
            2 => {
                for snapshot in &snapshots {
                    check_snapshot(db, snapshot)?;
                }
                snapshots.truncate(3);
            }
            3 => db.flush()?,
            4 if random.next(4) == 0 => {
                db.compact()?;
                let is_exact = snapshots.is_empty();
                written.check(&read(db, &db.snapshot())?, is_exact);
            }
            5 if random.next(4) == 0 => drop(db.gc()?),
            _ => {
                let name = if random.next(8) == 0 { "gone" } else { "key" };
                let key = format!("{name}{:02}", random.next(40)).into_bytes();
                let letter = ["keep", "drop", "change"][random.next(3) as usize];
                let mut value = format!("{letter} {step} ").into_bytes();
                value.resize(20 + random.next(400) as usize, b'.');
                let value = (random.next(6) > 0).then_some(value);
                written.under_way = Some((key.clone(), value.clone()));
                let options = WriteOptions::new().durability(Durability::Sync);
                match &value {
                    Some(value) => keyspace.put_with(&key, value, &options)?,
                    None => keyspace.delete_with(&key, &options)?,
                }
                written.apply();
            }
        }
    }
    for snapshot in &snapshots {
        check_snapshot(db, snapshot)?;
    }
    Ok(())
}

/// Compacts everything: then the contents are exactly what the filter makes of what was written.
fn check_exactly(db: &Db, written: &Written) {
    written.check(&read(db, &db.snapshot()).unwrap(), false);
    db.wait_idle().unwrap();
    db.compact().unwrap();
    written.check(&read(db, &db.snapshot()).unwrap(), true);
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn i06_a_filter_beside_a_model() {
    let (mut dropped, mut changed) = (0, 0);
    for seed in 0..30 {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(5_000_000);
        let (mut written, mut random) = (Written::default(), Random(seed));
        simulation.run(|| {
            for _ in 0..2 {
                let db = open(&env, seed).unwrap();
                work(&db, &mut random, &mut written, 400).unwrap();
                check_exactly(&db, &written);
                let stats = db.stats();
                dropped += stats.filtered_entries_dropped;
                changed += stats.filtered_entries_changed;
                assert_eq!(stats.background_errors, 0, "seed {seed}");
                db.close().unwrap();
            }
        });
    }
    assert!(dropped > 1000 && changed > 1000, "{dropped} {changed}");
}

/// Guards against an edit that names changed values before they are durable, and against old values
/// that come back when the end of a compaction is lost.
#[test]
fn i03_a_crash_beside_a_filter_loses_nothing_and_brings_nothing_back() {
    let mut crashes = 0;
    for seed in 0..120 {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(5_000_000);
        simulation.crash_at(20 + seed * 37 % 900);
        let (mut written, mut random) = (Written::default(), Random(seed));
        simulation.run(|| {
            let Ok(db) = open(&env, seed) else { return };
            if let Err(error) = work(&db, &mut random, &mut written, 1500) {
                assert!(simulation.crashed(), "seed {seed}: {error}");
            }
        });

        crashes += u64::from(simulation.crashed());
        let survivors = [Survivors::LoseAll, Survivors::Prefix, Survivors::Random];
        let survivors = survivors.into_iter().chain([Survivors::TornLast, Survivors::KeepAll]);
        let env = simulation.restart(survivors.cycle().nth(seed as usize).expect("endless"));
        simulation.run(|| {
            let db = open(&env, seed).unwrap();
            check_exactly(&db, &written);
            // The outcome of the write under way is known by now, and stays.
            let found = read(&db, &db.snapshot()).unwrap();
            db.close().unwrap();
            let db = open(&env, seed).unwrap();
            assert_eq!(read(&db, &db.snapshot()).unwrap(), found);
            db.close().unwrap();
        });
    }
    assert!(crashes > 80, "{crashes} runs met their crash");
}
