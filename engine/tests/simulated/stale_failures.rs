//! The failure of a job is told until the job is done, whoever does it (I9).

use crate::client::{inline_options, open, simulate, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation};
use cleavedb::{Db, GcOptions, Options};
use std::io::ErrorKind;
use std::time::Duration;

/// Longer than any job rests after a failure.
const LONG: Duration = Duration::from_secs(600);

/// Waits until jobs have failed; returns false if none has.
fn has_failed(env: &Env, db: &Db) -> bool {
    env.threads.sleep(Duration::from_secs(10));
    db.stats().background_error.is_some()
}

/// Checks that nothing is told of a failure once its cause is gone for long.
fn expect_forgotten(env: &Env, db: &Db, seed: u64) {
    env.threads.sleep(LONG);
    let told = db.stats().background_error;
    assert!(told.is_none(), "seed {seed}: {}", told.unwrap());
    db.wait_idle().unwrap();
}

/// Before, the error of the job that drops dead segments was told for as long as no other segment
/// died, if value GC had dropped them.
#[test]
fn i09_the_failure_to_drop_segments_is_forgotten_once_value_gc_has_dropped_them() {
    let fill_and_delete = |db: &Db| {
        let keys = db.default_keyspace();
        (0..60).for_each(|number| keys.put(format!("k{number}"), [7; 900]).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        (0..60).for_each(|number| keys.delete(format!("k{number}")).unwrap());
        db.flush().unwrap();
    };
    let no_room_from = |simulation: &Simulation, nth| {
        let full = FaultPlan::new(Call::Write).on(".man").error(ErrorKind::StorageFull);
        simulation.fail(full.nth(nth).for_good());
    };
    let mut failed = 0;
    for (seed, nth) in (0..12).flat_map(|seed| (1..4).map(move |nth| (seed, nth))) {
        simulate(seed, 4_000_000, |env, simulation| {
            let gc = GcOptions { automatic: seed % 2 == 0, ..tiny_options().gc };
            let db = open(env, Options { gc, ..tiny_options() });
            fill_and_delete(&db);
            no_room_from(simulation, nth);
            let compacted = db.compact();
            failed += u32::from(has_failed(env, &db) || compacted.is_err());
            simulation.clear_faults();
            db.gc().unwrap();
            expect_forgotten(env, &db, seed);
        });
    }
    assert!(failed > 5, "{failed} have failed");
}

/// Before, a program that compacted a keyspace got the error that its compaction in the background
/// had met before, and that error was told for as long as no level was full again.
#[test]
fn i09_the_failure_of_a_compaction_is_forgotten_once_a_program_has_compacted() {
    let mut failed = 0;
    for seed in 0..12 {
        simulate(seed, 4_000_000, |env, simulation| {
            let gc = GcOptions { automatic: false, ..tiny_options().gc };
            let options = Options { gc, keyspace: inline_options(), ..tiny_options() };
            let options = Options { max_index_and_filter_bytes: None, ..options };
            let db = open(env, Options { level0_slowdown: 4, level0_stop: 5, ..options });
            let keys = db.default_keyspace();
            simulation.fail(FaultPlan::new(Call::Read).on(".tbl").for_good());
            // Some of it is refused, once L0 is full of tables that can't be read.
            let is_put = |number: u32| keys.put(format!("k{number}"), [7; 900]).is_ok();
            assert!((0..14).filter(|number| is_put(*number)).count() > 0);
            let flushed = db.flush();
            failed += u32::from(has_failed(env, &db) || flushed.is_err());
            simulation.clear_faults();
            db.compact().unwrap();
            expect_forgotten(env, &db, seed);
        });
    }
    assert!(failed > 5, "{failed} have failed");
}
