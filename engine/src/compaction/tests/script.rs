//! The facts and the decisions of the pickers of compaction, as text.
//!
//! - `options trigger=4 base=64M table=4M`: the settings of the keyspace; these are the defaults.
//! - `L1 5 a-c 10M`: table 5 in L1 with the user keys from `a` to `c`; also `entries`, `deletes`
//!   `in=SEGMENT:POINTERS` and `expire=DEADLINE:ENTRIES`.
//!   The number of a table is its sequence number too. `since=5` gives it an entry of that number,
//!   too, and `applied=7` says up to which number range tombstones were applied to it.
//!   `ingested=7` says that it came with the ingest of that number.
//! - `deleted [b-d)8`: a range tombstone with the number 8.
//! - `score 5 newest=10 stale=50 won=9k`: what is known of the entries of table 5, and the bytes of
//!   the stale ones.
//! - `behind L1 c`: the next job of L1 starts behind the key `c`.
//! - `running L1 5`: a job owns this table and those below it; `running L0`, one that owns L0;
//!   `elsewhere L1 a-z`, one of another keyspace.
//! - `scanned d waste=4M ordered=1k`: what scans have paid for the range of keys from `d` on, `-`
//!   for the first; `sorted 7 8` and `done 5`: segments that are sorted, and tables that were put
//!   in order.
//! - `order [room=1G] [segment=1M]`, `flush 100 1M 2M`: the decision about the order of values, and
//!   about a memtable with so many entries, bytes and bytes of values.
//! - `pick`, `stale ...`, `settle [snapshot=5] [store=1G] [free=1G]`, `closing most=64M`,
//!   `early [share:0.5] [snapshot=9]`, `follow L1 5`, `range L1 b-d [in-place]`,
//!   `reorganize L1 b-d segment=1M [after=c]`: the decision that is asked for.

use crate::base::bounds::Bounds;
use crate::base::expiry::{Deadline, ExpiryTime};
use crate::base::golden::{golden, number, pair};
use crate::base::key::{EntryKind, KeyOrder, SeqNo, Trailer, internal_key};
use crate::base::pointer::{KeyspaceId, SegmentId, TableId};
use crate::base::range_tombstone::RangeTombstone;
use crate::cache::memory_fs::MemoryFs;
use crate::compaction::early::{self, EarlyFacts};
use crate::compaction::picker::{
    CompactionCursors, Pick, RunningCompactions, pick, pick_level0, pick_range, pick_table, scores,
};
use crate::compaction::scan_order::{self, OrderFacts, OrderPick};
use crate::compaction::settle::{self, SettleFacts};
use crate::compaction::stale::{self, StaleFacts};
use crate::compaction::{deletions, reorganize};
use crate::hot::{TableScore, TableScores};
use crate::read::demand::{DemandRange, KnownDemand};
use crate::table::{SegmentUse, Summary, TableMeta};
use crate::version::files::{TableContext, TableHandle, TableLimits};
use crate::version::levels::Levels;
use crate::version::settings::KeyspaceOptions;
use crate::version::snapshots::SeenSeqnos;
use std::collections::BTreeSet;
use std::sync::Arc;

const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// Runs all cases of a file of `testdata`.
pub fn run_file(name: &str) {
    golden(&format!("compaction/testdata/{name}"), run);
}

/// The settings of a case, without its tables.
struct PickerFacts {
    levels: Levels,
    options: KeyspaceOptions,
    busy: RunningCompactions,
    cursors: CompactionCursors,
    scores: TableScores,
    demand: KnownDemand,
    sorted: Vec<SegmentId>,
}

fn run(lines: &[&str]) -> String {
    let context = context();
    let tables = lines.iter().filter_map(|line| table(line, &context));
    let mut facts = PickerFacts {
        levels: Levels::of(KeyOrder::Bytewise, tables).with_ranges(deleted(lines)),
        options: KeyspaceOptions::default(),
        busy: RunningCompactions::default(),
        cursors: CompactionCursors::default(),
        scores: TableScores::default(),
        demand: KnownDemand {
            ranges: vec![DemandRange::default()],
            done: BTreeSet::new(),
            waits: None,
        },
        sorted: Vec::new(),
    };
    let mut text = String::new();
    for line in lines.iter().filter(|line| !line.starts_with('L')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["options", ..] => words[1..].iter().for_each(|word| option(&mut facts, word)),
            ["score", id, ref counts @ ..] => {
                let mut score = TableScore::default();
                for (name, value) in counts.iter().map(|word| pair(word)) {
                    match name {
                        "newest" => score.newest_entries = number(value),
                        "stale" => score.stale_entries = number(value),
                        "won" => score.stale_bytes = number(value),
                        _ => panic!("{line}"),
                    }
                }
                facts.scores.insert(TableId(number(id)), score);
            }
            ["deleted", ..] => {}
            ["scanned", low, ref costs @ ..] => facts.demand.ranges.extend(scanned(low, costs)),
            ["sorted", ref ids @ ..] => {
                facts.sorted.extend(ids.iter().map(|id| SegmentId(number(id))));
            }
            ["done", ref ids @ ..] => {
                facts.demand.done.extend(ids.iter().map(|id| TableId(number(id))));
            }
            ["behind", at, key] => facts.cursors[level(at)] = Some(key.into()),
            ["running", "L0"] => {
                let pick = pick_level0(KEYSPACE, &facts.levels, &facts.busy).expect(line);
                claim(&mut facts.busy, KEYSPACE, &pick);
            }
            ["running", at, id] => {
                let tables = facts.levels.level(level(at));
                let table = tables.iter().find(|it| it.meta.id.to_string() == id).expect(line);
                let pick = pick_table(&facts.levels, level(at), table).expect(line);
                claim(&mut facts.busy, KEYSPACE, &pick);
            }
            ["elsewhere", at, keys] => {
                let (level, table) = table(&format!("{at} 99 {keys} 1M"), &context).expect(line);
                let pick = pick_table(&facts.levels, level, &Arc::new(table)).expect(line);
                let pick = Pick { below: Vec::new(), ..pick };
                claim(&mut facts.busy, KeyspaceId(2), &pick);
            }
            _ => text += &decide(&facts, &words),
        }
    }
    text
}

/// Returns what tables need that are never opened.
pub fn context() -> Arc<TableContext> {
    Arc::new(TableContext::new(Arc::new(MemoryFs::default()), "db".into(), 7, TableLimits::TESTS))
}

/// Parses a level like `L1`.
pub fn level(word: &str) -> usize {
    word.strip_prefix('L').and_then(|digits| digits.parse().ok()).expect(word)
}

fn claim(busy: &mut RunningCompactions, keyspace: KeyspaceId, pick: &Pick) {
    assert!(busy.claim(keyspace, &KeyOrder::Bytewise, pick).is_some(), "running jobs conflict");
}

fn option(facts: &mut PickerFacts, word: &str) {
    match pair(word) {
        ("trigger", value) => facts.options.level0_trigger = number(value) as usize,
        ("base", value) => facts.options.level_base_bytes = number(value),
        ("table", value) => facts.options.table_bytes = number(value),
        ("memtable", value) => facts.options.memtable_bytes = number(value),
        _ => panic!("{word}"),
    }
}

/// Parses a table; returns its level, too. `None` if the line is no table.
pub fn table(line: &str, context: &Arc<TableContext>) -> Option<(usize, TableHandle)> {
    let mut words = line.split_whitespace().filter(|_| line.starts_with('L'));
    let level = level(words.next()?);
    let id: u64 = words.next()?.parse().expect(line);
    let (low, high) = words.next()?.split_once('-').expect(line);
    let bytes = number(words.next()?);
    let bound = |key: &str| internal_key(key.as_bytes(), Trailer::new(id, EntryKind::Put));
    let mut summary = Summary {
        entries: 100,
        smallest: bound(low),
        largest: bound(high),
        min_seqno: id,
        max_seqno: id,
        ..Summary::default()
    };
    let (mut applied_ranges, mut ingested_at) = (0, 0);
    for word in words {
        match pair(word) {
            ("since", value) => summary.min_seqno = number(value),
            ("applied", value) => applied_ranges = number(value),
            ("ingested", value) => {
                ingested_at = number(value);
                (summary.min_seqno, summary.max_seqno) = (ingested_at, ingested_at);
            }
            ("entries", value) => summary.entries = number(value),
            ("deletes", value) => summary.tombstones = number(value),
            ("expire", value) => {
                let (deadline, count) = value.split_once(':').expect(line);
                let deadline = Deadline(number(deadline));
                (0..number(count)).for_each(|_| summary.deadlines.add(deadline));
            }
            ("in", value) => {
                let (segment, count) = value.split_once(':').expect(line);
                let used = SegmentUse { count: number(count), bytes: 100 * number(count) };
                summary.segments.insert(SegmentId(number(segment)), used);
            }
            _ => panic!("{word}"),
        }
    }
    let (id, summary) = (TableId(id), Arc::new(summary));
    let meta = TableMeta { id, bytes, summary, applied_ranges, ingested_at };
    Some((level, TableHandle::new(Arc::new(meta), KeyOrder::Bytewise, context.clone())))
}

/// Parses the range tombstones.
fn deleted(lines: &[&str]) -> Vec<RangeTombstone> {
    let words = lines.iter().filter_map(|line| line.strip_prefix("deleted "));
    let parse = |word: &str| {
        let (range, seqno) = word.split_at(word.find([')', ']']).expect(word) + 1);
        RangeTombstone { range: Bounds::parse(range).into(), seqno: number(seqno) }
    };
    words.flat_map(str::split_whitespace).map(parse).collect()
}

fn decide(facts: &PickerFacts, words: &[&str]) -> String {
    let levels = &facts.levels;
    match *words {
        ["scores"] => {
            let scores = scores(levels, &facts.options);
            let scores = scores.iter().enumerate().filter(|(_, score)| **score > 0.0);
            scores.map(|(level, score)| format!("L{level} {score:.2}\n")).collect()
        }
        ["pick"] => {
            let pick = pick(KEYSPACE, levels, &facts.options, &facts.busy, &facts.cursors);
            plan(pick, &facts.options)
        }
        ["range", at, keys, ref how @ ..] => {
            let pick = pick_range(levels, level(at), range(keys), how == ["in-place"]);
            plan(pick, &facts.options)
        }
        ["reorganize", at, keys, segment, ref after @ ..] => {
            let after = after.first().map(|word| pair(word).1.as_bytes());
            let bytes = number(pair(segment).1);
            tables(reorganize::pick(levels, level(at), after, range(keys), bytes))
        }
        ["early", trigger, ref more @ ..] => {
            let early = EarlyFacts {
                scores: &facts.scores,
                trigger: trigger.parse().unwrap(),
                snapshots: &more.iter().map(|word| number(pair(word).1)).collect::<Vec<_>>(),
                flushed: 100,
            };
            plan(early::pick(KEYSPACE, levels, &facts.busy, &early), &facts.options)
        }
        ["follow", at, id] => {
            let tables = levels.level(level(at)).iter();
            let inputs: Vec<_> = tables.filter(|it| it.meta.id.0 == number(id)).cloned().collect();
            let output_level = level(at) + 1;
            let pick = Pick { output_level, ..Pick::in_place(level(at), inputs) };
            format!("{:?}\n", early::notes(&facts.scores, &pick))
        }
        ["stale", ref more @ ..] => plan(stale_pick(facts, more), &facts.options),
        ["settle", ref more @ ..] => plan(settle_pick(facts, more), &facts.options),
        ["order", ref more @ ..] => order(facts, more),
        ["flush", ref counts @ ..] => {
            let counts = (number(counts[0]), number(counts[1]), number(counts[2]));
            format!("{}\n", scan_order::wants_flush(&facts.demand, levels, counts))
        }
        ["closing", most] => {
            let (most, options) = (number(pair(most).1), &facts.options);
            plan(deletions::pick(KEYSPACE, levels, options, most), options)
        }
        _ => panic!("{words:?}"),
    }
}

/// Parses what scans have paid for a range. The first range is there without that, too.
fn scanned(low: &str, costs: &[&str]) -> Option<DemandRange> {
    let low = if low == "-" { Vec::new() } else { low.into() };
    let mut range = DemandRange { low, ..DemandRange::default() };
    for (name, value) in costs.iter().map(|word| pair(word)) {
        match name {
            "waste" => range.waste = number(value),
            "ordered" => range.ordered = number(value),
            _ => panic!("{costs:?}"),
        }
    }
    Some(range)
}

/// Decides about the order of values, and says what that costs.
fn order(facts: &PickerFacts, words: &[&str]) -> String {
    let value = |name| words.iter().map(|word| pair(word)).find(|it| it.0 == name).map(|it| it.1);
    let (ranges, done) = (facts.demand.ranges.clone(), facts.demand.done.clone());
    let mut demand = KnownDemand { ranges, done, waits: None };
    if demand.ranges.get(1).is_some_and(|range| range.low.is_empty()) {
        demand.ranges.remove(0);
    }
    let is_sorted = |id| facts.sorted.contains(&id);
    let known = OrderFacts {
        demand: &demand,
        is_sorted: &is_sorted,
        room: value("room").map_or(u64::MAX, number),
        most_room: value("most").map_or(u64::MAX, number),
        segment_bytes: value("segment").map_or(1, number),
        flushes: value("flushes").is_some(),
    };
    match scan_order::pick(KEYSPACE, &facts.levels, &facts.busy, &known) {
        OrderPick::Nothing => "nothing\n".to_owned(),
        OrderPick::Wait(0) => "wait\n".to_owned(),
        OrderPick::Wait(room) => format!("wait for room of {room}\n"),
        OrderPick::Lower(pick) => {
            let price = scan_order::price_of(&pick, 0);
            format!("{} for {price}\n", tables(Some(pick)).trim_end())
        }
        OrderPick::Order(pick, moves) => {
            let price = scan_order::price_of(&pick, moves);
            format!("{}, moves {moves} for {price}\n", tables(Some(pick)).trim_end())
        }
    }
}

/// Parses a range of keys like `b-d`; it is open where a key is missing.
pub fn range(keys: &str) -> (Option<&[u8]>, Option<&[u8]>) {
    let (low, high) = keys.split_once('-').expect(keys);
    let [low, high] = [low, high].map(|key| Some(key.as_bytes()).filter(|key| !key.is_empty()));
    (low, high)
}

fn stale_pick(facts: &PickerFacts, words: &[&str]) -> Option<Pick> {
    let value = |name| words.iter().map(|word| pair(word)).find(|it| it.0 == name).map(|it| it.1);
    let relocated = value("relocated").map(number);
    let snapshot = value("snapshot").map(pair_at);
    let seen = SeenSeqnos {
        snapshots: snapshot.iter().map(|(seqno, _)| *seqno).collect(),
        times: snapshot.iter().map(|(_, time)| *time).collect(),
        now: ExpiryTime(value("now").map_or(0, number)),
        visible: value("visible").map_or(0, number),
    };
    let known = StaleFacts {
        oldest_snapshot: seen.snapshots.first().copied(),
        seen: &seen,
        is_relocated: &|segment| Some(segment.0) == relocated,
        idle: value("idle").is_some(),
        level0_bytes: value("level0").map_or(u64::MAX, number),
        is_worth: &|_| true,
    };
    stale::pick(KEYSPACE, &facts.levels, &facts.busy, &known)
}

/// Parses a snapshot: `7`, or `7@40` for one that judges deadlines at the time 40.
fn pair_at(snapshot: &str) -> (SeqNo, ExpiryTime) {
    let (seqno, time) = snapshot.split_once('@').unwrap_or((snapshot, "0"));
    (number(seqno), ExpiryTime(number(time)))
}

fn settle_pick(facts: &PickerFacts, words: &[&str]) -> Option<Pick> {
    let all = |name| words.iter().map(|word| pair(word)).filter(move |it| it.0 == name);
    let value = |name| all(name).map(|it| number(it.1)).next();
    let snapshots: Vec<_> = all("snapshot").map(|it| number(it.1)).collect();
    let known = SettleFacts {
        ratio: 1.2,
        options: &facts.options,
        most_bytes: &|| value("free").unwrap_or(u64::MAX),
        snapshots: &snapshots,
    };
    settle::pick(KEYSPACE, &facts.levels, &facts.busy, &known)
}

/// Describes a decision: `L1 to L2: 5 with 8 9`.
fn plan(pick: Option<Pick>, options: &KeyspaceOptions) -> String {
    let is_move = pick.as_ref().is_some_and(|pick| pick.is_move(&KeyOrder::Bytewise, options));
    let text = tables(pick);
    if is_move { text.replace('\n', ", a move\n") } else { text }
}

/// Describes the tables of a pick.
fn tables(pick: Option<Pick>) -> String {
    let Some(pick) = pick else {
        return "nothing\n".to_owned();
    };
    let ids = |tables: &[Arc<TableHandle>]| {
        tables.iter().map(|table| format!(" {}", table.meta.id)).collect::<String>()
    };
    let mut text = format!("L{} to L{}:{}", pick.level, pick.output_level, ids(&pick.inputs));
    if !pick.below.is_empty() {
        text += &format!(" with{}", ids(&pick.below));
    }
    text + "\n"
}
