//! Repairs databases with relocated segments.

use super::by_hand::{homes, pointers, relocate};
use super::relocated::{HIDDEN, expect, expect_clean, files, fill, open, punch_garbage};
use crate::base::pointer::SegmentId;
use crate::{Db, doc_dir};
use std::collections::BTreeSet;
use std::path::Path;

fn lose_manifest(dir: &Path) {
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    for manifest in files(dir, ".man") {
        std::fs::remove_file(manifest).unwrap();
    }
}

#[test]
fn i03_relocated_values_come_back_without_a_manifest() {
    let dir = doc_dir("repaired-manifest");
    let (db, model) = fill(&dir);
    let first: BTreeSet<_> = homes(&db).into_iter().step_by(2).collect();
    relocate(&db, &first, &[]);
    let second: BTreeSet<_> = homes(&db).into_iter().skip(1).collect();
    relocate(&db, &second, &[]);
    db.close().unwrap();
    drop(open(&dir));
    lose_manifest(&dir);
    let report = Db::repair(&dir).unwrap();
    assert_eq!((report.keys, report.lost_keys), (model.len() as u64, 0), "{report:?}");
    assert!(report.relocations > 1);
    let db = open(&dir);
    expect(&db, &model);
    expect_clean(&db);
    assert_eq!(db.stats().relocations, 0, "pointers lead past them now");
    assert_eq!(files(&dir, ".rel").len(), 0);
    assert!(pointers(&db).0.iter().all(|it| it.stored == it.place));
    db.close().unwrap();
    assert!(Db::repair(&dir).unwrap().was_healthy);
}

#[test]
fn i03_a_damaged_relocation_costs_its_own_values_only() {
    for keep_victims in [false, true] {
        let dir = doc_dir(&format!("repaired-relocation-{keep_victims}"));
        let (db, model) = fill(&dir);
        let victims = homes(&db);
        let saved: Vec<_> = files(&dir, ".seg").iter().map(|path| read(path)).collect();
        relocate(&db, &victims, &[]);
        db.close().unwrap();
        let damaged = files(&dir, ".rel").swap_remove(3);
        let (_, mut bytes) = read(&damaged);
        bytes[50] ^= 1;
        std::fs::write(&damaged, bytes).unwrap();
        if keep_victims {
            // The files are left as by a crash before they were unlinked, and CURRENT is lost.
            for (path, bytes) in &saved {
                std::fs::write(path, bytes).unwrap();
            }
            std::fs::remove_file(dir.join("CURRENT")).unwrap();
        }
        let report = Db::repair(&dir).unwrap();
        assert!(!report.was_healthy);
        assert_eq!(report.lost_keys == 0, keep_victims, "{report:?}");
        assert_eq!(report.keys + report.lost_keys, model.len() as u64);
        assert!(report.lost_keys < 40);
        let db = open(&dir);
        let mut found = 0;
        for (key, value) in db.default_keyspace().iter().map(Result::unwrap) {
            assert_eq!(model[&*key], *value, "never another version");
            found += 1;
        }
        assert_eq!(found, report.keys);
        expect_clean(&db);
        db.close().unwrap();
    }
}

fn read(path: &Path) -> (std::path::PathBuf, Vec<u8>) {
    (path.to_path_buf(), std::fs::read(path).unwrap())
}

#[test]
fn i06_what_was_given_up_never_comes_back() {
    for lose in ["CURRENT", "all manifests"] {
        let dir = doc_dir(&format!("repaired-given-up-{}", lose.len()));
        let (db, model) = fill(&dir);
        let (live, hidden) = pointers(&db);
        let of_live: BTreeSet<_> = live.iter().map(|it| it.stored.segment).collect();
        let of_hidden: BTreeSet<_> = hidden.iter().map(|it| it.segment).collect();
        assert!(!of_hidden.is_subset(&of_live), "a segment without a live record");
        let newest = live.iter().map(|it| it.stored.segment).max().unwrap();
        // Only the manifest records that a whole segment is garbage.
        let known = |id: &&SegmentId| **id < newest && (lose == "CURRENT" || of_live.contains(id));
        let path = |id| db.core.set.current().segments[&id].handle.path().to_path_buf();
        let saved: Vec<_> = of_hidden.iter().filter(known).map(|id| read(&path(*id))).collect();
        let table_of_newer = db.core.states()[0].view().levels.level(0)[0].path().to_path_buf();
        relocate(&db, &homes(&db), &[]);
        relocate_the_rest(&db);
        db.close().unwrap();
        // The table with the newer versions is lost; the bytes of the older ones can be read.
        std::fs::remove_file(table_of_newer).unwrap();
        for (path, bytes) in saved {
            std::fs::write(path, bytes).unwrap();
        }
        match lose {
            "CURRENT" => std::fs::remove_file(dir.join("CURRENT")).unwrap(),
            _ => lose_manifest(&dir),
        }
        let report = Db::repair(&dir).unwrap();
        let db = open(&dir);
        for (key, value) in db.default_keyspace().iter().map(Result::unwrap) {
            assert_eq!(model[&*key], *value, "an older version came back, {lose}");
        }
        let expected = (model.len() - HIDDEN) as u64;
        assert_eq!((report.keys, report.lost_keys), (expected, HIDDEN as u64), "{lose}");
        expect_clean(&db);
        db.close().unwrap();
    }
}

/// Frees the segments in which all records are hidden.
fn relocate_the_rest(db: &Db) {
    let live = db.core.set.current();
    let rest: BTreeSet<_> = pointers(db)
        .1
        .iter()
        .map(|it| it.segment)
        .filter(|id| live.segments.contains_key(id))
        .collect();
    if !rest.is_empty() {
        relocate(db, &rest, &[]);
    }
}

#[test]
fn holes_are_kept() {
    let dir = doc_dir("repaired-holes");
    let (db, model) = fill(&dir);
    let (segment, start) = punch_garbage(&db);
    db.close().unwrap();
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let report = Db::repair(&dir).unwrap();
    assert_eq!((report.keys, report.lost_keys), (model.len() as u64, 0), "{report:?}");
    let db = open(&dir);
    assert_eq!(*db.core.set.current().segments[&segment].holes, [(start, 4096)]);
    expect(&db, &model);
    expect_clean(&db);
    db.close().unwrap();
}
