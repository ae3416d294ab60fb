//! Power failures at each call, planned errors, full disks.

use super::{durable, exists};
use crate::env::Env;
use crate::env::sim::{Call, FaultPlan, Simulation, Survivors};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Replaces a file's content as databases do; each `?` is a call that can fail.
fn replace(env: &Env, content: &[u8]) -> io::Result<()> {
    let (temporary, name) = (Path::new("/db/tmp"), Path::new("/db/name"));
    let file = env.fs.create(temporary)?;
    file.write_at(content, 0)?;
    file.sync()?;
    env.fs.rename(temporary, name)?;
    env.fs.sync_dir(Path::new("/db"))
}

fn database(seed: u64) -> (Env, Simulation) {
    let (env, simulation) = Env::simulated(seed);
    env.fs.create_dir_all(Path::new("/db")).unwrap();
    env.fs.sync_dir(Path::new("/")).unwrap();
    durable(&env, "/db/name", b"old");
    (env, simulation)
}

#[test]
fn the_power_can_fail_at_each_call() {
    let calls = {
        let (env, simulation) = database(0);
        let before = simulation.mutations();
        replace(&env, b"new").unwrap();
        simulation.mutations() - before
    };
    assert_eq!(calls, 5);
    let mut found_new = 0;
    for seed in 0..50 {
        for call in 1..=calls {
            let (env, simulation) = database(seed);
            simulation.crash_at(simulation.mutations() + call);
            assert!(replace(&env, b"new").is_err());
            assert!(simulation.crashed());
            assert!(env.fs.exists(Path::new("/db")).is_err(), "all later calls fail");
            let env = simulation.restart(Survivors::Random);
            assert!(!simulation.crashed());
            let content = simulation.read_file("/db/name");
            assert!(content == b"old" || content == b"new", "{content:?}");
            found_new += u64::from(content == b"new");
            assert_eq!(simulation.mutations(), 0);
            drop(env);
        }
    }
    assert!(found_new > 0, "the call at which the power fails can survive");
}

#[test]
fn a_missing_sync_is_found() {
    let broken_replace = |env: &Env| -> io::Result<()> {
        let file = env.fs.create(Path::new("/db/tmp"))?;
        file.write_at(b"new", 0)?;
        env.fs.rename(Path::new("/db/tmp"), Path::new("/db/name"))?;
        env.fs.sync_dir(Path::new("/db"))
    };
    let broken = (0..20).any(|seed| {
        let (env, simulation) = database(seed);
        broken_replace(&env).unwrap();
        simulation.crash();
        simulation.restart(Survivors::Random);
        let content = simulation.read_file("/db/name");
        content != b"old" && content != b"new"
    });
    assert!(broken);
}

#[test]
fn a_crash_during_a_sync_has_synced_nothing() {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", b"old");
    file.write_at(b"new", 0).unwrap();
    simulation.crash_at(simulation.mutations() + 1);
    assert!(file.sync().is_err());
    let (_, after) = simulation.surviving(Survivors::LoseAll, 1);
    assert_eq!(after.read_file("a"), b"old");
}

#[test]
fn the_nth_call_of_a_kind_fails_once() {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", b"abc");
    simulation.fail(FaultPlan::new(Call::Read).nth(2));
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(file.read_exact_at(&mut byte, 0).unwrap_err().raw_os_error(), Some(5));
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(simulation.calls(Call::Read), 3);
}

#[test]
fn a_fault_for_good_ends_when_cleared() {
    let (env, simulation) = Env::simulated(1);
    let path = Path::new;
    simulation.fail(FaultPlan::new(Call::Create).on(".seg").for_good().error(ErrorKind::Other));
    env.fs.create(path("a.sst")).unwrap();
    for _ in 0..3 {
        assert_eq!(env.fs.create(path("a.seg")).err().unwrap().kind(), ErrorKind::Other);
    }
    assert!(!exists(&env, "a.seg"), "nothing happened");
    simulation.clear_faults();
    env.fs.create(path("a.seg")).unwrap();
}

#[test]
fn every_call_can_fail() {
    let mut call = 0;
    loop {
        let (env, simulation) = database(7);
        call += 1;
        simulation.fail(FaultPlan::any_call().nth(call).error(ErrorKind::TimedOut));
        match replace(&env, b"new") {
            Ok(()) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
        }
        let content = simulation.read_file("/db/name");
        assert!(content == b"old" || content == b"new");
    }
    assert_eq!(call, 6, "five calls can fail");
}

#[test]
fn a_failed_write_may_have_written_a_part() {
    let mut lengths: Vec<u64> = (0..50)
        .map(|seed| {
            let (env, simulation) = Env::simulated(seed);
            let file = env.fs.create(Path::new("a")).unwrap();
            simulation.fail(FaultPlan::new(Call::Write).error(ErrorKind::StorageFull));
            assert_eq!(file.write_at(&[1; 100], 0).unwrap_err().kind(), ErrorKind::StorageFull);
            file.len().unwrap()
        })
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.len() > 10 && lengths.iter().all(|&len| len <= 100));
}

#[test]
fn syncing_again_after_a_failed_sync_does_not_help() {
    let lost = (0..20).filter(|&seed| {
        let (env, simulation) = Env::simulated(seed);
        let file = durable(&env, "a", b"old");
        file.write_at(b"new", 0).unwrap();
        simulation.fail(FaultPlan::new(Call::Sync));
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(simulation.read_file("a"), b"new", "the page cache still has it");
        simulation.restart(Survivors::LoseAll);
        simulation.read_file("a") == b"old"
    });
    let lost = lost.count();
    assert!((1..20).contains(&lost), "sometimes, but not always: {lost} of 20");
}

#[test]
fn a_full_disk_takes_what_fits_and_has_room_again() {
    let (env, simulation) = Env::simulated(1);
    simulation.set_capacity(Some(4 * 4096));
    let space = || env.fs.free_space(Path::new("/")).unwrap();
    let a = env.fs.create(Path::new("a")).unwrap();
    let b = env.fs.create(Path::new("b")).unwrap();
    a.write_at(&[1; 2 * 4096], 0).unwrap();
    assert_eq!(space(), 2 * 4096);
    let error = b.write_at(&[2; 3 * 4096], 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!((b.len().unwrap(), space()), (2 * 4096, 0), "the first pages fit");
    a.write_at(&[3; 2 * 4096], 0).unwrap(); // needs no new space
    assert!(a.write_at(&[3], 2 * 4096).is_err());
    a.punch(0, 4096).unwrap();
    assert_eq!(space(), 4096);
    a.write_at(&[3], 2 * 4096).unwrap();
    b.set_len(4096).unwrap();
    assert_eq!(space(), 4096);
    drop(b);
    env.fs.remove(Path::new("b")).unwrap();
    assert_eq!(space(), 2 * 4096);
    simulation.set_capacity(Some(100 * 4096));
    a.write_at(&[4; 50 * 4096], 0).unwrap();
    assert_eq!(simulation.used(), 50 * 4096);
}
