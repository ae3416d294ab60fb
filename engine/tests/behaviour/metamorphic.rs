//! One program, many settings, the same answers: a random program of every operation that there is
//! on one thread runs where values are separated in each way and never, encrypted, with the tree in
//! memory, and with memtables that hold all of it. Versions count among the answers.

use crate::common::{self, rng::Rng};
use cleavedb::{
    Db, EncryptionKey, Exchange, Expected, IngestOptions, Keyspace, KeyspaceOptions, Options,
    ReadOptions, Separation, Snapshot, Transaction, Ttl, WriteBatch, merge_operators,
};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 6;
const STEPS: usize = 700;
const KEYS: usize = 60;
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1 << 20);

struct Setting {
    name: &'static str,
    separation: Separation,
    is_encrypted: bool,
    /// True if memtables, segments and tables are as by default: nothing happens in the background.
    is_large: bool,
    pin_tree: u64,
}

const fn setting(name: &'static str, separation: Separation) -> Setting {
    Setting { name, separation, is_encrypted: false, is_large: false, pin_tree: 0 }
}

fn settings() -> [Setting; 7] {
    [
        Setting { is_large: true, ..setting("all in memory", Separation::Off) },
        setting("inline", Separation::Off),
        setting("at write", Separation::AtWrite),
        setting("at flush", Separation::AtFlush),
        Setting { is_encrypted: true, ..setting("encrypted, at write", Separation::AtWrite) },
        Setting { is_encrypted: true, ..setting("encrypted, at flush", Separation::AtFlush) },
        Setting { pin_tree: 1 << 30, ..setting("pinned", Separation::AtWrite) },
    ]
}

impl Setting {
    fn open(&self, dir: &Path) -> Db {
        let base = if self.is_large { Options::default() } else { common::tiny() };
        let keyspace = KeyspaceOptions { separation: self.separation, ..base.keyspace.clone() };
        let options = Options { keyspace, pin_tree: self.pin_tree, ..base };
        let builder = Db::builder(dir).options(options);
        match self.is_encrypted {
            true => builder.encryption(Arc::new(EncryptionKey::new([5; 32]))).open().unwrap(),
            false => builder.open().unwrap(),
        }
    }
}

struct Program {
    rng: Rng,
    db: Db,
    /// One without a merge operator, and one that appends.
    keyspaces: [Keyspace; 2],
    snapshots: Vec<Snapshot>,
    answers: Vec<String>,
    written: u64,
}

fn keyspaces(db: &Db, separation: Separation) -> [Keyspace; 2] {
    let lists = db.keyspace("lists").unwrap_or_else(|_| {
        let merge_operator = Some(format!("{}:4000", merge_operators::APPEND));
        let base = common::tiny_keyspace();
        let options = KeyspaceOptions { separation, merge_operator, ..base };
        db.create_keyspace_with("lists", options).unwrap()
    });
    [db.default_keyspace(), lists]
}

impl Program {
    fn key(&mut self) -> String {
        common::key(self.rng.below(KEYS))
    }

    fn keys(&mut self) -> (String, String) {
        let (a, b) = (self.key(), self.key());
        if a <= b { (a, b) } else { (b, a) }
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        common::value("v", self.written, [5, 90, 400, 2500][self.rng.below(4)])
    }

    fn keyspace(&mut self) -> Keyspace {
        self.keyspaces[self.rng.below(2)].clone()
    }

    /// Reads pairs in either direction; the answer is a sum of them, and how many there are.
    fn scan(&mut self, options: &ReadOptions) -> String {
        let (keyspace, (from, to)) = (self.keyspace(), self.keys());
        let range = keyspace.range_with(from..to, &options.clone().read_ahead(self.rng.once_in(2)));
        let pairs: Vec<_> = match self.rng.once_in(2) {
            true => range.collect::<Result<_, _>>().unwrap(),
            false => range.rev().collect::<Result<_, _>>().unwrap(),
        };
        let mut text = format!("{} pairs:", pairs.len());
        for (key, value) in &pairs {
            let sum = value.iter().fold(0u64, |sum, &byte| sum.rotate_left(5) ^ u64::from(byte));
            write!(text, " {}={sum:x}", String::from_utf8_lossy(key)).unwrap();
        }
        text
    }

    fn exchange(&mut self) -> Exchange {
        let (keyspace, key, value) = (self.keyspace(), self.key(), self.value());
        let found = keyspace.get_versioned(&key).unwrap();
        let expected = match (self.rng.below(4), &found) {
            (0, Some(found)) => Expected::Value(&found.value),
            (1, Some(found)) => Expected::Version(found.version),
            (2, _) => Expected::Version(self.written / 2),
            _ => Expected::Absent,
        };
        match self.rng.below(3) {
            0 => keyspace.compare_and_delete(&key, expected).unwrap(),
            1 => keyspace.put_if_absent(&key, &value).unwrap(),
            _ => keyspace.compare_and_set(&key, expected, &value).unwrap(),
        }
    }

    fn batch(&mut self) -> String {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.below(8) {
            let (keyspace, key, (from, to)) = (self.keyspace(), self.key(), self.keys());
            let value = self.value();
            match self.rng.below(6) {
                0 => _ = batch.delete(&keyspace, key),
                1 => _ = batch.delete_range(&keyspace, from..to),
                2 => _ = batch.merge(&self.keyspaces[1], key, "batch,"),
                3 if self.rng.once_in(3) => _ = batch.require(&keyspace, key, Expected::Absent),
                _ => _ = batch.put(&keyspace, key, value),
            }
        }
        self.db.write(batch).map_or_else(|error| format!("{:?}", error.kind()), |()| "done".into())
    }

    fn transaction(&mut self) -> String {
        let tx = self.db.begin();
        let mut text = String::new();
        let mut savepoint = None;
        for _ in 0..2 + self.rng.below(10) {
            let (keyspace, key, (from, to)) = (self.keyspace(), self.key(), self.keys());
            match self.rng.below(9) {
                0 | 1 => write!(text, "{:?} ", tx.get(&keyspace, key).unwrap()).unwrap(),
                2 => text += &self.scan(&tx.read_options()),
                3 => tx.delete(&keyspace, key).unwrap(),
                4 => tx.delete_range(&keyspace, from..to).unwrap(),
                5 => tx.merge(&self.keyspaces[1], key, "tx,").unwrap(),
                6 => savepoint = Some(tx.savepoint().unwrap()),
                7 => {
                    if let Some(point) = savepoint.take() {
                        tx.rollback_to(&point).unwrap();
                    }
                }
                _ => tx.put(&keyspace, key, self.value()).unwrap(),
            }
        }
        if self.rng.once_in(3) {
            // Somebody else writes what may have been read.
            let (keyspace, key, value) = (self.keyspace(), self.key(), self.value());
            keyspace.put(key, value).unwrap();
        }
        text + &self.end(tx)
    }

    fn end(&mut self, tx: Transaction) -> String {
        if self.rng.once_in(5) {
            tx.rollback();
            return "rolled back".into();
        }
        tx.commit().map_or_else(|error| format!("{:?}", error.kind()), |()| "committed".into())
    }

    fn expiry(&mut self) -> String {
        // Nothing expires where operands are merged.
        let (keyspace, key, value) = (self.keyspaces[0].clone(), self.key(), self.value());
        match self.rng.below(5) {
            0 => format!("{:?}", keyspace.put_expiring(key, value, LONG)),
            1 => format!("{:?}", keyspace.put_expiring(key, value, Duration::ZERO)),
            2 => format!("{:?}", keyspace.persist(key)),
            3 => format!("{:?}", keyspace.expire(key, [LONG, Duration::ZERO][self.rng.below(2)])),
            _ => match keyspace.ttl(key).unwrap() {
                Some(Ttl::Left(left)) => format!("left: {}", left > LONG / 2),
                other => format!("{other:?}"),
            },
        }
    }

    fn ingest(&mut self) -> String {
        let (keyspace, value) = (self.keyspace(), self.value());
        let (first, step) = (self.rng.below(KEYS), 1 + self.rng.below(5));
        let pairs = (first..KEYS).step_by(step).map(|number| (common::key(number), &value));
        let options = IngestOptions::new().below(self.rng.once_in(2));
        let report = keyspace.ingest_sorted_with(pairs, &options).unwrap();
        format!("{:?} {} {}", report.seqno, report.entries, report.skipped)
    }

    /// Does what changes nothing for readers.
    fn background(&mut self) {
        match self.rng.below(5) {
            0 => self.db.flush().unwrap(),
            1 => self.db.compact().unwrap(),
            2 => _ = self.db.gc().unwrap(),
            3 => self.keyspaces[0].reorganize(..).unwrap(),
            _ => self.snapshots.clear(),
        }
    }

    fn step(&mut self) {
        let answer = match self.rng.below(16) {
            0..=3 => {
                let (keyspace, key, value) = (self.keyspace(), self.key(), self.value());
                format!("{:?}", keyspace.put(key, value))
            }
            4 => {
                let (keyspace, key) = (self.keyspace(), self.key());
                format!("{:?}", keyspace.get_versioned(key).unwrap())
            }
            5 => format!("{:?}", self.exchange()),
            6 => {
                let (keyspace, key) = (self.keyspace(), self.key());
                let longer = |old: Option<&[u8]>| Some([old.unwrap_or(b"new"), b"+"].concat());
                format!("{:?}", keyspace.update(key, longer).unwrap())
            }
            7 => self.batch(),
            8 | 9 => self.transaction(),
            10 => self.expiry(),
            11 => {
                let key = self.key();
                format!("{:?}", self.keyspaces[1].merge(key, "operand,"))
            }
            12 if self.rng.once_in(3) => {
                let (keyspace, (from, _)) = (self.keyspace(), self.keys());
                format!("{:?}", keyspace.delete_prefix(&from[..from.len() - 1]))
            }
            12 => {
                self.snapshots.push(self.db.snapshot());
                self.scan(&ReadOptions::new())
            }
            13 if !self.snapshots.is_empty() => {
                let snapshot = self.snapshots[self.rng.below(self.snapshots.len())].clone();
                self.scan(&ReadOptions::new().snapshot(&snapshot))
            }
            14 if self.rng.once_in(4) => self.ingest(),
            _ => {
                self.background();
                self.scan(&ReadOptions::new())
            }
        };
        self.answers.push(answer);
    }
}

fn run(seed: u64, setting: &Setting) -> Vec<String> {
    let dir = common::dir();
    let path = dir.path().join("store");
    let db = setting.open(&path);
    let keyspaces_of = |db: &Db| keyspaces(db, setting.separation);
    let (keyspaces, rng) = (keyspaces_of(&db), Rng::new(seed));
    let (snapshots, answers) = (Vec::new(), Vec::new());
    let mut program = Program { rng, db, keyspaces, snapshots, answers, written: 0 };
    for number in 1..=STEPS {
        program.step();
        if number % 200 == 0 {
            program.snapshots.clear();
            program.db.close().unwrap();
            program.db = setting.open(&path);
            program.keyspaces = keyspaces_of(&program.db);
        }
    }
    for keyspace in &program.keyspaces {
        let count = common::pairs(keyspace).len();
        program.answers.push(count.to_string());
    }
    let report = program.db.check().unwrap();
    assert!(!report.is_damaged(), "{}, seed {seed}: {:?}", setting.name, report.problems);
    program.answers
}

#[test]
fn the_same_program_has_the_same_answers_with_all_settings() {
    for seed in 1..=SEEDS {
        let [reference, others @ ..] = settings();
        let expected = run(seed, &reference);
        let conflicts = expected.iter().filter(|answer| answer.contains("Conflict")).count();
        let mismatches = expected.iter().filter(|answer| answer.contains("Mismatch")).count();
        assert!(conflicts > 0 && mismatches > 0, "{conflicts} and {mismatches}: this shows less");
        for setting in others {
            let found = run(seed, &setting);
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(
                    found == expected,
                    "{}, seed {seed}, step {number}: {found}\nnot as in {}: {expected}",
                    setting.name,
                    reference.name
                );
            }
        }
    }
}
