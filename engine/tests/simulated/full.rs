//! Tests of a store on a small disk (I9): it is filled until the disk is full, half of it is
//! deleted, and it is filled again, round after round, with crashes in between. Each run depends on
//! its seed alone.

use crate::client::{
    Client, DIR, at_flush_options, file_bytes, files, read_all, simulate, tiny_options,
};
use crate::crash::check_all;
use crate::model::Model;
use crate::script::value;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::env::{Env, threads::Threads};
use cleavedb::{Db, Durability, ErrorKind, Event, EventListener, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The capacity of the disk in bytes, beyond what an empty store takes.
const ROOM: u64 = 1 << 20;
const ROUNDS: usize = 4;
/// The limit of steps of a run; one that takes more hangs.
const STEPS: u64 = 3_000_000;
/// The wait for space after a refused write, which is repeated at most `WAITS` times.
const WAIT: Duration = Duration::from_millis(250);
const WAITS: usize = 40;

/// Creates a client whose segments are much larger than the blocks of the disk, because the reserve
/// is counted in segments. Every third seed separates at flush, with memtables that hold about as
/// many entries as the others.
fn user(simulation: &Simulation, env: &Env, model: Model, seed: u64) -> Client {
    let mut client = Client::new(simulation, env.clone(), model);
    let keyspace = match seed.is_multiple_of(3) {
        true => KeyspaceOptions { memtable_bytes: 16 << 10, ..at_flush_options() },
        false => tiny_options().keyspace,
    };
    client.options = Options { segment_bytes: 32 << 10, keyspace, ..tiny_options() };
    client
}

/// Puts until the disk is full. Returns the keys that were stored.
fn fill(client: &mut Client, threads: &dyn Threads, next: &mut usize) -> Vec<String> {
    let (mut stored, mut waits) = (Vec::new(), 0);
    while waits < WAITS {
        let key = format!("k{:05}", *next);
        // The lengths are not in step with the keys that are deleted later, so that half of the
        // keys is half of the bytes.
        let len = [40, 700, 300, 1100][(next.wrapping_mul(2_654_435_761) >> 16) % 4];
        *next += 1;
        client.put(&key, value(*next, len), Durability::Os).expect("the power stays on");
        match client.errors.pop() {
            None => stored.push(key),
            Some(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                waits += 1;
                threads.sleep(WAIT);
            }
        }
        assert!(stored.len() < 5000, "the disk never fills up");
    }
    stored
}

/// Deletes keys. On a full disk that may take some tries, but not endlessly many.
fn delete(client: &mut Client, threads: &dyn Threads, keys: &[String]) {
    for key in keys {
        let mut waits = 0;
        loop {
            client.delete(key, Durability::Os).expect("the power stays on");
            let Some(error) = client.errors.pop() else { break };
            assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
            waits += 1;
            assert!(waits < WAITS, "deleting is refused for ever: {error}");
            threads.sleep(WAIT);
        }
    }
}

/// Ends the process or cuts the power, and reopens the store on the disk, which is still full.
fn reopen(
    simulation: &Simulation,
    (model, seed): (Model, u64),
    survivors: Survivors,
) -> (Env, Model) {
    let env = simulation.restart(survivors);
    let model = simulation.run(|| {
        let mut client = user(simulation, &env, model, seed);
        let power_failed = survivors != Survivors::KeepAll;
        client.recover(power_failed).expect("the store opens on a full disk");
        client.close().expect("it closes, too");
        client.model
    });
    (simulation.restart(Survivors::KeepAll), model)
}

fn rounds(seed: u64) {
    let (mut env, simulation) = Env::simulated(seed);
    simulation.limit_steps(STEPS);
    let (mut model, mut next, mut before) = (Model::default(), 0, None);
    for round in 0..ROUNDS {
        let (after, stored, deleted) = simulation.run(|| {
            let mut client = user(&simulation, &env, model.clone(), seed).tolerant();
            client.open().expect("the store opens on a full disk");
            if round == 0 {
                simulation.set_capacity(Some(simulation.used() + ROOM));
            }
            let stored = fill(&mut client, &*env.threads, &mut next).len();
            client.compare(&read_all(client.db()).expect("readers go on"));
            let keys = client.model.now().remove("default").unwrap_or_default();
            let keys = keys.into_keys().map(|key| String::from_utf8(key).expect("as written"));
            let skip = (seed as usize + round) % 2;
            let victims: Vec<String> = keys.skip(skip).step_by(2).collect();
            delete(&mut client, &*env.threads, &victims);
            client.compare(&read_all(client.db()).expect("readers go on"));
            let report = client.db().check().expect("a check can be made");
            assert!(report.is_clean(), "{:?}", report.problems);
            if seed.is_multiple_of(2) {
                client.settle("sync", Db::sync).expect("the power stays on");
            }
            client.leave();
            (client.model, stored, victims.len())
        });
        if let Some(before) = before {
            assert!(stored * 3 >= before, "round {round}: {stored} stored, {before} deleted");
        }
        before = Some(deleted);
        let kinds = [Survivors::KeepAll, Survivors::LoseAll, Survivors::Random];
        (env, model) =
            reopen(&simulation, (after, seed), kinds[(seed as usize + round) % kinds.len()]);
    }
}

/// The space of deleted keys is freed in each round, and nothing is lost.
#[test]
fn i09_a_full_store_is_deleted_by_half_and_filled_again() {
    let mut failures = Vec::new();
    for seed in 1..=12 {
        check_all(&format!("seed {seed} in {DIR}"), &mut failures, || rounds(seed));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// A store that is compacted until the process ends, at `end` if that is a number of a call, or the
/// power fails. A table half written takes the rest of the disk. Returns the number of calls before
/// that, too.
fn left_over(
    (seed, durability): (u64, Durability),
    end: Option<u64>,
    survivors: Survivors,
) -> (Simulation, Env, Model, u64) {
    let (env, simulation) = Env::simulated(seed);
    simulation.limit_steps(STEPS);
    if let Some(call) = end {
        simulation.crash_at(call);
    }
    let model = simulation.run(|| {
        let mut client = user(&simulation, &env, Model::default(), seed);
        let written = client.open().and_then(|()| {
            (0..200).try_for_each(|number| {
                client.put(&format!("k{number:05}"), value(number, 700), durability)
            })
        });
        let settled = written.and_then(|()| client.settle("compact", Db::compact));
        assert!(settled.is_ok() || end.is_some(), "nothing fails");
        client.leave();
        client.model
    });
    let calls = simulation.mutations();
    let env = simulation.restart(survivors);
    simulation.run(|| {
        // This is how a table looks whose bytes never reached the disk.
        let file = env.fs.create(&Path::new(DIR).join("00009000.tbl")).unwrap();
        file.write_at(&vec![0; 256 << 10], 0).unwrap();
        simulation.set_capacity(Some(simulation.used()));
    });
    (simulation, env, model, calls)
}

#[test]
fn i09_what_a_crash_left_over_makes_room_for_the_next_manifest() {
    for (seed, survivors) in [(21, Survivors::KeepAll), (22, Survivors::LoseAll)] {
        let (simulation, env, model, _) = left_over((seed, Durability::Sync), None, survivors);
        simulation.run(|| {
            let mut client = user(&simulation, &env, model, seed);
            client.recover(survivors != Survivors::KeepAll).expect("the store opens");
            assert!(client.errors.is_empty(), "{:?}", client.errors);
            assert!(client.db().recovery().orphans_removed > 0);
            client.put("again", value(1, 700), Durability::Sync).unwrap();
            assert!(client.errors.is_empty(), "{:?}", client.errors);
        });
    }
}

/// The process ends in the middle of an edit, which is then in the page cache alone, and the power
/// fails while the next opening removes what that edit has replaced, before there is another
/// manifest.
#[test]
fn i05_a_crash_of_an_opening_on_a_full_disk_loses_nothing() {
    let (.., calls) = left_over((23, Durability::Sync), None, Survivors::KeepAll);
    let mut failures = Vec::new();
    for (end, call) in (calls - 12..calls).flat_map(|end| (1..16).map(move |call| (end, call))) {
        let (simulation, env, model, _) =
            left_over((23, Durability::Sync), Some(end), Survivors::KeepAll);
        check_all(&format!("ends at {end}, then at {call}"), &mut failures, || {
            let known = simulation.run(|| {
                simulation.crash_at(simulation.mutations() + call);
                let mut client = user(&simulation, &env, model, 23);
                if client.recover(false).is_ok() {
                    simulation.crash();
                }
                client.leave();
                client.model
            });
            let env = simulation.restart(Survivors::LoseAll);
            simulation.run(|| {
                let mut client = user(&simulation, &env, known, 23);
                client.recover(true).expect("the store opens");
                assert!(client.errors.is_empty(), "{:?}", client.errors);
            });
        });
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Recovers from a power cut on a disk with this much room, and returns what is kept aside, in
/// bytes of its files.
fn torn_with_room(seed: u64, end: u64, room: Option<u64>) -> u64 {
    let survivors = [Survivors::TornLast, Survivors::Random][seed as usize % 2];
    let (simulation, env, model, _) = left_over((seed, Durability::Os), Some(end), survivors);
    simulation.set_capacity(room.map(|room| simulation.used() + room));
    simulation.run(|| {
        let mut client = user(&simulation, &env, model, seed);
        client.recover(true).expect("the store opens");
        assert!(client.errors.is_empty(), "{:?}", client.errors);
        let (torn, kept) = (client.db().recovery().torn_bytes, file_bytes(&env, "cut"));
        let heads = 40 * files(&env, "cut").len() as u64;
        assert_eq!(kept, torn + heads, "seed {seed}, ends at {end}, {room:?} of room");
        kept
    })
}

/// There is room for the copy of what a power cut tore, but not for the manifest, or not even for
/// the copy. The copy is whole all the same.
#[test]
fn i09_what_is_torn_is_kept_whole_on_a_full_disk() {
    let mut torn = 0;
    for seed in 30..50 {
        let (.., calls) = left_over((seed, Durability::Os), None, Survivors::KeepAll);
        let end = calls * 2 / 3 - seed % 7;
        let kept = torn_with_room(seed, end, None);
        for room in [0, kept, kept + 1024, kept + 4096, kept + 8192] {
            torn_with_room(seed, end, Some(room));
        }
        torn += u64::from(kept > 0);
    }
    assert!(torn > 5, "{torn} are torn");
}

/// Puts are refused before the disk is full, so that there is room for everything that frees space.
#[test]
fn i09_puts_leave_room_for_deletions_and_flushes() {
    for seed in [6, 7] {
        leave_room(seed);
    }
}

fn leave_room(seed: u64) {
    simulate(seed, STEPS, |env, simulation| {
        let mut client = user(simulation, env, Model::default(), seed).tolerant();
        client.open().unwrap();
        let capacity = simulation.used() + ROOM;
        simulation.set_capacity(Some(capacity));
        fill(&mut client, &*env.threads, &mut 0);
        assert!(simulation.used() < capacity, "something is left");
        let stats = client.db().stats();
        assert!(stats.low_on_space.is_some(), "the statistics name it");
        let refused = stats.numbers().find(|(name, _)| *name == "writes_refused_for_space");
        assert!(refused.is_some_and(|(_, count)| count > 0));
        client.delete("k00001", Durability::Sync).unwrap();
        client.settle("flush", Db::flush).unwrap();
        assert!(client.errors.is_empty(), "{:?}", client.errors);
        simulation.set_capacity(None);
        env.threads.sleep(Duration::from_secs(2));
        client.put("again", value(1, 700), Durability::Os).unwrap();
        assert!(client.errors.is_empty(), "puts go on by themselves: {:?}", client.errors);
        assert_eq!(client.db().stats().low_on_space, None);
    });
}

/// What a listener was told of low space.
#[derive(Default)]
struct LowSpace(Mutex<Vec<&'static str>>);

impl EventListener for LowSpace {
    fn on_event(&self, event: &Event) {
        let begun = match event {
            Event::LowSpaceBegun { free_bytes, reserve_bytes, .. } => {
                assert!(free_bytes < reserve_bytes, "{event:?}");
                "begun"
            }
            Event::LowSpaceEnded { .. } => "ended",
            _ => return,
        };
        self.0.lock().unwrap().push(begun);
    }
}

/// A program hears that puts are refused no later than by the first refusal, once for all of them,
/// and that they go on before it has tried again.
#[test]
fn i09_low_space_is_an_event_when_it_begins_and_when_it_ends() {
    simulate(13, STEPS, |env, simulation| {
        let told = Arc::new(LowSpace::default());
        let options = Options { segment_bytes: 32 << 10, ..tiny_options() };
        let builder = Db::builder(DIR).options(options).env(env.clone());
        let db = builder.event_listener(told.clone()).open().unwrap();
        simulation.set_capacity(Some(simulation.used() + ROOM));
        let keyspace = db.default_keyspace();
        let put = |key: usize| keyspace.put(format!("k{key:05}"), [7; 700]);
        let refused = (0..5000).find_map(|key| put(key).err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
        assert_eq!(*told.0.lock().unwrap(), ["begun"]);
        // What flushes and merges free may let puts go on for a while.
        let mut refusals = 0;
        for key in 5000..6000 {
            refusals = if put(key).is_err() { refusals + 1 } else { 0 };
        }
        assert!(refusals > 1, "the disk is full in the end");
        let before = told.0.lock().unwrap().clone();
        assert!(before.len() < 100 && before.last() == Some(&"begun"), "{before:?}");
        simulation.set_capacity(None);
        env.threads.sleep(Duration::from_secs(2));
        let after = told.0.lock().unwrap().clone();
        assert_eq!(after.len(), before.len() + 1);
        let expected = ["begun", "ended"].into_iter().cycle().take(after.len());
        assert!(after.iter().copied().eq(expected), "{after:?}");
        put(0).unwrap();
    });
}

/// A reorganization stores its values twice for a while. If there is no room for that, it is
/// refused before a byte is written.
#[test]
fn i09_values_are_not_reorganized_into_what_others_need() {
    simulate(11, STEPS, |env, simulation| {
        let mut client = user(simulation, env, Model::default(), 11);
        client.open().unwrap();
        for number in 0..200 {
            let key = format!("k{:05}", number * 77 % 200);
            client.put(&key, value(number, 1100), Durability::Os).unwrap();
        }
        client.settle("compact", Db::compact).unwrap();
        client.db().wait_idle().unwrap();
        let tables = client.db().stats().table_bytes();
        let before = simulation.used();
        // There is room for all tables, but only for some values.
        simulation.set_capacity(Some(before + 4 * tables + (16 << 10)));
        let default = client.db().default_keyspace();
        let error = default.reorganize(..).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(error.to_string().contains("does not fit"), "{error}");
        assert!(simulation.used() <= before + (8 << 10), "{before} to {}", simulation.used());
        simulation.set_capacity(None);
        default.reorganize(..).unwrap();
        client.compare(&read_all(client.db()).unwrap());
    });
}

/// A listener that fills the disk in the midst of a collection, makes room again, and notes whether
/// both are seen.
#[derive(Default)]
struct FreesMeanwhile {
    low: LowSpace,
    filled: Mutex<Option<(Simulation, Env, Db)>>,
    /// What was told of low space before and after.
    told: Mutex<Vec<Option<&'static str>>>,
}

impl EventListener for FreesMeanwhile {
    fn on_event(&self, event: &Event) {
        self.low.on_event(event);
        let Event::SegmentsRelocated { .. } = event else { return };
        let Some((simulation, env, db)) = self.filled.lock().unwrap().take() else { return };
        let last = || self.low.0.lock().unwrap().last().copied();
        simulation.set_capacity(Some(simulation.used() + (8 << 10)));
        while db.default_keyspace().put("more", [7; 700]).is_ok() {}
        // Other threads come to where they would wait.
        env.threads.sleep(Duration::from_secs(1));
        let before = last();
        simulation.set_capacity(None);
        env.threads.sleep(Duration::from_secs(1));
        self.told.lock().unwrap().extend([before, last()]);
    }
}

/// Puts go on as soon as there is room, in the midst of a collection that the user requested: the
/// thread that looks at the disk waited for its end.
#[test]
fn i09_the_disk_is_looked_at_in_the_midst_of_a_requested_collection() {
    simulate(17, STEPS, |env, simulation| {
        let told = Arc::new(FreesMeanwhile::default());
        let mut options = Options { segment_bytes: 16 << 10, ..tiny_options() };
        options.gc.automatic = false;
        options.gc.punch = false;
        let builder = Db::builder(DIR).options(options).env(env.clone());
        let db = builder.event_listener(told.clone()).open().unwrap();
        let keyspace = db.default_keyspace();
        (0..1000).for_each(|key| keyspace.put(format!("k{key:05}"), [7; 700]).unwrap());
        for key in (0..1000).filter(|key| key % 8 != 0) {
            keyspace.delete(format!("k{key:05}")).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        *told.filled.lock().unwrap() = Some((simulation.clone(), env.clone(), db.clone()));
        db.gc().unwrap();
        assert_eq!(*told.told.lock().unwrap(), [Some("begun"), Some("ended")]);
        db.close().unwrap();
    });
}
