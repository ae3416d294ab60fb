//! Tests of many short sessions: they leave few files, and one without a write changes none.

use crate::common;
use crate::common::child::{self, Running};
use cleavedb::{Db, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

/// The limit of the files that a test tolerates beyond those that the data needs.
const SPARE_FILES: usize = 16;
/// The number of files that every database has: CURRENT, a manifest, LOCK and OPTIONS.
const FIXED_FILES: usize = 4;
/// The limit of open file descriptors of a process in these tests, the standard ones included.
const DESCRIPTORS: &str = "64";

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

fn open(dir: &Path) -> Db {
    common::open_with(dir, Options { compaction_threads: 1, ..Options::default() })
}

fn value(number: usize, bytes: usize) -> Vec<u8> {
    common::value(&common::key(number), 1, bytes)
}

/// Runs `count` sessions, each of which opens, puts a value of `bytes` bytes unless that is zero,
/// and closes.
fn sessions(dir: &Path, count: usize, bytes: usize) {
    for number in 0..count {
        let db = open(dir);
        let report = db.recovery();
        assert!(report.replayed_records <= 9, "session {number} replays {report:?}");
        assert_eq!((report.orphans_removed, report.torn_bytes), (0, 0), "session {number}");
        if bytes > 0 {
            db.default_keyspace().put(common::key(number), value(number, bytes)).unwrap();
        }
        db.close().unwrap();
        let found = files(dir);
        assert!(found <= FIXED_FILES + SPARE_FILES, "{found} files after session {number}");
    }
}

#[test]
#[ignore = "run by others, with few descriptors"]
fn child() {
    let Some((dir, how)) = child::job() else { return };
    let mut numbers = how.split(' ').map(|number| number.parse().unwrap());
    let (count, bytes) = (numbers.next().unwrap(), numbers.next().unwrap());
    sessions(&dir, count, bytes);
    let db = open(&dir);
    for number in 0..if bytes > 0 { count } else { 0 } {
        let found = db.default_keyspace().get(common::key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number, bytes)[..]), "of session {number}");
    }
    assert!(db.check().unwrap().is_clean());
    db.close().unwrap();
    let report = Db::repair(&dir).unwrap();
    assert!(report.was_healthy, "{:?}", report.problems);
    child::tell("done");
}

fn run(count: usize, bytes: usize) {
    let dir = common::dir();
    let how = format!("{count} {bytes}");
    let mut child = Running::limited("sessions::child", dir.path(), &how, DESCRIPTORS);
    assert_eq!(child.hear(), "done");
}

/// Guards against a segment per opening: each opening began one, and replay held all of them open.
/// After as many sessions as there were descriptors the database could be neither opened nor
/// repaired. Now no segment is begun before the first write.
#[test]
fn thousands_that_write_nothing_leave_nothing() {
    run(5000, 0);
}

/// Guards against many small segments: those of sessions that wrote little stayed until enough was
/// written for the head of the log to move. Now they are merged.
#[test]
fn thousands_with_one_small_put_each_leave_few_files() {
    run(5000, 100);
}

/// Guards against the same with values that live in those segments.
#[test]
fn hundreds_with_one_separated_value_each_leave_few_files() {
    run(700, 2000);
}

/// The modification time and the bytes of a file.
type Facts = (SystemTime, Vec<u8>);

/// Guards against folds that leave nothing smaller: a fold leaves a small segment for each
/// keyspace, and with many keyspaces these alone made the next session fold again.
#[test]
fn many_keyspaces_are_not_folded_by_each_session() {
    let dir = common::dir();
    let names: Vec<String> = (0..12).map(|number| format!("keyspace {number}")).collect();
    let (mut folds, mut before) = (0, Vec::new());
    for number in 0..50 {
        let db = open(dir.path());
        for name in &names {
            let keyspace = db.open_or_create_keyspace(name).unwrap();
            keyspace.put(common::key(number), value(number, 2000)).unwrap();
        }
        let tables: Vec<u64> =
            db.keyspace(&names[0]).unwrap().tables().iter().map(|it| it.id).collect();
        folds += u32::from(tables != before);
        before = tables;
        db.close().unwrap();
    }
    assert!((4..=7).contains(&folds), "{folds} of 50 sessions folded");
}

fn facts(dir: &Path) -> BTreeMap<String, Facts> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name != "LOCK" {
            let modified = entry.metadata().unwrap().modified().unwrap();
            found.insert(name, (modified, std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}

/// A session without a write changes nothing but LOCK, whatever sessions came before it.
#[test]
fn one_without_a_write_changes_no_file_but_the_lock() {
    let dir = common::dir();
    for number in 0..30 {
        let db = open(dir.path());
        let side = db.open_or_create_keyspace("side").unwrap();
        side.put(common::key(number), value(number, 10)).unwrap();
        side.delete(common::key(number / 2)).unwrap();
        db.default_keyspace().put(common::key(number), value(number, 2000)).unwrap();
        if number % 7 == 0 {
            db.flush().unwrap();
        }
        db.close().unwrap();
        let before = facts(dir.path());
        for _ in 0..2 {
            let db = open(dir.path());
            assert!(db.default_keyspace().get(common::key(number)).unwrap().is_some());
            assert_eq!(
                db.open_or_create_keyspace("side").unwrap().iter().count(),
                number - number / 2
            );
            db.sync().unwrap();
            db.close().unwrap();
        }
        let after = facts(dir.path());
        let names = before.keys().chain(after.keys());
        let changed: Vec<_> = names.filter(|&name| before.get(name) != after.get(name)).collect();
        assert!(changed.is_empty(), "after session {number}: {changed:?}");
    }
}

/// Sessions that are killed are settled by the next opening, which merges their files as a close
/// does.
#[test]
fn killed_ones_leave_few_files() {
    let dir = common::dir();
    // Segments are small, because copying and scanning the space prepared for appends takes time.
    let open = |place: &Path| {
        common::open_with(place, Options { segment_bytes: 64 << 10, ..Options::default() })
    };
    for number in 0..40 {
        // A copy of the files of a running session stands for the files that a kill leaves.
        let place = dir.path().join(format!("{number}"));
        let db = open(&place);
        // No file is removed while they are copied.
        db.wait_idle().unwrap();
        db.default_keyspace().put(common::key(number), value(number, 2000)).unwrap();
        common::copy_dir(&place, &dir.path().join(format!("{}", number + 1)));
        db.close().unwrap();
        std::fs::remove_dir_all(&place).unwrap();
    }
    let place = dir.path().join("40");
    let db = open(&place);
    for number in 0..40 {
        let found = db.default_keyspace().get(common::key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number, 2000)[..]), "of session {number}");
    }
    db.close().unwrap();
    let found = files(&place);
    assert!(found <= FIXED_FILES + SPARE_FILES, "{found} files");
}

/// Flips a bit of the largest file with this extension, behind its head.
fn damage(dir: &Path, extension: &str, offset: usize) {
    let files = common::files(dir, extension);
    let length = |path: &&std::path::PathBuf| std::fs::metadata(path).unwrap().len();
    let largest = files.iter().max_by_key(length).unwrap();
    let mut bytes = std::fs::read(largest).unwrap();
    bytes[offset] ^= 1;
    std::fs::write(largest, bytes).unwrap();
}

/// One damaged value in a small segment, or a damaged block in a small table, had every session
/// that wrote fail to close, and the first opening after a crash fail, though the manifest and the
/// log were sound: the fold of small files gave up at it, and closing returned its error. Now such
/// a value stays where it is, and a fold that can't read a table is reported and left out.
#[test]
fn damage_in_a_small_file_keeps_no_session_from_closing() {
    for (extension, offset, lost) in [(".seg", 3000, 1), (".tbl", 100, 12)] {
        let dir = common::dir();
        sessions(dir.path(), 12, 2000);
        damage(dir.path(), extension, offset);
        for number in 12..40 {
            let db = open(dir.path());
            db.default_keyspace().put(common::key(number), value(number, 2000)).unwrap();
            db.close().unwrap();
        }
        let db = open(dir.path());
        let keyspace = db.default_keyspace();
        let unread = (0..40).filter(|number| keyspace.get(common::key(*number)).is_err()).count();
        assert!((1..=lost).contains(&unread), "{unread} of {extension}");
    }
}
