//! Kills of a process that changes all the time where and how a keyspace keeps its values, while it
//! writes and converts what is stored. Whatever mode it is opened in again, every write that was
//! acknowledged is there, and nothing else.

use crate::common;
use crate::common::child::{self, Running};
use crate::common::rng::Rng;
use cleavedb::{Codec, Db, KeyspaceOptions, Options, Separation};
use std::collections::BTreeMap;
use std::path::Path;

const KEYS: usize = 120;
const ROUNDS: u64 = 20;
const MOST_WRITES: usize = 2000;
/// The changes of the mode in the life of a child, at least.
const CHANGES: usize = 3;
const CHILD: &str = "mode_kills::child_that_changes_its_mode";

/// The contents of the keyspace: for each key the number of the write that put it.
type Contents = BTreeMap<String, usize>;

/// Returns a random mode: when values are separated, from which length on, and with which codec.
fn mode(rng: &mut Rng) -> KeyspaceOptions {
    let policies = [Separation::Off, Separation::AtWrite, Separation::AtFlush, Separation::Auto];
    KeyspaceOptions {
        separation: policies[rng.below(policies.len())],
        separation_threshold: [0, 100, 1000][rng.below(3)],
        value_codec: [Codec::None, Codec::Lz4][rng.below(2)],
        value_compression_min_bytes: [0, 512][rng.below(2)],
        ..common::tiny_keyspace()
    }
}

fn open(dir: &Path, keyspace: KeyspaceOptions) -> Db {
    common::open_with(dir, Options { keyspace, ..common::tiny() })
}

/// Returns the key of write number `number`, and the length of its value; `None` is a deletion.
fn write_of(number: usize) -> (String, Option<usize>) {
    let mut rng = Rng::new(number as u64);
    let key = common::key(rng.below(KEYS));
    let length = [30, 99, 100, 400, 1000, 3000][rng.below(6)];
    (key, (!rng.once_in(5)).then_some(length))
}

/// Returns a value of which half can be compressed.
fn value(key: &str, number: usize, length: usize) -> Vec<u8> {
    let mut value = common::value(key, number as u64, length / 2);
    value.resize(length, number as u8);
    value
}

fn apply(contents: &mut Contents, number: usize) {
    match write_of(number) {
        (key, Some(_)) => drop(contents.insert(key, number)),
        (key, None) => drop(contents.remove(&key)),
    }
}

/// Returns true if the keyspace has these contents, read one by one and in a scan.
fn is_found(db: &Db, contents: &Contents) -> bool {
    let wanted = contents.iter().map(|(key, number)| {
        let length = write_of(*number).1.expect("it is no deletion");
        (key.clone().into_bytes(), value(key, *number, length))
    });
    let wanted: Vec<_> = wanted.collect();
    let keyspace = db.default_keyspace();
    let found = (0..KEYS).filter_map(|number| {
        let key = common::key(number);
        let found = keyspace.get(&key).expect("a value reads")?;
        Some((key.into_bytes(), found.to_vec()))
    });
    let found: Vec<_> = found.collect();
    assert!(found == common::pairs(&keyspace), "gets and a scan differ");
    found == wanted
}

/// Runs a child from write number `first` on and kills it while it writes and converts. Returns how
/// many writes it had acknowledged.
fn run_child(dir: &Path, first: usize, rng: &mut Rng) -> usize {
    let seed = rng.next();
    let mut writer = Running::start(CHILD, dir, &format!("{first} {seed}"));
    let target = first + 1 + rng.below(MOST_WRITES);
    let (mut acknowledged, mut changes) = (first, 0);
    while acknowledged < target || changes < CHANGES {
        match writer.hear().parse() {
            Ok(count) => acknowledged = count,
            Err(_) => changes += 1,
        }
    }
    let told = writer.kill();
    told.iter().filter_map(|word| word.parse().ok()).max().unwrap_or(acknowledged)
}

#[test]
fn i01_i02_i03_kills_amid_changes_of_the_mode_lose_nothing() {
    let dir = common::dir();
    let mut rng = Rng::new(7);
    let (mut contents, mut count) = (Contents::new(), 0);
    for round in 0..ROUNDS {
        let acknowledged = run_child(dir.path(), count, &mut rng);
        (count..acknowledged).for_each(|number| apply(&mut contents, number));
        count = acknowledged;
        let other = mode(&mut rng);
        let db = open(dir.path(), other.clone());
        // The write that was under way when the child was killed is there or not.
        if !is_found(&db, &contents) {
            apply(&mut contents, count);
            count += 1;
            assert!(is_found(&db, &contents), "round {round}: not what {count} writes leave");
        }
        db.default_keyspace().set_options(other).unwrap();
        db.convert().unwrap();
        assert!(is_found(&db, &contents), "round {round}: after a conversion");
        assert!(db.check().unwrap().is_clean());
        if rng.once_in(2) {
            db.close().unwrap();
        }
    }
    assert!(count > 5000, "{count} writes");
}

/// Ends the child, so that the parent hears no more of it and fails.
fn give_up(what: &str, error: cleavedb::Error) -> ! {
    eprintln!("{what}: {error}");
    std::process::abort();
}

/// Changes the mode, and has what is stored flushed, collected or converted by it, for ever.
fn change_modes(db: &Db, mut rng: Rng) {
    let keyspace = db.default_keyspace();
    loop {
        let changed = keyspace.set_options(mode(&mut rng));
        let changed = changed.and_then(|()| match rng.below(4) {
            0 => db.flush(),
            1 => db.gc().map(|_| ()),
            _ => keyspace.convert().map(|_| ()),
        });
        changed.unwrap_or_else(|error| give_up("a change", error));
        child::tell("changed");
    }
}

#[test]
#[ignore = "runs in a process of its own, started by i01_i02_i03_kills_amid_changes_of_the_mode_…"]
fn child_that_changes_its_mode() {
    let Some((dir, how)) = child::job() else {
        return;
    };
    let (first, seed) = how.split_once(' ').expect("two numbers");
    let (first, seed): (usize, u64) = (first.parse().unwrap(), seed.parse().unwrap());
    let mut rng = Rng::new(seed);
    let db = open(&dir, mode(&mut rng));
    let keyspace = db.default_keyspace();
    let changing = db.clone();
    std::thread::spawn(move || change_modes(&changing, rng));
    for number in first.. {
        let written = match write_of(number) {
            (key, Some(length)) => keyspace.put(&key, value(&key, number, length)),
            (key, None) => keyspace.delete(&key),
        };
        written.unwrap_or_else(|error| give_up("a write", error));
        child::tell(&(number + 1).to_string());
    }
}
