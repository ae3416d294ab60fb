//! Tests of random workloads of several threads with random crashes. Each run depends on one seed
//! alone. `CLEAVEDB_SEED` repeats a run; `CLEAVEDB_SECONDS` makes new runs for that time:
//!
//! ```text
//! CLEAVEDB_SECONDS=600 cargo test -p cleavedb --test simulated random_seeds -- --nocapture
//! ```

use crate::client::{DIR, at_flush_options, auto_options, inline_options, read_all, tiny_options};
use crate::crash::check_all;
use crate::model::{Contents, append, merge_operator};
use crate::script::{LENGTHS, durability, value};
use cleavedb::env::Env;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::env::threads::Threads;
use cleavedb::{
    CollectDiscardable, Cursor, Db, Durability, GcOptions, Keyspace, KeyspaceOptions, Options,
    ReadOptions, Snapshot, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A random number generator (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: usize) -> usize {
        self.number_below(end as u64) as usize
    }

    pub fn number_below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

const NAMES: [&str; 2] = ["default", "side"];
const THREADS: usize = 3;

/// The number of segments that value GC relocated, in all runs.
static RELOCATED: AtomicU64 = AtomicU64::new(0);

/// A snapshot and a cursor that a thread holds while others write, compact and run GC, with the
/// contents that they must show.
struct Held {
    snapshot: Snapshot,
    /// A cursor over one keyspace, at the first of the pairs `rest` that it must still show.
    cursor: Cursor,
    rest: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    state: [Contents; 2],
}

/// The commits of one thread, the only one that writes its keys. Each commit sets a counter, so the
/// contents show how many commits survived.
struct Writer {
    id: usize,
    /// The contents at the opening, and after each commit since.
    states: Vec<[Contents; 2]>,
    /// For each commit, the time at which it was begun, and that of its acknowledgement, if any.
    times: Vec<(u64, Option<u64>)>,
    os_floor: usize,
    sync_floor: usize,
    held: Option<Held>,
    /// The number of commits in all lives, which is the value of the counter.
    commits: usize,
    /// The highest counter that was seen of each thread.
    seen: [u64; THREADS],
}

impl Writer {
    fn new(id: usize) -> Writer {
        let states = vec![Default::default()];
        let (times, seen) = (Vec::new(), [0; THREADS]);
        let (os_floor, sync_floor, held, commits) = (0, 0, None, 0);
        Writer { id, states, times, os_floor, sync_floor, held, commits, seen }
    }

    fn prefix(&self) -> Vec<u8> {
        format!("t{}.", self.id).into_bytes()
    }

    /// Makes a random commit. Returns false if it failed.
    fn commit(
        &mut self,
        db: &Db,
        keyspaces: &[Keyspace; 2],
        dice: &mut Dice,
        time: &Mutex<u64>,
    ) -> bool {
        let number = dice.below(1 << 20);
        let durability = durability(dice.below(7));
        let mut state = self.states.last().expect("the first is always there").clone();
        let mut batch = WriteBatch::new();
        let counter = [self.prefix(), b"counter".to_vec()].concat();
        self.commits += 1;
        let count = value(self.commits, 7);
        for (keyspace, contents) in keyspaces.iter().zip(&mut state) {
            batch.put(keyspace, &counter, &count);
            contents.insert(counter.clone(), count.clone());
        }
        for _ in 0..dice.below(4) {
            let at = dice.below(2);
            let key = [self.prefix(), format!("{:02}", dice.below(20)).into_bytes()].concat();
            if dice.below(12) == 0 {
                let until = dice.below(24);
                let until = [self.prefix(), format!("{until:02}").into_bytes()].concat();
                batch.delete_range(&keyspaces[at], &key..&until);
                state[at].retain(|found, _| *found < key || *found >= until);
            } else if dice.below(4) == 0 {
                batch.delete(&keyspaces[at], &key);
                state[at].remove(&key);
            } else {
                let value = value(number, LENGTHS[dice.below(LENGTHS.len())]);
                if keyspaces[at].options().merge_operator.is_some() && dice.below(3) > 0 {
                    batch.merge(&keyspaces[at], &key, &value);
                    append(state[at].entry(key).or_default(), &value);
                    continue;
                }
                batch.put(&keyspaces[at], &key, &value);
                state[at].insert(key, value);
            }
        }
        self.states.push(state);
        self.times.push((tick(time), None));
        let options = WriteOptions::new().durability(durability);
        if db.write_with(batch, &options).is_err() {
            return false;
        }
        let count = self.times.len();
        self.times[count - 1].1 = Some(tick(time));
        match durability {
            Durability::Buffered => {}
            Durability::Sync => (self.os_floor, self.sync_floor) = (count, count),
            _ => self.os_floor = count,
        }
        true
    }

    fn now(&self, found: &BTreeMap<String, Contents>) -> [Contents; 2] {
        let prefix = self.prefix();
        NAMES.map(|name| {
            let all = found.get(name).into_iter().flatten();
            let own = all.filter(|(key, _)| key.starts_with(&prefix));
            own.map(|(key, value)| (key.clone(), value.clone())).collect()
        })
    }

    /// Returns how many commits survived. Panics if what was found is not an allowed state.
    fn survived(&self, found: &BTreeMap<String, Contents>, power_failed: bool) -> usize {
        let floor = if power_failed { self.sync_floor } else { self.os_floor };
        let now = self.now(found);
        let count = self.states.iter().rposition(|state| *state == now);
        let count = count.unwrap_or_else(|| panic!("thread {}: a state that never was", self.id));
        assert!(count >= floor, "thread {}: {count} commits survived of {floor}", self.id);
        count
    }

    fn settle(&mut self, count: usize) {
        self.states = vec![self.states.swap_remove(count)];
        self.times.clear();
        (self.os_floor, self.sync_floor) = (0, 0);
        self.seen = [0; THREADS];
    }

    /// Takes a snapshot, and a cursor at its own keys.
    fn hold(&mut self, db: &Db, keyspaces: &[Keyspace; 2], at: usize) -> cleavedb::Result<()> {
        let state = self.states.last().expect("the first is always there").clone();
        let mut cursor = keyspaces[at].cursor()?;
        cursor.seek(self.prefix())?;
        let rest = state[at].clone().into_iter().collect::<Vec<_>>().into_iter();
        self.held = Some(Held { snapshot: db.snapshot(), cursor, rest, state });
        Ok(())
    }

    /// Continues to read from the snapshot and cursor, which must show the state at their creation.
    fn look_back(&mut self, keyspaces: &[Keyspace; 2], key: usize) -> cleavedb::Result<()> {
        let key = [self.prefix(), format!("{key:02}").into_bytes()].concat();
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        let options = ReadOptions::new().snapshot(&held.snapshot);
        for (keyspace, wanted) in keyspaces.iter().zip(&held.state) {
            let found = keyspace.get_with(&key, &options)?;
            let wanted = wanted.get(&key).map(Vec::as_slice);
            assert_eq!(found.as_ref().map(|found| &found[..]), wanted, "a snapshot has changed");
        }
        for _ in 0..3 {
            let Some((key, value)) = held.rest.next() else {
                self.held = None;
                return Ok(());
            };
            assert!(held.cursor.valid() && held.cursor.key() == key, "a cursor has changed");
            assert_eq!(&held.cursor.value()?[..], &value[..], "a cursor has changed");
            held.cursor.next()?;
        }
        Ok(())
    }

    /// Reads the counters of all threads: each batch must be seen whole, and no counter goes back.
    fn look_around(&mut self, db: &Db, keyspaces: &[Keyspace; 2]) -> cleavedb::Result<()> {
        let options = ReadOptions::new().snapshot(&db.snapshot());
        for (id, seen) in self.seen.iter_mut().enumerate() {
            let key = format!("t{id}.counter");
            let [one, other] = keyspaces.each_ref().map(|at| at.get_with(&key, &options));
            let (one, other) = (one?, other?);
            assert_eq!(one, other, "half a batch is seen");
            let text = one.as_ref().map_or(&b"0"[..], |value| &value[..6]);
            let count = std::str::from_utf8(text).expect("digits").parse().expect("a number");
            assert!(count >= *seen, "thread {id} had counted to {seen}, now to {count}");
            *seen = count;
        }
        Ok(())
    }
}

fn tick(time: &Mutex<u64>) -> u64 {
    let mut time = time.lock().unwrap();
    *time += 1;
    *time
}

/// Checks I2 over threads: a commit that began after another was acknowledged comes later in the
/// order.
fn check_order(writers: &[Writer], counts: &[usize]) {
    let lost = writers.iter().zip(counts).flat_map(|(writer, &count)| &writer.times[count..]);
    let first_lost = lost.filter_map(|(_, acknowledged)| *acknowledged).min();
    let kept = writers.iter().zip(counts).flat_map(|(writer, &count)| &writer.times[..count]);
    let last_kept = kept.map(|(begun, _)| *begun).max();
    if let (Some(lost), Some(kept)) = (first_lost, last_kept) {
        assert!(lost > kept, "a commit is lost (at {lost}) that came before one kept ({kept})");
    }
}

fn open(env: &Env, seed: u64) -> cleavedb::Result<(Db, [Keyspace; 2])> {
    let always = (seed / 15).is_multiple_of(2);
    let when = if always { CollectDiscardable::Always } else { CollectDiscardable::Idle };
    let gc = GcOptions {
        automatic: !seed.is_multiple_of(5),
        max_space_amplification: [1.05, 1.1, 1.5][seed as usize % 3],
        collect_discardable: when,
        ..tiny_options().gc
    };
    // Off, too small for most tables, about as large as the tree, and more than enough.
    let pin_tree = [0, 3 << 10, 24 << 10, 1 << 20][(seed / 13) as usize % 4];
    // In a quarter of the runs, values are appended to others.
    let merge_operator = (seed / 1000 % 4 == 3).then(merge_operator);
    let with_operator = |options: KeyspaceOptions| KeyspaceOptions {
        merge_operator: merge_operator.clone(),
        ..options
    };
    let keyspace = with_operator(tiny_options().keyspace);
    let options = Options { gc, pin_tree, keyspace, ..tiny_options() };
    let db = Db::builder(DIR).options(options).env(env.clone()).open()?;
    let keyspaces = [
        db.default_keyspace(),
        db.open_or_create_keyspace_with("side", with_operator(inline_options()))?,
    ];
    // The policies change from life to life, while replayed memtables wait for their flush.
    let policies = [tiny_options().keyspace, at_flush_options(), inline_options(), auto_options()];
    for (keyspace, draw) in keyspaces.iter().zip([seed / 7, 2 + seed / 11]) {
        let options = with_operator(policies[draw as usize % policies.len()].clone());
        // The power may fail here.
        if keyspace.options() != options {
            keyspace.set_options(options)?;
        }
    }
    Ok((db, keyspaces))
}

/// Runs one life of the process: recovery, writes from several threads, and some kind of end.
/// Returns false if it ended before the contents were read.
fn live(
    simulation: &Simulation,
    env: &Env,
    writers: &mut Vec<Writer>,
    lost: bool,
    seed: u64,
) -> bool {
    let mut dice = Dice(seed);
    simulation.crash_at(simulation.mutations() + 20 + dice.below(500) as u64);
    let Ok((db, keyspaces)) = open(env, seed) else {
        assert!(simulation.crashed(), "the database opens unless the power is off");
        return false;
    };
    let Ok(found) = read_all(&db) else {
        assert!(simulation.crashed(), "everything reads unless the power is off");
        return false;
    };
    let counts: Vec<usize> = writers.iter().map(|writer| writer.survived(&found, lost)).collect();
    check_order(writers, &counts);
    writers.iter_mut().zip(&counts).for_each(|(writer, &count)| writer.settle(count));
    if let Ok(report) = db.check() {
        assert!(report.is_clean() || simulation.crashed(), "check: {:?}", report.problems);
    }
    let shared = Arc::new(Mutex::new(Vec::new()));
    let time = Arc::new(Mutex::new(0));
    let mut joins = Vec::new();
    for mut writer in writers.drain(..) {
        let (db, keyspaces, shared) = (db.clone(), keyspaces.clone(), shared.clone());
        let (time, threads) = (time.clone(), env.threads.clone());
        let mut dice = Dice(seed ^ (writer.id as u64 + 1) << 32);
        let work = move || {
            for _ in 0..10 + dice.below(60) {
                if !work_once(&mut writer, &db, &keyspaces, &mut dice, (&time, &*threads)) {
                    break;
                }
            }
            writer.held = None;
            shared.lock().unwrap().push(writer);
        };
        joins.push(env.threads.spawn("writer", Box::new(work)).unwrap());
    }
    joins.into_iter().for_each(|join| join.join().unwrap_or_else(|text| panic!("{text}")));
    RELOCATED.fetch_add(db.stats().gc.segments_relocated, Ordering::Relaxed);
    *writers = std::mem::take(&mut *shared.lock().unwrap());
    writers.sort_by_key(|writer| writer.id);
    if dice.below(3) == 0 && db.close().is_ok() {
        // A commit that failed, which is the last of its writer, was promised to nobody. Closing
        // may succeed all the same, if no segment was open and nothing was left to write.
        for writer in writers {
            let acknowledged = writer.times.iter().filter(|(_, end)| end.is_some()).count();
            (writer.os_floor, writer.sync_floor) = (acknowledged, acknowledged);
        }
    }
    true
}

/// Makes a commit, or sometimes another operation. Returns false once the power is off.
fn work_once(
    writer: &mut Writer,
    db: &Db,
    keyspaces: &[Keyspace; 2],
    dice: &mut Dice,
    (time, threads): (&Mutex<u64>, &dyn Threads),
) -> bool {
    let count = writer.times.len();
    match dice.below(50) {
        0 => {
            let done = db.flush().is_ok();
            if done {
                (writer.os_floor, writer.sync_floor) = (count, count);
            }
            done
        }
        1 => db.compact().is_ok(),
        2 => {
            let done = db.sync().is_ok();
            if done {
                (writer.os_floor, writer.sync_floor) = (count, count);
            }
            done
        }
        3..6 => {
            let wanted = writer.states.last().expect("the first is always there");
            for (keyspace, wanted) in keyspaces.iter().zip(wanted) {
                let mut found = Contents::new();
                for item in keyspace.prefix(writer.prefix()) {
                    let Ok((key, value)) = item else {
                        return false;
                    };
                    found.insert(key, value.to_vec());
                }
                assert!(found == *wanted, "a thread does not see its own commits");
            }
            true
        }
        6 => {
            let done = db.gc().is_ok();
            if done {
                (writer.os_floor, writer.sync_floor) = (count, count);
            }
            done
        }
        7 => keyspaces[dice.below(2)].reorganize(..).is_ok(),
        8..10 => writer.hold(db, keyspaces, dice.below(2)).is_ok(),
        10..14 => writer.look_back(keyspaces, dice.below(20)).is_ok(),
        14..16 => writer.look_around(db, keyspaces).is_ok(),
        16 => {
            threads.sleep(Duration::from_millis(50 * dice.below(60) as u64));
            true
        }
        _ => writer.commit(db, keyspaces, dice, time),
    }
}

/// Runs several lives of a process, with a crash between each two.
fn run_seed(seed: u64) {
    let (mut env, simulation) = Env::simulated(seed);
    // A life takes some ten thousand steps; one that reaches this limit hangs.
    simulation.limit_steps(1_000_000);
    let mut dice = Dice(seed);
    let mut writers: Vec<Writer> = (0..THREADS).map(Writer::new).collect();
    // Until a recovery has shown the contents, the worst of the crashes since the last one counts.
    let mut lost = true;
    for life in 0..6 {
        let life_seed = seed.wrapping_mul(1000) + life;
        let settled = simulation.run(|| live(&simulation, &env, &mut writers, lost, life_seed));
        if !simulation.crashed() {
            simulation.crash();
        }
        let policies = [
            Survivors::LoseAll,
            Survivors::KeepAll,
            Survivors::Prefix,
            Survivors::TornLast,
            Survivors::Random,
            Survivors::Random,
        ];
        let policy = policies[dice.below(policies.len())];
        lost = policy != Survivors::KeepAll || (lost && !settled);
        env = simulation.restart(policy);
    }
}

fn run_seeds(seeds: impl Iterator<Item = u64>) {
    let mut count = 0;
    for seed in seeds {
        let mut failures = Vec::new();
        check_all(&format!("CLEAVEDB_SEED={seed}"), &mut failures, || run_seed(seed));
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        count += 1;
    }
    let relocated = RELOCATED.load(Ordering::Relaxed);
    println!("{count} seeds, 6 lives each, {relocated} segments relocated");
    assert!(relocated > 0 || count < 10, "value GC had nothing to do: this test shows less");
}

/// Returns the seeds to run: the one of `CLEAVEDB_SEED`, new ones for `CLEAVEDB_SECONDS`, or else
/// the first `count`.
pub fn seeds(count: u64) -> Box<dyn Iterator<Item = u64>> {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    if let Some(seed) = number("CLEAVEDB_SEED") {
        return Box::new([seed].into_iter());
    }
    let Some(seconds) = number("CLEAVEDB_SECONDS") else {
        return Box::new(0..count);
    };
    let begin = std::time::Instant::now();
    let first = begin_seed();
    println!("seeds from {first} on");
    Box::new((first..).take_while(move |_| begin.elapsed().as_secs() < seconds))
}

#[test]
fn random_seeds() {
    run_seeds(seeds(25));
}

/// Returns the first seed of a long run, which differs from run to run.
fn begin_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_secs() * 1000)
}

/// Runs the seeds that once failed; `seeds.txt` lists them with the defect that each found.
#[test]
fn seeds_that_failed_once() {
    let text = include_str!("../seeds.txt");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let seeds = lines.filter(|line| !line.starts_with('#'));
    run_seeds(seeds.map(|line| line.split(' ').next().unwrap_or(line).parse().expect("a seed")));
}
