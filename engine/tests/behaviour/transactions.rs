//! Tests of transactions: what they see, what they write, and with whom they conflict.

use crate::common;
use crate::common::rng::Rng;
use cleavedb::{Db, ErrorKind, Keyspace, ReadOptions, Transaction};
use std::collections::BTreeMap;

fn key(number: usize) -> Vec<u8> {
    common::key(number).into_bytes()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn pairs(transaction: &Transaction, keyspace: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |pair: cleavedb::Result<(Vec<u8>, cleavedb::Value)>| {
        let (key, value) = pair.unwrap();
        (key, value.into_vec())
    };
    transaction.range(keyspace, ..).map(pair).collect()
}

fn is_conflict(transaction: Transaction) -> bool {
    match transaction.commit() {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            true
        }
    }
}

/// Checks every kind of read in a transaction against a model.
fn check_reads(transaction: &Transaction, keyspace: &Keyspace, model: &Model, rng: &mut Rng) {
    let options = transaction.read_options();
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(pairs(transaction, keyspace), expected);
    let keys: Vec<_> = keyspace.keys_with(&options).rev().map(Result::unwrap).collect();
    assert!(keys.iter().eq(model.keys().rev()));
    let asked: Vec<_> = (0..6).map(|_| key(rng.below(40))).collect();
    let found = keyspace.multi_get_with(&asked, &options);
    for (key, found) in asked.iter().zip(found) {
        let value = model.get(key).map(Vec::as_slice);
        assert_eq!(found.unwrap().as_deref(), value);
        assert_eq!(transaction.get(keyspace, key).unwrap().as_deref(), value);
        assert_eq!(transaction.contains_key(keyspace, key).unwrap(), value.is_some());
        let len = keyspace.get_pinned_with(key, &options, <[u8]>::len).unwrap();
        assert_eq!(len, value.map(<[u8]>::len));
    }
    // A walk that turns around.
    let mut cursor = keyspace.cursor_with(&options).unwrap();
    let from = key(rng.below(40));
    cursor.seek(&from).unwrap();
    let mut at = model.range(from..).next().map(|(key, _)| key.clone());
    for _ in 0..10 {
        assert_eq!(cursor.valid().then(|| cursor.key().to_vec()), at);
        let Some(key) = at else { break };
        assert_eq!(cursor.value().unwrap(), &model[&key][..]);
        at = if rng.once_in(2) {
            cursor.next().unwrap();
            model.range(key.clone()..).nth(1).map(|(key, _)| key.clone())
        } else {
            cursor.prev().unwrap();
            model.range(..key).next_back().map(|(key, _)| key.clone())
        };
    }
}

/// Random operations in a transaction, over committed data of which a part is in tables, while
/// others write: all reads see the snapshot with the transaction's own writes, and nothing else.
#[test]
fn reads_see_the_snapshot_and_the_own_writes() {
    for seed in 0..20 {
        let dir = common::dir();
        let db = common::open(dir.path());
        let keyspace = db.default_keyspace();
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        for step in 0..120 {
            write(&mut rng, step, |key, value| match value {
                Some(value) => {
                    keyspace.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                None => {
                    keyspace.delete(&key).unwrap();
                    model.remove(&key);
                }
            });
            if step % 50 == 20 {
                db.flush().unwrap();
            }
            if step % 25 == 15 {
                let range = key(rng.below(40))..key(rng.below(40));
                keyspace.delete_range(range.clone()).unwrap();
                model.retain(|key, _| !range.contains(key));
            }
        }
        let transaction = db.begin();
        let mut savepoints = vec![(transaction.savepoint().unwrap(), model.clone())];
        for step in 0..60 {
            write(&mut rng, step, |key, value| match value {
                Some(value) => {
                    transaction.put(&keyspace, &key, &value).unwrap();
                    model.insert(key, value);
                }
                None => {
                    transaction.delete(&keyspace, &key).unwrap();
                    model.remove(&key);
                }
            });
            if step % 7 == 5 {
                let range = key(rng.below(40))..=key(rng.below(40));
                transaction.delete_range(&keyspace, range.clone()).unwrap();
                model.retain(|key, _| !range.contains(key));
            }
            keyspace.put(key(rng.below(40)), "of others").unwrap();
            if step % 10 == 3 {
                keyspace.delete_range(key(rng.below(40))..key(rng.below(40))).unwrap();
            }
            match rng.below(12) {
                0 => savepoints.push((transaction.savepoint().unwrap(), model.clone())),
                1 => {
                    let back = rng.below(savepoints.len());
                    savepoints.truncate(back + 1);
                    let (savepoint, then) = &savepoints[back];
                    transaction.rollback_to(savepoint).unwrap();
                    model.clone_from(then);
                }
                2 => db.flush().unwrap(),
                _ => {}
            }
            check_reads(&transaction, &keyspace, &model, &mut rng);
        }
        transaction.put(&keyspace, "own", "1").unwrap();
        assert!(is_conflict(transaction), "others wrote what was read");
    }
}

fn write(rng: &mut Rng, step: u64, mut each: impl FnMut(Vec<u8>, Option<Vec<u8>>)) {
    let key = common::key(rng.below(40));
    let length = [5, 300, 3000][rng.below(3)];
    let value = (!rng.once_in(4)).then(|| common::value(&key, step, length));
    each(key.into_bytes(), value);
}

#[test]
fn a_scan_keeps_to_what_was_there_when_it_was_made() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("b", "old").unwrap();
    let transaction = db.begin();
    transaction.put(&keyspace, "a", "1").unwrap();
    let savepoint = transaction.savepoint().unwrap();
    transaction.delete(&keyspace, "b").unwrap();
    let scan = transaction.range(&keyspace, ..);
    let mut cursor = keyspace.cursor_with(&transaction.read_options()).unwrap();
    transaction.put(&keyspace, "b", "new").unwrap();
    transaction.put(&keyspace, "c", "new").unwrap();
    cursor.seek_to_first().unwrap();
    cursor.next().unwrap();
    assert!(!cursor.valid(), "only `a` was there");
    transaction.rollback_to(&savepoint).unwrap();
    transaction.put(&keyspace, "d", "newer").unwrap();
    assert_eq!(scan.keys().map(Result::unwrap).collect::<Vec<_>>(), [b"a"]);
    let now: Vec<_> = transaction.range(&keyspace, ..).keys().map(Result::unwrap).collect();
    assert_eq!(now, [b"a", b"b", b"d"]);
    // A cursor that outlives its transaction goes on.
    transaction.commit().unwrap();
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.key(), b"a");
}

/// Runs `read` in a transaction that also writes, then `others` besides it; returns whether the
/// commit is a conflict. The keys `b`, `d`, `f` and `h` are there before.
fn conflicts(read: impl Fn(&Transaction, &Keyspace), others: impl Fn(&Keyspace)) -> bool {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    for key in ["b", "d", "f", "h"] {
        keyspace.put(key, "before").unwrap();
    }
    let transaction = db.begin();
    read(&transaction, &keyspace);
    transaction.put(&keyspace, "own", "1").unwrap();
    others(&keyspace);
    let before = db.visible_seqno();
    let conflict = is_conflict(transaction);
    assert_eq!(db.visible_seqno() == before, conflict);
    assert_eq!(keyspace.get("own").unwrap().is_some(), !conflict);
    assert_eq!(db.stats().conflicts, u64::from(conflict));
    conflict
}

#[test]
fn keys_that_were_read_conflict() {
    let get = |key: &'static str| {
        move |transaction: &Transaction, keyspace: &Keyspace| {
            drop(transaction.get(keyspace, key).unwrap());
        }
    };
    let put = |key: &'static str| move |keyspace: &Keyspace| keyspace.put(key, "x").unwrap();
    assert!(conflicts(get("b"), put("b")));
    assert!(conflicts(get("b"), |keyspace| keyspace.delete("b").unwrap()));
    assert!(conflicts(get("a"), put("a")), "that it was absent was read, too");
    assert!(!conflicts(get("a"), put("b")));
    assert!(!conflicts(|_, _| {}, put("own")), "a blind write overwrites");
    assert!(!conflicts(get("b"), |_| {}));
    let own = |transaction: &Transaction, keyspace: &Keyspace| {
        transaction.put(keyspace, "b", "mine").unwrap();
        assert_eq!(transaction.get(keyspace, "b").unwrap().unwrap(), "mine");
    };
    assert!(!conflicts(own, put("b")), "what it wrote itself was not read");
    let many = |transaction: &Transaction, keyspace: &Keyspace| {
        keyspace.multi_get_with(&["a", "c"], &transaction.read_options());
        assert!(!transaction.contains_key(keyspace, "e").unwrap());
        let nothing = keyspace.get_pinned_with("g", &transaction.read_options(), |_| ()).unwrap();
        assert!(nothing.is_none());
    };
    for (key, expected) in [("a", true), ("b", false), ("c", true), ("e", true), ("g", true)] {
        assert_eq!(conflicts(many, put(key)), expected, "{key}");
    }
}

/// What a transaction has merged is a value that never expires, as it is once committed.
#[test]
fn what_was_merged_has_no_deadline() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let options = cleavedb::KeyspaceOptions {
        merge_operator: Some(cleavedb::merge_operators::ADD.to_owned()),
        ..Default::default()
    };
    let counts = db.create_keyspace_with("counts", options).unwrap();
    let transaction = db.begin();
    transaction.merge(&counts, "c", "1").unwrap();
    let ttl = counts.ttl_with("c", &transaction.read_options()).unwrap();
    assert_eq!(ttl, Some(cleavedb::Ttl::Never));
    transaction.commit().unwrap();
    assert_eq!(counts.ttl("c").unwrap(), ttl);
}

/// Every read that takes options, with those of a transaction, counts as read by it.
#[test]
fn each_way_to_read_conflicts() {
    type Read = fn(&Keyspace, &ReadOptions);
    let ways: [(&str, Read); 14] = [
        ("get", |k, o| assert!(k.get_with("b", o).unwrap().is_some())),
        ("get_pinned", |k, o| assert!(k.get_pinned_with("b", o, |_| ()).unwrap().is_some())),
        ("contains_key", |k, o| assert!(k.contains_key_with("b", o).unwrap())),
        ("multi_get", |k, o| assert_eq!(k.multi_get_with(&["b"], o).len(), 1)),
        ("get_versioned", |k, o| assert!(k.get_versioned_with("b", o).unwrap().is_some())),
        ("ttl", |k, o| assert!(k.ttl_with("b", o).unwrap().is_some())),
        ("iter", |k, o| assert!(k.iter_with(o).next().is_some())),
        ("range", |k, o| assert!(k.range_with("b".., o).next().is_some())),
        ("prefix", |k, o| assert!(k.prefix_with("b", o).next().is_some())),
        ("keys", |k, o| assert!(k.keys_with(o).next().is_some())),
        ("cursor", |k, o| k.cursor_with(o).unwrap().seek("b").unwrap()),
        ("first_key_value", |k, o| assert!(k.first_key_value_with(o).unwrap().is_some())),
        ("last_key_value", |k, o| assert!(k.last_key_value_with(o).unwrap().is_some())),
        ("is_empty", |k, o| assert!(!k.is_empty_with(o).unwrap())),
    ];
    for (name, read) in ways {
        let in_transaction = |t: &Transaction, k: &Keyspace| read(k, &t.read_options());
        let others = |k: &Keyspace| ["b", "h"].iter().for_each(|key| k.put(key, "x").unwrap());
        assert!(conflicts(in_transaction, others), "{name}");
        assert!(!conflicts(in_transaction, |k| k.put("d", "x").unwrap()), "{name}");
    }
}

/// What a walk has seen conflicts, with the gaps between keys; what it has not seen does not.
#[test]
fn parts_of_ranges_that_were_walked_conflict() {
    let added = ["a", "b", "bb", "c", "d", "e", "f", "g", "h", "i"];
    let seen = |walk: &dyn Fn(&Transaction, &Keyspace)| -> String {
        let seen = |key: &&&str| {
            conflicts(walk, |keyspace: &Keyspace| keyspace.put(**key, "of others").unwrap())
        };
        added.iter().filter(seen).copied().collect::<Vec<_>>().join(" ")
    };
    let all = added.join(" ");
    assert_eq!(seen(&|t, k| assert_eq!(t.range(k, ..).count(), 4)), all);
    assert_eq!(seen(&|t, k| drop(t.range(k, ..))), "", "nothing was walked");
    assert_eq!(seen(&|t, k| assert!(t.range(k, ..).next().is_some())), "a b");
    assert_eq!(seen(&|t, k| assert!(t.range(k, ..).next_back().is_some())), "h i");
    assert_eq!(seen(&|t, k| assert!(t.range(k, "c".."e").next().is_some())), "c d");
    assert_eq!(seen(&|t, k| assert_eq!(t.range(k, "c".."e").count(), 1)), "c d");
    assert_eq!(seen(&|t, k| assert_eq!(t.range(k, "c"..="e").count(), 1)), "c d e");
    assert_eq!(seen(&|t, k| assert_eq!(t.prefix(k, "b").keys().count(), 1)), "b bb");
    let ends = |t: &Transaction, k: &Keyspace| {
        let mut range = t.range(k, ..);
        assert!(range.next().is_some() && range.next_back().is_some());
    };
    assert_eq!(seen(&ends), "a b h i");
    let turning = |t: &Transaction, k: &Keyspace| {
        let mut cursor = k.cursor_with(&t.read_options()).unwrap();
        cursor.seek("d").unwrap();
        cursor.next().unwrap();
        cursor.prev().unwrap();
        cursor.prev().unwrap();
        assert_eq!(cursor.key(), b"b");
    };
    assert_eq!(seen(&turning), "b bb c d e f");
    let jumping = |t: &Transaction, k: &Keyspace| {
        let mut cursor = t.range(k, "b".."h").into_cursor().unwrap();
        cursor.seek("a").unwrap();
        assert_eq!(cursor.key(), b"b");
        cursor.seek_for_prev("z").unwrap();
        assert_eq!(cursor.key(), b"f");
        cursor.next().unwrap();
        assert!(!cursor.valid());
    };
    assert_eq!(seen(&jumping), "b f g");
    let nowhere = |t: &Transaction, k: &Keyspace| {
        let mut cursor = k.cursor_with(&t.read_options()).unwrap();
        cursor.next().unwrap();
        cursor.seek_for_prev("a").unwrap();
        cursor.next().unwrap();
        assert!(!cursor.valid());
    };
    assert_eq!(seen(&nowhere), "a", "a step from nowhere leads nowhere");
    let first = |t: &Transaction, k: &Keyspace| {
        assert!(k.first_key_value_with(&t.read_options()).unwrap().is_some());
        assert!(!k.is_empty_with(&t.read_options()).unwrap());
    };
    assert_eq!(seen(&first), "a b");
    let own = |t: &Transaction, k: &Keyspace| {
        t.put(k, "c", "own").unwrap();
        t.delete(k, "b").unwrap();
        assert_eq!(t.range(k, ..).next().unwrap().unwrap().0, b"c");
    };
    assert_eq!(seen(&own), "a b bb c", "a range counts as read with its own keys");
}

/// Two doctors are on call, and each may leave if the other stays: under snapshot isolation both
/// would.
#[test]
fn of_two_that_rely_on_each_other_one_fails() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let on_call = db.create_keyspace("on call").unwrap();
    on_call.put("ada", "").unwrap();
    on_call.put("grace", "").unwrap();
    let leave = |name: &str| {
        let transaction = db.begin();
        assert_eq!(transaction.range(&on_call, ..).count(), 2);
        transaction.delete(&on_call, name).unwrap();
        transaction
    };
    let (one, other) = (leave("ada"), leave("grace"));
    assert!(!is_conflict(one));
    let error = other.commit().unwrap_err();
    let says = "the key \"ada\" in keyspace \"on call\" was written since the transaction read it; \
                run the transaction again";
    assert_eq!(error.to_string(), says);
    assert_eq!(on_call.keys().count(), 1);
}

#[test]
fn one_that_only_reads_never_fails() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let transaction = db.begin();
    assert_eq!(transaction.range(&keyspace, ..).count(), 0);
    keyspace.put("a", "1").unwrap();
    assert!(transaction.get(&keyspace, "a").unwrap().is_none());
    transaction.commit().unwrap();
    assert_eq!(db.visible_seqno(), 1, "nothing was written");
}

/// So much is written besides a transaction that it is not all in memory any more: what was read is
/// searched for in the tree, in memtables, tables, and after compactions that drop tombstones.
#[test]
fn a_long_one_is_checked_in_the_tree() {
    for (others, conflict) in [(1..9_000, false), (0..9_000, true)] {
        for flushed in [false, true] {
            for by_range in [false, true] {
                let dir = common::dir();
                let db = Db::builder(dir.path()).open().unwrap();
                let keyspace = db.default_keyspace();
                for number in 0..9_000 {
                    keyspace.put(key(number), "before").unwrap();
                }
                let transaction = db.begin();
                if by_range {
                    let range = transaction.range(&keyspace, ..key(1));
                    assert_eq!(range.count(), 1);
                } else {
                    assert!(transaction.contains_key(&keyspace, key(0)).unwrap());
                }
                transaction.put(&keyspace, "own", "1").unwrap();
                for number in others.clone() {
                    keyspace.delete(key(number)).unwrap();
                }
                if flushed {
                    db.compact().unwrap();
                }
                assert_eq!(is_conflict(transaction), conflict, "{flushed} {by_range}");
                let searches = u64::from(flushed || by_range);
                assert_eq!(db.stats().conflict_searches, searches, "else memtables are enough");
            }
        }
    }
}

#[test]
fn misuse_is_told() {
    let (dir, other_dir) = (common::dir(), common::dir());
    let (db, other) = (common::open(dir.path()), common::open(other_dir.path()));
    let (keyspace, foreign) = (db.default_keyspace(), other.default_keyspace());
    let kind = |result: cleavedb::Result<()>| result.unwrap_err().kind();
    let transaction = db.begin();
    assert_eq!(kind(transaction.put(&foreign, "a", "1")), ErrorKind::InvalidArgument);
    assert_eq!(kind(transaction.get(&foreign, "a").map(drop)), ErrorKind::InvalidArgument);
    let long = vec![0; cleavedb::MAX_KEY_BYTES + 1];
    assert_eq!(kind(transaction.put(&keyspace, long, "1")), ErrorKind::InvalidArgument);
    let first = transaction.savepoint().unwrap();
    let second = transaction.savepoint().unwrap();
    transaction.rollback_to(&first).unwrap();
    assert_eq!(kind(transaction.rollback_to(&second)), ErrorKind::InvalidArgument);
    let strange = db.begin().savepoint().unwrap();
    assert_eq!(kind(transaction.rollback_to(&strange)), ErrorKind::InvalidArgument);
    let late = transaction.read_options();
    transaction.put(&keyspace, "a", "1").unwrap();
    transaction.commit().unwrap();
    assert_eq!(kind(keyspace.get_with("a", &late).map(drop)), ErrorKind::WrongState);
    assert_eq!(keyspace.iter_with(&late).count(), 1, "an error");
    let outside: ReadOptions = late.snapshot(&db.snapshot());
    assert!(keyspace.get_with("a", &outside).unwrap().is_some());

    let dropped = db.create_keyspace("dropped").unwrap();
    let (reads, writes) = (db.begin(), db.begin());
    assert!(reads.get(&dropped, "a").unwrap().is_none());
    reads.put(&keyspace, "b", "1").unwrap();
    writes.put(&dropped, "a", "1").unwrap();
    db.drop_keyspace("dropped").unwrap();
    assert_eq!(kind(reads.commit()), ErrorKind::KeyspaceDropped);
    assert_eq!(kind(writes.commit()), ErrorKind::KeyspaceDropped);
    assert!(keyspace.get("b").unwrap().is_none());

    drop(outside);
    assert_eq!(db.holders().transactions, 0);
    let transaction = db.begin();
    assert_eq!(db.holders().transactions, 1);
    transaction.put(&keyspace, "c", "1").unwrap();
    db.clone().close().unwrap();
    assert_eq!(kind(transaction.put(&keyspace, "d", "1")), ErrorKind::Closed);
    assert_eq!(kind(transaction.commit()), ErrorKind::Closed);
}

#[test]
fn what_is_remembered_of_reads_is_bounded() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put_expiring("lease", "1", std::time::Duration::from_secs(3600)).unwrap();
    for writes in [false, true] {
        let transaction = db.begin();
        if writes {
            transaction.put(&keyspace, "own", "1").unwrap();
        }
        assert!(transaction.get(&keyspace, "lease").unwrap().is_some());
        let mut key = vec![0; 60 << 10];
        for number in 0u64..1200 {
            key[..8].copy_from_slice(&number.to_be_bytes());
            assert!(!transaction.contains_key(&keyspace, &key).unwrap());
        }
        assert_eq!(transaction.range(&keyspace, ..).count(), 1 + usize::from(writes));
        let outcome = transaction.commit();
        if writes {
            // What was read is not all known, so there is no commit.
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitReached);
            assert!(error.to_string().contains("64 MiB"), "{error}");
        } else {
            outcome.unwrap();
        }
        assert!(keyspace.get("own").unwrap().is_none());
    }
}

/// The options of a transaction are of one moment, so a read at another one can't slip in.
#[test]
fn it_reads_at_no_other_moment() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    keyspace.put("a", "old").unwrap();
    let old = db.snapshot();
    keyspace.put("a", "new").unwrap();
    let transaction = db.begin();
    let mut options = transaction.read_options();
    for snapshot in [Some(old), None] {
        options.snapshot = snapshot;
        keyspace.put("a", "newer").unwrap();
        assert_eq!(keyspace.get_with("a", &options).unwrap().unwrap(), "new");
        assert_eq!(keyspace.iter_with(&options).next().unwrap().unwrap().1, "new");
        let mut cursor = keyspace.cursor_with(&options).unwrap();
        cursor.seek("a").unwrap();
        assert_eq!(cursor.value().unwrap(), "new");
    }
}

/// Walks that read values ahead: what was read ahead and not shown does not count.
#[test]
fn values_that_were_read_ahead_do_not_conflict() {
    for (written, conflict) in [(9, true), (10, false)] {
        let dir = common::dir();
        let db = common::open(dir.path());
        let keyspace = db.default_keyspace();
        for number in 0..100 {
            keyspace.put(key(number), vec![1; 5000]).unwrap();
        }
        let transaction = db.begin();
        assert_eq!(transaction.range(&keyspace, ..).take(10).count(), 10);
        assert!(db.stats().prefetched_values > 10, "they are read ahead");
        transaction.put(&keyspace, "own", "1").unwrap();
        keyspace.delete(key(written)).unwrap();
        assert_eq!(is_conflict(transaction), conflict, "{written}");
    }
}

#[test]
fn transfers_of_many_threads_keep_the_sum() {
    const ACCOUNTS: usize = 8;
    let dir = common::dir();
    let db = common::open(dir.path());
    let accounts = db.create_keyspace("accounts").unwrap();
    for number in 0..ACCOUNTS {
        accounts.put(key(number), 100u64.to_le_bytes()).unwrap();
    }
    let balance = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    let sum = |transaction: &Transaction| -> cleavedb::Result<u64> {
        transaction.range(&accounts, ..).map(|pair| Ok(balance(&pair?.1))).sum()
    };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (db, accounts) = (&db, &accounts);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..300 {
                    let [from, to] = [0, 1].map(|_| key(rng.below(ACCOUNTS)));
                    let moved = db.transact(|transaction| {
                        let has = balance(&transaction.get(accounts, &from)?.unwrap());
                        let amount = has / 3;
                        transaction.put(accounts, &from, (has - amount).to_le_bytes())?;
                        let has = balance(&transaction.get(accounts, &to)?.unwrap());
                        transaction.put(accounts, &to, (has + amount).to_le_bytes())?;
                        assert_eq!(sum(transaction)?, 100 * ACCOUNTS as u64);
                        Ok(())
                    });
                    moved.unwrap();
                }
            });
        }
    });
    assert_eq!(sum(&db.begin()).unwrap(), 100 * ACCOUNTS as u64);
}

#[test]
fn a_body_that_fails_is_not_run_again() {
    let dir = common::dir();
    let db = common::open(dir.path());
    let keyspace = db.default_keyspace();
    let mut runs = 0;
    let outcome = db.transact(|transaction| {
        runs += 1;
        transaction.put(&keyspace, "a", "1")?;
        transaction.put(&keyspace, vec![0; cleavedb::MAX_KEY_BYTES + 1], "")
    });
    assert_eq!((outcome.unwrap_err().kind(), runs), (ErrorKind::InvalidArgument, 1));
    let outcome = db.transact(|transaction| {
        runs += 1;
        drop(transaction.get(&keyspace, "a")?);
        keyspace.put("a", "of another")?;
        transaction.put(&keyspace, "b", "")
    });
    assert_eq!((outcome.unwrap_err().kind(), runs), (ErrorKind::Conflict, 101));
    assert!(keyspace.get("b").unwrap().is_none());
}
