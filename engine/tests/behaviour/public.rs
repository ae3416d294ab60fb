//! Tests of all public types: they are `Send` and `Sync`, and their `Debug` prints no user data.

use crate::common;
use cleavedb::{
    Builder, CheckReport, ClassSpace, Codec, Cursor, Db, Durability, Error, ErrorKind, FileClass,
    Finding, GcOptions, GcReport, GcStats, HolderSpace, Holders, Keys, Keyspace, KeyspaceOptions,
    KeyspaceSpace, KeyspaceStats, LevelStats, Options, ParallelReads, Range, ReadOptions,
    RecoveryReport, RepairReport, SegmentSpace, SegmentStats, Separation, Snapshot, SpaceCell,
    SpaceParts, SpaceReport, StallStats, Stats, TableInfo, Value, WriteBatch, WriteOptions,
};
use std::fmt::Debug;

/// Compiles only if every one of the types has all the bounds.
macro_rules! assert_all {
    ($bounds:ident: $($type:ty),* $(,)?) => {$($bounds::<$type>();)*};
}

#[test]
fn every_type_is_sent_shared_and_printed() {
    fn common<T: Send + Sync + Debug + 'static>() {}
    assert_all!(common:
        Builder, CheckReport, ClassSpace, Codec, Cursor, Db, Durability, Error, ErrorKind,
        FileClass, Finding, GcOptions, GcReport, GcStats, HolderSpace, Holders, Keys, Keyspace,
        KeyspaceOptions, KeyspaceSpace, KeyspaceStats, LevelStats, Options, ParallelReads,
        Range, ReadOptions, RecoveryReport, RepairReport, SegmentSpace, SegmentStats,
        Separation, Snapshot, SpaceCell, SpaceParts, SpaceReport, StallStats, Stats, TableInfo,
        Value, WriteBatch, WriteOptions,
    );
}

#[test]
fn handles_options_and_reports_are_cloned() {
    fn cloned<T: Clone>() {}
    assert_all!(cloned:
        Builder, CheckReport, Db, Durability, Error, ErrorKind, GcOptions, GcReport, Keyspace,
        KeyspaceOptions, Options, ReadOptions, RecoveryReport, RepairReport, Snapshot,
        SpaceReport, Stats, TableInfo, Value, WriteOptions,
    );
}

#[test]
fn no_key_and_no_value_is_printed() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let secrets = ["secret key", "secret value"];
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, secrets[0], secrets[1]);
    let printed_batch = format!("{batch:?}");
    db.write(batch).unwrap();
    db.flush().unwrap();
    let mut cursor = keyspace.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    let mut range = keyspace.range(secrets[0]..);
    let value = range.next().unwrap().unwrap().1;
    let snapshot = db.snapshot();
    let reading = ReadOptions::new().snapshot(&snapshot);
    let (tables, keys) = (keyspace.tables(), keyspace.keys());
    let printed = [
        printed_batch,
        format!("{db:?} {keyspace:?} {cursor:?} {range:?} {keys:?} {value:?} {snapshot:?}"),
        format!("{reading:?} {tables:?} {:?} {:?}", db.stats(), db.space().unwrap()),
    ];
    for text in printed {
        for secret in secrets {
            let bytes = format!("{:?}", secret.as_bytes());
            assert!(!text.contains(secret) && !text.contains(&bytes), "{text}");
        }
    }
}
