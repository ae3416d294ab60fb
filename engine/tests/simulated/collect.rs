//! Tests of value GC together with other work: a pause in the middle of a liveness scan, holes that
//! can't be punched, and concurrent writers.

use crate::client::{files, inline_options, open, simulate, tiny_options, unmerged_options};
use crate::script::value;
use cleavedb::env::sim::{Call, FaultPlan};
use cleavedb::env::threads::{Join, ThreadBody, Threads};
use cleavedb::{Codec, Db, GcOptions, KeyspaceOptions, Options, WriteBatch};
use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const SEED: u64 = 31;
/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 400_000;

/// Puts a value of `len` bytes under each key, in batches of 50.
fn put_all(db: &Db, keys: &[String], len: usize) {
    for some in keys.chunks(50) {
        let mut batch = WriteBatch::new();
        some.iter().for_each(|key| {
            batch.put(&db.default_keyspace(), key, value(key.len(), len));
        });
        db.write(batch).unwrap();
    }
}

/// A `Threads` whose liveness scan threads wait until `lets_go` is set.
struct Holding {
    threads: Arc<dyn Threads>,
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    lets_go: Arc<AtomicBool>,
}

impl Threads for Holding {
    fn spawn(&self, name: &str, work: ThreadBody) -> std::io::Result<Box<dyn Join>> {
        if name != "cleave-liveness" {
            return self.threads.spawn(name, work);
        }
        let (begun, ended) = (self.begun.clone(), self.ended.clone());
        let (threads, lets_go) = (self.threads.clone(), self.lets_go.clone());
        let held = move || {
            begun.fetch_add(1, Ordering::Relaxed);
            // The wait is bounded, so that a test that fails meanwhile ends.
            for _ in 0..60_000 {
                if lets_go.load(Ordering::Relaxed) {
                    break;
                }
                threads.sleep(Duration::from_millis(1));
            }
            work();
            ended.fetch_add(1, Ordering::Relaxed);
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

/// A pause must end a running liveness scan. Users pause value GC to have the whole device for
/// other work, and the files that a scan reads can't be removed as long as it runs.
#[test]
fn a_pause_ends_a_liveness_scan_and_lets_go_of_what_it_looks_at() {
    simulate(SEED, STEPS, |env, simulation| {
        let mut env = env.clone();
        let holding = Arc::new(Holding {
            threads: env.threads.clone(),
            begun: Arc::default(),
            ended: Arc::default(),
            lets_go: Arc::default(),
        });
        env.threads = holding.clone();
        let rest = |seconds| env.threads.sleep(Duration::from_secs(seconds));
        let gc = GcOptions { max_space_amplification: 1.05, ..tiny_options().gc };
        // Each table stays open, so that the reads of a liveness scan are those of its blocks.
        let options = Options { gc, max_index_and_filter_bytes: Some(64 << 20), ..tiny_options() };
        let db = open(&env, options);
        db.pause_gc();
        // There are enough keys for a liveness scan to check in its middle whether to go on.
        let plain = KeyspaceOptions { block_codec: Codec::None, ..inline_options() };
        let small = db.create_keyspace_with("small", plain).unwrap();
        for first in (0..20_000).step_by(500) {
            let mut batch = WriteBatch::new();
            (first..first + 500).for_each(|number| {
                batch.put(&small, format!("s{number:05}"), "small");
            });
            db.write(batch).unwrap();
        }
        // The first liveness scan does not run on a thread of its own.
        db.resume_gc();
        rest(5);
        let keys: Vec<String> = (0..60).map(|number| format!("k{number:02}")).collect();
        for _ in 0..1000 {
            if holding.begun.load(Ordering::Relaxed) > 0 {
                break;
            }
            put_all(&db, &keys, 900);
        }
        assert_eq!(holding.begun.load(Ordering::Relaxed), 1, "a liveness scan is under way");
        let (before, liveness_scans) = (files(&env, "tbl"), db.stats().gc.liveness_scans);
        small.compact_range(..).unwrap();
        rest(2);
        // The tables of the default keyspace are live.
        let live: BTreeSet<_> = db.default_keyspace().tables().iter().map(|it| it.id).collect();
        let is_live = |path: &Path| {
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            id.is_some_and(|id| live.contains(&id))
        };
        let mut held: Vec<_> = before.intersection(&files(&env, "tbl")).cloned().collect();
        held.retain(|path| !is_live(path));
        assert!(held.len() > 10, "{} tables are kept for the liveness scan", held.len());

        db.pause_gc();
        // Value GC sees the pause, and waits for the thread to end.
        rest(1);
        let reads = simulation.calls(Call::Read);
        holding.lets_go.store(true, Ordering::Relaxed);
        rest(1);
        assert_eq!(holding.ended.load(Ordering::Relaxed), 1);
        let reads = simulation.calls(Call::Read) - reads;
        let tables = held.len() as u64;
        assert!(reads < tables / 2, "{reads} reads of {tables} tables: it ended in its midst");
        assert_eq!(
            db.stats().gc.liveness_scans,
            liveness_scans,
            "nobody wants to know what it found"
        );
        let left: Vec<_> = files(&env, "tbl").into_iter().filter(|it| held.contains(it)).collect();
        assert!(left.is_empty(), "{left:?}");

        db.resume_gc();
        rest(5);
        assert!(
            db.stats().gc.liveness_scans > liveness_scans,
            "what it would have found is found later"
        );
        db.close().unwrap();
    });
}

/// Returns `count` keys that begin with `letter`.
fn names(letter: char, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{letter}{number:03}")).collect()
}

/// Puts long values, and replaces two of three by short ones.
fn put_and_thin(db: &Db, letter: char, count: usize, len: usize) {
    let names = names(letter, count);
    // Each value has a batch of its own, because it is as long as many others together.
    names.iter().for_each(|name| put_all(db, std::slice::from_ref(name), len));
    db.flush().unwrap();
    let numbered = names.into_iter().enumerate();
    let rest: Vec<_> = numbered.filter(|(at, _)| at % 3 > 0).map(|(_, name)| name).collect();
    put_all(db, &rest, 20);
    db.flush().unwrap();
}

/// Guards against punching that keeps failing: it is tried again in one segment after the other.
/// Meanwhile live values must be moved, and relocations that are not needed must be removed.
#[test]
fn what_can_be_done_is_done_beside_holes_that_cannot() {
    simulate(SEED, STEPS, |env, simulation| {
        let gc = GcOptions { max_space_amplification: 1.05, ..tiny_options().gc };
        // With these options pointers become direct only when the test compacts.
        let db = open(env, Options { gc, ..unmerged_options() });
        db.pause_gc();
        put_and_thin(&db, 'l', 60, 24 << 10);
        put_and_thin(&db, 's', 400, 900);
        let full = FaultPlan::new(Call::Punch).nth(8).for_good().error(ErrorKind::StorageFull);
        simulation.fail(full);
        db.resume_gc();
        let is_told = || {
            let warnings = db.space().unwrap().warnings;
            warnings.iter().any(|it| it.contains("holes wait"))
        };
        env.threads.sleep(Duration::from_secs(60));
        assert!(is_told());
        let moved = db.stats().gc.segments_relocated;
        assert!(moved > 3, "{moved} segments were moved");
        assert!(!files(env, "rel").is_empty());
        db.default_keyspace().compact_range(..).unwrap();
        env.threads.sleep(Duration::from_secs(60));
        assert!(is_told());
        let left = files(env, "rel");
        assert!(left.is_empty(), "no table needs {left:?}");
        assert!(db.check().unwrap().is_clean());
    });
}

/// Writes until `is_over`, into segments of which `live_percent` stays live.
fn write_beside(db: &Db, live_percent: usize, is_over: &AtomicBool) {
    // The memtables are large enough that the writer waits for no flush.
    let settings = KeyspaceOptions { memtable_bytes: 64 << 10, ..db.default_keyspace().options() };
    let beside = db.create_keyspace_with("beside", settings).unwrap();
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut batch = WriteBatch::new();
        for _ in 0..100 {
            let stays = number % 5 * 20 < live_percent;
            let key = if stays { format!("n{number:07}") } else { "again".to_owned() };
            batch.put(&beside, key, value(number, 40));
            number += 1;
        }
        db.write(batch).unwrap();
    }
}

/// Value GC by hand covers the segments that were there when it was called. With memory for the
/// lists of only some of them it needs many liveness scans. Segments that writers fill meanwhile,
/// whether they hold more garbage or less, must neither keep it from ending nor end it early.
#[test]
fn gc_by_hand_ends_beside_writers_and_does_all_it_was_asked_for() {
    if std::env::var_os("CLEAVEDB_TEST_KEY").is_some() {
        return; // Its segments are counted by the length of records, which tags make longer.
    }
    for live_percent in [20, 40, 60] {
        simulate(SEED, 5 * STEPS, |env, _| {
            let gc = GcOptions { automatic: false, memory_bytes: 64 << 10, ..GcOptions::default() };
            let tables = tiny_options().keyspace;
            let keyspace = KeyspaceOptions { separation_threshold: 16, ..tables };
            let options = Options {
                gc,
                keyspace,
                max_replay_bytes: 1 << 20,
                // GC waits now and then, so that writers get on beside it.
                background_bytes_per_second: Some(128 << 20),
                ..tiny_options()
            };
            let db = open(env, options);
            // Half of each segment is live. Its list is long, as its order is not that of keys.
            let keys: Vec<String> =
                (0..66_000).map(|number| format!("k{:05}", number * 7919 % 66_000)).collect();
            put_all(&db, &keys, 40);
            let odd: Vec<_> = keys.chunks(2).map(|two| two[1].clone()).collect();
            put_all(&db, &odd, 8);
            db.flush().unwrap();
            db.wait_idle().unwrap();
            // The active segment and the spare segment are left out.
            let mut old = files(env, "seg");
            let sealed = db.stats().segments.into_iter().filter(|segment| segment.sealed);
            let sealed: Vec<PathBuf> =
                sealed.map(|segment| format!("{:08}.seg", segment.id).into()).collect();
            old.retain(|name| sealed.contains(name));
            let is_over = Arc::new(AtomicBool::new(false));
            let (beside, until) = (db.clone(), is_over.clone());
            let work = move || write_beside(&beside, live_percent, &until);
            let writer = env.threads.spawn("writer", Box::new(work)).unwrap();
            let before = db.stats().gc.liveness_scans;
            db.gc().unwrap();
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap();
            let liveness_scans = db.stats().gc.liveness_scans - before;
            assert!(liveness_scans > 3, "{liveness_scans}: there is memory for all lists");
            let now = files(env, "seg");
            let new = now.difference(&old).count();
            assert!(new > old.len() / 2, "{new}, of {}: writers were busy", old.len());
            let left: Vec<_> = now.intersection(&old).collect();
            assert!(left.is_empty(), "{live_percent} %: {left:?} are left of {}", old.len());
        });
    }
}

/// Value GC with little memory for lists moved records without regard to the limit of background
/// writes: what was written since the last MiB was forgotten with each part, and a part was smaller
/// than that. Now the rest of each part counts.
#[test]
fn what_is_moved_by_small_parts_counts_for_the_limit() {
    simulate(SEED, STEPS, |env, _| {
        let gc = GcOptions { automatic: false, memory_bytes: 64 << 10, ..GcOptions::default() };
        let options = Options {
            gc,
            segment_bytes: 4 << 20,
            max_replay_bytes: 32 << 20,
            background_bytes_per_second: Some(1 << 20),
            ..tiny_options()
        };
        let db = open(env, options);
        let keys: Vec<String> = (0..1200).map(|number| format!("k{number:05}")).collect();
        put_all(&db, &keys, 10_000);
        for two in keys.chunks(2) {
            db.default_keyspace().delete(&two[1]).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        env.threads.sleep(Duration::from_secs(60));
        let begun = env.clock.now();
        let report = db.gc().unwrap();
        let took = env.clock.since(begun);
        assert!(report.bytes_written > 2 << 20, "{report:?}");
        let least = Duration::from_secs(report.bytes_written >> 20);
        assert!(took >= least, "{} bytes in {took:?}", report.bytes_written);
    });
}

/// Overwrites near the ceiling while iterators come and go, or not; returns the number of liveness
/// scans.
fn scans_beside_iterators(has_iterators: bool) -> u64 {
    let mut scans = 0;
    simulate(21, 9_000_000, |env, _| {
        let db = open(env, Options { segment_bytes: 16 << 10, ..tiny_options() });
        let keyspace = db.default_keyspace();
        let mut open_ones = VecDeque::new();
        for round in 0..6000 {
            keyspace.put(format!("k{:03}", round * 677 % 500), [round as u8; 900]).unwrap();
            if has_iterators {
                open_ones.push_back(keyspace.iter());
                if open_ones.len() > 3 {
                    open_ones.pop_front();
                }
            }
        }
        drop(open_ones);
        scans = db.stats().gc.liveness_scans;
        db.close().unwrap();
    });
    scans
}

/// Each iterator is a snapshot for a moment, and some are always gone after a liveness scan. They
/// were a reason for the next one, so that scans ran one after the other.
#[test]
fn iterators_that_come_and_go_make_no_liveness_scan_due() {
    let [without, with] = [false, true].map(scans_beside_iterators);
    println!("{without} scans, {with} beside iterators");
    assert!(without > 3 && with <= 2 * without, "{without} scans, {with} beside iterators");
}

/// Where all values are inline, damage that a sample of the tables met put value GC to rest until
/// the next opening: a requested collection walked nothing there, so it could not tell that the
/// damage was gone.
#[test]
fn i04_a_requested_collection_tells_that_damage_of_inline_values_is_gone() {
    simulate(SEED, STEPS, |env, simulation| {
        let keyspace = KeyspaceOptions { level0_trigger: 12, ..inline_options() };
        let db = open(env, Options { keyspace, cache_bytes: 0, ..tiny_options() });
        let rests = || {
            let warnings = db.space().unwrap().warnings;
            warnings.iter().any(|warning| warning.contains("value GC rests"))
        };
        db.pause_gc();
        let keys: Vec<String> = (0..60).map(|number| format!("k{number:02}")).collect();
        for _ in 0..4 {
            put_all(&db, &keys, 100);
            db.flush().unwrap();
        }
        simulation
            .fail(FaultPlan::new(Call::Read).on(".tbl").error(ErrorKind::NotFound).for_good());
        db.resume_gc();
        env.threads.sleep(Duration::from_secs(2));
        simulation.clear_faults();
        assert!(rests(), "a sample has met damage");
        db.gc().unwrap();
        assert!(!rests(), "another one has met none");
        db.close().unwrap();
    });
}
