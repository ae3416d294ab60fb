//! Tests of histories of concurrent clients: transactions, compare-and-set and batches with
//! requirements, between plain writes, flushes, compactions, value GC, I/O errors and power cuts.
//! What the clients saw must be strictly serializable, and a crash leaves a prefix of the commits.
//! With faults planted in the engine, the same runs must find that it is not so.
//!
//! Each run depends on one seed alone. `CLEAVEDB_SEED` repeats a run; `CLEAVEDB_SECONDS` makes new
//! runs for that time:
//!
//! ```text
//! CLEAVEDB_SECONDS=600 cargo test -p cleavedb --test simulated histories -- --nocapture
//! ```

use crate::client::{DIR, inline_options, tiny_options};
use crate::crash::check_all;
use crate::history::check::check;
use crate::history::client::{HistoryClient, LISTS, SETS, read_stored};
use crate::history::record::Record;
use crate::history::survivors::check_survivors;
use crate::history::{Access, Attempt, Element, Fate, History, Stored};
use crate::random::{Dice, seeds};
use cleavedb::env::Env;
use cleavedb::env::planted::{Planted, PlantedFault};
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::{Db, Durability, Keyspace, Options, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of seeds of a usual run.
const SEEDS: u64 = 15;
const CLIENTS: u64 = 3;
const LIVES: u64 = 4;
/// A planted fault must be found with this many seeds...
const MOST_SEEDS: u64 = 400;
/// ...and one that about a seed in four hundred finds, with this many: which one it is changes with
/// every call that the engine makes.
const MOST_SEEDS_OF_RARE: u64 = 2000;

/// What the runs have done, to be printed, and to show that they did something.
#[derive(Default)]
struct Done {
    committed: AtomicU64,
    aborted: AtomicU64,
    unknown: AtomicU64,
    searches: AtomicU64,
    relocated: AtomicU64,
    lives: AtomicU64,
    lost: AtomicU64,
    expiring: AtomicU64,
    persisted: AtomicU64,
}

fn add(number: &AtomicU64, count: usize) {
    number.fetch_add(count as u64, Ordering::Relaxed);
}

/// The world of a run, over all lives of the process.
struct HistoryRun {
    simulation: Simulation,
    /// The lives since the last one whose beginning was checked, and in the end all of a seed's.
    history: History,
    durabilities: Vec<Durability>,
    made: u64,
    /// True if the last life was closed, so that nothing of it may be lost.
    closed: bool,
    done: Arc<Done>,
    /// The elements that may expire, with their sets.
    expiring: BTreeMap<Element, usize>,
    /// What a checker has found first.
    anomaly: Option<String>,
}

fn open_all(env: &Env, seed: u64) -> Result<(Db, [Keyspace; 2])> {
    let options = Options { max_immutable_memtables: 1 + seed as usize % 3, ..tiny_options() };
    let db = Db::builder(DIR).options(options).env(env.clone()).open()?;
    let side = db.open_or_create_keyspace_with("side", inline_options())?;
    let keyspaces = [db.default_keyspace(), side];
    Ok((db, keyspaces))
}

/// Returns a client that only reads.
fn reader(
    (db, keyspaces): (&Db, &[Keyspace; 2]),
    record: &Arc<Record>,
    env: &Env,
    simulation: &Simulation,
) -> HistoryClient {
    let (db, keyspaces, threads) = (db.clone(), keyspaces.clone(), env.threads.clone());
    let (record, simulation) = (record.clone(), simulation.clone());
    HistoryClient { db, keyspaces, record, dice: Dice(0), threads, simulation }
}

impl HistoryRun {
    fn new(simulation: &Simulation, done: &Arc<Done>) -> HistoryRun {
        let empty = Stored { lists: vec![Vec::new(); LISTS], sets: vec![BTreeSet::new(); SETS] };
        HistoryRun {
            simulation: simulation.clone(),
            history: History::new(&empty),
            durabilities: Vec::new(),
            made: 1,
            closed: true,
            done: done.clone(),
            expiring: BTreeMap::new(),
            anomaly: None,
        }
    }

    /// Runs one life of the process: recovery, which must show a prefix of what was committed, work
    /// of several clients, and some kind of end. Returns false if it ended before all was read.
    fn live(&mut self, env: &Env, power_failed: bool, seed: u64) -> bool {
        let mut dice = Dice(seed);
        if dice.below(4) > 0 {
            self.simulation.crash_at(self.simulation.mutations() + 20 + dice.below(300) as u64);
        }
        let Ok((db, keyspaces)) = open_all(env, seed) else {
            assert!(self.simulation.crashed(), "the database opens unless the power is off");
            return false;
        };
        let record = Arc::new(Record::new(&Stored::default(), self.made));
        let looking = reader((&db, &keyspaces), &record, env, &self.simulation);
        let Ok(found) = read_stored(&looking) else {
            assert!(self.simulation.crashed(), "everything reads unless the power is off");
            return false;
        };
        self.check_survivors(&found, power_failed);
        *record.history.lock().unwrap() = History::new(&found);
        record.history.lock().unwrap().uncertain = self.history.uncertain.clone();
        for (element, set) in std::mem::take(&mut self.expiring) {
            if found.sets[set].contains(&element) {
                record.expect_expiry(0, set, element);
            }
        }
        record.claimed.lock().unwrap().extend(&self.history.uncertain);
        if dice.below(3) == 0 {
            let call = [Call::Write, Call::Sync][dice.below(2)];
            let on = [".seg", ""][dice.below(2)];
            self.simulation.fail(FaultPlan::new(call).nth(1 + dice.below(150) as u64).on(on));
        }
        self.work(env, &looking, seed);
        self.simulation.clear_faults();
        let stats = db.stats();
        add(&self.done.searches, stats.conflict_searches as usize);
        add(&self.done.relocated, stats.gc.segments_relocated as usize);
        let begun = record.tick();
        if let Ok(found) = read_stored(&looking) {
            record.read("the reads at the end", begun, found.reads());
        }
        drop((looking, keyspaces));
        self.closed = if dice.below(3) == 0 { db.close().is_ok() } else { false };
        self.made = record.made.load(Ordering::Relaxed);
        self.history = record.history.lock().unwrap().clone();
        self.expiring = std::mem::take(&mut *record.expiring.lock().unwrap());
        self.durabilities = std::mem::take(&mut *record.durabilities.lock().unwrap());
        self.check_history();
        true
    }

    fn work(&self, env: &Env, looking: &HistoryClient, seed: u64) {
        let mut joins = Vec::new();
        for id in 0..CLIENTS {
            let whole = (&looking.db, &looking.keyspaces);
            let mut client = reader(whole, &looking.record, env, &self.simulation);
            client.dice = Dice(seed ^ (id + 1) << 32);
            let simulation = self.simulation.clone();
            let work = move || {
                let mut failures = 0;
                for _ in 0..10 + client.dice.below(30) {
                    failures += usize::from(client.step().is_err());
                    // After a failed sync, the database may take no more writes in this life.
                    if simulation.crashed() || failures > 3 {
                        break;
                    }
                }
            };
            joins.push(env.threads.spawn("client", Box::new(work)).unwrap());
        }
        joins.into_iter().for_each(|join| join.join().unwrap_or_else(|text| panic!("{text}")));
    }

    fn check_survivors(&mut self, found: &Stored, power_failed: bool) {
        let must_survive = |index: usize| {
            self.closed
                || match index.checked_sub(1).map(|index| self.durabilities[index]) {
                    None | Some(Durability::Sync) => true,
                    Some(Durability::Buffered) => false,
                    Some(_) => !power_failed,
                }
        };
        let checked = check_survivors(&self.history, found, must_survive);
        self.anomaly = std::mem::take(&mut self.anomaly).or(checked.err());
        let is_lost = |attempt: &&Attempt| {
            let Some(Access::Append { list, element }) =
                attempt.accesses.iter().find(|access| matches!(access, Access::Append { .. }))
            else {
                return false;
            };
            attempt.fate == Fate::Committed && !found.lists[*list].contains(element)
        };
        add(&self.done.lost, self.history.attempts.iter().filter(is_lost).count());
    }

    fn check_history(&mut self) {
        let checked = check(&self.history, |_| false);
        self.anomaly = std::mem::take(&mut self.anomaly).or(checked.err());
        let count = |fate: Fate| {
            self.history.attempts.iter().filter(|it| it.writes() && it.fate == fate).count()
        };
        add(&self.done.committed, count(Fate::Committed));
        add(&self.done.aborted, count(Fate::Aborted));
        add(&self.done.unknown, count(Fate::Unknown));
        let expiries = || self.history.attempts.iter().filter(|it| it.is_expiry());
        let persisted = expiries().filter(|it| it.fate == Fate::Aborted).count();
        add(&self.done.expiring, expiries().count() - persisted);
        add(&self.done.persisted, persisted);
        add(&self.done.lives, 1);
    }
}

/// Runs several lives of a process, with a crash between each two, until a checker finds something.
/// Returns what it has found.
fn run_seed(seed: u64, planted: Planted, done: &Arc<Done>) -> Option<String> {
    let (mut env, simulation) = Env::simulated(seed);
    // A life takes some tens of thousands of steps; one that reaches this limit hangs.
    simulation.limit_steps(3_000_000);
    let mut dice = Dice(seed);
    let mut run = HistoryRun::new(&simulation, done);
    // Until a recovery has shown the contents, the worst of the crashes since the last one counts.
    let mut power_failed = true;
    for life in 0..=LIVES {
        let life_seed = seed.wrapping_mul(1000) + life;
        env.planted = planted;
        let settled = simulation.run(|| run.live(&env, power_failed, life_seed));
        if !simulation.crashed() {
            simulation.crash();
        }
        let policies = [
            Survivors::LoseAll,
            Survivors::KeepAll,
            Survivors::Prefix,
            Survivors::TornLast,
            Survivors::Random,
        ];
        let policy = policies[dice.below(policies.len())];
        power_failed = policy != Survivors::KeepAll || (power_failed && !settled);
        env = simulation.restart(policy);
        if run.anomaly.is_some() {
            break;
        }
    }
    run.anomaly
}

#[test]
fn i1_i2_i6_histories_are_serializable_over_crashes() {
    let (mut count, done) = (0, Arc::new(Done::default()));
    for seed in seeds(SEEDS) {
        let mut failures = Vec::new();
        check_all(&format!("CLEAVEDB_SEED={seed}"), &mut failures, || {
            let anomaly = run_seed(seed, Planted::default(), &done);
            assert!(anomaly.is_none(), "{}", anomaly.unwrap_or_default());
        });
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        count += 1;
    }
    let number = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let Done { committed, aborted, unknown, searches, relocated, lives, lost, .. } = &*done;
    println!(
        "{count} seeds, {} lives: {} commits, {} conflicts or rollbacks, {} with unknown outcome, \
         {} appends lost by crashes, {} elements with deadlines, {} persisted, {} conflict \
         searches, {} segments relocated",
        number(lives),
        number(committed),
        number(aborted),
        number(unknown),
        number(lost),
        number(&done.expiring),
        number(&done.persisted),
        number(searches),
        number(relocated)
    );
    if count >= SEEDS {
        let expiry = [&done.expiring, &done.persisted];
        for number in [committed, aborted, unknown, searches, relocated, lost, expiry[0], expiry[1]]
        {
            assert!(number.load(Ordering::Relaxed) > 0, "the runs do less than they should");
        }
    }
}

/// Runs seeds with a fault in the engine until a checker finds an anomaly, which it has to.
fn find(fault: PlantedFault) {
    let most_seeds = match fault {
        PlantedFault::SkippedForgotten => MOST_SEEDS_OF_RARE,
        _ => MOST_SEEDS,
    };
    let done = Arc::new(Done::default());
    for seed in 0..most_seeds {
        if let Some(anomaly) = run_seed(seed, Planted::fault(fault), &done) {
            let (first, commits) = (anomaly.lines().next(), done.committed.load(Ordering::Relaxed));
            println!("{fault:?}: found at seed {seed}, in {commits} commits: {}", first.unwrap());
            return;
        }
    }
    panic!("{fault:?}: no checker finds it with {most_seeds} seeds");
}

#[test]
fn ranges_that_are_forgotten_are_noticed() {
    find(PlantedFault::RangesForgotten);
}

#[test]
fn a_snapshot_that_is_taken_late_is_noticed() {
    find(PlantedFault::SnapshotLate);
}

#[test]
fn tables_that_are_forgotten_are_noticed() {
    find(PlantedFault::TablesForgotten);
}

#[test]
fn recent_keys_that_are_skipped_and_forgotten_are_noticed() {
    find(PlantedFault::SkippedForgotten);
}

#[test]
fn a_group_that_is_forgotten_is_noticed() {
    find(PlantedFault::GroupForgotten);
}

#[test]
fn expiry_that_is_forgotten_is_noticed() {
    find(PlantedFault::ExpiryForgotten);
}
