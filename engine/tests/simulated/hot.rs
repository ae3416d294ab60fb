//! Tests of hot-update awareness: what the update table knows changes how reads and compactions go
//! about their work, and never what a reader sees.

use crate::client::{inline_options, open, simulate, tiny_options};
use cleavedb::env::sim::{Call, FaultPlan};
use cleavedb::{Db, KeyspaceOptions, Options, ReadOptions, ScoredTable, Snapshot, StaleTrigger};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 2_000_000;
const HOT_KEYS: u64 = 8;

fn key(number: u64) -> String {
    format!("hot{}", number % HOT_KEYS)
}

/// Returns options with which everything is inline and early compaction is eager.
fn options() -> Options {
    Options {
        early_compaction: StaleTrigger::Entries(1),
        keyspace: inline_options(),
        ..tiny_options()
    }
}

/// Writes keys once each, and overwrites a hot key with a greater number at one in `rare` of them.
fn write(db: &Db, writes: u64, rare: u64) {
    let keyspace = db.default_keyspace();
    for number in 0..writes {
        if number.is_multiple_of(rare) {
            keyspace.put(key(number / rare), number.to_string()).unwrap();
        }
        keyspace.put(format!("once{:05}", number * 7 % writes), [7; 10]).unwrap();
    }
}

/// Overwrites each hot key once with a number from `first` on.
fn write_hot(db: &Db, first: u64) {
    let keyspace = db.default_keyspace();
    (0..HOT_KEYS).for_each(|hot| keyspace.put(key(hot), (first + hot).to_string()).unwrap());
}

fn read(db: &Db, hot: u64, options: &ReadOptions) -> u64 {
    let found = db.default_keyspace().get_with(key(hot), options).unwrap();
    found.map_or(0, |value| String::from_utf8_lossy(&value).parse().unwrap())
}

/// Guards that the update table hears of a flushed entry before readers can see its table: else a
/// reader finds the entry in its memtable first, and then an older one by the short cut.
#[test]
fn i06_no_reader_goes_back_while_entries_are_flushed_and_moved() {
    let (mut short_cuts, mut dropped) = (0, 0);
    for seed in 0..8 {
        simulate(seed, STEPS, |env, _| {
            let db = open(env, options());
            let (reader, over) = (db.clone(), Arc::new(AtomicBool::new(false)));
            let is_over = over.clone();
            let body = move || {
                let mut seen = [0; HOT_KEYS as usize];
                let mut before: Option<(Snapshot, [u64; HOT_KEYS as usize])> = None;
                for turn in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    let hot = turn % HOT_KEYS;
                    let number = read(&reader, hot, &ReadOptions::default());
                    let last = &mut seen[hot as usize];
                    assert!(number >= *last, "{} after {last}", number);
                    *last = number;
                    if let Some((snapshot, then)) = &before {
                        let options = ReadOptions::new().snapshot(snapshot);
                        assert_eq!(read(&reader, hot, &options), then[hot as usize]);
                    }
                    if turn % 40 == 0 {
                        let snapshot = reader.snapshot();
                        let options = ReadOptions::new().snapshot(&snapshot);
                        let then = std::array::from_fn(|hot| read(&reader, hot as u64, &options));
                        before = Some((snapshot, then));
                    }
                }
            };
            let reading = env.threads.spawn("reader", Box::new(body)).unwrap();
            // A hot key is in tables for a while before it is in a memtable again.
            write(&db, 900, 15);
            over.store(true, Ordering::Relaxed);
            reading.join().unwrap();
            db.wait_idle().unwrap();
            let stats = db.stats();
            short_cuts += stats.short_cut_reads;
            dropped += stats.superseded_entries_dropped;
            assert!(stats.update_table_evictions > 0, "the table is too large for this test");
            db.close().unwrap();
        });
    }
    assert!(short_cuts > 0 && dropped > 0, "{short_cuts} {dropped}");
}

/// Guards against a compaction that drops an entry which a newer one in another table supersedes,
/// although a snapshot from between the two sees it.
#[test]
fn i06_snapshots_keep_what_newer_tables_supersede() {
    let mut dropped = 0;
    for seed in 0..4 {
        simulate(seed, STEPS, |env, _| {
            let db = open(env, Options { update_table_bytes: 1 << 20, ..options() });
            let mut held: VecDeque<(Snapshot, u64)> = VecDeque::new();
            for round in 0..50 {
                let keyspace = db.default_keyspace();
                for number in 0..40 {
                    let key = format!("once{:05}", (round * 40 + number) * 7 % 2000);
                    keyspace.put(key, [7; 40]).unwrap();
                }
                write_hot(&db, 1000 * round);
                held.push_back((db.snapshot(), 1000 * round));
                // Without a snapshot for a while, entries are dropped after all.
                let least = if round % 10 < 6 { held.len().saturating_sub(3) } else { held.len() };
                held.drain(..least);
                for (snapshot, first) in &held {
                    let options = ReadOptions::new().snapshot(snapshot);
                    (0..HOT_KEYS).for_each(|hot| assert_eq!(read(&db, hot, &options), first + hot));
                }
            }
            dropped += db.stats().superseded_entries_dropped;
        });
    }
    assert!(dropped > 0, "no compaction went by the update table");
}

/// Runs a write load and returns the stale entries below L0, all entries in tables, and the early
/// compactions.
fn stale_entries(early_compaction: StaleTrigger) -> (u64, u64, u64) {
    let mut found = (0, 0, 0);
    simulate(1, STEPS, |env, _| {
        let more = Options { update_table_bytes: 1 << 20, early_compaction, ..options() };
        let db = open(env, more);
        write(&db, 600, 1);
        db.compact().unwrap();
        write_hot(&db, 600);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let below = db.table_scores().into_iter().filter(|table| table.level > 0);
        let stats = db.stats();
        let entries = stats.keyspaces.iter().map(|keyspace| keyspace.table_entries).sum();
        let stale = below.map(|it| it.score.stale_entries).sum();
        found = (stale, entries, stats.early_compactions);
        // What is left is what a scan finds.
        for hot in 0..HOT_KEYS {
            assert_eq!(read(&db, hot, &ReadOptions::default()), 600 + hot);
        }
        assert_eq!(db.default_keyspace().prefix("once").count(), 600);
        assert!(db.check().unwrap().is_clean());
    });
    found
}

#[test]
fn early_compaction_leaves_no_stale_entry_below_level_0() {
    let (stale, all, jobs) = stale_entries(StaleTrigger::Off);
    assert_eq!((stale, jobs), (HOT_KEYS, 0));
    let (stale, entries, jobs) = stale_entries(StaleTrigger::Entries(1));
    assert_eq!((stale, entries), (0, all - HOT_KEYS));
    assert!(jobs > 0);
}

/// Returns the stale entries and stale bytes of all tables.
fn stale(tables: &[ScoredTable]) -> (u64, u64) {
    let scores = tables.iter().map(|table| (table.score.stale_entries, table.score.stale_bytes));
    scores.fold((0, 0), |sum, score| (sum.0 + score.0, sum.1 + score.1))
}

/// The update table knows of stale entries since their table was written; a walk finds them all.
#[test]
fn a_walk_counts_every_stale_entry() {
    for keyspace in [inline_options(), tiny_options().keyspace] {
        simulate(3, STEPS, |env, _| {
            let early_compaction = StaleTrigger::Off;
            let more = Options { update_table_bytes: 1 << 20, early_compaction, ..options() };
            let db = open(env, Options { keyspace: keyspace.clone(), ..more });
            for round in 0..6 {
                write(&db, 200, 1 + round);
                db.flush().unwrap();
                db.wait_idle().unwrap();
                let (known, counted) = (db.table_scores(), db.count_stale_entries().unwrap());
                let newest = |tables: &[ScoredTable]| {
                    tables.iter().map(|table| table.score.newest_entries).sum::<u64>()
                };
                assert_eq!(newest(&known), newest(&counted), "nothing is forgotten");
                assert!(stale(&known) <= stale(&counted));
                let entries = |table: &ScoredTable| {
                    table.score.newest_entries + table.score.stale_entries == table.entries
                };
                assert!(counted.iter().all(entries), "each entry is one or the other");
            }
            db.compact().unwrap();
            assert_eq!(stale(&db.count_stale_entries().unwrap()), (0, 0));
            write_hot(&db, 600);
            let (hidden, bytes) = stale(&db.count_stale_entries().unwrap());
            assert_eq!(hidden, HOT_KEYS, "memtables hide entries of tables, too");
            db.flush().unwrap();
            db.wait_idle().unwrap();
            let counted = db.count_stale_entries().unwrap();
            assert_eq!(stale(&counted), (hidden, bytes));
            assert_eq!(db.table_scores(), counted, "no table was written since");
        });
    }
}

/// While a compaction writes, the update table names its tables, and goes on to do so if it fails,
/// in the middle of a table or at the edit. No version has them, so readers search as usual until
/// the next compaction has noted where the entries are.
#[test]
fn i06_what_a_failed_compaction_has_noted_leads_no_reader_astray() {
    for file in [".tbl", ".man"] {
        simulate(4, STEPS, |env, simulation| {
            let early_compaction = StaleTrigger::Off;
            let more = Options { update_table_bytes: 1 << 20, early_compaction, ..options() };
            let db = open(env, more);
            write(&db, 200, 1);
            db.compact().unwrap();
            write_hot(&db, 600);
            db.flush().unwrap();
            db.wait_idle().unwrap();
            let short_cuts = || {
                let before = db.stats().short_cut_reads;
                for hot in 0..HOT_KEYS {
                    assert_eq!(read(&db, hot, &ReadOptions::default()), 600 + hot);
                }
                db.stats().short_cut_reads - before
            };
            assert_eq!(short_cuts(), HOT_KEYS);
            simulation.fail(FaultPlan::new(Call::Write).on(file));
            assert!(db.compact().is_err(), "{file}");
            assert_eq!(short_cuts(), 0, "{file}: the tables that are named are gone");
            db.compact().unwrap();
            assert_eq!(short_cuts(), HOT_KEYS, "{file}");
            assert_eq!(db.table_scores(), db.count_stale_entries().unwrap(), "{file}");
        });
    }
}

/// A filter costs less than a question to the update table, and rules out as much.
#[test]
fn reads_ask_the_update_table_only_where_tables_have_no_filters() {
    for (filter_bits_per_key, asked) in [(0, HOT_KEYS), (12, 0)] {
        simulate(5, STEPS, |env, _| {
            let keyspace = KeyspaceOptions { filter_bits_per_key, ..inline_options() };
            let db = open(env, Options { update_table_bytes: 1 << 20, keyspace, ..options() });
            write_hot(&db, 600);
            db.flush().unwrap();
            for hot in 0..HOT_KEYS {
                assert_eq!(read(&db, hot, &ReadOptions::default()), 600 + hot);
            }
            assert_eq!(db.stats().short_cut_reads, asked);
        });
    }
}

/// What a flush has written is told before its edit, which may fail. Readers find the entries in
/// the memtable until another flush has told where they are, and nothing is counted twice.
#[test]
fn i06_what_a_failed_flush_has_told_leads_no_reader_astray() {
    for file in [".tbl", ".man"] {
        simulate(5, STEPS, |env, simulation| {
            let early_compaction = StaleTrigger::Off;
            let more = Options { update_table_bytes: 1 << 20, early_compaction, ..options() };
            let db = open(env, more);
            write(&db, 200, 1);
            db.compact().unwrap();
            let all_at = |first: u64| {
                let now = ReadOptions::default();
                (0..HOT_KEYS).for_each(|hot| assert_eq!(read(&db, hot, &now), first + hot));
            };
            for first in [600, 700] {
                write_hot(&db, first);
                simulation.fail(FaultPlan::new(Call::Write).on(file));
                assert!(db.flush().is_err(), "{file}");
                all_at(first);
                db.flush().unwrap();
                db.wait_idle().unwrap();
                let before = db.stats().short_cut_reads;
                all_at(first);
                assert_eq!(db.stats().short_cut_reads - before, HOT_KEYS, "{file}");
                assert_eq!(db.table_scores(), db.count_stale_entries().unwrap(), "{file}");
            }
        });
    }
}

#[test]
fn without_an_update_table_nothing_is_known() {
    simulate(2, STEPS, |env, _| {
        let db = open(env, Options { update_table_bytes: 0, ..options() });
        write(&db, 200, 1);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert!((0..HOT_KEYS).all(|hot| read(&db, hot, &ReadOptions::default()) >= 192));
        let stats = db.stats();
        let all = [stats.update_table_keys, stats.update_table_lookups, stats.early_compactions];
        assert_eq!(all, [0; 3]);
        assert!(db.table_scores().is_empty());
    });
}
