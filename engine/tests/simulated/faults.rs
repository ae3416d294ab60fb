//! Tests of I/O errors: the first, second, third … call of each kind fails, once or for good, until
//! the script meets no error. Nothing may panic or hang, no reader may see a wrong value, and once
//! the errors are over and the database is reopened, everything that was acknowledged is there.

use crate::client::{
    Client, DIR, Step, Stop, open, read_all, simulate, tiny_options, unmerged_options,
};
use crate::crash::{Known, check_all, recover};
use crate::model::Model;
use crate::script::{self, value};
use cleavedb::env::sim::{Call, FaultPlan, Survivors};
use cleavedb::env::{Env, threads::Threads};
use cleavedb::{
    Db, Durability, ErrorKind, Event, EventListener, Options, WriteBatch, WriteOptions,
};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEED: u64 = 31;
/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 300_000;

/// Of the calls of the script with separation at flush, one in this many fails: most of them are
/// the same as without.
const AT_FLUSH_STRIDE: usize = 5;

/// The kind of call that fails, and in what way.
#[derive(Debug, Clone, Copy)]
struct Fault {
    call: Call,
    for_good: bool,
    error: Option<IoKind>,
}

impl Fault {
    fn plan(self, nth: u64) -> FaultPlan {
        let mut plan = FaultPlan::new(self.call).nth(nth);
        if self.for_good {
            plan = plan.for_good();
        }
        match self.error {
            Some(error) => plan.error(error),
            None => plan,
        }
    }

    /// Returns true if no reader needs such a call.
    fn leaves_readers_alone(self) -> bool {
        !matches!(self.call, Call::Read | Call::Open | Call::Inspect)
    }
}

/// Runs the script with a fault, then opens again without. Returns false if no call failed.
fn run_with(script: fn(&mut Client) -> Step, fault: Fault, nth: u64) -> bool {
    let (env, simulation) = Env::simulated(SEED);
    simulation.limit_steps(STEPS);
    simulation.fail(fault.plan(nth));
    let known = simulation.run(|| {
        let mut client = Client::new(&simulation, env, Model::default()).tolerant();
        client.reads_must_work = fault.leaves_readers_alone();
        let outcome = script(&mut client);
        if outcome.is_ok() {
            client.check_live().expect("the power stays on");
        }
        client.leave();
        Known { model: client.model, checkpoint: client.checkpoint }
    });
    let struck = simulation.calls(fault.call) >= nth;
    let survivors = if nth.is_multiple_of(2) { Survivors::LoseAll } else { Survivors::KeepAll };
    let env = simulation.restart(survivors);
    simulation.run(|| {
        let lost = survivors != Survivors::KeepAll;
        let mut client = recover(&simulation, env, &known, lost);
        script::go_on(&mut client, 400).expect("nothing fails any more");
        client.check_live().expect("nothing fails any more");
        client.close().expect("nothing fails any more");
    });
    struck
}

/// Runs the script with a fault at every `stride`-th call of kind `call`, and at every call of its
/// run with separation at flush that is `AT_FLUSH_STRIDE` times as far from the last.
fn fail_everywhere(call: Call, errors: &[Option<IoKind>], stride: usize) {
    fail_in(script::run_faulty, call, errors, stride);
    fail_in(script::run_faulty_at_flush, call, errors, stride * AT_FLUSH_STRIDE);
}

/// Runs a script with a fault at every `stride`-th call of kind `call`.
fn fail_in(script: fn(&mut Client) -> Step, call: Call, errors: &[Option<IoKind>], stride: usize) {
    let mut failures = Vec::new();
    let mut runs = 0;
    for &error in errors {
        for for_good in [false, true] {
            let fault = Fault { call, for_good, error };
            let mut struck = true;
            for nth in (1..).step_by(stride) {
                let place = format!("{fault:?} at call {nth}");
                check_all(&place, &mut failures, || struck = run_with(script, fault, nth));
                runs += 1;
                if !struck || failures.len() > 20 {
                    break;
                }
            }
            assert!(!struck || !failures.is_empty(), "the script runs clean at last");
        }
    }
    println!("{call:?}: {runs} runs");
    let first = &failures[..failures.len().min(10)];
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), first.join("\n"));
}

const EIO: Option<IoKind> = None;
const FULL: Option<IoKind> = Some(IoKind::StorageFull);

#[test]
fn a_failed_write_loses_nothing_acknowledged() {
    fail_everywhere(Call::Write, &[EIO, FULL], 1);
}

#[test]
fn i08_a_failed_sync_loses_nothing_acknowledged() {
    fail_everywhere(Call::Sync, &[EIO], 1);
    fail_everywhere(Call::SyncDir, &[EIO], 1);
}

#[test]
fn a_name_that_cannot_be_changed_loses_nothing_acknowledged() {
    for call in [Call::Create, Call::Rename, Call::Remove, Call::HardLink, Call::CreateDir] {
        fail_everywhere(call, &[EIO, FULL], 1);
    }
    for call in [Call::SetLen, Call::List, Call::Lock] {
        fail_everywhere(call, &[EIO], 1);
    }
}

#[test]
fn a_failed_read_is_told_and_passes() {
    fail_everywhere(Call::Read, &[EIO], 1);
    fail_everywhere(Call::Open, &[EIO], 1);
    fail_everywhere(Call::Inspect, &[EIO], 1);
}

/// A conversion that fails says so and leaves nothing; what it had moved stays moved.
#[test]
fn a_conversion_with_a_failed_call_loses_nothing() {
    for call in [Call::Write, Call::Create] {
        fail_in(script::converting, call, &[EIO, FULL], 1);
    }
    for call in [Call::Sync, Call::SyncDir, Call::Read, Call::Open, Call::Remove] {
        fail_in(script::converting, call, &[EIO], 1);
    }
}

/// A failed sync of the log or the manifest is final: writes fail, reads go on, and only the next
/// opening decides what survived.
#[test]
fn i08_after_a_failed_sync_the_database_is_read_only() {
    for file in [".seg", ".man"] {
        let (env, simulation) = Env::simulated(SEED);
        let known = simulation.run(|| {
            let mut client = Client::new(&simulation, env, Model::default()).tolerant();
            client.open().unwrap();
            client.put("kept", value(1, 300), Durability::Sync).unwrap();
            client.put("kept too", value(2, 30), Durability::Sync).unwrap();
            assert!(client.errors.is_empty(), "{:?}", client.errors);
            simulation.fail(FaultPlan::new(Call::Sync).on(file));
            client.put("lost", value(3, 300), Durability::Sync).unwrap();
            client.settle("flush", Db::flush).unwrap();
            assert!(!client.errors.is_empty(), "the failure was told");
            // Every later write is refused, although the disk works again.
            let before = client.errors.len();
            for durability in [Durability::Buffered, Durability::Os, Durability::Sync] {
                client.put("refused", value(4, 10), durability).unwrap();
            }
            let refused = &client.errors[before..];
            assert_eq!(refused.len(), 3, "{file}");
            for error in refused {
                assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
                assert!(error.to_string().contains("sync"), "the cause is named: {error}");
            }
            assert_eq!(client.db().sync().unwrap_err().kind(), ErrorKind::ReadOnly);
            client.compare(&read_all(client.db()).expect("readers go on"));
            client.leave();
            Known { model: client.model, checkpoint: None }
        });
        let env = simulation.restart(Survivors::LoseAll);
        simulation.run(|| recover(&simulation, env, &known, true).close().unwrap());
    }
}

/// Writes until the disk is full, with every size of the remaining space; then frees space.
#[test]
fn i09_a_full_disk_is_survived_and_writing_resumes() {
    let mut failures = Vec::new();
    for pages in 0..40 {
        check_all(&format!("{pages} pages left"), &mut failures, || fill_up(pages * 4096));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn fill_up(room: u64) {
    let (env, simulation) = Env::simulated(SEED + room);
    simulation.limit_steps(STEPS);
    let known = simulation.run(|| {
        let mut client = Client::new(&simulation, env.clone(), Model::default()).tolerant();
        client.open().unwrap();
        for number in 0..20 {
            client.put(&format!("k{number}"), value(number, 400), Durability::Os).unwrap();
        }
        assert!(client.errors.is_empty(), "{:?}", client.errors);
        simulation.set_capacity(Some(simulation.used() + room));
        let mut number = 20;
        while client.errors.is_empty() {
            let durability = script::durability(number);
            client.put(&format!("k{number}"), value(number, 700), durability).unwrap();
            number += 1;
            assert!(number < 2000, "the disk never fills up");
        }
        for error in &client.errors {
            assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        }
        client.compare(&read_all(client.db()).expect("readers go on"));
        let _ = client.db().flush();
        let _ = client.db().compact();
        client.compare(&read_all(client.db()).expect("readers go on"));
        simulation.set_capacity(None);
        resume(&mut client, &*env.threads, number);
        client.compare(&read_all(client.db()).expect("readers go on"));
        if room.is_multiple_of(8192) {
            client.close().unwrap();
        }
        client.leave();
        Known { model: client.model, checkpoint: None }
    });
    let survivors = if room.is_multiple_of(8192) { Survivors::LoseAll } else { Survivors::KeepAll };
    let env = simulation.restart(survivors);
    let lost = survivors != Survivors::KeepAll;
    simulation.run(|| recover(&simulation, env, &known, lost).close().unwrap());
}

/// Tries to write until that works again, because background work may pause for a while.
fn resume(client: &mut Client, threads: &dyn Threads, number: usize) {
    for _ in 0..100 {
        client.errors.clear();
        client.put("again", value(number, 300), Durability::Sync).unwrap();
        if client.errors.is_empty() {
            let flushed: Result<(), Stop> = client.settle("flush", Db::flush);
            flushed.unwrap();
            client.call("wait", Db::wait_idle).unwrap();
            if client.errors.is_empty() {
                return;
            }
        }
        threads.sleep(Duration::from_millis(200));
    }
    panic!("writing does not resume: {:?}", client.errors);
}

/// A database that could not be created can be created once the disk works.
#[test]
fn a_failed_creation_can_be_repeated() {
    for nth in 1.. {
        let (env, simulation) = Env::simulated(SEED);
        simulation.fail(FaultPlan::any_call().nth(nth));
        let clean = simulation.run(|| {
            let open = || Db::builder(DIR).options(tiny_options()).env(env.clone()).open();
            let first = open().map(drop);
            simulation.clear_faults();
            let again = open().unwrap_or_else(|error| panic!("after a fault at {nth}: {error}"));
            again.default_keyspace().put("a", "1").unwrap();
            first.is_ok() && simulation.all_calls() < nth
        });
        if clean {
            return;
        }
    }
}

/// A relocation for which there is no room changes nothing. Once there is room, value GC continues
/// with what it knows, although nothing is written and so no other liveness scan is due.
#[test]
fn i09_value_gc_goes_on_after_a_full_disk() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.limit_steps(STEPS);
    simulation.run(|| {
        let mut client = Client::new(&simulation, env.clone(), Model::default());
        client.open().unwrap();
        client.db().pause_gc();
        let key = |number: usize| format!("k{number:02}");
        for number in 0..60 {
            client.put(&key(number), value(number, 900), Durability::Os).unwrap();
        }
        client.settle("flush", Db::flush).unwrap();
        // Each segment has a value that stays live, and needs a relocation.
        for number in (0..59).filter(|number| number % 5 > 0) {
            client.put(&key(number), value(number, 20), Durability::Os).unwrap();
        }
        client.settle("flush", Db::flush).unwrap();
        client.call("wait", Db::wait_idle).unwrap();
        let no_room = FaultPlan::new(Call::Create).on(".rel").error(IoKind::StorageFull);
        simulation.fail(no_room.for_good());
        client.db().resume_gc();
        // This is long enough for value GC to try each segment.
        env.threads.sleep(Duration::from_secs(120));
        let stats = client.db().stats();
        let failed = stats.background_error.is_some();
        assert!(failed && stats.gc.segments_relocated == 0, "{:?}", stats.gc);
        client.check_live().unwrap();
        simulation.clear_faults();
        env.threads.sleep(Duration::from_secs(60));
        let stats = client.db().stats();
        assert!(stats.gc.segments_relocated > 3, "{:?}", stats.gc);
        client.check_live().unwrap();
        client.close().unwrap();
    });
}

/// Puts values and overwrites half of them, and almost all in the first segment, so that value GC
/// wins the most there. Returns the path of that segment.
fn fill_for_gc(env: &Env, db: &Db) -> PathBuf {
    db.pause_gc();
    let put = |number: usize, len| {
        db.default_keyspace().put(format!("k{number:02}"), value(number, len)).unwrap();
    };
    (0..60).for_each(|number| put(number, 900));
    let names = env.fs.list(Path::new(DIR)).unwrap();
    let first = names.into_iter().filter(|name| name.extension().is_some_and(|it| it == "seg"));
    (0..60).filter(|number| !is_kept(*number)).for_each(|number| put(number, 20));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    Path::new(DIR).join(first.min().unwrap())
}

fn is_kept(number: usize) -> bool {
    number == 0 || number >= 6 && number.is_multiple_of(2)
}

fn assert_filled(db: &Db) {
    for number in 0..60 {
        let found = db.default_keyspace().get(format!("k{number:02}")).unwrap().unwrap();
        assert_eq!(found, value(number, if is_kept(number) { 900 } else { 20 }), "{number}");
    }
}

/// A segment that can't be read for a while does not keep others from being freed, and is freed
/// once it can be read again.
#[test]
fn value_gc_goes_on_beside_a_segment_that_cannot_be_read() {
    for call in [Call::Open, Call::Read] {
        let (env, simulation) = Env::simulated(SEED);
        simulation.limit_steps(STEPS);
        simulation.run(|| {
            let db = open(&env, tiny_options());
            let first = fill_for_gc(&env, &db);
            let name = first.file_name().unwrap().to_str().unwrap();
            simulation.fail(FaultPlan::new(call).on(name).for_good());
            db.resume_gc();
            env.threads.sleep(Duration::from_secs(150));
            let relocated = db.stats().gc.segments_relocated;
            assert!(relocated > 3, "{call:?} {relocated}");
            assert!(env.fs.exists(&first).unwrap(), "{call:?}: what is live in it is nowhere else");
            let told = db.stats().background_error.map(|error| error.to_string());
            assert!(told.as_ref().is_some_and(|told| told.contains(name)), "{call:?} {told:?}");
            simulation.clear_faults();
            env.threads.sleep(Duration::from_secs(300));
            assert!(!env.fs.exists(&first).unwrap(), "{call:?}: it was tried again");
            assert!(db.stats().background_error.is_none());
            assert_filled(&db);
            db.close().unwrap();
        });
    }
}

/// The same for a relocation that can't be read: its target segments stay, others are freed.
#[test]
fn value_gc_goes_on_beside_a_relocation_that_cannot_be_read() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.limit_steps(STEPS);
    simulation.run(|| {
        // The cache is so large that what was read once stays in memory.
        let options = Options {
            cache_bytes: 1 << 20,
            max_index_and_filter_bytes: None,
            ..unmerged_options()
        };
        let db = open(&env, options);
        db.pause_gc();
        let key = |letter: char, number: usize| format!("{letter}{number:02}");
        let put = |letter: char, number: usize, len: usize| {
            db.default_keyspace().put(key(letter, number), value(number, len)).unwrap();
        };
        let assert_values = |letter: char, kept: usize| {
            for number in 0..64 {
                let found = db.default_keyspace().get(key(letter, number)).unwrap().unwrap();
                let len = if number.is_multiple_of(kept) { 4000 } else { 20 };
                assert_eq!(found, value(number, len), "{letter}{number}");
            }
        };
        (0..64).for_each(|number| put('a', number, 4000));
        (0..64).filter(|number| number % 2 > 0).for_each(|number| put('a', number, 20));
        assert!(db.gc().unwrap().segments_freed > 3);
        assert_values('a', 2);
        // Value GC wins the most in the segments whose records were moved already.
        (0..64).filter(|number| number % 16 > 0).for_each(|number| put('a', number, 20));
        (0..64).for_each(|number| put('b', number, 4000));
        (0..64).filter(|number| number % 2 > 0).for_each(|number| put('b', number, 20));
        db.flush().unwrap();
        simulation.fail(FaultPlan::new(Call::Read).on(".rel").for_good());
        let before = db.stats().gc.segments_relocated;
        let error = db.gc().unwrap_err();
        assert!(error.file().unwrap().extension().is_some_and(|it| it == "rel"), "{error}");
        let relocated = db.stats().gc.segments_relocated - before;
        assert!(relocated > 2, "{relocated}, then {error}");
        simulation.clear_faults();
        assert!(db.gc().unwrap().segments_freed > 0, "whoever asks has it tried again at once");
        assert!(db.stats().background_error.is_none());
        assert_values('a', 16);
        assert_values('b', 2);
        assert!(db.check().unwrap().is_clean());
    });
}

/// Damage that keeps value GC from determining or moving what is live is reported for as long as
/// the database is open, so that users can see why space is not freed.
#[test]
fn i04_value_gc_says_what_damage_keeps_it_from_working() {
    for suffix in ["tbl", "seg"] {
        let (env, simulation) = Env::simulated(SEED);
        simulation.limit_steps(STEPS);
        simulation.run(|| {
            let db = open(&env, tiny_options());
            db.pause_gc();
            let put = |db: &Db, number: usize, len: usize| {
                db.default_keyspace().put(format!("k{number:02}"), value(number, len)).unwrap();
            };
            (0..60).for_each(|number| put(&db, number, 900));
            db.compact().unwrap();
            db.close().unwrap();
            // The first file has the first keys, none of which is overwritten.
            let files = env.fs.list(Path::new(DIR)).unwrap();
            let name = files.iter().find(|name| name.extension().is_some_and(|it| it == suffix));
            let path = Path::new(DIR).join(name.unwrap());
            let file = env.fs.open_write(&path).unwrap();
            file.write_at(&[0xab; 40], 150).unwrap();
            drop(file);
            let db = open(&env, tiny_options());
            (2..60).filter(|number| number % 5 > 0).for_each(|number| put(&db, number, 20));
            for _ in 0..3 {
                env.threads.sleep(Duration::from_secs(30));
                let stats = db.stats();
                let told =
                    stats.background_error.unwrap_or_else(|| panic!("{suffix} {}", stats.gc));
                assert!(told.to_string().contains(suffix), "{told}");
            }
            match db.space() {
                Ok(space) => {
                    let name = path.file_name().unwrap().to_str().unwrap();
                    let row = space.segments.iter().find(|it| format!("{:08}.seg", it.id) == name);
                    assert_eq!(row.unwrap().reason, "damaged: can't be moved");
                    assert!(space.warnings.iter().any(|it| it.contains(name)), "{space}");
                    assert!(db.stats().gc.segments_relocated > 3, "others were freed");
                }
                // This call walks the same tables.
                Err(error) => assert!(suffix == "tbl" && error.to_string().contains(suffix)),
            }
        });
    }
}

/// The errors of failed jobs that a listener was told of.
#[derive(Default)]
struct FailedJobs(Mutex<Vec<ErrorKind>>);

impl EventListener for FailedJobs {
    fn on_event(&self, event: &Event) {
        if let Event::BackgroundError { error, .. } = event {
            self.0.lock().unwrap().push(error.kind());
        }
    }
}

/// A program that waited for `BackgroundError` never got it for a job that failed and was tried
/// again: the event was emitted only when a whole thread ended. Now each failure is an event.
#[test]
fn a_failed_job_is_an_event() {
    let (env, simulation) = Env::simulated(SEED);
    simulation.limit_steps(STEPS);
    simulation.run(|| {
        let failed = Arc::new(FailedJobs::default());
        let builder = Db::builder(DIR).options(tiny_options()).env(env.clone());
        let db = builder.event_listener(failed.clone()).open().unwrap();
        db.default_keyspace().put("key", "value").unwrap();
        simulation.fail(FaultPlan::new(Call::Create).on(".tbl").error(IoKind::StorageFull));
        // The caller may get the error of the first try; the second one succeeds.
        let _ = db.flush();
        env.threads.sleep(Duration::from_secs(1));
        db.flush().unwrap();
        assert_eq!(*failed.0.lock().unwrap(), [ErrorKind::DiskFull]);
        db.close().unwrap();
    });
}

/// A sync that is due may fail before anything is synced, as what is buffered has no room. It is
/// tried again, and a program that waits for errors is told.
#[test]
fn a_due_sync_without_room_is_an_event() {
    simulate(SEED, STEPS, |env, simulation| {
        let failed = Arc::new(FailedJobs::default());
        let durability = Durability::SyncEvery(Duration::from_millis(100));
        let options = Options { durability, mapped_appends: false, ..tiny_options() };
        let builder = Db::builder(DIR).options(options).env(env.clone());
        let db = builder.event_listener(failed.clone()).open().unwrap();
        let keyspace = db.default_keyspace();
        keyspace.put("a", "1").unwrap();
        let buffered = WriteOptions::new().durability(Durability::Buffered);
        keyspace.put_with("b", "2", &buffered).unwrap();
        simulation.fail(FaultPlan::new(Call::Write).on(".seg").error(IoKind::StorageFull));
        env.threads.sleep(Duration::from_secs(5));
        assert_eq!(*failed.0.lock().unwrap(), [ErrorKind::DiskFull]);
        assert!(db.stats().background_error.is_none(), "the next try succeeded");
    });
}

/// A commit that failed had its sequence numbers marked as not noted, although the next commit got
/// them again. So it was not known what a conditional commit right after it depends on: one that
/// compares tried for ever, a transaction failed.
#[test]
fn a_failed_write_leaves_conditional_commits_decidable() {
    for operations in [1, 300] {
        simulate(SEED, STEPS, |env, simulation| {
            let db = open(env, tiny_options());
            let keyspace = db.default_keyspace();
            keyspace.put("a", "1").unwrap();
            let mut batch = WriteBatch::new();
            for number in 0..operations {
                batch.put(&keyspace, number.to_string(), "x");
            }
            simulation.fail(FaultPlan::new(Call::Write).on(".seg"));
            db.write(batch).unwrap_err();
            assert!(keyspace.put_if_absent("b", "1").unwrap().is_done());
            let transaction = db.begin();
            assert_eq!(transaction.get(&keyspace, "a").unwrap().unwrap(), "1");
            transaction.put(&keyspace, "a", "2").unwrap();
            transaction.commit().unwrap();
        });
    }
}
