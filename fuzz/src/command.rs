//! Fuzz targets of what the command `cleave` parses: stores, backups and dumps of other programs,
//! texts that are loaded, lines of the shell. The command is a program and cannot be linked, so its
//! files are part of this one.
//!
//! Checksums of other stores are taken as right, whatever they are, so that code behind them is
//! reached; what they guard against is tested in `cli/src/import/arbitrary.rs`.

use crate::format::read::{Fields, read};
use crate::format::template::KeyTemplate;
use crate::format::{Format, write_pair};
use crate::import::badger::BadgerSource;
use crate::import::input::ImportInput;
use crate::import::ldb_dump::LdbDumpSource;
use crate::import::lsm::{LsmSource, LsmStore, decode_all};
use crate::import::mdb_dump::MdbDumpSource;
use crate::import::source::{ImportPair, Source};
use crate::{text, words};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// The fuzz targets by name.
pub(crate) const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("import_file", import_file),
    ("import_store", import_store),
    ("import_stream", import_stream),
    ("load", load),
    ("shell_line", shell_line),
];

/// The directory of the store that is imported, in the current one.
const STORE: &str = "import-store";
/// The longest file of a store that becomes a seed; longer ones are cut.
const SEED_BYTES: usize = 6000;

/// Returns the seed inputs, made of stores that the real programs wrote.
pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/stores");
    let mut seeds = Vec::new();
    for (kind, name) in [(0, "leveldb"), (1, "rocksdb-2"), (1, "rocksdb-5"), (1, "rocksdb-6")] {
        let mut files: Vec<PathBuf> = fs::read_dir(stores.join(name))
            .expect("a store")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        let mut packed = vec![kind];
        for path in files {
            let mut bytes = fs::read(&path).expect("a file of a store");
            bytes.truncate(SEED_BYTES);
            let name = path.file_name().expect("a name").as_encoded_bytes();
            packed.push(name.len() as u8);
            packed.extend_from_slice(name);
            packed.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            packed.extend_from_slice(&bytes);
            seeds.extend(decode_all(&bytes).into_iter().map(|inner| ("import_file", inner)));
            seeds.push(("import_file", bytes));
        }
        seeds.push(("import_store", packed));
    }
    let backup = fs::read(stores.join("badger/backup")).expect("a backup");
    let dump = b"VERSION=3\nformat=bytevalue\ndatabase=a\\5cb\ntype=btree\nmapsize=1048576\n\
        HEADER=END\n 61\n 31\nDATA=END\n";
    let lines = b"0x61 ==> 0x31\n0x62 ==> 0x\n";
    for (number, stream) in [&backup[..], dump, lines].into_iter().enumerate() {
        seeds.push(("import_stream", [&[number as u8], stream].concat()));
    }
    let texts: [(u8, &[u8]); 5] = [
        (0, b"key\tvalue\n\\x00\\t\t\n"),
        (1, b"a,b,c\n1,\"two\nlines\",3\n"),
        (2, b"{\"key\":\"a\",\"value\":{\"hex\":\"00ff\"}}\n{\"key\":\"b\",\"value\":[1,null]}\n"),
        (3, b"6b\t76\n"),
        (0x14, b"a\tb\tc\n1\t2\t3\n"),
    ];
    seeds.extend(texts.map(|(how, text)| ("load", [&[how], text].concat())));
    seeds.push(("shell_line", b"put \"two words\" \\x00\\\"#".to_vec()));
    seeds.push(("shell_line", b"{country}/{{{id}".to_vec()));
    seeds
}

/// A file of a store, or a part of one, is given to each decoder.
fn import_file(data: &[u8]) {
    for inner in decode_all(data) {
        decode_all(&inner);
    }
}

/// The input is which program's store it is, and its files: the length of a name, the name, the
/// length of the file (two bytes), the file.
fn import_store(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let dir = Path::new(STORE);
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).expect("a directory");
    let mut rest = rest;
    while let Some((name, after)) = take(rest, 1)
        && let Some((bytes, after)) = take(after, 2)
    {
        rest = after;
        let name = std::str::from_utf8(name).unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
        if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain) {
            fs::write(dir.join(name), bytes).expect("a file");
        }
    }
    let store = if kind % 2 == 0 { LsmStore::LevelDb } else { LsmStore::RocksDb };
    if let Ok(mut source) = LsmSource::open(store, dir) {
        drain(&mut source);
    }
}

/// Returns what `rest` begins with, behind its length of so many bytes, and what follows.
fn take(rest: &[u8], length_bytes: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = rest.split_at_checked(length_bytes)?;
    let length = length.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    Some(rest.split_at(length.min(rest.len())))
}

/// Reads a source to its end. Where it says that keys ascend, they do.
fn drain(source: &mut dyn Source) {
    let mut pair = ImportPair::default();
    while let Ok(Some(_)) = source.next_part() {
        let mut last: Option<Vec<u8>> = None;
        while let Ok(true) = source.next(&mut pair) {
            let ascends = last.as_ref().is_none_or(|last| *last < pair.key);
            assert!(ascends || !source.ascends(), "keys that ascend are ingested as they come");
            last = Some(pair.key.clone());
        }
    }
}

/// The input is which program's stream it is, and the stream.
fn import_stream(data: &[u8]) {
    let Some((kind, stream)) = data.split_first() else { return };
    let input = ImportInput::new(Box::new(Cursor::new(stream.to_vec())), Path::new("in"), None);
    match kind % 3 {
        0 => drain(&mut BadgerSource::new(input)),
        1 => drain(&mut MdbDumpSource::new(input)),
        _ => drain(&mut LdbDumpSource::new(input)),
    }
}

/// The input is how the text is read, and the text. What was read of it is the same when it was
/// written and read once more; a bad line can be passed over, as with `--keep-going`.
fn load(data: &[u8]) {
    let Some((how, input)) = data.split_first() else { return };
    let format = [Format::Tsv, Format::Csv, Format::Jsonl, Format::Hex][usize::from(how % 4)];
    let columns = ["a".to_owned(), "b".to_owned()];
    let named = how & 0x80 != 0;
    let key = named.then(|| KeyTemplate::parse("{a}/{b}").expect("a template"));
    let fields = Fields {
        key,
        values: if how & 0x40 != 0 { columns.to_vec() } else { Vec::new() },
        raw: how & 0x20 != 0,
        header: [None, Some(true), Some(false)][usize::from(how >> 2) % 3],
        delimiter: (how & 0x10 != 0).then_some(b';'),
    };
    let stream = Box::new(Cursor::new(input.to_vec()));
    let Ok(mut records) = read(format, stream, "in".into(), fields) else { return };
    let mut found = Vec::new();
    let mut line = String::new();
    loop {
        match records.next() {
            Ok(Some(record)) => found.push(record),
            Ok(None) => break,
            Err(_) if records.pass_bad().is_some() => {}
            Err(_) => return,
        }
    }
    for again in [Format::Tsv, Format::Jsonl, Format::Hex] {
        let mut written = String::new();
        for record in &found {
            write_pair(again, &record.key, Some(&record.value), &mut line);
            written.push_str(&line);
        }
        let stream = Box::new(Cursor::new(written.into_bytes()));
        let records = read(again, stream, "again".into(), Fields::default());
        let mut records = records.expect("what was written is text");
        for record in &found {
            let read = records.next().expect("each line was written by us");
            assert_eq!(read.as_ref(), Some(record), "{again:?}");
        }
    }
}

/// A line of the shell has words that can be written again; a template, its fields.
fn shell_line(data: &[u8]) {
    if let Ok(found) = words::split(data) {
        let written: Vec<_> =
            found.iter().map(|word| format!("\"{}\"", quoted(&text::escape(word)))).collect();
        let again = words::split(written.join(" ").as_bytes());
        assert_eq!(again.expect("words in quotes"), found);
    }
    if let Ok(line) = std::str::from_utf8(data) {
        let _ = KeyTemplate::parse(line);
        let _ = (text::parse_size(line), text::parse_count(line), text::parse_delimiter(line));
    }
}

/// Quotes are not escaped by `text`, since only the shell has them.
fn quoted(escaped: &str) -> String {
    escaped.replace('"', "\\\"")
}
