//! Reads, checks, copies and opens databases with relocated segments.

use super::by_hand::{homes, pointers, relocate, view};
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::db::options::Options;
use crate::version::edit::{Change, Edit};
use crate::{Db, ErrorKind, KeyspaceOptions, Separation, doc_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn open(dir: &Path) -> Db {
    let keyspace = KeyspaceOptions {
        separation: Separation::AtWrite,
        separation_threshold: 200,
        ..Default::default()
    };
    let gc = crate::GcOptions { automatic: false, ..Default::default() };
    let options = Options { segment_bytes: 16 << 10, keyspace, gc, ..Default::default() };
    Db::builder(dir).options(options).open().unwrap()
}

/// Number of older versions that [`fill`] leaves in tables.
pub(super) const HIDDEN: usize = 117;

/// Creates a database of separated values; half of them hide an older version in a deeper level.
/// Some segments hold such older versions only, some others as well. All segments with values are
/// sealed and before the head.
pub(super) fn fill(dir: &Path) -> (Db, Contents) {
    let db = open(dir);
    let mut model = Contents::new();
    for (round, count) in [(b'a', 240u32), (b'b', 120)] {
        for n in (0..count).filter(|n| round == b'a' || n % 20 > 0 || *n >= 60) {
            let key = format!("{:03}", n * 77 % 240).into_bytes();
            let mut value = vec![round; 500 + n as usize % 5 * 100];
            value[..3].copy_from_slice(&key);
            db.default_keyspace().put(&key, &value).unwrap();
            model.insert(key, value);
        }
        db.default_keyspace().flush().unwrap();
        if round == b'a' {
            db.compact().unwrap();
        }
    }
    db.close().unwrap();
    let db = open(dir);
    db.core.background.wait_idle().unwrap();
    (db, model)
}

/// Reads everything in every way there is and compares it with the model.
pub(super) fn expect(db: &Db, model: &Contents) {
    let keys = db.default_keyspace();
    let found: Contents =
        keys.iter().map(Result::unwrap).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    assert_eq!(found, *model);
    let mut cursor = keys.cursor().unwrap();
    cursor.seek_to_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!(cursor.key(), key);
        assert_eq!(*cursor.value().unwrap(), value[..]);
        cursor.prev().unwrap();
    }
    let names: Vec<&Vec<u8>> = model.keys().collect();
    let many = keys.multi_get(&names);
    for (found, (key, value)) in many.into_iter().zip(model) {
        assert_eq!(found.unwrap().unwrap(), *value);
        assert_eq!(keys.get(key).unwrap().unwrap(), *value);
    }
}

pub(super) fn expect_clean(db: &Db) {
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

pub(super) fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect();
    found.sort();
    found
}

#[test]
fn i03_values_are_read_through_relocations() {
    let dir = doc_dir("relocated-read");
    let (db, model) = fill(&dir);
    let before = homes(&db);
    assert!(before.len() > 5, "{before:?}");
    let first: BTreeSet<SegmentId> = before.iter().copied().step_by(2).collect();
    relocate(&db, &first, &[]);
    expect(&db, &model);
    expect_clean(&db);
    // Relocates the rest, and what was relocated before: a pointer still takes one hop at most.
    let second = homes(&db);
    // The relocation that no table needs any more stays while somebody reads as of before.
    let tidied_up_later = db.core.states()[0].view();
    let target = relocate(&db, &second, &[]);
    assert_eq!(homes(&db), [target].into());
    expect(&db, &model);
    expect_clean(&db);
    let stats = db.stats();
    assert_eq!(stats.relocations, 1 + before.len() as u64, "the first target leaves one too");
    drop(tidied_up_later);
    let bytes: u64 = files(&dir, ".rel").iter().map(|it| it.metadata().unwrap().len()).sum();
    assert!(bytes >= stats.relocation_bytes && stats.relocation_bytes > 0);
    for path in files(&dir, ".rel") {
        let mut text = Vec::new();
        crate::inspect(&path, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("records of segment") && text.contains(" went to "), "{text}");
    }
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!(db.stats().relocation_bytes, stats.relocation_bytes);
    expect(&db, &model);
    expect_clean(&db);
    // The victims and the relocations that were replaced are unlinked, and nothing else.
    let rest = files(&dir, ".rel");
    let bytes: u64 = rest.iter().map(|it| it.metadata().unwrap().len()).sum();
    assert_eq!(bytes, stats.relocation_bytes);
    db.close().unwrap();
    Db::destroy(&dir).unwrap();
    assert!(!dir.exists());
}

#[test]
fn i05_readers_keep_what_was_relocated_under_them() {
    let dir = doc_dir("relocated-readers");
    let (db, model) = fill(&dir);
    let victims = homes(&db);
    let cursor_keys = db.default_keyspace();
    let mut cursor = cursor_keys.cursor().unwrap();
    cursor.seek_to_first().unwrap();
    let held = view(&db);
    assert_eq!(db.core.set.oldest_alive(), held.version.number);
    relocate(&db, &victims, &[]);
    assert_eq!(db.core.set.oldest_alive(), held.version.number);
    for value in model.values() {
        assert_eq!(*cursor.value().unwrap(), value[..]);
        cursor.next().unwrap();
    }
    drop((cursor, held));
    let set = &db.core.set;
    // The background holds versions for short moments.
    db.core.background.wait_until(&[], || set.oldest_alive() == set.current().number).unwrap();
    expect(&db, &model);
    db.close().unwrap();
}

#[test]
fn a_checkpoint_takes_relocations_along() {
    let (dir, copy) = (doc_dir("relocated-checkpoint"), doc_dir("relocated-copy"));
    let (db, mut model) = fill(&dir);
    relocate(&db, &homes(&db), &[]);
    db.checkpoint(&copy).unwrap();
    db.default_keyspace().put("later", "x").unwrap();
    let copied = open(&copy);
    expect(&copied, &model);
    expect_clean(&copied);
    copied.close().unwrap();
    model.insert(b"later".to_vec(), b"x".to_vec());
    expect(&db, &model);
    db.close().unwrap();
}

#[test]
fn i03_a_visible_record_given_up_is_corruption_and_a_hidden_one_is_fine() {
    let dir = doc_dir("relocated-gone");
    let (db, model) = fill(&dir);
    let (_, hidden) = pointers(&db);
    assert_eq!(hidden.len(), HIDDEN);
    relocate(&db, &homes(&db), &[b"007"]);
    let report = db.check().unwrap();
    assert_eq!(report.problem_count, 1, "{:?}", report.problems);
    let keys = db.default_keyspace();
    let error = keys.get("007").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let stored = pointers_of(&db, b"007");
    assert_eq!(error.offset(), Some(stored.1), "{error}");
    assert!(error.to_string().contains(&format!("segment {}", stored.0)), "{error}");
    let failed: Vec<_> = keys.iter().filter_map(Result::err).collect();
    assert!(failed.iter().all(|error| error.kind() == ErrorKind::Corruption) && !failed.is_empty());
    for (key, value) in model.iter().filter(|(key, _)| *key != b"007") {
        assert_eq!(keys.get(key).unwrap().unwrap(), *value, "one lost value costs no other");
    }
    db.close().unwrap();
}

/// Returns segment and offset of the visible pointer of a key, as its table stores it.
fn pointers_of(db: &Db, key: &[u8]) -> (SegmentId, u64) {
    use crate::read::get::{Lookup, get};
    use crate::version::expiry::ReadPoint;
    let point = ReadPoint::timeless(db.core.snapshots.visible());
    let found = get(&view(db), key, point, false, None).unwrap();
    let Lookup::Pointer(pointer, _) = found else { panic!("{found:?}") };
    (pointer.segment, pointer.offset)
}

#[test]
fn i03_an_edit_that_would_leave_values_out_of_reach_is_not_installed() {
    let dir = doc_dir("relocated-refused");
    let (db, model) = fill(&dir);
    let before = db.core.set.current().number;
    for id in homes(&db) {
        let remove = Edit::new(vec![Change::RemoveSegment { id }]);
        let error = db.core.set.apply(|_| Ok(remove), &[], None).err().unwrap();
        assert!(error.to_string().contains(&format!("segment {id} is still")), "{error}");
    }
    assert_eq!(db.core.set.current().number, before);
    expect(&db, &model);
    db.close().unwrap();
    expect(&open(&dir), &model);
}

#[test]
fn a_snapshot_sees_what_was_relocated() {
    let dir = doc_dir("relocated-snapshot");
    let (db, old) = fill(&dir);
    let snapshot = db.snapshot();
    for n in (0..240).step_by(3) {
        db.default_keyspace().put(format!("{n:03}"), vec![b'c'; 700]).unwrap();
    }
    db.default_keyspace().flush().unwrap();
    db.core.committer.log().end_active(&mut db.core.committer.hold()).unwrap();
    db.core.committer.log().record_sealed().unwrap();
    relocate(&db, &homes(&db), &[]);
    expect_clean(&db);
    let options = crate::ReadOptions::new().snapshot(&snapshot);
    for (key, value) in &old {
        let found = db.default_keyspace().get_with(key, &options).unwrap();
        assert_eq!(found.unwrap(), *value);
    }
    drop(snapshot);
    db.close().unwrap();
}

#[test]
fn i07_damaged_relocations_are_found() {
    let dir = doc_dir("relocated-damage");
    let (db, model) = fill(&dir);
    relocate(&db, &homes(&db), &[]);
    db.close().unwrap();
    let path = files(&dir, ".rel").swap_remove(1);
    let good = std::fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        std::fs::write(&path, bad).unwrap();
        let db = open(&dir);
        assert!(!db.check().unwrap().is_clean(), "byte {at}");
        let wrong = model.iter().filter_map(|(key, value)| {
            let found = db.default_keyspace().get(key).ok()?;
            (found.unwrap() != *value).then_some(key)
        });
        assert_eq!(wrong.count(), 0, "byte {at}");
        db.close().unwrap();
    }
    std::fs::write(&path, &good[1..]).unwrap();
    assert_eq!(crate::open(&dir).err().unwrap().kind(), ErrorKind::Corruption);
    std::fs::remove_file(&path).unwrap();
    let error = crate::open(&dir).err().unwrap();
    assert!(error.to_string().contains("missing"), "{error}");
    std::fs::write(&path, good).unwrap();
    expect(&open(&dir), &model);
}

/// Damages the first block of a relocation; returns what the file had before.
fn damage(path: &Path) -> Vec<u8> {
    let good = std::fs::read(path).unwrap();
    let mut bad = good.clone();
    bad[50] ^= 1;
    std::fs::write(path, bad).unwrap();
    good
}

/// Before, a database that had lost a block of a relocation could not be compacted any more, so its
/// writers came to stand still.
#[test]
fn i03_a_damaged_relocation_holds_no_compaction_up() {
    let dir = doc_dir("relocated-damage-compacted");
    let (db, model) = fill(&dir);
    relocate(&db, &homes(&db), &[]);
    db.close().unwrap();
    let path = files(&dir, ".rel").swap_remove(1);
    let good = damage(&path);
    let db = open(&dir);
    let keys = db.default_keyspace();
    keys.put(b"new", b"small").unwrap();
    db.compact().unwrap();
    assert_eq!(db.core.set.current().relocations.len(), 1, "the others are needed no more");
    assert_eq!(*keys.get(b"new").unwrap().unwrap(), *b"small");
    let (mut sound, mut damaged) = (0, 0);
    for (key, value) in &model {
        match keys.get(key) {
            Ok(found) => {
                assert_eq!(*found.unwrap(), value[..]);
                sound += 1;
            }
            Err(error) => {
                assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(&*path)));
                damaged += 1;
            }
        }
    }
    assert!(sound > damaged && damaged > 0, "{sound} {damaged}");
    db.close().unwrap();
    std::fs::write(&path, good).unwrap();
    let db = open(&dir);
    db.default_keyspace().delete(b"new").unwrap();
    expect(&db, &model);
    db.compact().unwrap();
    db.core.background.wait_idle().unwrap();
    assert!(db.core.set.current().relocations.is_empty(), "all pointers are direct");
    expect(&db, &model);
    db.close().unwrap();
}

/// A table full of pointers through a damaged relocation would be rewritten for ever: nothing makes
/// them direct.
#[test]
fn i03_tables_full_of_pointers_through_a_damaged_relocation_are_left_in_peace() {
    let dir = doc_dir("relocated-damage-idle");
    let (db, model) = fill(&dir);
    relocate(&db, &homes(&db), &[]);
    db.close().unwrap();
    files(&dir, ".rel").iter().for_each(|path| drop(damage(path)));
    let db = Db::builder(&dir).open().unwrap();
    db.default_keyspace().put(b"new", b"small").unwrap();
    db.compact().unwrap();
    let compactions = || db.stats().compactions;
    let before = compactions();
    let env = &db.core.runtime.env;
    let begun = env.clock.now();
    // Nobody writes, which is when such tables are looked for.
    while env.clock.since(begun) < Duration::from_millis(2500) && compactions() < before + 9 {
        env.threads.sleep(Duration::from_millis(20));
    }
    assert!(compactions() < before + 9, "{} after {before}", compactions());
    let key = model.keys().next().unwrap();
    assert_eq!(db.default_keyspace().get(key).unwrap_err().kind(), ErrorKind::Corruption);
    db.close().unwrap();
}

#[test]
fn orphans_of_a_relocation_that_a_crash_ended_go() {
    let dir = doc_dir("relocated-orphans");
    let (db, model) = fill(&dir);
    relocate(&db, &homes(&db), &[]);
    db.close().unwrap();
    let (sorted, relocation) = (files(&dir, ".seg"), files(&dir, ".rel"));
    // The files look as a crash before the edit leaves them: whole, with ids that no manifest
    // names.
    let sorted = sorted.iter().find(|path| std::fs::read(path).unwrap().get(40) == Some(&2));
    for (from, file, name) in
        [(&relocation[0], 9000, "00009000.rel"), (sorted.unwrap(), 9001, "00009001.seg")]
    {
        let mut bytes = std::fs::read(from).unwrap();
        let header = crate::base::header::Header::decode(&bytes).unwrap();
        let header = crate::base::header::Header { file, ..header };
        bytes[..40].copy_from_slice(&header.encode());
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    let db = open(&dir);
    assert_eq!(db.recovery().orphans_removed, 2);
    expect(&db, &model);
    assert!(db.core.set.allocate().unwrap() > 9001, "ids are never used twice");
    db.close().unwrap();
}

/// Punches a block of records that no read can see; returns its segment and the block's offset.
pub(super) fn punch_garbage(db: &Db) -> (SegmentId, u64) {
    let (live, hidden) = pointers(db);
    let free = hidden.iter().find_map(|dead| {
        let start = dead.offset.next_multiple_of(4096);
        let near = |it: &ValuePointer| {
            it.segment == dead.segment
                && it.offset < start + 4096
                && it.offset + u64::from(it.length) > start
        };
        let inside = db.core.set.current().segments[&dead.segment].sealed? >= start + 4096;
        let beside = live.iter().any(|it| it.stored.segment == dead.segment);
        (inside && beside && !live.iter().any(|it| near(&it.stored)))
            .then_some((dead.segment, start))
    });
    let (segment, start) = free.expect("a block of dead records");
    punch(db, segment, start);
    (segment, start)
}

fn punch(db: &Db, segment: SegmentId, start: u64) {
    let change = Change::Holes { segment, holes: [(start, 4096)].into() };
    db.core.set.apply(|_| Ok(Edit::new(vec![change])), &[], None).unwrap();
    let path = db.core.set.current().segments[&segment].handle.path().to_path_buf();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[start as usize..][..4096].fill(0);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn holes_are_no_damage_where_nothing_live_was() {
    let dir = doc_dir("relocated-holes");
    let (db, model) = fill(&dir);
    let (live, _) = pointers(&db);
    let (segment, start) = punch_garbage(&db);
    expect(&db, &model);
    expect_clean(&db);
    let victim = live.iter().find(|it| it.stored.offset > 4096 && it.stored.segment != segment);
    let victim = victim.expect("a live value").stored;
    punch(&db, victim.segment, victim.offset / 4096 * 4096);
    assert!(!db.check().unwrap().is_clean(), "a hole in what is visible is damage");
    db.close().unwrap();
    let holes = &open(&dir).core.set.current().segments[&segment].holes.clone();
    assert_eq!(**holes, [(start, 4096)], "and is remembered");
}

#[test]
fn i03_a_hole_is_never_read() {
    let dir = doc_dir("relocated-forced");
    let (db, model) = fill(&dir);
    let (live, _) = pointers(&db);
    let victim = live.iter().find(|it| it.stored.offset > 4096).expect("a live value");
    let (segment, start) = (victim.stored.segment, victim.stored.offset / 4096 * 4096);
    // The hole is only declared: whether its bytes are still there or zeroes must make no
    // difference.
    let change = Change::Holes { segment, holes: [(start, 4096)].into() };
    db.core.set.apply(|_| Ok(Edit::new(vec![change])), &[], None).unwrap();
    let keys = db.default_keyspace();
    let error = keys.get(&victim.key).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let path = db.core.set.current().segments[&segment].handle.path().to_path_buf();
    assert_eq!((error.file(), error.offset()), (Some(&*path), Some(victim.stored.offset)));
    assert!(keys.iter().any(|found| found.is_err()));
    for (key, value) in &model {
        if let Ok(found) = keys.get(key) {
            assert_eq!(found.unwrap(), *value);
        }
    }
    db.close().unwrap();
}
