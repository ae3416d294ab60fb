//! Golden cases of the splitting of a job's output into tables.

use super::world::JobWorld;
use crate::base::golden::{golden, number, pair};
use crate::base::key::{EntryKind, Trailer};

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
