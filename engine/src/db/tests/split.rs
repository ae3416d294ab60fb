//! Golden cases of the splitting of a job's output into tables.

use super::relocated::open;
use crate::base::compression::Codec;
use crate::base::golden::{golden, number, pair};
use crate::base::key::{EntryKind, Trailer};
use crate::compaction::output::TableOutput;
use crate::db::Db;
use crate::doc_dir;
use crate::env::budget::IoPriority;
use crate::version::settings::KeyspaceOptions;

#[test]
fn i06_golden_output_is_split_between_user_keys() {
    let db = open(&doc_dir("split"));
    golden("compaction/testdata/split.txt", |lines| run(&db, lines));
}

/// Writes entries like `a9=4k`, a user key, a sequence number and the length of the value, into
/// tables that are split at the bytes of the first line, and lists the tables.
fn run(db: &Db, lines: &[&str]) -> String {
    let keyspace = &db.core.states()[0];
    let mut options = KeyspaceOptions::clone(&keyspace.options());
    (options.block_codec, options.block_bytes) = (Codec::None, 1024);
    let (runtime, at) = (&db.core.runtime, number(lines[0]));
    let mut output = TableOutput::new(runtime, keyspace, &options, at, IoPriority::Compaction);
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
