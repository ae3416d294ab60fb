//! Random walks of cursors against a map: some values are inline, some separated, some merged, some
//! damaged, and some the transaction's own. Walks of like lengths follow each other, so that
//! cursors learn how far to read ahead, and turn, jump and stop asking for values anywhere within.

use crate::common::rng::Rng;
use crate::common::{self, TempDir, key};
use cleavedb::{
    Cursor, Db, ErrorKind, GcOptions, Keyspace, KeyspaceOptions, Options, ParallelReads,
    ReadOptions, Separation, merge_operators,
};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::time::UNIX_EPOCH;

const KEYS: usize = 1500;

/// What a cursor should see: each key with its value, or `None` if the value is damaged.
type Pairs = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

struct Store {
    dir: TempDir,
    db: Db,
    keyspace: Keyspace,
    pairs: Pairs,
    /// True if values are merged; false if some expire, which those of a merge can't.
    merges: bool,
    rng: Rng,
}

impl Store {
    fn open(seed: u64) -> Store {
        let mut rng = Rng::new(seed);
        let merges = rng.once_in(2);
        let dir = common::dir();
        let parallel_reads = [ParallelReads::Threads, ParallelReads::Off][rng.below(2)];
        let gc = GcOptions { automatic: false, memory_bytes: 64 << 10, ..GcOptions::default() };
        let segment_bytes = [16 << 10, 256 << 10, 4 << 20][rng.below(3)];
        let options = Options { parallel_reads, gc, segment_bytes, ..common::tiny() };
        let db = common::open_with(dir.path(), options);
        let keyspace = KeyspaceOptions {
            merge_operator: merges.then(|| merge_operators::APPEND.to_owned()),
            separation: [Separation::AtWrite, Separation::AtFlush][rng.below(2)],
            ..common::tiny_keyspace()
        };
        let keyspace = db.create_keyspace_with("walked", keyspace).unwrap();
        Store { dir, db, keyspace, pairs: Pairs::new(), merges, rng }
    }

    /// Writes a store in random order, of which a part is overwritten, merged, deleted or expired.
    fn fill(&mut self) {
        let inline = 1 + self.rng.below(10);
        for version in 0..3 * KEYS {
            let name = key(self.rng.below(KEYS));
            let bytes = match self.rng.below(20) {
                0 => 5000 + self.rng.below(40_000),
                size if size < inline => self.rng.below(90),
                _ => 100 + self.rng.below(300),
            };
            let value = common::value(&name, version as u64, bytes);
            self.write(&name, value);
            match self.rng.below(1000) {
                0..4 => self.keyspace.flush().unwrap(),
                4 => self.db.gc().map(drop).unwrap(),
                5 => self.keyspace.compact_range(..).unwrap(),
                6 => self.keyspace.reorganize(..).unwrap(),
                7..9 => {
                    let first = self.rng.below(KEYS);
                    let range = key(first)..key(first + self.rng.below(50));
                    self.keyspace.delete_range(range.clone()).unwrap();
                    let range = range.start.into_bytes()..range.end.into_bytes();
                    self.pairs.retain(|key, _| !range.contains(key));
                }
                _ => {}
            }
        }
        match self.rng.below(4) {
            0 => self.keyspace.reorganize(..).unwrap(),
            1 => self.db.gc().map(drop).unwrap(),
            2 => self.db.compact().unwrap(),
            _ => {}
        }
    }

    fn write(&mut self, name: &str, value: Vec<u8>) {
        let key = name.as_bytes().to_vec();
        match self.rng.below(20) {
            0 => {
                self.keyspace.delete(name).unwrap();
                self.pairs.remove(&key);
            }
            1 if !self.merges => {
                self.keyspace.put_expiring(name, value, UNIX_EPOCH).unwrap();
                self.pairs.remove(&key);
            }
            2..5 if self.merges => {
                self.keyspace.merge(name, &value).unwrap();
                let before = self.pairs.entry(key).or_insert_with(|| Some(Vec::new()));
                before.as_mut().expect("nothing is damaged yet").extend(value);
            }
            _ => {
                self.keyspace.put(name, &value).unwrap();
                self.pairs.insert(key, Some(value));
            }
        }
    }

    /// Damages some separated values on the disk.
    fn damage(&mut self) {
        self.db.flush().unwrap();
        self.db.wait_idle().unwrap();
        for name in (0..4).map(|_| key(self.rng.below(KEYS))) {
            for path in common::files(self.dir.path(), ".seg") {
                let bytes = std::fs::read(&path).unwrap();
                let start = format!("{name}@").into_bytes();
                let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                let starts = bytes.windows(start.len()).enumerate();
                for (at, _) in starts.filter(|(_, window)| *window == start) {
                    file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
                }
            }
            if let Some(value) = self.pairs.get_mut(name.as_bytes()) {
                match self.keyspace.get(&name) {
                    Ok(found) => assert_eq!(found.as_deref(), value.as_deref()),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption);
                        *value = None;
                    }
                }
            }
        }
    }

    /// Lets some cursors walk, each about as far as those before it.
    fn walk(&mut self, options: &ReadOptions, pairs: &Pairs) {
        let length = [1, 3, 10, 40, 300, 2 * KEYS][self.rng.below(6)];
        let asks = [0, 1, 1, 2, 30][self.rng.below(5)];
        for _ in 0..1 + self.rng.below(5) {
            let options = options.clone().read_ahead(!self.rng.once_in(8));
            let options = options.fill_cache(self.rng.once_in(2));
            let bound = |rng: &mut Rng| rng.once_in(4).then(|| key(rng.below(KEYS)).into_bytes());
            let (low, high) = (bound(&mut self.rng), bound(&mut self.rng));
            let range = common::range(low, high);
            let is_inside = |key: &&Vec<u8>| std::ops::RangeBounds::contains(&range, *key);
            let keys = pairs.keys().filter(is_inside).collect();
            let cursor = self.keyspace.range_with(range.clone(), &options);
            let cursor = cursor.into_cursor().unwrap();
            let mut walker = Walker { cursor, pairs, keys, at: None, asks };
            for _ in 0..1 + self.rng.below(4) {
                walker.jump(&mut self.rng);
                let forward = !self.rng.once_in(4);
                for _ in 0..length + self.rng.below(1 + length / 2) {
                    if self.rng.once_in(60) {
                        // It turns, and perhaps turns back.
                        let steps = self.rng.below(12);
                        (0..steps).for_each(|_| walker.step(!forward, &mut self.rng));
                    }
                    walker.step(forward, &mut self.rng);
                }
            }
        }
    }
}

/// A cursor, and where it should be.
struct Walker<'a> {
    cursor: Cursor,
    pairs: &'a Pairs,
    /// The keys that it sees.
    keys: Vec<&'a Vec<u8>>,
    at: Option<usize>,
    /// One value in so many is asked for; none if this is zero.
    asks: usize,
}

impl Walker<'_> {
    fn jump(&mut self, rng: &mut Rng) {
        let target = key(rng.below(KEYS)).into_bytes();
        let last = self.keys.len().checked_sub(1);
        self.at = match rng.below(6) {
            0 => {
                self.cursor.seek_to_last().unwrap();
                last
            }
            1 => {
                self.cursor.seek_for_prev(&target).unwrap();
                self.keys.partition_point(|key| **key <= target).checked_sub(1)
            }
            2..4 => {
                self.cursor.seek(&target).unwrap();
                Some(self.keys.partition_point(|key| **key < target))
            }
            _ => {
                self.cursor.seek_to_first().unwrap();
                Some(0)
            }
        };
        self.check(rng);
    }

    fn step(&mut self, forward: bool, rng: &mut Rng) {
        match forward {
            true => self.cursor.next().unwrap(),
            false => self.cursor.prev().unwrap(),
        }
        self.at = match forward {
            true => self.at.map(|at| at + 1),
            false => self.at.and_then(|at| at.checked_sub(1)),
        };
        self.check(rng);
    }

    fn check(&mut self, rng: &mut Rng) {
        self.at = self.at.filter(|&at| at < self.keys.len());
        assert_eq!(self.cursor.valid(), self.at.is_some());
        let Some(at) = self.at else { return };
        let name = String::from_utf8_lossy(self.keys[at]);
        assert_eq!(String::from_utf8_lossy(self.cursor.key()), name);
        if self.asks == 0 || !rng.once_in(self.asks) {
            return;
        }
        let mut lent = None;
        for _ in 0..1 + rng.below(9) / 4 {
            let found = match rng.below(2) {
                0 => self.cursor.value().map(|value| value.to_vec()),
                _ => self.cursor.pair().map(|(key, value)| {
                    let places = (key.as_ptr(), value.as_ptr());
                    assert_eq!(places, *lent.get_or_insert(places), "who asks again gets the same");
                    assert_eq!(String::from_utf8_lossy(key), name);
                    value.to_vec()
                }),
            };
            match (&self.pairs[self.keys[at]], found) {
                (Some(value), Ok(found)) => assert!(found == *value, "the value of {name}"),
                (None, Err(error)) => assert_eq!(error.kind(), ErrorKind::Corruption),
                (_, found) => panic!("the value of {name} is {found:?}"),
            }
        }
    }
}

#[test]
fn cursors_see_each_pair_once_however_they_walk() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let first = number("CLEAVEDB_SEED").unwrap_or(1);
    for seed in first..first + number("CLEAVEDB_SEEDS").unwrap_or(12) {
        println!("seed {seed}");
        let mut store = Store::open(seed);
        store.fill();
        if !common::is_encrypted() && store.rng.once_in(2) {
            store.damage();
        }
        let mut pairs = store.pairs.clone();
        let transaction = store.db.begin();
        for round in 0..40 {
            let options = match round % 4 {
                3 => transaction.read_options(),
                _ => ReadOptions::new(),
            };
            if round % 4 == 3 {
                for _ in 0..10 {
                    let name = key(store.rng.below(KEYS));
                    let bytes = store.rng.below(400);
                    if store.rng.once_in(4) {
                        transaction.delete(&store.keyspace, &name).unwrap();
                        pairs.remove(name.as_bytes());
                    } else {
                        let value = common::value(&name, round, bytes);
                        transaction.put(&store.keyspace, &name, &value).unwrap();
                        pairs.insert(name.into_bytes(), Some(value));
                    }
                }
                store.walk(&options, &pairs);
            } else {
                let pairs = store.pairs.clone();
                store.walk(&options, &pairs);
            }
        }
        drop(transaction);
    }
}
