//! Power cuts while the log rotates often, and the segments that are full are synced behind the
//! writers: what survives is a prefix of the commits, with all that was promised to be durable.
//! Faults that are planted in the engine are noticed.

use crate::client::{DIR, tiny_options};
use crate::crash::check_all;
use crate::random::Dice;
use cleavedb::env::Env;
use cleavedb::env::planted::{Planted, PlantedFault};
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::env::threads::{Join, ThreadBody, Threads};
use cleavedb::{
    Builder, Db, Durability, EncryptionKey, ErrorKind, KeyProvider, KeyspaceOptions, Options,
    Separation, StallReason, WriteBatch, WriteOptions,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// More calls than the creation of a database makes.
const CREATION: u64 = 30;

/// The smallest segments there are, of about five commits each, and hardly a flush, because a flush
/// makes all of the log durable.
fn options(often_flushed: bool) -> Options {
    let memtable_bytes = if often_flushed { 4 << 10 } else { 1 << 20 };
    let keyspace = KeyspaceOptions { memtable_bytes, ..tiny_options().keyspace };
    Options { segment_bytes: 4 << 10, max_replay_bytes: 4 << 20, keyspace, ..tiny_options() }
}

/// Options with which flushes replace segments of the log that were not synced: all values are
/// inline.
fn inline_options() -> Options {
    let options = options(true);
    let keyspace = KeyspaceOptions { separation: Separation::Off, ..options.keyspace };
    Options { update_table_bytes: 0, keyspace, ..options }
}

/// The only key of encrypted databases.
struct OnlyKey;

impl KeyProvider for OnlyKey {
    fn keys(&self) -> cleavedb::Result<Vec<EncryptionKey>> {
        Ok(vec![EncryptionKey::new([7; 32])])
    }
}

fn builder(env: &Env, encrypted: bool, options: Options) -> Builder {
    let builder = Db::builder(DIR).options(options).env(env.clone());
    if encrypted { builder.encryption(Arc::new(OnlyKey)) } else { builder }
}

fn try_open(env: &Env) -> cleavedb::Result<Db> {
    builder(env, false, options(false)).open()
}

/// A `Threads` whose thread that syncs the log begins once `lets_go` is set.
struct Holding {
    threads: Arc<dyn Threads>,
    lets_go: Arc<AtomicBool>,
}

impl Threads for Holding {
    fn spawn(&self, name: &str, work: ThreadBody) -> std::io::Result<Box<dyn Join>> {
        if name != "cleave-sync" {
            return self.threads.spawn(name, work);
        }
        let (threads, lets_go) = (self.threads.clone(), self.lets_go.clone());
        let held = move || {
            // The wait is bounded, so that a test that fails meanwhile ends.
            for _ in 0..60_000 {
                if lets_go.load(Ordering::Relaxed) {
                    break;
                }
                threads.sleep(Duration::from_millis(1));
            }
            work();
        };
        self.threads.spawn(name, Box::new(held))
    }

    fn yield_now(&self) {
        self.threads.yield_now();
    }

    fn sleep(&self, time: Duration) {
        self.threads.sleep(time);
    }
}

/// Returns an environment in which nothing is synced behind writers until the flag is set.
pub fn holding(env: &Env) -> (Env, Arc<AtomicBool>) {
    let lets_go = Arc::new(AtomicBool::new(false));
    let threads = Holding { threads: env.threads.clone(), lets_go: lets_go.clone() };
    (Env { threads: Arc::new(threads), ..env.clone() }, lets_go)
}

/// How the commits of a run are made.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    /// One commit in so many asks for a sync; 0 stands for none.
    synced: u64,
    often_flushed: bool,
    /// True if all values are inline; then memtables are flushed often.
    inline: bool,
    /// True if nothing is synced behind the writers, so that several full segments are not.
    held: bool,
    encrypted: bool,
    /// The sync of a segment that fails.
    failing_sync: Option<u64>,
    /// The write to a segment that fails, once; the writer goes on.
    failing_write: Option<u64>,
    fault: Option<PlantedFault>,
}

impl Plan {
    fn open(&self, env: &Env) -> cleavedb::Result<Db> {
        let options = if self.inline { inline_options() } else { options(false) };
        builder(env, self.encrypted, options).open()
    }

    fn create(&self, env: &Env) -> cleavedb::Result<Db> {
        match self.inline {
            true => self.open(env),
            false => builder(env, self.encrypted, options(self.often_flushed)).open(),
        }
    }
}

/// What comes after a crash, before the database is used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Nothing,
    /// Another crash after so many calls, at the latest when the database is open.
    Crash(u64, Survivors),
    /// The process is killed after so many calls, and the next opening loses its power after so
    /// many.
    KillAndCrash(u64, u64),
    /// A call of the next opening fails, and the process ends.
    Fail(u64),
    /// The manifest is lost, and the database repaired.
    Repair,
}

/// Returns the key and the value of half a commit. The values are long or short.
fn pair(number: u64, half: u8) -> (Vec<u8>, Vec<u8>) {
    let key = [&number.to_be_bytes()[..], &[half]].concat();
    let len = [20, 150, 400, 900][(number as usize * 7 + usize::from(half)) % 4];
    (key, vec![number as u8; len])
}

/// Writes numbered commits of two pairs each until one fails, or there are `count`. Returns how
/// many were promised to survive a power cut.
fn write(db: &Db, plan: Plan, from: u64, count: u64) -> u64 {
    let keyspace = db.default_keyspace();
    let mut dice = Dice(plan.seed ^ from.rotate_left(20));
    let mut durable = 0;
    for number in from..from + count {
        let syncs = plan.synced > 0 && dice.number_below(plan.synced) == 0;
        let durability = if syncs { Durability::Sync } else { Durability::Os };
        let commit = || {
            let mut batch = WriteBatch::new();
            for half in [0, 1] {
                let (key, value) = pair(number, half);
                batch.put(&keyspace, key, value);
            }
            db.write_with(batch, &WriteOptions::new().durability(durability))
        };
        // The same again: whether or not a crash leaves the first try, the content is the same.
        let Ok(_) = commit().or_else(|_| commit()) else { break };
        if syncs {
            durable = number + 1;
        } else if plan.synced > 0 && dice.number_below(4 * plan.synced) == 0 {
            if db.sync().is_err() {
                break;
            }
            durable = number + 1;
        }
    }
    durable
}

/// Runs a plan to the crash at call `crash_at`, or to its end.
fn run(plan: Plan, crash_at: Option<u64>) -> (Simulation, u64) {
    let (env, simulation) = Env::simulated(plan.seed);
    let (mut env, lets_go) = holding(&env);
    lets_go.store(!plan.held, Ordering::Relaxed);
    env.planted = plan.fault.map_or_else(Planted::default, Planted::fault);
    if let Some(call) = crash_at {
        simulation.crash_at(call);
    }
    let durable = simulation.run(|| {
        let Ok(db) = plan.create(&env) else { return 0 };
        if let Some(nth) = plan.failing_sync {
            simulation.fail(FaultPlan::new(Call::Sync).on(".seg").nth(nth));
        }
        if let Some(nth) = plan.failing_write {
            simulation.fail(FaultPlan::new(Call::Write).on(".seg").nth(nth));
        }
        // Writers would wait for ever while too many segments are not synced.
        let durable = write(&db, plan, 0, if plan.held { 20 } else { 60 });
        simulation.crash();
        lets_go.store(true, Ordering::Relaxed);
        durable
    });
    (simulation, durable)
}

/// Reads what is there, checks that it is a prefix of whole commits, and returns how many.
fn count(db: &Db) -> u64 {
    let keyspace = db.default_keyspace();
    let found: Vec<_> = keyspace.iter().map(|pair| pair.expect("a value reads")).collect();
    assert_eq!(found.len() % 2, 0, "I1: half a commit is there");
    for (index, (key, value)) in found.iter().enumerate() {
        let (wanted, content) = pair(index as u64 / 2, (index % 2) as u8);
        assert!(key[..] == wanted[..], "I2: commit {} is missing", index / 2);
        assert!(value[..] == content[..], "commit {} has another value", index / 2);
    }
    found.len() as u64 / 2
}

/// What was seen in many runs.
#[derive(Default, Debug)]
struct Seen {
    states: u64,
    /// States with a torn tail and segments behind it.
    behind: u64,
    failures: Vec<String>,
}

impl Seen {
    fn check(&mut self, place: &str, check: impl FnOnce(&mut Seen)) {
        self.states += 1;
        let mut failures = std::mem::take(&mut self.failures);
        check_all(place, &mut failures, || check(self));
        self.failures = failures;
    }
}

/// Opens what survived a crash, perhaps with a second one in the opening, or after a repair, writes
/// on, and opens again.
fn check_survivors(
    (env, world): (Env, Simulation),
    plan: Plan,
    least: u64,
    then: Then,
    seen: &mut Seen,
) {
    let mut env = Env { planted: plan.fault.map_or_else(Planted::default, Planted::fault), ..env };
    let mut least = least;
    let crashes = match then {
        Then::Crash(calls, survivors) => vec![(calls, survivors)],
        Then::KillAndCrash(killed, crashed) => {
            vec![(killed, Survivors::KeepAll), (crashed, Survivors::LoseAll)]
        }
        Then::Fail(nth) => {
            world.fail(FaultPlan::any_call().nth(nth));
            vec![(u64::MAX / 2, Survivors::KeepAll)]
        }
        Then::Nothing | Then::Repair => Vec::new(),
    };
    for (calls, survivors) in crashes {
        world.crash_at(world.mutations() + calls);
        let opened = world.run(|| {
            let Ok(db) = plan.open(&env) else { return None };
            if matches!(then, Then::Fail(_)) {
                // What is read may be what fails.
                world.crash();
                return None;
            }
            // What a finished opening has shown was settled.
            let found = catch_unwind(AssertUnwindSafe(|| count(&db)));
            let found = found.unwrap_or_else(|panic| match world.crashed() {
                true => 0,
                false => resume_unwind(panic),
            });
            world.crash();
            Some(found)
        });
        least = least.max(opened.unwrap_or(0));
        let planted = env.planted;
        env = world.restart(survivors);
        env.planted = planted;
    }
    let written = world.run(|| {
        // Who only reads finds the same as the opening that settles it.
        let read_only = Options { read_only: true, ..options(false) };
        let follow = Options { follow: true, ..options(false) };
        let looks = [read_only, follow].map(|options| {
            let db = builder(&env, plan.encrypted, options).open();
            let looked = |db: Db| {
                let found = count(&db);
                let report = db.check().expect("a check can be made");
                assert!(report.is_clean(), "of who only reads: {:?}", report.problems);
                found
            };
            db.map(looked).map_err(|error| error.kind())
        });
        if then == Then::Repair {
            env.fs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
            let repaired = builder(&env, plan.encrypted, options(false)).repair();
            repaired.unwrap_or_else(|error| panic!("it is not repaired: {error}"));
        }
        let db = plan.open(&env).unwrap_or_else(|error| panic!("it does not open: {error}"));
        let found = count(&db);
        assert!(found >= least, "I2: {least} commits were durable, {found} are there");
        // A repair believes a table of a flush that was not installed, whose log was not synced.
        // It also sets aside a segment that a failed write left without a commit and a crash
        // without a header. An opening takes that one for the end of the log.
        let left_behind = plan.inline || plan.failing_write.is_some();
        let may_find_more = left_behind && then == Then::Repair;
        let is_same = |look: &Result<u64, ErrorKind>| match look {
            Ok(look) => *look == found || *look < found && may_find_more,
            Err(kind) => found == 0 && *kind == ErrorKind::NotFound,
        };
        assert!(looks.iter().all(is_same), "{found} are there, and readers find {looks:?}");
        let files = world.files();
        let cut = files.iter().filter(|path| path.to_string_lossy().ends_with(".cut")).count();
        seen.behind += u64::from(cut > 1);
        let report = db.check().expect("a check can be made");
        assert!(report.is_clean(), "after recovery: {:?}", report.problems);
        write(&db, Plan { synced: 9, ..plan }, found, 20);
        db.close().unwrap();
        found + 20
    });
    let env = world.restart(Survivors::LoseAll);
    world.run(|| {
        let db = plan.open(&env).expect("it was closed");
        assert_eq!(count(&db), written, "what was written after the recovery");
        assert_eq!(db.recovery().torn_bytes, 0, "a clean close leaves no torn end");
        db.close().unwrap();
    });
}

/// Crashes a plan at some calls, with all kinds of survivors.
fn explore(plan: Plan, crashes: u64, seen: &mut Seen) {
    let calls = run(plan, None).0.mutations();
    let mut dice = Dice(plan.seed + 77);
    for crash in 0..crashes {
        // The first calls create the database.
        let crash_at = (crash > 0).then(|| CREATION + dice.number_below(calls - CREATION));
        let (simulation, least) = run(plan, crash_at);
        let random = (0..8).map(|seed| (Survivors::Random, seed));
        let prefixes = (0..4).map(|seed| (Survivors::Prefix, seed));
        let one = (0..simulation.unsynced().min(40)).map(|lost| (Survivors::AllBut(lost), 0));
        let others = [(Survivors::LoseAll, 0), (Survivors::TornLast, 0), (Survivors::KeepAll, 0)];
        for (survivors, seed) in random.chain(prefixes).chain(one).chain(others) {
            let seed = seed + 100 * plan.seed;
            let place = format!("seed {}, crash at {crash_at:?}, {survivors:?}", plan.seed);
            let then = match dice.number_below(6) {
                0 => Then::Crash(1 + dice.number_below(40), Survivors::LoseAll),
                1 => Then::Crash(1 + dice.number_below(40), Survivors::Random),
                2 => Then::KillAndCrash(1 + dice.number_below(40), 1 + dice.number_below(60)),
                3 => Then::Fail(1 + dice.number_below(100)),
                4 => Then::Repair,
                _ => Then::Nothing,
            };
            let place = format!("{place}, then {then:?}");
            seen.check(&place, |seen| {
                let world = simulation.surviving(survivors, seed);
                check_survivors(world, plan, least, then, seen);
            });
        }
    }
}

fn plan(seed: u64) -> Plan {
    let synced = [0, 12, 5][seed as usize % 3];
    let (often_flushed, held) = (seed % 4 == 3, seed % 4 > 1);
    let encrypted = seed % 5 == 4;
    Plan {
        seed,
        synced,
        often_flushed,
        inline: false,
        held,
        encrypted,
        failing_sync: None,
        failing_write: None,
        fault: None,
    }
}

#[track_caller]
fn assert_none(seen: &Seen) {
    println!("{} states, {} with segments behind a torn one", seen.states, seen.behind);
    let first = &seen.failures[..seen.failures.len().min(10)];
    assert!(first.is_empty(), "{} failures:\n{}", seen.failures.len(), first.join("\n"));
}

#[test]
fn i02_what_survives_of_segments_synced_behind_the_writers_is_a_prefix() {
    let mut seen = Seen::default();
    for seed in 0..16 {
        explore(plan(seed), 6, &mut seen);
    }
    assert!(seen.behind > 20, "hardly a crash left segments behind a torn one: {}", seen.behind);
    assert_none(&seen);
}

#[test]
fn i01_i02_flushes_that_replace_the_log_leave_a_prefix() {
    let (env, simulation) = Env::simulated(1);
    let plan = |seed| Plan { inline: true, ..plan(seed) };
    let spared = simulation.run(|| {
        let db = plan(0).create(&env).unwrap();
        write(&db, plan(0), 0, 60);
        db.flush().unwrap();
        db.stats().log_bytes_spared
    });
    assert!(spared > 10 << 10, "flushes replaced {spared} bytes of the log");
    let mut seen = Seen::default();
    for seed in 0..16 {
        explore(plan(seed), 6, &mut seen);
    }
    for seed in 16..24 {
        let (failing_sync, failing_write) = (Some(1 + seed % 4), Some(1 + seed * 5 % 37));
        let failing = if seed % 2 == 0 { (failing_sync, None) } else { (None, failing_write) };
        explore(
            Plan { failing_sync: failing.0, failing_write: failing.1, ..plan(seed) },
            3,
            &mut seen,
        );
    }
    assert_none(&seen);
}

#[test]
fn i08_a_failed_sync_of_a_full_segment_ends_writing_and_loses_nothing_promised() {
    let mut seen = Seen::default();
    for seed in 0..12 {
        let failing_sync = Some(1 + seed / 2);
        explore(Plan { failing_sync, synced: 7, ..plan(seed) }, 2, &mut seen);
    }
    assert_none(&seen);
}

#[test]
fn i01_a_failed_write_before_a_crash_costs_nothing_promised() {
    let mut seen = Seen::default();
    for seed in 0..24 {
        let failing_write = Some(1 + seed * 5 % 37);
        explore(Plan { failing_write, ..plan(seed) }, 3, &mut seen);
    }
    assert_none(&seen);
}

/// The failures that runs with a planted fault show.
fn with_fault(fault: PlantedFault, failing_sync: Option<u64>) -> Vec<String> {
    let mut seen = Seen::default();
    for seed in 0..30 {
        let planted = Plan { synced: 5, fault: Some(fault), failing_sync, ..plan(seed) };
        explore(planted, 3, &mut seen);
        if !seen.failures.is_empty() {
            break;
        }
    }
    seen.failures
}

#[test]
fn i02_syncs_out_of_order_are_noticed() {
    assert!(!with_fault(PlantedFault::SealedForgotten, None).is_empty());
}

#[test]
fn i02_a_replay_that_goes_on_behind_a_torn_segment_is_noticed() {
    assert!(!with_fault(PlantedFault::TornPassed, None).is_empty());
}

#[test]
fn i08_a_failed_sync_that_is_swallowed_is_noticed() {
    assert!(!with_fault(PlantedFault::SealedSyncSwallowed, Some(1)).is_empty());
}

/// Returns the log segments, in their order, that hold frames.
fn segments(world: &Simulation) -> Vec<PathBuf> {
    let mut files = world.files();
    files.retain(|path| path.to_string_lossy().ends_with(".seg"));
    files.retain(|path| world.read_file(path).iter().skip(88).any(|&byte| byte != 0));
    files
}

/// Writes until the log has several segments, all of them synced, and inverts a byte in each but
/// the last, one after the other. Returns whether an opening refuses each.
fn refused(fault: Option<PlantedFault>, recorded: bool) -> Vec<bool> {
    let (env, simulation) = Env::simulated(9);
    let (env, lets_go) = holding(&env);
    lets_go.store(recorded, Ordering::Relaxed);
    let plan = Plan { synced: 0, ..plan(1) };
    simulation.run(|| {
        let db = try_open(&env).unwrap();
        write(&db, plan, 0, 20);
        db.sync().unwrap();
        // This commit says that what is before it was synced.
        write(&db, plan, 20, 1);
        if recorded {
            db.wait_idle().unwrap();
        }
        simulation.crash();
        lets_go.store(true, Ordering::Relaxed);
    });
    let (_, world) = simulation.surviving(Survivors::KeepAll, 1);
    let files = segments(&world);
    assert!(files.len() > 3, "{files:?}");
    let open_damaged = |path: &PathBuf| {
        let (env, world) = simulation.surviving(Survivors::KeepAll, 1);
        let env = Env { planted: fault.map_or_else(Planted::default, Planted::fault), ..env };
        world.corrupt(path, |bytes| bytes[1000] ^= 0x55);
        let is_corruption = |error: cleavedb::Error| error.kind() == ErrorKind::Corruption;
        let opened = catch_unwind(AssertUnwindSafe(|| world.run(|| try_open(&env).map(drop))));
        opened.is_ok_and(|opened| opened.is_err_and(is_corruption))
    };
    files[..files.len() - 1].iter().map(open_damaged).collect()
}

/// With the fault, some of the damage is still noticed, by an assertion.
#[test]
fn i02_damage_of_a_synced_segment_is_told_from_a_torn_one() {
    for recorded in [true, false] {
        let refused_all = refused(None, recorded).into_iter().all(|refused| refused);
        assert!(refused_all, "recorded in the manifest: {recorded}");
        let planted = refused(Some(PlantedFault::DamageTorn), recorded);
        assert!(planted.iter().all(|refused| !refused), "damage that is passed over is noticed");
    }
}

/// Several writers, some of whose commits ask for a sync: what was acknowledged before one of these
/// began survives with it.
#[test]
fn i02_a_synced_commit_of_one_writer_vouches_for_those_of_others() {
    const WRITERS: u64 = 3;
    for seed in 0..40 {
        let (env, simulation) = Env::simulated(seed);
        let acknowledged = Arc::new(Mutex::new([0_u64; WRITERS as usize]));
        let floor = Arc::new(Mutex::new([0_u64; WRITERS as usize]));
        simulation.crash_at(60 + seed * 7 % 150);
        simulation.run(|| {
            let Ok(db) = try_open(&env) else { return };
            let writer = |id: u64| {
                let (db, acknowledged, floor) = (db.clone(), acknowledged.clone(), floor.clone());
                let work = move || {
                    let keyspace = db.default_keyspace();
                    let mut dice = Dice(seed * WRITERS + id);
                    for number in 0..40_u64 {
                        let before = *acknowledged.lock().unwrap();
                        let syncs = dice.number_below(6) == 0;
                        let durability = if syncs { Durability::Sync } else { Durability::Os };
                        let options = WriteOptions::new().durability(durability);
                        let key = [id.to_be_bytes(), number.to_be_bytes()].concat();
                        let value = vec![number as u8; 300];
                        if keyspace.put_with(key, value, &options).is_err() {
                            return;
                        }
                        acknowledged.lock().unwrap()[id as usize] = number + 1;
                        if syncs {
                            let mut floor = floor.lock().unwrap();
                            let known = floor.iter_mut().zip(before);
                            known.for_each(|(floor, before)| *floor = (*floor).max(before));
                            floor[id as usize] = number + 1;
                        }
                    }
                };
                env.threads.spawn("writer", Box::new(work)).unwrap()
            };
            let writers: Vec<_> = (0..WRITERS).map(writer).collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            simulation.crash();
        });
        let floor = *floor.lock().unwrap();
        for draw in 0..6 {
            let (env, world) = simulation.surviving(Survivors::Random, seed * 10 + draw);
            world.run(|| {
                let db = try_open(&env).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                for id in 0..WRITERS {
                    let prefix = id.to_be_bytes();
                    let found = db.default_keyspace().prefix(prefix).keys();
                    let numbers: Vec<u64> = found
                        .map(|key| u64::from_be_bytes(key.unwrap()[8..].try_into().unwrap()))
                        .collect();
                    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "seed {seed}");
                    let least = floor[id as usize];
                    assert!(numbers.len() as u64 >= least, "seed {seed}: {numbers:?} of {least}");
                }
            });
        }
    }
}

/// Writers wait while too many full segments are not synced, which is told, and go on after that.
#[test]
fn i10_writers_wait_for_syncs_of_full_segments_beyond_a_bound() {
    let (env, simulation) = Env::simulated(4);
    let (env, lets_go) = holding(&env);
    simulation.run(|| {
        let db = try_open(&env).unwrap();
        let writing = db.clone();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let work = move || {
            write(&writing, Plan { synced: 0, ..plan(1) }, 0, 60);
            ended.store(true, Ordering::Relaxed);
        };
        let writer = env.threads.spawn("writer", Box::new(work)).unwrap();
        env.threads.sleep(Duration::from_secs(2));
        assert!(!ends.load(Ordering::Relaxed), "nothing is synced behind the writer");
        let waits = |db: &Db| {
            let stalls = db.stats().stalls;
            let stall = stalls.into_iter().find(|stall| stall.reason == StallReason::LogSync);
            stall.map_or(Duration::ZERO, |stall| stall.time)
        };
        assert!(waits(&db) >= Duration::from_secs(1), "{:?}", waits(&db));
        lets_go.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert_eq!(count(&db), 60);
        db.close().unwrap();
    });
}
