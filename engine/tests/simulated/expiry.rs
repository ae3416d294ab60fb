//! Random operations with deadlines, compared with a model that knows the deadlines, while the
//! clocks run on and the wall clock is stepped forth and back: in a session, between two, and with
//! power cuts in between.
//!
//! The database is asked for its time by the time left of a value whose deadline is known. What has
//! a deadline after the reading that follows a call was alive during the call, what has one at or
//! before the reading that precedes it was not, and anything in between may be either.

use crate::client::{DIR, inline_options, tiny_options};
use crate::random::Dice;
use crate::script::{LENGTHS, value};
use cleavedb::env::Env;
use cleavedb::env::sim::{Simulation, Survivors};
use cleavedb::{
    Codec, Cursor, Db, Durability, Expiry, Keyspace, KeyspaceOptions, Options, ReadOptions,
    Separation, Snapshot, Ttl, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const KEYS: u64 = 40;
const OPERATIONS: u64 = 300;
/// The key whose time left tells the database's time, and its deadline: in the year 2239.
const PROBE: &str = "~probe";
const PROBE_DEADLINE: u64 = 1 << 43;
/// The default time to live of the keyspace `side`, in milliseconds.
const SIDE_TTL: u64 = 90_000;

/// A value, and between which times in milliseconds its deadline is.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Vec<u8>,
    deadline: Option<(u64, u64)>,
}

impl Entry {
    /// Returns whether it is alive in a call between two times, or `None` if that is not certain.
    fn is_alive(&self, (before, after): (u64, u64)) -> Option<bool> {
        let Some((least, most)) = self.deadline else { return Some(true) };
        match (least > after, most <= before) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

type Map = BTreeMap<Vec<u8>, Entry>;

/// A snapshot and a cursor, what they have to show, and when they were made.
struct Held {
    snapshot: Snapshot,
    cursor: Cursor,
    maps: [Map; 2],
    time: (u64, u64),
    at: usize,
}

struct World {
    env: Env,
    simulation: Simulation,
    dice: Dice,
    /// True if values of the default keyspace are separated at flush, else at write.
    at_flush: bool,
    db: Option<(Db, [Keyspace; 2])>,
    maps: [Map; 2],
    held: Vec<Held>,
    /// The last reading of the database's time in this session.
    time: u64,
    values: usize,
    /// The number of expired entries that were found again after the wall clock was set back.
    found_again: u64,
    /// The number of reads at which something was expired.
    seen_expired: u64,
}

fn options() -> Options {
    Options { durability: Durability::Sync, ..tiny_options() }
}

impl World {
    fn open(&mut self) {
        let separation = if self.at_flush { Separation::AtFlush } else { Separation::AtWrite };
        let keyspace = KeyspaceOptions { separation, ..options().keyspace };
        let options = Options { keyspace, ..options() };
        let db = Db::builder(DIR).options(options).env(self.env.clone()).open().unwrap();
        let default_ttl = Some(Duration::from_millis(SIDE_TTL));
        let side = KeyspaceOptions { default_ttl, ..inline_options() };
        let side = db.open_or_create_keyspace_with("side", side).unwrap();
        let keyspaces = [db.default_keyspace(), side];
        let deadline = UNIX_EPOCH + Duration::from_millis(PROBE_DEADLINE);
        keyspaces[0].put_expiring(PROBE, "", deadline).unwrap();
        self.db = Some((db, keyspaces));
        self.time = 0;
        self.now();
    }

    fn db(&self) -> &Db {
        &self.db.as_ref().expect("it is open").0
    }

    fn keyspace(&self, at: usize) -> &Keyspace {
        &self.db.as_ref().expect("it is open").1[at]
    }

    /// Returns the database's time; `None` if the power is off.
    fn try_now(&mut self) -> Option<u64> {
        let wall = self.env.clock.wall().as_millis() as u64;
        let left = match self.keyspace(0).ttl(PROBE) {
            Ok(Some(Ttl::Left(left))) => left,
            Err(_) if self.simulation.crashed() => return None,
            other => panic!("the probe says {other:?}"),
        };
        let time = PROBE_DEADLINE - left.as_millis() as u64;
        assert!(time >= self.time, "time went back from {} to {time}", self.time);
        // Between two readings of the system's clocks, the engine may lose a little.
        assert!(time + 1000 >= wall, "the wall clock shows {wall}, the database has {time}");
        self.time = time;
        Some(time)
    }

    fn now(&mut self) -> u64 {
        self.try_now().expect("the power is on")
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.dice.number_below(KEYS);
        let long = if number.is_multiple_of(5) { "x".repeat(40) } else { String::new() };
        format!("k{number:02}{long}").into_bytes()
    }

    fn expiry(&mut self) -> Option<Expiry> {
        let seconds = Duration::from_secs(self.dice.number_below(300));
        match self.dice.number_below(6) {
            0 | 1 => None,
            2 => Some(Expiry::Never),
            3 | 4 => Some(Expiry::After(seconds)),
            _ => Some(Expiry::At(UNIX_EPOCH + Duration::from_millis(self.time) + seconds)),
        }
    }

    /// Returns the deadline of a put between two times.
    fn deadline(at: usize, expiry: Option<Expiry>, time: (u64, u64)) -> Option<(u64, u64)> {
        let span = |millis: u64| Some((time.0 + millis, time.1 + millis));
        match expiry {
            None if at == 1 => span(SIDE_TTL),
            None | Some(Expiry::Never) => None,
            Some(Expiry::After(span_of)) => span(span_of.as_millis() as u64),
            Some(Expiry::At(moment)) => {
                let millis = moment.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
                Some((millis, millis))
            }
            Some(other) => panic!("{other:?} is not drawn"),
        }
    }

    /// Writes one to four operations at once. If the power fails meanwhile, returns what the
    /// contents are if the write took effect all the same.
    fn write(&mut self) -> Result<(), [Map; 2]> {
        let (mut batch, mut puts) = (WriteBatch::new(), Vec::new());
        let before = self.try_now().ok_or_else(|| self.maps.clone())?;
        let count = 1 + self.dice.number_below(4);
        for _ in 0..count {
            let (at, key) = (self.dice.number_below(2) as usize, self.key());
            if self.dice.number_below(5) == 0 {
                batch.delete(self.keyspace(at), &key);
                puts.push((at, key, None));
                continue;
            }
            self.values += 1;
            let length = LENGTHS[self.dice.number_below(LENGTHS.len() as u64) as usize];
            let (value, expiry) = (value(self.values, length), self.expiry());
            match expiry {
                Some(expiry) => batch.put_expiring(self.keyspace(at), &key, &value, expiry),
                None => batch.put(self.keyspace(at), &key, &value),
            };
            puts.push((at, key, Some((value, expiry))));
        }
        let written = match &puts[..] {
            [(at, key, Some((value, Some(expiry))))] => {
                let options = WriteOptions::new().expiry(*expiry);
                self.keyspace(*at).put_with(key, value, &options)
            }
            _ => self.db().write(batch),
        };
        // Once the power is off, the time can't be asked for any more.
        let after = self.try_now().unwrap_or(before + 1000);
        let mut maps = self.maps.clone();
        for (at, key, put) in puts {
            let Some((value, expiry)) = put else {
                maps[at].remove(&key);
                continue;
            };
            let deadline = World::deadline(at, expiry, (before, after));
            maps[at].insert(key, Entry { value, deadline });
        }
        if written.is_err() {
            assert!(self.simulation.crashed(), "{written:?}");
            return Err(maps);
        }
        self.maps = maps;
        Ok(())
    }

    /// Holds a snapshot and a cursor.
    fn hold(&mut self) {
        let (before, at) = (self.now(), self.dice.number_below(2) as usize);
        let (snapshot, mut cursor) = (self.db().snapshot(), self.keyspace(at).cursor().unwrap());
        cursor.seek_to_first().unwrap();
        let time = (before, self.now());
        self.held.push(Held { snapshot, cursor, maps: self.maps.clone(), time, at });
    }

    /// Reads again what a snapshot and a cursor show.
    fn look_back(&mut self) {
        let count = self.held.len() as u64;
        if count == 0 {
            return;
        }
        let held = self.held.swap_remove(self.dice.number_below(count) as usize);
        let options = ReadOptions::new().snapshot(&held.snapshot);
        for at in 0..2 {
            let found = pairs(self.keyspace(at), &options);
            check(&held.maps[at], held.time, &found, "at a snapshot");
        }
        let (mut cursor, mut found) = (held.cursor, BTreeMap::new());
        while cursor.valid() {
            found.insert(cursor.key().to_vec(), cursor.value().unwrap().into_vec());
            cursor.next().unwrap();
        }
        found.remove(PROBE.as_bytes());
        check(&held.maps[held.at], held.time, &found, "by a cursor");
        if self.dice.number_below(2) == 0 {
            let mut cursor = self.keyspace(held.at).cursor_with(&options).unwrap();
            cursor.seek_to_first().unwrap();
            self.held.push(Held { cursor, ..held });
        }
    }

    /// Reads everything in every way.
    fn look(&mut self) {
        for at in 0..2 {
            let before = self.now();
            let keyspace = self.keyspace(at).clone();
            let mut found = Vec::new();
            found.push(("by a scan", pairs(&keyspace, &ReadOptions::new())));
            let keys: Vec<Vec<u8>> = self.maps[at].keys().cloned().collect();
            let many = keys.iter().zip(keyspace.multi_get(&keys));
            let many = many.filter_map(|(key, value)| Some((key.clone(), value.unwrap()?)));
            found.push(("by multi_get", many.map(|(key, it)| (key, it.into_vec())).collect()));
            let one = |key: &Vec<u8>| Some((key.clone(), keyspace.get(key).unwrap()?.into_vec()));
            found.push(("by get", keys.iter().filter_map(one).collect()));
            let there: Vec<bool> =
                keys.iter().map(|key| keyspace.contains_key(key).unwrap()).collect();
            let ttls: Vec<_> = keys.iter().map(|key| keyspace.ttl(key).unwrap()).collect();
            let time = (before, self.now());
            for (how, found) in &found {
                check(&self.maps[at], time, found, how);
            }
            for ((key, there), ttl) in keys.iter().zip(there).zip(ttls) {
                let entry = &self.maps[at][key];
                if let Some(alive) = entry.is_alive(time) {
                    assert_eq!((there, ttl.is_some()), (alive, alive), "{key:?} {entry:?}");
                    self.seen_expired += u64::from(!alive);
                    assert!(!alive || (ttl == Some(Ttl::Never)) == entry.deadline.is_none());
                }
            }
        }
    }

    /// Ends the session, in one of several ways, and begins another, after the wall clock was
    /// perhaps set. `written` is what the last write has left if it took effect.
    fn reopen(&mut self, written: Option<[Map; 2]>) {
        self.held.clear();
        let highest = self.time;
        let (db, _) = self.db.take().expect("it is open");
        match self.dice.number_below(3) {
            0 => drop(db),
            1 => drop(db.close()),
            _ => {
                self.simulation.crash();
                drop(db);
            }
        }
        let survivors = [Survivors::LoseAll, Survivors::Prefix, Survivors::Random];
        if self.simulation.crashed() {
            self.env = self.simulation.restart(survivors[self.dice.number_below(3) as usize]);
        }
        if self.dice.number_below(2) == 0 {
            self.simulation.step_wall(self.dice.number_below(800_000) as i64 - 500_000);
        }
        self.open();
        if let Some(written) = written {
            self.learn(written);
        }
        self.count_found_again(highest);
        let report = self.db().check().unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }

    /// Finds out whether the last write took effect.
    fn learn(&mut self, written: [Map; 2]) {
        let (before, old) = (self.now(), self.maps.clone());
        let found = [0, 1].map(|at| pairs(self.keyspace(at), &ReadOptions::new()));
        let time = (before, self.now());
        let fits =
            |maps: &[Map; 2]| (0..2).all(|at| differs(&maps[at], time, &found[at]).is_none());
        if fits(&written) {
            self.maps = written;
        } else {
            assert!(fits(&old), "a write took effect in part");
        }
    }

    /// Counts what had expired before time `highest` of the last session, and is there again.
    fn count_found_again(&mut self, highest: u64) {
        let time = (self.now(), self.now());
        for entry in self.maps.iter().flat_map(|map| map.values()) {
            let had_expired = entry.deadline.is_some_and(|(_, most)| most <= highest);
            self.found_again += u64::from(had_expired && entry.is_alive(time) == Some(true));
        }
    }

    /// Writes until the power fails.
    fn crash_while_writing(&mut self) {
        let mutations = self.simulation.mutations() + self.dice.number_below(30);
        self.simulation.crash_at(mutations);
        loop {
            if let Err(written) = self.write() {
                return self.reopen(Some(written));
            }
            if self.simulation.crashed() {
                return self.reopen(None);
            }
        }
    }

    /// Has the values of a keyspace move between the tree and segments.
    fn change_separation(&mut self) {
        let keyspace = self.keyspace(self.values % 2);
        let separation = match keyspace.options().separation {
            Separation::Off => Separation::AtWrite,
            _ => Separation::Off,
        };
        keyspace.set_options(KeyspaceOptions { separation, ..keyspace.options() }).unwrap();
        assert_eq!(keyspace.convert().unwrap().damaged_values, 0);
    }

    fn step(&mut self) {
        match self.dice.number_below(100) {
            0..50 => self.write().expect("the power is on"),
            50..62 => self.look(),
            62..68 => self.hold(),
            68..78 => self.look_back(),
            78..84 => self.simulation.advance(Duration::from_secs(self.dice.number_below(100))),
            84 => self.simulation.step_wall(self.dice.number_below(200_000) as i64),
            85 => self.simulation.step_wall(-(self.dice.number_below(200_000) as i64)),
            86..88 => self.db().flush().unwrap(),
            88..91 => self.db().compact().unwrap(),
            91..93 => drop(self.db().gc().unwrap()),
            93 => self.keyspace(self.values % 2).reorganize(..).unwrap(),
            94 => self.change_separation(),
            95 => self.db().wait_idle().unwrap(),
            96 => self.env.threads.sleep(Duration::from_secs(5)),
            97 => self.reopen(None),
            _ => self.crash_while_writing(),
        }
    }
}

/// Reads all pairs of a keyspace forwards; backwards there must be the same keys.
fn pairs(keyspace: &Keyspace, options: &ReadOptions) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let range = keyspace.range_with(.., options);
    let pairs: BTreeMap<_, _> =
        range.map(|it| it.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    // What expires between the two walks may be missing in the second.
    let back = keyspace.keys_with(options).rev().map(Result::unwrap);
    let (mut back, fixed) = (back.collect::<Vec<_>>(), options.snapshot.is_some());
    back.reverse();
    assert!(back.is_sorted(), "each key comes once, in order");
    let unexpected = back.iter().find(|key| !pairs.contains_key(*key));
    assert_eq!(unexpected, None, "it was not there forward");
    assert!(!fixed || back.len() == pairs.len(), "a snapshot is the same in both directions");
    pairs.into_iter().filter(|(key, _)| key != PROBE.as_bytes()).collect()
}

/// Returns a key whose presence or value is not what the entries say, if there is one.
fn differs(map: &Map, time: (u64, u64), found: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Vec<u8>> {
    let unknown = found.keys().find(|key| !map.contains_key(*key));
    let wrong = |(key, entry): &(&Vec<u8>, &Entry)| match found.get(*key) {
        Some(value) => *value != entry.value || entry.is_alive(time) == Some(false),
        None => entry.is_alive(time) == Some(true),
    };
    unknown.or_else(|| map.iter().find(wrong).map(|(key, _)| key)).cloned()
}

#[track_caller]
fn check(map: &Map, time: (u64, u64), found: &BTreeMap<Vec<u8>, Vec<u8>>, how: &str) {
    if let Some(key) = differs(map, time, found) {
        let (name, value) = (key.escape_ascii(), found.get(&key).map(Vec::len));
        let entry = map.get(&key).map(|entry| (entry.value.len(), entry.deadline));
        panic!("{how} at {time:?}: {name} has {value:?} bytes, expected {entry:?}");
    }
}

fn run(seed: u64) -> (u64, u64) {
    let (env, simulation) = Env::simulated(seed);
    simulation.limit_steps(20_000_000);
    let running = simulation.clone();
    simulation.run(|| {
        let mut world = World {
            env,
            simulation: running,
            dice: Dice(seed),
            at_flush: seed.is_multiple_of(2),
            db: None,
            maps: Default::default(),
            held: Vec::new(),
            time: 0,
            values: 0,
            found_again: 0,
            seen_expired: 0,
        };
        world.open();
        for _ in 0..OPERATIONS {
            world.step();
        }
        world.look();
        world.held.clear();
        let (db, _) = world.db.take().expect("it is open");
        db.close().unwrap();
        (world.seen_expired, world.found_again)
    })
}

#[test]
fn random_deadlines_and_clocks() {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    let first = number("CLEAVEDB_SEED").unwrap_or(1);
    let count = number("CLEAVEDB_SEEDS").unwrap_or(6);
    let (mut expired, mut again) = (0, 0);
    for seed in first..first + count {
        println!("CLEAVEDB_SEED={seed}");
        let (seen, found_again) = run(seed);
        expired += seen;
        again += found_again;
    }
    println!("{count} seeds, {expired} expired entries seen, {again} found again");
    assert!(count < 6 || expired > 1000 && again > 0, "this test shows less than it should");
}

fn open(env: &Env) -> (Db, Keyspace) {
    let db = crate::client::open(env, options());
    let keys = db.default_keyspace();
    (db, keys)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn i06_what_was_dropped_as_expired_stays_absent_whatever_the_clock_says() {
    crate::client::simulate(3, 1_000_000, |env, simulation| {
        let (db, keys) = open(env);
        for (key, time) in [("a", 100), ("b", 200), ("c", 300)] {
            keys.put(key, "older").unwrap();
            keys.put_expiring(key, [7; 500], seconds(time)).unwrap();
        }
        db.compact().unwrap();
        // What is older than an expired value does not come into view.
        simulation.advance(seconds(150));
        assert!(keys.get("a").unwrap().is_none() && keys.get("b").unwrap().is_some());
        db.compact().unwrap();
        // What expires after the last compaction is not dropped.
        simulation.advance(seconds(100));
        assert!(keys.get("b").unwrap().is_none());
        simulation.step_wall(-400_000);
        assert!(keys.get("b").unwrap().is_none(), "time does not go back in a session");
        let other = db.create_keyspace("other").unwrap();
        let early = UNIX_EPOCH + env.clock.wall() + seconds(240);
        other.put_expiring("x", "y", early).unwrap();
        assert!(other.get("x").unwrap().is_none());
        db.close().unwrap();
        drop((keys, other));

        // Time begins at the deadline of what was dropped.
        let (db, keys) = open(env);
        assert!(keys.get("a").unwrap().is_none(), "it was dropped");
        let Some(Ttl::Left(left)) = keys.ttl("b").unwrap() else { panic!("it is back") };
        assert!(left > seconds(90) && left <= seconds(100), "{left:?}");
        assert!(db.keyspace("other").unwrap().get("x").unwrap().is_none(), "it had to go before");
        simulation.advance(seconds(101));
        assert!(keys.get("b").unwrap().is_none(), "time goes on");
        db.compact().unwrap();
        assert_eq!(keys.keys().count(), 1);
    });
}

#[test]
fn a_value_lives_as_long_as_it_was_told_to_after_the_clock_was_set() {
    crate::client::simulate(4, 1_000_000, |env, simulation| {
        let (_db, keys) = open(env);
        // A day ahead and back again.
        keys.put_expiring("before", "", seconds(3600)).unwrap();
        simulation.step_wall(86_400_000);
        assert!(keys.get("before").unwrap().is_none());
        simulation.step_wall(-86_400_000);
        keys.put_expiring("after", "", seconds(3600)).unwrap();
        simulation.advance(seconds(3590));
        assert!(keys.get("after").unwrap().is_some());
        simulation.advance(seconds(20));
        assert!(keys.get("after").unwrap().is_none());
        assert!(keys.get("before").unwrap().is_none());
    });
}

#[test]
fn a_snapshot_sees_what_had_not_expired_through_compaction_and_value_gc() {
    crate::client::simulate(5, 1_000_000, |env, simulation| {
        let (db, keys) = open(env);
        for number in 0..40 {
            keys.put_expiring(format!("k{number:02}"), value(number, 900), seconds(50)).unwrap();
        }
        let snapshot = db.snapshot();
        simulation.advance(seconds(60));
        db.compact().unwrap();
        db.gc().unwrap();
        assert_eq!(keys.iter().count(), 0);
        let then = ReadOptions::new().snapshot(&snapshot);
        for number in 0..40 {
            let found = keys.get_with(format!("k{number:02}"), &then).unwrap();
            assert_eq!(found.unwrap(), value(number, 900));
        }
        // The space comes back once nobody sees it.
        drop((then, snapshot));
        db.compact().unwrap();
        db.gc().unwrap();
        assert!(keys.tables().is_empty(), "{:?}", keys.tables());
        assert_eq!(keys.iter().count(), 0);
    });
}

/// Returns the bytes of all tables, segments and relocations. The manifest is bounded, but not by
/// the size of such a small database.
fn bytes_on_disk(env: &Env) -> u64 {
    let mut names = env.fs.list(std::path::Path::new(DIR)).unwrap();
    names.retain(|name| name.extension().is_some_and(|it| it != "man"));
    let path = |name: &std::path::PathBuf| std::path::Path::new(DIR).join(name);
    names.iter().map(|name| env.fs.open(&path(name)).unwrap().len().unwrap()).sum()
}

/// Puts 1000 values that expire after a minute into a keyspace, and waits for the background.
fn fill(db: &Db, keys: &Keyspace) {
    for number in 0..1000 {
        keys.put_expiring(format!("k{number:03}"), value(number, 900), seconds(60)).unwrap();
    }
    db.wait_idle().unwrap();
}

#[test]
fn the_space_of_what_has_expired_comes_back_while_nobody_does_anything() {
    for separation in [Separation::AtWrite, Separation::AtFlush, Separation::Off] {
        crate::client::simulate(6, 5_000_000, |env, simulation| {
            let block_codec = Codec::None;
            let keyspace = KeyspaceOptions { separation, block_codec, ..options().keyspace };
            let db = crate::client::open(env, Options { keyspace, ..options() });
            let keys = db.default_keyspace();
            fill(&db, &keys);
            let full = bytes_on_disk(env);
            assert!(full > 800_000, "{separation:?}: {full}");
            simulation.advance(seconds(60));
            env.threads.sleep(seconds(60));
            let left = bytes_on_disk(env);
            assert!(left < full / 20, "{separation:?}: {left} of {full}, {:?}", keys.tables());
            assert!(db.check().unwrap().is_clean());
        });
    }
}

#[test]
fn i06_tables_go_unread_only_if_they_hide_nothing() {
    crate::client::simulate(7, 5_000_000, |env, simulation| {
        let (db, keys) = open(env);
        // In deeper tables there is something older, which must not come into view.
        for number in 0..400 {
            keys.put(format!("k{number:03}"), value(number, 20)).unwrap();
        }
        db.compact().unwrap();
        fill(&db, &keys);
        simulation.advance(seconds(60));
        env.threads.sleep(seconds(60));
        assert_eq!(keys.iter().count(), 0);
        db.compact().unwrap();
        assert_eq!(keys.iter().count(), 0);
        assert!(keys.tables().is_empty(), "{:?}", keys.tables());
    });
}

/// What is left of few expired entries goes down with its level. It may be over very many keys,
/// which would be rewritten for it. It is no live key to a report, nor to a repair.
#[test]
fn few_expired_entries_rewrite_nothing() {
    crate::client::simulate(10, 5_000_000, |env, simulation| {
        let (db, keys) = open(env);
        for number in 0..400 {
            keys.put(format!("k{number:03}"), value(number, 20)).unwrap();
        }
        db.compact().unwrap();
        db.wait_idle().unwrap();
        for number in 0..10 {
            keys.put_expiring(format!("k{:03}", number * 40), "1", seconds(30)).unwrap();
        }
        simulation.advance(seconds(30));
        db.flush().unwrap();
        let read = db.stats().compaction_bytes_read;
        env.threads.sleep(seconds(600));
        assert_eq!(db.stats().compaction_bytes_read, read, "{:?}", keys.tables());
        assert_eq!(keys.keys().count(), 390);
        let space = &db.space().unwrap().keyspaces[0];
        assert_eq!(space.entries, 390);
        drop(keys);
        db.close().unwrap();
        env.fs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
        let report = Db::builder(DIR).env(env.clone()).repair().unwrap();
        assert_eq!(report.keys, 390, "{report:?}");
    });
}

/// Each value that had expired counted as the deletion of another key, although it hid nothing: of
/// 400 keys beside 100 expired ones, 300 were left in the estimate.
#[test]
fn what_has_expired_does_not_count_as_a_deletion() {
    crate::client::simulate(8, 5_000_000, |env, simulation| {
        let (db, keys) = open(env);
        for number in 0..400 {
            keys.put(format!("k{number:03}"), value(number, 20)).unwrap();
        }
        db.compact().unwrap();
        let flushed = keys.tables().len();
        for number in 0..100 {
            keys.put_expiring(format!("k{number:03}x"), value(number, 20), seconds(60)).unwrap();
        }
        assert_eq!(keys.approximate_len(..).unwrap(), 500);
        simulation.advance(seconds(60));
        assert_eq!(keys.approximate_len(..).unwrap(), 400, "in the memtable");
        db.flush().unwrap();
        let (tables, len) = (keys.tables(), keys.approximate_len(..).unwrap());
        assert!(tables.len() > flushed, "it was merged already");
        assert_eq!(len, 400, "{tables:?}");
        // What they left says so whatever the clock says, and hides what is older.
        for number in 300..400 {
            keys.put_expiring(format!("k{number:03}"), value(number, 20), seconds(60)).unwrap();
        }
        simulation.advance(seconds(60));
        db.flush().unwrap();
        assert_eq!(keys.keys().count(), 300);
        db.compact().unwrap();
        assert_eq!((keys.keys().count(), keys.approximate_len(..).unwrap()), (300, 300));
        assert!(db.check().unwrap().is_clean());
    });
}

/// On a full disk, tables in which all had expired stayed, because merging them did not fit.
/// Dropping them needs no space.
#[test]
fn i09_tables_that_have_expired_go_while_the_disk_is_full() {
    crate::client::simulate(9, 5_000_000, |env, simulation| {
        // The tables are larger than what is left of the disk.
        let (separation, block_codec, table_bytes) = (Separation::Off, Codec::None, 256 << 10);
        let tables = KeyspaceOptions { separation, block_codec, table_bytes, ..options().keyspace };
        let db = crate::client::open(env, Options { keyspace: tables, ..options() });
        let keys = db.default_keyspace();
        fill(&db, &keys);
        db.compact().unwrap();
        db.wait_idle().unwrap();
        assert!(!keys.tables().is_empty());
        simulation.set_capacity(Some(simulation.used() + 64_000));
        simulation.advance(seconds(60));
        env.threads.sleep(seconds(60));
        assert!(keys.tables().is_empty(), "{:?}", keys.tables());
        simulation.set_capacity(None);
        assert!(db.check().unwrap().is_clean());
    });
}
