//! Builders of the golden stores. They run in the simulation, so the bytes depend on a seed alone.

use crate::listing::Contents;
use cleavedb::env::Env;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::{
    Builder, Codec, Comparator, Db, EncryptionKey, Expiry, GcOptions, IngestOptions,
    KeyspaceOptions, Options, Separation, WriteBatch, merge_operators,
};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The names and bytes of files.
type Files = Vec<(String, Vec<u8>)>;

/// A function that makes the files of a store and returns them with the store's contents.
type Make = fn() -> (Files, Contents);

/// The golden stores by name.
pub const ALL: [(&str, Make); 10] = [
    ("log", log),
    ("torn", torn),
    ("tables", tables),
    ("zstd", zstd),
    ("relocated", relocated),
    ("checkpoint", checkpoint),
    ("dropped", dropped),
    ("empty", empty),
    ("kinds", kinds),
    ("encrypted", encrypted),
];

const DIR: &str = "db";
const SEED: u64 = 7;

/// The comparator of the keyspace `reversed`, in reverse bytewise order.
struct Reversed;

impl Comparator for Reversed {
    fn name(&self) -> &str {
        "golden.reversed"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// The key of the store that is encrypted.
pub fn encryption_key() -> EncryptionKey {
    EncryptionKey::new([7; 32])
}

/// Returns a builder that can open each of the stores.
pub fn builder(dir: &Path) -> Builder {
    let is_encrypted = dir.join("KEYS").exists();
    let builder = Db::builder(dir).options(options()).comparator("reversed", Arc::new(Reversed));
    if is_encrypted { builder.encryption(Arc::new(encryption_key())) } else { builder }
}

/// Returns options with buffers so small that a few dozen values make tables, levels and segments.
pub fn options() -> Options {
    let keyspace = KeyspaceOptions {
        separation_threshold: 200,
        block_bytes: 512,
        table_bytes: 4 << 10,
        memtable_bytes: 8 << 10,
        level0_trigger: 2,
        level_base_bytes: 8 << 10,
        ..KeyspaceOptions::default()
    };
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    let (segment_bytes, max_replay_bytes) = (8 << 10, 64 << 10);
    Options { segment_bytes, max_replay_bytes, keyspace, gc, ..Options::default() }
}

/// Returns a value of `len` bytes. Every second value is compressible.
pub fn value(number: usize, len: usize) -> Vec<u8> {
    let text = format!("{number:06}.");
    let mut state = number as u64;
    let mut noise = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    match number % 2 {
        0 => text.bytes().cycle().take(len).collect(),
        _ => (0..len).map(|_| noise()).collect(),
    }
}

const LENGTHS: [usize; 6] = [0, 9, 70, 199, 230, 450];

/// A database that is being made, and the contents that it must have.
struct Maker {
    db: Db,
    contents: Contents,
}

impl Maker {
    /// Creates a database with a keyspace of each kind.
    fn new(builder: Builder) -> Maker {
        let db = builder.open().unwrap();
        let mut maker = Maker { db, contents: Contents::new() };
        let usual = options().keyspace;
        maker.keyspace("default", usual.clone());
        let (value_codec, value_compression_min_bytes) = (Codec::Lz4, 0);
        let small = KeyspaceOptions { value_codec, value_compression_min_bytes, ..usual.clone() };
        maker.keyspace("lz4", small);
        let (separation, block_codec) = (Separation::Off, Codec::None);
        let plain = KeyspaceOptions { separation, block_codec, ..usual.clone() };
        maker.keyspace("inline", KeyspaceOptions { filter_bits_per_key: 0, ..plain });
        maker.keyspace("reversed", usual);
        maker
    }

    fn keyspace(&mut self, name: &str, options: KeyspaceOptions) {
        let keyspace = self.db.open_or_create_keyspace(name).unwrap();
        keyspace.set_options(options).unwrap();
        self.contents.entry(name.to_owned()).or_default();
    }

    /// Puts values of these numbers in all keyspaces. The keys repeat every 29 numbers.
    fn put(&mut self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let (key, value) = (key(number), value(number, LENGTHS[number % LENGTHS.len()]));
            let merging = ["sums", "lists"];
            for (name, pairs) in self.contents.iter_mut().filter(|it| !merging.contains(&&**it.0)) {
                self.db.keyspace(name).unwrap().put(&key, &value).unwrap();
                pairs.insert(key.clone(), value.clone());
            }
        }
    }

    /// Deletes the keys of these numbers in all keyspaces, in one batch.
    fn delete(&mut self, numbers: std::ops::Range<usize>) {
        let mut batch = WriteBatch::new();
        for (name, pairs) in &mut self.contents {
            let keyspace = self.db.keyspace(name).unwrap();
            for number in numbers.clone() {
                batch.delete(&keyspace, key(number));
                pairs.remove(&key(number));
            }
        }
        self.db.write(batch).unwrap();
    }

    fn drop_keyspace(&mut self, name: &str) {
        self.db.drop_keyspace(name).unwrap();
        self.contents.remove(name);
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key{:02}", number * 7 % 29).into_bytes()
}

/// Runs `script` in a simulation of its own, and returns the files of the folder `dir`: all of them
/// if the script closes the database, else those that `survivors` leaves of a crash.
fn made(
    dir: &str,
    survivors: Survivors,
    script: impl FnOnce(&mut Maker, &Simulation) -> End,
) -> (Files, Contents) {
    made_with(|builder| builder, dir, survivors, script)
}

/// Does as [`made`], with a builder that `settle` changes.
fn made_with(
    settle: impl FnOnce(Builder) -> Builder,
    dir: &str,
    survivors: Survivors,
    script: impl FnOnce(&mut Maker, &Simulation) -> End,
) -> (Files, Contents) {
    let (env, simulation) = Env::simulated(SEED);
    let contents = simulation.run(|| {
        let mut maker = Maker::new(settle(builder(Path::new(DIR)).env(env.clone())));
        match script(&mut maker, &simulation) {
            End::Closed => maker.db.close().unwrap(),
            End::Killed => simulation.crash(),
        }
        maker.contents
    });
    let (_, world) = simulation.surviving(survivors, SEED);
    let files = world.files().into_iter().filter(|path| path.starts_with(dir));
    let files = files.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut bytes = world.read_file(&path);
        // Cut off all but 100 of the zeroes prepared for appends; a few test the same as all.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(used.max(bytes.len().min(used + 100)));
        (name, bytes)
    });
    (files.filter(|(name, _)| name != "LOCK").collect(), contents)
}

/// The way in which the process ends.
enum End {
    Closed,
    Killed,
}

/// Makes a store of a killed process that has all its data in the log.
fn log() -> (Files, Contents) {
    made(DIR, Survivors::KeepAll, |maker, _| {
        maker.put(0..20);
        maker.delete(3..6);
        End::Killed
    })
}

/// Makes a store whose power failed in the middle of a commit that was not synced.
fn torn() -> (Files, Contents) {
    made(DIR, Survivors::TornLast, |maker, _| {
        maker.put(0..14);
        maker.delete(2..4);
        maker.db.sync().unwrap();
        let unsynced = value(1, 4000);
        maker.db.default_keyspace().put("torn", unsynced).unwrap();
        End::Killed
    })
}

/// Makes a store with tables in several levels, and with old versions that a snapshot pinned.
fn tables() -> (Files, Contents) {
    made(DIR, Survivors::KeepAll, |maker, _| {
        maker.put(0..40);
        maker.db.flush().unwrap();
        let snapshot = maker.db.snapshot();
        maker.put(40..60);
        maker.delete(50..58);
        maker.db.compact().unwrap();
        drop(snapshot);
        maker.put(60..66);
        End::Closed
    })
}

/// Makes a store whose blocks and values are compressed with zstd.
fn zstd() -> (Files, Contents) {
    made(DIR, Survivors::KeepAll, |maker, _| {
        let (value_codec, block_codec) = (Codec::Zstd, Codec::Zstd);
        let options = KeyspaceOptions { value_codec, block_codec, ..options().keyspace };
        let options = KeyspaceOptions { value_compression_min_bytes: 0, ..options };
        maker.keyspace("zstd", options);
        maker.put(0..30);
        maker.db.compact().unwrap();
        maker.put(30..36);
        End::Closed
    })
}

/// Makes sorted segments, and relocations that lead from tables in L0 to them.
fn relocated_script(maker: &mut Maker) {
    maker.put(0..58);
    maker.db.flush().unwrap();
    maker.put(58..80);
    let report = maker.db.gc().unwrap();
    assert!(report.values_moved > 0, "nothing is relocated: {report:?}");
}

fn relocated() -> (Files, Contents) {
    let made = made(DIR, Survivors::KeepAll, |maker, _| {
        relocated_script(maker);
        End::Closed
    });
    assert!(made.0.iter().any(|(name, _)| name.ends_with(".rel")), "there is no relocation");
    made
}

/// Makes a checkpoint of a store with relocations. Later writes are not in it.
fn checkpoint() -> (Files, Contents) {
    made("copy", Survivors::KeepAll, |maker, _| {
        relocated_script(maker);
        maker.db.checkpoint("copy").unwrap();
        maker.db.default_keyspace().put("later", "not in the checkpoint").unwrap();
        End::Closed
    })
}

/// Makes a store whose log still has records of a keyspace that was dropped and created anew under
/// the same name.
fn dropped() -> (Files, Contents) {
    made(DIR, Survivors::KeepAll, |maker, _| {
        maker.keyspace("passing", options().keyspace);
        maker.put(0..10);
        maker.drop_keyspace("passing");
        maker.drop_keyspace("inline");
        maker.put(10..14);
        maker.keyspace("passing", options().keyspace);
        maker.put(14..18);
        End::Killed
    })
}

/// Makes a store in which nothing was written.
fn empty() -> (Files, Contents) {
    made(DIR, Survivors::KeepAll, |_, _| End::Closed)
}

impl Maker {
    /// Merges operands of these numbers, adds up and appends, in keyspaces of their own.
    fn merge(&mut self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let key = format!("merged{}", number % 3).into_bytes();
            self.db.keyspace("sums").unwrap().merge(&key, number.to_string()).unwrap();
            let sum = self.contents.get_mut("sums").unwrap().entry(key.clone()).or_default();
            let before: usize = std::str::from_utf8(sum).unwrap().parse().unwrap_or(0);
            *sum = (before + number).to_string().into_bytes();
            let part = value(number, 90 + 80 * (number % 3));
            self.db.keyspace("lists").unwrap().merge(&key, &part).unwrap();
            self.contents.get_mut("lists").unwrap().entry(key).or_default().extend(part);
        }
    }

    fn delete_range(&mut self, from: &str, to: &str) {
        for (name, pairs) in &mut self.contents {
            let keyspace = self.db.keyspace(name).unwrap();
            keyspace.delete_range(from..to).unwrap();
            let order: fn(&[u8], &[u8]) -> Ordering =
                if name == "reversed" { |a, b| b.cmp(a) } else { |a, b| a.cmp(b) };
            let is_before = |a: &[u8], b: &[u8]| order(a, b).is_lt();
            pairs
                .retain(|key, _| is_before(key, from.as_bytes()) || !is_before(key, to.as_bytes()));
        }
    }

    /// Ingests values of these numbers, and the deletion of the key before them.
    fn ingest(&mut self, name: &str, numbers: std::ops::Range<usize>) {
        let keyspace = self.db.keyspace(name).unwrap();
        let mut ingestion = keyspace.begin_ingest(&IngestOptions::default()).unwrap();
        let pairs = self.contents.get_mut(name).unwrap();
        let key = |number: usize| format!("key{number:02}").into_bytes();
        ingestion.delete(key(numbers.start - 1)).unwrap();
        pairs.remove(&key(numbers.start - 1));
        for number in numbers {
            let value = value(number, LENGTHS[number % LENGTHS.len()]);
            ingestion.put(key(number), &value).unwrap();
            pairs.insert(key(number), value);
        }
        ingestion.finish().unwrap();
    }

    /// Puts a value that expires in the year 2200, and one that has expired.
    fn expire(&mut self, name: &str) {
        let keyspace = self.db.keyspace(name).unwrap();
        let at = |seconds| Expiry::At(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let value = value(1, 300);
        keyspace.put_expiring("late", &value, at(7_258_118_400)).unwrap();
        keyspace.put_expiring("gone", &value, at(1)).unwrap();
        self.contents.get_mut(name).unwrap().insert(b"late".to_vec(), value);
    }
}

/// Writes every kind of entry, record and edit that there is besides puts and deletions.
fn kinds_script(maker: &mut Maker) {
    let merging = |operator: &str| KeyspaceOptions {
        merge_operator: Some(operator.to_owned()),
        ..options().keyspace
    };
    for (name, operator) in [("sums", merge_operators::ADD), ("lists", merge_operators::APPEND)] {
        maker.db.create_keyspace_with(name, merging(operator)).unwrap();
        maker.contents.entry(name.to_owned()).or_default();
    }
    maker.merge(0..20);
    maker.put(20..40);
    maker.expire("default");
    maker.ingest("lz4", 5..25);
    maker.db.flush().unwrap();
    maker.delete_range("key10", "key15");
    maker.merge(20..30);
    maker.db.flush().unwrap();
    maker.ingest("inline", 12..18);
    maker.delete_range("key20", "key22");
    maker.merge(30..35);
    maker.expire("reversed");
    maker.ingest("default", 1..4);
}

fn kinds() -> (Files, Contents) {
    made(DIR, Survivors::KeepAll, |maker, _| {
        kinds_script(maker);
        End::Killed
    })
}

/// Makes an encrypted store with everything that files can have.
fn encrypted() -> (Files, Contents) {
    let key = |builder: Builder| builder.encryption(Arc::new(encryption_key()));
    made_with(key, DIR, Survivors::KeepAll, |maker, _| {
        relocated_script(maker);
        kinds_script(maker);
        End::Killed
    })
}
