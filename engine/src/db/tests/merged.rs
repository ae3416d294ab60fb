//! Checks flushes of operands on a disk that is nearly full.

use crate::env::Env;
use crate::env::sim::{Call, FaultPlan};
use crate::{Db, KeyspaceOptions, Separation, merge_operators};
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
