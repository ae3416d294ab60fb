//! Tests of the ratios by which segments are freed though the bounds of space hold, beside users
//! that write without a pause.

use crate::common;
use crate::common::rng::Rng;
use cleavedb::{CollectDiscardable, Db, GcOptions, Options, Separation, StallReason};
use std::path::Path;
use std::time::{Duration, Instant};

const KEYS: usize = 600;
const VALUE: usize = 700;
/// The number of times that the bytes of all values are overwritten.
const ROUNDS: u64 = 12;
/// The database is idle after this time without a commit.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Returns options with bounds of space that are never reached.
fn loose(collect_discardable: CollectDiscardable) -> Options {
    let gc = GcOptions {
        max_space_amplification: 10.0,
        settled_space_amplification: 10.0,
        space_allowance_bytes: 0,
        collect_discardable,
        ..GcOptions::default()
    };
    Options { gc, keyspace: common::separating(Some(64)), ..common::tiny() }
}

/// What happened while a store was overwritten.
struct Overwritten {
    /// The most bytes of segments for each byte of live values, between two rounds.
    most: f64,
    /// True if the store may have been idle meanwhile.
    was_idle: bool,
    db: Db,
}

/// Overwrites random keys, and waits after each round until no more work is due beside writers.
fn overwrite(dir: &Path, options: Options) -> Overwritten {
    let db = common::open_with(dir, options);
    let keyspace = db.default_keyspace();
    let mut versions = [0; KEYS];
    let chance = &mut Rng::new(7);
    let put = |number: usize, version: u64| {
        common::put_value(&keyspace, number, version, VALUE);
    };
    (0..KEYS).for_each(|number| put(number, 0));
    let (mut most, mut last, mut longest) = (0.0_f64, Instant::now(), Duration::ZERO);
    for round in 1..=ROUNDS {
        for _ in 0..KEYS {
            let number = chance.below(KEYS);
            put(number, round);
            versions[number] = round;
        }
        last = Instant::now();
        db.wait_idle().unwrap();
        longest = longest.max(last.elapsed());
        let bytes = common::bytes_of(dir, ".seg");
        most = most.max(bytes as f64 / (KEYS * VALUE) as f64);
    }
    for (number, version) in versions.into_iter().enumerate() {
        common::expect_value(&keyspace, number, version, VALUE);
    }
    let was_idle = longest.max(last.elapsed()) >= IDLE_AFTER;
    Overwritten { most, was_idle, db }
}

#[test]
fn discardable_segments_are_moved_beside_writers_whatever_the_ceiling() {
    // What is in sorted segments is found by liveness scans alone; looks list what is in the log.
    for separation in [Separation::AtWrite, Separation::AtFlush] {
        let dir = common::dir();
        let mut options = loose(CollectDiscardable::Always);
        options.keyspace.separation = separation;
        let Overwritten { most, db, .. } = overwrite(dir.path(), options);
        let stats = db.stats();
        assert!(stats.gc.segments_relocated > 50 && stats.gc.bytes_moved > 0, "{:?}", stats.gc);
        // Half of each segment may be garbage, half as much again is found by the next liveness
        // scan, and the tail of the log is no more than a few segments.
        assert!(most < 3.0, "{separation:?}, {most}: {:?}", stats.gc);
        // A scan serves until half of the live bytes may have died.
        assert!(stats.gc.liveness_scans <= 3 * ROUNDS, "{:?}", stats.gc);
        let stall = stats.stalls.iter().find(|stall| stall.reason == StallReason::Space).unwrap();
        assert_eq!(stall.count, 0, "writers are not slowed down for it");
        let report = db.check().unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

#[test]
fn by_default_nothing_is_moved_beside_writers_while_the_bounds_hold() {
    let dir = common::dir();
    let Overwritten { was_idle, db, .. } = overwrite(dir.path(), loose(CollectDiscardable::Idle));
    // A machine that is busy with other things may let the store be idle, which frees them.
    if !was_idle {
        assert_eq!(db.stats().gc.bytes_moved, 0, "{:?}", db.stats().gc);
    }
}

#[test]
fn a_higher_ratio_moves_less_and_leaves_more() {
    let [some, most] = [0.3, 0.6].map(|discardable_ratio| {
        let dir = common::dir();
        let mut options = loose(CollectDiscardable::Always);
        options.gc.discardable_ratio = discardable_ratio;
        let Overwritten { was_idle, db, .. } = overwrite(dir.path(), options);
        (db.stats().gc.bytes_moved, was_idle)
    });
    assert!(some.0 > most.0 + most.0 / 2, "{some:?} {most:?}");
}

/// Writes values in segments of sixteen, overwrites a quarter of each, and returns the segments
/// punched and the bytes moved, with whether the store may have been idle.
fn punched(when: CollectDiscardable, punch_ratio: f64) -> (u64, u64, bool) {
    const LARGE: usize = 64 << 10;
    let dir = common::dir();
    let mut options = loose(when);
    options.gc.punch_ratio = punch_ratio;
    (options.segment_bytes, options.max_replay_bytes) = (1 << 20, 4 << 20);
    let db = common::open_with(dir.path(), options);
    let keyspace = db.default_keyspace();
    let numbers = 0..256;
    numbers.clone().for_each(|number| common::put_value(&keyspace, number, 1, LARGE));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let is_new = |number: &usize| number.is_multiple_of(4);
    // A liveness scan in the middle would find half of it, and the next one would not be due.
    db.pause_gc();
    let last = Instant::now();
    numbers.clone().filter(is_new).for_each(|it| common::put_value(&keyspace, it, 2, LARGE));
    db.flush().unwrap();
    db.resume_gc();
    db.wait_idle().unwrap();
    let (gc, was_idle) = (db.stats().gc, last.elapsed() >= IDLE_AFTER);
    for number in numbers {
        common::expect_value(&keyspace, number, if is_new(&number) { 2 } else { 1 }, LARGE);
    }
    assert!(db.check().unwrap().is_clean());
    (gc.segments_punched, gc.bytes_moved, was_idle)
}

#[test]
fn a_lower_ratio_is_for_holes_beside_writers_too() {
    let (segments, moved, _) = punched(CollectDiscardable::Always, 0.2);
    assert!(segments >= 10 && moved == 0, "{segments} segments, {moved} bytes moved");
    for (when, ratio) in [(CollectDiscardable::Always, 0.4), (CollectDiscardable::Idle, 0.2)] {
        let (segments, moved, was_idle) = punched(when, ratio);
        assert!(was_idle && when == CollectDiscardable::Idle || segments + moved == 0, "{when}");
    }
}

/// Guards against work that is due while users write, and not once nobody does: whoever waits for
/// idleness waited for it for ever.
#[test]
fn waiting_for_idleness_ends_where_discardable_segments_are_always_freed() {
    let dir = common::dir();
    let mut options = loose(CollectDiscardable::Always);
    options.keyspace.separation = Separation::AtWrite;
    let db = common::open_with(dir.path(), options);
    let keyspace = db.default_keyspace();
    for version in 0..6 {
        // Few keys, so that the segments of the log are mostly garbage once they are behind the
        // head.
        (0..KEYS / 10).for_each(|number| common::put_value(&keyspace, number, version, VALUE));
        if version == 3 {
            db.wait_idle().unwrap();
        }
    }
    // The database has to be idle by its own clock, which nothing tells of.
    let last = Instant::now();
    while last.elapsed() < IDLE_AFTER + IDLE_AFTER / 4 {
        std::thread::yield_now();
    }
    db.flush().unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    let waiting = db.clone();
    std::thread::spawn(move || ended.send(waiting.wait_idle()));
    end.recv_timeout(Duration::from_secs(120)).expect("it is still due").unwrap();
}
