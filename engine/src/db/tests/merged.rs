//! Checks flushes of operands on a disk that is nearly full, and reads of long chains of them.

use crate::env::Env;
use crate::env::sim::{Call, FaultPlan};
use crate::{Db, KeyspaceOptions, Separation, doc_dir, merge_operators};
use std::io::ErrorKind;
use std::path::Path;

/// What large operands make may need more room than the memtable that points to them. Where there
/// is none, they are flushed as they are.
#[test]
fn i09_operands_are_not_merged_by_a_flush_without_room() {
    let (env, simulation) = Env::simulated(3);
    simulation.clone().run(|| {
        let db = Db::builder(Path::new("/db")).env(env).open().unwrap();
        let options = KeyspaceOptions {
            merge_operator: Some(merge_operators::APPEND.to_owned()),
            separation: Separation::AtWrite,
            separation_threshold: 100,
            ..KeyspaceOptions::default()
        };
        let lists = db.create_keyspace_with("lists", options).unwrap();
        let mut expected = Vec::new();
        for part in 0..10 {
            lists.merge("list", [part; 500]).unwrap();
            expected.extend([part; 500]);
        }
        let full = FaultPlan::new(Call::Create).on(".seg").error(ErrorKind::StorageFull).for_good();
        simulation.fail(full);
        lists.flush().unwrap();
        simulation.clear_faults();
        assert_eq!(lists.get("list").unwrap().unwrap(), expected);
        lists.compact_range(..).unwrap();
        assert_eq!(lists.get("list").unwrap().unwrap(), expected);
        assert!(db.check().unwrap().is_clean());
    });
}

/// Symptom: a read failed, as the sum did not fit 64 bits, until a compaction had combined operands
/// in another way. Cause: a read merges a long chain piece by piece, and the sum of the oldest
/// pieces was too large, although that of all was not. Now it combines what is refused with what is
/// newer.
#[test]
fn a_sum_may_be_too_large_on_the_way() {
    let dir = doc_dir("sum-too-large-on-the-way");
    let db = Db::builder(&dir).open().unwrap();
    let merge_operator = Some(merge_operators::ADD.to_owned());
    let options = KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() };
    let sums = db.create_keyspace_with("sums", options).unwrap();
    let (most, least) = (i64::MAX.to_string(), (-i64::MAX).to_string());
    sums.put("sum", "7").unwrap();
    // In unit tests a piece has 4 KiB.
    (0..600).for_each(|_| sums.merge("sum", &most).unwrap());
    let error = sums.get("sum").unwrap_err();
    assert!(error.to_string().contains("does not fit 64 bits"), "{error}");
    (0..600).for_each(|_| sums.merge("sum", &least).unwrap());
    assert_eq!(sums.get("sum").unwrap().unwrap(), "7");
    db.compact().unwrap();
    assert_eq!(sums.get("sum").unwrap().unwrap(), "7");
}
