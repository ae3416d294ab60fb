//! The work itself: which keys and values, in which order. `../generator.md` is the specification,
//! followed by this file, by `../generator.py` and by `../badger/work/generator.go`; checksums in
//! `../generator.json` tell that all three make the same.

use std::sync::OnceLock;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const POOL_BYTES: usize = 2 << 20;
const POOL_SEED: u64 = 7;
const LOAD_SALT: u64 = 11;
const ZIPF_SALT: u64 = 13;
/// What keeps the insertions of one stage apart from those of another.
const STAGE_KEYS: u64 = 1 << 32;

/// Scrambles a number.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// A stream of its own for each thread of each stage.
    pub fn new(seed: u64, stage: u64, thread: u64) -> Random {
        Random(mix(mix(mix(seed) ^ stage) ^ thread))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        drawn
    }

    /// A number below `bound`, which is at most 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() >> 32) * bound) >> 32
    }

    /// A number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// The place of `index` in an order of `0..count` that looks random.
pub fn permute(count: u64, salt: u64, index: u64) -> u64 {
    let bits = u64::BITS - (count - 1).leading_zeros();
    let half = bits.div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut at = index;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 1..=4 {
            (left, right) = (right, left ^ (mix(right ^ (salt << 8) ^ (round << 56)) & mask));
        }
        at = left << half | right;
        if at < count {
            return at;
        }
    }
}

fn pow100(x: f64) -> f64 {
    let x4 = (x * x) * (x * x);
    let x16 = (x4 * x4) * (x4 * x4);
    let x32 = x16 * x16;
    (x32 * x32) * x32 * x4
}

/// Ranks with a share of about rank^-0.99, by additions and multiplications alone, which are the
/// same in every language.
pub struct Zipf {
    count: u64,
    spread: f64,
}

impl Zipf {
    /// Ranks below `count`.
    pub fn new(count: u64) -> Zipf {
        let (mut low, mut high) = (1.0, 2.0);
        for _ in 0..64 {
            let middle: f64 = (low + high) * 0.5;
            if pow100(middle) <= (count + 1) as f64 { low = middle } else { high = middle }
        }
        Zipf { count, spread: low - 1.0 }
    }

    /// Draws a rank.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let x = 1.0 + random.unit() * self.spread;
        ((pow100(x) as u64).max(1) - 1).min(self.count - 1)
    }
}

/// Writes the key of a number: sixteen digits of its double.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    digits(number * 2)
}

/// A key that is never written, right behind that of the number.
pub fn missing_key(number: u64) -> [u8; KEY_BYTES] {
    digits(number * 2 + 1)
}

fn digits(mut number: u64) -> [u8; KEY_BYTES] {
    let mut text = [b'0'; KEY_BYTES];
    for at in (0..KEY_BYTES).rev() {
        text[at] += (number % 10) as u8;
        number /= 10;
    }
    text
}

/// The number whose key this is.
pub fn number_of(key: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(key).ok().filter(|text| text.len() == KEY_BYTES)?;
    let doubled: u64 = text.parse().ok()?;
    doubled.is_multiple_of(2).then_some(doubled / 2)
}

fn pool() -> &'static [u8] {
    static POOL: OnceLock<Vec<u8>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut random = Random(mix(POOL_SEED));
        (0..POOL_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
    })
}

/// What follows the number and the version in a value.
fn filling(number: u64, version: u64, bytes: usize) -> &'static [u8] {
    let at = mix(number ^ version.rotate_left(32)) % (POOL_BYTES - bytes) as u64;
    &pool()[at as usize..at as usize + bytes]
}

/// Makes the value of a number in a version; at least 16 bytes.
pub fn value(number: u64, version: u64, bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(filling(number, version, bytes - 16));
}

/// Checks every byte of a value that was read, and returns its version.
pub fn check(number: u64, value: &[u8], bytes: usize) -> Result<u64, String> {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap());
    if value.len() != bytes || word(0) != number {
        return Err(format!("key {number} has a value of {} bytes of another key", value.len()));
    }
    let version = word(8);
    if value[16..] != *filling(number, version, bytes - 16) {
        return Err(format!("the value of key {number}, version {version}, is damaged"));
    }
    Ok(version)
}

/// What one operation does to one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Put,
    Get,
    Scan,
    ReadModifyWrite,
    GetMissing,
    Delete,
    SyncedPut,
}

/// Of the turns of `turns` in which the log is synced, every so manieth put is.
const SYNCED_EVERY: u64 = 64;
/// Of the turns in which `turns` scans, so many pairs are read in every so manieth operation.
const SCANNED_PAIRS: u64 = 100;
const SCANNED_EVERY: u64 = 32;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: Kind,
    pub number: u64,
    /// Pairs of a scan.
    pub pairs: u64,
    /// Of what is written.
    pub version: u64,
}

/// How a run is told apart from others.
#[derive(Clone, Copy)]
pub struct Shape {
    pub keys: u64,
    pub seed: u64,
    pub stage: u64,
    pub threads: u64,
}

/// The pairs that a workload such as `scan100` reads at a time; None if it is no such workload.
fn pairs_of_scan(workload: &str) -> Option<u64> {
    workload.strip_prefix("scan")?.parse().ok().filter(|pairs| *pairs > 0)
}

/// The operations of one thread of a workload.
pub struct Stream {
    workload: String,
    shape: Shape,
    thread: u64,
    random: Random,
    zipf: Zipf,
    done: u64,
    inserted: u64,
}

impl Stream {
    /// Begins at the first operation.
    pub fn new(workload: &str, shape: Shape, thread: u64) -> Stream {
        Stream {
            workload: workload.to_owned(),
            shape,
            thread,
            random: Random::new(shape.seed, shape.stage, thread),
            zipf: Zipf::new(shape.keys),
            done: 0,
            inserted: 0,
        }
    }

    /// Returns true if there is such a workload.
    pub fn knows(workload: &str) -> bool {
        const PLAIN: [&str; 9] = [
            "load",
            "load-ordered",
            "overwrite-uniform",
            "overwrite-zipf",
            "delete-uniform",
            "get",
            "missing",
            "synced",
            "turns",
        ];
        let mix = workload.strip_prefix("ycsb-");
        PLAIN.contains(&workload)
            || pairs_of_scan(workload).is_some()
            || mix.is_some_and(|mix| mix.len() == 1 && "abcdef".contains(mix))
    }

    /// Makes the next operation.
    pub fn next_op(&mut self) -> Op {
        let keys = self.shape.keys;
        // Operation `done` of this thread, in an order of all threads.
        let index = self.done * self.shape.threads + self.thread;
        let (kind, number, pairs) = match self.workload.as_str() {
            "load" | "synced" => {
                (Kind::Put, permute(keys, LOAD_SALT + self.shape.seed, index % keys), 0)
            }
            "load-ordered" => (Kind::Put, index % keys, 0),
            "overwrite-uniform" => (Kind::Put, self.random.below(keys), 0),
            "overwrite-zipf" => (Kind::Put, self.hot(), 0),
            "delete-uniform" => (Kind::Delete, self.random.below(keys), 0),
            "get" => (Kind::Get, self.random.below(keys), 0),
            "missing" => (Kind::GetMissing, self.random.below(keys), 0),
            "turns" => self.turns(),
            other => match pairs_of_scan(other) {
                Some(pairs) => (Kind::Scan, self.random.below(keys), pairs),
                None => self.ycsb(other.as_bytes()[5]),
            },
        };
        self.done += 1;
        Op { kind, number, pairs, version: (self.shape.stage << 40) + index }
    }

    /// Puts, by turns of a quarter of the keys: some of them synced, the same with scans, and none
    /// synced.
    fn turns(&mut self) -> (Kind, u64, u64) {
        let turn = self.done / (self.shape.keys / 4).max(1) % 3;
        let number = self.random.below(self.shape.keys);
        if turn == 1 && self.done.is_multiple_of(SCANNED_EVERY) {
            return (Kind::Scan, number, SCANNED_PAIRS);
        }
        let is_synced = turn < 2 && self.done % SYNCED_EVERY == 1;
        (if is_synced { Kind::SyncedPut } else { Kind::Put }, number, 0)
    }

    fn ycsb(&mut self, letter: u8) -> (Kind, u64, u64) {
        let dice = self.random.below(100);
        match letter {
            b'a' if dice < 50 => (Kind::Put, self.hot(), 0),
            b'b' if dice < 5 => (Kind::Put, self.hot(), 0),
            b'd' | b'e' if dice < 5 => {
                self.inserted += 1;
                (Kind::Put, self.insertion(self.inserted - 1), 0)
            }
            b'd' => {
                let rank = self.zipf.rank(&mut self.random);
                let number = match self.inserted.checked_sub(rank + 1) {
                    Some(own) => self.insertion(own),
                    None => self.shape.keys - 1 - (rank - self.inserted),
                };
                (Kind::Get, number, 0)
            }
            b'e' => {
                let from = self.hot();
                (Kind::Scan, from, 1 + self.random.below(100))
            }
            b'f' if dice < 50 => (Kind::ReadModifyWrite, self.hot(), 0),
            _ => (Kind::Get, self.hot(), 0),
        }
    }

    fn hot(&mut self) -> u64 {
        let rank = self.zipf.rank(&mut self.random);
        permute(self.shape.keys, ZIPF_SALT + self.shape.seed, rank)
    }

    /// The number of the key that this thread inserts after `before` others.
    fn insertion(&self, before: u64) -> u64 {
        (self.shape.stage + 1) * STAGE_KEYS + before * self.shape.threads + self.thread
    }
}

/// FNV-1a over kinds, keys and values of the first operations of a thread.
pub fn checksum(workload: &str, shape: Shape, thread: u64, ops: u64, value_bytes: usize) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    let (mut stream, mut made) = (Stream::new(workload, shape, thread), Vec::new());
    for _ in 0..ops {
        let op = stream.next_op();
        add(&[op.kind as u8, op.pairs as u8]);
        match op.kind {
            Kind::GetMissing => add(&missing_key(op.number)),
            _ => add(&key(op.number)),
        }
        if matches!(op.kind, Kind::Put | Kind::ReadModifyWrite | Kind::SyncedPut) {
            value(op.number, op.version, value_bytes, &mut made);
            add(&made);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `"name": "value"` or `"name": 1` of the file of checksums.
    fn told(line: &str) -> Option<(&str, &str)> {
        let (name, value) = line.trim().trim_end_matches(',').split_once(": ")?;
        Some((name.trim_matches('"'), value.trim_matches('"')))
    }

    #[test]
    fn the_work_is_what_the_specification_says() {
        let text = include_str!("../../generator.json");
        let number = |name| {
            let found = text.lines().filter_map(told).find(|(found, _)| *found == name);
            found.unwrap().1.parse::<u64>().unwrap()
        };
        let shape = Shape {
            keys: number("keys"),
            seed: number("seed"),
            stage: number("stage"),
            threads: number("threads"),
        };
        let (thread, ops, bytes) = (number("thread"), number("ops"), number("value") as usize);
        let mut checked = 0;
        for (workload, wanted) in text.lines().filter_map(told) {
            if Stream::knows(workload) {
                let sum = checksum(workload, shape, thread, ops, bytes);
                assert_eq!(format!("{sum:016x}"), wanted, "{workload}");
                checked += 1;
            }
        }
        assert_eq!(checked, 18);
    }

    #[test]
    fn a_scan_is_known_by_its_number_of_pairs() {
        assert_eq!(pairs_of_scan("scan10000"), Some(10_000));
        for wrong in ["scan", "scan0", "scan-1", "scanning", "fullscan"] {
            assert!(!Stream::knows(wrong), "{wrong}");
        }
    }

    #[test]
    fn an_order_has_every_number_once() {
        for count in [1, 2, 3, 17, 1000] {
            let mut seen: Vec<u64> = (0..count).map(|index| permute(count, 5, index)).collect();
            seen.sort();
            assert!(seen.iter().copied().eq(0..count), "{count}");
        }
    }

    #[test]
    fn ranks_are_skewed_and_in_bounds() {
        let (zipf, mut random) = (Zipf::new(1000), Random::new(1, 2, 3));
        let ranks: Vec<u64> = (0..10_000).map(|_| zipf.rank(&mut random)).collect();
        assert!(ranks.iter().all(|rank| *rank < 1000));
        let first = ranks.iter().filter(|rank| **rank == 0).count();
        assert!((800..1200).contains(&first), "{first}");
    }

    #[test]
    fn a_value_tells_its_key_and_version_and_any_damage() {
        let mut made = Vec::new();
        value(5, 9, 100, &mut made);
        assert_eq!(check(5, &made, 100), Ok(9));
        assert!(check(6, &made, 100).is_err() && check(5, &made, 99).is_err());
        made[99] ^= 1;
        assert!(check(5, &made, 100).is_err());
        assert_eq!(number_of(&key(77)), Some(77));
        assert_eq!(number_of(&missing_key(77)), None);
    }
}
