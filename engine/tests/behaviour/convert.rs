//! Conversion: after the settings of a keyspace have changed, stored values move to where they say.

use crate::common;
use cleavedb::{
    Codec, ConvertOptions, ConvertReport, Db, ErrorKind, Expiry, GcOptions, Keyspace,
    KeyspaceOptions, Options, ReadOptions, Separation, WriteOptions, merge_operators,
};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Returns settings as [`common::separating`] does, with which only conversions move values.
fn separating(threshold: Option<usize>) -> KeyspaceOptions {
    KeyspaceOptions { convert_in_compactions: false, ..common::separating(threshold) }
}

/// Returns all policies with thresholds that put other values apart.
fn settings() -> Vec<KeyspaceOptions> {
    let of = |separation, separation_threshold| KeyspaceOptions {
        separation,
        separation_threshold,
        ..separating(None)
    };
    let mut all = vec![of(Separation::Off, 100)];
    for threshold in [0, 100, 1000] {
        all.push(of(Separation::AtWrite, threshold));
        all.push(of(Separation::AtFlush, threshold));
    }
    all
}

/// Returns options without automatic GC, so that only conversions move values.
fn options(keyspace: KeyspaceOptions) -> Options {
    let gc = GcOptions { automatic: false, max_space_amplification: 100.0, ..GcOptions::default() };
    Options { gc, keyspace, ..common::tiny() }
}

fn open(dir: &Path, keyspace: KeyspaceOptions) -> Db {
    common::open_with(dir, options(keyspace))
}

fn separates(settings: &KeyspaceOptions, bytes: usize) -> bool {
    settings.separation != Separation::Off && bytes >= settings.separation_threshold
}

/// Returns the number of records that tables reference.
fn separated(db: &Db) -> u64 {
    db.stats().segments.iter().map(|segment| segment.referenced_records).sum()
}

/// The length of the value of a key, with some at the thresholds.
fn length(number: usize) -> usize {
    [number * 9, 100, 99, 1000, 999, 1200][number % 6].max(1)
}

fn sorted_tables(keyspace: &Keyspace) -> Vec<u64> {
    let mut ids: Vec<u64> = keyspace.tables().iter().map(|table| table.id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn values_move_to_where_each_pair_of_settings_says() {
    const KEYS: usize = 150;
    for before in settings() {
        for after in settings() {
            let place = format!(
                "{:?} {} to {:?} {}",
                before.separation,
                before.separation_threshold,
                after.separation,
                after.separation_threshold
            );
            let dir = common::dir();
            let db = open(dir.path(), before.clone());
            let default = db.default_keyspace();
            (0..KEYS).for_each(|number| {
                common::put_value(&default, number * 77 % KEYS, 1, length(number * 77 % KEYS))
            });
            db.flush().unwrap();
            let of = |settings: &KeyspaceOptions| {
                let count = (0..KEYS).filter(|number| separates(settings, length(*number)));
                count.count() as u64
            };
            assert_eq!(separated(&db), of(&before), "{place}");
            default.set_options(after.clone()).unwrap();
            let report = default.convert().unwrap();
            let moves = |from: &KeyspaceOptions, to: &KeyspaceOptions| {
                let moves = |number: &usize| {
                    separates(from, length(*number)) && !separates(to, length(*number))
                };
                (0..KEYS).filter(moves).count() as u64
            };
            let wanted = (moves(&before, &after), moves(&after, &before), 0);
            let found = (report.values_moved_in, report.values_moved_out, report.damaged_values);
            assert_eq!(found, wanted, "{place}");
            assert_eq!(separated(&db), of(&after), "{place}");
            (0..KEYS).for_each(|number| common::expect_value(&default, number, 1, length(number)));
            assert!(db.check().unwrap().is_clean(), "{place}");
            db.wait_idle().unwrap();
            let tables = sorted_tables(&default);
            let again = default.convert().unwrap();
            assert_eq!((again.bytes_written, again.values_moved_in), (0, 0), "{place}");
            assert_eq!(sorted_tables(&default), tables, "{place}");
            drop(default);
            db.close().unwrap();
            let db = open(dir.path(), before.clone());
            let default = db.default_keyspace();
            (0..KEYS).for_each(|number| common::expect_value(&default, number, 1, length(number)));
            assert_eq!(default.options().separation, after.separation);
            assert_eq!(default.convert().unwrap().bytes_written, 0, "{place}");
        }
    }
}

#[test]
fn i06_what_snapshots_see_and_what_is_deleted_stays() {
    for before in [separating(Some(100)), separating(None)] {
        for after in [separating(None), separating(Some(100)), separating(Some(400))] {
            let dir = common::dir();
            let db = open(dir.path(), before.clone());
            let default = db.default_keyspace();
            let mut snapshots = Vec::new();
            for version in 1..=4 {
                (0..120).for_each(|number| {
                    common::put_value(&default, number, version, number * 7 + 1)
                });
                default.delete_range(common::key(20)..common::key(30)).unwrap();
                (40..50).for_each(|number| default.delete(common::key(number)).unwrap());
                if version == 3 {
                    db.compact().unwrap();
                }
                snapshots.push((db.snapshot(), common::pairs(&default)));
            }
            default.set_options(after.clone()).unwrap();
            let report = default.convert().unwrap();
            let moved = report.values_moved_in + report.values_moved_out;
            assert_eq!(moved > 50, before != after, "{report:?}");
            for (snapshot, wanted) in &snapshots {
                let then = ReadOptions::new().snapshot(snapshot);
                let found = default.iter_with(&then).map(|pair| pair.unwrap());
                assert!(found.map(|(key, value)| (key, value.into_vec())).eq(wanted.clone()));
            }
            assert!(common::pairs(&default) == snapshots[3].1);
            drop(snapshots);
            db.compact().unwrap();
            db.gc().unwrap();
            assert!(common::pairs(&default).len() == 100);
            assert!(db.check().unwrap().is_clean());
            assert_eq!(default.convert().unwrap().bytes_written, 0);
        }
    }
}

#[test]
fn deadlines_and_operands_move_with_their_values() {
    let merge_operator = Some(merge_operators::APPEND.to_owned());
    for (before, after) in
        [(separating(Some(100)), separating(None)), (separating(None), separating(Some(100)))]
    {
        let dir = common::dir();
        let db = open(dir.path(), before.clone());
        let default = db.default_keyspace();
        let names = KeyspaceOptions { merge_operator: merge_operator.clone(), ..before };
        let names = db.create_keyspace_with("names", names).unwrap();
        let hour = Expiry::After(Duration::from_secs(3600));
        for number in 0..60 {
            let key = common::key(number);
            let expiring = WriteOptions::new().expiry(hour);
            default.put_with(&key, common::value(&key, 1, 300), &expiring).unwrap();
            names.merge(&key, vec![b'a'; 200]).unwrap();
        }
        db.flush().unwrap();
        // These operands are in other tables than what they are appended to.
        (0..60).for_each(|number| names.merge(common::key(number), vec![b'b'; 150]).unwrap());
        db.flush().unwrap();
        let left = default.ttl(common::key(7)).unwrap();
        default.set_options(after.clone()).unwrap();
        let options = KeyspaceOptions { merge_operator: merge_operator.clone(), ..after };
        names.set_options(options).unwrap();
        let report = db.convert().unwrap();
        assert!(report.values_moved_in + report.values_moved_out >= 60, "{report:?}");
        for number in 0..60 {
            common::expect_value(&default, number, 1, 300);
            let merged = names.get(common::key(number)).unwrap().unwrap();
            assert_eq!(&merged[..], [[b'a'; 200].as_slice(), &[b'b'; 150]].concat());
        }
        let still = default.ttl(common::key(7)).unwrap();
        assert!(format!("{still:?}").starts_with(&format!("{left:?}")[..8]), "{left:?} {still:?}");
        assert_eq!(db.convert().unwrap().bytes_written, 0);
        assert!(db.check().unwrap().is_clean());
    }
}

/// Guards against sizes that are taken from pointers: those of compressed values are smaller.
#[test]
fn compressed_values_go_by_their_full_size() {
    let dir = common::dir();
    let settings = KeyspaceOptions { value_codec: Codec::Lz4, ..separating(Some(600)) };
    let settings = KeyspaceOptions { value_compression_min_bytes: 10, ..settings };
    let db = open(dir.path(), settings.clone());
    let default = db.default_keyspace();
    (0..50).for_each(|number| default.put(common::key(number), vec![b'z'; 590 + number]).unwrap());
    db.flush().unwrap();
    assert_eq!(separated(&db), 40);
    assert_eq!(default.convert().unwrap().bytes_written, 0, "all is at home");
    for (threshold, moved) in [(620, (20, 0)), (601, (0, 19)), (591, (0, 10)), (1, (0, 1))] {
        let settings = KeyspaceOptions { separation_threshold: threshold, ..settings.clone() };
        default.set_options(settings).unwrap();
        let report = default.convert().unwrap();
        assert_eq!((report.values_moved_in, report.values_moved_out), moved, "{threshold}");
        assert_eq!(default.convert().unwrap().bytes_written, 0, "{threshold}");
        for number in 0..50 {
            let value = default.get(common::key(number)).unwrap().unwrap();
            assert_eq!(&value[..], vec![b'z'; 590 + number], "{threshold}");
        }
    }
    // They are compressed where they went.
    let bytes: u64 = db.stats().segments.iter().map(|segment| segment.referenced_bytes).sum();
    assert!(bytes < 50 * 100, "{bytes}");
}

/// A replay leaves compressed values in the log whatever the settings are. A conversion takes them
/// out of it.
#[test]
fn what_a_replay_left_in_the_log_comes_in() {
    let dir = common::dir();
    let settings = KeyspaceOptions { value_codec: Codec::Lz4, ..separating(Some(100)) };
    let db = open(dir.path(), settings.clone());
    let default = db.default_keyspace();
    (0..10).for_each(|number| default.put([number], [number; 20_000]).unwrap());
    default.set_options(KeyspaceOptions { value_codec: Codec::Lz4, ..separating(None) }).unwrap();
    db.sync().unwrap();
    drop((default, db));
    let db = open(dir.path(), settings);
    let default = db.default_keyspace();
    assert_eq!(default.convert().unwrap().values_moved_in, 10);
    assert_eq!(separated(&db), 0);
    (0..10).for_each(|number| {
        assert_eq!(default.get([number]).unwrap().unwrap(), [number; 20_000]);
    });
}

/// Fills a store with values in the log, merges its tables into few large ones, and asks for
/// inline values.
fn to_be_inlined(dir: &Path) -> (Db, Keyspace) {
    let settings = KeyspaceOptions { table_bytes: 1 << 20, ..separating(Some(100)) };
    let db = open(dir, settings.clone());
    let default = db.default_keyspace();
    (0..KEYS).for_each(|number| common::put_value(&default, number * 77 % KEYS, 1, 1000));
    db.compact().unwrap();
    assert!(default.tables().len() <= 2, "{}", default.tables().len());
    default.set_options(KeyspaceOptions { separation: Separation::Off, ..settings }).unwrap();
    (db, default)
}

const KEYS: usize = 300;

/// A table of pointers may lead to values of any size, which must neither be moved at once nor
/// become durable at once.
#[test]
fn a_table_with_many_values_is_converted_piece_by_piece() {
    let dir = common::dir();
    let (db, default) = to_be_inlined(dir.path());
    let told = Arc::new(Mutex::new((0, 0)));
    let options = ConvertOptions::new().on_progress({
        let told = told.clone();
        move |pass| *told.lock().unwrap() = (pass.done_bytes, pass.all_bytes)
    });
    let report = default.convert_with(&options).unwrap();
    assert_eq!(report.values_moved_in, KEYS as u64);
    // Segments have 16 KiB here.
    assert!((15..=20).contains(&report.pieces), "{report:?}");
    let (done, all) = *told.lock().unwrap();
    assert!(done == all && all > KEYS as u64 * 1000, "{done} of {all}");
    (0..KEYS).for_each(|number| common::expect_value(&default, number, 1, 1000));
    assert_eq!(separated(&db), 0);
}

/// Guards against a conversion that begins anew: what the first call had moved is not written
/// again.
#[test]
fn i04_what_is_converted_is_passed_over_by_the_next_call() {
    let dir = common::dir();
    let (db, default) = to_be_inlined(dir.path());
    let closing = Mutex::new(Some(db.clone()));
    let pieces = AtomicUsize::new(0);
    let options = ConvertOptions::new().on_progress(move |_| {
        if pieces.fetch_add(1, Ordering::Relaxed) == 7 {
            closing.lock().unwrap().take().unwrap().close().unwrap();
        }
    });
    assert_eq!(default.convert_with(&options).unwrap_err().kind(), ErrorKind::Closed);
    drop((db, default, options));
    let db = open(dir.path(), common::tiny_keyspace());
    let default = db.default_keyspace();
    assert_eq!(default.options().separation, Separation::Off);
    let left = separated(&db);
    assert!((20..KEYS as u64 - 50).contains(&left), "{left} are left");
    let report = default.convert().unwrap();
    assert_eq!(report.values_moved_in, left);
    // Beside the values that were left, it may write those of the table that was half done.
    let ConvertReport { bytes_written, .. } = report;
    let most = (left + 50) * 1100 + 100_000;
    assert!(bytes_written < most, "{bytes_written} bytes for {left} values");
    db.wait_idle().unwrap();
    let tables = sorted_tables(&default);
    assert_eq!(default.convert().unwrap(), ConvertReport::default());
    assert_eq!(sorted_tables(&default), tables);
    (0..KEYS).for_each(|number| common::expect_value(&default, number, 1, 1000));
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn segments_go_at_once_when_nothing_in_them_is_live() {
    let dir = common::dir();
    let (db, default) = to_be_inlined(dir.path());
    let before = common::bytes_of(dir.path(), ".seg");
    assert!(before > KEYS as u64 * 1000);
    default.convert().unwrap();
    db.wait_idle().unwrap();
    let after = common::bytes_of(dir.path(), ".seg");
    assert!(after < before / 4, "{after} bytes of segments after {before}");
}

#[test]
fn a_damaged_value_stays_and_is_counted() {
    let dir = common::dir();
    let (db, default) = to_be_inlined(dir.path());
    drop(default);
    db.close().unwrap();
    let segment = &common::files(dir.path(), ".seg")[0];
    let mut bytes = std::fs::read(segment).unwrap();
    bytes[3000] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let db = open(dir.path(), common::tiny_keyspace());
    let default = db.default_keyspace();
    let report = default.convert().unwrap();
    assert_eq!(report.values_moved_in, KEYS as u64 - 1);
    assert!(report.damaged_values > 0, "{report:?}");
    let damaged: Vec<_> = (0..KEYS).filter(|it| default.get(common::key(*it)).is_err()).collect();
    assert_eq!(damaged.len(), 1);
    let error = default.get(common::key(damaged[0])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn values_move_under_writers_compactions_and_value_gc() {
    const ROUNDS: u64 = 6;
    let dir = common::dir();
    let db = common::open_with(dir.path(), Options { ..common::tiny() });
    let default = db.default_keyspace();
    (0..200).for_each(|number| common::put_value(&default, number, 1, 500));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for version in 2..=40 {
                (0..100).for_each(|number| common::put_value(&default, number, version, 500));
                (100..110).for_each(|number| default.delete(common::key(number)).unwrap());
            }
        });
        let collector = scope.spawn(|| {
            for _ in 0..ROUNDS {
                db.gc().unwrap();
                db.compact().unwrap();
            }
        });
        let reader = scope.spawn(|| {
            for _ in 0..20 {
                (150..200).for_each(|number| common::expect_value(&default, number, 1, 500));
            }
        });
        for round in 0..ROUNDS {
            let threshold = if round % 2 == 0 { None } else { Some(100) };
            default.set_options(separating(threshold)).unwrap();
            assert_eq!(default.convert().unwrap().damaged_values, 0);
        }
        for thread in [writer, collector, reader] {
            thread.join().unwrap();
        }
    });
    default.set_options(separating(None)).unwrap();
    db.compact().unwrap();
    default.convert().unwrap();
    assert_eq!(separated(&db), 0);
    (0..100).for_each(|number| common::expect_value(&default, number, 40, 500));
    (110..200).for_each(|number| common::expect_value(&default, number, 1, 500));
    assert_eq!(common::pairs(&default).len(), 190);
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn a_conversion_is_refused_where_nothing_may_be_written() {
    let dir = common::dir();
    let db = common::open(dir.path());
    common::put_value(&db.default_keyspace(), 1, 1, 500);
    db.close().unwrap();
    let db = common::open_with(dir.path(), Options { read_only: true, ..common::tiny() });
    assert_eq!(db.convert().unwrap_err().kind(), ErrorKind::ReadOnly);
    let kind = db.default_keyspace().convert().unwrap_err().kind();
    assert_eq!(kind, ErrorKind::ReadOnly);
}
