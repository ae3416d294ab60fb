//! Consumers of the change feed beside writers, flushes, value GC, I/O errors and power cuts. One
//! consumer keeps a copy elsewhere, which no crash takes: it must never be ahead of the database
//! that is opened again, and must be what that shows. Another one follows what is visible, and is
//! compared with snapshots.
//!
//! Each run depends on one seed alone; `CLEAVEDB_SEED` repeats a run, `CLEAVEDB_SECONDS` makes new
//! ones for that time.

use crate::client::{DIR, inline_options, tiny_options};
use crate::crash::check_all;
use crate::random::{Dice, seeds};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::{
    ChangeBatch, Changed, Changes, ChangesOptions, Db, Durability, Error, ErrorKind, Keyspace,
    KeyspaceOptions, Options, ReadOptions, Result, Separation, SeqNo, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEEDS: u64 = 60;
const LIVES: u64 = 4;
const WRITERS: u64 = 2;
const KEYS: usize = 30;

/// The value of each key of each keyspace.
type Contents = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// What a consumer has made of the changes up to a number.
#[derive(Clone, Default)]
struct Copy {
    position: SeqNo,
    contents: Contents,
}

impl Copy {
    fn apply(&mut self, batch: &ChangeBatch) {
        assert_eq!(batch.first_seqno(), self.position + 1, "no number is passed over");
        for change in batch {
            let key = (change.keyspace.expect("it is there").to_owned(), change.key.to_vec());
            match change.what {
                Changed::Put { value, .. } => drop(self.contents.insert(key, value.to_vec())),
                Changed::Delete => drop(self.contents.remove(&key)),
                Changed::DeleteRange { lower, upper } => {
                    let is_in = |of: &[u8]| RangeBounds::<[u8]>::contains(&(lower, upper), of);
                    self.contents.retain(|(name, of), _| *name != key.0 || !is_in(of));
                }
                other => panic!("{other:?} is not known here"),
            }
        }
        self.position = batch.last_seqno();
    }
}

/// What the runs have done, to show that they did something.
static BATCHES: AtomicU64 = AtomicU64::new(0);
static RESUMED: AtomicU64 = AtomicU64::new(0);
static COMPARED: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
static RETRIED: AtomicU64 = AtomicU64::new(0);

fn open(env: &Env, seed: u64) -> Result<(Db, [Keyspace; 2])> {
    let policies = [Separation::AtWrite, Separation::AtFlush, Separation::Off];
    let separation = policies[seed as usize % 3];
    let keyspace = KeyspaceOptions { separation, ..tiny_options().keyspace };
    let options = Options { keyspace, ..tiny_options() };
    let db = Db::builder(DIR).options(options).env(env.clone()).open()?;
    let side = db.open_or_create_keyspace_with("side", inline_options())?;
    let keyspaces = [db.default_keyspace(), side];
    Ok((db, keyspaces))
}

/// Returns what the database holds now, and its number.
fn read(db: &Db, keyspaces: &[Keyspace; 2]) -> Result<Copy> {
    let snapshot = db.snapshot();
    let reading = ReadOptions::new().snapshot(&snapshot);
    let mut contents = Contents::new();
    for keyspace in keyspaces {
        for pair in keyspace.iter_with(&reading) {
            let (key, value) = pair?;
            contents.insert((keyspace.name().to_owned(), key), value.to_vec());
        }
    }
    Ok(Copy { position: snapshot.seqno(), contents })
}

fn write(db: &Db, keyspaces: &[Keyspace; 2], dice: &mut Dice) -> Result<()> {
    let mut batch = WriteBatch::new();
    for _ in 0..=dice.below(3) {
        let keyspace = &keyspaces[dice.below(2)];
        let key = format!("key{:02}", dice.below(KEYS));
        if dice.below(20) == 0 {
            let end = format!("key{:02}", dice.below(KEYS));
            if key < end {
                batch.delete_range(keyspace, key..end);
            } else {
                batch.delete_range(keyspace, end..=key);
            }
        } else if dice.below(4) == 0 {
            batch.delete(keyspace, key);
        } else {
            let length = [9, 150, 250, 2000][dice.below(4)];
            let mut value = dice.below(usize::MAX).to_le_bytes().to_vec();
            value.resize(length, b'v');
            batch.put(keyspace, key, value);
        }
    }
    let durability = [Durability::Buffered, Durability::Os, Durability::Sync][dice.below(3)];
    db.write_with(batch, &WriteOptions::new().durability(durability))?;
    match dice.below(40) {
        0 => db.flush(),
        1 => db.compact(),
        2 => db.gc().map(drop),
        _ => Ok(()),
    }
}

/// Follows the changes behind a number, 0 included: a log that begins later has not all of them.
fn follow(db: &Db, since: SeqNo, options: &ChangesOptions) -> Result<Changes> {
    let changes = db.changes_with(since, options)?;
    if changes.position() == since {
        return Ok(changes);
    }
    Err(Error::new(ErrorKind::ChangesGone, "the first changes are gone"))
}

/// Goes on with the copy behind its number, or begins it anew if the log is gone. Returns false if
/// the power went off.
fn resume(db: &Db, keyspaces: &[Keyspace; 2], copy: &mut Copy, simulation: &Simulation) -> bool {
    let newest = db.visible_seqno();
    assert!(copy.position <= newest, "the copy has {}, the database {newest}", copy.position);
    let mut goes_on = || -> Result<Copy> {
        let mut changes = follow(db, copy.position, &ChangesOptions::new())?;
        while let Some(batch) = changes.next_batch()? {
            copy.apply(&batch);
        }
        let now = read(db, keyspaces)?;
        assert_eq!(copy.position, now.position, "everything found is durable");
        assert!(copy.contents == now.contents, "the copy is another at {}", now.position);
        RESUMED.fetch_add(1, Ordering::Relaxed);
        Ok(now)
    };
    match goes_on() {
        Ok(now) => *copy = now,
        Err(error) if error.kind() == ErrorKind::ChangesGone => match read(db, keyspaces) {
            Ok(now) => *copy = now,
            Err(_) => return false,
        },
        Err(error) => {
            assert!(simulation.crashed(), "{error}");
            return false;
        }
    }
    true
}

/// Follows what is durable until the writers have ended, and keeps the copy elsewhere.
fn follow_durable(db: &Db, copy: &Mutex<Copy>, simulation: &Simulation, left: &AtomicU64) {
    let since = copy.lock().unwrap().position;
    let mut changes = match follow(db, since, &ChangesOptions::new().pin(true)) {
        Ok(changes) => changes,
        Err(_) if simulation.crashed() => return,
        // The log is pinned from here on; what writers did before may have freed it.
        Err(error) => {
            let is_told = [ErrorKind::Io, ErrorKind::ChangesGone];
            return assert!(is_told.contains(&error.kind()), "{error}");
        }
    };
    let mut failures = 0;
    loop {
        let is_over = left.load(Ordering::Relaxed) == 0;
        match changes.wait_batch(Duration::from_millis(5)) {
            Ok(Some(batch)) => {
                copy.lock().unwrap().apply(&batch);
                BATCHES.fetch_add(1, Ordering::Relaxed);
                RETRIED.fetch_add(u64::from(failures > 0), Ordering::Relaxed);
                failures = 0;
            }
            Ok(None) if is_over => return,
            Ok(None) => {}
            Err(error) => {
                failures += 1;
                let is_told = [ErrorKind::Io, ErrorKind::ReadOnly, ErrorKind::DiskFull];
                assert!(is_told.contains(&error.kind()) || simulation.crashed(), "{error}");
                if simulation.crashed() || is_over || failures > 9 {
                    return;
                }
            }
        }
    }
}

/// Follows what is visible, and compares with what snapshots show.
fn follow_visible(db: &Db, keyspaces: &[Keyspace; 2], simulation: &Simulation, left: &AtomicU64) {
    let options = ChangesOptions::new().pin(true).visible(true);
    let (Ok(mut changes), Ok(mut copy)) =
        (db.changes_with(db.visible_seqno(), &options), read(db, keyspaces))
    else {
        return;
    };
    if changes.skip_to(copy.position).is_err() {
        return;
    }
    let mut failures = 0;
    while left.load(Ordering::Relaxed) > 0 && failures < 9 && !simulation.crashed() {
        let Ok(now) = read(db, keyspaces) else {
            failures += 1;
            continue;
        };
        while copy.position < now.position {
            match changes.next_batch() {
                Ok(Some(batch)) => copy.apply(&batch),
                Ok(None) => panic!("{} is visible, {} came", now.position, copy.position),
                Err(error) if simulation.crashed() => return drop(error),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    failures += 1;
                }
            }
        }
        assert!(copy.contents == now.contents, "the copy is another at {}", now.position);
        COMPARED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs one life of the process: opens, compares the copy, writes and follows, and ends somehow.
fn live(simulation: &Simulation, env: &Env, copy: &Arc<Mutex<Copy>>, seed: u64, life: u64) {
    let mut dice = Dice(seed ^ (life + 1) << 40);
    simulation.crash_at(simulation.mutations() + 20 + dice.below(400) as u64);
    let Ok((db, keyspaces)) = open(env, seed) else {
        assert!(simulation.crashed(), "the database opens unless the power is off");
        return;
    };
    if !resume(&db, &keyspaces, &mut copy.lock().unwrap(), simulation) {
        return;
    }
    if dice.below(3) > 0 {
        let call = [Call::Read, Call::Write, Call::Sync, Call::Open][dice.below(4)];
        let nth = 1 + dice.below(100) as u64;
        simulation.fail(FaultPlan::new(call).nth(nth).on(".seg"));
    }
    let left = Arc::new(AtomicU64::new(WRITERS));
    let mut joins = Vec::new();
    for writer in 0..WRITERS {
        let (db, keyspaces, left) = (db.clone(), keyspaces.clone(), left.clone());
        let simulation = simulation.clone();
        let mut dice = Dice(seed ^ (life * 8 + writer + 1) << 32);
        let work = move || {
            let mut failures = 0;
            for _ in 0..20 + dice.below(60) {
                failures += usize::from(write(&db, &keyspaces, &mut dice).is_err());
                if simulation.crashed() || failures > 5 {
                    break;
                }
            }
            left.fetch_sub(1, Ordering::Relaxed);
        };
        joins.push(env.threads.spawn("writer", Box::new(work)).unwrap());
    }
    let follower = (db.clone(), copy.clone(), simulation.clone(), left.clone());
    let work = move || follow_durable(&follower.0, &follower.1, &follower.2, &follower.3);
    joins.push(env.threads.spawn("durable", Box::new(work)).unwrap());
    let follower = (db.clone(), keyspaces, simulation.clone(), left);
    let work = move || follow_visible(&follower.0, &follower.1, &follower.2, &follower.3);
    joins.push(env.threads.spawn("visible", Box::new(work)).unwrap());
    joins.into_iter().for_each(|join| join.join().unwrap_or_else(|text| panic!("{text}")));
    simulation.clear_faults();
    let position = copy.lock().unwrap().position;
    LOST.fetch_add(u64::from(db.visible_seqno() > position), Ordering::Relaxed);
    if dice.below(3) == 0 {
        // A database that a failed sync has turned read-only does not close cleanly.
        drop(db.close());
    }
}

fn run_seed(seed: u64) {
    let (mut env, simulation) = Env::simulated(seed);
    simulation.limit_steps(3_000_000);
    let mut dice = Dice(seed);
    let copy = Arc::new(Mutex::new(Copy::default()));
    for life in 0..LIVES {
        simulation.run(|| live(&simulation, &env, &copy, seed, life));
        let kinds = [
            Survivors::LoseAll,
            Survivors::KeepAll,
            Survivors::Prefix,
            Survivors::TornLast,
            Survivors::Random,
        ];
        env = simulation.restart(kinds[dice.below(kinds.len())]);
    }
    simulation.run(|| {
        let (db, keyspaces) = open(&env, seed).expect("nothing fails any more");
        assert!(resume(&db, &keyspaces, &mut copy.lock().unwrap(), &simulation));
        db.close().expect("nothing fails any more");
    });
}

/// Two threads that wait for each other's commits, one of them for what is durable, each with
/// plenty of time, of which none passes.
#[test]
fn a_commit_wakes_who_waits() {
    const LONG: Duration = Duration::from_secs(3600);
    for seed in 0..20 {
        let (env, simulation) = Env::simulated(seed);
        simulation.limit_steps(1_000_000);
        simulation.run(|| {
            let (db, keyspaces) = open(&env, seed).unwrap();
            let begun = env.clock.now();
            let play = |db: Db, keyspace: Keyspace, turn: u8| {
                let options = ChangesOptions::new().visible(turn == 0);
                let mut changes = db.changes_with(0, &options).unwrap();
                move || {
                    for round in 0..40_u8 {
                        if round % 2 == turn {
                            keyspace.put([round], "").unwrap();
                        }
                        let batch = changes.wait_batch(LONG).unwrap().expect("it is committed");
                        assert_eq!(batch.get(0).unwrap().key, [round]);
                    }
                }
            };
            let joins: Vec<_> = (0..2)
                .map(|turn| {
                    let work = play(db.clone(), keyspaces[0].clone(), turn);
                    env.threads.spawn("player", Box::new(work)).unwrap()
                })
                .collect();
            joins.into_iter().for_each(|join| join.join().unwrap_or_else(|text| panic!("{text}")));
            assert!(env.clock.now() - begun < LONG, "seed {seed}: a wake-up was lost");
            db.close().unwrap();
        });
    }
}

/// What a consumer says it has, by a number that was not durable, failed to become so. The second
/// try was taken for done already.
#[test]
fn i02_a_skip_that_failed_is_not_done_when_it_is_tried_again() {
    let (env, simulation) = Env::simulated(1);
    simulation.run(|| {
        let (db, keyspaces) = open(&env, 0).unwrap();
        let mut changes = db.changes(0).unwrap();
        keyspaces[0].put("key", "value").unwrap();
        simulation.fail(FaultPlan::new(Call::Sync).on(".seg"));
        let number = db.visible_seqno();
        for _ in 0..2 {
            changes.skip_to(number).expect_err("nobody knows whether it is durable");
        }
    });
}

/// A feed from the beginning that begins while the first commit is made hands it out. It was passed
/// over if it came between the search for a segment and the look at the newest number.
#[test]
fn a_commit_while_a_feed_begins_is_handed_out() {
    let mut positions = [0; 2];
    for seed in 0..200 {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            let (db, [keyspace, _]) = open(&env, seed).unwrap();
            let writer = move || keyspace.put("key", "value").unwrap();
            let writer = env.threads.spawn("writer", Box::new(writer)).unwrap();
            let mut changes = db.changes(0).unwrap();
            positions[usize::from(db.visible_seqno() > 0)] += 1;
            writer.join().unwrap();
            let batch = changes.next_batch().unwrap();
            assert_eq!(batch.map(|batch| batch.last_seqno()), Some(1), "seed {seed}");
            db.close().unwrap();
        });
    }
    assert!(positions.iter().all(|count| *count > 0), "both orders are met: {positions:?}");
}

/// Segments that got no commit, because their first write failed, may be gone without anything
/// being missing: a feed from the beginning still hands out everything.
#[test]
fn what_a_failed_write_leaves_between_segments_is_no_gap() {
    let mut failed = 0;
    for nth in 1..60 {
        let (env, simulation) = Env::simulated(nth);
        simulation.run(|| {
            let (db, [keyspace, _]) = open(&env, 0).unwrap();
            let keeps = db.changes_with(0, &ChangesOptions::new().pin(true)).unwrap();
            let plan = FaultPlan::new(Call::Write).nth(nth).on(".seg");
            simulation.fail(plan.error(std::io::ErrorKind::StorageFull));
            let mut put = 0;
            for number in 0..60_u8 {
                match keyspace.put([number], [number; 200]) {
                    Ok(()) => put += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                        failed += 1;
                    }
                }
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
            let mut changes = db.changes(0).unwrap();
            assert_eq!(changes.position(), 0, "write {nth}: the log has everything");
            for number in 1..=put {
                let batch = changes.next_batch().unwrap().expect("it was committed");
                assert_eq!(batch.last_seqno(), number, "write {nth}");
            }
            assert!(changes.next_batch().unwrap().is_none());
            drop((keeps, keyspace));
            db.close().unwrap();
        });
    }
    assert!(failed > 20, "{failed} puts have failed");
}

#[test]
fn i01_i02_copies_elsewhere_are_what_snapshots_show_and_never_ahead() {
    let mut failures = Vec::new();
    for seed in seeds(SEEDS) {
        check_all(&format!("seed {seed}"), &mut failures, || run_seed(seed));
    }
    let told = [&BATCHES, &RESUMED, &COMPARED, &LOST, &RETRIED];
    let told = told.map(|number| number.load(Ordering::Relaxed));
    println!("batches, resumed, compared, behind at the end, after errors: {told:?}");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let is_single = std::env::var("CLEAVEDB_SEED").is_ok();
    assert!(is_single || told.iter().all(|number| *number > 0), "{told:?}");
}
