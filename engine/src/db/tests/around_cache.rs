//! What is not in the page cache when value GC moves it is not there afterwards, either.

use crate::env::fs::{Fs, USUAL_READ_AHEAD_BYTES};
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

/// Returns true if this file system writes and reads around the page cache.
fn has_direct_writes(fs: &dyn Fs, path: &Path) -> bool {
    let file = fs.create_direct(path).unwrap();
    file.write_at(&vec![1; 512 << 10], 0).unwrap();
    file.sync().unwrap();
    !is_cached(fs, path)
}

/// Removes a file from the page cache, which keeps what was not written to the device.
fn evict(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn values_that_nobody_reads_are_moved_around_the_page_cache() {
    for (separation, is_evicted) in [
        (Separation::AtFlush, false),
        (Separation::AtFlush, true),
        (Separation::AtWrite, false),
        (Separation::AtWrite, true),
    ] {
        let dir = doc_dir(&format!("around-cache-{separation:?}-{is_evicted}"));
        let db = fill(&dir, separation);
        let fs = &*db.core.runtime.env.fs;
        let kind = match separation {
            Separation::AtWrite => SegmentKind::Log,
            _ => SegmentKind::Sorted,
        };
        let before = segments(&db, kind);
        if is_evicted {
            before.iter().for_each(|path| evict(path));
            let keeps_all = before.iter().any(|path| is_cached(fs, path));
            if keeps_all || !has_direct_writes(fs, &dir.join("probe")) {
                println!("this file system always uses the page cache");
                return;
            }
        }
        // The newest segment of a log is not full yet.
        let least = if separation == Separation::AtWrite { KEYS / 4 } else { KEYS / 3 };
        let moved = db.gc().unwrap().values_moved;
        assert!(moved >= u64::from(least), "{separation:?}: {moved}");
        let made: Vec<_> =
            segments(&db, SegmentKind::Sorted).difference(&before).cloned().collect();
        assert!(!made.is_empty(), "what is live is somewhere else");
        if is_evicted {
            assert!(!made.iter().any(|path| is_cached(fs, path)), "they went around the cache");
        }
        let keys = db.default_keyspace();
        for number in 0..KEYS {
            let found = keys.get(key(number)).unwrap().map(|value| value.to_vec());
            assert_eq!(found, (number % 3 == 0).then(|| value(number)));
        }
        assert!(db.check().unwrap().is_clean());
        db.close().unwrap();
        let again = Db::builder(&dir).open().unwrap();
        assert_eq!(again.default_keyspace().iter().count(), KEYS as usize / 3);
    }
}
