//! Power cuts while the log is a write-ahead log and nothing else: segments whose entries come to
//! tables in time are never synced. What survives is a prefix of the commits all the same, over all
//! keyspaces, with all that was promised to be durable.

use crate::client::{DIR, tiny_options};
use crate::crash::check_all;
use crate::overwrites::{numbers, of_a_prefix, overwrite};
use crate::random::Dice;
use crate::rotation::holding;
use cleavedb::env::Env;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::{
    Db, Durability, GcOptions, Keyspace, KeyspaceOptions, Options, Separation, StaleTrigger,
    WriteBatch, WriteOptions,
};
use std::sync::atomic::Ordering;

/// More calls than the creation of a database and of a keyspace makes.
const CREATION: u64 = 60;

/// Where the values of a run go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Values {
    Inline,
    AtFlush,
    /// Inline, but for one commit in some, whose value stays in the log.
    SomeInLog,
}

/// How the commits of a run are made.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    values: Values,
    /// One commit in so many is in two keyspaces; 0 stands for none.
    shared: u64,
    /// One commit in so many is synced; 0 stands for none.
    synced: u64,
    /// True if value GC runs, which syncs the log for each liveness scan.
    collects: bool,
    /// True if nothing is synced behind the writers.
    held: bool,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let values = [Values::Inline, Values::AtFlush, Values::SomeInLog][seed as usize % 3];
        let shared = [0, 40, 5][seed as usize / 3 % 3];
        let synced = [0, 30][seed as usize / 9 % 2];
        Plan { seed, values, shared, synced, collects: seed.is_multiple_of(2), held: seed % 4 > 1 }
    }

    fn options(self) -> Options {
        let (separation, separation_threshold) = match self.values {
            Values::Inline => (Separation::Off, 200),
            Values::AtFlush => (Separation::AtFlush, 200),
            Values::SomeInLog => (Separation::AtWrite, 600),
        };
        let update_table_bytes = [0, 24 << 10][self.seed as usize / 4 % 2];
        // Reads ask the update table where there are no filters.
        let filter_bits_per_key = if update_table_bytes > 0 { 0 } else { 12 };
        let tables = KeyspaceOptions { filter_bits_per_key, ..tiny_options().keyspace };
        let keyspace = KeyspaceOptions { separation, separation_threshold, ..tables };
        let gc = GcOptions { automatic: self.collects, ..tiny_options().gc };
        // Segments have less than a memtable or several of them.
        let segment_bytes = if self.seed.is_multiple_of(2) { 24 << 10 } else { 6 << 10 };
        let sizes = Options { segment_bytes, max_replay_bytes: 1 << 20, ..tiny_options() };
        Options { gc, keyspace, update_table_bytes, ..sizes }
    }

    fn open(self, env: &Env) -> cleavedb::Result<(Db, [Keyspace; 2])> {
        let db = Db::builder(DIR).options(self.options()).env(env.clone()).open()?;
        let others = db.open_or_create_keyspace("others")?;
        let keyspaces = [db.default_keyspace(), others];
        Ok((db, keyspaces))
    }

    /// Returns which keyspaces have a part of a commit, and the length of its values.
    fn commit(self, number: u64) -> (usize, usize) {
        let mut dice = Dice(self.seed.rotate_left(32) ^ number);
        let parts = 1 + usize::from(self.shared > 0 && dice.number_below(self.shared) == 0);
        let is_long = self.values == Values::SomeInLog && dice.number_below(12) == 0;
        (parts, if is_long { 700 } else { 20 + dice.below(300) })
    }
}

/// Writes commits, numbered on from `from`, until one fails or there are `count`. Returns how many
/// were promised to survive a power cut.
fn write((db, keyspaces): &(Db, [Keyspace; 2]), plan: Plan, from: u64, count: u64) -> u64 {
    let mut durable = 0;
    for number in from..from + count {
        let (parts, len) = plan.commit(number);
        let mut batch = WriteBatch::new();
        for keyspace in &keyspaces[..parts] {
            batch.put(keyspace, number.to_be_bytes(), vec![number as u8; len]);
        }
        let syncs = plan.synced > 0 && number % plan.synced == plan.synced - 1;
        let durability = if syncs { Durability::Sync } else { Durability::Os };
        if db.write_with(batch, &WriteOptions::new().durability(durability)).is_err() {
            break;
        }
        if syncs {
            durable = number + 1;
        }
    }
    durable
}

/// Checks that what is there is a prefix of whole commits, and returns how many.
fn count(keyspaces: &[Keyspace; 2], plan: Plan) -> u64 {
    let found = keyspaces.each_ref().map(|keyspace| {
        let pairs = keyspace.iter().map(|pair| pair.expect("a value reads"));
        pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>()
    });
    let commits = found[0].len() as u64;
    let mut wanted = [Vec::new(), Vec::new()];
    for number in 0..commits {
        let (parts, len) = plan.commit(number);
        for pairs in &mut wanted[..parts] {
            pairs.push((number.to_be_bytes().to_vec(), vec![number as u8; len]));
        }
    }
    assert!(found[0] == wanted[0], "I2: a commit is missing among the first {commits}");
    assert!(found[1] == wanted[1], "I1, I2: {commits} commits, and not all of the other keyspace");
    commits
}

/// Runs a plan to the crash at call `crash_at`, or to its end. Returns how many commits were
/// promised to survive, how many bytes of the log were never synced, and how many it has. Nothing
/// may fail but for the crash.
fn run(plan: Plan, crash_at: Option<u64>) -> (Simulation, u64, (u64, u64)) {
    let (env, simulation) = Env::simulated(plan.seed);
    let (env, lets_go) = holding(&env);
    lets_go.store(!plan.held, Ordering::Relaxed);
    if let Some(call) = crash_at {
        simulation.crash_at(call);
    }
    let (durable, counts) = simulation.run(|| {
        let Ok(open) = plan.open(&env) else {
            lets_go.store(true, Ordering::Relaxed);
            return (0, (0, 0));
        };
        let durable = write(&open, plan, 0, 250);
        let stats = open.0.stats();
        let written = stats.entries_written;
        let is_sound = written >= 250 && stats.background_errors == 0;
        assert!(simulation.crashed() || is_sound, "{written}: {:?}", stats.background_error);
        simulation.crash();
        lets_go.store(true, Ordering::Relaxed);
        (durable, (stats.log_bytes_spared, stats.log_bytes_written))
    });
    (simulation, durable, counts)
}

/// Opens what survived, perhaps after another crash in the opening, writes on, and opens again.
fn check(world: (Env, Simulation), plan: Plan, least: u64, crash: Option<u64>) {
    let (mut env, world) = world;
    if let Some(calls) = crash {
        world.crash_at(world.mutations() + calls);
        world.run(|| {
            let opened = plan.open(&env);
            world.crash();
            drop(opened);
        });
        env = world.restart(Survivors::Random);
    }
    let written = world.run(|| {
        let open = plan.open(&env).unwrap_or_else(|error| panic!("it does not open: {error}"));
        let found = count(&open.1, plan);
        assert!(found >= least, "I2: {least} commits were durable, {found} are there");
        let report = open.0.check().expect("a check can be made");
        assert!(report.is_clean(), "after recovery: {:?}", report.problems);
        write(&open, Plan { synced: 0, ..plan }, found, 60);
        open.0.close().unwrap();
        found + 60
    });
    let env = world.restart(Survivors::LoseAll);
    world.run(|| {
        let open = plan.open(&env).expect("it was closed");
        assert_eq!(count(&open.1, plan), written, "what was written after the recovery");
    });
}

#[test]
fn i01_i02_i03_i05_segments_that_are_never_synced_cost_no_commit_promised() {
    let (mut failures, mut states) = (Vec::new(), 0);
    for seed in 0..18 {
        let plan = Plan::of(seed);
        let calls = run(plan, None).0.mutations();
        let mut dice = Dice(seed + 5);
        for crash in 0..10 {
            let crash_at = (crash > 0).then(|| CREATION + dice.number_below(calls - CREATION));
            let (simulation, least, _) = run(plan, crash_at);
            let random = (0..4).map(|seed| (Survivors::Random, seed));
            let prefixes = (0..2).map(|seed| (Survivors::Prefix, seed));
            let lost = dice.below(simulation.unsynced().max(1));
            let others = [Survivors::LoseAll, Survivors::TornLast, Survivors::AllBut(lost)];
            for (survivors, seed) in random.chain(prefixes).chain(others.map(|it| (it, 0))) {
                let again = (dice.below(3) == 0).then(|| 1 + dice.number_below(40));
                let place = format!("{plan:?}, crash at {crash_at:?}, {survivors:?}, {again:?}");
                let world = simulation.surviving(survivors, seed + 100 * plan.seed);
                check_all(&place, &mut failures, || check(world, plan, least, again));
                states += 1;
            }
        }
    }
    println!("{states} states");
    let first = &failures[..failures.len().min(10)];
    assert!(first.is_empty(), "{} failures:\n{}", failures.len(), first.join("\n"));
}

#[test]
fn what_comes_to_tables_in_time_is_not_synced() {
    for values in [Values::Inline, Values::AtFlush] {
        // Without an update table, and with one.
        for seed in [3, 5] {
            let plan = Plan { seed, values, shared: 0, synced: 0, collects: false, held: false };
            let (_, _, (spared, written)) = run(plan, None);
            assert!(spared > written / 2, "{plan:?}: {spared} of {written} bytes of the log");
        }
    }
}

/// Guards against a head of the log that passes the only record of numbers, those of a keyspace
/// that was dropped.
#[test]
fn i06_numbers_of_a_dropped_keyspace_are_not_used_again() {
    for values in [Values::Inline, Values::SomeInLog] {
        let plan = Plan { seed: 1, values, shared: 0, synced: 0, collects: false, held: false };
        let (env, simulation) = Env::simulated(plan.seed);
        let used = simulation.run(|| {
            let (db, [keyspace, others]) = plan.open(&env).unwrap();
            keyspace.put("key", vec![b'v'; 700]).unwrap();
            (0..9_u64).for_each(|number| others.put(number.to_be_bytes(), "value").unwrap());
            db.drop_keyspace("others").unwrap();
            db.flush().unwrap();
            let used = db.visible_seqno();
            simulation.crash();
            used
        });
        let env = simulation.restart(Survivors::LoseAll);
        simulation.run(|| {
            let (db, [keyspace, _]) = plan.open(&env).unwrap();
            assert!(keyspace.get("key").unwrap().is_some(), "{values:?}: it was flushed");
            let now = db.visible_seqno();
            assert!(now >= used, "I6, {values:?}: {used} numbers were used, {now} are known");
        });
    }
}

/// Overwrites keys with an update table of so many bytes, crashes, and returns what was lost of the
/// last commit of a key.
fn lost_of_overwrites(update_table_bytes: u64) -> Vec<String> {
    const KEYS: u64 = 150;
    let open = |env: &Env| {
        let plan = Plan { collects: false, ..Plan::of(0) };
        // The more often tables are rewritten, the more compactions meet a flush under way.
        let early_compaction = StaleTrigger::Entries(1);
        let options = Options { update_table_bytes, early_compaction, ..plan.options() };
        Db::builder(DIR).options(options).env(env.clone()).open()
    };
    let run = |seed: u64, crash_at: u64| {
        let (env, simulation) = Env::simulated(seed);
        simulation.crash_at(crash_at);
        simulation.run(|| {
            let Ok(db) = open(&env) else { return };
            overwrite(&db.default_keyspace(), KEYS, 1200, 40);
            simulation.crash();
        });
        simulation
    };
    let mut failures = Vec::new();
    for seed in 16..20 {
        let calls = run(seed, u64::MAX).mutations();
        let mut dice = Dice(seed + 5);
        for _ in 0..100 {
            let crash_at = CREATION + dice.number_below(calls - CREATION);
            let (env, world) = run(seed, crash_at).surviving(Survivors::LoseAll, seed);
            let found = world.run(|| numbers(&open(&env).expect("it opens")));
            if found != of_a_prefix(&found, KEYS) {
                failures.push(format!("seed {seed}, crash at {crash_at}: {found:?}"));
            }
        }
    }
    failures
}

/// Guards against a compaction that drops what is hidden by an entry that the update table knows
/// from a flush under way, which relies on its edit to make the entry durable.
#[test]
fn i02_i06_what_the_update_table_knows_is_durable() {
    for update_table_bytes in [0, 24 << 10] {
        let failures = lost_of_overwrites(update_table_bytes);
        let first = failures.first();
        assert!(
            failures.is_empty(),
            "{update_table_bytes}: {} failures: {first:?}",
            failures.len()
        );
    }
}
