//! Tests of sorted files that are encrypted before any database has them.

use crate::common::{self, TempDir};
use cleavedb::{
    Codec, Db, EncryptionKey, ErrorKind, IngestOptions, IngestReport, KeyProvider, Result,
    SortedFileOptions, SortedFileWriter,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEYS: usize = 300;

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::new([byte; 32])
}

fn keys(bytes: &[u8]) -> Arc<dyn KeyProvider> {
    Arc::new(bytes.iter().map(|&byte| key(byte)).collect::<Vec<_>>())
}

fn value(number: usize) -> String {
    format!("SECRET value {number} ").repeat([1, 5, 90][number % 3])
}

/// Writes a file, encrypted with keys of these bytes unless there are none.
fn write(path: &Path, bytes: &[u8]) {
    let encryption = (!bytes.is_empty()).then(|| keys(bytes));
    let options =
        SortedFileOptions { codec: Codec::None, encryption, ..SortedFileOptions::default() };
    let mut file = SortedFileWriter::create(path, &options).unwrap();
    for number in 0..KEYS {
        file.put(format!("{number:04} SECRET key"), value(number)).unwrap();
    }
    file.finish().unwrap();
}

fn values_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.values", path.display()))
}

fn ingest_into(store: &Path, bytes: &[u8], file: &Path) -> Result<(IngestReport, usize)> {
    let builder = Db::builder(store).options(common::tiny());
    let builder = if bytes.is_empty() { builder } else { builder.encryption(keys(bytes)) };
    let db = builder.open()?;
    let keyspace = db.default_keyspace();
    let ingested = keyspace.ingest(&[file], &IngestOptions::default());
    let pairs = common::pairs(&keyspace);
    for (number, (_, found)) in pairs.iter().enumerate() {
        assert_eq!(*found, value(number).into_bytes());
    }
    db.close()?;
    ingested.map(|report| (report, pairs.len()))
}

fn dir_with_file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = common::dir();
    let file = dir.path().join("words.sorted");
    write(&file, bytes);
    (dir, file)
}

#[test]
fn a_file_shows_nothing_and_is_ingested_with_its_key() {
    let shows = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(6).any(|window| window == b"SECRET")
    };
    let (dir, file) = dir_with_file(&[1, 9]);
    assert!(!shows(&file) && !shows(&values_of(&file)));
    let clear = dir.path().join("clear");
    write(&clear, &[]);
    assert!(shows(&clear) && shows(&values_of(&clear)), "the test looks in the right places");
    let into = |store: &str, bytes: &[u8], file: &Path| {
        let (report, pairs) = ingest_into(&dir.path().join(store), bytes, file)?;
        assert_eq!((report.entries, pairs), (KEYS as u64, KEYS));
        Ok::<_, cleavedb::Error>(report.files_in_clear)
    };
    assert_eq!(into("same", &[1], &file).unwrap(), 0);
    assert_eq!(into("former", &[2, 1], &file).unwrap(), 0, "the key is a former one there");
    assert_eq!(into("told", &[1], &clear).unwrap(), 1, "it can be read outside");
    let error = into("other", &[2, 9], &file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    let (wanted, given) = (key(1), key(9));
    assert!(error.message().contains(wanted.id()) && error.message().contains(given.id()));
    assert_eq!(error.file(), Some(file.as_path()));
    if !common::is_encrypted() {
        assert_eq!(into("plain", &[], &clear).unwrap(), 0, "nobody asked for more");
        let error = into("plain again", &[], &file).unwrap_err();
        assert!(error.message().contains("given was none"), "{error}");
    }
}

/// Whoever changes a file outside is found out: its blocks and records are authenticated.
#[test]
fn i07_a_changed_file_is_refused() {
    let (dir, file) = dir_with_file(&[1]);
    let store = dir.path().join("store");
    let refused = |what: &str| {
        let error = ingest_into(&store, &[1], &file).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
    };
    for path in [file.clone(), values_of(&file)] {
        let whole = fs::read(&path).unwrap();
        for at in (50..whole.len()).step_by(whole.len() / 40) {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, bytes).unwrap();
            refused(&format!("byte {at} of {}", path.display()));
        }
        fs::write(&path, whole).unwrap();
    }
    for bytes in [&[1][..], &[]] {
        let other = dir.path().join(format!("other{}", bytes.len()));
        write(&other, bytes);
        let whole = fs::read(values_of(&file)).unwrap();
        fs::copy(values_of(&other), values_of(&file)).unwrap();
        refused("the values of another file");
        fs::write(values_of(&file), whole).unwrap();
    }
    assert_eq!(ingest_into(&store, &[1], &file).unwrap().1, KEYS);
}

/// The same pairs under the same key look different in each file, from the first block on.
#[test]
fn i12_two_files_share_no_key() {
    let (dir, one) = dir_with_file(&[1]);
    let two = dir.path().join("two");
    write(&two, &[1]);
    for (one, two) in [(one.clone(), two.clone()), (values_of(&one), values_of(&two))] {
        let (one, two) = (fs::read(one).unwrap(), fs::read(two).unwrap());
        assert_eq!(one.len(), two.len());
        // Behind the headers and before the footer; lengths and numbers of records stay readable.
        let body = 100..one.len() - 100;
        let same = body.clone().filter(|&at| one[at] == two[at]).count();
        assert!(same < body.len() / 20, "{same} of {} bytes are the same", body.len());
    }
}

#[test]
fn a_file_is_printed_with_its_key() {
    let (_dir, file) = dir_with_file(&[1]);
    for path in [file.clone(), values_of(&file)] {
        let mut text = Vec::new();
        cleavedb::inspect_encrypted(&path, &key(1), &mut text).unwrap();
        assert!(String::from_utf8_lossy(&text).contains("SECRET"), "{}", path.display());
        let error = cleavedb::inspect_encrypted(&path, &key(2), &mut text).unwrap_err();
        assert!(error.message().contains(key(1).id()), "{error}");
    }
}
