//! Checks that numbers in file names and edits that no database of ours gave out, whoever wrote
//! them, change nothing about the data.

use crate::base::coding::Reader;
use crate::base::error::{ErrorKind, Result};
use crate::base::key::MAX_SEQNO;
use crate::base::pointer::{KeyspaceId, MAX_ID, SegmentId, TableId};
use crate::db::{Db, Options};
use crate::env::Env;
use crate::env::random::Random;
use crate::segment::SegmentKind;
use crate::version::LogPosition;
use crate::version::edit::{Change, Edit};
use crate::version::files::names;
use crate::version::manifest::{ManifestWriter, read_current, read_manifest};
use crate::version::settings::KeyspaceOptions;
use std::path::Path;

const DIR: &str = "db";
const CASES: u64 = 60;

/// Numbers at the limits of ranges.
const EDGES: [u64; 12] = [
    0,
    1,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 40,
    MAX_ID - 1,
    MAX_ID,
    MAX_ID + 1,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
];

fn open(env: &Env) -> Result<Db> {
    let keyspace = KeyspaceOptions { separation_threshold: 100, ..KeyspaceOptions::default() };
    let options = Options { keyspace, ..Options::default() };
    Db::builder(DIR).env(env.clone()).options(options).open()
}

/// Returns a value that is large enough to be separated.
fn large(number: u64) -> Vec<u8> {
    vec![number as u8; 300]
}

/// Fills a database with some keys in tables and some in the log only.
fn fill(env: &Env) {
    let db = open(env).unwrap();
    for number in 0..8u64 {
        db.default_keyspace().put(number.to_be_bytes(), large(number)).unwrap();
        if number == 4 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
}

fn check(db: &Db) {
    for number in 0..8u64 {
        let value = db.default_keyspace().get(number.to_be_bytes()).unwrap();
        assert_eq!(value.expect("it is there"), large(number));
    }
    db.default_keyspace().put("new", "value").unwrap();
    db.flush().unwrap();
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

fn below(random: &dyn Random, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}

/// Returns a file name that resembles one of ours, more or less.
fn name(random: &dyn Random) -> String {
    let number = match below(random, 3) {
        0 => random.next_u64() >> below(random, 64),
        1 => below(random, 30) as u64,
        _ => EDGES[below(random, EDGES.len())],
    };
    let suffixes = ["tbl", "seg", "rel", "man", "cut", "tbl.1", "TBL", "", "new"];
    let suffix = suffixes[below(random, suffixes.len())];
    match below(random, 5) {
        0 => format!("{number}.{suffix}"),
        1 => format!("{number}0.{suffix}"),
        2 => format!("MANIFEST-{number}"),
        _ => format!("{number:08}.{suffix}"),
    }
}

/// Returns nothing, noise, or the content of another file of the database.
fn content(env: &Env, random: &dyn Random) -> Vec<u8> {
    let files = env.fs.list(Path::new(DIR)).unwrap();
    match below(random, 3) {
        0 => Vec::new(),
        1 => (0..below(random, 200)).map(|_| random.next_u64() as u8).collect(),
        _ => {
            let path = Path::new(DIR).join(&files[below(random, files.len())]);
            let file = env.fs.open(&path).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        }
    }
}

fn plant(env: &Env, random: &dyn Random) -> Vec<String> {
    let mut planted = Vec::new();
    for _ in 0..below(random, 6) + 1 {
        let name = name(random);
        let path = Path::new(DIR).join(&name);
        if !env.fs.exists(&path).unwrap() {
            let bytes = content(env, random);
            env.fs.create(&path).unwrap().write_at(&bytes, 0).unwrap();
            planted.push(name);
        }
    }
    planted
}

#[test]
fn files_of_any_name_and_content_keep_nobody_from_opening_or_repairing() {
    for seed in 0..CASES {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            fill(&env);
            let planted = plant(&env, &*env.random);
            for round in 0..2 {
                let db = open(&env);
                let db = db.unwrap_or_else(|e| panic!("seed {seed} {round}: {e}, {planted:?}"));
                check(&db);
                db.close().unwrap();
            }
            let planted = plant(&env, &*env.random);
            env.fs.remove(&Path::new(DIR).join(names::CURRENT)).unwrap();
            let repaired = Db::builder(DIR).env(env.clone()).repair();
            repaired.unwrap_or_else(|e| panic!("seed {seed}: {e}, {planted:?}"));
            let db = open(&env).unwrap();
            check(&db);
            db.close().unwrap();
        });
    }
}

fn number(random: &dyn Random) -> u64 {
    if below(random, 2) == 0 { below(random, 12) as u64 } else { EDGES[below(random, 12)] }
}

fn change(random: &dyn Random) -> Change {
    let (a, b) = (number(random), number(random));
    match below(random, 12) {
        0 => Change::NextFile(a),
        1 => Change::LastSeqno(a),
        2 => Change::Head(LogPosition { segment: SegmentId(a), offset: b }),
        3 => Change::AddSegment { id: SegmentId(a), kind: SegmentKind::Log, epoch: b },
        4 => Change::SealSegment { id: SegmentId(a), length: b },
        5 => Change::RemoveSegment { id: SegmentId(a) },
        6 => Change::Flushed { keyspace: KeyspaceId(a), seqno: b },
        7 => Change::DropKeyspace { id: KeyspaceId(a) },
        8 => {
            Change::RemoveTable { keyspace: KeyspaceId(a), level: below(random, 9), id: TableId(b) }
        }
        9 => Change::RemoveRelocation { segment: SegmentId(a) },
        10 => Change::SetKeyspace { id: KeyspaceId(a), settings: "x".repeat(below(random, 3)) },
        _ => Change::AddKeyspace {
            id: KeyspaceId(a),
            name: ["default", "other", ""][below(random, 3)].into(),
            order: crate::base::key::KeyOrder::BYTEWISE_NAME.into(),
            settings: String::new(),
            flushed: b,
        },
    }
}

/// Writes the present state to a new manifest, with `changes` that no job made.
fn forge(env: &Env, changes: Vec<Change>) {
    let dir = Path::new(DIR);
    let current = read_current(env, dir).unwrap();
    let mut state: Vec<Change> = Vec::new();
    let take = |edit: Edit| {
        state.extend(edit.changes);
        Ok(())
    };
    read_manifest(env, dir, current.database, current.manifest, take).unwrap();
    state.extend(changes);
    let id = current.manifest + 1000;
    ManifestWriter::create(env, dir, current.database, id, &Edit::new(state)).map(drop).unwrap();
}

#[test]
fn edits_with_any_numbers_are_refused_or_believed_and_panic_nowhere() {
    let (mut refused, mut believed) = (0, 0);
    for seed in 0..4 * CASES {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            fill(&env);
            let changes = (0..below(&*env.random, 3) + 1).map(|_| change(&*env.random));
            forge(&env, changes.collect());
            match open(&env) {
                Err(_) => refused += 1,
                Ok(db) => {
                    believed += 1;
                    // Even with forged numbers, these calls may fail but not panic.
                    let _ = db.default_keyspace().put("new", "value");
                    let _ = db.flush();
                    let _ = db.check();
                    let _ = db.close();
                }
            }
            let _ = Db::builder(DIR).env(env.clone()).repair();
        });
    }
    assert!(refused > 20 && believed > 10, "{refused} refused, {believed} believed");
}

#[test]
fn i07_numbers_in_edits_are_bounded() {
    for (change, is_fine) in [
        (Change::NextFile(MAX_ID), true),
        (Change::NextFile(MAX_ID + 1), false),
        (Change::LastSeqno(MAX_SEQNO), true),
        (Change::LastSeqno(MAX_SEQNO + 1), false),
        (Change::RemoveSegment { id: SegmentId(u64::MAX) }, false),
        (Change::Flushed { keyspace: KeyspaceId(1), seqno: u64::MAX }, false),
    ] {
        let bytes = Edit::new(vec![change.clone()]).encode();
        assert_eq!(Edit::decode(&bytes).is_ok(), is_fine, "{change:?}");
    }
    let bytes = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    assert!(TableId::decode(&mut Reader::new(&bytes)).is_err(), "one more than the highest");
}

#[test]
fn a_database_without_free_ids_says_so() {
    let (env, simulation) = Env::simulated(1);
    simulation.run(|| {
        fill(&env);
        forge(&env, vec![Change::NextFile(MAX_ID - 1)]);
        // Opening takes no id; the last one goes to the manifest that the first write begins.
        let db = open(&env).unwrap();
        let error = db.default_keyspace().put("new", "value").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitReached, "{error}");
        assert!(error.to_string().contains("ids of files and keyspaces are used up"), "{error}");
        assert_eq!(db.default_keyspace().get(3u64.to_be_bytes()).unwrap().unwrap(), large(3));
    });
}
