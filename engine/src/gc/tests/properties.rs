//! Properties of every pick, on random stores.

use crate::base::pointer::SegmentId;
use crate::env::random::Random;
use crate::gc::bounds::SpaceBounds;
use crate::gc::discardable::{CollectDiscardable, DiscardableRule};
use crate::gc::explain::Reason;
use crate::gc::facts::{DeadRuns, How, PunchCost, SegmentFacts, SegmentFault, SpaceFacts};
use crate::gc::picker::{Mode, Policy, pick};
use crate::segment::SegmentKind;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of randomness that repeats itself.
struct Chance(AtomicU64);

impl Random for Chance {
    fn next_u64(&self) -> u64 {
        let next = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn fill_secret(&self, _: &mut [u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

impl Chance {
    fn below(&self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }
}

fn segment(chance: &Chance, id: u64) -> SegmentFacts {
    let allocated = (1 + chance.below(16 << 10)) * 4096;
    let live = if chance.one_in(8) { 0 } else { chance.below(allocated + 1) };
    let sealed = !chance.one_in(16);
    SegmentFacts {
        id: SegmentId(id),
        kind: if chance.one_in(3) { SegmentKind::Sorted } else { SegmentKind::Log },
        allocated,
        written: allocated,
        live,
        replayed: 0,
        live_records: live / 1000,
        referenced: if live == 0 && chance.one_in(3) { 0 } else { allocated },
        counted: !chance.one_in(8),
        sealed,
        behind_head: sealed && !chance.one_in(8),
        dead_runs: chance.one_in(2).then(|| {
            let bytes = chance.below(allocated - live + 1);
            DeadRuns { count: 1 + chance.below(64), bytes }
        }),
        fault: chance.one_in(16).then_some(SegmentFault::Damaged),
    }
}

fn store(chance: &Chance) -> SpaceFacts {
    let segments: Vec<_> = (1..2 + chance.below(40)).map(|id| segment(chance, id)).collect();
    SpaceFacts {
        segment_bytes: segments.iter().map(|segment| segment.allocated).sum(),
        table_bytes: chance.below(64 << 20),
        other_bytes: chance.below(1 << 20),
        live_bytes: segments.iter().map(|segment| segment.live).sum(),
        kept_bytes: 0,
        unflushed_bytes: if chance.one_in(2) { 0 } else { chance.below(64 << 20) },
        unflushed_log_bytes: if chance.one_in(2) { 0 } else { chance.below(80 << 20) },
        segments,
        ..SpaceFacts::default()
    }
}

fn discardable(chance: &Chance) -> DiscardableRule {
    let share = || 0.05 + chance.below(96) as f64 / 100.0;
    let always = chance.one_in(2);
    DiscardableRule {
        ratio: share(),
        punch_ratio: share(),
        when: if always { CollectDiscardable::Always } else { CollectDiscardable::Idle },
    }
}

fn policy(chance: &Chance) -> Policy {
    let modes = [Mode::Off, Mode::Paused, Mode::Busy, Mode::Spare, Mode::Idle, Mode::Low];
    let punch = PunchCost { call_nanos: chance.below(8_000_000) };
    Policy {
        mode: modes[chance.below(6) as usize],
        bounds: SpaceBounds {
            ceiling: 1.05 + chance.below(200) as f64 / 100.0,
            settled: 1.05,
            allowance: if chance.one_in(4) { chance.below(64 << 20) } else { 0 },
            asked_room: if chance.one_in(4) { chance.below(64 << 20) } else { 0 },
            under_way: if chance.one_in(2) { chance.below(64 << 20) } else { u64::MAX },
            to_flush: if chance.one_in(2) { chance.below(64 << 20) } else { 0 },
        },
        discardable: discardable(chance),
        punch: chance.one_in(2).then_some(punch),
    }
}

fn for_each_store(check: impl Fn(&Chance, SpaceFacts, Policy)) {
    let chance = Chance(AtomicU64::new(3));
    for _ in 0..2000 {
        check(&chance, store(&chance), policy(&chance));
    }
}

#[test]
fn only_what_shrinks_and_may_go_is_picked() {
    for_each_store(|_, facts, policy| {
        let plan = pick(&facts, &policy);
        for victim in &plan.victims {
            let segment = facts.segments.iter().find(|s| s.id == victim.id).unwrap();
            assert!(segment.sealed && segment.counted && segment.referenced > 0);
            assert_eq!(segment.fault, None);
            assert!(segment.behind_head || segment.kind == SegmentKind::Sorted);
            assert!(victim.gain.won > 0);
            assert!(victim.gain.won <= segment.allocated - segment.live, "no live byte goes");
            match victim.gain.how {
                How::Relocate => assert_eq!(victim.gain.moved, segment.live),
                How::Punch => {
                    assert!(policy.punch.is_some());
                    assert_eq!(victim.gain.moved, 0);
                }
            }
        }
        if policy.mode.is_off() {
            assert_eq!((plan.victims.len(), plan.advice), (0, None));
        }
    });
}

fn is_taken(reason: &Reason) -> bool {
    matches!(reason, Reason::Taken(_))
}

#[test]
fn each_segment_has_one_reason_and_the_taken_ones_say_so() {
    for_each_store(|_, facts, policy| {
        let plan = pick(&facts, &policy);
        assert_eq!(plan.reasons.len(), facts.segments.len());
        let mut taken: Vec<_> = plan.victims.iter().map(|victim| victim.id).collect();
        taken.sort_unstable();
        let said = plan.reasons.iter().filter(|(_, reason)| is_taken(reason));
        assert_eq!(said.map(|(id, _)| *id).collect::<Vec<_>>(), taken);
    });
}

/// Guards the order of the picker: any order that reaches the goal moves at least as much as the
/// best-first order without its last victim, which alone may overshoot.
#[test]
fn the_best_first_is_never_worse_than_by_age() {
    let mut compared = 0;
    let chance = Chance(AtomicU64::new(5));
    for _ in 0..2000 {
        let (facts, mut policy) = (store(&chance), policy(&chance));
        (policy.mode, policy.punch) = (Mode::Busy, None);
        policy.discardable.when = CollectDiscardable::Idle;
        let marks = policy.bounds.of(policy.mode, facts.live_bytes);
        let best = pick(&facts, &policy);
        // All segments that may be freed, the oldest first.
        policy.mode = Mode::Manual;
        let mut by_age = pick(&facts, &policy).victims;
        by_age.sort_by_key(|victim| victim.id);
        let (mut allocated, mut moved) = (facts.allocated(), 0);
        for victim in by_age.iter().take_while(|_| facts.allocated() > marks.start()) {
            if allocated <= marks.low() {
                break;
            }
            allocated -= victim.gain.won;
            moved += victim.gain.moved;
        }
        let is_comparable = best.advice.is_none() && !best.victims.is_empty();
        if allocated <= marks.low() && is_comparable {
            let last = best.victims.last().unwrap().gain.moved;
            assert!(best.moved() - last <= moved, "{best:?}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} stores were compared");
}

#[test]
fn a_store_without_live_values_is_emptied() {
    for_each_store(|_, mut facts, mut policy| {
        facts.live_bytes = 0;
        policy.mode = Mode::Busy;
        for segment in &mut facts.segments {
            (segment.live, segment.live_records) = (0, 0);
            (segment.sealed, segment.behind_head, segment.counted) = (true, true, true);
            segment.referenced = segment.allocated;
            segment.fault = None;
        }
        let plan = pick(&facts, &policy);
        assert_eq!(plan.victims.len(), facts.segments.len());
        assert_eq!((plan.won(), plan.moved()), (facts.segment_bytes, 0));
    });
}

#[test]
fn what_can_be_won_reaches_the_low_mark_or_everything_is_taken() {
    for_each_store(|_, facts, mut policy| {
        policy.mode = Mode::Busy;
        let marks = policy.bounds.of(policy.mode, facts.live_bytes);
        let plan = pick(&facts, &policy);
        let left = facts.allocated() - plan.won();
        if facts.allocated() > marks.start() {
            let waits = plan.advice.is_some() || plan.after_look > 0;
            assert!(waits || left <= marks.low() || plan.won() == plan.winnable);
        } else if policy.discardable.when == CollectDiscardable::Idle {
            assert_eq!(plan.moved(), 0, "nothing is moved while the ceiling holds");
        }
    });
}

/// Guards Titan's rule: by its ratio alone a segment is freed, in the way that the ratio is for,
/// where no bound asks for it, and in no other mode or setting.
#[test]
fn discardable_segments_are_freed_whatever_the_bounds_say() {
    let counts = [(); 3].map(|()| AtomicU64::new(0));
    for_each_store(|_, facts, mut policy| {
        policy.bounds = SpaceBounds::plain(1000.0, 1000.0, 1 << 40);
        let plan = pick(&facts, &policy);
        let is_load = matches!(policy.mode, Mode::Busy | Mode::Spare);
        let is_always = policy.discardable.when == CollectDiscardable::Always;
        let acts = policy.mode == Mode::Idle || is_load && is_always;
        let looks_for = policy.discardable.acts_always(policy.mode);
        for segment in &facts.segments {
            let reason = plan.reasons[&segment.id];
            let share = |bytes: u64| bytes as f64 / segment.allocated as f64;
            let is_much = share(segment.garbage()) >= policy.discardable.ratio;
            match reason {
                Reason::Taken(gain) if acts && gain.cost > 0 => {
                    let is_punched = gain.how == How::Punch;
                    let is_enough = is_punched && share(gain.won) >= policy.discardable.punch_ratio;
                    assert!(is_much || is_enough, "{segment:?} {gain:?}");
                    let left = share(segment.garbage().saturating_sub(gain.won));
                    let is_left = left >= policy.discardable.ratio;
                    assert!(!is_punched || is_enough || !is_left, "{segment:?} {gain:?}");
                    counts[usize::from(gain.how == How::Punch)].fetch_add(1, Ordering::Relaxed);
                }
                Reason::TooLive { gain, .. } | Reason::WithinBound(gain) if acts => {
                    let is_little = share(gain.won) < policy.discardable.ratio / 2.0;
                    assert!(!is_much || is_little, "{segment:?} {gain:?}");
                }
                Reason::Taken(gain) if is_load => assert_eq!(gain.cost, 0),
                _ => {}
            }
        }
        let looks = plan.discardable_after_look > 0;
        assert!(!looks || looks_for);
        counts[2].fetch_add(looks.into(), Ordering::Relaxed);
    });
    let counts = counts.map(AtomicU64::into_inner);
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}

/// Garbage in a part of the log that a consumer of the change feed keeps is beyond the bounds: no
/// flush is advised for it, nothing is due, and writers wait for nothing. So is what is damaged.
#[test]
fn what_nothing_frees_makes_nothing_due() {
    let chance = Chance(AtomicU64::new(5));
    let mut was_due = false;
    for _ in 0..200 {
        let mut facts = SpaceFacts { table_bytes: 0, other_bytes: 0, ..store(&chance) };
        facts.segments.iter_mut().for_each(|segment| {
            (segment.kind, segment.fault) = (SegmentKind::Log, None);
        });
        let policy = Policy { mode: Mode::Busy, ..policy(&chance) };
        let plan = pick(&facts, &policy);
        was_due |= plan.advice.is_some() || plan.winnable > 0;
        for fault in [SegmentFault::Damaged, SegmentFault::Followed] {
            facts.segments.iter_mut().for_each(|segment| segment.fault = Some(fault));
            facts.sum_kept();
            assert!(facts.allocated() <= facts.live_bytes);
            let plan = pick(&facts, &policy);
            assert_eq!((plan.winnable, plan.after_look), (0, 0), "{facts:?}");
            // A flush is of the log's tail, where only a consumer keeps anything.
            assert!(fault == SegmentFault::Damaged || plan.advice.is_none(), "{facts:?}");
        }
    }
    assert!(was_due, "this test shows nothing");
}
