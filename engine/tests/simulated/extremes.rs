//! Tests of options at random extremes: a database either refuses them with an error that names the
//! setting and its range, or works with them. Each case depends on its seed alone; `EXTREMES` sets
//! the number of cases.

use cleavedb::env::Env;
use cleavedb::env::sim::Simulation;
use cleavedb::{
    CollectDiscardable, Db, Durability, Error, ErrorKind, KeyspaceOptions, Options, WriteOptions,
};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::{DIR, tiny_options};

/// The number of cases, unless `EXTREMES` sets it.
const CASES: u64 = 300;
/// The limit of steps of a case; one that takes more hangs.
const STEPS: u64 = 1_000_000;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The number of fields that can be set.
const FIELDS: u64 = 30;

struct Dice<'a>(&'a Env);

impl Dice<'_> {
    fn below(&self, bound: u64) -> u64 {
        self.0.random.next_u64() % bound
    }

    /// Returns a number of any magnitude, at or next to a power of two.
    fn extreme(&self) -> u64 {
        match self.below(6) {
            0 => self.below(3),
            1 => u64::MAX - self.below(2),
            _ => (1u64 << self.below(42)).wrapping_add(self.below(3)).wrapping_sub(1),
        }
    }

    fn ratio(&self) -> f64 {
        let ratios = [0.0, -1.0, 0.049, 0.05, 1.0, 1.049, 1.05, 1000.0, 1001.0, f64::MAX];
        let others = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
        let all: Vec<f64> = ratios.into_iter().chain(others).collect();
        all[self.below(all.len() as u64) as usize]
    }

    fn time(&self) -> Duration {
        match self.below(4) {
            0 => Duration::MAX,
            1 => Duration::ZERO,
            2 => Duration::from_nanos(self.extreme()),
            _ => Duration::from_secs(self.extreme()),
        }
    }

    /// Sets field number `field` of a keyspace's options to a random value.
    fn set_keyspace(&self, field: u64, options: &mut KeyspaceOptions) {
        let value = self.extreme();
        match field {
            0 => options.separation_threshold = value as usize,
            1 => options.value_compression_min_bytes = value as usize,
            2 => options.block_bytes = value as usize,
            3 => options.filter_bits_per_key = value as u32,
            4 => options.table_bytes = value,
            5 => options.memtable_bytes = value,
            6 => options.level0_trigger = value as usize,
            _ => options.level_base_bytes = value,
        }
    }

    /// Sets a random field to a random value.
    fn set(&self, options: &mut Options) {
        let (field, value) = (self.below(FIELDS), self.extreme());
        match field {
            0..8 => self.set_keyspace(field, &mut options.keyspace),
            8 => options.cache_bytes = value,
            9 => options.max_replay_bytes = value,
            10 => options.segment_bytes = value,
            11 => options.write_buffer_bytes = value as usize,
            12 => options.max_open_files = value as usize,
            // These are few, because each is a thread of the simulation.
            13 => options.compaction_threads = [0, 1, 3, 129, usize::MAX][self.below(5) as usize],
            14 => options.max_immutable_memtables = value as usize,
            15 => options.level0_slowdown = value as usize,
            16 => options.level0_stop = value as usize,
            17 => options.background_bytes_per_second = Some(value),
            18 => options.read_threads = value as usize,
            19 => options.durability = Durability::SyncEvery(self.time()),
            20 => options.gc.max_space_amplification = self.ratio(),
            21 => options.gc.discardable_ratio = self.ratio(),
            22 => options.gc.memory_bytes = value,
            23 => options.max_index_and_filter_bytes = Some(value),
            24 => options.gc.settled_space_amplification = self.ratio(),
            25 => options.gc.space_allowance_bytes = value,
            26 => options.pin_tree = value,
            27 => options.gc.punch_ratio = self.ratio(),
            28 => options.gc.collect_discardable = CollectDiscardable::Always,
            _ => options.gc.automatic = false,
        }
    }
}

/// Asserts that the error refuses a setting, and names it with its range.
fn refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    let text = error.to_string();
    let name = text.split(' ').next().unwrap_or_default();
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    assert!(is_name && text.contains(&format!("{name} is ")), "no setting is named: {text}");
    assert!(text.contains("it must be from "), "no range is named: {text}");
}

fn open(env: &Env, options: &Options) -> Result<Db, Error> {
    Db::builder(DIR).options(options.clone()).env(env.clone()).open()
}

fn verify(db: &Db, expected: &Contents) {
    let found = db.default_keyspace().iter().map(|pair| pair.expect("a pair"));
    let found: Contents = found.map(|(key, value)| (key, value.into_vec())).collect();
    assert!(found == *expected, "the contents differ");
}

/// Puts, overwrites and deletes, partly with timed syncs.
fn write(dice: &Dice<'_>, db: &Db, contents: &mut Contents) {
    let keyspace = db.default_keyspace();
    for number in 0..60 {
        let key = format!("k{:02}", dice.below(25)).into_bytes();
        let value = vec![number as u8; [0, 30, 500, 3000][dice.below(4) as usize]];
        let durability = match dice.below(4) {
            0 => Some(Durability::SyncEvery(dice.time())),
            1 => Some(Durability::Buffered),
            _ => None,
        };
        let options = WriteOptions::new().durability(durability);
        let outcome = match dice.below(5) {
            0 => keyspace.delete_with(&key, &options).map(|()| None),
            _ => keyspace.put_with(&key, &value, &options).map(|()| Some(value)),
        };
        match outcome {
            Ok(Some(value)) => drop(contents.insert(key, value)),
            Ok(None) => drop(contents.remove(&key)),
            Err(error) => refused(&error),
        }
    }
}

/// Returns true if the options were accepted and everything works, false if they were refused.
fn works(env: &Env, dice: &Dice<'_>, options: &Options) -> bool {
    let db = match open(env, options) {
        Ok(db) => db,
        Err(error) => {
            refused(&error);
            return false;
        }
    };
    let mut contents = Contents::new();
    write(dice, &db, &mut contents);
    // Timed syncs that are due soon happen meanwhile.
    env.threads.sleep(Duration::from_millis(200));
    db.flush().expect("a flush");
    // The settings of the keyspace are changed while it is in use.
    let mut changed = db.default_keyspace().options();
    dice.set_keyspace(dice.below(8), &mut changed);
    if let Err(error) = db.default_keyspace().set_options(changed) {
        refused(&error);
    }
    write(dice, &db, &mut contents);
    db.compact().expect("a compaction");
    db.gc().expect("value GC");
    verify(&db, &contents);
    db.close().expect("it closes");
    let db = open(env, options).expect("it opens again");
    verify(&db, &contents);
    write(dice, &db, &mut contents);
    drop(db);
    let builder = Db::builder(DIR).options(options.clone()).env(env.clone());
    builder.repair().expect("a repair");
    verify(&open(env, options).expect("it opens after a repair"), &contents);
    true
}

fn case(seed: u64) -> bool {
    let (env, simulation): (Env, Simulation) = Env::simulated(seed);
    simulation.limit_steps(STEPS);
    simulation.run(|| {
        let dice = Dice(&env);
        let memory_limit = (dice.below(2) == 0).then(|| dice.extreme());
        let env = Env { memory_limit, ..env.clone() };
        let mut options = tiny_options();
        (0..=dice.below(2)).for_each(|_| dice.set(&mut options));
        works(&env, &dice, &options)
    })
}

/// Before, three memtables of 64 MiB each were filled in any process, and the system killed one
/// that may use less.
#[test]
fn memtables_are_small_where_the_process_may_use_little_memory() {
    const MIB: u64 = 1 << 20;
    let flushes = |memory_limit: Option<u64>| {
        let (env, simulation): (Env, Simulation) = Env::simulated(7);
        simulation.limit_steps(STEPS);
        simulation.run(|| {
            let env = Env { memory_limit, ..env.clone() };
            let db = open(&env, &Options::default()).unwrap();
            for number in 0..12 * 256u32 {
                db.default_keyspace().put(number.to_be_bytes(), [7; 4 << 10]).unwrap();
            }
            db.wait_idle().unwrap();
            let flushes = db.stats().flushes;
            db.close().unwrap();
            flushes
        })
    };
    assert_eq!([None, Some(512 * MIB)].map(flushes), [0, 0]);
    let [less, least] = [Some(117 * MIB), Some(MIB)].map(flushes);
    assert!(0 < less && less < least && least <= 6, "{less} of 3.2 MiB, {least} of 2");
}

#[test]
fn options_at_the_extremes_are_refused_or_work() {
    let cases = std::env::var("EXTREMES").map_or(CASES, |text| text.parse().expect("a number"));
    let mut taken = 0;
    for seed in 0..cases {
        let outcome = std::panic::catch_unwind(|| case(seed));
        match outcome {
            Ok(works) => taken += u64::from(works),
            Err(_) => panic!("seed {seed} of the extremes failed: see above"),
        }
    }
    println!("{cases} seeds: {taken} worked, the others were refused");
    assert!(taken * 5 > cases && taken < cases, "{taken} of {cases} were taken");
}
