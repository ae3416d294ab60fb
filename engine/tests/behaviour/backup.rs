//! Tests of backups on real files: points that share files, what a damaged backup does, retention,
//! and databases that were restored beside the one they come from.

use crate::common;
use cleavedb::{
    BackupOptions, Backups, Db, EncryptionKey, ErrorKind, GcOptions, KeyspaceOptions, Options,
    PassProgress, WriteBatch,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn fill(db: &Db, numbers: std::ops::Range<usize>, version: u64) {
    for number in numbers {
        let key = common::key(number);
        let bytes = if number.is_multiple_of(2) { 20 } else { 300 };
        db.default_keyspace().put(&key, common::value(&key, version, bytes)).unwrap();
    }
}

fn pairs(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    common::pairs(&db.default_keyspace())
}

/// Returns all files in `dir` with their contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = common::files(dir, "").into_iter();
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// The directories of a test, and a database that is filled.
struct Place {
    dir: common::TempDir,
    db: Db,
}

impl Place {
    fn new() -> Place {
        let dir = common::dir();
        let db = common::open(&dir.path().join("store"));
        fill(&db, 0..300, 1);
        Place { dir, db }
    }

    /// Returns a place whose database has no work left that changes its files.
    fn settled() -> Place {
        let place = Place::new();
        place.db.flush().unwrap();
        place.db.wait_idle().unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn backup(&self) -> u64 {
        self.db.backup(self.path("backup")).unwrap().point
    }

    fn backups(&self) -> Backups {
        Backups::new(self.path("backup"))
    }

    fn restored(&self, point: u64) -> Db {
        let target = self.path(&format!("restored-{point}"));
        self.backups().restore(Some(point), &target).unwrap();
        let db = common::open(&target);
        assert!(db.check().unwrap().is_clean());
        db
    }
}

#[test]
fn each_point_is_a_whole_state_of_its_own() {
    let place = Place::new();
    let mut wanted = Vec::new();
    for version in 2..6 {
        wanted.push((place.backup(), pairs(&place.db)));
        fill(&place.db, 20 * version as usize..20 * version as usize + 90, version);
        place.db.default_keyspace().delete_range("key000010".."key000015").unwrap();
        place.db.default_keyspace().delete(common::key(version as usize)).unwrap();
        if version % 2 == 0 {
            place.db.compact().unwrap();
            place.db.gc().unwrap();
        }
    }
    place.db.create_keyspace("later").unwrap();
    for (point, pairs_then) in wanted {
        let db = place.restored(point);
        assert!(pairs(&db) == pairs_then, "point {point}");
        assert_eq!(db.keyspaces(), ["default"]);
        // What was restored lives on by itself.
        fill(&db, 0..300, 9);
        db.compact().unwrap();
        db.close().unwrap();
    }
    assert!(place.backups().verify(None).unwrap().is_sound());
    assert!(place.db.check().unwrap().is_clean());
}

#[test]
fn of_an_empty_database() {
    let dir = common::dir();
    let db = common::open(&dir.path().join("store"));
    let report = db.backup(dir.path().join("some/where/backup")).unwrap();
    // The manifest, and KEYS if all databases of this run are encrypted.
    let files = 1 + u64::from(common::is_encrypted());
    assert_eq!((report.point, report.files, report.copied_files), (1, files, files));
    let backups = Backups::new(dir.path().join("some/where/backup"));
    fs::create_dir(dir.path().join("restored")).unwrap();
    backups.restore(None, dir.path().join("restored")).unwrap();
    let db = common::open(&dir.path().join("restored"));
    assert!(pairs(&db).is_empty());
}

#[test]
fn only_what_is_new_is_copied() {
    let place = Place::settled();
    let first = place.db.backup(place.path("backup")).unwrap();
    assert_eq!((first.copied_files, first.copied_bytes), (first.files, first.bytes));
    let before = contents(&place.path("backup"));
    let second = place.db.backup(place.path("backup")).unwrap();
    assert_eq!((second.point, second.files, second.copied_files), (2, first.files, 1));
    let after = contents(&place.path("backup"));
    assert!(before.iter().all(|(path, bytes)| path.ends_with("LOCK") || after[path] == *bytes));
    assert_eq!(after.len(), before.len() + 2, "a manifest and a description");
    let list = place.backups().list().unwrap();
    let numbers: Vec<_> = list.points.iter().map(|point| (point.number, point.files)).collect();
    assert_eq!(numbers, [(1, first.files), (2, second.files)]);
    assert_eq!(list.points[1].added_bytes, second.copied_bytes);
    assert_eq!(list.points[1].seqno, place.db.visible_seqno());
    assert_eq!(list.points[0].bytes, first.bytes);
    assert!(!list.points[0].made.is_zero() && list.points[0].made <= list.points[1].made);
}

#[test]
fn i07_every_damage_is_noticed_before_anything_is_restored() {
    let place = Place::new();
    place.backup();
    fill(&place.db, 0..300, 2);
    place.db.compact().unwrap();
    let second = place.backup();
    let backup = place.path("backup");
    let target = place.path("target");
    for (path, bytes) in contents(&backup) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "LOCK" {
            continue;
        }
        for at in [0, bytes.len() / 2, bytes.len()] {
            flip(&path, at);
            let check = place.backups().verify(None).unwrap();
            assert_eq!(check.problems.len(), 1, "{name}: {:?}", check.problems);
            assert!(check.problems[0].error.file().unwrap().ends_with(&name));
            let is_of_first_only = check.problems[0].points == [1];
            let restored = place.backups().restore(Some(second), &target);
            assert_eq!(restored.is_ok(), is_of_first_only, "{name}");
            match restored {
                Ok(_) => fs::remove_dir_all(&target).unwrap(),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{name}: {error}");
                    assert!(!target.exists(), "{name}");
                }
            }
            fs::write(&path, &bytes).unwrap();
        }
        fs::rename(&path, place.path("aside")).unwrap();
        if !name.ends_with(".point") {
            assert_eq!(place.backups().verify(None).unwrap().problems.len(), 1, "{name}");
        }
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(place.backups().verify(None).unwrap().problems.len(), 1, "{name}");
        fs::rename(place.path("aside"), &path).unwrap();
    }
    assert!(place.backups().verify(None).unwrap().is_sound());
}

/// A file of the backup that is gone, or was cut short, is copied again for the next point. The
/// points before stay damaged, and the report of a verification says which.
#[test]
fn what_is_missing_is_copied_again() {
    let place = Place::settled();
    let first = place.backup();
    let segments = common::files(&place.path("backup"), ".seg");
    fs::remove_file(&segments[0]).unwrap();
    let cut = fs::read(&segments[1]).unwrap();
    fs::write(&segments[1], &cut[..cut.len() / 2]).unwrap();
    let second = place.db.backup(place.path("backup")).unwrap();
    assert_eq!(second.copied_files, 3, "two segments and the manifest");
    let check = place.backups().verify(None).unwrap();
    let points: Vec<_> = check.problems.iter().map(|problem| problem.points.clone()).collect();
    assert_eq!(points, [vec![first], vec![first]]);
    assert!(pairs(&place.restored(second.point)) == pairs(&place.db));
    assert!(place.backups().verify(Some(second.point)).unwrap().is_sound());
}

/// A later point relies on the files of earlier ones, so damage to one of them is damage to all
/// points to come, for as long as the database has the file. A backup that verifies copies it
/// again.
#[test]
fn a_damaged_file_is_copied_again_by_a_backup_that_verifies() {
    let place = Place::settled();
    let first = place.backup();
    let segments = common::files(&place.path("backup"), ".seg");
    let at = fs::read(&segments[0]).unwrap().len() / 2;
    flip(&segments[0], at);
    let trusting = place.backup();
    assert!(!place.backups().verify(Some(trusting)).unwrap().is_sound());
    let verify = BackupOptions::new().verify(true);
    let report = place.db.backup_with(place.path("backup"), &verify).unwrap();
    assert_eq!(report.copied_files, 2, "the segment and the manifest");
    assert!(place.backups().verify(Some(report.point)).unwrap().is_sound());
    let problems = place.backups().verify(None).unwrap().problems;
    assert_eq!((problems.len(), &problems[0].points), (1, &vec![first, trusting]));
    let later = place.db.backup_with(place.path("backup"), &verify).unwrap();
    assert_eq!(later.copied_files, 1, "the sound copy is found");
    assert!(pairs(&place.restored(later.point)) == pairs(&place.db));
}

#[test]
fn a_restore_takes_no_place_that_is_taken() {
    let place = Place::settled();
    place.backup();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/notes.txt"), "mine").unwrap();
    for taken in ["store", "backup", "full"] {
        let before = contents(&place.path(taken));
        let error = place.backups().restore(None, place.path(taken)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{taken}: {error}");
        assert!(contents(&place.path(taken)) == before, "{taken}");
    }
    let error = place.backups().restore(Some(7), place.path("new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(!place.path("new").exists());
}

#[test]
fn a_backup_takes_no_directory_of_others() {
    let place = Place::settled();
    place.db.checkpoint(place.path("other-store")).unwrap();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/notes.txt"), "mine").unwrap();
    for taken in ["store", "other-store", "full"] {
        let before = common::files(&place.path(taken), "");
        let error = place.db.backup(place.path(taken)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{taken}: {error}");
        assert_eq!(Backups::new(place.path(taken)).list().unwrap_err().kind(), error.kind());
        assert!(common::files(&place.path(taken), "") == before, "{taken}");
    }
    // One directory has the backup of one database.
    place.backup();
    let stranger = common::open(&place.path("stranger"));
    let error = stranger.backup(place.path("backup")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // And no database is opened where a backup is.
    let error = Db::builder(place.path("backup")).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(place.backups().verify(None).unwrap().is_sound());
    // A file of somebody else's beside the points is left alone.
    fs::write(place.path("backup/notes.txt"), "mine").unwrap();
    place.db.backup_with(place.path("backup"), &BackupOptions::new().keep(1)).unwrap();
    assert!(place.path("backup/notes.txt").exists());
}

/// A backup within the database's own directory would be moved and lost with it.
#[test]
fn not_into_the_directory_of_the_database() {
    let place = Place::new();
    let source = place.path("store");
    let link = place.path("link");
    std::os::unix::fs::symlink(&source, &link).unwrap();
    for target in [source.clone(), source.join("backup"), link.clone(), link.join("new/deep")] {
        let error = place.db.backup(&target).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("within the database's own directory"), "{error}");
        assert!(!source.join("backup").exists() && !source.join("new").exists());
    }
    place.db.backup(place.path("store-backup")).unwrap();
}

#[test]
fn retention_keeps_the_newest_and_what_they_share() {
    let place = Place::new();
    place.db.compact().unwrap();
    for version in 1..=5 {
        place.backup();
        fill(&place.db, 0..300, version);
        place.db.compact().unwrap();
        place.db.gc().unwrap();
    }
    let before = common::bytes_of(&place.path("backup"), "");
    let options = BackupOptions::new().keep(3);
    let report = place.db.backup_with(place.path("backup"), &options).unwrap();
    assert_eq!((report.point, &report.deleted_points[..]), (6, &[1, 2, 3][..]));
    assert!(report.freed_bytes > 0);
    let after = common::bytes_of(&place.path("backup"), "");
    assert!(after < before + report.copied_bytes, "{after} of {before}");
    let deleted = place.backups().delete(&[5]).unwrap();
    assert_eq!(deleted.points, [5]);
    let error = place.backups().delete(&[6, 5]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let numbers = || -> Vec<u64> {
        place.backups().list().unwrap().points.iter().map(|point| point.number).collect()
    };
    assert_eq!(numbers(), [4, 6]);
    assert!(place.backups().verify(None).unwrap().is_sound());
    assert!(pairs(&place.restored(6)) == pairs(&place.db));
    assert!(place.backups().keep_newest(2).unwrap().points.is_empty());
    assert_eq!(place.backups().keep_newest(1).unwrap().points, [4]);
    for error in [
        place.backups().keep_newest(0).unwrap_err(),
        place.db.backup_with(place.path("backup"), &BackupOptions::new().keep(0)).unwrap_err(),
        place.backups().bytes_per_second(0).verify(None).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
    assert_eq!(numbers(), [6]);
}

/// A description that cannot be read stops no backup, and nothing that it may name is removed. Once
/// its point is deleted, all that no other names goes.
#[test]
fn i05_nothing_goes_while_a_point_cannot_be_read() {
    let place = Place::new();
    place.backup();
    fill(&place.db, 0..300, 2);
    place.db.compact().unwrap();
    place.db.gc().unwrap();
    place.backup();
    let backup = place.path("backup");
    flip(&backup.join("00000001.point"), 50);
    let before = common::files(&backup, "");
    let options = BackupOptions::new().keep(1);
    let report = place.db.backup_with(&backup, &options).unwrap();
    assert_eq!((report.point, &report.deleted_points[..]), (3, &[2][..]));
    assert_eq!((report.unreadable.len(), report.freed_bytes), (1, 0));
    let gone = before.iter().filter(|path| !path.exists()).collect::<Vec<_>>();
    assert_eq!(gone, [&backup.join("00000002.point")]);
    let list = place.backups().list().unwrap();
    assert_eq!((list.points.len(), list.unreadable[0].0), (1, 1));
    let check = place.backups().verify(None).unwrap();
    assert_eq!((check.problems.len(), &check.problems[0].points[..]), (1, &[1][..]));
    // Nobody gets an older state than the one that was asked for, without a word.
    fs::rename(backup.join("00000001.point"), backup.join("00000009.point")).unwrap();
    let error = place.backups().restore(None, place.path("target")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let deleted = place.backups().delete(&[9]).unwrap();
    assert!(deleted.freed_bytes > 0);
    assert!(place.backups().verify(None).unwrap().is_sound());
    assert!(pairs(&place.restored(3)) == pairs(&place.db));
}

/// A store that was opened read-only is backed up with the end of its log, and nothing in it
/// changes; the points share files with those of later, writing sessions.
#[test]
fn a_read_only_store_stays_as_it_is() {
    let place = Place::settled();
    place.db.pause_gc();
    fill(&place.db, 250..400, 2);
    place.db.wait_idle().unwrap();
    // A copy of the files as they are now is what a killed process leaves: a log without an end.
    let crashed = place.path("crashed");
    fs::create_dir(&crashed).unwrap();
    for (path, bytes) in contents(&place.path("store")) {
        fs::write(crashed.join(path.file_name().unwrap()), bytes).unwrap();
    }
    let segment = common::files(&crashed, ".seg").pop().unwrap();
    let before: BTreeMap<_, _> = contents(&crashed);
    let read_only = || common::open_with(&crashed, Options { read_only: true, ..common::tiny() });
    let db = read_only();
    let found = pairs(&db);
    let first = db.backup(place.path("backup")).unwrap();
    let second = db.backup(place.path("backup")).unwrap();
    assert!(first.copied_files > 2 && second.copied_files == 1, "{first:?} {second:?}");
    assert_eq!(place.backups().list().unwrap().points[0].seqno, db.visible_seqno());
    drop(db);
    let after = contents(&crashed);
    let changed: Vec<_> = after.iter().filter(|(path, bytes)| before[*path] != **bytes).collect();
    assert!(changed.iter().all(|(path, _)| path.ends_with("LOCK")), "{}", changed.len());
    assert!(segment.exists() && found.len() > 300);
    let db = common::open(&crashed);
    assert!(pairs(&place.restored(2)) == pairs(&db), "the end of the log is in it");
    let third = db.backup(place.path("backup")).unwrap();
    assert!(third.copied_files < first.copied_files, "{third:?}");
    assert!(pairs(&place.restored(third.point)) == pairs(&db));
}

#[test]
fn writers_go_on_and_a_point_has_no_half_of_a_batch() {
    let place = Place::new();
    let (is_done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let keyspace = place.db.default_keyspace();
    let mut floors = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = common::OnDrop(|| is_done.store(true, Ordering::SeqCst));
            for number in 1..3000u64 {
                let mut batch = WriteBatch::new();
                for key in ["a", "b"] {
                    batch.put(&keyspace, key, number.to_string().repeat(60));
                }
                place.db.write(batch).unwrap();
                written.store(number, Ordering::SeqCst);
            }
        });
        while !is_done.load(Ordering::SeqCst) || floors.len() < 2 {
            let floor = written.load(Ordering::SeqCst);
            floors.push((place.backup(), floor));
        }
    });
    let (first, last) = (floors[0], floors[floors.len() - 1]);
    for (point, floor) in [first, last] {
        let db = place.restored(point);
        let get = |key: &str| db.default_keyspace().get(key).unwrap();
        assert_eq!(get("a"), get("b"), "point {point}");
        let is_new = get("a").is_some_and(|value| value.len() >= floor.to_string().len() * 60);
        assert!(floor == 0 || is_new, "point {point} has commit {floor}");
    }
    assert!(place.backups().verify(None).unwrap().is_sound());
}

#[test]
fn two_backups_at_once_are_refused() {
    let place = Place::new();
    let refused = Arc::new(AtomicU64::new(0));
    let (db, backup, count) = (place.db.clone(), place.path("backup"), refused.clone());
    let options = BackupOptions::new().on_progress(move |_: PassProgress| {
        let kinds = [
            db.backup(&backup).unwrap_err().kind(),
            Backups::new(&backup).verify(None).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::Locked; 2]);
        assert!(Backups::new(&backup).list().unwrap().points.is_empty(), "but listed");
        count.fetch_add(1, Ordering::SeqCst);
    });
    place.db.backup_with(place.path("backup"), &options).unwrap();
    assert!(refused.load(Ordering::SeqCst) > 0);
}

fn encrypted(dir: &Path, key: u8) -> cleavedb::Result<Db> {
    let key = EncryptionKey::new([key; 32]);
    // Nothing is merged or moved, so what was written stays in its files.
    let gc = GcOptions { automatic: false, ..common::tiny().gc };
    let keyspace = KeyspaceOptions { level0_trigger: 36, ..common::tiny_keyspace() };
    let options = Options { gc, keyspace, ..common::tiny() };
    Db::builder(dir).options(options).encryption(Arc::new(key)).open()
}

/// The files of an encrypted database are stored as they are, KEYS among them. No key is needed to
/// verify and to restore, and the one from then to open. The original and what was restored, which
/// begin with the same ids, write on side by side and can be restored again.
#[test]
fn i12_an_encrypted_database_is_backed_up_as_it_is() {
    let dir = common::dir();
    let path = |name: &str| dir.path().join(name);
    let db = encrypted(&path("store"), 1).unwrap();
    fill(&db, 0..300, 1);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let first = db.backup(path("backup")).unwrap();
    assert_eq!(db.backup(path("backup")).unwrap().copied_files, 1, "KEYS did not change");
    let write_tables = |db: &Db| {
        for round in 0..6 {
            fill(db, 50 * round..50 * round + 50, 2);
            db.flush().unwrap();
        }
        db.wait_idle().unwrap();
    };
    write_tables(&db);
    let of_store = contents(&path("store"));
    db.close().unwrap();
    for (file, bytes) in contents(&path("backup")) {
        assert!(!bytes.windows(9).any(|part| part == b"key000042"), "{}", file.display());
    }
    let backups = Backups::new(path("backup"));
    assert!(backups.verify(None).unwrap().is_sound());
    assert!(backups.list().unwrap().points[0].is_encrypted);
    backups.restore(Some(first.point), path("beside")).unwrap();
    assert_eq!(encrypted(&path("beside"), 2).unwrap_err().kind(), ErrorKind::InvalidOption);
    let (store, beside) =
        (encrypted(&path("store"), 1).unwrap(), encrypted(&path("beside"), 1).unwrap());
    write_tables(&beside);
    let of_beside = contents(&path("beside"));
    for (db, version) in [(&store, 3), (&beside, 4)] {
        fill(db, 0..200, version);
        db.compact().unwrap();
        db.backup(path(&format!("backup-{version}"))).unwrap();
    }
    for (db, version) in [(&store, 3), (&beside, 4)] {
        assert!(db.check().unwrap().is_clean());
        let target = path(&format!("again-{version}"));
        Backups::new(path(&format!("backup-{version}"))).restore(None, &target).unwrap();
        let again = encrypted(&target, 1).unwrap();
        assert!(pairs(&again) == pairs(db) && again.check().unwrap().is_clean());
    }
    // Both have given out the same ids since then, and sealed the same entries under them.
    let is_stored = |name: &Path| {
        let in_first = path("backup").join(format!("00000001-{}", name.display()));
        in_first.exists() || !["tbl", "seg"].iter().any(|it| name.extension() == Some(it.as_ref()))
    };
    let mut shared_names = 0;
    for (file, bytes) in &of_store {
        let name = Path::new(file.file_name().unwrap());
        let other = of_beside.get(&path("beside").join(name)).filter(|_| !is_stored(name));
        // A segment that is prepared for later is empty.
        if let Some(other) = other.filter(|other| other.len().min(bytes.len()) > 64) {
            shared_names += 1;
            assert_ne!(bytes[64..], other[64..], "{}", name.display());
        }
    }
    assert!(shared_names > 0, "both gave out the same ids");
}

/// What `check` finds, a check with a bound on its rate finds too.
#[test]
fn a_bounded_check_finds_the_same() {
    let place = Place::new();
    place.db.compact().unwrap();
    place.db.close().unwrap();
    let store = place.dir.path().join("store");
    let read_only = || common::open_with(&store, Options { read_only: true, ..common::tiny() });
    let gently = cleavedb::CheckOptions::new().bytes_per_second(100 << 20);
    let report = read_only().check_with(&gently).unwrap();
    assert!(report.is_clean() && report.pointers > 0 && report.records > 0);
    assert_eq!(report.bytes, read_only().check().unwrap().bytes);
    let table = common::files(&store, ".tbl").pop().unwrap();
    flip(&table, 100);
    assert!(read_only().check_with(&gently).unwrap().is_damaged());
    let never = cleavedb::CheckOptions::new().bytes_per_second(0);
    assert_eq!(read_only().check_with(&never).unwrap_err().kind(), ErrorKind::InvalidOption);
}
