//! Tests of error kinds: each misuse returns the kind that tells the caller what to do.

use crate::common;
use cleavedb::{
    Codec, Comparator, Db, Durability, Error, ErrorKind, KeyspaceOptions, Options, ReadOptions,
    Result, WriteBatch,
};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// A comparator in reverse bytewise order.
struct Backward;

impl Comparator for Backward {
    fn name(&self) -> &str {
        "backward"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// A description of a call, and the error that it returned.
type Case = (&'static str, Error);

fn failed<T>(what: &'static str, outcome: Result<T>) -> Case {
    (what, outcome.err().unwrap_or_else(|| panic!("{what} succeeded")))
}

fn expect(kind: ErrorKind, cases: impl IntoIterator<Item = Case>) {
    for (what, error) in cases {
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
}

fn with(path: &Path, change: impl FnOnce(&mut Options)) -> Result<Db> {
    let mut options = common::tiny();
    change(&mut options);
    Db::builder(path).options(options).open()
}

#[test]
fn not_found_and_already_exists() {
    let dir = common::dir();
    let (nowhere, here) = (dir.path().join("nowhere"), dir.path().join("here"));
    let db = common::open(&here);
    let mut out = Vec::new();
    expect(
        ErrorKind::NotFound,
        [
            failed("open", with(&nowhere, |options| options.create_if_missing = false)),
            failed("open to read", with(&nowhere, |options| options.read_only = true)),
            failed("repair", Db::repair(dir.path())),
            failed("drop a keyspace", db.drop_keyspace("nobody")),
            failed("inspect", cleavedb::inspect(&here.join("00000099.tbl"), &mut out)),
            failed("inspect options", cleavedb::inspect(&nowhere.join("OPTIONS"), &mut out)),
        ],
    );
    let target = failed("checkpoint", db.checkpoint(dir.path()));
    db.close().unwrap();
    let again = failed("create", with(&here, |options| options.error_if_exists = true));
    expect(ErrorKind::AlreadyExists, [target, again]);
}

#[test]
fn invalid_argument() {
    let (dir, other, foreign) = (common::dir(), common::dir(), common::dir());
    let (db, other) = (common::open(dir.path()), common::open(other.path()));
    let keyspace = db.default_keyspace();
    for name in ["CURRENT", "MANIFEST-000001"] {
        std::fs::write(foreign.path().join(name), "MANIFEST-000001\n").unwrap();
    }
    let long = vec![b'k'; cleavedb::MAX_KEY_BYTES + 1];
    let elsewhere = ReadOptions::new().snapshot(&other.snapshot());
    let mut mixed = WriteBatch::new();
    mixed.put(&keyspace, "key", "").put(&other.default_keyspace(), "key", "");
    let ordered = common::dir();
    let builder = Db::builder(ordered.path()).comparator("default", Arc::new(Backward));
    let backward = builder.open().unwrap().default_keyspace();
    expect(
        ErrorKind::InvalidArgument,
        [
            failed("put", keyspace.put(&long, "")),
            failed("delete", keyspace.delete(&long)),
            failed("name", db.open_or_create_keyspace("")),
            failed("snapshot", keyspace.get_with("key", &elsewhere)),
            failed("batch", db.write(mixed)),
            failed("prefix", backward.prefix("a").next().unwrap()),
            failed("open", with(foreign.path(), |_| {})),
            failed("destroy", Db::destroy(foreign.path())),
        ],
    );
}

#[test]
fn invalid_option() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let tiny = KeyspaceOptions { block_bytes: 1, ..KeyspaceOptions::default() };
    let keyspace = failed("keyspace", db.create_keyspace_with("new", tiny));
    db.close().unwrap();
    let order = Db::builder(dir.path()).comparator("default", Arc::new(Backward));
    expect(
        ErrorKind::InvalidOption,
        [
            keyspace,
            failed("open", with(dir.path(), |options| options.read_threads = 0)),
            failed("gc", with(dir.path(), |options| options.gc.memory_bytes = 0)),
            failed("comparator", order.open()),
            failed("durability", "often".parse::<Durability>()),
        ],
    );
}

#[test]
fn wrong_state() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("key", "value").unwrap();
    let mut nowhere = keyspace.cursor().unwrap();
    expect(
        ErrorKind::WrongState,
        [
            failed("value of nothing", nowhere.value()),
            failed("drop default", db.drop_keyspace("default")),
        ],
    );
}

#[test]
fn read_only_locked_closed_and_dropped() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let dropped = db.open_or_create_keyspace("dropped").unwrap();
    db.drop_keyspace("dropped").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&dropped, "key", "value");
    expect(
        ErrorKind::KeyspaceDropped,
        [
            failed("put", dropped.put("key", "value")),
            failed("get", dropped.get("key")),
            failed("cursor", dropped.cursor()),
            failed("batch", db.write(batch)),
        ],
    );
    let locked =
        [failed("open", with(dir.path(), |_| {})), failed("repair", Db::repair(dir.path()))];
    expect(ErrorKind::Locked, locked);
    expect(ErrorKind::Locked, [failed("destroy", Db::destroy(dir.path()))]);
    let keyspace = db.default_keyspace();
    db.close().unwrap();
    expect(ErrorKind::Closed, [failed("put", keyspace.put("key", "value"))]);
    let reader = with(dir.path(), |options| options.read_only = true).unwrap();
    let write = failed("put", reader.default_keyspace().put("key", "value"));
    expect(ErrorKind::ReadOnly, [write, failed("flush", reader.flush())]);
}

#[test]
fn unsupported() {
    let dir = common::dir();
    let builder = Db::builder(dir.path()).comparator("default", Arc::new(Backward));
    let db = builder.open().unwrap();
    db.default_keyspace().put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let table = common::files(dir.path(), ".tbl").remove(0);
    let mut out = Vec::new();
    let inspected = cleavedb::inspect(&table, &mut out);
    expect(ErrorKind::Unsupported, [failed("inspect by an unknown order", inspected)]);
    // The table's own properties are printed nevertheless.
    assert!(String::from_utf8_lossy(&out).contains("1 entries, 0 tombstones"));
    if !Codec::Zstd.is_available() {
        let opened = with(dir.path(), |options| options.keyspace.block_codec = Codec::Zstd);
        expect(ErrorKind::Unsupported, [failed("a codec that was not built", opened)]);
    }
}
