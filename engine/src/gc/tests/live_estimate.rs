//! Estimates of live bytes.

use crate::gc::bounds::SpaceBounds;
use crate::gc::live_estimate::{LiveCount, LiveEstimate, LivenessScanNeed, Written};
use crate::gc::picker::Mode;

const MIB: u64 = 1 << 20;
const BOUNDS: SpaceBounds = SpaceBounds::plain(1.3, 1.2, 0);

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

/// Until a second scan all puts counted as inserts, so a tight ceiling was passed meanwhile.
#[test]
fn what_was_live_at_the_opening_tells_inserts_to_the_first_scan() {
    let mut live = LiveEstimate::default();
    live.open(80 * MIB, 80 * 1024);
    live.count(counted(100, written(80, 0)));
    assert_eq!(live.insert_share(), 0.25);
    assert_eq!(live.likely(written(120, 0)), 110 * MIB);
    // What was put and deleted since counts for neither.
    let mut queue = LiveEstimate::default();
    queue.open(100 * MIB, 100 * 1024);
    queue.count(counted(100, written(80, 80 * 1024)));
    assert_eq!(queue.insert_share(), 1.0);
    let mut new = LiveEstimate::default();
    new.open(0, 0);
    new.count(counted(100, written(1000, 900 * 1024)));
    assert_eq!(new.insert_share(), 1.0);
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
fn what_may_have_died_since_the_last_scan() {
    let mut live = LiveEstimate::default();
    assert_eq!(live.since_scan(written(100, 0), 0), None, "there was none");
    live.count(counted(100, written(100, 0)));
    let died = |put_mib, deletes, unreferenced_mib: u64| {
        let since = live.since_scan(written(put_mib, deletes), unreferenced_mib * MIB).unwrap();
        assert_eq!((since.live_bytes, since.record_bytes), (100 * MIB, 1024));
        since.died / MIB
    };
    assert_eq!(died(100, 0, 0), 0);
    assert_eq!(died(120, 5 * 1024, 0), 25);
    assert_eq!(died(120, 5 * 1024, 25), 25, "what was overwritten counts once");
    assert_eq!(died(120, 5 * 1024, 40), 40, "a keyspace was dropped");
    let most = Written { put_bytes: u64::MAX, deletes: u64::MAX };
    assert_eq!(live.since_scan(most, u64::MAX).unwrap().died, u64::MAX);
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
        unreferenced_since: 0,
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
    assert!(live.is_liveness_scan_due(&need(2000, written(720, 0))), "128 bytes for each entry");
    assert!(!live.is_liveness_scan_due(&need(700, written(736, 0))), "the bound holds in any case");
    let exhausted = |put| LivenessScanNeed { exhausted: true, ..need(2000, written(put, 0)) };
    assert!(live.is_liveness_scan_due(&exhausted(650)), "nothing is left to free");
    assert!(!live.is_liveness_scan_due(&exhausted(649)));
    let wider = SpaceBounds { ceiling: 2.0, ..BOUNDS };
    let at_wider = |put| LivenessScanNeed { bounds: wider, ..need(2000, written(put, 0)) };
    assert!(live.is_liveness_scan_due(&at_wider(800)), "a quarter of a wider slack");
    assert!(!live.is_liveness_scan_due(&at_wider(799)));
    let idle = LivenessScanNeed { mode: Mode::Idle, ..need(700, written(650, 0)) };
    assert!(live.is_liveness_scan_due(&idle), "while idle single segments count");
    let unchanged = LivenessScanNeed { mode: Mode::Idle, ..need(2000, written(640, 0)) };
    assert!(!live.is_liveness_scan_due(&unchanged));
    let spare = |allocated, written| LivenessScanNeed {
        mode: Mode::Spare,
        exhausted: true,
        ..need(allocated, written)
    };
    assert!(live.is_liveness_scan_due(&spare(780, written(704, 0))), "it settles");
    assert!(!live.is_liveness_scan_due(&spare(760, written(704, 0))), "it has settled");
    assert!(!live.is_liveness_scan_due(&spare(780, written(703, 0))), "there is no hurry");
    let loose = SpaceBounds { ceiling: 10.0, ..BOUNDS };
    let settles = LivenessScanNeed { bounds: loose, ..spare(780, written(704, 0)) };
    assert!(live.is_liveness_scan_due(&settles), "the settled bound counts, not the ceiling");
    for ceiling in [1.3, 3.5, 22.0, 1000.0] {
        let bounds = SpaceBounds { ceiling, ..BOUNDS };
        let deleted = LivenessScanNeed { bounds, ..need(700, written(640, 640 * 1024)) };
        assert!(live.is_liveness_scan_due(&deleted), "all was deleted, ceiling {ceiling}");
        let spare = LivenessScanNeed { mode: Mode::Spare, ..deleted };
        assert!(live.is_liveness_scan_due(&spare), "all was deleted, ceiling {ceiling}");
    }
    // Nobody wrote or deleted anything, and a keyspace was dropped.
    let dropped = |mode, mib: u64| LivenessScanNeed {
        mode,
        unreferenced_since: mib * MIB,
        ..need(700, written(640, 0))
    };
    assert!(live.is_liveness_scan_due(&dropped(Mode::Idle, 10)));
    assert!(!live.is_liveness_scan_due(&dropped(Mode::Idle, 9)));
    assert!(live.is_liveness_scan_due(&dropped(Mode::Busy, 300)), "the bound is lower, too");
    assert!(!live.is_liveness_scan_due(&dropped(Mode::Busy, 50)));
    // What was overwritten counts once.
    let overwritten = LivenessScanNeed {
        unreferenced_since: 9 * MIB,
        mode: Mode::Idle,
        ..need(700, written(649, 0))
    };
    assert!(!live.is_liveness_scan_due(&overwritten));
    let allowance = 512 * MIB;
    let allowed = |put| LivenessScanNeed {
        bounds: SpaceBounds { allowance, ..BOUNDS },
        ..need(2000, written(put, 0))
    };
    assert!(live.is_liveness_scan_due(&allowed(768)), "a quarter of the allowance");
    assert!(!live.is_liveness_scan_due(&allowed(767)));
}

/// Small values have many entries below a tight ceiling, and scans of all of them took a quarter of
/// the processor time.
#[test]
fn a_liveness_scan_serves_longer_where_it_passes_over_many_entries() {
    let renewed_after = |record_bytes: u64| {
        let live_bytes = 640 * MIB;
        let live_records = live_bytes / record_bytes;
        let mut live = LiveEstimate::default();
        live.count(LiveCount { live_bytes, live_records, written: written(600, 0) });
        live.count(LiveCount { live_bytes, live_records, written: written(640, 0) });
        (0..).find(|&mib| live.is_liveness_scan_due(&need(2000, written(640 + mib, 0))))
    };
    assert_eq!(renewed_after(4096), Some(48), "a quarter of the slack of 192 MiB");
    assert_eq!(renewed_after(1024), Some(80), "128 bytes for each entry");
    assert_eq!(renewed_after(128), Some(96), "half of the slack at most");
}

/// Scans of small stores had their values put in order in two large pieces, for each of which value
/// GC moved as much. What a piece leaves dead is found without moving anything.
#[test]
fn a_liveness_scan_is_due_where_it_may_find_the_room_that_a_job_waits_for() {
    let mut live = LiveEstimate::default();
    live.count(counted(640, written(640, 0)));
    live.count(counted(640, written(640, 0)));
    let is_due = |asked_mib: u64, died_mib: u64, mode| {
        let bounds = SpaceBounds { ceiling: 2.0, asked_room: asked_mib * MIB, ..BOUNDS };
        let unreferenced_since = died_mib * MIB;
        live.is_liveness_scan_due(&LivenessScanNeed {
            bounds,
            mode,
            unreferenced_since,
            ..need(1150, written(640, 0))
        })
    };
    assert_eq!([39, 40].map(|died| is_due(30, died, Mode::Spare)), [false, true]);
    let dues = [47, 48].map(|died| is_due(50, died, Mode::Spare));
    assert_eq!(dues, [false, true], "all that it lacks, as it has 2 MiB");
    assert!(!is_due(0, 50, Mode::Spare), "nobody waits");
    assert!(!is_due(30, 50, Mode::Busy), "space is short for another reason");
}

#[test]
fn the_share_of_inserts_is_learned_before_space_is_over_its_bound() {
    let mut live = LiveEstimate::default();
    live.count(counted(640, written(40, 0)));
    assert!(!live.is_liveness_scan_due(&need(736, written(136, 0))));
    assert!(
        live.is_liveness_scan_due(&need(737, written(136, 0))),
        "half of the slack may be used"
    );
    assert!(!live.is_liveness_scan_due(&need(737, written(50, 0))), "little has changed");
    live.count(counted(640, written(136, 0)));
    assert_eq!(live.insert_share(), 0.0);
    assert!(!live.is_liveness_scan_due(&need(793, written(240, 0))), "it is known");
    assert!(live.is_liveness_scan_due(&need(810, written(240, 0))));
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
