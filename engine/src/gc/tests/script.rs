//! The facts and the decisions of the picker in golden cases, as text.

use crate::base::golden::{golden, number, pair};
use crate::base::pointer::SegmentId;
use crate::base::size::sized;
use crate::gc::bounds::SpaceBounds;
use crate::gc::discardable::{CollectDiscardable, DiscardableRule};
use crate::gc::facts::{DeadRuns, How, PunchCost, SegmentFacts, SegmentFault, SpaceFacts};
use crate::gc::log_tail::LogTailAdvice;
use crate::gc::picker::{GcPlan, Mode, Policy, pick};
use crate::gc::settings::GcOptions;
use crate::segment::SegmentKind;
use std::fmt::Write;

/// Runs all cases of a file of `testdata`.
pub fn run_file(name: &str) {
    golden(&format!("gc/testdata/{name}"), run);
}

fn run(lines: &[&str]) -> String {
    let mut facts = SpaceFacts::default();
    let mut policy = Policy {
        mode: Mode::Busy,
        // GC begins at 1.3 in each mode.
        bounds: SpaceBounds::plain(1.375, 1.3, 0),
        discardable: DiscardableRule::of(&GcOptions::default()),
        punch: None,
    };
    for line in lines {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("store") => words.for_each(|word| store(&mut facts, word)),
            Some("policy") => words.for_each(|word| rule(&mut policy, word)),
            Some("segment") => {
                let segment = segment(words);
                facts.segment_bytes += segment.allocated;
                facts.segments.push(segment);
            }
            other => panic!("line {other:?} in {lines:?}"),
        }
    }
    let plan = pick(&facts, &policy);
    outcome(&facts, &plan)
}

fn store(facts: &mut SpaceFacts, word: &str) {
    match pair(word) {
        ("live", value) => facts.live_bytes = number(value),
        ("tables", value) => facts.table_bytes = number(value),
        ("other", value) => facts.other_bytes = number(value),
        ("unflushed", value) => facts.unflushed_bytes = number(value),
        ("logged", value) => facts.unflushed_log_bytes = number(value),
        ("spare", value) => facts.segment_bytes += number(value),
        _ => panic!("{word}"),
    }
}

fn rule(policy: &mut Policy, word: &str) {
    match pair(word) {
        ("off", _) => policy.mode = Mode::Off,
        ("paused", _) => policy.mode = Mode::Paused,
        ("busy", _) => policy.mode = Mode::Busy,
        ("idle", _) => policy.mode = Mode::Idle,
        ("low", _) => policy.mode = Mode::Low,
        ("manual", _) => policy.mode = Mode::Manual,
        ("spare", _) => policy.mode = Mode::Spare,
        ("ceiling", value) => policy.bounds.ceiling = value.parse().unwrap(),
        ("settled", value) => policy.bounds.settled = value.parse().unwrap(),
        ("allowance", value) => policy.bounds.allowance = number(value),
        ("discardable", value) => policy.discardable.ratio = value.parse().unwrap(),
        ("punch_ratio", value) => policy.discardable.punch_ratio = value.parse().unwrap(),
        ("always", _) => policy.discardable.when = CollectDiscardable::Always,
        // These are the costs measured on ext4: a call costs about as much as moving a megabyte.
        ("punch", _) => {
            policy.punch = Some(PunchCost { call_nanos: 4_000_000 });
        }
        _ => panic!("{word}"),
    }
}

/// Parses `segment 3 alloc=64M live=10M`; it is closed, counted and behind the head unless the
/// words say otherwise.
fn segment<'a>(mut words: impl Iterator<Item = &'a str>) -> SegmentFacts {
    let id = words.next().unwrap();
    let mut facts = SegmentFacts {
        id: SegmentId(id.parse().expect(id)),
        allocated: 64 << 20,
        written: u64::MAX,
        referenced: 1,
        counted: true,
        sealed: true,
        behind_head: true,
        ..SegmentFacts::default()
    };
    let mut mean_run = None;
    for word in words {
        match pair(word) {
            ("alloc", value) => facts.allocated = number(value),
            ("written", value) => facts.written = number(value),
            ("live", value) => facts.live = number(value),
            ("replayed", value) => facts.replayed = number(value),
            ("records", value) => facts.live_records = number(value),
            ("run", value) => mean_run = Some(number(value)),
            ("sorted", _) => facts.kind = SegmentKind::Sorted,
            ("dead", _) => facts.referenced = 0,
            ("uncounted", _) => facts.counted = false,
            ("damaged", _) => facts.fault = Some(SegmentFault::Damaged),
            ("failing", _) => facts.fault = Some(SegmentFault::Failing),
            ("tail", _) => facts.behind_head = false,
            ("active", _) => (facts.behind_head, facts.sealed) = (false, false),
            _ => panic!("{word}"),
        }
    }
    facts.written = facts.written.min(facts.allocated);
    // Each run loses one block at its ends on average.
    facts.dead_runs = mean_run.filter(|run| *run >= 8 << 10).map(|run| {
        let count = facts.garbage() / run;
        DeadRuns { count, bytes: count * (run - (4 << 10)) }
    });
    facts
}

fn outcome(facts: &SpaceFacts, plan: &GcPlan) -> String {
    let mut text = String::new();
    for victim in &plan.victims {
        let how = match victim.gain.how {
            How::Relocate => "relocate",
            How::Punch => "punch",
        };
        let _ = writeln!(text, "{how} {}", victim.id);
    }
    if let Some(LogTailAdvice { garbage, seals_active }) = plan.advice {
        let what = if seals_active { "seal the active segment" } else { "flush first" };
        let _ = writeln!(text, "{what}: {}", sized(garbage));
    }
    if plan.after_look > 0 {
        let _ = writeln!(text, "look first: {}", sized(plan.after_look));
    }
    if plan.discardable_after_look > 0 {
        let _ = writeln!(text, "look at discardable: {}", sized(plan.discardable_after_look));
    }
    let before = facts.allocated();
    let after = before - plan.won();
    let moved = sized(plan.moved());
    let _ = writeln!(text, "{} to {}, {moved} moved", sized(before), sized(after));
    for (id, reason) in &plan.reasons {
        let _ = writeln!(text, "  {id}: {reason}");
    }
    text
}
