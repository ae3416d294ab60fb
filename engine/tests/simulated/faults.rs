//! An error at the first, second, third … call of each kind until the script meets none: once, and
//! for good. Nothing panics or hangs, no reader sees a wrong value, and after the trouble is over
//! and the database was opened again, everything is there that was acknowledged.

use crate::client::{Client, DIR, Stop, read_all, tiny_options};
use crate::crash::{Known, check_all, recover};
use crate::model::Model;
use crate::script::{self, value};
use cleavedb::env::sim::{Call, FaultPlan, Survivors};
use cleavedb::env::{Env, threads::Threads};
use cleavedb::{Db, Durability, ErrorKind};
use std::io::ErrorKind as IoKind;
use std::time::Duration;

const SEED: u64 = 31;
/// A run that takes more steps hangs.
const STEPS: u64 = 300_000;

/// What goes wrong.
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

    /// True if a reader needs no such call.
    fn leaves_readers_alone(self) -> bool {
        !matches!(self.call, Call::Read | Call::Open | Call::Inspect)
    }
}

/// Runs the script with a fault, then opens again without. False if the fault never struck.
fn run_with(fault: Fault, nth: u64) -> bool {
    let (env, simulation) = Env::simulated(SEED);
    simulation.limit_steps(STEPS);
    simulation.fail(fault.plan(nth));
    let known = simulation.run(|| {
        let mut client = Client::new(&simulation, env, Model::default()).tolerant();
        client.reads_must_work = fault.leaves_readers_alone();
        let outcome = script::run_faulty(&mut client);
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

/// All places at which `call` can fail, in steps of `stride`.
fn fail_everywhere(call: Call, errors: &[Option<IoKind>], stride: usize) {
    let mut failures = Vec::new();
    let mut runs = 0;
    for &error in errors {
        for for_good in [false, true] {
            let fault = Fault { call, for_good, error };
            let mut struck = true;
            for nth in (1..).step_by(stride) {
                let place = format!("{fault:?} at call {nth}");
                check_all(&place, &mut failures, || struck = run_with(fault, nth));
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

/// A failed sync of the log or the manifest is final: writers are told, readers go on, and only
/// opening again decides.
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
            // Every later write is refused, though the disk works again.
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

/// Writes until the disk is full, at every size of the rest; then there is room again.
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

/// Tries to write until it works again; background work may pause for a while.
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

/// A relocation for which there is no room leaves everything as it was; once there is room, value
/// GC goes on with what it knows, though nobody writes and so no other census is due.
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
        for number in (0..60).filter(|number| number % 5 > 0) {
            client.put(&key(number), value(number, 20), Durability::Os).unwrap();
        }
        client.settle("flush", Db::flush).unwrap();
        client.call("wait", Db::wait_idle).unwrap();
        let no_room = FaultPlan::new(Call::Create).on(".rel").error(IoKind::StorageFull);
        simulation.fail(no_room.for_good());
        client.db().resume_gc();
        // Long enough to try with each segment.
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
