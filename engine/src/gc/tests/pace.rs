//! Estimates of live bytes, and the pace of writers.

use crate::commit::pace::SpacePace;
use crate::gc::bounds::SpaceBounds;
use crate::gc::pace::{LiveCount, LiveEstimate, LivenessScanNeed, PaceFacts, Written, pace};
use crate::gc::picker::Mode;

const MIB: u64 = 1 << 20;
const BOUNDS: SpaceBounds = SpaceBounds { ceiling: 1.3, settled: 1.2, allowance: 0 };

fn written(put_mib: u64, deletes: u64) -> Written {
    Written { put_bytes: put_mib * MIB, deletes }
}

fn counted(live_mib: u64, written: Written) -> LiveCount {
    LiveCount { live_bytes: live_mib * MIB, live_records: live_mib * 1024, written }
}

#[test]
fn puts_are_taken_for_inserts_until_a_liveness_scan_proves_otherwise() {
    let mut live = LiveEstimate::default();
    assert_eq!(live.likely(written(100, 0)), 100 * MIB);
    assert_eq!(live.at_least(written(100, 0)), 0);
    live.count(counted(100, written(100, 0)));
    assert_eq!(live.likely(written(120, 0)), 120 * MIB);
    assert_eq!(live.at_least(written(120, 0)), 100 * MIB);
    // Half of the bytes put were inserts.
    live.count(counted(120, written(140, 0)));
    assert_eq!(live.insert_share(), 0.5);
    assert_eq!(live.likely(written(160, 0)), 130 * MIB);
    // None of the bytes put were inserts.
    live.count(counted(120, written(200, 0)));
    assert_eq!(live.likely(written(900, 0)), 120 * MIB);
    assert_eq!(live.at_least(written(900, 0)), 120 * MIB);
}

#[test]
fn deletions_take_mean_records_away() {
    let mut live = LiveEstimate::default();
    live.count(counted(100, written(100, 0)));
    // 1024 records of 1 KiB are a MiB.
    assert_eq!(live.at_least(written(100, 10 * 1024)), 90 * MIB);
    assert_eq!(live.likely(written(100, u64::MAX)), 0);
    // 20 MiB inserted, 20 MiB deleted: all puts were inserts.
    live.count(counted(100, written(120, 20 * 1024)));
    assert_eq!(live.insert_share(), 1.0);
}

#[test]
fn a_few_puts_prove_nothing() {
    let mut live = LiveEstimate::default();
    live.count(counted(1000, written(1000, 0)));
    live.count(counted(1000, written(1001, 0)));
    assert_eq!(live.insert_share(), 1.0);
}

fn need(allocated_mib: u64, written: Written) -> LivenessScanNeed {
    LivenessScanNeed {
        allocated: allocated_mib * MIB,
        bounds: BOUNDS,
        mode: Mode::Busy,
        written,
        exhausted: false,
    }
}

#[test]
fn a_liveness_scan_is_due_when_space_may_be_over_its_bound() {
    let mut live = LiveEstimate::default();
    assert!(live.is_liveness_scan_due(&need(1, written(0, 0))), "nothing is known");
    live.count(counted(640, written(600, 0)));
    live.count(counted(640, written(640, 0)));
    assert!(!live.is_liveness_scan_due(&need(2000, written(640, 0))), "nothing has changed");
    assert!(!live.is_liveness_scan_due(&need(2000, written(719, 0))), "little has changed");
    assert!(live.is_liveness_scan_due(&need(2000, written(720, 0))));
    assert!(!live.is_liveness_scan_due(&need(700, written(720, 0))), "the bound holds in any case");
    let exhausted = LivenessScanNeed { exhausted: true, ..need(2000, written(650, 0)) };
    assert!(live.is_liveness_scan_due(&exhausted));
    let idle = LivenessScanNeed { mode: Mode::Idle, ..need(700, written(650, 0)) };
    assert!(live.is_liveness_scan_due(&idle), "while idle single segments count");
    let unchanged = LivenessScanNeed { mode: Mode::Idle, ..need(2000, written(640, 0)) };
    assert!(!live.is_liveness_scan_due(&unchanged));
    let spare = |allocated, written| LivenessScanNeed {
        mode: Mode::Spare,
        exhausted: true,
        ..need(allocated, written)
    };
    assert!(live.is_liveness_scan_due(&spare(780, written(720, 0))), "it settles");
    assert!(!live.is_liveness_scan_due(&spare(760, written(720, 0))), "it has settled");
    assert!(!live.is_liveness_scan_due(&spare(780, written(650, 0))), "there is no hurry");
    assert!(live.is_liveness_scan_due(&need(700, written(640, 640 * 1024))), "all was deleted");
}

#[test]
fn the_share_of_inserts_is_learned_before_space_is_over_its_bound() {
    let mut live = LiveEstimate::default();
    live.count(counted(640, written(40, 0)));
    assert!(!live.is_liveness_scan_due(&need(735, written(135, 0))));
    assert!(
        live.is_liveness_scan_due(&need(737, written(135, 0))),
        "half of the slack may be used"
    );
    assert!(!live.is_liveness_scan_due(&need(737, written(50, 0))), "little has changed");
    live.count(counted(640, written(135, 0)));
    assert_eq!(live.insert_share(), 0.0);
    assert!(!live.is_liveness_scan_due(&need(798, written(230, 0))), "it is known");
    assert!(live.is_liveness_scan_due(&need(810, written(230, 0))));
}

#[test]
fn loading_is_counted_a_few_times_only() {
    let mut live = LiveEstimate::default();
    let mut liveness_scans = 0;
    for mib in 0..10_000 {
        if live.is_liveness_scan_due(&need(mib, written(mib, 0))) {
            live.count(counted(mib, written(mib, 0)));
            liveness_scans += 1;
        }
    }
    assert!((10..60).contains(&liveness_scans), "{liveness_scans}");
}

fn facts(allocated_mib: u64, live_mib: u64) -> PaceFacts {
    PaceFacts {
        allocated: allocated_mib * MIB,
        bounds: BOUNDS,
        live: live_mib * MIB,
        insert_share: 0.0,
        log_bytes: 500 * MIB,
        winnable: 10 * MIB,
        freed_per_second: 100 * MIB,
    }
}

#[test]
fn nobody_is_held_up_without_need_or_without_use() {
    assert_eq!(pace(&facts(1200, 1000)).at(500 * MIB), 0.0);
    assert!(pace(&facts(1290, 1000)).at(500 * MIB) > 0.0);
    let nothing_to_win = PaceFacts { winnable: 0, ..facts(1900, 1000) };
    assert_eq!(pace(&nothing_to_win), SpacePace::NONE);
    assert_eq!(pace(&facts(15, 1)).at(500 * MIB), 0.0, "small ones are let be");
}

#[test]
fn delays_follow_the_log_between_two_settings() {
    // The database is 24 MiB below the soft mark: so much can be overwritten before the first
    // delay.
    let overwriting = pace(&facts(1226, 1000));
    assert_eq!(overwriting.at(523 * MIB), 0.0);
    assert!(overwriting.at(526 * MIB) > 0.0);
    // With half of the bytes inserts, the allowed space grows as well.
    let mixed = pace(&PaceFacts { insert_share: 0.5, ..facts(1226, 1000) });
    assert_eq!(mixed.at(560 * MIB), 0.0);
    assert!(mixed.at(572 * MIB) > 0.0);
    // The present delay does not depend on the share of inserts from now on.
    let now = |share| pace(&PaceFacts { insert_share: share, ..facts(1290, 1000) }).at(500 * MIB);
    assert!((now(0.0) - now(1.0)).abs() < 0.01 * now(0.0));
}

#[test]
fn a_reopened_log_is_short_and_its_pace_is_the_same() {
    let at_once = pace(&PaceFacts { log_bytes: 0, ..facts(1290, 1000) }).at(0);
    let later = pace(&facts(1290, 1000)).at(500 * MIB);
    assert!(at_once > 0.0 && (at_once - later).abs() < 0.01 * later);
}

/// Runs a writer that would overwrite `write` MiB per second against a GC that frees `free` MiB per
/// second while space is over its mark. Returns the highest space as a multiple of the live bytes,
/// and the share of its wish that the writer got.
fn run(write: f64, free: f64) -> (f64, f64) {
    let live = 1000.0 * MIB as f64;
    let (mut allocated, mut log) = (1.2 * live, 0.0);
    let (mut highest, mut wished) = (0.0f64, 0.0);
    let step = 0.01;
    let mut pace_now = SpacePace::NONE;
    for tick in 0..10_000 {
        if tick % 20 == 0 {
            let facts = PaceFacts {
                allocated: allocated as u64,
                log_bytes: log as u64,
                freed_per_second: (free * MIB as f64) as u64,
                ..facts(0, 1000)
            };
            pace_now = pace(&facts);
        }
        let seconds_per_byte = 1.0 / (write * MIB as f64) + pace_now.at(log as u64) / 1e9;
        let bytes = step / seconds_per_byte;
        wished += write * MIB as f64 * step;
        (log, allocated) = (log + bytes, allocated + bytes);
        if allocated > 1.231 * live {
            allocated -= free * MIB as f64 * step;
        }
        highest = highest.max(allocated / live);
    }
    (highest, log / wished)
}

#[test]
fn space_stays_under_its_ceiling() {
    for free in [10.0, 50.0, 200.0] {
        for write in [1.0, 20.0, 100.0, 400.0, 1000.0] {
            let (highest, share) = run(write, free);
            assert!(highest <= 1.3, "{write} against {free}: {highest}");
            // The writer gets about as much as GC frees, or all of its wish.
            let possible = (free / write).min(1.0);
            assert!(share > 0.85 * possible, "{write} against {free}: {share}");
        }
    }
}

#[test]
fn writers_slower_than_gc_are_not_held_up() {
    let (highest, share) = run(50.0, 200.0);
    assert!(highest < 1.26 && share > 0.99, "{highest} {share}");
}
