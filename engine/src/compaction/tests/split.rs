//! Golden cases of the splitting of a job's output into tables.

use super::world::JobWorld;
use crate::base::golden::{golden, number, pair};
use crate::base::key::{EntryKind, Trailer};
use crate::compaction::output::TableOutput;

#[test]
fn i06_golden_output_is_split_between_user_keys() {
    golden("compaction/testdata/split.txt", run);
}

/// Writes entries like `a9=4k`, a user key, a sequence number and the length of the value, into
/// tables that are split at the bytes of the first line, and if they are nearly full before the
/// keys that follow there, and lists the tables.
fn run(lines: &[&str]) -> String {
    let (split, borders) = lines[0].split_once(' ').unwrap_or((lines[0], ""));
    let world = JobWorld::new(number(split));
    let borders = borders.split_whitespace().map(|key| key.as_bytes().to_vec()).collect();
    let mut output = world.output().ending_at(borders);
    for (entry, bytes) in lines[1..].iter().flat_map(|line| line.split(' ')).map(pair) {
        let (key, seqno) = entry.split_at(1);
        let trailer = Trailer::new(number(seqno), EntryKind::Put);
        output.add(key.as_bytes(), trailer, &vec![7; number(bytes) as usize]).unwrap();
    }
    let tables = output.finish().unwrap();
    if tables.is_empty() {
        return "no table".to_owned();
    }
    let text = tables.iter().map(|meta| {
        let keys = [meta.summary.smallest_key(), meta.summary.largest_key()];
        let keys = keys.map(String::from_utf8_lossy).join("-");
        format!("{keys}: {} entries\n", meta.summary.entries)
    });
    text.collect()
}

/// Guards against filters above the deepest level that let as many absent keys pass as those of the
/// deepest: they would be asked in vain for each level.
#[test]
fn filters_above_the_deepest_level_are_larger() {
    const ENTRIES: u64 = 10_000;
    let world = JobWorld::new(64 << 20);
    let table_bytes = |mut output: TableOutput<'_>| {
        for number in 0..ENTRIES {
            let key = format!("{number:08}");
            output.add(key.as_bytes(), Trailer::new(1, EntryKind::Put), b"value").unwrap();
        }
        output.finish().unwrap().iter().map(|meta| meta.bytes).sum::<u64>()
    };
    let deepest = table_bytes(world.output());
    let upper = table_bytes(world.output().above_deepest());
    let more = (upper - deepest) as f64 * 8.0 / ENTRIES as f64;
    assert!((5.9..6.1).contains(&more), "{more} bits a key");
    assert_eq!(table_bytes(world.flush_output()), upper);
}
