//! The change feed: every commit whole and in order, in each mode of separation, beside everything
//! else that the engine does; the log that is gone, and the log that is pinned.

use crate::common;
use cleavedb::{
    ChangeBatch, Changed, Changes, ChangesOptions, Codec, Db, Durability, ErrorKind, Expected,
    GcOptions, KeyChange, Keyspace, KeyspaceOptions, Options, ReadOptions, Separation, SeqNo,
    Snapshot, WriteBatch,
};
use common::rng::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

const POLICIES: [Separation; 4] =
    [Separation::AtWrite, Separation::AtFlush, Separation::Off, Separation::Auto];
/// Longer than any test waits for what happens at once.
const LONG: Duration = Duration::from_secs(60);

fn open(dir: &Path, separation: Separation) -> Db {
    common::open_with(dir, options(separation))
}

fn options(separation: Separation) -> Options {
    let keyspace =
        KeyspaceOptions { separation, value_codec: Codec::Lz4, ..common::tiny_keyspace() };
    Options { keyspace, ..common::tiny() }
}

/// What one change did, as it is expected: number, keyspace, key, and value with deadline.
type Expectation = (SeqNo, Option<String>, Vec<u8>, Option<(Vec<u8>, Option<u64>)>);

fn told(batch: &ChangeBatch) -> Vec<Expectation> {
    let told = |change: KeyChange<'_>| {
        let what = match change.what {
            Changed::Put { value, deadline } => {
                let millis = |at: std::time::SystemTime| {
                    at.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
                };
                Some((value.to_vec(), deadline.map(millis)))
            }
            Changed::Delete => None,
            other => panic!("{other:?} is not known here"),
        };
        (change.seqno, change.keyspace.map(str::to_owned), change.key.to_vec(), what)
    };
    batch.iter().map(told).collect()
}

fn drain(changes: &mut Changes) -> Vec<ChangeBatch> {
    std::iter::from_fn(|| changes.next_batch().unwrap()).collect()
}

/// What a store holds: the value of each key of each keyspace.
type Model = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn apply(model: &mut Model, batch: &ChangeBatch) {
    for change in batch {
        let key = (change.keyspace.expect("it is there").to_owned(), change.key.to_vec());
        match change.what {
            Changed::Put { value, .. } => drop(model.insert(key, value.to_vec())),
            Changed::Delete => drop(model.remove(&key)),
            other => panic!("{other:?} is not known here"),
        }
    }
}

fn contents(keyspaces: &[Keyspace], snapshot: &Snapshot) -> Model {
    let reading = ReadOptions::new().snapshot(snapshot);
    let of = |keyspace: &Keyspace| {
        let name = keyspace.name().to_owned();
        let pairs = keyspace.iter_with(&reading).map(|pair| pair.unwrap());
        pairs.map(|(key, value)| ((name.clone(), key), value.to_vec())).collect::<Vec<_>>()
    };
    keyspaces.iter().flat_map(of).collect()
}

fn put_many(keyspace: &Keyspace, versions: std::ops::Range<u64>) {
    for version in versions {
        for number in 0..50 {
            let key = common::key(number);
            keyspace.put(&key, common::value(&key, version, 300)).unwrap();
        }
    }
}

fn pinned() -> ChangesOptions {
    ChangesOptions::new().pin(true)
}

fn gone(changes: Result<Option<ChangeBatch>, cleavedb::Error>) -> String {
    let error = changes.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
    error.to_string()
}

#[test]
fn every_kind_of_commit_is_handed_out_with_its_numbers() {
    for separation in POLICIES {
        let dir = common::dir();
        let db = open(dir.path(), separation);
        let (one, two) = (db.default_keyspace(), db.create_keyspace("two").unwrap());
        let mut changes = db.changes(0).unwrap();
        assert!(changes.next_batch().unwrap().is_none());
        let large = vec![b'x'; 300 << 10];
        one.put("a", "1").unwrap();
        let deadline = 1 << 43;
        two.put_expiring("b", &large, UNIX_EPOCH + Duration::from_millis(deadline)).unwrap();
        let exchange = one.compare_and_set("a", Expected::Value(b"1"), "2").unwrap();
        assert!(exchange.is_done());
        let mut batch = WriteBatch::new();
        batch.put(&one, "c", vec![7; 999]).delete(&two, "b").put(&one, "c", "again");
        db.write(batch).unwrap();
        db.transact(|tx| {
            tx.get(&one, "c")?;
            tx.delete(&one, "c")?;
            tx.put(&two, "d", "4")
        })
        .unwrap();
        let name = |name: &str| Some(name.to_owned());
        let put = |value: &[u8]| Some((value.to_vec(), None));
        let batches: Vec<_> = drain(&mut changes).iter().map(told).collect();
        let expected = [
            vec![(1, name("default"), b"a".to_vec(), put(b"1"))],
            vec![(2, name("two"), b"b".to_vec(), Some((large, Some(deadline))))],
            vec![(3, name("default"), b"a".to_vec(), put(b"2"))],
            vec![
                (4, name("default"), b"c".to_vec(), put(&[7; 999])),
                (5, name("two"), b"b".to_vec(), None),
                (6, name("default"), b"c".to_vec(), put(b"again")),
            ],
            vec![
                (7, name("default"), b"c".to_vec(), None),
                (8, name("two"), b"d".to_vec(), put(b"4")),
            ],
        ];
        assert_eq!(batches.len(), expected.len(), "{separation:?}");
        for (found, expected) in batches.iter().zip(&expected) {
            let mut found = found.clone();
            // A transaction writes its keys in any order.
            if found.len() == 2 && found[0].1 != expected[0].1 {
                found.reverse();
                let numbers = found.iter().map(|it| it.0).rev().collect::<Vec<_>>();
                found.iter_mut().zip(numbers).for_each(|(it, number)| it.0 = number);
            }
            assert!(found == *expected, "{separation:?}");
        }
        assert_eq!(two.get_versioned("d").unwrap().unwrap().version, 8);
        assert_eq!((changes.position(), db.visible_seqno()), (8, 8));
        // Numbers within a batch hand it out whole.
        for since in 0..=8 {
            let firsts: Vec<_> = drain(&mut db.changes(since).unwrap())
                .iter()
                .map(ChangeBatch::first_seqno)
                .collect();
            let expected =
                [(1, 1), (2, 2), (3, 3), (4, 6), (7, 8)].into_iter().filter(|it| it.1 > since);
            assert_eq!(firsts, expected.map(|it| it.0).collect::<Vec<_>>(), "since {since}");
        }
    }
}

/// A consumer that pins the log replays it into a model, beside flushes, compactions, value GC,
/// reopenings and all, and at each snapshot's number the model is what the snapshot shows.
#[test]
fn a_pinned_consumer_has_at_each_number_what_a_snapshot_shows() {
    for separation in POLICIES {
        for seed in 0..6 {
            println!("{separation:?}, seed {seed}");
            follow(separation, seed);
        }
    }
}

fn follow(separation: Separation, seed: u64) {
    let dir = common::dir();
    let mut rng = Rng::new(seed);
    let (mut model, mut position) = (Model::new(), 0);
    for _session in 0..3 {
        let db = open(dir.path(), separation);
        let keyspaces = [db.default_keyspace(), db.open_or_create_keyspace("two").unwrap()];
        let options = pinned().visible(rng.below(2) == 0);
        let mut changes = match db.changes_with(position, &options) {
            Ok(changes) => changes,
            // What the last session left, its closing has folded or freed.
            Err(error) if error.kind() == ErrorKind::ChangesGone => {
                let changes = db.changes_with(db.visible_seqno(), &options).unwrap();
                model = contents(&keyspaces, &db.snapshot());
                changes
            }
            Err(error) => panic!("{error}"),
        };
        position = changes.position();
        for _ in 0..30 {
            for _ in 0..rng.below(60) {
                write(&db, &keyspaces, &mut rng);
            }
            match rng.below(8) {
                0 => db.flush().unwrap(),
                1 => db.compact().unwrap(),
                2 => drop(db.gc().unwrap()),
                3 => db.wait_idle().unwrap(),
                _ => {}
            }
            if rng.below(3) == 0 {
                let snapshot = db.snapshot();
                for batch in drain(&mut changes) {
                    assert_eq!(batch.first_seqno(), position + 1);
                    position = batch.last_seqno();
                    apply(&mut model, &batch);
                }
                assert_eq!(changes.position(), snapshot.seqno());
                assert!(model == contents(&keyspaces, &snapshot), "at {position}");
            }
        }
        position = changes.position();
        drop(changes);
        // The rest comes in the next session, if the log is still there.
        db.close().unwrap();
    }
}

fn write(db: &Db, keyspaces: &[Keyspace; 2], rng: &mut Rng) {
    let mut batch = WriteBatch::new();
    for _ in 0..=rng.below(4) {
        let keyspace = &keyspaces[rng.below(2)];
        let key = common::key(rng.below(60));
        if rng.below(4) == 0 {
            batch.delete(keyspace, &key);
        } else {
            let length = [10, 90, 300, 2000][rng.below(4)];
            batch.put(keyspace, &key, common::value(&key, rng.below(9) as u64, length));
        }
    }
    db.write(batch).unwrap();
}

#[test]
fn deleted_ranges_are_changes_with_both_ends() {
    let dir = common::dir();
    let db = open(dir.path(), Separation::AtWrite);
    let keyspace = db.default_keyspace();
    keyspace.delete_range("b".."d").unwrap();
    keyspace.delete_range(..="d").unwrap();
    keyspace.delete_range((Bound::Excluded("a"), Bound::Unbounded)).unwrap();
    let batches = drain(&mut db.changes(0).unwrap());
    let found: Vec<_> = batches.iter().map(|batch| batch.get(0).unwrap()).collect();
    let (a, b, d) = (&b"a"[..], &b"b"[..], &b"d"[..]);
    let expected = [
        (b, Bound::Included(b), Bound::Excluded(d)),
        (&b""[..], Bound::Unbounded, Bound::Included(d)),
        (a, Bound::Excluded(a), Bound::Unbounded),
    ];
    for (change, (key, lower, upper)) in found.iter().zip(expected) {
        assert_eq!((change.key, change.what), (key, Changed::DeleteRange { lower, upper }));
    }
    assert_eq!(found.len(), 3);
}

#[test]
fn what_is_gone_is_told_with_the_first_number_that_is_there() {
    for separation in POLICIES {
        let dir = common::dir();
        let db = open(dir.path(), separation);
        let keyspace = db.default_keyspace();
        keyspace.put("first", "").unwrap();
        let mut behind = db.changes(0).unwrap();
        behind.next_batch().unwrap().unwrap();
        put_many(&keyspace, 1..30);
        db.flush().unwrap();
        db.gc().unwrap();
        db.wait_idle().unwrap();
        // If the last flush has replaced all of the log, nothing else is left there.
        keyspace.put("last", "").unwrap();
        let oldest = db.changes(0).unwrap().position();
        assert!(oldest > 50, "{separation:?}: {oldest}");
        let told = gone(db.changes(1).map(|_| None));
        let expected = format!(
            "behind number 1 are gone from the log; the first that are still \
                                there begin with {}",
            oldest + 1
        );
        assert!(told.contains(&expected), "{told}");
        assert!(told.contains("snapshot"), "{told}");
        // The consumer keeps the segment that it is in, and no more.
        let mut next = 2;
        let told = loop {
            match behind.next_batch() {
                Ok(Some(batch)) => assert_eq!(batch.first_seqno(), next),
                other => break gone(other),
            }
            next += 1;
        };
        assert!(next > 3 && next <= oldest, "{next} of {oldest}");
        assert!(told.contains(&format!("behind number {} are gone", next - 1)), "{told}");
        assert!(told.contains(&format!("begin with {}", oldest + 1)), "{told}");
        assert_eq!(gone(behind.next_batch()), told, "it stays where it is");
        let rest = drain(&mut db.changes(oldest).unwrap());
        assert_eq!(rest.first().map(ChangeBatch::first_seqno), Some(oldest + 1));
        assert_eq!(rest.last().map(ChangeBatch::last_seqno), Some(db.visible_seqno()));
        behind.skip_to(oldest).unwrap();
        assert_eq!(drain(&mut behind).len(), rest.len());
    }
}

#[test]
fn i05_a_pin_keeps_the_log_and_the_space_report_says_so() {
    for separation in POLICIES {
        let dir = common::dir();
        let db = open(dir.path(), separation);
        let keyspace = db.default_keyspace();
        let mut changes = db.changes_with(0, &pinned()).unwrap();
        put_many(&keyspace, 1..30);
        db.flush().unwrap();
        db.gc().unwrap();
        db.compact().unwrap();
        db.wait_idle().unwrap();
        let space = db.space().unwrap();
        let holder = space.holders.iter().find(|holder| holder.kind == "changes").unwrap();
        assert!(holder.files > 0 && holder.file_bytes > 100 << 10, "{separation:?}: {holder:?}");
        assert!(space.warnings.is_empty(), "{:?}", space.warnings);
        assert_eq!((holder.seqno, db.holders().changes), (0, 1));
        let kept: Vec<_> = space.segments.iter().filter(|it| it.reason.contains("feed")).collect();
        assert!(kept.iter().all(|segment| !segment.sorted), "{kept:?}");
        // A second consumer finds what the first one keeps.
        assert_eq!(drain(&mut db.changes(0).unwrap()).len(), 1450);
        // What was handed out goes.
        for _ in 0..1400 {
            changes.next_batch().unwrap().unwrap();
        }
        db.wait_idle().unwrap();
        let later = db.space().unwrap();
        let after = later.holders.iter().find(|holder| holder.kind == "changes").unwrap();
        assert!(after.file_bytes < holder.file_bytes / 2, "{separation:?}: {after:?}");
        assert_eq!(after.seqno, 1400);
        assert_eq!(drain(&mut changes).len(), 50);
        drop(changes);
        db.wait_idle().unwrap();
        let space = db.space().unwrap();
        assert!(space.holders.is_empty(), "{:?}", space.holders);
        assert!(space.segments.iter().all(|segment| !segment.reason.contains("feed")));
        gone(db.changes(1).map(|_| None));
    }
}

/// A pin makes the ceiling unreachable. Writers go on, and value GC comes to rest.
#[test]
fn a_pin_holds_no_writer_up() {
    for separation in POLICIES {
        let dir = common::dir();
        let db = open(dir.path(), separation);
        let keyspace = db.default_keyspace();
        let mut changes = db.changes_with(0, &pinned()).unwrap();
        put_many(&keyspace, 1..100);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let before = db.stats().gc;
        db.wait_idle().unwrap();
        assert_eq!(db.stats().gc.liveness_scans, before.liveness_scans, "it rests");
        put_many(&keyspace, 100..110);
        assert_eq!(drain(&mut changes).len(), 109 * 50);
    }
}

/// Opens a database whose values are long, so that value GC punches rather than moves them; it does
/// so only when it is asked.
#[cfg(target_os = "linux")]
fn open_punching(dir: &Path) -> Db {
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    let (segment_bytes, max_replay_bytes) = (8 << 20, 64 << 20);
    let keyspace = common::separating(Some(64));
    let options = Options { gc, keyspace, segment_bytes, max_replay_bytes, ..common::tiny() };
    common::open_with(dir, options)
}

#[cfg(target_os = "linux")]
fn put_long(db: &Db, number: usize, version: u64) {
    let key = common::key(number);
    db.default_keyspace().put(&key, common::value(&key, version, 256 << 10)).unwrap();
}

/// Waits until the holes of a collection, of which there are some, were punched.
#[cfg(target_os = "linux")]
fn await_punches(db: &Db, report: &cleavedb::GcReport) {
    assert!(report.segments_punched > 0, "{report:?}");
    while db.stats().gc.segments_punched < report.segments_punched {
        db.wait_idle().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn i05_holes_are_never_handed_out_and_never_punched_under_a_pin() {
    for is_pinned in [false, true] {
        let dir = common::dir();
        let db = open_punching(dir.path());
        let put = |number, version| put_long(&db, number, version);
        (0..64).for_each(|number| put(number, 1));
        let mut changes = db.changes_with(0, &ChangesOptions::new().pin(is_pinned)).unwrap();
        (0..3).for_each(|_| drop(changes.next_batch().unwrap().unwrap()));
        (0..64).filter(|number| number % 4 != 0).for_each(|number| put(number, 2));
        db.flush().unwrap();
        let report = db.gc().unwrap();
        db.wait_idle().unwrap();
        if is_pinned {
            assert_eq!((report.segments_punched, db.stats().gc.punches), (0, 0), "{report:?}");
            assert_eq!(drain(&mut changes).len(), 64 + 48 - 3);
            drop(changes);
            assert!(db.gc().unwrap().segments_punched > 0);
            continue;
        }
        await_punches(&db, &report);
        let mut numbers = Vec::new();
        let told = loop {
            match changes.next_batch() {
                Ok(Some(batch)) => {
                    let change = batch.iter().next().unwrap();
                    let key = common::key(change.seqno as usize - 1);
                    let value = common::value(&key, 1, 256 << 10);
                    assert!(change.what == Changed::Put { value: &value, deadline: None });
                    numbers.push(change.seqno);
                }
                other => break gone(other),
            }
        };
        assert!(numbers.len() < 60, "{numbers:?}");
        assert!(told.contains("begin with"), "{told}");
        // A new consumer is told at once.
        gone(db.changes(3).map(|_| None));
        let rest = drain(&mut db.changes(0).unwrap());
        assert_eq!(rest.last().map(ChangeBatch::last_seqno), Some(db.visible_seqno()));
    }
}

/// A segment that was punched and has left the version afterwards, while a consumer stands in it:
/// its holes are in no version any more, and were taken for damage.
#[cfg(target_os = "linux")]
#[test]
fn what_was_punched_and_moved_away_is_gone_and_not_damaged() {
    let dir = common::dir();
    let db = open_punching(dir.path());
    let put = |number, version| put_long(&db, number, version);
    (0..64).for_each(|number| put(number, 1));
    let mut changes = db.changes(0).unwrap();
    (0..3).for_each(|_| drop(changes.next_batch().unwrap().unwrap()));
    (0..64).filter(|number| number % 4 != 0).for_each(|number| put(number, 2));
    db.flush().unwrap();
    let report = db.gc().unwrap();
    await_punches(&db, &report);
    // The rest dies, and with it every segment that is not being written.
    (0..64).for_each(|number| put(number, 3));
    db.compact().unwrap();
    db.gc().unwrap();
    db.wait_idle().unwrap();
    assert!(db.changes(0).unwrap().position() > 64, "the segments of the first puts have left");
    let told = loop {
        match changes.next_batch() {
            Ok(Some(batch)) => assert!(batch.last_seqno() < 64),
            other => break gone(other),
        }
    };
    assert!(told.contains("begin with"), "{told}");
}

#[test]
fn who_waits_is_woken_by_the_commit() {
    let dir = common::dir();
    let db = open(dir.path(), Separation::AtWrite);
    let (ping, pong) = (db.create_keyspace("ping").unwrap(), db.create_keyspace("pong").unwrap());
    let here = ChangesOptions::new().visible(true);
    let mut to_pong = db.changes_with(0, &here).unwrap();
    let mut to_ping = db.changes_with(0, &here).unwrap();
    const ROUNDS: u64 = 3000;
    let wait = |changes: &mut Changes, keyspace: &str, round: u64| {
        loop {
            // Without a wake-up the wait takes its time, and finds the batch nevertheless.
            let begun = Instant::now();
            let batch = changes.wait_batch(LONG).unwrap().expect("it was committed");
            assert!(begun.elapsed() < LONG, "a wake-up was lost");
            let change = batch.iter().next().unwrap();
            if change.keyspace == Some(keyspace) {
                assert_eq!(change.key, round.to_be_bytes());
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                wait(&mut to_pong, "ping", round);
                pong.put(round.to_be_bytes(), "").unwrap();
            }
        });
        for round in 0..ROUNDS {
            ping.put(round.to_be_bytes(), "").unwrap();
            wait(&mut to_ping, "pong", round);
        }
    });
    assert!(to_ping.wait_batch(Duration::from_millis(2)).unwrap().is_none());
}

#[test]
fn closing_ends_the_wait() {
    for read_only in [false, true] {
        let dir = common::dir();
        open(dir.path(), Separation::AtWrite).close().unwrap();
        let options = Options { read_only, ..options(Separation::AtWrite) };
        let db = common::open_with(dir.path(), options);
        let mut changes = db.changes(0).unwrap();
        let waiting = std::thread::spawn(move || {
            let ended = changes.wait_batch(LONG).map(|_| ());
            (ended, changes.next_batch().map(|_| ()), changes.skip_to(0))
        });
        // Whether it waits already makes no difference.
        std::thread::yield_now();
        let begun = std::time::Instant::now();
        db.close().unwrap();
        let (ended, next, skipped) = waiting.join().unwrap();
        assert!(begun.elapsed() < LONG / 2, "closing did not end the wait");
        for outcome in [ended, next, skipped] {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Closed);
        }
    }
}

#[test]
fn only_what_is_durable_is_handed_out_unless_asked() {
    let dir = common::dir();
    let options = Options { durability: Durability::Buffered, ..options(Separation::AtWrite) };
    let db = common::open_with(dir.path(), options);
    let keyspace = db.default_keyspace();
    let mut here = db.changes_with(0, &ChangesOptions::new().visible(true)).unwrap();
    let mut durable = db.changes(0).unwrap();
    keyspace.put("a", "1").unwrap();
    keyspace.put("b", "2").unwrap();
    let syncs = || db.stats().log_syncs;
    let before = syncs();
    assert_eq!(drain(&mut here).len(), 2);
    assert_eq!(syncs(), before, "what is visible needs no sync");
    assert_eq!(durable.next_batch().unwrap().unwrap().last_seqno(), 1);
    assert_eq!(syncs(), before + 1);
    assert_eq!(durable.next_batch().unwrap().unwrap().last_seqno(), 2);
    assert!(durable.next_batch().unwrap().is_none());
    assert_eq!(syncs(), before + 1, "one sync for all that was committed");
    // What a consumer says that it has, from a snapshot perhaps, is made durable too.
    keyspace.put("c", "3").unwrap();
    drop(db.changes_with(3, &ChangesOptions::new().visible(true)).unwrap());
    assert_eq!(syncs(), before + 1);
    drop(db.changes(3).unwrap());
    assert_eq!(syncs(), before + 2);
    keyspace.put("d", "4").unwrap();
    durable.skip_to(4).unwrap();
    assert_eq!(syncs(), before + 3);
}

#[test]
fn a_consumer_goes_on_in_the_next_session() {
    for separation in POLICIES {
        let dir = common::dir();
        let mut position = 0;
        for session in 0..5_u64 {
            let db = open(dir.path(), separation);
            let keyspace = db.default_keyspace();
            let mut changes = db.changes(position).unwrap();
            let mut numbers: Vec<_> = drain(&mut changes).iter().map(told).collect();
            keyspace.put("now", session.to_string()).unwrap();
            numbers.extend(drain(&mut changes).iter().map(told));
            let expected = if session == 0 { 1 } else { 2 };
            assert_eq!(numbers.len(), expected, "{separation:?}: {numbers:?}");
            position = changes.position();
            assert_eq!(position, db.visible_seqno());
            keyspace.put("later", session.to_string()).unwrap();
            drop(changes);
            db.close().unwrap();
        }
        let read_only = Options { read_only: true, ..options(separation) };
        let db = common::open_with(dir.path(), read_only);
        assert_eq!(drain(&mut db.changes(position).unwrap()).len(), 1);
    }
}

#[test]
fn changes_of_a_dropped_keyspace_have_its_id_and_no_name() {
    let dir = common::dir();
    let db = open(dir.path(), Separation::AtWrite);
    let (one, two) = (db.default_keyspace(), db.create_keyspace("two").unwrap());
    let mut changes = db.changes(0).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&one, "a", "1").put(&two, "b", "2");
    db.write(batch).unwrap();
    two.put("c", "3").unwrap();
    let first = changes.next_batch().unwrap().unwrap();
    let id = first.iter().nth(1).unwrap().keyspace_id;
    db.drop_keyspace("two").unwrap();
    let again = db.create_keyspace("two").unwrap();
    again.put("d", "4").unwrap();
    let of = |batch: &ChangeBatch| {
        let named = |it: KeyChange<'_>| (it.keyspace.map(str::to_owned), it.keyspace_id);
        batch.iter().map(named).collect::<Vec<_>>()
    };
    assert_eq!(of(&first)[1], (Some("two".to_owned()), id));
    assert_eq!(of(&changes.next_batch().unwrap().unwrap()), [(None, id)]);
    let last = of(&changes.next_batch().unwrap().unwrap());
    assert!(last[0].0.as_deref() == Some("two") && last[0].1 != id, "{last:?}");
    let first = drain(&mut db.changes(0).unwrap()).remove(0);
    assert_eq!(of(&first)[1], (None, id), "the batch is whole all the same");
}

#[test]
fn a_number_ahead_of_the_database_is_refused() {
    let dir = common::dir();
    let db = open(dir.path(), Separation::AtWrite);
    db.default_keyspace().put("a", "1").unwrap();
    let told = gone(db.changes(2).map(|_| None));
    assert!(told.contains("number 2 is ahead of the database, whose newest is 1"), "{told}");
    let mut changes = db.changes(1).unwrap();
    gone(changes.skip_to(9).map(|()| None));
    changes.skip_to(0).unwrap();
    assert_eq!(changes.position(), 1);
    assert!(changes.next_batch().unwrap().is_none());
}

/// Many consumers beside many writers: each gets every number once, and each batch whole.
#[test]
fn i01_consumers_beside_writers_get_whole_batches() {
    for separation in POLICIES {
        let dir = common::dir();
        let db = open(dir.path(), separation);
        let keyspace = db.default_keyspace();
        const WRITERS: u64 = 3;
        const BATCHES: u64 = 300;
        const ALL: u64 = WRITERS * BATCHES * 3;
        std::thread::scope(|scope| {
            for consumer in 0..3 {
                let options = pinned().visible(consumer != 0);
                let mut changes = db.changes_with(0, &options).unwrap();
                scope.spawn(move || {
                    let mut next = 1;
                    while next <= ALL {
                        let batch = changes.wait_batch(LONG).unwrap().expect("more is coming");
                        assert_eq!((batch.first_seqno(), batch.len()), (next, 3));
                        let key = batch.iter().next().unwrap().key.to_vec();
                        assert!(batch.iter().all(|change| change.key[1..] == key[1..]));
                        next += 3;
                    }
                });
            }
            for writer in 0..WRITERS {
                let (db, keyspace) = (&db, &keyspace);
                scope.spawn(move || {
                    for number in 0..BATCHES {
                        let mut batch = WriteBatch::new();
                        for part in 0..3 {
                            let key = format!("{part}{writer}-{number}");
                            batch.put(keyspace, &key, common::value(&key, 1, 200));
                        }
                        db.write(batch).unwrap();
                    }
                });
            }
        });
    }
}
