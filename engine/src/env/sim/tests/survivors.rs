//! Tests of the rules for what a power failure may leave.

use super::{durable, exists};
use crate::env::Env;
use crate::env::fs::File;
use crate::env::sim::{Simulation, Survivors};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const POWER_FAILURES: [Survivors; 7] = [
    Survivors::LoseAll,
    Survivors::Prefix,
    Survivors::PrefixOf(1),
    Survivors::AllBut(0),
    Survivors::TornLast,
    Survivors::Random,
    Survivors::KeepAll,
];

/// Returns all results of `look` after restarts that draw from many seeds.
fn outcomes<T: Ord>(
    simulation: &Simulation,
    survivors: Survivors,
    look: impl Fn(&Env, &Simulation) -> T,
) -> BTreeSet<T> {
    let after = |seed| {
        let (env, simulation) = simulation.surviving(survivors, seed);
        look(&env, &simulation)
    };
    (0..400).map(after).collect()
}

/// Creates one durable file with three unsynced writes, each to a sector of its own.
fn three_writes() -> (Simulation, Arc<dyn File>) {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", &[0; 512]);
    for write in 1..=3 {
        file.write_at(&[write; 512], u64::from(write) * 512).unwrap();
    }
    (simulation, file)
}

/// Returns the first byte of each sector.
fn sectors(simulation: &Simulation) -> Vec<u8> {
    simulation.read_file("a").chunks(512).map(|sector| sector[0]).collect()
}

#[test]
fn what_is_synced_survives_everything() {
    for survivors in POWER_FAILURES {
        let (env, simulation) = Env::simulated(1);
        env.fs.create_dir_all(Path::new("/db")).unwrap();
        env.fs.sync_dir(Path::new("/")).unwrap();
        let file = durable(&env, "/db/a", b"synced");
        env.fs.create(Path::new("/db/b")).unwrap();
        file.write_at(b"more", 6).unwrap();
        let seen = outcomes(&simulation, survivors, |_, simulation| {
            simulation.read_file("/db/a")[..6].to_vec()
        });
        assert_eq!(seen, BTreeSet::from([b"synced".to_vec()]), "{survivors:?}");
    }
}

#[test]
fn lose_all_and_keep_all_are_the_extremes() {
    let (simulation, _) = three_writes();
    assert_eq!(simulation.unsynced(), 3);
    let (_, lost) = simulation.surviving(Survivors::LoseAll, 1);
    assert_eq!(sectors(&lost), [0]);
    let (_, kept) = simulation.surviving(Survivors::KeepAll, 1);
    assert_eq!(sectors(&kept), [0, 1, 2, 3]);
    assert_eq!(sectors(&simulation), [0, 1, 2, 3], "trying survivors changes nothing");
}

#[test]
fn a_killed_process_leaves_what_a_power_failure_can_still_lose() {
    let (simulation, file) = three_writes();
    let env = simulation.restart(Survivors::KeepAll);
    assert!(file.len().is_err(), "the old process is gone");
    assert_eq!((sectors(&simulation), simulation.unsynced()), (vec![0, 1, 2, 3], 3));
    drop(env);
    simulation.restart(Survivors::LoseAll);
    assert_eq!(sectors(&simulation), [0]);
    assert_eq!(simulation.unsynced(), 0);
}

#[test]
fn a_prefix_survives_in_order_across_files_and_names() {
    let (env, simulation) = Env::simulated(1);
    let (a, b) = (durable(&env, "a", b""), durable(&env, "b", b""));
    a.write_at(b"1", 0).unwrap();
    b.write_at(b"2", 0).unwrap();
    env.fs.rename(Path::new("a"), Path::new("c")).unwrap();
    b.set_len(0).unwrap();
    let look = |env: &Env, simulation: &Simulation| {
        let a = simulation.read_file(if exists(env, "a") { "a" } else { "c" });
        (exists(env, "c"), a, simulation.read_file("b"))
    };
    let expected = [
        (false, vec![], vec![]),
        (false, b"1".to_vec(), vec![]),
        (false, b"1".to_vec(), b"2".to_vec()),
        (true, b"1".to_vec(), b"2".to_vec()),
        (true, b"1".to_vec(), vec![]),
    ];
    let seen = outcomes(&simulation, Survivors::Prefix, look);
    assert_eq!(seen, expected.iter().cloned().collect());
    for (kept, expected) in expected.iter().enumerate() {
        let (env, after) = simulation.surviving(Survivors::PrefixOf(kept), 1);
        assert_eq!(look(&env, &after), *expected);
    }
}

#[test]
fn a_single_loss_leaves_all_others() {
    let (simulation, _) = three_writes();
    let after = |lost| sectors(&simulation.surviving(Survivors::AllBut(lost), 1).1);
    assert_eq!([after(0), after(1)], [[0, 0, 2, 3], [0, 1, 0, 3]], "a hole stands for a loss");
    assert_eq!(after(2), [0, 1, 2]);
}

#[test]
fn the_last_write_tears_at_sectors() {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", &[0; 100]);
    file.write_at(&[1; 10], 100).unwrap();
    file.write_at(&[2; 2000], 110).unwrap();
    env.fs.create(Path::new("b")).unwrap();
    let seen = outcomes(&simulation, Survivors::TornLast, |env, simulation| {
        assert!(exists(env, "b"));
        let bytes = simulation.read_file("a");
        assert_eq!(bytes[..100], [0; 100]);
        assert_eq!(bytes[100..110], [1; 10]);
        // Sectors begin at multiples of 512 of the file.
        let starts = [110, 512, 1024, 1536, 2048];
        let whole = |start: usize| {
            let end = (start / 512 + 1) * 512;
            let found = &bytes[start.min(bytes.len())..end.min(2110).min(bytes.len())];
            let torn = found.iter().any(|&byte| byte != found[0]);
            assert!(!torn, "a sector is written whole or not at all");
            found.first() == Some(&2)
        };
        starts.map(whole)
    });
    assert!(seen.contains(&[true, true, false, false, false]), "the first ones");
    assert!(seen.contains(&[false; 5]), "none");
    assert!(seen.contains(&[false, true, true, false, true]), "any");
}

#[test]
fn random_survivors_keep_no_order() {
    let (simulation, _) = three_writes();
    let seen = outcomes(&simulation, Survivors::Random, |_, simulation| {
        // 0 is a hole, 9 is noise.
        sectors(simulation).iter().map(|&byte| if byte > 3 { 9 } else { byte }).collect::<Vec<_>>()
    });
    for expected in [
        &[0][..],
        &[0, 1, 2, 3],
        &[0, 1],
        &[0, 0, 0, 3],
        &[0, 1, 0, 3],
        &[0, 1, 2, 0],
        &[0, 1, 2, 9],
    ] {
        assert!(seen.contains(expected), "{expected:?} is not among {seen:?}");
    }
}

#[test]
fn a_length_may_survive_without_its_bytes() {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", b"");
    file.write_at(&[1; 32 * 512], 0).unwrap();
    let seen = outcomes(&simulation, Survivors::Random, |_, simulation| {
        let bytes = simulation.read_file("a");
        let zeroes = bytes.iter().filter(|&&byte| byte == 0).count();
        (bytes.len(), if zeroes == bytes.len() { "zeroes" } else { "others" })
    });
    assert!(seen.contains(&(32 * 512, "zeroes")) && seen.contains(&(32 * 512, "others")));
}

#[test]
fn names_survive_apart_from_content_and_from_each_other() {
    let (env, simulation) = Env::simulated(1);
    for name in ["a", "b"] {
        let file = env.fs.create(Path::new(name)).unwrap();
        file.write_at(b"1", 0).unwrap();
        file.sync().unwrap();
    }
    let seen =
        outcomes(&simulation, Survivors::Random, |env, _| (exists(env, "a"), exists(env, "b")));
    assert_eq!(seen.len(), 4, "each is there or not, whatever became of the other");
}

#[test]
fn an_unsynced_rename_shows_the_old_or_the_new_never_neither() {
    let (env, simulation) = Env::simulated(1);
    durable(&env, "current", b"old");
    durable(&env, "temporary", b"new");
    env.fs.rename(Path::new("temporary"), Path::new("current")).unwrap();
    let seen = outcomes(&simulation, Survivors::Random, |env, simulation| {
        (simulation.read_file("current"), exists(env, "temporary"))
    });
    let expected = [(b"new".to_vec(), false), (b"old".to_vec(), true)];
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn an_unsynced_removal_may_come_back_with_its_durable_content() {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", b"old");
    file.write_at(b"new", 0).unwrap();
    drop(file);
    env.fs.remove(Path::new("a")).unwrap();
    let (env, after) = simulation.surviving(Survivors::LoseAll, 1);
    assert!(exists(&env, "a"));
    assert_eq!(after.read_file("a"), b"old");
    let seen = outcomes(&simulation, Survivors::Random, |env, _| exists(env, "a"));
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_removed_name_can_be_used_again() {
    let (env, simulation) = Env::simulated(1);
    durable(&env, "a", b"first");
    env.fs.remove(Path::new("a")).unwrap();
    let second = env.fs.create(Path::new("a")).unwrap();
    second.write_at(b"second", 0).unwrap();
    second.sync().unwrap();
    let seen = outcomes(&simulation, Survivors::Random, |env, simulation| {
        exists(env, "a").then(|| simulation.read_file("a"))
    });
    let expected = [None, Some(b"first".to_vec()), Some(b"second".to_vec())];
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn an_unsynced_directory_takes_its_files_along() {
    let (env, simulation) = Env::simulated(1);
    env.fs.create_dir_all(Path::new("/x/db")).unwrap();
    durable(&env, "/x/db/a", b"synced, but in a directory that was not");
    env.fs.sync_dir(Path::new("/x")).unwrap();
    let (env, after) = simulation.surviving(Survivors::LoseAll, 1);
    assert!(!exists(&env, "/x/db/a") && after.files().is_empty());
    simulation.restart(Survivors::KeepAll).fs.sync_dir(Path::new("/")).unwrap();
    let env = simulation.restart(Survivors::LoseAll);
    assert!(exists(&env, "/x/db/a"));
}

#[test]
fn a_hole_may_be_durable_before_what_was_written_earlier() {
    let (env, simulation) = Env::simulated(1);
    let old = durable(&env, "old", &[1; 4096]);
    let new = durable(&env, "new", b"");
    new.write_at(&[1; 4096], 0).unwrap();
    old.punch(0, 4096).unwrap();
    let seen = outcomes(&simulation, Survivors::Random, |_, simulation| {
        let moved = simulation.read_file("new").first() == Some(&1);
        (moved, simulation.read_file("old")[0] == 0)
    });
    assert!(seen.contains(&(false, true)), "the value is in neither place");
    assert_eq!(seen.len(), 4);
}

#[test]
fn survivors_depend_on_the_seed_alone() {
    let survivors = |seed| {
        let (simulation, _) = three_writes();
        simulation.surviving(Survivors::Random, seed).1.read_file("a")
    };
    let all: BTreeSet<_> = (0..50)
        .map(|seed| {
            assert_eq!(survivors(seed), survivors(seed));
            survivors(seed)
        })
        .collect();
    assert!(all.len() > 10);
}

/// The range prepared for appends reads as zeroes, and its length may survive or not.
#[test]
fn prepared_appends_may_survive_as_zeroes() {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", b"head");
    file.prepare_appends(4, 8);
    assert_eq!(file.len().unwrap(), 12);
    file.write_at(b"tail", 4).unwrap();
    let seen = outcomes(&simulation, Survivors::Random, |_, survived| survived.read_file("a"));
    for wanted in [&b"head"[..], b"headtail", b"head\0\0\0\0\0\0\0\0", b"headtail\0\0\0\0"] {
        assert!(seen.contains(wanted), "{wanted:?}");
    }
    let seen = outcomes(&simulation, Survivors::LoseAll, |_, survived| survived.read_file("a"));
    assert_eq!(seen, BTreeSet::from([b"head".to_vec()]));
    simulation.set_capacity(Some(simulation.used()));
    file.prepare_appends(12, 8192);
    assert_eq!(file.len().unwrap(), 12, "a full disk prepares nothing");
}
