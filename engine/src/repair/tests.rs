//! Repairs damaged databases and checks the results.

mod kept;

use crate::base::key::Comparator;
use crate::version::edit::{Change, Edit};
use crate::version::files::names;
use crate::version::manifest::whole_manifest;
use crate::{
    Db, Durability, ErrorKind, GcOptions, Keyspace, KeyspaceOptions, Options, Separation,
    WriteOptions, doc_dir,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Fills a database with small and separated values, overwritten and deleted, in tables of several
/// levels and in the log.
fn fill(dir: &Path) -> Model {
    let db = crate::open(dir).unwrap();
    let options = KeyspaceOptions {
        separation: Separation::AtWrite,
        separation_threshold: 200,
        table_bytes: 8 << 10,
        ..Default::default()
    };
    let keys = db.default_keyspace();
    keys.set_options(options).unwrap();
    let mut model = Model::new();
    for round in 0..5u32 {
        for n in 0..300u32 {
            let key = format!("{:04}", n * 7 % 900 + round * 50).into_bytes();
            let value = vec![b'a' + round as u8; if n % 3 == 0 { 500 } else { 20 }];
            if n % 11 == 10 {
                keys.delete(&key).unwrap();
                model.remove(&key);
            } else {
                keys.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        match round {
            0..3 => keys.flush().unwrap(),
            3 => db.compact().unwrap(),
            _ => {}
        }
    }
    db.close().unwrap();
    model
}

/// Opens the database, or creates it, so that large values are separated from now on.
fn open_separating(dir: &Path, separation: Separation) -> (Db, Keyspace) {
    let db = crate::open(dir).unwrap();
    let keys = db.default_keyspace();
    keys.set_options(KeyspaceOptions { separation, ..Default::default() }).unwrap();
    (db, keys)
}

fn content(dir: &Path) -> Model {
    let db = crate::open(dir).unwrap();
    let found = db.default_keyspace().iter().map(Result::unwrap);
    let model = found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert!(db.check().unwrap().is_clean());
    db.close().unwrap();
    model
}

fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect();
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x55;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_healthy_database_stays_whole() {
    let dir = doc_dir("repair-healthy");
    let model = fill(&dir);
    let segments = files(&dir, ".seg").len();
    let report = Db::repair(&dir).unwrap();
    assert!(report.was_healthy && report.problems.is_empty());
    assert!(!dir.join(super::LOST).exists());
    assert!(files(&dir, ".seg").len() >= segments.min(1));
    assert_eq!(content(&dir), model);
}

#[test]
fn i3_everything_comes_back_without_a_manifest() {
    for (case, victim) in ["CURRENT", ".man", "both"].into_iter().enumerate() {
        let dir = doc_dir(&format!("repair-manifest-{case}"));
        let model = fill(&dir);
        if victim != ".man" {
            std::fs::remove_file(dir.join("CURRENT")).unwrap();
        }
        if victim != "CURRENT" {
            for manifest in files(&dir, ".man") {
                std::fs::remove_file(manifest).unwrap();
            }
        }
        let report = Db::repair(&dir).unwrap();
        assert!(!report.was_healthy && report.lost_keys == 0, "{report:?}");
        assert_eq!(report.damaged_log_segments, 0, "{report:?}");
        assert_eq!(report.keys, model.len() as u64);
        assert!(report.files_set_aside > 0 && report.log_records > 0, "{report:?}");
        assert_eq!(content(&dir), model, "{victim}");
        assert!(Db::repair(&dir).unwrap().was_healthy);
    }
}

/// Writes keys one by one to the log, each synced before the next, and returns its only segment.
fn fill_log(dir: &Path) -> PathBuf {
    let db = crate::open(dir).unwrap();
    let options = WriteOptions::new().durability(Some(Durability::Sync));
    for key in ["before", "damaged", "behind"] {
        db.default_keyspace().put_with(key, format!("the value of {key}"), &options).unwrap();
    }
    db.close().unwrap();
    let [log] = &files(dir, ".seg")[..] else { panic!("one segment") };
    log.clone()
}

fn position(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
}

/// The report of a repair said nothing of commits that were lost with a part of the log, other
/// than that a checksum does not match: nobody knows how many keys they had. Now it counts the
/// segments, but neither one whose commits are all in tables, nor a torn end of the log.
#[test]
fn commits_behind_damage_of_the_log_are_told_as_lost() {
    // A log that was closed is sealed, so its end is not torn by a crash; without a manifest that
    // says so, it may be.
    let cases = [
        ("damaged", 1, 1),
        ("flushed", 3, 0),
        ("sealed", 2, 1),
        ("torn", 2, 0),
        ("beheaded", 0, 1),
    ];
    for (case, keys, damaged) in cases {
        let dir = doc_dir(&format!("repair-log-{case}"));
        let log = fill_log(&dir);
        let mut bytes = std::fs::read(&log).unwrap();
        if case == "flushed" {
            let db = crate::open(&dir).unwrap();
            db.flush().unwrap();
            db.close().unwrap();
        }
        let at = match case {
            "sealed" | "torn" => position(&bytes, "the value of behind"),
            "beheaded" => 10,
            _ => position(&bytes, "the value of damaged"),
        };
        bytes[at] ^= 1;
        if case == "torn" {
            files(&dir, ".man").iter().for_each(|path| std::fs::remove_file(path).unwrap());
        }
        // A segment that was flushed may have been unlinked; a power cut can undo that.
        std::fs::write(&log, bytes).unwrap();
        std::fs::remove_file(dir.join("CURRENT")).unwrap();
        let report = Db::repair(&dir).unwrap();
        assert_eq!((report.keys, report.damaged_log_segments), (keys, damaged), "{report:?}");
        let db = crate::open(&dir).unwrap();
        assert_eq!(db.default_keyspace().iter().count() as u64, keys);
        db.close().unwrap();
        // The damaged segment may still be there, but its loss has been told.
        assert_eq!(Db::repair(&dir).unwrap().damaged_log_segments, 0);
    }
}

/// After a repair, `cleave` collected no garbage any more: a repair keeps its own openings from
/// freeing space, and these wrote that, and bounds of space by default, to OPTIONS, which `cleave`
/// goes by. Now a repair leaves OPTIONS as it is.
#[test]
fn the_settings_of_gc_outlast_a_repair() {
    let dir = doc_dir("repair-options");
    fill(&dir);
    let gc = GcOptions { max_space_amplification: 3.0, ..GcOptions::default() };
    let options = Options { gc: gc.clone(), ..Options::default() };
    Db::builder(&dir).options(options).open().unwrap().close().unwrap();
    let recorded = || std::fs::read_to_string(dir.join("OPTIONS")).unwrap();
    let before = recorded();
    assert_eq!(GcOptions::from_text(&before).unwrap(), gc);
    assert!(Db::repair(&dir).unwrap().was_healthy);
    assert_eq!(recorded(), before);
    flip(&files(&dir, ".man").pop().unwrap(), 60);
    assert!(!Db::repair(&dir).unwrap().was_healthy);
    assert_eq!(recorded(), before);
}

#[test]
fn a_damaged_manifest_is_replaced() {
    let dir = doc_dir("repair-rot");
    let model = fill(&dir);
    let manifest = files(&dir, ".man").pop().unwrap();
    flip(&manifest, 60);
    assert_eq!(crate::open(&dir).err().unwrap().kind(), ErrorKind::Corruption);
    let report = Db::repair(&dir).unwrap();
    assert!(!report.problems.is_empty());
    assert_eq!(content(&dir), model);
}

/// What a merging keyspace has is in the tables of edits that the manifest has lost: its last
/// record is damaged, cut off in the middle or as a whole, or all of it is.
#[test]
fn i6_operands_come_back_without_the_end_of_the_manifest() {
    for case in ["damaged", "cut", "ended", "older"] {
        let dir = doc_dir(&format!("repair-merging-{case}"));
        let merge_operator = Some(crate::merge_operators::ADD.to_owned());
        let options = KeyspaceOptions { merge_operator, ..Default::default() };
        let db = crate::open(&dir).unwrap();
        let sums = db.create_keyspace_with("sums", options).unwrap();
        sums.put("5", "1000").unwrap();
        db.flush().unwrap();
        let older = files(&dir, ".man").pop().unwrap();
        let bytes = std::fs::read(&older).unwrap();
        drop(sums);
        db.close().unwrap();
        let db = crate::open(&dir).unwrap();
        let sums = db.keyspace("sums").unwrap();
        for round in 0..3 {
            for key in 0..10 {
                sums.merge(key.to_string(), "1").unwrap();
            }
            if round < 2 {
                db.flush().unwrap();
            }
        }
        // All tables are new, by the last edits.
        let last = files(&dir, ".man").pop().unwrap();
        let kept = std::fs::metadata(&last).unwrap().len();
        db.compact().unwrap();
        drop(sums);
        db.close().unwrap();
        let manifest = files(&dir, ".man").pop().unwrap();
        assert_eq!(manifest, last);
        match case {
            "damaged" => {
                let mut bytes = std::fs::read(&manifest).unwrap();
                bytes[kept as usize..].fill(0x55);
                std::fs::write(&manifest, bytes).unwrap();
            }
            "cut" | "ended" => {
                let file = std::fs::OpenOptions::new().write(true).open(&manifest).unwrap();
                file.set_len(if case == "cut" { kept + 3 } else { kept }).unwrap();
            }
            _ => {
                assert!(older < manifest);
                std::fs::write(&older, &bytes).unwrap();
                std::fs::write(&manifest, []).unwrap();
            }
        }
        let report = Db::repair(&dir).unwrap();
        assert!(!report.was_healthy && report.lost_keys == 0, "{case}: {report:?}");
        assert_eq!(report.keys, 10, "{case}");
        let db = crate::open(&dir).unwrap();
        let sums = db.keyspace("sums").unwrap();
        for key in 0..10 {
            let expected = if key == 5 { "1003" } else { "3" };
            assert_eq!(sums.get(key.to_string()).unwrap().unwrap(), expected, "{case}");
        }
        assert!(db.check().unwrap().is_clean());
    }
}

#[test]
fn i3_a_lost_value_never_becomes_an_older_one() {
    let dir = doc_dir("repair-value");
    let (db, keys) = open_separating(&dir, Separation::AtWrite);
    keys.put("k", vec![1; 2000]).unwrap();
    keys.flush().unwrap();
    keys.put("k", vec![2; 2000]).unwrap();
    keys.put("other", "here").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let segment = files(&dir, ".seg").remove(0);
    let bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(100).position(|window| window == [2; 100]).unwrap();
    flip(&segment, at);
    let report = Db::repair(&dir).unwrap();
    assert_eq!((report.lost_keys, report.keys), (1, 1), "{report:?}");
    let db = crate::open(&dir).unwrap();
    assert!(db.default_keyspace().get("k").unwrap().is_none());
    assert_eq!(db.default_keyspace().get("other").unwrap().unwrap(), "here");
}

#[test]
fn a_damaged_table_gives_what_it_still_has() {
    let dir = doc_dir("repair-table");
    let db = crate::open(&dir).unwrap();
    let keys = db.default_keyspace();
    for n in 0..3000u32 {
        keys.put(format!("{n:05}"), n.to_string()).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let table = files(&dir, ".tbl").remove(0);
    let middle = std::fs::metadata(&table).unwrap().len() / 3;
    flip(&table, middle as usize);
    let report = Db::repair(&dir).unwrap();
    assert!((2000..3000).contains(&report.keys), "{report:?}");
    let found = content(&dir);
    assert!(found.contains_key(&b"00000"[..]) && found.contains_key(&b"02999"[..]));
    for (key, value) in found {
        let number: u32 = std::str::from_utf8(&key).unwrap().parse().unwrap();
        assert_eq!(value, number.to_string().into_bytes());
    }
}

#[test]
fn i6_what_was_deleted_stays_deleted() {
    let dir = doc_dir("repair-deleted");
    let db = crate::open(&dir).unwrap();
    let keys = db.default_keyspace();
    for n in 0..100u32 {
        keys.put(format!("{n:03}"), vec![7; 2000]).unwrap();
    }
    keys.flush().unwrap();
    for n in 0..99u32 {
        keys.delete(format!("{n:03}")).unwrap();
    }
    // Tombstones and what they hide are gone from the tree; the log still has the values.
    keys.compact_range(..).unwrap();
    db.close().unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    for manifest in files(&dir, ".man") {
        std::fs::remove_file(manifest).unwrap();
    }
    assert_eq!(Db::repair(&dir).unwrap().keys, 1);
    assert_eq!(content(&dir).len(), 1);
}

/// The newest commits are deletions in a log segment of their own, which goes once they are
/// flushed. The segment before it is then the end of the log, and has what they hide.
#[test]
fn i6_what_was_deleted_stays_deleted_where_the_log_has_lost_the_deletions() {
    let dir = doc_dir("repair-deleted-last");
    let open = || {
        let gc = GcOptions { punch: false, ..GcOptions::default() };
        let separation = Separation::AtWrite;
        let keyspace = KeyspaceOptions { separation, ..KeyspaceOptions::default() };
        Db::builder(&dir).options(Options { gc, keyspace, ..Options::default() }).open().unwrap()
    };
    let db = open();
    let keys = db.default_keyspace();
    for n in 0..100u32 {
        keys.put(format!("{n:03}"), vec![7; 2000]).unwrap();
    }
    db.close().unwrap();
    let db = open();
    let keys = db.default_keyspace();
    keys.delete("099").unwrap();
    keys.compact_range(..).unwrap();
    let logs = files(&dir, ".seg").len();
    db.gc().unwrap();
    keys.flush().unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    assert!(files(&dir, ".seg").len() < logs, "the deletion is still in the log");
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    for manifest in files(&dir, ".man") {
        std::fs::remove_file(manifest).unwrap();
    }
    assert_eq!(Db::repair(&dir).unwrap().keys, 99);
    let found = content(&dir);
    assert!(found.len() == 99 && !found.contains_key(&b"099"[..]));
}

/// Makes a database in which `replace` replaces the table with the key `gone`, and loses CURRENT. A
/// power cut may undo an unlink, so the table is there again.
fn with_a_replaced_table(name: &str, replace: impl FnOnce(&Keyspace)) -> PathBuf {
    let dir = doc_dir(name);
    let db = crate::open(&dir).unwrap();
    let keys = db.default_keyspace();
    keys.put("gone", "before").unwrap();
    keys.flush().unwrap();
    let table = files(&dir, ".tbl").pop().unwrap();
    let bytes = std::fs::read(&table).unwrap();
    // The tables of a dropped keyspace are missing for a good reason.
    let other = db.create_keyspace("other").unwrap();
    other.put("k", "v").unwrap();
    other.flush().unwrap();
    db.drop_keyspace("other").unwrap();
    drop(other);
    replace(&keys);
    db.close().unwrap();
    assert!(!table.exists());
    std::fs::write(&table, bytes).unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    dir
}

#[test]
fn i06_what_was_deleted_does_not_come_back_from_a_table_that_was_replaced() {
    let dir = with_a_replaced_table("repair-replaced", |keys| {
        keys.delete("gone").unwrap();
        keys.flush().unwrap();
        keys.compact_range(..).unwrap();
    });
    let report = Db::repair(&dir).unwrap();
    assert_eq!((report.keys, report.problems.len()), (0, 1), "{:?}", report.problems);
    assert!(content(&dir).is_empty());
}

/// A crash may leave the beginning of a newer manifest. Keyspaces that it does not get to were not
/// dropped.
#[test]
fn a_manifest_that_ends_within_its_state_takes_no_keyspace_away() {
    let dir = doc_dir("repair-part-of-a-state");
    let model = fill(&dir);
    let db = crate::open(&dir).unwrap();
    let identity = db.core.set.tables().identity.clone();
    db.close().unwrap();
    let id = 1 << 40;
    let changes = (0..90_000).map(Change::LastSeqno);
    let state = Edit::new([Change::NextFile(id + 1)].into_iter().chain(changes).collect());
    let mut bytes = whole_manifest(&identity, id, &state).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(names::manifest(&dir, id), bytes).unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    Db::repair(&dir).unwrap();
    assert_eq!(content(&dir), model);
}

#[test]
fn a_table_that_was_replaced_stands_in_for_a_damaged_one() {
    let dir = with_a_replaced_table("repair-stands-in", |keys| {
        keys.put("kept", "after").unwrap();
        keys.flush().unwrap();
        keys.compact_range(..).unwrap();
    });
    let tables = files(&dir, ".tbl");
    assert_eq!(tables.len(), 2);
    std::fs::write(&tables[1], "no table").unwrap();
    let report = Db::repair(&dir).unwrap();
    assert!(report.problems.iter().any(|it| it.to_string().contains("had been replaced")));
    assert!(content(&dir).contains_key(&b"gone"[..]));
}

#[test]
fn keyspaces_are_told_apart() {
    let dir = doc_dir("repair-keyspaces");
    let db = crate::open(&dir).unwrap();
    let other = db.create_keyspace("other").unwrap();
    db.default_keyspace().put("a", vec![1; 2000]).unwrap();
    other.put("a", vec![2; 2000]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    Db::repair(&dir).unwrap();
    let db = crate::open(&dir).unwrap();
    assert_eq!(db.keyspace("other").unwrap().get("a").unwrap().unwrap(), vec![2; 2000]);
    db.close().unwrap();
    // Without any manifest, the tables name their keyspaces.
    for manifest in files(&dir, ".man") {
        std::fs::remove_file(manifest).unwrap();
    }
    Db::repair(&dir).unwrap();
    let db = crate::open(&dir).unwrap();
    assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), vec![1; 2000]);
    assert_eq!(db.keyspace("other").unwrap().get("a").unwrap().unwrap(), vec![2; 2000]);
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn the_order_must_be_known() {
    let dir = doc_dir("repair-order");
    let builder = || Db::builder(&dir).comparator("default", Arc::new(Backwards));
    let db = builder().open().unwrap();
    for key in ["a", "b", "c"] {
        db.default_keyspace().put(key, key).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    assert_eq!(Db::repair(&dir).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert_eq!(builder().repair().unwrap().keys, 3);
    let db = builder().open().unwrap();
    let keys: Vec<_> = db.default_keyspace().keys().map(Result::unwrap).collect();
    assert_eq!(keys, [b"c".to_vec(), b"b".to_vec(), b"a".to_vec()]);
}

#[test]
fn where_there_is_nothing_there_is_nothing_to_repair() {
    let dir = doc_dir("repair-nothing");
    assert!(Db::repair(&dir).is_err());
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    assert_eq!(Db::repair(&dir).unwrap_err().kind(), ErrorKind::NotFound);
}

fn remove_manifests(dir: &Path) {
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    for manifest in files(dir, ".man") {
        std::fs::remove_file(manifest).unwrap();
    }
}

fn get(db: &Db, keyspace: &str, key: &str) -> Option<Vec<u8>> {
    let keyspace = db.keyspace(keyspace).ok()?;
    keyspace.get(key).unwrap().map(|value| value.to_vec())
}

/// Leaves a dropped keyspace whose records are in a segment that a live value keeps, and of which
/// the manifest has no trace any more.
fn fill_and_drop(dir: &Path) {
    let db = crate::open(dir).unwrap();
    let gone = db.open_or_create_keyspace("gone").unwrap();
    gone.put("a", vec![1; 2000]).unwrap();
    gone.put("b", "small").unwrap();
    db.default_keyspace().put("kept", vec![2; 2000]).unwrap();
    db.drop_keyspace("gone").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = crate::open(dir).unwrap();
    db.default_keyspace().put("later", "small").unwrap();
    db.close().unwrap();
}

#[test]
fn a_dropped_keyspace_stays_dropped() {
    let dir = doc_dir("repair-dropped");
    fill_and_drop(&dir);
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let report = Db::repair(&dir).unwrap();
    assert_eq!((report.keys, report.lost_keys), (2, 0), "{report:?}");
    assert!(report.recovered_keyspaces.is_empty(), "{report:?}");
    let db = crate::open(&dir).unwrap();
    assert_eq!(db.keyspaces(), ["default"]);
    assert_eq!(get(&db, "default", "kept").unwrap(), vec![2; 2000]);
}

#[test]
fn a_drop_behind_damage_in_the_manifest_still_counts() {
    let dir = doc_dir("repair-drop-salvaged");
    let db = crate::open(&dir).unwrap();
    let gone = db.open_or_create_keyspace("gone").unwrap();
    gone.put("a", vec![1; 2000]).unwrap();
    db.default_keyspace().put("kept", vec![2; 2000]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = crate::open(&dir).unwrap();
    db.open_or_create_keyspace("more").unwrap().put("m", "in the log").unwrap();
    db.drop_keyspace("gone").unwrap();
    db.close().unwrap();
    let manifest = files(&dir, ".man").pop().unwrap();
    let bytes = std::fs::read(&manifest).unwrap();
    // The edit that created `more` becomes unreadable; the one that dropped `gone` comes behind it.
    let at = bytes.windows(4).rposition(|window| window == b"more").unwrap();
    flip(&manifest, at);
    let report = Db::repair(&dir).unwrap();
    let db = crate::open(&dir).unwrap();
    let names = db.keyspaces();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(get(&db, "default", "kept").unwrap(), vec![2; 2000]);
    assert_eq!(get(&db, &names[1], "m").unwrap(), b"in the log");
    assert_eq!(report.recovered_keyspaces, names[1..]);
}

#[test]
fn without_a_manifest_tables_say_whose_they_are() {
    let dir = doc_dir("repair-names");
    let builder = || Db::builder(&dir).comparator("back", Arc::new(Backwards));
    let db = builder().open().unwrap();
    for name in ["default", "other", "back"] {
        let keys = db.open_or_create_keyspace(name).unwrap();
        for key in ["a", "b", "c"] {
            keys.put(key, format!("{key} of {name}")).unwrap();
        }
    }
    db.flush().unwrap();
    db.open_or_create_keyspace("young").unwrap().put("y", "in no table yet").unwrap();
    db.open_or_create_keyspace("other").unwrap().put("b", "newer").unwrap();
    db.close().unwrap();
    remove_manifests(&dir);
    let error = Db::repair(&dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("\"backwards\""), "{error}");
    let report = builder().repair().unwrap();
    assert_eq!((report.keys, report.lost_keys), (10, 0), "{report:?}");
    let db = builder().open().unwrap();
    let names = db.keyspaces();
    let young = names.iter().find(|name| name.starts_with("recovered-")).unwrap();
    assert_eq!(names, ["back", "default", "other", young]);
    let mut recovered = report.recovered_keyspaces.clone();
    recovered.sort();
    assert_eq!(recovered, ["back", "other", young]);
    assert_eq!(get(&db, young, "y").unwrap(), b"in no table yet");
    assert_eq!(get(&db, "default", "b").unwrap(), b"b of default");
    assert_eq!(get(&db, "other", "b").unwrap(), b"newer");
    let back: Vec<_> =
        db.open_or_create_keyspace("back").unwrap().keys().map(Result::unwrap).collect();
    assert_eq!(back, [b"c".to_vec(), b"b".to_vec(), b"a".to_vec()]);
    db.check().unwrap();
    // An id that only the log has is not given to a new keyspace.
    db.open_or_create_keyspace("new").unwrap().put("n", "n").unwrap();
    db.close().unwrap();
    remove_manifests(&dir);
    builder().repair().unwrap();
    let db = builder().open().unwrap();
    assert_eq!(db.keyspaces().len(), 5);
    assert_eq!(get(&db, young, "y").unwrap(), b"in no table yet");
}

#[test]
fn keyspaces_without_a_manifest_are_ordered_as_asked() {
    let dir = doc_dir("repair-order-asked");
    let db = crate::open(&dir).unwrap();
    let young = db.create_keyspace_with("young", KeyspaceOptions::default()).unwrap();
    young.put("a", "1").unwrap();
    db.default_keyspace().put("d", "2").unwrap();
    db.close().unwrap();
    remove_manifests(&dir);
    let wrong = Db::builder(&dir).comparator("default", Arc::new(Backwards));
    assert_eq!(wrong.repair().unwrap().keys, 2, "nothing contradicts it");
    let error = crate::open(&dir).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    // Without the manifests, the tables still give their comparator.
    remove_manifests(&dir);
    assert_eq!(Db::repair(&dir).unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[test]
fn a_comparator_that_tables_contradict_is_refused() {
    let dir = doc_dir("repair-order-other");
    let db = crate::open(&dir).unwrap();
    db.default_keyspace().put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    remove_manifests(&dir);
    let wrong = Db::builder(&dir).comparator("default", Arc::new(Backwards));
    let error = wrong.repair().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert_eq!(Db::repair(&dir).unwrap().keys, 1);
}
