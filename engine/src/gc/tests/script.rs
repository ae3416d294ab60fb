//! Golden cases as text: the facts, a line `----`, and the result. Cases are separated by empty
//! lines; lines that begin with `#` belong to the case below.
//!
//! `REWRITE=1 cargo test -p cleavedb --lib gc` writes the results into the files, for review as a
//! diff.

use crate::base::pointer::SegmentId;
use crate::base::size::sized;
use crate::gc::facts::{DeadRuns, How, PunchCost, SegmentFacts, SegmentFault, SpaceFacts};
use crate::gc::log_tail::LogTailAdvice;
use crate::gc::picker::{GcPlan, Mode, Policy, pick};
use crate::segment::SegmentKind;
use std::fmt::Write;
use std::path::Path;

/// Runs all cases of a file of `testdata`.
pub fn run_file(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gc/testdata").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let cases = text.split("\n\n").filter(|case| !case.trim().is_empty());
    let results: Vec<String> = cases.map(|case| run(case.trim_end())).collect();
    assert!(!results.is_empty(), "{name} has no cases");
    let results = results.join("\n\n") + "\n";
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &results).unwrap();
        return;
    }
    let first = text.lines().zip(results.lines()).find(|(is, should)| is != should);
    if let Some((expected, found)) = first {
        panic!("{name} expects\n  {expected}\nfound\n  {found}");
    }
    assert_eq!(text.trim_end().len(), results.trim_end().len(), "{name}: lines are missing");
}

/// Returns the case with its result.
fn run(case: &str) -> String {
    let input = case.split("\n----").next().unwrap_or_default();
    let lines = input.lines().filter(|line| !line.starts_with('#'));
    let mut facts = SpaceFacts::default();
    let mut policy = Policy {
        mode: Mode::Busy,
        max_space_amplification: 1.3,
        discardable_ratio: 0.5,
        punch: None,
        look_cost: 0,
        move_budget: u64::MAX,
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
            other => panic!("line {other:?} in\n{case}"),
        }
    }
    let plan = pick(&facts, &policy);
    format!("{input}\n----\n{}", outcome(&facts, &plan).trim_end())
}

fn pair(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}

/// Parses a number with a unit: `12k`, `3M`, `1G`.
fn number(text: &str) -> u64 {
    let units = [("k", 10), ("M", 20), ("G", 30)];
    let unit = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
    let (digits, bits) = unit.unwrap_or((text, &0));
    (digits.parse::<f64>().expect(text) * f64::from(1 << bits)) as u64
}

fn store(facts: &mut SpaceFacts, word: &str) {
    match pair(word) {
        ("live", value) => facts.live_bytes = number(value),
        ("tables", value) => facts.table_bytes = number(value),
        ("other", value) => facts.other_bytes = number(value),
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
        ("target", value) => policy.max_space_amplification = value.parse().unwrap(),
        ("discardable", value) => policy.discardable_ratio = value.parse().unwrap(),
        ("look", value) => policy.look_cost = number(value),
        ("budget", value) => policy.move_budget = number(value),
        // These are the costs measured on ext4: a call costs about as much as moving a megabyte.
        ("punch", _) => {
            policy.punch = Some(PunchCost { call_nanos: 1_000_000, move_nanos_per_mib: 1_000_000 });
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
        kind: SegmentKind::Log,
        allocated: 64 << 20,
        written: u64::MAX,
        live: 0,
        live_records: 0,
        referenced: 1,
        counted: true,
        sealed: true,
        behind_head: true,
        linked: false,
        dead_runs: None,
        fault: None,
    };
    let mut mean_run = None;
    for word in words {
        match pair(word) {
            ("alloc", value) => facts.allocated = number(value),
            ("written", value) => facts.written = number(value),
            ("live", value) => facts.live = number(value),
            ("records", value) => facts.live_records = number(value),
            ("run", value) => mean_run = Some(number(value)),
            ("sorted", _) => facts.kind = SegmentKind::Sorted,
            ("linked", _) => facts.linked = true,
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
    match plan.advice {
        Some(LogTailAdvice::FlushFirst { garbage }) => {
            let _ = writeln!(text, "flush first: {}", sized(garbage));
        }
        Some(LogTailAdvice::SealActive { garbage }) => {
            let _ = writeln!(text, "seal the active segment: {}", sized(garbage));
        }
        None => {}
    }
    if plan.after_look > 0 {
        let _ = writeln!(text, "look first: {}", sized(plan.after_look));
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
