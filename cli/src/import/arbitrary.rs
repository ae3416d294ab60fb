//! Tests that no bytes whatever make a decoder panic, take memory without end, or give back what
//! was not stored.

use super::badger::BadgerSource;
use super::input::ImportInput;
use super::ldb_dump::LdbDumpSource;
use super::lsm::{LsmSource, LsmStore, decode_all};
use super::mdb_dump::MdbDumpSource;
use super::source::{ImportPair, Source};
use crate::random::SplitMix64;
use cleavedb::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

type Found = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn read_all(source: Result<impl Source>) -> Result<Found> {
    let mut source = source?;
    let (mut found, mut pair) = (Found::new(), ImportPair::default());
    while let Some(part) = source.next_part()? {
        while source.next(&mut pair)? {
            found.insert((part.clone(), pair.key.clone()), pair.value.clone());
        }
    }
    Ok(found)
}

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores")
}

/// Changes, cuts, doubles or fills some of the bytes.
fn mutate(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len().max(1) as u64) as usize;
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at..),
            2 => bytes.insert(at.min(bytes.len()), random.next() as u8),
            3 if at < bytes.len() => bytes[at..].iter_mut().take(9).for_each(|byte| *byte = 0xff),
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => {}
        }
    }
}

/// With checksums in place, a damaged store is an error with its file, or the damage is where
/// nothing is stored: in a filter, in what a log's end lost, or in space that no block uses.
#[test]
fn a_damaged_store_gives_errors_or_what_was_stored() {
    let cases = [("leveldb", LsmStore::LevelDb), ("rocksdb-2", LsmStore::RocksDb)];
    let more = [("rocksdb-5", LsmStore::RocksDb), ("rocksdb-6", LsmStore::RocksDb)];
    let mut random = SplitMix64::new(11, 0);
    let mut errors = 0;
    for (name, store) in cases.into_iter().chain(more) {
        let whole = read_all(LsmSource::open(store, &stores().join(name))).unwrap();
        assert!(whole.len() > 40);
        let files: Vec<_> = fs::read_dir(stores().join(name)).unwrap().flatten().collect();
        for round in 0..150 {
            let dir = tempfile::tempdir().unwrap();
            let chosen = round % files.len();
            for (index, file) in files.iter().enumerate() {
                let mut bytes = fs::read(file.path()).unwrap();
                if index == chosen {
                    mutate(&mut bytes, &mut random);
                }
                fs::write(dir.path().join(file.file_name()), bytes).unwrap();
            }
            let is_log = files[chosen].path().extension().is_some_and(|end| end == "log")
                || files[chosen].file_name().to_string_lossy().starts_with("MANIFEST");
            match read_all(LsmSource::open(store, dir.path())) {
                Ok(found) => assert!(is_log || found == whole, "{name}, round {round}"),
                Err(error) => {
                    errors += 1;
                    assert!(error.file().is_some(), "{error}");
                }
            }
        }
    }
    assert!(errors > 200, "{errors}");
}

/// Behind the checksums: what they protect is damaged itself.
#[test]
fn decoders_take_any_bytes() {
    let mut random = SplitMix64::new(12, 0);
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for name in ["leveldb", "rocksdb-2", "rocksdb-5", "rocksdb-6"] {
        for file in fs::read_dir(stores().join(name)).unwrap().flatten() {
            seeds.extend(decode_all(&fs::read(file.path()).unwrap()));
        }
    }
    assert!(seeds.len() > 40, "{}", seeds.len());
    for _ in 0..4000 {
        let mut bytes = seeds[random.below(seeds.len() as u64) as usize].clone();
        bytes.truncate(20_000);
        mutate(&mut bytes, &mut random);
        decode_all(&bytes);
        let noise: Vec<u8> = (0..random.below(80)).map(|_| random.next() as u8).collect();
        decode_all(&noise);
    }
}

fn input(bytes: &[u8]) -> ImportInput {
    ImportInput::new(Box::new(Cursor::new(bytes.to_vec())), Path::new("in"), None)
}

#[test]
fn streams_take_any_bytes() {
    let backup = fs::read(stores().join("badger/backup")).unwrap();
    let dump =
        b"VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n 61\n 31\nDATA=END\n".to_vec();
    let lines = b"0x61 ==> 0x31\n0x62 ==> 0x\n".to_vec();
    assert_eq!(read_all(Ok(BadgerSource::new(input(&backup)))).unwrap().len(), 32);
    assert_eq!(read_all(Ok(MdbDumpSource::new(input(&dump)))).unwrap().len(), 1);
    assert_eq!(read_all(Ok(LdbDumpSource::new(input(&lines)))).unwrap().len(), 2);
    let mut random = SplitMix64::new(13, 0);
    let mut errors = 0;
    for _ in 0..3000 {
        let mutated = |bytes: &[u8], random: &mut SplitMix64| {
            let mut bytes = bytes.to_vec();
            mutate(&mut bytes, random);
            input(&bytes)
        };
        let results = [
            read_all(Ok(BadgerSource::new(mutated(&backup, &mut random)))),
            read_all(Ok(MdbDumpSource::new(mutated(&dump, &mut random)))),
            read_all(Ok(LdbDumpSource::new(mutated(&lines, &mut random)))),
        ];
        for error in results.into_iter().filter_map(Result::err) {
            errors += 1;
            let is_told = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported);
            assert!(is_told && error.file() == Some(Path::new("in")), "{error}");
        }
    }
    assert!(errors > 1000, "{errors}");
}

/// A manifest, a log or a table with a hole of a terabyte would take that much memory before it was
/// looked at, which ends a process. Each is refused.
#[test]
fn files_with_holes_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    for file in fs::read_dir(stores().join("leveldb")).unwrap().flatten() {
        fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    let log = dir.path().join("MANIFEST-999999");
    fs::File::create(&log).unwrap().set_len(1 << 40).unwrap();
    assert!(super::lsm::read_whole(&log, 1000).unwrap_err().to_string().contains("longer than"));
    // A table whose index claims the hole before its footer.
    let table = fs::read_dir(dir.path()).unwrap().flatten().map(|file| file.path());
    let table = table.filter(|path| path.extension().is_some_and(|end| end == "ldb"));
    let table = table.max().unwrap();
    let mut footer = Vec::new();
    for number in [0, 1 << 39, 0, 1 << 39] {
        super::cursor::put_varint(number, &mut footer);
    }
    footer.resize(super::lsm::LEVELDB_FOOTER_BYTES - 8, 0);
    footer.extend_from_slice(&super::lsm::LEVELDB_MAGIC.to_le_bytes());
    let file = fs::File::create(&table).unwrap();
    file.write_all_at(&footer, 1 << 40).unwrap();
    let error = read_all(LsmSource::open(LsmStore::LevelDb, dir.path())).unwrap_err();
    assert!(error.to_string().contains("larger than the largest value"), "{error}");
}
