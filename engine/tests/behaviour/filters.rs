//! Compaction filters: what they are asked, what becomes of what they drop and change, and who sees
//! it.

use crate::common;
use cleavedb::{
    CompactionFilter, Db, ErrorKind, FilterDecision, FilteredEntry, Keyspace, KeyspaceOptions,
    Options, ReadOptions, Result, Separation,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

const MODES: [Separation; 3] = [Separation::AtWrite, Separation::AtFlush, Separation::Off];

/// A filter that is a closure.
struct By<F>(F);

impl<F> CompactionFilter for By<F>
where
    F: Fn(&FilteredEntry<'_>) -> Result<FilterDecision> + Send + Sync,
{
    fn name(&self) -> &str {
        "test.By"
    }

    fn filter(&self, entry: &FilteredEntry<'_>) -> Result<FilterDecision> {
        (self.0)(entry)
    }
}

fn by(
    filter: impl Fn(&FilteredEntry<'_>) -> Result<FilterDecision> + Send + Sync + 'static,
) -> Arc<dyn CompactionFilter> {
    Arc::new(By(filter))
}

/// Returns a filter that does what the value says: `drop…` goes, and `old…` becomes `new…`, which
/// is longer by `more` bytes.
fn by_value(more: usize) -> Arc<dyn CompactionFilter> {
    by(move |entry| {
        let value = entry.value()?;
        if value.starts_with(b"drop") {
            return Ok(FilterDecision::Drop);
        }
        let Some(rest) = value.strip_prefix(b"old") else {
            return Ok(FilterDecision::Keep);
        };
        let mut new = [b"new", rest].concat();
        new.resize(new.len() + more, b'+');
        Ok(FilterDecision::Change(new))
    })
}

fn options(separation: Separation) -> Options {
    let keyspace = KeyspaceOptions { separation, ..common::tiny_keyspace() };
    Options { keyspace, ..common::tiny() }
}

fn open(dir: &Path, separation: Separation, filter: Arc<dyn CompactionFilter>) -> Db {
    let builder = Db::builder(dir).options(options(separation));
    builder.compaction_filter("default", filter).open().unwrap()
}

fn filled(what: &str, bytes: usize) -> Vec<u8> {
    let mut value = what.as_bytes().to_vec();
    value.resize(bytes, b'.');
    value
}

#[track_caller]
fn expect(keyspace: &Keyspace, key: &str, options: &ReadOptions, expected: Option<&str>) {
    let value = keyspace.get_with(key, options).unwrap();
    let begins = value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
    match (begins, expected) {
        (Some(found), Some(expected)) => assert!(found.starts_with(expected), "{key}: {found}"),
        (found, expected) => assert_eq!(found.as_deref(), expected, "{key}"),
    }
    let cursor_finds = keyspace.range_with(key..=key, options).next().transpose().unwrap();
    let as_cursor = cursor_finds.map(|(_, value)| value);
    assert_eq!(as_cursor, value, "{key}");
}

#[test]
fn entries_stay_go_or_change_in_all_modes() {
    for mode in MODES {
        for bytes in [10, 99, 400] {
            let dir = common::dir();
            let db = open(dir.path(), mode, by_value(1));
            let words = db.default_keyspace();
            for number in 0..60 {
                let what = ["keep", "drop", "old"][number % 3];
                words.put(common::key(number), filled(what, bytes)).unwrap();
            }
            let version = words.get_versioned(common::key(2)).unwrap().unwrap().version;
            db.compact().unwrap();
            let stats = db.stats();
            assert_eq!(stats.filtered_entries_dropped, 20);
            assert_eq!(stats.filtered_entries_changed, 20);
            assert!(stats.entries_filtered >= 60);
            let check = |words: &Keyspace| {
                for number in 0..60 {
                    let (key, now) = (common::key(number), ReadOptions::new());
                    expect(words, &key, &now, [Some("keep"), None, Some("new")][number % 3]);
                }
                let changed = words.get_versioned(common::key(2)).unwrap().unwrap();
                assert_eq!((changed.version, changed.value.len()), (version, bytes + 1));
                assert_eq!(words.iter().count(), 40);
            };
            check(&words);
            assert!(db.check().unwrap().is_clean());
            // A change is made once: what it made is kept.
            db.compact().unwrap();
            check(&words);
            assert_eq!(db.stats().filtered_entries_changed, 20);
            db.wait_idle().unwrap();
            check(&words);
            drop(words);
            db.close().unwrap();
            let db = common::open_with(dir.path(), options(mode));
            check(&db.default_keyspace());
            db.compact().unwrap();
            check(&db.default_keyspace());
            assert!(db.check().unwrap().is_clean());
        }
    }
}

#[test]
fn a_changed_value_is_separated_by_its_new_size() {
    for mode in MODES {
        let dir = common::dir();
        let db = open(dir.path(), mode, by_value(1000));
        let words = db.default_keyspace();
        for number in 0..50 {
            words.put(common::key(number), filled("old", 20)).unwrap();
        }
        db.compact().unwrap();
        let referenced: u64 = db.stats().segments.iter().map(|it| it.referenced_records).sum();
        assert_eq!(referenced, if mode == Separation::Off { 0 } else { 50 }, "{mode:?}");
        for number in 0..50 {
            assert_eq!(words.get(common::key(number)).unwrap().unwrap().len(), 1020);
        }
        db.gc().unwrap();
        words.reorganize(..).unwrap();
        assert_eq!(words.iter().map(|pair| pair.unwrap().1.len()).sum::<usize>(), 50 * 1020);
        assert!(db.check().unwrap().is_clean());
    }
}

/// Guards against changed entries that go on pointing to their old record: their space would never
/// come back, and readers would see the old value.
#[test]
fn i4_records_of_what_goes_or_changes_become_garbage() {
    for mode in [Separation::AtWrite, Separation::AtFlush] {
        let dir = common::dir();
        let db = open(dir.path(), mode, by_value(0));
        let words = db.default_keyspace();
        for number in 0..200 {
            let what = ["drop", "old"][number % 2];
            words.put(common::key(number), filled(what, 1000)).unwrap();
        }
        db.compact().unwrap();
        let referenced: u64 = db.stats().segments.iter().map(|it| it.referenced_records).sum();
        assert_eq!(referenced, 100, "{mode:?}");
        db.wait_idle().unwrap();
        db.gc().unwrap();
        db.wait_idle().unwrap();
        let bytes = db.space().unwrap().allocated;
        assert!(bytes < 200_000, "{mode:?}: {bytes} bytes for 100 values of 1000");
        assert_eq!(
            words.iter().filter(|it| it.as_ref().unwrap().1.starts_with(b"new")).count(),
            100
        );
        assert!(db.check().unwrap().is_clean());
    }
}

/// Guards against drops without a tombstone: the older value, deeper in the tree, came back.
#[test]
fn i6_older_values_do_not_come_back() {
    for mode in MODES {
        let dir = common::dir();
        let db = open(dir.path(), mode, by_value(0));
        let words = db.default_keyspace();
        let put = |what: &str| {
            for number in 0..100 {
                words.put(common::key(number), filled(what, 150)).unwrap();
            }
        };
        put("newer, but not the newest");
        db.compact().unwrap();
        // A snapshot keeps the older value at the deepest level.
        let then = ReadOptions::new().snapshot(&db.snapshot());
        put("drop");
        for _ in 0..3 {
            db.compact().unwrap();
            for number in 0..100 {
                expect(&words, &common::key(number), &ReadOptions::new(), None);
                expect(&words, &common::key(number), &then, Some("newer"));
            }
        }
        drop(then);
        db.compact().unwrap();
        assert_eq!(words.iter().count(), 0);
        assert!(words.tables().is_empty(), "tombstones go with what they hide");
    }
}

/// Guards against a filter that is asked about what a snapshot sees.
#[test]
fn i6_what_snapshots_transactions_and_cursors_see_stays() {
    for mode in MODES {
        let dir = common::dir();
        let db = open(dir.path(), mode, by_value(0));
        let words = db.default_keyspace();
        for number in 0..100 {
            let what = ["drop", "old"][number % 2];
            words.put(common::key(number), filled(what, 150)).unwrap();
        }
        let before = ReadOptions::new().snapshot(&db.snapshot());
        let transaction = db.begin();
        let mut cursor = words.cursor().unwrap();
        words.put("more", filled("old", 150)).unwrap();
        db.compact().unwrap();
        assert_eq!(db.stats().entries_filtered, 1, "only what is newer is asked about");
        cursor.seek_to_first().unwrap();
        for number in 0..100 {
            let (key, expected) = (common::key(number), ["drop", "old"][number % 2]);
            expect(&words, &key, &before, Some(expected));
            expect(&words, &key, &ReadOptions::new(), Some(expected));
            assert!(
                transaction.get(&words, &key).unwrap().unwrap().starts_with(expected.as_bytes())
            );
            assert!(cursor.valid() && cursor.value().unwrap().starts_with(expected.as_bytes()));
            cursor.next().unwrap();
        }
        expect(&words, "more", &ReadOptions::new(), Some("new"));
        // A change is no write, so there is no conflict.
        transaction.put(&words, "mine", "1").unwrap();
        transaction.commit().unwrap();
        drop((before, cursor));
        db.compact().unwrap();
        assert_eq!(words.iter().count(), 52);
        expect(&words, &common::key(1), &ReadOptions::new(), Some("new"));
    }
}

/// Takes a snapshot, a transaction and a cursor while a compaction runs, when the filter is asked.
/// They saw what the filter changed, and saw it change.
#[test]
fn i6_what_is_opened_during_a_compaction_sees_the_same_all_its_life() {
    type Pinned = (ReadOptions, cleavedb::Transaction, cleavedb::Cursor);
    for mode in MODES {
        let dir = common::dir();
        let (taken, handle) =
            (Arc::new(Mutex::new(None::<Pinned>)), Arc::new(OnceLock::<Db>::new()));
        let (keep, of) = (taken.clone(), handle.clone());
        let filter = by(move |entry| {
            if let Some(db) = of.get()
                && keep.lock().unwrap().is_none()
            {
                let snapshot = ReadOptions::new().snapshot(&db.snapshot());
                let (transaction, words) = (db.begin(), db.default_keyspace());
                *keep.lock().unwrap() = Some((snapshot, transaction, words.cursor()?));
            }
            Ok(match entry.value()?.starts_with(b"drop") {
                true => FilterDecision::Drop,
                false => FilterDecision::Change(filled("new", 200)),
            })
        });
        let db = open(dir.path(), mode, filter);
        let words = db.default_keyspace();
        for number in 0..50 {
            let what = ["drop", "old"][number % 2];
            words.put(common::key(number), filled(what, 150)).unwrap();
        }
        db.flush().unwrap();
        assert!(handle.set(db.clone()).is_ok());
        // Compactions of the background may have been first; the last value is certain.
        words.put("last", filled("old", 150)).unwrap();
        let before: BTreeMap<_, _> = common::pairs(&words).into_iter().collect();
        db.compact().unwrap();
        let (snapshot, transaction, mut cursor) = taken.lock().unwrap().take().unwrap();
        let seen: Vec<_> = words.iter_with(&snapshot).map(|pair| pair.unwrap()).collect();
        assert_eq!(seen.last().unwrap().1, filled("old", 150), "{mode:?}");
        expect(&words, "last", &ReadOptions::new(), Some("new"));
        for round in 0..3 {
            // Freed space, newer writes and further compactions change nothing either.
            words.put("last", filled("later", 150 + round)).unwrap();
            db.compact().unwrap();
            db.gc().unwrap();
            for (key, value) in &seen {
                assert!(before.contains_key(key));
                assert_eq!(words.get_with(key, &snapshot).unwrap().as_ref(), Some(value));
                assert_eq!(transaction.get(&words, key).unwrap().as_ref(), Some(value));
            }
            cursor.seek_to_first().unwrap();
            for (key, value) in &seen {
                assert_eq!(cursor.key(), key);
                assert_eq!(&cursor.value().unwrap(), value);
                cursor.next().unwrap();
            }
            assert!(!cursor.valid());
        }
        drop((snapshot, transaction, cursor));
        db.compact().unwrap();
        assert!(words.iter().all(|pair| pair.unwrap().1.starts_with(b"new")));
        assert!(db.check().unwrap().is_clean());
        drop(words);
        // The filter holds a handle.
        db.close().unwrap();
    }
}

#[test]
fn an_entry_says_what_it_is_and_a_key_costs_no_read() {
    let dir = common::dir();
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let note = seen.clone();
    let db = open(
        dir.path(),
        Separation::AtWrite,
        by(move |entry| {
            let facts = (entry.seqno(), entry.expires_at(), entry.is_separated(), entry.level());
            note.lock().unwrap().insert(entry.key().to_vec(), facts);
            let goes = entry.key() == b"b" || entry.expires_at().is_some();
            Ok(if goes { FilterDecision::Drop } else { FilterDecision::Keep })
        }),
    );
    let words = db.default_keyspace();
    words.put("a", filled("a", 500)).unwrap();
    words.put("b", filled("b", 500)).unwrap();
    words.put_expiring("c", "3", Duration::from_secs(3600)).unwrap();
    words.put("d", "4").unwrap();
    words.delete("d").unwrap();
    words.put_expiring("e", "5", Duration::ZERO).unwrap();
    let version = words.get_versioned("a").unwrap().unwrap().version;
    let reads = db.stats().value_reads;
    db.compact().unwrap();
    assert_eq!(db.stats().value_reads, reads);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.keys().map(|key| key[0]).collect::<Vec<_>>(), b"abc");
    assert_eq!(seen[&b"a"[..]], (version, None, true, 1));
    let (_, expires, separated, _) = seen[&b"c"[..]];
    let left = expires.unwrap().duration_since(SystemTime::now()).unwrap();
    // The system's clock may be set meanwhile.
    assert!(left.abs_diff(Duration::from_secs(3600)) < Duration::from_secs(60), "{left:?}");
    assert!(!separated);
    assert_eq!(words.keys().map(|key| key.unwrap()).collect::<Vec<_>>(), [b"a"]);
}

#[test]
fn a_changed_value_expires_when_the_old_one_would_have() {
    for bytes in [10, 300] {
        let dir = common::dir();
        let db = open(dir.path(), Separation::AtFlush, by_value(0));
        let words = db.default_keyspace();
        words.put_expiring("a", filled("old", bytes), Duration::from_secs(3600)).unwrap();
        let before = words.ttl("a").unwrap();
        db.compact().unwrap();
        expect(&words, "a", &ReadOptions::new(), Some("new"));
        let Some(cleavedb::Ttl::Left(left)) = words.ttl("a").unwrap() else {
            panic!("it does not expire any more");
        };
        assert!(left > Duration::from_secs(3000) && before.is_some());
    }
}

#[test]
fn only_the_keyspace_with_the_filter_is_filtered_and_only_while_it_is_given() {
    let dir = common::dir();
    let all = || by(|_| Ok(FilterDecision::Drop));
    let db = open(dir.path(), Separation::AtWrite, all());
    let (words, other) = (db.default_keyspace(), db.create_keyspace("other").unwrap());
    other.put("a", "1").unwrap();
    words.put("a", "1").unwrap();
    // Neither a flush nor a session's end asks it.
    db.flush().unwrap();
    assert!(words.contains_key("a").unwrap());
    db.close().unwrap();
    let db = common::open(dir.path());
    db.compact().unwrap();
    assert!(db.default_keyspace().contains_key("a").unwrap(), "nothing is filtered without it");
    assert_eq!(db.stats().entries_filtered, 0);
    db.close().unwrap();
    let db = open(dir.path(), Separation::AtWrite, all());
    // The table is at the bottom already, and is rewritten there.
    db.compact().unwrap();
    assert!(!db.default_keyspace().contains_key("a").unwrap());
    let other = db.open_or_create_keyspace("other").unwrap();
    assert!(other.contains_key("a").unwrap());
}

#[test]
fn a_panic_names_the_filter_and_loses_nothing() {
    let dir = common::dir();
    let filter = by(|entry| match entry.key() {
        b"key000070" => panic!("no rule for this key"),
        _ => Ok(FilterDecision::Drop),
    });
    let db = open(dir.path(), Separation::AtFlush, filter);
    let words = db.default_keyspace();
    for number in 0..80 {
        words.put(common::key(number), filled("value", 20)).unwrap();
    }
    let before = common::pairs(&words);
    let error = db.compact().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    for part in ["compaction filter", "test.By", "default", "no rule for this key"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(common::pairs(&words), before, "the compaction changed nothing");
    assert_eq!(words.put("a", "1").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(words);
    assert!(db.close().is_err());
    let db = common::open(dir.path());
    assert_eq!(common::pairs(&db.default_keyspace()), before);
    assert!(db.check().unwrap().is_clean());
    db.compact().unwrap();
}

#[test]
fn an_error_ends_the_compaction_and_the_next_one_goes_on() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = common::dir();
    let (fails, asked) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicBool>::default());
    let (failing, asking) = (fails.clone(), asked.clone());
    let db = open(
        dir.path(),
        Separation::AtWrite,
        by(move |entry| {
            asking.store(true, Ordering::Relaxed);
            match failing.load(Ordering::Relaxed) {
                true => Err(cleavedb::Error::invalid_argument("the rules are not loaded")),
                false => Ok(match entry.key() == b"a" {
                    true => FilterDecision::Drop,
                    false => FilterDecision::Keep,
                }),
            }
        }),
    );
    let words = db.default_keyspace();
    words.put("a", "1").unwrap();
    words.put("b", "2").unwrap();
    let error = db.compact().unwrap_err();
    assert!(error.to_string().contains("the rules are not loaded"), "{error}");
    assert!(asked.load(Ordering::Relaxed));
    assert_eq!(words.iter().count(), 2);
    words.put("c", "3").unwrap();
    fails.store(false, Ordering::Relaxed);
    db.compact().unwrap();
    assert_eq!(words.iter().count(), 2);
    assert!(words.get("a").unwrap().is_none());
}

/// Guards against log that takes space for as long as a compaction takes, though no replay needs
/// it any more.
#[test]
fn log_behind_the_head_goes_while_a_compaction_is_long() {
    let dir = common::dir();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let filter = by(move |_| {
        // Both fail once the test has ended them, and then nobody waits.
        let _ = begun.send(());
        let _ = may_go_on.lock().unwrap().recv();
        Ok(FilterDecision::Keep)
    });
    let options = Options { compaction_threads: 1, ..options(Separation::Off) };
    let builder = Db::builder(dir.path()).options(options);
    let db = builder.compaction_filter("default", filter).open().unwrap();
    let words = db.default_keyspace();
    let fill = || {
        for number in 0..100 {
            words.put(common::key(number), filled("value", 100)).unwrap();
        }
        db.flush().unwrap();
    };
    while has_begun.try_recv().is_err() {
        fill();
    }
    let dropped = db.stats().segments_dropped;
    while db.stats().segments_dropped == dropped {
        // What fills L0 (36 tables) is not written: it would wait for the compaction. A bound near
        // what may be there already would leave the log as it is for ever.
        std::thread::yield_now();
        if db.stats().keyspaces[0].levels[0].tables < 32 {
            fill();
        }
    }
    drop((go_on, has_begun));
    db.wait_idle().unwrap();
    assert_eq!(words.iter().count(), 100);
}

/// A compaction that a user asked for leaves nothing as it is because a job that began before, when
/// a snapshot still saw it, is about to write it again.
#[test]
fn a_compaction_waits_for_what_began_before_it() {
    for separation in MODES {
        let dir = common::dir();
        let (asked, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let waits = {
            let (asked, go, once) = (asked.clone(), go.clone(), OnceLock::new());
            by(move |entry| {
                if entry.key() == b"a new" && once.set(()).is_ok() {
                    asked.wait();
                    go.wait();
                }
                Ok(if entry.key() == b"z old" {
                    FilterDecision::Drop
                } else {
                    FilterDecision::Keep
                })
            })
        };
        let db = open(dir.path(), separation, waits);
        let keyspace = db.default_keyspace();
        keyspace.put("z old", "value").unwrap();
        let snapshot = db.snapshot();
        keyspace.put("a new", "value").unwrap();
        std::thread::scope(|scope| {
            // It keeps what the snapshot sees.
            let first = scope.spawn(|| db.compact().unwrap());
            asked.wait();
            drop(snapshot);
            let second = scope.spawn(|| db.compact().unwrap());
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            go.wait();
            first.join().unwrap();
            second.join().unwrap();
        });
        assert_eq!(keyspace.get("z old").unwrap(), None, "{separation:?}");
        assert!(keyspace.get("a new").unwrap().is_some());
    }
}
