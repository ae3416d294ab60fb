//! Builders of the golden stores. They run in the simulation, so the bytes depend on a seed alone.

use crate::listing::Contents;
use cleavedb::env::Env;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::{
    Builder, Codec, Comparator, Db, GcOptions, KeyspaceOptions, Options, Separation, WriteBatch,
};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// The names and bytes of files.
type Files = Vec<(String, Vec<u8>)>;

/// A function that makes the files of a store and returns them with the store's contents.
type Make = fn() -> (Files, Contents);

/// The golden stores by name.
pub const ALL: [(&str, Make); 8] = [
    ("log", log),
    ("torn", torn),
    ("tables", tables),
    ("zstd", zstd),
    ("relocated", relocated),
    ("checkpoint", checkpoint),
    ("dropped", dropped),
    ("empty", empty),
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

/// Returns a builder that can open each of the stores.
pub fn builder(dir: &Path) -> Builder {
    Db::builder(dir).options(options()).comparator("reversed", Arc::new(Reversed))
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
    fn new(env: &Env) -> Maker {
        let db = builder(Path::new(DIR)).env(env.clone()).open().unwrap();
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
            for (name, pairs) in &mut self.contents {
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
    let (env, simulation) = Env::simulated(SEED);
    let contents = simulation.run(|| {
        let mut maker = Maker::new(&env);
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
