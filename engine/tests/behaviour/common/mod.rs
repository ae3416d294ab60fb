//! Helpers of all tests: directories, tiny settings, and values that contain their key and version.

pub mod child;
pub mod rng;

use cleavedb::{
    Db, GcOptions, Keyspace, KeyspaceOptions, Options, ReadOptions, Separation, Snapshot,
    Transaction,
};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::ops::Bound;
use std::path::{Path, PathBuf};
pub use tempfile::TempDir;

/// Creates a directory that is removed with the test. It is in memory (`/dev/shm`) if possible,
/// because these tests do not depend on real syncs. `TMPDIR` chooses another place.
pub fn dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    if std::env::var_os("TMPDIR").is_none()
        && let Ok(dir) = tempfile::tempdir_in(memory)
    {
        return dir;
    }
    dir_on_disk()
}

/// Creates a directory on disk, for large data, that is removed with the test.
pub fn dir_on_disk() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Returns the path of each descriptor that this process has of a file in `dir`.
#[cfg(target_os = "linux")]
pub fn descriptors(dir: &Path) -> Vec<PathBuf> {
    let held = std::fs::read_dir("/proc/self/fd").expect("the process's descriptors");
    let paths = held.filter_map(|held| std::fs::read_link(held.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(dir)).collect()
}

/// Returns the files of `dir` that this process holds open although they were removed.
#[cfg(target_os = "linux")]
pub fn removed_and_open(dir: &Path) -> Vec<PathBuf> {
    let mut paths = descriptors(dir);
    paths.retain(|path| path.to_string_lossy().ends_with(" (deleted)"));
    paths
}

/// Returns the range of the keys from `lower` on to before `upper`; `None` is unbounded.
pub fn range(lower: Option<Vec<u8>>, upper: Option<Vec<u8>>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let lower = lower.map_or(Bound::Unbounded, Bound::Included);
    (lower, upper.map_or(Bound::Unbounded, Bound::Excluded))
}

/// Returns options for reading at `snapshot`, or at the present if it is `None`.
pub fn reading(snapshot: Option<Snapshot>) -> ReadOptions {
    snapshot.map_or_else(ReadOptions::new, |snapshot| ReadOptions::new().snapshot(&snapshot))
}

/// Returns options with buffers so small that flushes, compactions and new segments are frequent.
pub fn tiny() -> Options {
    Options {
        cache_bytes: 64 << 10,
        max_index_and_filter_bytes: Some(16 << 10),
        max_replay_bytes: 64 << 10,
        segment_bytes: 16 << 10,
        write_buffer_bytes: 4 << 10,
        max_open_files: 24,
        compaction_threads: 2,
        read_threads: 4,
        keyspace: tiny_keyspace(),
        gc: GcOptions {
            max_space_amplification: 1.3,
            space_allowance_bytes: 0,
            ..GcOptions::default()
        },
        ..Options::default()
    }
}

/// Returns the keyspace options of [`tiny`]. Values of 100 bytes and more are separated.
pub fn tiny_keyspace() -> KeyspaceOptions {
    KeyspaceOptions {
        separation: Separation::AtWrite,
        separation_threshold: 100,
        block_bytes: 512,
        table_bytes: 8 << 10,
        memtable_bytes: 16 << 10,
        level_base_bytes: 32 << 10,
        ..KeyspaceOptions::default()
    }
}

/// Returns the options of a keyspace that separates values of at least `threshold` bytes, or none.
pub fn separating(threshold: Option<usize>) -> KeyspaceOptions {
    match threshold {
        Some(bytes) => KeyspaceOptions { separation_threshold: bytes, ..tiny_keyspace() },
        None => KeyspaceOptions { separation: Separation::Off, ..tiny_keyspace() },
    }
}

/// Returns true if every database of this run is encrypted, with a key that the engine itself takes
/// from the environment.
pub fn is_encrypted() -> bool {
    std::env::var_os("CLEAVEDB_TEST_KEY").is_some()
}

/// Opens a database with the options [`tiny`].
pub fn open(path: &Path) -> Db {
    open_with(path, tiny())
}

/// Opens a database with these options.
pub fn open_with(path: &Path, options: Options) -> Db {
    Db::builder(path).options(options).open().expect("it opens")
}

/// Returns a value of `bytes` bytes that begins with its key and version; the rest is random.
pub fn value(key: &str, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = format!("{key}@{version}.").into_bytes();
    let mut chance = rng::Rng::new(version);
    while value.len() < bytes {
        value.extend_from_slice(&chance.next().to_le_bytes());
    }
    value.truncate(bytes.max(1));
    value
}

/// Returns key number `number`. The bytewise order of the keys is that of their numbers.
pub fn key(number: usize) -> String {
    format!("key{number:06}")
}

/// Puts the value of this version and length under the key of this number.
pub fn put_value(keyspace: &Keyspace, number: usize, version: u64, bytes: usize) {
    let key = key(number);
    keyspace.put(&key, value(&key, version, bytes)).unwrap();
}

/// Asserts that the key of this number has the value of this version and length.
#[track_caller]
pub fn expect_value(keyspace: &Keyspace, number: usize, version: u64, bytes: usize) {
    let key = key(number);
    let found = keyspace.get(&key).unwrap();
    assert_eq!(found.as_deref(), Some(&value(&key, version, bytes)[..]), "{key}");
}

/// Returns all pairs of a keyspace.
pub fn pairs(keyspace: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    keyspace
        .iter()
        .map(|item| item.map(|(key, value)| (key, value.into_vec())).expect("a pair"))
        .collect()
}

/// Returns the files in a directory whose names end in `suffix`, sorted, without the control socket
/// of an open database.
pub fn files(dir: &Path, suffix: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the directory");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(suffix) && !path.ends_with("CONTROL"))
        .collect();
    found.sort();
    found
}

/// Returns the total length of the files in a directory whose names end in `suffix`. A file that
/// disappears meanwhile is not counted: obsolete files are removed in the background.
pub fn bytes_of(dir: &Path, suffix: &str) -> u64 {
    metadata_of(dir, suffix).map(|(_, metadata)| metadata.len()).sum()
}

/// Returns the files in a directory whose names end in `suffix`, with their metadata. A file that
/// disappears meanwhile is left out.
pub fn metadata_of(dir: &Path, suffix: &str) -> impl Iterator<Item = (PathBuf, Metadata)> {
    files(dir, suffix).into_iter().filter_map(|path| match std::fs::metadata(&path) {
        Ok(metadata) => Some((path, metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", path.display()),
    })
}

/// Copies the files of a database to a new directory, as a kill at this moment would leave them.
/// All is copied again if background work changed the files meanwhile; every edit makes the
/// manifest longer.
pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a new directory");
    let listed =
        || -> Vec<_> { metadata_of(from, "").map(|(path, it)| (path, it.len())).collect() };
    for _ in 0..1000 {
        let before = listed();
        let copied = before.iter().all(|(path, _)| {
            match std::fs::copy(path, to.join(path.file_name().expect("a name"))) {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        });
        if copied && listed() == before {
            return;
        }
        files(to, "").iter().for_each(|path| std::fs::remove_file(path).expect("a copy goes"));
    }
    panic!("the background never rests");
}

/// Calls a function at the end of a scope, also when the test fails in it.
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns true if a transaction fails to commit because of what others do `meanwhile`: it makes
/// `read` in a keyspace with the keys b, d and f, to which `before` happened, and writes another
/// key.
pub fn conflicts(
    read: &dyn Fn(&Transaction, &Keyspace),
    before: impl FnOnce(&Db),
    meanwhile: impl FnOnce(&Db, &Keyspace),
) -> bool {
    let dir = dir();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    ["b", "d", "f"].iter().for_each(|key| keyspace.put(key, "before").unwrap());
    before(&db);
    let transaction = db.begin();
    read(&transaction, &keyspace);
    transaction.put(&keyspace, "own", "1").unwrap();
    meanwhile(&db, &keyspace);
    let conflict = transaction.commit().is_err_and(|error| {
        assert_eq!(error.kind(), cleavedb::ErrorKind::Conflict, "{error}");
        true
    });
    assert_eq!(keyspace.get("own").unwrap().is_some(), !conflict);
    conflict
}

/// Writes more keys than the database keeps as recent ones.
pub fn write_many(keyspace: &Keyspace) {
    for number in 0..10_000 {
        keyspace.put(key(number % 10), "").unwrap();
    }
}
