//! What a repair must keep: whatever can still be read is in the repaired database, and all else is
//! in `lost`.

use super::{Model, content, files, fill_log, flip, get, open_separating, position};
use crate::env::Env;
use crate::env::sim::Survivors;
use crate::version::files::names;
use crate::{Db, Durability, KeyspaceOptions, Separation, WriteOptions, doc_dir};
use std::path::{Path, PathBuf};

fn value(key: &str) -> Vec<u8> {
    key.bytes().cycle().take(2000).collect()
}

/// Fills a database with values in segments, all of them flushed.
fn fill_apart(dir: &Path, separation: Separation) -> Model {
    let (db, keys) = open_separating(dir, separation);
    let mut model = Model::new();
    for n in 0..300u32 {
        let key = format!("key-{n:04}");
        keys.put(&key, value(&key)).unwrap();
        model.insert(key.clone().into_bytes(), value(&key));
    }
    db.flush().unwrap();
    db.close().unwrap();
    model
}

/// Has background work free what it takes for garbage.
fn free_garbage(dir: &Path) {
    let db = crate::open(dir).unwrap();
    db.compact().unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    crate::open(dir).unwrap().close().unwrap();
}

fn is_in_lost(dir: &Path, wanted: &[u8]) -> bool {
    let lost = files(&dir.join("lost"), "");
    lost.iter().any(|path| has(&std::fs::read(path).unwrap(), wanted))
}

fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn bodies(dir: &Path) -> Vec<PathBuf> {
    let mut segments = files(dir, ".seg");
    segments.retain(|path| std::fs::metadata(path).unwrap().len() > 0);
    segments
}

/// Segments without a pointer into them were unlinked by the opening that verifies the repair, or
/// by the next one: they were named as live, behind the head of the log. Now they are in `lost`.
#[test]
fn i05_values_without_their_tables_are_in_lost() {
    for (number, separation) in [Separation::AtWrite, Separation::AtFlush].into_iter().enumerate() {
        let dir = doc_dir(&format!("repair-kept-values-{number}"));
        let model = fill_apart(&dir, separation);
        files(&dir, ".tbl").iter().for_each(|path| std::fs::remove_file(path).unwrap());
        let report = Db::repair(&dir).unwrap();
        assert!(!report.was_healthy && report.keys == 0, "{report:?}");
        free_garbage(&dir);
        assert!(model.values().all(|value| is_in_lost(&dir, value)));
        assert!(files(&dir, ".seg").is_empty(), "what no table needs is not named");
        assert!(Db::repair(&dir).unwrap().was_healthy);
    }
}

/// Files were moved to `lost` after the new manifest was in force. A crash between the two left
/// orphans, which the next opening removed. Now they have names in `lost` before.
#[test]
fn i05_a_repair_that_crashes_removes_nothing() {
    let dir = Path::new("db");
    let (env, base) = Env::simulated(1);
    let repair = |env: &Env| Db::builder(dir).env(env.clone()).repair();
    let keys: Vec<String> = (0..5).map(|n| format!("key-{n}")).collect();
    base.run(|| {
        let db = Db::builder(dir).env(env.clone()).open().unwrap();
        let separation = Separation::AtWrite;
        let options = KeyspaceOptions { separation, ..Default::default() };
        db.default_keyspace().set_options(options).unwrap();
        keys.iter().for_each(|key| db.default_keyspace().put(key, value(key)).unwrap());
        db.flush().unwrap();
        db.close().unwrap();
        for file in env.fs.list(dir).unwrap() {
            if file.to_string_lossy().ends_with(".tbl") {
                env.fs.remove(&dir.join(file.file_name().unwrap())).unwrap();
            }
        }
        env.fs.sync_dir(dir).unwrap();
    });
    for call in 1.. {
        let (env, broken) = base.surviving(Survivors::KeepAll, call);
        broken.crash_at(call);
        let outcome = broken.run(|| repair(&env));
        if !broken.crashed() {
            assert!(outcome.is_ok() && call > 10, "{call} calls");
            break;
        }
        for (survivors, seed) in
            [(Survivors::LoseAll, 0), (Survivors::KeepAll, 0)].into_iter().chain(RANDOM)
        {
            let (env, world) = broken.surviving(survivors, 100 * call + seed);
            world.run(|| {
                repair(&env).unwrap_or_else(|error| panic!("call {call}: {error}"));
                let db = Db::builder(dir).env(env.clone()).open().unwrap();
                db.wait_idle().unwrap();
                db.close().unwrap();
            });
            let all: Vec<_> = world.files().iter().map(|path| world.read_file(path)).collect();
            let is_there = |key: &String| all.iter().any(|bytes| has(bytes, &value(key)));
            assert!(keys.iter().all(is_there), "call {call}, {survivors:?}: {:?}", world.files());
        }
    }
}

const RANDOM: [(Survivors, u64); 3] =
    [(Survivors::Random, 1), (Survivors::Random, 2), (Survivors::Random, 3)];

/// Commits behind damage of the log are in its segment only. It was named as live, and was unlinked
/// as a whole, or with the last value in it that a table points to.
#[test]
fn i05_commits_behind_damage_of_the_log_are_in_lost() {
    let dir = doc_dir("repair-kept-log");
    let log = fill_log(&dir);
    let at = position(&std::fs::read(&log).unwrap(), "the value of damaged");
    flip(&log, at);
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    assert_eq!(Db::repair(&dir).unwrap().damaged_log_segments, 1);
    free_garbage(&dir);
    assert!(is_in_lost(&dir, b"the value of behind"));
    assert_eq!(content(&dir).len(), 1);
}

#[test]
fn i05_separated_commits_behind_damage_of_the_log_are_in_lost() {
    let dir = doc_dir("repair-kept-log-values");
    let (db, keys) = open_separating(&dir, Separation::AtWrite);
    let options = WriteOptions::new().durability(Some(Durability::Sync));
    for key in ["before", "damaged", "behind"] {
        keys.put_with(key, value(key), &options).unwrap();
    }
    drop(keys);
    db.close().unwrap();
    let [log] = &bodies(&dir)[..] else { panic!("one segment") };
    let bytes = std::fs::read(log).unwrap();
    flip(log, position(&bytes, "damageddamageddamaged"));
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let report = Db::repair(&dir).unwrap();
    assert_eq!((report.keys, report.damaged_log_segments), (1, 1), "{report:?}");
    assert!(Db::repair(&dir).unwrap().was_healthy, "the damage is in no file in use");
    let db = crate::open(&dir).unwrap();
    assert_eq!(get(&db, "default", "before").unwrap(), value("before"));
    db.default_keyspace().delete("before").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    free_garbage(&dir);
    assert!(is_in_lost(&dir, &value("behind")));
}

/// No read looks at the head of a segment, but a repair gave up all values of one whose head was
/// damaged. Now it goes by the manifest, which has what they need.
#[test]
fn i03_a_damaged_head_costs_no_value() {
    for (number, separation) in [Separation::AtWrite, Separation::AtFlush].into_iter().enumerate() {
        for at in [20, 60] {
            let dir = doc_dir(&format!("repair-kept-head-{number}-{at}"));
            let model = fill_apart(&dir, separation);
            bodies(&dir).iter().for_each(|path| flip(path, at));
            let report = Db::repair(&dir).unwrap();
            assert!(!report.was_healthy && report.lost_keys == 0, "{report:?}");
            assert_eq!(content(&dir), model);
            assert!(Db::repair(&dir).unwrap().was_healthy);
        }
    }
}

/// The damaged frame of a sorted segment was taken for a torn end, so the new manifest said that
/// the segment ends there. Pointers led behind it, and a backup, which copies so many bytes, missed
/// their values.
#[test]
fn i03_damage_of_a_sorted_segment_costs_its_own_values_only() {
    for loses_manifest in [false, true] {
        let dir = doc_dir(&format!("repair-kept-sorted-{loses_manifest}"));
        let place = dir.join("db");
        let mut model = fill_apart(&place, Separation::AtFlush);
        let victim = value("key-0003");
        model.remove(&b"key-0003"[..]).unwrap();
        for segment in bodies(&place) {
            let bytes = std::fs::read(&segment).unwrap();
            // The log has all of them, too.
            if bytes[40] == 2 {
                flip(&segment, position(&bytes, std::str::from_utf8(&victim).unwrap()));
            }
        }
        if loses_manifest {
            super::remove_manifests(&place);
        }
        let report = Db::repair(&place).unwrap();
        assert_eq!((report.keys, report.lost_keys), (299, 1), "{report:?}");
        let db = crate::open(&place).unwrap();
        db.backup(dir.join("backup")).unwrap();
        db.close().unwrap();
        let restored = dir.join("restored");
        crate::Backups::new(dir.join("backup")).restore(None, &restored).unwrap();
        assert_eq!(content(&place), model);
        assert_eq!(content(&restored), model);
        assert!(Db::repair(&place).unwrap().was_healthy);
    }
}

/// Fills one table with small values.
fn fill_table(name: &str) -> (PathBuf, PathBuf) {
    let dir = doc_dir(name);
    let db = crate::open(&dir).unwrap();
    for n in 0..3000u32 {
        db.default_keyspace().put(format!("{n:05}"), n.to_string()).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let table = files(&dir, ".tbl").remove(0);
    (dir, table)
}

/// A table whose filter or header is damaged was not opened, although each of its entries could be
/// read.
#[test]
fn a_damaged_filter_or_header_costs_no_key() {
    for part in ["filter", "header"] {
        let (dir, table) = fill_table(&format!("repair-kept-{part}"));
        let bytes = std::fs::read(&table).unwrap();
        // The footer begins with the place of the filter.
        let filter = bytes[bytes.len() - 64..].first_chunk().map(|it| u64::from_le_bytes(*it));
        flip(&table, if part == "filter" { filter.unwrap() as usize + 5 } else { 20 });
        let report = Db::repair(&dir).unwrap();
        assert!(!report.was_healthy);
        assert_eq!((report.keys, report.lost_keys), (3000, 0), "{part}: {report:?}");
        assert_eq!((report.tables, report.damaged_tables), (1, 0), "{part}");
        assert_eq!(content(&dir).len(), 3000);
    }
}

/// Of a table with two damaged blocks, all that lies between them was lost.
#[test]
fn a_repair_reads_on_behind_each_damaged_block() {
    let (dir, table) = fill_table("repair-kept-blocks");
    let bytes = std::fs::metadata(&table).unwrap().len() as usize;
    flip(&table, bytes / 4);
    flip(&table, bytes / 2);
    let report = Db::repair(&dir).unwrap();
    assert!((1500..3000).contains(&report.keys), "{report:?}");
    assert_eq!((report.tables, report.damaged_tables), (0, 1));
    let found = content(&dir);
    assert!(["00000", "01200", "02999"].iter().all(|key| found.contains_key(key.as_bytes())));
}

/// Makes a database in which a table was replaced before the manifest was written anew, as pure
/// state. A power cut may undo its unlink.
fn with_an_older_table(name: &str) -> PathBuf {
    let dir = doc_dir(name);
    let db = crate::open(&dir).unwrap();
    let keys = db.default_keyspace();
    keys.put("gone", "before").unwrap();
    keys.flush().unwrap();
    let table = files(&dir, ".tbl").pop().unwrap();
    let bytes = std::fs::read(&table).unwrap();
    keys.delete("gone").unwrap();
    keys.flush().unwrap();
    keys.compact_range(..).unwrap();
    drop(keys);
    db.close().unwrap();
    assert!(!table.exists());
    for key in ["kept", "later"] {
        let db = crate::open(&dir).unwrap();
        db.default_keyspace().put(key, "after").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }
    std::fs::write(&table, bytes).unwrap();
    dir
}

/// Such a table is in no edit any more, and it was taken for one whose edit is lost.
#[test]
fn i06_what_was_deleted_does_not_come_back_from_a_table_of_no_edit() {
    for case in ["whole", "damaged", "cut"] {
        let dir = with_an_older_table(&format!("repair-kept-no-edit-{case}"));
        let manifest = files(&dir, ".man").pop().unwrap();
        let bytes = std::fs::metadata(&manifest).unwrap().len();
        match case {
            "whole" => {}
            "damaged" => flip(&manifest, bytes as usize - 1),
            _ => {
                let file = std::fs::OpenOptions::new().write(true).open(&manifest).unwrap();
                file.set_len(bytes - 1).unwrap();
            }
        }
        std::fs::remove_file(dir.join("CURRENT")).unwrap();
        let report = Db::repair(&dir).unwrap();
        assert!(!report.was_healthy && report.keys == 2, "{case}: {report:?}");
        let found = content(&dir);
        assert!(!found.contains_key(&b"gone"[..]), "{case}");
        assert!(is_in_lost(&dir, b"gone"), "{case}");
    }
}

/// The check before a repair opened the database for writing, and removed the table as an orphan.
#[test]
fn a_table_of_no_edit_stands_in_for_one_that_is_lost() {
    for is_missing in [false, true] {
        let dir = with_an_older_table(&format!("repair-kept-stands-in-{is_missing}"));
        let table = files(&dir, ".tbl").pop().unwrap();
        match is_missing {
            true => std::fs::remove_file(table).unwrap(),
            false => flip(&table, 60),
        }
        let report = Db::repair(&dir).unwrap();
        assert_eq!(report.damaged_tables, 1, "{report:?}");
        assert!(report.problems.iter().any(|it| it.to_string().contains("had been replaced")));
        assert!(content(&dir).contains_key(&b"gone"[..]));
    }
}

/// A table of a flush that a crash kept from being named has what is damaged in the log.
#[test]
fn i02_a_table_of_a_flush_that_was_cut_short_stands_in_for_the_log() {
    let dir = doc_dir("repair-kept-flush");
    let (place, copy) = (dir.join("db"), dir.join("copy"));
    std::fs::create_dir_all(&copy).unwrap();
    let db = crate::open(&place).unwrap();
    let sync = WriteOptions::new().durability(Some(Durability::Sync));
    for key in ["before", "damaged", "behind"] {
        db.default_keyspace().put_with(key, format!("the value of {key}"), &sync).unwrap();
    }
    let of_engine = |it: &PathBuf| !it.ends_with(names::CONTROL);
    for file in files(&place, "").into_iter().filter(of_engine) {
        std::fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    db.flush().unwrap();
    let table = files(&place, ".tbl").pop().unwrap();
    std::fs::copy(&table, copy.join(table.file_name().unwrap())).unwrap();
    db.close().unwrap();
    let [log] = &bodies(&copy)[..] else { panic!("one segment") };
    let at = position(&std::fs::read(log).unwrap(), "the value of damaged");
    flip(log, at);
    std::fs::remove_file(copy.join("CURRENT")).unwrap();
    assert_eq!(Db::repair(&copy).unwrap().keys, 3);
    assert_eq!(content(&copy).len(), 3);
}

/// Each lost value was listed, 65 thousand of one segment, and none with its key.
#[test]
fn lost_values_are_listed_with_their_keys_up_to_a_bound() {
    let dir = doc_dir("repair-kept-list");
    fill_apart(&dir, Separation::AtWrite);
    bodies(&dir).iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let report = Db::repair(&dir).unwrap();
    assert_eq!((report.keys, report.lost_keys), (0, 300), "{report:?}");
    let texts: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let named = texts.iter().filter(|it| it.contains("\"key-0")).count();
    assert_eq!(named, 100);
    assert!(texts.iter().any(|it| it.contains("\"key-0042\" in keyspace \"default\"")));
    assert!(texts.iter().any(|it| it.contains("200 more")), "{texts:?}");
    assert!(texts.len() < 110, "{}", texts.len());
}
