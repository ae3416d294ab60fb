//! Golden cases of what a compaction makes of operands. The operator adds numbers.
//!
//! - `snapshots 3 7`: the live snapshots.
//! - `visible 8`: the newest sequence number that readers see; everything by default.
//! - `L1 a9+2 a5=40 b4x`: a table in L1 with an operand, a put and a tombstone.
//! - `deleted 8 [a-c)`: a range tombstone with the number 8.
//! - `compact L1 a-c [in-place]`: the job, and a list of all tables after it.

use super::script::{level, range};
use super::world::JobWorld;
use crate::base::bounds::Bounds;
use crate::base::entry::{Payload, Slot};
use crate::base::golden::{golden, number};
use crate::base::key::{EntryKind, MAX_SEQNO, SeqNo, Trailer};
use crate::base::range_tombstone::RangeTombstone;
use crate::compaction::job;
use crate::compaction::picker::pick_range;
use crate::segment::{RecordInput, RecordKind};
use crate::throttle::reads::IoPriority;
use crate::version::edit::{Change, Edit};
use crate::version::segment_output::{NewSegments, SegmentOutput};
use crate::version::snapshots::SeenSeqnos;
use crate::{Db, KeyspaceOptions, MergeOperator, Result, doc_dir};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn i06_golden_operands_are_merged_within_a_stratum() {
    golden("compaction/testdata/operands.txt", run);
}

fn run(lines: &[&str]) -> String {
    let world = JobWorld::merging(1 << 20, Some("cleavedb.Add"));
    let (mut snapshots, mut visible) = (Vec::<SeqNo>::new(), MAX_SEQNO);
    let mut text = String::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["snapshots", ref seqnos @ ..] => {
                snapshots = seqnos.iter().map(|seqno| number(seqno)).collect();
            }
            ["visible", seqno] => visible = number(seqno),
            ["deleted", seqno, range] => {
                let (range, seqno) = (Arc::new(Bounds::parse(range)), number(seqno));
                let tombstone = RangeTombstone { range, seqno };
                world.apply(vec![Change::AddRange { keyspace: world.keyspace.id, tombstone }]);
            }
            ["compact", at, keys, ref how @ ..] => {
                let levels = world.keyspace.view().levels.clone();
                let in_place = how == ["in-place"];
                let pick = pick_range(&levels, level(at), range(keys), in_place).expect(line);
                let snapshots = snapshots.clone();
                let seen = SeenSeqnos { snapshots, visible, ..SeenSeqnos::default() };
                job::run(&world.runtime, &world.keyspace, &levels, &pick, seen, None).unwrap();
                text += &world.tables(mark);
            }
            [at, ref entries @ ..] => add_table(&world, level(at), entries),
            [] => {}
        }
    }
    text
}

fn add_table(world: &JobWorld, level: usize, entries: &[&str]) {
    let mut output = world.output();
    for entry in entries {
        let (key, rest) = entry.split_at(1);
        let end = rest.find(['+', '=', 'x']).expect(entry);
        let (seqno, what) = (number(&rest[..end]), &rest[end..]);
        let payload = match what.split_at(1) {
            ("+", operand) => Payload::operand(Slot::Inline(operand.as_bytes())),
            ("=", value) => Slot::Inline(value.as_bytes()).into(),
            _ => Slot::Delete.into(),
        };
        let mut stored = Vec::new();
        payload.encode(&mut stored);
        output.add(key.as_bytes(), Trailer::new(seqno, payload.kind()), &stored).unwrap();
    }
    world.add_tables(level, output);
}

/// Shows an operand, a value or a tombstone as it is written in a case.
fn mark(kind: EntryKind, payload: &[u8]) -> String {
    let payload = Payload::decode(kind, payload).unwrap();
    match payload.slot {
        Slot::Inline(value) if payload.is_merge => format!("+{}", value.escape_ascii()),
        Slot::Inline(value) => format!("={}", value.escape_ascii()),
        _ => "x".to_owned(),
    }
}

/// A large operand got a new record from each job that combined any others of its key, though the
/// operator could not combine it with anything.
#[test]
fn an_operand_that_is_combined_with_nothing_keeps_its_record() {
    let world = JobWorld::merging(1 << 20, Some("cleavedb.Add"));
    let keyspace = world.keyspace.id;
    let mut segment = SegmentOutput::new(&world.runtime, 1 << 20, IoPriority::Flush);
    let mut tables = world.output();
    // No number, so nothing is added to it. In `a` it is the newest, in `b` the oldest, and in `c`
    // it is between two pairs.
    let large = [b'x'; 5000];
    for (key, operands) in [
        ("a", &[(9, None), (8, Some("1")), (7, Some("2")), (6, Some("3"))][..]),
        ("b", &[(9, Some("1")), (8, Some("2")), (7, None)]),
        ("c", &[(9, Some("1")), (8, Some("2")), (7, None), (6, Some("3")), (5, Some("4"))]),
    ] {
        for &(seqno, small) in operands {
            let mut stored = Vec::new();
            let slot = match small {
                Some(operand) => Slot::Inline(operand.as_bytes()),
                None => {
                    let put = RecordInput::put(keyspace, key.as_bytes(), &large);
                    let record = RecordInput { kind: RecordKind::Merge, ..put };
                    Slot::Pointer(segment.add(&record, seqno).unwrap())
                }
            };
            let payload = Payload::operand(slot);
            payload.encode(&mut stored);
            let trailer = Trailer::new(seqno, payload.kind());
            tables.add(key.as_bytes(), trailer, &stored).unwrap();
        }
    }
    segment.finish().unwrap();
    let NewSegments { handles, changes, .. } = segment.segments();
    world.runtime.set.apply(|_| Ok(Edit::new(changes)), &handles, None).unwrap();
    segment.keep();
    world.add_tables(1, tables);
    add_table(&world, 2, &["a1=40", "b1=40", "c1=40"]);
    let mark = |kind: EntryKind, payload: &[u8]| match Payload::decode(kind, payload).unwrap().slot
    {
        Slot::Pointer(pointer) => format!("@{}", pointer.offset),
        _ => mark(kind, payload),
    };
    let before = world.tables(mark);
    let places: Vec<_> = before.split(' ').filter(|entry| entry.contains('@')).collect();
    let levels = world.keyspace.view().levels.clone();
    let pick = pick_range(&levels, 1, (Some(b"a"), Some(b"c")), true).unwrap();
    let seen = SeenSeqnos { visible: MAX_SEQNO, ..SeenSeqnos::default() };
    job::run(&world.runtime, &world.keyspace, &levels, &pick, seen, None).unwrap();
    let (a, b, c) = (places[0], places[1], places[2]);
    let expected = format!("L1 {a} a8+1 a7+5 b9+3 {b} c9+3 {c} c6+7\nL2 a1=40 b1=40 c1=40\n");
    assert_eq!(world.tables(mark), expected, "{before}");
    assert_eq!(world.runtime.set.current().segments.len(), 1, "no record was written");
}

/// Counts how often it is asked, and combines nothing.
#[derive(Default)]
struct Counting {
    partial: AtomicU64,
}

impl MergeOperator for Counting {
    fn name(&self) -> &str {
        "test.Counting"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let before = base.and_then(|base| std::str::from_utf8(base).ok()?.parse().ok());
        Ok((before.unwrap_or(0) + operands.len()).to_string().into_bytes())
    }

    fn partial(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        self.partial.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Each further operand of a long run asked about all of the run again, and all of it was held.
#[test]
fn a_run_that_never_shrinks_is_combined_seldom_and_let_go() {
    const OPERANDS: u64 = 3000;
    let operator = Arc::new(Counting::default());
    let builder = Db::builder(doc_dir("long-run")).merge_operator(operator.clone());
    let db = builder.open().unwrap();
    let merge_operator = Some("test.Counting".to_owned());
    let options = KeyspaceOptions { merge_operator, ..Default::default() };
    let runs = db.create_keyspace_with("runs", options).unwrap();
    runs.put("k", "base").unwrap();
    for _ in 0..OPERANDS {
        runs.merge("k", [7; 1000]).unwrap();
    }
    runs.merge("short", "1").unwrap();
    db.compact().unwrap();
    // A flush and a compaction or two.
    let asked = operator.partial.swap(0, Ordering::Relaxed);
    assert!(asked > 0 && asked <= 3 * OPERANDS, "asked {asked} times");
    assert_eq!(runs.get("k").unwrap().unwrap(), "3000");
    assert_eq!(runs.get("short").unwrap().unwrap(), "1");
    assert!(db.check().unwrap().is_clean());
}
