//! Merge operators: what reads see of operands, wherever they are, and what operators refuse.

use crate::common::{self, TempDir};
use cleavedb::{
    Changed, CompactionFilter, Db, Error, ErrorKind, Exchange, Expected, FilterDecision,
    FilteredEntry, Keyspace, KeyspaceOptions, MergeOperator, Options, ReadOptions, Result,
    Separation, WriteBatch, WriteOptions, merge_operators,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MODES: [Separation; 3] = [Separation::AtWrite, Separation::AtFlush, Separation::Off];

fn merging(operator: &str) -> KeyspaceOptions {
    let merge_operator = Some(operator.to_owned());
    KeyspaceOptions { merge_operator, ..common::tiny_keyspace() }
}

/// Opens a database in a new directory, with a keyspace that has this operator.
fn open(operator: &str) -> (TempDir, Db, Keyspace) {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.create_keyspace_with("merged", merging(operator)).unwrap();
    (dir, db, keyspace)
}

fn text(keyspace: &Keyspace, key: &str) -> String {
    let value = keyspace.get(key).unwrap();
    value.map_or("-".to_owned(), |value| String::from_utf8(value.to_vec()).unwrap())
}

/// Wherever the operands are, in memory, in tables, or merged, each snapshot sees what it saw.
#[test]
fn i06_every_snapshot_sees_its_sum() {
    let (_dir, db, counters) = open(merge_operators::ADD);
    let mut seen = Vec::new();
    let mut sum = 0i64;
    for step in 0..300i64 {
        match step % 37 {
            20 => {
                counters.delete("n").unwrap();
                sum = 0;
            }
            30 => {
                counters.put("n", "1000").unwrap();
                sum = 1000;
            }
            _ => {
                counters.merge("n", step.to_string()).unwrap();
                sum += step;
            }
        }
        let expected = if step % 37 == 20 { "-".to_owned() } else { sum.to_string() };
        seen.push((db.snapshot(), expected));
        match step % 50 {
            10 | 25 => counters.flush().unwrap(),
            40 => counters.compact_range(..).unwrap(),
            45 => seen.retain(|(snapshot, _)| snapshot.seqno() % 3 != 0),
            _ => {}
        }
        for (snapshot, expected) in &seen {
            let then = ReadOptions::new().snapshot(snapshot);
            let found = counters.get_with("n", &then).unwrap();
            let found = found.map_or("-".into(), |it| String::from_utf8_lossy(&it).into_owned());
            assert_eq!(found, *expected, "at {} in step {step}", snapshot.seqno());
        }
    }
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn a_keyspace_without_an_operator_merges_nothing() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let plain = db.default_keyspace();
    let error = plain.merge("n", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"default\" has no merge operator"), "{error}");
    let mut batch = WriteBatch::new();
    batch.put(&plain, "a", "1").merge(&plain, "n", "1");
    assert_eq!(db.write(batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(plain.is_empty().unwrap());
    let transaction = db.begin();
    assert!(transaction.merge(&plain, "n", "1").is_err());
}

#[test]
fn operators_are_fixed_and_must_be_known() {
    let (dir, db, counters) = open(merge_operators::ADD);
    let other = merging(merge_operators::MAX);
    let error = counters.set_options(other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    let error = counters.set_options(common::tiny_keyspace()).unwrap_err();
    assert!(error.to_string().contains("merge_operator of \"merged\""), "{error}");
    let error = db.open_or_create_keyspace_with("merged", merging(merge_operators::MAX));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidOption);
    db.open_or_create_keyspace_with("merged", common::tiny_keyspace()).unwrap();
    let more = KeyspaceOptions { separation_threshold: 7, ..counters.options() };
    counters.set_options(more).unwrap();
    let unknown = db.create_keyspace_with("x", merging("cleavedb.Sub")).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Unsupported);
    let unknown = db.create_keyspace_with("x", merging("own")).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidOption);
    drop((counters, db));
    let db = Db::builder(dir.path()).merge_operator(Arc::new(Concat::default())).open().unwrap();
    let own = db.create_keyspace_with("own", merging("test.Concat")).unwrap();
    own.merge("k", "a").unwrap();
    own.merge("k", "b").unwrap();
    drop((own, db));
    let error = Db::builder(dir.path()).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("test.Concat"), "{error}");
    let read_only = Options { read_only: true, ..common::tiny() };
    let builder = Db::builder(dir.path()).options(read_only);
    let db = builder.merge_operator(Arc::new(Concat::default())).open().unwrap();
    assert_eq!(text(&db.keyspace("own").unwrap(), "k"), "ab");
}

/// A tool that does not know an operator opens the database all the same, and does no harm.
#[test]
fn operands_stay_where_their_operator_is_not_known() {
    let dir = common::dir();
    let (db, own) = open_own(dir.path(), &Arc::default());
    own.put("plain", "value").unwrap();
    own.put("k", "a").unwrap();
    own.merge("k", "b").unwrap();
    drop((own, db));
    let db = Db::builder(dir.path()).without_merge_operators().open().unwrap();
    let own = db.keyspace("merged").unwrap();
    assert_eq!(text(&own, "plain"), "value");
    for error in [own.get("k").unwrap_err(), own.merge("k", "c").unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::WrongState, "{error}");
        assert!(error.to_string().contains("test.Concat"), "{error}");
    }
    assert_eq!(own.keys().count(), 2);
    own.compact_range(..).unwrap();
    db.gc().unwrap();
    assert!(db.check().unwrap().is_clean());
    drop((own, db));
    let (_db, own) = open_own(dir.path(), &Arc::default());
    assert_eq!(text(&own, "k"), "ab");
}

/// Without any manifest, the tables tell the operator, and a repair that is not given it changes
/// nothing.
#[test]
fn a_repair_learns_the_operator_from_tables() {
    for operator in ["test.Concat", "cleavedb.Append"] {
        let dir = common::dir();
        let own = || Arc::new(Concat::default());
        let db = Db::builder(dir.path()).merge_operator(own()).open().unwrap();
        let words = db.create_keyspace_with("words", merging(operator)).unwrap();
        for part in ["a", "b", "c"] {
            words.merge("k", part).unwrap();
            words.flush().unwrap();
        }
        drop((words, db));
        for name in ["CURRENT", ".man"] {
            common::files(dir.path(), name).iter().for_each(|it| std::fs::remove_file(it).unwrap());
        }
        if operator == "test.Concat" {
            let before = common::files(dir.path(), "").len();
            let error = Db::repair(dir.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
            assert!(error.to_string().contains("test.Concat"), "{error}");
            assert_eq!(common::files(dir.path(), "").len(), before);
        }
        let report = Db::builder(dir.path()).merge_operator(own()).repair().unwrap();
        assert_eq!(report.keys, 1, "{report:?}");
        let db = Db::builder(dir.path()).merge_operator(own()).open().unwrap();
        assert_eq!(text(&db.keyspace("words").unwrap(), "k"), "abc");
        assert!(db.check().unwrap().is_clean());
    }
}

/// An expiring base would be merged or not, by when that happens.
#[test]
fn nothing_expires_where_operands_are_merged() {
    let (_dir, db, counters) = open(merge_operators::ADD);
    let life = Duration::from_secs(1000);
    let refused = |result: Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("has a merge operator"), "{error}");
    };
    refused(counters.put_expiring("n", "1", life));
    let mut batch = WriteBatch::new();
    batch.put_expiring(&counters, "n", "1", life);
    refused(db.write(batch));
    refused(db.begin().put_expiring(&counters, "n", "1", life));
    counters.put("n", "1").unwrap();
    refused(counters.expire("n", life).map(drop));
    assert!(counters.persist("n").unwrap());
    let options = KeyspaceOptions { default_ttl: Some(life), ..merging(merge_operators::ADD) };
    let error = db.create_keyspace_with("x", options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    let expiring = WriteOptions::new().expiry(life);
    assert!(counters.merge_with("n", "1", &expiring).is_err());
    assert_eq!(text(&counters, "n"), "1");
}

/// What can't be merged fails reads of its key, and nothing else: flushes and compactions go on, no
/// operand is lost, and the key can be mended.
#[test]
fn what_cannot_be_merged_is_kept() {
    let (dir, db, counters) = open(merge_operators::ADD);
    counters.put("bad", "many").unwrap();
    counters.put("big", i64::MAX.to_string()).unwrap();
    for key in ["bad", "big", "good"] {
        counters.merge(key, "5").unwrap();
        counters.merge(key, "-1").unwrap();
    }
    let check = |db: &Db, counters: &Keyspace| {
        let error = counters.get("bad").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongState);
        for part in ["\"bad\" in keyspace \"merged\"", "many", "cleavedb.Add"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(counters.get("big").unwrap_err().to_string().contains("64 bits"));
        assert_eq!(text(counters, "good"), "4");
        assert!(counters.contains_key("bad").unwrap());
        assert_eq!(counters.keys().count(), 3);
        let values: Vec<bool> = counters.iter().map(|pair| pair.is_ok()).collect();
        assert_eq!(values.iter().filter(|is_ok| **is_ok).count(), 1);
        let found = counters.multi_get(&["good", "bad"]);
        assert!(found[0].is_ok() && found[1].is_err());
        assert!(db.check().unwrap().is_clean());
    };
    check(&db, &counters);
    counters.flush().unwrap();
    check(&db, &counters);
    for _ in 0..3 {
        counters.compact_range(..).unwrap();
        counters.reorganize(..).unwrap();
    }
    check(&db, &counters);
    drop((counters, db));
    let db = common::open(dir.path());
    let counters = db.keyspace("merged").unwrap();
    check(&db, &counters);
    counters.merge("big", "-4").unwrap();
    assert_eq!(text(&counters, "big"), i64::MAX.to_string());
    counters.put("bad", "0").unwrap();
    counters.merge("bad", "1").unwrap();
    assert_eq!(text(&counters, "bad"), "1");
    assert_eq!(counters.merge("bad", "x").unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Joins operands, without `partial`. Counts what it is given, and panics where it is told to.
#[derive(Default)]
struct Concat {
    operands: Arc<AtomicU64>,
}

impl MergeOperator for Concat {
    fn name(&self) -> &str {
        "test.Concat"
    }

    fn check(&self, _: &[u8], operand: &[u8]) -> Result<()> {
        assert!(operand != b"panic at once", "as told");
        Ok(())
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        // Those of the background are not counted.
        if !std::thread::current().name().is_some_and(|name| name.starts_with("cleave-")) {
            self.operands.fetch_add(operands.len() as u64, Ordering::Relaxed);
        }
        assert!(!operands.is_empty(), "nothing is asked for nothing");
        let value: Vec<u8> =
            base.into_iter().chain(operands.iter().copied()).flatten().copied().collect();
        assert!(!value.ends_with(b"panic"), "as told");
        if value.ends_with(b"error") {
            return Err(Error::invalid_argument("as told"));
        }
        Ok(value)
    }
}

fn open_own(dir: &Path, operands: &Arc<AtomicU64>) -> (Db, Keyspace) {
    let operator = Concat { operands: operands.clone() };
    let builder = Db::builder(dir).options(common::tiny()).merge_operator(Arc::new(operator));
    let db = builder.open().unwrap();
    let keyspace = db.open_or_create_keyspace_with("merged", merging("test.Concat")).unwrap();
    (db, keyspace)
}

/// A key with very many operands was merged from the first one on by each read.
#[test]
fn a_long_chain_is_merged_once() {
    let (dir, operands) = (common::dir(), Arc::new(AtomicU64::new(0)));
    let (db, words) = open_own(dir.path(), &operands);
    let merged = || operands.swap(0, Ordering::Relaxed);
    let mut expected = String::new();
    for step in 0..3000 {
        words.merge("k", format!("{step},")).unwrap();
        expected += &format!("{step},");
    }
    let (old, expected_then) = (db.snapshot(), expected.clone());
    assert_eq!(text(&words, "k"), expected);
    merged();
    for step in 0..20 {
        words.merge("k", format!("{step};")).unwrap();
        expected += &format!("{step};");
        assert_eq!(text(&words, "k"), expected);
        let mut cursor = words.cursor().unwrap();
        cursor.seek_to_last().unwrap();
        assert_eq!(cursor.value().unwrap(), expected.as_bytes());
        assert_eq!(words.multi_get(&["k"]).remove(0).unwrap().unwrap(), expected.as_bytes());
    }
    assert!(merged() <= 3 * 20 * 21, "each read merged what was new");
    let then = ReadOptions::new().snapshot(&old);
    // The memo knows a later state than the snapshot sees.
    assert_eq!(words.get_with("k", &then).unwrap().unwrap(), expected_then.as_bytes());
    words.compact_range(..).unwrap();
    assert_eq!(text(&words, "k"), expected);
    assert_eq!(words.get_with("k", &then).unwrap().unwrap(), expected_then.as_bytes());
}

/// The memo of a long chain must not outlive what ends the chain, nor count anything twice that was
/// merged into a newer entry.
#[test]
fn i06_the_memo_knows_what_ended_the_chain() {
    let (_dir, db, counters) = open(merge_operators::ADD);
    let fill = || {
        counters.put("n", "1000").unwrap();
        (0..100).for_each(|_| counters.merge("n", "1").unwrap());
        assert_eq!(text(&counters, "n"), "1100");
        assert_eq!(text(&counters, "n"), "1100");
    };
    let ends: [(&dyn Fn(), &str); 4] = [
        (&|| counters.delete_range("m".."o").unwrap(), "1"),
        (&|| counters.delete("n").unwrap(), "1"),
        (&|| counters.put("n", "7").unwrap(), "8"),
        (&|| (), "1101"),
    ];
    for (end, expected) in ends {
        for flushes in 0..4 {
            fill();
            if flushes & 1 > 0 {
                counters.flush().unwrap();
            }
            end();
            if flushes & 2 > 0 {
                counters.flush().unwrap();
            }
            counters.merge("n", "1").unwrap();
            assert_eq!(text(&counters, "n"), expected);
            counters.compact_range(..).unwrap();
            assert_eq!(text(&counters, "n"), expected);
        }
    }
    // What is in the memo is merged into newer entries, which stay operands over the base.
    counters.put("n", "1000").unwrap();
    counters.compact_range(..).unwrap();
    (0..100).for_each(|_| counters.merge("n", "1").unwrap());
    assert_eq!(text(&counters, "n"), "1100");
    (0..5).for_each(|_| counters.merge("n", "1").unwrap());
    counters.flush().unwrap();
    assert_eq!(text(&counters, "n"), "1105");
    db.drop_keyspace("merged").unwrap();
    let again = db.create_keyspace_with("merged", merging(merge_operators::ADD)).unwrap();
    again.merge("n", "3").unwrap();
    assert_eq!(text(&again, "n"), "3");
}

/// What an operand is merged with was taken for overwritten, and its record freed, as titan#18 and
/// rocksdb's merge operands over blobs were exposed to.
#[test]
fn i04_what_operands_are_merged_with_is_live() {
    for separation in MODES {
        let dir = common::dir();
        let db = common::open(dir.path());
        let options = KeyspaceOptions { separation, ..merging("cleavedb.Append:100000") };
        let lists = db.create_keyspace_with("lists", options).unwrap();
        let mut expected = Vec::new();
        for round in 0..30u8 {
            for key in 0..20u8 {
                let part = vec![round.wrapping_mul(31) ^ key; 300];
                lists.merge([key], &part).unwrap();
                if key == 7 {
                    expected.extend_from_slice(&part);
                }
                // What really is garbage makes value GC move the rest.
                lists.put([b'x', key], vec![round; 2000]).unwrap();
            }
            if round % 5 == 4 {
                db.flush().unwrap();
            }
            db.gc().unwrap();
            assert_eq!(lists.get([7]).unwrap().unwrap(), expected, "{separation:?} {round}");
        }
        db.wait_idle().unwrap();
        for key in 0..20u8 {
            assert_eq!(lists.get([key]).unwrap().unwrap().len(), 9000);
        }
        let report = db.check().unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

#[test]
fn a_panicking_operator_loses_nothing() {
    let (dir, operands) = (common::dir(), Arc::default());
    let (db, words) = open_own(dir.path(), &operands);
    words.merge("k", "a").unwrap();
    words.merge("k", "panic").unwrap();
    let error = words.get("k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("\"test.Concat\" of \"merged\" panicked"), "{error}");
    assert_eq!(words.put("other", "1").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop((words, db));
    let (db, words) = open_own(dir.path(), &operands);
    words.merge("k", "!").unwrap();
    assert_eq!(text(&words, "k"), "apanic!");
    words.merge("k", "error").unwrap();
    let error = words.get("k").unwrap_err();
    assert!(error.to_string().contains("as told"), "{error}");
    db.compact().unwrap();
    words.merge("k", "?").unwrap();
    assert_eq!(text(&words, "k"), "apanic!error?");
    // So it is where an operand is refused, before anything is written.
    let error = words.merge("k", "panic at once").unwrap_err();
    assert!(error.to_string().contains("\"test.Concat\" of \"merged\" panicked"), "{error}");
    assert_eq!(words.put("other", "1").unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn transactions_merge() {
    let (_dir, db, counters) = open(merge_operators::ADD);
    counters.put("n", "10").unwrap();
    let get = |transaction: &cleavedb::Transaction, key: &str| {
        let value = transaction.get(&counters, key).unwrap();
        value.map_or("-".to_owned(), |value| String::from_utf8(value.to_vec()).unwrap())
    };
    // Who only merges reads nothing: there is no conflict.
    let (one, two) = (db.begin(), db.begin());
    one.merge(&counters, "n", "1").unwrap();
    two.merge(&counters, "n", "2").unwrap();
    counters.merge("n", "100").unwrap();
    one.commit().unwrap();
    two.commit().unwrap();
    assert_eq!(text(&counters, "n"), "113");
    // Who reads what it merged has read what is below.
    let reader = db.begin();
    reader.merge(&counters, "n", "1").unwrap();
    reader.merge(&counters, "n", "1").unwrap();
    assert_eq!(get(&reader, "n"), "115");
    assert!(reader.contains_key(&counters, "n").unwrap());
    let pairs: Vec<_> = reader.range(&counters, ..).map(|pair| pair.unwrap().1).collect();
    assert_eq!(pairs, ["115"]);
    counters.merge("n", "1").unwrap();
    assert_eq!(get(&reader, "n"), "115");
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
    // Who merges over its own write has not: nobody else is in the way.
    for how in 0..3 {
        let writer = db.begin();
        match how {
            0 => writer.put(&counters, "n", "5").unwrap(),
            1 => writer.delete(&counters, "n").unwrap(),
            _ => writer.delete_range(&counters, ..).unwrap(),
        }
        let before = writer.savepoint().unwrap();
        writer.merge(&counters, "n", "100").unwrap();
        writer.rollback_to(&before).unwrap();
        writer.merge(&counters, "n", "1").unwrap();
        writer.merge(&counters, "n", "1").unwrap();
        let expected = if how == 0 { "7" } else { "2" };
        assert_eq!(get(&writer, "n"), expected);
        let found = counters.get_versioned_with("n", &writer.read_options()).unwrap().unwrap();
        assert_eq!((&found.value[..], found.version), (expected.as_bytes(), 0));
        let mut cursor = counters.cursor_with(&writer.read_options()).unwrap();
        cursor.seek_for_prev("z").unwrap();
        assert_eq!(cursor.value().unwrap(), expected);
        drop(cursor);
        writer.merge(&counters, "m", "3").unwrap();
        if how < 2 {
            drop(writer);
            let writer = db.begin();
            match how {
                0 => writer.put(&counters, "n", "5").unwrap(),
                _ => writer.delete(&counters, "n").unwrap(),
            }
            writer.merge(&counters, "n", "1").unwrap();
            assert_eq!(get(&writer, "n"), if how == 0 { "6" } else { "1" });
            counters.merge("n", "1").unwrap();
            writer.commit().unwrap();
            assert_eq!(text(&counters, "n"), if how == 0 { "6" } else { "1" });
        }
    }
}

/// A thread that shares the transaction writes or rolls back between any two steps of a read of
/// another: each read is of one moment, and no operator is asked about no operands.
#[test]
fn threads_that_share_a_transaction_read_whole_moments() {
    let (dir, operands) = (common::dir(), Arc::default());
    let (db, words) = open_own(dir.path(), &operands);
    words.put("k", "base").unwrap();
    let shared = db.begin();
    let before = shared.savepoint().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..3000 {
                match round % 3 {
                    0 => shared.put(&words, "k", "base").unwrap(),
                    1 => shared.delete(&words, "k").unwrap(),
                    _ => {}
                }
                shared.merge(&words, "k", "+").unwrap();
                shared.rollback_to(&before).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let found = shared.get(&words, "k").unwrap();
            let found = found.as_ref().map(|it| &it[..]);
            let possible = [None, Some(&b"base"[..]), Some(b"base+"), Some(b"+")];
            assert!(possible.contains(&found), "{found:?}");
        }
    });
    // What is merged is there, though it can't be merged.
    shared.merge(&words, "k", "error").unwrap();
    assert!(shared.get(&words, "k").is_err());
    assert!(shared.contains_key(&words, "k").unwrap());
}

#[test]
fn what_was_merged_is_compared() {
    let (_dir, _db, counters) = open(merge_operators::ADD);
    counters.merge("n", "1").unwrap();
    let first = counters.get_versioned("n").unwrap().unwrap();
    counters.merge("n", "0").unwrap();
    let second = counters.get_versioned("n").unwrap().unwrap();
    assert!(first.value == second.value && first.version < second.version);
    counters.flush().unwrap();
    counters.compact_range(..).unwrap();
    assert_eq!(counters.get_versioned("n").unwrap().unwrap(), second, "merging keeps the version");
    let by_version = counters.compare_and_set("n", Expected::Version(first.version), "9").unwrap();
    assert!(matches!(by_version, Exchange::Mismatch(Some(found)) if found == second));
    counters.merge("n", "4").unwrap();
    assert!(counters.compare_and_set("n", Expected::Value(b"5"), "50").unwrap().is_done());
    counters.merge("n", "1").unwrap();
    let update = |old: Option<&[u8]>| Some([old.unwrap(), b"0"].concat());
    counters.update("n", update).unwrap();
    assert_eq!(text(&counters, "n"), "510");
    assert!(!counters.put_if_absent("n", "1").unwrap().is_done());
}

#[test]
fn the_change_feed_has_operands() {
    let (_dir, db, counters) = open(merge_operators::ADD);
    counters.merge("n", "41").unwrap();
    let mut changes = db.changes(0).unwrap();
    let batch = changes.next_batch().unwrap().unwrap();
    assert_eq!(batch.get(0).unwrap().what, Changed::Merge { operand: b"41" });
    assert_eq!(format!("{:?}", batch.get(0).unwrap().what), "Merge { operand: \"41\" }");
}

/// A repair keeps what operands are merged with, and all of them.
#[test]
fn a_repair_and_a_checkpoint_keep_operands() {
    for separation in MODES {
        let dir = common::dir();
        let path = dir.path().join("db");
        let db = common::open(&path);
        let options = KeyspaceOptions { separation, ..merging("cleavedb.Append:100000") };
        let lists = db.create_keyspace_with("lists", options).unwrap();
        let mut expected = vec![b'b'; 500];
        lists.put("k", &expected).unwrap();
        for part in 0..20u8 {
            let bytes = vec![part; 150];
            lists.merge("k", &bytes).unwrap();
            expected.extend_from_slice(&bytes);
            match part % 6 {
                0 => lists.flush().unwrap(),
                3 => lists.compact_range(..).unwrap(),
                _ => {}
            }
        }
        lists.merge("only operands", "a").unwrap();
        let copy = dir.path().join("copy");
        db.checkpoint(&copy).unwrap();
        drop((lists, db));
        Db::builder(&path).repair().unwrap();
        for place in [&path, &copy] {
            let db = common::open(place);
            let lists = db.keyspace("lists").unwrap();
            assert_eq!(lists.get("k").unwrap().unwrap(), expected, "{separation:?}");
            assert_eq!(text(&lists, "only operands"), "a");
            assert!(db.check().unwrap().is_clean());
        }
    }
}

/// A manifest that has lost its end does not know of the last tables. A repair took them for
/// replaced, though what they replaced was gone, and lost all of their keys.
#[test]
fn a_repair_without_the_end_of_the_manifest_loses_no_key() {
    let mut repaired = 0;
    for cut in [1, 40, 120, 300] {
        let dir = common::dir();
        let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
        let db = common::open(&path);
        let counters = db.create_keyspace_with("counters", merging("cleavedb.Add")).unwrap();
        for round in 0..4 {
            for number in 0..200 {
                counters.merge(common::key(number), "1").unwrap();
            }
            counters.flush().unwrap();
            if round > 0 {
                counters.compact_range(..).unwrap();
            }
        }
        db.wait_idle().unwrap();
        // As a crash leaves it.
        common::copy_dir(&path, &copy);
        let manifests = std::fs::read_dir(&copy).unwrap().map(|file| file.unwrap().path());
        let manifest = manifests.filter(|path| path.extension().is_some_and(|it| it == "man"));
        let manifest = manifest.max().unwrap();
        let bytes = std::fs::read(&manifest).unwrap();
        std::fs::write(&manifest, &bytes[..bytes.len() - cut]).unwrap();
        Db::builder(&copy).repair().unwrap();
        let db = common::open(&copy);
        let counters = db.keyspace("counters").unwrap();
        for number in 0..200 {
            let key = common::key(number);
            assert!(counters.get(&key).unwrap().is_some(), "{cut}: {number} is gone");
            repaired += usize::from(counters.get(&key).unwrap().unwrap() == "4");
        }
    }
    assert!(repaired >= 200, "at least without the last edit, all counts are right: {repaired}");
}

/// A repair that can't read a base keeps the operands over it, and says so.
#[test]
fn a_repair_names_the_tables_that_operands_may_lack() {
    let dir = common::dir();
    let path = dir.path().join("db");
    let db = cleavedb::open(&path).unwrap();
    // The memtable is large enough for all operands.
    let merge_operator = Some("cleavedb.Add".to_owned());
    let options = KeyspaceOptions { merge_operator, ..KeyspaceOptions::default() };
    let counters = db.create_keyspace_with("counters", options).unwrap();
    for number in 0..2000 {
        counters.put(common::key(number), "100").unwrap();
    }
    counters.compact_range(..).unwrap();
    drop(counters);
    db.close().unwrap();
    // An opening has removed what was merged.
    let db = cleavedb::open(&path).unwrap();
    let counters = db.keyspace("counters").unwrap();
    for number in 0..2000 {
        counters.merge(common::key(number), "1").unwrap();
    }
    db.sync().unwrap();
    // As a kill leaves it.
    let copy = dir.path().join("copy");
    common::copy_dir(&path, &copy);
    drop((counters, db));
    let [base] = &common::files(&copy, ".tbl")[..] else { panic!("there is one table") };
    let mut bytes = std::fs::read(base).unwrap();
    let in_a_block = bytes.len() / 4;
    bytes[in_a_block] ^= 1;
    std::fs::write(base, bytes).unwrap();
    let report = Db::builder(&copy).repair().unwrap();
    let of_base = |error: &&cleavedb::Error| error.file() == Some(base);
    let problems: Vec<_> =
        report.problems.iter().filter(of_base).map(|it| it.to_string()).collect();
    assert!(problems.iter().any(|it| it.contains("may have lost what they are merged with")));
    let db = common::open(&copy);
    let counters = db.keyspace("counters").unwrap();
    let found = |number| text(&counters, &common::key(number));
    assert_eq!((found(0), found(1999)), ("101".into(), "101".into()), "they were read");
    let lacking = (0..2000).filter(|&number| found(number) == "1").count();
    assert!((1..1000).contains(&lacking), "{lacking}");
    assert!((0..2000).all(|number| ["1", "101"].contains(&&found(number)[..])));
}

/// A table that moves down is removed and added by one edit. A repair took it for replaced.
#[test]
fn a_repair_keeps_tables_that_moved() {
    let dir = common::dir();
    let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
    let db = common::open(&path);
    let counters = db.create_keyspace_with("counters", merging("cleavedb.Add")).unwrap();
    let moves = || db.stats().numbers().find(|(name, _)| *name == "trivial_moves").unwrap().1;
    let mut keys = 0;
    while moves() == 0 {
        for number in keys..keys + 400 {
            counters.merge(common::key(number), "1").unwrap();
        }
        keys += 400;
        counters.flush().unwrap();
        db.wait_idle().unwrap();
        assert!(keys < 40_000, "tables of keys that ascend are moved down");
    }
    common::copy_dir(&path, &copy);
    drop((counters, db));
    std::fs::remove_file(copy.join("CURRENT")).unwrap();
    assert!(!Db::builder(&copy).repair().unwrap().was_healthy);
    let db = common::open(&copy);
    let counters = db.keyspace("counters").unwrap();
    let found = (0..keys).filter(|&number| text(&counters, &common::key(number)) == "1").count();
    assert_eq!(found, keys);
}

/// Drops values that begin with `drop`.
struct DropSome;

impl CompactionFilter for DropSome {
    fn name(&self) -> &str {
        "test.DropSome"
    }

    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
        let goes = entry.value()?.starts_with(b"drop");
        Ok(if goes { FilterDecision::Drop } else { FilterDecision::Keep })
    }
}

/// A filter is asked about values, those that were merged among them, and never about operands.
#[test]
fn filters_are_asked_about_what_was_merged() {
    let dir = common::dir();
    let builder = Db::builder(dir.path()).options(common::tiny());
    let db = builder.compaction_filter("merged", Arc::new(DropSome)).open().unwrap();
    let words = db.create_keyspace_with("merged", merging(merge_operators::APPEND)).unwrap();
    words.put("goes", "drop").unwrap();
    words.put("stays", "kept").unwrap();
    for key in ["goes", "stays"] {
        words.merge(key, " it").unwrap();
    }
    assert_eq!(text(&words, "goes"), "drop it");
    for round in 0..3 {
        words.put("other", round.to_string()).unwrap();
        words.compact_range(..).unwrap();
    }
    assert_eq!((text(&words, "goes"), text(&words, "stays")), ("-".into(), "kept it".into()));
    words.merge("goes", "new").unwrap();
    assert_eq!(text(&words, "goes"), "new");
}
