//! What is not in the page cache when value GC moves it is not there afterwards, either.

use crate::env::fs::{File, Fs, USUAL_READ_AHEAD_BYTES};
use crate::env::{Env, OsSettings};
use crate::segment::SegmentKind;
use crate::{Db, GcOptions, KeyspaceOptions, Options, Separation, doc_dir};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const KEYS: u32 = 300;

fn key(number: u32) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 3000 + number as usize]
}

/// Creates a database whose values are in segments, two thirds of them dead: in sorted ones, or in
/// those of the log.
fn fill(dir: &Path, separation: Separation) -> Db {
    let keyspace =
        KeyspaceOptions { separation, separation_threshold: 200, ..KeyspaceOptions::default() };
    let gc = GcOptions { automatic: false, punch: false, ..GcOptions::default() };
    let options = Options { segment_bytes: 256 << 10, keyspace, gc, ..Options::default() };
    let db = Db::builder(dir).options(options).open().unwrap();
    let keys = db.default_keyspace();
    (0..KEYS).for_each(|number| keys.put(key(number), value(number)).unwrap());
    keys.flush().unwrap();
    (0..KEYS).filter(|it| it % 3 > 0).for_each(|number| keys.delete(key(number)).unwrap());
    keys.flush().unwrap();
    db
}

/// Returns the segments of this kind.
fn segments(db: &Db, kind: SegmentKind) -> BTreeSet<PathBuf> {
    let version = db.core.set.current();
    let segments = version.segments.values().map(|live| &live.handle);
    let segments = segments.filter(|handle| handle.segment.kind() == kind);
    segments.map(|handle| handle.path().to_path_buf()).collect()
}

/// Returns true if the page cache has this file: blocks of it that lie further from each other than
/// the system reads ahead when it is asked for one.
fn is_cached(fs: &dyn Fs, path: &Path) -> bool {
    let file = fs.open(path).unwrap();
    let mut places = (0..file.len().unwrap()).step_by(USUAL_READ_AHEAD_BYTES as usize);
    places.all(|offset| file.read_cached(&mut [0], offset))
}

/// Returns true if this file system tells what is in the page cache, and writes and reads around
/// it.
fn has_direct_io(fs: &dyn Fs, dir: &Path) -> bool {
    let bytes = vec![1; 512 << 10];
    let write = |file: &dyn File| {
        file.write_at(&bytes, 0).unwrap();
        file.sync().unwrap();
    };
    let (usual, direct) = (dir.join("usual"), dir.join("direct"));
    write(&*fs.create(&usual).unwrap());
    if !is_cached(fs, &usual) {
        return false;
    }
    evict(&usual);
    fs.open_direct(&usual).unwrap().read_exact_at(&mut bytes.clone(), 0).unwrap();
    write(&*fs.create_direct(&direct).unwrap());
    !is_cached(fs, &usual) && !is_cached(fs, &direct)
}

/// Removes a file from the page cache. It is synced first, as the cache keeps what the device does
/// not have.
fn evict(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Has value GC move what is live in a database of this name. Returns true if the page cache has a
/// victim afterwards, or a segment that was made.
fn is_cached_after_moves(name: &str, separation: Separation, is_evicted: bool) -> bool {
    let dir = doc_dir(name);
    let db = fill(&dir, separation);
    let fs = &*db.core.runtime.env.fs;
    let kind = match separation {
        Separation::AtWrite => SegmentKind::Log,
        _ => SegmentKind::Sorted,
    };
    let before = segments(&db, kind);
    // The first one is full. Under another name it is there after its victim has gone.
    let kept = dir.join("kept");
    std::fs::hard_link(before.first().unwrap(), &kept).unwrap();
    if is_evicted {
        // Nobody looks whether they are gone: that alone would have the system read some again.
        before.iter().for_each(|path| evict(path));
    }
    // Those in the segment of the log that is not full yet stay where they are.
    let least = if separation == Separation::AtWrite { KEYS / 4 } else { KEYS / 3 };
    let moved = db.gc().unwrap().values_moved;
    assert!(moved >= u64::from(least), "{separation:?}: {moved}");
    let made: Vec<_> = segments(&db, SegmentKind::Sorted).difference(&before).cloned().collect();
    assert!(!made.is_empty(), "what is live is somewhere else");
    let found = is_cached(fs, &kept) || made.iter().any(|path| is_cached(fs, path));
    let keys = db.default_keyspace();
    for number in 0..KEYS {
        let found = keys.get(key(number)).unwrap().map(|value| value.to_vec());
        assert_eq!(found, (number % 3 == 0).then(|| value(number)));
    }
    assert!(db.check().unwrap().is_clean());
    db.close().unwrap();
    let again = Db::builder(&dir).open().unwrap();
    assert_eq!(again.default_keyspace().iter().count(), KEYS as usize / 3);
    found
}

#[test]
fn values_that_nobody_reads_are_moved_around_the_page_cache() {
    let dir = doc_dir("around-cache");
    std::fs::create_dir_all(&dir).unwrap();
    let env = Env::os(&OsSettings::default());
    if !has_direct_io(&*env.fs, &dir) {
        println!("this file system always uses the page cache, or does not tell what is there");
        return;
    }
    for separation in [Separation::AtFlush, Separation::AtWrite] {
        let name = |what: &str| format!("around-cache-{separation:?}-{what}");
        assert!(is_cached_after_moves(&name("cached"), separation, false), "{separation:?}");
        // Once in some two hundred runs beside others the cache has the victim all the same; why is
        // not known. A read that always went through the cache would fail each attempt.
        let is_around = |attempt: u32| {
            !is_cached_after_moves(&name(&format!("evicted-{attempt}")), separation, true)
        };
        assert!((0..3).any(is_around), "{separation:?}: it went through the cache");
    }
}
