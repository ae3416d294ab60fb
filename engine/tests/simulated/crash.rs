//! Tests of crashes: a power failure, or the end of the process, at every single call of the script
//! that changes the disk, with every kind of survivors. The database must open again, with contents
//! that the model allows.

mod modes;

use crate::client::{Checkpoint, Client, DIR, Relocated, Step, read_all, tiny_options};
use crate::model::{Contents, Model, difference};
use crate::script;
use cleavedb::env::Env;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::{Db, Options};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the seed of the script's simulation, which `CLEAVEDB_SEED` can set.
fn seed() -> u64 {
    std::env::var("CLEAVEDB_SEED").map_or(20, |text| text.parse().expect("a number"))
}

/// The kinds of survivors of a crash, each with the seed of its random choices.
const SURVIVORS: [(Survivors, u64); 8] = [
    (Survivors::LoseAll, 1),
    (Survivors::KeepAll, 2),
    (Survivors::Prefix, 3),
    (Survivors::TornLast, 4),
    (Survivors::Random, 5),
    (Survivors::Random, 6),
    (Survivors::Random, 7),
    (Survivors::Prefix, 8),
];

/// A guard that prints where the test was when it failed.
struct Where(String);

impl Drop for Where {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed: {}", self.0);
        }
    }
}

/// The model's state, and the checkpoint if one was begun.
#[derive(Clone)]
pub struct Known {
    pub model: Model,
    pub checkpoint: Option<Checkpoint>,
}

/// The operations of a client until the crash.
type Script = fn(&mut Client) -> Step;

/// Runs the script until call number `crash_at`, or to its end if that is `None`.
fn run_script(script: Script, crash_at: Option<u64>) -> (Simulation, Known, Relocated) {
    let (env, simulation) = Env::simulated(seed());
    if let Some(call) = crash_at {
        simulation.crash_at(call);
    }
    let (known, relocated) = simulation.run(|| {
        let mut client = Client::new(&simulation, env, Model::default());
        let outcome = script(&mut client);
        client.leave();
        assert_eq!(simulation.crashed(), crash_at.is_some(), "the script ended at the crash");
        assert!(outcome.is_ok() || simulation.crashed());
        (Known { model: client.model, checkpoint: client.checkpoint }, client.relocated)
    });
    (simulation, known, relocated)
}

/// Opens what survived and compares it with the model. Returns a client that continues from there.
pub fn recover(simulation: &Simulation, env: Env, known: &Known, power_failed: bool) -> Client {
    let mut client = Client::new(simulation, env.clone(), known.model.clone());
    let db = Db::builder(DIR).options(tiny_options()).env(env.clone()).open();
    let db = db.unwrap_or_else(|error| panic!("the database does not open again: {error}"));
    let found = read_all(&db).unwrap_or_else(|error| panic!("a value does not read: {error}"));
    if let Err(text) = client.model.recover(&found, power_failed) {
        panic!("{text}");
    }
    let report = db.check().expect("a check can be made");
    assert!(report.is_clean(), "after recovery: {:?}", report.problems);
    client.adopt(db);
    if let Some(checkpoint) = &known.checkpoint {
        check_checkpoint(env, checkpoint);
    }
    client
}

/// Checks that an acknowledged checkpoint is complete, and any other is complete or refused.
fn check_checkpoint(env: Env, checkpoint: &Checkpoint) {
    let options = Options { create_if_missing: false, ..tiny_options() };
    match Db::builder(&checkpoint.target).options(options).env(env).open() {
        Ok(db) => {
            let found = read_all(&db).expect("the checkpoint reads");
            let texts = checkpoint.contents.iter().map(|(name, wanted)| {
                let empty = Contents::new();
                (name, difference(wanted, found.get(name).unwrap_or(&empty)))
            });
            let texts: Vec<_> = texts.filter(|(_, text)| !text.is_empty()).collect();
            assert!(texts.is_empty(), "the checkpoint has other contents: {texts:?}");
            let missing = |name: &&String| !found.contains_key(*name);
            assert_eq!(checkpoint.contents.keys().find(missing), None, "it lacks a keyspace");
        }
        Err(error) => assert!(!checkpoint.acknowledged, "the checkpoint is lost: {error}"),
    }
}

/// Writes more after a recovery, then closes. Everything must be there, and no file left over.
fn close_and_look(simulation: &Simulation, env: &Env, mut client: Client) -> Step {
    script::go_on(&mut client, 300)?;
    client.check_live()?;
    client.call("wait", Db::wait_idle)?;
    client.close()?;
    let known = Known { model: client.model, checkpoint: None };
    let mut client = recover(simulation, env.clone(), &known, true);
    assert_eq!(client.db().recovery().orphans_removed, 0, "a clean close leaves no orphans");
    assert_eq!(client.db().recovery().torn_bytes, 0, "a clean close leaves no torn end");
    client.call("wait", Db::wait_idle)?;
    // A removed file that is still open would be a leak.
    assert_eq!(simulation.open_but_removed(), 0, "a removed file is still open");
    client.close()
}

/// Opens and writes more after a crash, until the power fails a second time after some calls.
fn crash_again(
    world: &Simulation,
    env: Env,
    known: &Known,
    policy: Survivors,
    (calls, second): (u64, Survivors),
) {
    let power_failed = policy != Survivors::KeepAll;
    let after = world.run(|| {
        world.crash_at(world.mutations() + calls);
        // The second crash may come during the recovery from the first.
        let mut client = Client::new(world, env.clone(), known.model.clone());
        let outcome = client.recover(power_failed);
        let outcome = outcome.and_then(|()| script::go_on(&mut client, 300));
        if outcome.is_ok() {
            world.crash();
        }
        client.leave();
        Known { model: client.model, checkpoint: None }
    });
    let env = world.restart(second);
    let lost = power_failed || second != Survivors::KeepAll;
    let _where = Where(format!("after a second crash with {second:?}"));
    world.run(|| recover(world, env, &after, lost).leave());
}

/// Checks every kind of survivors of a crash. Returns the number of states that were recovered
/// from, and the failures.
fn check_crash(script: Script, call: Option<u64>) -> (usize, Vec<String>) {
    let (simulation, known, _) = run_script(script, call);
    let (mut states, mut failures) = (0, Vec::new());
    for (index, (policy, draw)) in SURVIVORS.into_iter().enumerate() {
        let number = call.unwrap_or(0) + index as u64;
        let seed = number * 100 + draw;
        let place = format!("crash at {call:?}, {policy:?} with seed {seed}");
        let (env, world) = simulation.surviving(policy, seed);
        check_all(&place, &mut failures, || {
            states += check_survivors(&world, env, &known, policy, number);
        });
        if policy == Survivors::KeepAll {
            // After the end of the process, data may be in the page cache only. Recovery must not
            // depend on it: the power fails in the middle of the opening that reads it.
            for early in 0..3 {
                let (env, world) = simulation.surviving(policy, seed);
                let place = format!("{place}, opening {early}");
                let second = [Survivors::LoseAll, Survivors::Random, Survivors::Random][early];
                let after = 3 + (number * 5 + early as u64 * 7) % 21;
                check_all(&place, &mut failures, || {
                    crash_again(&world, env, &known, policy, (after, second));
                    states += 2;
                });
            }
        }
    }
    (states, failures)
}

/// Recovers. Then the power fails again, or the database is closed, or nothing happens.
fn check_survivors(
    world: &Simulation,
    env: Env,
    known: &Known,
    policy: Survivors,
    number: u64,
) -> usize {
    if number % 3 != 1 {
        // `LoseAll` is the hardest case for data that only the page cache held at the first crash.
        let policies =
            [Survivors::LoseAll, Survivors::Random, Survivors::TornLast, Survivors::KeepAll];
        let second = policies[number as usize % policies.len()];
        crash_again(world, env, known, policy, (1 + number * 13 % 90, second));
        return 2;
    }
    world.run(|| {
        let mut client = recover(world, env.clone(), known, policy != Survivors::KeepAll);
        if number % 2 == 1 {
            close_and_look(world, &env, client).expect("nothing fails");
        } else {
            client.leave();
        }
    });
    1
}

/// Runs `check`, and adds a panic in it to the failures.
pub fn check_all(place: &str, failures: &mut Vec<String>, check: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(check)) {
        failures.push(format!("{place}: {}", panic_text(&*panic)));
    }
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Returns how many calls of the script change the disk. Asserts that value GC relocated segments,
/// both by hand and automatically, because otherwise no crash would hit it.
fn count_calls() -> u64 {
    let (simulation, _, relocated) = run_script(script::run, None);
    let by_itself = relocated.in_all - relocated.by_hand;
    assert!(relocated.by_hand > 2 && by_itself > 2, "value GC rests: {relocated:?}");
    simulation.mutations()
}

/// Crashes at every `stride`-th of `calls` calls of the script, from `first` on. `CLEAVEDB_STRIDE`
/// multiplies the stride.
fn check_calls(script: Script, calls: u64, first: u64, stride: usize) {
    assert!(calls > 200, "the script does too little: {calls} calls");
    let more: usize = std::env::var("CLEAVEDB_STRIDE").map_or(1, |text| text.parse().unwrap());
    let (mut states, mut failures) = (0, Vec::new());
    let crashes = (first..=calls).step_by(stride * more).map(Some).chain([None]);
    for call in crashes {
        let (more, failed) = check_crash(script, call);
        states += more;
        failures.extend(failed);
    }
    println!("{calls} calls, from {first} on: {states} states after crashes");
    let (count, first) = (failures.len(), &failures[..failures.len().min(10)]);
    assert!(failures.is_empty(), "{count} failures:\n{}", first.join("\n"));
}

/// Crashes at a share of the script's calls: each `stride`-th one from `first` on, or every call if
/// `CLEAVEDB_EVERY_CALL` is set. `is_worth` asserts that value GC did what the script is for.
fn check_share(script: Script, (first, stride): (u64, usize), is_worth: impl FnOnce(Relocated)) {
    let (simulation, _, relocated) = run_script(script, None);
    is_worth(relocated);
    let is_every = std::env::var_os("CLEAVEDB_EVERY_CALL").is_some();
    let (first, stride) = if is_every { (1, 1) } else { (first, stride) };
    check_calls(script, simulation.mutations(), first, stride);
}

/// Asserts that value GC relocated segments.
fn some_relocated(relocated: Relocated) {
    assert!(relocated.in_all > 4, "value GC rests: {relocated:?}");
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_odd_call_of_the_script() {
    check_calls(script::run, count_calls(), 1, 2);
}

#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_even_call_of_the_script() {
    check_calls(script::run, count_calls(), 2, 2);
}

/// The closes of some of these sessions merge the files that short sessions left.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_odd_call_of_short_sessions() {
    let (simulation, ..) = run_script(script::sessions, None);
    check_calls(script::sessions, simulation.mutations(), 1, 2);
}

/// The same with a crash at every other call, from the second on.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_even_call_of_short_sessions() {
    let (simulation, ..) = run_script(script::sessions, None);
    check_calls(script::sessions, simulation.mutations(), 2, 2);
}

/// The flushes of this script write values to sorted segments beside their tables. The segments
/// must be durable before the edit that names both.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_seventh_call_of_the_script_at_flush() {
    check_share(script::run_at_flush, (1, 7), some_relocated);
}

/// The same where short sessions leave small segments, which closing folds into sorted ones.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_seventh_call_of_short_sessions_at_flush() {
    check_share(script::sessions_at_flush, (1, 7), |_| ());
}

/// Scans have values put in order: segments and tables must be durable before the edit that names
/// both, and what they replace must stay until then.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_call_of_scans_that_put_values_in_order() {
    let (before, ..) = run_script(script::strewn, None);
    let (simulation, ..) = run_script(script::scans, None);
    let (first, calls) = (before.mutations(), simulation.mutations());
    assert!(calls > first + 30, "the jobs make {first} to {calls} calls");
    check_calls(script::scans, calls, first, 1);
}

/// Most values of this script are operands, which reads, flushes and compactions append to others.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_seventh_call_of_the_script_that_appends() {
    check_share(script::run_appending, (1, 7), some_relocated);
}

/// The same in short sessions, which closing folds.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_seventh_call_of_short_sessions_that_append() {
    check_share(script::sessions_appending, (1, 7), |_| ());
}

/// A conversion writes segments and tables, and removes others. Whatever it has come to, all values
/// are there, and the next one goes on from there.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_call_of_conversions() {
    let (simulation, ..) = run_script(script::converting, None);
    check_calls(script::converting, simulation.mutations(), 1, 1);
}

/// Values move while compactions pass them, into the tree and out of it.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_third_call_of_compactions_that_move_values() {
    check_share(script::homing, (1, 3), |_| ());
}

/// The same at every fifth call where values are appended to others.
#[test]
fn i1_i2_i3_i5_i6_a_crash_at_every_fifth_call_of_conversions_of_operands() {
    check_share(script::converting_appended, (1, 5), |_| ());
}
