//! Golden cases of whole compactions: the tables before, the job, the tables after.
//!
//! - `split 16k`: the size at which output tables are split.
//! - `snapshots 3 7`: the live snapshots.
//! - `visible 8`: the newest sequence number that readers see; everything by default.
//! - `L1 a9 b5x c4=4k`: a table in L1 with these entries: a put, a tombstone, and a put of a value
//!   of 4 KiB.
//! - `L0 flushed a9 b5x`: the same, noted in the update table as by a flush.
//! - `L0 flushing a9 b5x`: the same, but its edit is not made before `install`; with `give-up` it
//!   fails.
//! - `compact L1 a-c [in-place]`: the job, and a list of all tables after it.

use super::script::{level, range};
use super::world::JobWorld;
use crate::base::compression::Codec;
use crate::base::golden::{golden, number, pair};
use crate::base::key::{EntryKind, MAX_SEQNO, SeqNo, Trailer};
use crate::compaction::homing::HomingRoom;
use crate::compaction::job::{self, CompactionReport};
use crate::compaction::output::TableOutput;
use crate::compaction::picker::pick_range;
use crate::table::TableMeta;
use crate::version::settings::{KeyspaceOptions, Separation};
use crate::version::snapshots::SeenSeqnos;
use std::sync::Arc;

#[test]
fn i06_golden_jobs_from_tables_to_tables() {
    golden("compaction/testdata/job.txt", run);
}

/// Guards against scores that stay for as long as the database is open: those of tables that a job
/// has finished before its edit fails.
#[test]
fn tables_that_no_edit_names_leave_no_scores() {
    let world = JobWorld::new(1 << 20);
    let mut output = world.flush_output();
    output.add(b"a", Trailer::new(1, EntryKind::Put), b"value").unwrap();
    let table = output.finish().unwrap()[0].id;
    world.runtime.sum_scores();
    assert_eq!(world.runtime.hot.scores()[&table].newest_entries, 1);
    drop(output);
    world.runtime.sum_scores();
    assert!(!world.runtime.hot.scores().contains_key(&table));
}

/// What exceeds the room stays where it is: a job has to end on a disk that is nearly full, too.
#[test]
fn i09_no_more_values_move_than_there_is_room_for() {
    let world = JobWorld::new(1 << 20);
    let keyspace = &world.keyspace;
    let rehome = |separation, out, room_in| {
        let options = keyspace.options().as_ref().clone();
        let options = KeyspaceOptions { convert_in_compactions: true, separation, ..options };
        keyspace.set_options(options);
        let levels = keyspace.view().levels.clone();
        let pick = pick_range(&levels, 1, range("a-c"), true).unwrap();
        let seen = SeenSeqnos { visible: MAX_SEQNO, ..SeenSeqnos::default() };
        let room = HomingRoom { out, take_in: &|| room_in, segment_bytes: 1 << 20 };
        let job = job::run(&world.runtime, keyspace, &levels, &pick, seen, Some(room)).unwrap();
        let segments = job.outputs.iter().flat_map(|table| table.summary.segments.values());
        segments.map(|used| used.count).sum::<u64>()
    };
    add_table(&world, world.output(), 1, &["a9=4k", "b8=4k", "c7=4k"]);
    assert_eq!(rehome(Separation::AtFlush, 0, 0), 0, "nothing may move out");
    assert_eq!(rehome(Separation::AtFlush, 10_000, 0), 2, "two have room");
    assert_eq!(rehome(Separation::Off, 0, 0), 2, "nothing may move in");
    assert_eq!(rehome(Separation::Off, 0, 5_000), 1, "one has room");
    assert_eq!(rehome(Separation::Off, 0, 5_000), 0);
}

/// Compressed values that are large look as if they were small. A job that found 1 MiB of them
/// reads no more: it would read all of them each time, and move none.
#[test]
fn few_values_are_read_in_vain() {
    let world = JobWorld::new(16 << 20);
    let keyspace = &world.keyspace;
    let options = keyspace.options().as_ref().clone();
    keyspace.set_options(KeyspaceOptions {
        convert_in_compactions: true,
        separation: Separation::AtFlush,
        separation_threshold: 3000,
        value_codec: Codec::Lz4,
        ..options
    });
    let (mut output, chance) = (world.output(), &world.runtime.env.random);
    for number in 0..700 {
        let mut value = vec![7; 4096];
        chance.fill_secret(&mut value[..2048]).unwrap();
        let trailer = Trailer::new(1, EntryKind::Put);
        output.add(format!("{number:03}").as_bytes(), trailer, &value).unwrap();
    }
    world.add_tables(1, output);
    let pass = || {
        let levels = keyspace.view().levels.clone();
        let pick = pick_range(&levels, 1, range("0-9"), true).unwrap();
        let seen = SeenSeqnos { visible: MAX_SEQNO, ..SeenSeqnos::default() };
        let room = HomingRoom { out: 1 << 30, take_in: &|| 1 << 30, segment_bytes: 1 << 30 };
        let job = job::run(&world.runtime, keyspace, &levels, &pick, seen, Some(room)).unwrap();
        job.moved_values
    };
    let first = pass();
    assert_eq!((first.moved_out, first.moved_in), (700, 0));
    let second = pass();
    assert_eq!((second.moved_out, second.moved_in), (0, 0));
    let read = second.bytes_read;
    assert!((1 << 20..(1 << 20) + 4096).contains(&read), "{read} of {} bytes", 700 * 2100);
}

fn run(lines: &[&str]) -> String {
    let split = lines.iter().find_map(|line| line.strip_prefix("split "));
    let world = JobWorld::new(split.map_or(1 << 20, number));
    let (mut snapshots, mut visible) = (Vec::<SeqNo>::new(), MAX_SEQNO);
    let mut flushing = None;
    let mut text = String::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["split", _] => {}
            ["snapshots", ref seqnos @ ..] => {
                snapshots = seqnos.iter().map(|seqno| number(seqno)).collect();
            }
            ["visible", seqno] => visible = number(seqno),
            ["compact", at, keys, ref how @ ..] => {
                let (levels, in_place) =
                    (world.keyspace.view().levels.clone(), how == ["in-place"]);
                let pick = pick_range(&levels, level(at), range(keys), in_place).expect(line);
                let (runtime, keyspace) = (&world.runtime, &world.keyspace);
                let snapshots = snapshots.clone();
                let seen = SeenSeqnos { snapshots, visible, ..SeenSeqnos::default() };
                let report = job::run(runtime, keyspace, &levels, &pick, seen, None);
                let report = report.unwrap();
                text += &world.tables(mark);
                text += &match report.moved {
                    true => "moved\n".to_owned(),
                    false => dropped(&report),
                };
            }
            [at, "flushed", ref entries @ ..] => {
                let (written, newest) = write_table(world.flush_output(), entries);
                world.install(level(at), written, newest);
            }
            [at, "flushing", ref entries @ ..] => {
                flushing = Some((level(at), write_table(world.flush_output(), entries)));
            }
            ["install"] => {
                let (level, (written, newest)) = flushing.take().expect("nothing is flushed");
                world.install(level, written, newest);
            }
            ["give-up"] => drop(flushing.take()),
            [at, ref entries @ ..] => add_table(&world, world.output(), level(at), entries),
            [] => {}
        }
    }
    text
}

fn add_table(world: &JobWorld, output: TableOutput<'_>, level: usize, entries: &[&str]) {
    world.install(level, write_table(output, entries).0, 0);
}

type Written<'a> = (TableOutput<'a>, Vec<Arc<TableMeta>>);

/// Writes entries to tables that no edit names yet. Returns the newest number, too.
fn write_table<'a>(mut output: TableOutput<'a>, entries: &[&str]) -> (Written<'a>, SeqNo) {
    let mut newest = 0;
    for (entry, bytes) in entries.iter().map(|entry| pair(entry)) {
        let (key, seqno) = entry.split_at(1);
        let kind = if entry.ends_with('x') { EntryKind::Delete } else { EntryKind::Put };
        let trailer = Trailer::new(number(seqno.trim_end_matches('x')), kind);
        newest = newest.max(trailer.seqno());
        let len = if kind == EntryKind::Delete || bytes.is_empty() { 0 } else { number(bytes) };
        output.add(key.as_bytes(), trailer, &vec![7; len as usize]).unwrap();
    }
    let tables = output.finish().unwrap();
    ((output, tables), newest)
}

/// Returns how many entries a job dropped, and how many of them for tables that it did not read.
fn dropped(report: &CompactionReport) -> String {
    let (all, superseded) = (report.dropped, report.superseded);
    match superseded {
        0 => format!("{all} dropped\n"),
        _ => format!("{all} dropped, {superseded} of them superseded\n"),
    }
}

/// Marks tombstones.
fn mark(kind: EntryKind, _: &[u8]) -> String {
    if kind == EntryKind::Delete { "x" } else { "" }.to_owned()
}
