//! Backups in the simulation: a crash and an error at every call of making, thinning out and
//! restoring them, punched segments, and what an unchanged store costs.

use crate::client::{DIR, read_all, tiny_options};
use crate::crash::check_all;
use crate::model::{Contents, difference};
use cleavedb::env::Env;
use cleavedb::env::sim::{Call, FaultPlan, Simulation, Survivors};
use cleavedb::{
    BackupOptions, Backups, CheckOptions, Db, Error, ErrorKind, GcOptions, Options, Result,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BACKUP: &str = "backup";
const TARGET: &str = "restored";
const SEED: u64 = 41;

/// Returns options without background work that would add calls of its own.
fn options() -> Options {
    let gc = GcOptions { automatic: false, ..GcOptions::default() };
    Options { gc, ..tiny_options() }
}

fn open(env: &Env, dir: &str) -> Result<Db> {
    Db::builder(dir).options(options()).env(env.clone()).open()
}

fn backups(env: &Env) -> Backups {
    Backups::new(BACKUP).env(env.clone())
}

fn value(number: usize, version: usize, bytes: usize) -> Vec<u8> {
    let mut value = vec![version as u8; bytes];
    value[..8].copy_from_slice(&(number as u64).to_le_bytes());
    value
}

/// Puts keys of which half have values that stay in the log.
fn put(db: &Db, numbers: std::ops::Range<usize>, version: usize) -> Result<()> {
    for number in numbers {
        let bytes = if number.is_multiple_of(2) { 40 } else { 500 };
        db.default_keyspace().put(format!("k{number:03}"), value(number, version, bytes))?;
    }
    Ok(())
}

/// What a script knows about its backup.
#[derive(Default, Clone)]
struct KnownPoints {
    /// The contents of each point whose making was begun, in order; its number is the place plus
    /// one, as long as no point was made that was not acknowledged.
    begun: Vec<Contents>,
    /// The points that were acknowledged, and not deleted by a call that was begun since.
    there: Vec<u64>,
}

fn contents(db: &Db) -> Result<Contents> {
    Ok(read_all(db)?.remove("default").unwrap_or_default())
}

/// Makes four points, of which two are kept, and deletes one more. Stops at the first error.
fn script(env: &Env, known: &mut KnownPoints) -> Result<()> {
    let db = open(env, DIR)?;
    for version in 1..=4 {
        put(&db, 10 * version..10 * version + 14, version)?;
        if version == 2 {
            db.flush()?;
        }
        known.begun.push(contents(&db)?);
        // From here on the oldest may be gone.
        known.there.retain(|point| point + 2 > version as u64);
        let report = db.backup_with(BACKUP, &BackupOptions::new().keep(2))?;
        assert_eq!(report.point, version as u64);
        known.there.push(report.point);
    }
    known.there.retain(|&point| point > 3);
    backups(env).delete(&[3])?;
    db.close()
}

/// Checks that each point which is there holds what the database held when it was made, and that
/// the next backup leaves nothing behind that no point names.
fn check_backup(env: &Env, known: &KnownPoints) {
    if !env.fs.exists(Path::new(BACKUP)).unwrap() {
        assert!(known.there.is_empty());
        return;
    }
    let list = backups(env).list().unwrap();
    assert!(list.unreadable.is_empty(), "{:?}", list.unreadable);
    let numbers: Vec<u64> = list.points.iter().map(|point| point.number).collect();
    let lost: Vec<_> = known.there.iter().filter(|point| !numbers.contains(point)).collect();
    assert!(lost.is_empty(), "points {lost:?} are lost of {numbers:?}");
    for &number in &numbers {
        let target = format!("{TARGET}-{number}");
        backups(env).restore(Some(number), &target).unwrap();
        let db = open(env, &target).unwrap();
        let text = difference(&known.begun[number as usize - 1], &contents(&db).unwrap());
        assert!(text.is_empty(), "point {number}: {text}");
        assert!(db.check().unwrap().is_clean(), "point {number}");
        db.close().unwrap();
    }
    if !numbers.is_empty() {
        let check = backups(env).verify(None).unwrap();
        assert!(check.is_sound(), "{:?}", check.problems);
    }
    let db = open(env, DIR).unwrap();
    let report = db.backup_with(BACKUP, &BackupOptions::new().keep(1)).unwrap();
    db.close().unwrap();
    let names = env.fs.list(Path::new(BACKUP)).unwrap();
    let wanted = report.files as usize + 2;
    assert_eq!(names.len(), wanted, "the files, the description and LOCK, not {names:?}");
    assert!(backups(env).verify(None).unwrap().is_sound());
}

const SURVIVORS: [(Survivors, u64); 5] = [
    (Survivors::LoseAll, 1),
    (Survivors::KeepAll, 2),
    (Survivors::Prefix, 3),
    (Survivors::TornLast, 4),
    (Survivors::Random, 5),
];

/// Runs `work` once for each call that changes the disk, with a crash there, and `check` on each
/// kind of survivors.
fn crash_everywhere<T>(
    work: impl Fn(&Simulation, &Env) -> (u64, T),
    check: impl Fn(&Env, &T) + Copy,
) {
    let (mut call, mut failures) = (0, Vec::new());
    loop {
        let (env, simulation) = Env::simulated(SEED);
        simulation.limit_steps(2_000_000);
        if call > 0 {
            simulation.crash_at(call);
        }
        let (first, known) = simulation.run(|| work(&simulation, &env));
        if call == 0 {
            call = first;
            continue;
        }
        for (policy, draw) in SURVIVORS {
            let place = format!("crash at {call}, {policy:?}");
            let (env, world) = simulation.surviving(policy, call * 10 + draw);
            check_all(&place, &mut failures, || world.run(|| check(&env, &known)));
        }
        if !simulation.crashed() {
            break;
        }
        call += 1;
    }
    let shown = &failures[..failures.len().min(10)];
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), shown.join("\n"));
    assert!(call > 60, "{call} calls");
}

#[test]
fn i02_a_crash_at_every_call_of_making_and_deleting_points() {
    let work = |simulation: &Simulation, env: &Env| {
        let mut known = KnownPoints::default();
        let outcome = script(env, &mut known);
        assert!(outcome.is_ok() || simulation.crashed(), "{outcome:?}");
        (1, known)
    };
    crash_everywhere(work, check_backup);
}

#[test]
fn a_crash_at_every_call_of_restoring() {
    let work = |simulation: &Simulation, env: &Env| {
        let mut known = KnownPoints::default();
        if script(env, &mut known).is_err() {
            assert!(simulation.crashed());
            return (1, None);
        }
        let first = simulation.mutations();
        let restored = backups(env).restore(Some(4), TARGET);
        assert!(restored.is_ok() || simulation.crashed(), "{restored:?}");
        (first, Some((known, restored.is_ok())))
    };
    crash_everywhere(work, |env, known| {
        let Some((known, is_acknowledged)) = known else { return };
        let options = Options { create_if_missing: false, ..options() };
        match Db::builder(TARGET).options(options).env(env.clone()).open() {
            Ok(db) => {
                assert_eq!(difference(&known.begun[3], &contents(&db).unwrap()), "");
                assert!(db.check().unwrap().is_clean());
            }
            Err(error) => assert!(!is_acknowledged, "what was restored is lost: {error}"),
        }
        let check = backups(env).verify(None).unwrap();
        assert!(check.is_sound() && check.points == [4], "{check:?}");
    });
}

#[test]
fn an_error_at_every_call_leaves_the_other_points() {
    for nth in 1.. {
        let (env, simulation) = Env::simulated(SEED);
        simulation.limit_steps(2_000_000);
        let is_done = simulation.run(|| {
            let mut known = KnownPoints::default();
            let db = open(&env, DIR).unwrap();
            put(&db, 0..30, 1).unwrap();
            known.begun.push(contents(&db).unwrap());
            known.there.push(db.backup(BACKUP).unwrap().point);
            put(&db, 10..40, 2).unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
            known.begun.push(contents(&db).unwrap());
            simulation.fail(FaultPlan::any_call().nth(nth));
            let before = simulation.all_calls();
            let second = db.backup(BACKUP);
            let is_done = simulation.all_calls() < before + nth;
            simulation.clear_faults();
            match second {
                Ok(report) => known.there.push(report.point),
                // I8: after a failed sync of the store itself, that takes no more writes.
                Err(error) if error.kind() == ErrorKind::ReadOnly => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{nth}: {error}"),
            }
            drop(db);
            check_backup(&env, &known);
            is_done
        });
        if is_done {
            assert!(nth > 40, "{nth} calls");
            return;
        }
    }
}

/// An error while a point is verified or restored changes nothing in the backup.
#[test]
fn an_error_at_every_call_of_restoring_is_told() {
    for nth in 1.. {
        let (env, simulation) = Env::simulated(SEED);
        let is_done = simulation.run(|| {
            let db = open(&env, DIR).unwrap();
            put(&db, 0..30, 1).unwrap();
            db.backup(BACKUP).unwrap();
            let wanted = contents(&db).unwrap();
            db.close().unwrap();
            let before = simulation.all_calls();
            simulation.fail(FaultPlan::any_call().nth(nth));
            let restored = backups(&env).restore(None, TARGET);
            let is_done = simulation.all_calls() < before + nth;
            simulation.clear_faults();
            assert!(backups(&env).verify(None).unwrap().is_sound(), "{nth}");
            match restored {
                Ok(_) => {
                    let db = open(&env, TARGET).unwrap();
                    assert_eq!(difference(&wanted, &contents(&db).unwrap()), "");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{nth}: {error}"),
            }
            is_done
        });
        if is_done {
            assert!(nth > 30, "{nth} calls");
            return;
        }
    }
}

/// A backup of a store that did not change reads no table, no segment and no relocation, and makes
/// none: each such call would fail.
#[test]
fn an_unchanged_store_is_not_read() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open(&env, DIR).unwrap();
        for version in 1..4 {
            put(&db, 0..90, version).unwrap();
            db.flush().unwrap();
        }
        db.gc().unwrap();
        db.wait_idle().unwrap();
        let first = db.backup(BACKUP).unwrap();
        assert!(first.copied_files == first.files && first.files > 6, "{first:?}");
        for suffix in [".tbl", ".seg", ".rel"] {
            simulation.fail(FaultPlan::new(Call::Read).on(suffix).for_good());
            simulation.fail(FaultPlan::new(Call::Create).on(suffix).for_good());
        }
        let second = db.backup(BACKUP).unwrap();
        simulation.clear_faults();
        assert_eq!((second.copied_files, second.files), (1, first.files), "the manifest");
        assert!(backups(&env).verify(Some(second.point)).unwrap().is_sound());
        put(&db, 0..1, 9).unwrap();
        let third = db.backup(BACKUP).unwrap();
        assert_eq!(third.copied_files, 2, "the manifest, and the segment with the put: {third:?}");
    });
}

/// Returns options for segments with a few values of six blocks each.
fn large_values() -> Options {
    Options { segment_bytes: 128 << 10, max_replay_bytes: 1 << 20, ..options() }
}

fn open_large(env: &Env, dir: &str) -> Db {
    Db::builder(dir).options(large_values()).env(env.clone()).open().unwrap()
}

fn put_large(db: &Db, numbers: impl Iterator<Item = usize>, version: usize) {
    for number in numbers {
        db.default_keyspace()
            .put(format!("k{number:02}"), value(number, version, 24 << 10))
            .unwrap();
    }
}

fn expect_point(env: &Env, number: u64, wanted: &Contents) {
    let target = format!("{TARGET}-{}", env.random.next_u64());
    backups(env).restore(Some(number), &target).unwrap();
    let db = open_large(env, &target);
    assert_eq!(difference(wanted, &contents(&db).unwrap()), "", "point {number}");
    assert!(db.check().unwrap().is_clean(), "point {number}");
    db.close().unwrap();
}

/// A point from before a hole was punched finds its bytes, a later one shares the copy from then,
/// and a store that was set back to before the hole does not rely on a copy that has it.
#[test]
fn i05_points_from_before_and_after_a_hole_share_what_they_can() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open_large(&env, DIR);
        put_large(&db, 0..16, 1);
        put_large(&db, (0..16).filter(|number| number % 3 > 0), 2);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let wanted = contents(&db).unwrap();
        db.backup("elsewhere").unwrap();
        let first = db.backup(BACKUP).unwrap();
        assert!(db.gc().unwrap().segments_punched > 1);
        db.wait_idle().unwrap();
        assert!(simulation.calls(Call::Punch) > 1);
        let second = db.backup(BACKUP).unwrap();
        assert_eq!(second.copied_files, 1, "the manifest says where the holes are: {second:?}");
        expect_point(&env, first.point, &wanted);
        expect_point(&env, second.point, &wanted);

        // Another backup begins with the punched segments, which are copied without their holes.
        backups(&env).delete(&[first.point, second.point]).unwrap();
        let punched = db.backup(BACKUP).unwrap();
        assert!(punched.copied_bytes + (100 << 10) < punched.bytes, "{punched:?}");
        expect_point(&env, punched.point, &wanted);
        db.close().unwrap();
        Backups::new("elsewhere").env(env.clone()).restore(None, "set-back").unwrap();
        let db = open_large(&env, "set-back");
        let back = db.backup(BACKUP).unwrap();
        assert!(back.copied_files > 2, "it may still need what is in the holes: {back:?}");
        expect_point(&env, back.point, &wanted);
        assert!(backups(&env).verify(None).unwrap().is_sound());
    });
}

/// While files are copied, values that were overwritten since are neither removed nor punched.
#[test]
fn i05_files_stay_while_they_are_copied() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open_large(&env, DIR);
        put_large(&db, 0..16, 1);
        db.flush().unwrap();
        let wanted = contents(&db).unwrap();
        // After the first piece everything is overwritten, and value GC has all the time it needs.
        let (other, is_done) = (db.clone(), Mutex::new(false));
        let options = BackupOptions::new().on_progress(move |_| {
            if !std::mem::replace(&mut *is_done.lock().unwrap(), true) {
                put_large(&other, (0..16).filter(|number| number % 3 > 0), 2);
                other.flush().unwrap();
                other.gc().unwrap();
                put_large(&other, 0..16, 3);
                other.flush().unwrap();
                other.gc().unwrap();
            }
        });
        let point = db.backup_with(BACKUP, &options).unwrap().point;
        expect_point(&env, point, &wanted);
        assert!(db.check().unwrap().is_clean());
    });
}

/// Makes a backup with the bound, and returns the time that making, verifying and restoring took.
fn timed(bytes_per_second: Option<u64>) -> [Duration; 4] {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open_large(&env, DIR);
        put_large(&db, 0..40, 1);
        let mut making = BackupOptions::new();
        let (mut checking, mut reading) = (CheckOptions::new(), backups(&env));
        if let Some(rate) = bytes_per_second {
            (making, reading) = (making.bytes_per_second(rate), reading.bytes_per_second(rate));
            checking = checking.bytes_per_second(rate);
        }
        let time = |work: &mut dyn FnMut()| {
            let begun = env.clock.now();
            work();
            env.clock.since(begun)
        };
        [
            time(&mut || drop(db.backup_with(BACKUP, &making).unwrap())),
            time(&mut || assert!(reading.verify(None).unwrap().is_sound())),
            time(&mut || assert_eq!(reading.restore(None, TARGET).unwrap().point, 1)),
            time(&mut || {
                let db = open_large(&env, TARGET);
                assert!(db.check_with(&checking).unwrap().is_clean());
            }),
        ]
    })
}

#[test]
fn a_bound_on_the_rate_holds() {
    let free = timed(None);
    assert!(free.iter().all(|took| *took < Duration::from_secs(1)), "{free:?}");
    // 40 values of 24 KiB, at 100 KiB a second; a restore reads twice.
    let [made, verified, restored, checked] = timed(Some(100 << 10));
    let about = |took: Duration, seconds: u64| {
        assert!(took >= Duration::from_secs(seconds), "{took:?}, at least {seconds} s");
        assert!(took < Duration::from_secs(seconds * 2), "{took:?}, about {seconds} s");
    };
    about(made, 9);
    about(verified, 9);
    about(restored, 18);
    about(checked, 9);
}

#[test]
fn progress_ends_at_the_whole() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open_large(&env, DIR);
        put_large(&db, 0..40, 1);
        let seen: Arc<Mutex<BTreeMap<&str, (u64, u64)>>> = Arc::default();
        let tell = |what: &'static str| {
            let seen = seen.clone();
            move |progress: cleavedb::PassProgress| {
                let now = (progress.done_bytes, progress.all_bytes);
                seen.lock().unwrap().insert(what, now);
            }
        };
        db.backup_with(BACKUP, &BackupOptions::new().on_progress(tell("backup"))).unwrap();
        backups(&env).on_progress(tell("verify")).verify(None).unwrap();
        backups(&env).on_progress(tell("restore")).restore(None, TARGET).unwrap();
        db.check_with(&CheckOptions::new().on_progress(tell("check"))).unwrap();
        let seen = seen.lock().unwrap();
        for what in ["backup", "verify", "restore"] {
            let (done, all) = seen[what];
            assert!(done == all && done > 900 << 10, "{what}: {done} of {all}");
        }
        let (done, all) = seen["check"];
        assert!(done <= all && done > 900 << 10, "{done} of {all}");
    });
}

/// A sector that the device cannot read is damage of the backup: all files are looked at, and the
/// report says which points need this one.
#[test]
fn a_file_that_cannot_be_read_is_a_problem_of_its_points() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.run(|| {
        let db = open(&env, DIR).unwrap();
        put(&db, 0..10, 1).unwrap();
        db.backup(BACKUP).unwrap();
        put(&db, 0..10, 2).unwrap();
        db.backup(BACKUP).unwrap();
        let of_second = |path: &&std::path::PathBuf| path.to_string_lossy().contains("00000002-");
        let names = env.fs.list(Path::new(BACKUP)).unwrap();
        let name = names.iter().find(of_second).unwrap().to_string_lossy().into_owned();
        simulation.fail(FaultPlan::new(Call::Read).on(&name).for_good());
        let check = backups(&env).verify(None).unwrap();
        let problems: Vec<_> = check.problems.iter().map(|it| it.points.clone()).collect();
        assert_eq!((problems, check.points), (vec![vec![2]], vec![1, 2]));
        let refused: Error = backups(&env).restore(Some(2), TARGET).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
        assert!(!env.fs.exists(Path::new(TARGET)).unwrap(), "nothing was created");
        backups(&env).restore(Some(1), TARGET).unwrap();
    });
}
