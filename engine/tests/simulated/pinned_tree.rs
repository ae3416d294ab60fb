//! Tests of the tree in memory (`Options::pin_tree`): reads of a pinned tree read no table, and
//! whatever goes wrong while a table is loaded costs nobody more than that table's pin.

use crate::client::{inline_options, open, simulate, tiny_options};
use crate::script::value;
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation};
use cleavedb::{Codec, Db, ErrorKind, Event, EventListener, GcOptions, KeyspaceOptions, Options};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 4_000_000;
const KEYS: usize = 600;
const ENOUGH: u64 = 4 << 20;

fn key(number: usize) -> String {
    format!("k{number:04}")
}

/// Returns options with which nothing but pinned tables stays in memory.
fn options(pin_tree: u64, keyspace: KeyspaceOptions) -> Options {
    Options {
        max_index_and_filter_bytes: Some(0),
        cache_bytes: 0,
        pin_tree,
        keyspace,
        ..tiny_options()
    }
}

/// Returns options with which a flush makes one table, however much was put before, and nothing
/// merges it with others.
fn one_table_options(pin_tree: u64) -> Options {
    let keyspace = KeyspaceOptions {
        memtable_bytes: 8 << 20,
        table_bytes: 8 << 20,
        level0_trigger: 9,
        block_codec: Codec::None,
        ..inline_options()
    };
    let options = options(pin_tree, keyspace);
    // Without an allowance, a memtable is full with half of what a ceiling leaves to garbage.
    let gc = GcOptions { space_allowance_bytes: 64 << 20, ..options.gc.clone() };
    Options { max_replay_bytes: 64 << 20, gc, ..options }
}

/// Puts 6 MB with these options, and flushes them.
fn flush_large_table(db: &Db) {
    let value = vec![7; 60_000];
    (0..100).for_each(|number| db.default_keyspace().put(key(number), &value).unwrap());
    db.flush().unwrap();
}

/// Fills and closes a database with many tables, on several levels and in two keyspaces.
fn fill(env: &Env, keyspace: &KeyspaceOptions, len: usize) {
    let db = open(env, options(0, keyspace.clone()));
    let other = db.open_or_create_keyspace_with("other", inline_options()).unwrap();
    for number in 0..KEYS {
        db.default_keyspace().put(key(number), value(number, len)).unwrap();
        if number % 10 == 0 {
            other.put(key(number), value(number, 70)).unwrap();
        }
    }
    db.compact().unwrap();
    (0..KEYS).step_by(7).for_each(|number| {
        db.default_keyspace().put(key(number), value(number, len)).unwrap();
    });
    db.flush().unwrap();
    db.close().unwrap();
}

fn tables(simulation: &Simulation) -> Vec<PathBuf> {
    let is_table = |path: &PathBuf| path.extension().is_some_and(|it| it == "tbl");
    simulation.files().into_iter().filter(is_table).collect()
}

/// Lets every read of a table fail, and every opening of its file.
fn forbid_tables(simulation: &Simulation) {
    for call in [Call::Read, Call::Open] {
        simulation.fail(FaultPlan::new(call).on(".tbl").for_good());
    }
}

/// Walks over the keys in both directions; returns how many there are.
fn walk(db: &Db) -> cleavedb::Result<usize> {
    let mut cursor = db.default_keyspace().cursor()?;
    cursor.seek_to_first()?;
    let mut count = 0;
    while cursor.valid() {
        assert_eq!(cursor.key(), key(count).as_bytes());
        count += 1;
        cursor.next()?;
    }
    cursor.seek_to_last()?;
    let mut left = count;
    while cursor.valid() {
        left -= 1;
        assert_eq!(cursor.key(), key(left).as_bytes());
        cursor.prev()?;
    }
    assert_eq!(left, 0);
    Ok(count)
}

fn assert_values(db: &Db, len: usize) {
    for number in 0..KEYS {
        let found = db.default_keyspace().get(key(number)).unwrap();
        assert_eq!(found.unwrap(), value(number, len), "{number}");
        assert!(db.default_keyspace().get(format!("{}x", key(number))).unwrap().is_none());
    }
}

#[test]
fn a_pinned_tree_is_read_without_reading_a_table() {
    for read_only in [false, true] {
        simulate(11, STEPS, |env, simulation| {
            // Values of 300 bytes are separated, those of 90 are inline.
            for len in [90, 300] {
                fill(env, &tiny_options().keyspace, len);
                let pinned = options(ENOUGH, tiny_options().keyspace);
                let db = open(env, Options { read_only, ..pinned });
                if !read_only {
                    db.wait_idle().unwrap();
                }
                let stats = db.stats();
                assert_eq!(stats.pinned_tables as usize, tables(simulation).len());
                assert!(stats.pinned_tables > 2, "{}", stats.pinned_tables);
                assert_eq!((stats.unpinned_tables, stats.pinned_tree_missing_bytes), (0, 0));
                forbid_tables(simulation);
                assert_eq!(walk(&db).unwrap(), KEYS);
                assert_values(&db, len);
                let read = db.stats().block_reads;
                assert_eq!(read, stats.block_reads);
                simulation.clear_faults();
                db.close().unwrap();
            }
            // The same reads of a tree that is not pinned do read.
            let db = open(env, options(0, tiny_options().keyspace));
            forbid_tables(simulation);
            assert!(walk(&db).is_err());
            simulation.clear_faults();
            db.close().unwrap();
        });
    }
}

#[test]
fn what_jobs_write_is_pinned_within_the_size_of_the_tree() {
    simulate(12, STEPS, |env, simulation| {
        fill(env, &inline_options(), 120);
        let needed = {
            let db = open(env, options(ENOUGH, inline_options()));
            db.compact().unwrap();
            db.wait_idle().unwrap();
            let stats = db.stats();
            assert_eq!(stats.unpinned_tables, 0);
            db.close().unwrap();
            stats.pinned_tree_bytes
        };
        // A little more than the tree is not enough for the inputs and the outputs of a compaction.
        let bound = needed + needed / 8;
        let db = open(env, options(bound, inline_options()));
        for round in 0..3 {
            for number in 0..KEYS {
                db.default_keyspace().put(key(number), value(number, 120)).unwrap();
                assert!(db.stats().pinned_tree_bytes <= bound);
            }
            db.compact().unwrap();
            db.wait_idle().unwrap();
            let stats = db.stats();
            assert!(stats.pinned_tree_bytes <= bound);
            assert_eq!(stats.unpinned_tables, 0, "round {round}: {stats}");
        }
        forbid_tables(simulation);
        assert_eq!(walk(&db).unwrap(), KEYS);
        simulation.clear_faults();
        db.close().unwrap();
    });
}

/// Guards against loading what does not fit over and over: it would read the tree for nothing, at
/// the opening and after each job.
#[test]
fn a_small_bound_costs_few_reads_for_nothing() {
    let compressed = KeyspaceOptions { block_codec: Codec::Lz4, ..inline_options() };
    simulate(13, STEPS, |env, _| {
        fill(env, &compressed, 400);
        let whole = {
            let db = open(env, options(ENOUGH, compressed.clone()));
            // Nothing is left to merge, so the tree does not shrink below a bound later.
            db.compact().unwrap();
            db.wait_idle().unwrap();
            let stats = db.stats();
            db.close().unwrap();
            stats
        };
        for part in [1, 7, 40, 90] {
            let bound = whole.pinned_tree_bytes * part / 100;
            let db = open(env, options(bound, compressed.clone()));
            let stats = db.stats();
            assert!(stats.pinned_tree_bytes <= bound);
            assert!(stats.unpinned_tables > 0 && stats.pinned_tree_missing_bytes > 0);
            assert!(stats.pinned_tree_refusals <= 6, "{part}: {}", stats.pinned_tree_refusals);
            for _ in 0..20 {
                db.default_keyspace().put("k", "again").unwrap();
                db.flush().unwrap();
                db.wait_idle().unwrap();
            }
            let stats = db.stats();
            assert!(stats.pinned_tree_bytes <= bound);
            assert!(stats.pinned_tree_refusals <= 12, "{part}: {}", stats.pinned_tree_refusals);
            db.default_keyspace().delete("k").unwrap();
            db.close().unwrap();
        }
    });
}

#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        let is_pinning = matches!(
            event,
            Event::TreeLoading { .. } | Event::TreeLoaded { .. } | Event::TableNotPinned { .. }
        );
        if is_pinning {
            self.0.lock().unwrap().push(event.clone());
        }
    }
}

fn open_recording(env: &Env, options: Options) -> (Db, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let builder = Db::builder(crate::client::DIR).options(options).env(env.clone());
    (builder.event_listener(recorder.clone()).open().unwrap(), recorder)
}

#[test]
fn i07_a_damaged_block_is_an_error_of_its_reads_and_not_of_the_opening() {
    for read_only in [true, false] {
        simulate(14, STEPS, |env, simulation| read_damaged(env, simulation, read_only));
    }
}

fn read_damaged(env: &Env, simulation: &Simulation, read_only: bool) {
    fill(env, &inline_options(), 120);
    let path = tables(simulation).swap_remove(2);
    simulation.corrupt(&path, |bytes| bytes[100] ^= 1);
    let pinned = options(ENOUGH, inline_options());
    let (db, recorder) = open_recording(env, Options { read_only, ..pinned });
    // Whoever tries again would do so by now.
    env.threads.sleep(Duration::from_secs(10));
    let stats = db.stats();
    assert_eq!((stats.unpinned_tables, stats.unreadable_unpinned_tables), (0, 1));
    let told: Vec<_> = recorder.0.lock().unwrap().iter().map(of_failure).collect();
    let told: Vec<_> = told.into_iter().flatten().collect();
    assert_eq!(told, [(path.clone(), ErrorKind::Corruption)]);
    let mut errors = 0;
    for number in 0..KEYS {
        match db.default_keyspace().get(key(number)) {
            Ok(found) => assert_eq!(found.unwrap(), value(number, 120)),
            Err(error) => {
                let found = (error.kind(), error.file());
                assert_eq!(found, (ErrorKind::Corruption, Some(&*path)));
                errors += 1;
            }
        }
    }
    assert!(errors > 0, "nothing reads the damaged block");
    assert!(!db.check().unwrap().is_clean());
    db.close().unwrap();
}

fn of_failure(event: &Event) -> Option<(PathBuf, ErrorKind)> {
    match event {
        Event::TableNotPinned { table, error, .. } => Some((table.clone(), error.kind())),
        _ => None,
    }
}

#[test]
fn i07_a_check_reads_the_disk_although_the_tree_is_in_memory() {
    simulate(15, STEPS, |env, simulation| {
        fill(env, &inline_options(), 120);
        let db = open(env, options(ENOUGH, inline_options()));
        db.wait_idle().unwrap();
        assert!(db.check().unwrap().is_clean());
        let path = tables(simulation).swap_remove(2);
        simulation.corrupt(&path, |bytes| bytes[100] ^= 1);
        assert_values(&db, 120);
        assert!(!db.check().unwrap().is_clean());
        db.close().unwrap();
    });
}

#[test]
fn the_opening_tells_how_far_it_is_and_what_does_not_fit() {
    simulate(16, STEPS, |env, _| {
        fill(env, &inline_options(), 120);
        let (db, recorder) = open_recording(env, options(ENOUGH, inline_options()));
        let stats = db.stats();
        db.close().unwrap();
        let events = std::mem::take(&mut *recorder.0.lock().unwrap());
        let (last, before) = events.split_last().unwrap();
        assert!((2..=16).contains(&before.len()), "{events:?}");
        let mut seen = 0;
        for event in before {
            let Event::TreeLoading { done_bytes, all_bytes, .. } = event else {
                panic!("{event:?}");
            };
            assert!(seen < *done_bytes && done_bytes <= all_bytes);
            seen = *done_bytes;
        }
        let Event::TreeLoaded { tables, bytes, left_out, missing_bytes, .. } = last else {
            panic!("{last:?}");
        };
        assert_eq!((*left_out, *missing_bytes), (0, 0));
        assert_eq!((*tables, *bytes), (stats.pinned_tables, stats.pinned_tree_bytes));
        let half = bytes / 2;
        let (db, recorder) = open_recording(env, options(half, inline_options()));
        let events = std::mem::take(&mut *recorder.0.lock().unwrap());
        let loaded = events.iter().find_map(|event| match event {
            Event::TreeLoaded { left_out, missing_bytes, .. } => Some((*left_out, *missing_bytes)),
            _ => None,
        });
        let (left_out, missing) = loaded.unwrap();
        assert!(left_out > 0);
        assert!(missing > half * 3 / 4 && missing < half * 3 / 2, "{missing} of about {half}");
        assert!(db.stats().to_string().contains(" not fit, about "), "{}", db.stats());
        db.close().unwrap();
        // As much as was missing is enough.
        let (db, _) = open_recording(env, options(half + missing + 2048, inline_options()));
        assert_eq!(db.stats().unpinned_tables, 0);
        db.close().unwrap();
    });
}

/// Every reader that stands in a table keeps its pin, and the last one gives it back.
#[test]
fn what_left_the_tree_is_charged_until_its_last_reader_is_gone() {
    simulate(17, STEPS, |env, simulation| {
        fill(env, &inline_options(), 120);
        let db = open(env, options(ENOUGH, inline_options()));
        db.wait_idle().unwrap();
        let keyspace = db.default_keyspace();
        let mut cursor = keyspace.cursor().unwrap();
        cursor.seek_to_first().unwrap();
        let before = db.stats().pinned_tree_bytes;
        keyspace.delete_range(..).unwrap();
        db.keyspace("other").unwrap().delete_range(..).unwrap();
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.stats().pinned_tables, 0);
        let held = db.stats().pinned_tree_bytes;
        assert!(held > before / 2 && held <= before, "{held} of {before}");
        forbid_tables(simulation);
        let mut count = 0;
        while cursor.valid() {
            assert_eq!(cursor.value().unwrap(), value(count, 120));
            count += 1;
            cursor.next().unwrap();
        }
        assert_eq!(count, KEYS);
        simulation.clear_faults();
        drop(cursor);
        db.wait_idle().unwrap();
        assert_eq!(db.stats().pinned_tree_bytes, 0);
        db.close().unwrap();
    });
}

/// A table whose first blocks are much larger than the others was taken for one that is a hundred
/// times as large, and so were all others of its keyspace.
#[test]
fn a_table_that_begins_with_large_values_fits() {
    simulate(19, STEPS, |env, _| {
        let db = open(env, one_table_options(0));
        for number in 0..40 {
            db.default_keyspace().put(key(number), vec![7; 8000]).unwrap();
        }
        for number in 0..8000 {
            db.default_keyspace().put(format!("small{number:05}"), value(number, 20)).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        for read_only in [true, false] {
            let db = open(env, Options { read_only, ..one_table_options(2 << 20) });
            let stats = db.stats();
            assert_eq!((stats.pinned_tables, stats.pinned_tree_refusals), (1, 0), "{stats}");
            db.close().unwrap();
        }
    });
}

/// What was replaced while it was being loaded is not loaded to its end.
#[test]
fn a_table_that_leaves_the_tree_is_no_longer_loaded() {
    simulate(20, STEPS, |env, _| {
        let slow =
            Options { background_bytes_per_second: Some(1 << 20), ..one_table_options(64 << 20) };
        let db = open(env, slow);
        flush_large_table(&db);
        env.threads.sleep(Duration::from_millis(1000));
        assert_eq!(db.stats().pinned_tables, 0, "it is being loaded");
        let begun = env.clock.now();
        db.default_keyspace().delete_range(..).unwrap();
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert_eq!(db.stats().pinned_tree_bytes, 0, "{}", db.stats());
        let took = env.clock.since(begun);
        assert!(took.as_millis() < 3000, "{took:?}");
        db.close().unwrap();
    });
}

/// The background loads what jobs wrote at a pace that its budget allows; closing does not wait for
/// it.
#[test]
fn closing_ends_a_load_at_once() {
    simulate(18, STEPS, |env, _| {
        let slow =
            Options { background_bytes_per_second: Some(1 << 20), ..one_table_options(64 << 20) };
        let db = open(env, slow.clone());
        flush_large_table(&db);
        env.threads.sleep(Duration::from_millis(1500));
        let stats = db.stats();
        assert_eq!((stats.pinned_tables, stats.unpinned_tables), (0, 1), "it is being loaded");
        assert!(stats.pinned_tree_bytes > 0);
        let (begun, other) = (env.clock.now(), db.clone());
        db.close().unwrap();
        let took = env.clock.since(begun);
        assert!(took.as_millis() < 1000, "{took:?}");
        let stats = other.stats();
        assert_eq!((stats.pinned_tables, stats.pinned_tree_bytes), (0, 0), "it was given up");
        drop(other);
        let db = open(env, slow);
        assert_eq!(db.stats().unpinned_tables, 0);
        db.close().unwrap();
    });
}
