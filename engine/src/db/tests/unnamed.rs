//! Checks that tables that are being written count in the space that value GC keeps within its
//! bounds.

use super::relocated::open;
use super::snapshots::{put, settle};
use crate::base::compression::Codec;
use crate::base::key::{EntryKind, Trailer};
use crate::compaction::output::TableOutput;
use crate::db::Db;
use crate::doc_dir;
use crate::gc::survey::{Knowledge, survey};
use crate::throttle::reads::IoPriority;
use crate::version::settings::KeyspaceOptions;

fn table_bytes(db: &Db) -> u64 {
    let runtime = &db.core.runtime;
    survey(runtime, &Knowledge::default(), 0).unwrap().table_bytes
}

#[test]
fn a_table_counts_while_no_version_names_it() {
    let dir = doc_dir("unnamed");
    let db = open(&dir);
    put(&db, "a", 1);
    settle(&db);
    // The flush publishes its table a moment before it takes the bytes off the count.
    db.wait_idle().unwrap();
    let named = table_bytes(&db);
    assert!(named > 0);
    assert_eq!(db.core.set.unnamed().get(), 0, "what the flush wrote is named");
    let keyspace = &db.core.states()[0];
    let mut options = KeyspaceOptions::clone(&keyspace.options());
    options.block_codec = Codec::None;
    let runtime = &db.core.runtime;
    let mut output =
        TableOutput::new(runtime, keyspace, &options, u64::MAX, IoPriority::Compaction);
    let trailer = Trailer::new(1, EntryKind::Put);
    for number in 0..40_000_u32 {
        output.add(&number.to_be_bytes(), trailer, &[7; 50]).unwrap();
    }
    let written = db.core.set.unnamed().get();
    assert!(written >= 1 << 20 && table_bytes(&db) == named + written, "{written}");
    let tables = output.finish().unwrap();
    assert_eq!(db.core.set.unnamed().get(), tables.iter().map(|meta| meta.bytes).sum::<u64>());
    drop(output);
    assert_eq!((db.core.set.unnamed().get(), table_bytes(&db)), (0, named), "it was discarded");
}

/// Guards against charging a block before it is compressed: that is more than the file will have,
/// and cannot be taken back.
#[test]
fn compressible_entries_are_charged_as_they_are_written() {
    let db = open(&doc_dir("unnamed-compressed"));
    let keyspace = &db.core.states()[0];
    let options = KeyspaceOptions::clone(&keyspace.options());
    assert_eq!(options.block_codec, Codec::Lz4);
    let runtime = &db.core.runtime;
    let mut output =
        TableOutput::new(runtime, keyspace, &options, u64::MAX, IoPriority::Compaction);
    output.add(b"a", Trailer::new(1, EntryKind::Put), &vec![0; 2 << 20]).unwrap();
    let tables = output.finish().unwrap();
    assert!(tables[0].bytes < 1 << 20, "{} bytes", tables[0].bytes);
    assert_eq!(db.core.set.unnamed().get(), tables[0].bytes);
}
