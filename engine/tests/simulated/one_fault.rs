//! Tests of a fault that lasts in one place: it holds up nothing else, nothing that was promised is
//! forgotten over it, and it leaves nothing behind.

use crate::client::{DIR, file_bytes, files, open, simulate, tiny_options};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Survivors};
use cleavedb::{Db, Durability, ErrorKind, Options, WriteOptions};
use std::path::Path;
use std::time::Duration;

const SEED: u64 = 41;
/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 400_000;
/// Keys that are overwritten now and then.
const COLD_KEYS: u32 = 200;
/// Bytes of all live values of the test of space.
const LIVE_BYTES: u64 = (COLD_KEYS as u64 + 6) * 900;

/// Value GC unlinks what is free before each of its steps, and never got to one.
#[test]
fn a_table_that_cannot_be_unlinked_keeps_no_value_from_being_freed() {
    simulate(SEED, STEPS, |env, simulation| {
        let db = open(env, tiny_options());
        let keys = db.default_keyspace();
        // A value that lasts is among five that do not, in each segment.
        let overwrite = |rounds: u32| {
            for number in 0..rounds * COLD_KEYS * 6 {
                let key = match number % 6 {
                    0 => format!("cold {}", number / 6 % COLD_KEYS),
                    hot => format!("hot {hot}"),
                };
                keys.put(key, [number as u8; 900]).unwrap();
            }
        };
        overwrite(1);
        db.flush().unwrap();
        let name = files(env, "tbl").pop_last().unwrap();
        let (stuck, name) = (Path::new(DIR).join(&name), name.to_str().unwrap().to_owned());
        simulation.fail(FaultPlan::new(Call::Remove).on(&name).for_good());
        overwrite(3);
        env.threads.sleep(Duration::from_secs(60));
        assert!(env.fs.exists(&stuck).unwrap(), "its table was replaced, and it stays");
        let told = db.stats().background_error.expect("for as long as it lasts").to_string();
        assert!(told.contains(&name), "{told}");
        assert!(db.stats().gc.segments_relocated > 0);
        let (segments, tables) = (file_bytes(env, "seg"), files(env, "tbl").len());
        assert!(segments < 3 * LIVE_BYTES, "{segments} bytes for {LIVE_BYTES} live ones");
        assert!(tables < 20, "{tables} tables: others go");
        simulation.clear_faults();
        env.threads.sleep(Duration::from_secs(60));
        assert!(!env.fs.exists(&stuck).unwrap());
        assert!(db.stats().background_error.is_none());
    });
}

/// What is written before a sync may find no room. Nothing was synced then, and it was forgotten.
#[test]
fn i02_a_sync_for_which_there_was_no_room_is_made_up_for() {
    let (env, simulation) = Env::simulated(SEED);
    let options = || {
        let durability = Durability::SyncEvery(Duration::from_millis(100));
        Options { durability, ..tiny_options() }
    };
    simulation.run(|| {
        let db = open(&env, options());
        let keys = db.default_keyspace();
        keys.put("promised", "within 100 ms").unwrap();
        let buffered = WriteOptions::default().durability(Durability::Buffered);
        keys.put_with("waits", "in the buffer", &buffered).unwrap();
        let full = FaultPlan::new(Call::Write).on(".seg").error(std::io::ErrorKind::StorageFull);
        simulation.fail(full.for_good());
        env.threads.sleep(Duration::from_secs(1));
        let told = db.stats().background_error.expect("it is told");
        assert_eq!(told.kind(), ErrorKind::DiskFull);
        simulation.clear_faults();
        env.threads.sleep(Duration::from_secs(10));
        assert!(db.stats().background_error.is_none(), "and then it is over");
        simulation.crash();
    });
    let env = simulation.restart(Survivors::LoseAll);
    simulation.run(|| {
        let db = open(&env, options());
        assert!(db.default_keyspace().get("promised").unwrap().is_some());
        db.close().unwrap();
    });
}

/// The first opening makes the directory, and its name is not durable yet. The second one finds it.
#[test]
fn i02_a_directory_that_was_there_has_a_durable_name_before_anything_is_committed() {
    let dir = "around/db";
    let open = |env: &Env| Db::builder(dir).options(tiny_options()).env(env.clone()).open();
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        simulation.fail(FaultPlan::new(Call::SyncDir).nth(1));
        open(&env).unwrap_err();
        simulation.clear_faults();
        env.fs.sync_dir(Path::new(".")).unwrap();
        let db = open(&env).unwrap();
        let synced = WriteOptions::default().durability(Durability::Sync);
        db.default_keyspace().put_with("k", "v", &synced).unwrap();
        simulation.crash();
    });
    let env = simulation.restart(Survivors::LoseAll);
    simulation.run(|| {
        let db = open(&env).unwrap();
        assert!(db.default_keyspace().get("k").unwrap().is_some());
        db.close().unwrap();
    });
}

/// Each try left an empty file, every few seconds for as long as the disk was full.
#[test]
fn i09_a_segment_that_no_edit_could_name_leaves_no_file() {
    simulate(SEED, STEPS, |env, simulation| {
        let db = open(env, tiny_options());
        let full = FaultPlan::new(Call::Write).on(".man").error(std::io::ErrorKind::StorageFull);
        simulation.fail(full.for_good());
        let before = files(env, "seg").len();
        for number in 0..100u32 {
            let _ = db.default_keyspace().put(number.to_be_bytes(), [7; 900]);
        }
        env.threads.sleep(Duration::from_secs(300));
        let after = files(env, "seg").len();
        assert!(after <= before + 2, "{before} and then {after} segments");
        simulation.clear_faults();
        env.threads.sleep(Duration::from_secs(30));
        db.default_keyspace().put("k", "v").unwrap();
    });
}

/// Symptom: a file that a crash had left behind and that could not be removed, perhaps because of
/// its attributes, kept the database from being opened for writing. Now the opening goes on, and
/// the background tries again, as it does with files that become obsolete while it is open.
#[test]
fn what_a_crash_left_and_cannot_be_removed_keeps_nobody_from_opening() {
    simulate(SEED, STEPS, |env, simulation| {
        open(env, tiny_options()).close().unwrap();
        let path = |name: &str| Path::new(DIR).join(name);
        for name in ["00009000.tbl", "00009001.tbl", "PROBE"] {
            env.fs.create(&path(name)).unwrap();
        }
        for name in ["00009000.tbl", "PROBE"] {
            simulation.fail(FaultPlan::new(Call::Remove).on(name).for_good());
        }
        let db = open(env, tiny_options());
        assert_eq!(db.recovery().orphans_removed, 1, "the others are removed");
        assert!(!env.fs.exists(&path("00009001.tbl")).unwrap());
        assert!(db.stats().background_errors > 0, "it is told");
        db.default_keyspace().put("k", "v").unwrap();
        env.threads.sleep(Duration::from_secs(60));
        let told = db.stats().background_error.expect("for as long as it lasts").to_string();
        assert!(told.contains("00009000.tbl"), "{told}");
        simulation.clear_faults();
        env.threads.sleep(Duration::from_secs(60));
        assert!(!env.fs.exists(&path("00009000.tbl")).unwrap());
        assert!(db.stats().background_error.is_none());
        db.close().unwrap();
        let db = open(env, tiny_options());
        assert!(!env.fs.exists(&path("PROBE")).unwrap(), "what has no number goes at the next");
        assert!(db.default_keyspace().get("k").unwrap().is_some());
    });
}

/// Where the space is needed, the opening fails, and says which file it can't remove.
#[test]
fn i09_what_cannot_be_removed_is_named_where_its_space_is_needed() {
    simulate(SEED, STEPS, |env, simulation| {
        open(env, tiny_options()).close().unwrap();
        env.fs.create(&Path::new(DIR).join("00009000.tbl")).unwrap();
        simulation.fail(FaultPlan::new(Call::Remove).on("00009000.tbl").for_good());
        let full = FaultPlan::new(Call::Create).on(".man").error(std::io::ErrorKind::StorageFull);
        simulation.fail(full.for_good());
        let opened = Db::builder(DIR).options(tiny_options()).env(env.clone()).open();
        let error = opened.err().unwrap().to_string();
        assert!(error.contains("00009000.tbl"), "{error}");
        simulation.clear_faults();
        open(env, tiny_options()).close().unwrap();
    });
}
