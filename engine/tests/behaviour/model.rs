//! Random operations compared with a model of ordered maps: a read returns what the model holds,
//! and a read at a snapshot what the model held when it was taken.

use crate::common::rng::Rng;
use crate::common::{self, TempDir};
use cleavedb::{
    Codec, CollectDiscardable, Cursor, Db, Durability, GcOptions, IngestOptions, Keyspace,
    KeyspaceOptions, ReadOptions, Separation, Snapshot, SortedFileOptions, SortedFileWriter,
    WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Maps = BTreeMap<String, Map>;

const NAMES: [&str; 3] = ["default", "left", "right"];
const KEYS: usize = 150;
/// The merge operator appends, and keeps so many of the last bytes: the order of operands matters,
/// and values become larger than all thresholds.
const KEPT: usize = 3000;

/// The first seed, unless `CLEAVEDB_SEED` sets it. `CLEAVEDB_SEEDS` and `CLEAVEDB_STEPS` replace
/// the two numbers below.
const FIRST_SEED: u64 = 1;
const SEEDS: u64 = 10;
const STEPS: u64 = 2000;

struct World {
    rng: Rng,
    settings: KeyspaceOptions,
    /// If set, the keyspaces change between all policies of separation.
    changes: bool,
    /// True if the keyspaces append operands, up to [`KEPT`] bytes.
    merges: bool,
    gc: GcOptions,
    place: TempDir,
    /// The number of directories used so far.
    lives: usize,
    db: Option<Db>,
    now: Maps,
    history: Vec<(Snapshot, Maps)>,
    /// The cursors that stay open, each with the map it reads and the key it is at.
    cursors: Vec<(Cursor, Map, Option<Vec<u8>>)>,
    version: u64,
    /// The number of segments that value GC relocated, up to the last close.
    relocated: u64,
}

impl World {
    fn new(seed: u64, settings: KeyspaceOptions) -> Self {
        let mut world = World {
            rng: Rng::new(seed),
            merges: settings.merge_operator.is_some(),
            settings,
            changes: false,
            gc: gc_options(seed),
            place: common::dir(),
            lives: 0,
            db: None,
            now: Maps::new(),
            history: Vec::new(),
            cursors: Vec::new(),
            version: 0,
            relocated: 0,
        };
        world.open();
        world.now.insert("default".into(), Map::new());
        world
    }

    fn dir(&self) -> PathBuf {
        self.place.path().join(self.lives.to_string())
    }

    fn open(&mut self) {
        let (keyspace, gc) = (self.settings.clone(), self.gc.clone());
        let options = cleavedb::Options { keyspace, gc, ..common::tiny() };
        self.db = Some(common::open_with(&self.dir(), options));
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    /// Gives a random keyspace another policy and threshold, while its memtable holds what was
    /// written under the last ones.
    fn change_separation(&mut self) {
        let policies = [Separation::AtWrite, Separation::AtFlush, Separation::Off];
        let separation = policies[self.rng.below(policies.len())];
        let separation_threshold = [0, 100, 1000][self.rng.below(3)];
        let settings = self.settings.clone();
        let settings = KeyspaceOptions { separation, separation_threshold, ..settings };
        self.keyspace().set_options(settings).unwrap();
    }

    /// Returns a random keyspace. The model creates its map if there is none.
    fn keyspace(&mut self) -> Keyspace {
        let name = NAMES[self.rng.below(NAMES.len())];
        self.now.entry(name.to_owned()).or_default();
        self.db().open_or_create_keyspace(name).unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        // Operands meet on few keys.
        let keys = if self.merges && self.rng.once_in(2) { 12 } else { KEYS };
        let number = self.rng.below(keys);
        match number {
            0 => Vec::new(),
            1 => vec![0xff; 300],
            2 => vec![0],
            _ => format!("k{number}{}", "x".repeat(number % 40)).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        self.version += 1;
        let bytes = match self.rng.below(12) {
            0 => return Vec::new(),
            1..=5 => self.rng.below(60),
            6..=8 => 80 + self.rng.below(60),
            9..=10 => self.rng.below(2000),
            _ => self.rng.below(20_000),
        };
        if self.rng.once_in(3) {
            return vec![b'z'; bytes];
        }
        common::value("v", self.version, bytes)
    }

    fn durability(&mut self) -> WriteOptions {
        let durability = match self.rng.below(40) {
            0 => Some(Durability::Sync),
            1..=8 => Some(Durability::Buffered),
            _ => None,
        };
        WriteOptions::new().durability(durability)
    }

    fn put(&mut self) {
        let keyspace = self.keyspace();
        let (key, value, how) = (self.key(), self.value(), self.durability());
        keyspace.put_with(&key, &value, &how).unwrap();
        self.now.get_mut(keyspace.name()).unwrap().insert(key, value);
    }

    fn merge(&mut self) {
        let keyspace = self.keyspace();
        let (key, operand, how) = (self.key(), self.value(), self.durability());
        keyspace.merge_with(&key, &operand, &how).unwrap();
        append(self.now.get_mut(keyspace.name()).unwrap(), key, &operand);
    }

    fn delete(&mut self) {
        let keyspace = self.keyspace();
        let (key, how) = (self.key(), self.durability());
        keyspace.delete_with(&key, &how).unwrap();
        self.now.get_mut(keyspace.name()).unwrap().remove(&key);
    }

    /// Returns a random range of keys, short ones mostly.
    fn some_keys(&mut self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let low = self.key();
        let mut high = low.clone();
        high.push(b'~');
        if self.rng.once_in(4) {
            high = self.key();
        }
        let (low, high) = (low.clone().min(high.clone()), high.max(low));
        // A range without an end is rare, because it deletes half of the keyspace.
        let end = |world: &mut World, key| match world.rng.below(40) {
            0 => Bound::Unbounded,
            1..20 => Bound::Included(key),
            _ => Bound::Excluded(key),
        };
        (end(self, low), end(self, high))
    }

    fn delete_range(&mut self) {
        let keyspace = self.keyspace();
        let (range, how) = (self.some_keys(), self.durability());
        keyspace.delete_range_with(range.clone(), &how).unwrap();
        forget(self.now.get_mut(keyspace.name()).unwrap(), &range);
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.below(30) {
            let keyspace = self.keyspace();
            let key = self.key();
            if self.rng.once_in(40) {
                let range = self.some_keys();
                batch.delete_range(&keyspace, range.clone());
                forget(self.now.get_mut(keyspace.name()).unwrap(), &range);
                continue;
            }
            let map = self.now.get_mut(keyspace.name()).unwrap();
            if self.rng.once_in(4) {
                batch.delete(&keyspace, &key);
                map.remove(&key);
            } else if self.merges && self.rng.once_in(2) {
                let operand = self.value();
                batch.merge(&keyspace, &key, &operand);
                append(self.now.get_mut(keyspace.name()).unwrap(), key, &operand);
            } else {
                let value = self.value();
                batch.put(&keyspace, &key, &value);
                self.now.get_mut(keyspace.name()).unwrap().insert(key, value);
            }
        }
        let how = self.durability();
        self.db().write_with(batch, &how).unwrap();
    }

    /// Ingests random keys in one of several ways.
    fn ingest(&mut self) {
        let keyspace = self.keyspace();
        let mut entries: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        for _ in 0..self.rng.below(60) {
            let value = (!self.rng.once_in(5)).then(|| self.value());
            entries.insert(self.key(), value);
        }
        let (below, by_file) = (self.rng.once_in(4), self.rng.once_in(3) && !entries.is_empty());
        let options = IngestOptions::new().below(below);
        if by_file {
            let path = self.place.path().join(format!("sorted{}", self.version));
            let separation_threshold = [0, 100, 1000][self.rng.below(3)];
            let settings = SortedFileOptions { separation_threshold, ..Default::default() };
            let mut file = SortedFileWriter::create(&path, &settings).unwrap();
            for (key, value) in &entries {
                match value {
                    Some(value) => file.put(key, value).unwrap(),
                    None => file.delete(key).unwrap(),
                }
            }
            file.finish().unwrap();
            keyspace.ingest(&[&path], &options).unwrap();
            std::fs::remove_file(&path).unwrap();
            let values = path.with_extension("values");
            let _ = std::fs::remove_file(values);
        } else {
            let mut ingestion = keyspace.begin_ingest(&options).unwrap();
            for (key, value) in &entries {
                match value {
                    Some(value) => ingestion.put(key, value).unwrap(),
                    None => ingestion.delete(key).unwrap(),
                }
            }
            ingestion.finish().unwrap();
        }
        let map = self.now.get_mut(keyspace.name()).unwrap();
        for (key, value) in entries {
            match value {
                Some(value) if below => drop(map.entry(key).or_insert(value)),
                Some(value) => drop(map.insert(key, value)),
                None if below => {}
                None => drop(map.remove(&key)),
            }
        }
    }

    /// Drops the snapshots and cursors of the open database, and adds up its statistics.
    fn let_go(&mut self) {
        self.history.clear();
        self.cursors.clear();
        self.relocated += self.db().stats().gc.segments_relocated;
    }

    fn reopen(&mut self) {
        self.let_go();
        let db = self.db.take().unwrap();
        if self.rng.once_in(2) {
            db.close().unwrap();
        } else {
            drop(db);
        }
        self.open();
    }

    /// Continues in a copy of the database: the files as a kill leaves them, or a checkpoint.
    fn move_on(&mut self) {
        self.let_go();
        let before = self.dir();
        self.lives += 1;
        if self.rng.once_in(2) {
            self.db().checkpoint(self.dir()).unwrap();
        } else {
            self.db().sync().unwrap();
            self.db().wait_idle().unwrap();
            common::copy_dir(&before, &self.dir());
        }
        self.open();
        std::fs::remove_dir_all(before).unwrap();
    }

    fn drop_keyspace(&mut self) {
        let name = NAMES[1 + self.rng.below(2)];
        if self.now.remove(name).is_some() {
            self.db().drop_keyspace(name).unwrap();
            for (_, maps) in &mut self.history {
                maps.remove(name);
            }
        }
    }

    fn reorganize(&mut self) {
        let keyspace = self.keyspace();
        let (a, b) = (self.key(), self.key());
        keyspace.reorganize(a.clone().min(b.clone())..=a.max(b)).unwrap();
    }

    /// Brings the values of a random keyspace to where its settings say.
    fn convert(&mut self) {
        let report = self.keyspace().convert().unwrap();
        assert_eq!(report.damaged_values, 0);
    }

    /// Opens a cursor that stays open during flushes, compactions and value GC.
    fn keep_cursor(&mut self) {
        let keyspace = self.keyspace();
        let map = self.now[keyspace.name()].clone();
        let options = ReadOptions::new().read_ahead(self.rng.once_in(2));
        self.cursors.push((keyspace.cursor_with(&options).unwrap(), map, None));
    }

    fn move_cursor(&mut self) {
        if !self.cursors.is_empty() {
            let index = self.rng.below(self.cursors.len());
            let (mut cursor, map, at) = self.cursors.swap_remove(index);
            let at = self.seek_or_run(&mut cursor, &map, at);
            if !self.rng.once_in(30) {
                self.cursors.push((cursor, map, at));
            }
        }
    }

    fn pause_or_resume(&mut self) {
        if self.rng.once_in(2) {
            self.db().pause_gc();
        } else {
            self.db().resume_gc();
        }
    }

    /// Reads in one of several ways, sometimes at a snapshot.
    fn read(&mut self) {
        let keyspace = self.keyspace();
        let (snapshot, maps) = match self.history.len() {
            0 => (None, &self.now),
            count => {
                let (snapshot, maps) = &self.history[self.rng.below(count)];
                (Some(snapshot.clone()), maps)
            }
        };
        let map = maps.get(keyspace.name()).cloned().unwrap_or_default();
        let snapshot = snapshot.filter(|_| maps.contains_key(keyspace.name()));
        let map = if snapshot.is_some() { map } else { self.now[keyspace.name()].clone() };
        match self.rng.below(4) {
            0 => self.walk(&keyspace, snapshot, &map),
            1 => self.multi_get(&keyspace, snapshot, &map),
            _ => {
                let key = self.key();
                let options = common::reading(snapshot);
                let found = keyspace.get_with(&key, &options).unwrap();
                assert_eq!(found.as_deref(), map.get(&key).map(Vec::as_slice), "{key:?}");
            }
        }
    }

    fn multi_get(&mut self, keyspace: &Keyspace, snapshot: Option<Snapshot>, map: &Map) {
        let keys: Vec<_> = (0..self.rng.below(40)).map(|_| self.key()).collect();
        let options = common::reading(snapshot);
        let found = keyspace.multi_get_with(&keys, &options);
        assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found.unwrap().as_deref(), map.get(key).map(Vec::as_slice), "{key:?}");
        }
    }

    fn walk(&mut self, keyspace: &Keyspace, snapshot: Option<Snapshot>, map: &Map) {
        let bound = |world: &mut World| world.rng.once_in(3).then(|| world.key());
        let (lower, upper) = (bound(self), bound(self));
        let inside = |key: &Vec<u8>| {
            lower.as_ref().is_none_or(|low| key >= low) && upper.as_ref().is_none_or(|up| key < up)
        };
        let map: Map = map.iter().filter(|(key, _)| inside(key)).map(clone_pair).collect();
        let options = common::reading(snapshot).read_ahead(!self.rng.once_in(4));
        let range = keyspace.range_with(common::range(lower, upper), &options);
        let mut cursor = range.into_cursor().unwrap();
        let mut at: Option<Vec<u8>> = None;
        for _ in 0..20 {
            at = self.seek_or_run(&mut cursor, &map, at);
        }
    }

    /// Makes one seek, or several steps in one direction. Returns the key that the cursor is at.
    fn seek_or_run(
        &mut self,
        cursor: &mut Cursor,
        map: &Map,
        at: Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let ask_every = 1 + self.rng.below(3);
        let key = self.key();
        let mut at = match self.rng.below(8) {
            0 => {
                cursor.seek_to_first().unwrap();
                map.keys().next().cloned()
            }
            1 => {
                cursor.seek_to_last().unwrap();
                map.keys().next_back().cloned()
            }
            2 => {
                cursor.seek(&key).unwrap();
                map.range(key..).next().map(|(key, _)| key.clone())
            }
            3 => {
                cursor.seek_for_prev(&key).unwrap();
                map.range(..=key).next_back().map(|(key, _)| key.clone())
            }
            _ => at,
        };
        check(cursor, map, &at, true);
        let forward = self.rng.once_in(2);
        for step in 0..self.rng.below(25) {
            at = at.and_then(|at| {
                if forward {
                    let behind = (Bound::Excluded(at), Bound::Unbounded);
                    map.range(behind).next().map(|(key, _)| key.clone())
                } else {
                    map.range(..at).next_back().map(|(key, _)| key.clone())
                }
            });
            if forward {
                cursor.next().unwrap()
            } else {
                cursor.prev().unwrap()
            }
            check(cursor, map, &at, step % ask_every == 0);
        }
        at
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..300 if self.merges => self.merge(),
            0..388 => self.put(),
            388..400 => self.delete_range(),
            400..500 => self.delete(),
            500..600 => self.batch(),
            600..888 => self.read(),
            888..900 => self.ingest(),
            900..935 => self.move_cursor(),
            935..938 => self.keep_cursor(),
            938..945 => drop(self.db().gc().unwrap()),
            945..948 => self.reorganize(),
            948..950 => self.pause_or_resume(),
            950..958 => self.db().flush().unwrap(),
            958..960 => self.convert(),
            960..965 => self.db().compact().unwrap(),
            965..985 => {
                let snapshot = self.db().snapshot();
                self.history.push((snapshot, self.now.clone()));
            }
            985..993 if !self.history.is_empty() => {
                let index = self.rng.below(self.history.len());
                self.history.swap_remove(index);
            }
            993..996 => self.reopen(),
            996..998 => self.move_on(),
            998 => self.drop_keyspace(),
            999 if !self.changes => self.drop_keyspace(),
            985..993 | 999 if self.changes => self.change_separation(),
            _ => {}
        }
    }

    /// Compares all keyspaces with the model in both directions, and checks the files.
    fn verify(&self) {
        let names: Vec<_> = self.now.keys().cloned().collect();
        assert_eq!(self.db().keyspaces(), names);
        for (name, map) in &self.now {
            let keyspace = self.db().keyspace(name).unwrap();
            let expected: Vec<_> = map.iter().map(clone_pair).collect();
            assert_eq!(common::pairs(&keyspace), expected);
            let backward: Vec<_> = keyspace.keys().rev().map(|key| key.unwrap()).collect();
            assert!(backward.iter().rev().eq(map.keys()));
        }
        let report = self.db().check().unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

fn clone_pair((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

fn forget(map: &mut Map, range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) {
    map.retain(|key, _| !range.contains(key));
}

/// Does what the merge operator does.
fn append(map: &mut Map, key: Vec<u8>, operand: &[u8]) {
    let value = map.entry(key).or_default();
    value.extend_from_slice(operand);
    value.drain(..value.len().saturating_sub(KEPT));
}

fn check(cursor: &mut Cursor, map: &Map, at: &Option<Vec<u8>>, ask: bool) {
    let key = cursor.valid().then(|| cursor.key().to_vec());
    assert_eq!(key.as_ref(), at.as_ref());
    if let Some(key) = key
        && ask
    {
        assert_eq!(cursor.value().unwrap(), map[&key]);
    }
}

/// A guard that prints how to repeat a failure.
struct Repeat(u64, &'static str);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with settings {:?}: CLEAVEDB_SEED={}", self.1, self.0);
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn run(name: &'static str, settings: KeyspaceOptions) {
    run_with(name, settings, false);
}

fn run_with(name: &'static str, settings: KeyspaceOptions, changes: bool) {
    let first = number("CLEAVEDB_SEED", FIRST_SEED);
    let separates = settings.separation != Separation::Off;
    let mut relocated = 0;
    for seed in first..first + number("CLEAVEDB_SEEDS", SEEDS) {
        let _repeat = Repeat(seed, name);
        let mut world = World::new(seed, settings.clone());
        world.changes = changes;
        let steps = number("CLEAVEDB_STEPS", STEPS);
        for step in 1..=steps {
            world.step();
            if step % 500 == 0 {
                world.verify();
            }
        }
        world.let_go();
        relocated += world.relocated;
        world.db().compact().unwrap();
        world.verify();
        world.reopen();
        world.verify();
    }
    assert!(relocated > 0 || !separates, "value GC had nothing to do: this test shows less");
}

/// Returns options of value GC for a seed: automatic or not, with bounds or ratios that keep it
/// busy.
fn gc_options(seed: u64) -> GcOptions {
    let always = (seed / 3).is_multiple_of(2);
    let when = if always { CollectDiscardable::Always } else { CollectDiscardable::Idle };
    GcOptions {
        automatic: !seed.is_multiple_of(4),
        max_space_amplification: [1.05, 1.1, 1.5][seed as usize % 3],
        discardable_ratio: [0.05, 0.3][(seed / 6) as usize % 2],
        collect_discardable: when,
        ..common::tiny().gc
    }
}

fn with(threshold: Option<usize>, value_codec: Codec, block_codec: Codec) -> KeyspaceOptions {
    KeyspaceOptions {
        value_codec,
        block_codec,
        value_compression_min_bytes: 50,
        ..common::separating(threshold)
    }
}

#[test]
fn every_value_separated() {
    run("every value separated", with(Some(0), Codec::None, Codec::None));
}

#[test]
fn every_value_separated_and_compressed() {
    run("every value separated and compressed", with(Some(0), Codec::Lz4, Codec::Lz4));
}

#[test]
fn some_values_separated() {
    run("some values separated", with(Some(100), Codec::None, Codec::Lz4));
}

#[test]
fn some_values_separated_and_compressed() {
    run("some values separated and compressed", with(Some(100), Codec::Lz4, Codec::None));
}

#[test]
fn no_value_separated() {
    run("no value separated", with(None, Codec::None, Codec::None));
}

#[test]
fn no_value_separated_blocks_compressed() {
    run("no value separated, blocks compressed", with(None, Codec::Lz4, Codec::Lz4));
}

fn at_flush(settings: KeyspaceOptions) -> KeyspaceOptions {
    KeyspaceOptions { separation: Separation::AtFlush, ..settings }
}

#[test]
fn every_value_separated_at_flush() {
    let settings = at_flush(with(Some(0), Codec::None, Codec::Lz4));
    run("every value separated at flush", settings);
}

#[test]
fn some_values_separated_at_flush_and_compressed() {
    let settings = at_flush(with(Some(100), Codec::Lz4, Codec::Lz4));
    run("some values separated at flush and compressed", settings);
}

#[test]
fn the_policy_of_separation_changes_all_the_time() {
    let settings = with(Some(100), Codec::Lz4, Codec::None);
    run_with("the policy of separation changes", settings, true);
}

fn merging(settings: KeyspaceOptions) -> KeyspaceOptions {
    KeyspaceOptions { merge_operator: Some(format!("cleavedb.Append:{KEPT}")), ..settings }
}

#[test]
fn every_operand_separated() {
    run("every operand separated", merging(with(Some(0), Codec::Lz4, Codec::None)));
}

#[test]
fn some_operands_separated() {
    run("some operands separated", merging(with(Some(100), Codec::None, Codec::Lz4)));
}

#[test]
fn no_operand_separated() {
    run("no operand separated", merging(with(None, Codec::None, Codec::Lz4)));
}

#[test]
fn some_operands_separated_at_flush() {
    let settings = at_flush(with(Some(100), Codec::Lz4, Codec::Lz4));
    run("some operands separated at flush", merging(settings));
}

#[test]
fn the_policy_of_separation_changes_under_operands() {
    let settings = merging(with(Some(100), Codec::Lz4, Codec::None));
    run_with("the policy of separation changes under operands", settings, true);
}
